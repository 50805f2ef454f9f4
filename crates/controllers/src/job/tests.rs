//! Table tests of the Job controller's decisions: input is a Job and its pods, output a line of text per part of the
//! plan.

use std::fmt::Write as _;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::backoff::Backoff;
use super::decide::{ObservedJob, Plan, decide};
use super::template;

const NOW: i64 = 1_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn job(spec: Value, status: Value) -> Job {
    let mut whole = json!({"parallelism": 1, "completions": 1, "backoffLimit": 6,
        "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"restartPolicy": "Never",
            "containers": [{"name": "c"}], "initContainers": [{"name": "i"}]}}});
    json_patch::merge(&mut whole, &spec);
    serde_json::from_value(json!({"metadata": {"name": "train", "namespace": "n", "uid": "job-uid"},
        "spec": whole, "status": status}))
    .unwrap()
}

/// Parses `name phase flags…`: t has the tracking finalizer, d deleted, r ready, `i3` index 3, `x7` ended with exit
/// code 7 10 s ago, `R2` restarted twice.
fn pod(text: &str) -> Arc<Pod> {
    let mut words = text.split(' ');
    let (name, phase) = (words.next().unwrap(), words.next().unwrap());
    let mut metadata = json!({"name": name, "namespace": "n", "uid": format!("{name}-uid")});
    let mut status = json!({"phase": phase, "containerStatuses": []});
    let ended = at(NOW - 10).to_string();
    for word in words {
        match word.split_at(1) {
            ("t", "") => metadata["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]),
            ("d", "") => metadata["deletionTimestamp"] = json!(ended),
            ("r", "") => status["conditions"] = json!([{"type": "Ready", "status": "True"}]),
            ("D", "") => status["conditions"] = json!([{"type": "DisruptionTarget", "status": "True"}]),
            ("i", index) => {
                metadata["annotations"] = json!({"batch.kubernetes.io/job-completion-index": index});
            }
            ("x", code) => {
                let state =
                    json!({"terminated": {"exitCode": code.parse::<i32>().unwrap(), "finishedAt": ended}});
                status["containerStatuses"] = json!([{"name": "c", "image": "", "imageID": "", "ready": false,
                    "restartCount": 0, "state": state}]);
            }
            ("R", count) => {
                status["containerStatuses"] = json!([{"name": "c", "image": "", "imageID": "", "ready": false,
                    "restartCount": count.parse::<i32>().unwrap()}]);
            }
            other => panic!("{other:?}"),
        }
    }
    Arc::new(
        serde_json::from_value(json!({"metadata": metadata, "status": status, "spec": {"containers": []}}))
            .unwrap(),
    )
}

fn status_text(status: &JobStatus) -> String {
    let mut text = String::new();
    for (label, value) in [
        ("active", status.active),
        ("ready", status.ready),
        ("terminating", status.terminating),
        ("succeeded", status.succeeded),
        ("failed", status.failed),
    ] {
        if let Some(value) = value.filter(|v| *v != 0) {
            write!(text, "{label}={value} ").unwrap();
        }
    }
    if let Some(indexes) = &status.completed_indexes {
        write!(text, "indexes={indexes} ").unwrap();
    }
    let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
    for (label, list) in [("+succeeded", uncounted.succeeded), ("+failed", uncounted.failed)] {
        if let Some(list) = list {
            write!(text, "{label}={} ", list.join(",")).unwrap();
        }
    }
    for condition in status.conditions.iter().flatten() {
        let sign = if condition.status == "True" { "" } else { "!" };
        write!(text, "{sign}{}({}) ", condition.type_, condition.reason.as_deref().unwrap()).unwrap();
    }
    if let Some(start) = &status.start_time {
        write!(text, "start={} ", start.0.as_second()).unwrap();
    }
    if status.completion_time.is_some() {
        text.push_str("completed ");
    }
    text.trim_end().to_owned()
}

fn plan_text(plan: &Plan) -> String {
    let mut parts = Vec::new();
    if !plan.create.is_empty() {
        let indexes: Vec<String> =
            plan.create.iter().map(|i| i.map_or_else(|| "_".to_owned(), |i| i.to_string())).collect();
        parts.push(format!("create {}", indexes.join(",")));
    }
    for deletion in &plan.delete {
        parts.push(format!("{} {}", if deletion.forget { "forget" } else { "delete" }, deletion.name));
    }
    if !plan.release.is_empty() {
        parts.push(format!("release {}", plan.release.join(",")));
    }
    if let Some(again) = plan.again {
        parts.push(format!("again in {}s", again.as_secs()));
    }
    for note in &plan.notes {
        parts.push(format!("{}{}", if note.warning { "!" } else { "" }, note.reason));
    }
    parts.push(plan.status.as_ref().map_or_else(|| "no status".into(), status_text));
    parts.join("; ")
}

struct Case {
    name: &'static str,
    spec: Value,
    status: Value,
    pods: &'static [&'static str],
    backoff: Option<Backoff>,
    expected: &'static str,
}

fn check(cases: Vec<Case>) {
    for case in cases {
        let job = job(case.spec, case.status);
        let pods: Vec<_> = case.pods.iter().map(|text| pod(text)).collect();
        let plan = decide(&ObservedJob { job: &job, pods: &pods, backoff: case.backoff, now: at(NOW) });
        assert_eq!(plan_text(&plan), case.expected, "{}", case.name);
    }
}

fn case(
    name: &'static str,
    spec: Value,
    status: Value,
    pods: &'static [&'static str],
    expected: &'static str,
) -> Case {
    Case { name, spec, status, pods, backoff: Some(Backoff::default()), expected }
}

#[test]
fn pods_are_created_up_to_parallelism_and_completions() {
    let started = || json!({"startTime": at(900).to_string()});
    check(vec![
        case("a new job", json!({}), json!({}), &[], "create _; active=1 start=1000"),
        case(
            "two at once",
            json!({"parallelism": 2, "completions": 3}),
            started(),
            &["a Running t r"],
            "create _; active=2 ready=1 start=900",
        ),
        case(
            "no more than are left",
            json!({"parallelism": 4, "completions": 3}),
            json!({"succeeded": 2, "startTime": at(900).to_string()}),
            &[],
            "create _; active=1 succeeded=2 start=900",
        ),
        case("parallelism 0 waits", json!({"parallelism": 0}), started(), &[], "start=900"),
        case(
            "a work queue fills up",
            json!({"parallelism": 2, "completions": null}),
            started(),
            &["a Running t"],
            "create _; active=2 start=900",
        ),
        case(
            "a work queue drains after a success",
            json!({"parallelism": 2, "completions": null}),
            started(),
            &["a Running t", "b Succeeded t x0"],
            "release b; active=1 +succeeded=b-uid start=900",
        ),
        case(
            "too many: the pod not yet running goes",
            json!({"parallelism": 1, "completions": 5}),
            started(),
            &["a Running t r", "b Pending t"],
            "forget b; active=1 ready=1 terminating=1 start=900",
        ),
        case(
            "another controller's",
            json!({"managedBy": "kueue.x-k8s.io/multikueue"}),
            json!({}),
            &[],
            "no status",
        ),
        case(
            "not supported is said",
            json!({"backoffLimitPerIndex": 1, "completionMode": "Indexed"}),
            json!({}),
            &[],
            "!NotSupported; no status",
        ),
    ]);
}

#[test]
fn ends_are_counted_once_in_three_steps() {
    let spec = || json!({"completions": 2, "parallelism": 1});
    check(vec![
        case(
            "entered first",
            spec(),
            json!({"startTime": at(900).to_string()}),
            &["a Succeeded t x0"],
            "create _; release a; active=1 +succeeded=a-uid start=900",
        ),
        case(
            "kept while the finalizer is on",
            spec(),
            json!({"uncountedTerminatedPods": {"succeeded": ["a-uid"]}, "startTime": at(900).to_string(), "active": 1}),
            &["a Succeeded t x0", "b Running t"],
            "release a; active=1 +succeeded=a-uid start=900",
        ),
        case(
            "counted when it is off",
            spec(),
            json!({"uncountedTerminatedPods": {"succeeded": ["a-uid"]}, "startTime": at(900).to_string(), "active": 1}),
            &["a Succeeded x0", "b Running t"],
            "active=1 succeeded=1 start=900",
        ),
        case(
            "counted when the pod is gone",
            spec(),
            json!({"uncountedTerminatedPods": {"succeeded": ["a-uid"]}, "startTime": at(900).to_string(), "active": 1}),
            &["b Running t"],
            "active=1 succeeded=1 start=900",
        ),
        case(
            "not counted again",
            spec(),
            json!({"succeeded": 1, "startTime": at(900).to_string(), "active": 1}),
            &["a Succeeded x0", "b Running t"],
            "active=1 succeeded=1 start=900",
        ),
        case(
            "a deleted pod counts as failed at once",
            spec(),
            json!({"startTime": at(900).to_string()}),
            &["a Running t d"],
            "create _; release a; active=1 terminating=1 +failed=a-uid start=900",
        ),
        case(
            "unless its end is waited for",
            json!({"podReplacementPolicy": "Failed"}),
            json!({"startTime": at(900).to_string()}),
            &["a Running t d"],
            "terminating=1 start=900",
        ),
    ]);
}

#[test]
fn a_job_completes_when_all_is_stopped_and_counted() {
    let met = || {
        json!([{"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached",
            "message": "Reached expected number of succeeded pods"}])
    };
    check(vec![
        case(
            "criteria met",
            json!({}),
            json!({"active": 1, "startTime": at(900).to_string()}),
            &["a Succeeded t x0"],
            "release a; +succeeded=a-uid SuccessCriteriaMet(CompletionsReached) start=900",
        ),
        case(
            "complete",
            json!({}),
            json!({"uncountedTerminatedPods": {"succeeded": ["a-uid"]}, "conditions": met(),
                "startTime": at(900).to_string()}),
            &["a Succeeded x0"],
            "Completed; succeeded=1 SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached) start=900 completed",
        ),
        case(
            "not while a pod is still stopping",
            json!({}),
            json!({"succeeded": 1, "conditions": met(),
                "startTime": at(900).to_string()}),
            &["a Succeeded x0", "b Running d"],
            "terminating=1 succeeded=1 SuccessCriteriaMet(CompletionsReached) start=900",
        ),
        case(
            "nothing after the end but letting pods go",
            json!({}),
            json!({"conditions": [{"type": "Complete", "status": "True"}]}),
            &["a Succeeded t x0"],
            "release a; no status",
        ),
    ]);
}

#[test]
fn failures_are_retried_later_and_later_and_then_end_the_job() {
    let target =
        |reason: &str| json!([{"type": "FailureTarget", "status": "True", "reason": reason, "message": "m"}]);
    let mut waiting = case(
        "waits for the back-off",
        json!({}),
        json!({"failed": 2, "startTime": at(900).to_string()}),
        &[],
        "again in 15s; failed=2 start=900",
    );
    waiting.backoff = Some(Backoff { failures: 2, last_failure: Some(at(NOW - 5)) });
    let mut recalled = case(
        "recalls it after a start",
        json!({}),
        json!({"failed": 2, "startTime": at(900).to_string()}),
        &["a Failed x1", "b Failed x1"],
        "again in 10s; failed=2 start=900",
    );
    recalled.backoff = None;
    check(vec![
        waiting,
        recalled,
        case(
            "the limit",
            json!({"backoffLimit": 1}),
            json!({"failed": 1, "startTime": at(900).to_string()}),
            &["b Failed t x1", "c Running t r"],
            "delete c; release b; terminating=1 failed=1 +failed=b-uid FailureTarget(BackoffLimitExceeded) start=900",
        ),
        case(
            "failed once all has stopped",
            json!({"backoffLimit": 1}),
            json!({"failed": 2,
                "conditions": target("BackoffLimitExceeded"), "startTime": at(900).to_string()}),
            &["b Failed x1"],
            "!BackoffLimitExceeded; failed=2 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded) start=900",
        ),
        case(
            "restarts in place count",
            json!({"backoffLimit": 2, "template": {"spec": {"restartPolicy": "OnFailure"}}}),
            json!({"active": 1, "startTime": at(900).to_string()}),
            &["a Running t R2"],
            "delete a; terminating=1 FailureTarget(BackoffLimitExceeded) start=900",
        ),
        case(
            "below the limit they do not",
            json!({"backoffLimit": 2, "template": {"spec": {"restartPolicy": "OnFailure"}}}),
            json!({"active": 1, "startTime": at(900).to_string()}),
            &["a Running t R1"],
            "active=1 start=900",
        ),
        case(
            "deadline to come",
            json!({"activeDeadlineSeconds": 130}),
            json!({"startTime": at(900).to_string()}),
            &["a Running t"],
            "again in 30s; active=1 start=900",
        ),
        case(
            "deadline past",
            json!({"activeDeadlineSeconds": 100}),
            json!({"startTime": at(900).to_string()}),
            &["a Running t"],
            "delete a; terminating=1 FailureTarget(DeadlineExceeded) start=900",
        ),
    ]);
}

#[test]
fn suspension_stops_pods_without_counting_them() {
    let suspended = || {
        json!({"startTime": at(900).to_string(), "conditions": [{"type": "Suspended", "status": "True",
            "reason": "JobSuspended", "message": "Job suspended"}]})
    };
    check(vec![
        case(
            "born suspended",
            json!({"suspend": true}),
            json!({}),
            &[],
            "Suspended; Suspended(JobSuspended)",
        ),
        case(
            "suspended at work",
            json!({"suspend": true}),
            json!({"startTime": at(900).to_string()}),
            &["a Running t r"],
            "forget a; Suspended; terminating=1 Suspended(JobSuspended) start=900",
        ),
        case("stays so", json!({"suspend": true}), suspended(), &[], "Suspended(JobSuspended) start=900"),
        case(
            "resumed: the clock starts again",
            json!({"suspend": false}),
            suspended(),
            &[],
            "create _; Resumed; active=1 !Suspended(JobResumed) start=1000",
        ),
        case(
            "no deadline while suspended",
            json!({"suspend": true, "activeDeadlineSeconds": 1}),
            suspended(),
            &[],
            "Suspended(JobSuspended) start=900",
        ),
    ]);
}

#[test]
fn indexed_jobs_count_each_index_once() {
    let spec = || json!({"completionMode": "Indexed", "completions": 4, "parallelism": 2});
    check(vec![
        case(
            "lowest first",
            spec(),
            json!({"startTime": at(900).to_string()}),
            &[],
            "create 0,1; active=2 start=900",
        ),
        case(
            "skips what is done and at work",
            spec(),
            json!({"completedIndexes": "0", "succeeded": 1, "startTime": at(900).to_string()}),
            &["b Running t i1"],
            "create 2; active=2 succeeded=1 indexes=0 start=900",
        ),
        case(
            "a success is entered",
            spec(),
            json!({"completedIndexes": "0", "startTime": at(900).to_string()}),
            &["c Succeeded t i2 x0", "b Running t i1"],
            "create 3; release c; active=2 succeeded=2 indexes=0,2 start=900",
        ),
        case(
            "a doubled index goes",
            spec(),
            json!({"startTime": at(900).to_string()}),
            &["a Running t i0", "b Running t i0"],
            "forget b; active=1 terminating=1 start=900",
        ),
        case(
            "the success policy ends it early",
            json!({"completionMode": "Indexed", "completions": 4,
                "parallelism": 2, "successPolicy": {"rules": [{"succeededIndexes": "0"}]}}),
            json!({"startTime": at(900).to_string()}),
            &["a Succeeded t i0 x0", "b Running t i1"],
            "delete b; release a; terminating=1 succeeded=1 indexes=0 SuccessCriteriaMet(SuccessPolicy) start=900",
        ),
    ]);
}

#[test]
fn failure_policy_ignores_counts_or_ends() {
    let spec = || {
        json!({"podFailurePolicy": {"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}})
    };
    let start = || json!({"startTime": at(900).to_string()});
    check(vec![
        case("ignored", spec(), start(), &["a Failed t D"], "create _; release a; active=1 start=900"),
        case(
            "counted",
            spec(),
            start(),
            &["a Failed t x1"],
            "create _; release a; active=1 +failed=a-uid start=900",
        ),
        case(
            "fails the job",
            spec(),
            start(),
            &["a Failed t x42"],
            "release a; +failed=a-uid FailureTarget(PodFailurePolicy) start=900",
        ),
    ]);
    let job = job(spec(), start());
    let plan =
        decide(&ObservedJob { job: &job, pods: &[pod("a Failed t x42")], backoff: None, now: at(NOW) });
    assert_eq!(
        plan.status.unwrap().conditions.unwrap()[0].message.as_deref(),
        Some("Container c for pod n/a failed with exit code 42 matching FailJob rule at index 1")
    );
}

type Write = Box<dyn FnOnce(&mut Job, &mut Vec<Arc<Pod>>)>;

/// A crash may lose all writes after any point; the counters must come out the same.
#[test]
fn a_crash_between_any_two_writes_never_counts_twice() {
    for crash in 0..6 {
        let mut job = job(json!({"completions": 1}), json!({"startTime": at(900).to_string()}));
        let mut pods = vec![pod("a Succeeded t x0")];
        let mut writes = 0;
        let mut backoff = Some(Backoff::default());
        for _ in 0..6 {
            let plan = decide(&ObservedJob { job: &job, pods: &pods, backoff, now: at(NOW) });
            backoff = Some(plan.backoff);
            assert!(plan.create.is_empty() && plan.delete.is_empty(), "{}", plan_text(&plan));
            let mut steps: Vec<Write> = Vec::new();
            if let Some(status) = plan.status.filter(|s| Some(s) != job.status.as_ref()) {
                steps.push(Box::new(|job, _| job.status = Some(status)));
            }
            for name in plan.release {
                steps.push(Box::new(move |_, pods| {
                    *pods = vec![pod(&format!("{name} Succeeded x0"))];
                }));
            }
            for step in steps {
                writes += 1;
                if writes == crash {
                    // The process dies before this write, and restarts from what is stored.
                    backoff = None;
                    break;
                }
                step(&mut job, &mut pods);
            }
        }
        let status = job.status.unwrap();
        assert_eq!((status.succeeded, status.failed), (Some(1), None), "crash before write {crash}");
        assert!(status.completion_time.is_some(), "crash before write {crash}");
    }
}

#[test]
fn pods_match_those_of_upstream() {
    let indexed = template::pod(&job(json!({}), json!({})), Some(3));
    assert_eq!(
        serde_json::to_value(&indexed).unwrap(),
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"generateName": "train-3-", "namespace": "n",
                "finalizers": ["batch.kubernetes.io/job-tracking"],
                "annotations": {"batch.kubernetes.io/job-completion-index": "3"},
                "labels": {"app": "x", "batch.kubernetes.io/controller-uid": "job-uid", "controller-uid": "job-uid",
                    "batch.kubernetes.io/job-name": "train", "job-name": "train",
                    "batch.kubernetes.io/job-completion-index": "3"},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-uid",
                    "controller": true, "blockOwnerDeletion": true}]},
            "spec": {"restartPolicy": "Never", "hostname": "train-3",
                "containers": [{"name": "c", "env": [{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef":
                    {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}}]}],
                "initContainers": [{"name": "i", "env": [{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef":
                    {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}}]}]}})
    );
    let plain = template::pod(&job(json!({}), json!({})), None);
    assert_eq!(plain.metadata.generate_name.as_deref(), Some("train-"));
    assert_eq!(plain.spec.unwrap().hostname, None);
}
