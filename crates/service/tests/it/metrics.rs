//! A job's metrics over time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cluster::apiserver::kubelet::{Kubelet, LogError, LogRequest, LogStream, NodeUsage, PodUsage, Used};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use jobs::view::ANNOTATION_TRAINER_STATUS;
use serde_json::{Value, json};
use service::Settings;

use crate::stage::{JANE, JOE, PATIENCE, Stage, TEAM};

const METRICS: &str = "/api/v1/namespaces/team-cv/jobs/mpijob/a/metrics";

/// Asks until the metrics are as wanted.
async fn until(stage: &Stage, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let asked = async {
        loop {
            let metrics = stage.get(path, JANE).await.json();
            if wanted(&metrics) {
                return metrics;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap()
}

#[tokio::test]
async fn cpu_and_memory_of_each_pod_are_sampled_while_the_job_runs() {
    let settings =
        Settings { sample: Duration::from_millis(50), rate: 10_000, burst: 10_000, ..Settings::default() };
    let stage = Stage::with(settings).await;
    stage.job(TEAM, "a").await;
    for (role, name) in [("launcher", "a-launcher-x"), ("worker", "a-worker-1")] {
        stage.pod(TEAM, "a", role, name).await;
    }
    stage.uses(TEAM, &[("a-launcher-x", 20_000_000, 64 << 20), ("a-worker-1", 1_500_000_000, 2 << 30)]).await;
    let idle = stage.get(METRICS, JANE).await.json();
    assert_eq!(idle["pods"], json!([]), "nothing is sampled before it runs");
    stage.status(TEAM, "a", json!({ "phase": "Running" })).await;
    let seen = until(&stage, METRICS, |metrics| {
        metrics["pods"]
            .as_array()
            .is_some_and(|pods| pods.len() == 2 && pods[1]["seconds"].as_array().unwrap().len() > 1)
    })
    .await;
    let worker = &seen["pods"][1];
    assert_eq!(
        (&worker["name"], &worker["role"], &worker["index"]),
        (&json!("a-worker-1"), &json!("Worker"), &json!(1))
    );
    assert_eq!((&worker["cpuMillis"][0], &worker["memoryMib"][0]), (&json!(1500), &json!(2048)));
    assert_eq!(seen["pods"][0]["role"], "Launcher");
    let note = "Network: no telemetry; the service is not connected to a Prometheus";
    assert_eq!(seen["notes"], json!([note]), "a job without GPUs lacks no telemetry of them");
    assert_eq!(stage.get(METRICS, JOE).await.status, 403);
}

/// A node whose pod receives a MiB, and sends half as much, each time that somebody looks.
struct Busy {
    pod: PodUsage,
    looks: AtomicU64,
}

impl Kubelet for Busy {
    fn usage(&self, _node: &str) -> BoxFuture<'_, Option<NodeUsage>> {
        let received = (self.looks.fetch_add(1, Ordering::Relaxed) + 1) << 20;
        let pod = PodUsage { traffic: Some((received, received / 2)), ..self.pod.clone() };
        let (time, window, node) = (Timestamp::now(), Duration::from_secs(15), Used::default());
        async move { Some(NodeUsage { time, window, node, pods: vec![pod] }) }.boxed()
    }

    fn logs(&self, _request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        async { Err(LogError::NotFound("nothing".to_owned())) }.boxed()
    }
}

#[tokio::test]
async fn the_network_traffic_of_pods_comes_from_their_node_where_it_may_be_asked() {
    for asks_nodes in [true, false] {
        let sample = Duration::from_millis(50);
        let settings = Settings { sample, asks_nodes, rate: 10_000, burst: 10_000, ..Settings::default() };
        let stage = Stage::with(settings).await;
        stage.allow_everywhere(include_str!("../../../cli/src/local/node-reader-role.yaml")).await;
        stage.job(TEAM, "a").await;
        stage.pod(TEAM, "a", "worker", "a-worker-0").await;
        let containers = vec![("main".to_owned(), Used::default())];
        let (namespace, name) = (TEAM.to_owned(), "a-worker-0".to_owned());
        let uid = stage.uid_of_pod(TEAM, "a-worker-0").await;
        let pod = PodUsage { namespace, name, uid, containers, traffic: None };
        stage.node(Arc::new(Busy { pod, looks: AtomicU64::new(0) })).await;
        stage.status(TEAM, "a", json!({ "phase": "Running" })).await;
        let seen = until(&stage, METRICS, |metrics| {
            let points = |series: &Value| series["seconds"].as_array().map_or(0, Vec::len);
            let pod = &metrics["pods"][0];
            points(pod) > 2 && (!asks_nodes || points(&pod["measured"][1]) > 1)
        })
        .await;
        let summaries = stage.requests().iter().filter(|request| request.ends_with("/stats/summary")).count();
        if !asks_nodes {
            assert_eq!((summaries, &seen["pods"][0]["measured"]), (0, &json!([])));
            continue;
        }
        let [received, sent] = [0, 1].map(|place| seen["pods"][0]["measured"][place].clone());
        let head = |series: &Value| (series["name"].clone(), series["source"].clone());
        assert_eq!(head(&received), (json!("networkReceivedKib"), json!("node")));
        assert_eq!(head(&sent), (json!("networkSentKib"), json!("node")));
        let value = |series: &Value| series["values"][1].as_i64().unwrap();
        assert!(value(&sent) > 0 && (value(&received) - 2 * value(&sent)).abs() <= 2, "{received} {sent}");
        assert_eq!(seen["notes"], json!([]), "nothing is missing");
    }
}

#[tokio::test]
async fn a_training_reports_its_progress_and_patterns_find_more() {
    let stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    for (minute, loss) in [(1, "0.9"), (2, "0.5"), (3, "0.25")] {
        let reported = json!({ "progressPercentage": minute * 10, "trainMetrics": { "loss": loss },
            "lastUpdatedTime": format!("2026-01-01T00:0{minute}:00Z") });
        stage.annotate(TEAM, "a", ANNOTATION_TRAINER_STATUS, &reported.to_string()).await;
        until(&stage, METRICS, |metrics| {
            let values = |at: usize| metrics["training"][at]["values"].as_array().map_or(0, Vec::len);
            values(0) == minute && values(1) == minute
        })
        .await;
    }
    let series = |name: &str, source: &str, values: &[&str]| {
        json!({ "name": name, "source": source,
        "start": "2026-01-01T00:01:00Z", "seconds": [0, 60, 120], "values": values })
    };
    let seen = stage.get(METRICS, JANE).await.json();
    assert_eq!(seen["training"][0], series("loss", "report", &["0.9", "0.5", "0.25"]));
    assert_eq!(seen["training"][1], series("progress", "report", &["10", "20", "30"]));

    let line = |second: i64, text: &str| ("a-launcher-x".to_owned(), second, text.to_owned());
    stage.output(vec![
        line(60, "acc=0.5"),
        line(90, "other"),
        line(120, "acc=0.75 (best)"),
        line(180, "acc=0.8"),
    ]);
    stage.pod(TEAM, "a", "launcher", "a-launcher-x").await;
    let path = format!("{METRICS}?pattern=acc%3D(%3F%3Caccuracy%3E%5B0-9.%5D%2B)");
    let found = stage.get(&path, JANE).await.json();
    assert_eq!(found["training"][2], series("accuracy", "pattern", &["0.5", "0.75", "0.8"]), "{found:#}");
    let wrong = stage.get(&format!("{METRICS}?pattern=(loss"), JANE).await;
    assert_eq!((wrong.status, wrong.json()["fields"][0]["path"].clone()), (422, json!("pattern")));
}
