//! An API server in trouble, and clients that do not read: clear answers, nothing lost, nothing doubled.

use std::time::Duration;

use serde_json::{Value, json};
use service::Settings;
use tokio::time::timeout;

use crate::stage::{JANE, PATIENCE, Reply, Stage, TEAM, Trouble, VERA, request};

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
