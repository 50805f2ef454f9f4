//! What a request wants to be created: a manifest or a specification, read into a draft without faults.

use jobs::build::{self, Mpi, Request};
use jobs::submit::{self, Draft};
use serde_json::{Value, json};

use crate::contract::JobSpec;
use crate::problem::Problem;

/// Reads a draft of one job in a namespace.
///
/// # Errors
/// 422 with every fault.
pub fn draft(namespace: &str, manifest: &str, spec: Option<JobSpec>) -> Result<Draft, Problem> {
    let mut draft = match (manifest.is_empty(), spec) {
        (false, None) => of_manifest(manifest)?,
        (true, Some(spec)) => submit::check(build::build(&request(namespace, spec)?)?)?,
        _ => {
            return Err(Problem::invalid(
                "",
                "the request needs either manifest or spec",
                "send a manifest of any kind, or the specification of an MPIJob",
            ));
        }
    };
    if let Some(other) = draft.namespace().filter(|other| *other != namespace) {
        let fault = format!("is \"{}\", but the request is for \"{namespace}\"", other.escape_debug());
        return Err(Problem::invalid("metadata.namespace", fault, "leave it out, or ask for that namespace"));
    }
    draft.job.metadata.namespace = Some(namespace.to_owned());
    draft.object["metadata"]["namespace"] = json!(namespace);
    Ok(draft)
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

fn request(namespace: &str, spec: JobSpec) -> Result<Request, Problem> {
    let text = |text: String| Some(text).filter(|text| !text.is_empty());
    let mpi = match spec.mpi.to_ascii_lowercase().as_str() {
        "" | "openmpi" => Mpi::OpenMpi,
        "intel" => Mpi::Intel,
        "mpich" => Mpi::Mpich,
        _ => {
            let fault = format!("\"{}\" is not an MPI implementation", spec.mpi.escape_debug());
            return Err(Problem::invalid("spec.mpi", fault, "use OpenMPI, Intel or MPICH"));
        }
    };
    let gpus = spec.gpus.map(u32::try_from).transpose();
    let gpus = gpus.map_err(|_| Problem::invalid("spec.gpus", "is negative", "use 0 or more"))?;
    Ok(Request {
        name: spec.name,
        namespace: Some(namespace.to_owned()),
        workers: spec.workers,
        image: spec.image,
        command: spec.command,
        in_launcher: spec.in_launcher,
        slots: spec.slots,
        gpus,
        cpu: text(spec.cpu),
        memory: text(spec.memory),
        mpi,
        env: spec.env.into_iter().collect(),
        volumes: spec.volumes.into_iter().collect(),
        labels: spec.labels,
        annotations: spec.annotations,
        queue: text(spec.queue),
        priority: text(spec.priority),
        clean_pod_policy: text(spec.clean_pod_policy),
        deadline_seconds: spec.deadline_seconds.map(i64::from),
        retries: spec.retries,
        suspend: spec.suspend,
    })
}

/// Writes an object as YAML.
pub fn yaml(object: &Value) -> String {
    // An object of JSON can always be written.
    serde_saphyr::to_string(object).unwrap_or_default()
}
