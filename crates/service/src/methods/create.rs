//! Creates jobs, and checks before whether they could be created and start.

use std::sync::Arc;

use api::{ANNOTATION_CREATION, ANNOTATION_OWNER};
use jobs::preflight::{self, PATIENCE};
use jobs::submit::{self, Draft, DryRun};
use jobs::{Class, Error, Kind, export, list};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use plan::{Finding, Weight};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::source;
use crate::access::Right;
use crate::contract::{
    self, CheckAvailabilityRequest, CheckAvailabilityResponse, CreateJobRequest, CreateJobResponse,
};
use crate::identity::Caller;
use crate::problem::Problem;
use crate::row::row;
use crate::service::Service;

/// The longest idempotency key.
const LONGEST_KEY: usize = 128;

/// Creates a job.
pub async fn create_job(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: CreateJobRequest,
) -> Result<CreateJobResponse, Problem> {
    let namespace = &request.namespace;
    if request.idempotency_key.len() > LONGEST_KEY {
        let fault = format!("is longer than {LONGEST_KEY} bytes");
        return Err(Problem::invalid("idempotencyKey", fault, "send a shorter one, e.g. a UUID"));
    }
    let mut draft = source::draft(namespace, &request.manifest, request.spec)?;
    let right = Right::on_jobs("create", draft.kind, namespace);
    service.access.require(&caller, right, draft.kind.names()).await?;
    let creation = creation(&caller, &request.idempotency_key);
    annotate(&mut draft, &caller, creation.as_deref())?;
    let warnings = submit::advice(&draft);
    // A repeated request is answered before the checks: the job that it created must not count against it.
    if let Some(creation) = &creation
        && let Some(job) = created_before(&caller, &draft, namespace, creation).await?
    {
        return Ok(response(&job, warnings, Vec::new(), request.dry_run));
    }
    let waits = match (draft.kind, request.skip_checks) {
        (Kind::MpiJob, false) => {
            preflight::preflight(&caller.client, namespace, std::slice::from_ref(&draft.job), PATIENCE)
                .await?
        }
        _ => Vec::new(),
    };
    let dry_run = if request.dry_run { DryRun::Server } else { DryRun::No };
    let created = submit::create(&caller.client, namespace, std::slice::from_ref(&draft), dry_run).await;
    let job = match (created, &creation) {
        (Ok(mut created), _) => {
            created.pop().ok_or_else(|| Problem::unavailable("the cluster returned no job"))?
        }
        // Two requests with the same key at the same time.
        (Err((error, _)), Some(creation)) if error.reason() == "AlreadyExists" => {
            created_before(&caller, &draft, namespace, creation).await?.ok_or(error)?
        }
        (Err((error, _)), _) => return Err(error.into()),
    };
    if !request.dry_run {
        service.watches.learn(&job);
    }
    Ok(response(&job, warnings, waits, request.dry_run))
}

fn response(
    job: &DynamicObject,
    warnings: Vec<String>,
    waits: Vec<Finding>,
    dry_run: bool,
) -> CreateJobResponse {
    CreateJobResponse {
        job: Some(row(job)),
        manifest: source::yaml(&export::manifest(job)),
        warnings,
        waits: waits.iter().map(finding).collect(),
        dry_run,
    }
}

/// Identifies a creation by its caller and key: another caller's key is another creation.
fn creation(caller: &Caller, key: &str) -> Option<String> {
    if key.is_empty() {
        return None;
    }
    let digest = Sha256::new()
        .chain_update(caller.user.len().to_le_bytes())
        .chain_update(&caller.user)
        .chain_update(key);
    Some(digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

/// Notes in the job who creates it and by which request, and gives a job that the server would name a name that a
/// repeated request gives it again.
fn annotate(draft: &mut Draft, caller: &Caller, creation: Option<&str>) -> Result<(), Problem> {
    let metadata = &mut draft.object["metadata"];
    if metadata.get("annotations").is_none_or(Value::is_null) {
        metadata["annotations"] = json!({});
    }
    let Some(annotations) = metadata["annotations"].as_object_mut() else {
        return Err(Problem::invalid("metadata.annotations", "is not a map", "write `key: text`"));
    };
    annotations.insert(ANNOTATION_OWNER.to_owned(), json!(caller.user));
    annotations.remove(ANNOTATION_CREATION);
    let Some(creation) = creation else { return Ok(()) };
    annotations.insert(ANNOTATION_CREATION.to_owned(), json!(creation));
    let prefix = metadata["generateName"].as_str().map(str::to_owned);
    if let (Some(prefix), true) = (prefix, draft.name().is_empty()) {
        let name = format!("{prefix}{}", creation.get(..8).unwrap_or_default());
        draft.object["metadata"]["name"] = json!(name);
        draft.job.metadata.name = Some(name);
    }
    Ok(())
}

async fn created_before(
    caller: &Caller,
    draft: &Draft,
    namespace: &str,
    creation: &str,
) -> Result<Option<DynamicObject>, Error> {
    if draft.name().is_empty() {
        return Ok(None);
    }
    match list::get(&caller.client, draft.kind, namespace, draft.name()).await {
        Ok(job) => {
            let is_ours = job.annotations().get(ANNOTATION_CREATION).is_some_and(|by| by == creation);
            Ok(is_ours.then_some(job))
        }
        // Who may create but not read learns from the creation itself.
        Err(error) if matches!(error.class(), Class::NotFound | Class::NotAllowed) => Ok(None),
        Err(error) => Err(error),
    }
}

fn finding(finding: &Finding) -> contract::Finding {
    contract::Finding {
        weight: if finding.weight == Weight::Refused { "Refused" } else { "Waits" }.to_owned(),
        reason: finding.reason.word().to_owned(),
        message: finding.message.clone(),
        advice: finding.advice.text.clone(),
    }
}

/// Checks whether a job could be created and start now.
pub async fn check_availability(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: CheckAvailabilityRequest,
) -> Result<CheckAvailabilityResponse, Problem> {
    let namespace = &request.namespace;
    let draft = source::draft(namespace, &request.manifest, request.spec)?;
    let right = Right::on_jobs("create", draft.kind, namespace);
    service.access.require(&caller, right, draft.kind.names()).await?;
    if draft.kind != Kind::MpiJob {
        let fault = format!("{} cannot be checked before they are created", draft.kind.names());
        return Err(Problem::invalid("manifest", fault, "create it with dryRun"));
    }
    let found = preflight::preflight(&caller.client, namespace, &[draft.job], PATIENCE).await;
    let findings = match found {
        Ok(waits) => waits.iter().map(finding).collect(),
        Err(error) if matches!(error.class(), Class::Quota | Class::Invalid) => {
            let problem = Problem::from(error);
            vec![contract::Finding {
                weight: "Refused".to_owned(),
                reason: problem.reason,
                message: problem.message,
                advice: problem.hint,
            }]
        }
        Err(error) => return Err(error.into()),
    };
    Ok(CheckAvailabilityResponse { available: findings.is_empty(), findings })
}
