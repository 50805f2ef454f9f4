//! Carries out decisions: bindings, status reports and evictions, each in its own task.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use tokio::task::JoinSet;

use super::bind::Nomination;
use super::gang::Placed;
use super::membership::Membership;
use super::preempt::Candidate;
use super::snapshot::NodeView;
use super::{Scheduler, bind, uid};
use crate::volumes::decide::SELECTED_NODE;
use controller_runtime::Error;
use controller_runtime::queue::doubled;
use controller_runtime::record::Note;

/// First wait after a refused binding; doubles up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(50);
/// Longest wait after a refused binding.
const RETRY_MAX: Duration = Duration::from_secs(10);
/// Longest time that room is held for an incomplete gang (`scheduleTimeoutSeconds` may request less); the bound of
/// scheduler-plugins' `permitWaitingTimeSeconds`.
const HOLD_MAX: Duration = Duration::from_mins(10);

/// Assumes that the pod is on the node, and binds it there.
pub fn assume_and_bind(scheduler: &Arc<Scheduler>, pod: Arc<Pod>, node: String, tasks: &mut JoinSet<()>) {
    scheduler.memory().assumed.insert(uid(&pod).to_owned(), node.clone());
    let scheduler = scheduler.clone();
    tasks.spawn(async move {
        let Ok(slot) = scheduler.slots.acquire().await else { return };
        let result = bind::bind(&scheduler.context.client, &pod, &node).await;
        // Free the slot first: a refused pod waits before it is retried, and must not block other requests.
        drop(slot);
        match result {
            Ok(()) => {
                let place = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
                let message = format!("Successfully assigned {place} to {node}");
                scheduler.context.recorder.note(pod.as_ref(), Note::normal("Scheduled", message));
            }
            Err(error) => not_bound(&scheduler, &pod, &error).await,
        }
    });
}

/// Undoes the assumption and retries after a wait.
async fn not_bound(scheduler: &Scheduler, pod: &Pod, error: &Error) {
    let gone = matches!(error.code(), Some(404));
    let wait = {
        let mut memory = scheduler.memory();
        let count = memory.refused.entry(uid(pod).to_owned()).or_insert(0);
        *count += 1;
        doubled(RETRY_FIRST, *count - 1, RETRY_MAX)
    };
    if !gone {
        let message = format!("binding rejected: {error}");
        scheduler.context.recorder.note(pod, Note::warning("FailedScheduling", message));
        tokio::time::sleep(wait).await;
    }
    scheduler.memory().assumed.remove(uid(pod));
    scheduler.wake.notify_one();
}

/// Annotates claims with the node on which the first pod that uses them will run.
pub fn select_node(
    scheduler: &Arc<Scheduler>,
    claims: Vec<Arc<PersistentVolumeClaim>>,
    node: &str,
    tasks: &mut JoinSet<()>,
) {
    for claim in claims.into_iter().filter(|claim| !claim.annotations().contains_key(SELECTED_NODE)) {
        let (scheduler, node) = (scheduler.clone(), node.to_owned());
        tasks.spawn(async move {
            let Ok(_slot) = scheduler.slots.acquire().await else { return };
            match bind::select_node(&scheduler.context.client, &claim, &node).await {
                Ok(claim) => scheduler.context.claims.learn(claim),
                Err(error) => {
                    let message = format!("running PreBind plugin \"VolumeBinding\": {error}");
                    scheduler
                        .context
                        .recorder
                        .note(claim.as_ref(), Note::warning("FailedScheduling", message));
                }
            }
        });
    }
}

/// Reports on a pod why it has no node. A repeated reason is reported once.
pub fn tell_unschedulable(
    scheduler: &Arc<Scheduler>,
    pod: Arc<Pod>,
    why: String,
    nomination: Nomination,
    tasks: &mut JoinSet<()>,
) {
    let known = scheduler.memory().told.insert(uid(&pod).to_owned(), why.clone());
    let news = known.as_ref() != Some(&why);
    if !news && nomination == Nomination::Keep {
        return;
    }
    let scheduler = scheduler.clone();
    tasks.spawn(async move {
        let Ok(_slot) = scheduler.slots.acquire().await else { return };
        if news {
            scheduler.context.recorder.note(pod.as_ref(), Note::warning("FailedScheduling", why.clone()));
        }
        tell(&scheduler, &pod, "Unschedulable", &why, &nomination).await;
    });
}

/// Reports once on a pod that its scheduling gates block it.
pub fn tell_gated(scheduler: &Arc<Scheduler>, pod: &Arc<Pod>, tasks: &mut JoinSet<()>) {
    let why = "Scheduling is blocked due to non-empty scheduling gates";
    let known = scheduler.memory().told.insert(uid(pod).to_owned(), why.to_owned());
    if known.as_deref() == Some(why) {
        return;
    }
    let (scheduler, pod) = (scheduler.clone(), pod.clone());
    tasks.spawn(async move { tell(&scheduler, &pod, "SchedulingGated", why, &Nomination::Keep).await });
}

async fn tell(scheduler: &Scheduler, pod: &Pod, reason: &str, why: &str, nomination: &Nomination) {
    match bind::write_condition(&scheduler.context.client, pod, reason, why, nomination).await {
        Ok(Some(pod)) => scheduler.context.pods.learn(pod),
        Ok(None) => {}
        Err(error) => {
            tracing::debug!(pod = pod.name_any(), %error, "condition PodScheduled not written");
            // Report it again next time.
            scheduler.memory().told.remove(uid(pod));
        }
    }
}

/// Clears nodes for pods: writes each pod's node to its status, then deletes the victims gracefully. The pods are not
/// scheduled again until both are done.
pub fn clear(
    scheduler: &Arc<Scheduler>,
    nominated: &[Placed],
    candidates: Vec<Candidate>,
    told: Vec<(Arc<Pod>, String)>,
    nodes: &[NodeView],
    tasks: &mut JoinSet<()>,
) {
    let name = |position: usize| nodes[position].name().to_owned();
    let mut holds: Vec<(Arc<Pod>, String)> = Vec::new();
    for (pod, position) in nominated {
        scheduler.memory().clearing.insert(uid(pod).to_owned(), name(*position));
        holds.push((pod.clone(), name(*position)));
    }
    // The pod named in the victims' Events; for a gang, its first nominated member.
    let Some(preemptor) = nominated.first().map(|(pod, _)| uid(pod).to_owned()) else { return };
    let victims: Vec<(Arc<Pod>, String)> = candidates
        .into_iter()
        .flat_map(|c| {
            let node = name(c.position);
            c.victims.into_iter().map(move |victim| (victim, node.clone()))
        })
        .collect();
    let scheduler = scheduler.clone();
    tasks.spawn(async move {
        for (pod, node) in &holds {
            let why = told.iter().find(|(of, _)| uid(of) == uid(pod)).map_or("", |(_, why)| why.as_str());
            let known = scheduler.memory().told.insert(uid(pod).to_owned(), why.to_owned());
            if known.as_deref() != Some(why) {
                scheduler
                    .context
                    .recorder
                    .note(pod.as_ref(), Note::warning("FailedScheduling", why.to_owned()));
            }
            tell(&scheduler, pod, "Unschedulable", why, &Nomination::Node(node.clone())).await;
        }
        for (victim, node) in &victims {
            push_aside(&scheduler, victim, node, &preemptor).await;
        }
        for (pod, _) in &holds {
            scheduler.memory().clearing.remove(uid(pod));
        }
        scheduler.wake.notify_one();
    });
}

async fn push_aside(scheduler: &Scheduler, victim: &Pod, node: &str, preemptor: &str) {
    match bind::push_aside(&scheduler.context.client, victim).await {
        Ok(states) => {
            for state in states {
                scheduler.context.pods.learn(state);
            }
            let message = format!("Preempted by pod {preemptor} on node {node}");
            scheduler.context.recorder.note(victim, Note::normal("Preempted", message));
        }
        Err(error) => {
            tracing::warn!(victim = victim.name_any(), %error, "a victim of preemption could not be deleted");
        }
    }
}

/// Reports once per reason on a gang's PodGroup that the gang waits, and starts the timeout for holding its room.
pub fn tell_gang(
    scheduler: &Arc<Scheduler>,
    of: &Membership,
    why: &str,
    timeout: Option<Duration>,
    tasks: &mut JoinSet<()>,
) {
    if scheduler.context.groups.say(of, Some(why))
        && let Some(group) = scheduler.context.groups.reference(of)
    {
        scheduler.context.recorder.note_ref(group, Note::warning("Unschedulable", why.to_owned()));
    }
    let Some(timeout) = timeout.map(|timeout| timeout.min(HOLD_MAX)) else { return };
    let now = tokio::time::Instant::now();
    let mut memory = scheduler.memory();
    if memory.waiting_since.contains_key(of) {
        return;
    }
    memory.waiting_since.insert(of.clone(), now);
    drop(memory);
    let wake = scheduler.wake.clone();
    tasks.spawn(async move {
        tokio::time::sleep(timeout).await;
        wake.notify_one();
    });
}
