//! Streams of changes: snapshot, changes, resuming, heartbeats, both protocols.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use service::Settings;
use service::contract::{JobsEvent, WatchJobsRequest};
use tokio::time::{Instant, timeout};
use tonic::Streaming;

use crate::stage::{JANE, JOE, OTHER_TEAM, PATIENCE, Stage, TEAM, call, request};

/// Server-sent events as a browser reads them.
struct Events {
    body: Incoming,
    text: String,
}

#[derive(Debug, Default)]
struct Event {
    id: String,
    name: String,
    data: String,
}

impl Event {
    fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

impl Events {
    async fn open(stage: &Stage, query: &str, token: &str, last: &str) -> Self {
        let mut sent = request("GET", &format!("/api/v1/stream?{query}"), token, None);
        sent.headers_mut().insert("accept", "text/event-stream".parse().unwrap());
        if !last.is_empty() {
            sent.headers_mut().insert("last-event-id", last.parse().unwrap());
        }
        let response = stage.open(sent).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), text: String::new() }
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let mut event = Event::default();
                for line in block.lines() {
                    match line.split_once(": ") {
                        Some(("id", id)) => event.id = id.to_owned(),
                        Some(("event", name)) => event.name = name.to_owned(),
                        Some(("data", data)) => event.data = data.to_owned(),
                        _ => {}
                    }
                }
                self.text = rest.to_owned();
                if !event.data.is_empty() {
                    return Some(event);
                }
                continue;
            }
            let frame = timeout(PATIENCE, self.body.frame()).await.unwrap()?;
            self.text.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
        }
    }

    async fn until(&mut self, name: &str) -> Event {
        loop {
            let event = self.next().await.unwrap();
            if event.name == name {
                return event;
            }
        }
    }
}

async fn until(events: &mut Streaming<JobsEvent>, kind: &str) -> JobsEvent {
    loop {
        let event = timeout(PATIENCE, events.message()).await.unwrap().unwrap().unwrap();
        if event.r#type == kind {
            return event;
        }
    }
}

#[tokio::test]
async fn a_stream_begins_with_a_snapshot_and_continues_with_changes() {
    let stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    let mut events = Events::open(&stage, "namespace=team-cv", JANE, "").await;
    let snapshot = events.next().await.unwrap();
    let data = snapshot.json();
    assert_eq!((snapshot.name.as_str(), &data["jobs"][0]["name"]), ("snapshot", &json!("a")));
    assert_eq!(
        (&data["first"], &data["complete"], data["id"].as_str()),
        (&json!(true), &json!(true), Some(snapshot.id.as_str()))
    );
    let begun = Instant::now();
    stage.status(TEAM, "a", json!({ "phase": "Running" })).await;
    let change = events.until("change").await.json();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!((&change["jobs"][0]["name"], &change["jobs"][0]["phase"]), (&json!("a"), &json!("Running")));
    stage.rest("DELETE", "/api/v1/namespaces/team-cv/jobs/mpijob/a", JANE, None).await;
    let gone = loop {
        let change = events.until("change").await.json();
        if change["deleted"].as_array().is_some_and(|deleted| !deleted.is_empty()) {
            break change;
        }
    };
    assert_eq!(gone["deleted"], json!([{ "kind": "MPIJob", "namespace": "team-cv", "name": "a" }]));
}

#[tokio::test]
async fn a_stream_shows_only_what_its_caller_may_see() {
    let stage = Stage::new().await;
    let mut client = stage.grpc().await;
    let mut joes = client.watch_jobs(call(JOE, WatchJobsRequest::default())).await.unwrap().into_inner();
    assert!(until(&mut joes, "snapshot").await.jobs.is_empty());
    stage.job(TEAM, "hidden").await;
    // The first job of a namespace that the caller may see appears, too.
    stage.job(OTHER_TEAM, "theirs").await;
    let mut names = Vec::new();
    while names.is_empty() {
        let event = timeout(PATIENCE, joes.message()).await.unwrap().unwrap().unwrap();
        names.extend(event.jobs.into_iter().map(|job| job.name));
    }
    assert_eq!(names, ["theirs"]);
}

#[tokio::test]
async fn a_job_that_matches_no_longer_is_deleted_from_a_filtered_stream() {
    let stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    let mut events = Events::open(&stage, "phase=Pending", JANE, "").await;
    assert_eq!(events.next().await.unwrap().json()["jobs"][0]["name"], "a");
    stage.status(TEAM, "a", json!({ "phase": "Running" })).await;
    assert_eq!(events.until("change").await.json()["deleted"][0]["name"], "a");
}

#[tokio::test]
async fn a_broken_stream_continues_where_it_broke() {
    let stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    let mut events = Events::open(&stage, "", JANE, "").await;
    let last = events.next().await.unwrap().id;
    drop(events);
    stage.job(TEAM, "b").await;
    let mut again = Events::open(&stage, "", JANE, &last).await;
    let first = again.next().await.unwrap();
    assert_eq!((first.name.as_str(), &first.json()["jobs"][0]["name"]), ("change", &json!("b")));
    // Of an identifier that says nothing here, a snapshot makes up.
    let mut other = Events::open(&stage, "", JANE, "0000000f-7").await;
    assert_eq!(other.next().await.unwrap().name, "snapshot");
}

#[tokio::test]
async fn a_silent_stream_shows_that_it_lives_and_ends_with_the_service() {
    let stage = Stage::with(Settings { heartbeat: Duration::from_millis(50), ..Settings::default() }).await;
    let mut events = Events::open(&stage, "", JANE, "").await;
    events.until("heartbeat").await;
    stage.stop();
    let problem = events.until("problem").await.json();
    assert_eq!(problem["code"], "Unavailable");
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn lines_of_json_are_a_stream_for_programs() {
    let stage = Stage::new().await;
    let response = stage.open(request("GET", "/api/v1/stream", JANE, None)).await;
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    let frame = response.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
    let event: Value = serde_json::from_slice(frame.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    assert_eq!(event["type"], "snapshot");
}

#[tokio::test]
async fn one_user_cannot_hold_all_streams() {
    let stage = Stage::with(Settings { streams: 1, ..Settings::default() }).await;
    let first = Events::open(&stage, "", JANE, "").await;
    assert_eq!(stage.get("/api/v1/stream", JANE).await.status, 429);
    let mut joes = Events::open(&stage, "", JOE, "").await;
    joes.next().await.unwrap();
    drop(first);
    let freed =
        async { while stage.open(request("GET", "/api/v1/stream", JANE, None)).await.status() != 200 {} };
    timeout(PATIENCE, freed).await.unwrap();
}

#[tokio::test]
async fn a_stream_of_named_jobs_has_no_others() {
    let stage = Stage::new().await;
    for name in ["a", "b", "c"] {
        stage.job(TEAM, name).await;
    }
    let mut events = Events::open(&stage, "names=a&names=c", JANE, "").await;
    let snapshot = events.until("snapshot").await.json();
    let mut names: Vec<&str> =
        snapshot["jobs"].as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "c"]);
    for name in ["b", "c"] {
        stage.status(TEAM, name, json!({ "phase": "Running" })).await;
    }
    // That b does not match may come in a change of its own.
    let change = loop {
        let change = events.until("change").await.json();
        if change["jobs"] != json!([]) {
            break change;
        }
    };
    assert_eq!((change["jobs"].as_array().unwrap().len(), &change["jobs"][0]["name"]), (1, &json!("c")));
    let request = WatchJobsRequest { names: vec!["b".to_owned()], ..WatchJobsRequest::default() };
    let mut events = stage.grpc().await.watch_jobs(call(JANE, request)).await.unwrap().into_inner();
    let snapshot = until(&mut events, "snapshot").await;
    assert_eq!(snapshot.jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["b"]);
}
