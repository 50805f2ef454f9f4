//! The methods over gRPC. [`admit`] runs before a message is read; the generated code then decodes the message and calls
//! [`unary`] or [`stream`].

use std::future::Future;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::middleware::Next;
use bytes::Bytes;
use connections::{Budget, Exhausted, Share};
use futures::stream::{BoxStream, Stream, StreamExt};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use tonic::{Extensions, Request, Response, Status};

use crate::body::{Bounded, MAX_BODY};
use crate::browser::{address_of, share_of_stranger};
use crate::call::{self, Admitted};
use crate::contract::{Addressed, Answer, Method};
use crate::identity::Caller;
use crate::message;
use crate::problem::Problem;
use crate::service::Service;
use crate::spans;

/// The most bytes of a call of a stranger: names of services and methods.
const MOST_OF_STRANGER: usize = 16 << 10;
/// The most open calls of reflection: of all addresses, and of each. One takes half a MiB at most.
const MOST_REFLECTIONS: usize = 64;
const MOST_REFLECTIONS_OF_ADDRESS: usize = 8;

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
    let share = match share_of_stranger(&service, request.headers(), request.extensions()) {
        Ok(share) => share,
        Err(problem) => return problem.grpc().into_http(),
    };
    let bounded = |body| {
        let body = Bounded::new(body, share, MOST_OF_STRANGER);
        Body::new(body.map_err(|problem| problem.grpc()))
    };
    next.run(request.map(bounded)).await
}

/// Returns the places of open calls of reflection.
pub fn reflections() -> Arc<Budget> {
    Budget::new(MOST_REFLECTIONS, MOST_REFLECTIONS_OF_ADDRESS)
}

/// Bounds the open calls of reflection: each holds copies of the contract while its client does not read.
pub async fn reflect(
    State(places): State<Arc<Budget>>,
    request: axum::extract::Request,
    next: Next,
) -> axum::response::Response {
    let place = place(&places, address_of(request.extensions()));
    match place {
        Ok(place) => next.run(request).await.map(|body| holding(body, place)),
        Err(problem) => problem.grpc().into_http(),
    }
}

/// Takes the place of a call of reflection.
fn place(places: &Arc<Budget>, address: String) -> Result<Arc<Share>, Problem> {
    let place = places.share(address);
    // A place is never taken away: what the call holds cannot be returned before its client has read it.
    let taken = place.pin().and_then(|()| place.take(1));
    taken.map(|()| Arc::new(place)).map_err(|which| match which {
        Exhausted::Client => {
            let most = MOST_REFLECTIONS_OF_ADDRESS;
            let message = format!("this address has {most} open calls of reflection, the most there may be");
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message).hint("end one of them")
        }
        Exhausted::Total => Problem::unavailable("too many calls of reflection are open; try again later"),
    })
}

/// A body that holds a place until it is dropped and each of its frames is sent.
fn holding(body: Body, place: Arc<Share>) -> Body {
    let held = move |data| Bytes::from_owner(Held { data, place: place.clone() });
    Body::new(body.map_frame(move |frame| frame.map_data(&held)))
}

/// Data that waits to be sent.
struct Held {
    data: Bytes,
    #[expect(dead_code, reason = "holds the place until it is dropped")]
    place: Arc<Share>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_the_calls_of_reflection_of_others() {
        let places = reflections();
        let of = |address: u8| place(&places, address.to_string());
        let addresses = (0..8).flat_map(|address| [address; 8]);
        let taken: Vec<_> = addresses.map(|address| of(address).unwrap()).collect();
        assert_eq!(of(0).unwrap_err().grpc_code(), tonic::Code::ResourceExhausted);
        assert_eq!(of(8).unwrap_err().grpc_code(), tonic::Code::Unavailable, "there are 64 in all");
        drop(taken);
        assert!(of(8).is_ok());
    }

    #[tokio::test]
    async fn a_call_of_reflection_counts_until_what_it_answers_is_sent() {
        let places = Budget::new(1, 1);
        let of = || place(&places, "10.0.0.1".to_owned());
        let mut body = holding(Body::from("answer"), of().unwrap());
        let data = body.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(body);
        assert_eq!((&data[..], of().is_err()), (&b"answer"[..], true));
        drop(data);
        assert!(of().is_ok());
    }
}
