//! The condition `WorldVerified`: whether the ranks formed one world, on the hosts that they were given, by what they
//! said of themselves; where they said nothing, by what the launch agents of the Workers saw. A run whose ranks were each
//! alone, or all on one host that cannot hold them, or not on the Workers at all, leaves the job Succeeded, as its Launcher
//! did, with the condition False. Where nobody can tell there is no such condition.

use std::collections::BTreeMap;

use api::{CONDITION_WORLD_VERIFIED, REASON_COLLAPSED, REASON_RANKS_SEEN};
use jiff::Timestamp;

use crate::conditions::set_condition;
use crate::diagnosis::{
    Cause, Ending, Facts, Output, Placement, World, diagnose, placement, placement_by_agents,
};
use crate::failure::world;
use crate::kept::Pod;
use crate::objects::runs_agent;
use crate::observed::Seen;
use crate::report::{Notice, Report};
use crate::validate::ValidJob;

/// No more Workers than this have their agents asked.
const MOST_ASKED: usize = 32;

/// The Workers whose launch agents are to be asked where the ranks of a run ran that succeeded: those of a job whose output
/// does not tell. With each its index.
#[must_use]
pub fn agents_to_ask<'a>(job: &ValidJob, seen: &'a Seen) -> Vec<(usize, &'a Pod)> {
    let Some(world) = world(job).filter(|world| world.workers.len() > 1) else { return Vec::new() };
    let log = seen.success_log.as_deref().unwrap_or_default();
    if verdict(&world, log, &BTreeMap::new()).is_some() {
        return Vec::new();
    }
    let workers = seen.by_index(job).into_iter().enumerate().take(MOST_ASKED);
    let wanted = |pod: &&Pod| runs_agent(pod) && !was_restarted(pod);
    workers.filter_map(|(index, pod)| Some((index, pod.filter(wanted)?))).collect()
}

/// Whether the log of the pod's container is not its first: what an agent said before is not in it.
fn was_restarted(pod: &Pod) -> bool {
    let containers = pod.status.iter().filter_map(|status| status.container_statuses.as_ref()).flatten();
    containers.into_iter().any(|container| container.restart_count > 0)
}

/// Reports what a successful run's output, and what was seen of it, say of its world.
pub(crate) fn report_world(
    job: &ValidJob,
    log: &str,
    agents: &BTreeMap<usize, String>,
    report: &mut Report,
    now: Timestamp,
) {
    let Some(world) = world(job).filter(|world| world.workers.len() > 1) else { return };
    let Some((verified, reason, message)) = verdict(&world, log, agents) else { return };
    let set =
        set_condition(&mut report.status, CONDITION_WORLD_VERIFIED, verified, reason, message.clone(), now);
    if set && !verified {
        report.notices.push(Notice { warning: true, reason: reason.to_owned(), message });
    }
}

/// Whether the world was as it should be, with the condition's reason and message; nothing where that is not known.
fn verdict(
    world: &World,
    log: &str,
    agents: &BTreeMap<usize, String>,
) -> Option<(bool, &'static str, String)> {
    let output = Output::from(log);
    let facts = Facts { world: Some(world.clone()), ..Facts::default() };
    let alone = diagnose(&output, Ending::Exited(0), &facts).filter(|found| found.cause == Cause::WrongMpi);
    if let Some(found) = alone {
        return Some((false, found.cause.word(), found.message));
    }
    let workers = world.workers.len();
    Some(match placement(&output, world).or_else(|| placement_by_agents(agents, world))? {
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
                "no rank was started on any of the {workers} Workers: what ran, ran in the Launcher's pod"
            ),
        ),
    })
}
