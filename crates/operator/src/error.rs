//! What can go wrong in a pass, and what that means for the next one.

use std::time::Duration;

/// What a failure means for the next pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It may work the next time.
    Retry,
    /// The server will say no again until someone changes something.
    Refused,
    /// The server will never take the object as it is.
    Invalid,
    /// The object is no more.
    Gone,
}

/// Why a pass, or the whole operator, failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server does not know MPIJobs.
    #[error("the cluster does not know MPIJobs: install deploy/crd/kubeflow.org_mpijobs.yaml first")]
    CrdMissing,
    /// The gang scheduler's PodGroups are not served.
    #[error(
        "the cluster serves no podgroups in {0}: install that gang scheduler's definitions, or leave out --gang-scheduling"
    )]
    GangMissing(String),
    /// A request failed.
    #[error("cannot {what}: {source}")]
    Request {
        /// What was tried.
        what: String,
        /// What came back.
        #[source]
        source: kube::Error,
    },
    /// Children could not be written; each was told in an event.
    #[error("{count} changes failed, the first: {first}")]
    Apply {
        /// How many.
        count: usize,
        /// The first of them.
        first: String,
        /// The worst class among them.
        class: Class,
    },
    /// The definition was written, but MPIJobs are not served.
    #[error("the cluster does not serve MPIJobs: {0}")]
    NotServed(String),
    /// No key could be made.
    #[error("cannot make the job's key: {0}")]
    Key(String),
    /// A status did not become JSON.
    #[error("cannot write the status as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Error {
    /// A failed request, with what it was for.
    pub(crate) fn request(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Request { what, source }
    }

    /// What the failure means.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::CrdMissing | Self::GangMissing(_) => Class::Refused,
            Self::Request { source, .. } => classify(source),
            Self::Apply { class, .. } => *class,
            Self::NotServed(_) | Self::Key(_) | Self::Json(_) => Class::Retry,
        }
    }
}

/// The class of a failed request.
pub(crate) fn classify(error: &kube::Error) -> Class {
    match error {
        kube::Error::Api(status) if status.is_not_found() => Class::Gone,
        kube::Error::Api(status) if status.is_invalid() => Class::Invalid,
        kube::Error::Api(status) if status.is_forbidden() || status.code == 400 => Class::Refused,
        _ => Class::Retry,
    }
}

/// The first wait after a failure that may pass.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The first wait after a refusal.
const FIRST_WAIT_REFUSED: Duration = Duration::from_secs(2);
/// No wait is longer.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// Beyond this many doublings every wait is the longest.
const MOST_DOUBLINGS: u32 = 12;

/// How long to wait before the next pass, after `failures` failed ones in a row.
#[must_use]
pub(crate) fn backoff(class: Class, failures: u32) -> Duration {
    let first = match class {
        Class::Retry | Class::Gone => FIRST_WAIT,
        Class::Refused | Class::Invalid => FIRST_WAIT_REFUSED,
    };
    let doublings = failures.saturating_sub(1).min(MOST_DOUBLINGS);
    first.saturating_mul(1 << doublings).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound() {
        let waits: Vec<_> = [1, 2, 3, 100].map(|n| backoff(Class::Retry, n)).into();
        assert_eq!(waits, [100, 200, 400, 300_000].map(Duration::from_millis));
        assert_eq!(backoff(Class::Refused, 1), Duration::from_secs(2));
        assert_eq!(backoff(Class::Refused, u32::MAX), LONGEST_WAIT);
    }
}
