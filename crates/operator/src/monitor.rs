//! Answers requests for the probes and the metrics.
//!
//! Probes say yes or no and need no credentials. Metrics name jobs, so their readers must be authorized: the API
//! server reviews the caller's bearer token, and then whether its owner may `get` the path `/metrics`, as in
//! kube-rbac-proxy.

use std::sync::Arc;
use std::time::Instant;

use http::{Method, Request, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};

use crate::decisions::{Decisions, TooMany, digest, peer_of};
use crate::metrics::Format;
use crate::serve::{Answer, bearer, text, with_type};
use crate::vitals::Vitals;

/// The path of the metrics.
const METRICS: &str = "/metrics";
/// The most cached decisions of each kind; metrics have few readers.
const MOST_DECISIONS: usize = 64;
/// The most reviews of tokens from one address a minute.
const MOST_REVIEWS: u32 = 12;

/// Answers a probe: `/healthz` and `/livez` report whether the loop is alive, `/readyz` whether the operator is
/// ready.
pub fn answer_probe<B>(vitals: &Vitals, request: &Request<B>) -> Answer {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed\n");
    }
    match request.uri().path() {
        "/healthz" | "/livez" => match vitals.health.stuck(Instant::now()) {
            None => text(StatusCode::OK, "ok"),
            Some(why) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("stuck: {why}\n")),
        },
        "/readyz" if vitals.health.is_ready() => text(StatusCode::OK, "ok"),
        "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, "not ready: the initial lists are not complete\n"),
        _ => text(StatusCode::NOT_FOUND, "not found: use /healthz, /livez or /readyz\n"),
    }
}

/// Who may read the metrics.
pub enum Access {
    /// Everyone who reaches the port.
    Open,
    /// Callers whose token the API server lets `get` `/metrics`.
    Reviewed(Box<Reviewer>),
}

/// Asks the API server to review tokens.
pub struct Reviewer {
    client: kube::Client,
    decisions: Decisions,
}

/// Why there is no decision about a token.
#[derive(Debug, thiserror::Error)]
enum Undecided {
    #[error(transparent)]
    TooMany(#[from] TooMany),
    #[error(transparent)]
    Unasked(#[from] kube::Error),
}

impl Reviewer {
    /// Creates a reviewer with this client, which must be allowed to create TokenReviews and SubjectAccessReviews.
    #[must_use]
    pub fn new(client: kube::Client) -> Self {
        Self { client, decisions: Decisions::new(MOST_DECISIONS, MOST_REVIEWS) }
    }

    /// Returns whether the token's owner may read the metrics.
    async fn allows(&self, token: &str, peer: std::net::IpAddr) -> Result<bool, Undecided> {
        let (key, now) = (digest(&[token]), Instant::now());
        if let Some(allowed) = self.decisions.known(&key, peer, now)? {
            return Ok(allowed);
        }
        let allowed = self.ask(token).await?;
        self.decisions.keep(key, allowed, now);
        Ok(allowed)
    }

    async fn ask(&self, token: &str) -> Result<bool, kube::Error> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let tokens: Api<TokenReview> = Api::all(self.client.clone());
        let status = tokens.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else { return Ok(false) };
        let path = NonResourceAttributes { path: Some(METRICS.to_owned()), verb: Some("get".to_owned()) };
        let spec = SubjectAccessReviewSpec {
            extra: user.extra,
            groups: user.groups,
            non_resource_attributes: Some(path),
            uid: user.uid,
            user: user.username,
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let accesses: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let status = accesses.create(&PostParams::default(), &review).await?.status;
        Ok(status.is_some_and(|status| status.allowed))
    }
}

/// Answers a request for the metrics.
pub async fn answer_metrics<B>(vitals: Vitals, access: Arc<Access>, request: Request<B>) -> Answer {
    if request.uri().path() != METRICS {
        return text(StatusCode::NOT_FOUND, "not found: use /metrics\n");
    }
    if request.method() != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n");
    }
    if let Access::Reviewed(reviewer) = &*access {
        let Some(token) = bearer(&request) else {
            return text(StatusCode::UNAUTHORIZED, "a bearer token is required\n");
        };
        match reviewer.allows(token, peer_of(&request)).await {
            Ok(true) => {}
            Err(error @ Undecided::TooMany(_)) => {
                return text(StatusCode::TOO_MANY_REQUESTS, format!("{error}\n"));
            }
            Ok(false) => {
                return text(StatusCode::FORBIDDEN, "the owner of the token may not get /metrics\n");
            }
            Err(Undecided::Unasked(error)) => {
                tracing::warn!(%error, "cannot review the token of a metrics client");
                return text(StatusCode::INTERNAL_SERVER_ERROR, "cannot review the token\n");
            }
        }
    }
    let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::accepted(accept);
    match vitals.metrics.show(format) {
        Ok(shown) => with_type(StatusCode::OK, format.content_type(), shown.into_bytes()),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}
