//! A job as a manifest and as fields: what the form shows, and what it makes of what a person types.

use std::sync::Arc;

use jobs::build::{self, Request};
use jobs::{Error, Kind, manifest};
use prost::Message as _;
use serde_json::Value;

use super::source::{request as read_spec, spec, yaml};
use crate::body;
use crate::contract::{JobSpec, RenderJobRequest, RenderJobResponse};
use crate::filter::kind as kind_named;
use crate::identity::Caller;
use crate::problem::Problem;
use crate::service::Service;

/// Renders a job.
pub async fn render_job(
    service: Arc<Service>,
    caller: Arc<Caller>,
    asked: RenderJobRequest,
) -> Result<RenderJobResponse, Problem> {
    let size = asked.manifest.len() + asked.spec.as_ref().map_or(0, JobSpec::encoded_len);
    let given = asked.spec.map(read_spec).transpose()?;
    if let Some((_, faults)) = given.as_ref().filter(|(_, faults)| !faults.is_empty()) {
        return Err(Error::Invalid { faults: faults.clone() }.into());
    }
    let given = given.map(|(request, _)| request);
    if !asked.manifest.is_empty() {
        return body::parse(size, move || changed(&asked.manifest, given)).await;
    }
    let request = match given {
        Some(request) => request,
        None => build::blank(kind_named(&asked.kind)?),
    };
    // As when the job is created: the pods meet what the namespace enforces.
    let restricted =
        request.restricted || Box::pin(service.restricts(&caller, request.kind, &asked.namespace)).await?;
    let request = Request { restricted, ..request };
    let rendered = move || {
        Ok(RenderJobResponse {
            manifest: yaml(&build::manifest(&request)),
            spec: Some(spec(&request)),
            complete: true,
        })
    };
    body::parse(size, rendered).await
}

/// Reads a manifest, and changes it to what a request says.
fn changed(manifest: &str, given: Option<Request>) -> Result<RenderJobResponse, Problem> {
    let (kind, written) = one(manifest)?;
    let job = match given {
        Some(request) => build::edit(written, &Request { kind, ..request }),
        None => written,
    };
    Ok(response(kind, &job))
}

/// Reads the one job of a manifest, whatever is wrong with it.
fn one(text: &str) -> Result<(Kind, Value), Problem> {
    let mut documents = manifest::read(text.as_bytes(), "manifest")?;
    match (documents.pop(), documents.len()) {
        (Some(document), 0) => match Kind::named(document.kind()) {
            Some(kind) => Ok((kind, document.value)),
            None => {
                Err(Problem::invalid("kind", "is not a kind of training job", "send a manifest of a job"))
            }
        },
        _ => Err(Problem::invalid("manifest", "does not hold one job", "send one job in each request")),
    }
}

fn response(kind: Kind, job: &Value) -> RenderJobResponse {
    let mut own = job.clone();
    if let Some(metadata) = own.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("namespace");
    }
    let request = build::read(kind, &own);
    RenderJobResponse {
        manifest: yaml(job),
        complete: request.as_ref().is_some_and(|request| build::manifest(request) == own),
        spec: request.as_ref().map(spec),
    }
}
