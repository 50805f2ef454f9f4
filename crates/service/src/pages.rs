//! All paths together: the methods over REST and gRPC, and what is not about jobs: the dashboard, signing in, health,
//! metrics, the contract.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::routing::{get, post};
use bytes::Bytes;
use futures::FutureExt as _;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use tonic_health::ServingStatus;

use crate::access::Right;
use crate::answers::common;
use crate::contract::training_server::TrainingServer;
use crate::contract::{DESCRIPTORS, DOCS, OPENAPI};
use crate::problem::Problem;
use crate::response::{refuse, respond};
use crate::service::Service;
use crate::{adapters, browser, dashboard, grpc, guide, page, signin};

/// The most fields of a request's head. Browsers send about 40, and over HTTP/2 one for each cookie.
const MOST_FIELDS: usize = 128;

/// Returns the router of everything that the service serves.
///
/// # Errors
/// If the contract's descriptors cannot be read.
pub fn router(service: &Arc<Service>) -> Result<Router, tonic_reflection::server::Error> {
    let training = Router::new()
        .route_service("/training.v1.Training/{method}", TrainingServer::new(grpc::Adapter(service.clone())))
        .route_layer(middleware::from_fn_with_state((service.clone(), adapters::METHODS), grpc::admit));
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .build_v1()?;
    // Clients of before 2023, grpcio's own among them, know only this version.
    let early_reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .build_v1alpha()?;
    let (reporter, health) = tonic_health::server::health_reporter();
    let ready = service.clone();
    tokio::spawn(async move {
        reporter.set_service_status("training.v1.Training", ServingStatus::NotServing).await;
        ready.ready().await;
        reporter.set_service_status("training.v1.Training", ServingStatus::Serving).await;
    });
    let open = Router::new()
        .route_service("/grpc.reflection.v1.ServerReflection/{method}", reflection)
        .route_service("/grpc.reflection.v1alpha.ServerReflection/{method}", early_reflection)
        .route_layer(middleware::from_fn_with_state(grpc::reflections(), grpc::reflect))
        .route_service("/grpc.health.v1.Health/{method}", health)
        .route_layer(middleware::from_fn_with_state(service.clone(), grpc::bound));
    let metrics = service.clone();
    let readiness = service.clone();
    let policy = dashboard::policy(&service.settings.frame_ancestors);
    let policy_of_docs = page::policy(DOCS);
    let guide = guide::html();
    let (policy_of_guide, guide) = (page::policy(&guide), Bytes::from(guide));
    Ok(adapters::routes(service)
        .route("/metrics", get(move |headers: HeaderMap| show_metrics(metrics.clone(), headers)))
        .route("/session", get(signin::session).with_state(service.clone()))
        .route("/signout", post(signin::sign_out).with_state(service.clone()))
        .route_layer(middleware::from_fn_with_state(service.clone(), browser::identify))
        .route("/signin", get(signin::sign_in).post(signin::sign_in).with_state(service.clone()))
        .route("/healthz", get(|| async { respond(StatusCode::OK, TEXT, "ok\n".into()) }))
        .route("/readyz", get(move || readyz(readiness.clone())))
        .route(
            "/openapi.json",
            get(|| async { common(respond(StatusCode::OK, "application/json", OPENAPI.into())) }),
        )
        .route("/docs", get(move || std::future::ready(docs(policy_of_docs.clone()))))
        .route(
            "/docs/troubleshooting",
            get(move || std::future::ready(document(guide.clone(), policy_of_guide.clone()))),
        )
        .merge(training)
        .merge(open)
        .method_not_allowed_fallback(|request: Request| async move { refuse(&wrong_method(&request)) })
        .fallback(move |request: Request| async move { other(&request, &policy) })
        .layer(middleware::from_fn(bound_head)))
}

/// Refuses a head of many small fields before anything keeps it: each takes far more memory than the byte or two that HTTP/2
/// sends for it.
async fn bound_head(request: Request, next: Next) -> Response<Body> {
    if request.headers().len() > MOST_FIELDS {
        return refuse(&too_many_fields());
    }
    next.run(request).await
}

/// The page that shows the contract; its text is not copied.
fn docs(policy: Option<HeaderValue>) -> Response<Body> {
    document(DOCS, policy)
}

fn document(html: impl Into<Body>, policy: Option<HeaderValue>) -> Response<Body> {
    common(page::with_policy(StatusCode::OK, html, policy))
}

/// A file or page of the dashboard, or nothing.
fn other(request: &Request, policy: &HeaderValue) -> Response<Body> {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let found = reads.then(|| dashboard::serve(request.uri().path(), request.headers(), policy)).flatten();
    found.unwrap_or_else(|| refuse(&no_such_path(request)))
}

const TEXT: &str = "text/plain; charset=utf-8";

async fn readyz(service: Arc<Service>) -> Response<Body> {
    match service.ready().now_or_never() {
        // What needs no store goes on without it, so this replica stays ready.
        Some(()) => match service.kept.trouble() {
            None => respond(StatusCode::OK, TEXT, "ok\n".into()),
            Some(trouble) => respond(StatusCode::OK, TEXT, format!("ok\nstore: {trouble}\n").into()),
        },
        None => respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, "the jobs are not read yet\n".into()),
    }
}

async fn show_metrics(service: Arc<Service>, headers: HeaderMap) -> Response<Body> {
    let allowed = async {
        let caller = service.identity.of(&headers).await?;
        match service.access.may(&caller, Right::on_path("get", "/metrics")).await? {
            true => Ok(()),
            false => {
                let message = format!("User '{}' lacks 'get' permission for /metrics", caller.user);
                Err(Problem::new(StatusCode::FORBIDDEN, "NotAllowed", message).because("Forbidden"))
            }
        }
    };
    match allowed.await {
        Ok(()) => {
            let text = service.metrics.text(service.board.len(), service.kept.used());
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            respond(StatusCode::OK, kind, text.into())
        }
        Err(problem) => refuse(&problem),
    }
}

fn shown(request: &Request) -> String {
    request.uri().path().chars().take(100).collect::<String>().escape_debug().to_string()
}

fn no_such_path(request: &Request) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "NotFound", format!("nothing is at {}", shown(request)))
        .because("NoSuchPath")
        .hint("see /docs")
}

fn too_many_fields() -> Problem {
    let message = format!("the request has more than {MOST_FIELDS} header fields");
    Problem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "Usage", message)
        .because("TooManyFields")
        .hint("send fewer header fields or cookies")
}

fn wrong_method(request: &Request) -> Problem {
    let message = format!("{} is not possible at {}", request.method(), shown(request));
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Usage", message)
        .because("MethodNotAllowed")
        .hint("see /docs")
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn answers_with_the_contract_share_its_bytes() {
        let policy = page::policy(DOCS);
        let (first, second) = (docs(policy.clone()), docs(policy));
        assert!(first.headers().contains_key(http::header::CONTENT_SECURITY_POLICY));
        let first = first.into_body().collect().await.unwrap().to_bytes();
        let second = second.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(first, DOCS);
        assert_eq!(first.as_ptr(), second.as_ptr());
    }
}
