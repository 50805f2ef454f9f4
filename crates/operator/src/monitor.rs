//! The probes and the metrics, as answers to requests.
//!
//! Probes say yes or no and need no credentials. Metrics name jobs, so whoever reads them must be allowed to: the
//! caller's bearer token is given to the API server to review, and then whether its owner may `get` the path
//! `/metrics` is, which is what kube-rbac-proxy does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::{Method, Request, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};
use sha2::{Digest as _, Sha256};

use crate::metrics::Format;
use crate::serve::{Answer, text, with_type};
use crate::vitals::Vitals;

/// Where metrics are.
const METRICS: &str = "/metrics";
/// How long a decision about a token holds (kube-rbac-proxy keeps tokens for 2 min).
const DECISION_HOLDS: Duration = Duration::from_secs(60);
/// No more decisions than this are kept; the readers of metrics are few.
const MOST_DECISIONS: usize = 64;

/// Answers a probe: `/healthz` and `/livez` say whether the loop lives, `/readyz` whether the operator can work.
pub fn answer_probe<B>(vitals: &Vitals, request: &Request<B>) -> Answer {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    }
    match request.uri().path() {
        "/healthz" | "/livez" => match vitals.health.stuck(Instant::now()) {
            None => text(StatusCode::OK, "ok"),
            Some(why) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("stuck: {why}\n")),
        },
        "/readyz" if vitals.health.is_ready() => text(StatusCode::OK, "ok"),
        "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, "not ready: the watches have not listed yet\n"),
        _ => text(StatusCode::NOT_FOUND, "there are /healthz, /livez and /readyz\n"),
    }
}

/// Who may read the metrics.
pub enum Access {
    /// Everybody who reaches the port.
    Open,
    /// Those whose token the API server lets `get` `/metrics`.
    Reviewed(Reviewer),
}

/// Asks the API server about tokens.
pub struct Reviewer {
    client: kube::Client,
    decisions: Mutex<HashMap<[u8; 32], (Instant, bool)>>,
}

impl Reviewer {
    /// Asks with this client, which must be allowed to create TokenReviews and SubjectAccessReviews.
    #[must_use]
    pub fn new(client: kube::Client) -> Self {
        Self { client, decisions: Mutex::default() }
    }

    /// Whether the token's owner may read the metrics.
    async fn allows(&self, token: &str) -> Result<bool, kube::Error> {
        let key: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let now = Instant::now();
        if let Some((_, allowed)) = self.decisions().get(&key).filter(|(until, _)| *until > now) {
            return Ok(*allowed);
        }
        let allowed = self.ask(token).await?;
        let mut decisions = self.decisions();
        decisions.retain(|_, (until, _)| *until > now);
        if decisions.len() < MOST_DECISIONS {
            decisions.insert(key, (now + DECISION_HOLDS, allowed));
        }
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

    fn decisions(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], (Instant, bool)>> {
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers a request for the metrics.
pub async fn answer_metrics<B>(vitals: Vitals, access: Arc<Access>, request: Request<B>) -> Answer {
    if request.uri().path() != METRICS {
        return text(StatusCode::NOT_FOUND, "there is /metrics\n");
    }
    if request.method() != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
    }
    if let Access::Reviewed(reviewer) = &*access {
        let Some(token) = bearer(&request) else {
            return text(StatusCode::UNAUTHORIZED, "give a bearer token\n");
        };
        match reviewer.allows(token).await {
            Ok(true) => {}
            Ok(false) => {
                return text(StatusCode::FORBIDDEN, "the token's owner may not get the path /metrics\n");
            }
            Err(error) => {
                tracing::warn!(%error, "a reader of the metrics could not be reviewed");
                return text(StatusCode::INTERNAL_SERVER_ERROR, "the token could not be reviewed\n");
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

fn bearer<B>(request: &Request<B>) -> Option<&str> {
    let (scheme, token) = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
