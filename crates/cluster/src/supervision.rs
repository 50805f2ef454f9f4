//! Long-running parts of the process (controllers, watches, the node's own work), each a task of its own: one that panics,
//! or ends before it is asked to, is started again after a wait, and what happened is kept for status reports.
//!
//! What it must not do: let one part's failure reach another.

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

/// First wait before a part is started again; doubles up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(200);
/// Longest wait before a part is started again.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// A part that ran this long before it failed waits [`RETRY_FIRST`] again.
const STEADY: Duration = Duration::from_secs(600);

/// How often a part failed, and how it did last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failures {
    /// Failures since the process started.
    pub count: u64,
    /// When the last one happened.
    pub last: Timestamp,
    /// What it was.
    pub message: String,
}

/// Failures by part. A part that never failed is not listed.
pub type Report = BTreeMap<String, Failures>;

/// What failed in this process so far; clones share one record.
#[derive(Clone, Debug, Default)]
pub struct Health(watch::Sender<Report>);

impl Health {
    /// The record now, and each change of it.
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
    /// Cancelled when the run has to end, and when it has ended: what it started for itself ends with it.
    pub stop: CancellationToken,
    /// The part's name.
    pub part: Cow<'static, str>,
    /// Where failures are recorded.
    pub health: Health,
}

impl Scope {
    /// A run of the part `part` that lasts until `stop` at most.
    pub fn new(part: impl Into<Cow<'static, str>>, health: &Health, stop: &CancellationToken) -> Self {
        Self { stop: stop.child_token(), part: part.into(), health: health.clone() }
    }
}

/// How a run of a part can end.
pub trait Ending {
    /// What to report of a run that ended before it was asked to.
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

/// Runs a part as a task of its own, again and again, until `stop`.
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

/// Runs a piece of work whose panic must stay within it.
///
/// # Errors
/// What the panic said.
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
    async fn a_part_that_panics_or_ends_is_started_again_and_reported() {
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
    async fn the_wait_grows_up_to_its_bound_and_what_a_run_started_ends_with_it() {
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
        // 200 ms doubled eight times, then twice the bound.
        let waited = RETRY_FIRST * 511 + RETRY_MAX * 2;
        assert_eq!(began.elapsed().as_secs(), waited.as_secs());
    }

    #[tokio::test]
    async fn a_contained_panic_is_an_error() {
        assert_eq!(contained(async { 1 }).await, Ok(1));
        assert_eq!(contained(async { panic!("no") }).await, Err::<(), _>("it panicked: no".to_owned()));
    }
}
