//! Everything that is wrong with a job that is only tried: what the service finds in it, and what the cluster would
//! refuse besides, so that a person does not learn of one after the other.

use jobs::preflight::{self, PATIENCE};
use jobs::submit::{self, Checked, Draft, DryRun};
use jobs::{Class, Error, Fault};

use super::availability;
use crate::access::Right;
use crate::contract::{CreateJobRequest, FieldFault};
use crate::identity::Caller;
use crate::problem::Problem;
use crate::service::Service;

/// The beginnings of the paths of values on which a refusal of the whole job, by a quota or a policy, does not depend.
const APART: [&str; 8] = [
    "metadata.name",
    "metadata.annotations[",
    "spec.runPolicy.",
    "command",
    "workdir",
    "env",
    "variables",
    "transport",
];
const NAME: &str = "metadata.name";
/// The reason of the server's refusal of a name that another job has.
const TAKEN: &str = "AlreadyExists";

/// Returns the faults of a job, and those that only the cluster finds, as far as it answers in time.
pub async fn all(
    service: &Service,
    caller: &Caller,
    checked: Checked,
    request: &CreateJobRequest,
) -> Vec<Fault> {
    let Checked { draft, mut faults } = checked;
    let Some(draft) = draft else { return faults };
    let namespace = request.namespace.as_str();
    let right = Right::on_jobs("create", draft.kind, namespace);
    if !matches!(service.access.may(caller, right).await, Ok(true)) {
        return faults;
    }
    // What the job requests is another amount without the faulty values.
    let is_whole = faults.iter().all(|fault| APART.iter().any(|apart| fault.path.starts_with(apart)));
    let unavailable = async {
        match is_whole && !request.skip_checks {
            true => unavailable(service, caller, &draft, namespace).await,
            false => None,
        }
    };
    let (unavailable, refused) = futures::join!(unavailable, refused(caller, &draft, namespace));
    let of_server = refused.map(|error| of_server(&error, is_whole && unavailable.is_none()));
    for fault in unavailable.into_iter().chain(of_server.unwrap_or_default()) {
        if !faults.iter().any(|known| covers(&known.path, &fault.path)) {
            faults.push(fault);
        }
    }
    faults
}

/// Adds to the refusal of a job the faults that the server finds in its fields.
pub async fn with_those_of_server(
    refusal: Problem,
    caller: &Caller,
    draft: &Draft,
    namespace: &str,
) -> Problem {
    let found = refused(caller, draft, namespace).await.map(|error| of_server(&error, false));
    let found = found.unwrap_or_default();
    if found.is_empty() {
        return refusal;
    }
    let whole = FieldFault { path: String::new(), fault: refusal.message.clone(), fix: refusal.hint.clone() };
    let fields = std::iter::once(whole).chain(found.into_iter().map(field)).collect();
    Problem { fields, ..refusal }
}

/// Returns the problem of the server's refusal. A name that is taken is a fault of its field.
pub fn problem(error: Error) -> Problem {
    let taken = (error.reason() == TAKEN).then(|| fault(NAME, &error));
    let mut problem = Problem::from(error);
    problem.fields.extend(taken.map(field));
    problem
}

fn field(Fault { path, message, advice, .. }: Fault) -> FieldFault {
    FieldFault { path, fault: message, fix: advice.unwrap_or_default() }
}

/// Why the job could not be created with what the namespace has.
async fn unavailable(service: &Service, caller: &Caller, draft: &Draft, namespace: &str) -> Option<Fault> {
    let (found, _) = availability::of(service, caller, draft, namespace).await.ok()?;
    preflight::refusal(&found.findings).map(|error| fault("", &error))
}

/// How the server refuses the job.
async fn refused(caller: &Caller, draft: &Draft, namespace: &str) -> Option<Error> {
    let drafts = std::slice::from_ref(draft);
    let tried = submit::create(&caller.client, namespace, drafts, DryRun::Server);
    let (error, _) = tokio::time::timeout(PATIENCE, tried).await.ok()?.err()?;
    Some(error)
}

/// The faults in a refusal: of fields, or of the job as a whole where that `counts`.
fn of_server(error: &Error, counts: bool) -> Vec<Fault> {
    match error.class() {
        _ if !error.faults().is_empty() => error.faults().to_vec(),
        Class::Conflict if error.reason() == TAKEN => vec![fault(NAME, error)],
        Class::Invalid | Class::NotAllowed | Class::Quota if counts => vec![fault("", error)],
        _ => Vec::new(),
    }
}

fn fault(path: &str, error: &Error) -> Fault {
    let advice = error.advice().map(|advice| advice.text);
    Fault { source: String::new(), position: None, path: path.to_owned(), message: error.to_string(), advice }
}

/// Whether a fault is known already, at or above its field. The server writes `Worker.replicas` for
/// `[Worker].replicas`.
fn covers(known: &str, path: &str) -> bool {
    let plain = |path: &str| path.replace('[', ".").replace(']', "");
    let (known, path) = (plain(known), plain(path));
    let below = path.strip_prefix(&known).filter(|_| !known.is_empty());
    below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_that_is_known_is_not_reported_again_in_the_words_of_the_server() {
        assert!(covers("spec.mpiReplicaSpecs[Worker].replicas", "spec.mpiReplicaSpecs.Worker.replicas"));
        assert!(covers("metadata.name", "metadata.name"));
        assert!(covers("spec.list[0]", "spec.list[0].name"));
        assert!(!covers("metadata.name", "metadata.namespace") && !covers("", "metadata.name"));
    }

    #[test]
    fn a_name_that_is_taken_is_a_fault_of_the_name_and_a_refusal_of_the_whole_job_counts_only_for_it() {
        let refused = |class: Class, reason: &str| Error::Refused {
            class,
            reason: reason.to_owned(),
            message: "no".to_owned(),
            advice: None,
            faults: Vec::new(),
        };
        let paths = |error: Error, counts: bool| -> Vec<String> {
            of_server(&error, counts).into_iter().map(|fault| fault.path).collect()
        };
        assert_eq!(paths(refused(Class::Conflict, "AlreadyExists"), false), [NAME]);
        assert_eq!(paths(refused(Class::Quota, "QuotaExceeded"), true), [""]);
        assert!(paths(refused(Class::Quota, "QuotaExceeded"), false).is_empty());
        assert!(paths(refused(Class::NotFound, "KindNotFound"), true).is_empty());
    }
}
