//! Who is asking, and whether they may.
//!
//! [`authenticate`] turns a request's credentials into a [`UserInfo`] ([`impersonation`] may turn it into another one),
//! [`authority`] decides about one action by the roles and bindings of the store, [`escalation`] holds back who would
//! grant more than they have. The rules themselves are pure and lie in [`crate::access`].
//!
//! Credentials: the administrator's bearer token, tokens of people ([`users`]) and of service accounts ([`tokens`],
//! [`accounts`]), and client certificates ([`certificates`], which the listener has checked). Who shows none is refused
//! but for the paths of `super::public`: anonymous requests are limited as `AuthenticationConfiguration`'s
//! `anonymous.conditions` limits them.

mod accounts;
pub mod authority;
pub mod certificates;
pub mod escalation;
pub mod impersonation;
pub mod tokens;
pub mod users;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

pub use crate::access::{MASTERS, UserInfo};

use super::status::{self, Refusal};
use crate::store::Store;
use tokens::{Claims, KeyError, Keys};
use users::Users;

/// Bytes of randomness in a token.
const TOKEN_BYTES: usize = 32;

/// What identities exist.
#[derive(Debug)]
pub struct Identities {
    /// The digest of the administrator's token.
    admin: [u8; 32],
    users: Option<Users>,
    keys: Option<Keys>,
}

/// Whose token it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identified {
    /// The user.
    pub user: UserInfo,
    /// The audiences, of those asked for, that the token is for.
    pub audiences: Vec<String>,
}

impl Identities {
    /// One identity: the administrator, known by this token.
    pub fn new(admin_token: &str) -> Self {
        Self { admin: digest(admin_token), users: None, keys: None }
    }

    /// The people of a file, too.
    #[must_use]
    pub fn with_users(self, users: Users) -> Self {
        Self { users: Some(users), ..self }
    }

    /// Service accounts' tokens, signed by these keys, too.
    #[must_use]
    pub fn with_keys(self, keys: Keys) -> Self {
        Self { keys: Some(keys), ..self }
    }

    /// Whose token this is, for one of these audiences; for the API server's own, when there are none.
    pub fn of_token(
        &self,
        store: &Store,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Option<Identified> {
        // Digests are compared: how long that takes tells nothing about the token.
        let own = || (digest(token) == self.admin).then(UserInfo::admin);
        let user = own().or_else(|| self.users.as_ref()?.of_token(token, now));
        if let Some(user) = user {
            // Such a token says nothing of audiences: it is the API server's.
            let is_meant =
                audiences.is_empty() || audiences.iter().any(|audience| audience == tokens::ISSUER);
            return is_meant.then(|| Identified { user, audiences: vec![tokens::ISSUER.to_owned()] });
        }
        let (user, audiences) =
            accounts::of_token(self.keys.as_ref()?, store, token, audiences, now.as_second())?;
        Some(Identified { user, audiences })
    }

    /// A service account's token.
    ///
    /// # Errors
    /// When nothing can be signed.
    pub fn sign(&self, claims: &Claims) -> Result<String, KeyError> {
        self.keys.as_ref().ok_or_else(KeyError::missing)?.sign(claims)
    }

    /// The public key by which service accounts' tokens are checked.
    pub fn public_set(&self) -> Option<serde_json::Value> {
        self.keys.as_ref().map(Keys::public_set)
    }
}

/// A fresh random token.
///
/// # Errors
/// When the operating system gives no randomness.
pub fn new_token() -> Result<String, getrandom::Error> {
    use base64::Engine as _;
    let mut bytes = [0_u8; TOKEN_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes))
}

/// Who sent these headers: `None` without a credential.
///
/// # Errors
/// 401 for a credential that is not valid.
pub fn authenticate(
    identities: &Identities,
    store: &Store,
    headers: &HeaderMap,
    now: Timestamp,
) -> Result<Option<UserInfo>, Refusal> {
    let Some(header) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let text = header.to_str().map_err(|_| status::unauthorized())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(status::unauthorized)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(status::unauthorized());
    }
    let identified = identities.of_token(store, token.trim(), &[], now);
    identified.map(|identified| Some(identified.user)).ok_or_else(status::unauthorized)
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_told_apart() {
        let identities = Identities::new("secret");
        let store = Store::new(1, Box::new(crate::store::Volatile));
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            authenticate(&identities, &store, &headers, Timestamp::UNIX_EPOCH)
                .map(|user| user.map(|user| user.name))
                .map_err(|refusal| refusal.code)
        };
        assert_eq!(with("Bearer secret"), Ok(Some("kubernetes-admin".into())));
        assert_eq!(with("bearer  secret"), Ok(Some("kubernetes-admin".into())));
        assert_eq!((with("Bearer x"), with("Basic secret"), with("secret")), (Err(401), Err(401), Err(401)));
        assert_eq!(authenticate(&identities, &store, &HeaderMap::new(), Timestamp::UNIX_EPOCH), Ok(None));
    }
}
