//! Records the states and attempts of jobs, from the watches' changes to the store.
//!
//! Changes wait in a bounded queue while the store is away. If it overflows, the present state of every job is recorded
//! again later; a state that is known is not stored twice. A deletion that happened while this process was not there is
//! found by comparing the store with the watches.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::jobs::Kind;
use history::error::Class;
use history::jobs::{self, Attempt, Filter};
use history::{Error, Store};
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::seen::Seen;
use crate::store::Kept;

/// The maximum number of changes that wait.
const MOST_NEWS: usize = 65_536;
/// The number of changes that are stored at once.
const BATCH: usize = 200;
/// The longest wait after a failure.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How many intervals are between two comparisons of the store with the watches.
const SWEEP_EVERY: u32 = 12;

/// A change to be stored.
#[derive(Clone, Debug)]
enum News {
    Seen(Arc<Seen>),
    Gone { uid: String, at: Timestamp },
}

#[derive(Default)]
struct State {
    news: VecDeque<News>,
    /// Whether changes were dropped because too many waited.
    overflowed: bool,
    /// The jobs that are there, by uid.
    present: HashMap<String, Arc<Seen>>,
    /// The kinds of which all jobs are known.
    filled: BTreeSet<Kind>,
}

/// Records jobs.
#[derive(Default)]
pub struct Recorder {
    state: Mutex<State>,
    wake: Notify,
}

impl Recorder {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a change of a job: its states before and after. Quick: it only queues.
    pub fn hear(&self, before: Option<&Arc<Seen>>, after: Option<&Arc<Seen>>) {
        let mut state = self.state();
        let uid = |seen: Option<&Arc<Seen>>| seen.map(|seen| seen.observation.uid.clone());
        // Another job of the same name is another job.
        let is_gone = before.is_some() && uid(before) != uid(after);
        if let Some(last) = before.filter(|_| is_gone) {
            let uid = last.observation.uid.clone();
            state.present.remove(&uid);
            push(&mut state, News::Seen(last.clone()));
            push(&mut state, News::Gone { uid, at: Timestamp::now() });
        }
        if let Some(seen) = after {
            let known = state.present.insert(seen.observation.uid.clone(), seen.clone());
            if known.as_ref().is_none_or(|known| seen.is_news_after(known)) {
                let mut seen = Seen::clone(seen);
                // What changes before our eyes happens now; of what was there before, the object knows best.
                if known.is_some() && seen.observation.finished.is_none() {
                    seen.observation.at = Timestamp::now();
                }
                push(&mut state, News::Seen(Arc::new(seen)));
            }
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Notes that all jobs of a kind are known.
    pub fn filled(&self, kind: Kind) {
        self.state().filled.insert(kind);
    }

    /// Whether all jobs of a kind are known.
    pub fn knows(&self, kind: Kind) -> bool {
        self.state().filled.contains(&kind)
    }

    /// Stores changes until `stop`.
    pub async fn run(self: Arc<Self>, kept: Kept, every: Duration, stop: CancellationToken) {
        let work = async {
            let opened = kept.wait().await;
            let mut missing = HashSet::new();
            let mut swept = Instant::now();
            loop {
                self.drain(&kept, &opened.store, every).await;
                if swept.elapsed() >= every * SWEEP_EVERY {
                    let found = self.sweep(&opened.store, &mut missing).await;
                    if let Err(error) = found {
                        tracing::warn!(%error, "cannot compare the history with the jobs");
                    }
                    swept = Instant::now();
                }
                let _ = tokio::time::timeout(every, self.wake.notified()).await;
            }
        };
        stop.run_until_cancelled(work).await;
    }

    /// Stores what waits.
    async fn drain(&self, kept: &Kept, store: &Store, first_wait: Duration) {
        let mut wait = first_wait;
        loop {
            let batch: Vec<News> = self.state().news.iter().take(BATCH).cloned().collect();
            if batch.is_empty() {
                let mut state = self.state();
                if !std::mem::take(&mut state.overflowed) {
                    return;
                }
                let present: Vec<Arc<Seen>> = state.present.values().cloned().collect();
                present.into_iter().for_each(|seen| push(&mut state, News::Seen(seen)));
                continue;
            }
            let stored = record(store, &batch).await;
            kept.note(&stored);
            match stored {
                Ok(()) => {
                    self.state().news.drain(..batch.len());
                    wait = first_wait;
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot record jobs; trying again");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(LONGEST_WAIT);
                }
            }
        }
    }

    /// Marks jobs as deleted that the store has and the watches lack twice in a row: another replica may know of a job
    /// a moment before this one.
    async fn sweep(&self, store: &Store, missing: &mut HashSet<String>) -> Result<(), Error> {
        let filter = Filter { deleted: Some(false), ..Filter::default() };
        let (mut after, mut lost) = (None, HashSet::new());
        loop {
            let page = jobs::jobs(store, &filter, after.as_ref(), jobs::MAX_PAGE).await?;
            let state = self.state();
            let filled: BTreeSet<&str> = state.filled.iter().map(|kind| kind.name()).collect();
            let is_lost = |job: &&jobs::Job| {
                filled.contains(job.kind.as_str()) && !state.present.contains_key(&job.uid)
            };
            lost.extend(page.iter().filter(is_lost).map(|job| job.uid.clone()));
            drop(state);
            let Some(last) = page.last() else { break };
            after = Some(last.cursor());
        }
        for uid in lost.intersection(missing) {
            jobs::deleted(store, uid, Timestamp::now()).await?;
        }
        *missing = lost;
        Ok(())
    }
}

fn push(state: &mut State, news: News) {
    if state.news.len() < MOST_NEWS {
        state.news.push_back(news);
    } else {
        state.overflowed = true;
    }
}

/// Stores changes. One that the store refuses for what it is, is left out.
async fn record(store: &Store, batch: &[News]) -> Result<(), Error> {
    let seen: Vec<&Arc<Seen>> =
        batch.iter().filter_map(|news| if let News::Seen(seen) = news { Some(seen) } else { None }).collect();
    let observations: Vec<_> = seen.iter().map(|seen| seen.observation.clone()).collect();
    match jobs::record(store, &observations).await {
        Err(error) if error.class() == Class::Input => {
            for observation in observations {
                acceptable(jobs::record(store, std::slice::from_ref(&observation)).await, &observation.uid)?;
            }
        }
        recorded => drop(recorded?),
    }
    for seen in seen.iter().filter(|seen| !seen.attempts.is_empty()) {
        let uid = &seen.observation.uid;
        let stored = jobs::attempts(store, uid, 0, jobs::MAX_PAGE).await?;
        for attempt in &seen.attempts {
            let known = stored.iter().find(|known| known.number == attempt.number);
            if known.is_none_or(|known| tells_more(attempt, known)) {
                acceptable(jobs::record_attempt(store, uid, attempt).await, uid)?;
            }
        }
    }
    for news in batch {
        if let News::Gone { uid, at } = news {
            jobs::deleted(store, uid, *at).await?;
        }
    }
    Ok(())
}

/// Passes on an error unless the store refuses the input: it will never accept it.
fn acceptable<T>(result: Result<T, Error>, uid: &str) -> Result<(), Error> {
    match result {
        Err(error) if error.class() == Class::Input => {
            tracing::error!(uid, %error, "a state of a job cannot be recorded");
            Ok(())
        }
        other => other.map(drop),
    }
}

/// Whether an attempt has something that the stored one lacks or has otherwise.
fn tells_more(attempt: &Attempt, stored: &Attempt) -> bool {
    let Attempt {
        number: _,
        started,
        finished,
        phase,
        worker,
        exit_code,
        cause,
        message,
        evidence,
        last_lines,
    } = attempt;
    fn differs<T: PartialEq>(told: &Option<T>, known: &Option<T>) -> bool {
        told.is_some() && told != known
    }
    differs(started, &stored.started)
        || differs(finished, &stored.finished)
        || differs(phase, &stored.phase)
        || differs(worker, &stored.worker)
        || differs(exit_code, &stored.exit_code)
        || differs(cause, &stored.cause)
        || differs(message, &stored.message)
        || differs(evidence, &stored.evidence)
        || differs(last_lines, &stored.last_lines)
}
