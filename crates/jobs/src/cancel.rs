//! Cancels a job: it ends at once and for good, while its record and its Launcher's output stay.

use api::ANNOTATION_CANCEL;
use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::json;

use crate::submit::FIELD_MANAGER;
use crate::{Action, Advice, Attempt, Class, Error, Kind, list, view};

/// Cancels the job; returns it as the server then has it.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Refused`] if the job has ended or is not an MPIJob, or the server's refusal.
pub async fn cancel(
    client: &Client,
    kind: Kind,
    namespace: &str,
    name: &str,
) -> Result<DynamicObject, Error> {
    let refused = |class, reason: &str, message: String, advice: Option<Advice>| Error::Refused {
        class,
        reason: reason.to_owned(),
        message,
        advice,
        faults: Vec::new(),
    };
    if kind != Kind::MpiJob {
        let message = format!("only an MPIJob can be cancelled, and \"{name}\" is a {}", kind.name());
        let advice = Advice::from("suspend it, or delete it").with(Action::Delete(kind.job(namespace, name)));
        return Err(refused(Class::Error, "NotSupported", message, Some(advice)));
    }
    let job = list::get(client, kind, namespace, name).await?;
    let own = view::in_our_words(&job);
    let manager = own.spec.run_policy.as_ref().and_then(|policy| policy.managed_by.clone());
    if let Some(manager) = manager.filter(|_| !plan::is_ours(&own)) {
        let message = format!(
            "{manager:?} manages MPIJob \"{name}\" (runPolicy.managedBy), and only that controller can cancel it"
        );
        let advice =
            Advice::from("end it there, or delete it").with(Action::Delete(kind.job(namespace, name)));
        return Err(refused(Class::Conflict, "ManagedElsewhere", message, Some(advice)));
    }
    let row = view::row(&job);
    if row.has_ended() {
        let phase = view::phase_name(row.phase).to_lowercase();
        let message = format!("MPIJob \"{name}\" has already {phase}, so it cannot be cancelled");
        return Err(refused(Class::Conflict, "Ended", message, None));
    }
    let attempt = Attempt { verb: "patch", what: kind.names(), name, namespace };
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let change = Patch::Merge(json!({ "metadata": { "annotations": { (ANNOTATION_CANCEL): "true" } } }));
    let patched = kind.api(client, namespace).patch(name, &parameters, &change).await;
    patched.map_err(|error| Error::from_kube(error, attempt))
}
