//! Turns a manifest or a built job into a job in the cluster. All faults are found first; nothing is created before
//! the last fault is known.
//!
//! The input is bytes or an `MPIJob`, the output the created objects as the server returned them. `check` makes no
//! requests; `create` makes one request per job.

use api::{MPIJob, MPIJobSpec};
use kube::Client;
use kube::api::{DynamicObject, PostParams};
use serde_json::Value;

use crate::build::{self, Request};
use crate::manifest::{self, Document, Step};
use crate::mistyped::{Mistyped, typed};
use crate::template_rules;
use crate::{Attempt, Error, Fault, Kind};

/// The field manager that the API server records for objects created here.
pub(crate) const FIELD_MANAGER: &str = "odh";

/// What the server calls a job without a name begins with this.
const UNNAMED: &str = "job-";

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

/// A job, and everything that is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The job. What is faulty is left out or replaced, so that the server can check the rest: a job with faults is
    /// never created. `None` if too little of it can be read.
    pub draft: Option<Draft>,
    /// The faults, in reading order.
    pub faults: Vec<Fault>,
}

impl Checked {
    /// Returns the job if nothing is wrong with it.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every fault.
    pub fn faultless(self) -> Result<Draft, Error> {
        match self {
            Self { draft: Some(draft), faults } if faults.is_empty() => Ok(draft),
            Self { faults, .. } => Err(Error::Invalid { faults }),
        }
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
    let (mut drafts, mut faults) = (Vec::new(), Vec::new());
    for checked in read_checked(bytes, source)? {
        drafts.extend(checked.draft);
        faults.extend(checked.faults);
    }
    if faults.is_empty() { Ok(drafts) } else { Err(Error::Invalid { faults }) }
}

/// Reads the jobs of a manifest, each with its faults.
///
/// # Errors
/// [`Error::Syntax`], or [`Error::Invalid`] if there is no job; no request is made.
pub fn read_checked(bytes: &[u8], source: &str) -> Result<Vec<Checked>, Error> {
    Ok(manifest::read(bytes, source)?.iter().map(check_document).collect())
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
    let faults = unplaced(rule_faults(&job));
    if !faults.is_empty() {
        return Err(Error::Invalid { faults });
    }
    mpi_draft(job)
}

/// Faults of a job that has no text.
fn unplaced(found: Vec<(String, String, Option<String>)>) -> Vec<Fault> {
    found
        .into_iter()
        .map(|(path, message, advice)| Fault { source: String::new(), position: None, path, message, advice })
        .collect()
}

fn mpi_draft(job: MPIJob) -> Result<Draft, Error> {
    let object = serde_json::to_value(&job).map_err(|error| Error::Client(error.to_string()))?;
    Ok(Draft { kind: Kind::MpiJob, object, job })
}

/// Builds the job that a request describes.
///
/// # Errors
/// [`Error::Invalid`] with every fault of the request and of the job.
pub fn of_request(request: &Request) -> Result<Draft, Error> {
    check_request(request, Vec::new())?.faultless()
}

/// Builds the job that a request describes, and finds everything that is wrong with both. `known` are faults of
/// values that the request cannot have.
///
/// # Errors
/// If the job cannot be written as JSON.
pub fn check_request(request: &Request, known: Vec<Fault>) -> Result<Checked, Error> {
    let mut faults = known;
    faults.extend(build::faults(request));
    let mended = build::mended(request, &faults);
    let draft = match request.kind {
        Kind::MpiJob => {
            let job = build::assemble(&mended);
            faults.extend(unplaced(rule_faults(&job)));
            mpi_draft(job)?
        }
        kind => {
            let metadata = build::metadata(&mended);
            let job = MPIJob { metadata, spec: MPIJobSpec::default(), status: None };
            Draft { kind, object: build::manifest(&mended), job }
        }
    };
    // Without its kind or its runtime, it is another job.
    let is_open = faults.iter().any(|fault| ["kind", "runtime"].contains(&fault.path.as_str()));
    let draft = (!is_open).then(|| without_faults(draft, &faults));
    Ok(Checked { draft, faults })
}

pub(crate) fn draft(document: &Document) -> Result<Draft, Vec<Fault>> {
    match check_document(document) {
        Checked { draft: Some(draft), faults } if faults.is_empty() => Ok(draft),
        Checked { faults, .. } => Err(faults),
    }
}

fn check_document(document: &Document) -> Checked {
    let mut faults = manifest::check_fields(document);
    if let Some(kind) = Kind::named(document.kind()).filter(|kind| *kind != Kind::MpiJob) {
        return match draft_of(kind, document) {
            Ok(draft) if faults.is_empty() => Checked { draft: Some(draft), faults },
            Err(found) if faults.is_empty() => Checked { draft: None, faults: found },
            _ => Checked { draft: None, faults },
        };
    }
    let mut readable = document.value.clone();
    for fault in &faults {
        mend(&mut readable, &fault.path);
    }
    let job = match typed::<MPIJob>(readable.clone()) {
        Ok(job) => job,
        Err(_) if !faults.is_empty() => return Checked { draft: None, faults },
        Err(mistyped) => return Checked { draft: None, faults: vec![unreadable(document, "", mistyped)] },
    };
    for (path, message, advice) in rule_faults(&job) {
        if !faults.iter().any(|known| covers(&known.path, &path)) {
            faults.push(document.fault(&path, message, advice));
        }
    }
    faults.sort_by_key(|fault| fault.position);
    let is_open = faults.iter().any(|fault| ["", "kind", "apiVersion"].contains(&fault.path.as_str()));
    let draft = Draft { kind: Kind::MpiJob, object: readable, job };
    Checked { draft: (!is_open).then(|| without_faults(draft, &faults)), faults }
}

/// Leaves out what is faulty, so that the rest can be checked. Without a name, the server gives it one.
fn without_faults(mut draft: Draft, faults: &[Fault]) -> Draft {
    if faults.is_empty() {
        return draft;
    }
    for fault in faults {
        if let Some((Value::Object(fields), Step::Key(key))) = holder(&mut draft.object, &fault.path) {
            fields.remove(&key);
        }
    }
    let metadata = draft.object.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata.filter(|metadata| !metadata.contains_key("name")) {
        metadata.entry("generateName").or_insert_with(|| UNNAMED.into());
    }
    if draft.kind == Kind::MpiJob
        && let Ok(job) = typed(draft.object.clone())
    {
        draft.job = job;
    }
    draft
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
    match holder(value, path) {
        Some((Value::Object(fields), Step::Key(key))) => match fields.get_mut(&key) {
            Some(field @ (Value::Bool(_) | Value::Number(_))) => *field = Value::String(field.to_string()),
            _ => {
                fields.remove(&key);
            }
        },
        Some((Value::Array(items), Step::Index(index))) => {
            if let Some(item @ (Value::Bool(_) | Value::Number(_))) = items.get_mut(index) {
                *item = Value::String(item.to_string());
            }
        }
        _ => {}
    }
}

/// What has the field at a path, and the last step to it.
fn holder<'v>(value: &'v mut Value, path: &str) -> Option<(&'v mut Value, Step)> {
    let mut steps = manifest::steps(path);
    let last = steps.pop()?;
    let above = steps.iter().try_fold(value, |at, step| match step {
        Step::Key(key) => at.get_mut(key.as_str()),
        Step::Index(index) => at.get_mut(*index),
    })?;
    Some((above, last))
}

/// Whether a rule's fault at `path` is covered by the schema's fault at `known`: at or below the same field.
fn covers(known: &str, path: &str) -> bool {
    path.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Checks a job by the operator's own validation and by Kubernetes' rules for pods: path, message, advice.
fn rule_faults(job: &MPIJob) -> Vec<(String, String, Option<String>)> {
    let faults = plan::validate(job).err().unwrap_or_default().into_iter();
    let mut found: Vec<_> = faults.map(|fault| (fault.path, fault.message, Some(fault.advice))).collect();
    for (path, message) in template_rules::faults(job) {
        if !found.iter().any(|(known, ..)| covers(known, &path)) {
            found.push((path, message, None));
        }
    }
    found
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
    use std::collections::BTreeMap;

    use super::*;
    use crate::build::{Failures, Part};

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
    fn faults_of_a_request_and_of_its_job_are_reported_together_and_the_rest_of_the_job_is_kept() {
        let stall = "metadata.annotations[training.opendatahub.io/stall-timeout]";
        let requests = "spec.mpiReplicaSpecs[Worker].template.spec.containers[0].resources.requests";
        let memory = BTreeMap::from([("memory".to_owned(), "2Gi".to_owned())]);
        let wrong = Request {
            name: "Bad_Name".to_owned(),
            workers: 0,
            command: vec!["train".to_owned()],
            cpu: Some("many".to_owned()),
            memory: Some("1Gi".to_owned()),
            worker: Part { requests: memory, ..Part::default() },
            failures: Failures { stall_timeout: Some("soon".to_owned()), ..Failures::default() },
            ..Request::default()
        };
        let Checked { draft, faults } = check_request(&wrong, Vec::new()).unwrap();
        let paths: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(paths, ["image", "workers", "cpu", "metadata.name", stall, requests]);
        let Draft { job, object, .. } = draft.unwrap();
        assert_eq!((job.metadata.name, job.metadata.generate_name.as_deref()), (None, Some("job-")));
        assert!(plan::validate(&typed::<MPIJob>(object.clone()).unwrap()).is_ok(), "{object:#}");
        let container = object.pointer("/spec/mpiReplicaSpecs/Worker/template/spec/containers/0").unwrap();
        assert_eq!(container["image"], "any");
        assert_eq!(container["resources"]["limits"]["memory"], "1Gi");
        let unknown = Request { kind: Kind::TrainJob, ..wrong };
        assert_eq!(check_request(&unknown, Vec::new()).unwrap().draft, None, "its runtime is not known");
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
