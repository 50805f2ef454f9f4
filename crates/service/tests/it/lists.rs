//! Lists: filtered, sorted, paged, and cut to what the caller may see.

use serde_json::{Value, json};
use service::METHODS;
use service::contract::{ListJobsRequest, ListNamespacesRequest, ListRelatedJobsRequest};

use crate::stage::{ADMIN, JANE, JOE, NOBODYS, OTHER_TEAM, Stage, TEAM, VERA, call};

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
        ("names=c&names=a&names=x&sort=name", &["a", "c"]),
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
async fn a_phase_that_no_job_can_be_in_is_refused_everywhere() {
    let stage = stage_with_jobs().await;
    for (path, fix) in [
        ("/api/v1/jobs?phase=Runing", "did you mean Running?"),
        ("/api/v1/jobs?phase=Running&phase=nonsense-of-a-word", "use Pending"),
        ("/api/v1/stream?phase=Pendin", "did you mean Pending?"),
    ] {
        let refused = stage.get(path, JANE).await;
        let field = refused.json()["fields"][0].clone();
        assert_eq!((refused.status, &field["path"]), (422, &json!("phase")), "{path}: {}", refused.text);
        assert!(field["fix"].as_str().unwrap().contains(fix), "{field}");
    }
    let batch = json!({ "action": "delete", "phase": ["Faild"] });
    let refused = stage.rest("POST", "/api/v1/namespaces/team-cv/batch", JANE, Some(batch)).await;
    assert_eq!(
        (refused.status, &refused.json()["fields"][0]["path"]),
        (422, &json!("phase")),
        "{}",
        refused.text
    );
    for known in ["suspended", "Pending%20(ImagePull)", "OutOfMemory", "Deleting", "Cancelled"] {
        assert_eq!(stage.get(&format!("/api/v1/jobs?phase={known}"), JANE).await.status, 200, "{known}");
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

#[tokio::test]
async fn jobs_are_sorted_by_how_long_they_ran_and_pages_fit_together() {
    let stage = stage_with_jobs().await;
    let ran =
        |from: &str, until: &str| json!({ "startTime": from, "completionTime": until, "phase": "Succeeded" });
    stage.status(TEAM, "c", ran("2026-01-01T00:00:00Z", "2026-01-01T02:00:00Z")).await;
    stage.status(TEAM, "a", ran("2026-01-02T00:00:00Z", "2026-01-02T01:00:00Z")).await;
    for name in ["a", "c"] {
        stage.until_shown(TEAM, name, |row| row["finished"].is_string()).await;
    }
    assert_eq!(names(&stage, "sort=duration", JANE).await, ["b", "a", "c"], "b has not begun");
    let mut seen = Vec::new();
    let mut next = String::new();
    loop {
        let page =
            stage.get(&format!("/api/v1/jobs?sort=-duration&limit=1&continue={next}"), JANE).await.json();
        seen.push(page["jobs"][0]["name"].as_str().unwrap().to_owned());
        match page["continue"].as_str() {
            Some(token) => token.clone_into(&mut next),
            None => break,
        }
    }
    assert_eq!(seen, ["c", "a", "b"]);
}

#[tokio::test]
async fn rows_have_the_fields_that_were_asked_for() {
    let stage = stage_with_jobs().await;
    let page = stage.get("/api/v1/jobs?sort=name&fields=phase&fields=workers", JANE).await.json();
    let keys: Vec<&str> = page["jobs"][0].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["deleting", "ended", "gpus", "kind", "name", "namespace", "phase", "workers"]);
    let request = ListJobsRequest { fields: vec!["phase".to_owned()], ..ListJobsRequest::default() };
    let reply = stage.grpc().await.list_jobs(call(JANE, request)).await.unwrap().into_inner();
    assert!(reply.jobs.iter().all(|row| !row.phase.is_empty() && row.uid.is_empty()));
    let method = METHODS.iter().find(|method| method.name == "ListJobs").unwrap();
    let promised = method.fields.iter().find(|field| field.name == "fields").unwrap().values;
    for name in promised {
        assert_eq!(stage.get(&format!("/api/v1/jobs?fields={name}"), JANE).await.status, 200, "{name}");
    }
    let wrong = stage.get("/api/v1/jobs?fields=fase", JANE).await;
    for name in promised {
        assert!(wrong.json()["fields"][0]["fix"].as_str().unwrap().contains(name), "{name}");
    }
    assert_eq!((wrong.status, wrong.json()["fields"][0]["path"].clone()), (422, json!("fields")));
}

/// The names of the namespaces that a caller gets, with the number of jobs in each, and whether some may be missing.
async fn namespaces(stage: &Stage, token: &str) -> (Vec<(String, i64)>, bool) {
    let reply = stage.get("/api/v1/namespaces", token).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let json = reply.json();
    let of = |one: &Value| (one["name"].as_str().unwrap().to_owned(), one["jobs"].as_i64().unwrap());
    let names = json["namespaces"].as_array().unwrap().iter().map(of).collect();
    (names, json["partial"].as_bool().unwrap())
}

#[tokio::test]
async fn each_caller_gets_the_namespaces_whose_jobs_it_may_list() {
    let stage = stage_with_jobs().await;
    let pair = |name: &str, jobs: i64| (name.to_owned(), jobs);
    assert_eq!(namespaces(&stage, JANE).await, (vec![pair(TEAM, 3)], false));
    assert_eq!(namespaces(&stage, JOE).await, (vec![pair(OTHER_TEAM, 1)], false));
    let (all, partial) = namespaces(&stage, ADMIN).await;
    assert!(all.contains(&pair(NOBODYS, 0)) && all.contains(&pair(TEAM, 3)) && !partial, "{all:?}");
    let request =
        ListNamespacesRequest { kind: vec!["trainjob".to_owned()], ..ListNamespacesRequest::default() };
    let reply = stage.grpc().await.list_namespaces(call(JANE, request)).await.unwrap().into_inner();
    assert!(reply.namespaces.is_empty(), "{reply:?}");
    assert_eq!(stage.get("/api/v1/namespaces?kind=cronjob", JANE).await.status, 422);
}

#[tokio::test]
async fn who_may_not_list_namespaces_gets_those_without_jobs_that_it_may_use_and_no_other_names() {
    let stage = Stage::new().await;
    stage.allow(NOBODYS, "jane", "kubeflow-mpijobs-edit").await;
    stage.job(TEAM, "a").await;
    let of = async |query: &str, token: &str| {
        let reply = stage.get(&format!("/api/v1/namespaces?{query}"), token).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let found = reply.json()["namespaces"].as_array().cloned().unwrap();
        found.iter().map(|one| (one["name"].clone(), one["jobs"].clone())).collect::<Vec<_>>()
    };
    let with = |name: &str, jobs: Value| (json!(name), jobs);
    assert_eq!(of("", JANE).await, [with(TEAM, json!(1)), with(NOBODYS, json!(0))]);
    let unknown = [with(TEAM, Value::Null), with(NOBODYS, Value::Null)];
    assert_eq!(of("verb=create&kind=mpijob", JANE).await, unknown);
    assert_eq!(of("verb=create", VERA).await, [], "she may only look");
    assert_eq!(of("verb=list", VERA).await, [with(TEAM, json!(1))]);
    let reviews = || stage.requests().iter().filter(|sent| sent.contains("subjectaccessreviews")).count();
    let before = reviews();
    of("verb=create&kind=mpijob", JANE).await;
    assert_eq!(reviews(), before, "decisions are kept for a while");
    let refused = stage.get("/api/v1/namespaces?verb=delete", JANE).await;
    assert_eq!((refused.status, &refused.json()["fields"][0]["path"]), (422, &json!("verb")));
}

#[tokio::test]
async fn retries_and_copies_are_listed_with_the_job_that_they_came_from() {
    let stage = stage_with_jobs().await;
    let copy = |name: &str, from: &str| {
        let path = format!("/api/v1/namespaces/team-cv/jobs/mpijob/{from}/clone");
        let body = json!({ "newName": name });
        let stage = &stage;
        async move { assert_eq!(stage.rest("POST", &path, JANE, Some(body)).await.status, 200) }
    };
    copy("copy", "a").await;
    copy("copy-of-copy", "copy").await;
    let related = stage.get("/api/v1/namespaces/team-cv/jobs/mpijob/copy/related", JANE).await.json();
    let found: Vec<[&str; 3]> = related["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| [&one["job"]["name"], &one["origin"], &one["how"]].map(|text| text.as_str().unwrap_or("")))
        .collect();
    let mut found = found;
    found.sort_unstable();
    assert_eq!(found, [["a", "", ""], ["copy", "a", "clone"], ["copy-of-copy", "copy", "clone"]]);
    let request = ListRelatedJobsRequest {
        namespace: TEAM.to_owned(),
        kind: "mpijob".to_owned(),
        name: "b".to_owned(),
    };
    let alone = stage.grpc().await.list_related_jobs(call(JANE, request)).await.unwrap().into_inner();
    assert_eq!(alone.jobs.len(), 1);
    let missing = stage.get("/api/v1/namespaces/team-cv/jobs/mpijob/nosuch/related", JANE).await;
    assert_eq!((missing.status, missing.json()["code"].clone()), (404, json!("NotFound")));
}

/// Serves Kueue's Workloads, and creates one of a job that waits.
async fn queue_up(stage: &Stage, job: &str, uid: &str, priority: i64) {
    let resource = kube::core::ApiResource {
        group: "kueue.x-k8s.io".to_owned(),
        version: "v1beta1".to_owned(),
        api_version: "kueue.x-k8s.io/v1beta1".to_owned(),
        kind: "Workload".to_owned(),
        plural: "workloads".to_owned(),
    };
    let workload = json!({ "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload",
        "metadata": { "name": format!("mpijob-{job}"), "ownerReferences": [
            { "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": job, "uid": uid }] },
        "spec": { "queueName": "gpus", "priority": priority } });
    let api: kube::Api<kube::api::DynamicObject> =
        kube::Api::namespaced_with(stage.admin.clone(), TEAM, &resource);
    api.create(&kube::api::PostParams::default(), &serde_json::from_value(workload).unwrap()).await.unwrap();
}

async fn serve_workloads(stage: &Stage) {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let crd = json!({ "metadata": { "name": "workloads.kueue.x-k8s.io" },
        "spec": { "group": "kueue.x-k8s.io", "scope": "Namespaced",
            "names": { "plural": "workloads", "singular": "workload", "kind": "Workload", "listKind": "WorkloadList" },
            "versions": [{ "name": "v1beta1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema } }] } });
    let crds: kube::Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = kube::Api::all(stage.admin.clone());
    crds.create(&kube::api::PostParams::default(), &serde_json::from_value(crd).unwrap()).await.unwrap();
}

#[tokio::test]
async fn rows_of_waiting_jobs_have_their_place_in_the_queue() {
    let mut stage = Stage::new().await;
    serve_workloads(&stage).await;
    // A service that starts now finds them served.
    stage.restart().await;
    for (name, priority) in [("a", 0), ("b", 9)] {
        stage.job(TEAM, name).await;
        let path = format!("/api/v1/namespaces/team-cv/jobs/mpijob/{name}");
        let uid = stage.get(&path, JANE).await.json()["row"]["uid"].as_str().unwrap().to_owned();
        queue_up(&stage, name, &uid, priority).await;
    }
    stage.until_shown(TEAM, "a", |row| row["queuePosition"] == 2).await;
    stage.until_shown(TEAM, "b", |row| row["queuePosition"] == 1).await;
    let shown = stage.get("/api/v1/namespaces/team-cv/jobs/mpijob/a", JANE).await.json();
    assert_eq!(shown["row"]["queuePosition"], 2);
}

#[tokio::test]
async fn the_workers_of_a_job_are_counted_as_their_list_shows_them() {
    let stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    stage.pod_with(TEAM, "a", "worker", "a-worker-0", json!({ "cpu": "1" })).await;
    let counted = async || {
        let job = stage.get("/api/v1/namespaces/team-cv/jobs/mpijob/a", JANE).await.json();
        let listed = job["workerList"].as_array().unwrap().clone();
        let of = |health: &str| listed.iter().filter(|worker| worker["health"] == health).count();
        let workers = &job["row"]["workers"];
        let [running, failed] = ["running", "failed"].map(|health| json!(of(health)));
        assert_eq!((&workers["running"], &workers["failed"]), (&running, &failed), "{job:#}");
        workers.clone()
    };
    // The operator counted them before.
    let before = json!({ "running": 2, "pending": 0, "failed": 0, "of": 2 });
    stage.status(TEAM, "a", json!({ "phase": "Running", "workers": before })).await;
    assert_eq!(counted().await, json!({ "running": 0, "pending": 2, "failed": 0, "of": 2 }));
    let failure = json!({ "reason": "OutOfMemory", "message": "too much", "worker": 1 });
    stage.status(TEAM, "a", json!({ "phase": "Failed", "failure": failure })).await;
    assert_eq!(counted().await, json!({ "running": 0, "pending": 0, "failed": 1, "of": 2 }));
    stage.until_shown(TEAM, "a", |row| row["workers"]["failed"] == 1 && row["workers"]["running"] == 1).await;
}
