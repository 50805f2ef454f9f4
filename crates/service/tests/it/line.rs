//! The line from the service to its API server, which may be in trouble.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::{BoxFuture, ready};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;

/// What is the matter with the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Trouble {
    #[default]
    None,
    /// It cannot be reached.
    Away,
    /// It answers nothing.
    Silent,
    /// It answers when this is over.
    Late,
    /// It answers 429.
    Busy,
    /// It has forgotten what its watches would begin with: those that run end, and none begins.
    Expired,
}

/// The body of a response.
type Parts = UnsyncBoxBody<Bytes, tower::BoxError>;

/// The line. It records the requests of the service's own account.
#[derive(Clone)]
pub struct Line {
    pub inner: Client,
    pub trouble: Receiver<Trouble>,
    pub requests: Option<Arc<Mutex<Vec<String>>>>,
}

impl tower::Service<Request<Body>> for Line {
    type Response = Response<Parts>;
    type Error = tower::BoxError;
    type Future = BoxFuture<'static, Result<Response<Parts>, tower::BoxError>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if let Some(requests) = &self.requests {
            requests.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
        }
        answer(self.inner.clone(), request, self.trouble.clone()).boxed()
    }
}

async fn answer(
    client: Client,
    request: Request<Body>,
    mut trouble: Receiver<Trouble>,
) -> Result<Response<Parts>, tower::BoxError> {
    let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
    let now = *trouble.borrow();
    match now {
        Trouble::Away => Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into()),
        Trouble::Silent => std::future::pending().await,
        Trouble::Late => {
            trouble.wait_for(|trouble| *trouble != Trouble::Late).await.map(drop)?;
            Ok(client.send(request).await?.map(parts))
        }
        Trouble::Busy => {
            let busy = status(429, "TooManyRequests", "too many requests");
            let response = Response::builder().status(429).header("retry-after", "1");
            Ok(response.body(whole(&busy))?)
        }
        Trouble::Expired if is_watch => {
            let response = Response::builder().status(410);
            Ok(response.body(whole(&expired()))?)
        }
        Trouble::None if is_watch => Ok(client.send(request).await?.map(|body| cut(body, trouble))),
        Trouble::None | Trouble::Expired => Ok(client.send(request).await?.map(parts)),
    }
}

/// Ends a watch with an event when it expires.
fn cut(body: Body, mut trouble: Receiver<Trouble>) -> Parts {
    let last = trouble.clone();
    let event = format!("{}\n", json!({ "type": "ERROR", "object": expired() }));
    let end = async move { trouble.wait_for(|trouble| *trouble == Trouble::Expired).await.map(drop) };
    let event = stream::once(ready(())).filter_map(move |()| {
        let has_expired = *last.borrow() == Trouble::Expired;
        ready(has_expired.then(|| Ok(Bytes::from(event.clone()))))
    });
    let data = parts(body).into_data_stream().take_until(Box::pin(end)).chain(event);
    StreamBody::new(data.map_ok(Frame::data)).boxed_unsync()
}

fn parts(body: Body) -> Parts {
    body.map_err(Into::into).boxed_unsync()
}

fn whole(status: &Value) -> Parts {
    Full::from(status.to_string()).map_err(|never| match never {}).boxed_unsync()
}

fn expired() -> Value {
    status(410, "Expired", "too old resource version")
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": message })
}
