//! Discovery, OpenAPI, and the documents with which others verify tokens.

use std::sync::Arc;

use http::header::HeaderValue;
use http::request::Parts;
use http::{Method, Response};

use super::negotiate::{self, ResponseFormat};
use super::reply::{self, Body};
use super::route::Target;
use super::status::{self, StatusError};
use super::{ApiServer, auth, discovery, openapi};

/// Serves the documents with which others verify service account tokens (KEP-1393).
fn issuer(server: &ApiServer, target: Target<'_>) -> Option<serde_json::Value> {
    match target {
        Target::Other("/.well-known/openid-configuration") => Some(auth::tokens::discovery()),
        Target::Other("/openid/v1/jwks") => server.identities.public_set(),
        _ => None,
    }
}

/// Answers requests for discovery and OpenAPI.
pub fn describe(
    server: &Arc<ApiServer>,
    parts: &Parts,
    target: Target<'_>,
) -> Result<Response<Body>, StatusError> {
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return Err(status::method_not_allowed());
    }
    let catalog = server.catalog();
    if let Target::Other(path) = target
        && path.starts_with("/openapi/")
    {
        return openapi::answer(&catalog, path, &parts.headers);
    }
    if let Some(set) = issuer(server, target) {
        return Ok(reply::json_value(200, &set));
    }
    let form = negotiate::accepted(&parts.headers)?;
    let found = match (target, form) {
        (Target::CoreVersions, ResponseFormat::Discovery(version)) => {
            Some(discovery::aggregated(&catalog, true, version))
        }
        (Target::Groups, ResponseFormat::Discovery(version)) => {
            Some(discovery::aggregated(&catalog, false, version))
        }
        (Target::CoreVersions, _) => {
            let host = parts
                .headers
                .get(http::header::HOST)
                .and_then(|host| host.to_str().ok())
                .unwrap_or("localhost");
            Some(discovery::core_versions(host))
        }
        (Target::Groups, _) => Some(discovery::groups(&catalog)),
        (Target::Group(name), _) => discovery::group(&catalog, name),
        (Target::Resources { group, version }, _) => discovery::resources(&catalog, group, version),
        (Target::Other(_) | Target::Action(_), _) => None,
    };
    let found = found.ok_or_else(status::no_such_resource)?;
    let mut answer = reply::json_value(200, &found);
    if let ResponseFormat::Discovery(version) = form {
        let media = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
        if let Ok(media) = HeaderValue::from_str(&media) {
            answer.headers_mut().insert(http::header::CONTENT_TYPE, media);
        }
    }
    Ok(answer)
}
