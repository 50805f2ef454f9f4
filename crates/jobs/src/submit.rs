//! Turns a manifest or a built job into a job in the cluster. All faults are found first; nothing is created before
//! the last fault is known.
//!
//! The input is bytes or an `MPIJob`, the output the created objects as the server returned them. `check` makes no
//! requests; `create` makes one request per job.

use api::{MPIJob, MPIJobSpec, TrainJob};
use kube::Client;
use kube::api::{DynamicObject, ObjectMeta, PostParams};
use serde_json::Value;

use crate::build::{self, Request};
use crate::manifest::{self, Document, Step};
use crate::mistyped::{Mistyped, typed};
use crate::template_rules;
use crate::{Attempt, Error, Fault, Kind};

/// The field manager that the API server records for objects created here.
pub(crate) const FIELD_MANAGER: &str = "odh";

/// A job without faults that is not yet created.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The job's kind.
    pub kind: Kind,
    /// The object exactly as written.
    pub object: Value,
    /// The same, typed; for kinds other than ours, only its metadata.
    pub job: MPIJob,
}

impl Draft {
    /// Returns the job's name; empty if the server is to generate one.
    pub fn name(&self) -> &str {
        self.job.metadata.name.as_deref().unwrap_or("")
    }

    /// Returns the namespace in the manifest.
    pub fn namespace(&self) -> Option<&str> {
        self.job.metadata.namespace.as_deref()
    }
}

/// Whether to really create the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// Create the job.
    No,
    /// Make the server validate the job without creating it.
    Server,
}

/// Reads the jobs of a manifest, or returns every fault of all of them.
///
/// # Errors
/// [`Error::Syntax`] or [`Error::Invalid`]; no request is made.
pub fn read(bytes: &[u8], source: &str) -> Result<Vec<Draft>, Error> {
    let mut drafts = Vec::new();
    let mut faults = Vec::new();
    for document in manifest::read(bytes, source)? {
        match draft(&document) {
            Ok(draft) => drafts.push(draft),
            Err(found) => faults.extend(found),
        }
    }
    if faults.is_empty() { Ok(drafts) } else { Err(Error::Invalid { faults }) }
}

/// Returns what a user should know about a job before it runs, one sentence each; never a reason to refuse it.
pub fn advice(draft: &Draft) -> Vec<String> {
    match draft.kind {
        Kind::MpiJob => plan::validate(&draft.job).map(|job| plan::advise(&job)).unwrap_or_default(),
        _ => surprises(draft),
    }
}

/// Returns what the programs of a job get differently than it is written, one sentence each.
pub fn surprises(draft: &Draft) -> Vec<String> {
    match draft.kind {
        Kind::MpiJob => plan::surprises(&draft.job),
        Kind::TrainJob => {
            let job = serde_json::from_value(draft.object.clone());
            job.map(|job| plan::trainjob_surprises(&job)).unwrap_or_default()
        }
        Kind::PyTorchJob | Kind::TfJob => Vec::new(),
    }
}

/// Checks a job that was built rather than written.
///
/// # Errors
/// [`Error::Invalid`] with every fault.
pub fn check(job: MPIJob) -> Result<Draft, Error> {
    let faults: Vec<Fault> = rule_faults(&job)
        .into_iter()
        .map(|(path, message, advice)| Fault { source: String::new(), position: None, path, message, advice })
        .collect();
    if !faults.is_empty() {
        return Err(Error::Invalid { faults });
    }
    let object = serde_json::to_value(&job).map_err(|error| Error::Client(error.to_string()))?;
    Ok(Draft { kind: Kind::MpiJob, object, job })
}

/// Builds the job that a request describes.
///
/// # Errors
/// [`Error::Invalid`] with every fault of the request, or else of the job.
pub fn of_request(request: &Request) -> Result<Draft, Error> {
    match request.kind {
        Kind::MpiJob => check(build::build(request)?),
        Kind::TrainJob => train_draft(&build::trainjob::build(request)?),
        Kind::PyTorchJob | Kind::TfJob => {
            let faults = build::faults(request);
            if !faults.is_empty() {
                return Err(Error::Invalid { faults });
            }
            let metadata = ObjectMeta {
                name: Some(request.name.clone()),
                namespace: request.namespace.clone(),
                ..ObjectMeta::default()
            };
            let job = MPIJob { metadata, spec: MPIJobSpec::default(), status: None };
            Ok(Draft { kind: request.kind, object: build::manifest(request), job })
        }
    }
}

/// Makes a draft of a TrainJob that was built rather than written; the server checks it against its runtime.
///
/// # Errors
/// If it cannot be written as JSON.
pub fn train_draft(job: &TrainJob) -> Result<Draft, Error> {
    let object = serde_json::to_value(job).map_err(|error| Error::Client(error.to_string()))?;
    let metadata = job.metadata.clone();
    let job = MPIJob { metadata, spec: MPIJobSpec::default(), status: None };
    Ok(Draft { kind: Kind::TrainJob, object, job })
}

pub(crate) fn draft(document: &Document) -> Result<Draft, Vec<Fault>> {
    let mut faults = manifest::check_fields(document);
    if let Some(kind) = Kind::named(document.kind()).filter(|kind| *kind != Kind::MpiJob) {
        return if faults.is_empty() { draft_of(kind, document) } else { Err(faults) };
    }
    let mut readable = document.value.clone();
    for fault in &faults {
        mend(&mut readable, &fault.path);
    }
    let job = match typed::<MPIJob>(readable) {
        Ok(job) => job,
        Err(_) if !faults.is_empty() => return Err(faults),
        Err(mistyped) => return Err(vec![unreadable(document, "", mistyped)]),
    };
    for (path, message, advice) in rule_faults(&job) {
        if !faults.iter().any(|known| covers(&known.path, &path)) {
            faults.push(document.fault(&path, message, advice));
        }
    }
    faults.sort_by_key(|fault| fault.position);
    match faults.is_empty() {
        true => Ok(Draft { kind: Kind::MpiJob, object: document.value.clone(), job }),
        false => Err(faults),
    }
}

/// Creates a draft of another operator's kind, whose rules only the server knows.
fn draft_of(kind: Kind, document: &Document) -> Result<Draft, Vec<Fault>> {
    let metadata = document.value.get("metadata").cloned().unwrap_or_default();
    match typed(metadata) {
        Ok(metadata) => {
            let job = MPIJob { metadata, spec: MPIJobSpec::default(), status: None };
            Ok(Draft { kind, object: document.value.clone(), job })
        }
        Err(mistyped) => Err(vec![unreadable(document, "metadata", mistyped)]),
    }
}

/// The fault of a field below a path that does not fit its type.
fn unreadable(document: &Document, below: &str, Mistyped { path, fault, fix }: Mistyped) -> Fault {
    let steps = [below, &path].map(str::to_owned).into_iter().filter(|step| !step.is_empty());
    let path = steps.collect::<Vec<_>>().join(".");
    document.fault(&path, fault, (!fix.is_empty()).then_some(fix))
}

/// Makes a faulty field readable, so that the rules can check the rest: a number or boolean becomes text, anything
/// else is removed. The resulting job is never created.
fn mend(value: &mut Value, path: &str) {
    let steps = manifest::steps(path);
    let Some((last, above)) = steps.split_last() else { return };
    let mut at = value;
    for step in above {
        let next = match step {
            Step::Key(key) => at.get_mut(key),
            Step::Index(index) => at.get_mut(index),
        };
        match next {
            Some(next) => at = next,
            None => return,
        }
    }
    match (last, at) {
        (Step::Key(key), Value::Object(fields)) => match fields.get_mut(key) {
            Some(field @ (Value::Bool(_) | Value::Number(_))) => *field = Value::String(field.to_string()),
            _ => {
                fields.remove(key);
            }
        },
        (Step::Index(index), Value::Array(items)) => {
            if let Some(item @ (Value::Bool(_) | Value::Number(_))) = items.get_mut(*index) {
                *item = Value::String(item.to_string());
            }
        }
        _ => {}
    }
}

/// Whether a rule's fault at `path` is covered by the schema's fault at `known`: at or below the same field.
fn covers(known: &str, path: &str) -> bool {
    path.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Checks a job by the operator's own validation: path, message, advice.
fn rule_faults(job: &MPIJob) -> Vec<(String, String, Option<String>)> {
    match plan::validate(job) {
        Ok(_) => {
            let of_templates = template_rules::faults(job).into_iter();
            of_templates.map(|(path, message)| (path, message, None)).collect()
        }
        Err(faults) => {
            faults.into_iter().map(|fault| (fault.path, fault.message, Some(fault.advice))).collect()
        }
    }
}

/// Creates the jobs in the given order. The first refusal stops it; the error includes what was created before.
///
/// # Errors
/// The refusal of the first job that could not be created, and the jobs created until then.
pub async fn create(
    client: &Client,
    namespace: &str,
    drafts: &[Draft],
    dry_run: DryRun,
) -> Result<Vec<DynamicObject>, (Error, Vec<DynamicObject>)> {
    let mut created = Vec::new();
    for draft in drafts {
        match create_one(client, namespace, draft, dry_run).await {
            Ok(object) => created.push(object),
            Err(error) => return Err((error, created)),
        }
    }
    Ok(created)
}

async fn create_one(
    client: &Client,
    namespace: &str,
    draft: &Draft,
    dry_run: DryRun,
) -> Result<DynamicObject, Error> {
    let namespace = draft.namespace().unwrap_or(namespace);
    let object: DynamicObject =
        serde_json::from_value(draft.object.clone()).map_err(|error| Error::Client(error.to_string()))?;
    let parameters =
        PostParams { dry_run: dry_run == DryRun::Server, field_manager: Some(FIELD_MANAGER.to_owned()) };
    let kind = Kind::of(&object);
    let attempt = Attempt { verb: "create", what: kind.names(), name: draft.name(), namespace };
    kind.api(client, namespace)
        .create(&parameters, &object)
        .await
        .map_err(|error| Error::from_kube(error, attempt))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(text: &str) -> Vec<String> {
        match read(text.as_bytes(), "job.yaml") {
            Ok(_) => Vec::new(),
            Err(Error::Invalid { faults }) => {
                faults.iter().map(|fault| format!("{} {}", fault.position.unwrap(), fault.path)).collect()
            }
            Err(error) => vec![error.to_string()],
        }
    }

    #[test]
    fn faults_of_schema_and_rules_are_reported_together_without_duplicates() {
        let text = concat!(
            "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata:\n  name: Bad_Name\nspec:\n",
            "  slotPerWorker: 2\n  mpiImplementation: openmpi\n  mpiReplicaSpecs:\n    Launcher:\n      replicas: 2\n",
            "      template:\n        spec:\n          containers:\n          - name: l\n            image: x\n",
            "            env:\n            - name: A\n              value: yes\n",
            "    Worker:\n      replicas: 0\n      template:\n        spec:\n          containers: []\n",
        );
        assert_eq!(
            faults_of(text),
            [
                "4:9 metadata.name",
                "6:3 spec.slotPerWorker",
                "7:22 spec.mpiImplementation",
                "10:17 spec.mpiReplicaSpecs[Launcher].replicas",
                "18:22 spec.mpiReplicaSpecs[Launcher].template.spec.containers[0].env[0].value",
                "20:17 spec.mpiReplicaSpecs[Worker].replicas",
                "23:11 spec.mpiReplicaSpecs[Worker].template.spec.containers",
            ]
        );
    }

    #[test]
    fn a_valid_job_is_kept_as_written() {
        let text = concat!(
            "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata:\n  name: pi\n  labels: {a: b}\nspec:\n  mpiReplicaSpecs:\n",
            "    Launcher: {template: {spec: {containers: [{name: l, image: x, resources: {limits: {cpu: 1}}}]}}}\n",
            "    Worker: {replicas: 2, template: {spec: {containers: [{name: w, image: x}]}}}\n",
        );
        let drafts = read(text.as_bytes(), "-").unwrap();
        assert_eq!(drafts[0].name(), "pi");
        assert_eq!(drafts[0].object["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"], 2);
        assert!(drafts[0].object["spec"].get("slotsPerWorker").is_none());
    }
}
