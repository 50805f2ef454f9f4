//! Deliveries to a receiver over real TLS.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use history::jobs::record;
use history::notifications::address::Policy;
use history::notifications::deliver::{Everyone, Permission, Rights, Sender, deliver_due};
use history::notifications::signature::{self, Headers};
use history::notifications::{self, Claim, Transition, deliveries, put_rule};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{ALL, rule};
use crate::jobs::seen;
use crate::place::{on_each, on_sqlite};

/// A request as the receiver has seen it.
struct Received {
    headers: http::HeaderMap,
    path: String,
    body: Bytes,
}

/// A TLS server's configuration for `localhost`, and the certificate that it shows.
pub(super) fn tls() -> (TlsAcceptor, CertificateDer<'static>) {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let authority = key.cert.der().clone();
    let private = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![authority.clone()], private.into())
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), authority)
}

/// A receiver on loopback, behind TLS, that answers with a status.
struct Receiver {
    port: u16,
    authority: CertificateDer<'static>,
    received: Arc<Mutex<Vec<Received>>>,
}

async fn receiver(status: u16) -> Receiver {
    let (acceptor, authority) = tls();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let received = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&received);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, log) = (acceptor.clone(), Arc::clone(&log));
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let answer = async |request: Request<Incoming>| {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    log.lock().unwrap().push(Received {
                        headers: head.headers,
                        path: head.uri.to_string(),
                        body,
                    });
                    let answer = Response::builder().status(status).header("location", "https://10.0.0.1/");
                    Ok::<_, Infallible>(answer.body(Full::new(Bytes::new())).unwrap())
                };
                let service = hyper::service::service_fn(answer);
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    Receiver { port, authority, received }
}

fn loopback() -> Policy {
    Policy { allowed: vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()], ..Policy::default() }
}

#[test]
fn a_delivery_arrives_signed_over_tls_and_once() {
    on_each(async |place| {
        let store = place.open().await;
        let receiver = receiver(204).await;
        let url = format!("https://localhost:{}/hook?team=cv", receiver.port);
        let (rule, _) = put_rule(&store, rule(&url, &[]), &loopback()).await.unwrap();
        record(&store, &[seen("a", 1, "Pending")]).await.unwrap();
        let sender = Sender::new(loopback(), std::slice::from_ref(&receiver.authority), None).unwrap();
        assert_eq!(deliver_due(&store, &sender, &Everyone, 10).await.unwrap(), 1);
        assert_eq!(deliver_due(&store, &sender, &Everyone, 10).await.unwrap(), 0);
        let tested = notifications::enqueue_test(&store, "team-nlp", &rule.id).await.unwrap();
        assert_eq!(tested, notifications::Tested::NoRule);
        let log = deliveries(&store, "team-cv", &ALL, None, 10).await.unwrap();
        assert_eq!((log[0].state.as_str(), log[0].status), ("delivered", Some(204)), "{log:?}");
        let received = receiver.received.lock().unwrap();
        let [one] = received.as_slice() else { unreachable!() };
        assert_eq!(one.path, "/hook?team=cv");
        let header = |name: &str| one.headers[name].to_str().unwrap();
        assert_eq!(header(signature::ID), log[0].id);
        let headers = Headers {
            id: header(signature::ID),
            timestamp: header(signature::TIMESTAMP),
            signature: header(signature::SIGNATURE),
        };
        let now = Timestamp::now();
        assert!(signature::verify(&rule.secret, headers, &one.body, now, Duration::from_secs(60)));
        let body: Transition = serde_json::from_slice(&one.body).unwrap();
        assert_eq!((body.uid.as_str(), body.phase.as_str()), ("a", "Pending"));
        assert_eq!(body.state, "Pending (Shown)", "the state as every interface shows it");
    });
}

/// Sends one delivery and returns its state and error.
async fn sent(place: &crate::place::Place, url: &str, sender: &Sender, policy: &Policy) -> (String, String) {
    let store = place.open().await;
    put_rule(&store, rule(url, &[]), policy).await.unwrap();
    record(&store, &[seen("a", 1, "Pending")]).await.unwrap();
    assert_eq!(deliver_due(&store, sender, &Everyone, 10).await.unwrap(), 1);
    let one = deliveries(&store, "team-cv", &ALL, None, 10).await.unwrap().remove(0);
    (one.state, one.error.unwrap())
}

#[test]
fn a_name_that_resolves_to_a_private_address_is_not_connected_to() {
    on_sqlite(async |place| {
        let receiver = receiver(200).await;
        let url = format!("https://localhost:{}/", receiver.port);
        let sender = Sender::new(Policy::default(), std::slice::from_ref(&receiver.authority), None).unwrap();
        let (state, error) = sent(place, &url, &sender, &Policy::default()).await;
        assert_eq!(state, "pending", "as if the name did not resolve");
        assert_eq!(error, "localhost has no address that webhooks may reach");
        assert!(receiver.received.lock().unwrap().is_empty());
    });
}

#[test]
fn a_name_without_an_address_fails_as_one_with_a_private_address() {
    on_sqlite(async |place| {
        let sender = Sender::new(Policy::default(), &[], None).unwrap();
        let url = "https://no-such-host.invalid/";
        let (state, error) = sent(place, url, &sender, &Policy::default()).await;
        assert_eq!(
            (state.as_str(), error.as_str()),
            ("pending", "no-such-host.invalid has no address that webhooks may reach")
        );
    });
}

/// Rights that an owner has lost.
struct Lost(Permission);

impl Rights for Lost {
    fn of<'a>(&'a self, _claim: &'a Claim) -> futures::future::BoxFuture<'a, Permission> {
        Box::pin(std::future::ready(self.0.clone()))
    }
}

#[test]
fn a_rule_whose_owner_has_lost_the_right_sends_nothing_and_is_disabled() {
    on_each(async |place| {
        let store = place.open().await;
        let sender = Sender::new(loopback(), &[], None).unwrap();
        let (kept, _) = put_rule(&store, rule("https://localhost:1/", &[]), &loopback()).await.unwrap();
        record(&store, &[seen("a", 1, "Pending")]).await.unwrap();
        let state = async || deliveries(&store, "team-cv", &ALL, None, 10).await.unwrap();
        let away = Lost(Permission::Unknown("the cluster is away".to_owned()));
        assert_eq!(deliver_due(&store, &sender, &away, 10).await.unwrap(), 1);
        assert_eq!(state().await[0].error.as_deref(), Some("not sent yet: the cluster is away"));
        record(&store, &[seen("a", 2, "Running")]).await.unwrap();
        assert_eq!(deliver_due(&store, &sender, &Lost(Permission::Revoked), 10).await.unwrap(), 1);
        assert!(state().await.iter().all(|delivery| delivery.state == "dead"), "{:?}", state().await);
        let rule = notifications::rule(&store, "team-cv", &kept.id).await.unwrap().unwrap();
        assert_eq!((rule.enabled, rule.disabled_because.is_some()), (false, true));
        record(&store, &[seen("a", 3, "Failed")]).await.unwrap();
        assert_eq!(state().await.len(), 2, "a disabled rule receives nothing");
    });
}

#[test]
fn a_redirect_is_not_followed_and_is_tried_again() {
    on_sqlite(async |place| {
        let receiver = receiver(307).await;
        let url = format!("https://localhost:{}/", receiver.port);
        let sender = Sender::new(loopback(), std::slice::from_ref(&receiver.authority), None).unwrap();
        let (state, error) = sent(place, &url, &sender, &loopback()).await;
        assert_eq!(state, "pending");
        assert!(error.contains("redirects are not followed"), "{error}");
    });
}

#[test]
fn a_receiver_with_a_foreign_certificate_gets_nothing() {
    on_sqlite(async |place| {
        let receiver = receiver(200).await;
        let url = format!("https://localhost:{}/", receiver.port);
        let sender = Sender::new(loopback(), &[], None).unwrap();
        let (state, error) = sent(place, &url, &sender, &loopback()).await;
        assert_eq!(state, "pending");
        assert!(error.contains("certificate"), "{error}");
        assert!(receiver.received.lock().unwrap().is_empty());
    });
}
