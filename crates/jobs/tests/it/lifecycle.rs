//! A job from its manifest to its deletion: create, get, list, suspend, resume, retry, clone, delete.

use std::time::Duration;

use jobs::delete::{self, Manner};
use jobs::list::{self, Selection};
use jobs::reference::Reference;
use jobs::rerun::{self, ANNOTATION_CLONED_FROM, ANNOTATION_RETRY_OF, Rerun};
use jobs::setting::Setting;
use jobs::submit::{self, DryRun};
use jobs::suspension;
use jobs::template::{self, Parameter, Saving, Type, Using};
use jobs::{Class, Error, Kind};
use kube::ResourceExt;
use serde_json::json;

use crate::stage::{Stage, TEAM, manifest, running};

const KIND: Kind = Kind::MpiJob;
/// The longest wait for a deletion that succeeds.
const PATIENCE: Duration = Duration::from_secs(60);

async fn names(stage: &Stage, labels: Option<&str>) -> Vec<String> {
    let selection =
        Selection { kind: Some(KIND), namespace: Some(TEAM.to_owned()), labels: labels.map(str::to_owned) };
    list::rows(&stage.client, &selection).await.unwrap().into_iter().map(|row| row.name).collect()
}

#[tokio::test]
async fn each_document_of_a_manifest_becomes_a_job() {
    let stage = Stage::with_mpijobs().await;
    let created = stage.submit(&format!("{}---\n{}", manifest("tau", 2), manifest("pi", 4))).await;
    assert_eq!(created.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["tau", "pi"]);
    let pi = list::get(&stage.client, KIND, TEAM, "pi").await.unwrap();
    assert_eq!(pi.data["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"], 4);
    assert_eq!(pi.metadata.uid, created[1].metadata.uid);
}

#[tokio::test]
async fn a_list_is_sorted_and_holds_the_jobs_of_its_selection() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&format!("{}---\n{}---\n{}", manifest("c", 1), manifest("a", 1), manifest("b", 1))).await;
    stage.submit(&manifest("other", 1).replace("team: nlp", "team: vision")).await;
    assert_eq!(names(&stage, Some("team=nlp")).await, ["a", "b", "c"]);
    assert_eq!(names(&stage, None).await, ["a", "b", "c", "other"]);
    assert_eq!(names(&stage, Some("team=none")).await, [""; 0]);
}

#[tokio::test]
async fn a_manifest_with_faults_creates_nothing_and_has_a_place_for_each() {
    let stage = Stage::with_mpijobs().await;
    let text =
        format!("{}---\n{}", manifest("good", 1), manifest("bad", 0).replace("replicas: 1", "replicsa: 1"));
    let error = submit::read(text.as_bytes(), "job.yaml").unwrap_err();
    assert_eq!((error.class(), error.faults().len()), (Class::Invalid, 2), "{error:?}");
    for fault in error.faults() {
        assert_eq!(fault.source, "job.yaml");
        assert!(fault.position.is_some_and(|at| at.line > 8), "{fault:?}");
    }
    assert_eq!(names(&stage, None).await, [""; 0]);
}

#[tokio::test]
async fn a_dry_run_asks_the_server_and_leaves_nothing() {
    let stage = Stage::with_mpijobs().await;
    let drafts = submit::read(manifest("pi", 1).as_bytes(), "job.yaml").unwrap();
    let shown = submit::create(&stage.client, TEAM, &drafts, DryRun::Server).await.unwrap();
    assert!(shown[0].metadata.uid.is_some(), "the server's answer");
    assert_eq!(names(&stage, None).await, [""; 0]);
}

#[tokio::test]
async fn the_first_name_that_is_taken_ends_a_creation() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 1)).await;
    let text = format!("{}---\n{}---\n{}", manifest("a", 1), manifest("pi", 1), manifest("z", 1));
    let drafts = submit::read(text.as_bytes(), "job.yaml").unwrap();
    let (error, created) = submit::create(&stage.client, TEAM, &drafts, DryRun::No).await.unwrap_err();
    assert_eq!((error.class(), error.reason()), (Class::Conflict, "AlreadyExists"));
    assert_eq!(created.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["a"]);
    assert_eq!(names(&stage, None).await, ["a", "pi"]);
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_compared_with_those_that_do() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("digits", 1)).await;
    let error = list::get(&stage.client, KIND, TEAM, "digit").await.unwrap_err();
    assert_eq!(error.class(), Class::NotFound);
    assert!(matches!(&error, Error::NotFound { meant: Some(meant), .. } if meant == "digits"), "{error:?}");
    let error = list::get(&stage.client, KIND, TEAM, "something-else").await.unwrap_err();
    assert!(matches!(&error, Error::NotFound { meant: None, .. }), "{error:?}");
}

#[tokio::test]
async fn a_name_that_no_job_of_any_kind_has_is_reported_without_a_kind() {
    let stage = Stage::with_mpijobs().await;
    stage.define("kubeflow.org/v1", "PyTorchJob", "pytorchjobs", "Namespaced").await;
    let job = json!({ "metadata": { "name": "resnet", "namespace": TEAM }, "spec": {} });
    stage.create("kubeflow.org/v1", "PyTorchJob", "pytorchjobs", job).await;
    let resolved = |kind, name: &str| {
        let (client, reference) = (stage.client.clone(), Reference { kind, name: name.to_owned() });
        async move { reference.resolve(&client, TEAM).await }
    };
    let error = resolved(None, "resnat").await.unwrap_err();
    assert_eq!(error.to_string(), "training job \"resnat\" not found in namespace \"team\"");
    assert!(matches!(&error, Error::NotFound { meant: Some(meant), of_kind: None, .. } if meant == "resnet"));
    assert_eq!(resolved(None, "resnet").await.unwrap().0, Kind::PyTorchJob);
    let error = list::get(&stage.client, KIND, TEAM, "resnet").await.unwrap_err();
    assert_eq!(error.to_string(), "MPIJob \"resnet\" not found in namespace \"team\"");
    assert!(matches!(&error, Error::NotFound { of_kind: Some(Kind::PyTorchJob), .. }), "{error:?}");
}

#[tokio::test]
async fn a_job_is_suspended_and_resumed_once() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 1)).await;
    for (suspend, changed) in [(false, false), (true, true), (true, false), (false, true)] {
        let switched = suspension::set(&stage.client, KIND, TEAM, "pi", suspend).await.unwrap();
        assert_eq!(switched.changed, changed, "{suspend}");
        let stored = list::get(&stage.client, KIND, TEAM, "pi").await.unwrap();
        assert_eq!(KIND.suspended(&stored), suspend);
        assert_eq!(stored.metadata.resource_version, switched.object.metadata.resource_version);
    }
    stage.status("pi", json!({ "phase": "Succeeded" })).await;
    let error = suspension::set(&stage.client, KIND, TEAM, "pi", true).await.unwrap_err();
    assert_eq!((error.class(), error.reason()), (Class::Conflict, "Ended"));
}

#[tokio::test]
async fn a_retry_repeats_an_ended_job_under_the_next_name() {
    let stage = Stage::with_mpijobs().await;
    let first = stage.submit(&manifest("pi", 2)).await.remove(0);
    let rerun = Rerun::default();
    let error = rerun::retry(&stage.client, KIND, TEAM, "pi", &rerun).await.unwrap_err();
    assert_eq!((error.class(), error.reason()), (Class::Conflict, "NotEnded"));
    let jobs::Error::Refused { advice: Some(advice), .. } = &error else { panic!("{error}") };
    let of_pi = || KIND.job(TEAM, "pi");
    assert_eq!(
        advice.actions,
        [jobs::Action::Wait(of_pi()), jobs::Action::Cancel(of_pi()), jobs::Action::Clone(of_pi())]
    );

    stage.status("pi", json!({ "phase": "Failed" })).await;
    let second = rerun::retry(&stage.client, KIND, TEAM, "pi", &rerun).await.unwrap();
    assert_eq!(second.name_any(), "pi-retry-2");
    assert_eq!(second.annotations()[ANNOTATION_RETRY_OF], "pi");
    assert_eq!(second.data["spec"], first.data["spec"]);
    assert!(second.data.get("status").is_none(), "it starts without a status");

    stage.status("pi-retry-2", json!({ "phase": "Failed" })).await;
    let third = rerun::retry(&stage.client, KIND, TEAM, "pi-retry-2", &rerun).await.unwrap();
    assert_eq!(
        (third.name_any(), &*third.annotations()[ANNOTATION_RETRY_OF]),
        ("pi-retry-3".to_owned(), "pi")
    );
    let family = rerun::family(&stage.client, KIND, TEAM, "pi-retry-3").await.unwrap();
    assert_eq!(
        family.iter().map(ResourceExt::name_any).collect::<Vec<_>>(),
        ["pi", "pi-retry-2", "pi-retry-3"]
    );
}

#[tokio::test]
async fn a_retry_can_take_the_place_of_the_job() {
    let stage = Stage::with_mpijobs().await;
    let old = stage.submit(&manifest("pi", 2)).await.remove(0);
    stage.status("pi", json!({ "phase": "Failed" })).await;
    let rerun = Rerun { replace: Some(Manner { force: false, wait: Some(PATIENCE) }), ..Rerun::default() };
    let new = rerun::retry(&stage.client, KIND, TEAM, "pi", &rerun).await.unwrap();
    assert_eq!(new.name_any(), "pi");
    assert_ne!(new.metadata.uid, old.metadata.uid);
    assert!(!new.annotations().contains_key(ANNOTATION_RETRY_OF));
}

#[tokio::test]
async fn a_clone_is_the_job_with_changes_whatever_its_state() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 2)).await;
    let settings = ["workers=8", "worker.memory=32Gi", "env.LR=0.2"].map(|text| Setting::read(text).unwrap());
    let rerun = Rerun { settings: settings.to_vec(), ..Rerun::default() };
    let copy = rerun::clone(&stage.client, KIND, TEAM, "pi", &rerun).await.unwrap();
    assert_eq!(
        (copy.name_any(), &*copy.annotations()[ANNOTATION_CLONED_FROM]),
        ("pi-clone-1".to_owned(), "pi")
    );
    let worker = &copy.data["spec"]["mpiReplicaSpecs"]["Worker"];
    assert_eq!(worker["replicas"], 8);
    let container = &worker["template"]["spec"]["containers"][0];
    assert_eq!(container["resources"]["limits"]["memory"], "32Gi");
    assert_eq!(container["env"][0], json!({ "name": "LR", "value": "0.2" }));

    for text in ["worker.memry=32Gi", "workers=0"] {
        let rerun = Rerun { settings: vec![Setting::read(text).unwrap()], ..Rerun::default() };
        let error = rerun::clone(&stage.client, KIND, TEAM, "pi", &rerun).await.unwrap_err();
        assert_eq!((error.class(), error.faults().len()), (Class::Invalid, 1), "{text}");
    }
    assert_eq!(names(&stage, None).await, ["pi", "pi-clone-1"]);
}

#[tokio::test]
async fn a_deletion_waits_until_nothing_of_the_job_is_left() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&format!("{}---\n{}", manifest("pi", 1), manifest("tau", 1))).await;
    stage.pod("tau", "worker", "tau-worker-0", "Running", running()).await;
    let delete = async |name, force, wait| {
        delete::delete(&stage.client, KIND, TEAM, name, Manner { force, wait: Some(wait) }).await
    };
    delete("pi", false, PATIENCE).await.unwrap();
    assert_eq!(delete("pi", false, PATIENCE).await.unwrap_err().class(), Class::NotFound);

    let error = delete("tau", false, Duration::from_millis(100)).await.unwrap_err();
    assert_eq!((error.class(), error.reason()), (Class::StillRunning, "NotCleanedUp"));
    assert!(matches!(&error, Error::NotCleanedUp { left, .. } if left == &["pod/tau-worker-0"]), "{error:?}");

    stage.submit(&manifest("tau", 1)).await;
    delete("tau", true, PATIENCE).await.unwrap();
    assert_eq!(names(&stage, None).await, [""; 0]);
}

#[tokio::test]
async fn a_clone_is_changed_by_a_merge_patch() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 2)).await;
    let patch = json!({ "slotsPerWorker": 4, "mpiReplicaSpecs": { "Worker": { "replicas": 3 } } });
    let rerun = Rerun { patch: Some(patch), ..Rerun::default() };
    let copy = rerun::clone(&stage.client, KIND, TEAM, "pi", &rerun).await.unwrap();
    assert_eq!(copy.data["spec"]["slotsPerWorker"], 4);
    assert_eq!(copy.data["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"], 3);
    let rerun = Rerun { patch: Some(json!({ "mpiReplicaSpecs": null })), ..Rerun::default() };
    let error = rerun::clone(&stage.client, KIND, TEAM, "pi", &rerun).await.unwrap_err();
    assert_eq!(error.class(), Class::Invalid, "{error}");
}

#[tokio::test]
async fn a_template_keeps_its_versions_and_makes_jobs_with_the_chosen_values() {
    let stage = Stage::with_mpijobs().await;
    let job = stage.submit(&manifest("pi", 2)).await.remove(0);
    let rate = Parameter {
        name: "rate".to_owned(),
        type_: Type::Number,
        sets: vec!["env.LR".to_owned()],
        ..Parameter::default()
    };
    let mut saving = Saving {
        name: "tuning".to_owned(),
        description: Some("first".to_owned()),
        parameters: Some(vec![rate]),
    };
    let first = template::save(&stage.client, &job, TEAM, &saving).await.unwrap();
    assert_eq!((first.version, first.parameters.len()), (1, 1));
    saving.description = Some("second".to_owned());
    for _ in 0..2 {
        let second = template::save(&stage.client, &job, TEAM, &saving).await.unwrap();
        assert_eq!((second.version, second.versions), (2, vec![1, 2]));
    }
    let read = async |version| template::template(&stage.client, &[TEAM], "tuning", version).await;
    assert_eq!(read(Some(1)).await.unwrap().description, "first");
    assert_eq!(read(Some(3)).await.unwrap_err().class(), Class::NotFound);
    assert_eq!(template::templates(&stage.client, &[TEAM]).await.unwrap().len(), 1);

    let newest = read(None).await.unwrap();
    let values = [("rate".to_owned(), "0.5".to_owned())].into();
    let using = Using { name: "run-1".to_owned(), values, ..Using::default() };
    let made = template::use_template(&stage.client, &newest, TEAM, &using, false).await.unwrap();
    let container = &made.data["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0];
    assert_eq!(container["env"], json!([{ "name": "LR", "value": "0.5" }]));
    let using = Using { name: "run-2".to_owned(), ..Using::default() };
    let error = template::use_template(&stage.client, &newest, TEAM, &using, false).await.unwrap_err();
    assert_eq!((error.class(), error.faults()[0].path.as_str()), (Class::Invalid, "rate"));
}
