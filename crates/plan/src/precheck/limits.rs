//! The namespace's limit ranges: what they allow a pod or a container to request, and to be limited to.

use k8s_openapi::api::core::v1::{LimitRange, LimitRangeItem};
use semantics::Quantity;

use super::roles::Role;
use super::{Finding, Weight};
use diagnosis::Cause;

pub(super) fn limit_faults(roles: &[Role<'_>], limits: &[LimitRange]) -> Vec<Finding> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::precheck::Room;
    use crate::precheck::samples::{job, read, told};

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
}
