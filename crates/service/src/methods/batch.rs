//! Deletes, suspends or resumes several jobs, each with its own result.

use std::collections::HashSet;
use std::sync::Arc;

use futures::stream::{self, StreamExt};
use http::StatusCode;
use jobs::Kind;
use jobs::delete::{self, Manner};

use super::suspension;
use super::visible::Visible;
use crate::access::Right;
use crate::call::proper;
use crate::contract::{BatchJobsRequest, BatchJobsResponse, BatchResult, JobRef};
use crate::filter::{self, Filter, Sent};
use crate::identity::Caller;
use crate::operation;
use crate::problem::Problem;
use crate::row::count;
use crate::service::Service;

/// The most jobs in a batch.
const MOST_JOBS: usize = 1_000;
/// The number of jobs that are changed at once.
const AT_ONCE: usize = 8;

/// What to do with each job.
#[derive(Clone, Copy)]
enum Action {
    Delete,
    Suspend,
    Resume,
}

/// Changes several jobs.
pub async fn batch_jobs(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: BatchJobsRequest,
) -> Result<BatchJobsResponse, Problem> {
    let (action, verb) = match request.action.as_str() {
        "delete" => (Action::Delete, "delete"),
        "suspend" => (Action::Suspend, "patch"),
        "resume" => (Action::Resume, "patch"),
        other => {
            let shown: String = other.chars().take(40).collect();
            let fault = format!("\"{}\" is not an action", shown.escape_debug());
            return Err(Problem::invalid("action", fault, "use delete, suspend or resume"));
        }
    };
    let mpijobs = ["mpijob".to_owned()];
    let kinds = if request.kind.is_empty() { &mpijobs[..] } else { &request.kind };
    let filter = Filter::read(&Sent {
        namespace: &request.namespace,
        kinds,
        // Each is looked up, so that a missing one is reported.
        names: &[],
        phases: &request.phase,
        owner: &request.owner,
        since: &request.since,
        until: &request.until,
        text: &request.q,
        labels: &request.labels,
    })?
    .with_states_of(&service.board)?;
    for kind in &filter.kinds {
        let right = Right::on_jobs(verb, *kind, &request.namespace);
        service.access.require(&caller, right, kind.names()).await?;
    }
    let _place = match request.dry_run {
        true => None,
        false => Some(service.limits.batch(&caller.user)?),
    };
    let jobs = selected(&service, &caller, &request, &filter).await?;
    if !request.dry_run {
        service.limits.charge(&caller.user, u32::try_from(jobs.len()).unwrap_or(u32::MAX));
    }
    let results = stream::iter(jobs).map(|job| {
        let (service, caller) = (&service, &caller);
        async move {
            if request.dry_run {
                let outcome = "selected".to_owned();
                return (BatchResult { job: Some(job), outcome, problem: None }, None);
            }
            let outcome = change(service, caller, &job, action).await;
            let missing = match &outcome {
                Err(problem) if problem.status == StatusCode::NOT_FOUND => {
                    Some((job.clone(), problem.message.clone()))
                }
                Err(problem) => {
                    about(&job, problem.status, problem.message.clone());
                    None
                }
                Ok(_) => {
                    about(&job, StatusCode::OK, String::new());
                    None
                }
            };
            let (outcome, problem) = match outcome {
                Ok(true) => ("done", None),
                Ok(false) => ("unchanged", None),
                Err(problem) => ("failed", Some(problem.message())),
            };
            (BatchResult { job: Some(job), outcome: outcome.to_owned(), problem }, missing)
        }
    });
    let results: Vec<(BatchResult, Option<Missing>)> = results.buffered(AT_ONCE).collect().await;
    let (results, missing): (Vec<BatchResult>, Vec<Option<Missing>>) = results.into_iter().unzip();
    let missing: Vec<Missing> = missing.into_iter().flatten().collect();
    about_missing(&missing);
    let failed = count(results.iter().filter(|result| result.problem.is_some()).count());
    Ok(BatchJobsResponse { results, failed })
}

/// A job that was not there, and the message about it.
type Missing = (JobRef, String);

/// Notes a job and what became of it, for the audit log.
fn about(job: &JobRef, status: StatusCode, reason: String) {
    let resource = filter::kind(&job.kind).unwrap_or_default().plural();
    operation::about(resource, &job.name, Some((status.as_u16(), reason)));
}

/// Notes all jobs that were not there as one: anyone can name a thousand.
fn about_missing(missing: &[Missing]) {
    let Some(((first, message), others)) = missing.split_first() else { return };
    let names: Vec<&str> = others.iter().map(|(job, _)| job.name.as_str()).collect();
    let reason = match names.len() {
        0 => message.clone(),
        number => format!("{message}; {number} others were not found, either: {}", names.join(", ")),
    };
    about(first, StatusCode::NOT_FOUND, reason);
}

/// The jobs named, or those that match. A filter that selects everything is no selection: to delete all
/// jobs of a namespace, name them.
async fn selected(
    service: &Service,
    caller: &Caller,
    request: &BatchJobsRequest,
    filter: &Filter,
) -> Result<Vec<JobRef>, Problem> {
    let job = |kind: Kind, name: &str| JobRef {
        kind: kind.name().to_owned(),
        namespace: request.namespace.clone(),
        name: name.to_owned(),
    };
    let too_many = |field: &str, jobs: usize| {
        Problem::invalid(field, format!("selects {jobs} jobs"), format!("select at most {MOST_JOBS}"))
    };
    if request.names.is_empty() && !filter.is_narrow() {
        return Err(Problem::invalid("names", "is missing", "name the jobs, or select some by a filter"));
    }
    if request.names.len() > MOST_JOBS {
        return Err(too_many("names", request.names.len()));
    }
    if !request.names.is_empty() && !filter.is_narrow() {
        let [kind] = filter.kinds[..] else {
            return Err(Problem::invalid("kind", "is not one kind", "name jobs of one kind"));
        };
        for name in &request.names {
            proper("names", name)?;
        }
        return Ok(request.names.iter().map(|name| job(kind, name)).collect());
    }
    let visible = Visible::of(service, caller, filter).await?;
    let names: HashSet<&String> = request.names.iter().collect();
    let is_named = |name: &String| names.is_empty() || names.contains(name);
    let (_, found) = service
        .board
        .snapshot(|entry| filter.selects(entry) && visible.shows_job(entry) && is_named(&entry.row.name));
    if found.len() > MOST_JOBS {
        return Err(too_many("", found.len()));
    }
    let mut jobs: Vec<JobRef> = found.iter().map(|entry| job(entry.kind, &entry.row.name)).collect();
    jobs.sort_by(|a, b| (&a.name, &a.kind).cmp(&(&b.name, &b.kind)));
    Ok(jobs)
}

/// Changes one job; returns whether it was different before.
async fn change(service: &Service, caller: &Caller, job: &JobRef, action: Action) -> Result<bool, Problem> {
    let of = [job.kind.as_str(), &job.namespace, &job.name];
    match action {
        Action::Delete => {
            let kind = filter::kind(&job.kind)?;
            delete::delete(&caller.client, kind, &job.namespace, &job.name, Manner::default()).await?;
            Ok(true)
        }
        Action::Suspend => suspension::set(service, caller, of, true).await.map(|(_, changed)| changed),
        Action::Resume => suspension::set(service, caller, of, false).await.map(|(_, changed)| changed),
    }
}
