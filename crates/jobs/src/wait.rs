//! Waits until a job has ended, successfully or not, or until a timeout.

use std::time::Duration;

use diagnosis::Cause;
use kube::Client;
use kube::api::DynamicObject;

use crate::progress::{self, Outcome, Progress};
use crate::{Class, Error, JobRef, Kind, describe, view};

/// A job that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The job as last observed.
    pub object: Option<DynamicObject>,
    /// How it ended.
    pub outcome: Outcome,
}

impl Ended {
    /// How this job ended; `None` if it has not.
    #[must_use]
    pub fn of(object: DynamicObject) -> Option<Self> {
        let outcome = view::row(&object).has_ended().then(|| progress::outcome(&object))?;
        Some(Self { object: Some(object), outcome })
    }

    /// Returns the class that determines the exit code; `None` for success.
    pub fn class(&self) -> Option<Class> {
        match &self.outcome {
            Outcome::Succeeded => None,
            Outcome::Failed(failure) if failure.reason == Cause::Cancelled.word() => Some(Class::Cancelled),
            Outcome::Failed(_) => Some(Class::JobFailed),
            Outcome::Deleted => Some(Class::Cancelled),
        }
    }
}

/// Waits until the job has ended; calls `told` for every step on the way.
///
/// # Errors
/// [`Error::StillRunning`] after `timeout`, [`Error::PodsRefused`], [`Error::NotFound`], or the server's refusal.
pub async fn wait(
    client: &Client,
    kind: Kind,
    namespace: &str,
    name: &str,
    timeout: Option<Duration>,
    mut told: impl FnMut(&Progress),
) -> Result<Ended, Error> {
    let mut watch = progress::watch(client, kind, namespace, name).ending_if_refused();
    let ending = async {
        loop {
            match watch.next().await? {
                Some(Progress::Ended(outcome)) => {
                    told(&Progress::Ended(outcome.clone()));
                    return Ok(outcome);
                }
                Some(progress) => told(&progress),
                None => return Err(broke_off(name)),
            }
        }
    };
    let ended = match timeout {
        None => Some(ending.await),
        Some(timeout) => tokio::time::timeout(timeout, ending).await.ok(),
    };
    match ended {
        Some(outcome) => Ok(Ended { outcome: outcome?, object: watch.job().cloned() }),
        None => Err(still_running(&kind.job(namespace, name), watch.job(), timeout.unwrap_or_default())),
    }
}

/// The error about a job that has not ended in the time that somebody waited for it; `seen` is the job as last observed.
#[must_use]
pub fn still_running(job: &JobRef, seen: Option<&DynamicObject>, after: Duration) -> Error {
    Error::StillRunning {
        kind: Kind::named(&job.kind).unwrap_or_default(),
        name: job.name.clone(),
        namespace: job.namespace.clone(),
        state: seen.map_or_else(|| "pending".to_owned(), |seen| view::row(seen).state.in_a_sentence()),
        after,
    }
}

fn broke_off(name: &str) -> Error {
    Error::BrokenStream { what: format!("the watch of {name}"), detail: "the server closed it".to_owned() }
}

/// Returns the exit code of the newest Launcher, for callers that want to pass it on; `None` if it is unknown.
///
/// # Errors
/// The server's refusal to list pods.
pub async fn launcher_exit_code(
    client: &Client,
    kind: Kind,
    namespace: &str,
    name: &str,
) -> Result<Option<i32>, Error> {
    let pods = describe::pods(client, kind, namespace, name).await?;
    let mut launchers: Vec<_> =
        pods.iter().map(describe::pod_view).filter(|pod| pod.role == "launcher").collect();
    launchers.sort_by_key(|pod| pod.created);
    Ok(launchers.iter().rev().find_map(|pod| pod.exit_code))
}
