//! Gangs: pods that are placed together or not at all. Pure.
//!
//! A gang is defined by a PodGroup of Volcano or scheduler-plugins. A trial places every waiting member on a copy of
//! the nodes, and counts only if enough of them fit. So a gang never holds part of its room, and two gangs cannot wait
//! for each other. Reasons are worded as by the engine: Volcano's gang plug-in, scheduler-plugins' coscheduling.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::membership::{Engine, Membership};
use super::place::{Help, Placement, Surroundings, fit_error, place};
use super::preempt::{Candidate, TERMINATING, preempt};
use super::snapshot::NodeView;
use super::unschedulable::Unschedulable;

/// The state of a gang before a trial.
#[derive(Clone, Debug)]
pub struct Gang<'a> {
    /// The PodGroup.
    pub of: &'a Membership,
    /// `spec.minMember`.
    pub min_member: usize,
    /// The number of members that have a node or have succeeded.
    pub settled: usize,
    /// The waiting members, in order.
    pub waiting: &'a [Arc<Pod>],
}

/// A pod and the position of its node in the snapshot.
pub type Placed = (Arc<Pod>, usize);

/// The decision for a gang in this cycle.
#[derive(Debug)]
pub enum GangDecision {
    /// Enough members fit: bind these, and treat the rest like any other pods.
    Bind {
        /// Members with their nodes.
        placed: Vec<Placed>,
        /// Members that do not fit.
        rest: Vec<Arc<Pod>>,
    },
    /// Enough members will fit once the victims are gone: hold room for these members.
    Clear {
        /// Members with their future nodes.
        nominated: Vec<Placed>,
        /// The pods to preempt.
        victims: Vec<Candidate>,
        /// The message for each member.
        told: Vec<(Arc<Pod>, String)>,
    },
    /// Bind no member.
    Wait {
        /// The message for each member.
        told: Vec<(Arc<Pod>, String)>,
        /// The message for the gang as a whole.
        why: String,
        /// Whether victims are still terminating, so that members keep the room held for them.
        hopeful: bool,
    },
}

/// Tries to place the gang. `nodes` is a snapshot that includes everything placed so far.
pub fn judge(
    gang: &Gang,
    nodes: &[NodeView],
    budgets: &[Arc<PodDisruptionBudget>],
    around: Surroundings,
) -> GangDecision {
    let there = gang.settled + gang.waiting.len();
    if there < gang.min_member {
        return too_few(gang, there, nodes.len());
    }
    let mut trial = nodes.to_vec();
    let mut placed: Vec<Placed> = Vec::new();
    let mut refused: Vec<(Arc<Pod>, Vec<Unschedulable>)> = Vec::new();
    for pod in gang.waiting {
        match place(pod, &trial, around) {
            Placement::On(position) => {
                trial[position].place(pod.clone());
                placed.push((pod.clone(), position));
            }
            Placement::Nowhere(why) => refused.push((pod.clone(), why)),
        }
    }
    if gang.settled + placed.len() >= gang.min_member {
        return GangDecision::Bind { placed, rest: refused.into_iter().map(|(pod, _)| pod).collect() };
    }
    make_room(gang, trial, placed, refused, budgets, around)
}

/// Tries preemption for all members that did not fit.
fn make_room(
    gang: &Gang,
    mut trial: Vec<NodeView>,
    mut placed: Vec<Placed>,
    refused: Vec<(Arc<Pod>, Vec<Unschedulable>)>,
    budgets: &[Arc<PodDisruptionBudget>],
    around: Surroundings,
) -> GangDecision {
    let fitting: Vec<Arc<Pod>> = placed.iter().map(|(pod, _)| pod.clone()).collect();
    let (mut victims, mut told, mut hopeful) = (Vec::new(), Vec::new(), false);
    for (pod, _) in &refused {
        // Room made for an earlier member may be enough for this one, too.
        let rejections = match place(pod, &trial, around) {
            Placement::On(position) => {
                trial[position].place(pod.clone());
                placed.push((pod.clone(), position));
                told.push((pod.clone(), pending(gang, fitting.len())));
                continue;
            }
            Placement::Nowhere(rejections) => rejections,
        };
        match preempt(pod, &trial, &rejections, budgets, around) {
            Ok(candidate) => {
                let leave = |other: &Arc<Pod>| candidate.victims.iter().any(|v| Arc::ptr_eq(v, other));
                let stay = trial[candidate.position].pods.iter().filter(|p| !leave(p)).cloned().collect();
                trial[candidate.position] = trial[candidate.position].with_pods(stay);
                trial[candidate.position].place(pod.clone());
                placed.push((pod.clone(), candidate.position));
                told.push((pod.clone(), fit_error(&rejections, &Help::Yes)));
                victims.push(candidate);
            }
            Err(help) => {
                hopeful |= help == Help::NotEligible(TERMINATING);
                told.push((pod.clone(), fit_error(&rejections, &help)));
            }
        }
    }
    let rejected = refused.first().map(|(pod, _)| pod.clone());
    for pod in &fitting {
        told.push((pod.clone(), held_back(gang, rejected.as_deref(), fitting.len())));
    }
    if gang.settled + placed.len() >= gang.min_member {
        return GangDecision::Clear { nominated: placed, victims, told };
    }
    let why = whole(gang, fitting.len());
    GangDecision::Wait { told, why, hopeful }
}

fn too_few(gang: &Gang, there: usize, nodes: usize) -> GangDecision {
    let told = gang
        .waiting
        .iter()
        .map(|pod| {
            let why = match gang.of.engine {
                Engine::Volcano => pending(gang, 0),
                Engine::Plugins => format!(
                    "0/{nodes} nodes are available: pre-filter pod {} cannot find enough sibling pods, current pods \
                     number: {there}, minMember of group: {}.",
                    pod.metadata.name.as_deref().unwrap_or_default(),
                    gang.min_member
                ),
            };
            (pod.clone(), why)
        })
        .collect();
    GangDecision::Wait { told, why: whole(gang, 0), hopeful: false }
}

/// Returns the message for a member that fits although others do not.
fn held_back(gang: &Gang, rejected: Option<&Pod>, fitting: usize) -> String {
    match gang.of.engine {
        Engine::Volcano => pending(gang, fitting),
        Engine::Plugins => format!(
            "PodGroup {} gets rejected due to Pod {} is unschedulable even after PostFilter",
            gang.of.key,
            rejected.and_then(|pod| pod.metadata.name.as_deref()).unwrap_or_default()
        ),
    }
}

/// Returns Volcano's counts for a gang that is not ready.
fn pending(gang: &Gang, fitting: usize) -> String {
    let waiting = gang.waiting.len();
    let mut counts = format!("{waiting} Pending");
    if gang.settled > 0 {
        counts = format!("{} Bound, {counts}", gang.settled);
    }
    let mut detail = Vec::new();
    if fitting > 0 {
        detail.push(format!("{fitting} Schedulable"));
    }
    if waiting > fitting && gang.settled + waiting >= gang.min_member {
        detail.push(format!("{} Unschedulable", waiting - fitting));
    }
    let detail = if detail.is_empty() { String::new() } else { format!("; Pending: {}", detail.join(", ")) };
    format!("pod group is not ready, {counts}, {} minAvailable{detail}", gang.min_member)
}

/// Returns the message for the gang as a whole, for its Events and conditions.
fn whole(gang: &Gang, fitting: usize) -> String {
    let waiting = gang.waiting.len();
    let all = gang.settled + waiting;
    format!(
        "{}/{all} tasks in gang unschedulable: {}",
        waiting.saturating_sub(fitting),
        pending(gang, fitting)
    )
}
