//! Who calls: the bearer token of a request, reviewed by the cluster.
//!
//! The input is a request's headers, the output a [`Caller`] with a client that sends the caller's own token. Positive
//! answers are kept for [`KNOWN_FOR`], negative ones for [`UNKNOWN_FOR`]; tokens themselves are kept nowhere but in the
//! caller's client.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use connections::{Budget, Exhausted, share_of};
use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use kube::Client;
use kube::api::{Api, PostParams};
use kube::client::Body;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::operation;
use crate::problem::Problem;
use crate::spans;

/// How long an accepted token is not reviewed again.
pub const KNOWN_FOR: Duration = Duration::from_secs(10);
/// How long a refused token is not reviewed again.
const UNKNOWN_FOR: Duration = Duration::from_secs(2);
/// The most tokens remembered.
const MOST_TOKENS: usize = 4096;
/// The most reviews in progress, so that guesses do not flood the cluster.
const REVIEWS: usize = 32;
/// The most requests that wait for one or have one in progress: of all clients, and of one. When there is no more place, a
/// client takes one from the client that has most of them.
const WAITING: usize = 1024;
const WAITING_OF_CLIENT: usize = WAITING / 4;
/// The longest token: larger ones are not reviewed.
const LONGEST_TOKEN: usize = 16 << 10;

/// Kubernetes' header for the id of a request in its audit log.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The digest of a token, or of an identity.
pub type Digest = [u8; 32];

/// Who somebody is, as far as permissions depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The user name.
    pub user: String,
    /// The UID of the user, if the cluster has one.
    pub uid: Option<String>,
    /// The groups.
    pub groups: Vec<String>,
    /// What else the cluster knows about the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Subject {
    /// Identifies it.
    pub fn id(&self) -> Digest {
        // Debug output delimits texts, so that different identities cannot have the same.
        Sha256::digest(format!("{:?}", (&self.user, &self.uid, &self.groups, &self.extra))).into()
    }
}

/// An authenticated caller.
pub struct Caller {
    /// The user name.
    pub user: String,
    /// The groups.
    pub groups: Vec<String>,
    /// The UID of the user, if the cluster has one.
    pub uid: Option<String>,
    /// What else the cluster knows about the user.
    pub extra: BTreeMap<String, Vec<String>>,
    /// Identifies everything that permissions depend on.
    pub id: Digest,
    /// A client that acts as the caller.
    pub client: Client,
    /// The caller's authorization.
    pub authorization: HeaderValue,
}

impl Caller {
    /// Returns who it is.
    pub fn subject(&self) -> Subject {
        Subject {
            user: self.user.clone(),
            uid: self.uid.clone(),
            groups: self.groups.clone(),
            extra: self.extra.clone(),
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Authenticates callers.
pub struct Identity {
    /// A client as the service's own account.
    reviewer: Client,
    /// A client without credentials.
    nobody: Client,
    /// The accepted audiences; empty for the API server's own.
    audiences: Vec<String>,
    known: Mutex<Known>,
    reviews: Semaphore,
    /// The places of requests that wait for a review or have one in progress.
    waiting: Arc<Budget>,
}

#[derive(Default)]
struct Known {
    answers: HashMap<Digest, (Instant, Option<Arc<Caller>>)>,
    /// In the order in which they came, which is about that in which they expire.
    order: VecDeque<Digest>,
}

impl Identity {
    /// Creates it from two clients: one as the service's own account, one without credentials.
    pub fn new(reviewer: Client, nobody: Client, audiences: Vec<String>) -> Self {
        let (reviews, waiting) = (Semaphore::new(REVIEWS), Budget::new(WAITING, WAITING_OF_CLIENT));
        Self { reviewer, nobody, audiences, known: Mutex::default(), reviews, waiting }
    }

    /// Returns the caller of a request.
    ///
    /// # Errors
    /// 401 without a valid token, 429 if too many tokens of the request's address wait to be checked, 503 if the cluster does
    /// not answer.
    pub async fn of(&self, headers: &HeaderMap) -> Result<Arc<Caller>, Problem> {
        let mut sent = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(authorization), None) = (sent.next(), sent.next()) else {
            return Err(Problem::unauthenticated("the request has no bearer token"));
        };
        self.caller(authorization).await
    }

    /// Checks again whether a caller's token is valid.
    ///
    /// # Errors
    /// As [`Identity::of`].
    pub async fn again(&self, caller: &Caller) -> Result<Arc<Caller>, Problem> {
        self.checked(&caller.authorization, share_of(&caller.user)).await
    }

    /// Returns the caller with this authorization, which the present request brings.
    ///
    /// # Errors
    /// As [`Identity::of`].
    pub async fn caller(&self, authorization: &HeaderValue) -> Result<Arc<Caller>, Problem> {
        let address = operation::current().and_then(|operation| operation.address);
        let client = address.map(|address| address.ip().to_canonical().to_string()).unwrap_or_default();
        self.checked(authorization, &client).await
    }

    /// Returns the caller with this authorization; a review takes a place of this client's share.
    async fn checked(&self, authorization: &HeaderValue, client: &str) -> Result<Arc<Caller>, Problem> {
        let refused =
            || Problem::unauthenticated("the bearer token is invalid, expired or meant for another audience");
        let token = bearer(authorization).filter(|token| token.len() <= LONGEST_TOKEN).ok_or_else(refused)?;
        let digest: Digest = Sha256::digest(token).into();
        let caller = match self.recall(&digest) {
            Some(answer) => answer,
            None => {
                let caller = self.review(token, authorization, client).await?;
                self.remember(digest, caller.clone());
                caller
            }
        };
        if let Some(caller) = &caller {
            operation::is_authenticated(&caller.user);
        }
        caller.ok_or_else(refused)
    }

    fn recall(&self, digest: &Digest) -> Option<Option<Arc<Caller>>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, caller) = known.answers.get(digest)?;
        (Instant::now() < *until).then(|| caller.clone())
    }

    fn remember(&self, digest: Digest, caller: Option<Arc<Caller>>) {
        let until = Instant::now() + if caller.is_some() { KNOWN_FOR } else { UNKNOWN_FOR };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.answers.insert(digest, (until, caller)).is_none() {
            known.order.push_back(digest);
        }
        let now = Instant::now();
        while let Some(oldest) = known.order.front().copied() {
            let expired = known.answers.get(&oldest).is_none_or(|(until, _)| *until <= now);
            if !expired && known.order.len() <= MOST_TOKENS {
                break;
            }
            known.order.pop_front();
            known.answers.remove(&oldest);
        }
    }

    async fn review(
        &self,
        token: &str,
        authorization: &HeaderValue,
        client: &str,
    ) -> Result<Option<Arc<Caller>>, Problem> {
        let place = self.waiting.share(client);
        place.take(1).map_err(too_many)?;
        let _turn = tokio::select! {
            turn = self.reviews.acquire() => turn,
            () = place.displaced() => return Err(too_many(Exhausted::Client)),
        };
        place.pin().map_err(too_many)?;
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                audiences: Some(self.audiences.clone()).filter(|audiences| !audiences.is_empty()),
            },
            ..TokenReview::default()
        };
        let api: Api<TokenReview> = Api::all(self.reviewer.clone());
        let span = spans::cluster("POST", "/apis/authentication.k8s.io/v1/tokenreviews");
        let reviewed =
            api.create(&PostParams::default(), &review).instrument(span).await.map_err(|error| {
                tracing::warn!(%error, "cannot review a token");
                Problem::unavailable("the cluster cannot check the bearer token now")
            })?;
        let status = reviewed.status.unwrap_or_default();
        let meant = self.audiences.is_empty()
            || status.audiences.iter().flatten().any(|audience| self.audiences.contains(audience));
        let user = status.user.filter(|_| status.authenticated == Some(true) && meant);
        Ok(user.map(|user| Arc::new(self.known_as(user, authorization))))
    }

    fn known_as(&self, user: UserInfo, authorization: &HeaderValue) -> Caller {
        let subject = Subject {
            user: user.username.unwrap_or_default(),
            uid: user.uid,
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        };
        let id = subject.id();
        let Subject { user, uid, groups, extra } = subject;
        let mut authorization = authorization.clone();
        authorization.set_sensitive(true);
        Caller { client: acting(&self.nobody, &authorization), id, user, groups, uid, extra, authorization }
    }
}

/// The problem of a request that finds no place to wait for a review.
fn too_many(which: Exhausted) -> Problem {
    match which {
        Exhausted::Client => Problem::too_many("too many tokens of this client wait to be checked")
            .hint("wait as long as Retry-After says"),
        Exhausted::Total => Problem::unavailable("too many tokens wait to be checked"),
    }
}

/// Returns a client that adds the caller's token to each request.
fn acting(nobody: &Client, authorization: &HeaderValue) -> Client {
    let (nobody, authorization) = (nobody.clone(), authorization.clone());
    let namespace = nobody.default_namespace().to_owned();
    let send = tower::service_fn(move |mut request: Request<Body>| {
        request.headers_mut().insert(header::AUTHORIZATION, authorization.clone());
        // The API server's own audit log then has the same id.
        if let Some(id) = operation::current().and_then(|operation| HeaderValue::from_str(&operation.id).ok())
        {
            request.headers_mut().insert(AUDIT_ID, id);
        }
        let nobody = nobody.clone();
        async move { spans::send(request, |request| nobody.send(request)).await }
    });
    Client::new(send, namespace)
}

/// The token of a bearer authorization (RFC 6750).
fn bearer(authorization: &HeaderValue) -> Option<&str> {
    let (scheme, token) = authorization.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bearer_tokens_are_read() {
        let of = |text: &'static str| bearer(&HeaderValue::from_static(text)).map(str::to_owned);
        assert_eq!(of("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(of("bearer  abc ").as_deref(), Some("abc"));
        for other in ["abc", "Basic abc", "Bearer ", "Bearer"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
