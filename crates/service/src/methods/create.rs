//! Creates jobs.

use std::sync::Arc;

use api::{ANNOTATION_CREATION, ANNOTATION_OWNER, ANNOTATION_REQUEST};
use jobs::preflight::{self, PATIENCE};
use jobs::submit::{self, Draft, DryRun};
use jobs::{Class, Error, Kind, export, list};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::availability::{self, finding};
use super::patience::patiently;
use super::{advice, faults, source, templates};
use crate::access::Right;
use crate::board::Entry;
use crate::contract::{self, CheckAvailabilityResponse, CreateJobRequest, CreateJobResponse};
use crate::identity::Caller;
use crate::operation;
use crate::problem::Problem;
use crate::row::row;
use crate::service::Service;

/// The longest idempotency key.
const LONGEST_KEY: usize = 128;

/// Creates a job.
pub async fn create_job(
    service: Arc<Service>,
    caller: Arc<Caller>,
    mut request: CreateJobRequest,
) -> Result<CreateJobResponse, Problem> {
    if request.idempotency_key.len() > LONGEST_KEY {
        let fault = format!("is longer than {LONGEST_KEY} bytes");
        return Err(Problem::invalid("idempotencyKey", fault, "send a shorter one, e.g. a UUID"));
    }
    let content = content(&request);
    let spec = request.spec.take();
    let namespace = &request.namespace;
    let sent = (request.manifest.as_str(), spec, request.template.as_ref());
    // On the heap, as what is large below: each step around would hold a copy.
    let checked = Box::pin(templates::checked(&service, &caller, namespace, sent)).await?;
    if request.dry_run && !checked.faults.is_empty() {
        let faults = Box::pin(faults::all(&service, &caller, checked, &request)).await;
        return Err(Error::Invalid { faults }.into());
    }
    let mut draft = checked.faultless()?;
    let right = Right::on_jobs("create", draft.kind, namespace);
    service.access.require(&caller, right, draft.kind.names()).await?;
    let creation = creation(&caller, &request.idempotency_key, &content);
    if let Some(creation) = &creation {
        refuse_another(&service, namespace, creation)?;
    }
    annotate(&mut draft, &caller, creation.as_deref())?;
    let warnings = submit::advice(&draft);
    // A repeated request is answered before the checks: the job that it created must not count against it.
    if let Some(creation) = &creation
        && let Some(job) = created_before(&caller, &draft, namespace, creation).await?
    {
        operation::about(draft.kind.plural(), &job.name_any(), None);
        return Ok(response(&job, warnings, request.dry_run));
    }
    let (waits, availability) = match Box::pin(met(&service, &caller, &draft, &request)).await {
        Err(refused) if request.dry_run => {
            return Err(Box::pin(faults::with_those_of_server(refused, &caller, &draft, namespace)).await);
        }
        found => found?,
    };
    let dry_run = if request.dry_run { DryRun::Server } else { DryRun::No };
    let created = patiently(service.settings.admission, || async {
        let drafts = std::slice::from_ref(&draft);
        submit::create(&caller.client, namespace, drafts, dry_run).await.map_err(|(error, _)| error)
    });
    let job = match (Box::pin(created).await, &creation) {
        (Ok(mut created), _) => {
            created.pop().ok_or_else(|| Problem::unavailable("the cluster returned no job"))?
        }
        // Two requests with the same key at the same time.
        (Err(error), Some(creation)) if error.reason() == "AlreadyExists" => {
            let before = created_before(&caller, &draft, namespace, creation).await?;
            before.ok_or_else(|| faults::problem(error))?
        }
        (Err(error), _) => return Err(faults::problem(error)),
    };
    if !request.dry_run {
        service.watches.learn(&job);
    }
    operation::about(draft.kind.plural(), &job.name_any(), None);
    let advice = if request.dry_run {
        Box::pin(advice::of_draft(&service, &caller, &draft, namespace)).await
    } else {
        None
    };
    Ok(CreateJobResponse { waits, availability, advice, ..response(&job, warnings, request.dry_run) })
}

/// Refuses a job that the cluster would not accept; returns what it would wait for and, in a dry run, when it could start.
async fn met(
    service: &Service,
    caller: &Caller,
    draft: &Draft,
    request: &CreateJobRequest,
) -> Result<(Vec<contract::Finding>, Option<CheckAvailabilityResponse>), Problem> {
    let namespace = &request.namespace;
    if request.skip_checks || (draft.kind != Kind::MpiJob && !request.dry_run) {
        return Ok((Vec::new(), None));
    }
    if !request.dry_run {
        let job = std::slice::from_ref(&draft.job);
        let waits = preflight::preflight(&caller.client, namespace, job, PATIENCE).await?;
        return Ok((waits.iter().map(finding).collect(), None));
    }
    let (found, cost) = availability::of(service, caller, draft, namespace).await?;
    if let Some(refused) = preflight::refusal(&found.findings) {
        return Err(refused.into());
    }
    Ok((found.findings.iter().map(finding).collect(), Some(availability::message(found, cost))))
}

fn response(job: &DynamicObject, warnings: Vec<String>, dry_run: bool) -> CreateJobResponse {
    CreateJobResponse {
        job: Some(row(job)),
        manifest: source::yaml(&export::manifest(job)),
        warnings,
        dry_run,
        ..CreateJobResponse::default()
    }
}

/// What is to be created, whatever the key and whether it is only tried.
fn content(request: &CreateJobRequest) -> String {
    let CreateJobRequest {
        namespace,
        manifest,
        template,
        spec,
        dry_run: _,
        skip_checks: _,
        idempotency_key: _,
    } = request;
    digest(Sha256::new().chain_update(json!([namespace, manifest, template, spec]).to_string()))
}

fn digest(of: Sha256) -> String {
    of.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Identifies a creation by its caller, its key and its content: another caller's key is another creation.
fn creation(caller: &Caller, key: &str, content: &str) -> Option<String> {
    if key.is_empty() {
        return None;
    }
    let of_key = Sha256::new()
        .chain_update(caller.user.len().to_le_bytes())
        .chain_update(&caller.user)
        .chain_update(key);
    Some(format!("{}{BEFORE_CONTENT}{content}", digest(of_key)))
}

/// Between the parts of a creation's name: that of the key, and that of the content.
const BEFORE_CONTENT: char = '.';

/// Whether two creations have the same key of the same caller.
fn is_of_key(one: &str, other: &str) -> bool {
    one.split(BEFORE_CONTENT).next() == other.split(BEFORE_CONTENT).next()
}

/// Whether two creations are the same request. Jobs of earlier releases do not have its content.
fn is_same(made_by: &str, creation: &str) -> bool {
    made_by == creation || (!made_by.contains(BEFORE_CONTENT) && is_of_key(made_by, creation))
}

/// Refuses a key that has made another job of the namespace, which is still there.
fn refuse_another(service: &Service, namespace: &str, creation: &str) -> Result<(), Problem> {
    let is_another = |entry: &Entry| {
        entry.row.namespace == namespace
            && entry.creation.as_deref().is_some_and(|by| is_of_key(by, creation) && !is_same(by, creation))
    };
    match service.board.has(is_another) {
        false => Ok(()),
        true => Err(Problem::invalid(
            "idempotencyKey",
            "was sent before with another job",
            "send a key of its own with each job, e.g. a UUID",
        )),
    }
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
    annotations.remove(ANNOTATION_REQUEST);
    if let Some(operation) = operation::current() {
        annotations.insert(ANNOTATION_REQUEST.to_owned(), json!(operation.id));
    }
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
            let is_ours = job.annotations().get(ANNOTATION_CREATION).is_some_and(|by| is_same(by, creation));
            Ok(is_ours.then_some(job))
        }
        // Who may create but not read learns from the creation itself.
        Err(error) if matches!(error.class(), Class::NotFound | Class::NotAllowed) => Ok(None),
        Err(error) => Err(error),
    }
}
