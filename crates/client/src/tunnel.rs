//! A client through a proxy: kube's stack of layers on a connector that asks the proxy for a tunnel.

use std::error::Error as StdError;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, ConfigExt, DynBody};
use percent_encoding::percent_decode_str;
use tower::retry::RetryLayer;
use tower::util::{BoxService, MapErr};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use crate::Error;
use crate::proxy::Proxy;

/// Anything that answers requests.
pub(crate) type Requests = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// How long the connection to a proxy may take, without and with its TLS.
const CONNECT_PATIENCE: Duration = Duration::from_secs(8);
const TLS_PATIENCE: Duration = Duration::from_secs(10);
/// How long a proxy may take to open a tunnel. Shorter than kube's limit for a whole connection, whose error does not
/// name the proxy.
const TUNNEL_PATIENCE: Duration = Duration::from_secs(20);
/// What TLS reports of a proxy that does not speak it: a plain one waits for a request, refuses it, or hangs up.
const NO_TLS: [&str; 3] = ["no TLS handshake", "corrupt message", "handshake eof"];

/// The proxy did not open the tunnel.
#[derive(Debug, thiserror::Error)]
#[error("the proxy {proxy} (see {origin}) does not connect to it: {reason}")]
struct NoTunnel {
    /// Without credentials.
    proxy: String,
    origin: &'static str,
    reason: String,
}

/// A client that reaches the server of a configuration through a proxy.
pub(crate) fn through(proxy: &Proxy, config: Config) -> Result<ClientBuilder<Requests>, Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    let tcp = Within { connector: tcp, limit: CONNECT_PATIENCE, what: "connection" };
    let address = proxy.address.clone();
    let user = credentials(&address);
    let builder = match address.scheme_str() {
        Some("https") => {
            let tls = config.rustls_https_connector_with_connector(tcp)?;
            let tls = Within { connector: tls, limit: TLS_PATIENCE, what: "TLS handshake" };
            stack(naming(proxy, with_user(Tunnel::new(address, tls), user)), config)
        }
        Some("http") => stack(naming(proxy, with_user(Tunnel::new(address, tcp), user)), config),
        _ => {
            let socks = SocksV5::new(address, tcp);
            let socks = match user {
                Some((name, password)) => socks.with_auth(name, password),
                None => socks,
            };
            stack(naming(proxy, socks), config)
        }
    };
    Ok(builder?)
}

/// A connector that gives up in time.
#[derive(Clone)]
struct Within<S> {
    connector: S,
    limit: Duration,
    /// What is not there when it gives up.
    what: &'static str,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NoConnection(String);

impl NoConnection {
    fn because(error: impl Into<BoxError>) -> Self {
        let error: BoxError = error.into();
        Self(innermost(&*error))
    }
}

impl<S> Service<Uri> for Within<S>
where
    S: Service<Uri>,
    S::Response: 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = NoConnection;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, NoConnection>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), NoConnection>> {
        self.connector.poll_ready(context).map_err(NoConnection::because)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let Self { limit, what, .. } = *self;
        let connecting = tokio::time::timeout(limit, self.connector.call(server));
        Box::pin(async move {
            match connecting.await {
                Ok(connected) => connected.map_err(NoConnection::because),
                Err(_) => Err(NoConnection(format!("no {what} within {} s", limit.as_secs()))),
            }
        })
    }
}

/// Bounds how long a connector may take, and names the proxy in its errors.
fn naming<S>(
    proxy: &Proxy,
    connector: S,
) -> MapErr<Within<S>, impl FnOnce(NoConnection) -> NoTunnel + Clone + Send + Sync + 'static + use<S>>
where
    S: Service<Uri>,
    S::Response: 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
{
    let connector = Within { connector, limit: TUNNEL_PATIENCE, what: "tunnel" };
    let has_tls = proxy.address.scheme_str() == Some("https");
    let origin = proxy.origin;
    let name = proxy.address.authority().map_or_else(String::new, |authority| match authority.port() {
        Some(port) => format!("{}:{port}", authority.host()),
        None => authority.host().to_owned(),
    });
    MapErr::new(connector, move |NoConnection(mut reason)| {
        if has_tls && NO_TLS.iter().any(|sign| reason.contains(sign)) {
            reason.push_str(&format!("; does it speak TLS itself? If not, write http://{name}"));
        }
        NoTunnel { proxy: name, origin, reason }
    })
}

fn with_user<C>(tunnel: Tunnel<C>, user: Option<(String, String)>) -> Tunnel<C> {
    let Some((name, password)) = user else { return tunnel };
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{name}:{password}"));
    match HeaderValue::try_from(format!("Basic {encoded}")) {
        Ok(header) => tunnel.with_auth(header),
        Err(_) => tunnel,
    }
}

/// The name and the password in an address.
fn credentials(address: &Uri) -> Option<(String, String)> {
    let (user, _) = address.authority()?.as_str().rsplit_once('@')?;
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some((decoded(name), decoded(password)))
}

/// The layers of kube's own client, in its order; all of its bounds on time.
fn stack<H>(connector: H, config: Config) -> Result<ClientBuilder<Requests>, kube::Error>
where
    H: Service<Uri> + Clone + Send + Sync + 'static,
    H::Response: Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    H::Future: Send + 'static,
    H::Error: StdError + Send + Sync + 'static,
{
    let namespace = config.default_namespace.clone();
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.default_retry.then(|| RetryLayer::new(RetryPolicy::server_retry())))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    let service = ServiceExt::<Request<Body>>::map_response(service, |response: Response<Incoming>| {
        response.map(|body| Box::new(body.map_err(BoxError::from)) as Box<DynBody>)
    });
    Ok(ClientBuilder::new(Requests::new(service), namespace))
}

fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
