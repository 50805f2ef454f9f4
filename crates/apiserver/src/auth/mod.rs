//! Authentication and authorization.
//!
//! [`authenticate`] turns a request's credentials into a [`UserInfo`], which [`impersonation`] may replace.
//! [`authority`] authorizes an action by the stored roles and bindings; [`escalation`] prevents privilege
//! escalation. The RBAC rules themselves are pure and in [`objects::access`].
//!
//! Credentials: the administrator's bearer token, tokens of users ([`users`]) and of service accounts
//! ([`tokens`], [`accounts`]), and client certificates ([`certificates`], verified by the listener). Requests
//! without credentials are rejected except for the paths of `endpoint::public`, as with `anonymous.conditions`
//! in `AuthenticationConfiguration`.

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

pub use objects::access::{MASTERS, UserInfo};

use super::status::{self, StatusError};
use crate::store::Store;
use tokens::{Claims, KeyError, Keys};
use users::Users;

/// The number of random bytes in a token.
const TOKEN_BYTES: usize = 32;

/// The known identities.
#[derive(Debug)]
pub struct Identities {
    /// The SHA-256 digest of the administrator's token.
    admin: [u8; 32],
    users: Option<Users>,
    keys: Option<Keys>,
}

/// The result of authenticating a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identified {
    /// The user.
    pub user: UserInfo,
    /// Those of the requested audiences that the token is for.
    pub audiences: Vec<String>,
}

impl Identities {
    /// Creates an identity for the administrator, authenticated by this token.
    pub fn new(admin_token: &str) -> Self {
        Self { admin: digest(admin_token), users: None, keys: None }
    }

    /// Adds the users in a file.
    #[must_use]
    pub fn with_users(self, users: Users) -> Self {
        Self { users: Some(users), ..self }
    }

    /// Adds service account tokens, signed with these keys.
    #[must_use]
    pub fn with_keys(self, keys: Keys) -> Self {
        Self { keys: Some(keys), ..self }
    }

    /// Authenticates a token for one of these audiences, or for the API server's own if there are none.
    pub fn of_token(
        &self,
        store: &Store,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Option<Identified> {
        // Compares digests, so the timing reveals nothing about the token.
        let own = || (digest(token) == self.admin).then(UserInfo::admin);
        let user = own().or_else(|| self.users.as_ref()?.of_token(token, now));
        if let Some(user) = user {
            // Such a token names no audience; it is for the API server.
            let is_meant =
                audiences.is_empty() || audiences.iter().any(|audience| audience == tokens::ISSUER);
            return is_meant.then(|| Identified { user, audiences: vec![tokens::ISSUER.to_owned()] });
        }
        let (user, audiences) =
            accounts::of_token(self.keys.as_ref()?, store, token, audiences, now.as_second())?;
        Some(Identified { user, audiences })
    }

    /// Signs a service account token.
    ///
    /// # Errors
    /// If there is no key, or signing fails.
    pub fn sign(&self, claims: &Claims) -> Result<String, KeyError> {
        self.keys.as_ref().ok_or_else(KeyError::missing)?.sign(claims)
    }

    /// Returns the public key that verifies service account tokens.
    pub fn public_set(&self) -> Option<serde_json::Value> {
        self.keys.as_ref().map(Keys::public_set)
    }
}

/// Generates a random token.
///
/// # Errors
/// If the operating system provides no randomness.
pub fn new_token() -> Result<String, getrandom::Error> {
    use base64::Engine as _;
    let mut bytes = [0_u8; TOKEN_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes))
}

/// Authenticates a request by its headers; `None` without credentials.
///
/// # Errors
/// 401 for invalid credentials.
pub fn authenticate(
    identities: &Identities,
    store: &Store,
    headers: &HeaderMap,
    now: Timestamp,
) -> Result<Option<UserInfo>, StatusError> {
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
    fn only_valid_bearer_tokens_authenticate() {
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
