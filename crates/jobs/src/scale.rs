//! Changes the number of a job's Workers.

use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::submit::FIELD_MANAGER;
use crate::{Action, Advice, Attempt, Class, Error, Kind, list, view};

/// Sets the number of Workers; returns the job as the server then has it.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Refused`] if the job has ended or its kind has no such number, or the server's refusal.
pub async fn scale(
    client: &Client,
    kind: Kind,
    namespace: &str,
    name: &str,
    workers: i32,
) -> Result<DynamicObject, Error> {
    let job = list::get(client, kind, namespace, name).await?;
    let refused = |class, reason: &str, message: String| Error::Refused {
        class,
        reason: reason.to_owned(),
        message,
        advice: None,
        faults: Vec::new(),
    };
    if kind == Kind::TrainJob {
        return Err(Error::Refused {
            class: Class::Invalid,
            reason: "NotSupported".to_owned(),
            message: "the number of nodes of a TrainJob is fixed".to_owned(),
            advice: Some(
                Advice::from(format!("run a copy of it with another number, set by workers={workers}"))
                    .with(Action::Clone(kind.job(namespace, name))),
            ),
            faults: Vec::new(),
        });
    }
    if view::row(&job).has_ended() {
        let message = format!("{} \"{name}\" has ended, so its Workers cannot change", kind.name());
        return Err(refused(Class::Conflict, "Ended", message));
    }
    let Some(change) = change(kind, workers) else {
        let message = format!("a {} has no single number of Workers", kind.name());
        return Err(refused(Class::Error, "NotSupported", message));
    };
    let attempt = Attempt { verb: "patch", what: kind.names(), name, namespace };
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let patched = kind.api(client, namespace).patch(name, &parameters, &Patch::Merge(change)).await;
    patched.map_err(|error| Error::from_kube(error, attempt))
}

fn change(kind: Kind, workers: i32) -> Option<Value> {
    match kind {
        Kind::MpiJob => Some(json!({ "spec": { "mpiReplicaSpecs": { "Worker": { "replicas": workers } } } })),
        // A server refuses it for every TrainJob.
        Kind::TrainJob | Kind::PyTorchJob | Kind::TfJob => None,
    }
}
