//! Lists: filtered, sorted, paged, and cut to what the caller may see.

use serde_json::{Value, json};
use service::contract::ListJobsRequest;

use crate::stage::{ADMIN, JANE, JOE, OTHER_TEAM, Stage, TEAM, VERA, call};

async fn names(stage: &Stage, query: &str, token: &str) -> Vec<String> {
    let reply = stage.get(&format!("/api/v1/jobs?{query}"), token).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let jobs = reply.json()["jobs"].as_array().cloned().unwrap();
    jobs.iter().map(|job| job["name"].as_str().unwrap().to_owned()).collect()
}

async fn stage_with_jobs() -> Stage {
    let stage = Stage::new().await;
    for name in ["b", "a", "c"] {
        stage.job(TEAM, name).await;
    }
    stage.job(OTHER_TEAM, "theirs").await;
    stage
        .status(
            TEAM,
            "a",
            json!({ "phase": "Running", "workers": { "running": 1, "pending": 1, "failed": 0, "of": 2 } }),
        )
        .await;
    stage
        .status(
            TEAM,
            "c",
            json!({ "phase": "Failed", "phaseReason": "WorkerLost",
        "failure": { "reason": "WorkerLost", "message": "worker-0 is lost" } }),
        )
        .await;
    stage.until_shown(TEAM, "c", |row| row["cause"] == "WorkerLost").await;
    stage.until_shown(TEAM, "a", |row| row["phase"] == "Running").await;
    stage
}

#[tokio::test]
async fn a_caller_sees_the_jobs_of_its_namespaces_and_no_others() {
    let stage = stage_with_jobs().await;
    assert_eq!(names(&stage, "sort=name", JANE).await, ["a", "b", "c"]);
    assert_eq!(names(&stage, "sort=name", VERA).await, ["a", "b", "c"]);
    assert_eq!(names(&stage, "sort=name", JOE).await, ["theirs"]);
    assert_eq!(names(&stage, "sort=name", ADMIN).await, ["a", "b", "c", "theirs"]);
    let refused = stage.get("/api/v1/jobs?namespace=team-nlp", JANE).await;
    assert_eq!(refused.status, 403);
    assert_eq!(
        refused.json()["message"],
        "User 'jane' lacks 'list' permission for MPIJobs in namespace 'team-nlp'"
    );
}

#[tokio::test]
async fn a_list_is_filtered_and_sorted_as_asked() {
    let stage = stage_with_jobs().await;
    for (query, wanted) in [
        ("phase=Running&phase=Failed&sort=name", &["a", "c"][..]),
        ("phase=workerlost", &["c"]),
        ("q=LOST", &["c"]),
        ("labels=team%3Dvision,!draft&sort=-name", &["c", "b", "a"]),
        ("labels=team!=vision", &[]),
        ("kind=trainjob", &[]),
        ("kind=mpijob&namespace=team-cv&sort=phase", &["c", "b", "a"]),
        ("since=1h&sort=name", &["a", "b", "c"]),
        ("until=1h", &[]),
    ] {
        assert_eq!(names(&stage, query, JANE).await, wanted, "{query}");
    }
}

#[tokio::test]
async fn pages_join_to_the_whole_list_in_every_order() {
    let stage = stage_with_jobs().await;
    for sort in ["", "created", "-created", "name", "-name", "namespace", "phase", "-workers", "gpus"] {
        let whole = names(&stage, &format!("sort={sort}"), ADMIN).await;
        assert_eq!(whole.len(), 4, "{sort}");
        let (mut joined, mut next) = (Vec::new(), String::new());
        loop {
            let path = format!("/api/v1/jobs?sort={sort}&limit=1&total=true&continue={next}");
            let page = stage.get(&path, ADMIN).await.json();
            assert_eq!(page["total"], 4);
            joined.extend(
                page["jobs"].as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap().to_owned()),
            );
            match page["continue"].as_str() {
                Some(token) => next = token.to_owned(),
                None => break,
            }
        }
        assert_eq!(joined, whole, "{sort}");
    }
}

#[tokio::test]
async fn both_protocols_give_the_same_rows() {
    let stage = stage_with_jobs().await;
    let rest = stage.get("/api/v1/jobs?sort=name", JANE).await.json();
    let request = ListJobsRequest { sort: "name".to_owned(), ..ListJobsRequest::default() };
    let grpc = stage.grpc().await.list_jobs(call(JANE, request)).await.unwrap().into_inner();
    assert_eq!(serde_json::to_value(&grpc).unwrap(), rest);
    let a = &rest["jobs"][0];
    assert_eq!(
        (&a["kind"], &a["workers"]),
        (&json!("MPIJob"), &json!({ "running": 1, "pending": 1, "failed": 0, "of": 2 }))
    );
}

#[tokio::test]
async fn a_list_costs_no_request_for_jobs_to_the_cluster() {
    let stage = stage_with_jobs().await;
    let lists = |stage: &Stage| stage.requests().iter().filter(|sent| sent.contains("/mpijobs")).count();
    let before = lists(&stage);
    for _ in 0..20 {
        names(&stage, "", JANE).await;
    }
    assert_eq!(lists(&stage), before);
}

#[tokio::test]
async fn a_deleted_job_leaves_the_list() {
    let stage = stage_with_jobs().await;
    let deleted = stage.rest("DELETE", "/api/v1/namespaces/team-cv/jobs/mpijob/b", JANE, None).await;
    assert_eq!((deleted.status, deleted.json()["job"]["name"].clone()), (200, Value::from("b")));
    tokio::time::timeout(crate::stage::PATIENCE, async { while names(&stage, "", JANE).await.len() > 2 {} })
        .await
        .unwrap();
}
