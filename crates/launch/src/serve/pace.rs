//! When the agent makes its checks while a command runs: often while its ranks are starting, then ever more rarely,
//! so that the checks take nothing from the ranks. A check that is due soon is made early if the agent is awake
//! anyway.

use std::time::{Duration, Instant};

/// The first pause between two checks.
const SHORTEST: Duration = Duration::from_millis(200);
/// The longest pause. It is longer than the interval of a caller's keep-alives, so that these checks cost no
/// wake-up.
const LONGEST: Duration = Duration::from_secs(20);

/// The schedule of the checks.
pub struct Pace {
    next: Instant,
    pause: Duration,
}

impl Pace {
    /// Makes the first check due now.
    pub fn begin(now: Instant) -> Self {
        Self { next: now, pause: SHORTEST }
    }

    /// Returns when to check if nothing else wakes the agent.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Returns whether to check now that the agent is awake.
    pub fn is_due(&self, now: Instant) -> bool {
        now + self.pause / 4 >= self.next
    }

    /// Schedules a check soon.
    pub fn hasten(&mut self, now: Instant) {
        *self = Self { next: now + SHORTEST, pause: SHORTEST };
    }

    /// Records a check. The pause grows by a quarter while something is `expected`, and doubles once it is there.
    pub fn looked(&mut self, now: Instant, expected: bool) {
        self.next = now + self.pause;
        let longer = if expected { self.pause * 5 / 4 } else { self.pause * 2 };
        self.pause = longer.min(LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts an agent's wake-ups in each of `minutes` minutes of a call, besides its caller's keep-alives every
    /// `alive`. The ranks are seen after two seconds.
    fn wake_ups(minutes: usize, alive: Duration) -> Vec<usize> {
        let begun = Instant::now();
        let mut pace = Pace::begin(begun);
        pace.hasten(begun);
        let (mut counts, mut sign) = (vec![0; minutes], begun + alive);
        loop {
            let now = pace.next().min(sign);
            let Some(count) = counts.get_mut(((now - begun).as_secs() / 60) as usize) else { return counts };
            if now == sign {
                sign += alive;
            } else {
                *count += 1;
            }
            if pace.is_due(now) {
                pace.looked(now, now - begun < Duration::from_secs(2));
            }
        }
    }

    #[test]
    fn the_agent_of_a_healthy_call_hardly_wakes_up() {
        let counts = wake_ups(60, Duration::from_secs(15));
        assert!(counts[0] <= 12, "{counts:?}");
        assert!(counts[1..].iter().all(|count| *count == 0), "{counts:?}");
        // A caller with rarer keep-alives.
        let counts = wake_ups(60, Duration::from_secs(600));
        assert!(counts[1..].iter().all(|count| *count <= 4), "{counts:?}");
    }
}
