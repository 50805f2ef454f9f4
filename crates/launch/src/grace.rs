//! Time: what of a pause of this process counts, and how the time that a pod may take to end is divided: ranks get most of it, so that they can save their state, and a
//! short reserve is left to end what remains and to pass on exit codes before the kubelet kills everything.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

/// Asks for the end of all ranks: callers pass it on, and agents send SIGTERM to the ranks and leave MPI's daemons alone,
/// which would kill the ranks a second or two after they have been signalled themselves.
pub const WIND_DOWN: Signal = Signal::SIGPWR;

/// The most that is left of the grace period for the end of what ranks leave.
const RESERVE: Duration = Duration::from_secs(5);

/// A loop that wakes this much after it was due was paused: the machine was suspended, or the process stopped. Nobody else was
/// silent in that time, it was not heard.
const LATE: Duration = Duration::from_secs(2);

/// Whether a loop that was due then was paused.
pub fn is_pause(due: Instant, now: Instant) -> bool {
    now.saturating_duration_since(due) > LATE
}

/// The parts of a pod's grace period, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// For ranks, after SIGTERM.
    pub ranks: Duration,
    /// For MPI's daemons to end by themselves once all ranks have, and then again after SIGTERM.
    pub daemons: Duration,
    /// For callers to take their exit codes.
    pub farewell: Duration,
}

impl Grace {
    /// Divides a grace period.
    pub fn of(period: Duration) -> Self {
        let reserve = RESERVE.min(period / 2);
        Self { ranks: period.saturating_sub(reserve), daemons: reserve * 2 / 5, farewell: reserve * 2 / 5 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_get_most_of_the_period_and_all_parts_fit_into_it() {
        for (period, ranks) in [(0, 0), (2, 1), (10, 5), (30, 25), (600, 595)] {
            let (period, grace) = (Duration::from_secs(period), Grace::of(Duration::from_secs(period)));
            assert_eq!(grace.ranks, Duration::from_secs(ranks));
            assert!(grace.ranks + grace.daemons + grace.farewell <= period, "{grace:?}");
        }
    }
}
