//! Whose a cause is: who must act, and whether another attempt at the same job can help.

use serde::Serialize;

use super::Cause;

/// Who must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Actor {
    /// Nobody: it goes on by itself.
    Nobody,
    /// Whoever wrote the job.
    User,
    /// Whoever runs the cluster or its queues.
    Administrator,
}

impl Cause {
    /// The cause with this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|cause| cause.word() == word)
    }

    /// Who must act on it.
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

    /// Whether the cluster, and not the job, is to blame: the same job, started anew, may well succeed.
    #[must_use]
    pub fn is_infrastructure(self) -> bool {
        matches!(self, Self::Evicted | Self::Preempted | Self::NodeLost | Self::WorkerLost | Self::DaemonLost)
    }
}
