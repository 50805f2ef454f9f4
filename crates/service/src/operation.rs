//! One request from its arrival to its answer: its id, which the answer carries, where it came from, and the jobs that
//! it turned out to be about. Everything that runs for the request finds it as a value of its task.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use connections::{Slot, share_of};
use http::header::{ETAG, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Response};

/// The header of an answer with the id of its request.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The maximum length of a program's name.
const LONGEST_PROGRAM: usize = 64;
/// The maximum number of jobs that one request may turn out to be about.
const MOST_SUBJECTS: usize = 1_000;

tokio::task_local! {
    static CURRENT: Arc<Operation>;
}

/// A request.
#[derive(Debug)]
pub struct Operation {
    /// Its id, created here: a client that chose it could mix its lines in the audit log with those of others.
    pub id: String,
    /// The client's address, if it came over a connection.
    pub address: Option<SocketAddr>,
    /// The program that sent it, as it names itself.
    pub program: Option<String>,
    /// The connection that it came over.
    slot: Option<Arc<Slot>>,
    /// The share of its caller, once it is known.
    share: OnceLock<String>,
    subjects: Mutex<Vec<Subject>>,
    /// The state of the object that is read.
    tag: Mutex<Option<String>>,
}

/// What a request changed, where its own fields do not say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The resource: `mpijobs`.
    pub resource: &'static str,
    /// The name of the object.
    pub name: String,
    /// The HTTP status and the reason of a failure, if it differs from that of the whole request.
    pub outcome: Option<(u16, String)>,
}

impl Operation {
    /// Creates it for a request from an address, over a connection.
    pub fn new(address: Option<SocketAddr>, slot: Option<Arc<Slot>>, headers: &HeaderMap) -> Arc<Self> {
        let id = uuid::Uuid::new_v4().to_string();
        Arc::new(Self {
            id,
            address,
            program: program(headers),
            slot,
            share: OnceLock::new(),
            subjects: Mutex::default(),
            tag: Mutex::default(),
        })
    }

    /// Runs what answers the request, and puts the id into the answer.
    pub async fn answer<B, E>(
        self: Arc<Self>,
        work: impl Future<Output = Result<Response<B>, E>>,
    ) -> Result<Response<B>, E> {
        let id = HeaderValue::from_str(&self.id);
        let mut response = CURRENT.scope(self.clone(), work).await?;
        let tag = self.tag.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(tag) = tag.and_then(|tag| HeaderValue::try_from(tag).ok()) {
            response.headers_mut().insert(ETAG, tag);
        }
        if let Ok(id) = id {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        Ok(response)
    }

    /// Takes the subjects.
    pub fn take_subjects(&self) -> Vec<Subject> {
        std::mem::take(&mut *self.subjects.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the name of the program that sends these headers: that of its `User-Agent`, and `dashboard` for a browser, which
/// no program can keep from sending `Sec-Fetch-Site` (W3C, Fetch Metadata Request Headers).
fn program(headers: &HeaderMap) -> Option<String> {
    if headers.contains_key("sec-fetch-site") {
        return Some("dashboard".to_owned());
    }
    let named = headers.get(USER_AGENT)?.to_str().ok()?.split(' ').next()?;
    Some(named.chars().take(LONGEST_PROGRAM).collect()).filter(|name: &String| !name.is_empty())
}

/// Notes the state of the object that the answer shows, which its header `ETag` names.
pub fn shows(resource_version: &str) {
    if let Some(operation) = current() {
        *operation.tag.lock().unwrap_or_else(PoisonError::into_inner) = Some(tag(resource_version));
    }
}

/// Returns the entity tag of a state of an object (RFC 9110, 8.8.3).
pub fn tag(resource_version: &str) -> String {
    format!("\"{resource_version}\"")
}

/// Returns the operation that this task runs for, if it runs for any.
pub fn current() -> Option<Arc<Operation>> {
    CURRENT.try_with(Clone::clone).ok()
}

/// Notes the present request's caller, once it is known: the connection then makes no room for those of others, unless this user
/// has too many.
pub fn is_authenticated(user: &str) {
    let Some(operation) = current() else { return };
    operation.share.get_or_init(|| share_of(user).to_owned());
    if let Some(slot) = &operation.slot {
        slot.keep_for(user);
    }
}

/// Returns the share of users by which what the present request takes is counted. All that is not of a known caller has one.
pub fn share() -> String {
    current().and_then(|operation| operation.share.get().cloned()).unwrap_or_default()
}

/// Notes what the present request is about.
pub fn about(resource: &'static str, name: &str, outcome: Option<(u16, String)>) {
    let Some(operation) = current() else { return };
    let mut subjects = operation.subjects.lock().unwrap_or_else(PoisonError::into_inner);
    if subjects.len() < MOST_SUBJECTS {
        subjects.push(Subject { resource, name: name.to_owned(), outcome });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_runs_for_a_request_finds_it_and_the_answer_has_its_id() {
        assert!(current().is_none());
        let operation = Operation::new(None, None, &HeaderMap::new());
        let work = async {
            about("mpijobs", "a", None);
            Ok::<_, ()>(Response::new(current().unwrap().id.clone()))
        };
        let response = operation.clone().answer(work).await.unwrap();
        assert_eq!(response.headers()[REQUEST_ID], *response.body());
        let subjects = operation.take_subjects();
        assert_eq!((subjects.len(), subjects[0].name.as_str()), (1, "a"));
    }

    #[tokio::test]
    async fn a_request_counts_for_the_share_of_its_caller() {
        let work = async {
            let before = share();
            is_authenticated("system:serviceaccount:team-cv:builder");
            Ok::<_, ()>(Response::new((before, share())))
        };
        let response = Operation::new(None, None, &HeaderMap::new()).answer(work).await.unwrap();
        assert_eq!(
            *response.body(),
            (String::new(), share_of("system:serviceaccount:team-cv:builder").to_owned())
        );
        assert_eq!(share(), "");
    }
}
