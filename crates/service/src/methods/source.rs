//! What a request wants to be created: a manifest or a specification, read into a draft with everything that is wrong
//! with it.

use jobs::build::{self, Request};
use jobs::submit::{self, Checked, Draft};
use jobs::{Error, Fault};
use prost::Message as _;
use serde_json::{Value, json};

use crate::body;
use crate::contract::JobSpec;
use crate::problem::Problem;

/// Reads a draft of one job in a namespace.
///
/// # Errors
/// 422 with every fault.
pub async fn draft(namespace: &str, manifest: &str, spec: Option<JobSpec>) -> Result<Draft, Problem> {
    Ok(checked(namespace, manifest, spec, Vec::new()).await?.faultless()?)
}

/// Reads one job in a namespace with its faults. `known` are faults of the specification.
///
/// # Errors
/// 422 if there is not one job, or the specification has a field of another type.
pub async fn checked(
    namespace: &str,
    manifest: &str,
    spec: Option<JobSpec>,
    known: Vec<Fault>,
) -> Result<Checked, Problem> {
    let size = manifest.len() + spec.as_ref().map_or(0, JobSpec::encoded_len);
    let (namespace, manifest) = (namespace.to_owned(), manifest.to_owned());
    body::parse(size, move || read(&namespace, &manifest, spec, known)).await
}

fn read(
    namespace: &str,
    manifest: &str,
    spec: Option<JobSpec>,
    known: Vec<Fault>,
) -> Result<Checked, Problem> {
    let Checked { draft, mut faults } = match (manifest.is_empty(), spec) {
        (false, None) => of_manifest(manifest)?,
        (true, Some(spec)) => of_spec(namespace, spec, known)?,
        _ => return Err(one_of()),
    };
    let Some(mut draft) = draft else { return Ok(Checked { draft, faults }) };
    if let Some(other) = draft.namespace().filter(|other| *other != namespace) {
        faults.push(Fault {
            source: String::new(),
            position: None,
            path: "metadata.namespace".to_owned(),
            message: format!("is \"{}\", but the request is for \"{namespace}\"", other.escape_debug()),
            advice: Some("leave it out, or ask for that namespace".to_owned()),
        });
    }
    draft.job.metadata.namespace = Some(namespace.to_owned());
    draft.object["metadata"]["namespace"] = json!(namespace);
    Ok(Checked { draft: Some(draft), faults })
}

/// The problem of a request that says in no way, or in several, what it wants.
pub fn one_of() -> Problem {
    Problem::invalid(
        "",
        "the request needs one of manifest, spec and template",
        "send a manifest of any kind, the specification of an MPIJob, or a template's name",
    )
}

fn of_manifest(manifest: &str) -> Result<Checked, Problem> {
    let mut found = submit::read_checked(manifest.as_bytes(), "manifest")?;
    match (found.pop(), found.len()) {
        (Some(Checked { draft: Some(draft), .. }), 0) if !draft.object["metadata"].is_object() => {
            Err(Problem::invalid("metadata", "is missing", "name the job"))
        }
        (Some(checked), 0) => Ok(checked),
        (_, others) => {
            let fault = format!("holds {} jobs", others + 1);
            Err(Problem::invalid("manifest", fault, "send one job in each request"))
        }
    }
}

fn of_spec(namespace: &str, spec: JobSpec, known: Vec<Fault>) -> Result<Checked, Problem> {
    let (request, faults) = request(spec)?;
    let request = Request { namespace: Some(namespace.to_owned()), ..request };
    Ok(submit::check_request(&request, known.into_iter().chain(faults).collect())?)
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
