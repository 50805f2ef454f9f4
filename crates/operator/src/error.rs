//! Errors of a pass, and what they mean for the next one.

use std::time::Duration;

/// What a failure means for the next pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The next attempt may succeed.
    Retry,
    /// The server refuses until someone changes something.
    Refused,
    /// The server will never accept the object as it is.
    Invalid,
    /// The object no longer exists.
    Gone,
}

/// Why a pass, or the whole operator, failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server does not know MPIJobs.
    #[error("the cluster does not serve MPIJobs: install deploy/crd/kubeflow.org_mpijobs.yaml first")]
    CrdMissing,
    /// The gang scheduler's PodGroups are not served.
    #[error(
        "the cluster does not serve podgroups in {0}: install the CRDs of that gang scheduler, or omit --gang-scheduling"
    )]
    GangMissing(String),
    /// A request failed.
    #[error("cannot {what}: {source}")]
    Request {
        /// The attempted request.
        what: String,
        /// The server's answer.
        #[source]
        source: kube::Error,
    },
    /// Some children could not be written; each failure was reported in an event.
    #[error("{count} changes failed, the first: {first}")]
    Apply {
        /// The number of failures.
        count: usize,
        /// The first failure.
        first: String,
        /// The worst class among them.
        class: Class,
    },
    /// The definition was written, but the API server does not serve it.
    #[error("the cluster does not serve jobs: {0}")]
    NotServed(String),
    /// The key pair could not be created.
    #[error("cannot create the job's key: {0}")]
    Key(String),
    /// A status could not be serialized.
    #[error("cannot write the status as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Error {
    /// Wraps a failed request, with its purpose.
    pub(crate) fn request(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Request { what, source }
    }

    /// Returns what the failure means for the next pass.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::CrdMissing | Self::GangMissing(_) => Class::Refused,
            Self::Request { source, .. } => classify(source),
            Self::Apply { class, .. } => *class,
            Self::NotServed(_) | Self::Key(_) | Self::Json(_) => Class::Retry,
        }
    }

    /// Logs a failed pass over a job: a warning, unless the job's last pass failed for the same reason. What keeps a job from
    /// being run, such as a policy of the cluster, is met by each of many passes.
    pub(crate) fn log(&self, last: &mut Option<String>) {
        if self.is_news(last) {
            tracing::warn!(class = ?self.class(), error = %self, "reconciliation failed");
        } else {
            tracing::debug!(class = ?self.class(), error = %self, "reconciliation failed again");
        }
    }

    fn is_news(&self, last: &mut Option<String>) -> bool {
        let text = self.to_string();
        last.replace(text.clone()) != Some(text)
    }
}

/// Returns the class of a failed request.
pub(crate) fn classify(error: &kube::Error) -> Class {
    match error {
        kube::Error::Api(status) if status.is_not_found() => Class::Gone,
        kube::Error::Api(status) if status.is_invalid() => Class::Invalid,
        kube::Error::Api(status) if status.is_forbidden() || status.code == 400 => Class::Refused,
        _ => Class::Retry,
    }
}

/// The first wait after a failure that may be temporary.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The first wait after a refusal.
const FIRST_WAIT_REFUSED: Duration = Duration::from_secs(2);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// The longest wait after a refusal: a quota that was freed, or a policy that was changed, lets the job start within
/// seconds, and nothing reports either.
const LONGEST_WAIT_REFUSED: Duration = Duration::from_secs(15);
/// From this many doublings on, every wait is the longest.
const MOST_DOUBLINGS: u32 = 12;

/// Returns how long to wait before the next pass, after `failures` failed ones in a row.
#[must_use]
pub(crate) fn backoff(class: Class, failures: u32) -> Duration {
    let (first, longest) = match class {
        Class::Retry | Class::Gone => (FIRST_WAIT, LONGEST_WAIT),
        Class::Refused => (FIRST_WAIT_REFUSED, LONGEST_WAIT_REFUSED),
        Class::Invalid => (FIRST_WAIT_REFUSED, LONGEST_WAIT),
    };
    let doublings = failures.saturating_sub(1).min(MOST_DOUBLINGS);
    first.saturating_mul(1 << doublings).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_failure_is_a_warning_once() {
        let mut last = None;
        let failed =
            |count: usize| Error::Apply { count, first: "forbidden".to_owned(), class: Class::Refused };
        assert!(failed(2).is_news(&mut last));
        assert!(!failed(2).is_news(&mut last));
        assert!(failed(1).is_news(&mut last), "something has changed");
        assert!(!failed(1).is_news(&mut last));
        last = None;
        assert!(failed(1).is_news(&mut last), "a pass has succeeded in between");
    }

    #[test]
    fn waits_double_up_to_a_bound() {
        let waits: Vec<_> = [1, 2, 3, 100].map(|n| backoff(Class::Retry, n)).into();
        assert_eq!(waits, [100, 200, 400, 300_000].map(Duration::from_millis));
        assert_eq!(backoff(Class::Refused, 1), Duration::from_secs(2));
        assert_eq!(backoff(Class::Refused, u32::MAX), LONGEST_WAIT_REFUSED);
        assert_eq!(backoff(Class::Invalid, u32::MAX), LONGEST_WAIT);
    }
}
