//! The methods over gRPC. [`admit`] runs before a message is read; the generated code then decodes the message and calls
//! [`unary`] or [`stream`].

use std::future::Future;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::middleware::Next;
use futures::stream::{BoxStream, Stream, StreamExt};
use http::HeaderMap;
use http_body_util::BodyExt as _;
use tonic::{Extensions, Request, Response, Status};

use crate::body::{Bounded, MAX_BODY};
use crate::browser::address_of;
use crate::call::{self, Admitted};
use crate::contract::{Addressed, Answer, Method};
use crate::identity::Caller;
use crate::message;
use crate::problem::Problem;
use crate::service::Service;
use crate::spans;

/// The most bytes of a call of a stranger: names of services and methods.
const MOST_OF_STRANGER: usize = 16 << 10;

/// The service as tonic calls it.
pub struct Adapter(pub Arc<Service>);

/// Admits a call of one of these methods by its headers; only then does anything read its body, and only a message that fits the
/// contract and its caller's memory is decoded.
pub async fn admit(
    State((service, methods)): State<(Arc<Service>, &'static [Method])>,
    request: axum::extract::Request,
    next: Next,
) -> axum::response::Response {
    let name = request.uri().path().rsplit('/').next().unwrap_or_default();
    // What is not a method is answered as such, and reads nothing.
    let Some(method) = methods.iter().find(|method| method.name == name) else {
        return next.run(request).await;
    };
    let admitted = match call::admit(&service, method, request.headers()).await {
        Ok(admitted) => admitted,
        Err(problem) => return refused(method, request.headers(), problem).await,
    };
    let (parts, body) = request.into_parts();
    let share = admitted.share.clone();
    let read = async {
        let frame = Bounded::new(body, share.clone(), MAX_BODY + message::FRAME).bytes().await?;
        message::check(method.name, &frame, &share)?;
        Ok(frame)
    };
    let frame = match call::read(&service, method, &admitted, read).await {
        Ok(frame) => frame,
        Err(problem) => return refused(method, &parts.headers, problem).await,
    };
    let mut request = axum::extract::Request::from_parts(parts, Body::from(frame));
    request.extensions_mut().insert(admitted);
    next.run(request).await
}

/// The answer to a call whose message is not decoded.
async fn refused(method: &'static Method, headers: &HeaderMap, problem: Problem) -> axum::response::Response {
    let refused =
        spans::answer(spans::grpc(method, headers), std::future::ready(Err::<(), _>(problem))).await;
    refused.err().map_or_else(|| Status::internal(""), |problem| problem.grpc()).into_http()
}

/// Bounds the requests of callers that are not authenticated: reflection and health checks need no account.
pub async fn bound(
    State(service): State<Arc<Service>>,
    request: axum::extract::Request,
    next: Next,
) -> axum::response::Response {
    let share = Arc::new(service.forms.share(address_of(request.extensions())));
    let bounded = |body| {
        let body = Bounded::new(body, share, MOST_OF_STRANGER);
        Body::new(body.map_err(|problem| problem.grpc()))
    };
    next.run(request.map(bounded)).await
}

/// What [`admit`] found out about a call.
fn admitted(extensions: &mut Extensions) -> Result<Admitted, Problem> {
    extensions.remove().ok_or_else(|| Problem::unauthenticated("the call was not admitted"))
}

/// The items of a stream.
pub type Items<M> = BoxStream<'static, Result<M, Status>>;

/// Calls a method that answers once.
pub async fn unary<Q, M, A, F, R>(
    service: &Arc<Service>,
    method: &'static Method,
    request: Request<Q>,
    run: F,
) -> Result<Response<M>, Status>
where
    Q: Addressed,
    A: Answer<M>,
    F: FnOnce(Arc<Service>, Arc<Caller>, Q) -> R,
    R: Future<Output = Result<A, Problem>>,
{
    let (metadata, mut extensions, message) = request.into_parts();
    let span = spans::grpc(method, metadata.as_ref());
    let answer = spans::answer(span, async {
        let admitted = admitted(&mut extensions)?;
        call::unary(service, method, admitted, message, run).await
    })
    .await;
    answer.map(|answer| Response::new(answer.message())).map_err(|problem| problem.grpc())
}

/// Calls a method that answers with a stream.
pub async fn stream<Q, M, A, S, F, R>(
    service: &Arc<Service>,
    method: &'static Method,
    request: Request<Q>,
    run: F,
) -> Result<Response<Items<M>>, Status>
where
    Q: Addressed,
    A: Answer<M>,
    S: Stream<Item = Result<A, Problem>> + Send + 'static,
    F: FnOnce(Arc<Service>, Arc<Caller>, Q) -> R,
    R: Future<Output = Result<S, Problem>>,
{
    let (metadata, mut extensions, message) = request.into_parts();
    let span = spans::grpc(method, metadata.as_ref());
    let items = spans::answer(span, async {
        let admitted = admitted(&mut extensions)?;
        call::stream(service, method, admitted, message, run).await
    })
    .await;
    let items = items.map_err(|problem| problem.grpc())?;
    let items = items.map(|item| item.map(Answer::message).map_err(|problem| problem.grpc()));
    Ok(Response::new(items.boxed()))
}
