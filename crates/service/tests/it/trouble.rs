//! An API server in trouble, and clients that do not read: clear answers, nothing lost, nothing doubled.

use std::time::Duration;

use serde_json::{Value, json};
use service::Settings;
use tokio::time::timeout;

use crate::line::Trouble;
use crate::stage::{ADMIN, JANE, PATIENCE, Reply, Stage, TEAM, VERA, request};

const JOBS: &str = "/api/v1/namespaces/team-cv/jobs";

/// Creates a job with a key.
async fn create(stage: &Stage, name: &str) -> Reply {
    let spec = json!({ "name": name, "workers": 2, "image": "train:1", "command": ["true"] });
    let mut sent = request("POST", JOBS, JANE, Some(json!({ "spec": spec })));
    sent.headers_mut().insert("idempotency-key", name.parse().unwrap());
    stage.send(sent).await
}

fn assert_problem(reply: &Reply, status: u16, code: &str) {
    assert_eq!((reply.status, &reply.json()["code"]), (status, &json!(code)), "{}", reply.text);
    assert_eq!(reply.headers["content-type"], "application/problem+json");
    assert!(reply.headers["retry-after"].to_str().unwrap().parse::<u32>().unwrap() > 0);
}

#[tokio::test]
async fn an_api_server_in_trouble_gives_clear_answers_and_loses_and_doubles_nothing() {
    // What a read gets, and what a change gets, whose permission must be asked for first.
    for (trouble, read, change) in [
        (Trouble::Away, (503, "Unavailable"), 503),
        (Trouble::Silent, (504, "Unavailable"), 504),
        (Trouble::Busy, (429, "TooManyRequests"), 503),
    ] {
        let settings = Settings { patience: Duration::from_secs(2), ..Settings::default() };
        let stage = Stage::with(settings).await;
        stage.job(TEAM, "a").await;
        assert_eq!(stage.get(&format!("{JOBS}/mpijob/a"), JANE).await.status, 200);
        assert_eq!(stage.get("/api/v1/jobs?namespace=team-cv", JANE).await.status, 200);
        stage.trouble(trouble);
        let listed = stage.get("/api/v1/jobs?namespace=team-cv", JANE).await;
        assert_eq!(listed.status, 200, "a list needs no API server: {trouble:?} {}", listed.text);
        assert_problem(&stage.get(&format!("{JOBS}/mpijob/a"), JANE).await, read.0, read.1);
        assert_problem(&create(&stage, "made").await, change, "Unavailable");
        // Somebody whose token is not known yet.
        let stranger = stage.get("/api/v1/me", VERA).await;
        assert_eq!(stranger.status, change, "{trouble:?}: {}", stranger.text);
        stage.trouble(Trouble::None);
        assert_eq!(stage.get(&format!("{JOBS}/mpijob/made"), JANE).await.status, 404);
        let (first, again) = (create(&stage, "made").await, create(&stage, "made").await);
        assert_eq!((first.status, again.status), (200, 200), "{}", again.text);
        assert_eq!(first.json()["job"]["uid"], again.json()["job"]["uid"]);
        let rows = stage.get("/api/v1/jobs?q=made", JANE).await.json();
        assert_eq!(rows["jobs"].as_array().map(Vec::len), Some(1), "{rows}");
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_nobody_and_gets_the_newest_state() {
    let stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    let path = "/api/v1/stream?namespace=team-cv";
    let silent = stage.open(request("GET", path, JANE, None)).await;
    for number in 0..500 {
        stage.status(TEAM, "a", json!({ "phase": "Running", "phaseReason": format!("r{number}") })).await;
    }
    stage.until_shown(TEAM, "a", |row| row["phaseReason"] == "r499").await;
    let mut text = String::new();
    let mut body = silent.into_body();
    let read = async {
        while !text.contains("\"r499\"") {
            let part = http_body_util::BodyExt::frame(&mut body).await.unwrap().unwrap().into_data().unwrap();
            text.push_str(&String::from_utf8_lossy(&part));
        }
    };
    timeout(PATIENCE, read).await.unwrap();
    let last: Value = text.lines().rfind(|line| line.contains("r499")).unwrap().parse().unwrap();
    assert_eq!(last["jobs"][0]["name"], "a");
}

#[tokio::test]
async fn watches_that_have_expired_lose_no_change() {
    let stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    stage.job(TEAM, "b").await;
    let mut body =
        stage.open(request("GET", "/api/v1/stream?namespace=team-cv", JANE, None)).await.into_body();
    stage.trouble(Trouble::Expired);
    let gone = stage.rest("DELETE", &format!("{JOBS}/mpijob/a"), JANE, None).await;
    assert_eq!(gone.status, 200, "{}", gone.text);
    stage.status(TEAM, "b", json!({ "phase": "Running" })).await;
    assert_eq!(create(&stage, "made").await.status, 200, "a change needs no watch");
    stage.trouble(Trouble::None);
    stage.until_shown(TEAM, "made", |_| true).await;
    stage.until_shown(TEAM, "b", |row| row["phase"] == "Running").await;
    let rows = stage.get("/api/v1/jobs?namespace=team-cv", JANE).await.json();
    let mut names: Vec<&str> =
        rows["jobs"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["b", "made"]);
    let mut text = String::new();
    let read = async {
        // The open stream has heard of each.
        while !["\"deleted\"", "\"Running\"", "\"made\""].iter().all(|part| text.contains(part)) {
            let part = http_body_util::BodyExt::frame(&mut body).await.unwrap().unwrap().into_data().unwrap();
            text.push_str(&String::from_utf8_lossy(&part));
        }
    };
    timeout(PATIENCE, read).await.unwrap();
}

#[tokio::test]
async fn clocks_that_disagree_make_no_time_negative() {
    let stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let pods: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::namespaced(stage.admin.clone(), TEAM);
    stage.pod_with(TEAM, "a", "worker", "a-worker-0", json!({ "cpu": "1", "nvidia.com/gpu": 2 })).await;
    let state = json!({ "running": { "startedAt": later } });
    let status = json!({ "phase": "Running", "startTime": later, "containerStatuses": [{ "name": "main",
        "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": state }] });
    let patch = kube::api::Patch::Merge(json!({ "status": status }));
    pods.patch_status("a-worker-0", &kube::api::PatchParams::default(), &patch).await.unwrap();
    stage.status(TEAM, "a", json!({ "phase": "Running", "startTime": later })).await;
    stage.until_shown(TEAM, "a", |row| row["phase"] == "Running").await;
    let history = format!("{JOBS}/mpijob/a/history");
    let recorded = async {
        while stage.get(&history, ADMIN).await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, recorded).await.unwrap();
    for path in [
        format!("{JOBS}/mpijob/a"),
        history.clone(),
        format!("{JOBS}/mpijob/a/metrics"),
        format!("{JOBS}/mpijob/a/events"),
        "/api/v1/jobs?since=1h".to_owned(),
        "/api/v1/usage?since=1d&by=user&by=job".to_owned(),
        "/api/v1/overview?namespace=team-cv".to_owned(),
        "/api/v1/capacity?workers=2&gpus=1".to_owned(),
    ] {
        let reply = stage.get(&path, ADMIN).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        assert_not_negative(&reply.json(), &path);
    }
}

fn assert_not_negative(value: &Value, path: &str) {
    match value {
        Value::Number(number) => assert!(number.as_f64().unwrap() >= 0.0, "{path}: {number}"),
        Value::String(text) => {
            assert!(!text.parse::<f64>().is_ok_and(|number| number < 0.0), "{path}: {text}");
        }
        Value::Array(values) => values.iter().for_each(|value| assert_not_negative(value, path)),
        Value::Object(fields) => {
            for (name, value) in fields {
                assert_not_negative(value, &format!("{path}: {name}"));
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}
