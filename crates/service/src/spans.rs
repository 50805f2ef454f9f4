//! The spans of traces: one for each call, and below it those of its requests to the cluster (those to the store are in
//! `history`). A span names methods, paths and codes; it never has a user, a token, a body or a query.
//!
//! Spans are of level debug, so that the log has them only with `RUST_LOG=debug`; [`crate::traces`] exports them.

use std::future::Future;

use http::{HeaderMap, Request, Response, StatusCode};
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry_http::{HeaderExtractor, HeaderInjector};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::field::Empty;
use tracing::{Instrument as _, Span, debug_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::contract::Method;
use crate::operation;
use crate::problem::Problem;

/// Returns the span of a call over REST, in the trace of its caller (W3C Trace Context).
pub fn rest(method: &Method, headers: &HeaderMap) -> Span {
    let span = debug_span!(
        "call",
        otel.name = method.name,
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method.verb,
        http.route = method.path,
        http.response.status_code = Empty,
        request.id = operation::current().map(|operation| operation.id.clone()),
    );
    continued(span, headers)
}

/// Returns the span of a call over gRPC, in the trace of its caller.
pub fn grpc(method: &Method, headers: &HeaderMap) -> Span {
    let span = debug_span!(
        "call",
        otel.name = method.name,
        otel.kind = "server",
        otel.status_code = Empty,
        rpc.system = "grpc",
        rpc.service = "training.v1.Training",
        rpc.method = method.name,
        rpc.grpc.status_code = Empty,
        request.id = operation::current().map(|operation| operation.id.clone()),
    );
    continued(span, headers)
}

fn continued(span: Span, headers: &HeaderMap) -> Span {
    if !span.is_disabled() {
        let caller = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
        // It fails only if the span is for the log alone.
        let _ = span.set_parent(caller);
    }
    span
}

/// Answers a call within its span, up to the answer or the beginning of its stream.
pub async fn answer<T>(span: Span, work: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    let outcome = work.instrument(span.clone()).await;
    if !span.is_disabled() {
        let (status, code) = match &outcome {
            Ok(_) => (StatusCode::OK, tonic::Code::Ok),
            Err(problem) => (problem.status, problem.grpc_code()),
        };
        // A span has one of the two fields; recording the other has no effect.
        span.record("http.response.status_code", status.as_u16());
        span.record("rpc.grpc.status_code", code as i32);
        // A caller's mistake is no error of the service.
        if status.is_server_error() {
            span.record("otel.status_code", "ERROR");
        }
    }
    outcome
}

/// Returns the span of a request to the cluster's API server. The path may name a namespace and an object.
pub fn cluster(verb: &str, path: &str) -> Span {
    debug_span!(
        "cluster",
        otel.name = verb,
        otel.kind = "client",
        otel.status_code = Empty,
        http.request.method = verb,
        url.path = path,
        http.response.status_code = Empty,
    )
}

/// Sends a request to the cluster within its span, which the request's headers name.
pub async fn send<B, A, E, F>(
    mut request: Request<B>,
    send: impl FnOnce(Request<B>) -> F,
) -> Result<Response<A>, E>
where
    F: Future<Output = Result<Response<A>, E>>,
{
    let span = cluster(request.method().as_str(), request.uri().path());
    if !span.is_disabled() {
        TraceContextPropagator::new()
            .inject_context(&span.context(), &mut HeaderInjector(request.headers_mut()));
    }
    let answered = send(request).instrument(span.clone()).await;
    let status = answered.as_ref().ok().map(Response::status);
    span.record("http.response.status_code", status.map(|status| status.as_u16()));
    if status.is_none_or(|status| status.is_client_error() || status.is_server_error()) {
        span.record("otel.status_code", "ERROR");
    }
    answered
}
