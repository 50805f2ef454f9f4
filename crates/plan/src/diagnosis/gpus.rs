//! GPUs that a job asks for and those that it could have, for "Insufficient GPUs: requested 32, available 24".

use k8s_openapi::api::core::v1::{Node, Pod};

use super::Gpus;

/// What GPUs are counted as, after the vendor's name (`nvidia.com/gpu`, `amd.com/gpu`).
const SUFFIX: &str = "/gpu";

/// Counts: `job` is the job's pods, `nodes` all nodes, `pods` everybody's pods that have not ended. What nodes offer, less
/// what other jobs' pods hold on them, is available.
#[must_use]
pub fn gpus(job: &[Pod], nodes: &[Node], pods: &[Pod]) -> Gpus {
    let ours = |pod: &&Pod| job.iter().any(|own| own.metadata.uid == pod.metadata.uid);
    let usable: Vec<&Node> = nodes
        .iter()
        .filter(|node| {
            node.spec.as_ref().is_none_or(|spec| spec.unschedulable != Some(true)) && is_ready(node)
        })
        .collect();
    let offered: u64 = usable.iter().map(|node| offered(node)).sum();
    let on_usable = |pod: &&Pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        node.is_some_and(|name| usable.iter().any(|node| node.metadata.name.as_deref() == Some(name)))
    };
    let held: u64 = pods.iter().filter(|pod| !ours(pod)).filter(on_usable).map(wanted).sum();
    Gpus { requested: job.iter().map(wanted).sum(), available: offered.saturating_sub(held) }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn offered(node: &Node) -> u64 {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let gpus = allocatable.into_iter().flatten().filter(|(name, _)| name.ends_with(SUFFIX));
    gpus.filter_map(|(_, count)| count.0.parse::<u64>().ok()).sum()
}

/// Extended resources are asked for in limits, or in requests of the same value.
fn wanted(pod: &Pod) -> u64 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let of = |container: &k8s_openapi::api::core::v1::Container| -> u64 {
        let resources = container.resources.as_ref();
        let limits = resources.and_then(|resources| resources.limits.as_ref());
        let asked = limits.or_else(|| resources.and_then(|resources| resources.requests.as_ref()));
        let gpus = asked.into_iter().flatten().filter(|(name, _)| name.ends_with(SUFFIX));
        gpus.filter_map(|(_, count)| count.0.parse::<u64>().ok()).sum()
    };
    containers.map(of).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_hold_and_what_cannot_be_used_is_not_available() {
        let node = |name: &str, ready: &str| -> Node {
            serde_json::from_value(json!({ "metadata": { "name": name }, "status": {
                "allocatable": { "nvidia.com/gpu": "8", "cpu": "4" }, "conditions": [{ "type": "Ready", "status": ready }] } }))
            .unwrap()
        };
        let pod = |uid: &str, count: &str, node: Option<&str>| -> Pod {
            serde_json::from_value(
                json!({ "metadata": { "uid": uid }, "spec": { "nodeName": node, "containers": [
                { "name": "main", "resources": { "limits": { "nvidia.com/gpu": count } } }] } }),
            )
            .unwrap()
        };
        let nodes = [node("a", "True"), node("b", "True"), node("c", "Unknown")];
        let job = [pod("0", "8", Some("a")), pod("1", "8", None), pod("2", "8", None), pod("3", "8", None)];
        let all = [job[0].clone(), pod("x", "4", Some("b")), pod("y", "8", Some("c"))];
        assert_eq!(gpus(&job, &nodes, &all), Gpus { requested: 32, available: 12 });
    }
}
