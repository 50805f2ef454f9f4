//! Pods on the embedded cluster, bound to its node by hand: real processes in every mode that this machine permits.

use std::path::Path;
use std::time::Duration;

use cluster::node::{ModeChoice, ModeKind};
use cluster::{Cluster, Options};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, Pod, Secret};
use kube::api::{Api, DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

const BOUND: Duration = Duration::from_secs(30);

async fn start(mode: ModeChoice, state: &Path) -> Result<Cluster, cluster::Error> {
    let mut options = Options::new(state.join("c"));
    options.mode = mode;
    options.gpus = 2;
    options.sandbox_program = vec![env!("CARGO_BIN_EXE_cluster-sandbox").into()];
    let cluster = Cluster::start(options).await?;
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("team".to_owned());
    Api::all(cluster.client()).create(&PostParams::default(), &namespace).await.unwrap();
    Ok(cluster)
}

/// Runs a test in each mode that the machine permits.
async fn in_each_mode<F: Future<Output = ()>>(test: impl Fn(kube::Client, ModeKind) -> F) {
    for mode in [ModeChoice::Rootless, ModeChoice::Root, ModeChoice::Plain] {
        let dir = tempfile::tempdir().unwrap();
        let cluster = match start(mode, dir.path()).await {
            Ok(cluster) => cluster,
            Err(error) if mode != ModeChoice::Plain => {
                println!("{mode:?} is not tested: {error}");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let kind = cluster.mode().unwrap().kind;
        test(cluster.client(), kind).await;
        cluster.stop().await;
        assert!(!dir.path().join("c/run").exists(), "{mode:?}: the runtime directory is left");
    }
}

fn pods(client: &kube::Client) -> Api<Pod> {
    Api::namespaced(client.clone(), "team")
}

fn pod(name: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": "node-0", "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "example.com/none:1", "command": ["sh", "-c", script]}]},
    })
}

async fn create(client: &kube::Client, pod: Value) {
    let pod: Pod = serde_json::from_value(pod).unwrap();
    pods(client).create(&PostParams::default(), &pod).await.unwrap();
}

fn phase(pod: Option<&Pod>) -> Option<&str> {
    pod?.status.as_ref()?.phase.as_deref()
}

async fn until(
    client: &kube::Client,
    name: &str,
    what: &str,
    test: impl Fn(Option<&Pod>) -> bool,
) -> Option<Pod> {
    let reached = await_condition(pods(client), name, |pod: Option<&Pod>| test(pod));
    match tokio::time::timeout(BOUND, reached).await {
        Ok(pod) => pod.unwrap(),
        Err(_) => {
            let now = pods(client)
                .get_opt(name)
                .await
                .unwrap()
                .map(|pod| serde_json::to_string_pretty(&pod.status));
            panic!("{name} does not become {what}: {now:?}")
        }
    }
}

async fn ended(client: &kube::Client, name: &str) -> (Pod, String) {
    let pod =
        until(client, name, "ended", |pod| matches!(phase(pod), Some("Succeeded" | "Failed"))).await.unwrap();
    let log = pods(client).logs(name, &LogParams::default()).await.unwrap();
    (pod, log)
}

fn terminated(pod: &Pod) -> Value {
    let state = pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].state.clone().unwrap();
    serde_json::to_value(state.terminated.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_runs_to_its_end_and_tells_how() {
    in_each_mode(|client, mode| async move {
        create(&client, pod("good", "echo hello; echo $HOSTNAME; hostname")).await;
        create(&client, pod("bad", "echo oops >&2; exit 3")).await;
        create(&client, {
            let mut missing = pod("missing", "");
            missing["spec"]["containers"][0]["command"] = json!(["no-such-program"]);
            missing
        })
        .await;
        let (good, log) = ended(&client, "good").await;
        assert_eq!(phase(Some(&good)), Some("Succeeded"));
        assert!(log.starts_with("hello\ngood\n"), "{mode}: {log}");
        if mode.isolates() {
            assert_eq!(log, "hello\ngood\ngood\n", "{mode}");
        }
        assert_eq!(terminated(&good)["reason"], "Completed");
        let annotations = good.metadata.annotations.unwrap();
        assert_eq!(annotations[api::ANNOTATION_NODE_MODE], mode.as_str());
        let (bad, log) = ended(&client, "bad").await;
        assert_eq!((phase(Some(&bad)), log.as_str()), (Some("Failed"), "oops\n"), "{mode}");
        assert_eq!(
            (&terminated(&bad)["reason"], &terminated(&bad)["exitCode"]),
            (&json!("Error"), &json!(3))
        );
        let missing = until(&client, "missing", "failed", |pod| phase(pod) == Some("Failed")).await.unwrap();
        let how = terminated(&missing);
        assert_eq!((&how["reason"], &how["exitCode"]), (&json!("StartError"), &json!(128)), "{mode}");
        assert!(how["message"].as_str().unwrap().contains("executable file not found in $PATH"), "{how}");
        for name in ["good", "bad", "missing"] {
            pods(&client).delete(name, &DeleteParams::default()).await.unwrap();
            until(&client, name, "gone", |pod| pod.is_none()).await;
        }
    })
    .await;
}
