//! Waiting for a condition, with a bound and without a guess.

use std::time::{Duration, Instant};

/// How long to leave the machine alone between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks until the condition gives a value; fails the story with `what` when the bound has passed.
pub fn within<T>(bound: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < bound, "after {} s still not: {what}", bound.as_secs());
        std::thread::park_timeout(PAUSE);
    }
}

/// Looks until the condition holds, for at most a minute.
pub fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    within(Duration::from_secs(60), what, || look().then_some(()));
}
