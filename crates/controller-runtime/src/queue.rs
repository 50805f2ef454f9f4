//! A work queue as client-go's: a key is queued at most once, is processed by at most one worker at a time, and is
//! retried later after a failure.
//!
//! Keys enter through [`Queue::add`] and [`Queue::add_after`]; [`work`] takes them out and runs a step for each. The
//! queue has no payload and is bounded by the number of different keys, that is, of live objects.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::supervision::{Scope, contained};

/// First wait before a failed key is retried; doubles with each failure up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(10);
/// Longest wait before a failed key is retried.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Consecutive failures of a key before further ones are logged as warnings.
const QUIET_FAILURES: u32 = 5;
/// Longest delay. A key due later is processed after this time and must then request the rest. Delays come from fields
/// of objects (`activeDeadlineSeconds`), which may hold more seconds than a clock can count.
const DELAY_MAX: Duration = Duration::from_secs(24 * 3600);

/// A de-duplicating, delaying queue of keys.
#[derive(Debug)]
pub struct Queue<T> {
    state: Mutex<State<T>>,
    wake: Notify,
}

#[derive(Debug)]
struct State<T> {
    ready: VecDeque<T>,
    /// Keys to process: in `ready`, or in `busy` and added again meanwhile.
    wanted: HashSet<T>,
    busy: HashSet<T>,
    /// Keys due later, ordered by time. The number separates keys due at the same instant.
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

    /// Enqueues `key` for the next free worker.
    pub fn add(&self, key: T) {
        self.state().want(key);
        self.wake.notify_one();
    }

    /// Enqueues `key` after `delay`, at most [`DELAY_MAX`]. An earlier delay of the same key stays in force.
    pub fn add_after(&self, key: T, delay: Duration) {
        let mut state = self.state();
        let at = Instant::now() + delay.min(DELAY_MAX);
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

    /// Waits for a key to process.
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

    /// Marks the step for `key` as successful.
    fn done(&self, key: &T) {
        let mut state = self.state();
        state.failures.remove(key);
        state.release(key);
        drop(state);
        self.wake.notify_one();
    }

    /// Marks the step for `key` as failed and schedules a retry. Returns the number of consecutive failures and the
    /// wait.
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

/// Returns `first` doubled `times` times, at most `max`.
pub fn doubled(first: Duration, times: u32, max: Duration) -> Duration {
    first.checked_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX)).map_or(max, |wait| wait.min(max))
}

/// Runs `step` for each key of `queue`, up to `concurrency` at once, until the scope ends. `Ok(Some(delay))` runs the
/// step again after the delay. An error or a panic leads to a retry with exponential back-off, and does not affect
/// other keys.
pub async fn work<T, F, R, E>(queue: Arc<Queue<T>>, concurrency: usize, scope: Scope, step: F)
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
            () = scope.stop.cancelled() => return,
            Some((key, result)) = running.next(), if !running.is_empty() => match result {
                Ok(result) => settle(&queue, &key, result),
                Err(panic) => {
                    scope.health.failed(&scope.part, &format!("{panic} (at {key:?})"));
                    queue.failed(&key);
                }
            },
            key = queue.take(), if !full => {
                let step = &step;
                running.push(async move {
                    let result = contained(async { step(key.clone()).await }).await;
                    (key, result)
                });
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
    use crate::supervision::Health;
    use tokio_util::sync::CancellationToken;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_queued_once_and_processed_by_one_worker() {
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
    async fn the_earlier_of_two_delays_wins() {
        let queue = Queue::default();
        let start = Instant::now();
        queue.add_after("a", Duration::from_secs(10));
        queue.add_after("a", Duration::from_secs(2));
        queue.add_after("a", Duration::from_secs(20));
        assert_eq!(queue.take().await, "a");
        assert_eq!(start.elapsed().as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_beyond_any_clock_is_bounded() {
        let queue = Queue::default();
        let start = Instant::now();
        queue.add_after("a", Duration::MAX);
        assert_eq!(queue.take().await, "a");
        assert_eq!(start.elapsed(), DELAY_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_back_off_and_success_resets_the_delay() {
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
    async fn steps_run_concurrently_up_to_the_limit() {
        let queue = Arc::new(Queue::default());
        for n in 0..10 {
            queue.add(n);
        }
        let stop = CancellationToken::new();
        let scope = Scope::new("test", &Health::default(), &stop);
        let running = std::sync::atomic::AtomicUsize::new(0);
        let most = std::sync::atomic::AtomicUsize::new(0);
        let ended = std::sync::atomic::AtomicUsize::new(0);
        use std::sync::atomic::Ordering::SeqCst;
        work(queue, 3, scope, |_| async {
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

    #[tokio::test(start_paused = true)]
    async fn a_panicking_step_is_retried_and_does_not_block_others() {
        let queue = Arc::new(Queue::default());
        queue.add("bad");
        queue.add("good");
        let (health, stop) = (Health::default(), CancellationToken::new());
        let tries = std::sync::atomic::AtomicUsize::new(0);
        let good = std::sync::atomic::AtomicBool::new(false);
        use std::sync::atomic::Ordering::SeqCst;
        work(queue, 1, Scope::new("test", &health, &stop), |key| {
            let attempt = if key == "bad" { tries.fetch_add(1, SeqCst) } else { 0 };
            assert!(attempt != 0 || key != "bad", "not even a future");
            let (stop, good) = (stop.clone(), &good);
            async move {
                match (key, attempt) {
                    ("good", _) => good.store(true, SeqCst),
                    (_, 1) => panic!("once more"),
                    _ => stop.cancel(),
                }
                Ok::<_, String>(None)
            }
        })
        .await;
        assert!(good.into_inner());
        let report = health.subscribe().borrow().clone();
        assert_eq!(
            (report["test"].count, report["test"].message.as_str()),
            (2, "it panicked: once more (at \"bad\")")
        );
    }
}
