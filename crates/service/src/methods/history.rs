//! What became of a job, from the store: also after the job was deleted.

use std::cmp::Reverse;
use std::sync::Arc;

use history::jobs::{self, Attempt, Change, Filter, Job};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;

use super::tenant;
use crate::contract::{GetHistoryRequest, JobAttempt, JobHistory, JobState, WorkerCounts};
use crate::filter::kind;
use crate::identity::Caller;
use crate::problem::Problem;
use crate::row::{actor, count, time};
use crate::service::Service;

/// The number of states in a page if none is given, and the largest.
const PAGE: u32 = 200;
const LARGEST_PAGE: u32 = jobs::MAX_PAGE;
/// The most jobs of one name.
const MOST_JOBS: u32 = 100;

/// Returns a job's history.
pub async fn get_history(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: GetHistoryRequest,
) -> Result<JobHistory, Problem> {
    let store = &service.kept.opened()?.store;
    let kind = kind(&request.kind)?;
    let limit = page(request.limit, PAGE, LARGEST_PAGE)?;
    let after: i64 = match request.r#continue.as_str() {
        "" => i64::MIN,
        text => text.parse().map_err(|_| not_a_page())?,
    };
    let filter = Filter {
        namespace: Some(request.namespace.clone()),
        kind: Some(kind.name().to_owned()),
        name: Some(request.name.clone()),
        tenant: tenant::of(&service, &caller, "get", &[kind]).await?,
        ..Filter::default()
    };
    let mut found = jobs::jobs(store, &filter, None, MOST_JOBS).await?;
    // Of jobs created within the same second, the one that was deleted first was there first.
    found.sort_by_key(|job| (Reverse(job.created), Reverse(job.deleted.unwrap_or(Timestamp::MAX))));
    let uids: Vec<String> = found.iter().map(|job| job.uid.clone()).collect();
    let is_meant = |job: &Job| request.uid.is_empty() || job.uid == request.uid;
    let job = found.into_iter().find(is_meant).ok_or_else(|| {
        let message = format!(
            "the history has no {} \"{}\" in namespace \"{}\"",
            kind.name(),
            request.name,
            request.namespace
        );
        Problem::new(StatusCode::NOT_FOUND, "NotFound", message)
    })?;
    let changes = jobs::changes(store, &job.uid, (None, None), after, limit).await?;
    let next = changes.last().filter(|_| changes.len() == limit as usize);
    let next = next.map(|change| change.version.to_string()).unwrap_or_default();
    let attempts = jobs::attempts(store, &job.uid, 0, jobs::MAX_PAGE).await?;
    Ok(JobHistory {
        kind: job.kind,
        namespace: job.namespace,
        name: job.name,
        uid: job.uid,
        owner: job.owner.unwrap_or_default(),
        created: time(Some(job.created)),
        started: time(job.started),
        finished: time(job.finished),
        deleted: time(job.deleted),
        phase: job.phase,
        phase_reason: job.reason.unwrap_or_default(),
        cause: job.cause.unwrap_or_default(),
        states: changes.into_iter().map(state).collect(),
        attempts: attempts.into_iter().map(attempt).collect(),
        r#continue: next,
        uids,
    })
}

/// Reads the size of a page.
pub fn page(limit: i32, usual: u32, largest: u32) -> Result<u32, Problem> {
    match u32::try_from(limit) {
        Ok(0) => Ok(usual),
        Ok(limit) if limit <= largest => Ok(limit),
        _ => {
            let fault = format!("{limit} is not between 1 and {largest}");
            Err(Problem::invalid("limit", fault, "ask for several pages"))
        }
    }
}

/// The problem of a `continue` that is none.
pub fn not_a_page() -> Problem {
    Problem::invalid("continue", "is not of a page", "send the continue of the page before")
}

fn state(change: Change) -> JobState {
    let jobs::State { phase, reason, cause, message, attempt, workers } = change.state;
    let jobs::Workers { running, pending, failed, of } = workers;
    JobState {
        at: time(Some(change.at)),
        phase,
        phase_reason: reason.unwrap_or_default(),
        cause: cause.unwrap_or_default(),
        message: message.unwrap_or_default(),
        attempt: count(attempt),
        workers: Some(WorkerCounts {
            running: count(running),
            pending: count(pending),
            failed: count(failed),
            of: count(of),
        }),
    }
}

/// An attempt as the contract has it.
pub fn attempt(attempt: Attempt) -> JobAttempt {
    let Attempt {
        number,
        started,
        finished,
        phase,
        worker,
        exit_code,
        cause,
        message,
        evidence,
        last_lines: _,
    } = attempt;
    let evidence = evidence.as_ref().and_then(Value::as_array).into_iter().flatten();
    JobAttempt {
        number: count(number),
        started: time(started),
        finished: time(finished),
        phase: phase.unwrap_or_default(),
        worker: worker.unwrap_or_default(),
        exit_code: exit_code.map(count),
        actor: cause.as_deref().map(actor).unwrap_or_default(),
        cause: cause.unwrap_or_default(),
        message: message.unwrap_or_default(),
        evidence: evidence.filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}
