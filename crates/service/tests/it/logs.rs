//! Logs over both protocols.

use serde_json::{Value, json};
use service::contract::ReadLogsRequest;

use crate::stage::{JANE, Stage, TEAM, VERA, call, request};

const LOGS: &str = "/api/v1/namespaces/team-cv/jobs/mpijob/a/logs";

async fn stage_with_output() -> Stage {
    let stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    let line = |pod: &str, second: i64, text: &str| (pod.to_owned(), second, text.to_owned());
    stage.output(vec![
        line("a-launcher-x", 1, "start"),
        line("a-launcher-x", 5, "loss 0.1"),
        line("a-launcher-x", 9, "end"),
        line("a-worker-0", 2, "worker 0"),
        line("a-worker-1", 3, "worker 1"),
    ]);
    for (role, name) in [("launcher", "a-launcher-x"), ("worker", "a-worker-0"), ("worker", "a-worker-1")] {
        stage.pod(TEAM, "a", role, name).await;
    }
    stage
}

fn items(text: &str) -> Vec<Value> {
    let items = text.lines().filter(|line| !line.is_empty());
    let items = items.map(|line| serde_json::from_str::<Value>(line).unwrap());
    items.filter(|item| item["type"] == "line").collect()
}

fn lines(text: &str) -> Vec<String> {
    items(text).iter().map(|item| item["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_launchers_lines_are_read_and_searched() {
    let stage = stage_with_output().await;
    let read = async |query: &str| {
        let reply = stage.get(&format!("{LOGS}?{query}"), JANE).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        lines(&reply.text)
    };
    assert_eq!(read("").await, ["start", "loss 0.1", "end"]);
    assert_eq!(read("tail=1").await, ["end"]);
    assert_eq!(read("grep=loss").await, ["loss 0.1"]);
    assert_eq!(read("exclude=loss").await, ["start", "end"]);
    assert_eq!(read("worker=1").await, ["worker 1"]);
    assert_eq!(read("all=true").await, ["start", "worker 0", "worker 1", "loss 0.1", "end"]);
}

#[tokio::test]
async fn lines_that_the_node_removed_are_missing_in_the_answer() {
    let stage = stage_with_output().await;
    stage.output(vec![
        ("a-launcher-x".to_owned(), 1, "odh-node: up to 60 MiB of output were removed here".to_owned()),
        ("a-launcher-x".to_owned(), 2, "the rest".to_owned()),
    ]);
    let reply = stage.get(LOGS, JANE).await;
    let items: Vec<Value> = reply.text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let told: Vec<_> = items.iter().map(|item| (&item["type"], &item["text"])).collect();
    let missing = (json!("missing"), json!("up to 60 MiB of output were removed here"));
    let rest = (json!("line"), json!("the rest"));
    assert_eq!(told, [(&missing.0, &missing.1), (&rest.0, &rest.1)], "{}", reply.text);
}

#[tokio::test]
async fn lines_are_events_for_browsers_and_items_over_grpc() {
    let stage = stage_with_output().await;
    let mut sent = request("GET", LOGS, JANE, None);
    sent.headers_mut().insert("accept", "text/event-stream".parse().unwrap());
    let text = stage.send(sent).await.text;
    assert_eq!(text.matches("data: ").count(), 3, "{text}");
    let message = ReadLogsRequest {
        namespace: TEAM.to_owned(),
        kind: "mpijob".to_owned(),
        name: "a".to_owned(),
        ..ReadLogsRequest::default()
    };
    let mut items = stage.grpc().await.read_logs(call(JANE, message)).await.unwrap().into_inner();
    let first = items.message().await.unwrap().unwrap();
    assert_eq!(
        (first.r#type.as_str(), first.pod.as_str(), first.text.as_str()),
        ("line", "a-launcher-x", "start")
    );
    assert_eq!(first.at, "2026-01-01T00:00:01Z");
}

#[tokio::test]
async fn a_log_goes_on_at_the_last_cursor_of_each_pod() {
    let stage = stage_with_output().await;
    let all = items(&stage.get(&format!("{LOGS}?all=true"), JANE).await.text);
    let texts = |items: &[Value]| items.iter().map(|item| item["text"].clone()).collect::<Vec<_>>();
    assert_eq!(all.len(), 5);
    for cut in 1..all.len() {
        let mut last = std::collections::BTreeMap::new();
        for item in &all[..cut] {
            last.insert(item["pod"].to_string(), item["cursor"].as_str().unwrap());
        }
        let cursors: Vec<&str> = last.into_values().collect();
        let query: String = cursors.iter().map(|cursor| format!("&cursor={cursor}")).collect();
        let rest = stage.get(&format!("{LOGS}?all=true&tail=1{query}"), JANE).await;
        assert_eq!(texts(&items(&rest.text)), texts(&all[cut..]), "after {cut} lines");
        // Browsers send the header.
        let mut sent = request("GET", &format!("{LOGS}?all=true"), JANE, None);
        sent.headers_mut().insert("last-event-id", cursors.join(",").parse().unwrap());
        assert_eq!(texts(&items(&stage.send(sent).await.text)), texts(&all[cut..]));
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_a_problem_before_the_stream() {
    let stage = stage_with_output().await;
    for (query, status, field) in [
        ("worker=7", 404, None),
        ("grep=(", 422, Some("grep")),
        ("grep=x&exclude=%5Cw%7B25%7D", 422, Some("exclude")),
        ("worker=0&all=true", 422, Some("worker")),
        ("tail=-1", 422, Some("tail")),
        ("context=100000", 422, Some("context")),
        ("rank=-1", 422, Some("rank")),
        ("cursor=yesterday", 422, Some("cursor")),
    ] {
        let reply = stage.get(&format!("{LOGS}?{query}"), JANE).await;
        assert_eq!(reply.status, status, "{query}: {}", reply.text);
        if let Some(field) = field {
            assert_eq!(reply.json()["fields"][0]["path"], json!(field));
        }
    }
    let large = stage.get(&format!("{LOGS}?grep=(%3F:x%7B1000%7D)%7B1000%7D"), JANE).await;
    assert!(large.text.contains("repeat fewer times"), "{}", large.text);
    let missing = stage.get(&LOGS.replace("/a/", "/b/"), JANE).await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn a_slow_pattern_does_not_keep_others_waiting() {
    let stage = stage_with_output().await;
    // Letters beyond ASCII keep such a pattern from being searched in the fastest way.
    let text = format!("ä{}", "x".repeat(15_000));
    stage.output((0..20).map(|second| ("a-launcher-x".to_owned(), second, text.clone())).collect());
    let path = format!("{LOGS}?grep=(%3F:%5Bxy%5D%3F%5Bxz%5D%3F)%7B150%7D%5Cbq");
    let mut slow = std::pin::pin!(stage.get(&path, JANE));
    tokio::select! {
        biased;
        reply = &mut slow => panic!("the search is not slow: {} {}", reply.status, reply.text),
        reply = stage.get("/api/v1/me", VERA) => assert_eq!(reply.status, 200, "{}", reply.text),
    }
}
