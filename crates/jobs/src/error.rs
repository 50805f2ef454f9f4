//! The only error type of this crate, and the class that decides the exit code.
//!
//! Every error says what is wrong ([`Error::to_string`]), where ([`Fault`]) and what to do ([`Error::advice`]).

use std::fmt;
use std::time::Duration;

use thiserror::Error;

/// The class of an outcome. The exit codes are a stable interface for scripts and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// An error without a class of its own.
    Error,
    /// Invalid usage of the command line.
    Usage,
    /// A named object does not exist.
    NotFound,
    /// The caller is not authenticated or not authorized.
    NotAllowed,
    /// The described job is invalid.
    Invalid,
    /// A quota is exhausted.
    Quota,
    /// An object of that name exists, or the object was changed concurrently.
    Conflict,
    /// The timeout expired while the job was still running.
    StillRunning,
    /// The job ended in failure.
    JobFailed,
    /// The job was cancelled or deleted.
    Cancelled,
    /// The user pressed Ctrl-C, or the process received a termination signal.
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

    /// The class as one CamelCase word, for programs.
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

/// A position in a text: line and column, both counted from 1, columns in characters.
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

/// One thing that is wrong with a job, with its location and a correction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The origin of the text: a file's name, `-` for standard input, empty for flags or the server.
    pub source: String,
    /// Line and column in that text, if known.
    pub position: Option<Position>,
    /// The field of the job or of the request, e.g. `spec.mpiReplicaSpecs[Worker].replicas` or `workers`; empty for
    /// the whole text.
    pub path: String,
    /// What is wrong, as the second half of a sentence that starts with the path.
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

/// Why a request failed.
#[derive(Debug, Error)]
pub enum Error {
    /// The described job is invalid; nothing was created.
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
        /// Where parsing stopped.
        at: Position,
        /// What was wrong there.
        message: String,
        /// The line and a caret below the position, two lines.
        excerpt: String,
        /// A likely cause, if known.
        advice: Option<String>,
    },
    /// No object of that name.
    #[error("{} \"{name}\" not found in namespace \"{namespace}\"", .kind.map_or("training job", Kind::name))]
    NotFound {
        /// What was looked for; `None` for a job of any kind.
        kind: Option<Kind>,
        /// The requested name.
        name: String,
        /// Where it was looked for.
        namespace: String,
        /// The kind of a job that has this name.
        of_kind: Option<Kind>,
        /// The name that was probably meant.
        meant: Option<String>,
    },
    /// The job has no suitable pod.
    #[error("{what}")]
    NoPod {
        /// What was looked for.
        what: String,
        /// What to do.
        advice: Advice,
    },
    /// The server refused the request; its message is made clearer if possible.
    #[error("{message}")]
    Refused {
        /// The class of the refusal.
        class: Class,
        /// The server's reason, e.g. `AlreadyExists`.
        reason: String,
        /// What was refused and why.
        message: String,
        /// What to do about it.
        advice: Option<Advice>,
        /// The invalid fields, if the server named them.
        faults: Vec<Fault>,
    },
    /// The cluster did not answer.
    #[error("cannot reach the cluster: {detail}")]
    Unreachable {
        /// The innermost cause.
        detail: String,
    },
    /// The server's certificate is not one of the cluster that the kubeconfig describes.
    #[error("cannot trust the cluster's certificate: {detail}")]
    Untrusted {
        /// Why, in the words of the TLS library.
        detail: String,
    },
    /// The job did not end within the timeout.
    #[error("{} \"{name}\" is still {state} after {}", .kind.name(), view::duration(*.after))]
    StillRunning {
        /// What was waited for.
        kind: Kind,
        /// The job.
        name: String,
        /// Its namespace.
        namespace: String,
        /// Its state, in a sentence: `running`, `pending (Unschedulable)`.
        state: String,
        /// How long the caller waited.
        after: Duration,
    },
    /// The API server has refused the job's pods for so long that nobody waits for them any more.
    #[error("{} \"{name}\" cannot start as it is: {message}", .kind.name())]
    PodsRefused {
        /// What was waited for.
        kind: Kind,
        /// The job.
        name: String,
        /// Why its pods are refused.
        message: String,
        /// What to do about it, if the status says.
        suggestion: Option<String>,
    },
    /// Deletion was accepted, but parts of the job still exist.
    #[error("{} \"{name}\" is deleted, but after {} these remain: {}", .kind.name(), view::duration(*.after), .left.join(", "))]
    NotCleanedUp {
        /// What was deleted.
        kind: Kind,
        /// The job.
        name: String,
        /// Its namespace.
        namespace: String,
        /// What is left, as `pod/NAME`.
        left: Vec<String>,
        /// How long the caller waited.
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
    /// A stream from the server broke too many times.
    #[error("{what} was cut off: {detail}")]
    BrokenStream {
        /// What was being read.
        what: String,
        /// The last cause.
        detail: String,
    },
    /// A local file or stream could not be read.
    #[error("cannot read {name}: {source}")]
    Read {
        /// Its name.
        name: String,
        /// The I/O error.
        source: std::io::Error,
    },
    /// Any other error of the Kubernetes client.
    #[error("{0}")]
    Client(String),
}

use crate::{Action, Advice, Kind, view};

fn invalid_summary(faults: &[Fault]) -> String {
    match faults {
        [one] => one.to_string(),
        many => format!("found {} errors; nothing was changed", many.len()),
    }
}

impl Error {
    /// The class, which determines the exit code.
    pub fn class(&self) -> Class {
        match self {
            Error::Invalid { .. } | Error::Syntax { .. } | Error::PodsRefused { .. } => Class::Invalid,
            Error::NotFound { .. } | Error::NoPod { .. } => Class::NotFound,
            Error::Refused { class, .. } => *class,
            Error::StillRunning { .. } | Error::NotCleanedUp { .. } => Class::StillRunning,
            Error::Deleted { .. } => Class::Cancelled,
            Error::Read { .. }
            | Error::Unreachable { .. }
            | Error::Untrusted { .. }
            | Error::BrokenStream { .. }
            | Error::Client(_) => Class::Error,
        }
    }

    /// The reason as one CamelCase word, for programs; finer than the class if possible.
    pub fn reason(&self) -> &str {
        match self {
            Error::Syntax { .. } => "Syntax",
            Error::Unreachable { .. } => "Unreachable",
            Error::Untrusted { .. } => "Untrusted",
            Error::NotCleanedUp { .. } => "NotCleanedUp",
            Error::PodsRefused { .. } => "AdmissionRefused",
            Error::Deleted { .. } => "Deleted",
            Error::Read { .. } => "Unreadable",
            Error::BrokenStream { .. } => "BrokenStream",
            Error::Refused { reason, .. } if !reason.is_empty() => reason,
            _ => self.class().reason(),
        }
    }

    /// What to do about it, if known.
    pub fn advice(&self) -> Option<Advice> {
        match self {
            Error::NotFound { of_kind: Some(kind), name, namespace, .. } => Some(
                Advice::from(format!("there is a {} of this name; give its kind", kind.name()))
                    .with(Action::Describe(kind.job(namespace, name))),
            ),
            Error::NotFound { meant: Some(meant), .. } => Some(format!("did you mean \"{meant}\"?").into()),
            Error::NotFound { namespace, .. } => Some(
                Advice::from("list the jobs")
                    .with(Action::list_jobs(namespace))
                    .with(Action::ListJobs { namespace: None, phases: Vec::new() }),
            ),
            Error::NoPod { advice, .. } => Some(advice.clone()),
            Error::Refused { advice, .. } => advice.clone(),
            Error::Syntax { advice, .. } => advice.clone().map(Advice::from),
            Error::PodsRefused { suggestion, .. } => suggestion.clone().map(Advice::from),
            Error::Unreachable { .. } => Some(
                Advice::from("check the kubeconfig and the network, or start a local cluster")
                    .with(Action::StartLocalCluster),
            ),
            Error::Untrusted { .. } => Some(
                "the certificate authority in the kubeconfig (certificate-authority-data or certificate-authority of its \
                 cluster) must be the one that signed the server's certificate, and the certificate must have the host in \
                 server, or tls-server-name: get a current kubeconfig of this cluster"
                    .into(),
            ),
            Error::StillRunning { kind, name, namespace, .. } => {
                Some(Advice::from("to see why").with(Action::Explain(kind.job(namespace, name))))
            }
            Error::NotCleanedUp { kind, name, namespace, .. } => Some(
                Advice::from("a node may be down or a finalizer may be pending")
                    .with(Action::ForceDelete(kind.job(namespace, name))),
            ),
            _ => None,
        }
    }

    /// The faults in this error, if it is about fields.
    pub fn faults(&self) -> &[Fault] {
        match self {
            Error::Invalid { faults } | Error::Refused { faults, .. } => faults,
            _ => &[],
        }
    }
}
