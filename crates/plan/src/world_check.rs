//! The condition `WorldVerified`: whether the ranks formed one world on the hosts that they were given, by their own
//! output; if they printed nothing about it, by what the Workers' launch agents saw. If each rank was alone, or all
//! ran on one host that cannot hold them, or none ran on the Workers, the job still is Succeeded, as its Launcher did
//! succeed, but the condition is False. If it cannot be decided, there is no such condition; nor for a single Worker
//! unless it ran nothing.

use std::collections::BTreeMap;

use api::{CONDITION_WORLD_VERIFIED, REASON_COLLAPSED, REASON_RANKS_SEEN};
use jiff::Timestamp;

use crate::advice::starts_ranks;
use crate::conditions::set_condition;
use crate::failure::world;
use crate::kept::Pod;
use crate::notice::{Notice, Report};
use crate::objects::runs_agent;
use crate::observed::ObservedState;
use crate::validate::ValidJob;
use diagnosis::{Cause, Ending, Facts, Output, Placement, World, diagnose, placement, placement_by_agents};

/// The maximum number of Workers whose agents are asked.
const MOST_ASKED: usize = 32;

/// What to do where a program ran in the Launcher only, if its command shows nothing else.
const ANOTHER_MPI: &str = "If the image has another MPI than the job says, set mpiImplementation";

/// Returns the Workers, each with its index, whose launch agents must be asked where the ranks of a successful run
/// ran, because the job's output does not show it.
#[must_use]
pub fn agents_to_ask<'a>(job: &ValidJob, seen: &'a ObservedState) -> Vec<(usize, &'a Pod)> {
    let Some(world) = world(job) else { return Vec::new() };
    let log = seen.success_log.as_deref().unwrap_or_default();
    if verdict(&world, log, &BTreeMap::new()).is_some() {
        return Vec::new();
    }
    let workers = seen.by_index(job).into_iter().enumerate().take(MOST_ASKED);
    let wanted = |pod: &&Pod| runs_agent(pod) && !was_restarted(pod);
    workers.filter_map(|(index, pod)| Some((index, pod.filter(wanted)?))).collect()
}

/// Whether a container of the pod was restarted; the log then lacks what an agent logged before.
fn was_restarted(pod: &Pod) -> bool {
    let containers = pod.status.iter().filter_map(|status| status.container_statuses.as_ref()).flatten();
    containers.into_iter().any(|container| container.restart_count > 0)
}

/// Reports whether a successful run formed the right world, by its output and what the agents saw.
pub(crate) fn report_world(
    job: &ValidJob,
    log: &str,
    agents: &BTreeMap<usize, String>,
    report: &mut Report,
    now: Timestamp,
) {
    let Some(world) = world(job) else { return };
    let Some((verified, reason, mut message)) = verdict(&world, log, agents) else { return };
    if message.ends_with(ANOTHER_MPI) && starts_ranks(job) == Some(false) {
        message.truncate(message.len() - ANOTHER_MPI.len());
        message.push_str(
            "The Launcher's command must call mpirun or mpiexec, and calls neither; a job that is created from a command \
             and not from a manifest gets it",
        );
    }
    let set =
        set_condition(&mut report.status, CONDITION_WORLD_VERIFIED, verified, reason, message.clone(), now);
    if set && !verified {
        report.notices.push(Notice { warning: true, reason: reason.to_owned(), message });
    }
}

/// Whether the world was as it should be, with the condition's reason and message; `None` if that is unknown.
fn verdict(
    world: &World,
    log: &str,
    agents: &BTreeMap<usize, String>,
) -> Option<(bool, &'static str, String)> {
    let output = Output::from(log);
    let facts = Facts { world: Some(world.clone()), ..Facts::default() };
    let workers = world.workers.len();
    // The ranks of a single Worker are on one host in any case. What can go wrong is that they are not there.
    if workers > 1 {
        let alone =
            diagnose(&output, Ending::Exited(0), &facts).filter(|found| found.cause == Cause::WrongMpi);
        if let Some(found) = alone {
            return Some((false, found.cause.word(), found.message));
        }
    }
    let placed = placement(&output, world).or_else(|| placement_by_agents(agents, world))?;
    if workers == 1 && placed != Placement::Elsewhere {
        return None;
    }
    Some(match placed {
        Placement::Spread { ranks, hosts } => {
            (true, REASON_RANKS_SEEN, format!("{ranks} ranks were seen on {hosts} Workers"))
        }
        Placement::Collapsed { ranks, hosts } => (
            false,
            REASON_COLLAPSED,
            format!(
                "{ranks} ranks ran on {} only, with {} slots each, though the job has {workers} Workers",
                hosts.join(", "),
                world.slots
            ),
        ),
        Placement::Alone { host } => (
            false,
            REASON_COLLAPSED,
            format!("ranks were started on {host} only, though the job has {workers} Workers"),
        ),
        Placement::Elsewhere => (
            false,
            REASON_COLLAPSED,
            format!(
                "no rank was started on {}: the program ran only in the Launcher's pod. {ANOTHER_MPI}",
                if workers == 1 { "the Worker".to_owned() } else { format!("any of the {workers} Workers") }
            ),
        ),
    })
}
