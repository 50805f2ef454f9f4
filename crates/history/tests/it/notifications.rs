//! Notifications: rules, deliveries, and a receiver over real TLS.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use history::jobs::{Observation, record};
use history::notifications::address::Policy;
use history::notifications::deliver::{Everyone, Permission, Rights, Sender, deliver_due};
use history::notifications::mail;
use history::notifications::signature::{self, Headers};
use history::notifications::{
    self, Claim, DeliveryFilter, Destination, LEASE, MAX_TRIES, NewRule, Outcome, Rule, Secret, Transition,
    Transitions, VisibleDeliveries, claim, deliveries, finish, put_rule,
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

pub fn rule(url: &str, phases: &[&str]) -> NewRule {
    NewRule {
        id: uuid::Uuid::new_v4().to_string(),
        namespace: "team-cv".to_owned(),
        job: None,
        owner: "jane".to_owned(),
        subject: String::new(),
        kinds: Vec::new(),
        enabled: true,
        transitions: Transitions {
            phases: phases.iter().map(|phase| (*phase).to_owned()).collect(),
            ..Transitions::default()
        },
        condition: None,
        destination: Destination::Webhook { url: url.to_owned() },
        secret: Some(Secret::new(vec![7; 32]).unwrap()),
    }
}

/// All deliveries.
pub const ALL: DeliveryFilter = DeliveryFilter { state: None, visible: None };

fn only_dead() -> DeliveryFilter {
    DeliveryFilter { state: Some("dead".to_owned()), ..ALL }
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

/// Claims and finishes deliveries until none is due.
async fn claim_all(store: &Store) -> Vec<Claim> {
    let delivered = Outcome { status: Some(200), error: None, ..failure() };
    let mut all = Vec::new();
    loop {
        let claims = claim(store, at(100), 10).await.unwrap();
        if claims.is_empty() {
            return all;
        }
        for claim in &claims {
            assert!(finish(store, claim, &delivered, at(100), 0.5).await.unwrap());
        }
        all.extend(claims);
    }
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
        assert_eq!(phases(&claim_all(&store).await), ["Failed", "Running"]);
    });
}

#[test]
fn a_delivery_is_claimed_by_one_replica_until_its_lease_expires() {
    on_each(async |place| {
        let replicas = [place.open().await, place.open().await, place.open().await];
        let mut jobs = Vec::new();
        for number in 0..30 {
            let namespace = format!("team-{number}");
            let url = format!("https://example.com/{number}");
            let rule = NewRule { namespace: namespace.clone(), ..rule(&url, &[]) };
            put_rule(&replicas[0], rule, &Policy::default()).await.unwrap();
            jobs.push(Observation { namespace, ..seen(&number.to_string(), 1, "Pending") });
        }
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
        let dead = deliveries(&store, "team-cv", &only_dead(), None, 10).await.unwrap();
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
fn a_receiver_that_does_not_answer_keeps_no_other_waiting() {
    on_each(async |place| {
        let store = place.open().await;
        for number in 0..20 {
            let silent = format!("https://silent.example/{number}");
            put_rule(&store, rule(&silent, &[]), &Policy::default()).await.unwrap();
        }
        let other = NewRule { namespace: "team-nlp".to_owned(), ..rule("https://example.com/", &[]) };
        put_rule(&store, other, &Policy::default()).await.unwrap();
        let jobs: Vec<_> = (0..5).map(|number| seen(&number.to_string(), 1, "Pending")).collect();
        record(&store, &jobs).await.unwrap();
        record(&store, &[Observation { namespace: "team-nlp".to_owned(), ..seen("last", 1, "Pending") }])
            .await
            .unwrap();
        let claims = claim(&store, at(100), 32).await.unwrap();
        let of = |namespace: &str| claims.iter().filter(|claim| claim.namespace == namespace).count();
        assert_eq!((of("team-cv"), of("team-nlp")), (8, 1), "each namespace has a share");
        let destinations: std::collections::BTreeSet<String> =
            claims.iter().map(|claim| format!("{:?}", claim.destination)).collect();
        assert_eq!(destinations.len(), 9, "one at a time for each destination");
        assert_eq!(claim(&store, at(101), 32).await.unwrap().len(), 0, "none of these has answered");
        finish(
            &store,
            claims.iter().find(|claim| claim.namespace == "team-cv").unwrap(),
            &failure(),
            at(101),
            1.0,
        )
        .await
        .unwrap();
        assert_eq!(claim(&store, at(101), 32).await.unwrap().len(), 1);
    });
}

#[test]
fn tests_of_a_rule_have_a_rate() {
    on_each(async |place| {
        let store = place.open().await;
        let mut ids = Vec::new();
        for number in 0..12 {
            let url = format!("https://example.com/{number}");
            ids.push(put_rule(&store, rule(&url, &[]), &Policy::default()).await.unwrap().0.id);
        }
        let test = async |id: &str| notifications::enqueue_test(&store, "team-cv", id).await.unwrap();
        assert!(matches!(test(&ids[0]).await, notifications::Tested::Enqueued(_)));
        assert_eq!(test(&ids[0]).await, notifications::Tested::TooSoon);
        for id in &ids[1..10] {
            assert!(matches!(test(id).await, notifications::Tested::Enqueued(_)));
        }
        assert_eq!(test(&ids[10]).await, notifications::Tested::TooSoon, "the namespace has a share");
    });
}

#[test]
fn of_too_many_deliveries_that_wait_the_newest_stay() {
    on_each(async |place| {
        let store = place.open().await;
        with_rule(&store, &[]).await;
        let jobs: Vec<_> = (0..103).map(|number| seen(&number.to_string(), number + 1, "Pending")).collect();
        record(&store, &jobs).await.unwrap();
        let dead = deliveries(&store, "team-cv", &only_dead(), None, 10).await.unwrap();
        let mut uids: Vec<&str> = dead.iter().map(|delivery| delivery.uid.as_str()).collect();
        uids.sort_unstable();
        assert_eq!(uids, ["0", "1", "2"]);
        assert!(dead[0].error.as_deref().unwrap().contains("too many"), "{:?}", dead[0]);
    });
}

#[test]
fn e_mails_go_to_permitted_domains_only() {
    on_sqlite(async |place| {
        let store = place.open().await;
        let policy = Policy { email_domains: vec!["Example.com".to_owned()], ..Policy::default() };
        put_rule(&store, to_jane(), &policy).await.unwrap();
        let other = Destination::Email { to: "victim@other.example".to_owned() };
        let error = put_rule(&store, NewRule { destination: other, ..to_jane() }, &policy).await.unwrap_err();
        assert!(error.to_string().contains("other.example"), "{error}");
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
fn a_rule_belongs_to_whoever_chose_its_destination_and_is_about_that_users_kinds() {
    on_each(async |place| {
        let store = place.open().await;
        let of = |owner: &str, url: &str, kind: &str| NewRule {
            id: "team-cv/news".to_owned(),
            owner: owner.to_owned(),
            subject: format!("subject of {owner}"),
            kinds: vec![kind.to_owned()],
            ..rule(url, &[])
        };
        let policy = Policy::default();
        put_rule(&store, of("jane", "https://example.com/1", "PyTorchJob"), &policy).await.unwrap();
        record(&store, &[seen("a", 1, "Pending")]).await.unwrap();
        assert_eq!(deliveries(&store, "team-cv", &ALL, None, 10).await.unwrap(), [], "an MPIJob");
        let (same, _) =
            put_rule(&store, of("joe", "https://example.com/1", "MPIJob"), &policy).await.unwrap();
        assert_eq!((same.owner.as_str(), &same.kinds[..]), ("jane", &["PyTorchJob".to_owned()][..]));
        let (other, _) =
            put_rule(&store, of("joe", "https://example.com/2", "MPIJob"), &policy).await.unwrap();
        assert_eq!((other.owner.as_str(), other.subject.as_str()), ("joe", "subject of joe"));
        record(&store, &[seen("a", 2, "Running")]).await.unwrap();
        assert_eq!(deliveries(&store, "team-cv", &ALL, None, 10).await.unwrap().len(), 1);
    });
}

#[test]
fn deliveries_are_cut_to_the_kinds_and_the_tests_that_may_be_seen() {
    on_each(async |place| {
        let store = place.open().await;
        with_rule(&store, &[]).await;
        let other = Observation { kind: "PyTorchJob".to_owned(), ..seen("net", 2, "Pending") };
        record(&store, &[seen("a", 1, "Pending"), other]).await.unwrap();
        let rule = notifications::rules(&store, "team-cv").await.unwrap().remove(0).id;
        notifications::enqueue_test(&store, "team-cv", &rule).await.unwrap();
        let uids = async |kinds: &[&str], tests_of: &[&str]| {
            let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            let visible = VisibleDeliveries { kinds: texts(kinds), tests_of: texts(tests_of) };
            let filter = DeliveryFilter { visible: Some(visible), ..ALL };
            let found = deliveries(&store, "team-cv", &filter, None, 10).await.unwrap();
            let mut uids: Vec<String> = found.into_iter().map(|delivery| delivery.uid).collect();
            uids.sort();
            uids.join(" ")
        };
        for _ in ["as recorded", "as migrated"] {
            assert_eq!(uids(&[], &[]).await, "");
            assert_eq!(uids(&["MPIJob"], &[]).await, "a");
            assert_eq!(uids(&["TFJob", "PyTorchJob"], &["team-cv/other"]).await, "net");
            assert_eq!(uids(&["MPIJob"], &[rule.as_str()]).await, "Test a");
            store.migrate_down(12).await.unwrap();
            store.migrate_up().await.unwrap();
        }
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
        assert_eq!(deliver_due(&store, &sender, &Everyone, 10).await.unwrap(), 1);
        let log = deliveries(&store, "team-cv", &ALL, None, 10).await.unwrap();
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
            assert_eq!(deliver_due(&store, &sender, &Everyone, 10).await.unwrap(), 1);
            let log = deliveries(&store, "team-cv", &ALL, None, 10).await.unwrap();
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
