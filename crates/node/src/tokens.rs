//! Service account tokens in projected volumes: requested from the API for one pod, and renewed well before they
//! expire.
//!
//! Rule: `pkg/kubelet/token/token_manager.go`: a token is renewed when 80 % of its lifetime, or 24 hours, have passed.
//! The token itself says when it is due, so nothing is kept in memory. It is stored in the volume's file and nowhere
//! else.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount, ServiceAccountTokenProjection, Volume};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::Value;

/// The lifetime of a token that specifies none, in seconds.
const DEFAULT_SECONDS: i64 = 60 * 60;
/// The age at which a token is renewed at the latest, in seconds.
const MAX_AGE_SECONDS: i64 = 24 * 60 * 60;

/// Why the API issued no token.
#[derive(Debug, thiserror::Error)]
#[error("failed to fetch token: {0}")]
pub struct TokenError(String);

/// Returns a projection's token: the one in the volume, whose files are below `folder`, unless it is due, otherwise a
/// new one.
///
/// # Errors
/// When the API issues none.
pub async fn token(
    client: &Client,
    pod: &Pod,
    folder: &Path,
    volume: &Volume,
    source: &ServiceAccountTokenProjection,
) -> Result<String, TokenError> {
    let file = folder.join(&volume.name).join("..data").join(&source.path);
    if let Some(present) = std::fs::read_to_string(file).ok().filter(|token| !is_due(token, now())) {
        return Ok(present);
    }
    let metadata = &pod.metadata;
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: Some(source.audience.iter().filter(|name| !name.is_empty()).cloned().collect()),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: metadata.name.clone(),
                uid: metadata.uid.clone(),
            }),
            expiration_seconds: Some(source.expiration_seconds.unwrap_or(DEFAULT_SECONDS)),
        }),
        ..TokenRequest::default()
    };
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let account = account.filter(|account| !account.is_empty()).unwrap_or("default");
    let made = accounts.create_token_request(account, &PostParams::default(), &request).await;
    let made = made.map_err(|error| TokenError(error.to_string()))?;
    made.status
        .and_then(|status| status.token)
        .ok_or_else(|| TokenError("the response contains none".to_owned()))
}

/// Returns whether a volume, whose files are below `folder`, has a token that is due.
pub fn holds_due(volume: &Volume, folder: &Path) -> bool {
    let sources = volume.projected.iter().flat_map(|source| source.sources.iter().flatten());
    let mut tokens = sources.filter_map(|part| part.service_account_token.as_ref());
    tokens.any(|source| {
        let file = folder.join(&volume.name).join("..data").join(&source.path);
        // A missing file is just being created.
        std::fs::read_to_string(file).is_ok_and(|token| is_due(&token, now()))
    })
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// Returns whether to renew a token at the time `now`, in seconds since 1970. Anything that is not a valid token is
/// renewed.
fn is_due(token: &str, now: i64) -> bool {
    let claims = || {
        let text = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
        let claims: Value = serde_json::from_slice(&text).ok()?;
        Some((claims["iat"].as_i64()?, claims["exp"].as_i64()?))
    };
    claims().is_none_or(|(made, ends)| {
        let life = ends.saturating_sub(made).max(0);
        now >= made.saturating_add((life / 5 * 4).min(MAX_AGE_SECONDS))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_due_after_80_percent_of_its_lifetime_or_a_day() {
        let token = |made: i64, ends: i64| {
            format!("x.{}.x", URL_SAFE_NO_PAD.encode(format!("{{\"iat\":{made},\"exp\":{ends}}}")))
        };
        let hour = token(1000, 4600);
        assert_eq!((is_due(&hour, 3879), is_due(&hour, 3880)), (false, true));
        let year = token(0, 365 * 86_400);
        assert_eq!((is_due(&year, 86_399), is_due(&year, 86_400)), (false, true));
        assert!(is_due("", 0) && is_due("a.b.c", 0));
    }
}
