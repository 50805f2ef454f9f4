//! The changes to propose for a cause: a setting of a copy of the job, with the value that the job has and one to begin
//! with. What happened and what to do about it in general is the diagnosis's; this is what a single click can do.
//!
//! The input is the job and its cause; the output is typed changes in terms of [`Setting`](crate::setting::Setting),
//! none where only a person can know what to change. Pure.

use api::Failure;
use diagnosis::Cause;
use kube::api::DynamicObject;
use serde::Serialize;
use serde_json::Value;

use crate::{Kind, view};

/// What a fix changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FixKind {
    /// The memory of a role.
    Memory,
    /// The image.
    Image,
    /// The deadline, in seconds.
    Deadline,
    /// The number of Workers.
    Workers,
}

/// A change that may remove a cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fix {
    /// What it changes.
    pub kind: FixKind,
    /// The role that it changes, as in the job's spec; `None` if it changes the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The path of the setting, e.g. `worker.memory`.
    pub path: String,
    /// The job's value.
    pub now: String,
    /// The value to begin with; `None` if only a person can know it, such as the right name of an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposed: Option<String>,
}

/// Returns the changes that may remove the cause of a job's failure, or of its waiting. The best one is first.
#[must_use]
pub fn fixes(object: &DynamicObject) -> Vec<Fix> {
    let row = view::row(object);
    let status = view::status(object);
    let cause = row.cause.as_deref().and_then(Cause::of_word);
    let failure = status.failure;
    let found = match cause {
        Some(Cause::OutOfMemory) => more_memory(row.kind, object, failure.as_ref()),
        Some(Cause::ImagePull) => other_image(row.kind, object),
        Some(Cause::Timeout) => longer_deadline(row.kind, object),
        Some(Cause::Unschedulable | Cause::QuotaExceeded) => fewer_workers(row.kind, object),
        // The word of Kubernetes' own Jobs and of other operators.
        _ if row.cause.as_deref() == Some("DeadlineExceeded") => longer_deadline(row.kind, object),
        _ => None,
    };
    found.into_iter().collect()
}

/// Twice the memory of the role whose pod ran out of it; if that is unknown, of the Workers.
fn more_memory(kind: Kind, object: &DynamicObject, failure: Option<&Failure>) -> Option<Fix> {
    let roles: &[&str] = match kind {
        Kind::MpiJob => &[api::WORKER, api::LAUNCHER],
        Kind::TrainJob => &["Node"],
        Kind::PyTorchJob | Kind::TfJob => kind.working_roles(),
    };
    let failed = |role: &str| match failure {
        // The pod may be the Launcher's all the same: its output shows what happened to a Worker.
        Some(Failure { worker: Some(_), .. }) => role == api::WORKER,
        Some(Failure { pod: Some(pod), .. }) => pod.contains(&format!("-{}-", role.to_lowercase())),
        _ => false,
    };
    let mut candidates: Vec<&str> = roles.iter().copied().filter(|role| failed(role)).collect();
    if candidates.is_empty() {
        candidates = roles.to_vec();
        candidates.sort_by_key(|role| *role != api::WORKER);
    }
    let (role, now) = candidates.into_iter().find_map(|role| Some((role, memory(kind, object, role)?)))?;
    Some(Fix {
        kind: FixKind::Memory,
        path: format!("{}.memory", role.to_lowercase()),
        role: Some(role.to_owned()),
        proposed: Some(doubled(&now)?),
        now,
    })
}

/// The memory that a role's first container is limited to, or requests.
fn memory(kind: Kind, object: &DynamicObject, role: &str) -> Option<String> {
    let resources = match kind.replicas_field() {
        None => "/spec/trainer/resourcesPerNode".to_owned(),
        Some(field) => format!("/spec/{field}/{role}/template/spec/containers/0/resources"),
    };
    let resources = object.data.pointer(&resources)?;
    let amount = resources.pointer("/limits/memory").or_else(|| resources.pointer("/requests/memory"))?;
    Some(amount.as_str().map_or_else(|| amount.to_string(), str::to_owned))
}

/// A quantity twice as large, in the same unit: `1536Mi` of `768Mi`.
fn doubled(quantity: &str) -> Option<String> {
    let unit = quantity.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = quantity.split_at(unit.unwrap_or(quantity.len()));
    let number: f64 = number.parse().ok()?;
    unit.chars().all(char::is_alphabetic).then(|| format!("{}{unit}", number * 2.0))
}

fn other_image(kind: Kind, object: &DynamicObject) -> Option<Fix> {
    let now = kind.image(object)?;
    let path = if kind == Kind::TrainJob { "spec.trainer.image" } else { "image" };
    Some(Fix { kind: FixKind::Image, role: None, path: path.to_owned(), now, proposed: None })
}

fn longer_deadline(kind: Kind, object: &DynamicObject) -> Option<Fix> {
    let pointer = match kind {
        Kind::TrainJob => "/spec/activeDeadlineSeconds",
        Kind::MpiJob | Kind::PyTorchJob | Kind::TfJob => "/spec/runPolicy/activeDeadlineSeconds",
    };
    let seconds = object.data.pointer(pointer).and_then(Value::as_i64)?;
    Some(Fix {
        kind: FixKind::Deadline,
        role: None,
        path: "deadline".to_owned(),
        now: seconds.to_string(),
        proposed: Some(seconds.checked_mul(2)?.to_string()),
    })
}

/// Half the Workers, if there are several.
fn fewer_workers(kind: Kind, object: &DynamicObject) -> Option<Fix> {
    let pointer = match kind.replicas_field() {
        None => "/spec/trainer/numNodes".to_owned(),
        Some(field) => format!("/spec/{field}/{}/replicas", api::WORKER),
    };
    let now = object.data.pointer(&pointer).and_then(Value::as_i64).filter(|workers| *workers > 1)?;
    Some(Fix {
        kind: FixKind::Workers,
        role: None,
        path: "workers".to_owned(),
        now: now.to_string(),
        proposed: Some((now / 2).to_string()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::export;
    use crate::setting::{self, Setting};

    fn job(cause: &str, pod: &str) -> DynamicObject {
        let container = |memory: &str| {
            json!({ "template": { "spec": { "containers": [{ "name": "main", "image": "train:1",
                "resources": { "limits": { "memory": memory } } }] } } })
        };
        let mut worker = container("768Mi");
        worker["replicas"] = json!(8);
        serde_json::from_value(json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": { "name": "pi", "namespace": "team" },
            "spec": { "runPolicy": { "activeDeadlineSeconds": 600 },
                "mpiReplicaSpecs": { "Launcher": container("1Gi"), "Worker": worker } },
            "status": { "phase": "Failed", "failure": { "reason": cause, "message": "", "pod": pod } } }))
        .unwrap()
    }

    fn change(object: &DynamicObject) -> (String, String, Option<String>) {
        let fix = fixes(object).pop().unwrap();
        (fix.path, fix.now, fix.proposed)
    }

    #[test]
    fn each_cause_that_a_value_removes_has_its_change() {
        let table = [
            ("OutOfMemory", "pi-worker-1", "worker.memory", "768Mi", Some("1536Mi")),
            ("OutOfMemory", "pi-launcher-x2x4", "launcher.memory", "1Gi", Some("2Gi")),
            ("ImagePull", "pi-worker-1", "image", "train:1", None),
            ("Timeout", "", "deadline", "600", Some("1200")),
            ("Unschedulable", "", "workers", "8", Some("4")),
        ];
        for (cause, pod, path, now, proposed) in table {
            let wanted = (path.to_owned(), now.to_owned(), proposed.map(str::to_owned));
            assert_eq!(change(&job(cause, pod)), wanted, "{cause}");
        }
        assert_eq!(fixes(&job("RankExited", "pi-worker-1")), []);
        let mut seen_by_launcher = job("OutOfMemory", "pi-launcher-x2x4");
        seen_by_launcher.data["status"]["failure"]["worker"] = json!(1);
        assert_eq!(change(&seen_by_launcher).0, "worker.memory");
    }

    #[test]
    fn every_proposed_change_can_be_set() {
        for cause in ["OutOfMemory", "ImagePull", "Timeout", "Unschedulable"] {
            let object = job(cause, "pi-worker-1");
            let fix = fixes(&object).pop().unwrap();
            let value = fix.proposed.unwrap_or_else(|| "train:2".to_owned());
            let set = [Setting { path: fix.path, value: value.clone() }];
            let changed = setting::set(export::manifest(&object), Kind::MpiJob, &set).unwrap();
            assert!(changed.to_string().contains(&value), "{cause}: {changed:#}");
        }
    }

    #[test]
    fn a_trainjob_is_changed_by_its_own_fields() {
        let object = |cause: &str| -> DynamicObject {
            serde_json::from_value(json!({ "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
                "metadata": { "name": "llm" },
                "spec": { "activeDeadlineSeconds": 60, "trainer": { "image": "train:1", "numNodes": 4,
                    "resourcesPerNode": { "limits": { "memory": "1.5Gi" } } } },
                "status": { "phase": "Failed", "failure": { "reason": cause, "message": "" } } }))
            .unwrap()
        };
        let found: Vec<_> = ["OutOfMemory", "ImagePull", "DeadlineExceeded", "QuotaExceeded"]
            .map(|cause| fixes(&object(cause)).pop().unwrap())
            .into_iter()
            .map(|fix| (fix.path, fix.proposed.unwrap_or_default()))
            .collect();
        let pairs =
            [("node.memory", "3Gi"), ("spec.trainer.image", ""), ("deadline", "120"), ("workers", "2")];
        assert_eq!(found, pairs.map(|(path, proposed)| (path.to_owned(), proposed.to_owned())));
    }

    #[test]
    fn only_quantities_are_doubled() {
        let doubles = ["128Mi", "1.5Gi", "1000000", "many", "1e3"].map(doubled);
        let wanted = [Some("256Mi"), Some("3Gi"), Some("2000000"), None, None];
        assert_eq!(doubles, wanted.map(|text| text.map(str::to_owned)));
    }
}
