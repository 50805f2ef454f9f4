//! How long many pods take from their creation until all of them run: `cargo run --example starts -- [PODS] [MODE]`.
//!
//! The whole way: created over the API by the in-process client, placed by the scheduler, run by the node. Pods are
//! single processes that sleep. Prints the phases' times; the sandbox is this very program.
#![expect(clippy::print_stdout, reason = "a measurement's outcome is its output")]

use std::time::{Duration, Instant};

use cluster::node::ModeChoice;
use cluster::{Cluster, Options};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;

/// Requests at a time.
const CONCURRENCY: usize = 16;
/// How long to wait at most.
const BOUND: Duration = Duration::from_secs(120);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "__sandbox") {
        cluster::node::sandbox_main();
        return Ok(());
    }
    let count = arguments.first().map_or(Ok(200), |text| text.parse())?;
    let mode = match arguments.get(1).map(String::as_str) {
        None => ModeChoice::Auto,
        Some("rootless") => ModeChoice::Rootless,
        Some("root") => ModeChoice::Root,
        Some(_) => ModeChoice::Plain,
    };
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure(count, mode))
}

async fn measure(count: usize, mode: ModeChoice) -> Result<(), Box<dyn std::error::Error>> {
    let state = tempfile::tempdir()?;
    let mut options = Options::new(state.path().join("cluster"));
    options.mode = mode;
    options.sandbox_program = vec![std::env::current_exe()?.into(), "__sandbox".into()];
    let began = Instant::now();
    let cluster = Cluster::start(options).await?;
    let kind = cluster.mode().map(|mode| mode.kind.to_string()).unwrap_or_default();
    println!("mode {kind}: served after {:?}", began.elapsed());
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let began = Instant::now();
    let create = |number: usize| {
        let pods = pods.clone();
        async move {
            let pod = serde_json::from_value(json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{number}")},
                "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "main", "image": "i", "command": ["sleep", "600"]}]}}));
            pods.create(&PostParams::default(), &pod?).await?;
            Ok::<(), Box<dyn std::error::Error>>(())
        }
    };
    let mut made = stream::iter((0..count).map(create)).buffer_unordered(CONCURRENCY);
    while let Some(outcome) = made.next().await {
        outcome?;
    }
    println!("{count} pods created after {:?}", began.elapsed());
    loop {
        let all = pods.list(&ListParams::default()).await?;
        let running =
            |pod: &&Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        let running = all.items.iter().filter(running).count();
        if running == count {
            break;
        }
        if began.elapsed() > BOUND {
            return Err(format!("only {running} of {count} pods run after {BOUND:?}").into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("{count} pods run after {:?}", began.elapsed());
    cluster.stop().await;
    Ok(())
}
