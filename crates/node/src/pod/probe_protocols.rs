//! HTTPS and gRPC probes. The sandbox opens the connection in the pods' network and hands it over; this module speaks
//! the protocol.
//!
//! As in a kubelet, certificates are not verified (`pkg/probe/http`): a probe checks that the container answers, not
//! its identity.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::PodRun;
use crate::sandbox::check::{self, judge};
use crate::sandbox::protocol::{ConnectSpec, HttpGet};

/// The most that is read of an answer; a health check's is a few bytes.
const MAX_ANSWER_BYTES: usize = 4 << 10;

/// Sends an HTTPS request. Succeeds for statuses 200-399.
///
/// # Errors
/// The message for the Event.
pub async fn https(
    run: &PodRun,
    address: Ipv4Addr,
    port: u16,
    get: &HttpGet,
    timeout: Duration,
) -> Result<(), String> {
    let about =
        |error: &dyn std::fmt::Display| format!("Get \"https://{address}:{port}{}\": {error}", get.path);
    let ask = async {
        let stream = connect(run, address, port, timeout).await?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| about(&e))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            .with_no_client_auth();
        let name = ServerName::from(std::net::IpAddr::from(address));
        let connected = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        let mut stream = connected.map_err(|e| about(&e))?;
        stream.write_all(check::request(get).as_bytes()).await.map_err(|e| about(&e))?;
        let mut answer = Vec::new();
        let mut chunk = [0; 1024];
        while !answer.contains(&b'\n') && answer.len() < MAX_ANSWER_BYTES {
            match stream.read(&mut chunk).await.map_err(|e| about(&e))? {
                0 => break,
                count => answer.extend_from_slice(&chunk[..count]),
            }
        }
        judge(&String::from_utf8_lossy(&answer))
    };
    let late = |_| about(&format!("no answer within {timeout:?}"));
    tokio::time::timeout(timeout, ask).await.map_err(late)?
}

/// Calls `grpc.health.v1.Health/Check` for a service (KEP-2727). Succeeds if the service is `SERVING`.
///
/// # Errors
/// The message for the Event, worded as `pkg/probe/grpc`.
pub async fn grpc(
    run: &PodRun,
    address: Ipv4Addr,
    port: u16,
    service: &str,
    timeout: Duration,
) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("health rpc failed: {error}");
    let ask = async {
        let stream = connect(run, address, port, timeout).await?;
        let shaken = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|e| failed(&e))?;
        let request = Request::post(format!("http://{address}:{port}/grpc.health.v1.Health/Check"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("user-agent", "kube-probe/1.36")
            .body(Full::new(question(service)))
            .map_err(|e| failed(&e))?;
        let answer = async {
            let answer = sender.send_request(request).await.map_err(|e| failed(&e))?;
            let status = grpc_status(answer.headers());
            let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await;
            let body = body.map_err(|e| failed(&e))?;
            let status = status.or_else(|| grpc_status(body.trailers()?));
            understand(&body.to_bytes(), status.as_deref())
        };
        tokio::select! {
            answer = answer => answer,
            _ = connection => Err(failed(&"the connection was closed")),
        }
    };
    let late = |_| format!("timeout: health rpc did not complete within {timeout:?}");
    tokio::time::timeout(timeout, ask).await.map_err(late)?
}

fn grpc_status(headers: &http::HeaderMap) -> Option<String> {
    Some(headers.get("grpc-status")?.to_str().ok()?.to_owned())
}

/// Encodes `HealthCheckRequest { service = 1 }` as a gRPC message: compression flag, length, protobuf.
fn question(service: &str) -> Bytes {
    let mut message = BytesMut::new();
    if !service.is_empty() {
        // Field 1, length-delimited. A length of 128 or more takes two bytes.
        message.put_u8(0x0a);
        let length = service.len();
        if length < 128 {
            message.put_u8(length as u8);
        } else {
            message.put_slice(&[(length & 0x7f) as u8 | 0x80, (length >> 7) as u8]);
        }
        message.put_slice(service.as_bytes());
    }
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(&message);
    framed.freeze()
}

/// Decodes `HealthCheckResponse { status = 1 }`; status 1 is `SERVING`.
fn understand(body: &[u8], status: Option<&str>) -> Result<(), String> {
    match status {
        None | Some("0") => {}
        Some("12") => {
            return Err("server does not implement the grpc health protocol (grpc.health.v1.Health)".into());
        }
        Some(code) => return Err(format!("health rpc probe failed: rpc error: code = {code}")),
    }
    match body.get(5..) {
        Some([0x08, 1, ..]) => Ok(()),
        other => {
            let number = other.and_then(|message| message.get(1)).copied().unwrap_or(0);
            Err(format!("service unhealthy (responded with {number:?})"))
        }
    }
}

async fn connect(run: &PodRun, address: Ipv4Addr, port: u16, timeout: Duration) -> Result<TcpStream, String> {
    let timeout_millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let spec = ConnectSpec { pod: run.uid.clone(), address: Some(address), port, timeout_millis };
    let descriptor = run.node.sandbox.connect(spec).await.map_err(|failure| failure.message)?;
    let stream = std::net::TcpStream::from(descriptor);
    stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream)).map_err(|e| e.to_string())
}

/// Accepts every certificate, but checks that the peer holds its key.
#[derive(Debug)]
struct Anybody(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::{question, understand};

    #[test]
    fn grpc_health_messages_are_encoded_and_decoded() {
        assert_eq!(&question("")[..], b"\0\0\0\0\0");
        assert_eq!(&question("mpi")[..], b"\0\0\0\0\x05\x0a\x03mpi");
        assert_eq!(question(&"x".repeat(200))[5..8], [0x0a, 0xc8, 0x01]);
        assert_eq!(understand(b"\0\0\0\0\x02\x08\x01", Some("0")), Ok(()));
        assert!(understand(b"\0\0\0\0\x02\x08\x02", Some("0")).unwrap_err().contains("unhealthy"));
        assert!(understand(b"\0\0\0\0\0", Some("0")).is_err());
        assert!(understand(b"", Some("12")).unwrap_err().contains("does not implement"));
    }
}
