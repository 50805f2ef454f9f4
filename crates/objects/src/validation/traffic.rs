//! NetworkPolicies, Endpoints and EndpointSlices (`pkg/apis/{networking,discovery,core}/validation`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::network::{address, range, special_address};
use super::{FieldFault, immutable_field, items, label_selector, one_of, text};
use crate::names;

const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;

/// `ValidateNetworkPolicySpec`.
pub(super) fn policy(policy: &Value, old: Option<&Value>) -> Vec<FieldFault> {
    let (spec, mut faults) = (&policy["spec"], Vec::new());
    label_selector(&spec["podSelector"], "spec.podSelector", &mut faults);
    let known = old.map(ranges).unwrap_or_default();
    for (list, side) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in items(spec, list) {
            let at = format!("spec.{list}[{index}]");
            for (number, port) in items(rule, "ports") {
                policy_port(port, &format!("{at}.ports[{number}]"), &mut faults);
            }
            for (number, peer) in items(rule, side) {
                policy_peer(peer, &format!("{at}.{side}[{number}]"), &known, &mut faults);
            }
        }
    }
    if items(spec, "policyTypes").count() > 2 {
        let text = "may not specify more than two policyTypes";
        faults.push(FieldFault::invalid("spec.policyTypes", spec["policyTypes"].clone(), text));
        return faults;
    }
    for (index, kind) in items(spec, "policyTypes") {
        let kind = kind.as_str().unwrap_or_default();
        if !matches!(kind, "Ingress" | "Egress") {
            let at = format!("spec.policyTypes[{index}]");
            faults.push(FieldFault::not_supported(at, kind, &["Ingress", "Egress"]));
        }
    }
    faults
}

/// Returns every range in a policy; these remain valid on update.
fn ranges(policy: &Value) -> Vec<&str> {
    let sides = [("ingress", "from"), ("egress", "to")];
    let rules = sides
        .into_iter()
        .flat_map(|(list, side)| items(&policy["spec"], list).map(move |(_, rule)| (rule, side)));
    let blocks = rules.flat_map(|(rule, side)| items(rule, side).map(|(_, peer)| &peer["ipBlock"]));
    blocks
        .flat_map(|block| {
            let except = items(block, "except").filter_map(|(_, range)| range.as_str());
            except.chain(block["cidr"].as_str())
        })
        .collect()
}

fn policy_port(port: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    one_of(port, "protocol", &["TCP", "UDP", "SCTP"], at, faults);
    let end = port["endPort"].as_i64();
    let end_at = format!("{at}.endPort");
    match &port["port"] {
        Value::Number(number) => {
            let number = number.as_i64().unwrap_or_default();
            if let Some(fault) = names::port(number) {
                faults.push(FieldFault::invalid(format!("{at}.port"), number, fault));
            }
            if let Some(end) = end {
                if end < number {
                    faults.push(FieldFault::invalid(
                        &end_at,
                        number,
                        "must be greater than or equal to `port`",
                    ));
                }
                if let Some(fault) = names::port(end) {
                    faults.push(FieldFault::invalid(end_at, end, fault));
                }
            }
        }
        Value::String(name) => {
            if let Some(end) = end {
                faults.push(FieldFault::invalid(
                    end_at,
                    end,
                    "may not be specified when `port` is non-numeric",
                ));
            }
            let judged = names::port_name(name).into_iter();
            faults.extend(judged.map(|f| FieldFault::invalid(format!("{at}.port"), name.as_str(), f)));
        }
        _ => {
            if let Some(end) = end {
                faults.push(FieldFault::invalid(
                    end_at,
                    end,
                    "may not be specified when `port` is not specified",
                ));
            }
        }
    }
}

/// A peer is either a selector or a block of addresses.
fn policy_peer(peer: &Value, at: &str, known: &[&str], faults: &mut Vec<FieldFault>) {
    for field in ["podSelector", "namespaceSelector"] {
        label_selector(&peer[field], &format!("{at}.{field}"), faults);
    }
    let has = |field: &str| !peer[field].is_null();
    if has("ipBlock") {
        block(&peer["ipBlock"], &format!("{at}.ipBlock"), known, faults);
    }
    let selects = has("podSelector") || has("namespaceSelector");
    if !selects && !has("ipBlock") {
        faults.push(FieldFault::required(at, "must specify a peer"));
    } else if selects && has("ipBlock") {
        faults.push(FieldFault::forbidden(at, "may not specify both ipBlock and another peer"));
    }
}

/// `ValidateIPBlock`.
fn block(block: &Value, at: &str, known: &[&str], faults: &mut Vec<FieldFault>) {
    let whole = text(block, "cidr");
    if whole.is_empty() {
        faults.push(FieldFault::required(format!("{at}.cidr"), ""));
        return;
    }
    faults.extend(range(&format!("{at}.cidr"), whole, known));
    let Some((base, bits)) = parsed(whole) else { return };
    for (index, part) in items(block, "except") {
        let (at, part) = (format!("{at}.except[{index}]"), part.as_str().unwrap_or_default());
        faults.extend(range(&at, part, known));
        let Some((inner, inner_bits)) = parsed(part) else { continue };
        if bits >= inner_bits || !contains(base, bits, inner) {
            faults.push(FieldFault::invalid(at, part, "must be a strict subset of `cidr`"));
        }
    }
}

fn parsed(range: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = range.split_once('/')?;
    let (address, bits) = (address.parse::<IpAddr>().ok()?, bits.parse().ok()?);
    (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, bits))
}

fn contains(base: IpAddr, bits: u32, address: IpAddr) -> bool {
    match (base, address) {
        (IpAddr::V4(base), IpAddr::V4(address)) => {
            let shift = |address| u32::from(address).checked_shr(32 - bits).unwrap_or_default();
            shift(base) == shift(address)
        }
        (IpAddr::V6(base), IpAddr::V6(address)) => {
            let shift = |address| u128::from(address).checked_shr(128 - bits).unwrap_or_default();
            shift(base) == shift(address)
        }
        _ => false,
    }
}

/// `validateEndpointSubsets`.
pub(super) fn endpoints(endpoints: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    for (index, subset) in items(endpoints, "subsets") {
        let at = format!("subsets[{index}]");
        let all = ["addresses", "notReadyAddresses"];
        if all.iter().all(|list| items(subset, list).next().is_none()) {
            faults.push(FieldFault::required(&at, "must specify `addresses` or `notReadyAddresses`"));
        }
        for list in all {
            for (number, one) in items(subset, list) {
                endpoint_address(one, &format!("{at}.{list}[{number}]"), &mut faults);
            }
        }
        let several = items(subset, "ports").count() > 1;
        for (number, port) in items(subset, "ports") {
            endpoint_port(port, several, &format!("{at}.ports[{number}]"), &mut faults);
        }
    }
    faults
}

fn endpoint_address(one: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let (path, ip) = (format!("{at}.ip"), text(one, "ip"));
    faults.extend(address(&path, ip, &[]));
    let host = text(one, "hostname");
    if !host.is_empty() {
        let judged = names::label(host).into_iter();
        faults.extend(judged.map(|f| FieldFault::invalid(format!("{at}.hostname"), host, f)));
    }
    node_name(one, at, faults);
    faults.extend(beyond_loopback(&path, ip));
}

/// As [`special_address`], but accepts loopback: pods without isolation have no address other than the machine's.
fn beyond_loopback(path: &str, text: &str) -> Vec<FieldFault> {
    let is_loopback = text.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_loopback { Vec::new() } else { special_address(path, text) }
}

fn node_name(one: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    if let Some(name) = one["nodeName"].as_str() {
        let judged = names::subdomain(name).into_iter();
        faults.extend(judged.map(|f| FieldFault::invalid(format!("{at}.nodeName"), name, f)));
    }
}

fn endpoint_port(port: &Value, is_named: bool, at: &str, faults: &mut Vec<FieldFault>) {
    let name = text(port, "name");
    if is_named && name.is_empty() {
        faults.push(FieldFault::required(format!("{at}.name"), ""));
    } else if !name.is_empty() {
        let judged = names::label(name).into_iter();
        faults.extend(judged.map(|f| FieldFault::invalid(format!("{at}.name"), name, f)));
    }
    let number = port["port"].as_i64().unwrap_or_default();
    if let Some(fault) = names::port(number) {
        faults.push(FieldFault::invalid(format!("{at}.port"), number, fault));
    }
    protocol(port, at, faults);
}

fn protocol(port: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    one_of(port, "protocol", &["SCTP", "TCP", "UDP"], at, faults);
    if let Some(name) = port["appProtocol"].as_str() {
        let judged = names::qualified_name(name).into_iter();
        faults.extend(judged.map(|f| FieldFault::invalid(format!("{at}.appProtocol"), name, f)));
    }
}

/// `ValidateEndpointSlice`.
pub(super) fn slice(slice: &Value, old: Option<&Value>) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    let kind = text(slice, "addressType");
    if kind.is_empty() {
        faults.push(FieldFault::required("addressType", ""));
    }
    if !kind.is_empty() {
        one_of(slice, "addressType", &["FQDN", "IPv4", "IPv6"], "", &mut faults);
    }
    slice_ports(slice, &mut faults);
    // Endpoints that were accepted once remain valid.
    if old.is_some_and(|old| old["endpoints"] == slice["endpoints"]) {
        return faults;
    }
    let count = items(slice, "endpoints").count();
    if count > MAX_ENDPOINTS {
        faults.push(FieldFault::too_many("endpoints", count, MAX_ENDPOINTS as u64));
        return faults;
    }
    for (index, endpoint) in items(slice, "endpoints") {
        slice_endpoint(endpoint, kind, &format!("endpoints[{index}]"), &mut faults);
    }
    faults
}

fn slice_ports(slice: &Value, faults: &mut Vec<FieldFault>) {
    let count = items(slice, "ports").count();
    if count > MAX_PORTS {
        faults.push(FieldFault::too_many("ports", count, MAX_PORTS as u64));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, port) in items(slice, "ports") {
        let (at, name) = (format!("ports[{index}]"), text(port, "name"));
        let path = format!("{at}.name");
        if !name.is_empty() {
            faults.extend(names::label(name).into_iter().map(|f| FieldFault::invalid(&path, name, f)));
        }
        if !seen.insert(name) {
            faults.push(FieldFault::duplicate(path, name));
        }
        protocol(port, &at, faults);
    }
}

fn slice_endpoint(endpoint: &Value, kind: &str, at: &str, faults: &mut Vec<FieldFault>) {
    let list = format!("{at}.addresses");
    let count = items(endpoint, "addresses").count();
    if count == 0 {
        faults.push(FieldFault::required(&list, "must contain at least 1 address"));
    } else if count > MAX_ADDRESSES {
        faults.push(FieldFault::too_many(&list, count, MAX_ADDRESSES as u64));
    }
    for (index, one) in items(endpoint, "addresses") {
        let (path, one) = (format!("{list}[{index}]"), one.as_str().unwrap_or_default());
        match kind {
            "FQDN" => {
                let name = one.strip_suffix('.').unwrap_or(one);
                let mut judged = if name.is_empty() { vec![] } else { names::subdomain(name) };
                if !name.is_empty() && judged.is_empty() && !name.contains('.') {
                    judged.push("should be a domain with at least two segments separated by dots".to_owned());
                }
                if one.is_empty() {
                    faults.push(FieldFault::required(&path, ""));
                }
                faults.extend(judged.into_iter().map(|f| FieldFault::invalid(&path, one, f)));
            }
            "IPv4" | "IPv6" => {
                let malformed = address(&path, one, &[]);
                if malformed.is_empty() {
                    let is_four = one.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4());
                    if is_four != (kind == "IPv4") {
                        let text = format!("must be an {kind} address");
                        faults.push(FieldFault::invalid(&list, one, text));
                    }
                    faults.extend(beyond_loopback(&path, one));
                }
                faults.extend(malformed);
            }
            _ => {}
        }
    }
    node_name(endpoint, at, faults);
    if let Some(host) = endpoint["hostname"].as_str() {
        let judged = names::label(host).into_iter();
        faults.extend(judged.map(|f| FieldFault::invalid(format!("{at}.hostname"), host, f)));
    }
}

pub(super) fn slice_update(new: &Value, old: &Value) -> Vec<FieldFault> {
    immutable_field(new, old, "addressType")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_peer_is_a_selector_or_a_block() {
        let peers = json!([{}, {"podSelector": {}}, {"ipBlock": {"cidr": "10.0.0.0/8"}},
            {"ipBlock": {"cidr": "10.0.0.0/8"}, "namespaceSelector": {}}]);
        let spec =
            json!({"spec": {"podSelector": {}, "ingress": [{"from": peers}], "egress": [{"to": [{}]}]}});
        let said = policy(&spec, None).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            said,
            [
                "spec.ingress[0].from[0]: Required value: must specify a peer",
                "spec.ingress[0].from[3]: Forbidden: may not specify both ipBlock and another peer",
                "spec.egress[0].to[0]: Required value: must specify a peer"
            ]
        );
    }

    #[test]
    fn exceptions_must_be_within_their_block() {
        let except = |text: &str| {
            let mut faults = Vec::new();
            block(&json!({"cidr": "10.0.0.0/8", "except": [text]}), "b", &[], &mut faults);
            faults.len()
        };
        assert_eq!(["10.1.0.0/16", "10.0.0.0/8", "11.0.0.0/16"].map(except), [0, 1, 1]);
    }

    #[test]
    fn a_slice_has_addresses_of_its_type() {
        let of = |kind: &str, address: &str| {
            slice(&json!({"addressType": kind, "endpoints": [{"addresses": [address]}]}), None).len()
        };
        assert_eq!(
            [of("IPv4", "10.1.1.1"), of("IPv6", "10.1.1.1"), of("FQDN", "a.example"), of("FQDN", "a")],
            [0, 1, 0, 1]
        );
    }
}
