//! The one error of this crate, and the class that decides the exit code.
//!
//! Every error says what is wrong, where, and what to do: [`Error::to_string`] is the first, [`Fault`] the second,
//! [`Error::hint`] the third.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

/// What kind of ending this is; the numbers are promised to scripts and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Anything that has no class of its own.
    Error,
    /// The command line is wrong.
    Usage,
    /// A named object does not exist.
    NotFound,
    /// The caller may not do this, or is not known to the cluster.
    NotAllowed,
    /// The job as described cannot be right.
    Invalid,
    /// A quota is used up.
    Quota,
    /// Something of that name exists, or was changed meanwhile.
    Conflict,
    /// The time to wait is over and the job is still under way.
    StillRunning,
    /// The job ended in failure.
    JobFailed,
    /// The job was cancelled or deleted.
    Cancelled,
    /// The person pressed Ctrl-C, or the process was told to end.
    Interrupted,
}

impl Class {
    /// The process exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Class::Error => 1,
            Class::Usage => 2,
            Class::NotFound => 3,
            Class::NotAllowed => 4,
            Class::Invalid => 5,
            Class::Quota => 6,
            Class::Conflict => 7,
            Class::StillRunning => 8,
            Class::JobFailed => 100,
            Class::Cancelled => 103,
            Class::Interrupted => 130,
        }
    }

    /// One CamelCase word for programs.
    pub fn reason(self) -> &'static str {
        match self {
            Class::Error => "Error",
            Class::Usage => "Usage",
            Class::NotFound => "NotFound",
            Class::NotAllowed => "NotAllowed",
            Class::Invalid => "Invalid",
            Class::Quota => "QuotaExceeded",
            Class::Conflict => "Conflict",
            Class::StillRunning => "StillRunning",
            Class::JobFailed => "JobFailed",
            Class::Cancelled => "Cancelled",
            Class::Interrupted => "Interrupted",
        }
    }
}

/// A place in a text: line and column, both counted from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One thing that is wrong with a job, where it stands, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where the text came from: a file's name, `-` for standard input, empty for flags or the server.
    pub source: String,
    /// Line and column in that text, where there is one.
    pub position: Option<Position>,
    /// The field, e.g. `spec.mpiReplicaSpecs[Worker].replicas`; empty for the text as a whole.
    pub path: String,
    /// What is wrong, as the second half of a sentence that begins with the path.
    pub message: String,
    /// What to write instead.
    pub advice: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.source[..], self.position) {
            ("", _) => {}
            (source, Some(at)) => write!(f, "{source}:{at}: ")?,
            (source, None) => write!(f, "{source}: ")?,
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

/// Why something asked for did not happen.
#[derive(Debug, Error)]
pub enum Error {
    /// The job as described cannot be right; nothing was created.
    #[error("{}", invalid_summary(.faults))]
    Invalid {
        /// Every fault found, in reading order.
        faults: Vec<Fault>,
    },
    /// The text is not YAML or JSON.
    #[error("{source_name}:{at}: {message}")]
    Syntax {
        /// The file's name, or `-`.
        source_name: String,
        /// Where reading stopped.
        at: Position,
        /// What was wrong there.
        message: String,
        /// The line and a caret under the place, two lines.
        excerpt: String,
        /// A likely cause, where one is known.
        advice: Option<String>,
    },
    /// No object of that name.
    #[error("{} \"{name}\" not found in namespace \"{namespace}\"", .kind.name())]
    NotFound {
        /// What was looked for.
        kind: Kind,
        /// The name asked for.
        name: String,
        /// Where it was looked for.
        namespace: String,
        /// The name that was probably meant.
        meant: Option<String>,
    },
    /// No pod of the job to speak of.
    #[error("{what}")]
    NoPod {
        /// What was looked for.
        what: String,
        /// What to do.
        advice: String,
    },
    /// The server said no, in words that were made clear where possible.
    #[error("{message}")]
    Refused {
        /// What kind of refusal.
        class: Class,
        /// The server's own reason word, e.g. `AlreadyExists`.
        reason: String,
        /// What was refused and why.
        message: String,
        /// What to do about it.
        advice: Option<String>,
        /// The fields at fault, where the server named them.
        faults: Vec<Fault>,
    },
    /// No answer from the cluster.
    #[error("cannot reach the cluster: {detail}")]
    Unreachable {
        /// The innermost cause.
        detail: String,
    },
    /// The job has not ended in the time given.
    #[error("{} \"{name}\" is still {phase} after {}", .kind.name(), view::duration(*.after))]
    StillRunning {
        /// What was waited for.
        kind: Kind,
        /// The job.
        name: String,
        /// Its namespace.
        namespace: String,
        /// Its phase, in lower case.
        phase: String,
        /// How long was waited.
        after: Duration,
    },
    /// Deletion was accepted, but parts of the job still exist.
    #[error("{} \"{name}\" is deleted, but after {} these remain: {}", .kind.name(), view::duration(*.after), .left.join(", "))]
    NotCleanedUp {
        /// What was deleted.
        kind: Kind,
        /// The job.
        name: String,
        /// What is left, as `pod/NAME`.
        left: Vec<String>,
        /// How long was waited.
        after: Duration,
    },
    /// The job was deleted while it was being watched.
    #[error("{} \"{name}\" was deleted", .kind.name())]
    Deleted {
        /// What was deleted.
        kind: Kind,
        /// The job.
        name: String,
    },
    /// A stream from the server broke too often.
    #[error("{what} broke off: {detail}")]
    BrokenStream {
        /// What was being read.
        what: String,
        /// The last cause.
        detail: String,
    },
    /// A local file or stream could not be read.
    #[error("cannot read {name}: {source}")]
    Read {
        /// Which.
        name: String,
        /// Why.
        source: std::io::Error,
    },
    /// Everything else that a Kubernetes client can say.
    #[error("{0}")]
    Client(String),
}

use crate::{Kind, view};

fn invalid_summary(faults: &[Fault]) -> String {
    match faults {
        [one] => one.to_string(),
        many => format!("{} things are wrong; nothing was created", many.len()),
    }
}

impl Error {
    /// The class, from which the exit code follows.
    pub fn class(&self) -> Class {
        match self {
            Error::Invalid { .. } | Error::Syntax { .. } => Class::Invalid,
            Error::NotFound { .. } | Error::NoPod { .. } => Class::NotFound,
            Error::Refused { class, .. } => *class,
            Error::StillRunning { .. } | Error::NotCleanedUp { .. } => Class::StillRunning,
            Error::Deleted { .. } => Class::Cancelled,
            Error::Read { .. }
            | Error::Unreachable { .. }
            | Error::BrokenStream { .. }
            | Error::Client(_) => Class::Error,
        }
    }

    /// One CamelCase word for programs; finer than the class where something finer is known.
    pub fn reason(&self) -> &str {
        match self {
            Error::Syntax { .. } => "Syntax",
            Error::Unreachable { .. } => "Unreachable",
            Error::NotCleanedUp { .. } => "NotCleanedUp",
            Error::Deleted { .. } => "Deleted",
            Error::Read { .. } => "Unreadable",
            Error::BrokenStream { .. } => "BrokenStream",
            Error::Refused { reason, .. } if !reason.is_empty() => reason,
            _ => self.class().reason(),
        }
    }

    /// What to do about it, where something is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::NotFound { meant: Some(meant), .. } => Some(format!("did you mean \"{meant}\"?")),
            Error::NotFound { namespace, .. } => Some(format!(
                "see what is there: odh training list -n {namespace}, or in all namespaces with -A"
            )),
            Error::NoPod { advice, .. } => Some(advice.clone()),
            Error::Syntax { advice, .. } | Error::Refused { advice, .. } => advice.clone(),
            Error::Unreachable { .. } => Some(
                "check the kubeconfig and the network, or start a local cluster: odh local up".to_owned(),
            ),
            Error::StillRunning { kind, name, namespace, .. } => Some(format!(
                "what it waits for, or does: odh training explain {} {name} -n {namespace}",
                kind.word()
            )),
            Error::NotCleanedUp { .. } => Some(
                "a node may be down or a finalizer may wait; --force deletes without a grace period"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// The faults that this error carries, if it is about fields.
    pub fn faults(&self) -> &[Fault] {
        match self {
            Error::Invalid { faults } | Error::Refused { faults, .. } => faults,
            _ => &[],
        }
    }
}
