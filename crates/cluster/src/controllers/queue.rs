//! A work queue as client-go's: a key waits at most once, is worked on by at most one worker at a time, and comes back
//! later after a failure.
//!
//! Keys come in by [`Queue::add`] and [`Queue::add_after`]; [`work`] takes them out and runs a step for each. The queue
//! is bounded by the number of different keys, that is of live objects: it holds no payload.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// First wait before a failed key is tried again; doubles with each failure up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(10);
/// Longest wait before a failed key is tried again.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// After this many failures in a row a warning is logged for each further one.
const QUIET_FAILURES: u32 = 5;

/// A de-duplicating, delaying queue of keys.
#[derive(Debug)]
pub struct Queue<T> {
    state: Mutex<State<T>>,
    wake: Notify,
}

#[derive(Debug)]
struct State<T> {
    ready: VecDeque<T>,
    /// Keys that must be worked on (again): in `ready`, or in `busy` and changed meanwhile.
    wanted: HashSet<T>,
    busy: HashSet<T>,
    /// Keys due later, ordered by time; the number keeps two of one instant apart.
    later: BTreeMap<(Instant, u64), T>,
    due: HashMap<T, (Instant, u64)>,
    failures: HashMap<T, u32>,
    next_number: u64,
}

impl<T: Clone + Eq + Hash> Default for Queue<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                ready: VecDeque::new(),
                wanted: HashSet::new(),
                busy: HashSet::new(),
                later: BTreeMap::new(),
                due: HashMap::new(),
                failures: HashMap::new(),
                next_number: 0,
            }),
            wake: Notify::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Queue<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for work on `key` as soon as a worker is free.
    pub fn add(&self, key: T) {
        self.state().want(key);
        self.wake.notify_one();
    }

    /// Asks for work on `key` after `delay`; an earlier request for the same key stands.
    pub fn add_after(&self, key: T, delay: Duration) {
        let mut state = self.state();
        let at = Instant::now() + delay;
        if let Some(&known) = state.due.get(&key) {
            if known.0 <= at {
                return;
            }
            state.later.remove(&known);
        }
        let slot = (at, state.next_number);
        state.next_number += 1;
        state.later.insert(slot, key.clone());
        state.due.insert(key, slot);
        drop(state);
        self.wake.notify_one();
    }

    /// Waits for a key to work on.
    async fn take(&self) -> T {
        loop {
            let woken = self.wake.notified();
            let next_due = {
                let mut state = self.state();
                state.promote(Instant::now());
                if let Some(key) = state.ready.pop_front() {
                    state.wanted.remove(&key);
                    state.busy.insert(key.clone());
                    return key;
                }
                state.later.first_key_value().map(|((at, _), _)| *at)
            };
            match next_due {
                Some(at) => drop(tokio::time::timeout_at(at, woken).await),
                None => woken.await,
            }
        }
    }

    /// Work on `key` has ended well.
    fn done(&self, key: &T) {
        let mut state = self.state();
        state.failures.remove(key);
        state.release(key);
        drop(state);
        self.wake.notify_one();
    }

    /// Work on `key` has failed: it comes back after a wait. Returns the failures in a row and the wait.
    fn failed(&self, key: &T) -> (u32, Duration) {
        let mut state = self.state();
        let count = state.failures.entry(key.clone()).or_insert(0);
        *count = count.saturating_add(1);
        let count = *count;
        state.release(key);
        drop(state);
        let wait = doubled(RETRY_FIRST, count - 1, RETRY_MAX);
        self.add_after(key.clone(), wait);
        (count, wait)
    }
}

impl<T: Clone + Eq + Hash> State<T> {
    fn want(&mut self, key: T) {
        if self.wanted.insert(key.clone()) && !self.busy.contains(&key) {
            self.ready.push_back(key);
        }
    }

    fn promote(&mut self, now: Instant) {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let key = entry.remove();
            self.due.remove(&key);
            self.want(key);
        }
    }

    fn release(&mut self, key: &T) {
        self.busy.remove(key);
        if self.wanted.contains(key) {
            self.ready.push_back(key.clone());
        }
    }
}

/// `first` doubled `times` times, at most `max`.
pub fn doubled(first: Duration, times: u32, max: Duration) -> Duration {
    first.checked_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX)).map_or(max, |wait| wait.min(max))
}

/// Runs `step` for each key of `queue`, up to `concurrency` at once, until `stop`. A step may ask to be run again
/// after a while by `Ok(Some(delay))`; an error brings the key back after an exponential wait.
pub async fn work<T, F, R, E>(queue: Arc<Queue<T>>, concurrency: usize, stop: CancellationToken, step: F)
where
    T: Clone + Eq + Hash + Debug,
    F: Fn(T) -> R,
    R: Future<Output = Result<Option<Duration>, E>>,
    E: Display,
{
    let mut running = FuturesUnordered::new();
    loop {
        let full = running.len() >= concurrency;
        tokio::select! {
            () = stop.cancelled() => return,
            Some((key, result)) = running.next(), if !running.is_empty() => settle(&queue, &key, result),
            key = queue.take(), if !full => {
                let future = step(key.clone());
                running.push(async move { (key, future.await) });
            }
        }
    }
}

fn settle<T, E>(queue: &Queue<T>, key: &T, result: Result<Option<Duration>, E>)
where
    T: Clone + Eq + Hash + Debug,
    E: Display,
{
    match result {
        Ok(again) => {
            queue.done(key);
            if let Some(delay) = again {
                queue.add_after(key.clone(), delay);
            }
        }
        Err(error) => {
            let (count, wait) = queue.failed(key);
            if count > QUIET_FAILURES {
                tracing::warn!(?key, %error, count, ?wait, "step keeps failing");
            } else {
                tracing::debug!(?key, %error, count, ?wait, "step failed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_once_and_is_worked_on_once_at_a_time() {
        let queue = Queue::default();
        queue.add("a");
        queue.add("a");
        assert_eq!(queue.take().await, "a");
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.take().await, "b", "a is busy");
        queue.done(&"a");
        assert_eq!(queue.take().await, "a", "it changed while busy");
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_of_two_delays_stands() {
        let queue = Queue::default();
        let start = Instant::now();
        queue.add_after("a", Duration::from_secs(10));
        queue.add_after("a", Duration::from_secs(2));
        queue.add_after("a", Duration::from_secs(20));
        assert_eq!(queue.take().await, "a");
        assert_eq!(start.elapsed().as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_come_back_ever_later_and_success_forgets() {
        let queue = Queue::default();
        queue.add("a");
        let mut waits = Vec::new();
        for _ in 0..14 {
            let start = Instant::now();
            queue.take().await;
            waits.push(start.elapsed().as_millis());
            queue.failed(&"a");
        }
        assert_eq!(&waits[..5], &[0, 10, 20, 40, 80]);
        assert_eq!(waits[13], 30_000);
        queue.take().await;
        queue.done(&"a");
        queue.add("a");
        queue.take().await;
        assert_eq!(queue.failed(&"a"), (1, RETRY_FIRST));
    }

    #[tokio::test(start_paused = true)]
    async fn steps_run_side_by_side_up_to_the_limit() {
        let queue = Arc::new(Queue::default());
        for n in 0..10 {
            queue.add(n);
        }
        let stop = CancellationToken::new();
        let running = std::sync::atomic::AtomicUsize::new(0);
        let most = std::sync::atomic::AtomicUsize::new(0);
        let ended = std::sync::atomic::AtomicUsize::new(0);
        use std::sync::atomic::Ordering::SeqCst;
        work(queue, 3, stop.clone(), |_| async {
            let now = running.fetch_add(1, SeqCst) + 1;
            most.fetch_max(now, SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
            running.fetch_sub(1, SeqCst);
            if ended.fetch_add(1, SeqCst) == 9 {
                stop.cancel();
            }
            Ok::<_, String>(None)
        })
        .await;
        assert_eq!((most.into_inner(), ended.into_inner()), (3, 10));
    }
}
