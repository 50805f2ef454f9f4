//! Sessions of browsers: a cookie stands for a caller's token, which stays here.
//!
//! A *ticket* is the secret of a one-time address that begins a session. Both are in the store, so that they outlive this
//! process and count for every replica. The store has neither their secrets nor tokens: only a secret's digest, and the
//! token sealed with a key that follows from the secret, which the browser alone has. Sessions that this replica has seen are in
//! memory too; those that ended at another replica end here as soon as that is noticed ([`Sessions::follow`]). Their
//! numbers are bounded, in total and for each user; the service accounts of a namespace count as one user.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use connections::share_of;
use history::sessions::{self, Most, Purpose, Sealed};
use http::{HeaderMap, HeaderValue, header};
use jiff::Timestamp;
use ring::error::Unspecified;
use ring::{aead, hmac};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::identity::{Caller, Digest};
use crate::interval::every;
use crate::problem::Problem;
use crate::store::Kept;

/// How long a session lasts.
pub const SESSION: Duration = Duration::from_secs(12 * 3600);
/// How long a one-time address can be used.
pub const TICKET: Duration = Duration::from_secs(15 * 60);
/// The most sessions, and the most tickets, in total and of one user. Beyond it, the oldest ends.
const MOST: Most = Most { all: 2048, of_share: 20 };
/// The most secrets that are looked up in the store at a time: anybody can send one that no session has.
const LOOKUPS: usize = 32;
/// The bytes of a secret.
const SECRET_BYTES: usize = 32;
/// What is made from a secret.
const CSRF: &[u8] = b"token against forged requests";
const SEAL: &[u8] = b"key of a sealed token";

/// Sessions and tickets.
pub struct Sessions {
    store: Kept,
    known: Mutex<Known>,
    lookups: Semaphore,
}

/// A session, as it is found by its cookie.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its identifier.
    pub id: Digest,
    /// The caller's authorization.
    pub authorization: HeaderValue,
    /// The token that changes have to carry.
    pub csrf: Csrf,
    /// When it ends.
    pub until: Instant,
    /// When it ends, by the clock.
    pub ends: Timestamp,
    /// Cancelled when it ends earlier.
    pub over: CancellationToken,
    user: String,
}

/// Makes and checks the token that changes have to carry. It follows from a secret that requests have anyway, so that it is
/// the same for every replica and after a restart.
#[derive(Clone, Debug)]
pub struct Csrf(hmac::Key);

impl Csrf {
    /// Returns that of a secret.
    fn of(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// Returns that of the authorization of a request whose caller is known.
    pub fn of_authorization(headers: &HeaderMap) -> Self {
        Self::of(headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default())
    }

    /// Returns the token.
    pub fn token(&self) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, CSRF))
    }

    /// Whether this is the token. The comparison takes equally long for every wrong one.
    pub fn accepts(&self, token: &[u8]) -> bool {
        URL_SAFE_NO_PAD.decode(token).is_ok_and(|token| hmac::verify(&self.0, CSRF, &token).is_ok())
    }
}

/// The sessions that this replica has seen and that have not expired, in the order in which it saw them.
#[derive(Default)]
struct Known {
    by_id: HashMap<Digest, Session>,
    order: VecDeque<Digest>,
    /// Those that ended here last. A request that read one from the store before its end does not bring it back.
    ended: VecDeque<Digest>,
}

impl Sessions {
    /// Keeps them in a store.
    pub fn new(store: Kept) -> Self {
        Self { store, known: Mutex::default(), lookups: Semaphore::new(LOOKUPS) }
    }

    /// Makes a ticket for a caller; returns its secret and when it expires.
    ///
    /// # Errors
    /// 503 if it cannot be stored.
    pub async fn ticket(&self, caller: &Caller) -> Result<(String, Timestamp), Problem> {
        let (secret, row) = sealed(Purpose::Ticket, caller, TICKET)?;
        self.put(Purpose::Ticket, &row).await?;
        Ok((secret, row.ends))
    }

    /// Returns the user of a ticket without using it up.
    ///
    /// # Errors
    /// 503 if the store cannot be read.
    pub async fn user_of(&self, secret: &str) -> Result<Option<String>, Problem> {
        Ok(self.look_up(Purpose::Ticket, secret).await?.map(|row| row.user))
    }

    /// Uses a ticket up; returns the authorization of its caller.
    ///
    /// # Errors
    /// 503 if the store fails.
    pub async fn redeem(&self, secret: &str) -> Result<Option<HeaderValue>, Problem> {
        if !is_secret(secret) {
            return Ok(None);
        }
        let row = self.take(Purpose::Ticket, &digest(secret)).await?;
        Ok(row.and_then(|row| opened(Purpose::Ticket, secret, &row)))
    }

    /// Begins a session of a caller; returns its secret.
    ///
    /// # Errors
    /// 503 if it cannot be stored.
    pub async fn begin(&self, caller: &Caller) -> Result<String, Problem> {
        let (secret, row) = sealed(Purpose::Session, caller, SESSION)?;
        self.put(Purpose::Session, &row).await?;
        let session = session(&secret, &row, caller.authorization.clone());
        self.known().add(session, Instant::now());
        Ok(secret)
    }

    /// Returns the session with this secret.
    ///
    /// # Errors
    /// 503 if this replica has not seen it and the store cannot be read.
    pub async fn find(&self, secret: &str) -> Result<Option<Session>, Problem> {
        let (known, now) = (self.known().by_id.get(&digest(secret)).cloned(), Instant::now());
        if known.is_some() {
            return Ok(known.filter(|session| now < session.until));
        }
        let Some(row) = self.look_up(Purpose::Session, secret).await? else { return Ok(None) };
        let Some(authorization) = opened(Purpose::Session, secret, &row) else { return Ok(None) };
        Ok(self.known().add(session(secret, &row, authorization), now))
    }

    /// Ends a session, and its open streams.
    ///
    /// # Errors
    /// 503 if that cannot be stored: then the session goes on, because it would be found again after a restart.
    pub async fn end(&self, id: &Digest) -> Result<(), Problem> {
        self.take(Purpose::Session, id).await?;
        self.known().end(id);
        Ok(())
    }

    /// Ends the sessions here that ended at another replica, each `period` until `stop`. While the store cannot be read, none
    /// can end elsewhere either.
    pub async fn follow(self: Arc<Self>, period: Duration, stop: CancellationToken) {
        let mut ticks = every(period);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let seen: Vec<Digest> = self.known().order.iter().copied().collect();
            let Some(opened) = self.store.opened().ok().filter(|_| !seen.is_empty()) else { continue };
            match sessions::present(&opened.store, Purpose::Session, Timestamp::now()).await {
                Ok(present) => {
                    let mut known = self.known();
                    seen.iter().filter(|id| !present.contains(&name(id))).for_each(|id| known.end(id));
                }
                Err(error) => tracing::debug!(%error, "cannot read which sessions have ended"),
            }
        }
    }

    async fn put(&self, purpose: Purpose, row: &Sealed) -> Result<(), Problem> {
        let opened = self.store.opened()?;
        let stored = sessions::put(&opened.store, purpose, row, MOST, Timestamp::now()).await;
        self.store.note(&stored);
        stored.map_err(Problem::from)
    }

    async fn take(&self, purpose: Purpose, id: &Digest) -> Result<Option<Sealed>, Problem> {
        let opened = self.store.opened()?;
        let taken = sessions::take(&opened.store, purpose, &name(id), Timestamp::now()).await;
        self.store.note(&taken);
        taken.map_err(Problem::from)
    }

    async fn look_up(&self, purpose: Purpose, secret: &str) -> Result<Option<Sealed>, Problem> {
        if !is_secret(secret) {
            return Ok(None);
        }
        let _turn = self.lookups.acquire().await;
        let opened = self.store.opened()?;
        let found = sessions::get(&opened.store, purpose, &name(&digest(secret)), Timestamp::now()).await;
        found.map_err(Problem::from)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a secret, and what is stored for it.
fn sealed(purpose: Purpose, caller: &Caller, lasts: Duration) -> Result<(String, Sealed), Problem> {
    let (secret, ends) = (URL_SAFE_NO_PAD.encode(random()), Timestamp::now() + lasts);
    // As exact as the store has it: the same before and after a restart.
    let ends = Timestamp::from_microsecond(ends.as_microsecond()).unwrap_or(ends);
    let row = Sealed {
        id: name(&digest(&secret)),
        user: caller.user.clone(),
        share: share_of(&caller.user).to_owned(),
        ends,
        sealed: Vec::new(),
    };
    let sealed = seal(purpose, &secret, &row, caller.authorization.as_bytes());
    let sealed = sealed.map_err(|_| Problem::unavailable("the session cannot be kept"))?;
    Ok((secret, Sealed { sealed, ..row }))
}

/// The session of a row whose authorization is open.
fn session(secret: &str, row: &Sealed, authorization: HeaderValue) -> Session {
    let left = Duration::try_from(row.ends.duration_since(Timestamp::now())).unwrap_or_default();
    Session {
        id: digest(secret),
        authorization,
        csrf: Csrf::of(secret.as_bytes()),
        until: Instant::now() + left,
        ends: row.ends,
        over: CancellationToken::new(),
        user: row.user.clone(),
    }
}

/// Seals an authorization so that it can be opened with its secret only, and for the same user, purpose and time.
fn seal(purpose: Purpose, secret: &str, row: &Sealed, authorization: &[u8]) -> Result<Vec<u8>, Unspecified> {
    let mut bytes = authorization.to_vec();
    key_of(secret)?.seal_in_place_append_tag(nonce(), about(purpose, row), &mut bytes)?;
    Ok(bytes)
}

/// Opens the authorization of a row; `None` if it is not what was stored for this secret.
fn opened(purpose: Purpose, secret: &str, row: &Sealed) -> Option<HeaderValue> {
    let mut bytes = row.sealed.clone();
    let opened = key_of(secret).ok()?.open_in_place(nonce(), about(purpose, row), &mut bytes).ok()?;
    let mut authorization = HeaderValue::from_bytes(opened).ok()?;
    authorization.set_sensitive(true);
    Some(authorization)
}

fn key_of(secret: &str) -> Result<aead::LessSafeKey, Unspecified> {
    let key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), SEAL);
    Ok(aead::LessSafeKey::new(aead::UnboundKey::new(&aead::CHACHA20_POLY1305, key.as_ref())?))
}

/// Each key seals once, so that all may have the same nonce.
fn nonce() -> aead::Nonce {
    aead::Nonce::assume_unique_for_key([0; aead::NONCE_LEN])
}

/// What a sealed authorization belongs to.
fn about(purpose: Purpose, row: &Sealed) -> aead::Aad<Vec<u8>> {
    let about = format!("{}\n{}\n{}", purpose.word(), row.ends.as_microsecond(), row.user);
    aead::Aad::from(about.into_bytes())
}

/// Bytes that nobody can guess: 244 bits of them are random.
fn random() -> [u8; SECRET_BYTES] {
    let mut bytes = [0; SECRET_BYTES];
    for half in bytes.chunks_exact_mut(16) {
        half.copy_from_slice(Uuid::new_v4().as_bytes());
    }
    bytes
}

/// Whether a text can be a secret. Others are not looked up.
fn is_secret(text: &str) -> bool {
    URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| bytes.len() == SECRET_BYTES)
}

impl Known {
    /// Adds a session and returns it, or the one that is known already; `None` if it has ended meanwhile.
    fn add(&mut self, session: Session, now: Instant) -> Option<Session> {
        if self.ended.contains(&session.id) {
            return None;
        }
        if let Some(known) = self.by_id.get(&session.id) {
            // Its open streams end with it.
            return Some(known.clone());
        }
        let is_theirs = |known: &Session| share_of(&known.user) == share_of(&session.user);
        let of_user: Vec<Digest> =
            self.order.iter().filter(|id| self.by_id.get(*id).is_some_and(is_theirs)).copied().collect();
        for id in of_user.iter().take((of_user.len() + 1).saturating_sub(MOST.of_share)) {
            self.remove(id);
        }
        let expired: Vec<Digest> =
            self.by_id.values().filter(|known| known.until <= now).map(|known| known.id).collect();
        expired.iter().for_each(|id| self.remove(id));
        while self.order.len() >= MOST.all
            && let Some(oldest) = self.order.front().copied()
        {
            self.remove(&oldest);
        }
        self.order.push_back(session.id);
        self.by_id.insert(session.id, session.clone());
        Some(session)
    }

    /// Ends a session for good.
    fn end(&mut self, id: &Digest) {
        self.remove(id);
        if self.ended.len() >= MOST.all {
            self.ended.pop_front();
        }
        self.ended.push_back(*id);
    }

    /// Forgets a session, and ends its open streams.
    fn remove(&mut self, id: &Digest) {
        self.order.retain(|known| known != id);
        if let Some(session) = self.by_id.remove(id) {
            session.over.cancel();
        }
    }
}

fn digest(secret: &str) -> Digest {
    Sha256::digest(secret).into()
}

/// A digest as text, as the store has it.
fn name(digest: &Digest) -> String {
    URL_SAFE_NO_PAD.encode(digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Keep;

    fn session(user: &str, number: usize, until: Instant) -> Session {
        let secret = format!("{user}{number}");
        Session {
            id: digest(&secret),
            authorization: HeaderValue::from_static("Bearer t"),
            csrf: Csrf::of(secret.as_bytes()),
            until,
            ends: Timestamp::UNIX_EPOCH,
            over: CancellationToken::new(),
            user: user.to_owned(),
        }
    }

    #[tokio::test]
    async fn a_user_with_too_many_sessions_loses_the_oldest_and_others_keep_theirs() {
        let (mut known, now) = (Known::default(), Instant::now());
        let until = now + SESSION;
        let first = session("jane", 0, until);
        let over = first.over.clone();
        known.add(first, now);
        known.add(session("joe", 0, until), now);
        for number in 1..=MOST.of_share {
            known.add(session("jane", number, until), now);
        }
        assert!(over.is_cancelled());
        assert_eq!(known.by_id.len(), MOST.of_share + 1);
        assert!(known.by_id.contains_key(&digest("joe0")) && !known.by_id.contains_key(&digest("jane0")));
    }

    #[tokio::test]
    async fn the_service_accounts_of_a_namespace_have_as_many_sessions_as_one_user() {
        let (mut known, now) = (Known::default(), Instant::now());
        for number in 0..=MOST.of_share {
            let user = format!("system:serviceaccount:team-a:bot-{number}");
            known.add(session(&user, number, now + SESSION), now);
        }
        known.add(session("system:serviceaccount:team-b:bot", 0, now + SESSION), now);
        assert_eq!(known.by_id.len(), MOST.of_share + 1);
    }

    #[tokio::test]
    async fn what_has_expired_makes_room() {
        let (mut known, now) = (Known::default(), Instant::now());
        for number in 0..3 {
            known.add(session(&format!("u{number}"), number, now), now);
        }
        known.add(session("jane", 0, now + SESSION), now);
        assert_eq!((known.by_id.len(), known.order.len()), (1, 1));
    }

    #[tokio::test]
    async fn a_session_that_ended_while_it_was_read_does_not_come_back() {
        let (mut known, now) = (Known::default(), Instant::now());
        let one = session("jane", 0, now + SESSION);
        let first = known.add(one.clone(), now).unwrap();
        let again = known.add(session("jane", 0, now + SESSION), now).unwrap();
        known.end(&one.id);
        assert!(first.over.is_cancelled() && again.over.is_cancelled(), "streams of both requests end");
        assert!(known.add(one, now).is_none());
    }

    #[tokio::test]
    async fn while_the_store_is_away_known_sessions_go_on_and_no_other_is_called_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("state");
        std::fs::write(&place, "a file in place of the folder").unwrap();
        let sessions = Sessions::new(Kept::start(&Keep::in_folder(&place), &CancellationToken::new()));
        sessions.store.tried().await;
        let one = session("jane", 0, Instant::now() + SESSION);
        sessions.known().add(one.clone(), Instant::now());
        assert_eq!(sessions.end(&one.id).await.unwrap_err().status.as_u16(), 503);
        assert!(sessions.find("jane0").await.unwrap().is_some());
        let other = sessions.find(&URL_SAFE_NO_PAD.encode(random())).await;
        assert_eq!(other.unwrap_err().status.as_u16(), 503);
        assert!(sessions.find("guess").await.unwrap().is_none());
    }

    #[test]
    fn what_is_stored_has_no_token_and_opens_with_its_secret_only() {
        let row = Sealed {
            id: name(&digest("secret")),
            user: "jane".to_owned(),
            share: "jane".to_owned(),
            ends: Timestamp::from_microsecond(1_800_000_000_000_001).unwrap(),
            sealed: Vec::new(),
        };
        let sealed = seal(Purpose::Session, "secret", &row, b"Bearer token-of-jane").unwrap();
        assert!(!sealed.windows(5).any(|part| part == b"token" || part == b"Beare"));
        let row = Sealed { sealed, ..row };
        let open = |secret: &str, row: &Sealed| opened(Purpose::Session, secret, row);
        let authorization = open("secret", &row).unwrap();
        assert!(authorization == "Bearer token-of-jane" && authorization.is_sensitive());
        assert_eq!(open("another", &row), None);
        assert_eq!(opened(Purpose::Ticket, "secret", &row), None, "for another purpose");
        for changed in [
            Sealed { user: "joe".to_owned(), ..row.clone() },
            Sealed { ends: row.ends + SESSION, ..row.clone() },
            Sealed { sealed: Vec::new(), ..row.clone() },
            Sealed { sealed: [&row.sealed[1..], &[0]].concat(), ..row.clone() },
        ] {
            assert_eq!(open("secret", &changed), None, "{changed:?}");
        }
    }

    #[test]
    fn only_what_can_be_a_secret_is_looked_up() {
        assert!(is_secret(&URL_SAFE_NO_PAD.encode(random())));
        for text in ["", "guess", &"a".repeat(44), &"%".repeat(43)] {
            assert!(!is_secret(text), "{text}");
        }
    }

    #[test]
    fn a_token_against_forged_requests_belongs_to_one_session() {
        let (one, other) = (Csrf::of(b"one"), Csrf::of(b"other"));
        let token = one.token();
        assert!(one.accepts(token.as_bytes()) && Csrf::of(b"one").accepts(token.as_bytes()));
        assert!(!other.accepts(token.as_bytes()));
        assert!(!one.accepts(b"") && !one.accepts(b"%"));
    }
}
