//! Suspends and resumes a job.
//!
//! Suspending deletes the pods and keeps the job; what a program has not saved is lost. Resuming starts the job from
//! the beginning.

use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::submit::FIELD_MANAGER;
use crate::{Action, Advice, Attempt, Class, Error, Kind, list, view};

/// The result of suspending or resuming a job.
#[derive(Clone, Debug)]
pub struct SuspensionChange {
    /// The job as the server now has it.
    pub object: DynamicObject,
    /// Whether the job's state changed.
    pub changed: bool,
}

/// Suspends the job (`true`), or resumes it (`false`).
///
/// # Errors
/// [`Error::NotFound`], [`Error::Refused`] if the job has ended or a queue decides, or the server's refusal.
pub async fn set(
    client: &Client,
    kind: Kind,
    namespace: &str,
    name: &str,
    suspend: bool,
) -> Result<SuspensionChange, Error> {
    let object = list::get(client, kind, namespace, name).await?;
    let row = view::row(&object);
    if row.has_ended() {
        let phase = view::phase_name(row.phase).to_lowercase();
        let way = if suspend { "it cannot be suspended" } else { "it cannot be resumed" };
        return Err(ended(kind, namespace, name, &phase, way));
    }
    if kind.suspended(&object) == suspend {
        return Ok(SuspensionChange { object, changed: false });
    }
    let verb = if suspend { "suspend" } else { "resume" };
    let attempt = Attempt { verb: "patch", what: kind.names(), name, namespace };
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let change = nested(kind.suspend_pointer(), suspend.into());
    let patched = kind.api(client, namespace).patch(name, &parameters, &Patch::Merge(change)).await;
    let object = patched.map_err(|error| match Error::from_kube(error, attempt) {
        Error::Refused { class, reason, message, advice, faults } => Error::Refused {
            class,
            reason,
            message: format!("cannot {verb} {}/{name}: {message}", kind.word()),
            advice,
            faults,
        },
        other => other,
    })?;
    Ok(SuspensionChange { object, changed: true })
}

fn ended(kind: Kind, namespace: &str, name: &str, phase: &str, way: &str) -> Error {
    Error::Refused {
        class: Class::Conflict,
        reason: "Ended".to_owned(),
        message: format!("{} \"{name}\" has {phase}: {way}", kind.name()),
        advice: Some(Advice::from("run it again").with(Action::Retry(kind.job(namespace, name)))),
        faults: Vec::new(),
    }
}

/// Builds `{"a": {"b": value}}` from `/a/b`.
fn nested(pointer: &str, value: Value) -> Value {
    pointer.split('/').filter(|step| !step.is_empty()).rev().fold(value, |inner, step| json!({ step: inner }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_suspended_by_its_own_field() {
        assert_eq!(
            nested(Kind::MpiJob.suspend_pointer(), true.into()),
            json!({"spec": {"runPolicy": {"suspend": true}}})
        );
        assert_eq!(
            nested(Kind::TrainJob.suspend_pointer(), false.into()),
            json!({"spec": {"suspend": false}})
        );
    }
}
