//! Reads the logs of very many pods: all of them, in order, and without opening too many connections at once for a
//! server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cluster::apiserver::kubelet::{Kubelet, LogError, LogRequest, LogStream};
use cluster::{Cluster, Options};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::odh::Home;

const WORKERS: usize = 128;
const LINES: usize = 3;
/// The maximum number of connections opened at the same time (`jobs::logs`).
const MOST_OPENINGS: usize = 16;

/// How long an answer takes, so that others are requested meanwhile.
const ANSWER: Duration = Duration::from_millis(20);

/// Counts the log requests that are not yet answered, and answers slowly enough for that to show.
#[derive(Default)]
struct Counter {
    now: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

impl Kubelet for Counter {
    fn logs(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        async move {
            self.all.fetch_add(1, Ordering::SeqCst);
            self.most.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(ANSWER).await;
            self.now.fetch_sub(1, Ordering::SeqCst);
            let worker: usize =
                request.pod.rsplit('-').next().and_then(|index| index.parse().ok()).unwrap_or(0);
            let text: String = (0..LINES)
                .map(|line| format!("2026-01-01T00:{line:02}:00.{worker:09}Z {line} of {worker}\n"))
                .collect();
            Ok(futures::stream::iter([Ok(text.into())]).boxed())
        }
        .boxed()
    }
}

fn pod(index: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("wide-worker-{index}"),
            "labels": {api::LABEL_JOB_NAME: "wide", api::LABEL_JOB_ROLE: "worker"}},
        "spec": {"nodeName": "node-0", "containers": [{"name": "mpi", "image": "train:1"}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "mpi", "image": "train:1", "imageID": "", "ready": true,
            "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}})
}

async fn put(api: &Api<DynamicObject>, object: Value) {
    let (name, status) = (object["metadata"]["name"].as_str().unwrap().to_owned(), object["status"].clone());
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
}

async fn set(cluster: &Cluster) {
    let client = cluster.client();
    operator::install_crd(&client).await.unwrap();
    let template = json!({"spec": {"containers": [{"name": "mpi", "image": "train:1"}]}});
    let job = json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "wide"},
        "spec": {"mpiReplicaSpecs": {"Launcher": {"template": template}, "Worker": {"replicas": WORKERS, "template": template}}},
        "status": {"phase": "Running"}});
    let jobs = Api::namespaced_with(client.clone(), "default", &jobs::Kind::MpiJob.resource());
    put(&jobs, job).await;
    let resource = kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
    let pods = Api::namespaced_with(client, "default", &resource);
    let all = (0..WORKERS).map(|index| put(&pods, pod(index)));
    futures::stream::iter(all).buffer_unordered(16).collect::<Vec<()>>().await;
}

#[test]
fn logs_of_many_pods_open_few_connections_at_a_time() {
    let home = Home::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let options = Options { controllers: false, ..Options::new(home.path().join("cluster")) };
    let cluster = runtime.block_on(Cluster::start(options)).unwrap();
    let counter = Arc::new(Counter::default());
    cluster.server().kubelets.register("node-0", counter.clone());
    runtime.block_on(set(&cluster));
    let kubeconfig = home.file("kubeconfig", &serde_json::to_string(&cluster.kubeconfig()).unwrap());
    let words = [
        "training",
        "logs",
        "mpijob",
        "wide",
        "--worker",
        "0-127",
        "-o",
        "json",
        "--kubeconfig",
        &kubeconfig,
    ];
    let said = home.odh(&words).ends(0);
    let lines: Vec<Value> = said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected: Vec<String> =
        (0..LINES).flat_map(|line| (0..WORKERS).map(move |worker| format!("{line} of {worker}"))).collect();
    let found: Vec<&str> = lines.iter().map(|line| line["line"].as_str().unwrap()).collect();
    assert_eq!(found, expected, "all lines, by their times");
    let most = counter.most.load(Ordering::SeqCst);
    assert!(most <= MOST_OPENINGS, "{most} logs were asked for at once");
    assert_eq!(counter.all.load(Ordering::SeqCst), WORKERS, "each pod is asked once");
}
