//! `odh local node …`: the nodes that this machine simulates. Power is an annotation on the Node, which the node
//! itself obeys; everything else is done as by kubectl.

use std::time::Duration;

use jobs::Class;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, EvictParams, ListParams, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt};
use semantics::{amounts, gpus, has_ended, local_nodes};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::home::Home;
use super::state::State;
use crate::arguments::{NodeDrain, NodeList, NodeVerb};
use crate::connect::connect_local;
use crate::console::Console;
use crate::failure::Failure;
use crate::{object, table};

/// The pause between attempts to evict a pod that its disruption budget protects.
const RETRY: Duration = Duration::from_millis(500);
/// The HTTP status of an eviction that a disruption budget refuses.
const BUDGET: u16 = 429;

/// `odh local node VERB`
pub async fn run(console: &Console, verb: &NodeVerb) -> Result<u8, Failure> {
    let home = Home::find()?;
    if State::alive(&home).is_none() {
        return Err(Failure::new(Class::NotFound, "NotUp", "the local cluster is not up")
            .with_hint("start it with: odh local up"));
    }
    let client = connect_local(&home, None).await?.client;
    match verb {
        NodeVerb::List(asked) => list(console, &client, asked).await,
        NodeVerb::Down { name } => down(console, &client, name).await,
        NodeVerb::Up { name } => up(console, &client, name).await,
        NodeVerb::Drain(drained) => drain(console, &client, drained).await,
    }
}

fn failed(error: kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            Failure::new(Class::NotAllowed, "NotAllowed", status.message.clone())
        }
        other => Failure::new(Class::Error, "Cluster", other.to_string()),
    }
}

/// Returns the Node, or a failure that names the existing ones.
async fn find(client: &Client, name: &str) -> Result<Node, Failure> {
    let nodes: Api<Node> = Api::all(client.clone());
    if let Some(node) = nodes.get_opt(name).await.map_err(failed)? {
        return Ok(node);
    }
    let known = nodes.list(&ListParams::default()).await.map_err(failed)?;
    let known: Vec<String> = known.items.iter().map(ResourceExt::name_any).collect();
    Err(Failure::new(Class::NotFound, "NotFound", format!("node \"{name}\" not found"))
        .with_hint(format!("available nodes: {}", known.join(", "))))
}

fn is_off(node: &Node) -> bool {
    node.annotations()
        .get(local_nodes::ANNOTATION_NODE_POWER)
        .is_some_and(|power| power == local_nodes::POWER_OFF)
}

fn is_closed(node: &Node) -> bool {
    node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true))
}

async fn change(client: &Client, name: &str, patch: Value) -> Result<(), Failure> {
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop).map_err(failed)
}

async fn down(console: &Console, client: &Client, name: &str) -> Result<u8, Failure> {
    if is_off(&find(client, name).await?) {
        console.data(&format!("node/{name} is already down\n"))?;
        return Ok(0);
    }
    change(
        client,
        name,
        json!({"metadata": {"annotations": {local_nodes::ANNOTATION_NODE_POWER: local_nodes::POWER_OFF}}}),
    )
    .await?;
    console.data(&format!("node/{name} is down; its processes were killed\n"))?;
    console.note(&format!(
        "it becomes Ready=Unknown after the cluster's grace period (odh local up --node-grace); \
         power it on again with: odh local node up {name}"
    ));
    Ok(0)
}

async fn up(console: &Console, client: &Client, name: &str) -> Result<u8, Failure> {
    let node = find(client, name).await?;
    if !is_off(&node) && !is_closed(&node) {
        console.data(&format!("node/{name} is already up\n"))?;
        return Ok(0);
    }
    let patch = json!({"metadata": {"annotations": {local_nodes::ANNOTATION_NODE_POWER: null}}, "spec": {"unschedulable": null}});
    change(client, name, patch).await?;
    console.data(&format!("node/{name} is up and schedulable\n"))?;
    Ok(0)
}

async fn pods_on(client: &Client, name: &str) -> Result<Vec<Pod>, Failure> {
    let pods: Api<Pod> = Api::all(client.clone());
    let here = ListParams::default().fields(&format!("spec.nodeName={name}"));
    let pods = pods.list(&here).await.map_err(failed)?.items;
    Ok(pods.into_iter().filter(|pod| !has_ended(pod)).collect())
}

async fn drain(console: &Console, client: &Client, asked: &NodeDrain) -> Result<u8, Failure> {
    let name = &asked.name;
    if is_off(&find(client, name).await?) {
        return Err(Failure::new(
            Class::Conflict,
            "NodeDown",
            format!("node/{name} is down, so its pods cannot be evicted"),
        )
        .with_hint(format!("power it on first: odh local node up {name}")));
    }
    change(client, name, json!({"spec": {"unschedulable": true}})).await?;
    console.note(&format!("node/{name} cordoned"));
    let until = Instant::now() + asked.timeout;
    for pod in pods_on(client, name).await? {
        let label = format!("pod/{} in namespace {}", pod.name_any(), pod.namespace().unwrap_or_default());
        let leaving = tokio::time::timeout_at(until, evict(client, &pod)).await;
        match leaving {
            Ok(outcome) => outcome?,
            Err(_) => {
                return Err(Failure::new(
                    Class::StillRunning,
                    "Timeout",
                    format!("{label} has not ended after {} s", asked.timeout.as_secs()),
                )
                .with_hint("a PodDisruptionBudget may protect it (kubectl get pdb -A), or it needs more time to end (--timeout)"));
            }
        }
        console.note(&format!("{label} evicted"));
    }
    console.data(&format!("node/{name} drained\n"))?;
    Ok(0)
}

/// Retries until no budget refuses, then waits until the pod is gone; the caller limits the time of both.
async fn evict(client: &Client, pod: &Pod) -> Result<(), Failure> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let name = pod.name_any();
    loop {
        match pods.evict(&name, &EvictParams::default()).await {
            Ok(_) => break,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == BUDGET => tokio::time::sleep(RETRY).await,
            Err(error) => return Err(failed(error)),
        }
    }
    let uid = pod.uid();
    let gone = await_condition(pods, &name, move |now: Option<&Pod>| now.is_none_or(|now| now.uid() != uid));
    gone.await.map(drop).map_err(|error| Failure::new(Class::Error, "Watch", error.to_string()))
}

async fn list(console: &Console, client: &Client, asked: &NodeList) -> Result<u8, Failure> {
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = nodes.list(&ListParams::default()).await.map_err(failed)?.items;
    let pods: Api<Pod> = Api::all(client.clone());
    let pods = pods.list(&ListParams::default()).await.map_err(failed)?.items;
    let rows: Vec<Row> = nodes.iter().map(|node| row(node, &pods)).collect();
    if asked.output.shows_objects() {
        console
            .data(&object::text(&json!(rows.iter().map(Row::value).collect::<Vec<_>>()), asked.output)?)?;
        return Ok(0);
    }
    let headings = ["NAME", "STATUS", "ZONE", "RACK", "CPU", "MEMORY", "GPUS", "PODS"];
    console.data(&table::table(&headings, &rows.iter().map(Row::cells).collect::<Vec<_>>()))?;
    Ok(0)
}

/// The columns of a node.
#[derive(Debug)]
struct Row {
    name: String,
    status: String,
    zone: String,
    rack: String,
    cpu: String,
    memory: String,
    gpus: u64,
    gpus_used: u64,
    pods: usize,
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let gpus = if self.gpus == 0 { "-".to_owned() } else { format!("{}/{}", self.gpus_used, self.gpus) };
        let memory =
            self.memory.parse::<semantics::Quantity>().map_or(self.memory.clone(), |it| it.in_bytes());
        let fixed = [&self.name, &self.status, &self.zone, &self.rack, &self.cpu, &memory];
        fixed.into_iter().cloned().chain([gpus, self.pods.to_string()]).collect()
    }

    fn value(&self) -> Value {
        json!({"name": self.name, "status": self.status, "zone": self.zone, "rack": self.rack, "cpu": self.cpu,
            "memory": self.memory, "gpus": self.gpus, "gpusUsed": self.gpus_used, "pods": self.pods})
    }
}

fn row(node: &Node, pods: &[Pod]) -> Row {
    let name = node.name_any();
    let status = node.status.as_ref();
    let capacity = |what: &str| {
        status.and_then(|s| s.capacity.as_ref()?.get(what)).map(|q| q.0.clone()).unwrap_or_default()
    };
    let label = |key: &str| node.labels().get(key).cloned().unwrap_or_default();
    let here: Vec<&Pod> = pods
        .iter()
        .filter(|pod| pod.spec.as_ref().is_some_and(|s| s.node_name.as_ref() == Some(&name)))
        .filter(|pod| !has_ended(pod))
        .collect();
    let requested = |pod: &&Pod| pod.spec.as_ref().map_or(0, plan::gpus_of);
    Row {
        status: words(node),
        zone: label("topology.kubernetes.io/zone"),
        rack: label(local_nodes::LABEL_NODE_RACK),
        cpu: capacity("cpu"),
        memory: capacity("memory"),
        gpus: gpus(&amounts(status.and_then(|status| status.capacity.as_ref()))),
        gpus_used: here.iter().map(requested).sum(),
        pods: here.len(),
        name,
    }
}

/// The status in kubectl's words, and whether the power is off, which a real cluster cannot know.
fn words(node: &Node) -> String {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().find(|c| c.type_ == "Ready").map_or("Unknown", |c| c.status.as_str());
    let mut words = vec![if ready == "True" { "Ready" } else { "NotReady" }];
    if is_closed(node) {
        words.push("SchedulingDisabled");
    }
    if is_off(node) {
        words.push("Down");
    }
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_counts_what_runs() {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": "node-1", "labels": {"topology.kubernetes.io/zone": "zone-0",
                "training.opendatahub.io/rack": "rack-0"}, "annotations": {"training.opendatahub.io/power": "off"}},
            "spec": {"unschedulable": true},
            "status": {"capacity": {"cpu": "500m", "memory": "1Ki", "nvidia.com/gpu": "8"},
                "conditions": [{"type": "Ready", "status": "Unknown"}]}}))
        .unwrap();
        let pod = |node: &str, phase: &str| -> Pod {
            serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers":
                [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]}, "status": {"phase": phase}}))
            .unwrap()
        };
        let pods = [pod("node-1", "Running"), pod("node-1", "Succeeded"), pod("node-2", "Running")];
        assert_eq!(
            row(&node, &pods).cells(),
            ["node-1", "NotReady,SchedulingDisabled,Down", "zone-0", "rack-0", "500m", "1Ki", "2/8", "1"]
        );
    }
}
