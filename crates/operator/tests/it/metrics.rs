//! The operator's metrics, read as a scraper reads them.

use std::sync::Arc;
use std::time::Duration;

use api::MPIJob;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::api::DeleteParams;
use operator::monitor::{Access, Reviewer, answer_metrics};
use operator::{Format, Vitals};
use prometheus_parse::{Sample, Scrape, Value};
use serde_json::json;

use crate::stage::{Stage, ended, job};

/// How long a test waits for a figure.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the test reads it.
const LOOK_EVERY: Duration = Duration::from_millis(20);

fn scrape(vitals: &Vitals) -> Vec<Sample> {
    let shown = vitals.metrics.show(Format::Text).unwrap();
    Scrape::parse(shown.lines().map(|line| Ok(line.to_owned()))).unwrap().samples
}

/// Returns the value of the only series with this name and these labels.
fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let wanted = |sample: &&Sample| {
        sample.metric == name && labels.iter().all(|(label, value)| sample.labels.get(label) == Some(*value))
    };
    samples.iter().find(wanted).map(|sample| match &sample.value {
        Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => *value,
        Value::Histogram(buckets) => buckets.last().unwrap().count,
        Value::Summary(_) => panic!("there are no summaries"),
    })
}

async fn until(vitals: &Vitals, name: &str, labels: &[(&str, &str)], wanted: Option<f64>) {
    let found = async {
        while value(&scrape(vitals), name, labels) != wanted {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let shown = || vitals.metrics.show(Format::Text).unwrap();
    tokio::time::timeout(PATIENCE, found)
        .await
        .unwrap_or_else(|_| panic!("{name} {labels:?} never was {wanted:?}:\n{}", shown()));
}

#[tokio::test]
async fn metrics_follow_the_life_of_jobs_and_go_with_them() {
    let stage = Stage::new().await;
    let operator = stage.operate();
    let vitals = &operator.vitals;
    stage.submit(&job("pi", 2, json!({}))).await;
    until(vitals, "mpi_operator_jobs", &[("namespace", "team"), ("phase", "Pending")], Some(1.0)).await;
    stage.bring_up("pi", 2).await;
    until(vitals, "mpi_operator_jobs", &[("phase", "Running")], Some(1.0)).await;
    until(vitals, "mpi_operator_workers", &[("state", "running")], Some(2.0)).await;
    until(vitals, "mpi_operator_job_info", &[("launcher", "pi-launcher"), ("namespace", "team")], Some(1.0))
        .await;
    stage.complete_launcher("pi").await;
    stage.submit(&job("bad", 1, json!({}))).await;
    stage.bring_up("bad", 1).await;
    stage.set_pod("bad-worker-0", ended("main", "Failed", 137)).await;
    until(vitals, "mpi_operator_jobs_failed_total", &[], Some(1.0)).await;
    let status = stage.until_true("bad", "Failed").await;
    let cause = status.failure.unwrap().reason;
    until(vitals, "mpi_operator_job_failures_total", &[("cause", &cause)], Some(1.0)).await;
    until(vitals, "mpi_operator_jobs_created_total", &[], Some(2.0)).await;
    until(vitals, "mpi_operator_jobs_successful_total", &[], Some(1.0)).await;
    until(vitals, "mpi_operator_queue_depth", &[], Some(0.0)).await;
    let samples = scrape(vitals);
    for stage in ["queued", "start", "launched", "run"] {
        let seen = value(&samples, "mpi_operator_job_stage_duration_seconds", &[("stage", stage)]);
        assert_eq!(seen, Some(2.0), "{stage}");
    }
    let call = [("verb", "create"), ("resource", "pods"), ("code", "201")];
    assert_eq!(value(&samples, "mpi_operator_api_requests_total", &call), Some(3.0));
    let passes = value(&samples, "mpi_operator_reconcile_duration_seconds", &[("outcome", "success")]);
    assert!(passes.is_some_and(|passes| passes >= 4.0), "{passes:?}");
    for name in ["pi", "bad"] {
        stage.api::<MPIJob>().delete(name, &DeleteParams::default()).await.unwrap();
    }
    until(vitals, "mpi_operator_job_info", &[], None).await;
    until(vitals, "mpi_operator_jobs", &[], None).await;
    until(vitals, "mpi_operator_workers", &[], None).await;
}

#[tokio::test]
async fn jobs_of_another_manager_and_jobs_that_cannot_run_are_not_counted() {
    let stage = Stage::new().await;
    let operator = stage.operate();
    let vitals = &operator.vitals;
    stage.submit(&job("elsewhere", 1, json!({ "managedBy": "kueue.x-k8s.io/multikueue" }))).await;
    let mut bad = job("bad", 1, json!({}));
    bad["metadata"]["annotations"] = json!({ api::ANNOTATION_START_TIMEOUT: "soon" });
    stage.submit(&bad).await;
    until(vitals, "mpi_operator_jobs", &[("phase", "Failed")], Some(1.0)).await;
    let samples = scrape(vitals);
    assert_eq!(value(&samples, "mpi_operator_jobs", &[("phase", "Pending")]), None);
    assert_eq!(value(&samples, "mpi_operator_jobs_failed_total", &[]), Some(0.0));
    assert_eq!(value(&samples, "mpi_operator_job_failures_total", &[]), None);
    assert_eq!(value(&samples, "mpi_operator_job_info", &[]), None, "neither has a Launcher");
    stage.submit(&job("later", 1, json!({}))).await;
    stage.bring_up("later", 1).await;
    until(vitals, "mpi_operator_job_info", &[("launcher", "later-launcher")], Some(1.0)).await;
    assert_eq!(value(&scrape(vitals), "mpi_operator_jobs_created_total", &[]), Some(1.0));
}

#[tokio::test]
async fn a_status_that_cannot_be_written_counts_nothing() {
    let stage = Stage::new().await;
    // The first failed write is an event, the second the status. So the job's creation is counted only by the
    // second operator, which writes it.
    let cut = crate::gate::Cut { at: 1, committed: false };
    let operator = stage.operate_behind(crate::gate::Gate::new(Some(cut)));
    stage.submit(&job("pi", 1, json!({}))).await;
    until(&operator.vitals, "mpi_operator_jobs", &[("phase", "Pending")], Some(1.0)).await;
    operator.gate.closed.notified().await;
    let errors = [("outcome", "error")];
    until(&operator.vitals, "mpi_operator_reconcile_duration_seconds", &errors, Some(1.0)).await;
    assert_eq!(value(&scrape(&operator.vitals), "mpi_operator_jobs_created_total", &[]), Some(0.0));
}

#[tokio::test]
async fn metrics_are_shown_to_those_whose_token_may_read_them() {
    let stage = Stage::new().await;
    let vitals = Vitals::default();
    let access = Arc::new(Access::Reviewed(Box::new(Reviewer::new(stage.client.clone()))));
    let ask = async |path: &str, token: Option<&str>| {
        let mut request = Request::get(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let answer = answer_metrics(vitals.clone(), access.clone(), request.body(()).unwrap()).await;
        let status = answer.status();
        (status, answer.into_body().collect().await.unwrap().to_bytes())
    };
    assert_eq!(ask("/metrics", None).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(ask("/metrics", Some("wrong")).await.0, StatusCode::FORBIDDEN);
    assert_eq!(ask("/else", Some("token")).await.0, StatusCode::NOT_FOUND);
    for _again_from_memory in 0..2 {
        let (status, body) = ask("/metrics", Some("token")).await;
        assert_eq!(status, StatusCode::OK);
        assert!(String::from_utf8_lossy(&body).contains("mpi_operator_is_leader 0"));
    }
}
