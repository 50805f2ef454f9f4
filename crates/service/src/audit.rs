//! The audit log of the service: who did what, when, to which job, from where, and with which result.
//!
//! Before something is changed, a line about the request is durable; afterwards, a line about the result. A process
//! that dies in between leaves the first, so nothing that happened is missing. Without the first line nothing is done.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use connections::share_of;
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
/// Methods that change nothing, though their requests have bodies.
const LOOKS: [&str; 2] = ["RenderJob", "CheckAvailability"];
/// How long refusals of one kind are counted before their number becomes a line, and how many kinds are counted at a time.
const COUNTED_FOR: Duration = Duration::from_secs(60);
const MOST_COUNTED: usize = 4_000;
/// The number of kinds counted separately for one user: anyone can name namespaces that do not exist. Beyond it, the
/// refusals of a method are one kind.
const MOST_OF_USER: usize = 20;
/// No namespace's name, for refusals that are not told apart by namespace.
const ANY_NAMESPACE: &str = "*";

/// Whether the log has calls of a method: those that change something, and with `reads` all others, too.
pub fn is_recorded(method: &Method, reads: bool, is_dry_run: bool) -> bool {
    let changes = method.verb != "GET" && !LOOKS.contains(&method.name) && !is_dry_run;
    (reads || changes) && method.name != REPORTS
}

/// Refusals that are counted: who asks again and again for what is not allowed would fill the log with nothing else.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<HashMap<Refusal, u64>>);

/// The user, the method and the namespace of a refused call.
type Refusal = (String, &'static str, Option<String>);

/// Whether a refusal becomes a line of its own.
#[derive(Debug, PartialEq, Eq)]
enum Noted {
    /// It does, and the next ones are counted as this kind.
    First(Refusal),
    /// It is counted.
    Counted,
    /// It does: too many others are counted.
    Alone,
}

impl Refusals {
    fn lock(&self) -> MutexGuard<'_, HashMap<Refusal, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, refusal: &Refusal) -> Noted {
        let share = share_of(&refusal.0);
        let rest: Refusal = (share.to_owned(), refusal.1, Some(ANY_NAMESPACE.to_owned()));
        let mut counted = self.lock();
        for known in [refusal, &rest] {
            if let Some(count) = counted.get_mut(known) {
                *count += 1;
                return Noted::Counted;
            }
        }
        if counted.len() >= MOST_COUNTED {
            return Noted::Alone;
        }
        let told_apart = counted.keys().filter(|(user, ..)| share_of(user) == share).count();
        let kind = if told_apart < MOST_OF_USER { refusal.clone() } else { rest };
        counted.insert(kind.clone(), 0);
        Noted::First(kind)
    }

    /// Ends the count; the next refusal is a line of its own again.
    fn take(&self, refusal: &Refusal) -> u64 {
        self.lock().remove(refusal).unwrap_or_default()
    }
}

/// Records a call that was refused before anything was done: the first of a kind at once, and the number of the others when they
/// were counted for a minute.
pub async fn refused(
    kept: &Kept,
    refusals: &Arc<Refusals>,
    method: &'static Method,
    caller: &Caller,
    about: About,
    problem: &Problem,
) {
    // Nothing was done, so the answer does not depend on the log.
    let Ok(opened) = kept.opened() else { return };
    let refusal: Refusal = (caller.user.clone(), method.name, about.namespace.clone());
    let noted = refusals.note(&refusal);
    if noted == Noted::Counted {
        return;
    }
    let operation = current();
    let reason = format!("{}: {}", problem.reason, problem.message);
    let entry = Entry { stage: Stage::ResponseComplete, ..entry(method, caller, about, &operation) };
    if let Noted::First(kind) = noted {
        let (opened, refusals, reason) = (opened.clone(), refusals.clone(), reason.clone());
        let is_rest = kind.2.as_deref() == Some(ANY_NAMESPACE);
        let namespace = if is_rest { None } else { entry.namespace.clone() };
        let entry = Entry { job: None, namespace, status: Some(problem.status.as_u16()), ..entry.clone() };
        tokio::spawn(async move {
            tokio::time::sleep(COUNTED_FOR).await;
            let more = refusals.take(&kind);
            if more > 0 {
                let of = if is_rest { " in any namespace, of all with the same limits" } else { "" };
                let reason = Some(shortened(format!("{more} more within a minute{of}: {reason}")));
                append(opened, vec![Entry { at: Timestamp::now(), reason, ..entry }]).await;
            }
        });
    }
    let mut ending = Ending { opened, entry, operation, open: true };
    ending.ended(Some(problem.status.as_u16()), Some(reason)).await;
}

/// What is known of the request that is being answered.
fn current() -> Arc<Operation> {
    operation::current().unwrap_or_else(|| Operation::new(None, None, &http::HeaderMap::new()))
}

/// The line about a request, before anything is done.
fn entry(method: &Method, caller: &Caller, about: About, operation: &Operation) -> Entry {
    Entry {
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
    }
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
    let operation = current();
    let entry = entry(method, caller, about, &operation);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_one_kind_are_counted_and_those_of_others_are_not_lost() {
        let refusals = Refusals::default();
        let of = |user: &str| (user.to_owned(), "CreateJob", Some("team".to_owned()));
        let first = |user: &str| Noted::First(of(user));
        let noted: Vec<Noted> = (0..3).map(|_| refusals.note(&of("joe"))).collect();
        assert_eq!(noted, [first("joe"), Noted::Counted, Noted::Counted]);
        assert_eq!(refusals.note(&of("jane")), first("jane"));
        assert_eq!(refusals.take(&of("joe")), 2);
        assert_eq!((refusals.take(&of("jane")), refusals.note(&of("joe"))), (0, first("joe")));
        for user in 0..MOST_COUNTED {
            refusals.note(&of(&user.to_string()));
        }
        assert_eq!(refusals.note(&of("one too many")), Noted::Alone);
    }

    #[test]
    fn a_user_who_invents_namespaces_has_few_lines_and_leaves_the_counting_of_others_alone() {
        let refusals = Refusals::default();
        let of = |user: &str, number: usize| (user.to_owned(), "CreateJob", Some(format!("none-{number}")));
        let noted = (0..3 * MOST_COUNTED).map(|number| refusals.note(&of("joe", number)));
        let lines = noted.filter(|noted| *noted != Noted::Counted).count();
        assert_eq!(lines, MOST_OF_USER + 1, "one for all others");
        let rest = ("joe".to_owned(), "CreateJob", Some(ANY_NAMESPACE.to_owned()));
        assert_eq!(refusals.take(&rest), (3 * MOST_COUNTED - lines) as u64);
        assert_eq!(refusals.note(&of("jane", 0)), Noted::First(of("jane", 0)));
        assert_eq!(refusals.note(&of("jane", 0)), Noted::Counted);
        // A user who may create service accounts in a namespace has no more lines for it.
        let account = |number: usize| (format!("system:serviceaccount:team:bot-{number}"), "CreateJob", None);
        let noted = (0..MOST_COUNTED).map(|number| refusals.note(&account(number)));
        assert_eq!(noted.filter(|noted| *noted != Noted::Counted).count(), MOST_OF_USER + 1);
    }
}
