//! Checks what would block a job before it is created: the namespace's quotas and limits, its maximum number of jobs,
//! and the free resources of the nodes.
//!
//! The input is the job and what was read of the namespace and cluster ([`Room`]); the output is a list of
//! [`Finding`]s, the refusals first. Pure, and the only place that decides it. What could not be read is not judged.

mod limits;
mod quota;
mod roles;
#[cfg(test)]
mod samples;
mod shortage;

use std::collections::BTreeMap;

use api::{CONDITION_FAILED, CONDITION_SUCCEEDED, MPIJob, Phase};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{LimitRange, ResourceQuota};
use semantics::{Amounts, Quantity};
use serde::Serialize;

use crate::action::Advice;
use crate::asked::Asked;
use crate::capacity::Capacity;
use crate::conditions::is_true;
use crate::estimate::{Estimate, Experience, Holder, estimate};
use crate::validate::is_ours;
use diagnosis::Cause;
use limits::limit_faults;
use quota::{accepted, quota_faults, too_many_jobs};
use roles::{Role, roles};
pub use shortage::noun;
use shortage::shortage;

/// What was read of the namespace and cluster in which a job would run; fields are empty where reading is not
/// permitted.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// The namespace's quotas.
    pub quotas: Vec<ResourceQuota>,
    /// The namespace's limit ranges.
    pub limits: Vec<LimitRange>,
    /// The maximum number of jobs that may run in the namespace at once.
    pub most_jobs: Option<usize>,
    /// The visible jobs: running ones hold the resources that are short, ended ones show how long jobs take.
    pub jobs: Vec<MPIJob>,
    /// The remaining time that programs of running jobs report, in seconds from now, by the job's UID.
    pub remaining_seconds: BTreeMap<String, i64>,
    /// All nodes, and what all pods hold on them.
    pub capacity: Option<Capacity>,
    /// The values of the priority classes whose pods preempt those of lower priority, by name.
    pub preempting: BTreeMap<String, i32>,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Weight {
    /// The job, or its pods, would be refused.
    Refused,
    /// The job would wait.
    Waits,
}

/// One thing that would block a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The severity.
    pub weight: Weight,
    /// The cause: `QuotaExceeded`, `Unschedulable` or `AdmissionRefused`.
    pub reason: Cause,
    /// What is requested, and what is available.
    pub message: String,
    /// How long the job would wait, if it waits for a resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Estimate>,
    /// What to do.
    #[serde(flatten)]
    pub advice: Advice,
}

/// Returns what would block the job, the refusals first.
#[must_use]
pub fn precheck(job: &Asked<'_>, namespace: &str, room: &Room, now: Timestamp) -> Vec<Finding> {
    let all = roles(job, &room.limits);
    let mut found = limit_faults(&all, &room.limits);
    // A suspended job requests nothing yet; it is checked when it is resumed.
    if !job.is_suspended && job.queue.is_none() {
        if job.is_limited {
            found.extend(too_many_jobs(namespace, room));
        }
        let roles: Vec<Role<'_>> = all.into_iter().filter(|role| !role.ends_first).collect();
        let asked = (job, roles.as_slice());
        let accepted = accepted(namespace, room);
        let coming: Vec<Role<'_>> = accepted
            .iter()
            .flat_map(|job| self::roles(job, &room.limits))
            .filter(|role| !role.ends_first)
            .collect();
        let faults = |quota| quota_faults(asked, namespace, quota, &coming);
        found.extend(room.quotas.iter().flat_map(faults));
        if let Some(capacity) = &room.capacity {
            found.extend(shortage(&roles, capacity, room, now));
        }
    }
    found.sort_by_key(|finding| finding.weight);
    found
}

/// Whether a job counts against the namespace's maximum number of jobs: this operator runs it, it has not ended, and it
/// is not suspended. It does not matter whether a queue or a user released it. A job that is being deleted counts until
/// it is gone, because its pods may still run.
#[must_use]
pub fn counts_as_running(job: &MPIJob) -> bool {
    let ended = job.status.as_ref().is_some_and(|status| {
        status.completion_time.is_some()
            || matches!(status.phase, Some(Phase::Succeeded | Phase::Failed))
            || is_true(status, CONDITION_SUCCEEDED)
            || is_true(status, CONDITION_FAILED)
    });
    let held = job.spec.run_policy.as_ref().and_then(|policy| policy.suspend) == Some(true);
    !ended && !held && is_ours(job)
}

/// Subtracts, down to zero.
fn difference(from: Quantity, less: Quantity) -> Quantity {
    from.less(less).max(Quantity::ZERO)
}

/// Estimates when this much of a resource will be free: when the running jobs that `holds` selects release it. `ahead`
/// is the number of jobs whose needs are part of `missing`, because they come first.
#[must_use]
pub fn wait(
    resource: &str,
    missing: Quantity,
    holds: impl Fn(&MPIJob) -> bool,
    ahead: usize,
    room: &Room,
    now: Timestamp,
) -> Estimate {
    let running = room.jobs.iter().filter(|job| counts_as_running(job) && holds(job));
    let holders: Vec<Holder<'_>> = running
        .map(|job| Holder {
            job,
            held: requested(&Asked::of(job), &room.limits).get(resource).copied().unwrap_or(Quantity::ZERO),
        })
        .collect();
    let experience = Experience { jobs: &room.jobs, remaining_seconds: &room.remaining_seconds, now };
    estimate(missing, &holders, ahead, &experience)
}

/// Returns what all pods of a job together request, with the defaults of the namespace's limit ranges.
#[must_use]
pub fn requested(job: &Asked<'_>, limits: &[LimitRange]) -> Amounts {
    let mut total = Amounts::new();
    for role in roles(job, limits) {
        for (name, each) in role.requests {
            let sum = total.entry(name).or_insert(Quantity::ZERO);
            *sum = each.times(role.count).plus(*sum);
        }
    }
    total
}
