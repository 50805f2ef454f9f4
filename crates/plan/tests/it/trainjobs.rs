//! TrainJobs: golden folders `testdata/trainjobs/<behaviour>`, like those of MPIJobs, and a comparison with what Trainer
//! and JobSet themselves make of the same job and runtime.
//!
//! `upstream.yaml` beside an input is the output of Trainer's and JobSet's own Go code (kubeflow/trainer at 8c0f505,
//! jobset 0.12.0) for it: the objects of `NewObjects`, JobSet's defaults, and the Jobs that its controller constructs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::{ClusterTrainingRuntime, TrainJob};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use plan::trainjob::{
    self, Runtime, SeenTrainJob, TrainJobOutlook, TrainJobPlan, TrainJobReport, ValidTrainJob,
};
use plan::{
    Applied, ApplyFailure, Change, Child, ChildKind, JobChange, Launch, LauncherRun, OutputRead, Settings,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::golden::show_change;
use crate::scene::{JobFailed, PodScene, endpoint, pod_of, seconds};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Scene {
    now: Timestamp,
    /// The name of a file in `runtimes`.
    runtime: String,
    job: TrainJob,
    #[serde(default)]
    default_launch: Option<String>,
    /// Whether programs can report their progress.
    #[serde(default)]
    progress: bool,
    /// Whether everything but Jobs exists as it was first planned.
    #[serde(default)]
    started: bool,
    #[serde(default)]
    jobs: Vec<JobScene>,
    #[serde(default)]
    pods: Vec<NodeScene>,
    /// The attempt that Jobs and pods were made for; by default the job's own.
    #[serde(default)]
    made_for_attempt: Option<u32>,
    #[serde(default)]
    launcher_log: Option<String>,
    #[serde(default)]
    lost_nodes: BTreeMap<String, String>,
    /// The running Launcher's output, read in this pass.
    #[serde(default)]
    output: Option<OutputScene>,
    /// Creations that the API server refuses.
    #[serde(default)]
    refused: Vec<RefusedScene>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputScene {
    looked: Timestamp,
    last: Timestamp,
    log: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefusedScene {
    name: String,
    message: String,
    /// Whether it is refused for good.
    #[serde(default)]
    invalid: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct JobScene {
    name: String,
    #[serde(default)]
    active: i32,
    #[serde(default)]
    ready: i32,
    #[serde(default)]
    complete: Option<Timestamp>,
    #[serde(default)]
    failed: Option<JobFailed>,
    #[serde(default)]
    ended: Option<Timestamp>,
}

#[derive(Deserialize)]
struct NodeScene {
    part: String,
    #[serde(flatten)]
    pod: PodScene,
}

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/trainjobs");
    let entries = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<_> = entries.filter(|folder| folder.join("input.yaml").exists()).collect();
    folders.sort();
    assert!(folders.len() > 20, "the golden folders are missing");
    folders
}

fn scene(folder: &Path) -> (Scene, Runtime) {
    let text = fs::read_to_string(folder.join("input.yaml")).unwrap();
    let scene: Scene =
        serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let path = folder.parent().unwrap().join("runtimes").join(format!("{}.yaml", scene.runtime));
    let runtime: ClusterTrainingRuntime = serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let runtime = Runtime {
        kind: "ClusterTrainingRuntime".to_owned(),
        name: runtime.metadata.name.unwrap(),
        labels: runtime.metadata.labels.unwrap_or_default(),
        spec: runtime.spec.runtime,
    };
    (scene, runtime)
}

fn settings(scene: &Scene) -> Settings {
    let agent = scene.default_launch.as_deref() == Some("agent");
    Settings {
        default_launch: if agent { Launch::Agent } else { Launch::Ssh },
        launch_image: "launch:test".to_owned(),
        progress: scene.progress.then(endpoint),
        ..Settings::default()
    }
}

/// All objects of a job, its Jobs as if nothing waited for anything.
fn made(valid: &ValidTrainJob) -> Vec<Child> {
    let mut fresh = valid.clone();
    fresh.suspended = false;
    fresh.job_set.replicated.iter_mut().for_each(|part| part.needs.clear());
    let plan = trainjob::plan(&fresh, &SeenTrainJob::default(), Timestamp::UNIX_EPOCH);
    let changes = plan.changes.into_iter().flatten();
    changes
        .map(|change| match change {
            Change::Create(child) => child,
            other => panic!("a first plan creates only: {other:?}"),
        })
        .collect()
}

fn seen(scene: &Scene, valid: &ValidTrainJob) -> SeenTrainJob {
    let mut of_scene = valid.clone();
    of_scene.attempt = scene.made_for_attempt.unwrap_or(valid.attempt);
    let mut seen =
        SeenTrainJob { status: scene.job.status.clone().unwrap_or_default(), ..SeenTrainJob::default() };
    seen.lost_nodes = scene.lost_nodes.clone();
    seen.output_read = scene.output.as_ref().map(|read| OutputRead {
        looked: read.looked,
        last: Some(read.last),
        log: Some(read.log.clone()),
    });
    for child in made(&of_scene) {
        match child {
            Child::ConfigMap(map) if scene.started && map.data.as_ref().unwrap().contains_key("runtime") => {
                seen.snapshot = true;
            }
            Child::ConfigMap(map) if scene.started && map.data.as_ref().unwrap().contains_key("ca.crt") => {
                seen.authority = Some(*map);
            }
            Child::ConfigMap(map) if scene.started => seen.hostfile = Some(*map),
            Child::Service(service) if scene.started => seen.service = Some(*service),
            Child::Job(job) => add_job(&mut seen, *job, scene),
            _ => {}
        }
    }
    seen.launcher_failed = seen.failed_launcher_pod().cloned().map(|pod| LauncherRun {
        pod,
        log: scene.launcher_log.clone(),
        ..LauncherRun::default()
    });
    seen
}

fn add_job(seen: &mut SeenTrainJob, mut job: Job, scene: &Scene) {
    let name = job.metadata.name.clone().unwrap();
    job.metadata.uid = Some(format!("uid-of-{name}"));
    let template = job.spec.as_ref().unwrap().template.clone();
    let part = job.metadata.labels.as_ref().unwrap()[api::LABEL_REPLICATED_JOB].clone();
    for of_part in scene.pods.iter().filter(|pod| pod.part == part) {
        let mut pod =
            Pod { metadata: template.metadata.clone().unwrap(), spec: template.spec.clone(), status: None };
        let index = of_part.pod.index;
        pod.metadata.name = Some(format!("{name}-{index}-x7k2p"));
        let labels = pod.metadata.labels.as_mut().unwrap();
        labels.insert("batch.kubernetes.io/job-name".to_owned(), name.clone());
        labels.insert(api::LABEL_COMPLETION_INDEX.to_owned(), index.to_string());
        pod.metadata.owner_references = Some(vec![OwnerReference {
            kind: "Job".to_owned(),
            uid: format!("uid-of-{name}"),
            controller: Some(true),
            ..OwnerReference::default()
        }]);
        seen.pods.push(Arc::new(pod_of(&pod, &of_part.pod)));
    }
    let Some(found) = scene.jobs.iter().find(|found| found.name == name) else { return };
    let condition = |type_: &str, failed: Option<&JobFailed>, at: Option<Timestamp>| JobCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: failed.map(|failed| failed.reason.clone()),
        message: failed.map(|failed| failed.message.clone()),
        last_transition_time: at.map(Time),
        ..JobCondition::default()
    };
    let complete = found.complete.map(|at| condition("Complete", None, Some(at)));
    let failed = found.failed.as_ref().map(|failed| condition("Failed", Some(failed), found.ended));
    job.status = Some(JobStatus {
        active: Some(found.active),
        ready: Some(found.ready),
        succeeded: found.complete.map(|_| 1),
        conditions: Some(complete.into_iter().chain(failed).collect()),
        ..JobStatus::default()
    });
    seen.jobs.push(Arc::new(job.into()));
}

/// The whole walk without its reads and writes.
fn walk(folder: &Path) -> Value {
    let (scene, runtime) = scene(folder);
    let warnings = trainjob::warnings(&scene.job, &runtime);
    let mut shown = match trainjob::validate(&scene.job, &runtime, &settings(&scene)) {
        Err(refusal) => {
            let report = trainjob::reject(&scene.job, &refusal, scene.now);
            let faults: Vec<String> = refusal.faults.iter().map(ToString::to_string).collect();
            json!({ "faults": faults, "report": show_report(&report) })
        }
        Ok(valid) => {
            let seen = seen(&scene, &valid);
            let plan = trainjob::plan(&valid, &seen, scene.now);
            let refused = |it: &RefusedScene| ApplyFailure {
                kind: ChildKind::Job,
                name: it.name.clone(),
                foreign: false,
                creating: true,
                invalid: it.invalid,
                message: it.message.clone(),
            };
            let applied =
                Applied { failures: scene.refused.iter().map(refused).collect(), ..Applied::default() };
            let report = trainjob::report(&valid, &seen, &plan, &applied, scene.now);
            show_pass(&plan, &report)
        }
    };
    if !warnings.is_empty() {
        shown["warnings"] = json!(warnings);
    }
    shown
}

fn show_pass(plan: &TrainJobPlan, report: &TrainJobReport) -> Value {
    let outlook = match &plan.outlook {
        TrainJobOutlook::Finished => "Finished",
        TrainJobOutlook::Suspended => "Suspended",
        TrainJobOutlook::Active => "Active",
        TrainJobOutlook::Complete => "Complete",
        TrainJobOutlook::Failed(_) => "Failed",
        TrainJobOutlook::Restarting(_) => "Restarting",
    };
    let changes: Vec<Vec<Value>> =
        plan.changes.iter().map(|group| group.iter().map(show_change).collect()).collect();
    let mut shown = json!({
        "changes": changes,
        "outlook": outlook,
        "wakeAfterSeconds": plan.wake_after.map(seconds),
        "report": show_report(report),
    });
    if let Some(source) = &plan.last_words {
        shown["lastWords"] =
            json!(format!("{} {}", source.pod.metadata.name.as_deref().unwrap(), source.container));
    }
    if let Some(record) = &report.record {
        shown["record"] = json!({ "name": record.metadata.name, "data": record.data });
    }
    if let Some(JobChange::BeginAttemptAfter(number)) = report.then {
        shown["then"] = json!(format!("begin the attempt after {number}"));
    }
    shown
}

fn show_report(report: &TrainJobReport) -> Value {
    let notices = report.notices.iter().map(|notice| {
        let kind = if notice.warning { "Warning" } else { "Normal" };
        format!("{kind} {}: {}", notice.reason, notice.message)
    });
    json!({ "status": report.status, "notices": notices.collect::<Vec<_>>() })
}

#[test]
fn every_behaviour_of_a_trainjob_gives_its_golden_output() {
    let mut stale = Vec::new();
    for folder in folders() {
        let output = serde_saphyr::to_string(&walk(&folder)).unwrap();
        let path = folder.join("output.yaml");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, &output).unwrap();
        }
        if fs::read_to_string(&path).ok() != Some(output) {
            stale.push(path.display().to_string());
        }
    }
    assert!(stale.is_empty(), "{}\nrun with UPDATE=1 and read the diff", stale.join("\n"));
}

/// Turns what we make into the form of `upstream.yaml`, without what only we add.
fn as_upstream(children: Vec<Child>) -> Value {
    let mut shown = json!({ "jobs": [] });
    for child in children {
        let mut value = crate::golden::show_child(&child);
        drop_ours(&mut value);
        match child {
            Child::ConfigMap(map) if map.data.as_ref().unwrap().contains_key("runtime") => {}
            Child::ConfigMap(_) => shown["hostfile"] = value,
            Child::Secret(_) => shown["secret"] = value,
            Child::PodGroup(_) => shown["podGroup"] = value,
            Child::Service(_) => {
                shown["service"] = json!({ "name": value["metadata"]["name"], "spec": value["spec"] });
            }
            Child::Job(_) => shown["jobs"].as_array_mut().unwrap().push(value),
            Child::Pod(_) | Child::NetworkPolicy(_) => panic!("{value}"),
        }
    }
    shown
}

/// Removes what we add beyond upstream, and what a Job has from its JobSet or from Go: each is listed in
/// `docs/reference/trainjob.md`.
fn drop_ours(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for ours in [
                api::LABEL_TRAINJOB,
                api::LABEL_WORKER_INDEX,
                "jobset.sigs.k8s.io/job-key",
                "ownerReferences",
                "apiVersion",
                "kind",
                "status",
            ] {
                fields.remove(ours);
            }
            if fields.get("creationTimestamp").is_some_and(Value::is_null) {
                fields.remove("creationTimestamp");
            }
            // Go leaves out what is false.
            if fields.get("publishNotReadyAddresses") == Some(&json!(false)) {
                fields.remove("publishNotReadyAddresses");
            }
            fields.values_mut().for_each(drop_ours);
            // No variable refers to another one, so their order means nothing.
            if let Some(variables) = fields.get_mut("env").and_then(Value::as_array_mut) {
                variables.sort_by_key(|variable| variable["name"].to_string());
            }
            let is_empty = |value: &Value| value.as_object().is_some_and(serde_json::Map::is_empty);
            fields.retain(|name, value| {
                !(["metadata", "labels", "annotations", "resources", "strategy"].contains(&name.as_str())
                    && is_empty(value))
            });
        }
        Value::Array(items) => {
            items.retain(|item| !item["name"].as_str().is_some_and(|name| name.starts_with("PRTE_MCA_")));
            items.iter_mut().for_each(drop_ours);
        }
        _ => {}
    }
}

#[test]
fn what_is_made_is_what_trainer_makes() {
    let mut compared = 0;
    for folder in folders() {
        let Ok(text) = fs::read_to_string(folder.join("upstream.yaml")) else { continue };
        let (scene, runtime) = scene(&folder);
        let valid = trainjob::validate(&scene.job, &runtime, &settings(&scene)).unwrap();
        let mut upstream: Value = serde_saphyr::from_str(&text).unwrap();
        let mut ours = as_upstream(made(&valid));
        drop_ours(&mut upstream);
        if valid.gang.is_some() {
            // Upstream's gang also has the pods that run before it or wait for it, and so can never start.
            for (side, spec) in [("ours", &mut ours), ("upstream's", &mut upstream)] {
                let group = spec["podGroup"]["spec"].take();
                assert!(group["minMember"].as_i64() > Some(0), "{side}: {group}");
            }
            for side in [&mut ours, &mut upstream] {
                for job in side["jobs"].as_array_mut().unwrap() {
                    let labels = job["spec"]["template"]["metadata"]["labels"].as_object_mut().unwrap();
                    labels.remove("scheduling.x-k8s.io/pod-group");
                }
            }
        }
        let text = |side: &Value| serde_saphyr::to_string(side).unwrap();
        assert!(
            ours == upstream,
            "{}\n--- ours\n{}\n--- upstream's\n{}",
            folder.display(),
            text(&ours),
            text(&upstream)
        );
        compared += 1;
    }
    assert!(compared >= 7, "only {compared} folders were compared");
}

#[test]
fn a_snapshot_reads_back_as_the_runtime() {
    for folder in folders() {
        let (scene, runtime) = scene(&folder);
        let Ok(valid) = trainjob::validate(&scene.job, &runtime, &settings(&scene)) else { continue };
        let snapshot = made(&valid).into_iter().find_map(|child| match child {
            Child::ConfigMap(map) => trainjob::snapshot_text(&map).map(str::to_owned),
            _ => None,
        });
        let parsed: Value = serde_saphyr::from_str(&snapshot.unwrap()).unwrap();
        assert_eq!(Runtime::of(&parsed), Some(runtime));
    }
}

#[test]
fn annotations_without_effect_on_a_trainjob_are_named_once() {
    let with = |annotations: Value| -> TrainJob {
        let spec = json!({ "runtimeRef": { "name": "mpi" } });
        serde_json::from_value(json!({ "metadata": { "annotations": annotations }, "spec": spec })).unwrap()
    };
    let cancelled = with(json!({ api::ANNOTATION_CANCEL: "true", api::ANNOTATION_STALL_TIMEOUT: "1m" }));
    let found = trainjob::ineffective(None, &cancelled);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(api::ANNOTATION_CANCEL) && found[0].contains("suspend or delete"), "{found:?}");
    assert_eq!(trainjob::ineffective(Some(&cancelled), &cancelled), Vec::<String>::new());
    assert_eq!(trainjob::ineffective(Some(&with(json!({}))), &cancelled).len(), 1);
}

#[test]
fn a_runtime_without_jobs_or_with_two_gang_schedulers_is_refused() {
    let faults = |spec: Value| {
        let faults = trainjob::runtime_faults(&serde_json::from_value(spec).unwrap());
        faults.iter().map(|fault| fault.path.clone()).collect::<Vec<_>>()
    };
    let template = json!({ "spec": { "replicatedJobs": [{ "name": "launcher", "template": {} }] } });
    let gangs = |policy: Value| json!({ "podGroupPolicy": policy, "template": template });
    assert_eq!(faults(json!({ "template": { "spec": {} } })), ["spec.template.spec.replicatedJobs"]);
    assert_eq!(faults(gangs(json!({ "coscheduling": {}, "volcano": {} }))), ["spec.podGroupPolicy"]);
    assert_eq!(faults(gangs(json!({ "volcano": {} }))), [""; 0]);
}

#[test]
fn every_shipped_runtime_runs_a_trainjob() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/runtimes");
    let listed: Value =
        serde_saphyr::from_str(&fs::read_to_string(folder.join("kustomization.yaml")).unwrap()).unwrap();
    let names: Vec<&str> =
        listed["resources"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(names.len() + 1, fs::read_dir(&folder).unwrap().count(), "each runtime is listed");
    for name in names {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        let runtime: ClusterTrainingRuntime = serde_saphyr::from_str(&text).unwrap();
        let (metadata, spec) = (runtime.metadata, runtime.spec.runtime);
        assert_eq!(trainjob::runtime_faults(&spec), [], "{name}");
        let runtime = Runtime {
            kind: "ClusterTrainingRuntime".to_owned(),
            name: metadata.name.unwrap(),
            labels: metadata.labels.unwrap_or_default(),
            spec,
        };
        let job = json!({
            "metadata": { "name": "digits", "namespace": "team" },
            "spec": { "runtimeRef": { "name": runtime.name }, "trainer": { "numNodes": 3, "command": ["mpirun"],
                "env": [{ "name": "LR", "value": "0.1" }], "resourcesPerNode": { "limits": { "memory": "1Gi" } } } },
        });
        let job: TrainJob = serde_json::from_value(job).unwrap();
        let valid = trainjob::validate(&job, &runtime, &Settings::default()).unwrap();
        let jobs: Vec<String> = made(&valid)
            .iter()
            .filter(|child| child.kind() == ChildKind::Job)
            .map(|child| child.name().to_owned())
            .collect();
        assert_eq!(jobs, ["digits-node-0", "digits-launcher-0"], "{name}");
        // What is asked for on each node reaches all ranks: three hosts have them, the Launcher's among them.
        let hosts: usize = valid.job_set.replicated.iter().map(|part| part.pods).sum();
        assert_eq!((hosts, valid.mpi.launcher_as_node), (3, true), "{name}");
        for child in made(&valid).iter().filter(|child| child.kind() == ChildKind::Job) {
            let job = crate::golden::show_child(child);
            let container = &job["spec"]["template"]["spec"]["containers"][0];
            assert_eq!(container["resources"]["limits"]["memory"], "1Gi", "{name}: {}", child.name());
            let variables = container["env"].as_array().unwrap();
            assert!(variables.iter().any(|variable| variable["name"] == "LR"), "{name}: {}", child.name());
        }
        let uses_agent = name != "deepspeed-distributed.yaml";
        assert_eq!(valid.launch == Launch::Agent, uses_agent, "{name}");
    }
}

#[test]
fn a_trainjob_that_asks_for_one_node_and_gets_two_is_warned() {
    let runtime = |as_node: bool| {
        let template = json!({ "spec": { "replicatedJobs": [{ "name": "node", "template": {} }] } });
        let spec = json!({ "mlPolicy": { "mpi": { "runLauncherAsNode": as_node } }, "template": template });
        let snapshot =
            json!({ "kind": "ClusterTrainingRuntime", "metadata": { "name": "openmpi" }, "spec": spec });
        trainjob::Runtime::of(&snapshot).unwrap()
    };
    let job = |nodes: i32, word: &str| -> TrainJob {
        let trainer = json!({ "numNodes": nodes, "args": ["sh", "-c", word] });
        let spec = json!({ "runtimeRef": { "name": "openmpi" }, "trainer": trainer });
        serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap()
    };
    let told = trainjob::warnings(&job(1, "true"), &runtime(true));
    assert!(told.len() == 1 && told[0].contains("numNodes: 1") && told[0].contains("has 2"), "{told:?}");
    assert_eq!(trainjob::warnings(&job(1, "true"), &runtime(false)), Vec::<String>::new());
    assert_eq!(trainjob::warnings(&job(2, "true"), &runtime(true)), Vec::<String>::new());
    let told = trainjob::warnings(&job(2, "echo $$"), &runtime(true));
    assert!(told.len() == 1 && told[0].starts_with("spec.trainer.args: "), "{told:?}");
}
