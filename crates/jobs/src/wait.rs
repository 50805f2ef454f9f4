//! Waits until a job has ended, successfully or not, or until a timeout.

use std::time::Duration;

use diagnosis::Cause;
use kube::Client;
use kube::api::DynamicObject;

use crate::progress::{self, Outcome, Progress};
use crate::{Class, Error, Kind, describe, view};

/// A job that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The job as last observed.
    pub object: Option<DynamicObject>,
    /// How it ended.
    pub outcome: Outcome,
}

impl Ended {
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
        None => Err(Error::StillRunning {
            kind,
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            phase: watch.job().map_or("pending", |job| view::phase_name(view::row(job).phase)).to_lowercase(),
            after: timeout.unwrap_or_default(),
        }),
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
