//! Sessions of browsers: a cookie stands for a caller's token, which stays here.
//!
//! A *ticket* is the secret of a one-time address that begins a session. Of both, only digests are kept, in memory: a
//! restart ends all sessions. Their numbers are bounded, in total and for each user; the
//! service accounts of a namespace count as one user.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use connections::share_of;
use http::HeaderValue;
use jiff::Timestamp;
use ring::hmac;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::identity::{Caller, Digest};

/// How long a session lasts.
pub const SESSION: Duration = Duration::from_secs(12 * 3600);
/// How long a one-time address can be used.
pub const TICKET: Duration = Duration::from_secs(15 * 60);
/// The most sessions, and the most tickets, in total and of one user. Beyond it, the oldest ends.
const MOST: usize = 2048;
const MOST_OF_USER: usize = 20;

/// Sessions and tickets.
pub struct Sessions {
    sessions: Mutex<Kept>,
    tickets: Mutex<Kept>,
    /// Makes the tokens against forged requests.
    key: hmac::Key,
}

/// A session, as it is found by its cookie.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its identifier.
    pub id: Digest,
    /// The caller's authorization.
    pub authorization: HeaderValue,
    /// When it ends.
    pub until: Instant,
    /// When it ends, by the clock.
    pub ends: Timestamp,
    /// Cancelled when it ends earlier.
    pub over: CancellationToken,
    user: String,
}

/// Those that have not expired, in the order in which they do.
#[derive(Default)]
struct Kept {
    by_id: HashMap<Digest, Session>,
    order: VecDeque<Digest>,
}

impl Default for Sessions {
    fn default() -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &random());
        Self { sessions: Mutex::default(), tickets: Mutex::default(), key }
    }
}

impl Sessions {
    /// Makes a ticket for a caller; returns its secret and when it expires.
    pub fn ticket(&self, caller: &Caller) -> (String, Timestamp) {
        keep(&self.tickets, caller, TICKET)
    }

    /// Returns the user of a ticket without using it up.
    pub fn user_of(&self, secret: &str) -> Option<String> {
        let tickets = locked(&self.tickets);
        let ticket = tickets.by_id.get(&digest(secret))?;
        (Instant::now() < ticket.until).then(|| ticket.user.clone())
    }

    /// Uses a ticket up; returns the authorization of who made it.
    pub fn redeem(&self, secret: &str) -> Option<HeaderValue> {
        locked(&self.tickets).remove(&digest(secret)).map(|ticket| ticket.authorization)
    }

    /// Begins a session of a caller; returns its secret.
    pub fn begin(&self, caller: &Caller) -> String {
        keep(&self.sessions, caller, SESSION).0
    }

    /// Returns the session with this secret.
    pub fn find(&self, secret: &str) -> Option<Session> {
        let session = locked(&self.sessions).by_id.get(&digest(secret)).cloned()?;
        (Instant::now() < session.until).then_some(session)
    }

    /// Ends a session, and its open streams.
    pub fn end(&self, id: &Digest) {
        if let Some(session) = locked(&self.sessions).remove(id) {
            session.over.cancel();
        }
    }

    /// Returns the token that changes have to carry: of a session, or of a caller.
    pub fn csrf_token(&self, of: &Digest) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.key, of))
    }

    /// Whether this is the token that changes have to carry.
    pub fn is_csrf_token(&self, of: &Digest, token: &[u8]) -> bool {
        URL_SAFE_NO_PAD.decode(token).is_ok_and(|token| hmac::verify(&self.key, of, &token).is_ok())
    }
}

fn keep(kept: &Mutex<Kept>, caller: &Caller, lasts: Duration) -> (String, Timestamp) {
    let secret = URL_SAFE_NO_PAD.encode(random());
    let (now, ends) = (Instant::now(), Timestamp::now() + lasts);
    let session = Session {
        id: digest(&secret),
        authorization: caller.authorization.clone(),
        until: now + lasts,
        ends,
        over: CancellationToken::new(),
        user: caller.user.clone(),
    };
    locked(kept).add(session, now);
    (secret, ends)
}

/// Bytes that nobody can guess: 244 bits of them are random.
fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    for half in bytes.chunks_exact_mut(16) {
        half.copy_from_slice(Uuid::new_v4().as_bytes());
    }
    bytes
}

impl Kept {
    fn add(&mut self, session: Session, now: Instant) {
        let is_theirs = |kept: &Session| share_of(&kept.user) == share_of(&session.user);
        let of_user: Vec<Digest> =
            self.order.iter().filter(|id| self.by_id.get(*id).is_some_and(is_theirs)).copied().collect();
        for id in of_user.iter().take((of_user.len() + 1).saturating_sub(MOST_OF_USER)) {
            self.end(id);
        }
        while let Some(oldest) = self.order.front().copied() {
            let is_over = self.by_id.get(&oldest).is_none_or(|kept| kept.until <= now);
            if !is_over && self.order.len() < MOST {
                break;
            }
            self.end(&oldest);
        }
        self.order.push_back(session.id);
        self.by_id.insert(session.id, session);
    }

    fn end(&mut self, id: &Digest) {
        if let Some(session) = self.remove(id) {
            session.over.cancel();
        }
    }

    fn remove(&mut self, id: &Digest) -> Option<Session> {
        self.order.retain(|kept| kept != id);
        self.by_id.remove(id).filter(|session| Instant::now() < session.until)
    }
}

fn locked(kept: &Mutex<Kept>) -> std::sync::MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

fn digest(secret: &str) -> Digest {
    Sha256::digest(secret).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(user: &str, number: usize, until: Instant) -> Session {
        Session {
            id: digest(&format!("{user}{number}")),
            authorization: HeaderValue::from_static("Bearer t"),
            until,
            ends: Timestamp::UNIX_EPOCH,
            over: CancellationToken::new(),
            user: user.to_owned(),
        }
    }

    #[tokio::test]
    async fn a_user_with_too_many_sessions_loses_the_oldest_and_others_keep_theirs() {
        let (mut kept, now) = (Kept::default(), Instant::now());
        let until = now + SESSION;
        let first = session("jane", 0, until);
        let over = first.over.clone();
        kept.add(first, now);
        kept.add(session("joe", 0, until), now);
        for number in 1..=MOST_OF_USER {
            kept.add(session("jane", number, until), now);
        }
        assert!(over.is_cancelled());
        assert_eq!(kept.by_id.len(), MOST_OF_USER + 1);
        assert!(kept.by_id.contains_key(&digest("joe0")) && !kept.by_id.contains_key(&digest("jane0")));
    }

    #[tokio::test]
    async fn the_service_accounts_of_a_namespace_have_as_many_sessions_as_one_user() {
        let (mut kept, now) = (Kept::default(), Instant::now());
        for number in 0..=MOST_OF_USER {
            let user = format!("system:serviceaccount:team-a:bot-{number}");
            kept.add(session(&user, number, now + SESSION), now);
        }
        kept.add(session("system:serviceaccount:team-b:bot", 0, now + SESSION), now);
        assert_eq!(kept.by_id.len(), MOST_OF_USER + 1);
    }

    #[tokio::test]
    async fn what_has_expired_makes_room() {
        let (mut kept, now) = (Kept::default(), Instant::now());
        for number in 0..3 {
            kept.add(session(&format!("u{number}"), number, now), now);
        }
        kept.add(session("jane", 0, now + SESSION), now);
        assert_eq!((kept.by_id.len(), kept.order.len()), (1, 1));
    }

    #[test]
    fn a_token_against_forged_requests_belongs_to_one_session() {
        let sessions = Sessions::default();
        let (one, other) = (digest("one"), digest("other"));
        let token = sessions.csrf_token(&one);
        assert!(sessions.is_csrf_token(&one, token.as_bytes()));
        assert!(!sessions.is_csrf_token(&other, token.as_bytes()));
        assert!(!sessions.is_csrf_token(&one, b"") && !sessions.is_csrf_token(&one, b"%"));
    }
}
