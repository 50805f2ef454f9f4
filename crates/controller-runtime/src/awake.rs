//! Whether this process has had its turns. One that was paused (a suspended machine, SIGSTOP, a paused virtual machine, or a
//! machine so busy that nothing runs) has not seen what others did meanwhile, and must not judge them by that time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The time between two beats.
pub const BEAT: Duration = Duration::from_secs(1);
/// A beat that is later than this was held up by a pause.
const LATE: Duration = Duration::from_secs(4);

/// When this process was last paused.
#[derive(Debug)]
pub struct Awake(Mutex<State>);

#[derive(Debug)]
struct State {
    last: Instant,
    since: Instant,
}

impl Default for Awake {
    fn default() -> Self {
        let now = Instant::now();
        Self(Mutex::new(State { last: now, since: now }))
    }
}

impl Awake {
    /// Returns since when the process has not been paused. Every call is a beat too, so that the first caller after a pause
    /// notices it.
    pub fn since(&self, now: Instant) -> Instant {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(state.last) > LATE {
            tracing::info!(seconds = (now - state.last).as_secs(), "this process was paused");
            state.since = now;
        }
        state.last = state.last.max(now);
        state.since
    }

    /// Beats until dropped.
    pub async fn beat(&self) {
        let mut beats = tokio::time::interval(BEAT);
        beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            self.since(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_late_beat_shows_a_pause_and_nothing_else_does() {
        let begun = Instant::now();
        let awake = Awake(Mutex::new(State { last: begun, since: begun }));
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        for second in 1..60 {
            assert_eq!(awake.since(at(second)), begun, "{second}");
        }
        assert_eq!(awake.since(at(135)), at(135), "paused for 75 s");
        assert_eq!(awake.since(at(136)), at(135));
        assert_eq!(awake.since(at(130)), at(135), "a clock that was read before counts for nothing");
        assert_eq!(awake.since(at(138)), at(135));
    }
}
