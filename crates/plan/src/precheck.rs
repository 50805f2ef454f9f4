//! Checks what would block a job before it is created: the namespace's quotas and limits, its maximum number of jobs,
//! and the free resources of the nodes.
//!
//! The input is the job and what was read of the namespace and cluster ([`Room`]); the output is a list of
//! [`Finding`]s, the refusals first. Pure, and the only place that decides it. What could not be read is not judged.

use std::collections::BTreeMap;

use api::{CONDITION_FAILED, CONDITION_SUCCEEDED, LAUNCHER, MPIJob, Phase};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, LimitRange, LimitRangeItem, PodSpec, ResourceQuota, ResourceRequirements,
};
use semantics::{
    Amounts, Quantity, amounts, is_gpu, limits_without_overhead, pod_limits, pod_requests, requests,
    requests_without_overhead, subtract,
};
use serde::Serialize;

use crate::action::{Action, Advice};
use crate::asked::{Asked, AskedPods};
use crate::capacity::{Capacity, PODS, Room as NodeRoom};
use crate::conditions::is_true;
use crate::estimate::{Estimate, Experience, Holder, estimate};
use crate::validate::is_ours;
use diagnosis::{Cause, no_node_can_take};

/// The names of the pods that a job can have fewer of.
const SCALED: [&str; 2] = ["Worker", "node"];

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

/// The identical pods of one role.
struct Role<'a> {
    name: &'a str,
    count: i64,
    ends_first: bool,
    pod: Option<&'a PodSpec>,
    /// What a pod requests of a node and of quotas, with the overhead of its runtime class.
    requests: Amounts,
    /// What limits a pod, with that overhead.
    limits: Amounts,
    /// What the containers of a pod request and what limits them, without that overhead.
    containers: Bounded,
    /// For CPU and memory of each container: the resource's name, and whether the container has a limit and a request.
    unlimited: Vec<(&'static str, bool, bool)>,
}

/// The amounts that a `LimitRange` bounds.
#[derive(Default)]
struct Bounded {
    requests: Amounts,
    limits: Amounts,
}

impl Role<'_> {
    fn plural(&self) -> String {
        format!("{}s", self.name)
    }

    /// The count with the role's name: `1 Worker`, `2 Workers`.
    fn counted(&self, count: usize) -> String {
        if count == 1 { format!("1 {}", self.name) } else { format!("{count} {}", self.plural()) }
    }
}

/// Returns the roles of a job, in the order of its groups.
fn roles<'a>(job: &'a Asked<'_>, limits: &[LimitRange]) -> Vec<Role<'a>> {
    job.groups.iter().map(|group| role(group, limits)).collect()
}

fn role<'a>(group: &'a AskedPods<'_>, limits: &[LimitRange]) -> Role<'a> {
    let AskedPods { name, count, ends_first, pod } = group;
    let pod = pod.as_deref();
    let mut role = Role {
        name,
        count: *count,
        ends_first: *ends_first,
        pod,
        requests: Amounts::new(),
        limits: Amounts::new(),
        containers: Bounded::default(),
        unlimited: Vec::new(),
    };
    let Some(pod) = pod else { return role };
    let mut defaulted = pod.clone();
    for container in defaulted.init_containers.iter_mut().flatten().chain(&mut defaulted.containers) {
        let resources = filled(container, limits);
        let (limits, requests) = (amounts(resources.limits.as_ref()), requests(Some(&resources)));
        for name in ["cpu", "memory"] {
            role.unlimited.push((name, limits.contains_key(name), requests.contains_key(name)));
        }
        container.resources = Some(resources);
    }
    role.requests = pod_requests(&defaulted);
    role.limits = pod_limits(&defaulted);
    role.containers = Bounded {
        requests: requests_without_overhead(&defaulted),
        limits: limits_without_overhead(&defaulted),
    };
    role
}

/// A container's resources, with the namespace's defaults filled in as the server does (`LimitRanger`).
fn filled(container: &Container, limits: &[LimitRange]) -> ResourceRequirements {
    let mut resources = container.resources.clone().unwrap_or_default();
    let mut limit = resources.limits.take().unwrap_or_default();
    let mut request = resources.requests.take().unwrap_or_default();
    for (name, amount) in &limit {
        request.entry(name.clone()).or_insert_with(|| amount.clone());
    }
    for item in container_items(limits) {
        for (name, amount) in item.default.iter().flatten() {
            limit.entry(name.clone()).or_insert_with(|| amount.clone());
        }
        for (name, amount) in item.default_request.iter().chain(item.default.iter()).flatten() {
            request.entry(name.clone()).or_insert_with(|| amount.clone());
        }
    }
    ResourceRequirements { limits: Some(limit), requests: Some(request), ..resources }
}

fn container_items(limits: &[LimitRange]) -> impl Iterator<Item = &LimitRangeItem> {
    limits
        .iter()
        .flat_map(|range| range.spec.iter().flat_map(|spec| &spec.limits))
        .filter(|item| item.type_ == "Container")
}

fn too_many_jobs(namespace: &str, room: &Room) -> Option<Finding> {
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

/// The running jobs of the namespace that their operator has not reported on yet. Their pods are not created yet, so no
/// quota counts them.
fn accepted<'r>(namespace: &str, room: &'r Room) -> Vec<Asked<'r>> {
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

/// Subtracts, down to zero.
fn difference(from: Quantity, less: Quantity) -> Quantity {
    from.less(less).max(Quantity::ZERO)
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

fn quota_faults(
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

fn limit_faults(roles: &[Role<'_>], limits: &[LimitRange]) -> Vec<Finding> {
    let mut found = Vec::new();
    for range in limits {
        let name = range.metadata.name.as_deref().unwrap_or("");
        for item in range.spec.iter().flat_map(|spec| &spec.limits) {
            let whole = item.type_ == "Pod";
            if !whole && item.type_ != "Container" {
                continue;
            }
            for role in roles {
                let single = role.pod.is_some_and(|pod| pod.containers.len() == 1);
                // Sums are per pod; if there are several containers, they say nothing about any one of them.
                if whole || single {
                    found.extend(outside(role, item, name));
                }
            }
        }
    }
    found
}

fn outside(role: &Role<'_>, item: &LimitRangeItem, range: &str) -> Vec<Finding> {
    let finding = |message: String, field: &str, amount: String| Finding {
        weight: Weight::Refused,
        reason: Cause::AdmissionRefused,
        wait: None,
        message,
        advice: format!("set resources.{field} of the {} to {amount}", role.name).into(),
    };
    let mut found = Vec::new();
    for (name, most) in item.max.iter().flatten() {
        if let (Some(limit), Some(most)) = (role.containers.limits.get(name), Quantity::read(&most.0))
            && *limit > most
        {
            let message = format!(
                "the {name} limit of the {}, {limit}, is above the maximum of LimitRange {range}, {most}",
                role.name
            );
            found.push(finding(message, &format!("limits.{name}"), format!("at most {most}")));
        }
    }
    for (name, least) in item.min.iter().flatten() {
        if let (Some(request), Some(least)) = (role.containers.requests.get(name), Quantity::read(&least.0))
            && least > *request
        {
            let message = format!(
                "the {name} request of the {}, {request}, is below the minimum of LimitRange {range}, {least}",
                role.name
            );
            found.push(finding(message, &format!("requests.{name}"), format!("at least {least}")));
        }
    }
    found
}

/// What the job's pods lack on the nodes as they are now: first the Workers, then the Launcher and others in addition to them.
fn shortage(roles: &[Role<'_>], capacity: &Capacity, room: &Room, now: Timestamp) -> Option<Finding> {
    let rooms = capacity.rooms();
    if rooms.is_empty() {
        // A cluster without visible nodes may create them on demand, or hide them: its capacity is unknown.
        return None;
    }
    let short = first_short(roles, capacity, rooms)?;
    let preempts = priority_of(roles, room)
        .filter(|(_, value)| first_short(roles, capacity, capacity.rooms_beside(*value)).is_none());
    match preempts {
        Some((class, _)) => preempting(&short, class),
        None => lacking(&short, room, now),
    }
}

/// A role some of whose pods do not fit.
struct Short<'r> {
    role: &'r Role<'r>,
    /// The nodes that accept its pods, as they were before these were placed.
    nodes: Vec<NodeRoom>,
    /// What one pod takes.
    one: Amounts,
    /// How many pods fit.
    placed: usize,
}

/// Places the pods of all roles, and returns the first role with pods that do not fit.
fn first_short<'r>(
    roles: &'r [Role<'r>],
    capacity: &Capacity,
    mut rooms: Vec<NodeRoom>,
) -> Option<Short<'r>> {
    roles.iter().rev().filter(|role| role.count > 0).find_map(|role| {
        let places = capacity.taking(role.pod);
        let nodes: Vec<NodeRoom> = places.iter().filter_map(|at| rooms.get(*at).cloned()).collect();
        let mut one = role.requests.clone();
        one.insert(PODS.to_owned(), Quantity::ONE);
        let wanted = usize::try_from(role.count).unwrap_or(0);
        let placed = place(&mut rooms, &places, &one, wanted);
        (placed < wanted).then_some(Short { role, nodes, one, placed })
    })
}

/// The lowest priority among the job's pods, with its class; `None` if some of its pods do not preempt others.
fn priority_of<'r>(roles: &'r [Role<'_>], room: &Room) -> Option<(&'r str, i32)> {
    let classes = roles.iter().filter(|role| role.count > 0).map(|role| {
        let class = role.pod?.priority_class_name.as_deref()?;
        Some((class, *room.preempting.get(class)?))
    });
    classes.collect::<Option<Vec<_>>>()?.into_iter().min_by_key(|(_, value)| *value)
}

/// That a job takes what it lacks from pods of lower priority.
fn preempting(short: &Short<'_>, class: &str) -> Option<Finding> {
    let (name, each) = scarce(&short.nodes, short.role, &short.one)?;
    let free = short.nodes.iter().filter_map(|node| node.free.get(&name));
    let free = free.fold(Quantity::ZERO, |sum, more| more.plus(sum));
    Some(Finding {
        weight: Weight::Waits,
        reason: Cause::Unschedulable,
        wait: None,
        message: format!(
            "Requested {} {} but only {free} available: pods of lower priority than {class} will be preempted",
            each.times(short.role.count),
            noun(&name)
        ),
        advice: "the job starts when they have ended; those who run them lose their progress since the last checkpoint"
            .into(),
    })
}

/// Why only some pods of a role fit on the nodes that accept them.
fn lacking(short: &Short<'_>, room: &Room, now: Timestamp) -> Option<Finding> {
    let Short { role, nodes, one, placed } = short;
    let placed = *placed;
    let able: Vec<NodeRoom> = nodes.iter().filter(|node| fits(&node.whole, one)).cloned().collect();
    if able.is_empty() {
        return Some(too_large(nodes, role));
    }
    // Free resources on a node that could not hold one of these pods even when empty do not help.
    let (name, each) = scarce(&able, role, one)?;
    let (noun, wanted, roles) = (noun(&name), role.count, role.plural());
    let sum = |of: fn(&NodeRoom) -> &Amounts| {
        able.iter().filter_map(|node| of(node).get(&name)).fold(Quantity::ZERO, |sum, more| more.plus(sum))
    };
    let (asked, free, whole) = (each.times(wanted), sum(|node| &node.free), sum(|node| &node.whole));
    let mut empty: Vec<NodeRoom> =
        able.iter().map(|node| NodeRoom { free: node.whole.clone(), whole: Amounts::new() }).collect();
    let everywhere: Vec<usize> = (0..empty.len()).collect();
    let all = place(&mut empty, &everywhere, one, usize::try_from(wanted).unwrap_or(0));
    if i64::try_from(all).is_ok_and(|all| all < wanted) {
        return Some(Finding {
            weight: Weight::Waits,
            reason: Cause::Unschedulable,
            wait: None,
            message: format!(
                "Insufficient {noun}: requested {asked}, available {whole} even with nothing else running ({all} of {wanted} {roles} fit)"
            ),
            advice: format!("request at most {}, or less per {}", role.counted(all.max(1)), role.name).into(),
        });
    }
    let is_short = asked > free;
    let message = if role.name == LAUNCHER {
        format!("The Launcher requests {each} {noun}, which no node has free besides the Workers.")
    } else if is_short {
        format!("Requested {asked} {noun} but only {free} available.")
    } else {
        let why = if count_in_pieces(&able, &name, each) < wanted {
            format!("the free {noun} ({free}) are spread over several nodes")
        } else {
            format!("too few nodes have everything that a {} requests free at once", role.name)
        };
        format!("{}: {why}.", misfit(role, placed, &format!("{each} {noun}")))
    };
    let missing = if is_short { difference(asked, free) } else { each };
    let wait = wait(&name, missing, |_| true, 0, room, now);
    Some(Finding {
        weight: Weight::Waits,
        reason: Cause::Unschedulable,
        message: format!("{message} Estimated wait time: {wait}"),
        wait: Some(wait),
        advice: match placed {
            0 => format!("the job waits; to start sooner, request less per {}", role.name),
            _ => format!("the job waits; {} of this size could start now", role.counted(placed)),
        }
        .into(),
    })
}

/// Says how many pods of a role were requested, with how much each, and how many of them fit.
fn misfit(role: &Role<'_>, placed: usize, each: &str) -> String {
    if role.count == 1 {
        return format!("Requested a {} with {each}, but it does not fit", role.name);
    }
    let fit = match placed {
        0 => "none fits".to_owned(),
        1 => "only 1 fits".to_owned(),
        _ => format!("only {placed} fit"),
    };
    format!("Requested {} {} with {each} each, but {fit}", role.count, role.plural())
}

/// Reports a role whose pod would not fit on any node, even an empty one.
fn too_large(nodes: &[NodeRoom], role: &Role<'_>) -> Finding {
    let largest = |name: &String| {
        let most = nodes.iter().filter_map(|node| node.whole.get(name)).copied();
        most.fold(Quantity::ZERO, |most, one| if one > most { one } else { most })
    };
    let too_much = role
        .requests
        .iter()
        .map(|(name, each)| (name, each, largest(name)))
        .filter(|(_, each, most)| **each > *most)
        .max_by_key(|(name, ..)| is_gpu(name));
    let one = format!("a {}", role.name);
    let message = match too_much {
        _ if nodes.is_empty() => {
            no_node_can_take(&one, "none is ready and matches its node selector, affinity and tolerations")
        }
        Some((name, each, most)) if name == "memory" => format!(
            "Insufficient memory: a {} requests {}, but the largest node has {}",
            role.name,
            each.in_bytes(),
            most.in_bytes()
        ),
        Some((name, each, most)) => format!(
            "Insufficient {}: a {} requests {each}, but the largest node has {most}",
            noun(name),
            role.name
        ),
        None => no_node_can_take(&one, "none has all that it requests, even with nothing else running"),
    };
    Finding {
        weight: Weight::Waits,
        reason: Cause::Unschedulable,
        wait: None,
        message,
        advice: format!("request less per {}, or ask an administrator for larger nodes", role.name).into(),
    }
}

/// The plural noun for a resource in a sentence: `GPUs`, `bytes of memory`.
#[must_use]
pub fn noun(name: &str) -> &str {
    match name {
        "cpu" => "CPUs",
        "memory" => "bytes of memory",
        "pods" => "pod slots",
        gpu if is_gpu(gpu) => "GPUs",
        other => other,
    }
}

/// The scarcest resource, relative to the requests; GPUs come first if several are short.
fn scarce(nodes: &[NodeRoom], role: &Role<'_>, one: &Amounts) -> Option<(String, Quantity)> {
    let short = |(name, each): &(&String, &Quantity)| {
        let room = count_in_pieces(nodes, name, **each);
        (room < role.count, is_gpu(name), std::cmp::Reverse(room))
    };
    let found = one.iter().filter(|(name, each)| !each.is_zero() && *name != PODS).max_by_key(short);
    // Pods without requests can lack only pod slots.
    let found = found.or_else(|| one.get_key_value(PODS));
    found.map(|(name, each)| (name.clone(), *each))
}

/// The number of pods that fit on the nodes by this resource alone, each pod on one node.
fn count_in_pieces(nodes: &[NodeRoom], name: &str, each: Quantity) -> i64 {
    nodes.iter().filter_map(|node| node.free.get(name)?.count_of(each)).sum()
}

fn fits(free: &Amounts, one: &Amounts) -> bool {
    one.iter().all(|(name, amount)| {
        amount.is_zero()
            || free.get(name).is_some_and(|left| amount <= left)
            || (name == "pods" && !free.contains_key(name))
    })
}

/// Places up to `wanted` identical pods, each on the first of these nodes with room, and returns how many fit.
fn place(rooms: &mut [NodeRoom], places: &[usize], one: &Amounts, wanted: usize) -> usize {
    let mut placed = 0;
    for at in places {
        let Some(room) = rooms.get_mut(*at) else { continue };
        while placed < wanted && fits(&room.free, one) {
            subtract(&mut room.free, one);
            placed += 1;
        }
    }
    placed
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-01-01T12:00:00Z";

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn job(workers: i32, gpus: &str, status: Value) -> MPIJob {
        read(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": {"name": "a", "namespace": "team-cv"},
            "spec": {"mpiReplicaSpecs": {
                "Launcher": {"template": {"spec": {"containers": [{"name": "l", "image": "i"}]}}},
                "Worker": {"replicas": workers, "template": {"spec": {"containers": [{"name": "w", "image": "i",
                    "resources": {"limits": {"nvidia.com/gpu": gpus, "memory": "8Gi"}}}]}}}}},
            "status": status}))
    }

    fn node(name: &str, gpus: &str) -> Node {
        read(json!({"metadata": {"name": name}, "status": {
            "allocatable": {"nvidia.com/gpu": gpus, "memory": "64Gi", "cpu": "16", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}]}}))
    }

    fn holder(node: &str, gpus: &str) -> Pod {
        read(json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": [
            {"name": "c", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]}}))
    }

    /// Two nodes of eight GPUs each, with these pods on them.
    fn capacity(pods: &[Pod]) -> Option<Capacity> {
        let mut capacity = Capacity::default();
        capacity.add_nodes(vec![node("a", "8"), node("b", "8")]);
        capacity.add_pods(pods);
        Some(capacity)
    }

    fn told(job: &MPIJob, room: &Room) -> Vec<String> {
        let found = precheck(&Asked::of(job), "team-cv", room, NOW.parse().unwrap());
        found.into_iter().map(|finding| finding.message).collect()
    }

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
    fn a_limit_range_does_not_count_the_overhead_of_a_runtime_class() {
        let with_overhead = |memory: &str| {
            let mut job = job(2, "1", json!({}));
            let worker = job.spec.mpi_replica_specs.get_mut(api::WORKER).unwrap();
            worker.template.spec.as_mut().unwrap().overhead = Some(read(json!({"memory": memory})));
            job
        };
        let range = |type_: &str, memory: &str| Room {
            limits: vec![read(json!({"metadata": {"name": "r"}, "spec": {"limits": [
                {"type": type_, "min": {"memory": memory}, "max": {"memory": memory}}]}}))],
            ..Room::default()
        };
        let too_high = |most: &str| {
            format!("the memory limit of the Worker, 8Gi, is above the maximum of LimitRange r, {most}")
        };
        let too_low = |least: &str| {
            format!("the memory request of the Worker, 8Gi, is below the minimum of LimitRange r, {least}")
        };
        for type_ in ["Pod", "Container"] {
            let told = |memory: &str| told(&with_overhead("1Gi"), &range(type_, memory));
            assert_eq!(told("8Gi"), [""; 0], "{type_}");
            assert_eq!(told("7Gi"), [too_high("7Gi")], "{type_}");
            assert_eq!(told("9Gi"), [too_low("9Gi")], "{type_}");
        }
        let quota = read(json!({"metadata": {"name": "q"}, "spec": {"hard": {"requests.memory": "17Gi"}}}));
        let room = Room { quotas: vec![quota], ..Room::default() };
        assert!(told(&with_overhead("1Gi"), &room)[0].starts_with("Quota exceeded: 18Gi of requests.memory"));
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

    #[test]
    fn free_resources_are_counted_per_node_and_the_wait_is_estimated() {
        let room = |jobs: Vec<MPIJob>| Room {
            jobs,
            capacity: capacity(&[holder("a", "8"), holder("b", "4")]),
            ..Room::default()
        };
        let eight = job(2, "4", json!({}));
        assert_eq!(
            told(&eight, &room(Vec::new())),
            [
                "Requested 8 GPUs but only 4 available. Estimated wait time: unknown (too few jobs have ended for an estimate, and the running jobs have no deadline)"
            ]
        );
        let ended = |minutes: i64| {
            let end = format!("2026-01-01T{:02}:{:02}:00Z", minutes / 60, minutes % 60);
            job(
                1,
                "1",
                json!({"phase": "Succeeded", "startTime": "2026-01-01T00:00:00Z", "completionTime": end}),
            )
        };
        let running = job(2, "4", json!({"phase": "Running", "startTime": "2026-01-01T11:55:00Z"}));
        assert_eq!(
            told(&eight, &room(vec![ended(30), ended(30), ended(30), running.clone()])),
            [
                "Requested 8 GPUs but only 4 available. Estimated wait time: 25 minutes (from 3 jobs that have ended)"
            ]
        );
        assert_eq!(
            told(&eight, &room(vec![ended(10), ended(20), ended(40), running])),
            [
                "Requested 8 GPUs but only 4 available. Estimated wait time: 5 to 35 minutes (from 3 jobs that have ended)"
            ]
        );
    }

    #[test]
    fn a_job_that_preempts_others_does_not_wait_for_their_end() {
        let held = |priority: i32| {
            let mut pod = holder("a", "6");
            pod.spec.as_mut().unwrap().priority = Some(priority);
            let mut all = Capacity::default();
            all.add_nodes(vec![node("a", "8")]);
            all.add_pods(&[pod]);
            Room {
                capacity: Some(all),
                preempting: BTreeMap::from([("urgent".to_owned(), 1000)]),
                ..Room::default()
            }
        };
        let urgent = |class: &str| {
            let mut job = job(2, "4", json!({}));
            for replica in job.spec.mpi_replica_specs.values_mut() {
                replica.template.spec.as_mut().unwrap().priority_class_name = Some(class.to_owned());
            }
            job
        };
        let preempted =
            "Requested 8 GPUs but only 2 available: pods of lower priority than urgent will be preempted";
        assert_eq!(told(&urgent("urgent"), &held(0)), [preempted]);
        let waits = "Requested 8 GPUs but only 2 available. Estimated wait time:";
        for (class, priority) in [("urgent", 1000), ("polite", 0)] {
            let found = told(&urgent(class), &held(priority));
            assert!(found.len() == 1 && found[0].starts_with(waits), "{class}, {priority}: {found:?}");
        }
    }

    #[test]
    fn a_pod_too_large_for_every_node_is_reported() {
        let room = Room { capacity: capacity(&[]), ..Room::default() };
        assert_eq!(
            told(&job(1, "16", json!({})), &room),
            ["Insufficient GPUs: a Worker requests 16, but the largest node has 8"]
        );
        assert_eq!(
            told(&job(4, "8", json!({})), &room),
            [
                "Insufficient GPUs: requested 32, available 16 even with nothing else running (2 of 4 Workers fit)"
            ]
        );
        let pieces = Room { capacity: capacity(&[holder("a", "4"), holder("b", "4")]), ..Room::default() };
        assert!(told(&job(1, "8", json!({})), &pieces)[0].starts_with(
            "Requested a Worker with 8 GPUs, but it does not fit: the free GPUs (8) are spread over several nodes."
        ));
        assert_eq!(told(&job(2, "8", json!({})), &room), [""; 0]);
    }

    #[test]
    fn nodes_that_can_never_take_a_pod_are_not_reported_as_full() {
        let of = |nodes: Vec<Node>| {
            let mut capacity = Capacity::default();
            capacity.add_nodes(nodes);
            Room { capacity: Some(capacity), ..Room::default() }
        };
        let mut cordoned = node("a", "8");
        cordoned.spec = Some(read(json!({"unschedulable": true})));
        assert_eq!(
            told(&job(1, "1", json!({})), &of(vec![cordoned])),
            [
                "No node can take a Worker: none is ready and matches its node selector, affinity and tolerations"
            ]
        );
        let mut small = node("b", "8");
        let allocatable = small.status.as_mut().unwrap().allocatable.as_mut().unwrap();
        allocatable.insert("memory".to_owned(), read(json!("4Gi")));
        assert_eq!(
            told(&job(1, "8", json!({})), &of(vec![node("a", "4"), small])),
            ["No node can take a Worker: none has all that it requests, even with nothing else running"]
        );
    }

    #[test]
    fn a_cluster_without_visible_nodes_has_unknown_capacity() {
        let room = Room { capacity: Some(Capacity::default()), ..Room::default() };
        assert_eq!(told(&job(1, "16", json!({})), &room), [""; 0]);
    }

    #[test]
    fn the_resource_that_fitting_nodes_are_short_of_is_named() {
        let mut capacity = Capacity::default();
        let mut plain = node("c", "0");
        plain.status.as_mut().unwrap().allocatable.as_mut().unwrap().remove("nvidia.com/gpu");
        capacity.add_nodes(vec![node("a", "8"), node("b", "8"), plain]);
        let hog = |node: &str| -> Pod {
            read(json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": [],
                "initContainers": [{"name": "i", "resources": {"requests": {"memory": "60Gi"}}}]}}))
        };
        capacity.add_pods(&[hog("a"), hog("b")]);
        let room = Room { capacity: Some(capacity), ..Room::default() };
        // The node without GPUs has memory, but these Workers cannot use it.
        let said = told(&job(2, "4", json!({})), &room);
        assert!(said[0].starts_with("Requested 16Gi bytes of memory but only 8Gi available."), "{said:?}");
    }

    #[test]
    fn the_launcher_needs_room_beside_the_workers() {
        let room = Room { capacity: capacity(&[]), ..Room::default() };
        let mut large = job(2, "8", json!({}));
        let launcher = large.spec.mpi_replica_specs.get_mut(LAUNCHER).unwrap();
        let launcher = launcher.template.spec.as_mut().unwrap();
        launcher.containers[0].resources = Some(read(json!({"requests": {"memory": "57Gi"}})));
        let said = told(&large, &room);
        let says = "The Launcher requests 57Gi bytes of memory, which no node has free besides the Workers.";
        assert!(said[0].starts_with(says), "{said:?}");
        large.spec.mpi_replica_specs.get_mut(api::WORKER).unwrap().replicas = Some(1);
        assert_eq!(told(&large, &room), [""; 0]);
    }
}
