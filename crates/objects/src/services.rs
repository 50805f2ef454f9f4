//! Cluster IPs, IP families and node ports of Services: what to allocate for a Service, and which of these fields
//! follow from others.
//!
//! Rules: `pkg/registry/core/service/storage/{storage,alloc}.go` and `service/strategy.go`, for a cluster with only
//! IPv4 Service addresses. Pure: the allocator (`apiserver/services.rs`) knows what is free.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::fault::FieldFault;
use super::validation;

/// What to allocate for a Service, in Kubernetes' order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// A cluster IP: a specific or any one.
    pub address: Option<Option<String>>,
    /// Node ports, by index of the port.
    pub ports: Vec<(usize, PortWish)>,
    /// A health check port: a specific or any one.
    pub health: Option<Option<i64>>,
}

/// A requested node port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortWish {
    /// Any free port.
    Any,
    /// A specific port.
    This(i64),
    /// The port of an earlier entry of the same Service.
    As(usize),
}

/// Sets the fields that need no allocation, and returns what to allocate. `old` is the current state, for an update.
///
/// # Errors
/// The faults of fields that contradict each other or the cluster.
pub fn prepare(new: &mut Value, old: Option<&Value>) -> Result<Wants, Vec<FieldFault>> {
    if let Some(old) = old {
        keep_allocated(&mut new["spec"], &old["spec"]);
    }
    pair_addresses(&mut new["spec"], old.map(|old| &old["spec"]));
    set_families(new, old)?;
    Ok(wants(&new["spec"], old.map_or(&Value::Null, |old| &old["spec"])))
}

/// Removes fields of an updated Service that its new type does not have, if the client left them unchanged
/// (`dropTypeDependentFields`).
pub fn drop_dependent(new: &mut Value, old: &Value) {
    let (spec, old) = (&mut new["spec"], &old["spec"]);
    let mut gone = Vec::new();
    if !is_named(old) && is_named(spec) {
        if spec["clusterIP"] == old["clusterIP"] && spec["clusterIPs"] == old["clusterIPs"] {
            gone.extend(["clusterIP", "clusterIPs"]);
        }
        gone.extend(["ipFamilies", "ipFamilyPolicy"].into_iter().filter(|field| spec[field] == old[field]));
    }
    if has_node_ports(old) && !has_node_ports(spec) && node_ports(spec).is_subset(&node_ports(old)) {
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
        for port in ports.filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
    let was_balanced = old["type"] == "LoadBalancer" && spec["type"] != "LoadBalancer";
    let dependent = [
        ("healthCheckNodePort", needs_health_port(old) && !needs_health_port(spec)),
        ("allocateLoadBalancerNodePorts", was_balanced),
        ("loadBalancerClass", was_balanced),
        ("externalTrafficPolicy", is_reached_from_outside(old) && !is_reached_from_outside(spec)),
    ];
    gone.extend(dependent.iter().filter(|(field, goes)| *goes && spec[field] == old[field]).map(|(f, _)| *f));
    let is_balanced = spec["type"] == "LoadBalancer";
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|field, _| !gone.contains(&field.as_str()));
    }
    if !is_balanced {
        new["status"]["loadBalancer"] = json!({});
    }
}

/// Removes fields that an ExternalName Service does not use (`defaultOnReadInternalTrafficPolicy`).
pub fn drop_unused(service: &mut Value) {
    if is_named(&service["spec"])
        && let Some(fields) = service["spec"].as_object_mut()
    {
        fields.remove("internalTrafficPolicy");
    }
}

/// Returns the cluster IPs of a Service.
pub fn addresses(service: &Value) -> impl Iterator<Item = &str> {
    let all = service["spec"]["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
    all.filter(|address| *address != "None")
}

/// Returns the node ports of a Service.
pub fn held_ports(service: &Value) -> BTreeSet<i64> {
    let mut ports = node_ports(&service["spec"]);
    ports.extend(service["spec"]["healthCheckNodePort"].as_i64().filter(|port| *port != 0));
    ports
}

/// Returns the first node port that two ports of one protocol share, formatted as in Kubernetes, which checks for it
/// when a Service changes.
pub fn shared_port(service: &Value) -> Option<String> {
    let spec = &service["spec"];
    let mut seen = BTreeSet::new();
    ports(spec)
        .filter(|port| has_node_ports(spec) && (number(port, "nodePort") != 0 || gets_node_ports(spec)))
        .map(|port| format!("{{{} {}}}", validation::text(port, "protocol"), number(port, "nodePort")))
        .find(|port| !seen.insert(port.clone()))
}

/// Returns whether a Service can be reached from outside the cluster (`ExternallyAccessible`).
pub fn is_reached_from_outside(spec: &Value) -> bool {
    let has_external = spec["externalIPs"].as_array().is_some_and(|list| !list.is_empty());
    match spec["type"].as_str() {
        Some("LoadBalancer" | "NodePort") => true,
        Some("ClusterIP") => has_external,
        _ => false,
    }
}

/// Returns whether a load balancer needs a separate port to check for local endpoints (`NeedsHealthCheck`).
pub fn needs_health_port(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

fn is_named(spec: &Value) -> bool {
    spec["type"] == "ExternalName"
}

fn is_headless(spec: &Value) -> bool {
    spec["clusterIP"] == "None"
}

fn has_node_ports(spec: &Value) -> bool {
    matches!(spec["type"].as_str(), Some("LoadBalancer" | "NodePort"))
}

fn gets_node_ports(spec: &Value) -> bool {
    spec["type"] == "NodePort"
        || (spec["type"] == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] != false)
}

fn number(port: &Value, field: &str) -> i64 {
    port[field].as_i64().unwrap_or_default()
}

fn ports(spec: &Value) -> impl Iterator<Item = &Value> {
    spec["ports"].as_array().into_iter().flatten()
}

fn node_ports(spec: &Value) -> BTreeSet<i64> {
    ports(spec).map(|port| number(port, "nodePort")).filter(|port| *port != 0).collect()
}

fn texts(spec: &Value, field: &str) -> Vec<String> {
    let list = spec[field].as_array().into_iter().flatten();
    list.map(|text| text.as_str().unwrap_or_default().to_owned()).collect()
}

fn set_texts(spec: &mut Value, field: &str, list: &[String]) {
    let Some(fields) = spec.as_object_mut() else { return };
    if list.is_empty() {
        fields.remove(field);
    } else {
        fields.insert(field.to_owned(), json!(list));
    }
}

/// Keeps allocated values that a client omits on update (`patchAllocatedValues`).
fn keep_allocated(new: &mut Value, old: &Value) {
    if !is_named(old) && !is_named(new) {
        if validation::text(new, "clusterIP").is_empty() && !validation::text(old, "clusterIP").is_empty() {
            new["clusterIP"] = old["clusterIP"].clone();
        }
        if texts(new, "clusterIPs").is_empty() {
            set_texts(new, "clusterIPs", &texts(old, "clusterIPs"));
        }
    }
    if gets_node_ports(old) && gets_node_ports(new) {
        let used = node_ports(old).intersection(&node_ports(new)).copied().collect::<BTreeSet<_>>();
        let by_name = ports(old)
            .map(|port| (validation::text(port, "name").to_owned(), number(port, "nodePort")))
            .collect::<BTreeMap<_, _>>();
        for port in new.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            let before = by_name.get(validation::text(port, "name")).copied().unwrap_or_default();
            if number(port, "nodePort") == 0 && before != 0 && !used.contains(&before) {
                port["nodePort"] = before.into();
            }
        }
    }
    let health = number(old, "healthCheckNodePort");
    if needs_health_port(old)
        && needs_health_port(new)
        && number(new, "healthCheckNodePort") == 0
        && health != 0
    {
        new["healthCheckNodePort"] = health.into();
    }
}

/// Synchronizes `clusterIP` and `clusterIPs`: a client that sets only the first sets both (`normalizeClusterIPs`).
fn pair_addresses(new: &mut Value, old: Option<&Value>) {
    let (address, list) = (validation::text(new, "clusterIP").to_owned(), texts(new, "clusterIPs"));
    let Some(old) = old else {
        if !address.is_empty() && list.is_empty() {
            set_texts(new, "clusterIPs", &[address]);
        }
        return;
    };
    let (old_address, old_list) = (validation::text(old, "clusterIP"), texts(old, "clusterIPs"));
    if old_address == address {
        if list.is_empty() {
            set_texts(new, "clusterIPs", &old_list);
        }
    } else if list == old_list {
        let list = if address.is_empty() { vec![] } else { vec![address] };
        set_texts(new, "clusterIPs", &list);
    }
}

/// Sets the IP families of a Service and their policy (`initIPFamilyFields`).
fn set_families(new: &mut Value, old: Option<&Value>) -> Result<(), Vec<FieldFault>> {
    if is_named(&new["spec"]) {
        return Ok(());
    }
    if let Some(old) = old.filter(|old| is_settled(&new["spec"], Some(&old["spec"]))) {
        if new["spec"]["ipFamilyPolicy"].is_null() && !old["spec"]["ipFamilyPolicy"].is_null() {
            new["spec"]["ipFamilyPolicy"] = old["spec"]["ipFamilyPolicy"].clone();
        }
        return Ok(());
    }
    let selects = new["spec"]["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    let is_free = is_headless(&new["spec"]) && !selects;
    if new["spec"]["ipFamilyPolicy"].is_null() {
        new["spec"]["ipFamilyPolicy"] = match old.map(|old| &old["spec"]["ipFamilyPolicy"]) {
            Some(policy) if !policy.is_null() => policy.clone(),
            _ if is_free => "RequireDualStack".into(),
            _ => "SingleStack".into(),
        };
    }
    refuse(validation::service_addresses(new, old))?;
    let spec = &mut new["spec"];
    if let Some(old) = old {
        refuse(release_second(spec, &old["spec"]))?;
    }
    let policy = validation::text(spec, "ipFamilyPolicy").to_owned();
    refuse(infer_families(spec, &policy))?;
    if is_free {
        let mut families = texts(spec, "ipFamilies");
        if families.is_empty() {
            families.push("IPv4".into());
        }
        if families.len() == 1 && policy != "SingleStack" {
            families.push(if families[0] == "IPv4" { "IPv6" } else { "IPv4" }.into());
        }
        set_texts(spec, "ipFamilies", &families);
        return Ok(());
    }
    let mut faults = Vec::new();
    if policy == "RequireDualStack" {
        let text = "this cluster is not configured for dual-stack services";
        faults.push(FieldFault::invalid("spec.ipFamilyPolicy", policy, text));
    }
    for (index, family) in texts(spec, "ipFamilies").iter().enumerate().filter(|(_, f)| *f != "IPv4") {
        let at = format!("spec.ipFamilies[{index}]");
        faults.push(FieldFault::invalid(at, family.as_str(), "not configured on this cluster"));
    }
    refuse(faults)?;
    if texts(spec, "ipFamilies").is_empty() {
        spec["ipFamilies"] = json!(["IPv4"]);
    }
    Ok(())
}

fn refuse(faults: Vec<FieldFault>) -> Result<(), Vec<FieldFault>> {
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// Returns whether a Service that prefers dual-stack keeps its families, because nothing about them changes.
fn is_settled(new: &Value, old: Option<&Value>) -> bool {
    let Some(old) = old else { return false };
    let prefers =
        |spec: &Value| spec["ipFamilyPolicy"].is_null() || spec["ipFamilyPolicy"] == "PreferDualStack";
    let says_so = new["ipFamilyPolicy"] == "PreferDualStack" && new["type"] == old["type"];
    (says_so || !texts(new, "clusterIPs").is_empty())
        && prefers(new)
        && prefers(old)
        && texts(new, "clusterIPs") == texts(old, "clusterIPs")
        && texts(new, "ipFamilies") == texts(old, "ipFamilies")
}

/// Releases the second address and family if the policy says so; removing them otherwise is a fault.
fn release_second(new: &mut Value, old: &Value) -> Vec<FieldFault> {
    let (policy, mut faults) = (new["ipFamilyPolicy"].clone(), Vec::new());
    for (field, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let (list, before) = (texts(new, field), texts(old, field));
        if policy == "SingleStack" {
            if list == before && list.len() > 1 {
                set_texts(new, field, &list[..1]);
            }
        } else if !list.is_empty() && list.len() < before.len() {
            let text = format!("must be 'SingleStack' to release the secondary {what}");
            faults.push(FieldFault::invalid("spec.ipFamilyPolicy", policy.clone(), text));
        }
    }
    faults
}

/// Derives the families from the addresses.
fn infer_families(spec: &mut Value, policy: &str) -> Vec<FieldFault> {
    let (addresses, mut families, mut faults) =
        (texts(spec, "clusterIPs"), texts(spec, "ipFamilies"), vec![]);
    if policy == "SingleStack" {
        for (list, what) in [(&addresses, "cluster IPs"), (&families, "IP families")] {
            if list.len() == 2 {
                let text = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                );
                faults.push(FieldFault::invalid("spec.ipFamilyPolicy", policy, text));
            }
        }
    }
    for (index, address) in addresses.iter().enumerate().take_while(|(_, address)| *address != "None") {
        if index < families.len() {
            continue;
        }
        if address.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4()) {
            families.push("IPv4".into());
        } else {
            let at = format!("spec.clusterIPs[{index}]");
            faults.push(FieldFault::invalid(at, json!(addresses), "IPv6 is not configured on this cluster"));
        }
    }
    set_texts(spec, "ipFamilies", &families);
    faults
}

fn wants(spec: &Value, old: &Value) -> Wants {
    Wants {
        address: wanted_address(spec, old),
        ports: wanted_ports(spec, old),
        health: wanted_health(spec, old),
    }
}

fn wanted_address(spec: &Value, old: &Value) -> Option<Option<String>> {
    let first = texts(spec, "clusterIPs").into_iter().next().filter(|address| !address.is_empty());
    // On update, only an ExternalName Service can still need one (`updateClusterIPs`).
    let had_its_chance = !old.is_null() && !is_named(old);
    if is_named(spec) || first.as_deref() == Some("None") || had_its_chance {
        return None;
    }
    Some(first)
}

fn wanted_ports(spec: &Value, old: &Value) -> Vec<(usize, PortWish)> {
    if !has_node_ports(spec) {
        return Vec::new();
    }
    let (held, is_new) = (node_ports(old), old.is_null());
    let (mut wishes, mut by_port) = (Vec::new(), BTreeMap::new());
    for (index, port) in ports(spec).enumerate() {
        let (own, wanted) = (number(port, "port"), number(port, "nodePort"));
        if wanted == 0 && !gets_node_ports(spec) {
            continue;
        }
        // Ports that differ only in their protocol share a node port (`initNodePorts`).
        match by_port.get(&own) {
            Some((first, given)) if is_new && (wanted == 0 || wanted == *given) => {
                if wanted == 0 {
                    wishes.push((index, PortWish::As(*first)));
                }
                continue;
            }
            _ => {}
        }
        let named = ports(spec).filter(|other| is_new && number(other, "port") == own);
        let named = named.map(|other| number(other, "nodePort")).find(|port| *port != 0);
        let wish = match (wanted, named) {
            (0, None) => PortWish::Any,
            (0, Some(named)) => PortWish::This(named),
            (wanted, _) => PortWish::This(wanted),
        };
        let given = if let PortWish::This(given) = wish { given } else { 0 };
        by_port.entry(own).or_insert((index, given));
        let is_had = held.contains(&given)
            || (!is_new && wishes.iter().any(|(_, other)| *other == PortWish::This(given)));
        if given == 0 || !is_had {
            wishes.push((index, wish));
        }
    }
    wishes
}

fn wanted_health(spec: &Value, old: &Value) -> Option<Option<i64>> {
    let is_due = needs_health_port(spec) && !needs_health_port(old);
    is_due.then(|| Some(number(spec, "healthCheckNodePort")).filter(|port| *port != 0))
}

/// Writes an allocated cluster IP to a Service.
pub fn give_address(service: &mut Value, address: &str) {
    service["spec"]["clusterIP"] = address.into();
    let mut list = texts(&service["spec"], "clusterIPs");
    match list.first_mut() {
        Some(first) => *first = address.to_owned(),
        None => list.push(address.to_owned()),
    }
    set_texts(&mut service["spec"], "clusterIPs", &list);
}

/// Writes an allocated node port to a Service's port.
pub fn give_port(service: &mut Value, index: usize, port: i64) {
    if let Some(fields) = service["spec"]["ports"].get_mut(index).and_then(Value::as_object_mut) {
        let fields: &mut Map<String, Value> = fields;
        fields.insert("nodePort".into(), port.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(spec: Value) -> (Value, Result<Wants, Vec<FieldFault>>) {
        let mut service = json!({"metadata": {"name": "s"}, "spec": spec});
        let wants = prepare(&mut service, None);
        (service["spec"].take(), wants)
    }

    #[test]
    fn a_new_service_needs_an_address_and_one_family() {
        let (spec, wants) = prepared(json!({"type": "ClusterIP", "ports": [{"port": 80}]}));
        assert_eq!(wants.unwrap(), Wants { address: Some(None), ..Wants::default() });
        assert_eq!((&spec["ipFamilies"], &spec["ipFamilyPolicy"]), (&json!(["IPv4"]), &json!("SingleStack")));
    }

    #[test]
    fn a_headless_service_needs_no_allocation_and_has_two_families_without_a_selector() {
        let (spec, wants) = prepared(json!({"type": "ClusterIP", "clusterIP": "None"}));
        assert_eq!(wants.unwrap(), Wants::default());
        assert_eq!(spec["ipFamilies"], json!(["IPv4", "IPv6"]));
        let (spec, _) = prepared(json!({"type": "ClusterIP", "clusterIP": "None", "selector": {"a": "b"}}));
        assert_eq!((&spec["ipFamilies"], &spec["clusterIPs"]), (&json!(["IPv4"]), &json!(["None"])));
    }

    #[test]
    fn equal_ports_of_different_protocols_share_a_node_port() {
        let ports = json!([{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}, {"port": 80, "nodePort": 30080}]);
        let (_, wants) = prepared(json!({"type": "NodePort", "ports": ports}));
        assert_eq!(
            wants.unwrap().ports,
            [(0, PortWish::Any), (1, PortWish::As(0)), (2, PortWish::This(30080))]
        );
    }

    #[test]
    fn allocated_values_are_kept_until_the_type_no_longer_needs_them() {
        let old = json!({"spec": {"type": "NodePort", "clusterIP": "10.96.1.1", "clusterIPs": ["10.96.1.1"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "externalTrafficPolicy": "Cluster", "ports": [{"port": 80, "nodePort": 30001}]}});
        let mut new = json!({"spec": {"type": "NodePort", "externalTrafficPolicy": "Cluster", "ports": [{"port": 81}]}});
        assert_eq!(prepare(&mut new, Some(&old)).unwrap(), Wants::default());
        assert_eq!(new["spec"]["clusterIPs"], json!(["10.96.1.1"]));
        assert_eq!(new["spec"]["ports"][0]["nodePort"], 30001);
        new["spec"]["type"] = json!("ExternalName");
        new["spec"]["externalName"] = json!("a.example");
        drop_dependent(&mut new, &old);
        assert_eq!(
            new["spec"],
            json!({"type": "ExternalName", "externalName": "a.example", "ports": [{"port": 81}]})
        );
    }

    #[test]
    fn unsupported_families_are_rejected() {
        let faults = |spec| prepared(spec).1.unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            faults(json!({"type": "ClusterIP", "ipFamilyPolicy": "RequireDualStack"})),
            [
                "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services"
            ]
        );
        assert_eq!(
            faults(json!({"type": "ClusterIP", "clusterIP": "fd00::1"})),
            ["spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster"]
        );
    }
}
