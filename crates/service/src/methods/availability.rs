//! Whether a job that does not exist yet could be created and start, and when.

use std::sync::Arc;

use jiff::Timestamp;
use jobs::asked;
use jobs::availability::{self, Availability, Start};
use jobs::preflight::{self, PATIENCE};
use jobs::standard;
use jobs::submit::Draft;
use plan::{Basis, Estimate, Finding, Source, Weight};

use super::{cost, templates};
use crate::access::Right;
use crate::contract::{
    self, CheckAvailabilityRequest, CheckAvailabilityResponse, CostEstimate, QueueRoom, Resources, WaitBasis,
    WaitEstimate,
};
use crate::identity::Caller;
use crate::problem::Problem;
use crate::row::count;
use crate::service::Service;
use crate::unknown;

/// Checks whether a job could be created and start now.
pub async fn check_availability(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: CheckAvailabilityRequest,
) -> Result<CheckAvailabilityResponse, Problem> {
    let namespace = &request.namespace;
    let sent = (request.manifest.as_str(), request.spec, request.template.as_ref());
    // On the heap: each step around would hold a copy.
    let draft = Box::pin(templates::draft(&service, &caller, namespace, sent)).await?;
    let right = Right::on_jobs("create", draft.kind, namespace);
    service.access.require(&caller, right, draft.kind.names()).await?;
    let (found, cost) = Box::pin(of(&service, &caller, &draft, namespace)).await?;
    Ok(message(found, cost))
}

/// Returns what a job would meet in the namespace now, and what it would cost, as far as the caller may read it.
///
/// # Errors
/// 503 if the cluster does not say what the caller may read.
pub async fn of(
    service: &Service,
    caller: &Caller,
    draft: &Draft,
    namespace: &str,
) -> Result<(Availability, Option<CostEstimate>), Problem> {
    let request = tokio::time::timeout(PATIENCE, asked::request(&caller.client, namespace, draft)).await;
    let request = request.unwrap_or_default();
    let missing = Box::pin(preflight::missing_references(&caller.client, namespace, &request.asked));
    let (seen, prices, tenant, missing) = futures::join!(
        service.reading(caller, namespace),
        cost::prices(caller),
        service.tenants.get(namespace),
        tokio::time::timeout(PATIENCE, missing)
    );
    let seen = seen?;
    let mut found = availability::availability(&request, namespace, &seen, Timestamp::now());
    found.add(missing.unwrap_or_default());
    found.add(tenant.and_then(|tenant| standard::forbids(&tenant, &request.asked)).into_iter().collect());
    let cost = cost::estimate(&prices, &found.amounts, cost::model(&request.asked));
    Ok((found, cost))
}

/// Returns it as the contract has it.
pub fn message(found: Availability, cost: Option<CostEstimate>) -> CheckAvailabilityResponse {
    CheckAvailabilityResponse {
        cost,
        available: found.findings.is_empty(),
        findings: found.findings.iter().map(finding).collect(),
        start: match found.start {
            Start::Now => "Now",
            Start::Later => "Later",
            Start::WhenResumed => "WhenResumed",
            Start::Refused => "Refused",
            Start::Unknown => "Unknown",
        }
        .to_owned(),
        requested: Some(resources(&found.requested)),
        free: found.free.as_ref().map(resources),
        queue: found.queue.map(queue_room),
        wait: found.wait.as_ref().map(wait),
    }
}

/// Returns a finding as the contract has it.
pub fn finding(finding: &Finding) -> contract::Finding {
    contract::Finding {
        weight: if finding.weight == Weight::Refused { "Refused" } else { "Waits" }.to_owned(),
        reason: finding.reason.word().to_owned(),
        message: finding.message.clone(),
        advice: finding.advice.text.clone(),
    }
}

/// Returns the room in a queue as the contract has it.
pub fn queue_room(queue: availability::QueueRoom) -> QueueRoom {
    QueueRoom {
        name: queue.name,
        cluster_queue: queue.cluster_queue,
        free: queue.free.as_ref().map(resources),
        ahead: count(queue.ahead),
        unknown: queue.unknown.as_ref().map(|why| unknown::quota("free", why)),
    }
}

/// Returns amounts as the contract has them.
pub fn resources(amounts: &availability::Resources) -> Resources {
    Resources { gpus: count(amounts.gpus), cpu: amounts.cpu(), memory: amounts.memory() }
}

/// Returns an estimate as the contract has it.
pub fn wait(estimate: &Estimate) -> WaitEstimate {
    let (low_seconds, high_seconds, basis) = match estimate {
        Estimate::Range { low_seconds, high_seconds, basis } => {
            (Some(count(*low_seconds)), Some(count(*high_seconds)), basis.as_slice())
        }
        Estimate::Unknown => (None, None, &[][..]),
    };
    let basis = basis.iter().map(|Basis { source, jobs }| WaitBasis {
        source: match source {
            Source::Progress => "Progress",
            Source::SimilarJobs => "SimilarJobs",
            Source::EndedJobs => "EndedJobs",
            Source::Deadlines => "Deadlines",
            Source::QueueOrder => "QueueOrder",
        }
        .to_owned(),
        jobs: count(*jobs),
    });
    WaitEstimate { low_seconds, high_seconds, message: estimate.to_string(), basis: basis.collect() }
}
