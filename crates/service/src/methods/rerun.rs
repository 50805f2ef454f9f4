//! Runs jobs again: an ended one as it was, or a copy with changes.

use std::sync::Arc;

use jobs::export;
use jobs::rerun::{self, Rerun};
use jobs::setting::Setting;
use kube::ResourceExt as _;

use super::patience::patiently;
use super::source::yaml;
use crate::call::proper;
use crate::contract::{CloneJobRequest, CloneJobResponse, RetryJobRequest, RetryJobResponse};
use crate::filter::kind;
use crate::identity::Caller;
use crate::operation;
use crate::problem::Problem;
use crate::row::row;
use crate::service::Service;

/// The most changes.
const MOST_CHANGES: usize = 100;

/// Runs an ended job again.
pub async fn retry_job(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: RetryJobRequest,
) -> Result<RetryJobResponse, Problem> {
    let rerun = changes(&request.new_name, &request.set, request.dry_run)?;
    let kind = kind(&request.kind)?;
    let retry = || rerun::retry(&caller.client, kind, &request.namespace, &request.name, &rerun);
    let job = patiently(service.settings.admission, retry).await?;
    if !request.dry_run {
        service.watches.learn(&job);
    }
    operation::about(kind.plural(), &job.name_any(), None);
    Ok(RetryJobResponse { job: Some(row(&job)), manifest: yaml(&export::manifest(&job)) })
}

/// Runs a copy of a job.
pub async fn clone_job(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: CloneJobRequest,
) -> Result<CloneJobResponse, Problem> {
    let rerun = changes(&request.new_name, &request.set, request.dry_run)?;
    let kind = kind(&request.kind)?;
    let clone = || rerun::clone(&caller.client, kind, &request.namespace, &request.name, &rerun);
    let job = patiently(service.settings.admission, clone).await?;
    if !request.dry_run {
        service.watches.learn(&job);
    }
    operation::about(kind.plural(), &job.name_any(), None);
    Ok(CloneJobResponse { job: Some(row(&job)), manifest: yaml(&export::manifest(&job)) })
}

fn changes(new_name: &str, set: &[String], dry_run: bool) -> Result<Rerun, Problem> {
    if !new_name.is_empty() {
        proper("newName", new_name)?;
    }
    if set.len() > MOST_CHANGES {
        let fault = format!("has {} changes", set.len());
        return Err(Problem::invalid(
            "set",
            fault,
            format!("make at most {MOST_CHANGES}; or send a manifest"),
        ));
    }
    let settings: Result<Vec<Setting>, Problem> = set
        .iter()
        .enumerate()
        .map(|(at, text)| {
            Setting::read(text).map_err(|fault| Problem::invalid(&format!("set[{at}]"), fault, ""))
        })
        .collect();
    let name = Some(new_name.to_owned()).filter(|name| !name.is_empty());
    let request = operation::current().map(|operation| operation.id.clone());
    Ok(Rerun { name, settings: settings?, dry_run, request, ..Rerun::default() })
}
