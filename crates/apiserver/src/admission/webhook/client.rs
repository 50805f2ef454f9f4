//! Calls a webhook: one TLS connection and one POST per call. The response size is limited here, the time by
//! the caller.
//!
//! Source: apiserver `pkg/util/webhook/client.go`. Errors are worded like those of Go's client, which people
//! search for. A Service is reached at one of its ready endpoints: a pod through its node, which connects
//! within the pod's network, and anything else by its address. Redirects are not followed, and proxies are
//! not used.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::client_config::Target;
use super::hook::Hook;
use crate::ApiServer;
use crate::store::{Key, Resource};
use kubelet::ConnectRequest;

/// The maximum size of a response: a patch of the largest object, in base64, with room to spare.
const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;
/// The maximum size of a response's text in an error.
const MAX_SHOWN_BYTES: usize = 2048;

/// Sends `body` to the webhook, and returns the body of a successful response.
///
/// # Errors
/// The reason of the failure, worded like Go's client.
pub async fn call(server: &ApiServer, hook: &Hook, body: Vec<u8>) -> Result<Bytes, String> {
    let failed = |why: String| format!("Post \"{}\": {why}", hook.client_config.url(hook.timeout));
    let mut config = hook.client_config.trust.clone()?;
    if let Some(identity) = server.hooks.identity() {
        Arc::make_mut(&mut config).client_auth_cert_resolver = identity;
    }
    let (endpoints, name) = resolve(server, &hook.client_config.target).await.map_err(failed)?;
    let stream = connect(server, &endpoints).await.map_err(failed)?;
    let server_name =
        ServerName::try_from(name.clone()).map_err(|error| failed(format!("{name}: {error}")))?;
    let stream = TlsConnector::from(config)
        .connect(server_name, stream)
        .await
        .map_err(|error| failed(tls_words(&error.to_string())))?;
    let (mut sender, connection) = http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream))
        .await
        .map_err(|error| failed(error.to_string()))?;
    let exchange = async {
        let request = request(hook, &name, body).map_err(|error| failed(error.to_string()))?;
        let response = sender.send_request(request).await.map_err(|error| failed(error.to_string()))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| failed(error.to_string()))?.to_bytes();
        if status.is_success() { Ok(body) } else { Err(refused(status.as_u16(), &body)) }
    };
    // The connection is driven here and ends with the exchange.
    tokio::pin!(exchange);
    tokio::select! {
        result = &mut exchange => result,
        ended = connection => match ended {
            Ok(()) => exchange.await,
            Err(error) => Err(failed(error.to_string())),
        },
    }
}

fn request(hook: &Hook, host: &str, body: Vec<u8>) -> Result<Request<Full<Bytes>>, http::Error> {
    Request::post(format!("{}?timeout={}s", hook.client_config.path, hook.timeout.as_secs()))
        .header(header::HOST, host)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, */*")
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(Bytes::from(body)))
}

/// Describes an error response (`client-go/rest`, newUnstructuredResponseError).
fn refused(code: u16, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body.get(..MAX_SHOWN_BYTES).unwrap_or(body)).trim().to_owned();
    match code {
        404 => "the server could not find the requested resource".to_owned(),
        500.. => format!("an error on the server ({text:?}) has prevented the request from succeeding"),
        _ => format!(
            "the server responded with the status code {code} but did not return more information: {text:?}"
        ),
    }
}

fn tls_words(error: &str) -> String {
    if error.contains("UnknownIssuer") {
        return "tls: failed to verify certificate: x509: certificate signed by unknown authority".to_owned();
    }
    format!("tls: failed to verify certificate: x509: {error}")
}

/// An address to connect to.
struct Endpoint {
    address: SocketAddr,
    /// The node and the UID of the pod with the address.
    pod: Option<(String, String)>,
}

async fn connect(server: &ApiServer, endpoints: &[Endpoint]) -> Result<TcpStream, String> {
    let mut last = "no address".to_owned();
    for Endpoint { address, pod } in endpoints {
        let kubelet = pod.as_ref().and_then(|(node, uid)| Some((server.kubelets.get(node)?, uid.clone())));
        let refused = || format!("dial tcp {address}: connect: connection refused");
        match kubelet {
            Some((kubelet, uid)) => match kubelet.connect(ConnectRequest { uid, port: address.port() }).await
            {
                Ok(stream) => return Ok(stream),
                Err(error) if error.to_string().contains("refused") => last = refused(),
                Err(error) => last = format!("dial tcp {address}: connect: {error}"),
            },
            None => match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => last = refused(),
                Err(error) => last = format!("dial tcp {address}: connect: {error}"),
            },
        }
    }
    Err(last)
}

/// Returns the addresses of a webhook, and the name that its certificate must have.
async fn resolve(server: &ApiServer, target: &Target) -> Result<(Vec<Endpoint>, String), String> {
    match target {
        Target::Host(host, port) => {
            let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let found = tokio::net::lookup_host((bare.as_str(), *port)).await;
            let found = found.map_err(|error| format!("dial tcp: lookup {bare}: {error}"))?;
            Ok((found.map(|address| Endpoint { address, pod: None }).collect(), bare))
        }
        Target::Service { namespace, name, port } => {
            Ok((endpoints(server, namespace, name, *port)?, format!("{name}.{namespace}.svc")))
        }
    }
}

/// Returns the ready endpoints behind a port of a Service.
fn endpoints(server: &ApiServer, namespace: &str, name: &str, port: u16) -> Result<Vec<Endpoint>, String> {
    let store = &server.store;
    let service = store.get(&Resource::new("", "services"), &Key::new(Some(namespace), name));
    let service = service.ok_or_else(|| format!("service {name:?} not found"))?;
    let service = service.value();
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let wanted = ports
        .filter(|candidate| candidate["port"] == port)
        .map(|candidate| candidate["name"].as_str().unwrap_or_default().to_owned())
        .next()
        .ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    let slices = store.list(&Resource::new("discovery.k8s.io", "endpointslices"), Some(namespace)).records;
    let own = slices
        .iter()
        .map(|slice| slice.value())
        .filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == name);
    let mut found = Vec::new();
    for slice in own {
        let ports = slice["ports"].as_array().into_iter().flatten();
        let port = ports
            .filter(|port| port["name"].as_str().unwrap_or_default() == wanted)
            .find_map(|port| u16::try_from(port["port"].as_u64()?).ok());
        let Some(port) = port else { continue };
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            if endpoint["conditions"]["ready"] == false {
                continue;
            }
            let addresses = endpoint["addresses"].as_array().into_iter().flatten();
            let addresses = addresses.filter_map(|address| address.as_str()?.parse().ok());
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let target = &endpoint["targetRef"];
            let uid = text(&target["uid"]).filter(|_| target["kind"] == "Pod");
            let pod = text(&endpoint["nodeName"]).zip(uid);
            found.extend(
                addresses
                    .map(|address| Endpoint { address: SocketAddr::new(address, port), pod: pod.clone() }),
            );
        }
    }
    if found.is_empty() { Err(format!("no endpoints available for service {name:?}")) } else { Ok(found) }
}
