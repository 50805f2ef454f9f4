//! The back-off before a Job replaces failed pods: 10 s, doubling with each failure since the last success, at most 10
//! min. Pure.
//!
//! Rule: `pkg/controller/job/backoff_utils.go` of Kubernetes 1.36. As upstream, the record is kept in memory. After a
//! restart it is rebuilt from the pods that still exist.

use std::time::Duration;

use jiff::Timestamp;

use controller_runtime::queue::doubled;

/// `DefaultJobPodFailureBackOff`.
const FIRST: Duration = Duration::from_secs(10);
/// `MaxJobPodFailureBackOff`.
const MAX: Duration = Duration::from_secs(600);

/// The failures since the last success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Backoff {
    /// Failed pods since a pod last succeeded.
    pub failures: u32,
    /// When the last of them failed.
    pub last_failure: Option<Timestamp>,
}

impl Backoff {
    /// Returns the record after pods succeeded and failed at these times.
    pub fn after(self, succeeded: &[Timestamp], failed: &[Timestamp]) -> Self {
        let Some(&latest) = failed.iter().max() else {
            return if succeeded.is_empty() { self } else { Self::default() };
        };
        let since = |from: &Timestamp| failed.iter().filter(|at| *at > from).count();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        match succeeded.iter().max() {
            Some(success) if since(success) == 0 => Self::default(),
            Some(success) => Self { failures: count(since(success)), last_failure: Some(latest) },
            None => Self {
                failures: self.failures.saturating_add(count(failed.len())),
                last_failure: Some(self.last_failure.map_or(latest, |known| known.max(latest))),
            },
        }
    }

    /// Returns how much longer to wait; `None` if not at all.
    pub fn remaining(self, now: Timestamp) -> Option<Duration> {
        let wait = doubled(FIRST, self.failures.checked_sub(1)?, MAX);
        let passed = Duration::try_from(now.duration_since(self.last_failure?)).unwrap_or_default();
        wait.checked_sub(passed).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn waits_double_up_to_ten_minutes() {
        let seconds: Vec<u64> = (0..9)
            .map(|failures| {
                let record = Backoff { failures, last_failure: Some(at(100)) };
                record.remaining(at(100)).map_or(0, |left| left.as_secs())
            })
            .collect();
        assert_eq!(seconds, [0, 10, 20, 40, 80, 160, 320, 600, 600]);
        let record = Backoff { failures: 2, last_failure: Some(at(100)) };
        assert_eq!(record.remaining(at(105)), Some(Duration::from_secs(15)));
        assert_eq!(record.remaining(at(120)), None);
    }

    #[test]
    fn a_success_resets_the_backoff() {
        let two = Backoff::default().after(&[], &[at(1), at(2)]);
        assert_eq!(two, Backoff { failures: 2, last_failure: Some(at(2)) });
        assert_eq!(two.after(&[], &[at(9)]), Backoff { failures: 3, last_failure: Some(at(9)) });
        assert_eq!(two.after(&[at(5)], &[at(4), at(9)]), Backoff { failures: 1, last_failure: Some(at(9)) });
        assert_eq!(two.after(&[at(5)], &[at(4)]), Backoff::default());
        assert_eq!(two.after(&[at(5)], &[]), Backoff::default());
        assert_eq!(two.after(&[], &[]), two);
    }
}
