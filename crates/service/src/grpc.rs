//! The methods over gRPC.

use std::future::Future;
use std::sync::Arc;

use futures::stream::{BoxStream, Stream, StreamExt};
use tonic::{Request, Response, Status};

use crate::call;
use crate::contract::{Addressed, Answer, Method};
use crate::identity::Caller;
use crate::problem::Problem;
use crate::service::Service;
use crate::spans;

/// The service as tonic calls it.
pub struct Adapter(pub Arc<Service>);

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
    let (metadata, _, message) = request.into_parts();
    let span = spans::grpc(method, metadata.as_ref());
    let answer = spans::answer(span, call::unary(service, method, metadata.as_ref(), message, run)).await;
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
    let (metadata, _, message) = request.into_parts();
    let span = spans::grpc(method, metadata.as_ref());
    let items = spans::answer(span, call::stream(service, method, metadata.as_ref(), message, run)).await;
    let items = items.map_err(|problem| problem.grpc())?;
    let items = items.map(|item| item.map(Answer::message).map_err(|problem| problem.grpc()));
    Ok(Response::new(items.boxed()))
}
