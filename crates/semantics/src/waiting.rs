//! What a pod that has not started waits for: its scheduling gates, a node, or its containers.

use std::fmt;

use k8s_openapi::api::core::v1::{ContainerState, Pod, PodCondition};

use crate::kept;

/// What this is read from, so that the rule holds for complete and reduced pods alike.
pub trait Starting {
    /// Returns the node that the pod is bound to.
    fn node(&self) -> Option<&str>;
    /// Returns the names of the pod's scheduling gates.
    fn gates(&self) -> Vec<&str>;
    /// Returns the pod's conditions.
    fn conditions(&self) -> &[PodCondition];
    /// Returns the name and state of each init container.
    fn init_states(&self) -> Vec<(&str, Option<&ContainerState>)>;
    /// Returns the name and state of each container.
    fn states(&self) -> Vec<(&str, Option<&ContainerState>)>;
}

/// Implements [`Starting`] for complete and reduced pods: they have these fields in common.
macro_rules! starting {
    ($pod:ty) => {
        impl Starting for $pod {
            fn node(&self) -> Option<&str> {
                self.spec.as_ref()?.node_name.as_deref()
            }

            fn gates(&self) -> Vec<&str> {
                let gates = self.spec.iter().flat_map(|spec| spec.scheduling_gates.iter().flatten());
                gates.map(|gate| gate.name.as_str()).collect()
            }

            fn conditions(&self) -> &[PodCondition] {
                self.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
            }

            fn init_states(&self) -> Vec<(&str, Option<&ContainerState>)> {
                let statuses =
                    self.status.iter().flat_map(|status| status.init_container_statuses.iter().flatten());
                statuses.map(|status| (status.name.as_str(), status.state.as_ref())).collect()
            }

            fn states(&self) -> Vec<(&str, Option<&ContainerState>)> {
                let statuses =
                    self.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
                statuses.map(|status| (status.name.as_str(), status.state.as_ref())).collect()
            }
        }
    };
}

starting!(Pod);
starting!(kept::Pod);

/// What a pod waits for. Its text is the second half of a sentence that begins with "It waits for".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait<'a> {
    /// These scheduling gates to be removed; until then, the scheduler ignores the pod.
    Gates(Vec<&'a str>),
    /// A node that can take it: there is none, for the reason that the scheduler gives.
    FittingNode(&'a str),
    /// The scheduler's decision.
    Scheduler,
    /// A container that cannot start yet.
    Container {
        /// Its name.
        name: &'a str,
        /// Why, in one word.
        reason: &'a str,
        /// Why, in a sentence; may be empty.
        message: &'a str,
    },
    /// An init container to end.
    InitContainer(&'a str),
    /// Its containers, which are being started.
    Start,
}

impl Wait<'_> {
    /// Returns whether the pod waits for a node.
    pub fn is_scheduling(&self) -> bool {
        matches!(self, Self::Gates(_) | Self::FittingNode(_) | Self::Scheduler)
    }
}

impl fmt::Display for Wait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gates(gates) => write!(f, "its scheduling gates to be removed: {}", gates.join(", ")),
            Self::FittingNode(why) => write!(f, "a node that can take it: {why}"),
            Self::Scheduler => f.write_str("a node to be chosen"),
            Self::Container { name, reason, message: "" } => write!(f, "container {name}: {reason}"),
            Self::Container { name, reason, message } => write!(f, "container {name}: {reason}: {message}"),
            Self::InitContainer(name) => write!(f, "init container {name}"),
            Self::Start => f.write_str("its container to start"),
        }
    }
}

/// Returns what a pod waits for whose containers have not started.
pub fn waits_for(pod: &impl Starting) -> Wait<'_> {
    let scheduled = pod.conditions().iter().find(|condition| condition.type_ == "PodScheduled");
    let is_scheduled = pod.node().is_some_and(|node| !node.is_empty())
        || scheduled.is_some_and(|condition| condition.status == "True");
    if is_scheduled {
        return container_of(pod);
    }
    let gates = pod.gates();
    match scheduled.filter(|condition| condition.status == "False") {
        _ if !gates.is_empty() => Wait::Gates(gates),
        Some(refused) => Wait::FittingNode(refused.message.as_deref().unwrap_or("no reason given")),
        None => Wait::Scheduler,
    }
}

fn container_of(pod: &impl Starting) -> Wait<'_> {
    let init = pod.init_states();
    let held = init.iter().chain(&pod.states()).find_map(|(name, state)| {
        let waiting = state.and_then(|state| state.waiting.as_ref())?;
        let reason = waiting.reason.as_deref()?;
        let message = waiting.message.as_deref().unwrap_or_default();
        // A container that merely has its turn later, or now, is not held.
        (!matches!(reason, "PodInitializing" | "ContainerCreating")).then_some((*name, reason, message))
    });
    if let Some((name, reason, message)) = held {
        return Wait::Container { name, reason, message };
    }
    let ended = |state: &Option<&ContainerState>| {
        let ended = state.and_then(|state| state.terminated.as_ref());
        ended.is_some_and(|ended| ended.exit_code == 0)
    };
    init.iter().find(|(_, state)| !ended(state)).map_or(Wait::Start, |(name, _)| Wait::InitContainer(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_says_what_it_waits_for() {
        let scheduled = |status: &str, message: &str| json!([{"type": "PodScheduled", "status": status, "message": message}]);
        let waiting = |reason: &str, message: &str| json!([{"name": "w", "state": {"waiting": {"reason": reason, "message": message}}}]);
        let gates = json!({"containers": [], "schedulingGates": [{"name": "a"}, {"name": "b"}]});
        let (plain, bound) = (json!({"containers": []}), json!({"containers": [], "nodeName": "n"}));
        for (spec, status, expected) in [
            (
                &gates,
                json!({"conditions": scheduled("False", "")}),
                "its scheduling gates to be removed: a, b",
            ),
            (
                &plain,
                json!({"conditions": scheduled("False", "0/1 nodes")}),
                "a node that can take it: 0/1 nodes",
            ),
            (&plain, json!({}), "a node to be chosen"),
            (&plain, json!({"conditions": scheduled("True", "")}), "its container to start"),
            (
                &bound,
                json!({"containerStatuses": waiting("ErrImagePull", "none")}),
                "container w: ErrImagePull: none",
            ),
            (
                &bound,
                json!({"containerStatuses": waiting("CrashLoopBackOff", "")}),
                "container w: CrashLoopBackOff",
            ),
            (&bound, json!({"initContainerStatuses": waiting("PodInitializing", "")}), "init container w"),
            (
                &bound,
                json!({"containerStatuses": waiting("ContainerCreating", "")}),
                "its container to start",
            ),
        ] {
            let pod: Pod =
                serde_json::from_value(json!({"metadata": {}, "spec": spec, "status": status})).unwrap();
            let wait = waits_for(&pod);
            assert_eq!(wait.to_string(), expected, "{pod:?}");
            assert_eq!(wait.is_scheduling(), !expected.contains("container"), "{pod:?}");
        }
    }
}
