//! Quotas: those of the namespace, which count resources and objects, and its maximum number of running jobs.

use api::{MPIJob, Phase};
use k8s_openapi::api::core::v1::ResourceQuota;
use semantics::Quantity;

use super::roles::Role;
use super::{Finding, Room, Weight, counts_as_running, difference};
use crate::action::{Action, Advice};
use crate::asked::Asked;
use diagnosis::Cause;

/// The names of the pods that a job can have fewer of.
const SCALED: [&str; 2] = ["Worker", "node"];

pub(super) fn too_many_jobs(namespace: &str, room: &Room) -> Option<Finding> {
    let limit = room.most_jobs?;
    let here = |job: &&MPIJob| job.metadata.namespace.as_deref() == Some(namespace);
    let running = room.jobs.iter().filter(here).filter(|job| counts_as_running(job)).count();
    (running >= limit).then(|| Finding {
        weight: Weight::Refused,
        reason: Cause::QuotaExceeded,
        wait: None,
        message: format!("Quota exceeded: {running}/{limit} jobs running"),
        advice: Advice::from(format!(
            "the limit of namespace {namespace} is {limit} at once, including jobs admitted by queues: wait for one to end, suspend or delete one"
        ))
        .with(Action::list_jobs(namespace))
        .with(Action::CreateSuspended),
    })
}

/// The running jobs of the namespace that their operator has not reported on yet. Their pods are not created yet, so no
/// quota counts them.
pub(super) fn accepted<'r>(namespace: &str, room: &'r Room) -> Vec<Asked<'r>> {
    let is_unobserved = |job: &&MPIJob| {
        job.status.as_ref().is_none_or(|status| {
            status.conditions.is_empty()
                && status.startup.is_none()
                && status.replica_statuses.is_empty()
                && status.phase != Some(Phase::Running)
        })
    };
    let here = |job: &&MPIJob| job.metadata.namespace.as_deref() == Some(namespace);
    let jobs = room.jobs.iter().filter(here).filter(|job| counts_as_running(job));
    jobs.filter(is_unobserved).map(Asked::of).collect()
}

/// How much of a quota's resource a pod asks for, and the name of that resource in a container.
fn asked<'a>(role: &'a Role<'_>, key: &'a str) -> Option<(Option<Quantity>, &'a str)> {
    let (amounts, name) = match key.strip_prefix("limits.") {
        Some(name) => (&role.limits, name),
        None => (&role.requests, key.strip_prefix("requests.").unwrap_or(key)),
    };
    match name {
        "cpu" | "memory" | "ephemeral-storage" => Some((amounts.get(name).copied(), name)),
        extended if extended.contains('/') && !extended.starts_with("count/") => {
            Some((amounts.get(extended).copied(), extended))
        }
        _ => None,
    }
}

pub(super) fn quota_faults(
    (job, roles): (&Asked<'_>, &[Role<'_>]),
    namespace: &str,
    quota: &ResourceQuota,
    coming: &[Role<'_>],
) -> Vec<Finding> {
    let Some(spec) = &quota.spec else { return Vec::new() };
    // Which pods a scoped quota covers depends on facts that are not read here.
    if spec.scopes.is_some() || spec.scope_selector.is_some() {
        return Vec::new();
    }
    let status = quota.status.clone().unwrap_or_default();
    let used = status.used.unwrap_or_default();
    let name = quota.metadata.name.as_deref().unwrap_or("");
    let hard = spec.hard.iter().flatten();
    hard.filter_map(|(key, limit)| {
        let limit = Quantity::read(&limit.0)?;
        let used = used.get(key).and_then(|used| Quantity::read(&used.0)).unwrap_or(Quantity::ZERO);
        let counted = CountedQuota { namespace, name, key, limit, used, coming: total(coming, key) };
        if key.strip_prefix("count/") == Some(job.resource.as_str()) {
            return over_count(&counted, job.kinds);
        }
        match over_quota(roles, &counted) {
            Some(refused) if refused.weight == Weight::Refused => Some(refused),
            waits => unspoken(roles, name, key).or(waits),
        }
    })
    .collect()
}

/// One resource of a quota, with its limit and its usage.
struct CountedQuota<'a> {
    namespace: &'a str,
    name: &'a str,
    key: &'a str,
    limit: Quantity,
    used: Quantity,
    /// The usage of accepted jobs whose pods are not created yet.
    coming: Quantity,
}

/// A quota on the number of existing jobs of a kind, including ended ones.
fn over_count(quota: &CountedQuota<'_>, kinds: &str) -> Option<Finding> {
    let CountedQuota { namespace, name, limit, used, .. } = *quota;
    (Quantity::ONE.plus(used) > limit).then(|| Finding {
        weight: Weight::Refused,
        reason: Cause::QuotaExceeded,
        wait: None,
        message: format!("Quota exceeded: {used}/{limit} {kinds} exist (quota {name})"),
        advice: Advice::from("delete one; jobs that have ended count too").with(Action::ListJobs {
            namespace: Some(namespace.to_owned()),
            phases: vec![Phase::Succeeded, Phase::Failed],
        }),
    })
}

/// How much a pod of this role uses of a quota's resource; `None` if it uses nothing of it.
fn used_by(role: &Role<'_>, key: &str) -> Option<Quantity> {
    match key {
        "pods" | "count/pods" => Some(Quantity::ONE),
        // Counts of other objects are left to the server, which checks them when the job is created.
        _ => asked(role, key)?.0,
    }
}

/// How much all pods of these roles use of a quota's resource.
fn total(roles: &[Role<'_>], key: &str) -> Quantity {
    let all = roles.iter().filter_map(|role| Some(used_by(role, key)?.times(role.count)));
    all.fold(Quantity::ZERO, |sum, more| more.plus(sum))
}

/// A quota that has room for the job only until the pods of earlier jobs are created.
fn over_quota_soon(quota: &CountedQuota<'_>, sum: Quantity) -> Finding {
    let CountedQuota { namespace, name, key, limit, used, coming } = *quota;
    let left = difference(difference(limit, used), coming);
    Finding {
        weight: Weight::Waits,
        reason: Cause::QuotaExceeded,
        wait: None,
        message: format!(
            "Other jobs that were just accepted need {coming} of {key}: {sum} requested, {used} of {limit} used, {left} left beside them (quota {name})"
        ),
        advice: Advice::from(
            "the job waits until one of them has ended; to start sooner, request less, or delete one",
        )
        .with(Action::list_jobs(namespace)),
    }
}

fn over_quota(roles: &[Role<'_>], quota: &CountedQuota<'_>) -> Option<Finding> {
    let CountedQuota { namespace, name, key, limit, used, coming } = *quota;
    let sum = total(roles, key);
    if sum.is_zero() || sum.plus(used).plus(coming) <= limit {
        return None;
    }
    if sum.plus(used) <= limit {
        return Some(over_quota_soon(quota, sum));
    }
    let of = |role: &Role<'_>| used_by(role, key);
    let left = difference(limit, used);
    let worker = roles.iter().find(|role| SCALED.contains(&role.name));
    let each = worker.and_then(of);
    let others = roles.iter().filter(|role| !SCALED.contains(&role.name)).filter_map(|role| {
        let each = of(role)?;
        Some(each.times(role.count))
    });
    let others = others.fold(Quantity::ZERO, |sum, more| more.plus(sum));
    let fit = each.and_then(|each| difference(left, others).count_of(each)).unwrap_or(0);
    let smaller = match worker {
        Some(worker) if fit > 0 => {
            let most = worker.counted(usize::try_from(fit).unwrap_or(usize::MAX));
            format!("request at most {most} of this size, or less per {}", worker.name)
        }
        _ => "request less".to_owned(),
    };
    Some(Finding {
        weight: Weight::Refused,
        reason: Cause::QuotaExceeded,
        wait: None,
        message: format!(
            "Quota exceeded: {sum} of {key} requested, {used} of {limit} used, {left} left (quota {name})"
        ),
        advice: Advice::from(format!("{smaller}; or wait for a running job to end, or delete one"))
            .with(Action::list_jobs(namespace)),
    })
}

/// A quota on CPU or memory refuses pods that do not specify their request or limit.
fn unspoken(roles: &[Role<'_>], quota: &str, key: &str) -> Option<Finding> {
    let name = key.trim_start_matches("limits.").trim_start_matches("requests.");
    let limits = key.starts_with("limits.");
    let silent = roles.iter().find(|role| {
        role.unlimited
            .iter()
            .any(|(known, limit, request)| *known == name && !(if limits { *limit } else { *request }))
    })?;
    let what = if limits { "limit" } else { "request" };
    Some(Finding {
        weight: Weight::Refused,
        reason: Cause::QuotaExceeded,
        wait: None,
        message: format!("the quota {quota} covers {key}, but the {} sets no {name} {what}", silent.name),
        advice: Advice::from(format!(
            "set resources.{what}s.{name} of every container of the {}; an administrator can set a default with a LimitRange",
            silent.name
        )),
    })
}

#[cfg(test)]
mod tests {
    use api::MPIJob;
    use k8s_openapi::api::core::v1::ResourceQuota;
    use serde_json::json;

    use crate::asked::Asked;
    use crate::precheck::samples::{NOW, job, read, told};
    use crate::precheck::{Room, Weight, precheck};

    #[test]
    fn an_exceeded_quota_reports_limit_usage_and_request() {
        let quota: ResourceQuota = read(json!({"metadata": {"name": "gpus"},
            "spec": {"hard": {"requests.nvidia.com/gpu": "10", "pods": "20"}},
            "status": {"used": {"requests.nvidia.com/gpu": "4", "pods": "3"}}}));
        let room = Room { quotas: vec![quota], ..Room::default() };
        let job_of_four = job(4, "2", json!({}));
        let found = precheck(&Asked::of(&job_of_four), "team-cv", &room, NOW.parse().unwrap());
        assert_eq!(
            found[0].message,
            "Quota exceeded: 8 of requests.nvidia.com/gpu requested, 4 of 10 used, 6 left (quota gpus)"
        );
        assert!(found[0].advice.text.starts_with("request at most 3 Workers of this size"), "{found:?}");
        assert_eq!(found[0].weight, Weight::Refused);
        assert_eq!(told(&job(3, "2", json!({})), &room), [""; 0]);
    }

    #[test]
    fn a_job_waits_for_what_jobs_need_that_were_just_accepted() {
        let quota: ResourceQuota = read(json!({"metadata": {"name": "gpus"},
            "spec": {"hard": {"requests.nvidia.com/gpu": "10"}},
            "status": {"used": {"requests.nvidia.com/gpu": "0"}}}));
        let room = |job: MPIJob| Room { quotas: vec![quota.clone()], jobs: vec![job], ..Room::default() };
        let new = job(2, "2", json!({}));
        for accepted in [json!({}), json!({"phase": "Pending"})] {
            let room = room(job(4, "2", accepted));
            let found = precheck(&Asked::of(&new), "team-cv", &room, NOW.parse().unwrap());
            assert_eq!((found.len(), found[0].weight), (1, Weight::Waits), "{found:?}");
            assert_eq!(
                found[0].message,
                "Other jobs that were just accepted need 8 of requests.nvidia.com/gpu: 4 requested, 0 of 10 used, 2 left beside them (quota gpus)"
            );
            assert_eq!(told(&job(1, "2", json!({})), &room), [""; 0], "there is room for both");
            assert!(told(&job(6, "2", json!({})), &room)[0].starts_with("Quota exceeded: 12 of"));
        }
        let mut elsewhere = job(4, "2", json!({}));
        elsewhere.metadata.namespace = Some("other".to_owned());
        let mut held = job(4, "2", json!({}));
        held.spec.run_policy = Some(read(json!({"suspend": true})));
        // The quota counts the pods of a job that its operator has seen.
        let seen = json!({"phase": "Pending", "startup": {"queued": NOW}});
        for other in [job(4, "2", seen), job(4, "2", json!({"phase": "Failed"})), elsewhere, held] {
            assert_eq!(told(&new, &room(other)), [""; 0]);
        }
    }

    #[test]
    fn a_memory_quota_requires_every_container_to_set_memory() {
        let quota: ResourceQuota =
            read(json!({"metadata": {"name": "q"}, "spec": {"hard": {"limits.memory": "100Gi"}}}));
        let mut room = Room { quotas: vec![quota], ..Room::default() };
        let job = job(2, "1", json!({}));
        assert_eq!(
            told(&job, &room),
            ["the quota q covers limits.memory, but the Launcher sets no memory limit"]
        );
        room.limits = vec![read(json!({"metadata": {"name": "r"}, "spec": {"limits": [
            {"type": "Container", "default": {"memory": "1Gi"}, "max": {"memory": "4Gi"}}]}}))];
        assert_eq!(
            told(&job, &room),
            ["the memory limit of the Worker, 8Gi, is above the maximum of LimitRange r, 4Gi"]
        );
    }

    #[test]
    fn the_number_of_jobs_is_bounded() {
        let running = job(1, "1", json!({"phase": "Running"}));
        let ended = job(1, "1", json!({"phase": "Succeeded"}));
        let mut room =
            Room { most_jobs: Some(2), jobs: vec![running.clone(), ended, running], ..Room::default() };
        let new = job(1, "1", json!({}));
        assert_eq!(told(&new, &room), ["Quota exceeded: 2/2 jobs running"]);
        room.most_jobs = Some(3);
        assert_eq!(told(&new, &room), [""; 0]);
    }
}
