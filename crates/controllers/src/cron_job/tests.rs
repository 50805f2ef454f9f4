//! Table tests of the CronJob controller's decisions: input is a CronJob, its Jobs and the time, output a line of text
//! per part of the plan.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::decide::{Memory, ObservedCronJob, Plan, decide};
use super::template;

/// Returns a time of the day of the tests.
fn at(time: &str) -> Timestamp {
    format!("2026-03-10T{time}Z").parse().unwrap()
}

/// Returns an hourly CronJob, created at midnight, with a changed spec and a status.
fn cron_job(spec: Value, status: Value) -> CronJob {
    let mut whole = json!({"schedule": "0 * * * *", "concurrencyPolicy": "Allow", "suspend": false,
        "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
        "jobTemplate": {"metadata": {"labels": {"app": "x"}, "annotations": {"a": "b"}},
            "spec": {"template": {"spec": {"containers": []}}}}});
    json_patch::merge(&mut whole, &spec);
    serde_json::from_value(json!({"metadata": {"name": "nightly", "namespace": "n", "uid": "cj-uid",
        "creationTimestamp": at("00:00:00")}, "spec": whole, "status": status}))
    .unwrap()
}

/// Parses `name state time…`: the state is Running, Complete or Failed, the times are its start and its end.
fn job(text: &str) -> Arc<Job> {
    let mut words = text.split(' ');
    let (name, state) = (words.next().unwrap(), words.next().unwrap());
    let mut status = json!({});
    for (field, time) in ["startTime", "completionTime"].iter().zip(words) {
        status[field] = json!(at(time));
    }
    if state != "Running" {
        status["conditions"] = json!([{"type": state, "status": "True"}]);
    }
    Arc::new(
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "n", "uid": format!("{name}-uid"),
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "cj-uid",
                "controller": true}]}, "status": status}))
        .unwrap(),
    )
}

fn active(names: &[&str]) -> Value {
    let reference = |name: &&str| json!({"name": name, "namespace": "n", "uid": format!("{name}-uid")});
    json!(names.iter().map(reference).collect::<Vec<_>>())
}

fn step(cron_job: &CronJob, jobs: &[&str], memory: &Memory, now: &str) -> Plan {
    let jobs: Vec<Arc<Job>> = jobs.iter().map(|text| job(text)).collect();
    decide(&ObservedCronJob { cron_job, jobs: &jobs, memory, now: at(now) })
}

fn lines(plan: &Plan) -> Vec<String> {
    let names = |references: &[ObjectReference]| -> String {
        references.iter().filter_map(|r| r.name.clone()).collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<String> = plan.prune.iter().map(|job| format!("prune {}", job.name_any())).collect();
    if !plan.replace.is_empty() {
        lines.push(format!("replace {}", names(&plan.replace)));
    }
    lines.extend(plan.start.map(|time| format!("start {}", time.strftime("%H:%M:%S"))));
    lines.extend(plan.status.active.as_ref().map(|active| format!("active {}", names(active))));
    let succeeded = plan.status.last_successful_time.as_ref();
    lines.extend(succeeded.map(|time| format!("succeeded {}", time.0.strftime("%H:%M:%S"))));
    lines.extend(plan.notes.iter().map(|note| {
        let kind = if note.warning { "Warning" } else { "Normal" };
        format!("{kind} {}: {}", note.reason, note.message)
    }));
    lines.extend(plan.again.map(|wait| format!("again in {wait:?}")));
    lines
}

/// Decides without a memory.
fn decided(spec: Value, status: Value, jobs: &[&str], now: &str) -> Vec<String> {
    lines(&step(&cron_job(spec, status), jobs, &Memory::default(), now))
}

#[test]
fn the_last_due_time_starts_one_job() {
    for (spec, status, now, expected) in [
        (json!({}), json!({}), "00:30:00", &["again in 1800.1s"][..]),
        (json!({}), json!({}), "01:00:05", &["start 01:00:00", "again in 3595.1s"]),
        // Of several missed times only the last one counts.
        (
            json!({}),
            json!({"lastScheduleTime": at("01:00:00")}),
            "05:10:00",
            &["start 05:00:00", "again in 3000.1s"],
        ),
        (json!({}), json!({"lastScheduleTime": at("05:00:00")}), "05:10:00", &["again in 3000.1s"]),
        // The Job of this time runs already.
        (
            json!({}),
            json!({"active": active(&["nightly-29551740"])}),
            "01:00:05",
            &["active nightly-29551740", "again in 3595.1s"],
        ),
        // It was created, but the status could not be written.
        (json!({}), json!({}), "01:00:06", &["start 01:00:00", "again in 3594.1s"]),
        (json!({"suspend": true}), json!({}), "05:10:00", &[]),
        (json!({"timeZone": "Asia/Kolkata"}), json!({}), "00:40:00", &["start 00:30:00", "again in 3000.1s"]),
        (json!({"schedule": "@every 90m"}), json!({}), "04:00:00", &["start 03:00:00", "again in 1800.1s"]),
        (
            json!({"schedule": "@every 90m"}),
            json!({"lastScheduleTime": at("03:00:00")}),
            "04:00:00",
            &["again in 1800.1s"],
        ),
        // The clock was set back.
        (json!({}), json!({"lastScheduleTime": at("09:00:00")}), "05:10:00", &["again in 17400.1s"]),
    ] {
        let is_created = !status["active"].is_null() || now == "01:00:06";
        let jobs: &[&str] = if is_created { &["nightly-29551740 Running"] } else { &[] };
        assert_eq!(decided(spec.clone(), status.clone(), jobs, now), expected, "{spec} {status} at {now}");
    }
}

#[test]
fn a_missed_deadline_is_reported_once() {
    let late = cron_job(json!({"startingDeadlineSeconds": 60}), json!({}));
    let plan = step(&late, &[], &Memory::default(), "02:05:00");
    let missed =
        "Warning MissSchedule: Missed scheduled time to start a job: Tue, 10 Mar 2026 02:00:00 +0000";
    assert_eq!(lines(&plan), [missed, "again in 3300.1s"]);
    let plan = step(&late, &[], &plan.memory, "02:06:00");
    assert_eq!(lines(&plan), ["again in 3240.1s"]);
    let plan = step(&late, &[], &plan.memory, "03:00:30");
    assert_eq!(lines(&plan), ["start 03:00:00", "again in 3570.1s"]);
    let endless = json!({"startingDeadlineSeconds": i64::MAX});
    assert_eq!(decided(endless, json!({}), &[], "01:30:00"), ["start 01:00:00", "again in 1800.1s"]);
}

#[test]
fn more_than_a_hundred_missed_times_are_reported() {
    let warning = "Warning TooManyMissedTimes: too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
    let minutely = json!({"schedule": "* * * * *"});
    assert_eq!(decided(minutely.clone(), json!({}), &[], "01:40:00"), ["start 01:40:00", "again in 60.1s"]);
    assert_eq!(decided(minutely, json!({}), &[], "01:41:00"), ["start 01:41:00", warning, "again in 60.1s"]);
    let bounded = json!({"schedule": "* * * * *", "startingDeadlineSeconds": 600});
    assert_eq!(decided(bounded, json!({}), &[], "01:41:00"), ["start 01:41:00", "again in 60.1s"]);
}

#[test]
fn the_concurrency_policy_decides_about_a_running_job() {
    let status = json!({"active": active(&["first"]), "lastScheduleTime": at("01:00:00")});
    let running = ["first Running 01:00:00"];
    for (policy, expected) in [
        ("Allow", &["start 02:00:00", "active first", "again in 3590.1s"][..]),
        ("Replace", &["replace first", "start 02:00:00", "active first", "again in 3590.1s"]),
        (
            "Forbid",
            &[
                "active first",
                "Normal JobAlreadyActive: Not starting job because prior execution is running and concurrency policy is Forbid",
                "again in 3590.1s",
            ],
        ),
    ] {
        let spec = json!({"concurrencyPolicy": policy});
        assert_eq!(decided(spec, status.clone(), &running, "02:00:10"), expected, "{policy}");
    }
    let forbids = cron_job(json!({"concurrencyPolicy": "Forbid"}), status);
    let plan = step(&forbids, &running, &Memory::default(), "02:00:10");
    let plan = step(&forbids, &running, &plan.memory, "02:01:10");
    assert_eq!(lines(&plan), ["active first", "again in 3530.1s"], "reported once");
    let plan = step(&forbids, &["first Complete 01:00:00 02:02:00"], &plan.memory, "02:02:10");
    let seen = "Normal SawCompletedJob: Saw completed job: first, condition: Complete";
    assert_eq!(lines(&plan), ["start 02:00:00", "succeeded 02:02:00", seen, "again in 3470.1s"]);
}

#[test]
fn the_status_follows_the_jobs() {
    let status = json!({"active": active(&["a", "b", "gone"]), "lastScheduleTime": at("05:00:00"),
        "lastSuccessfulTime": at("04:00:00")});
    let jobs = ["a Running 05:00:00", "b Failed 05:00:00", "c Complete 03:00:00 03:30:00", "d Running"];
    let watched = cron_job(json!({}), status);
    let plan = step(&watched, &jobs, &Memory::default(), "05:10:00");
    let missing = "Normal MissingJob: Active job went missing: gone";
    let failed = "Normal SawCompletedJob: Saw completed job: b, condition: Failed";
    let unexpected = "Warning UnexpectedJob: Saw a job that the controller did not create or forgot: d";
    let expected = ["active a", "succeeded 04:00:00", failed, missing, unexpected, "again in 3000.1s"];
    assert_eq!(lines(&plan), expected);
    let deleted = CronJob {
        metadata: serde_json::from_value(json!({"name": "nightly", "deletionTimestamp": at("05:05:00")}))
            .unwrap(),
        ..cron_job(json!({}), json!({"active": active(&["a"])}))
    };
    let plan = step(&deleted, &["a Complete 01:00:00 05:00:00"], &Memory::default(), "05:10:00");
    let seen = "Normal SawCompletedJob: Saw completed job: a, condition: Complete";
    assert_eq!(lines(&plan), ["succeeded 05:00:00", seen], "only its status is kept up to date");
}

#[test]
fn the_oldest_finished_jobs_are_removed() {
    let jobs = [
        "s1 Complete 04:00:00",
        "s2 Complete 01:00:00",
        "s3 Complete 02:00:00",
        "s4 Complete 03:00:00",
        "s5 Complete",
        "f1 Failed 02:00:00",
        "f2 Failed 01:00:00",
        "r Running 00:00:00",
    ];
    let pruned = |spec: Value| -> Vec<String> {
        let plan = step(&cron_job(spec, json!({})), &jobs, &Memory::default(), "00:30:00");
        plan.prune.iter().map(|job| job.name_any()).collect()
    };
    assert_eq!(pruned(json!({})), ["s2", "s3", "f2"]);
    assert_eq!(
        pruned(json!({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 2})),
        ["s2", "s3", "s4", "s1", "s5"]
    );
    assert_eq!(
        pruned(json!({"successfulJobsHistoryLimit": null, "failedJobsHistoryLimit": null})),
        Vec::<String>::new()
    );
}

#[test]
fn a_schedule_applies_from_its_change_on() {
    let before = step(&cron_job(json!({}), json!({})), &[], &Memory::default(), "00:45:00");
    let changed = cron_job(json!({"schedule": "30 * * * *"}), json!({}));
    let plan = step(&changed, &[], &before.memory, "00:50:00");
    assert_eq!(lines(&plan), ["again in 2400.1s"], "00:30 was no time of the schedule then");
    let plan = step(&changed, &[], &plan.memory, "01:30:00");
    assert_eq!(lines(&plan), ["start 01:30:00", "again in 3600.1s"]);
}

#[test]
fn a_schedule_that_cannot_be_followed_is_reported() {
    for (spec, expected) in [
        (
            json!({"timeZone": "Mars/Phobos"}),
            "Warning UnknownTimeZone: invalid timeZone: \"Mars/Phobos\": unknown time zone Mars/Phobos",
        ),
        (
            json!({"schedule": "0 * * *"}),
            "Warning UnparseableSchedule: unparseable schedule: \"0 * * *\" : expected exactly 5 fields, found 4: [0 * * *]",
        ),
        (
            json!({"schedule": "59 23 31 2 *"}),
            "Warning InvalidSchedule: invalid schedule: 59 23 31 2 * : time difference between two schedules is less than 1 second",
        ),
    ] {
        assert_eq!(decided(spec, json!({}), &[], "05:00:00"), [expected]);
    }
}

#[test]
fn a_job_is_named_and_annotated_with_its_time() {
    let berlin = cron_job(json!({"timeZone": "Europe/Berlin"}), json!({}));
    let made = template::job(&berlin, at("01:00:00"));
    assert_eq!(
        serde_json::to_value(&made).unwrap(),
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "nightly-29551740", "namespace": "n",
            "labels": {"app": "x"},
            "annotations": {"a": "b", "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-03-10T02:00:00+01:00"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "cj-uid",
                "controller": true, "blockOwnerDeletion": true}]},
            "spec": {"template": {"spec": {"containers": []}}}})
    );
    assert_eq!(
        template::owner(&made.metadata).map(|(key, uid)| (key.to_string(), uid)),
        Some(("n/nightly".into(), "cj-uid".into()))
    );
    let london = template::job(&cron_job(json!({"timeZone": "Europe/London"}), json!({})), at("01:00:00"));
    assert_eq!(
        london.annotations()["batch.kubernetes.io/cronjob-scheduled-timestamp"],
        "2026-03-10T01:00:00Z"
    );
}
