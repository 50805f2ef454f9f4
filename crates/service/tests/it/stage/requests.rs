//! Requests to the service, over REST and gRPC.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use service::contract::training_client::TrainingClient;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::util::BoxCloneService;

use super::{PATIENCE, Stage};

/// A service over gRPC.
pub type Channel = BoxCloneService<Request<tonic::body::Body>, Response<Incoming>, hyper::Error>;

/// A response over REST.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

impl Stage {
    /// Opens a connection.
    pub async fn connect(&self, protocol: &[u8]) -> TlsStream<TcpStream> {
        connect(self.address, &self.roots, protocol).await.unwrap()
    }

    /// Sends a request over HTTP/1.1 and returns the response as it begins.
    pub async fn open(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let stream = TokioIo::new(self.connect(b"http/1.1").await);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        tokio::time::timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap()
    }

    /// Sends a request and reads the whole response.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Reply {
        send(self.address, &self.roots, request).await.unwrap()
    }

    /// Sends a request with a token and, if given, a body.
    pub async fn rest(&self, verb: &str, path: &str, token: &str, body: Option<Value>) -> Reply {
        self.send(request(verb, path, token, body)).await
    }

    /// Gets a path.
    pub async fn get(&self, path: &str, token: &str) -> Reply {
        self.rest("GET", path, token, None).await
    }

    /// Connects over gRPC.
    pub async fn channel(&self) -> Channel {
        channel(self.address, &self.roots).await
    }

    /// Connects over HTTP/2 from another address of this machine.
    pub async fn channel_from(&self, source: Ipv4Addr) -> Channel {
        let stream = self.tcp_from(source).await;
        over_http2(secure(stream, &self.roots, b"h2").await.unwrap()).await
    }

    /// Connects over TCP alone from an address of this machine.
    pub async fn tcp_from(&self, source: Ipv4Addr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((source, 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// Connects over HTTP/2 from an address of this machine, without a window for the content of responses. The task ends with
    /// the connection.
    pub async fn without_window(
        &self,
        source: Ipv4Addr,
    ) -> (http2::SendRequest<Full<Bytes>>, JoinHandle<()>) {
        let stream = secure(self.tcp_from(source).await, &self.roots, b"h2").await.unwrap();
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(0);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        (sender, tokio::spawn(async move { drop(connection.await) }))
    }

    /// The origin of requests over gRPC.
    pub fn origin(&self) -> Uri {
        format!("https://localhost:{}", self.address.port()).parse().unwrap()
    }

    /// A gRPC client.
    pub async fn grpc(&self) -> TrainingClient<Channel> {
        TrainingClient::with_origin(self.channel().await, self.origin())
    }
}

pub async fn connect(
    address: SocketAddr,
    roots: &ClientConfig,
    protocol: &[u8],
) -> Result<TlsStream<TcpStream>, std::io::Error> {
    secure(TcpStream::connect(address).await?, roots, protocol).await
}

async fn secure(
    stream: TcpStream,
    roots: &ClientConfig,
    protocol: &[u8],
) -> Result<TlsStream<TcpStream>, std::io::Error> {
    let mut config = roots.clone();
    config.alpn_protocols = vec![protocol.to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Connects over gRPC to a service at an address.
pub async fn channel(address: SocketAddr, roots: &ClientConfig) -> Channel {
    over_http2(connect(address, roots, b"h2").await.unwrap()).await
}

async fn over_http2(stream: TlsStream<TcpStream>) -> Channel {
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    BoxCloneService::new(tower::service_fn(move |request: Request<tonic::body::Body>| {
        let mut sender = sender.clone();
        async move { sender.send_request(request).await }
    }))
}

/// Sends a request to a service at an address and reads the whole response.
pub async fn send(
    address: SocketAddr,
    roots: &ClientConfig,
    request: Request<Full<Bytes>>,
) -> Result<Reply, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TokioIo::new(connect(address, roots, b"http/1.1").await?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    tokio::spawn(connection);
    let (parts, body) = tokio::time::timeout(PATIENCE, sender.send_request(request)).await??.into_parts();
    let body = tokio::time::timeout(PATIENCE, body.collect()).await??.to_bytes();
    let text = String::from_utf8_lossy(&body).into_owned();
    Ok(Reply { status: parts.status.as_u16(), headers: parts.headers, text })
}

/// A request over REST.
pub fn request(verb: &str, path: &str, token: &str, body: Option<Value>) -> Request<Full<Bytes>> {
    let mut request =
        Request::new(Full::new(body.map(|body| Bytes::from(body.to_string())).unwrap_or_default()));
    *request.method_mut() = verb.parse::<Method>().unwrap();
    *request.uri_mut() = path.parse().unwrap();
    let headers = request.headers_mut();
    headers.insert("host", "localhost".parse().unwrap());
    headers.insert("content-type", "application/json".parse().unwrap());
    if !token.is_empty() {
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    request
}

/// The address and the body of a method's request over REST.
pub fn rest_of(method: &service::contract::Method, message: &Value) -> (String, Option<Value>) {
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let mut path = method.path.to_owned();
    let mut query = Vec::new();
    let mut body = serde_json::Map::new();
    for (name, value) in message.as_object().unwrap() {
        let slot = format!("{{{name}}}");
        if path.contains(&slot) {
            path = path.replace(&slot, &encoded(value.as_str().unwrap()));
        } else if method.body {
            body.insert(name.clone(), value.clone());
        } else {
            for one in value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]) {
                let text = one.as_str().map_or_else(|| one.to_string(), str::to_owned);
                query.push(format!("{name}={}", encoded(&text)));
            }
        }
    }
    (format!("{path}?{}", query.join("&")), method.body.then_some(Value::Object(body)))
}

/// A gRPC request with a token.
pub fn call<M>(token: &str, message: M) -> tonic::Request<M> {
    let mut request = tonic::Request::new(message);
    if !token.is_empty() {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    request
}

/// Trusts an authority, in PEM, and shows a certificate of its own if it is given one.
pub fn client_config(
    authority: &str,
    own: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    Arc::new(match own {
        Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key).unwrap(),
        None => config.with_no_client_auth(),
    })
}
