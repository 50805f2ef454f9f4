//! The CRD: the committed file is the generated one, and its rules accept and refuse what they should.

use std::sync::LazyLock;

use kube_cel::{CompiledSchema, compile_schema, validate_compiled};
use serde_json::{Value, json};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crd");

#[test]
fn the_committed_definitions_are_the_generated_ones() {
    let [jobs, runtimes, cluster_runtimes] = api::trainer_crds();
    let definitions = [
        ("kubeflow.org_mpijobs", api::mpijob_crd()),
        ("trainer/trainer.kubeflow.org_trainjobs", jobs),
        ("trainer/trainer.kubeflow.org_trainingruntimes", runtimes),
        ("trainer/trainer.kubeflow.org_clustertrainingruntimes", cluster_runtimes),
    ];
    let shipped = [api::MPIJOB_DEFINITION].into_iter().chain(api::TRAINER_DEFINITIONS);
    for ((name, definition), shipped) in definitions.into_iter().zip(shipped) {
        let path = format!("{FOLDER}/{name}.yaml");
        let generated = format!(
            "# Generated from crates/api by `cargo xtask gen`; do not edit.\n{}",
            serde_saphyr::to_string(&definition).unwrap()
        );
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &generated).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == generated, "{path} is stale: run the test with UPDATE=1");
        let parsed: Value = serde_saphyr::from_str(&committed).unwrap();
        assert_eq!(shipped.name, definition.metadata.name.as_deref().unwrap());
        let definition = serde_json::to_value(definition).unwrap();
        assert_eq!(parsed, definition, "the YAML reads back as what was meant");
        // Programs have the file as it was when they were compiled.
        if std::env::var_os("UPDATE").is_none() {
            let shipped: Value = serde_json::from_str(shipped.json).unwrap();
            assert!(shipped == definition, "{name}: programs install something else");
        }
    }
}

/// The rules of the one version, compiled once.
static RULES: LazyLock<CompiledSchema> = LazyLock::new(|| {
    let crd = serde_json::to_value(api::mpijob_crd()).unwrap();
    compile_schema(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
});

fn job() -> Value {
    let template = json!({ "spec": { "containers": [{ "name": "main", "image": "i" }] } });
    json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": { "name": "pi", "namespace": "default" },
        "spec": {
            "slotsPerWorker": 1,
            "runPolicy": { "cleanPodPolicy": "Running", "suspend": false },
            "mpiReplicaSpecs": {
                "Launcher": { "replicas": 1, "template": template },
                "Worker": { "replicas": 2, "template": template },
            },
        },
    })
}

/// A job changed by a JSON merge at `pointer`.
fn with(mut job: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    job.pointer_mut(parent).unwrap()[name] = value;
    job
}

fn without(mut job: Value, pointer: &str) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    job.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
    job
}

fn faults(new: &Value, old: Option<&Value>) -> Vec<String> {
    match validate_compiled(&RULES, new, old) {
        Ok(()) => Vec::new(),
        Err(errors) => {
            errors.into_iter().map(|error| format!("{}: {}", error.field_path, error.message)).collect()
        }
    }
}

#[test]
fn rules_accept_what_upstream_runs() {
    let accepted = [
        job(),
        without(job(), "/spec/mpiReplicaSpecs/Worker"),
        without(job(), "/spec/mpiReplicaSpecs/Launcher/replicas"),
        with(job(), "/spec/mpiReplicaSpecs/Other", json!({ "restartPolicy": "Always" })),
        with(job(), "/spec/mpiReplicaSpecs/Worker/restartPolicy", json!("OnFailure")),
        with(job(), "/metadata/name", json!("a".repeat(63 - 9))),
        with(
            with(job(), "/metadata/name", json!("a".repeat(63 - 11))),
            "/spec/mpiReplicaSpecs/Worker/replicas",
            json!(1000),
        ),
    ];
    for job in accepted {
        assert_eq!(faults(&job, None), Vec::<String>::new(), "{job}");
    }
}

#[test]
fn rules_refuse_what_upstream_never_runs() {
    let refused = [
        (without(job(), "/spec/mpiReplicaSpecs/Launcher"), "must have a Launcher"),
        (with(job(), "/spec/mpiReplicaSpecs/Launcher/replicas", json!(2)), "Launcher].replicas must be 1"),
        (
            with(job(), "/spec/mpiReplicaSpecs/Worker/replicas", json!(0)),
            "Worker].replicas must be at least 1",
        ),
        (without(job(), "/spec/mpiReplicaSpecs/Worker/replicas"), "Worker].replicas must be at least 1"),
        (with(job(), "/spec/mpiReplicaSpecs/Worker/restartPolicy", json!("ExitCode")), "Never or OnFailure"),
        (
            with(job(), "/spec/mpiReplicaSpecs/Worker/template/spec/containers", json!([])),
            "at least one container",
        ),
        (without(job(), "/spec/mpiReplicaSpecs/Launcher/template"), "at least one container"),
        (with(job(), "/metadata/name", json!("a".repeat(63 - 8))), "at most 63 characters"),
        (
            with(
                with(job(), "/metadata/name", json!("a".repeat(63 - 10))),
                "/spec/mpiReplicaSpecs/Worker/replicas",
                json!(1000),
            ),
            "63",
        ),
        (with(job(), "/metadata/name", json!("1st")), "begin with a letter"),
        (with(job(), "/metadata/name", json!("a.b")), "begin with a letter"),
    ];
    for (job, expected) in refused {
        let faults = faults(&job, None);
        assert_eq!(faults.len(), 1, "{expected}: {faults:?}");
        assert!(faults[0].contains(expected), "{expected}: {faults:?}");
    }
}

#[test]
fn the_spec_is_immutable_but_for_suspension_scale_and_scheduling_policy() {
    let container = json!([{ "name": "main", "image": "other" }]);
    let frozen = [
        with(job(), "/spec/slotsPerWorker", json!(2)),
        with(job(), "/spec/runLauncherAsWorker", json!(true)),
        with(job(), "/spec/runPolicy/cleanPodPolicy", json!("All")),
        with(job(), "/spec/runPolicy/managedBy", json!("kueue.x-k8s.io/multikueue")),
        with(job(), "/spec/mpiReplicaSpecs/Launcher/restartPolicy", json!("Never")),
        with(job(), "/spec/mpiReplicaSpecs/Worker/template/spec/containers", container.clone()),
        with(job(), "/spec/mpiReplicaSpecs/Worker/template/spec/nodeSelector", json!({ "zone": "a" })),
        with(job(), "/spec/mpiReplicaSpecs/Worker/template/metadata", json!({ "labels": { "a": "b" } })),
        without(job(), "/spec/mpiReplicaSpecs/Worker"),
    ];
    for changed in frozen {
        assert!(!faults(&changed, Some(&job())).is_empty(), "{changed}");
        assert!(!faults(&job(), Some(&changed)).is_empty(), "and back: {changed}");
    }
    let changed = with(job(), "/spec/mpiReplicaSpecs/Worker/template/spec/containers", container);
    let changed = with(changed, "/spec/mpiReplicaSpecs/Worker/restartPolicy", json!("OnFailure"));
    assert_eq!(
        faults(&changed, Some(&job())),
        [
            "spec.mpiReplicaSpecs: mpiReplicaSpecs[Worker], but for replicas, cannot be changed: delete the job and create it again; changed: restartPolicy image"
        ]
    );
    let free = [
        with(job(), "/spec/runPolicy/suspend", json!(true)),
        with(job(), "/spec/mpiReplicaSpecs/Worker/replicas", json!(5)),
        with(job(), "/spec/runPolicy/schedulingPolicy", json!({ "queue": "q" })),
        with(job(), "/metadata/labels", json!({ "a": "b" })),
    ];
    for changed in free {
        assert_eq!(faults(&changed, Some(&job())), Vec::<String>::new(), "{changed}");
    }
}

#[test]
fn a_queue_may_inject_scheduling_while_the_job_is_suspended() {
    let injected = |job: Value| {
        let spec = json!({ "containers": [{ "name": "main", "image": "i" }], "nodeSelector": { "zone": "a" },
            "tolerations": [{ "key": "k", "operator": "Exists" }], "schedulingGates": [{ "name": "g" }] });
        let job = with(job, "/spec/mpiReplicaSpecs/Worker/template/spec", spec);
        with(
            job,
            "/spec/mpiReplicaSpecs/Worker/template/metadata",
            json!({ "labels": { "a": "b" }, "annotations": { "c": "d" } }),
        )
    };
    let suspended = with(job(), "/spec/runPolicy/suspend", json!(true));
    assert_eq!(faults(&injected(job()), Some(&suspended)), Vec::<String>::new(), "start");
    assert_eq!(faults(&suspended, Some(&injected(job()))), Vec::<String>::new(), "stop");
    assert!(!faults(&injected(job()), Some(&job())).is_empty(), "never while it runs");
}

/// A client with Go's types reads a job and writes it back: empty fields are dropped or filled in, quantities are
/// rewritten.
#[test]
fn rules_accept_a_job_that_a_typed_client_writes_back() {
    let container = json!({ "name": "main", "image": "i", "args": [], "env": [{ "name": "EMPTY", "value": "" }],
        "resources": { "limits": { "cpu": 1, "memory": "1024Mi" } } });
    let template = json!({ "metadata": { "labels": {} }, "spec": { "containers": [container],
        "hostNetwork": false, "tolerations": [{ "key": "gpu", "value": "" }] } });
    let mut stored = with(job(), "/spec/mpiReplicaSpecs/Worker/template", template);
    stored = without(stored, "/spec/runPolicy");
    stored = with(stored, "/spec/sshAuthMountPath", json!(""));
    let container = json!({ "name": "main", "image": "i", "env": [{ "name": "EMPTY" }],
        "resources": { "limits": { "cpu": "1", "memory": "1Gi" } } });
    let template = json!({ "metadata": { "creationTimestamp": null },
        "spec": { "containers": [container], "tolerations": [{ "key": "gpu" }] } });
    let mut written = with(job(), "/spec/mpiReplicaSpecs/Worker/template", template);
    written = with(written, "/spec/runPolicy", json!({}));
    written = with(written, "/spec/sshAuthMountPath", json!("/root/.ssh"));
    assert_eq!(faults(&written, Some(&stored)), Vec::<String>::new());
    assert_eq!(faults(&stored, Some(&written)), Vec::<String>::new());
}
