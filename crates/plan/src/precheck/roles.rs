//! What the pods of each of a job's roles request, with the defaults of the namespace's limit ranges.

use k8s_openapi::api::core::v1::{Container, LimitRange, LimitRangeItem, PodSpec, ResourceRequirements};
use semantics::{
    Amounts, amounts, limits_without_overhead, pod_limits, pod_requests, requests, requests_without_overhead,
};

use crate::asked::{Asked, AskedPods};

/// The identical pods of one role.
pub(super) struct Role<'a> {
    pub(super) name: &'a str,
    pub(super) count: i64,
    pub(super) ends_first: bool,
    pub(super) pod: Option<&'a PodSpec>,
    /// What a pod requests of a node and of quotas, with the overhead of its runtime class.
    pub(super) requests: Amounts,
    /// What limits a pod, with that overhead.
    pub(super) limits: Amounts,
    /// What the containers of a pod request and what limits them, without that overhead.
    pub(super) containers: Bounded,
    /// For CPU and memory of each container: the resource's name, and whether the container has a limit and a request.
    pub(super) unlimited: Vec<(&'static str, bool, bool)>,
}

/// The amounts that a `LimitRange` bounds.
#[derive(Default)]
pub(super) struct Bounded {
    pub(super) requests: Amounts,
    pub(super) limits: Amounts,
}

impl Role<'_> {
    pub(super) fn plural(&self) -> String {
        format!("{}s", self.name)
    }

    /// The count with the role's name: `1 Worker`, `2 Workers`.
    pub(super) fn counted(&self, count: usize) -> String {
        if count == 1 { format!("1 {}", self.name) } else { format!("{count} {}", self.plural()) }
    }
}

/// Returns the roles of a job, in the order of its groups.
pub(super) fn roles<'a>(job: &'a Asked<'_>, limits: &[LimitRange]) -> Vec<Role<'a>> {
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
