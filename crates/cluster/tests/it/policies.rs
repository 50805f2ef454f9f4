//! NetworkPolicies between real pods, in every mode that this machine permits.

use cluster::node::ModeKind;
use futures::io::{AsyncBufReadExt as _, BufReader};
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, DeleteParams, ListParams, LogParams, WatchEvent, WatchParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::control::make;
use crate::pods::in_each_mode;
use crate::served::soon;

const SERVER: &str = "import socket
s = socket.create_server(('', 80))
while True: s.accept()[0].close()";
/// Prints whether the server is reachable, on every change.
const CLIENT: &str = "import os, socket, time
state = None
while True:
    try:
        socket.create_connection((os.environ['SERVER'], 80), timeout=0.3).close()
        now = 'open'
    except OSError:
        now = 'closed'
    if now != state: print(now, flush=True)
    state = now
    time.sleep(0.05)";

pub fn pod(name: &str, role: &str, program: &str, server: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"role": role}}, "spec": {"nodeName": "node-0",
        "terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "none",
            "command": ["python3", "-c", program], "env": [{"name": "SERVER", "value": server}]}]}})
}

pub async fn running(pods: &Api<Pod>, name: &str) -> Pod {
    soon(await_condition(pods.clone(), name, conditions::is_pod_running())).await.unwrap();
    pods.get(name).await.unwrap()
}

/// Waits for the first event about the object with this UID, and returns its message.
pub async fn warning(client: &Client, uid: Option<String>) -> String {
    let events: Api<Event> = Api::namespaced(client.clone(), "team");
    let fits = |e: &Event| e.involved_object.uid == uid;
    let list = events.list(&ListParams::default()).await.unwrap();
    if let Some(found) = list.items.iter().find(|e| fits(e)) {
        return found.message.clone().unwrap();
    }
    let at = list.metadata.resource_version.unwrap();
    let mut news = Box::pin(events.watch(&WatchParams::default(), &at).await.unwrap());
    soon(async {
        loop {
            if let WatchEvent::Added(e) = futures::StreamExt::next(&mut news).await.unwrap().unwrap()
                && fits(&e)
            {
                return e.message.unwrap();
            }
        }
    })
    .await
}

/// Starts a pod `server` that listens on port 80, and returns its address once it is ready.
pub async fn serving(pods: &Api<Pod>) -> String {
    let mut server = pod("server", "worker", SERVER, "");
    server["spec"]["containers"][0]["readinessProbe"] =
        json!({"tcpSocket": {"port": 80}, "periodSeconds": 1});
    make(pods, server).await;
    let ready = |pod: Option<&Pod>| {
        let conditions = pod.and_then(|p| p.status.as_ref()).and_then(|s| s.conditions.as_ref());
        conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
    };
    let server = soon(await_condition(pods.clone(), "server", ready)).await.unwrap().unwrap();
    server.status.unwrap().pod_ip.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_isolates_workers_but_admits_the_launcher() {
    in_each_mode(|client, mode| async move {
        let pods: Api<Pod> = Api::namespaced(client.clone(), "team");
        let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), "team");
        let policy = json!({"metadata": {"name": "apart"}, "spec": {
            "podSelector": {"matchLabels": {"role": "worker"}}, "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"role": "launcher"}}}], "ports": [{"port": 80}]}]}});
        if mode == ModeKind::Plain {
            let made = make(&policies, policy).await;
            assert_eq!(
                warning(&client, made.uid()).await,
                "The policy is stored but not enforced: in plain mode pods share the machine's network"
            );
            return;
        }
        let address = serving(&pods).await;
        make(&pods, pod("worker", "worker", CLIENT, &address)).await;
        running(&pods, "worker").await;
        let follow = LogParams { follow: true, ..LogParams::default() };
        let says = pods.log_stream("worker", &follow).await.unwrap();
        let mut lines = BufReader::new(Box::pin(says)).lines();
        let mut next = async || soon(futures::StreamExt::next(&mut lines)).await.unwrap().unwrap();
        assert_eq!(next().await, "open", "{mode}: without a policy");

        make(&policies, policy).await;
        assert_eq!(next().await, "closed", "{mode}: a worker");
        make(&pods, pod("launcher", "launcher", CLIENT, &address)).await;
        running(&pods, "launcher").await;
        let says = pods.log_stream("launcher", &follow).await.unwrap();
        let mut heard = BufReader::new(Box::pin(says)).lines();
        // The policy covers a new pod's address shortly after the pod gets it, so the first attempt may fail.
        while soon(futures::StreamExt::next(&mut heard)).await.unwrap().unwrap() != "open" {}

        policies.delete("apart", &DeleteParams::default()).await.unwrap();
        assert_eq!(next().await, "open", "{mode}: the policy is gone");
        for name in ["server", "worker", "launcher"] {
            pods.delete(name, &DeleteParams::default()).await.unwrap();
        }
    })
    .await;
}
