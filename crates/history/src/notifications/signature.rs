//! The signature of a webhook, as in the Standard Webhooks specification 1.0.0, so that existing libraries verify it.
//!
//! | header | value |
//! |---|---|
//! | `webhook-id` | the delivery's id, the same at every try |
//! | `webhook-timestamp` | when this try was signed, in seconds since 1970 |
//! | `webhook-signature` | `v1,` and the Base64 of HMAC-SHA256 with the rule's key over `ID.TIMESTAMP.BODY` |
//!
//! A receiver verifies the signature, refuses timestamps that differ from its clock by more than some minutes, and
//! ignores ids that it has seen.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use ring::hmac;

use super::Secret;

/// The name of the header with the delivery's id.
pub const ID: &str = "webhook-id";
/// The name of the header with the time.
pub const TIMESTAMP: &str = "webhook-timestamp";
/// The name of the header with the signature.
pub const SIGNATURE: &str = "webhook-signature";
/// The version of the signature.
const VERSION: &str = "v1,";

/// Returns the value of the header [`SIGNATURE`].
#[must_use]
pub fn sign(secret: &Secret, id: &str, at: Timestamp, body: &[u8]) -> String {
    let tag = hmac::sign(&key(secret), &signed(id, at.as_second(), body));
    format!("{VERSION}{}", STANDARD.encode(tag.as_ref()))
}

fn key(secret: &Secret) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.bytes())
}

fn signed(id: &str, seconds: i64, body: &[u8]) -> Vec<u8> {
    let mut signed = format!("{id}.{seconds}.").into_bytes();
    signed.extend_from_slice(body);
    signed
}

/// The three headers as received.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'h> {
    /// `webhook-id`.
    pub id: &'h str,
    /// `webhook-timestamp`.
    pub timestamp: &'h str,
    /// `webhook-signature`: one or several signatures, separated by spaces.
    pub signature: &'h str,
}

/// Whether a webhook was signed with a key at a time near to now. Compares in constant time.
#[must_use]
pub fn verify(
    secret: &Secret,
    headers: Headers<'_>,
    body: &[u8],
    now: Timestamp,
    tolerance: Duration,
) -> bool {
    let Ok(seconds) = headers.timestamp.parse::<i64>() else { return false };
    if now.as_second().abs_diff(seconds) > tolerance.as_secs() {
        return false;
    }
    let signed = signed(headers.id, seconds, body);
    let tags =
        headers.signature.split(' ').filter_map(|one| STANDARD.decode(one.strip_prefix(VERSION)?).ok());
    tags.into_iter().any(|tag| hmac::verify(&key(secret), &signed, &tag).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: Duration = Duration::from_secs(300);

    /// The example of the specification's libraries.
    fn example() -> (Secret, Timestamp) {
        let secret = Secret::new(STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap()).unwrap();
        (secret, Timestamp::from_second(1_614_265_330).unwrap())
    }

    #[test]
    fn the_signature_is_that_of_the_specification() {
        let (secret, at) = example();
        let signature = sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_changed_late_or_foreign_webhook_is_refused() {
        let (secret, at) = example();
        let signature = sign(&secret, "id", at, b"body");
        let timestamp = at.as_second().to_string();
        let headers = Headers { id: "id", timestamp: &timestamp, signature: &signature };
        assert!(verify(&secret, headers, b"body", at, TOLERANCE));
        let two = format!("v1,AAAA {signature}");
        assert!(
            verify(&secret, Headers { signature: &two, ..headers }, b"body", at, TOLERANCE),
            "a rotated key"
        );
        assert!(!verify(&secret, headers, b"Body", at, TOLERANCE));
        assert!(!verify(&secret, Headers { id: "other", ..headers }, b"body", at, TOLERANCE));
        assert!(!verify(&secret, Headers { signature: "v1,", ..headers }, b"body", at, TOLERANCE));
        let late = at.checked_add(Duration::from_secs(301)).unwrap();
        assert!(!verify(&secret, headers, b"body", late, TOLERANCE));
        let other = Secret::new(vec![7; 32]).unwrap();
        assert!(!verify(&other, headers, b"body", at, TOLERANCE));
    }
}
