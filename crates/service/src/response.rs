//! Responses over HTTP: of a method, of a page, and of a problem (RFC 9457).

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};

use crate::problem::Problem;

/// The content type of problems (RFC 9457).
const PROBLEM: &str = "application/problem+json";

/// Returns a response that is not kept by caches and whose type is not guessed.
pub fn respond(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Returns a problem as a response.
pub fn refuse(problem: &Problem) -> Response<Body> {
    let json = serde_json::to_vec(&problem.message()).unwrap_or_default();
    let mut response = respond(problem.status, PROBLEM, json.into());
    if problem.status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if problem.retry_after_seconds > 0 {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(problem.retry_after_seconds));
    }
    response
}
