//! Certificates that expire are replaced while they are served: no connection breaks, and no client is left behind.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use jiff::{Timestamp, ToSpan};
use operator::certificates::{Kept, Shown, load_or_make};
use operator::serve::serve;
use operator::webhook::{Sink as _, TrainingService};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::stage::Stage;

const NAME: &str = "mpi-operator.mpi-operator.svc";

/// Returns the stage's certificate, loaded or created at `now`.
async fn load(stage: &Stage, now: Timestamp) -> Kept {
    load_or_make(&stage.client, &stage.namespace, "tls", &[NAME.to_owned()], now).await.unwrap()
}

fn days(count: i64) -> jiff::Span {
    (count * 24).hours()
}

/// Serves it and returns the address.
async fn served(shown: &Arc<Shown>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = |_| async { Response::new(Full::new(Bytes::from("ok"))) };
    tokio::spawn(serve(listener, Some(shown.acceptor().unwrap()), answer, CancellationToken::new()));
    address
}

/// Connects as a client that trusts these authorities, as the API server does.
async fn connect(address: std::net::SocketAddr, authorities: &str) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(authority.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(NAME).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, TcpStream::connect(address).await?).await
}

/// Returns whether a request on this connection is answered.
async fn is_answered(stream: &mut TlsStream<TcpStream>) -> bool {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: operator\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"ok") {
        if stream.read_buf(&mut answer).await.unwrap() == 0 {
            return false;
        }
    }
    answer.starts_with(b"HTTP/1.1 200")
}

#[tokio::test]
async fn a_certificate_is_renewed_while_it_is_served() {
    let (stage, now) = (Stage::new().await, Timestamp::now());
    let first = load(&stage, now - days(250)).await;
    let shown = Shown::new(&first).unwrap();
    let address = served(&shown).await;
    let mut before = connect(address, &first.authorities).await.unwrap();
    assert!(is_answered(&mut before).await);

    let renewed = load(&stage, now).await;
    shown.change(&renewed).unwrap();
    assert!(is_answered(&mut before).await, "a connection that is there goes on");
    let mut after = connect(address, &renewed.authorities).await.unwrap();
    assert!(is_answered(&mut after).await);
    let certificate =
        |stream: &TlsStream<TcpStream>| stream.get_ref().1.peer_certificates().unwrap()[0].clone();
    assert_ne!(certificate(&before), certificate(&after), "the new one is shown");
    let refused = connect(address, &first.authorities).await.unwrap_err().to_string();
    assert!(refused.contains("invalid peer certificate"), "{refused}");

    // Another replica has not renewed yet.
    let behind = served(&Shown::new(&first).unwrap()).await;
    let mut behind = connect(behind, &renewed.authorities).await.unwrap();
    assert!(is_answered(&mut behind).await, "who trusts the new authority trusts the one before");
}

#[tokio::test]
async fn an_expired_certificate_is_replaced() {
    let (stage, now) = (Stage::new().await, Timestamp::now());
    let ended = load(&stage, now - days(400)).await;
    let shown = Shown::new(&ended).unwrap();
    let address = served(&shown).await;
    let refused = connect(address, &ended.authorities).await.unwrap_err().to_string();
    assert!(refused.contains("expired"), "{refused}");
    let renewed = load(&stage, now).await;
    shown.change(&renewed).unwrap();
    let mut after = connect(address, &renewed.authorities).await.unwrap();
    assert!(is_answered(&mut after).await);
}

#[tokio::test]
async fn reports_need_the_audit_logs_authority_only_when_they_are_sent_and_follow_its_change() {
    let (stage, now) = (Stage::new().await, Timestamp::now());
    let shown = Shown::new(&load(&stage, now).await).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = |_| async { Response::new(Full::new(Bytes::from(r#"{"pending":["again"]}"#))) };
    tokio::spawn(serve(listener, Some(shown.acceptor().unwrap()), answer, CancellationToken::new()));
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("token"), "a-token").unwrap();
    let kubeconfig = json!({
        "clusters": [{ "name": "service", "cluster": { "server": format!("https://{address}"),
            "tls-server-name": NAME, "certificate-authority": file("ca.crt") } }],
        "users": [{ "name": "operator", "user": { "tokenFile": file("token") } }],
        "contexts": [{ "name": "service", "context": { "cluster": "service", "user": "operator" } }],
        "current-context": "service",
    });
    let service = TrainingService::new(serde_json::from_value(kubeconfig).unwrap());
    assert!(service.record(Vec::new()).await.is_err(), "no authority yet");
    let other = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    std::fs::write(file("ca.crt"), other.cert.pem()).unwrap();
    assert!(service.record(Vec::new()).await.is_err(), "an authority of another certificate");
    std::fs::write(file("ca.crt"), load(&stage, now).await.authorities).unwrap();
    assert_eq!(service.record(Vec::new()).await.unwrap(), ["again"]);
}
