//! Bounded waiting for a condition.

use std::time::{Duration, Instant};

/// The pause between two polls.
const PAUSE: Duration = Duration::from_millis(50);

/// Polls until the condition gives a value. Fails the story with `what` when the bound has passed.
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

/// Polls until the condition holds, for at most a minute.
pub fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    within(Duration::from_secs(60), what, || look().then_some(()));
}
