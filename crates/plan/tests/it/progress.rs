//! Which pods of an MPIJob can report their progress, and where that leaves others as they are.

use api::MPIJob;
use k8s_openapi::api::core::v1::{ConfigMap, PodSpec};
use plan::{Change, Child, ChildKind, ObservedState, ProgressEndpoint, Settings, ValidJob};
use serde_json::{Value, json};

use crate::scene::endpoint;

fn job(annotations: &Value, pod: &Value) -> ValidJob {
    let mut job = json!({ "metadata": { "name": "pi", "namespace": "team", "annotations": annotations },
        "spec": { "mpiReplicaSpecs": {
            "Launcher": { "template": { "spec": { "containers": [{ "name": "mpi" }, { "name": "side" }] } } },
            "Worker": { "replicas": 1, "template": { "spec": { "containers": [{ "name": "mpi" }] } } },
        } } });
    let launcher = &mut job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"];
    for (key, value) in pod.as_object().unwrap() {
        launcher[key] = value.clone();
    }
    let job: MPIJob = serde_json::from_value(job).unwrap();
    plan::validate(&job).unwrap()
}

/// The objects of a new job with these annotations and these parts of the Launcher's pod.
fn made(annotations: &Value, pod: &Value, has_endpoint: bool) -> Vec<Child> {
    let settings = Settings { progress: has_endpoint.then(endpoint), ..Settings::default() };
    let job = job(annotations, pod);
    let plan = plan::plan(&job, &ObservedState::default(), &settings, jiff::Timestamp::UNIX_EPOCH);
    let changes = plan.changes.into_iter().flatten();
    changes
        .map(|change| match change {
            Change::Create(child) => child,
            other => panic!("a first plan creates only: {other:?}"),
        })
        .collect()
}

fn launcher(made: &[Child]) -> PodSpec {
    let job = made.iter().find_map(|child| match child {
        Child::Job(job) => job.spec.clone(),
        _ => None,
    });
    job.unwrap().template.spec.unwrap()
}

fn config_map(made: &[Child]) -> ConfigMap {
    let found = made.iter().find_map(|child| match child {
        Child::ConfigMap(found) => Some(*found.clone()),
        _ => None,
    });
    found.unwrap()
}

fn annotated(launch: Option<&str>, progress: Option<&str>) -> Value {
    let all = [(api::ANNOTATION_LAUNCH, launch), (api::ANNOTATION_PROGRESS, progress)];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect::<Value>()
}

#[test]
fn jobs_with_the_agent_report_unless_they_refuse_and_those_with_ssh_only_on_request() {
    let (ssh, agent) = (None, Some("agent"));
    for (launch, progress, reports) in [
        (agent, None, true),
        (agent, Some("on"), true),
        (agent, Some("off"), false),
        (ssh, None, false),
        (ssh, Some("off"), false),
        (ssh, Some("on"), true),
    ] {
        let annotations = annotated(launch, progress);
        let with = made(&annotations, &json!({}), true);
        let without = made(&annotations, &json!({}), false);
        assert_eq!(with != without, reports, "{launch:?} {progress:?}");
        assert_eq!(config_map(&with).data.unwrap().contains_key("progress-ca.crt"), reports);
    }
}

#[test]
fn only_the_mpi_container_reports() {
    let pod = launcher(&made(&annotated(Some("agent"), None), &json!({}), true));
    let has = |index: usize| {
        let container = &pod.containers[index];
        let names = container.env.iter().flatten().filter(|it| it.name.starts_with("KUBEFLOW_TRAINER"));
        (
            names.count(),
            container.volume_mounts.iter().flatten().any(|it| it.name == "kubeflow-trainer-token"),
        )
    };
    assert_eq!((has(0), has(1)), ((3, true), (0, false)));
}

#[test]
fn what_users_have_in_its_place_stays() {
    let folder = "/var/run/secrets/kubeflow/trainer";
    let url = json!({ "name": "KUBEFLOW_TRAINER_SERVER_URL", "value": "https://mine.test" });
    let mount = json!({ "name": "mine", "mountPath": folder });
    let containers = json!([{ "name": "mpi", "env": [url], "volumeMounts": [mount] }]);
    let theirs = json!({ "containers": containers, "volumes": [{ "name": "mine", "emptyDir": {} }] });
    let pod = launcher(&made(&annotated(Some("agent"), None), &theirs, true));
    let variables = pod.containers[0].env.as_ref().unwrap();
    let urls = variables.iter().filter(|it| it.name == "KUBEFLOW_TRAINER_SERVER_URL");
    assert_eq!(urls.map(|it| it.value.as_deref()).collect::<Vec<_>>(), [Some("https://mine.test")]);
    assert!(variables.iter().any(|it| it.name == "KUBEFLOW_TRAINER_SERVER_TOKEN"));
    let mounts = pod.containers[0].volume_mounts.iter().flatten();
    let there: Vec<&str> = mounts.filter(|it| it.mount_path == folder).map(|it| it.name.as_str()).collect();
    assert_eq!(there, ["mine"]);
    assert!(pod.volumes.iter().flatten().all(|volume| volume.name != "kubeflow-trainer-token"));
    let named = json!({ "volumes": [{ "name": "kubeflow-trainer-token", "emptyDir": {} }] });
    let pod = launcher(&made(&annotated(Some("agent"), None), &named, true));
    let volumes = pod.volumes.iter().flatten().filter(|volume| volume.name == "kubeflow-trainer-token");
    assert_eq!(volumes.map(|volume| volume.empty_dir.is_some()).collect::<Vec<_>>(), [true]);
}

#[test]
fn a_renewed_authority_and_one_that_is_gone_change_only_the_config_map() {
    let annotations = annotated(Some("agent"), None);
    let job = job(&annotations, &json!({}));
    let there = config_map(&made(&annotations, &json!({}), true));
    let renewed = ProgressEndpoint { authorities: "the next authority".to_owned(), ..endpoint() };
    for (progress, expected) in [
        (Some(endpoint()), None),
        (Some(renewed), Some(json!("the next authority"))),
        (None, Some(Value::Null)),
    ] {
        let settings = Settings { progress, ..Settings::default() };
        let seen = ObservedState { config_map: Some(there.clone()), ..ObservedState::default() };
        let plan = plan::plan(&job, &seen, &settings, jiff::Timestamp::UNIX_EPOCH);
        let patched = plan.changes.iter().flatten().find_map(|change| match change {
            Change::Patch(patch) if patch.kind == ChildKind::ConfigMap => Some(&patch.body["data"]),
            _ => None,
        });
        assert_eq!(patched.map(|data| data["progress-ca.crt"].clone()), expected);
    }
}
