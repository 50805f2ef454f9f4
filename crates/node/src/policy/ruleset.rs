//! Translates NetworkPolicies into an nftables ruleset for the network that forwards all pods' packets. Pure.
//!
//! Implements `networking.k8s.io/v1` NetworkPolicy as its API documents it. If any policy selects a pod for a
//! direction, that direction is closed except for what those policies together allow. Replies always pass. IPv4 only,
//! as the pods' network.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::{IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use kubelet::OWN_ADDRESS;
use semantics::{has_ended, labels_match};

/// The table for all rules; no other table is touched.
const TABLE: &str = "odh_policy";

type Labels = BTreeMap<String, String>;
/// The peers of a rule, and its ports.
type Rule<'a> = (Option<&'a Vec<NetworkPolicyPeer>>, Option<&'a Vec<NetworkPolicyPort>>);

/// A pod on the network.
#[derive(Debug)]
pub struct Member {
    address: Ipv4Addr,
    namespace: String,
    labels: Labels,
    /// Named container ports with their protocol.
    ports: Vec<(String, String, i32)>,
}

impl Member {
    /// Returns `None` if the pod has no address of its own, or has ended.
    pub fn of(pod: &Pod) -> Option<Self> {
        let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref()?);
        if spec.host_network == Some(true) || has_ended(pod) {
            return None;
        }
        let init = spec.init_containers.iter().flatten();
        let ports = init.chain(&spec.containers).flat_map(|container| container.ports.iter().flatten());
        let named = ports.filter_map(|port| {
            let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".into());
            Some((port.name.clone()?, protocol, port.container_port))
        });
        Some(Self {
            address: status.pod_ip.as_ref()?.parse().ok()?,
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            labels: pod.metadata.labels.clone().unwrap_or_default(),
            ports: named.collect(),
        })
    }
}

/// The direction of packets, seen from the pod that a policy selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    In,
    Out,
}

impl Direction {
    fn policy_type(self) -> &'static str {
        match self {
            Self::In => "Ingress",
            Self::Out => "Egress",
        }
    }

    /// Returns the packet field with the peer's address.
    fn peer_field(self) -> &'static str {
        match self {
            Self::In => "saddr",
            Self::Out => "daddr",
        }
    }

    fn chain(self, address: Ipv4Addr) -> String {
        let letter = if self == Self::In { 'i' } else { 'e' };
        format!("{letter}_{}", address.to_string().replace('.', "_"))
    }
}

/// Returns whether the policy applies to this direction (`policyTypes` and its default).
fn speaks(policy: &NetworkPolicy, direction: Direction) -> bool {
    let Some(spec) = &policy.spec else { return false };
    match spec.policy_types.as_deref().filter(|types| !types.is_empty()) {
        Some(types) => types.iter().any(|t| t == direction.policy_type()),
        None => direction == Direction::In || spec.egress.is_some(),
    }
}

/// Returns the whole ruleset. Loading it atomically replaces the previous one. Without policies it is a table without
/// rules.
pub fn ruleset(
    policies: &[NetworkPolicy],
    members: &[Member],
    namespaces: &BTreeMap<String, Labels>,
) -> String {
    let mut chains = String::new();
    let mut jumps: BTreeMap<Direction, Vec<String>> = BTreeMap::new();
    for direction in [Direction::Out, Direction::In] {
        for member in members {
            let own: Vec<&NetworkPolicy> =
                policies.iter().filter(|p| speaks(p, direction) && selects(p, member)).collect();
            if own.is_empty() {
                continue;
            }
            let name = direction.chain(member.address);
            jumps.entry(direction).or_default().push(format!("{} : jump {name}", member.address));
            let lines: BTreeSet<String> = own
                .iter()
                .flat_map(|policy| allowed(policy, direction, member, members, namespaces))
                .collect();
            let _ = writeln!(chains, "  chain {name} {{");
            for line in lines {
                let _ = writeln!(chains, "    {line} return");
            }
            let _ = writeln!(chains, "    drop\n  }}");
        }
    }
    let mut text = format!("add table ip {TABLE}\ndelete table ip {TABLE}\ntable ip {TABLE} {{\n{chains}");
    text.push_str("  chain forward {\n    type filter hook forward priority 0; policy accept;\n");
    if !jumps.is_empty() {
        text.push_str("    ct state established,related accept\n");
    }
    for (direction, field) in [(Direction::Out, "saddr"), (Direction::In, "daddr")] {
        if let Some(jumps) = jumps.get(&direction) {
            let _ = writeln!(text, "    ip {field} vmap {{ {} }}", jumps.join(", "));
        }
    }
    text.push_str("  }\n");
    // The API server is not a pod: packets to it are not forwarded, but they still leave the pod.
    if let Some(jumps) = jumps.get(&Direction::Out) {
        text.push_str("  chain input {\n    type filter hook input priority 0; policy accept;\n");
        text.push_str("    ct state established,related accept\n");
        let _ = writeln!(text, "    ip daddr {OWN_ADDRESS} ip saddr vmap {{ {} }}\n  }}", jumps.join(", "));
    }
    text.push_str("}\n");
    text
}

fn selects(policy: &NetworkPolicy, member: &Member) -> bool {
    let selector = policy.spec.as_ref().and_then(|spec| spec.pod_selector.as_ref());
    policy.metadata.namespace.as_deref() == Some(&member.namespace)
        && selector.is_none_or(|selector| labels_match(selector, &member.labels))
}

/// Returns what the policy allows, as nftables matches. An empty match matches everything.
fn allowed(
    policy: &NetworkPolicy,
    direction: Direction,
    own: &Member,
    members: &[Member],
    namespaces: &BTreeMap<String, Labels>,
) -> Vec<String> {
    let Some(spec) = &policy.spec else { return Vec::new() };
    let rules: Vec<Rule> = match direction {
        Direction::In => spec.ingress.iter().flatten().map(|r| (r.from.as_ref(), r.ports.as_ref())).collect(),
        Direction::Out => spec.egress.iter().flatten().map(|r| (r.to.as_ref(), r.ports.as_ref())).collect(),
    };
    let mut lines = Vec::new();
    for (peers, ports) in rules {
        let ports = ports.map(Vec::as_slice).unwrap_or_default();
        let peers = peers.map(Vec::as_slice).unwrap_or_default();
        let (there, blocks) = sides(peers, &own.namespace, members, namespaces);
        if peers.is_empty() {
            let any = members.iter().collect::<Vec<_>>();
            lines.extend(matches(String::new(), ports, direction, own, &any));
        }
        if !there.is_empty() {
            let all: Vec<String> = there.iter().map(|member| member.address.to_string()).collect();
            let side = format!("ip {} {{ {} }}", direction.peer_field(), all.join(", "));
            lines.extend(matches(side, ports, direction, own, &there));
        }
        for block in blocks {
            lines.extend(matches(of_block(block, direction), ports, direction, own, &[]));
        }
    }
    lines
}

/// Returns the pods and the address blocks that the peers select.
fn sides<'a>(
    peers: &'a [NetworkPolicyPeer],
    namespace: &str,
    members: &'a [Member],
    namespaces: &BTreeMap<String, Labels>,
) -> (Vec<&'a Member>, Vec<&'a IPBlock>) {
    let empty = Labels::new();
    let is_peer = |peer: &NetworkPolicyPeer, member: &Member| {
        let place = match &peer.namespace_selector {
            Some(selector) => labels_match(selector, namespaces.get(&member.namespace).unwrap_or(&empty)),
            None => member.namespace == namespace,
        };
        let labels = peer.pod_selector.as_ref().is_none_or(|selector| labels_match(selector, &member.labels));
        peer.ip_block.is_none() && place && labels
    };
    let there = members.iter().filter(|member| peers.iter().any(|peer| is_peer(peer, member))).collect();
    // The pods' network is IPv4 only.
    let blocks =
        peers.iter().filter_map(|peer| peer.ip_block.as_ref()).filter(|block| !block.cidr.contains(':'));
    (there, blocks.collect())
}

fn of_block(block: &IPBlock, direction: Direction) -> String {
    let field = direction.peer_field();
    let except: Vec<&String> = block.except.iter().flatten().filter(|cidr| !cidr.contains(':')).collect();
    let mut text = format!("ip {field} {}", block.cidr);
    if !except.is_empty() {
        let list: Vec<&str> = except.iter().map(|cidr| cidr.as_str()).collect();
        let _ = write!(text, " ip {field} != {{ {} }}", list.join(", "));
    }
    text
}

/// Returns one match per port entry. For egress to a named port it is one per pod, as each may have another number for
/// the name.
fn matches(
    side: String,
    ports: &[NetworkPolicyPort],
    direction: Direction,
    own: &Member,
    there: &[&Member],
) -> Vec<String> {
    if ports.is_empty() {
        return vec![side];
    }
    let mut lines = Vec::new();
    let joined = |side: &str, port: &str| format!("{side} {port}").trim().to_owned();
    for port in ports {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let field = protocol.to_lowercase();
        match (&port.port, port.end_port) {
            (None, _) => lines.push(joined(&side, &format!("ip protocol {field}"))),
            (Some(IntOrString::Int(first)), Some(last)) => {
                lines.push(joined(&side, &format!("{field} dport {first}-{last}")));
            }
            (Some(IntOrString::Int(number)), None) => {
                lines.push(joined(&side, &format!("{field} dport {number}")))
            }
            (Some(IntOrString::String(name)), _) => {
                // The name is looked up in the receiving pod.
                let numbers = |member: &Member| -> Vec<i32> {
                    let fits = member.ports.iter().filter(|(n, p, _)| n == name && p == protocol);
                    fits.map(|(_, _, number)| *number).collect()
                };
                match direction {
                    Direction::In => lines.extend(
                        numbers(own).iter().map(|number| joined(&side, &format!("{field} dport {number}"))),
                    ),
                    Direction::Out => lines.extend(there.iter().flat_map(|member| {
                        let to = format!("ip daddr {}", member.address);
                        numbers(member)
                            .into_iter()
                            .map(move |number| format!("{to} {} dport {number}", protocol.to_lowercase()))
                    })),
                }
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn member(address: &str, namespace: &str, labels: Value) -> Member {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"namespace": namespace, "labels": labels},
            "spec": {"containers": [{"name": "c", "ports": [{"name": "web", "containerPort": 8080}]}]},
            "status": {"podIP": address, "phase": "Running"}}))
        .unwrap();
        Member::of(&pod).unwrap()
    }

    fn members() -> Vec<Member> {
        vec![
            member("10.77.0.1", "team", json!({"role": "launcher"})),
            member("10.77.0.2", "team", json!({"role": "worker"})),
            member("10.77.0.3", "other", json!({"role": "launcher"})),
        ]
    }

    fn chains(spec: Value) -> Vec<String> {
        let policy: NetworkPolicy =
            serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "team"}, "spec": spec}))
                .unwrap();
        let namespaces = [("team", "a"), ("other", "b")]
            .map(|(name, team)| (name.to_owned(), Labels::from([("team".to_owned(), team.to_owned())])));
        let text = ruleset(&[policy], &members(), &namespaces.into());
        let inner = text.lines().skip(3).map(str::trim).filter(|line| !matches!(*line, "}" | "drop"));
        inner.take_while(|line| !line.starts_with("chain forward")).map(str::to_owned).collect()
    }

    #[test]
    fn pods_that_no_policy_selects_stay_open() {
        let text = ruleset(&[], &members(), &BTreeMap::new());
        assert_eq!(
            text,
            "add table ip odh_policy\ndelete table ip odh_policy\ntable ip odh_policy {\n  chain forward {\n    \
             type filter hook forward priority 0; policy accept;\n  }\n}\n"
        );
        let worker = json!({"podSelector": {"matchLabels": {"role": "worker"}}});
        assert_eq!(chains(worker), ["chain i_10_77_0_2 {"], "closed for all");
    }

    #[test]
    fn peers_and_ports_are_allowed() {
        let with =
            |rule: Value| json!({"podSelector": {"matchLabels": {"role": "worker"}}, "ingress": [rule]});
        for (name, rule, expected) in [
            ("everything", json!({}), vec![""]),
            (
                "pods of its own namespace",
                json!({"from": [{"podSelector": {"matchLabels": {"role": "launcher"}}}]}),
                vec!["ip saddr { 10.77.0.1 }"],
            ),
            (
                "of other namespaces",
                json!({"from": [{"namespaceSelector": {"matchLabels": {"team": "b"}}, "podSelector": {}}]}),
                vec!["ip saddr { 10.77.0.3 }"],
            ),
            (
                "of all namespaces, by number and range",
                json!({"from": [{"namespaceSelector": {}}], "ports": [{"port": 22}, {"port": 80, "endPort": 90, "protocol": "UDP"}]}),
                vec![
                    "ip saddr { 10.77.0.1, 10.77.0.2, 10.77.0.3 } tcp dport 22",
                    "ip saddr { 10.77.0.1, 10.77.0.2, 10.77.0.3 } udp dport 80-90",
                ],
            ),
            (
                "blocks",
                json!({"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}], "ports": [{"port": "web"}]}),
                vec!["ip saddr 10.0.0.0/8 ip saddr != { 10.1.0.0/16 } tcp dport 8080"],
            ),
            ("a protocol", json!({"ports": [{"protocol": "UDP"}]}), vec!["ip protocol udp"]),
            ("nobody fits", json!({"from": [{"podSelector": {"matchLabels": {"role": "none"}}}]}), vec![]),
        ] {
            let lines: Vec<String> =
                expected.iter().map(|line| format!("{line} return").trim().to_owned()).collect();
            assert_eq!(chains(with(rule))[1..], lines, "{name}");
        }
    }

    #[test]
    fn egress_rules_apply_to_the_api_server() {
        let policy = |direction: &str| -> NetworkPolicy {
            let spec =
                json!({"podSelector": {"matchLabels": {"role": "worker"}}, "policyTypes": [direction]});
            serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "team"}, "spec": spec}))
                .unwrap()
        };
        let rules = |direction: &str| ruleset(&[policy(direction)], &members(), &BTreeMap::new());
        let line = "ip daddr 10.96.0.1 ip saddr vmap { 10.77.0.2 : jump e_10_77_0_2 }";
        assert!(rules("Egress").contains(line), "{}", rules("Egress"));
        assert!(!rules("Ingress").contains("chain input"), "{}", rules("Ingress"));
    }

    #[test]
    fn egress_port_names_are_those_of_the_receiver() {
        let spec = json!({"podSelector": {}, "policyTypes": ["Egress"],
            "egress": [{"to": [{"podSelector": {"matchLabels": {"role": "worker"}}}], "ports": [{"port": "web"}]}]});
        assert_eq!(
            chains(spec),
            [
                "chain e_10_77_0_1 {",
                "ip daddr 10.77.0.2 tcp dport 8080 return",
                "chain e_10_77_0_2 {",
                "ip daddr 10.77.0.2 tcp dport 8080 return"
            ]
        );
    }
}
