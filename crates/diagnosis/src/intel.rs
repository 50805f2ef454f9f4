//! Which rank failed, by the reports of Intel MPI's mpiexec. When a rank ends badly, mpiexec ends the other ranks of that
//! Worker with signal 9 and reports every rank that a signal ended, but not one that exited with a code.
//!
//! So all ranks of a Worker are reported if one of them was killed, and all but one if that one exited. This needs the
//! slots of the Workers. Pure.

use std::collections::BTreeSet;

use super::facts::World;
use super::scan::Finding;

/// The rule that finds a report of a rank that was ended by signal 9.
pub(crate) const RULE: &str = "intel-killed";

/// What the reports show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// One of these ranks, all of one Worker, was killed.
    Killed(Vec<u32>),
    /// This rank exited, and the others of its Worker were ended for it.
    Exited(u32),
    /// Either.
    Unclear,
}

/// Reads the reports on the Worker of the first one.
pub(crate) fn read(findings: &[Finding], world: Option<&World>) -> Ended {
    let ranks: BTreeSet<u32> = findings
        .iter()
        .filter(|finding| finding.rule.id == RULE)
        .filter_map(|finding| finding.values.get("rank")?.parse().ok())
        .collect();
    let slots = world.map_or(0, |world| world.slots);
    let Some(first) = ranks.first().filter(|_| slots > 0) else { return Ended::Unclear };
    let begin = first - first % slots;
    let missing: Vec<u32> =
        (begin..begin.saturating_add(slots)).filter(|rank| !ranks.contains(rank)).take(2).collect();
    match missing[..] {
        [] => Ended::Killed((begin..begin + slots).collect()),
        [rank] => Ended::Exited(rank),
        _ => Ended::Unclear,
    }
}

/// Names ranks as the subject of a sentence: `Rank 2`, `Rank 2 or 3`, `One of the ranks 0 to 7`.
pub(crate) fn one_of(ranks: &[u32]) -> String {
    match ranks {
        [] => "A rank".to_owned(),
        [rank] => format!("Rank {rank}"),
        [one, other] => format!("Rank {one} or {other}"),
        [first, .., last] => format!("One of the ranks {first} to {last}"),
    }
}
