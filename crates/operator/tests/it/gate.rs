//! A layer between the operator and the API. It records every request, counts how many are in flight at once, and
//! can cut the operator off at its n-th write, before or after that write is committed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use cluster::apiserver::Endpoint;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, Uri};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use kube::Client;
use kube::client::Body;
use tokio::sync::Notify;
use tower::{BoxError, Service};

/// When the operator is cut off.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// The number of the write, from 1.
    pub at: usize,
    /// Whether that write is still committed, with its answer lost.
    pub committed: bool,
}

/// Recorded requests, and the faults to inject.
#[derive(Default)]
pub struct Gate {
    requests: Mutex<VecDeque<String>>,
    /// Lists, as path and query.
    lists: Mutex<Vec<String>>,
    /// The most objects in an answer to a list: a server may return fewer than requested.
    page: Option<u32>,
    refusals: Mutex<Vec<String>>,
    writes: AtomicUsize,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
    cut: Option<Cut>,
    /// Answers to lists of pods are delayed until other tasks have had this many turns.
    late: usize,
    pub closed: Notify,
}

impl Gate {
    pub fn new(cut: Option<Cut>) -> Arc<Self> {
        Arc::new(Self { cut, ..Self::default() })
    }

    /// A gate that delays lists of pods.
    pub fn with_late_pods() -> Arc<Self> {
        Arc::new(Self { late: 20_000, ..Self::default() })
    }

    /// A gate that shortens every page of a list.
    pub fn with_pages_of(objects: u32) -> Arc<Self> {
        Arc::new(Self { page: Some(objects), ..Self::default() })
    }

    /// Counts the lists of a path; continuations do not count.
    pub fn lists_of(&self, path: &str) -> usize {
        let lists = self.lists.lock().unwrap();
        lists
            .iter()
            .filter(|list| list.starts_with(&format!("{path}?")) && !list.contains("continue="))
            .count()
    }

    /// Returns the requests, except watches and lists, as `METHOD path`.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().cloned().collect()
    }

    /// Returns the requests that were answered with an error, as `CODE METHOD path`.
    pub fn refusals(&self) -> Vec<String> {
        self.refusals.lock().unwrap().clone()
    }

    /// Returns the most writes that were in flight at once.
    pub fn most_in_flight(&self) -> usize {
        self.most_in_flight.load(Ordering::SeqCst)
    }

    fn is_closed(&self) -> bool {
        self.cut.is_some_and(|cut| self.writes.load(Ordering::SeqCst) >= cut.at)
    }
}

/// An API: the embedded cluster's, or a real server's.
#[derive(Clone)]
pub enum Server {
    Embedded(Endpoint),
    Real(Client),
}

impl Server {
    async fn answer(
        self,
        request: Request<Body>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
        match self {
            Self::Embedded(mut endpoint) => {
                Ok(endpoint.call(request).await?.map(|body| body.map_err(Into::into).boxed_unsync()))
            }
            Self::Real(client) => {
                Ok(client.send(request).await?.map(|body| body.map_err(Into::into).boxed_unsync()))
            }
        }
    }
}

/// The API behind a gate.
#[derive(Clone)]
pub struct Gated {
    pub inner: Server,
    pub gate: Arc<Gate>,
}

impl Service<Request<Body>> for Gated {
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (gate, inner) = (self.gate.clone(), self.inner.clone());
        async move {
            if gate.is_closed() {
                return Err("cut off".into());
            }
            let is_write = request.method() != Method::GET;
            let path = request.uri().path().to_owned();
            let is_list = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch=") || query.contains("limit="));
            if !is_list {
                gate.requests.lock().unwrap().push_back(format!("{} {path}", request.method()));
            }
            if let Some(query) = request.uri().query().filter(|query| query.contains("limit=")) {
                gate.lists.lock().unwrap().push(format!("{path}?{query}"));
                if let Some(page) = gate.page {
                    *request.uri_mut() = shorter(&path, query, page);
                }
            }
            if is_list && path.ends_with("/pods") {
                for _ in 0..gate.late {
                    tokio::task::yield_now().await;
                }
            }
            if !is_write {
                return inner.answer(request).await;
            }
            let number = gate.writes.fetch_add(1, Ordering::SeqCst) + 1;
            let cut = gate.cut.filter(|cut| number >= cut.at);
            if cut.is_some_and(|cut| number > cut.at || !cut.committed) {
                gate.closed.notify_one();
                return Err("cut off before the write".into());
            }
            let now = gate.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
            gate.most_in_flight.fetch_max(now, Ordering::SeqCst);
            let asked = format!("{} {path}", request.method());
            // Lets other requests of the group come in, as a network would.
            tokio::task::yield_now().await;
            let answer = inner.answer(request).await;
            gate.in_flight.fetch_sub(1, Ordering::SeqCst);
            if cut.is_some() {
                gate.closed.notify_one();
                return Err("cut off after the write".into());
            }
            let answer = answer?;
            if answer.status().is_client_error() || answer.status().is_server_error() {
                gate.refusals.lock().unwrap().push(format!("{} {asked}", answer.status().as_u16()));
            }
            Ok(answer)
        }
        .boxed()
    }
}

/// Returns the URI of the same list with this page size.
fn shorter(path: &str, query: &str, page: u32) -> Uri {
    let parts = query.split('&').map(|part| match part.split_once('=') {
        Some(("limit", _)) => format!("limit={page}"),
        _ => part.to_owned(),
    });
    format!("{path}?{}", parts.collect::<Vec<_>>().join("&")).parse().unwrap()
}
