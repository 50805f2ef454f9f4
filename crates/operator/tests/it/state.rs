//! The status: nothing is missed or lost, no matter who else writes it; and a job is deleted when its TTL is over.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use api::{AttemptOutcome, MPIJob};
use futures::StreamExt;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;

use crate::stage::{Stage, ended, job, running};

#[tokio::test]
async fn a_status_is_written_without_conflicts_beside_other_writers() {
    let stage = Stage::new().await;
    let operator = stage.operate();
    let names = ["a", "b", "c"];
    for name in names {
        stage.submit(&job(name, 2, json!({}))).await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (jobs, stopped) = (stage.api::<MPIJob>(), stop.clone());
    let writer = tokio::spawn(async move {
        let mut writes = 0_u32;
        while !stopped.load(Ordering::SeqCst) {
            for name in names {
                writes += 1;
                let note =
                    Patch::Merge(json!({ "metadata": { "annotations": { "note": writes.to_string() } } }));
                jobs.patch(name, &PatchParams::default(), &note).await.unwrap();
            }
            tokio::task::yield_now().await;
        }
        writes
    });
    for name in names {
        stage.bring_up(name, 2).await;
        stage.complete_launcher(name).await;
        stage.until_true(name, "Succeeded").await;
    }
    stop.store(true, Ordering::SeqCst);
    assert!(writer.await.unwrap() > 20, "the other writer was hardly there");
    assert_eq!(operator.gate.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn running_is_never_missed_though_a_job_ends_at_once() {
    const JOBS: usize = 12;
    let stage = Stage::new().await;
    let _operator = stage.operate();
    let seen = watcher(stage.api::<MPIJob>(), watcher::Config::default()).applied_objects();
    let watched = tokio::spawn(async move {
        let mut seen = std::pin::pin!(seen);
        let (mut ran, mut succeeded) = (BTreeSet::new(), 0);
        while succeeded < JOBS {
            let job = seen.next().await.unwrap().unwrap();
            let status = job.status.clone().unwrap_or_default();
            if plan::is_true(&status, "Running") {
                ran.insert(job.name_any());
            }
            succeeded += usize::from(plan::is_true(&status, "Succeeded"));
        }
        ran
    });
    for number in 0..JOBS {
        let name = format!("j{number}");
        stage.submit(&job(&name, 1, json!({}))).await;
        stage.start_worker(&name, 0).await;
        stage.start_launcher(&name).await;
        stage.complete_launcher(&name).await;
    }
    for number in 0..JOBS {
        stage.until_true(&format!("j{number}"), "Succeeded").await;
    }
    assert_eq!(watched.await.unwrap().len(), JOBS);
}

#[tokio::test]
async fn phases_of_the_start_and_attempts_ride_on_writes_that_happen_anyway() {
    let stage = Stage::new().await;
    let operator = stage.operate();
    stage.submit(&job("pi", 4, json!({}))).await;
    stage.bring_up("pi", 4).await;
    stage.complete_launcher("pi").await;
    let status = stage.until_true("pi", "Succeeded").await;
    let startup = status.startup.unwrap();
    let known = [&startup.queued, &startup.scheduled, &startup.pulled, &startup.ready, &startup.launched];
    assert!(known.iter().all(|time| time.is_some()), "{startup:?}");
    let [attempt] = &status.attempts[..] else { panic!("one attempt: {:?}", status.attempts) };
    assert_eq!((attempt.number, attempt.outcome), (1, AttemptOutcome::Succeeded));
    assert_eq!(
        (&attempt.start_time, &attempt.completion_time),
        (&status.start_time, &status.completion_time)
    );
    let is_status = |request: &&String| request.starts_with("PATCH") && request.ends_with("/status");
    let writes = operator.gate.requests().iter().filter(is_status).count();
    assert!(writes <= 3, "Created, Running, Succeeded: {:#?}", operator.gate.requests());
}

#[tokio::test]
async fn a_failed_attempt_records_its_cause_and_exit_code() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 2, json!({}))).await;
    stage.bring_up("pi", 2).await;
    stage.set_pod("pi-worker-1", ended("main", "Failed", 137)).await;
    let status = stage.until_true("pi", "Failed").await;
    let attempt = status.attempts.last().unwrap();
    assert_eq!((attempt.outcome, attempt.exit_code), (AttemptOutcome::Failed, Some(137)));
    assert_eq!(attempt.reason.as_deref(), Some("WorkerLost"));
}

#[tokio::test]
async fn a_job_goes_with_all_it_owns_when_its_ttl_is_over() {
    let stage = Stage::with_controllers().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 1, json!({ "ttlSecondsAfterFinished": 1 }))).await;
    stage.start_worker("pi", 0).await;
    let launcher = stage.launcher_pod("pi", &[]).await;
    stage.set_pod(&launcher, running("main")).await;
    stage.until_true("pi", "Running").await;
    stage.set_pod(&launcher, ended("main", "Succeeded", 0)).await;
    stage.until_true("pi", "Succeeded").await;
    stage.until_gone::<MPIJob>("pi").await;
    stage.until_gone::<Pod>("pi-worker-0").await;
    stage.until_gone::<Service>("pi").await;
    stage.until_gone::<ConfigMap>("pi-config").await;
}

#[tokio::test]
async fn a_launcher_that_its_ttl_removed_at_once_is_not_made_again() {
    let stage = Stage::new().await;
    let operator = stage.operate();
    stage.submit(&job("pi", 1, json!({ "ttlSecondsAfterFinished": 0 }))).await;
    stage.bring_up("pi", 1).await;
    stage.complete_launcher("pi").await;
    // As the TTL controller does, before any pass can read it.
    stage.api::<Job>().delete("pi-launcher", &kube::api::DeleteParams::background()).await.unwrap();
    stage.until_gone::<MPIJob>("pi").await;
    stage.until_event("pi", "MPIJobSucceeded").await;
    let made = |request: &&String| request.starts_with("POST") && request.ends_with("/jobs");
    assert_eq!(operator.gate.requests().iter().filter(made).count(), 1, "{:#?}", operator.gate.requests());
}
