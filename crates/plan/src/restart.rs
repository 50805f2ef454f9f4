//! Decides whether another attempt follows a failed one, and clears away the failed one.
//!
//! The attempt's number is in the job's annotation `…/attempt`, and in that of every pod and Launcher made for it (the
//! first attempt has none). An object with another number belongs to an earlier attempt and is deleted; nothing new is
//! created before it is gone. A pass that is interrupted at any point is therefore repeated, never doubled: the
//! decision is recorded before anything else is written, the status is written before the number is incremented, and
//! only the incremented number causes deletions.

use std::time::Duration;

use api::Failure;
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec,
    PreferredSchedulingTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use semantics::is_deleted;

use crate::attempts::attempt_of;
use crate::change::{Change, ChildKind, Target};
use crate::kept::Pod;
use crate::objects::worker_name;
use crate::observed::ObservedState;
use crate::validate::{Avoidance, ValidJob, WorkerFailure};
use diagnosis::{Cause, Moment, Retry};

/// Exit codes of a container that was ended from outside: SIGKILL and SIGTERM.
const KILLED: [i32; 2] = [137, 143];
/// The label with a node's own name, which every node has.
const HOST_LABEL: &str = "kubernetes.io/hostname";
/// How long to wait before looking again at pods that are being deleted; normally a watch reports their removal
/// earlier.
pub(crate) const CLEARING_LOOK: Duration = Duration::from_secs(10);

/// Whether another attempt follows this failure: the infrastructure failed, and the limit is not reached. A Worker
/// whose own program exited with an error is for the user to fix, unless the job asks for a restart then too.
pub(crate) fn is_restarted(job: &ValidJob, failure: &Failure) -> bool {
    if job.attempt > job.max_gang_restarts {
        return false;
    }
    if job.worker_failure == Some(WorkerFailure::Restart) && is_of_started_worker(job, failure) {
        return true;
    }
    let infrastructure = Cause::of_word(&failure.reason).is_some_and(|cause| cause.retry() == Retry::Helps);
    let by_itself = failure.reason == Cause::WorkerLost.word()
        && failure.worker.is_some()
        && failure.exit_code.is_some_and(|code| !KILLED.contains(&code));
    infrastructure && !by_itself
}

/// Whether the failure is that of a Worker's own pod after it had started, not that of a rank that its Launcher
/// reported.
fn is_of_started_worker(job: &ValidJob, failure: &Failure) -> bool {
    let worker = failure.worker.and_then(|index| usize::try_from(index).ok());
    let own_pod = worker.is_some_and(|index| failure.pod.as_ref() == Some(&worker_name(&job.name, index)));
    own_pod && Cause::of_word(&failure.reason).is_some_and(|cause| cause.worker_fails() == Moment::AfterStart)
}

/// The deletions that clear away earlier attempts before anything new is created; `None` once nothing is left of them.
/// A pod on a lost node will never report its end, so it is not waited for.
pub(crate) fn clear(job: &ValidJob, seen: &ObservedState) -> Option<Vec<Change>> {
    let former = |metadata: &ObjectMeta| attempt_of(metadata) != job.attempt;
    let pods: Vec<&Pod> = seen.workers.iter().map(|pod| &**pod).filter(|pod| former(&pod.metadata)).collect();
    let launcher = seen.launcher.as_ref().filter(|launcher| former(&launcher.metadata));
    if pods.is_empty() && launcher.is_none() && seen.former_launcher_pods.is_empty() {
        return None;
    }
    let delete = |kind: ChildKind, metadata: &ObjectMeta, at_once: bool| {
        Change::Delete(Target {
            kind,
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone(),
            at_once,
        })
    };
    let lost = |pod: &Pod| seen.lost_node(pod).is_some();
    let mut changes: Vec<Change> = pods
        .into_iter()
        .filter(|pod| !is_deleted(pod) || lost(pod))
        .map(|pod| delete(ChildKind::Pod, &pod.metadata, lost(pod)))
        .collect();
    changes.extend(
        launcher
            .filter(|launcher| launcher.metadata.deletion_timestamp.is_none())
            .map(|launcher| delete(ChildKind::Job, &launcher.metadata, false)),
    );
    let stuck = seen.former_launcher_pods.iter().filter(|pod| lost(pod));
    changes.extend(stuck.map(|pod| delete(ChildKind::Pod, &pod.metadata, true)));
    Some(changes)
}

/// Keeps a pod away from nodes on which earlier attempts failed, as far as the job asks for it.
pub(crate) fn avoid(job: &ValidJob, failed_nodes: &[String], pod: &mut PodSpec) {
    let Some(avoidance) = job.avoid_nodes.filter(|_| !failed_nodes.is_empty()) else { return };
    let elsewhere = NodeSelectorRequirement {
        key: HOST_LABEL.to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(failed_nodes.to_vec()),
    };
    let affinity: &mut Affinity = pod.affinity.get_or_insert_default();
    let nodes: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
    match avoidance {
        Avoidance::Prefer => {
            let preference =
                NodeSelectorTerm { match_expressions: Some(vec![elsewhere]), ..NodeSelectorTerm::default() };
            let terms = nodes.preferred_during_scheduling_ignored_during_execution.get_or_insert_default();
            terms.push(PreferredSchedulingTerm { preference, weight: 100 });
        }
        Avoidance::Require => {
            let required: &mut NodeSelector =
                nodes.required_during_scheduling_ignored_during_execution.get_or_insert_default();
            if required.node_selector_terms.is_empty() {
                required.node_selector_terms.push(NodeSelectorTerm::default());
            }
            // Terms are alternatives, so each of them needs the requirement.
            for term in &mut required.node_selector_terms {
                term.match_expressions.get_or_insert_default().push(elsewhere.clone());
            }
        }
    }
}
