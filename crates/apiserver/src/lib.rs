//! The API server: turns HTTP requests into responses, on top of the store.
//!
//! How a request is processed: [`auth`] authenticates the user, [`route`] derives the action from method and
//! path, [`auth`] authorizes it, [`query`] and [`negotiate`] parse the parameters and the response format.
//! Then one of [`read`], [`watch`], [`create`], [`update`], [`patching`], [`delete`], [`subresources`],
//! [`reviews`] handles it, using [`objects`] and the store; [`reply`] writes the response. An error at any step
//! becomes a `Status` ([`status`]). The loopback listener ([`listen`]) and the in-process client share this
//! path.
//!
//! The API server does no controller's work: what a controller does in Kubernetes, a controller does here.

pub mod admission;
pub mod audit;
pub mod auth;
mod body;
pub mod bootstrap;
mod catalog;
pub mod compaction;
mod create;
mod decoding;
mod definitions;
mod delete;
mod discovery;
mod eviction;
pub mod expiry;
mod generated_names;
pub mod guests;
#[cfg(test)]
mod hostile;
mod in_process;
pub mod listen;
mod managed;
mod metrics;
mod negotiate;
mod openapi;
mod openapi_protobuf;
mod owners;
mod patching;
mod protobuf;
mod query;
mod read;
mod reply;
mod request_context;
mod reviews;
mod route;
mod scale;
mod selection;
mod service_accounts;
pub mod services;
mod status;
pub mod store;
pub mod streams;
mod subresources;
pub mod tls;
mod token_request;
mod type_meta;
mod update;
mod versions;
mod watch;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::HeaderValue;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::Empty;
use jiff::Timestamp;
use tower::BoxError;

pub use ::kubelet;
pub use definitions::restore;
pub use reply::Body;

use audit::{Audit, AuditEvent};
use auth::authority::{self, Authority};
use auth::certificates::Certified;
use auth::{Identities, UserInfo, impersonation};
use catalog::{Catalog, Entry};
use connections::Slot;
use kubelet::Kubelets;
use negotiate::ResponseFormat;
use reply::Shown;
use request_context::RequestContext;
use route::{Action, Target};
use status::StatusError;

use crate::store::{Key, Resource, Store};
use objects::access::AccessAttributes;

/// The API server. One instance serves all endpoints of a cluster.
pub struct ApiServer {
    store: Arc<Store>,
    catalog: RwLock<Arc<Catalog>>,
    identities: Identities,
    authority: Authority,
    /// Whether the admission plug-in ServiceAccount is enabled.
    admits_service_accounts: bool,
    audit: Option<Arc<Audit>>,
    /// The nodes that serve logs and streams.
    pub kubelets: Kubelets,
    compaction: compaction::Compaction,
    hooks: admission::Hooks,
    policies: admission::Policies,
    /// The open streams into pods.
    pub sessions: streams::Sessions,
    quotas: admission::quota::Quotas,
    services: services::Services,
}

impl ApiServer {
    /// Returns the CA certificate, in PEM, of the client certificate that this server presents to webhooks
    /// that request one. Each process generates a new one.
    pub fn webhook_authority(&self) -> Option<String> {
        self.hooks.identity().map(|identity| identity.authority.clone())
    }

    /// Creates a server on an existing store. It serves the built-in kinds.
    pub fn new(store: Arc<Store>, identities: Identities) -> Self {
        Self {
            authority: Authority::new(store.clone()),
            admits_service_accounts: false,
            audit: None,
            store,
            catalog: RwLock::new(Arc::new(Catalog::of_builtin(&served()))),
            identities,
            kubelets: Kubelets::default(),
            compaction: compaction::Compaction::default(),
            hooks: admission::Hooks::default(),
            policies: admission::Policies::default(),
            sessions: streams::Sessions::default(),
            quotas: admission::quota::Quotas::default(),
            services: services::Services::default(),
        }
    }

    /// Enables the admission plug-in ServiceAccount, for a cluster whose controllers create the account
    /// `default`.
    #[must_use]
    pub fn with_service_accounts(self) -> Self {
        Self { admits_service_accounts: true, ..self }
    }

    /// Enables audit logging of every request.
    #[must_use]
    pub fn with_audit(self, audit: Option<Audit>) -> Self {
        Self { audit: audit.map(Arc::new), ..self }
    }

    /// Returns the server's store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change_catalog(&self, change: impl Fn(&Catalog) -> Catalog) {
        let mut catalog = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
        *catalog = Arc::new(change(&catalog));
    }
}

/// Returns the built-in kinds: those in the store, and the metrics that are read from the nodes.
fn served() -> Vec<Arc<objects::Kind>> {
    objects::builtin_kinds().iter().cloned().chain(metrics::kinds()).collect()
}

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

/// Serves the documents with which others verify service account tokens (KEP-1393).
fn issuer(server: &ApiServer, target: Target<'_>) -> Option<serde_json::Value> {
    match target {
        Target::Other("/.well-known/openid-configuration") => Some(auth::tokens::discovery()),
        Target::Other("/openid/v1/jwks") => server.identities.public_set(),
        _ => None,
    }
}

/// Answers requests for discovery and OpenAPI.
fn describe(
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

/// Subresources of built-in kinds that Kubernetes has and this cluster doesn't support.
const UNSUPPORTED: [(&str, &str); 5] = [
    ("pods", "ephemeralcontainers"),
    ("pods", "proxy"),
    ("pods", "resize"),
    ("services", "proxy"),
    ("nodes", "proxy"),
];

/// Finds the kind that an action is about, and checks that it supports the action.
fn find(server: &ApiServer, action: &Action<'_>) -> Result<Entry, StatusError> {
    let catalog = server.catalog();
    let entry = catalog
        .find(action.group, action.version, action.resource)
        .ok_or_else(status::no_such_resource)?
        .clone();
    let kind = &entry.kind;
    if !kind.namespaced && action.namespace.is_some() {
        return Err(status::no_such_resource());
    }
    let verbs = match action.subresource {
        "" => kind.verbs,
        name => match kind.subresource(name) {
            Some(part) => part.verbs,
            None if UNSUPPORTED.contains(&(kind.resource_name().as_str(), name)) => {
                let what = format!("{}/{name}", kind.resource_name());
                return Err(status::not_implemented(&what));
            }
            None if !kind.is_builtin() => {
                let about = status::About { group: &kind.group, resource: &kind.plural, name: action.name };
                return Err(status::not_found(about));
            }
            None => return Err(status::no_such_resource()),
        },
    };
    let of_all_namespaces = matches!(action.verb, "list" | "watch") && action.name.is_empty();
    let is_misplaced = kind.namespaced && action.namespace.is_none() && !of_all_namespaces;
    let is_named_create = action.verb == "create" && action.subresource.is_empty() && !action.name.is_empty();
    if action.verb == "update" && action.name.is_empty() {
        // Built-in kinds have no such route. For custom kinds, the handler reports that the name is missing.
        return Err(if kind.is_builtin() {
            status::method_not_allowed()
        } else {
            status::bad_request("name must be provided")
        });
    }
    if !verbs.contains(&action.verb) || is_misplaced || is_named_create {
        return Err(status::method_not_allowed());
    }
    Ok(entry)
}

/// Adds the deprecation warning to an error that occurs before the request reaches a handler. Only custom
/// kinds warn this early.
fn deprecated(server: &ApiServer, action: &Action<'_>, refusal: StatusError) -> StatusError {
    warned(server, action, refusal, false)
}

/// Adds a deprecation warning to an error. Built-in kinds warn only once the request is routed.
fn warned(server: &ApiServer, action: &Action<'_>, mut refusal: StatusError, is_routed: bool) -> StatusError {
    let catalog = server.catalog();
    let entry = catalog.find(action.group, action.version, action.resource);
    let text = entry
        .filter(|entry| is_routed || !entry.kind.is_builtin())
        .and_then(|entry| entry.kind.deprecation.as_ref());
    refusal.warning = text.map(|text| text.to_string().into());
    refusal
}

async fn dispatch(context: &RequestContext<'_>, bytes: &Bytes) -> Result<Response<Body>, StatusError> {
    if context.action.group == metrics::GROUP {
        return metrics::answer(context).await;
    }
    match (context.action.verb, context.action.subresource) {
        ("get", "log") => subresources::log(context).await,
        ("get", "scale") => subresources::get_scale(context),
        ("get", _) => read::get(context),
        ("list", _) => read::list(context),
        ("watch", _) => watch::watch(context),
        ("delete", "") => {
            let options = delete_options(context, bytes)?;
            let outcome = delete::delete(context, &options).await?;
            clean_up_definition(context, context.action.name);
            delete::answer(context, outcome)
        }
        ("deletecollection", "") => {
            let options = delete_options(context, bytes)?;
            let records = delete::delete_collection(context, &options).await?;
            records.iter().for_each(|record| clean_up_definition(context, record.key.as_str()));
            let revision = context.server.store.revision().to_string();
            reply::list(context, &records, &serde_json::json!({"resourceVersion": revision}))
        }
        ("update" | "patch", "scale") => subresources::set_scale(context, bytes).await,
        ("patch", _) => {
            let (shown, is_new) = patching::patch(context, bytes).await?;
            written(context, if is_new { 201 } else { 200 }, &shown).await
        }
        ("create" | "update", _) => write(context, bytes).await,
        _ => Err(status::method_not_allowed()),
    }
}

/// Limits the length of a field manager's name (`metav1/validation.ValidateFieldManager`).
fn check_manager(context: &RequestContext<'_>) -> Result<(), StatusError> {
    const MAX_BYTES: usize = 128;
    let options = match context.action.verb {
        "create" => "CreateOptions",
        "update" => "UpdateOptions",
        "patch" => "PatchOptions",
        _ => return Ok(()),
    };
    if context.query.field_manager.len() <= MAX_BYTES {
        return Ok(());
    }
    let about = status::About { group: "meta.k8s.io", resource: options, name: "" };
    let text = format!("Too long: may not be more than {MAX_BYTES} bytes");
    Err(status::invalid(about, &[("FieldValueTooLong".into(), text, "fieldManager".into())]))
}

async fn write(context: &RequestContext<'_>, bytes: &Bytes) -> Result<Response<Body>, StatusError> {
    let mut decoded = body::decode(bytes, negotiate::encoding(context.headers)?).map_err(|error| {
        type_meta::unrecognized(context, &format!("{}{}", type_meta::UNREADABLE, error.kubernetes()), bytes)
    })?;
    type_meta::check_type_fields(context, &decoded.value, bytes)?;
    match (context.action.verb, context.action.subresource) {
        ("create", "") if !context.entry.kind.is_stored() => {
            negotiate::only_as_it_is(context.form)?;
            reviews::review(context, decoded)
        }
        ("create", "") => {
            let shown = create::create(context, decoded).await?;
            written(context, 201, &shown).await
        }
        ("create", "binding") => {
            subresources::check_posted(context, &mut decoded, "Binding")?;
            subresources::bind(context, &decoded).await
        }
        ("create", "token") => {
            subresources::check_posted(context, &mut decoded, "TokenRequest")?;
            token_request::request(context, decoded.value)
        }
        ("create", "eviction") => {
            subresources::check_posted(context, &mut decoded, "Eviction")?;
            subresources::evict(context, &decoded).await
        }
        ("update", "finalize") => subresources::finalize(context, decoded).await,
        ("update", "" | "status") => {
            let (shown, is_new) = update::update(context, decoded).await?;
            written(context, if is_new { 201 } else { 200 }, &shown).await
        }
        _ => Err(subresources::unsupported(context)),
    }
}

/// Answers a write. If it wrote a CustomResourceDefinition, updates the catalog first.
async fn written(
    context: &RequestContext<'_>,
    code: u16,
    shown: &Shown,
) -> Result<Response<Body>, StatusError> {
    if let Shown::Stored(record) = shown
        && is_definition(context)
    {
        definitions::follow(context.server, record).await.map_err(status::internal)?;
    }
    reply::object(context, code, shown)
}

fn is_definition(context: &RequestContext<'_>) -> bool {
    context.entry.kind.is("apiextensions.k8s.io", "CustomResourceDefinition")
}

/// Starts to delete the objects of a CustomResourceDefinition that is marked for deletion.
fn clean_up_definition(context: &RequestContext<'_>, name: &str) {
    if !is_definition(context) {
        return;
    }
    let key = Key::new(None, name);
    let is_marked = context
        .server
        .store
        .get(&context.entry.resource, &key)
        .is_some_and(|record| !record.value()["metadata"]["deletionTimestamp"].is_null());
    if is_marked {
        tokio::spawn(definitions::clean_up(context.server.clone(), name.to_owned()));
    }
}

fn delete_options(context: &RequestContext<'_>, bytes: &Bytes) -> Result<delete::Options, StatusError> {
    let body = if bytes.is_empty() {
        None
    } else {
        let decoded = body::decode(bytes, negotiate::encoding(context.headers)?);
        Some(decoded.map_err(|error| status::bad_request(error.to_string()))?.value)
    };
    delete::Options::parse(context, body.as_ref())
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

/// The namespaces that always exist (`pkg/controlplane/controller/systemnamespaces`).
pub const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Returns the resource `namespaces`.
pub fn namespaces() -> Resource {
    Resource::new("", "namespaces")
}
