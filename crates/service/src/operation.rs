//! One request from its arrival to its answer: its id, which the answer carries, where it came from, and the jobs that
//! it turned out to be about. Everything that runs for the request finds it as a value of its task.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use connections::Slot;
use http::{HeaderName, HeaderValue, Response};

/// The header of an answer with the id of its request.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
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
    /// The connection that it came over.
    slot: Option<Arc<Slot>>,
    subjects: Mutex<Vec<Subject>>,
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
    pub fn new(address: Option<SocketAddr>, slot: Option<Arc<Slot>>) -> Arc<Self> {
        let id = uuid::Uuid::new_v4().to_string();
        Arc::new(Self { id, address, slot, subjects: Mutex::default() })
    }

    /// Runs what answers the request, and puts the id into the answer.
    pub async fn answer<B, E>(
        self: Arc<Self>,
        work: impl Future<Output = Result<Response<B>, E>>,
    ) -> Result<Response<B>, E> {
        let id = HeaderValue::from_str(&self.id);
        let mut response = CURRENT.scope(self, work).await?;
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

/// Returns the operation that this task runs for, if it runs for any.
pub fn current() -> Option<Arc<Operation>> {
    CURRENT.try_with(Clone::clone).ok()
}

/// Notes that the present request's caller is known: its connection then makes no room for those of others.
pub fn is_authenticated() {
    if let Some(slot) = current().as_ref().and_then(|operation| operation.slot.as_ref()) {
        slot.keep();
    }
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
        let operation = Operation::new(None, None);
        let work = async {
            about("mpijobs", "a", None);
            Ok::<_, ()>(Response::new(current().unwrap().id.clone()))
        };
        let response = operation.clone().answer(work).await.unwrap();
        assert_eq!(response.headers()[REQUEST_ID], *response.body());
        let subjects = operation.take_subjects();
        assert_eq!((subjects.len(), subjects[0].name.as_str()), (1, "a"));
    }
}
