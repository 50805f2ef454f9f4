//! Suspends, resumes and cancels a job.

use std::sync::Arc;

use jobs::{cancel, suspension};

use crate::contract::{
    CancelJobRequest, CancelJobResponse, JobRow, ResumeJobRequest, ResumeJobResponse, SuspendJobRequest,
    SuspendJobResponse,
};
use crate::filter::kind;
use crate::identity::Caller;
use crate::problem::Problem;
use crate::row::row;
use crate::service::Service;

/// Suspends a job.
pub async fn suspend_job(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: SuspendJobRequest,
) -> Result<SuspendJobResponse, Problem> {
    let of = [request.kind.as_str(), &request.namespace, &request.name];
    let (job, changed) = set(&service, &caller, of, true).await?;
    Ok(SuspendJobResponse { job: Some(job), changed })
}

/// Resumes a job.
pub async fn resume_job(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: ResumeJobRequest,
) -> Result<ResumeJobResponse, Problem> {
    let of = [request.kind.as_str(), &request.namespace, &request.name];
    let (job, changed) = set(&service, &caller, of, false).await?;
    Ok(ResumeJobResponse { job: Some(job), changed })
}

/// Cancels a job.
pub async fn cancel_job(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: CancelJobRequest,
) -> Result<CancelJobResponse, Problem> {
    let kind = kind(&request.kind)?;
    let job = cancel::cancel(&caller.client, kind, &request.namespace, &request.name).await?;
    service.watches.learn(&job);
    Ok(CancelJobResponse { job: Some(row(&job)) })
}

/// Suspends or resumes a job, given as kind, namespace and name; returns its row and whether it changed.
pub async fn set(
    service: &Service,
    caller: &Caller,
    [kind_word, namespace, name]: [&str; 3],
    suspend: bool,
) -> Result<(JobRow, bool), Problem> {
    let change = suspension::set(&caller.client, kind(kind_word)?, namespace, name, suspend).await?;
    service.watches.learn(&change.object);
    Ok((row(&change.object), change.changed))
}
