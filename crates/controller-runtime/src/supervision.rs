//! Supervision of long-running parts of the process (controllers, watches, the node's own work). Each is a
//! separate task. If one panics or ends early, it is restarted after a backoff, and the failure is recorded
//! for status reports.
//!
//! The failure of one part must never affect another.

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// The first wait before a restart; doubles up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(200);
/// The longest wait before a restart.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// After a run of at least this long, the wait is [`RETRY_FIRST`] again.
const STEADY: Duration = Duration::from_secs(600);

/// The failures of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failures {
    /// The number of failures since the process started.
    pub count: u64,
    /// When the last one happened.
    pub last: Timestamp,
    /// The message of the last one.
    pub message: String,
}

/// Failures by part. A part without failures isn't listed.
pub type Report = BTreeMap<String, Failures>;

/// The failures in this process so far; clones share one record.
#[derive(Clone, Debug, Default)]
pub struct Health(watch::Sender<Report>);

impl Health {
    /// Returns the present record and its future changes.
    pub fn subscribe(&self) -> watch::Receiver<Report> {
        self.0.subscribe()
    }

    /// Records a failure and logs it.
    pub fn failed(&self, part: &str, message: &str) {
        tracing::error!(part, message, "a part of the cluster failed");
        self.0.send_modify(|report| {
            let count = report.get(part).map_or(0, |failures| failures.count).saturating_add(1);
            let failures = Failures { count, last: Timestamp::now(), message: message.to_owned() };
            report.insert(part.to_owned(), failures);
        });
    }
}

/// One run of a part.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Cancelled when the run has to end, and after it has ended, so whatever it started ends with it.
    pub stop: CancellationToken,
    /// The part's name.
    pub part: Cow<'static, str>,
    /// Where failures are recorded.
    pub health: Health,
}

impl Scope {
    /// Creates the scope of a run of `part` that lasts at most until `stop`.
    pub fn new(part: impl Into<Cow<'static, str>>, health: &Health, stop: &CancellationToken) -> Self {
        Self { stop: stop.child_token(), part: part.into(), health: health.clone() }
    }
}

/// The result of a part's run.
pub trait Ending {
    /// Returns the failure message for a run that ended early.
    fn message(self) -> String;
}

impl Ending for () {
    fn message(self) -> String {
        "it ended early".to_owned()
    }
}

impl<E: Display> Ending for Result<(), E> {
    fn message(self) -> String {
        self.map_or_else(|error| error.to_string(), Ending::message)
    }
}

/// Runs a part as a separate task, and restarts it, until `stop`.
pub async fn supervise<F>(
    part: impl Into<Cow<'static, str>>,
    health: &Health,
    stop: &CancellationToken,
    run: impl Fn(Scope) -> F,
) where
    F: Future + Send + 'static,
    F::Output: Ending + Send + 'static,
{
    let part = part.into();
    let mut wait = RETRY_FIRST;
    loop {
        let scope = Scope::new(part.clone(), health, stop);
        let ends = scope.stop.clone().drop_guard();
        let began = Instant::now();
        let ended = AbortOnDropHandle::new(tokio::spawn(run(scope))).await;
        drop(ends);
        if stop.is_cancelled() {
            return;
        }
        let message = match ended {
            Ok(ending) => ending.message(),
            Err(error) => {
                error.try_into_panic().map_or_else(|error| error.to_string(), |panic| words(&*panic))
            }
        };
        health.failed(&part, &message);
        if began.elapsed() >= STEADY {
            wait = RETRY_FIRST;
        }
        if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
            return;
        }
        wait = (wait * 2).min(RETRY_MAX);
    }
}

/// Runs a future and catches its panic.
///
/// # Errors
/// The panic's message.
pub async fn contained<T>(work: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| words(&*panic))
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.map_or_else(|| "it panicked".to_owned(), |text| format!("it panicked: {text}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_part_that_panics_or_ends_is_restarted_and_reported() {
        let (health, stop, runs) = (Health::default(), CancellationToken::new(), Arc::new(AtomicU32::new(0)));
        let counted = runs.clone();
        supervise("p", &health, &stop.clone(), move |_| {
            let (run, stop) = (counted.fetch_add(1, SeqCst), stop.clone());
            async move {
                match run {
                    0 => panic!("number {run}"),
                    1 => {}
                    _ => stop.cancel(),
                }
            }
        })
        .await;
        assert_eq!(runs.load(SeqCst), 3);
        let report = health.subscribe().borrow().clone();
        let failures = &report["p"];
        assert_eq!((failures.count, failures.message.as_str()), (2, "it ended early"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_is_bounded_and_each_run_is_cancelled_when_it_ends() {
        let (health, stop, began) = (Health::default(), CancellationToken::new(), Instant::now());
        let scopes = std::sync::Mutex::new(Vec::<Scope>::new());
        supervise("p", &health, &stop, |scope| {
            let mut scopes = scopes.lock().unwrap();
            assert!(scopes.iter().all(|before| before.stop.is_cancelled()));
            scopes.push(scope);
            if scopes.len() == 12 {
                stop.cancel();
            }
            async {}
        })
        .await;
        // 200 ms doubled eight times, then twice the maximum.
        let waited = RETRY_FIRST * 511 + RETRY_MAX * 2;
        assert_eq!(began.elapsed().as_secs(), waited.as_secs());
    }

    #[tokio::test]
    async fn a_contained_panic_is_an_error() {
        assert_eq!(contained(async { 1 }).await, Ok(1));
        assert_eq!(contained(async { panic!("no") }).await, Err::<(), _>("it panicked: no".to_owned()));
    }
}
