//! `podFailurePolicy` and `successPolicy`. Pure.
//!
//! Rules: `pkg/controller/job/{pod_failure_policy,success_policy}.go` of Kubernetes 1.36. The action `FailIndex`
//! belongs to `backoffLimitPerIndex`, which is not supported.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::{
    Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule, SuccessPolicy,
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::indexes;

/// The policy's decision about a failed pod.
#[derive(Clone, Debug, PartialEq)]
pub enum FailureDecision {
    /// The failure counts towards `backoffLimit`: no rule matches, or the rule says so.
    Count,
    /// The failure does not count.
    Ignore,
    /// The whole Job fails, with this message.
    FailJob(String),
}

/// Decides about a failed pod by the first matching rule.
pub fn judge(job: &Job, pod: &Pod) -> FailureDecision {
    let rules =
        job.spec.as_ref().and_then(|s| s.pod_failure_policy.as_ref()).map_or(&[][..], |p| p.rules.as_slice());
    for (position, rule) in rules.iter().enumerate() {
        let Some(what) = matching(rule, pod) else { continue };
        return match rule.action.as_str() {
            "Ignore" => FailureDecision::Ignore,
            "FailJob" => {
                FailureDecision::FailJob(format!("{what} matching {} rule at index {position}", rule.action))
            }
            _ => FailureDecision::Count,
        };
    }
    FailureDecision::Count
}

/// Returns how the pod matches the rule, in upstream's words; `None` if it does not.
fn matching(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let status = pod.status.as_ref()?;
    if let Some(codes) = &rule.on_exit_codes {
        let all =
            status.container_statuses.iter().flatten().chain(status.init_container_statuses.iter().flatten());
        let (container, code) = all.filter_map(|s| exit_of(s, codes)).next()?;
        return Some(format!(
            "Container {container} for pod {namespace}/{name} failed with exit code {code}"
        ));
    }
    let condition = rule.on_pod_conditions.iter().flatten().find_map(|pattern| {
        status
            .conditions
            .iter()
            .flatten()
            .find(|c| c.type_ == pattern.type_ && c.status == pattern.status.as_deref().unwrap_or("True"))
    })?;
    Some(format!("Pod {namespace}/{name} has condition {}", condition.type_))
}

fn exit_of<'a>(
    status: &'a ContainerStatus,
    wanted: &PodFailurePolicyOnExitCodesRequirement,
) -> Option<(&'a str, i32)> {
    if wanted.container_name.as_ref().is_some_and(|name| *name != status.name) {
        return None;
    }
    let code = status.state.as_ref()?.terminated.as_ref()?.exit_code;
    let listed = wanted.values.contains(&code);
    // Exit code 0 never matches, not even with `NotIn`.
    let matches = code != 0 && if wanted.operator == "In" { listed } else { !listed };
    matches.then_some((status.name.as_str(), code))
}

/// Returns the first rule of the success policy that the succeeded indexes fulfill.
pub fn fulfilled(policy: &SuccessPolicy, succeeded: &BTreeSet<i32>, completions: i32) -> Option<usize> {
    policy.rules.iter().position(|rule| {
        let (hits, all) = match &rule.succeeded_indexes {
            Some(text) => indexes::named(text, completions, succeeded),
            None => (succeeded.len(), false),
        };
        match rule.succeeded_count {
            Some(count) => i32::try_from(hits).unwrap_or(i32::MAX) >= count,
            None => all,
        }
    })
}
