//! One job: get, delete, export, its events; and several jobs compared.

use std::sync::Arc;

use api::JobCondition;
use jiff::Timestamp;
use jobs::delete::Manner;
use jobs::describe::{EventView, PodView};
use jobs::detail::{self, Detail};
use jobs::export::{self, Inexpressible};
use jobs::view::health::{self, WorkerView};
use jobs::{compare, delete, events, list, view};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use plan::{Explanation, Stage, Step};

use super::history::attempt;
use super::source::yaml;
use crate::call::proper;
use crate::contract::{
    CompareJobsRequest, CompareJobsResponse, Compared, Condition, DeleteJobRequest, DeleteJobResponse, Event,
    ExportJobRequest, ExportJobResponse, Failure, Fix, GetJobRequest, Job, JobRef, JobRow, JobStep,
    JobWorker, ListEventsRequest, ListEventsResponse, Pod, Waiting,
};
use crate::filter::kind;
use crate::identity::Caller;
use crate::operation;
use crate::problem::Problem;
use crate::row::{self, actor, count, time, word};
use crate::seen;
use crate::service::Service;

/// The most jobs to compare.
const MOST_COMPARED: usize = 10;

/// Gets a job.
pub async fn get_job(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: GetJobRequest,
) -> Result<Job, Problem> {
    let kind = kind(&request.kind)?;
    let found = detail::detail(&caller.client, kind, &request.namespace, &request.name).await?;
    let Detail { description, explanation, steps, fixes } = found;
    let object = &description.object;
    operation::shows(&object.resource_version().unwrap_or_default());
    let status = view::in_our_words(object).status.unwrap_or_default();
    let known = service.board.get(&(kind, request.namespace, request.name));
    let queue_position = known.and_then(|entry| entry.row.queue_position);
    let workers = health::workers(&description.row, &description.status, &description.pods);
    Ok(Job {
        worker_list: workers.into_iter().map(worker).collect(),
        row: Some(JobRow { queue_position, ..row::of(description.row) }),
        manifest: yaml(&export::manifest(object)),
        conditions: status.conditions.iter().map(condition).collect(),
        pods: description.pods.iter().map(pod).collect(),
        attempts: count(status.attempts.len()),
        attempt_list: seen::attempts(&status).into_iter().map(attempt).collect(),
        // With advice about an image that is not mapped, which the job itself does not have.
        failure: description.status.failure.or(status.failure).map(failure),
        unread: description.unread,
        warnings: description.warnings,
        last_lines: description.last_lines,
        steps: steps.into_iter().map(step).collect(),
        waiting: waiting(explanation),
        fixes: fixes.into_iter().map(fix).collect(),
    })
}

fn step(step: Step) -> JobStep {
    let Step { name, state, actor, message, workers_done, ended } = step;
    JobStep {
        name: word(name),
        state: word(state),
        actor: actor.map(word).unwrap_or_default(),
        message,
        workers_done: workers_done.map(count),
        finished: time(ended),
    }
}

/// What a job waits for; `None` if it has ended or simply runs.
fn waiting(explanation: Explanation) -> Option<Waiting> {
    let Explanation { state, cause, message, evidence, last_lines: _, actor, since, advice, link } =
        explanation;
    let waits = !matches!(state, Stage::Running | Stage::Succeeded) && !state.is_failure();
    waits.then(|| Waiting {
        stage: word(state),
        cause: cause.unwrap_or_default(),
        message,
        suggestion: advice.map(|advice| advice.text).unwrap_or_default(),
        link: link.unwrap_or_default(),
        actor: word(actor),
        since: time(since),
        evidence,
    })
}

fn fix(fix: jobs::fix::Fix) -> Fix {
    let jobs::fix::Fix { kind, role, path, now, proposed } = fix;
    Fix {
        kind: word(kind),
        role: role.unwrap_or_default(),
        path,
        now,
        proposed: proposed.unwrap_or_default(),
    }
}

fn condition(condition: &JobCondition) -> Condition {
    Condition {
        r#type: condition.type_.clone(),
        status: condition.status.clone(),
        reason: condition.reason.clone().unwrap_or_default(),
        message: condition.message.clone().unwrap_or_default(),
        since: time(condition.last_transition_time.as_ref().map(|time| time.0)),
    }
}

fn pod(pod: &PodView) -> Pod {
    let role = match pod.role.as_str() {
        "launcher" => "Launcher",
        "worker" => "Worker",
        other => other,
    };
    Pod {
        name: pod.name.clone(),
        role: role.to_owned(),
        index: pod.index,
        state: pod.state.clone(),
        waits_for: pod.waits_for.clone().unwrap_or_default(),
        ready: pod.ready,
        node: pod.node.clone().unwrap_or_default(),
        restarts: pod.restarts,
        exit_code: pod.exit_code,
        created: time(pod.created),
        gpus: count(pod.gpus),
        health: word(health::of_pod(pod)),
    }
}

fn worker(worker: WorkerView) -> JobWorker {
    let WorkerView { index, health, pod, state } = worker;
    JobWorker { index, health: word(health), pod: pod.unwrap_or_default(), state }
}

fn failure(failure: api::Failure) -> Failure {
    Failure {
        actor: actor(&failure.reason),
        cause: failure.reason,
        message: failure.message,
        suggestion: failure.suggestion.unwrap_or_default(),
        link: failure.link.unwrap_or_default(),
        pod: failure.pod.unwrap_or_default(),
        worker: failure.worker,
        exit_code: failure.exit_code,
        evidence: failure.evidence,
    }
}

/// Deletes a job.
pub async fn delete_job(
    _service: Arc<Service>,
    caller: Arc<Caller>,
    request: DeleteJobRequest,
) -> Result<DeleteJobResponse, Problem> {
    let kind = kind(&request.kind)?;
    let manner = Manner { force: request.force, wait: None };
    delete::delete(&caller.client, kind, &request.namespace, &request.name, manner).await?;
    let job = JobRef { kind: kind.name().to_owned(), namespace: request.namespace, name: request.name };
    Ok(DeleteJobResponse { job: Some(job) })
}

/// Lists a job's events.
pub async fn list_events(
    _service: Arc<Service>,
    caller: Arc<Caller>,
    request: ListEventsRequest,
) -> Result<ListEventsResponse, Problem> {
    let kind = kind(&request.kind)?;
    let found = events::events(&caller.client, kind, &request.namespace, &request.name).await?;
    Ok(ListEventsResponse { events: found.into_iter().map(event).collect() })
}

fn event(event: EventView) -> Event {
    Event {
        at: time(event.at),
        r#type: event.kind,
        reason: event.reason,
        object: event.object,
        message: event.message,
        count: event.count,
    }
}

/// Exports a job.
pub async fn export_job(
    _service: Arc<Service>,
    caller: Arc<Caller>,
    request: ExportJobRequest,
) -> Result<ExportJobResponse, Problem> {
    let kind = kind(&request.kind)?;
    let write: fn(&DynamicObject) -> Result<String, Inexpressible> = match request.format.as_str() {
        "" | "yaml" => |job| Ok(yaml(&export::manifest(job))),
        "json" => |job| Ok(format!("{:#}\n", export::manifest(job))),
        "cli" => |job| Ok(export::shell(&export::command(&export::request(job)?))),
        "python" => |job| Ok(export::python(&export::request(job)?)),
        _ => {
            let shown: String = request.format.chars().take(40).collect();
            let fault = format!("\"{}\" is not a format", shown.escape_debug());
            return Err(Problem::invalid("format", fault, "use yaml, json, cli or python"));
        }
    };
    let job = list::get(&caller.client, kind, &request.namespace, &request.name).await?;
    let text = write(&job).map_err(|why| Problem::invalid("format", why.to_string(), "use yaml or json"))?;
    let format = if request.format.is_empty() { "yaml".to_owned() } else { request.format };
    Ok(ExportJobResponse { format, text })
}

/// Compares jobs.
pub async fn compare_jobs(
    _service: Arc<Service>,
    caller: Arc<Caller>,
    request: CompareJobsRequest,
) -> Result<CompareJobsResponse, Problem> {
    let kind = kind(&request.kind)?;
    if !(2..=MOST_COMPARED).contains(&request.names.len()) {
        let fault = format!("has {} names", request.names.len());
        return Err(Problem::invalid("names", fault, format!("name 2 to {MOST_COMPARED} jobs")));
    }
    let mut found = Vec::new();
    for name in &request.names {
        proper("names", name)?;
        found.push(list::get(&caller.client, kind, &request.namespace, name).await?);
    }
    let comparison = compare::jobs(&found, Timestamp::now());
    let lines = |lines: Vec<compare::Line>| {
        let line = |line: compare::Line| Compared {
            field: line.field,
            values: line.values.into_iter().map(Option::unwrap_or_default).collect(),
            same: line.same,
        };
        lines.into_iter().map(line).collect()
    };
    Ok(CompareJobsResponse {
        columns: comparison.columns,
        outcome: lines(comparison.outcome),
        metrics: lines(comparison.metrics),
        differences: lines(comparison.differences),
    })
}
