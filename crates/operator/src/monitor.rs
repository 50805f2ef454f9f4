//! Answers requests for the probes and the metrics.
//!
//! Probes say yes or no and need no credentials. Metrics name jobs, so their readers must be authorized: the API
//! server reviews the caller's bearer token, and then whether its owner may `get` the path `/metrics`, as in
//! kube-rbac-proxy.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
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
use crate::serve::{Answer, Peer, text, with_type};
use crate::vitals::Vitals;

/// The path of the metrics.
const METRICS: &str = "/metrics";
/// How long a decision about a token is cached (kube-rbac-proxy caches tokens for 2 min).
const DECISION_HOLDS: Duration = Duration::from_secs(60);
/// The most cached decisions of each kind; metrics have few readers.
const MOST_DECISIONS: usize = 64;
/// Within this time, the most reviews of tokens from one address, and the most addresses that are counted.
const WINDOW: Duration = Duration::from_secs(60);
const MOST_REVIEWS: u32 = 12;
const MOST_PEERS: usize = 1024;

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
    Reviewed(Reviewer),
}

/// Asks the API server to review tokens.
pub struct Reviewer {
    client: kube::Client,
    memory: Box<Mutex<Memory>>,
}

/// Recent reviews. Refused tokens, which anyone can send, take no room from allowed ones.
#[derive(Default)]
struct Memory {
    allowed: HashMap<[u8; 32], Instant>,
    refused: HashMap<[u8; 32], Instant>,
    reviews: HashMap<IpAddr, (Instant, u32)>,
}

impl Memory {
    fn decision(&self, key: &[u8; 32], now: Instant) -> Option<bool> {
        let holds =
            |decisions: &HashMap<[u8; 32], Instant>| decisions.get(key).is_some_and(|until| *until > now);
        if holds(&self.allowed) { Some(true) } else { holds(&self.refused).then_some(false) }
    }

    fn keep(&mut self, key: [u8; 32], allowed: bool, now: Instant) {
        let decisions = if allowed { &mut self.allowed } else { &mut self.refused };
        decisions.retain(|_, until| *until > now);
        if decisions.len() >= MOST_DECISIONS
            && let Some(oldest) = decisions.iter().min_by_key(|(_, until)| **until).map(|(key, _)| *key)
        {
            decisions.remove(&oldest);
        }
        decisions.insert(key, now + DECISION_HOLDS);
    }

    /// Counts a review for this address. Returns whether it is permitted.
    fn may_ask(&mut self, peer: IpAddr, now: Instant) -> bool {
        self.reviews.retain(|_, (until, _)| *until > now);
        if self.reviews.len() >= MOST_PEERS && !self.reviews.contains_key(&peer) {
            return false;
        }
        let (_, count) = self.reviews.entry(peer).or_insert((now + WINDOW, 0));
        *count += 1;
        *count <= MOST_REVIEWS
    }
}

/// Why there is no decision about a token.
#[derive(Debug, thiserror::Error)]
enum Undecided {
    #[error("too many unknown tokens from this address")]
    TooMany,
    #[error(transparent)]
    Unasked(#[from] kube::Error),
}

impl Reviewer {
    /// Creates a reviewer with this client, which must be allowed to create TokenReviews and SubjectAccessReviews.
    #[must_use]
    pub fn new(client: kube::Client) -> Self {
        Self { client, memory: Box::default() }
    }

    /// Returns whether the token's owner may read the metrics.
    async fn allows(&self, token: &str, peer: IpAddr) -> Result<bool, Undecided> {
        let key: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let now = Instant::now();
        {
            let mut memory = self.memory();
            if let Some(allowed) = memory.decision(&key, now) {
                return Ok(allowed);
            }
            if !memory.may_ask(peer, now) {
                return Err(Undecided::TooMany);
            }
        }
        let allowed = self.ask(token).await?;
        self.memory().keep(key, allowed, now);
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

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
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
        let peer = request.extensions().get().map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |Peer(peer)| *peer);
        match reviewer.allows(token, peer).await {
            Ok(true) => {}
            Err(error @ Undecided::TooMany) => {
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

fn bearer<B>(request: &Request<B>) -> Option<&str> {
    let (scheme, token) = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_tokens_do_not_displace_good_ones_and_their_reviews_are_bounded() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        memory.keep([255; 32], true, now);
        let stranger = IpAddr::from([10, 0, 0, 1]);
        let asked = (0..200).filter(|number| {
            memory.keep([*number; 32], false, now);
            memory.may_ask(stranger, now)
        });
        assert_eq!(asked.count(), 12);
        assert_eq!((memory.decision(&[255; 32], now), memory.refused.len()), (Some(true), MOST_DECISIONS));
        assert!(memory.may_ask(IpAddr::from([10, 0, 0, 2]), now), "others are not held up");
        assert!(memory.may_ask(stranger, now + WINDOW), "later it may ask again");
        assert_eq!(memory.decision(&[255; 32], now + DECISION_HOLDS), None);
    }
}
