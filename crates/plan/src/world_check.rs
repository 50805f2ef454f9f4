//! The condition `WorldVerified`: whether the ranks formed one world, on the hosts that they were given, by what they
//! said of themselves. A run whose ranks were each alone, or all on one host that cannot hold them, leaves the job
//! Succeeded, as its Launcher did, with the condition False. Programs that say nothing of ranks and hosts prove nothing:
//! then there is no such condition.

use api::{CONDITION_WORLD_VERIFIED, REASON_COLLAPSED, REASON_RANKS_SEEN};
use jiff::Timestamp;

use crate::conditions::set_condition;
use crate::diagnosis::{Cause, Ending, Facts, Output, Placement, World, diagnose, placement};
use crate::report::{Notice, Report};

/// Reports what a successful run's output says of its world.
pub(crate) fn report_world(world: Option<&World>, log: &str, report: &mut Report, now: Timestamp) {
    let Some(world) = world.filter(|world| world.workers.len() > 1) else { return };
    let output = Output::from(log);
    let facts = Facts { world: Some(world.clone()), ..Facts::default() };
    let alone = diagnose(&output, Ending::Exited(0), &facts).filter(|found| found.cause == Cause::WrongMpi);
    let (verified, reason, message) = match (alone, placement(&output, world)) {
        (Some(found), _) => (false, found.cause.word(), found.message),
        (None, Some(Placement::Collapsed { ranks, hosts })) => (
            false,
            REASON_COLLAPSED,
            format!(
                "{ranks} ranks ran on {} only, with {} slots each, though the job has {} Workers",
                hosts.join(", "),
                world.slots,
                world.workers.len()
            ),
        ),
        (None, Some(Placement::Spread { ranks, hosts })) => {
            (true, REASON_RANKS_SEEN, format!("{ranks} ranks were seen on {hosts} Workers"))
        }
        (None, None) => return,
    };
    let set =
        set_condition(&mut report.status, CONDITION_WORLD_VERIFIED, verified, reason, message.clone(), now);
    if set && !verified {
        report.notices.push(Notice { warning: true, reason: reason.to_owned(), message });
    }
}
