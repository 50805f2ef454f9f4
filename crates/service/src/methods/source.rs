//! What a request wants to be created: a manifest or a specification, read into a draft without faults.

use jobs::build::{self, Request};
use jobs::submit::{self, Draft};
use jobs::{Error, Fault};
use serde_json::{Value, json};

use crate::body;
use crate::contract::JobSpec;
use crate::problem::Problem;

/// Reads a draft of one job in a namespace, away from the runtime: a small text can have many nodes.
///
/// # Errors
/// 422 with every fault.
pub async fn draft(namespace: &str, manifest: &str, spec: Option<JobSpec>) -> Result<Draft, Problem> {
    let (namespace, manifest) = (namespace.to_owned(), manifest.to_owned());
    body::apart(move || read(&namespace, &manifest, spec)).await
}

fn read(namespace: &str, manifest: &str, spec: Option<JobSpec>) -> Result<Draft, Problem> {
    let mut draft = match (manifest.is_empty(), spec) {
        (false, None) => of_manifest(manifest)?,
        (true, Some(spec)) => of_spec(namespace, spec)?,
        _ => return Err(one_of()),
    };
    if let Some(other) = draft.namespace().filter(|other| *other != namespace) {
        let fault = format!("is \"{}\", but the request is for \"{namespace}\"", other.escape_debug());
        return Err(Problem::invalid("metadata.namespace", fault, "leave it out, or ask for that namespace"));
    }
    draft.job.metadata.namespace = Some(namespace.to_owned());
    draft.object["metadata"]["namespace"] = json!(namespace);
    Ok(draft)
}

/// The problem of a request that says in no way, or in several, what it wants.
pub fn one_of() -> Problem {
    Problem::invalid(
        "",
        "the request needs one of manifest, spec and template",
        "send a manifest of any kind, the specification of an MPIJob, or a template's name",
    )
}

fn of_manifest(manifest: &str) -> Result<Draft, Problem> {
    let mut drafts = submit::read(manifest.as_bytes(), "manifest")?;
    match (drafts.pop(), drafts.len()) {
        (Some(draft), 0) if draft.object["metadata"].is_object() => Ok(draft),
        (Some(_), 0) => Err(Problem::invalid("metadata", "is missing", "name the job")),
        (_, others) => {
            let fault = format!("holds {} jobs", others + 1);
            Err(Problem::invalid("manifest", fault, "send one job in each request"))
        }
    }
}

fn of_spec(namespace: &str, spec: JobSpec) -> Result<Draft, Problem> {
    let (request, mut faults) = request(spec)?;
    faults.extend(build::faults(&request));
    if !faults.is_empty() {
        return Err(Error::Invalid { faults }.into());
    }
    Ok(submit::of_request(&Request { namespace: Some(namespace.to_owned()), ..request })?)
}

/// Reads a specification, with what is wrong with its values.
///
/// # Errors
/// 422 if a field cannot be read.
pub fn request(spec: JobSpec) -> Result<(Request, Vec<Fault>), Problem> {
    let fields = serde_json::to_value(spec).unwrap_or_default();
    build::from_fields(&fields).map_err(|fault| Error::Invalid { faults: vec![fault] }.into())
}

/// A request as the contract has it.
pub fn spec(request: &Request) -> JobSpec {
    // The fields are those of the contract.
    serde_json::from_value(build::to_fields(request)).unwrap_or_default()
}

/// Writes an object as YAML.
pub fn yaml(object: &Value) -> String {
    // An object of JSON can always be written.
    serde_saphyr::to_string(object).unwrap_or_default()
}
