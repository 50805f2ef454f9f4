//! The parts of a TrainJob that may not change once it exists: everything but `suspend` and `runtimePatches`, and of the
//! patches, while the job is held back, only what a queue sets. Jobs are compared by meaning, as MPIJobs are: Kueue
//! reads a TrainJob into Go types and writes the whole back. And the times of patches, which admission sets.

use api::{RuntimePatch, TRAINJOB_MANAGED_BY_US, TrainJob};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value};

use crate::immutable::{differing, fields_of};
use crate::time::whole_seconds;
use crate::validate::Fault;

const ADVICE: &str = "delete the job and create it again";
const CHANGED: &str = "cannot be changed";
const PATCHES: &str = "spec.runtimePatches";
/// The fields of a pod that a queue sets; the others of an existing patch may not change.
const SCHEDULING_FIELDS: [&str; 4] = ["nodeSelector", "affinity", "tolerations", "schedulingGates"];

/// Returns the changes of a job that are not allowed; empty if the change may be made.
#[must_use]
pub fn forbidden_changes(old: &TrainJob, new: &TrainJob) -> Vec<Fault> {
    let mut faults = Vec::new();
    let (before, after) = (fixed_fields(old), fixed_fields(new));
    for field in differing(&before, &after) {
        match (before.get(&field), after.get(&field)) {
            (Some(Value::Object(old)), Some(Value::Object(new))) => {
                let below = differing(old, new);
                faults.extend(
                    below.iter().map(|below| fault(format!("spec.{field}.{below}"), CHANGED, ADVICE)),
                );
            }
            _ => faults.push(fault(format!("spec.{field}"), CHANGED, ADVICE)),
        }
    }
    faults.extend(forbidden_patches(old, new));
    faults
}

fn fault(path: String, message: &str, advice: &str) -> Fault {
    Fault { path, message: message.to_owned(), advice: advice.to_owned() }
}

/// The fields that may not change, in normalized form and with their defaults.
fn fixed_fields(job: &TrainJob) -> Map<String, Value> {
    let mut spec = job.spec.clone();
    spec.runtime_patches.clear();
    spec.suspend = None;
    spec.runtime_ref.api_group.get_or_insert_with(|| "trainer.kubeflow.org".to_owned());
    spec.runtime_ref.kind.get_or_insert_with(|| "ClusterTrainingRuntime".to_owned());
    spec.managed_by.get_or_insert_with(|| TRAINJOB_MANAGED_BY_US.to_owned());
    let mut fields = fields_of(&spec);
    for optional in ["trainer", "initializer"] {
        if fields.get(optional).and_then(Value::as_object).is_some_and(Map::is_empty) {
            fields.remove(optional);
        }
    }
    fields
}

/// Patches may change only while the job is suspended before or after the change, and has no active pods.
fn forbidden_patches(old: &TrainJob, new: &TrainJob) -> Vec<Fault> {
    let (before, after) = (patches(old), patches(new));
    if before == after {
        return Vec::new();
    }
    let held = |job: &TrainJob| job.spec.suspend == Some(true);
    if !held(old) && !held(new) {
        let message = "can only be modified when the TrainJob is suspended before or after the update";
        return vec![fault(PATCHES.to_owned(), message, "suspend the job first")];
    }
    let status = old.status.clone().unwrap_or_default();
    let active = status.jobs_status.iter().filter(|job| job.active > 0);
    let mut faults: Vec<Fault> = active
        .map(|job| {
            let message = format!("cannot be modified when the replicated job {} is still active", job.name);
            fault(PATCHES.to_owned(), &message, "wait until its pods have ended")
        })
        .collect();
    for (manager, patch) in &after {
        if let Some((_, known)) = before.iter().find(|(name, _)| name == manager) {
            compare_patches(manager, known, patch, &mut faults);
        }
    }
    faults
}

/// Each manager's patch in normalized form, without its time.
fn patches(job: &TrainJob) -> Vec<(String, Map<String, Value>)> {
    let normalized = |patch: &RuntimePatch| {
        let mut fields = fields_of(&RuntimePatch { time: None, ..patch.clone() });
        if fields.get("trainingRuntimeSpec").and_then(Value::as_object).is_some_and(Map::is_empty) {
            fields.remove("trainingRuntimeSpec");
        }
        (patch.manager.clone(), fields)
    };
    job.spec.runtime_patches.iter().map(normalized).collect()
}

/// Of a patch that stays, only what a queue sets may change, where both have the field.
fn compare_patches(
    manager: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    faults: &mut Vec<Fault>,
) {
    let jobs = |patch: &Map<String, Value>| {
        let list =
            patch.get("trainingRuntimeSpec").and_then(|it| it.pointer("/template/spec/replicatedJobs"));
        list.and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let pod = |job: &Value| job.pointer("/template/spec/template/spec").and_then(Value::as_object).cloned();
    let before = jobs(old);
    for job in jobs(new) {
        let known =
            before.iter().find(|known| known["name"] == job["name"]).and_then(pod).unwrap_or_default();
        for (field, value) in pod(&job).unwrap_or_default() {
            let changed = known.get(&field).is_some_and(|known| *known != value);
            if changed && !SCHEDULING_FIELDS.contains(&field.as_str()) {
                let name = job["name"].as_str().unwrap_or_default();
                let path = format!("{PATCHES}[{manager}].replicatedJobs[{name}].{field}");
                faults.push(fault(path, CHANGED, "remove the manager's entry and add it again"));
            }
        }
    }
}

/// The times that the patches of a new or changed job get: of an unchanged patch the former, else now. On creation, one
/// that is given stays.
#[must_use]
pub fn patch_times(old: Option<&TrainJob>, new: &TrainJob, now: Timestamp) -> Vec<Time> {
    let now = Time(whole_seconds(now));
    let before = old.map(patches);
    let after = patches(new);
    let times = new.spec.runtime_patches.iter().zip(&after).map(|(patch, (manager, fields))| {
        let known = before.iter().flatten().position(|(name, _)| name == manager);
        let of_old = known
            .and_then(|index| Some((&before.as_ref()?.get(index)?.1, old?.spec.runtime_patches.get(index)?)));
        match of_old {
            Some((known, old)) if known == fields => old.time.clone().unwrap_or_else(|| now.clone()),
            Some(_) => now.clone(),
            None => patch.time.clone().unwrap_or_else(|| now.clone()),
        }
    });
    times.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job() -> Value {
        json!({
            "metadata": { "name": "digits" },
            "spec": {
                "runtimeRef": { "name": "mpi" },
                "suspend": true,
                "trainer": {
                    "numNodes": 2, "args": [],
                    "env": [{ "name": "EMPTY", "value": "" }],
                    "resourcesPerNode": { "limits": { "cpu": 1, "memory": "1024Mi" } },
                },
            },
        })
    }

    /// The same job as Kueue writes it back, with its empty patch.
    fn typed() -> Value {
        json!({
            "metadata": { "name": "digits", "creationTimestamp": null },
            "spec": {
                "runtimeRef": { "name": "mpi", "apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime" },
                "suspend": false, "managedBy": "trainer.kubeflow.org/trainjob-controller",
                "trainer": {
                    "numNodes": 2,
                    "env": [{ "name": "EMPTY" }],
                    "resourcesPerNode": { "limits": { "cpu": "1", "memory": "1Gi" } },
                },
                "runtimePatches": [{ "manager": "kueue.x-k8s.io/manager" }],
            },
        })
    }

    fn changes(old: &Value, new: &Value) -> Vec<String> {
        let read = |job: &Value| serde_json::from_value(job.clone()).unwrap();
        forbidden_changes(&read(old), &read(new)).iter().map(ToString::to_string).collect()
    }

    fn with(mut job: Value, pointer: &str, value: Value) -> Value {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        job.pointer_mut(parent).unwrap()[name] = value;
        job
    }

    fn patch(fields: Value) -> Value {
        let pod = json!({ "name": "node", "template": { "spec": { "template": { "spec": fields } } } });
        json!([{ "manager": "kueue.x-k8s.io/manager",
            "trainingRuntimeSpec": { "template": { "spec": { "replicatedJobs": [pod] } } } }])
    }

    #[test]
    fn a_job_that_a_queue_wrote_back_is_unchanged() {
        assert_eq!(changes(&job(), &typed()), Vec::<String>::new());
        assert_eq!(changes(&typed(), &job()), Vec::<String>::new());
    }

    #[test]
    fn what_a_job_means_cannot_be_changed() {
        for (pointer, value, path) in [
            ("/spec/trainer/numNodes", json!(3), "spec.trainer.numNodes"),
            ("/spec/trainer/resourcesPerNode/limits/cpu", json!("2"), "spec.trainer.resourcesPerNode"),
            ("/spec/runtimeRef/name", json!("other"), "spec.runtimeRef.name"),
            ("/spec/initializer", json!({ "dataset": {} }), "spec.initializer"),
            ("/spec/activeDeadlineSeconds", json!(5), "spec.activeDeadlineSeconds"),
            ("/spec/managedBy", json!("kueue.x-k8s.io/multikueue"), "spec.managedBy"),
        ] {
            let found = changes(&typed(), &with(typed(), pointer, value));
            assert!(found.len() == 1 && found[0].starts_with(path), "{pointer}: {found:?}");
        }
    }

    #[test]
    fn patches_change_only_while_the_job_is_held_back_and_idle() {
        let (zone, running) = (patch(json!({ "nodeSelector": { "zone": "a" } })), typed());
        let admitted = with(running.clone(), "/spec/runtimePatches", zone);
        assert!(changes(&running, &admitted)[0].contains("suspended before or after"));
        let held = with(running.clone(), "/spec/suspend", json!(true));
        assert_eq!(changes(&held, &admitted), Vec::<String>::new(), "Kueue admits");
        let evicted = with(held.clone(), "/spec/runtimePatches", json!([]));
        assert_eq!(changes(&admitted, &evicted), Vec::<String>::new(), "Kueue evicts");
        let counts =
            json!([{ "name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0 }]);
        let busy = with(held, "/status", json!({ "jobsStatus": counts }));
        assert!(changes(&busy, &admitted)[0].contains("still active"));
    }

    #[test]
    fn of_a_patch_that_stays_only_scheduling_changes() {
        let of = |fields: Value| with(job(), "/spec/runtimePatches", patch(fields));
        let old = of(json!({ "serviceAccountName": "a", "nodeSelector": { "zone": "a" } }));
        assert_eq!(
            changes(&old, &of(json!({ "serviceAccountName": "a", "tolerations": [{ "key": "k" }] }))),
            [""; 0]
        );
        let found = changes(&old, &of(json!({ "serviceAccountName": "b" })));
        assert!(
            found.len() == 1 && found[0].contains("replicatedJobs[node].serviceAccountName"),
            "{found:?}"
        );
    }

    #[test]
    fn a_patch_has_the_time_of_its_last_change() {
        let read = |job: &Value| serde_json::from_value::<TrainJob>(job.clone()).unwrap();
        let at = |second: i64| Time(Timestamp::from_second(second).unwrap());
        let new =
            read(&with(job(), "/spec/runtimePatches", patch(json!({ "nodeSelector": { "zone": "a" } }))));
        assert_eq!(patch_times(None, &new, at(10).0), [at(10)]);
        let mut old = new.clone();
        old.spec.runtime_patches[0].time = Some(at(10));
        assert_eq!(patch_times(Some(&old), &new, at(20).0), [at(10)], "it says the same");
        let changed =
            read(&with(job(), "/spec/runtimePatches", patch(json!({ "nodeSelector": { "zone": "b" } }))));
        assert_eq!(patch_times(Some(&old), &changed, at(20).0), [at(20)]);
    }
}
