//! Validation by upstream's rules and those of our annotations: each fault alone, and all of them at once.

use api::MPIJob;
use serde_json::{Value, json};

fn job() -> Value {
    let template = json!({ "spec": { "containers": [{ "name": "main", "image": "i" }] } });
    json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": { "name": "pi", "namespace": "default", "annotations": {} },
        "spec": { "runPolicy": {}, "mpiReplicaSpecs": {
            "Launcher": { "template": template }, "Worker": { "replicas": 2, "template": template },
        } },
    })
}

fn with(pointer: &str, value: Value) -> MPIJob {
    let mut job = job();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    job.pointer_mut(parent).unwrap()[name.replace("~1", "/")] = value;
    serde_json::from_value(job).unwrap()
}

fn faults(job: &MPIJob) -> Vec<String> {
    plan::validate(job).err().into_iter().flatten().map(|fault| fault.to_string()).collect()
}

#[test]
fn a_plain_job_is_valid_and_defaulted_as_upstream() {
    let job: MPIJob = serde_json::from_value(job()).unwrap();
    let valid = plan::validate(&job).unwrap();
    assert_eq!((valid.slots, valid.launcher_as_worker, valid.suspended), (1, false, false));
    assert_eq!(valid.ssh_mount_path, "/root/.ssh");
    assert_eq!(valid.clean_pods, plan::CleanPods::None);
    assert_eq!(
        (valid.launcher.restart_policy.as_str(), valid.workers.unwrap().restart_policy.as_str()),
        ("OnFailure", "Never")
    );
    let once = plan::defaulted(&job);
    assert_eq!(plan::defaulted(&once), once, "defaults settle");
}

#[test]
fn each_fault_names_its_field_and_a_way_out() {
    let launch = "/metadata/annotations/training.opendatahub.io~1launch";
    let start = "/metadata/annotations/training.opendatahub.io~1start-timeout";
    let restarts = "/metadata/annotations/training.opendatahub.io~1max-gang-restarts";
    let failure = "/metadata/annotations/training.opendatahub.io~1worker-failure";
    let worker = "/spec/mpiReplicaSpecs/Worker";
    let cases = [
        ("/metadata/name", json!("a".repeat(55)), "metadata.name: "),
        ("/metadata/name", json!("1pi"), "metadata.name: \"1pi\" is not a valid host name"),
        ("/metadata/name", json!("my.job"), "(no dots)"),
        ("/metadata/name", json!("pi-"), "metadata.name: "),
        ("/spec/slotsPerWorker", json!(-1), "spec.slotsPerWorker: is -1"),
        ("/spec/mpiImplementation", json!("LAM"), "use OpenMPI, Intel or MPICH"),
        ("/spec/launcherCreationPolicy", json!("Later"), "use AtStartup or WaitForWorkersReady"),
        ("/spec/runPolicy/cleanPodPolicy", json!("Some"), "use None, Running or All"),
        (
            "/spec/runPolicy/ttlSecondsAfterFinished",
            json!(-1),
            "spec.runPolicy.ttlSecondsAfterFinished: is -1",
        ),
        ("/spec/runPolicy/activeDeadlineSeconds", json!(-5), "spec.runPolicy.activeDeadlineSeconds: is -5"),
        ("/spec/runPolicy/backoffLimit", json!(-1), "spec.runPolicy.backoffLimit: is -1"),
        ("/spec/runPolicy/managedBy", json!("me"), "spec.runPolicy.managedBy: \"me\" is not supported"),
        (
            "/spec/mpiReplicaSpecs/Launcher/replicas",
            json!(2),
            "spec.mpiReplicaSpecs[Launcher].replicas: is 2; use 1",
        ),
        ("/spec/mpiReplicaSpecs/Worker/replicas", json!(0), "spec.mpiReplicaSpecs[Worker].replicas: is 0"),
        (
            "/spec/mpiReplicaSpecs/Worker/replicas",
            json!(i32::MAX),
            "spec.mpiReplicaSpecs[Worker].replicas: is 2147483647; use 10000 or fewer",
        ),
        (
            "/spec/mpiReplicaSpecs/Worker/replicas",
            Value::Null,
            "spec.mpiReplicaSpecs[Worker].replicas: is 0 (0 if omitted)",
        ),
        ("/spec/mpiReplicaSpecs/Worker/restartPolicy", json!("ExitCode"), "use Never or OnFailure"),
        (
            "/spec/mpiReplicaSpecs/Launcher/template",
            json!({}),
            "spec.mpiReplicaSpecs[Launcher].template.spec.containers: is empty",
        ),
        (launch, json!("rsh"), "use \"ssh\" or \"agent\""),
        (
            start,
            json!("soon"),
            "metadata.annotations[training.opendatahub.io/start-timeout]: \"soon\" is not a duration",
        ),
        (restarts, json!("-1"), "use a whole number"),
        (failure, json!("ignore"), "use \"fail\", \"restart\" or \"tolerate\""),
    ];
    for (pointer, value, expected) in cases {
        let faults = faults(&with(pointer, value.clone()));
        assert_eq!(faults.len(), 1, "{pointer} {value}: {faults:?}");
        assert!(faults[0].contains(expected), "{pointer} {value}: {faults:?}");
    }
    let mut no_launcher =
        with(worker, json!({ "replicas": 1, "template": { "spec": { "containers": [{ "name": "m" }] } } }));
    no_launcher.spec.mpi_replica_specs.remove("Launcher");
    assert!(faults(&no_launcher)[0].contains("is missing; found Worker"), "{:?}", faults(&no_launcher));
}

#[test]
fn all_faults_are_reported_at_once() {
    let mut job = with("/spec/slotsPerWorker", json!(-1));
    job.metadata.name = Some("A.B".to_owned());
    job.spec.mpi_implementation = Some("LAM".to_owned());
    job.spec.mpi_replica_specs.get_mut("Worker").unwrap().replicas = Some(0);
    assert_eq!(faults(&job).len(), 4, "{:?}", faults(&job));
}

#[test]
fn empty_strings_take_the_default_as_in_go() {
    let mut job = with("/spec/sshAuthMountPath", json!(""));
    job.spec.mpi_implementation = Some(String::new());
    job.spec.launcher_creation_policy = Some(String::new());
    assert_eq!(faults(&job), Vec::<String>::new());
}

#[test]
fn the_longest_name_depends_on_the_number_of_workers() {
    let mut job = with("/metadata/name", json!("a".repeat(54)));
    assert_eq!(faults(&job), Vec::<String>::new());
    job.spec.mpi_replica_specs.get_mut("Worker").unwrap().replicas = Some(11);
    assert!(faults(&job)[0].contains("use a name of at most 53 characters"), "{:?}", faults(&job));
}
