//! Who must act on a cause, and whether another attempt at the same job can help.

use serde::Serialize;

use super::Cause;

/// Who must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Actor {
    /// Nobody: it goes on by itself.
    Nobody,
    /// The author of the job.
    User,
    /// The administrator of the cluster or its queues.
    Administrator,
}

impl Cause {
    /// Returns the cause with this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|cause| cause.word() == word)
    }

    /// Returns who must act on it.
    #[must_use]
    pub fn actor(self) -> Actor {
        match self {
            Self::Unschedulable
            | Self::QuotaExceeded
            | Self::Evicted
            | Self::Preempted
            | Self::NodeLost
            | Self::WorkerLost
            | Self::DaemonLost
            | Self::ConnectionTimeout
            | Self::PeerUnreachable
            | Self::CallbackBlocked => Actor::Administrator,
            _ => Actor::User,
        }
    }

    /// Whether the cluster, and not the job, is to blame, so that the same job may succeed if run again.
    #[must_use]
    pub fn is_infrastructure(self) -> bool {
        matches!(self, Self::Evicted | Self::Preempted | Self::NodeLost | Self::WorkerLost | Self::DaemonLost)
    }
}
