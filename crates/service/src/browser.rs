//! Who calls when a browser does: a session's cookie, or the token that a trusted OAuth proxy passes on, becomes the
//! bearer token of the request before anything else looks at it. Other requests pass unchanged.
//!
//! A browser sends cookies with requests that other pages make it send. So a request that changes something must come
//! from a page of this service ([`Origin`]) and carry a token that only such a page can read.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use connections::Share;
use futures::StreamExt as _;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};

use crate::body::exhausted;
use crate::origin::Origin;
use crate::problem::Problem;
use crate::response::refuse;
use crate::service::Service;
use crate::session::{Csrf, Session};

/// The cookie's name. With this prefix, browsers accept it only for this host, all paths, and over TLS.
const COOKIE: &str = "__Host-odh-session";
/// The header with the token against forged requests.
const CSRF: &str = "x-csrf-token";
/// The header in which OpenShift's OAuth proxy passes on the user's token. Its headers with names of users prove
/// nothing and are not read.
const FORWARDED_TOKEN: &str = "x-forwarded-access-token";
/// The header in which a proxy passes on the host that the browser asked.
const FORWARDED_HOST: &str = "x-forwarded-host";

/// Where a connection comes from.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Whether it has a certificate of the authority for proxies.
    pub is_verified: bool,
}

/// Returns the address that a request comes from, as its share of what strangers may use is kept by.
pub fn address_of(extensions: &http::Extensions) -> String {
    let peer = extensions.get::<Peer>();
    peer.map(|peer| peer.address.ip().to_canonical().to_string()).unwrap_or_default()
}

/// What a stranger's request takes while its body is awaited: of itself, and for each field of its head.
const MEMORY_OF_REQUEST: usize = 4 << 10;
const MEMORY_OF_FIELD: usize = 96;

/// Returns the share of the memory for strangers that the address of a request has, with what the request takes already.
///
/// # Errors
/// 429 or 503 if there is no memory for it.
pub fn share_of_stranger(
    service: &Service,
    headers: &HeaderMap,
    extensions: &http::Extensions,
) -> Result<Arc<Share>, Problem> {
    let share = service.forms.share(address_of(extensions));
    share.take(MEMORY_OF_REQUEST + headers.len() * MEMORY_OF_FIELD).map_err(exhausted)?;
    Ok(Arc::new(share))
}

/// How a request's caller was found.
#[derive(Clone, Debug)]
enum Source {
    /// By a session.
    Session(Box<Session>),
    /// By a token that a proxy passed on.
    Proxy,
}

/// Gives a request of a browser its bearer token, and its answer the token that changes have to carry.
pub async fn identify(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response<Body> {
    let (mut parts, body) = request.into_parts();
    let source = match source(&service, &mut parts).await {
        Ok(Some(source)) => source,
        Ok(None) => return next.run(Request::from_parts(parts, body)).await,
        Err(problem) => return refuse(&problem),
    };
    let csrf = match &source {
        Source::Session(session) => session.csrf.clone(),
        Source::Proxy => match service.identity.of(&parts.headers).await {
            Ok(_) => Csrf::of_authorization(&parts.headers),
            Err(problem) => return refuse(&problem),
        },
    };
    if let Err(problem) = genuine(&service, &parts, &csrf) {
        return refuse(&problem);
    }
    if let Source::Session(session) = &source {
        parts.extensions.insert(Session::clone(session));
    }
    let mut response = next.run(Request::from_parts(parts, body)).await;
    if let Ok(token) = HeaderValue::try_from(csrf.token()) {
        response.headers_mut().insert(HeaderName::from_static(CSRF), token);
    }
    match source {
        Source::Proxy => response,
        Source::Session(session) if response.status() == StatusCode::UNAUTHORIZED => {
            // The token behind it has expired or was revoked. Should the session stay in the store, its token is refused again.
            let _ = service.sessions.end(&session.id).await;
            response.headers_mut().append(header::SET_COOKIE, no_cookie());
            response
        }
        Source::Session(session) => while_it_lasts(response, *session),
    }
}

/// Finds a request's token, and makes it the request's bearer token. A bearer token of the request itself comes first.
///
/// # Errors
/// 503 if it is unknown whether the request's cookie is that of a session.
async fn source(service: &Service, parts: &mut Parts) -> Result<Option<Source>, Problem> {
    let forwarded = parts.headers.remove(FORWARDED_TOKEN);
    if parts.headers.contains_key(header::AUTHORIZATION) {
        return Ok(None);
    }
    let found = match forwarded.filter(|_| is_trusted(service, parts)) {
        Some(token) => bearer(token.as_bytes()).map(|authorization| (Source::Proxy, authorization)),
        None => session_of(service, &parts.headers).await?.map(|session| {
            let authorization = session.authorization.clone();
            (Source::Session(Box::new(session)), authorization)
        }),
    };
    Ok(found.map(|(source, authorization)| {
        parts.headers.insert(header::AUTHORIZATION, authorization);
        source
    }))
}

/// Returns the session of a request's cookie.
///
/// # Errors
/// 503 if it is unknown whether there is one.
pub async fn session_of(service: &Service, headers: &HeaderMap) -> Result<Option<Session>, Problem> {
    match cookie(headers) {
        Some(secret) => service.sessions.find(secret).await,
        None => Ok(None),
    }
}

/// Writes a token as a bearer authorization.
pub fn bearer(token: &[u8]) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from([b"Bearer ", token].concat()).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Whether the other side is a proxy whose headers are believed.
fn is_trusted(service: &Service, parts: &Parts) -> bool {
    let settings = &service.settings;
    parts.extensions.get::<Peer>().is_some_and(|peer| {
        peer.is_verified || (settings.trusts_loopback && peer.address.ip().to_canonical().is_loopback())
    })
}

/// Checks that a page of this service makes the request, if it changes something.
fn genuine(service: &Service, parts: &Parts, csrf: &Csrf) -> Result<(), Problem> {
    if matches!(parts.method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    if !is_own_page(service, parts) {
        let message = "the request does not come from a page of this service";
        return Err(Problem::new(StatusCode::FORBIDDEN, "NotAllowed", message)
            .because("ForeignOrigin")
            .hint("programs send a bearer token; behind a proxy, name its address with --origin"));
    }
    let sent = parts.headers.get(CSRF).map(HeaderValue::as_bytes).unwrap_or_default();
    if csrf.accepts(sent) {
        return Ok(());
    }
    let message = format!("the header {CSRF} is missing or not the session's");
    Err(Problem::new(StatusCode::FORBIDDEN, "NotAllowed", message)
        .because("CsrfToken")
        .hint("send the header of the same name of an answer, or the csrfToken of GET /session"))
}

/// Whether a browser says that one of this service's pages makes the request.
pub fn is_own_page(service: &Service, parts: &Parts) -> bool {
    let text = |name: HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let Some(origin) = text(header::ORIGIN) else { return false };
    if service.settings.origins.iter().map(Origin::as_str).any(|own| own == origin) {
        return true;
    }
    let host = parts.uri.authority().map(http::uri::Authority::as_str).or_else(|| text(header::HOST));
    let forwarded = text(HeaderName::from_static(FORWARDED_HOST)).filter(|_| is_trusted(service, parts));
    // This service is reached over TLS only.
    origin.strip_prefix("https://").is_some_and(|origin| [host, forwarded].contains(&Some(origin)))
}

/// Ends a stream once its session does.
fn while_it_lasts(response: Response<Body>, session: Session) -> Response<Body> {
    let is_stream = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| [&b"text/event-stream"[..], b"application/x-ndjson"].contains(&kind.as_bytes()));
    if !is_stream {
        return response;
    }
    let ends = async move {
        tokio::select! {
            () = session.over.cancelled() => {}
            () = tokio::time::sleep_until(session.until) => {}
        }
    };
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(ends))))
}

/// The secret in a request's cookie.
fn cookie(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|cookies| cookies.split(';'))
        .find_map(|cookie| cookie.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

/// The header that sets the cookie of a session.
pub fn set_cookie(secret: &str, seconds: u64) -> Result<HeaderValue, Problem> {
    let cookie = format!("{COOKIE}={secret}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict");
    HeaderValue::try_from(cookie).map_err(|_| Problem::unavailable("the session cannot be kept"))
}

/// The header that removes the cookie.
pub fn no_cookie() -> HeaderValue {
    HeaderValue::from_static("__Host-odh-session=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sessions_cookie_is_found_among_others() {
        let of = |text: &'static str| {
            let headers = HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_static(text))]);
            cookie(&headers).map(str::to_owned)
        };
        assert_eq!(of("a=b; __Host-odh-session=s; c=d").as_deref(), Some("s"));
        assert_eq!(of("x__Host-odh-session=s; __Host-odh-sessions=t"), None);
    }
}
