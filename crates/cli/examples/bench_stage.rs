//! The server that `bench/cli` measures the command line against: an API in this process, without controllers and
//! node, with many jobs, and one job whose pods have logged much.
//!
//! `bench_stage FOLDER JOBS,JOBS,… PODS LINES` creates for each number a namespace `jobs-NUMBER` with that many
//! MPIJobs, and in the namespace `logs` the job `chatty` with PODS Workers, each of which has logged LINES lines.
//! Prints the path of its kubeconfig, and serves until standard input ends.

#![expect(clippy::print_stdout, reason = "a program of the bench: its data is its output")]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use cluster::apiserver::kubelet::{Kubelet, LogError, LogRequest, LogStream};
use cluster::{Cluster, Options};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// The number of concurrent requests.
const CONCURRENCY: usize = 32;
/// The number of lines generated and sent together.
const CHUNK_LINES: usize = 500;

fn main() -> Fallible<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, counts, pods, lines] = &words[..] else {
        return Err("usage: bench_stage FOLDER JOBS,JOBS,… PODS LINES".into());
    };
    let counts = counts.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(serve(Path::new(folder), &counts, pods.parse()?, lines.parse()?))
}

async fn serve(folder: &Path, counts: &[usize], pods: usize, lines: usize) -> Fallible<()> {
    let cluster =
        Cluster::start(Options { controllers: false, ..Options::new(folder.join("state")) }).await?;
    let client = cluster.client();
    operator::install_crd(&client).await?;
    for count in counts {
        many_jobs(&client, *count).await?;
    }
    cluster.server().kubelets.register("node", Arc::new(Writer { pods, lines }));
    chatty_job(&client, pods).await?;
    let path = folder.join("kubeconfig");
    std::fs::write(&path, serde_json::to_string(&cluster.kubeconfig())?)?;
    println!("{}", path.display());
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    cluster.stop().await;
    Ok(())
}

async fn namespace(client: &Client, name: &str) -> Fallible<()> {
    let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    Ok(())
}

fn job(name: &str, workers: usize) -> Value {
    let template = json!({"spec": {"containers": [{"name": "mpi", "image": "example.org/training:v1",
        "command": ["mpirun", "python", "/train.py", "--epochs", "10"],
        "resources": {"limits": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": 2}}}]}});
    json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": {"name": name, "labels": {"team": "vision"}},
        "spec": {"slotsPerWorker": 2, "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": template}, "Worker": {"replicas": workers, "template": template}}}})
}

async fn put_job(client: &Client, namespace: &str, job: Value) -> Fallible<()> {
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &jobs::Kind::MpiJob.resource());
    let name = job["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    api.create(&PostParams::default(), &serde_json::from_value(job)?).await?;
    let time = "2026-01-01T00:00:01Z";
    let status = json!({"status": {"phase": "Running", "startTime": time,
        "workers": {"running": 4, "pending": 0, "failed": 0, "of": 4},
        "conditions": [{"type": "Running", "status": "True", "reason": "MPIJobRunning", "message": "is running",
            "lastTransitionTime": time, "lastUpdateTime": time}]}});
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

async fn many_jobs(client: &Client, count: usize) -> Fallible<()> {
    let place = format!("jobs-{count}");
    namespace(client, &place).await?;
    stream::iter(0..count)
        .map(|number| put_job(client, &place, job(&format!("job-{number:04}"), 4)))
        .buffer_unordered(CONCURRENCY)
        .try_collect::<()>()
        .await
}

async fn chatty_job(client: &Client, pods: usize) -> Fallible<()> {
    namespace(client, "logs").await?;
    put_job(client, "logs", job("chatty", pods)).await?;
    let api: Api<Pod> = Api::namespaced(client.clone(), "logs");
    for index in 0..=pods {
        let (role, name) = match index.checked_sub(1) {
            Some(worker) => ("worker", format!("chatty-worker-{worker}")),
            None => ("launcher", "chatty-launcher-x7k2p".to_owned()),
        };
        let pod = json!({"metadata": {"name": name, "labels": {api::LABEL_JOB_NAME: "chatty", api::LABEL_JOB_ROLE: role}},
            "spec": {"nodeName": "node", "restartPolicy": "Never", "containers": [{"name": "mpi", "image": "i"}]}});
        api.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        // stern reads no container without an ID.
        let state = json!({"terminated": {"exitCode": 0, "containerID": "odh://ended"}});
        let status = json!({"status": {"phase": "Succeeded", "containerStatuses": [{"name": "mpi", "image": "i", "imageID": "",
            "containerID": "odh://ended", "ready": false, "restartCount": 0, "state": state}]}});
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    }
    Ok(())
}

/// A node whose pods have logged much: line `i` of pod `p` at `i * pods + p` microseconds.
struct Writer {
    pods: usize,
    lines: usize,
}

impl Kubelet for Writer {
    fn logs(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        let (pods, lines) = (self.pods, self.lines);
        async move {
            let pod = request.pod.rsplit('-').next().and_then(|end| end.parse().ok()).unwrap_or(pods);
            let chunks = (0..lines).step_by(CHUNK_LINES).map(move |first| {
                let mut text = String::new();
                for line in first..(first + CHUNK_LINES).min(lines) {
                    if request.timestamps {
                        let micros = i64::try_from(line * (pods + 1) + pod).unwrap_or(i64::MAX);
                        let at = Timestamp::UNIX_EPOCH
                            + SignedDuration::from_micros(1_767_225_600_000_000 + micros);
                        let _ = write!(text, "{at:.9} ");
                    }
                    let _ = writeln!(
                        text,
                        "step {line:>8} loss 0.4242 accuracy 0.9876 samples/s 12345.6 pod {pod}"
                    );
                }
                Ok(text.into())
            });
            Ok(stream::iter(chunks).boxed())
        }
        .boxed()
    }
}
