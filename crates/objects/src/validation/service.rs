//! Services (`validateService`): ports, addresses, families, traffic.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::network::{address, range, special_address};
use super::{FieldFault, items, one_of, text};
use crate::names;
use crate::services::{is_reached_from_outside, needs_health_port};

/// `core.MaxClientIPServiceAffinitySeconds`.
const MAX_AFFINITY_SECONDS: i64 = 86_400;
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

pub(super) fn validate(service: &Value, old: Option<&Value>) -> Vec<FieldFault> {
    let (spec, mut faults) = (&service["spec"], Vec::new());
    if items(spec, "ports").next().is_none() && !is_headless(spec) && !is_named(spec) {
        faults.push(FieldFault::required("spec.ports", ""));
    }
    let kind = text(spec, "type");
    if is_headless(spec) && matches!(kind, "LoadBalancer" | "NodePort") {
        let text = format!("may not be set to 'None' for {kind} services");
        faults.push(FieldFault::invalid("spec.clusterIPs[0]", "None", text));
    }
    if is_named(spec) {
        name(spec, &mut faults);
    }
    faults.extend(names::labels(&spec["selector"], "spec.selector"));
    one_of(spec, "sessionAffinity", &["ClientIP", "None"], "spec", &mut faults);
    affinity(spec, &mut faults);
    faults.extend(addresses(service, old));
    external_addresses(spec, old.map(|old| &old["spec"]), &mut faults);
    one_of(spec, "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], "spec", &mut faults);
    ports(spec, &mut faults);
    sources(service, old, &mut faults);
    balancer(spec, &mut faults);
    traffic(spec, &mut faults);
    faults
}

fn is_named(spec: &Value) -> bool {
    text(spec, "type") == "ExternalName"
}

fn is_headless(spec: &Value) -> bool {
    spec["clusterIPs"] == json!(["None"])
}

/// An ExternalName Service has no addresses.
fn name(spec: &Value, faults: &mut Vec<FieldFault>) {
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if spec[field].as_array().map_or(!spec[field].is_null(), |list| !list.is_empty()) {
            faults.push(FieldFault::forbidden(
                format!("spec.{field}"),
                "may not be set for ExternalName services",
            ));
        }
    }
    let name = text(spec, "externalName");
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        faults.push(FieldFault::required("spec.externalName", ""));
    } else {
        let judged = names::subdomain(name);
        faults.extend(judged.into_iter().map(|f| FieldFault::invalid("spec.externalName", name, f)));
    }
}

fn affinity(spec: &Value, faults: &mut Vec<FieldFault>) {
    let at = "spec.sessionAffinityConfig";
    match text(spec, "sessionAffinity") {
        "None" if !spec["sessionAffinityConfig"].is_null() => {
            faults.push(FieldFault::forbidden(at, "must not be set when session affinity is None"));
        }
        "ClientIP" => {
            let seconds = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
            if seconds.as_i64().is_some_and(|seconds| !(1..=MAX_AFFINITY_SECONDS).contains(&seconds)) {
                let text = format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}");
                faults.push(FieldFault::invalid(
                    format!("{at}.clientIP.timeoutSeconds"),
                    seconds.clone(),
                    text,
                ));
            }
        }
        _ => {}
    }
}

/// Validates addresses and families together (`ValidateServiceClusterIPsRelatedFields`).
pub fn addresses(service: &Value, old: Option<&Value>) -> Vec<FieldFault> {
    let (spec, mut faults) = (&service["spec"], Vec::new());
    if is_named(spec) {
        return faults;
    }
    let at = "spec.clusterIPs";
    let list = items(spec, "clusterIPs").map(|(_, a)| a.as_str().unwrap_or_default()).collect::<Vec<_>>();
    let first = text(spec, "clusterIP");
    match list.first() {
        None if !first.is_empty() => faults.push(FieldFault::required(at, "")),
        Some(_) if first.is_empty() => {
            faults.push(FieldFault::invalid(
                at,
                json!(list),
                "must be empty when `clusterIP` is not specified",
            ));
        }
        Some(of_list) if *of_list != first => {
            faults.push(FieldFault::invalid(at, json!(list), "first value must match `clusterIP`"));
        }
        _ => {}
    }
    families(spec, &mut faults);
    let before = old.map_or(&Value::Null, |old| &old["spec"]);
    let before = items(before, "clusterIPs").map(|(_, a)| a.as_str().unwrap_or_default()).collect::<Vec<_>>();
    let known = faults.len();
    for (index, one) in list.iter().enumerate() {
        if index == 0 && *one == "None" {
            if list.len() > 1 {
                let text = "'None' must be the first and only value";
                faults.push(FieldFault::invalid(at, json!(list), text));
            }
            continue;
        }
        faults.extend(address(&format!("{at}[{index}]"), one, &before));
    }
    let is_malformed = faults.len() > known;
    if list.len() > 2 {
        faults.push(FieldFault::invalid(at, json!(list), "may only hold up to 2 values"));
    }
    if is_malformed {
        return faults;
    }
    let is_six = |text: &str| text.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6());
    if list.len() > 1 && (list.iter().all(|a| is_six(a)) || !list.iter().any(|a| is_six(a))) {
        let text = "may specify no more than one IP for each IP family";
        faults.push(FieldFault::invalid(at, json!(list), text));
    }
    if is_headless(spec) {
        return faults;
    }
    for ((index, one), (_, family)) in list.iter().enumerate().zip(items(spec, "ipFamilies")) {
        let wanted = if is_six(one) { "IPv6" } else { "IPv4" };
        let family = family.as_str().unwrap_or_default();
        if matches!(family, "IPv4" | "IPv6") && family != wanted {
            let text = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            faults.push(FieldFault::invalid(format!("{at}[{index}]"), *one, text));
        }
    }
    faults
}

fn families(spec: &Value, faults: &mut Vec<FieldFault>) {
    let mut seen = BTreeSet::new();
    for (index, family) in items(spec, "ipFamilies") {
        let (at, family) = (format!("spec.ipFamilies[{index}]"), family.as_str().unwrap_or_default());
        if !matches!(family, "IPv4" | "IPv6") {
            faults.push(FieldFault::not_supported(&at, family, &["IPv4", "IPv6"]));
        }
        if !seen.insert(family) {
            faults.push(FieldFault::duplicate(at, family));
        }
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    one_of(spec, "ipFamilyPolicy", &policies, "spec", faults);
}

fn external_addresses(spec: &Value, old: Option<&Value>, faults: &mut Vec<FieldFault>) {
    let before = items(old.unwrap_or(&Value::Null), "externalIPs");
    let before = before.map(|(_, a)| a.as_str().unwrap_or_default()).collect::<Vec<_>>();
    for (index, one) in items(spec, "externalIPs") {
        let (at, one) = (format!("spec.externalIPs[{index}]"), one.as_str().unwrap_or_default());
        let malformed = address(&at, one, &before);
        if malformed.is_empty() {
            faults.extend(special_address(&at, one));
        }
        faults.extend(malformed);
    }
}

fn ports(spec: &Value, faults: &mut Vec<FieldFault>) {
    let several = items(spec, "ports").count() > 1;
    let (mut seen_names, mut seen_ports, mut seen_node_ports) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (index, port) in items(spec, "ports") {
        let (at, name) = (format!("spec.ports[{index}]"), text(port, "name"));
        if name.is_empty() && several {
            faults.push(FieldFault::required(format!("{at}.name"), ""));
        } else if !name.is_empty() {
            faults.extend(
                names::label(name).into_iter().map(|f| FieldFault::invalid(format!("{at}.name"), name, f)),
            );
            if !seen_names.insert(name) {
                faults.push(FieldFault::duplicate(format!("{at}.name"), name));
            }
        }
        let number = port["port"].as_i64().unwrap_or_default();
        if let Some(fault) = names::port(number) {
            faults.push(FieldFault::invalid(format!("{at}.port"), number, fault));
        }
        target(port, &at, faults);
        let protocol = text(port, "protocol");
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &at, faults);
        if let Some(name) = port["appProtocol"].as_str() {
            let path = format!("{at}.appProtocol");
            faults
                .extend(names::qualified_name(name).into_iter().map(|f| FieldFault::invalid(&path, name, f)));
        }
        let node_port = port["nodePort"].as_i64().unwrap_or_default();
        if node_port != 0 {
            let path = format!("{at}.nodePort");
            if text(spec, "type") == "ClusterIP" {
                faults.push(FieldFault::forbidden(&path, "may not be used when `type` is 'ClusterIP'"));
            }
            if !seen_node_ports.insert((protocol, node_port)) {
                faults.push(FieldFault::duplicate(path, node_port));
            }
        }
        if !seen_ports.insert((number, protocol)) {
            let key = json!({"Name": "", "Protocol": protocol, "AppProtocol": null, "Port": number, "TargetPort": 0, "NodePort": 0});
            faults.push(FieldFault::duplicate(&at, key));
        }
    }
}

fn target(port: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let at = format!("{at}.targetPort");
    match &port["targetPort"] {
        Value::Number(target) => {
            let target = target.as_i64().unwrap_or_default();
            if let Some(fault) = names::port(target) {
                faults.push(FieldFault::invalid(at, target, fault));
            }
        }
        Value::String(target) => {
            let judged = names::port_name(target);
            faults.extend(judged.into_iter().map(|f| FieldFault::invalid(&at, target.as_str(), f)));
        }
        _ => {}
    }
}

/// Validates the source ranges of a load balancer.
fn sources(service: &Value, old: Option<&Value>, faults: &mut Vec<FieldFault>) {
    let spec = &service["spec"];
    let is_balanced = text(spec, "type") == "LoadBalancer";
    let text_of_old = |pointer: &str| old.and_then(|old| old.pointer(pointer)).and_then(Value::as_str);
    let annotation = &service["metadata"]["annotations"][SOURCE_RANGES];
    if items(spec, "loadBalancerSourceRanges").next().is_some() {
        let at = "spec.LoadBalancerSourceRanges";
        if !is_balanced {
            faults.push(FieldFault::forbidden(at, "may only be used when `type` is 'LoadBalancer'"));
        }
        let before = old.map_or(&Value::Null, |old| &old["spec"]);
        let before = items(before, "loadBalancerSourceRanges");
        let before = before.map(|(_, r)| r.as_str().unwrap_or_default().trim()).collect::<Vec<_>>();
        for (index, one) in items(spec, "loadBalancerSourceRanges") {
            let one = one.as_str().unwrap_or_default().trim();
            faults.extend(range(&format!("{at}[{index}]"), one, &before));
        }
    } else if let Some(ranges) = annotation.as_str() {
        let at = format!("metadata.annotations[{SOURCE_RANGES}]");
        if !is_balanced {
            faults.push(FieldFault::forbidden(&at, "may only be used when `type` is 'LoadBalancer'"));
        }
        let pointer = format!("/metadata/annotations/{}", SOURCE_RANGES.replace('/', "~1"));
        if text_of_old(&pointer) != Some(ranges) && !ranges.trim().is_empty() {
            let each = ranges.trim().split(',').map(str::trim);
            faults.extend(each.flat_map(|one| range(&at, one, &[])));
        }
    }
}

fn balancer(spec: &Value, faults: &mut Vec<FieldFault>) {
    let is_balanced = text(spec, "type") == "LoadBalancer";
    for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if !spec[field].is_null() && !is_balanced {
            let at = format!("spec.{field}");
            faults.push(FieldFault::forbidden(at, "may only be used when `type` is 'LoadBalancer'"));
        }
    }
    if let Some(class) = spec["loadBalancerClass"].as_str().filter(|_| is_balanced) {
        let judged = names::qualified_name(class).into_iter();
        faults.extend(judged.map(|f| FieldFault::invalid("spec.loadBalancerClass", class, f)));
    }
}

fn traffic(spec: &Value, faults: &mut Vec<FieldFault>) {
    if is_reached_from_outside(spec) {
        one_of(spec, "externalTrafficPolicy", &["Cluster", "Local"], "spec", faults);
    } else if let Some(policy) = spec["externalTrafficPolicy"].as_str().filter(|policy| !policy.is_empty()) {
        let text = "may only be set for externally-accessible services";
        faults.push(FieldFault::invalid("spec.externalTrafficPolicy", policy, text));
    }
    let health = spec["healthCheckNodePort"].as_i64().unwrap_or_default();
    if needs_health_port(spec) {
        if health == 0 {
            faults.push(FieldFault::required("spec.healthCheckNodePort", ""));
        } else if let Some(fault) = names::port(health) {
            faults.push(FieldFault::invalid("spec.healthCheckNodePort", health, fault));
        }
    } else if health != 0 {
        let text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        faults.push(FieldFault::invalid("spec.healthCheckNodePort", health, text));
    }
    one_of(spec, "internalTrafficPolicy", &["Cluster", "Local"], "spec", faults);
    one_of(spec, "trafficDistribution", &["PreferClose", "PreferSameZone", "PreferSameNode"], "spec", faults);
}

/// The first address and family are immutable, unless the type changes from or to ExternalName.
pub(super) fn validate_update(new: &Value, old: &Value) -> Vec<FieldFault> {
    let mut faults = status(new, old);
    let (new, old) = (&new["spec"], &old["spec"]);
    if text(new, "type") == "LoadBalancer"
        && text(old, "type") == "LoadBalancer"
        && new["loadBalancerClass"] != old["loadBalancerClass"]
    {
        let value = new["loadBalancerClass"].clone();
        faults.push(FieldFault::invalid("spec.loadBalancerClass", value, "may not change once set"));
    }
    if needs_health_port(new)
        && needs_health_port(old)
        && new["healthCheckNodePort"] != old["healthCheckNodePort"]
    {
        faults.push(FieldFault::forbidden("spec.healthCheckNodePort", "field is immutable"));
    }
    if is_named(new) || is_named(old) || (is_headless(new) && is_headless(old)) {
        return faults;
    }
    kept(new, old, "clusterIPs", "primary clusterIP", "secondary clusterIP", &mut faults);
    if is_headless(new) == is_headless(old) {
        kept(new, old, "ipFamilies", "primary ipFamily", "secondary ipFamily", &mut faults);
    }
    faults
}

/// `validateUpgradeDowngradeClusterIPs` and `validateUpgradeDowngradeIPFamilies`.
fn kept(new: &Value, old: &Value, field: &str, first: &str, second: &str, faults: &mut Vec<FieldFault>) {
    let list = |spec: &Value, field: &str| spec[field].as_array().cloned().unwrap_or_default();
    let (given, before, addresses) = (list(new, field), list(old, field), list(new, "clusterIPs"));
    let changed = |index: usize, value: &Vec<Value>| {
        FieldFault::invalid(format!("spec.{field}[{index}]"), json!(value), "may not change once set")
    };
    if given.len() == before.len() {
        let others = given.iter().zip(&before).enumerate().filter(|(_, (new, old))| new != old);
        // A changed family is reported at index 0, whichever it is.
        faults
            .extend(others.map(|(index, _)| changed(if field == "clusterIPs" { index } else { 0 }, &given)));
        return;
    }
    if given.len() < before.len() {
        if addresses.is_empty() {
            let text = format!("{first} can not be unset");
            let value = if given.is_empty() { Value::Null } else { json!(given) };
            faults.push(FieldFault::invalid(format!("spec.{field}[0]"), value, text));
        }
        if given.len() == 1 && new["ipFamilyPolicy"] != "SingleStack" {
            let text = format!("must be set to 'SingleStack' when releasing the {second}");
            faults.push(FieldFault::invalid("spec.ipFamilyPolicy", new["ipFamilyPolicy"].clone(), text));
        }
    }
    if !given.is_empty() && !before.is_empty() && given[0] != before[0] {
        faults.push(changed(0, &addresses));
    }
}

/// Validates a load balancer's addresses (`ValidateLoadBalancerStatus`).
fn status(new: &Value, old: &Value) -> Vec<FieldFault> {
    let (balancer, mut faults) = (&new["status"]["loadBalancer"], Vec::new());
    if new["status"] == old["status"] {
        return faults;
    }
    let at = "status.loadBalancer.ingress";
    if text(&new["spec"], "type") != "LoadBalancer" {
        if items(balancer, "ingress").next().is_some() {
            faults.push(FieldFault::forbidden(at, "may only be used when `spec.type` is 'LoadBalancer'"));
        }
        return faults;
    }
    let before = items(&old["status"]["loadBalancer"], "ingress");
    let before = before.map(|(_, ingress)| text(ingress, "ip")).collect::<Vec<_>>();
    for (index, ingress) in items(balancer, "ingress") {
        let (at, ip) = (format!("{at}[{index}]"), text(ingress, "ip"));
        if !ip.is_empty() {
            faults.extend(address(&format!("{at}.ip"), ip, &before));
        }
        let mode = format!("{at}.ipMode");
        match ingress["ipMode"].as_str() {
            None if !ip.is_empty() => {
                faults.push(FieldFault::required(mode, "must be specified when `ip` is set"));
            }
            Some(_) if ip.is_empty() => {
                faults.push(FieldFault::forbidden(mode, "may not be specified when `ip` is not set"));
            }
            _ => one_of(ingress, "ipMode", &["Proxy", "VIP"], &at, &mut faults),
        }
        let host = text(ingress, "hostname");
        if !host.is_empty() {
            let path = format!("{at}.hostname");
            faults.extend(names::subdomain(host).into_iter().map(|f| FieldFault::invalid(&path, host, f)));
            if host.parse::<IpAddr>().is_ok() {
                faults.push(FieldFault::invalid(path, host, "must be a DNS name, not an IP address"));
            }
        }
    }
    faults
}
