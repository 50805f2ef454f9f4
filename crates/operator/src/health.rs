//! Liveness and readiness of the operator: the jobs that wait for a pass, the passes in progress, and when one last
//! began or ended. Liveness depends on these, readiness on whether the watches have listed.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// If there is work and no pass begins or ends for this long, the loop is stuck. No request of a pass may take as
/// long, and a plan of the largest job is written in a tenth of it.
const STUCK_AFTER: Duration = Duration::from_secs(300);

/// A job by namespace and name.
type Key = (String, String);

/// The state of the loop.
#[derive(Debug)]
pub struct Health {
    state: Mutex<State>,
    ready: AtomicBool,
}

#[derive(Debug)]
struct State {
    waiting: HashSet<Key>,
    under_way: HashMap<Key, Instant>,
    last_progress: Instant,
}

/// The amount of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Jobs that have changed and have had no pass since.
    pub waiting: usize,
    /// Jobs with a pass in progress.
    pub under_way: usize,
}

impl Default for Health {
    fn default() -> Self {
        let (waiting, under_way) = (HashSet::new(), HashMap::new());
        let state = Mutex::new(State { waiting, under_way, last_progress: Instant::now() });
        Self { state, ready: AtomicBool::new(false) }
    }
}

impl Health {
    /// Records that a job has changed, so that a pass over it is due.
    pub(crate) fn woken(&self, namespace: &str, name: &str) {
        let mut state = self.state();
        if state.waiting.is_empty() && state.under_way.is_empty() {
            state.last_progress = Instant::now();
        }
        state.waiting.insert((namespace.to_owned(), name.to_owned()));
    }

    /// Records that a job is gone, so that no pass will come.
    pub(crate) fn gone(&self, namespace: &str, name: &str) {
        self.state().waiting.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Records that a pass over a job begins.
    pub(crate) fn began(&self, namespace: &str, name: &str) {
        let mut state = self.state();
        let key = (namespace.to_owned(), name.to_owned());
        state.waiting.remove(&key);
        let now = Instant::now();
        state.under_way.insert(key, now);
        state.last_progress = now;
    }

    /// Records that a pass over a job has ended.
    pub(crate) fn ended(&self, namespace: &str, name: &str) {
        let mut state = self.state();
        state.under_way.remove(&(namespace.to_owned(), name.to_owned()));
        state.last_progress = Instant::now();
    }

    /// Sets whether the operator is ready: it leads and its watches have listed, or it stands by.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// Returns whether the operator is ready.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Returns the amount of work.
    pub fn queue(&self) -> Queue {
        let state = self.state();
        Queue { waiting: state.waiting.len(), under_way: state.under_way.len() }
    }

    /// Returns why the loop counts as stuck at `now`, if it does.
    pub fn stuck(&self, now: Instant) -> Option<String> {
        let state = self.state();
        let idle = now.saturating_duration_since(state.last_progress);
        let busy = !state.waiting.is_empty() || !state.under_way.is_empty();
        (busy && idle > STUCK_AFTER).then(|| {
            let (waiting, under_way) = (state.waiting.len(), state.under_way.len());
            format!(
                "no reconciliation began or ended for {} s, with {waiting} waiting and {under_way} in progress",
                idle.as_secs()
            )
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No operation leaves the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_stuck_that_has_work_and_makes_no_progress() {
        let health = Health::default();
        let late = || Instant::now() + STUCK_AFTER + Duration::from_secs(1);
        assert_eq!(health.stuck(late()), None, "nothing to do");
        health.woken("team", "pi");
        health.woken("team", "pi");
        assert_eq!(health.queue(), Queue { waiting: 1, under_way: 0 });
        assert_eq!(health.stuck(Instant::now()), None, "it was woken just now");
        assert!(health.stuck(late()).is_some_and(|why| why.contains("1 waiting and 0 in progress")));
        health.began("team", "pi");
        assert!(health.stuck(late()).is_some_and(|why| why.contains("0 waiting and 1 in progress")));
        health.ended("team", "pi");
        assert_eq!((health.stuck(late()), health.queue()), (None, Queue { waiting: 0, under_way: 0 }));
    }
}
