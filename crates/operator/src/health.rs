//! Whether the operator lives and works: what waits for a pass, which passes are under way, and when one last began or
//! ended. Liveness is judged by that, readiness by whether the watches have listed.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// With something to do and no pass that begins or ends for this long, the loop is stuck: no request of a pass may take
/// as long, and a plan of the largest job is written in a tenth of it.
const STUCK_AFTER: Duration = Duration::from_secs(300);

/// A job by namespace and name.
type Key = (String, String);

/// What is known of the loop.
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

/// How much there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Jobs that were woken and have had no pass since.
    pub waiting: usize,
    /// Jobs that a pass is at.
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
    /// Something changed of a job: a pass over it is due.
    pub(crate) fn woken(&self, namespace: &str, name: &str) {
        let mut state = self.state();
        if state.waiting.is_empty() && state.under_way.is_empty() {
            state.last_progress = Instant::now();
        }
        state.waiting.insert((namespace.to_owned(), name.to_owned()));
    }

    /// A job is gone, and no pass will come.
    pub(crate) fn gone(&self, namespace: &str, name: &str) {
        self.state().waiting.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// A pass over a job begins.
    pub(crate) fn began(&self, namespace: &str, name: &str) {
        let mut state = self.state();
        let key = (namespace.to_owned(), name.to_owned());
        state.waiting.remove(&key);
        let now = Instant::now();
        state.under_way.insert(key, now);
        state.last_progress = now;
    }

    /// A pass over a job has ended.
    pub(crate) fn ended(&self, namespace: &str, name: &str) {
        let mut state = self.state();
        state.under_way.remove(&(namespace.to_owned(), name.to_owned()));
        state.last_progress = Instant::now();
    }

    /// Says whether the operator can do its work now: it leads and its watches have listed, or it stands by.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// Whether the operator can do its work now.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// How much there is to do.
    pub fn queue(&self) -> Queue {
        let state = self.state();
        Queue { waiting: state.waiting.len(), under_way: state.under_way.len() }
    }

    /// Why the loop counts as stuck at `now`, if it does.
    pub fn stuck(&self, now: Instant) -> Option<String> {
        let state = self.state();
        let idle = now.saturating_duration_since(state.last_progress);
        let busy = !state.waiting.is_empty() || !state.under_way.is_empty();
        (busy && idle > STUCK_AFTER).then(|| {
            let (waiting, under_way) = (state.waiting.len(), state.under_way.len());
            format!(
                "no pass began or ended for {} s, with {waiting} waiting and {under_way} under way",
                idle.as_secs()
            )
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No step leaves it half done.
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
        assert!(health.stuck(late()).is_some_and(|why| why.contains("1 waiting and 0 under way")));
        health.began("team", "pi");
        assert!(health.stuck(late()).is_some_and(|why| why.contains("0 waiting and 1 under way")));
        health.ended("team", "pi");
        assert_eq!((health.stuck(late()), health.queue()), (None, Queue { waiting: 0, under_way: 0 }));
    }
}
