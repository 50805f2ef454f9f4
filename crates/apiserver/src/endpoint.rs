//! A request's way to its answer: authenticated, routed, authorized, then answered.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use connections::Slot;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::Empty;
use jiff::Timestamp;
use objects::access::AccessAttributes;
use tower::BoxError;

use super::ApiServer;
use super::audit::AuditEvent;
use super::auth::certificates::Certified;
use super::auth::{self, UserInfo, authority, impersonation};
use super::dispatch::{check_manager, dispatch};
use super::documents::describe;
use super::find::{deprecated, find, warned};
use super::negotiate::{self, ResponseFormat};
use super::reply::{self, Body};
use super::request_context::RequestContext;
use super::route::{self, Action, Target};
use super::status::{self, StatusError};
use super::{body, discovery, in_process, metrics, query, streams};

/// How the user of a request is determined.
#[derive(Clone)]
enum Authentication {
    /// By the credentials in each request.
    Credentials,
    /// By the client certificate of the connection.
    Certificate(Certified),
    /// The request comes from this process, as this user.
    Trusted(UserInfo),
}

/// An entry point to the server, as a service of HTTP requests.
#[derive(Clone)]
pub struct Endpoint {
    server: Arc<ApiServer>,
    authentication: Authentication,
    /// The connection that the requests arrive on, if there is one.
    slot: Option<Arc<Slot>>,
}

impl Endpoint {
    /// Creates an endpoint that requires credentials.
    pub fn with_credentials(server: Arc<ApiServer>) -> Self {
        Self { server, authentication: Authentication::Credentials, slot: None }
    }

    /// Returns the endpoint for one connection, with the client certificate it presented, if any.
    #[must_use]
    pub fn of_connection(self, certificate: Option<Certified>, slot: Arc<Slot>) -> Self {
        let authentication = certificate.map_or(Authentication::Credentials, Authentication::Certificate);
        Self { server: self.server, authentication, slot: Some(slot) }
    }

    /// Creates an endpoint for one user of this process.
    pub fn trusted(server: Arc<ApiServer>, user: UserInfo) -> Self {
        Self { server, authentication: Authentication::Trusted(user), slot: None }
    }

    /// Authenticates a request. The first valid one marks its connection as authenticated.
    fn authenticate(&self, headers: &HeaderMap, now: Timestamp) -> Result<UserInfo, StatusError> {
        let ApiServer { identities, store, .. } = self.server.as_ref();
        let user = match &self.authentication {
            Authentication::Trusted(user) => user.clone(),
            Authentication::Certificate(certified) if now < certified.until => certified.user.clone(),
            Authentication::Certificate(_) => return Err(status::unauthorized()),
            Authentication::Credentials => {
                auth::authenticate(identities, store, headers, now)?.ok_or_else(status::unauthorized)?
            }
        };
        if let Some(slot) = &self.slot {
            slot.keep_for(&user.name);
        }
        Ok(user)
    }
}

impl<B> tower::Service<Request<B>> for Endpoint
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let endpoint = self.clone();
        if self.slot.is_none() && in_process::lacks_connection(&request) {
            return in_process::connected(endpoint, request.map(|_| Empty::new())).map(Ok).boxed();
        }
        async move {
            let server = &endpoint.server;
            let (parts, body) = request.into_parts();
            let is_own = matches!(endpoint.authentication, Authentication::Trusted(_));
            let mut trail = server.audit.as_ref().map(|_| AuditEvent::begin(&parts, is_own));
            let answer = respond(&endpoint, &parts, body, &mut trail).await;
            let answer = answer.unwrap_or_else(|refusal| {
                note(&mut trail, |trail| trail.refused(&refusal.message));
                reply::refusal(&refusal)
            });
            Ok(match (&server.audit, trail) {
                (Some(audit), Some(trail)) => audit.finish(trail, answer),
                _ => answer,
            })
        }
        .boxed()
    }
}

/// A request on its way to an answer: authenticated, then routed, then answered.
struct Incoming<'a> {
    endpoint: &'a Endpoint,
    parts: &'a Parts,
    /// The decoded path.
    path: &'a str,
    /// When it arrived.
    now: Timestamp,
}

/// What an authorized request asks for.
enum Routed<'a> {
    /// An action on a kind.
    RequestContext(Box<RequestContext<'a>>),
    /// The metrics of a node.
    Summary(&'a str),
    /// Discovery, OpenAPI and the like.
    Document(Target<'a>),
}

async fn respond<B>(
    endpoint: &Endpoint,
    parts: &Parts,
    body: B,
    trail: &mut Option<AuditEvent>,
) -> Result<Response<Body>, StatusError>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    let path = query::decode_path(parts.uri.path());
    if let Some(answer) = public(&parts.method, &path) {
        return Ok(answer);
    }
    let incoming = Incoming { endpoint, parts, path: &path, now: Timestamp::now() };
    let user = authenticated(&incoming, trail)?;
    match routed(&incoming, user, trail)? {
        Routed::RequestContext(context) => answer(&context, parts, body, trail).await,
        Routed::Summary(node) => metrics::summary(&endpoint.server, node).await,
        Routed::Document(target) => describe(&endpoint.server, parts, target),
    }
}

/// Determines the user: the authenticated one, or the impersonated one.
fn authenticated(incoming: &Incoming<'_>, trail: &mut Option<AuditEvent>) -> Result<UserInfo, StatusError> {
    let Incoming { endpoint, parts, now, .. } = *incoming;
    let user = endpoint.authenticate(&parts.headers, now)?;
    note(trail, |trail| trail.know(&user, None));
    let impersonated = impersonation::wanted(&endpoint.server.authority, &user, &parts.headers)?;
    note(trail, |trail| trail.know(&user, impersonated.as_ref()));
    Ok(impersonated.unwrap_or(user))
}

/// Determines what the request asks for, authorizes it, and negotiates the response format.
fn routed<'a>(
    incoming: &Incoming<'a>,
    user: UserInfo,
    trail: &mut Option<AuditEvent>,
) -> Result<Routed<'a>, StatusError> {
    let Incoming { endpoint, parts, path, now } = *incoming;
    let server = &endpoint.server;
    let query =
        query::parse(parts.uri.query().unwrap_or_default()).map_err(|refusal| {
            match route::route(&parts.method, path, false) {
                Ok(Target::Action(action)) => warned(server, &action, refusal, true),
                _ => refusal,
            }
        })?;
    if let Some(node) = metrics::summary_of(&parts.method, path) {
        let (verb, resource, subresource) = ("get", "nodes", "proxy");
        let action =
            Action { verb, group: "", version: "v1", namespace: None, resource, name: node, subresource };
        authority::authorize(&server.authority, &user, &authority::ask_of(&action, ""))?;
        return Ok(Routed::Summary(node));
    }
    let action = match route::route(&parts.method, path, query.watch)? {
        Target::Action(action) => action,
        target => {
            let verb = parts.method.as_str().to_lowercase();
            permit(server, &user, &AccessAttributes::Path { verb: &verb, path }, trail)?;
            return Ok(Routed::Document(target));
        }
    };
    let selected = authority::selected_name(&action, &query.field_selector);
    let ask = authority::ask_of(&action, &selected);
    note(trail, |trail| trail.about(&action));
    permit(server, &user, &ask, trail)?;
    let entry = find(server, &action).map_err(|refusal| deprecated(server, &action, refusal))?;
    let has_form = !streams::is_stream(&action) && action.subresource != "log";
    let form = if has_form { negotiate::accepted(&parts.headers) } else { Ok(ResponseFormat::Object) };
    let form = form.map_err(|refusal| deprecated(server, &action, refusal))?;
    Ok(Routed::RequestContext(Box::new(RequestContext {
        server,
        user,
        action,
        entry,
        query,
        form,
        headers: &parts.headers,
        now,
        warnings: Mutex::default(),
        annotations: Mutex::default(),
    })))
}

/// Performs the action, and adds the warnings that it caused.
async fn answer<B>(
    context: &RequestContext<'_>,
    parts: &Parts,
    body: B,
    trail: &mut Option<AuditEvent>,
) -> Result<Response<Body>, StatusError>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    if streams::is_stream(&context.action) {
        let answer = streams::answer(context, parts).await;
        note(trail, |trail| context.each_annotation(|key, value| trail.annotate(key, value)));
        return answer.map(|answer| with_warnings(context, answer));
    }
    check_manager(context).map_err(|refusal| warned(context.server, &context.action, refusal, true))?;
    // For custom kinds, a patch with an unknown media type still reaches a handler; for built-in kinds it doesn't.
    let is_routed = !context.entry.kind.is_builtin()
        || context.action.verb != "patch"
        || negotiate::patch_type(context.headers, context.entry.kind.is_builtin()).is_ok();
    if let Some(text) = context.entry.kind.deprecation.as_ref().filter(|_| is_routed) {
        context.warn(text.as_str());
    }
    let bytes = if reads_body(&parts.method) { body::read(body).await? } else { Bytes::new() };
    let answer = dispatch(context, &bytes).await.unwrap_or_else(|refusal| {
        note(trail, |trail| trail.refused(&refusal.message));
        reply::refusal(&refusal)
    });
    note(trail, |trail| context.each_annotation(|key, value| trail.annotate(key, value)));
    Ok(with_warnings(context, answer))
}

/// Updates the audit trail, if there is one.
fn note(trail: &mut Option<AuditEvent>, fill_in: impl FnOnce(&mut AuditEvent)) {
    if let Some(trail) = trail {
        fill_in(trail);
    }
}

/// Authorizes the request, and records the decision in the audit trail.
fn permit(
    server: &ApiServer,
    user: &UserInfo,
    ask: &AccessAttributes<'_>,
    trail: &mut Option<AuditEvent>,
) -> Result<(), StatusError> {
    let decided = authority::authorize(&server.authority, user, ask);
    note(trail, |trail| trail.decided(decided.is_ok(), decided.as_deref().unwrap_or_default()));
    decided.map(|_| ())
}

fn reads_body(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE)
}

/// Answers the paths that need no authentication.
fn public(method: &Method, path: &str) -> Option<Response<Body>> {
    let is_get = *method == Method::GET || *method == Method::HEAD;
    match path.trim_end_matches('/') {
        "/healthz" | "/livez" | "/readyz" if is_get => Some(reply::text(200, "ok")),
        "/version" if is_get => Some(reply::json_value(200, &discovery::version())),
        _ => None,
    }
}

fn with_warnings(context: &RequestContext<'_>, mut answer: Response<Body>) -> Response<Body> {
    let warnings = context.warnings.lock().unwrap_or_else(PoisonError::into_inner);
    for warning in warnings.iter() {
        if let Some(value) = reply::warning(warning) {
            answer.headers_mut().append(http::header::WARNING, value);
        }
    }
    answer
}
