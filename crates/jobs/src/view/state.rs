//! A job's state as every interface shows it: a word for it, how the job is, a sentence about it, and what a person may do
//! with the job in it. Computed here once; the interfaces show these and compute none of their own. Pure.

use std::fmt;

use api::{JobCondition, MPIJobStatus, Phase};
use serde::Serialize;

use crate::Kind;

/// The state of a job that is being deleted.
pub const DELETING: &str = "Deleting";
/// The state of a job that a person has ended, until its operator has ended it.
pub const CANCELLING: &str = "Cancelling";

/// How a job is, in few words: it decides the colour and the shape by which a state is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobHealth {
    /// It has not started yet.
    Waiting,
    /// It was suspended by a person.
    Suspended,
    /// It runs.
    Running,
    /// It hangs, is tried again, or ended with a doubt about its result.
    Degraded,
    /// It has succeeded.
    Succeeded,
    /// It has failed.
    Failed,
    /// A person ended it.
    Cancelled,
    /// It is being deleted, or ended by a person.
    Deleting,
}

/// What a person may do with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobAction {
    /// Suspend it.
    Suspend,
    /// Resume it.
    Resume,
    /// End it for good.
    Cancel,
    /// Run it again.
    Retry,
    /// Delete it.
    Delete,
}

impl JobAction {
    const ALL: [JobAction; 5] =
        [JobAction::Suspend, JobAction::Resume, JobAction::Cancel, JobAction::Retry, JobAction::Delete];

    /// The word for it, as in the contract.
    pub fn word(self) -> &'static str {
        match self {
            JobAction::Suspend => "suspend",
            JobAction::Resume => "resume",
            JobAction::Cancel => "cancel",
            JobAction::Retry => "retry",
            JobAction::Delete => "delete",
        }
    }
}

/// A state: a word, and what is most worth knowing about it. As text, `Pending (ImagePull)`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct JobState {
    /// The phase, or `Retrying`, `Cancelling`, `Cancelled`, `Deleting`.
    pub word: String,
    /// The reason or the cause.
    pub detail: Option<String>,
}

impl JobState {
    /// As part of a sentence: `pending (ImagePull)`.
    pub fn in_a_sentence(&self) -> String {
        JobState { word: self.word.to_lowercase(), detail: self.detail.clone() }.to_string()
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Some(detail) => write!(f, "{} ({detail})", self.word),
            None => f.write_str(&self.word),
        }
    }
}

impl From<JobState> for String {
    fn from(state: JobState) -> String {
        state.to_string()
    }
}

/// What a state follows from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    pub(super) kind: Kind,
    pub(super) phase: Phase,
    pub(super) reason: Option<&'a str>,
    pub(super) cause: Option<&'a str>,
    pub(super) deleting: bool,
    /// Whether a person asked for its end.
    pub(super) cancel: bool,
}

impl Facts<'_> {
    fn ended(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    fn is_retried(&self) -> bool {
        self.phase == Phase::Running && self.reason == Some(api::PHASE_REASON_RETRYING)
    }

    fn is_cancelled(&self) -> bool {
        self.phase == Phase::Failed && self.reason == Some(diagnosis::Cause::Cancelled.word())
    }

    fn is_cancelling(&self) -> bool {
        self.cancel && !self.ended() && !self.deleting
    }

    fn is_suspended(&self) -> bool {
        self.phase == Phase::Pending && self.reason == Some(api::PHASE_REASON_SUSPENDED)
    }

    fn is_queued(&self) -> bool {
        self.phase == Phase::Pending && self.reason == Some(api::PHASE_REASON_QUEUED)
    }

    /// The state's word, and what is most worth knowing about it.
    pub(super) fn state(&self) -> JobState {
        let Facts { kind: _, phase, reason, cause, deleting, cancel: _ } = *self;
        let (word, detail) = match (phase, reason) {
            _ if deleting => (DELETING, None),
            _ if self.is_cancelling() => (CANCELLING, None),
            _ if self.is_cancelled() => (diagnosis::Cause::Cancelled.word(), None),
            _ if self.is_retried() => (api::PHASE_REASON_RETRYING, cause),
            (Phase::Pending, None | Some(api::PHASE_REASON_INITIALIZING)) => {
                (super::phase_name(phase), cause.or(reason))
            }
            (Phase::Running | Phase::Succeeded, _) => (super::phase_name(phase), cause),
            (Phase::Pending | Phase::Failed, reason) => (super::phase_name(phase), reason),
        };
        JobState { word: word.to_owned(), detail: detail.map(str::to_owned) }
    }

    /// How the job is.
    pub(super) fn health(&self) -> JobHealth {
        match self.phase {
            _ if self.deleting || self.is_cancelling() => JobHealth::Deleting,
            _ if self.is_cancelled() => JobHealth::Cancelled,
            _ if self.is_suspended() => JobHealth::Suspended,
            Phase::Pending => JobHealth::Waiting,
            Phase::Running | Phase::Succeeded if self.cause.is_some() => JobHealth::Degraded,
            Phase::Running if self.is_retried() => JobHealth::Degraded,
            Phase::Running => JobHealth::Running,
            Phase::Succeeded => JobHealth::Succeeded,
            Phase::Failed => JobHealth::Failed,
        }
    }

    /// What a person may do with the job. Whether the person has the permission is another question.
    pub(super) fn actions(&self) -> Vec<JobAction> {
        JobAction::ALL.into_iter().filter(|action| self.permits(*action)).collect()
    }

    fn permits(&self, action: JobAction) -> bool {
        match action {
            // What is already held by its queue is not suspended once more, and only the queue lets it go.
            JobAction::Suspend => {
                !self.ended()
                    && !self.deleting
                    && !self.is_cancelling()
                    && !self.is_suspended()
                    && !self.is_queued()
            }
            JobAction::Resume => self.is_suspended() && !self.deleting && !self.is_cancelling(),
            JobAction::Cancel => {
                !self.ended() && !self.deleting && !self.is_cancelling() && self.kind == Kind::MpiJob
            }
            JobAction::Retry => self.ended(),
            JobAction::Delete => !self.deleting,
        }
    }

    /// A sentence about the state: why the job failed, what it waits for, or what is wrong with it. `None` if there is
    /// nothing to say but the state itself.
    pub(super) fn message(&self, status: &MPIJobStatus) -> Option<String> {
        let of = |type_: &str, value: &str| condition(status, type_, value)?.message.clone();
        let waiting = || status.waiting.as_ref().map(|waiting| waiting.message.clone());
        let message = match self.phase {
            Phase::Failed => {
                let failure = status.failure.as_ref().map(|failure| failure.message.clone());
                failure.or_else(|| of(api::CONDITION_FAILED, "True"))
            }
            Phase::Pending if self.is_suspended() => Some(SUSPENDED.to_owned()),
            Phase::Pending if self.is_queued() => waiting().or_else(|| Some(QUEUED.to_owned())),
            Phase::Pending if self.reason == Some(api::PHASE_REASON_RESTARTING) => {
                of(api::CONDITION_RESTARTING, "True").or_else(waiting)
            }
            Phase::Pending => waiting(),
            Phase::Running if self.is_retried() => waiting(),
            Phase::Running if self.cause.is_some() => of(api::CONDITION_STALLED, "True"),
            Phase::Running => None,
            Phase::Succeeded => of(api::CONDITION_WORLD_VERIFIED, "False"),
        };
        message.filter(|message| !message.trim().is_empty())
    }
}

/// What a suspended job waits for.
pub(crate) const SUSPENDED: &str = "it is suspended until a queue or a user resumes it";
const QUEUED: &str = "it waits until its queue admits it";

fn condition<'s>(status: &'s MPIJobStatus, type_: &str, value: &str) -> Option<&'s JobCondition> {
    status.conditions.iter().find(|condition| condition.type_ == type_ && condition.status == value)
}

/// Why a job runs or succeeded and yet is not as it should be: a cause, `Stalled` if nothing is known but its silence, or
/// the reason for which its ranks were not where they should have been.
pub(super) fn doubt(phase: Phase, status: &MPIJobStatus) -> Option<String> {
    match phase {
        Phase::Running => {
            let reason = condition(status, api::CONDITION_STALLED, "True")?.reason.clone()?;
            let known =
                diagnosis::Cause::of_word(&reason).filter(|cause| *cause != diagnosis::Cause::SilentHang);
            Some(known.map_or(api::CONDITION_STALLED, diagnosis::Cause::word).to_owned())
        }
        Phase::Succeeded => condition(status, api::CONDITION_WORLD_VERIFIED, "False")?.reason.clone(),
        Phase::Pending | Phase::Failed => None,
    }
}
