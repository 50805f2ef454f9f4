//! Notifications, over the service: rules, a receiver, deliveries.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use history::notifications::Secret;
use history::notifications::signature::{self, Headers};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::keeping::until;
use crate::place::{Place, on_each};
use crate::stage::{ADMIN, JANE, JOE, Reply, Stage, TEAM, VERA};

const RULES: &str = "/api/v1/namespaces/team-cv/notifications";
const DELIVERIES: &str = "/api/v1/namespaces/team-cv/deliveries";

pub type Received = Arc<Mutex<Vec<(http::HeaderMap, bytes::Bytes)>>>;

/// Receives webhooks at a port of loopback.
pub async fn receiver() -> (String, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://127.0.0.1:{}/hook", listener.local_addr().unwrap().port());
    let received = Received::default();
    let seen = received.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let seen = seen.clone();
            let answer = hyper::service::service_fn(move |request: Request<Incoming>| {
                let seen = seen.clone();
                async move {
                    let (parts, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    seen.lock().unwrap().push((parts.headers, body));
                    Ok::<_, Infallible>(Response::new(Full::new(bytes::Bytes::new())))
                }
            });
            let serving =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
            tokio::spawn(serving);
        }
    });
    (url, received)
}

/// A stage whose webhooks may go to loopback.
pub async fn stage_for_loopback(place: &Place) -> Stage {
    let mut stage = Stage::on(place).await;
    stage.keep.notifications.policy.allowed = vec!["127.0.0.0/8".parse().unwrap()];
    stage.keep.notifications.policy.allow_http = true;
    stage.restart().await;
    stage
}

pub fn delivered(reply: &Reply) -> Vec<(String, String)> {
    let json = reply.json();
    let deliveries = json["deliveries"].as_array().cloned().unwrap_or_default();
    let text = |delivery: &Value, field: &str| delivery[field].as_str().unwrap_or_default().to_owned();
    deliveries.iter().map(|delivery| (text(delivery, "rule"), text(delivery, "state"))).collect()
}

#[test]
fn a_failed_job_notifies_by_a_signed_webhook_once() {
    on_each(async |place| {
        let mut stage = stage_for_loopback(place).await;
        let (url, received) = receiver().await;
        let rule = json!({ "url": url, "phases": ["Failed"] });
        let put = stage.rest("PUT", &format!("{RULES}/failures"), JANE, Some(rule)).await;
        assert_eq!(put.status, 200, "{}", put.text);
        let key = put.json()["secret"].as_str().unwrap().strip_prefix("whsec_").unwrap().to_owned();
        assert_eq!(put.json()["owner"], "jane");
        stage.job(TEAM, "a").await;
        let replica = stage.replica().await;
        stage.status(TEAM, "a", json!({ "phase": "Running" })).await;
        stage
            .status(
                TEAM,
                "a",
                json!({ "phase": "Failed", "failure": { "reason": "OutOfMemory", "message": "too much" } }),
            )
            .await;
        let done = [("failures".to_owned(), "delivered".to_owned())];
        until(&stage, DELIVERIES, VERA, |reply| delivered(reply) == done).await;
        replica.cancel();
        stage.restart().await;
        until(&stage, DELIVERIES, VERA, |reply| delivered(reply) == done).await;
        let received = std::mem::take(&mut *received.lock().unwrap());
        let [(headers, body)] = received.as_slice() else { panic!("{received:?}") };
        let header = |name: &str| headers[name].to_str().unwrap();
        let headers = Headers {
            id: header(signature::ID),
            timestamp: header(signature::TIMESTAMP),
            signature: header(signature::SIGNATURE),
        };
        let secret = Secret::new(STANDARD.decode(key).unwrap()).unwrap();
        assert!(signature::verify(&secret, headers, body, Timestamp::now(), Duration::from_secs(60)));
        let body: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(
            (&body["name"], &body["phase"], &body["cause"]),
            (&json!("a"), &json!("Failed"), &json!("OutOfMemory"))
        );
    });
}

#[test]
fn rules_are_put_listed_tested_and_deleted() {
    on_each(async |place| {
        let mut stage = stage_for_loopback(place).await;
        let (url, received) = receiver().await;
        let path = format!("{RULES}/all");
        let key = format!("whsec_{}", STANDARD.encode([7; 32]));
        let rule = json!({ "url": url, "secret": key });
        let put = stage.rest("PUT", &path, JANE, Some(rule.clone())).await;
        assert_eq!((put.status, put.json().get("secret")), (200, None), "the caller has it: {}", put.text);
        stage.restart().await;
        let rules = stage.get(RULES, VERA).await;
        assert_eq!(rules.json()["rules"][0]["name"], "all");
        assert!(!rules.text.contains("whsec_"), "a key is shown once");
        let tested = stage.rest("POST", &format!("{path}/test"), JANE, None).await;
        assert_eq!(
            (tested.status, tested.json()["state"].clone()),
            (200, json!("pending")),
            "{}",
            tested.text
        );
        until(&stage, DELIVERIES, VERA, |reply| {
            delivered(reply) == [("all".to_owned(), "delivered".to_owned())]
        })
        .await;
        let body: Value = serde_json::from_slice(&received.lock().unwrap()[0].1).unwrap();
        assert_eq!(body["phase"], "Test");
        let disabled = json!({ "url": url, "disabled": true });
        let put = stage.rest("PUT", &path, JANE, Some(disabled)).await.json();
        assert_eq!((&put["enabled"], put.get("secret")), (&json!(false), None), "the key stays");
        assert_eq!(stage.get(&path, VERA).await.json()["enabled"], false);
        assert_eq!(stage.rest("DELETE", &path, VERA, None).await.status, 403);
        assert_eq!(stage.get(&path, JOE).await.status, 403);
        assert_eq!(stage.rest("DELETE", &path, JANE, None).await.json()["deleted"], true);
        for (verb, path) in
            [("GET", path.clone()), ("DELETE", path.clone()), ("POST", format!("{path}/test"))]
        {
            assert_eq!(stage.rest(verb, &path, JANE, None).await.status, 404, "{verb} {path}");
        }
    });
}

#[test]
fn deliveries_that_end_together_keep_no_writer_waiting() {
    on_each(async |place| {
        let stage = Stage::on(place).await;
        const COUNT: usize = 10;
        for rule in 0..COUNT {
            // Resolves to an address that webhooks may not reach, so that each try ends at once.
            let rule = (format!("{RULES}/r{rule}"), json!({ "url": format!("https://localhost/{rule}") }));
            assert_eq!(stage.rest("PUT", &rule.0, JANE, Some(rule.1)).await.status, 200);
        }
        for name in ["a", "b", "c", "d"] {
            stage.job(TEAM, name).await;
            stage.status(TEAM, name, json!({ "phase": "Failed", "phaseReason": "OutOfMemory" })).await;
        }
        let template = json!({ "manifest": crate::stage::job("t").to_string() });
        let written = async {
            loop {
                let path = "/api/v1/namespaces/team-cv/templates/t";
                let put = stage.rest("PUT", path, JANE, Some(template.clone())).await;
                assert_eq!(put.status, 200, "{}", put.text);
                let all = stage.get(DELIVERIES, JANE).await.json();
                let tried = |one: &Value| one["tries"].as_i64() > Some(0);
                let all = all["deliveries"].as_array().cloned().unwrap_or_default();
                if all.iter().filter(|one| tried(one)).count() >= 2 * COUNT {
                    return;
                }
            }
        };
        tokio::time::timeout(crate::stage::PATIENCE, written).await.unwrap();
    });
}

#[test]
fn a_rule_that_cannot_work_is_refused_with_its_field() {
    on_each(async |place| {
        let stage = Stage::on(place).await;
        let table = [
            (json!({}), 422, "url"),
            (json!({ "url": "https://example.com/", "email": "a@example.com" }), 422, "url"),
            (json!({ "email": "a@example.com" }), 422, "email"),
            (json!({ "url": "https://10.0.0.1/" }), 422, "url"),
            (json!({ "url": "http://example.com/" }), 422, "url"),
            (json!({ "url": "file:///etc/passwd" }), 422, "url"),
            (json!({ "url": "https://example.com/", "secret": "whsec_c2hvcnQ=" }), 422, "secret"),
            (json!({ "url": "https://example.com/", "phases": vec!["x"; 51] }), 422, "phases"),
            (json!({ "url": "https://example.com/", "phases": ["Fail"] }), 422, "phases"),
            (json!({ "url": "https://example.com/", "phases": ["Cancelled"] }), 422, "phases"),
            (json!({ "url": "https://example.com/", "causes": ["OutOfMemry"] }), 422, "causes"),
            (json!({ "url": "https://example.com/", "job": "A/B" }), 422, "job"),
            (json!({ "url": "https://example.com/", "quotaPercent": 0 }), 422, "quotaPercent"),
            (json!({ "url": "https://example.com/", "quotaPercent": 101 }), 422, "quotaPercent"),
            (json!({ "url": "https://example.com/", "quotaPercent": 90, "job": "a" }), 422, "job"),
            (json!({ "url": "https://example.com/", "runsLongerThan": "soon" }), 422, "runsLongerThan"),
            (json!({ "url": "https://example.com/", "runsLongerThan": "9s" }), 422, "runsLongerThan"),
            (
                json!({ "url": "https://example.com/", "runsLongerThan": "1d", "stalled": true }),
                422,
                "runsLongerThan",
            ),
            (json!({ "url": "https://example.com/", "stalled": true, "phases": ["Failed"] }), 422, "phases"),
            (
                json!({ "url": "https://example.com/", "stalled": true, "causes": ["OutOfMemory"] }),
                422,
                "causes",
            ),
        ];
        for (rule, status, field) in table {
            let refused = stage.rest("PUT", &format!("{RULES}/a"), JANE, Some(rule.clone())).await;
            assert_eq!(
                (refused.status, &refused.json()["fields"][0]["path"]),
                (status, &json!(field)),
                "{rule}"
            );
        }
        let of_nothing = json!({ "url": "https://example.com/", "job": "missing" });
        assert_eq!(stage.rest("PUT", &format!("{RULES}/a"), JANE, Some(of_nothing)).await.status, 404);
        stage.job(TEAM, "a").await;
        let of_one = json!({ "url": "https://example.com/", "job": "a" });
        let put = stage.rest("PUT", &format!("{RULES}/a"), JANE, Some(of_one)).await;
        assert!(put.json()["jobUid"].is_string(), "{}", put.text);
        assert_eq!((&put.json()["kind"], &put.json()["job"]), (&json!("MPIJob"), &json!("a")));
        // The rule of a job that is gone still says which, and can be silenced.
        let job = "/api/v1/namespaces/team-cv/jobs/mpijob/a";
        until(&stage, &format!("{job}/history"), JANE, |reply| reply.status == 200).await;
        assert_eq!(stage.rest("DELETE", job, JANE, None).await.status, 200);
        until(&stage, "/api/v1/jobs", JANE, |reply| reply.json()["jobs"] == json!([])).await;
        let rules = stage.get(RULES, VERA).await.json();
        assert_eq!(rules["rules"][0]["job"], "a");
        let silent = json!({ "url": "https://example.com/", "kind": "mpijob", "job": "a", "disabled": true });
        let put = stage.rest("PUT", &format!("{RULES}/a"), JANE, Some(silent)).await;
        assert_eq!((put.status, put.json()["jobUid"].is_string()), (200, true), "{}", put.text);
    });
}

#[test]
fn a_rule_ends_with_the_rights_of_its_owner() {
    on_each(async |place| {
        let stage = stage_for_loopback(place).await;
        let (url, received) = receiver().await;
        assert_eq!(
            stage.rest("PUT", &format!("{RULES}/all"), JANE, Some(json!({ "url": url }))).await.status,
            200
        );
        stage.revoke("jane").await;
        stage.job(TEAM, "a").await;
        let ended =
            until(&stage, &format!("{RULES}/all"), VERA, |reply| reply.json()["enabled"] == false).await;
        assert!(ended.json()["disabledBecause"].as_str().unwrap().contains("owner"), "{}", ended.text);
        let dead = [("all".to_owned(), "dead".to_owned())];
        until(&stage, DELIVERIES, VERA, |reply| delivered(reply) == dead).await;
        assert!(received.lock().unwrap().is_empty());
    });
}

/// Lets people change PyTorchJobs of the team.
async fn may_change_pytorchjobs(stage: &Stage, people: &[&str]) {
    let verbs = ["get", "list", "patch"];
    let rights = json!({ "apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs"], "verbs": verbs });
    stage.create_role("pytorch", rights).await;
    for person in people {
        stage.allow(TEAM, person, "pytorch").await;
    }
}

#[test]
fn a_rule_about_other_kinds_is_changed_by_its_owner_and_removed_by_an_administrator() {
    on_each(async |place| {
        let stage = stage_for_loopback(place).await;
        let (url, _) = receiver().await;
        may_change_pytorchjobs(&stage, &["joe", "vera"]).await;
        stage.allow(TEAM, "vera", "system:aggregate-to-admin").await;
        let (mpi, pt) = (format!("{RULES}/mpi"), format!("{RULES}/pt"));
        let put = stage.rest("PUT", &mpi, JANE, Some(json!({ "url": url }))).await;
        assert_eq!((put.status, &put.json()["kinds"]), (200, &json!(["MPIJob"])), "{}", put.text);
        let silent = || Some(json!({ "url": url, "kind": "pytorchjob", "disabled": true }));
        let refused = async |verb: &str, path: &str, token: &str, body: Option<Value>, message: &str| {
            let reply = stage.rest(verb, path, token, body).await;
            assert_eq!((reply.status, &reply.json()["message"]), (403, &json!(message)), "{verb} {path}");
        };
        let of_joe = "User 'joe' lacks 'patch' permission for MPIJobs in namespace 'team-cv'";
        refused("PUT", &mpi, JOE, silent(), of_joe).await;
        refused("DELETE", &mpi, JOE, None, of_joe).await;
        refused("POST", &format!("{mpi}/test"), JOE, None, of_joe).await;
        assert_eq!(stage.get(&mpi, JANE).await.json()["enabled"], true);
        assert_eq!(stage.rest("PUT", &pt, JOE, silent()).await.status, 200);
        let of_jane = "User 'jane' lacks 'patch' permission for PyTorchJobs in namespace 'team-cv'";
        refused("DELETE", &pt, JANE, None, of_jane).await;
        assert_eq!(stage.rest("POST", &format!("{pt}/test"), JOE, None).await.status, 200);
        assert_eq!(stage.rest("DELETE", &pt, JOE, None).await.json()["deleted"], true);
        // Vera views MPIJobs, and decides who may do what in the namespace.
        let of_vera = "User 'vera' lacks 'patch' permission for MPIJobs in namespace 'team-cv'";
        refused("PUT", &mpi, VERA, silent(), of_vera).await;
        assert_eq!(stage.rest("DELETE", &mpi, VERA, None).await.json()["deleted"], true);
    });
}

#[test]
fn rules_and_deliveries_are_those_about_kinds_that_the_caller_may_list() {
    on_each(async |place| {
        let stage = stage_for_loopback(place).await;
        let (url, _) = receiver().await;
        may_change_pytorchjobs(&stage, &["joe"]).await;
        for (name, kind, token) in
            [("all", "mpijob", ADMIN), ("mpi", "mpijob", JANE), ("pt", "pytorchjob", JOE)]
        {
            let rule = Some(json!({ "url": url, "kind": kind }));
            let put = stage.rest("PUT", &format!("{RULES}/{name}"), token, rule).await;
            assert_eq!(put.status, 200, "{}", put.text);
        }
        let rules = async |token: &str| -> Vec<(String, bool)> {
            let rules = stage.get(RULES, token).await.json()["rules"].as_array().cloned().unwrap_or_default();
            let text = |rule: &Value, field: &str| rule[field].as_str().unwrap().to_owned();
            rules.iter().map(|rule| (text(rule, "name"), text(rule, "url") == url)).collect()
        };
        let expected = |rules: &[(&str, bool)]| -> Vec<(String, bool)> {
            rules.iter().map(|(name, is_whole)| ((*name).to_owned(), *is_whole)).collect()
        };
        assert_eq!(rules(ADMIN).await, expected(&[("all", true), ("mpi", true), ("pt", true)]));
        assert_eq!(rules(JANE).await, expected(&[("all", false), ("mpi", true)]), "with its own URL only");
        assert_eq!(rules(JOE).await, expected(&[("all", false), ("pt", true)]), "with its own URL only");
        assert_eq!(stage.get(&format!("{RULES}/mpi"), JOE).await.status, 403);
        stage.job(TEAM, "a").await;
        assert_eq!(stage.rest("POST", &format!("{RULES}/pt/test"), JOE, None).await.status, 200);
        for (token, rules) in [(ADMIN, "all mpi pt"), (JANE, "all mpi"), (JOE, "pt")] {
            until(&stage, DELIVERIES, token, |reply| {
                let mut found = delivered(reply);
                found.sort();
                let names: Vec<&str> = found.iter().map(|(rule, _)| rule.as_str()).collect();
                names.join(" ") == rules && found.iter().all(|(_, state)| state == "delivered")
            })
            .await;
        }
    });
}

#[test]
fn a_rule_is_only_about_kinds_that_its_owner_may_list() {
    on_each(async |place| {
        let stage = stage_for_loopback(place).await;
        let (url, received) = receiver().await;
        may_change_pytorchjobs(&stage, &["joe"]).await;
        let rule = |kind: &str| Some(json!({ "url": url, "kind": kind }));
        assert_eq!(stage.rest("PUT", &format!("{RULES}/pt"), JOE, rule("mpijob")).await.status, 403);
        let put = stage.rest("PUT", &format!("{RULES}/pt"), JOE, rule("pytorchjob")).await;
        assert_eq!((put.status, put.json()["kinds"].clone()), (200, json!(["PyTorchJob"])), "{}", put.text);
        stage.job(TEAM, "a").await;
        let history = "/api/v1/namespaces/team-cv/jobs/mpijob/a/history";
        until(&stage, history, JANE, |reply| reply.status == 200).await;
        assert_eq!(delivered(&stage.get(DELIVERIES, VERA).await), []);
        assert!(received.lock().unwrap().is_empty());
    });
}

#[test]
fn who_takes_a_rule_over_with_another_destination_gets_a_key_that_the_former_owner_does_not_have() {
    on_each(async |place| {
        let stage = Stage::on(place).await;
        let put = async |token: &'static str, rule: Value| {
            let put = stage.rest("PUT", &format!("{RULES}/a"), token, Some(rule)).await;
            assert_eq!(put.status, 200, "{}", put.text);
            put.json()
        };
        let (first, second) = ("https://example.com/1", "https://example.com/2");
        let made = put(JANE, json!({ "url": first })).await;
        let changed = put(ADMIN, json!({ "url": first, "phases": ["Failed"] })).await;
        assert_eq!((&changed["owner"], changed.get("secret")), (&json!("jane"), None), "the key stays");
        let taken = put(ADMIN, json!({ "url": second })).await;
        assert_ne!(taken["owner"], "jane");
        assert!(taken["secret"].is_string() && taken["secret"] != made["secret"], "{taken}");
        assert_eq!(put(ADMIN, json!({ "url": first })).await.get("secret"), None, "the owner has it");
    });
}

#[test]
fn a_viewer_does_not_see_the_secret_in_a_webhooks_url() {
    on_each(async |place| {
        let stage = Stage::on(place).await;
        let rule = json!({ "url": "https://example.com/services/TOPSECRET-HOOK" });
        let put = stage.rest("PUT", &format!("{RULES}/a"), JANE, Some(rule)).await;
        assert!(put.text.contains("TOPSECRET"), "who chooses it sees it: {}", put.text);
        for path in [RULES.to_owned(), format!("{RULES}/a")] {
            let (viewer, editor) = (stage.get(&path, VERA).await, stage.get(&path, JANE).await);
            assert!(
                viewer.text.contains("https://example.com/…HOOK") && !viewer.text.contains("TOPSECRET"),
                "{}",
                viewer.text
            );
            assert!(editor.text.contains("TOPSECRET"), "{}", editor.text);
        }
    });
}
