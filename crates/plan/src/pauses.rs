//! Times in which this process got no turn: a suspended machine, a paused process. Nobody else can be blamed for what did not
//! happen in them, as far as this process knows. Pure: the caller passes the time.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;

use crate::time::elapsed;

/// No more pauses are remembered.
const MOST: usize = 64;

/// The last pauses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    last: Option<Timestamp>,
    found: VecDeque<(Timestamp, Timestamp)>,
}

impl Pauses {
    /// How often to call [`Pauses::look`].
    pub const INTERVAL: Duration = Duration::from_secs(1);
    /// A call that is later than this was held up by a pause.
    const LATE: Duration = Duration::from_secs(4);

    /// Notes that the process runs now. It uses the wall clock, which goes on while a machine is suspended.
    pub fn look(&mut self, now: Timestamp) {
        let last = self.last.replace(now);
        if let Some(last) = last.filter(|last| elapsed(*last, now) > Self::LATE) {
            if self.found.len() == MOST {
                self.found.pop_front();
            }
            self.found.push_back((last, now));
        }
    }

    /// How much of the time from `since` to `until` were pauses.
    #[must_use]
    pub fn within(&self, since: Timestamp, until: Timestamp) -> Duration {
        self.found.iter().map(|(from, to)| elapsed((*from).max(since), (*to).min(until))).sum()
    }

    /// How long it is from `since` to `until` without the pauses.
    pub(crate) fn awake(&self, since: Timestamp, until: Timestamp) -> Duration {
        elapsed(since, until).saturating_sub(self.within(since, until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_time_of_pauses_is_excused() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let mut pauses = Pauses::default();
        (0..=10).chain(85..=95).for_each(|second| pauses.look(at(second)));
        assert_eq!(pauses.within(at(0), at(95)).as_secs(), 75);
        assert_eq!(pauses.awake(at(5), at(90)).as_secs(), 10);
        assert_eq!(pauses.within(at(20), at(30)).as_secs(), 10);
        assert_eq!(pauses.within(at(86), at(95)).as_secs(), 0);
        assert_eq!(pauses.awake(at(95), at(10)).as_secs(), 0);
    }
}
