//! What a request wants to be created: a manifest or a specification, read into a draft without faults.

use jobs::Error;
use jobs::build;
use jobs::submit::{self, Draft};
use serde_json::{Value, json};

use super::specification::request;
use crate::contract::JobSpec;
use crate::problem::Problem;

/// Reads a draft of one job in a namespace.
///
/// # Errors
/// 422 with every fault.
pub fn draft(namespace: &str, manifest: &str, spec: Option<JobSpec>) -> Result<Draft, Problem> {
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
    let (request, mut faults) = request(namespace, spec);
    match build::build(&request) {
        Ok(job) if faults.is_empty() => return Ok(submit::check(job)?),
        Ok(_) => {}
        Err(Error::Invalid { faults: others }) => faults.extend(others),
        Err(other) => return Err(other.into()),
    }
    Err(Error::Invalid { faults }.into())
}

/// Writes an object as YAML.
pub fn yaml(object: &Value) -> String {
    // An object of JSON can always be written.
    serde_saphyr::to_string(object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::contract::FieldFault;

    /// Clients check specifications against the same cases.
    const CASES: &str = include_str!("../../../../openapi/specifications.yaml");

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Case {
        case: String,
        spec: JobSpec,
        #[serde(default)]
        faults: Vec<FieldFault>,
    }

    #[test]
    fn what_is_wrong_with_a_specification_is_what_clients_know_to_be_wrong() {
        let cases: Vec<Case> = serde_saphyr::from_str(CASES).unwrap();
        assert!(cases.iter().any(|case| case.faults.is_empty()) && cases.len() > 50);
        for Case { case, spec, faults } in cases {
            let found = draft("team", "", Some(spec)).map_or_else(|problem| problem.fields, |_| Vec::new());
            assert_eq!(found, faults, "{case}");
        }
    }
}
