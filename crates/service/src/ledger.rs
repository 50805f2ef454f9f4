//! Records what jobs use, from their pods to the store: every running pod again and again, and the moment of its end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use history::usage::{self, End, MAX_REPORT, Running};
use history::{Error, Store};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::board::{Board, Entry};
use crate::contract::JobRow;
use crate::pods::Facts;
use crate::store::Kept;

/// The maximum number of pods that are remembered.
const MOST_PODS: usize = 262_144;
/// How many intervals a pod may be unseen by all replicas until its end counts as missed, and the least time.
const UNSEEN_INTERVALS: u32 = 24;
const UNSEEN_LEAST: Duration = Duration::from_secs(120);

/// How far a pod has been recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recorded {
    /// It has not ended.
    Open,
    /// Its end is stored.
    Closed,
}

/// The job of a pod.
#[derive(Clone)]
struct Job {
    kind: &'static str,
    uid: String,
    name: String,
    owner: String,
}

impl Job {
    fn of(job: &Entry) -> Self {
        let JobRow { uid, name, owner, .. } = &job.row;
        Self { kind: job.kind.name(), uid: uid.clone(), name: name.clone(), owner: owner.clone() }
    }
}

struct Known {
    facts: Arc<Facts>,
    /// Its job, once known.
    job: Option<Job>,
    gone: Option<Timestamp>,
    recorded: Recorded,
}

/// Records usage.
#[derive(Default)]
pub struct Ledger {
    pods: Mutex<HashMap<String, Known>>,
    wake: Notify,
}

impl Ledger {
    fn pods(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a change of a pod. Quick: it only remembers.
    pub fn hear(&self, facts: &Arc<Facts>, gone: bool) {
        let mut pods = self.pods();
        if pods.len() >= MOST_PODS && !pods.contains_key(&facts.uid) {
            return;
        }
        let known = pods.entry(facts.uid.clone()).or_insert_with(|| Known {
            facts: facts.clone(),
            job: None,
            gone: None,
            recorded: Recorded::Open,
        });
        known.facts = facts.clone();
        if gone {
            known.gone = Some(facts.gone(Timestamp::now()));
        }
        let ends = gone || facts.ended.is_some();
        drop(pods);
        if ends {
            self.wake.notify_one();
        }
    }

    /// Returns the pods of a job that are there.
    pub fn of_job(&self, board: &Board, namespace: &str, name: &str, uid: &str) -> Vec<Arc<Facts>> {
        let named: Vec<Arc<Facts>> = self
            .pods()
            .values()
            .map(|known| &known.facts)
            .filter(|facts| facts.namespace == namespace && facts.job_name() == name)
            .cloned()
            .collect();
        named.into_iter().filter(|facts| facts.job(board).is_some_and(|job| job.row.uid == uid)).collect()
    }

    /// Records until `stop`.
    pub async fn run(
        self: Arc<Self>,
        board: Arc<Board>,
        kept: Kept,
        every: Duration,
        stop: CancellationToken,
    ) {
        let work = async {
            let opened = kept.wait().await;
            loop {
                let recorded = self.record(&board, &opened.store, every).await;
                kept.note(&recorded);
                if let Err(error) = recorded {
                    tracing::warn!(%error, "cannot record usage; trying again");
                    tokio::time::sleep(every).await;
                }
                let _ = tokio::time::timeout(every, self.wake.notified()).await;
            }
        };
        stop.run_until_cancelled(work).await;
    }

    /// Records every pod that runs, and each end once.
    async fn record(&self, board: &Board, store: &Store, every: Duration) -> Result<(), Error> {
        let now = Timestamp::now();
        let (running, ended) = self.due(board);
        for chunk in running.chunks(MAX_REPORT) {
            usage::record(store, chunk, now).await?;
        }
        for chunk in ended.chunks(MAX_REPORT) {
            let (pods, ends): (Vec<Running>, Vec<End>) = chunk.iter().cloned().unzip();
            // If this process dies in between, an end that was missed is not later than the true one.
            let seen = ends.iter().map(|end| end.at).min().unwrap_or(now);
            usage::record(store, &pods, seen).await?;
            usage::ended(store, &ends).await?;
            let mut known = self.pods();
            for pod in pods {
                if let Some(known) = known.get_mut(&pod.source) {
                    known.recorded = Recorded::Closed;
                }
            }
        }
        self.pods().retain(|_, known| {
            known.gone.is_none() || (known.recorded == Recorded::Open && known.job.is_some())
        });
        let unseen =
            SignedDuration::try_from((every * UNSEEN_INTERVALS).max(UNSEEN_LEAST)).unwrap_or_default();
        usage::end_unseen(store, now.checked_sub(unseen).unwrap_or(Timestamp::MIN)).await.map(drop)
    }

    /// Returns the pods that run, and those that have ended since, with their ends.
    fn due(&self, board: &Board) -> (Vec<Running>, Vec<(Running, End)>) {
        let (mut running, mut ended) = (Vec::new(), Vec::new());
        for known in self.pods().values_mut().filter(|known| known.recorded == Recorded::Open) {
            let facts = &known.facts;
            let Some(started) = facts.started else { continue };
            if known.job.is_none() {
                known.job = facts.job(board).map(|job| Job::of(&job));
            }
            let Some(Job { kind, uid, name, owner }) = known.job.clone() else { continue };
            let pod = Running {
                uid,
                source: facts.uid.clone(),
                started,
                kind: kind.to_owned(),
                namespace: facts.namespace.clone(),
                job: name,
                user: owner,
                resources: facts.resources.clone(),
            };
            match facts.ended.or(known.gone) {
                Some(at) => {
                    let end = End { uid: pod.uid.clone(), source: pod.source.clone(), at: at.max(started) };
                    ended.push((pod, end));
                }
                None => running.push(pod),
            }
        }
        (running, ended)
    }
}
