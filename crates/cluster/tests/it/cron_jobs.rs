//! CronJobs on a running server. A schedule of one minute that has passed is due at once if the status says that the
//! last run was before it, so that no test waits for the clock; only `@every 1s` does.
//!
//! The Jobs are suspended, or managed by the test: none has pods.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::{Client, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::control::{event, gone, make, start};
use crate::served::soon;

/// Returns the minute an hour ago.
fn past() -> Timestamp {
    let minute = (Timestamp::now() - 1.hour()).as_second() / 60;
    Timestamp::from_second(minute * 60).unwrap()
}

/// Returns a schedule of `time` and the same minute of other years.
fn once(time: Timestamp) -> String {
    let time = time.to_zoned(TimeZone::UTC);
    format!("{} {} {} {} *", time.minute(), time.hour(), time.day(), time.month())
}

fn job_spec() -> Value {
    json!({"suspend": true, "template": {"spec": {"restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i"}]}}})
}

async fn make_cron_job(client: &Client, name: &str, change: Value) -> CronJob {
    let mut spec = json!({"schedule": once(past()), "jobTemplate": {"metadata": {"labels": {"app": name}},
        "spec": job_spec()}});
    json_patch::merge(&mut spec, &change);
    make(&cron_jobs(client), json!({"metadata": {"name": name}, "spec": spec})).await
}

/// Creates a Job of a CronJob that no controller but the test manages.
async fn make_job(client: &Client, owner: &CronJob, name: &str) -> Job {
    let mut spec = job_spec();
    spec["managedBy"] = json!("example.com/test");
    let owners = [owner.controller_owner_ref(&()).unwrap()];
    make(&jobs(client), json!({"metadata": {"name": name, "ownerReferences": owners}, "spec": spec})).await
}

async fn complete(client: &Client, name: &str, started: Timestamp) {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "CompletionsReached"});
    let status = json!({"status": {"startTime": started, "completionTime": started + 1.minute(), "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]}});
    jobs(client).patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

/// Makes the run of `past` due, with these Jobs running.
async fn make_due(client: &Client, name: &str, active: &[ObjectReference]) {
    let status = json!({"status": {"active": active, "lastScheduleTime": past() - 1.hour()}});
    cron_jobs(client).patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

async fn resume(client: &Client, name: &str) {
    let change = Patch::Merge(json!({"spec": {"suspend": false}}));
    cron_jobs(client).patch(name, &PatchParams::default(), &change).await.unwrap();
}

fn cron_jobs(client: &Client) -> Api<CronJob> {
    Api::default_namespaced(client.clone())
}

fn jobs(client: &Client) -> Api<Job> {
    Api::default_namespaced(client.clone())
}

async fn names_of_jobs(client: &Client) -> Vec<String> {
    jobs(client).list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect()
}

/// Waits for a status of a CronJob.
async fn status(client: &Client, name: &str, fits: impl Fn(&CronJobStatus) -> bool) -> CronJobStatus {
    let holds = |found: Option<&CronJob>| found.and_then(|c| c.status.as_ref()).is_some_and(&fits);
    let found = soon(await_condition(cron_jobs(client), name, holds)).await.unwrap();
    found.unwrap().status.unwrap()
}

#[tokio::test]
async fn a_run_that_is_due_starts_one_job_which_goes_with_its_cron_job() {
    let (_served, client) = start().await;
    let owner = make_cron_job(&client, "nightly", json!({"timeZone": "Etc/UTC"})).await;
    make_due(&client, "nightly", &[]).await;
    let due = past();
    let found = status(&client, "nightly", |s| s.active.is_some()).await;
    let name = format!("nightly-{}", due.as_second() / 60);
    assert_eq!(found.last_schedule_time.unwrap().0, due);
    assert_eq!(found.active.unwrap()[0].name.as_ref(), Some(&name));
    assert_eq!(event(&client, "nightly", "SuccessfulCreate").await, format!("Created job {name}"));
    assert_eq!(names_of_jobs(&client).await, [name.as_str()]);
    let job = jobs(&client).get(&name).await.unwrap();
    assert_eq!(job.labels()["app"], "nightly");
    let time = &job.annotations()["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert_eq!(time.parse::<Timestamp>().unwrap(), due);
    assert_eq!(
        (&job.owner_references()[0].uid, job.owner_references()[0].controller),
        (&owner.uid().unwrap(), Some(true))
    );
    cron_jobs(&client).delete("nightly", &DeleteParams::default()).await.unwrap();
    gone(jobs(&client), &name).await;
}

#[tokio::test]
async fn the_clock_starts_a_job() {
    let (_served, client) = start().await;
    make_cron_job(&client, "often", json!({"schedule": "@every 1s"})).await;
    let found = status(&client, "often", |s| s.last_schedule_time.is_some()).await;
    assert!(found.last_schedule_time.unwrap().0 <= Timestamp::now());
    assert!(names_of_jobs(&client).await[0].starts_with("often-"));
}

#[tokio::test]
async fn a_suspended_cron_job_starts_nothing_until_it_is_resumed() {
    let (_served, client) = start().await;
    make_cron_job(&client, "later", json!({"suspend": true})).await;
    let name = Some("ghost".to_owned());
    make_due(&client, "later", &[ObjectReference { name, ..ObjectReference::default() }]).await;
    // The controller has looked at it since.
    assert_eq!(event(&client, "later", "MissingJob").await, "Active job went missing: ghost");
    status(&client, "later", |s| s.active.is_none()).await;
    assert!(names_of_jobs(&client).await.is_empty());
    resume(&client, "later").await;
    status(&client, "later", |s| s.active.is_some()).await;
}

#[tokio::test]
async fn a_running_job_delays_the_next_one_if_concurrency_is_forbidden() {
    let (_served, client) = start().await;
    let change = json!({"suspend": true, "concurrencyPolicy": "Forbid"});
    let owner = make_cron_job(&client, "alone", change).await;
    let earlier = make_job(&client, &owner, "earlier").await;
    make_due(&client, "alone", &[earlier.object_ref(&())]).await;
    resume(&client, "alone").await;
    let message = event(&client, "alone", "JobAlreadyActive").await;
    assert!(message.ends_with("concurrency policy is Forbid"), "{message}");
    assert_eq!(names_of_jobs(&client).await, ["earlier"]);
    complete(&client, "earlier", past()).await;
    let message = event(&client, "alone", "SawCompletedJob").await;
    assert_eq!(message, "Saw completed job: earlier, condition: Complete");
    let found = status(&client, "alone", |s| s.active.is_some() && s.last_successful_time.is_some()).await;
    assert!(found.active.unwrap()[0].name.as_deref().unwrap().starts_with("alone-"));
}

#[tokio::test]
async fn a_running_job_is_replaced() {
    let (_served, client) = start().await;
    let change = json!({"suspend": true, "concurrencyPolicy": "Replace"});
    let owner = make_cron_job(&client, "newest", change).await;
    let earlier = make_job(&client, &owner, "earlier").await;
    make_due(&client, "newest", &[earlier.object_ref(&())]).await;
    resume(&client, "newest").await;
    gone(jobs(&client), "earlier").await;
    assert_eq!(event(&client, "newest", "SuccessfulDelete").await, "Deleted job earlier");
    let is_new = |name: Option<&str>| name.is_some_and(|name| name.starts_with("newest-"));
    let active =
        |s: &CronJobStatus| s.active.iter().flatten().map(|r| is_new(r.name.as_deref())).collect::<Vec<_>>();
    status(&client, "newest", |s| active(s) == [true]).await;
}

#[tokio::test]
async fn the_history_of_jobs_is_limited() {
    let (_served, client) = start().await;
    let change = json!({"suspend": true, "successfulJobsHistoryLimit": 1});
    let owner = make_cron_job(&client, "brief", change).await;
    for (index, name) in ["first", "second", "third"].into_iter().enumerate() {
        make_job(&client, &owner, name).await;
        complete(&client, name, past() + i64::try_from(index).unwrap().minutes()).await;
    }
    gone(jobs(&client), "first").await;
    gone(jobs(&client), "second").await;
    assert_eq!(names_of_jobs(&client).await, ["third"]);
}
