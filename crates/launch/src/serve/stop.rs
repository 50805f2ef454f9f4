//! The end of an agent that was asked to stop. Ranks get SIGTERM and most of the pod's grace period, so that they can save
//! their state. Until they have ended, MPI's daemons are left alone: they would kill the ranks, and ranks need them to
//! finalize MPI.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::descendants::{self, Process};
use super::ranks::{environment_of, is_rank};
use super::{Ending, is_ended};
use crate::drain::is_caller;
use crate::grace::{Grace, WIND_DOWN};

/// The pause between two checks of what is left.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How far the end has come.
pub struct Stopping {
    grace: Grace,
    phase: Phase,
    /// When to check again.
    next: Instant,
}

enum Phase {
    /// Ranks have been asked to end; `all` if there were none, so that everything was.
    Ranks { all: bool, until: Instant },
    /// All ranks have ended, and MPI's daemons end by themselves.
    Daemons { until: Instant },
    /// What is left gets SIGTERM, and then SIGKILL.
    Rest { ending: Ending, until: Instant },
}

/// Asks the ranks of one command to end, or if there are none, the whole command. Calls to other agents pass this on.
pub(crate) fn wind_down(root: Pid) {
    let known = descendants::belonging(&descendants::all(), root);
    let callers: Vec<Process> = known.iter().filter(|process| is_caller(process.pid)).copied().collect();
    let ranks = ranks_of(&known);
    descendants::signal_each(&callers, WIND_DOWN);
    let asked = if ranks.is_empty() && callers.is_empty() { &known } else { &ranks };
    descendants::signal_each(asked, Signal::SIGTERM);
}

fn ranks_of(processes: &[Process]) -> Vec<Process> {
    processes.iter().filter(|process| is_rank(&environment_of(process.pid))).copied().collect()
}

/// Every living process that this one started.
fn everything() -> Vec<Process> {
    let me = Pid::this();
    let mut left = descendants::belonging(&descendants::all(), me);
    left.retain(|process| process.pid != me.as_raw());
    left
}

/// Ranks, and calls through which ranks run elsewhere.
fn awaited() -> Vec<Process> {
    let mut left = everything();
    left.retain(|process| is_caller(process.pid) || is_rank(&environment_of(process.pid)));
    left
}

impl Stopping {
    /// Asks the ranks to end; without ranks, everything.
    pub fn begin(grace: Grace, now: Instant) -> Self {
        let known = everything();
        let ranks = ranks_of(&known);
        let all = ranks.is_empty();
        let asked = if all { &known } else { &ranks };
        descendants::signal_each(asked, Signal::SIGTERM);
        descendants::signal_each(asked, Signal::SIGCONT);
        let phase = Phase::Ranks { all, until: now + grace.ranks };
        Self { grace, phase, next: now + LOOK_AGAIN }
    }

    /// When to call [`Stopping::advance`] if nothing happens before.
    pub fn due(&self) -> Instant {
        match &self.phase {
            Phase::Ranks { until, .. } | Phase::Daemons { until } => self.next.min(*until),
            Phase::Rest { ending, until } => ending.next.min(*until),
        }
    }

    /// Takes the next step, if it is time. Returns whether everything has ended or the time is over.
    pub fn advance(&mut self, now: Instant, callers_served: bool) -> bool {
        self.next = now + LOOK_AGAIN;
        match &mut self.phase {
            Phase::Ranks { all, until } => {
                let left = if *all { everything() } else { awaited() };
                if now >= *until {
                    descendants::signal_each(&left, Signal::SIGKILL);
                    self.end_rest(now);
                } else if left.is_empty() {
                    self.phase = Phase::Daemons { until: now + self.grace.daemons };
                }
                false
            }
            Phase::Daemons { until } => {
                let is_over = callers_served && everything().is_empty();
                if !is_over && now >= *until {
                    self.end_rest(now);
                }
                is_over
            }
            Phase::Rest { ending, until } => {
                if now >= ending.next {
                    is_ended(ending, now);
                }
                now >= *until || (callers_served && everything().is_empty())
            }
        }
    }

    fn end_rest(&mut self, now: Instant) {
        let known = everything();
        descendants::signal_each(&known, Signal::SIGTERM);
        descendants::signal_each(&known, Signal::SIGCONT);
        let next = now + self.grace.daemons;
        let ending = Ending { root: Pid::this(), known, next, looks: 0 };
        self.phase = Phase::Rest { ending, until: next + self.grace.farewell };
    }
}
