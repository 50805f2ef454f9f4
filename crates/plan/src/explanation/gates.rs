//! Pods that scheduling gates hold back.

use std::collections::BTreeSet;

use api::MPIJob;
use semantics::Starting as _;

use super::Explanation;
use crate::kept::Pod;
use diagnosis::Actor;

/// The prefix of Kueue's scheduling gates, for topologies (`kueue.x-k8s.io/topology`) and pod groups.
const KUEUE_GATE_PREFIX: &str = "kueue.x-k8s.io/";

/// Whether scheduling gates keep the scheduler from considering the pod.
pub(super) fn is_gated(pod: &Pod) -> bool {
    !pod.gates().is_empty()
}

/// Pods that the scheduler ignores because of their scheduling gates: which gates, and who removes them.
pub(super) fn gated(told: Explanation, job: &MPIJob, waiting: &[&Pod], of: usize) -> Explanation {
    let held = waiting.iter().filter(|pod| is_gated(pod)).count();
    let gates: BTreeSet<&str> = waiting.iter().flat_map(|pod| pod.gates()).collect();
    let own: BTreeSet<&str> = job
        .spec
        .mpi_replica_specs
        .values()
        .filter_map(|replica| replica.template.spec.as_ref()?.scheduling_gates.as_ref())
        .flatten()
        .map(|gate| gate.name.as_str())
        .collect();
    let by_kueue = |gate: &&str| gate.starts_with(KUEUE_GATE_PREFIX);
    let (actor, advice) = if gates.iter().all(by_kueue) {
        (
            Actor::Administrator,
            "Kueue removes its gates once it has assigned nodes to all pods of the job; its Workload says what it waits for. If \
             they stay for more than a few seconds, ask the queue's administrator.",
        )
    } else if gates.iter().any(|gate| own.contains(gate) && !by_kueue(gate)) {
        (
            Actor::User,
            "The job's pod templates set these gates (schedulingGates), and the controller that they are for must remove \
             them from the pods. If there is none, remove them from the templates.",
        )
    } else {
        (
            Actor::Administrator,
            "A controller of the cluster added these gates to the pods and removes them. If they stay, ask an administrator.",
        )
    };
    let list: Vec<String> = gates.iter().map(|gate| format!("{gate:?}")).collect();
    Explanation {
        message: format!("{held} of {of} pods are held back by scheduling gates: {}", list.join(", ")),
        actor,
        advice: Some(advice.into()),
        ..told
    }
}

#[cfg(test)]
mod tests {
    use api::WORKER;
    use serde_json::json;

    use super::*;
    use crate::explanation::samples::{alone, job, pod, up};
    use crate::explanation::{Situation, Stage, explain, hindrance};

    #[test]
    fn pods_with_scheduling_gates_say_who_removes_them() {
        let held_by = |gate: &str| -> Pod {
            let message = "Scheduling is blocked due to non-empty scheduling gates";
            let pod = json!({ "metadata": { "name": "pi-worker-0" },
                "spec": { "containers": [{ "name": "main" }], "schedulingGates": [{ "name": gate }] },
                "status": { "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False",
                    "reason": "SchedulingGated", "message": message }] } });
            serde_json::from_value(pod).unwrap()
        };
        let mut own = job(json!({ "phase": "Pending", "phaseReason": "Initializing" }), json!({}));
        let worker = own.spec.mpi_replica_specs.get_mut(WORKER).unwrap().template.spec.as_mut().unwrap();
        worker.scheduling_gates = serde_json::from_value(json!([{ "name": "example.com/data" }])).unwrap();
        let cases = [
            ("kueue.x-k8s.io/topology", Actor::Administrator, "Kueue removes its gates"),
            ("example.com/data", Actor::User, "pod templates set these gates"),
            ("example.com/gang", Actor::Administrator, "A controller of the cluster"),
        ];
        for (gate, actor, advice) in cases {
            let pods = [pod("pi-worker-1", up("True")), held_by(gate)];
            let found = explain(&Situation { pods: &pods, ..alone(&own) });
            assert_eq!((found.state, found.actor), (Stage::Scheduling, actor), "{found:?}");
            assert_eq!(found.message, format!("1 of 2 pods are held back by scheduling gates: {gate:?}"));
            assert!(found.advice.as_ref().unwrap().text.contains(advice), "{found:?}");
            assert_eq!(found.evidence, ["pod pi-worker-0"]);
            assert_eq!(
                hindrance("pi", pods.iter(), Vec::new(), None),
                None,
                "no warning while a queue assigns nodes"
            );
        }
    }
}
