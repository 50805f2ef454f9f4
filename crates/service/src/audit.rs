//! The audit log of the service: who did what, when, to which job, from where, and with which result.
//!
//! Before something is changed, a line about the request is durable; afterwards, a line about the result. A process
//! that dies in between leaves the first, so nothing that happened is missing. Without the first line nothing is done.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future;
use history::audit::{Actor, Channel, Entry, Stage};
use history::error::Class;
use http::StatusCode;
use jiff::Timestamp;
use tokio::runtime::Handle;

use crate::contract::Method;
use crate::identity::Caller;
use crate::operation::{self, Operation, Subject};
use crate::problem::Problem;
use crate::store::{Kept, Opened};

/// How long an answer waits for the line about its result.
const RESULT_WITHIN: Duration = Duration::from_secs(2);
/// How often that line is tried, and the first wait between two tries, which doubles.
const TRIES: u32 = 7;
const AGAIN: Duration = Duration::from_millis(500);
/// The longest reason in a line, in bytes.
const LONGEST_REASON: usize = 1024;

/// What a request is about, as its fields say.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The resource.
    pub resource: String,
    /// The namespace.
    pub namespace: Option<String>,
    /// The name of the job or of another object.
    pub name: Option<String>,
}

/// The method whose calls are themselves about lines of the log.
const REPORTS: &str = "RecordAdmissions";

/// Whether the log has calls of a method.
pub fn is_recorded(method: &Method, reads: bool) -> bool {
    (reads || method.verb != "GET") && method.name != REPORTS
}

/// Does the work of a call between the two lines about it.
///
/// # Errors
/// 503 if the first line cannot be stored; else the work's own problem.
pub async fn recorded<A>(
    kept: &Kept,
    method: &'static Method,
    caller: &Caller,
    about: About,
    work: impl Future<Output = Result<A, Problem>>,
) -> Result<A, Problem> {
    let opened = kept.opened().map_err(not_done)?;
    let operation =
        operation::current().unwrap_or_else(|| Operation::new(None, None, &http::HeaderMap::new()));
    let entry = Entry {
        at: Timestamp::now(),
        who: Actor { name: caller.user.clone(), groups: caller.groups.clone() },
        verb: method.name.to_owned(),
        resource: about.resource,
        namespace: about.namespace,
        job: about.name,
        channel: Channel::Service,
        address: operation.address.map(|address| address.to_string()),
        program: operation.program.clone(),
        request: operation.id.clone(),
        stage: Stage::RequestReceived,
        status: None,
        reason: None,
        review: None,
    };
    if method.verb != "GET" {
        let stored = opened.audit.append(entry.clone()).await;
        kept.note(&stored);
        stored.map_err(|error| not_done(error.into()))?;
    }
    let entry = Entry { stage: Stage::ResponseComplete, ..entry };
    let mut ending = Ending { opened, entry, operation, open: true };
    let result = work.await;
    let outcome = match &result {
        Ok(_) => (StatusCode::OK.as_u16(), None),
        Err(problem) => (problem.status.as_u16(), Some(format!("{}: {}", problem.reason, problem.message))),
    };
    ending.ended(Some(outcome.0), outcome.1).await;
    result
}

/// The problem of a call that was not carried out, because the log could not have it.
fn not_done(problem: Problem) -> Problem {
    let message = format!("nothing was done, because the audit log cannot be written: {}", problem.message);
    Problem { message, ..problem }
}

/// Appends the line about the result, also if the call is dropped: the client went away, or it took too long.
struct Ending {
    opened: Arc<Opened>,
    entry: Entry,
    operation: Arc<Operation>,
    open: bool,
}

impl Ending {
    async fn ended(&mut self, status: Option<u16>, reason: Option<String>) {
        self.open = false;
        // A task of its own, so that it goes on if this call is dropped now.
        let appended = tokio::spawn(append(self.opened.clone(), self.entries(status, reason)));
        let _ = tokio::time::timeout(RESULT_WITHIN, appended).await;
    }

    fn entries(&self, status: Option<u16>, reason: Option<String>) -> Vec<Entry> {
        let entry =
            Entry { at: Timestamp::now(), status, reason: reason.map(shortened), ..self.entry.clone() };
        let of = |subject: Subject| {
            let (status, reason) = match subject.outcome {
                Some((status, reason)) => (Some(status), Some(reason).filter(|text| !text.is_empty())),
                None => (entry.status, entry.reason.clone()),
            };
            Entry {
                resource: subject.resource.to_owned(),
                job: Some(subject.name),
                status,
                reason: reason.map(shortened),
                ..entry.clone()
            }
        };
        let entries: Vec<Entry> = self.operation.take_subjects().into_iter().map(of).collect();
        if entries.is_empty() { vec![entry] } else { entries }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        // Without a runtime, the process ends.
        let Some(runtime) = Handle::try_current().ok().filter(|_| self.open) else { return };
        let reason =
            "the call was given up before its result was known: the client went away, or it took too long";
        runtime.spawn(append(self.opened.clone(), self.entries(None, Some(reason.to_owned()))));
    }
}

fn shortened(mut text: String) -> String {
    let mut end = text.len().min(LONGEST_REASON);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

/// Appends lines about results; tries again while the store may come back.
async fn append(opened: Arc<Opened>, mut entries: Vec<Entry>) {
    let mut wait = AGAIN;
    for attempt in 1..=TRIES {
        let results = future::join_all(entries.iter().map(|entry| opened.audit.append(entry.clone()))).await;
        let mut left = Vec::new();
        for (entry, result) in entries.into_iter().zip(results) {
            if let Err(error) = result {
                tracing::error!(request = entry.request, %error, attempt, "cannot store the result of a call in the audit log");
                if error.class() != Class::Input {
                    left.push(entry);
                }
            }
        }
        entries = left;
        if entries.is_empty() {
            return;
        }
        tokio::time::sleep(wait).await;
        wait *= 2;
    }
}
