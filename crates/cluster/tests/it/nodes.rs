//! Several nodes on one machine: their capacity, and a simulated power failure. Real processes, in the
//! strongest mode that this machine permits.

use std::path::Path;
use std::time::{Duration, Instant};

use cluster::store::OpenError;
use cluster::{Cluster, Error, Options};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, LogParams, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::control::{event, make};
use crate::pods::marked;
use crate::served::{PATIENCE, soon};

async fn start(state: &Path) -> Cluster {
    let mut options = Options::new(state.join("c"));
    options.nodes = 4;
    options.gpus = 2;
    options.node_grace = Duration::from_secs(1);
    options.sandbox_program = vec![env!("CARGO_BIN_EXE_cluster-sandbox").into()];
    Cluster::start(options).await.unwrap()
}

fn pod(name: &str, node: &str, script: &str, more: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node, "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "none", "command": ["sh", "-c", script]}]}});
    json_patch::merge(&mut pod, &more);
    pod
}

/// Makes a pod tolerate a lost node for this many seconds; null means forever.
fn stays(seconds: Value) -> Value {
    json!({"spec": {"tolerations": [{"key": "node.kubernetes.io/unreachable", "operator": "Exists",
        "effect": "NoExecute", "tolerationSeconds": seconds}]}})
}

async fn power(client: &Client, name: &str, power: Value) {
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = json!({"metadata": {"annotations": {"training.opendatahub.io/power": power}}});
    nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

#[tokio::test]
async fn a_start_with_fewer_nodes_leaves_no_ghosts_of_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let started = async |nodes: u32, gpus: u32| {
        let begun = Instant::now();
        loop {
            let mut options = Options::new(dir.path().join("c"));
            (options.nodes, options.gpus, options.durable) = (nodes, gpus, true);
            options.sandbox_program = vec![env!("CARGO_BIN_EXE_cluster-sandbox").into()];
            match Cluster::start(options).await {
                // Tasks of the one before may hold the store a moment longer.
                Err(Error::Store(OpenError::InUse { .. })) if begun.elapsed() < PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                started => return started.unwrap(),
            }
        }
    };
    let cluster = started(4, 2).await;
    {
        // A client would keep the store open.
        let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
        make(&pods, pod("stays", "node-3", "sleep 600", stays(Value::Null))).await;
    }
    cluster.stop().await;
    let cluster = started(1, 0).await;
    let nodes = Api::<Node>::all(cluster.client()).list(&ListParams::default()).await.unwrap().items;
    let names: Vec<String> = nodes.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["node-0"]);
    let allocatable = nodes[0].status.clone().unwrap().allocatable.unwrap();
    assert!(!allocatable.contains_key("nvidia.com/gpu"), "{allocatable:?}");
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    assert!(pods.get_opt("stays").await.unwrap().is_none(), "nothing would ever report its end");
    cluster.stop().await;
}

fn ready(node: Option<&Node>) -> Option<&str> {
    let conditions = node?.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|c| c.type_ == "Ready").map(|c| c.status.as_str())
}

async fn until_ready_is(client: &Client, name: &str, wanted: &'static str) -> Node {
    let nodes: Api<Node> = Api::all(client.clone());
    let reached = await_condition(nodes, name, move |node: Option<&Node>| ready(node) == Some(wanted));
    soon(reached).await.unwrap().unwrap()
}

#[tokio::test]
async fn nodes_share_the_machine_and_have_racks_and_zones() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = start(dir.path()).await;
    let client = cluster.client();
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap().items;
    let places: Vec<String> = nodes
        .iter()
        .map(|node| {
            let label = |key: &str| node.labels()[key].clone();
            let rack = label("training.opendatahub.io/rack");
            format!("{} {}/{rack}", label("kubernetes.io/hostname"), label("topology.kubernetes.io/zone"))
        })
        .collect();
    assert_eq!(
        places,
        ["node-0 zone-0/rack-0", "node-1 zone-0/rack-0", "node-2 zone-1/rack-1", "node-3 zone-1/rack-1"]
    );
    let millis = std::thread::available_parallelism().unwrap().get() * 1000 / 4;
    for node in &nodes {
        let capacity = node.status.clone().unwrap().capacity.unwrap();
        let cpu = &capacity["cpu"].0;
        let shown = cpu
            .strip_suffix('m')
            .map_or_else(|| cpu.parse::<usize>().unwrap() * 1000, |m| m.parse().unwrap());
        assert_eq!(shown, millis);
        assert_eq!(capacity["nvidia.com/gpu"].0, "2");
        assert_eq!(node.annotations()["training.opendatahub.io/gpus"], "simulated");
    }
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    for node in &nodes {
        let name = node.name_any();
        let held = await_condition(leases.clone(), &name, |lease: Option<&Lease>| lease.is_some());
        soon(held).await.unwrap();
    }

    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let asks = json!({"resources": {"limits": {"nvidia.com/gpu": "1"}}});
    for name in ["first", "second"] {
        let mut asking = pod(name, "node-1", "echo $CUDA_VISIBLE_DEVICES; sleep 100", json!({}));
        json_patch::merge(&mut asking["spec"]["containers"][0], &asks);
        make(&pods, asking).await;
        soon(await_condition(pods.clone(), name, conditions::is_pod_running())).await.unwrap();
    }
    let mut seen = Vec::new();
    for name in ["first", "second"] {
        let follow = LogParams { follow: true, ..LogParams::default() };
        let mut lines = futures::io::BufReader::new(Box::pin(pods.log_stream(name, &follow).await.unwrap()));
        let mut line = String::new();
        soon(futures::AsyncBufReadExt::read_line(&mut lines, &mut line)).await.unwrap();
        seen.push(line.trim().to_owned());
    }
    seen.sort();
    assert_eq!(seen, ["0", "1"], "each GPU of a node is given once");
    assert!(event(&client, "first", "SimulatedGpus").await.contains("without a real device"));
    cluster.stop().await;
}

#[tokio::test]
async fn a_node_without_power_is_lost_and_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = start(dir.path()).await;
    let client = cluster.client();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let marker = format!("odh-power-{}", std::process::id());
    let of = |name: &str| format!("{marker}-{name};");
    let sleeper = |name: &str, node: &str, more: Value| {
        let mut pod = pod(name, node, "exec sleep 1000", more);
        pod["spec"]["containers"][0]["env"] = json!([{"name": "MARK", "value": of(name)}]);
        pod
    };
    make(&pods, sleeper("evicted", "node-2", stays(json!(0)))).await;
    make(&pods, sleeper("patient", "node-2", stays(json!(null)))).await;
    make(&pods, sleeper("elsewhere", "node-3", json!({}))).await;
    for name in ["evicted", "patient", "elsewhere"] {
        soon(await_condition(pods.clone(), name, conditions::is_pod_running())).await.unwrap();
    }

    power(&client, "node-2", json!("off")).await;
    let lost = until_ready_is(&client, "node-2", "Unknown").await;
    let said = lost.status.unwrap().conditions.unwrap().into_iter().find(|c| c.type_ == "Ready").unwrap();
    assert_eq!(said.reason.as_deref(), Some("NodeStatusUnknown"));
    let nodes: Api<Node> = Api::all(client.clone());
    let tainted = |node: Option<&Node>| {
        let taints = node.and_then(|n| n.spec.as_ref()).and_then(|s| s.taints.as_ref());
        taints
            .into_iter()
            .flatten()
            .any(|t| t.key == "node.kubernetes.io/unreachable" && t.effect == "NoExecute")
    };
    soon(await_condition(nodes, "node-2", tainted)).await.unwrap();
    let left: Vec<usize> = ["evicted", "patient"].iter().map(|name| marked(&of(name))).collect();
    assert_eq!(left, [0, 0], "processes died with the power");
    assert_ne!(marked(&of("elsewhere")), 0);
    let going = |pod: Option<&Pod>| pod.is_some_and(|p| p.metadata.deletion_timestamp.is_some());
    let stuck = soon(await_condition(pods.clone(), "evicted", going)).await.unwrap().unwrap();
    assert_eq!(stuck.status.unwrap().phase.as_deref(), Some("Running"), "nobody can say that it ended");
    assert_eq!(ready(Some(&until_ready_is(&client, "node-3", "True").await)), Some("True"));

    power(&client, "node-2", json!(null)).await;
    until_ready_is(&client, "node-2", "True").await;
    soon(await_condition(pods.clone(), "evicted", conditions::is_deleted(&stuck.metadata.uid.unwrap())))
        .await
        .unwrap();
    let again = |pod: Option<&Pod>| {
        let statuses = pod.and_then(|p| p.status.as_ref()).and_then(|s| s.container_statuses.as_ref());
        statuses.into_iter().flatten().any(|c| c.restart_count == 1 && c.ready)
    };
    soon(await_condition(pods.clone(), "patient", again)).await.unwrap();
    let other = pods.get("elsewhere").await.unwrap().status.unwrap().container_statuses.unwrap();
    assert_eq!(other[0].restart_count, 0);
    cluster.stop().await;
    assert_eq!(marked(&marker), 0);
}

/// Holds each connection in a process of its own.
const HOLDER: &str = "import os, socket
listener = socket.create_server(('', 7000))
while True:
    connection = listener.accept()[0]
    if os.fork() == 0:
        listener.close()
        connection.recv(1)
        os._exit(0)
    connection.close()";
/// Opens connections and reports the first one that ends.
const CONNECTOR: &str = "import os, select, socket, time
def connect():
    for _ in range(200):
        try: return socket.create_connection((os.environ['SERVER'], 7000))
        except OSError: time.sleep(0.05)
all = [connect() for _ in range(30)]
print('connected', flush=True)
select.select(all, [], [])
print('closed', flush=True)
time.sleep(1000)";

#[tokio::test]
async fn a_node_that_loses_its_power_closes_no_connection() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = start(dir.path()).await;
    let client = cluster.client();
    if !cluster.mode().unwrap().kind.isolates() {
        return;
    }
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let program = |text: &str| json!({"command": ["python3", "-c", text]});
    let mut holder = pod("holder", "node-2", "", stays(json!(null)));
    json_patch::merge(&mut holder["spec"]["containers"][0], &program(HOLDER));
    make(&pods, holder).await;
    let running = await_condition(pods.clone(), "holder", conditions::is_pod_running());
    let address = soon(running).await.unwrap().unwrap().status.unwrap().pod_ip.unwrap();
    let mut connector = pod("connector", "node-3", "", json!({}));
    json_patch::merge(&mut connector["spec"]["containers"][0], &program(CONNECTOR));
    connector["spec"]["containers"][0]["env"] = json!([{"name": "SERVER", "value": address}]);
    make(&pods, connector).await;
    soon(await_condition(pods.clone(), "connector", conditions::is_pod_running())).await.unwrap();
    let follow = LogParams { follow: true, ..LogParams::default() };
    let mut lines =
        futures::io::BufReader::new(Box::pin(pods.log_stream("connector", &follow).await.unwrap()));
    let mut line = String::new();
    soon(futures::AsyncBufReadExt::read_line(&mut lines, &mut line)).await.unwrap();
    assert_eq!(line, "connected\n");

    power(&client, "node-2", json!("off")).await;
    until_ready_is(&client, "node-2", "Unknown").await;
    let said = pods.logs("connector", &LogParams::default()).await.unwrap();
    assert_eq!(said, "connected\n", "whether a node is lost, only its silence can say");
    cluster.stop().await;
}

#[tokio::test]
async fn a_node_that_others_call_unready_posts_its_status_with_its_next_heartbeat() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = start(dir.path()).await;
    let client = cluster.client();
    let nodes: Api<Node> = Api::all(client.clone());
    // As the node life cycle does for a node that is silent, or seemed to be.
    let unknown = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}});
    nodes.patch_status("node-1", &PatchParams::default(), &Patch::Strategic(unknown)).await.unwrap();
    let node = until_ready_is(&client, "node-1", "True").await;
    let ready = node.status.unwrap().conditions.unwrap().into_iter().find(|c| c.type_ == "Ready").unwrap();
    assert_eq!(ready.reason.as_deref(), Some("KubeletReady"));
}
