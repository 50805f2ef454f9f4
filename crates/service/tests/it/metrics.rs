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

pub const METRICS: &str = "/api/v1/namespaces/team-cv/jobs/mpijob/a/metrics";

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

/// The series of a name.
fn series<'m>(metrics: &'m Value, name: &str) -> &'m Value {
    let found = metrics["training"].as_array().unwrap().iter().filter(|series| series["name"] == name);
    let found: Vec<&Value> = found.collect();
    assert!(found.len() <= 1, "one series of a name: {metrics:#}");
    found.first().copied().unwrap_or(&Value::Null)
}

/// The numbers of a series, with their steps.
pub fn points(metrics: &Value, name: &str) -> Vec<(Option<i64>, f64)> {
    let points = series(metrics, name)["points"].as_array().into_iter().flatten();
    points.map(|point| (point["step"].as_i64(), point["value"].as_f64().unwrap())).collect()
}

/// A query with a pattern.
pub fn with_pattern(pattern: &str) -> String {
    let pattern = percent_encoding::utf8_percent_encode(pattern, percent_encoding::NON_ALPHANUMERIC);
    format!("{METRICS}?pattern={pattern}")
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
            points(metrics, "loss").len() == minute && points(metrics, "progress").len() == minute
        })
        .await;
    }
    let expected = |name: &str, source: &str, values: &[f64]| {
        let texts: Vec<String> = values.iter().map(f64::to_string).collect();
        let points: Vec<Value> = (0..)
            .zip(values)
            .map(|(place, value)| json!({ "seconds": f64::from(place) * 60.0, "value": value }))
            .collect();
        json!({ "name": name, "source": source, "start": "2026-01-01T00:01:00Z", "seconds": [0, 60, 120],
            "values": texts, "points": points, "notFinite": 0 })
    };
    let seen = stage.get(METRICS, JANE).await.json();
    assert_eq!(*series(&seen, "loss"), expected("loss", "report", &[0.9, 0.5, 0.25]));
    assert_eq!(*series(&seen, "progress"), expected("progress", "report", &[10.0, 20.0, 30.0]));

    let line = |second: i64, text: &str| ("a-launcher-x".to_owned(), second, text.to_owned());
    stage.output(vec![
        line(60, "rate: 0.5"),
        line(90, "other"),
        line(120, "rate: 0.75 (best)"),
        line(180, "rate: 0.8"),
    ]);
    stage.pod(TEAM, "a", "launcher", "a-launcher-x").await;
    let found = stage.get(&with_pattern("rate: (?<rate>[0-9.]+)"), JANE).await.json();
    assert_eq!(*series(&found, "rate"), expected("rate", "pattern", &[0.5, 0.75, 0.8]), "{found:#}");
    let wrong = stage.get(&format!("{METRICS}?pattern=(loss"), JANE).await;
    assert_eq!((wrong.status, wrong.json()["fields"][0]["path"].clone()), (422, json!("pattern")));
    let large = stage.get(&with_pattern("(?<v>(?:[xy]?[xz]?){9000})"), JANE).await;
    assert_eq!(large.status, 422, "{}", large.text);
    assert!(large.text.contains("repeat fewer times"), "{}", large.text);
}

#[tokio::test]
async fn numbers_that_are_reported_and_printed_under_one_name_are_one_curve() {
    let stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    let line = |second: i64, text: &str| ("a-launcher-x".to_owned(), second, text.to_owned());
    stage.output(vec![
        line(60, "step=1 loss=0.9 lr=0.1"),
        line(120, "step=2 loss=0.8"),
        line(150, "step=3 loss=nan"),
        line(180, "step=4 loss=0.7"),
    ]);
    stage.pod(TEAM, "a", "launcher", "a-launcher-x").await;
    for (second, loss) in [(90, "0.85"), (240, "0.6")] {
        let at = Timestamp::from_second(1_767_225_600 + second).unwrap();
        let reported = json!({ "trainMetrics": { "loss": loss }, "lastUpdatedTime": at.to_string() });
        stage.annotate(TEAM, "a", ANNOTATION_TRAINER_STATUS, &reported.to_string()).await;
        until(&stage, METRICS, |metrics| series(metrics, "loss").is_object()).await;
    }
    let joined = [(Some(1), 0.9), (Some(2), 0.8), (Some(4), 0.7), (None, 0.6)];
    let seen = until(&stage, METRICS, |metrics| points(metrics, "loss") == joined).await;
    let loss = series(&seen, "loss");
    assert_eq!((&loss["source"], &loss["notFinite"]), (&json!("both"), &json!(1)));
    assert_eq!(loss["firstNotFinite"], "2026-01-01T00:02:30Z");
    assert_eq!(series(&seen, "learning_rate")["source"], "output");
}

#[tokio::test]
async fn a_list_has_the_known_values_of_its_jobs_metrics_without_reading_their_output() {
    let mut stage = Stage::new().await;
    for name in ["a", "b", "silent"] {
        stage.job(TEAM, name).await;
    }
    let line = |second: i64, text: &str| ("a-launcher-x".to_owned(), second, text.to_owned());
    stage.output(vec![line(1, "loss=0.75"), line(2, "loss=0.25"), line(3, "loss=nan"), line(4, "loss=0.5")]);
    stage.pod(TEAM, "a", "launcher", "a-launcher-x").await;
    let of_b = METRICS.replace("/a/", "/b/");
    for (place, accuracy) in [(1, "0.5"), (2, "0.875"), (3, "0.625")] {
        let reported = json!({ "progressPercentage": 10, "trainMetrics": { "accuracy": accuracy },
            "lastUpdatedTime": format!("2026-01-01T00:0{place}:00Z") });
        stage.annotate(TEAM, "b", ANNOTATION_TRAINER_STATUS, &reported.to_string()).await;
        until(&stage, &of_b, |metrics| points(metrics, "accuracy").len() == place).await;
    }
    let list = "/api/v1/jobs?namespace=team-cv&sort=name&metrics=true";
    let has_both = |list: &Value| list["metrics"].as_array().is_some_and(|all| all.len() == 2);
    let seen = until(&stage, list, |list| has_both(list) && list["metrics"][0]["last"] == json!(0.5)).await;
    let uid = |place: usize| seen["jobs"][place]["uid"].clone();
    let printed = json!({ "uid": uid(0), "name": "loss", "last": 0.5, "lowest": 0.25, "highest": 0.75, "notFinite": 1 });
    let reported = json!({ "uid": uid(1), "name": "accuracy", "last": 0.625, "lowest": 0.5, "highest": 0.875, "notFinite": 0 });
    assert_eq!((&seen["metrics"], &seen["notes"]), (&json!([printed, reported]), &json!([])));
    assert_eq!(stage.get("/api/v1/jobs?namespace=team-cv", JANE).await.json()["metrics"], json!([]));
    assert_eq!(stage.get("/api/v1/jobs?metrics=true", JOE).await.json()["metrics"], json!([]));
    // What was reported before the service saw the job may have been better.
    stage.output(Vec::new());
    stage.restart().await;
    let reported = json!({ "uid": uid(1), "name": "accuracy", "last": 0.625, "notFinite": 0 });
    let again = until(&stage, list, has_both).await;
    assert_eq!(again["metrics"], json!([printed, reported]));
}

#[tokio::test]
async fn printed_numbers_survive_their_pod_and_the_service_without_doubles_or_gaps() {
    let mut stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    let line = |pod: &str, step: i64| (pod.to_owned(), step, format!("step={step} loss={step}.5"));
    let steps = |steps: std::ops::RangeInclusive<i64>| -> Vec<(Option<i64>, f64)> {
        steps.map(|step| (Some(step), step as f64 + 0.5)).collect()
    };
    let own = with_pattern("loss=(?<own>[0-9.]+)");
    stage.output((1..=100).map(|step| line("a-launcher-x", step)).collect());
    stage.pod(TEAM, "a", "launcher", "a-launcher-x").await;
    until(&stage, METRICS, |metrics| points(metrics, "loss") == steps(1..=100)).await;
    // The node has only the end of the output any more, and another service reads it again.
    stage.output((90..=100).map(|step| line("a-launcher-x", step)).collect());
    stage.restart().await;
    let seen = stage.get(&own, JANE).await.json();
    assert_eq!(points(&seen, "loss"), steps(1..=100));
    assert_eq!(points(&seen, "own"), steps(1..=100));
    // The job's next attempt goes on.
    stage.delete_pod(TEAM, "a-launcher-x").await;
    stage.output((101..=120).map(|step| line("a-launcher-y", step)).collect());
    stage.pod(TEAM, "a", "launcher", "a-launcher-y").await;
    until(&stage, METRICS, |metrics| points(metrics, "loss") == steps(1..=120)).await;
    stage.delete_pod(TEAM, "a-launcher-y").await;
    stage.output(Vec::new());
    stage.restart().await;
    let seen = stage.get(&own, JANE).await.json();
    assert_eq!((points(&seen, "loss"), points(&seen, "own")), (steps(1..=120), steps(1..=120)), "{seen:#}");
    assert_eq!(stage.get(&own, JOE).await.status, 403);
}
