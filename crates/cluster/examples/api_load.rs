//! Generates load on an API server, the embedded one or another, over TLS. Used by `bench/api`.
//!
//! - `api_load serve memory|disk FOLDER`: serves the embedded API, without controllers and nodes, until standard input
//!   ends; prints the path of its kubeconfig.
//! - `api_load load KUBECONFIG [PODS]`: runs the load with this many pods, by default 10,000, and prints the results as
//!   one JSON object.
//! - `api_load pods KUBECONFIG COUNT`: creates pods on a cluster with a node, and prints the seconds until all run.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a program of the bench: its data is its output"
)]

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use cluster::{Cluster, Options};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::mpsc;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// The namespace of all pods.
const NAMESPACE: &str = "load";
/// The number of concurrent requests.
const CONCURRENCY: usize = 32;
/// The number of connections that they share.
const CONNECTIONS: usize = 4;
/// The default number of pods to create and read.
const PODS: usize = 10_000;
/// The number of watchers of all pods.
const WATCHERS: usize = 100;
/// The number of changes to watch, made one at a time; at most the number of pods.
const CHANGES: usize = 200;
/// The timeout after which an event counts as lost.
const LOST: Duration = Duration::from_secs(20);

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match words[..] {
        ["serve", kind @ ("memory" | "disk"), folder] => runtime.block_on(serve(kind == "disk", folder)),
        ["load", kubeconfig] => runtime.block_on(load(kubeconfig, PODS)),
        ["load", kubeconfig, pods] => runtime.block_on(load(kubeconfig, pods.parse()?)),
        ["pods", kubeconfig, count] => runtime.block_on(start_pods(kubeconfig, count.parse()?)),
        _ => Err("usage: api_load serve memory|disk FOLDER | load KUBECONFIG [PODS] | pods KUBECONFIG COUNT"
            .into()),
    }
}

async fn serve(durable: bool, folder: &str) -> Fallible<()> {
    let options = Options { durable, controllers: false, ..Options::new(folder) };
    let cluster = Cluster::start(options).await?;
    let path = Path::new(folder).join("kubeconfig");
    std::fs::write(&path, serde_json::to_string(&cluster.kubeconfig())?)?;
    println!("{}", path.display());
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    cluster.stop().await;
    Ok(())
}

/// Returns a client with a connection of its own.
async fn client(path: &str) -> Fallible<Client> {
    let kubeconfig = Kubeconfig::read_from(path)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// A pod like the Worker of an MPI job, of about 1.5 KB.
fn pod(number: usize) -> Fallible<Pod> {
    let name = format!("load-worker-{number}");
    let variables: Vec<Value> = (0..8)
        .map(|index| json!({"name": format!("VARIABLE_{index}"), "value": "a value of some length"}))
        .collect();
    Ok(serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {
            "training.kubeflow.org/job-name": "load", "training.kubeflow.org/job-role": "worker",
            "training.kubeflow.org/replica-index": number.to_string(),
        }},
        "spec": {
            "restartPolicy": "Never", "hostname": name, "subdomain": "load", "automountServiceAccountToken": false,
            "containers": [{
                "name": "worker", "image": "example.org/training:v1", "command": ["odh-launch", "serve"],
                "env": variables, "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                "volumeMounts": [{"name": "keys", "mountPath": "/keys"}],
            }],
            "volumes": [{"name": "keys", "emptyDir": {}}],
        },
    }))?)
}

async fn load(path: &str, count: usize) -> Fallible<()> {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(client(path).await?);
    }
    let first = clients.first().expect("there are connections").clone();
    make_namespace(&first).await?;
    let apis: Vec<Api<Pod>> =
        clients.iter().map(|client| Api::namespaced(client.clone(), NAMESPACE)).collect();
    let api = |number: usize| apis[number % CONNECTIONS].clone();

    let began = Instant::now();
    stream::iter(0..count)
        .map(|number| {
            let api = api(number);
            async move {
                api.create(&PostParams::default(), &pod(number)?).await?;
                Fallible::Ok(())
            }
        })
        .buffer_unordered(CONCURRENCY)
        .try_collect::<()>()
        .await?;
    let creates = rate(count, began);

    let began = Instant::now();
    stream::iter(0..count)
        .map(|number| {
            let api = api(number);
            async move { api.get(&format!("load-worker-{number}")).await.map(drop) }
        })
        .buffer_unordered(CONCURRENCY)
        .try_collect::<()>()
        .await?;
    let gets = rate(count, began);

    let began = Instant::now();
    let listed = apis[0].list(&ListParams::default()).await?.items.len();
    let list = began.elapsed().as_secs_f64();
    let delays = watch(path, &apis[0], count.min(CHANGES)).await?;
    let middle = |of: usize| delays[(delays.len() - 1) * of / 100];
    let figures = json!({
        "creates_per_second": creates, "gets_per_second": gets, "listed": listed, "list_seconds": list,
        "event_ms_p50": middle(50), "event_ms_p99": middle(99), "events": delays.len(),
    });
    println!("{figures}");
    Ok(())
}

/// Creates idle pods, and waits until the node reports all of them as running.
async fn start_pods(path: &str, count: usize) -> Fallible<()> {
    let client = client(path).await?;
    make_namespace(&client).await?;
    let pods: Api<Pod> = Api::namespaced(client, NAMESPACE);
    let mut events = pods.watch(&WatchParams::default(), "0").await?.boxed();
    let began = Instant::now();
    let created = stream::iter(0..count)
        .map(|number| {
            let (pods, spec) = (pods.clone(), idle_pod(number));
            async move {
                pods.create(&PostParams::default(), &spec?).await?;
                Fallible::Ok(())
            }
        })
        .buffer_unordered(CONCURRENCY)
        .try_collect::<()>();
    let all_run = async {
        let mut running = HashSet::new();
        while running.len() < count {
            let event = tokio::time::timeout(LOST, events.try_next()).await??;
            let Some(WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else { continue };
            if pod.status.and_then(|status| status.phase).as_deref() == Some("Running") {
                running.extend(pod.metadata.name);
            }
        }
        Fallible::Ok(())
    };
    tokio::try_join!(created, all_run)?;
    println!("{}", json!({"pods": count, "seconds": began.elapsed().as_secs_f64()}));
    Ok(())
}

fn idle_pod(number: usize) -> Fallible<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": format!("idle-{number}")},
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
            "containers": [{"name": "idle", "image": "local", "command": ["sleep", "600"]}],
        },
    }))?)
}

fn rate(count: usize, began: Instant) -> f64 {
    count as f64 / began.elapsed().as_secs_f64()
}

async fn make_namespace(client: &Client) -> Fallible<()> {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &namespace).await?;
    Ok(())
}

/// Returns, for each watcher and change, the milliseconds from the request until the watcher has the event;
/// sorted.
async fn watch(path: &str, api: &Api<Pod>, changes: usize) -> Fallible<Vec<f64>> {
    let now = api.list_metadata(&ListParams::default().limit(1)).await?.metadata.resource_version;
    let now = now.unwrap_or_default();
    let (sender, mut seen) = mpsc::channel::<(String, Instant)>(WATCHERS * 2);
    for _ in 0..WATCHERS {
        // Each watcher has its own connection, like watchers in other processes.
        let pods: Api<Pod> = Api::namespaced(client(path).await?, NAMESPACE);
        let (sender, now) = (sender.clone(), now.clone());
        let mut events = pods.watch(&WatchParams::default(), &now).await?.boxed();
        tokio::spawn(async move {
            while let Ok(Some(event)) = events.try_next().await {
                let WatchEvent::Modified(pod) = event else { continue };
                let mark = pod.metadata.annotations.and_then(|mut notes| notes.remove("mark"));
                let _ = sender.send((mark.unwrap_or_default(), Instant::now())).await;
            }
        });
    }
    let mut delays = Vec::new();
    for change in 0..changes {
        let mark = change.to_string();
        let patch = json!({"metadata": {"annotations": {"mark": mark}}});
        let began = Instant::now();
        let name = format!("load-worker-{change}");
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        for _ in 0..WATCHERS {
            let told = tokio::time::timeout(LOST, seen.recv()).await?;
            let (found, at) = told.ok_or("the watchers have ended")?;
            if found == mark {
                delays.push(at.duration_since(began).as_secs_f64() * 1000.0);
            }
        }
    }
    // The pods stay, so that the server's memory can be measured.
    let _ = api.delete("load-worker-0", &DeleteParams::default().grace_period(0)).await?;
    delays.sort_by(f64::total_cmp);
    Ok(delays)
}
