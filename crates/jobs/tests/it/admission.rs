//! What a cluster does not let a caller do: quotas and permissions.

use std::time::Duration;

use api::MPIJob;
use jobs::delete::{self, Manner};
use jobs::list::{self, Selection};
use jobs::logs::{self, Choice};
use jobs::rerun::{self, Rerun};
use jobs::submit::{self, DryRun};
use jobs::{Class, Kind, preflight, suspension, wait};
use serde_json::json;

use crate::stage::{Stage, TEAM, manifest};

const KIND: Kind = Kind::MpiJob;
/// How long a test waits for a preflight.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_quota_refuses_a_job_before_and_at_its_creation_until_another_is_deleted() {
    let stage = Stage::with_mpijobs().await;
    let one = json!({ "count/mpijobs.kubeflow.org": "1" });
    let quota = json!({ "metadata": { "name": "jobs", "namespace": TEAM }, "spec": { "hard": one },
        "status": { "hard": one, "used": { "count/mpijobs.kubeflow.org": "0" } } });
    stage.create("v1", "ResourceQuota", "resourcequotas", quota).await;
    stage.submit(&manifest("first", 1)).await;

    let drafts = submit::read(manifest("second", 1).as_bytes(), "job.yaml").unwrap();
    let job: MPIJob = drafts[0].job.clone();
    let judged = preflight::preflight(&stage.client, TEAM, &[job], PATIENCE).await;
    assert_eq!(judged.unwrap_err().class(), Class::Quota);
    let (error, created) = submit::create(&stage.client, TEAM, &drafts, DryRun::No).await.unwrap_err();
    assert_eq!((error.class(), created.len()), (Class::Quota, 0), "{error}");
    let cloned = rerun::clone(&stage.client, KIND, TEAM, "first", &Rerun::default()).await;
    assert_eq!(cloned.unwrap_err().class(), Class::Quota);

    delete::delete(&stage.client, KIND, TEAM, "first", Manner { force: false, wait: Some(PATIENCE) })
        .await
        .unwrap();
    assert_eq!(submit::create(&stage.client, TEAM, &drafts, DryRun::No).await.unwrap().len(), 1);
}

#[tokio::test]
async fn of_two_jobs_in_quick_succession_for_one_place_the_second_is_said_to_wait() {
    let stage = Stage::with_mpijobs().await;
    let quota = json!({ "metadata": { "name": "pods", "namespace": TEAM }, "spec": { "hard": { "pods": "3" } },
        "status": { "hard": { "pods": "3" }, "used": { "pods": "0" } } });
    stage.create("v1", "ResourceQuota", "resourcequotas", quota).await;
    let second: MPIJob = submit::read(manifest("second", 1).as_bytes(), "job.yaml").unwrap()[0].job.clone();
    let waits = async || {
        let found = preflight::preflight(&stage.client, TEAM, std::slice::from_ref(&second), PATIENCE).await;
        found.unwrap().into_iter().map(|finding| finding.message).collect::<Vec<_>>()
    };
    assert_eq!(waits().await, [""; 0]);
    stage.submit(&manifest("first", 1)).await;
    assert_eq!(
        waits().await,
        [
            "Other jobs that were just accepted need 2 of pods: 2 requested, 0 of 3 used, 1 left beside them (quota pods)"
        ]
    );
    // Its operator has seen it, so the quota counts its pods.
    stage
        .status("first", json!({ "phase": "Pending", "startup": { "queued": "2026-01-01T00:00:00Z" } }))
        .await;
    assert_eq!(waits().await, [""; 0]);
}

#[tokio::test]
async fn what_a_job_refers_to_is_checked_before_it_is_created() {
    let stage = Stage::with_mpijobs().await;
    let mut job: MPIJob = submit::read(manifest("pi", 1).as_bytes(), "job.yaml").unwrap()[0].job.clone();
    let change = |job: &mut MPIJob, class: Option<&str>, claim: &str| {
        let worker = job.spec.mpi_replica_specs.get_mut(api::WORKER).unwrap();
        let pod = worker.template.spec.as_mut().unwrap();
        pod.priority_class_name = class.map(str::to_owned);
        let volume = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }]);
        pod.volumes = serde_json::from_value(volume).unwrap();
    };
    change(&mut job, Some("nosuch"), "data");
    let refused = preflight::preflight(&stage.client, TEAM, &[job.clone()], PATIENCE).await.unwrap_err();
    assert_eq!((refused.class(), refused.reason()), (Class::Invalid, "MissingReference"));
    assert!(refused.to_string().contains("the priority class \"nosuch\" does not exist"), "{refused}");
    change(&mut job, None, "data");
    let waits = preflight::preflight(&stage.client, TEAM, &[job.clone()], PATIENCE).await.unwrap();
    assert!(waits[0].message.contains("the volume claim \"data\" does not exist"), "{waits:?}");
    assert!(
        waits[0].advice.text.starts_with("correct its name, or create it: a manifest of kind"),
        "{waits:?}"
    );
    let claim = json!({ "metadata": { "name": "data", "namespace": TEAM }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } });
    stage.create("v1", "PersistentVolumeClaim", "persistentvolumeclaims", claim).await;
    assert_eq!(preflight::preflight(&stage.client, TEAM, &[job.clone()], PATIENCE).await.unwrap(), []);
    change(&mut job, None, "dta");
    let waits = preflight::preflight(&stage.client, TEAM, &[job], PATIENCE).await.unwrap();
    let advice = "use one of the claims of the namespace (data), or create it";
    assert!(waits[0].advice.text.starts_with(advice), "{waits:?}");
}

#[tokio::test]
async fn every_action_of_a_user_without_permissions_is_refused() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 1)).await;
    stage.status("pi", json!({ "phase": "Failed" })).await;
    let jane = &stage.client_of_a_stranger().await;
    let drafts = submit::read(manifest("tau", 1).as_bytes(), "job.yaml").unwrap();
    let selection = Selection { kind: Some(KIND), namespace: Some(TEAM.to_owned()), labels: None };
    let job = [drafts[0].job.clone()];
    let rerun = Rerun::default();
    let refused = [
        ("get", list::get(jane, KIND, TEAM, "pi").await.err()),
        ("list", list::rows(jane, &selection).await.err()),
        ("preflight", preflight::preflight(jane, TEAM, &job, PATIENCE).await.err()),
        ("create", submit::create(jane, TEAM, &drafts, DryRun::No).await.err().map(|(error, _)| error)),
        ("suspend", suspension::set(jane, KIND, TEAM, "pi", true).await.err()),
        ("retry", rerun::retry(jane, KIND, TEAM, "pi", &rerun).await.err()),
        ("clone", rerun::clone(jane, KIND, TEAM, "pi", &rerun).await.err()),
        ("delete", delete::delete(jane, KIND, TEAM, "pi", Manner::default()).await.err()),
        ("wait", wait::wait(jane, KIND, TEAM, "pi", Some(PATIENCE), |_| {}).await.err()),
        ("logs", logs::logs(jane, KIND, TEAM, "pi", Choice::default()).await.err()),
    ];
    for (action, error) in refused {
        assert_eq!(error.map(|error| error.class()), Some(Class::NotAllowed), "{action}");
    }
    let rights = preflight::rights(jane, KIND, TEAM).await.unwrap();
    assert!(!rights.is_empty() && rights.iter().all(|right| !right.allowed), "{rights:?}");
    list::get(&stage.client, KIND, TEAM, "pi").await.unwrap();
}
