//! Who is asking, and whether they may.
//!
//! [`authenticate`] turns a request's credentials into a [`UserInfo`] ([`impersonation`] may turn it into another one),
//! [`authority`] decides about one action by the roles and bindings of the store, [`escalation`] holds back who would
//! grant more than they have. The rules themselves are pure and lie in [`crate::access`].
//!
//! Credentials: the administrator's bearer token. Who shows none is refused but for the paths of `super::public`:
//! anonymous requests are limited as `AuthenticationConfiguration`'s `anonymous.conditions` limits them.

pub mod authority;
pub mod escalation;
pub mod impersonation;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest as _, Sha256};

pub use crate::access::{MASTERS, UserInfo};

use super::status::{self, Refusal};

/// Bytes of randomness in a token.
const TOKEN_BYTES: usize = 32;

/// What identities exist.
#[derive(Debug)]
pub struct Identities {
    /// The digest of the administrator's token.
    admin: [u8; 32],
}

impl Identities {
    /// One identity: the administrator, known by this token.
    pub fn new(admin_token: &str) -> Self {
        Self { admin: digest(admin_token) }
    }

    /// Whose token this is.
    pub fn of_token(&self, token: &str) -> Option<UserInfo> {
        // Digests are compared: how long that takes tells nothing about the token.
        (digest(token) == self.admin).then(UserInfo::admin)
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
pub fn authenticate(identities: &Identities, headers: &HeaderMap) -> Result<Option<UserInfo>, Refusal> {
    let Some(header) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let text = header.to_str().map_err(|_| status::unauthorized())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(status::unauthorized)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(status::unauthorized());
    }
    identities.of_token(token.trim()).map(Some).ok_or_else(status::unauthorized)
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
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            authenticate(&identities, &headers)
                .map(|user| user.map(|user| user.name))
                .map_err(|refusal| refusal.code)
        };
        assert_eq!(with("Bearer secret"), Ok(Some("kubernetes-admin".into())));
        assert_eq!(with("bearer  secret"), Ok(Some("kubernetes-admin".into())));
        assert_eq!((with("Bearer x"), with("Basic secret"), with("secret")), (Err(401), Err(401), Err(401)));
        assert_eq!(authenticate(&identities, &HeaderMap::new()), Ok(None));
    }
}
