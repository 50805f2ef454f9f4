//! Service account tokens: JSON web tokens signed by this cluster.
//!
//! There is one algorithm (ES256) and one key, which is kept with the cluster's state and never rotated. A
//! token cannot select another algorithm or key: a token with any other header than ours is invalid. Claims:
//! `pkg/serviceaccount/claims.go` (KEP-1205). This module verifies signature, issuer and times;
//! [`super::accounts`] verifies what a token is bound to.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::tls;

/// The issuer of the tokens, and their default audience (`--service-account-issuer`).
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
const ALGORITHM: &str = "ES256";
/// The maximum length of a token in bytes; longer ones are invalid.
const MAX_BYTES: usize = 16 << 10;
/// The maximum number of cached tokens with verified signatures. When it is reached, the cache is cleared.
const MAX_REMEMBERED: usize = 1024;

/// The claims of a token (RFC 7519, and Kubernetes' own).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The audiences.
    pub aud: Vec<String>,
    /// When it expires, in seconds since 1970.
    pub exp: i64,
    /// When it was issued.
    pub iat: i64,
    /// The issuer.
    pub iss: String,
    /// The unique ID.
    pub jti: String,
    /// The objects that it is bound to.
    #[serde(rename = "kubernetes.io")]
    pub bound: Bound,
    /// When it becomes valid.
    pub nbf: i64,
    /// The service account's user name.
    pub sub: String,
}

/// The objects that a token is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// The namespace of all of them except the node.
    pub namespace: String,
    /// The node, or the pod's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    /// The pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    /// The Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    /// The service account.
    pub serviceaccount: Reference,
}

/// A reference to an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its UID.
    #[serde(default)]
    pub uid: String,
}

/// An error of the signing key.
#[derive(Debug, thiserror::Error)]
#[error("the key that signs service accounts' tokens: {0}")]
pub struct KeyError(String);

impl KeyError {
    /// The error for an absent key.
    pub fn missing() -> Self {
        Self("there is none".to_owned())
    }
}

/// The signing key, and the cache of verified tokens.
pub struct Keys {
    pair: EcdsaKeyPair,
    id: String,
    random: SystemRandom,
    remembered: Mutex<HashMap<Vec<u8>, Arc<Claims>>>,
}

impl std::fmt::Debug for Keys {
    /// Shows no part of the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Keys")
    }
}

impl Keys {
    /// Generates a key without storing it.
    ///
    /// # Errors
    /// If the operating system provides no randomness.
    pub fn fresh() -> Result<Self, KeyError> {
        Self::of_document(&new_document()?)
    }

    /// Reads the key at `path`, or generates it.
    ///
    /// # Errors
    /// If the file cannot be read, parsed or written.
    pub fn load_or_make(path: &Path) -> Result<Self, KeyError> {
        let unusable = |why: &dyn std::fmt::Display| KeyError(format!("{}: {why}", path.display()));
        let document = match std::fs::read_to_string(path) {
            Ok(text) => URL_SAFE_NO_PAD.decode(text.trim()).map_err(|error| unusable(&error))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let document = new_document()?;
                tls::write(path, &URL_SAFE_NO_PAD.encode(&document))
                    .map_err(|error| KeyError(error.to_string()))?;
                document
            }
            Err(error) => return Err(unusable(&error)),
        };
        Self::of_document(&document).map_err(|error| unusable(&error.0))
    }

    fn of_document(document: &[u8]) -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document, &random)
            .map_err(|error| KeyError(error.to_string()))?;
        let id = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, pair.public_key().as_ref()));
        Ok(Self { pair, id, random, remembered: Mutex::default() })
    }

    /// Signs claims.
    ///
    /// # Errors
    /// If the operating system provides no randomness.
    pub fn sign(&self, claims: &Claims) -> Result<String, KeyError> {
        let header = json!({"alg": ALGORITHM, "kid": self.id, "typ": "JWT"});
        let claims = serde_json::to_vec(claims).map_err(|error| KeyError(error.to_string()))?;
        let signed =
            format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims));
        let signature = self
            .pair
            .sign(&self.random, signed.as_bytes())
            .map_err(|_| KeyError("nothing could be signed: no randomness".to_owned()))?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Returns the claims of a token that this cluster signed and that is valid at `now`, in seconds since
    /// 1970; `None` for any other token.
    pub fn verify(&self, token: &str, now: i64) -> Option<Arc<Claims>> {
        if token.len() > MAX_BYTES {
            return None;
        }
        let digest = digest::digest(&digest::SHA256, token.as_bytes()).as_ref().to_vec();
        let known = self.remembered.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).cloned();
        let claims = match known {
            Some(claims) => claims,
            None => self.remember(digest, self.signed(token)?),
        };
        (claims.iss == ISSUER && claims.nbf <= now && now < claims.exp).then_some(claims)
    }

    fn remember(&self, digest: Vec<u8>, claims: Claims) -> Arc<Claims> {
        let claims = Arc::new(claims);
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(digest, claims.clone());
        claims
    }

    fn signed(&self, token: &str) -> Option<Claims> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let part = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let header: Value = serde_json::from_slice(&part(header)?).ok()?;
        if header["alg"] != ALGORITHM || header["kid"] != self.id.as_str() {
            return None;
        }
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref());
        key.verify(signed.as_bytes(), &part(signature)?).ok()?;
        serde_json::from_slice(&part(claims)?).ok()
    }

    /// Returns the public key as a JSON web key set (RFC 7517), with which others verify the tokens.
    pub fn public_set(&self) -> Value {
        // An uncompressed point: the byte 4, then 32 bytes of x and 32 of y.
        let point = self.pair.public_key().as_ref();
        let coordinate = |from: usize| URL_SAFE_NO_PAD.encode(point.get(from..from + 32).unwrap_or_default());
        json!({"keys": [{"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": ALGORITHM,
            "x": coordinate(1), "y": coordinate(33)}]})
    }
}

/// Returns the document with which others find the public key (OpenID Connect discovery, KEP-1393).
pub fn discovery() -> Value {
    json!({"issuer": ISSUER, "jwks_uri": format!("{ISSUER}/openid/v1/jwks"),
        "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [ALGORITHM]})
}

fn new_document() -> Result<Vec<u8>, KeyError> {
    EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
        .map(|document| document.as_ref().to_vec())
        .map_err(|_| KeyError("it could not be made: no randomness".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000;

    fn claims() -> Claims {
        let reference = |name: &str| Reference { name: name.into(), uid: format!("{name}-uid") };
        Claims {
            aud: vec![ISSUER.into()],
            exp: 2_000,
            iat: 900,
            iss: ISSUER.into(),
            jti: "1".into(),
            bound: Bound {
                namespace: "ns".into(),
                node: None,
                pod: Some(reference("pod")),
                secret: None,
                serviceaccount: reference("robot"),
            },
            nbf: 900,
            sub: "system:serviceaccount:ns:robot".into(),
        }
    }

    fn encoded(value: &Value) -> String {
        URL_SAFE_NO_PAD.encode(value.to_string())
    }

    #[test]
    fn a_token_is_valid_until_it_expires() {
        let keys = Keys::fresh().unwrap();
        let token = keys.sign(&claims()).unwrap();
        assert_eq!(keys.verify(&token, NOW).as_deref(), Some(&claims()));
        // The second time from the cache; the times are checked all the same.
        assert_eq!(keys.verify(&token, 1_999).as_deref(), Some(&claims()));
        assert_eq!(keys.verify(&token, 2_000), None, "expired");
        assert_eq!(keys.verify(&token, 899), None, "not yet good");
        let foreign = keys.sign(&Claims { iss: "https://elsewhere".into(), ..claims() }).unwrap();
        assert_eq!(keys.verify(&foreign, NOW), None, "another issuer");
    }

    #[test]
    fn forged_tokens_are_invalid() {
        let keys = Keys::fresh().unwrap();
        let token = keys.sign(&claims()).unwrap();
        let [header, body, signature] = token.split('.').collect::<Vec<_>>()[..] else { panic!("{token}") };
        let none = encoded(&json!({"alg": "none", "kid": keys.id}));
        let symmetric = encoded(&json!({"alg": "HS256", "kid": keys.id}));
        let mut more = json!(claims());
        more["sub"] = "system:serviceaccount:kube-system:admin".into();
        let more = encoded(&more);
        let mut flipped = URL_SAFE_NO_PAD.decode(signature).unwrap();
        flipped[10] ^= 1;
        let flipped = URL_SAFE_NO_PAD.encode(flipped);
        let other = Keys::fresh().unwrap().sign(&claims()).unwrap();
        let [_, _, other_signature] = other.split('.').collect::<Vec<_>>()[..] else { panic!("{other}") };
        let table = [
            ("another key", other.clone()),
            ("another key under our name", format!("{header}.{body}.{other_signature}")),
            ("no algorithm", format!("{none}.{body}.")),
            ("no algorithm, signed", format!("{none}.{body}.{signature}")),
            ("a symmetric algorithm", format!("{symmetric}.{body}.{signature}")),
            ("other claims", format!("{header}.{more}.{signature}")),
            ("a flipped bit", format!("{header}.{body}.{flipped}")),
            ("a signature cut short", format!("{header}.{body}.{}", &signature[..20])),
            ("no signature", format!("{header}.{body}.")),
            ("two parts", format!("{header}.{body}")),
            ("four parts", format!("{token}.{signature}")),
            ("nothing", String::new()),
            ("padding", format!("{token}=")),
            ("too long", format!("{header}.{}.{signature}", "A".repeat(MAX_BYTES))),
        ];
        for (what, token) in table {
            assert_eq!(keys.verify(&token, NOW), None, "{what}");
        }
        assert_eq!(
            keys.verify(&token, NOW).as_deref(),
            Some(&claims()),
            "what was tried leaves nothing behind"
        );
    }

    #[test]
    fn a_key_is_stored_and_never_printed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sa.key");
        let keys = Keys::load_or_make(&path).unwrap();
        let token = keys.sign(&claims()).unwrap();
        let again = Keys::load_or_make(&path).unwrap();
        assert_eq!(again.verify(&token, NOW).as_deref(), Some(&claims()));
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(format!("{keys:?}"), "Keys");
        std::fs::write(&path, "damaged").unwrap();
        assert!(Keys::load_or_make(&path).unwrap_err().to_string().contains("sa.key"));
        let set = again.public_set();
        assert_eq!(set["keys"][0]["x"].as_str().map(str::len), Some(43));
        assert_eq!(set["keys"][0]["d"], Value::Null);
    }
}
