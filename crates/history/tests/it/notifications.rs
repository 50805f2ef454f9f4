//! Notifications: rules, deliveries, and a receiver over real TLS.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use history::jobs::record;
use history::notifications::address::Policy;
use history::notifications::deliver::{Sender, deliver_due};
use history::notifications::mail;
use history::notifications::signature::{self, Headers};
use history::notifications::{
    self, Claim, Destination, LEASE, MAX_TRIES, NewRule, Outcome, Rule, Secret, Transition, Transitions,
    claim, deliveries, finish, put_rule,
};
use history::{Error, Store};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use sqlx::Row as _;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::jobs::seen;
use crate::place::{at, on_each, on_sqlite};

fn rule(url: &str, phases: &[&str]) -> NewRule {
    NewRule {
        id: uuid::Uuid::new_v4().to_string(),
        namespace: "team-cv".to_owned(),
        job: None,
        owner: "jane".to_owned(),
        enabled: true,
        transitions: Transitions {
            phases: phases.iter().map(|phase| (*phase).to_owned()).collect(),
            ..Transitions::default()
        },
        destination: Destination::Webhook { url: url.to_owned() },
        secret: Some(Secret::new(vec![7; 32]).unwrap()),
    }
}

async fn with_rule(store: &Store, phases: &[&str]) {
    put_rule(store, rule("https://example.com/hook", phases), &Policy::default()).await.unwrap();
}

fn failure() -> Outcome {
    Outcome {
        status: Some(500),
        error: Some("500".to_owned()),
        permanent: false,
        took: Duration::from_millis(3),
    }
}

fn later(now: Timestamp, wait: Duration) -> Timestamp {
    now.checked_add(wait).unwrap()
}

fn phases(claims: &[Claim]) -> Vec<String> {
    let phase = |claim: &Claim| serde_json::from_str::<Transition>(&claim.body).unwrap().phase;
    let mut phases: Vec<String> = claims.iter().map(phase).collect();
    phases.sort();
    phases
}

#[test]
fn each_transition_that_a_rule_names_is_enqueued_once() {
    on_each(async |place| {
        let store = place.open().await;
        with_rule(&store, &["Failed", "Running"]).await;
        let of_another = NewRule { job: Some("another".to_owned()), ..rule("https://example.com/", &[]) };
        put_rule(&store, of_another, &Policy::default()).await.unwrap();
        let elsewhere = NewRule { namespace: "team-nlp".to_owned(), ..rule("https://example.com/", &[]) };
        put_rule(&store, elsewhere, &Policy::default()).await.unwrap();

        let mut more = seen("a", 3, "Running");
        more.state.workers.running = 2;
        let all = [seen("a", 1, "Pending"), seen("a", 2, "Running"), more, seen("a", 5, "Failed")];
        record(&store, &all[..3]).await.unwrap();
        record(&store, &all[3..]).await.unwrap();
        // A replica that lags behind sees a new one, and repeats the others.
        record(&place.open().await, &[seen("a", 4, "Failed")]).await.unwrap();
        record(&place.open().await, &all).await.unwrap();
        let claims = claim(&store, at(100), 10).await.unwrap();
        assert_eq!(phases(&claims), ["Failed", "Running"]);
    });
}

#[test]
fn a_delivery_is_claimed_by_one_replica_until_its_lease_expires() {
    on_each(async |place| {
        let replicas = [place.open().await, place.open().await, place.open().await];
        with_rule(&replicas[0], &[]).await;
        let jobs: Vec<_> = (0..30).map(|number| seen(&number.to_string(), 1, "Pending")).collect();
        record(&replicas[0], &jobs).await.unwrap();
        let claims = futures::future::try_join_all(replicas.iter().map(|store| claim(store, at(100), 20)))
            .await
            .unwrap();
        let mut ids: Vec<String> = claims.iter().flatten().map(|claim| claim.id.clone()).collect();
        // One that waited for another's rows may get fewer than it asked for, and gets the others next time.
        ids.extend(claim(&replicas[0], at(100), 20).await.unwrap().into_iter().map(|claim| claim.id));
        ids.extend(claim(&replicas[0], at(100), 20).await.unwrap().into_iter().map(|claim| claim.id));
        ids.sort();
        assert_eq!(ids.len(), 30);
        ids.dedup();
        assert_eq!(ids.len(), 30, "each was claimed once");
        assert_eq!(claim(&replicas[1], later(at(100), LEASE / 2), 20).await.unwrap().len(), 0);

        let expired = later(at(100), LEASE);
        let again = claim(&replicas[1], expired, 32).await.unwrap();
        assert_eq!(again.len(), 30);
        assert!(again.iter().all(|claim| claim.number == 2));
        let stale = claims.iter().flatten().next().unwrap();
        assert!(!finish(&replicas[0], stale, &failure(), expired, 0.5).await.unwrap());
        let own = again.iter().find(|claim| claim.id == stale.id).unwrap();
        assert!(finish(&replicas[1], own, &failure(), expired, 0.5).await.unwrap());
    });
}

#[test]
fn a_delivery_that_fails_is_retried_later_and_at_last_a_dead_letter() {
    on_each(async |place| {
        let store = place.open().await;
        with_rule(&store, &[]).await;
        record(&store, &[seen("a", 1, "Pending")]).await.unwrap();
        let (mut now, mut waits) = (at(100), Vec::new());
        for number in 1..=MAX_TRIES {
            let claims = claim(&store, now, 10).await.unwrap();
            assert_eq!(claims.len(), 1, "try {number}");
            finish(&store, &claims[0], &failure(), now, 1.0).await.unwrap();
            let row = sqlx::query("SELECT due FROM deliveries").fetch_one(&place.raw().await).await.unwrap();
            let due = Timestamp::from_microsecond(row.get(0)).unwrap();
            assert_eq!(
                claim(&store, later(now, (due.duration_since(now) / 2).unsigned_abs()), 10)
                    .await
                    .unwrap()
                    .len(),
                0
            );
            waits.push(due.duration_since(now).as_secs());
            now = due;
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560]);
        let dead = deliveries(&store, "team-cv", Some("dead"), None, 10).await.unwrap();
        assert_eq!(dead.len(), 1);
        assert_eq!((dead[0].tries, dead[0].status), (MAX_TRIES, Some(500)));
        assert_eq!(claim(&store, at(10_000_000), 10).await.unwrap().len(), 0);
        assert!(!notifications::revive(&store, "team-nlp", &dead[0].id).await.unwrap());
        assert!(notifications::revive(&store, "team-cv", &dead[0].id).await.unwrap());
        let claims = claim(&store, at(10_000_000), 10).await.unwrap();
        assert_eq!(claims[0].number, 1);
        let delivered = Outcome { status: Some(200), error: None, ..failure() };
        finish(&store, &claims[0], &delivered, at(10_000_000), 0.0).await.unwrap();
        let tries = notifications::tries(&store, "team-cv", &dead[0].id).await.unwrap();
        let numbers: Vec<i64> = tries.iter().map(|one| one.number).collect();
        assert_eq!(numbers, (1..=MAX_TRIES + 1).collect::<Vec<_>>());
        assert_eq!(tries.iter().filter(|one| one.status == Some(500) && one.milliseconds == 3).count(), 10);
        assert_eq!(notifications::tries(&store, "team-nlp", &dead[0].id).await.unwrap(), []);
        assert_eq!(notifications::prune(&store, Timestamp::MAX).await.unwrap(), 1);
    });
}

#[test]
fn rules_are_of_their_namespace_bounded_and_their_keys_survive() {
    on_each(async |place| {
        let store = place.open().await;
        let wanted = NewRule { secret: None, ..rule("https://example.com/", &["Failed"]) };
        let (created, is_new) = put_rule(&store, wanted.clone(), &Policy::default()).await.unwrap();
        assert!(is_new && created.secret.bytes().len() >= Secret::MIN_BYTES);
        assert_eq!(notifications::rules(&store, "team-cv").await.unwrap().first(), Some(&created));
        assert!(!notifications::delete_rule(&store, "team-nlp", &created.id).await.unwrap());
        let disabled = NewRule { enabled: false, owner: "joe".to_owned(), ..wanted.clone() };
        let replaced = put_rule(&store, disabled, &Policy::default()).await.unwrap();
        assert_eq!(replaced, (Rule { enabled: false, ..created.clone() }, false), "owner and key stay");
        let stolen = NewRule { namespace: "team-nlp".to_owned(), ..wanted };
        assert!(put_rule(&store, stolen, &Policy::default()).await.is_err());
        assert_eq!(notifications::rule(&store, "team-cv", &created.id).await.unwrap(), Some(replaced.0));
        assert_eq!(notifications::rule(&store, "team-nlp", &created.id).await.unwrap(), None);
        record(&store, &[seen("a", 1, "Failed")]).await.unwrap();
        assert_eq!(claim(&store, at(100), 10).await.unwrap().len(), 0, "a disabled rule");
        assert!(notifications::delete_rule(&store, "team-cv", &created.id).await.unwrap());
        for _ in 0..notifications::MAX_RULES {
            with_rule(&store, &[]).await;
        }
        let error =
            put_rule(&store, rule("https://example.com/", &[]), &Policy::default()).await.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        let private = rule("https://10.0.0.1/", &[]);
        let error = put_rule(&store, private, &Policy::default()).await.unwrap_err();
        assert!(error.to_string().contains("private"), "{error}");
    });
}

/// A request as the receiver has seen it.
struct Received {
    headers: http::HeaderMap,
    path: String,
    body: Bytes,
}

/// A TLS server's configuration for `localhost`, and the certificate that it shows.
fn tls() -> (TlsAcceptor, CertificateDer<'static>) {
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
    Policy { allowed: vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()], allow_http: false }
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
        assert_eq!(deliver_due(&store, &sender, 10).await.unwrap(), 1);
        assert_eq!(deliver_due(&store, &sender, 10).await.unwrap(), 0);
        assert_eq!(notifications::enqueue_test(&store, "team-nlp", &rule.id).await.unwrap(), None);
        let log = deliveries(&store, "team-cv", None, None, 10).await.unwrap();
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
    assert_eq!(deliver_due(&store, sender, 10).await.unwrap(), 1);
    let one = deliveries(&store, "team-cv", None, None, 10).await.unwrap().remove(0);
    (one.state, one.error.unwrap())
}

#[test]
fn a_name_that_resolves_to_a_private_address_is_not_connected_to() {
    on_sqlite(async |place| {
        let receiver = receiver(200).await;
        let url = format!("https://localhost:{}/", receiver.port);
        let sender = Sender::new(Policy::default(), std::slice::from_ref(&receiver.authority), None).unwrap();
        let (state, error) = sent(place, &url, &sender, &Policy::default()).await;
        assert_eq!(state, "dead");
        assert!(error.contains("loopback"), "{error}");
        assert!(receiver.received.lock().unwrap().is_empty());
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

/// A mail server on loopback, behind TLS, that gives the same answer to every recipient. It keeps what it received.
async fn mail_server(answer: &'static str) -> (mail::Settings, Arc<Mutex<String>>) {
    let (acceptor, authority) = tls();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = mail::Settings {
        host: "localhost".to_owned(),
        port: listener.local_addr().unwrap().port(),
        security: mail::Security::Tls,
        credentials: None,
        from: "Training <training@example.com>".to_owned(),
        authorities: vec![authority],
    };
    let received = Arc::new(Mutex::new(String::new()));
    let log = Arc::clone(&received);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let mut stream = BufStream::new(stream);
            let (mut line, mut answer_now, mut in_message) = (String::new(), "220 ready", false);
            loop {
                if !answer_now.is_empty() {
                    stream.write_all(format!("{answer_now}\r\n").as_bytes()).await.unwrap();
                    stream.flush().await.unwrap();
                }
                line.clear();
                if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                    break;
                }
                log.lock().unwrap().push_str(&line);
                answer_now = match line.split_whitespace().next().unwrap_or("") {
                    "." if in_message => "250 queued",
                    _ if in_message => "",
                    "RCPT" => answer,
                    "DATA" => "354 go on",
                    _ => "250 ok",
                };
                in_message = answer_now == "354 go on" || answer_now.is_empty();
            }
        }
    });
    (settings, received)
}

fn to_jane() -> NewRule {
    NewRule { destination: Destination::Email { to: "jane@example.com".to_owned() }, ..rule("", &[]) }
}

#[test]
fn an_email_arrives_over_tls_and_names_job_phase_and_cause() {
    on_each(async |place| {
        let store = place.open().await;
        let (settings, received) = mail_server("250 ok").await;
        put_rule(&store, to_jane(), &Policy::default()).await.unwrap();
        let mut failed = seen("a", 1, "Failed");
        failed.state.cause = Some("OutOfMemory\r\nBcc: eve@example.com".to_owned());
        record(&store, &[failed]).await.unwrap();
        let sender = Sender::new(Policy::default(), &[], Some(&settings)).unwrap();
        assert_eq!(deliver_due(&store, &sender, 10).await.unwrap(), 1);
        let log = deliveries(&store, "team-cv", None, None, 10).await.unwrap();
        assert_eq!((log[0].state.as_str(), log[0].status), ("delivered", Some(250)), "{log:?}");
        let received = received.lock().unwrap();
        for expected in
            ["RCPT TO:<jane@example.com>", "MPIJob team-cv/name-of-a", "Phase: Failed", &log[0].id]
        {
            assert!(received.contains(expected), "{expected} in {received}");
        }
        let header = received.split("\r\n\r\n").next().unwrap();
        assert!(!header.lines().any(|line| line.starts_with("Bcc")), "{header}");
    });
}

#[test]
fn an_email_that_the_server_refuses_for_good_is_a_dead_letter() {
    on_sqlite(async |place| {
        for (answer, state) in [("550 no such user", "dead"), ("451 try later", "pending")] {
            let store = place.open().await;
            let (settings, _) = mail_server(answer).await;
            let (rule, _) = put_rule(&store, to_jane(), &Policy::default()).await.unwrap();
            record(&store, &[seen(answer, 1, "Failed")]).await.unwrap();
            let sender = Sender::new(Policy::default(), &[], Some(&settings)).unwrap();
            assert_eq!(deliver_due(&store, &sender, 10).await.unwrap(), 1);
            let log = deliveries(&store, "team-cv", None, None, 10).await.unwrap();
            assert_eq!(log[0].state, state, "{log:?}");
            assert_eq!(log[0].status, Some(answer[..3].parse().unwrap()));
            notifications::delete_rule(&store, "team-cv", &rule.id).await.unwrap();
        }
        let nobody = Destination::Email { to: "jane@example.com\r\nBcc: eve@example.com".to_owned() };
        let store = place.open().await;
        let bad = NewRule { destination: nobody, ..to_jane() };
        assert!(put_rule(&store, bad, &Policy::default()).await.is_err());
        let (settings, _) = mail_server("250 ok").await;
        let plain = mail::Settings {
            security: mail::Security::Plain,
            credentials: Some(("user".to_owned(), "word".to_owned())),
            ..settings
        };
        assert!(Sender::new(Policy::default(), &[], Some(&plain)).is_err(), "a password without TLS");
    });
}
