//! When the agent looks around while a command runs: often while its ranks are on their way, then ever more rarely, so that
//! the looks take nothing from the ranks. A look that is due soon is taken along when the agent is awake anyway.

use std::time::{Duration, Instant};

/// The first pause between two looks.
const SHORTEST: Duration = Duration::from_millis(200);
/// The longest. It is more than the time between two signs of life of a caller, so that those looks cost no wake-up.
const LONGEST: Duration = Duration::from_secs(20);

/// The moments of the looks.
pub struct Pace {
    next: Instant,
    pause: Duration,
}

impl Pace {
    /// The first look is due now.
    pub fn begin(now: Instant) -> Self {
        Self { next: now, pause: SHORTEST }
    }

    /// When to look though nothing else wakes the agent.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Whether to look now that the agent is awake.
    pub fn is_due(&self, now: Instant) -> bool {
        now + self.pause / 4 >= self.next
    }

    /// There is a reason to look soon.
    pub fn hasten(&mut self, now: Instant) {
        *self = Self { next: now + SHORTEST, pause: SHORTEST };
    }

    /// A look was taken: the pause grows by a quarter while something is `expected`, and doubles once it is there.
    pub fn looked(&mut self, now: Instant, expected: bool) {
        self.next = now + self.pause;
        let longer = if expected { self.pause * 5 / 4 } else { self.pause * 2 };
        self.pause = longer.min(LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often an agent wakes up in each of so many minutes of a call, beside its caller's signs of life every `alive`.
    /// The ranks are seen after two seconds.
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
    fn an_agent_of_a_call_that_goes_well_hardly_wakes_up() {
        let counts = wake_ups(60, Duration::from_secs(15));
        assert!(counts[0] <= 12, "{counts:?}");
        assert!(counts[1..].iter().all(|count| *count == 0), "{counts:?}");
        // A caller that gives signs of life more rarely.
        let counts = wake_ups(60, Duration::from_secs(600));
        assert!(counts[1..].iter().all(|count| *count <= 4), "{counts:?}");
    }
}
