//! What outlives jobs, over the service: histories, usage, archived output, with SQLite and PostgreSQL.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::metrics::{METRICS, points, with_pattern};
use crate::place::{Place, on_each, on_sqlite};
use crate::stage::{ADMIN, JANE, JOE, NOBODYS, OTHER_TEAM, PATIENCE, Reply, Stage, TEAM, VERA, set_prices};

const HISTORY: &str = "/api/v1/namespaces/team-cv/jobs/mpijob/a/history";

/// The interval of polls.
const POLL: Duration = Duration::from_millis(20);

/// Asks again until the answer is as it should be in the end.
pub async fn until(stage: &Stage, path: &str, token: &str, is: impl Fn(&Reply) -> bool) -> Reply {
    let asked = async {
        loop {
            let reply = stage.get(path, token).await;
            if is(&reply) {
                return reply;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    let last = tokio::time::timeout(PATIENCE, asked).await;
    match last {
        Ok(reply) => reply,
        Err(_) => panic!("{:?}", stage.get(path, token).await),
    }
}

fn phases(reply: &Reply) -> Vec<String> {
    let json = reply.json();
    let states = json["states"].as_array().cloned().unwrap_or_default();
    states.iter().map(|state| state["phase"].as_str().unwrap().to_owned()).collect()
}

async fn delete(stage: &Stage, name: &str) {
    let path = format!("/api/v1/namespaces/team-cv/jobs/mpijob/{name}");
    assert_eq!(stage.rest("DELETE", &path, JANE, None).await.status, 200);
}

#[test]
fn a_job_has_its_history_after_it_was_deleted_and_after_a_restart() {
    on_each(async |place| {
        let mut stage = Stage::on(place).await;
        stage.job(TEAM, "a").await;
        stage
            .status(
                TEAM,
                "a",
                json!({ "phase": "Running", "attempts": [{ "number": 1, "outcome": "Active" }] }),
            )
            .await;
        until(&stage, HISTORY, JANE, |reply| phases(reply) == ["Pending", "Running"]).await;
        stage
            .status(
                TEAM,
                "a",
                json!({ "phase": "Failed", "completionTime": "2026-01-01T00:10:00Z",
                    "failure": { "reason": "OutOfMemory", "message": "too much", "worker": 1, "evidence": ["Killed"] },
                    "attempts": [{ "number": 1, "outcome": "Failed", "reason": "OutOfMemory", "exitCode": 137 }] }),
            )
            .await;
        until(&stage, HISTORY, JANE, |reply| phases(reply) == ["Pending", "Running", "Failed"]).await;
        delete(&stage, "a").await;
        let gone = |reply: &Reply| reply.status == 200 && reply.json()["deleted"].is_string();
        until(&stage, HISTORY, VERA, gone).await;
        stage.restart().await;
        let history = until(&stage, HISTORY, VERA, gone).await.json();
        assert_eq!((&history["phase"], &history["cause"]), (&json!("Failed"), &json!("OutOfMemory")));
        assert_eq!(history["states"][2]["at"], "2026-01-01T00:10:00Z");
        let attempt = &history["attempts"][0];
        assert_eq!((&attempt["exitCode"], &attempt["worker"]), (&json!(137), &json!("1")));
        assert_eq!(attempt["evidence"], json!(["Killed"]));
        assert_eq!(stage.get(HISTORY, JOE).await.status, 403, "another team's history");
        // Another job of the same name has its own.
        stage.job(TEAM, "a").await;
        let other = until(&stage, HISTORY, JANE, |reply| phases(reply) == ["Pending"]).await.json();
        assert_eq!(other["uids"].as_array().unwrap().len(), 2);
        let first = history["uid"].as_str().unwrap();
        assert_eq!(phases(&stage.get(&format!("{HISTORY}?uid={first}"), JANE).await).len(), 3);
        let page = stage.get(&format!("{HISTORY}?uid={first}&limit=2"), JANE).await.json();
        let next = page["continue"].as_str().unwrap();
        let rest = stage.get(&format!("{HISTORY}?uid={first}&continue={next}"), JANE).await;
        assert_eq!(phases(&rest), ["Failed"]);
        assert_eq!(stage.get(&HISTORY.replace("/a/", "/never/"), JANE).await.status, 404);
    });
}

#[test]
fn what_happened_while_the_service_was_away_is_recorded_once() {
    on_each(async |place| {
        let mut stage = Stage::on(place).await;
        stage.job(TEAM, "a").await;
        stage.job(TEAM, "b").await;
        until(&stage, HISTORY, JANE, |reply| phases(reply) == ["Pending"]).await;
        until(&stage, &HISTORY.replace("/a/", "/b/"), JANE, |reply| phases(reply) == ["Pending"]).await;
        stage.stop();
        stage
            .status(TEAM, "a", json!({ "phase": "Succeeded", "completionTime": "2026-01-01T00:10:00Z" }))
            .await;
        let jobs: Api<DynamicObject> = ::jobs::Kind::MpiJob.api(&stage.admin, TEAM);
        jobs.delete("b", &DeleteParams::default()).await.unwrap();
        stage.restart().await;
        let replica = stage.replica().await;
        until(&stage, HISTORY, JANE, |reply| phases(reply) == ["Pending", "Succeeded"]).await;
        let gone = |reply: &Reply| reply.json()["deleted"].is_string();
        until(&stage, &HISTORY.replace("/a/", "/b/"), JANE, gone).await;
        replica.cancel();
    });
}

/// Gives a pod a status.
async fn pod_status(stage: &Stage, name: &str, status: Value) {
    let pods: Api<Pod> = Api::namespaced(stage.admin.clone(), TEAM);
    let patch = Patch::Merge(json!({ "status": status }));
    pods.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

const USAGE: &str = "/api/v1/usage?since=2026-01-01&until=2026-01-02&by=user&by=job";

#[test]
fn usage_is_exact_to_the_second_and_cut_to_what_the_caller_may_see() {
    on_each(async |place| {
        let mut stage = Stage::on(place).await;
        stage.job(TEAM, "a").await;
        for (number, seconds) in [(0, 90), (1, 3600)] {
            let name = format!("a-worker-{number}");
            stage
                .pod_with(
                    TEAM,
                    "a",
                    "worker",
                    &name,
                    json!({ "cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 2 }),
                )
                .await;
            let end = jiff::Timestamp::from_second(1_767_225_605 + seconds).unwrap().to_string();
            let ended = json!({ "terminated": { "exitCode": 0, "finishedAt": end } });
            pod_status(
                &stage,
                &name,
                json!({ "phase": "Succeeded", "startTime": "2026-01-01T00:00:05Z",
                "containerStatuses": [{ "name": "main", "image": "i", "imageID": "", "ready": false,
                    "restartCount": 0, "state": ended }] }),
            )
            .await;
        }
        let gpus = |reply: &Reply| {
            let amounts = reply.json()["usage"][0]["amounts"].as_array().cloned().unwrap_or_default();
            let gpus = amounts.iter().find(|amount| amount["resource"] == "nvidia.com/gpu").cloned();
            gpus.map(|gpus| gpus["amountSeconds"].as_str().unwrap().to_owned())
        };
        until(&stage, USAGE, JANE, |reply| gpus(reply).as_deref() == Some("7380")).await;
        stage.restart().await;
        let used = until(&stage, USAGE, JANE, |reply| gpus(reply).is_some()).await;
        assert_eq!(gpus(&used).as_deref(), Some("7380"), "a restart counts nothing twice");
        let row = &used.json()["usage"][0];
        assert_eq!((&row["namespace"], &row["job"]), (&json!(TEAM), &json!("a")));
        assert_eq!(stage.get(USAGE, JOE).await.json()["usage"], json!([]));
        assert_eq!(stage.get(&format!("{USAGE}&namespace={TEAM}"), JOE).await.status, 403);
        assert_eq!(
            stage.get(&format!("{USAGE}&namespace={OTHER_TEAM}"), JOE).await.json()["usage"],
            json!([])
        );
        let csv = stage.get(&format!("{USAGE}&format=csv"), JANE).await;
        assert!(csv.headers["content-type"].to_str().unwrap().starts_with("text/csv"));
        assert!(csv.text.contains("nvidia.com/gpu,7380,2.0500\r\n"), "{}", csv.text);
        let uid = row["uid"].as_str().unwrap();
        assert!(csv.text.contains(&format!(",{TEAM},,a,{uid},cpu,5535.000,1.5375\r\n")), "{}", csv.text);
        assert_eq!(stage.get("/api/v1/usage?since=1d&until=2d", JANE).await.status, 422);
        assert_eq!((used.json().get("currency"), row.get("cost")), (None, None), "no prices are set");
        set_prices(&stage, json!({ "currency": "EUR", "gpu-hour": "1.50", "cpu-hour": "0.02" })).await;
        let priced = stage.get(USAGE, ADMIN).await.json();
        let row = &priced["usage"][0];
        assert_eq!((&priced["currency"], &priced["cost"]), (&json!("EUR"), &row["cost"]));
        let costs: Vec<&Value> = row["amounts"].as_array().unwrap().iter().map(|one| &one["cost"]).collect();
        assert_eq!(costs, [&json!("0.0308"), &Value::Null, &json!("3.0750")], "memory has no price: {row:#}");
        assert_eq!(row["cost"], "3.1058");
        assert!(
            priced["costBasis"].as_str().unwrap().starts_with("EUR an hour: 1.5 for a GPU"),
            "{priced:#}"
        );
        let csv = stage.get(&format!("{USAGE}&format=csv"), ADMIN).await;
        assert!(csv.text.contains("nvidia.com/gpu,7380,2.0500,3.0750,EUR\r\n"), "{}", csv.text);
        let unpriced = stage.get(USAGE, JANE).await.json();
        assert_eq!((unpriced.get("currency"), unpriced["usage"][0].get("cost")), (None, None));
        set_prices(&stage, json!({ "currency": "EUR", "gpu-hour": "1,50" })).await;
        let faulty = stage.get(USAGE, ADMIN).await.json();
        assert!(
            faulty["costBasis"].as_str().unwrap().contains("gpu-hour: \"1,50\" is not a price"),
            "{faulty:#}"
        );
        assert_eq!((faulty.get("currency"), faulty["usage"][0].get("cost")), (None, None));
    });
}

#[test]
fn usage_is_that_of_the_kinds_that_the_caller_may_list() {
    on_each(async |place| {
        let mut stage = Stage::on(place).await;
        let rights =
            json!({ "apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs"], "verbs": ["list"] });
        stage.create_role("pytorch", rights).await;
        stage.allow(TEAM, "joe", "pytorch").await;
        stage.define_pytorchjob().await;
        // It looks for kinds when it starts.
        stage.restart().await;
        stage.job(TEAM, "a").await;
        stage.pod(TEAM, "a", "worker", "a-worker-0").await;
        let jobs: Api<DynamicObject> = ::jobs::Kind::PyTorchJob.api(&stage.admin, TEAM);
        let job = json!({ "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": { "name": "net" },
            "spec": { "pytorchReplicaSpecs": { "Worker": { "replicas": 1 } } } });
        jobs.create(&Default::default(), &serde_json::from_value(job).unwrap()).await.unwrap();
        stage.until_shown(TEAM, "net", |_| true).await;
        let labels = json!({ api::LABEL_JOB_NAME: "net", api::LABEL_OPERATOR_NAME: "pytorchjob-controller" });
        stage.labelled_pod(TEAM, "net-worker-0", labels).await;
        for pod in ["a-worker-0", "net-worker-0"] {
            pod_status(&stage, pod, json!({ "startTime": "2026-01-01T00:00:05Z" })).await;
        }
        let names = |reply: &Reply| -> Vec<String> {
            let rows = reply.json()["usage"].as_array().cloned().unwrap_or_default();
            rows.iter().map(|row| row["job"].as_str().unwrap().to_owned()).collect()
        };
        for path in [USAGE.to_owned(), format!("{USAGE}&namespace={TEAM}")] {
            until(&stage, &path, ADMIN, |reply| names(reply) == ["a", "net"]).await;
            for (token, job) in [(JANE, "a"), (VERA, "a"), (JOE, "net")] {
                until(&stage, &path, token, |reply| names(reply) == [job]).await;
            }
        }
        assert_eq!(stage.get(&format!("{USAGE}&namespace={NOBODYS}"), JOE).await.status, 403);
    });
}

const LOGS: &str = "/api/v1/namespaces/team-cv/jobs/mpijob/a/logs";

fn lines(reply: &Reply) -> Vec<String> {
    let items = reply.text.lines().filter(|line| !line.is_empty());
    let items = items.map(|line| serde_json::from_str::<Value>(line).unwrap());
    items.filter_map(|item| item["text"].as_str().map(str::to_owned)).collect()
}

async fn with_output(place: &Place) -> Stage {
    let stage = Stage::on(place).await;
    stage.job(TEAM, "a").await;
    let line = |pod: &str, second: i64, text: &str| (pod.to_owned(), second, text.to_owned());
    stage.output(vec![
        line("a-launcher-x", 1, "start"),
        line("a-launcher-x", 5, "[1,0]<stdout>:ERROR loss 0.1"),
        line("a-launcher-x", 5, "[1,1]<stdout>:loss 0.2"),
        line("a-launcher-x", 9, "end"),
        line("a-worker-0", 2, "worker 0"),
        line("a-worker-1", 3, "worker 1"),
    ]);
    for (role, name) in [("launcher", "a-launcher-x"), ("worker", "a-worker-0"), ("worker", "a-worker-1")] {
        stage.pod(TEAM, "a", role, name).await;
    }
    stage
}

#[test]
fn output_is_read_with_the_same_filters_when_the_pods_are_gone() {
    on_each(async |place| {
        let mut stage = with_output(place).await;
        let pods: Api<Pod> = Api::namespaced(stage.admin.clone(), TEAM);
        // Archived before the pods go: the node of this stage forgets nothing, so its requests show it.
        stage.until_archived("a", 3).await;
        pods.delete_collection(&DeleteParams::default().grace_period(0), &kube::api::ListParams::default())
            .await
            .unwrap();
        stage.output(Vec::new());
        let read = async |stage: &Stage, query: &str| {
            let reply = until(stage, &format!("{LOGS}?{query}"), JANE, |reply| reply.status == 200).await;
            lines(&reply)
        };
        let all = ["start", "worker 0", "worker 1", "ERROR loss 0.1", "loss 0.2", "end"];
        for there in [true, false] {
            assert_eq!(read(&stage, "all=true").await, all, "the job is there: {there}");
            assert_eq!(read(&stage, "").await.len(), 4);
            assert_eq!(read(&stage, "tail=1").await, ["end"]);
            assert_eq!(read(&stage, "rank=1").await, ["loss 0.2"]);
            assert_eq!(read(&stage, "level=error").await, ["ERROR loss 0.1"]);
            assert_eq!(read(&stage, "grep=loss&exclude=ERROR").await, ["loss 0.2"]);
            // A rank's lines are its Worker's, as long as the job tells which Worker that is.
            let of_worker = if there { &["worker 1", "loss 0.2"][..] } else { &["worker 1"] };
            assert_eq!(read(&stage, "worker=1").await, of_worker);
            assert_eq!(stage.get(&format!("{LOGS}?worker=7"), JANE).await.status, 404);
            assert_eq!(stage.get(LOGS, JOE).await.status, 403);
            if there {
                delete(&stage, "a").await;
                stage.restart().await;
            }
        }
        assert_eq!(stage.get(&LOGS.replace("/a/", "/never/"), JANE).await.status, 404);
    });
}

#[test]
fn output_is_read_to_its_end_although_the_pod_was_removed_a_moment_ago() {
    on_sqlite(async |place| {
        for line in ["the end", ""] {
            let stage = Stage::on(place).await;
            stage.job(TEAM, "a").await;
            let (opened, end) = (CancellationToken::new(), CancellationToken::new());
            stage.output_later(line, opened.clone(), end.clone());
            stage.pod(TEAM, "a", "worker", "a-worker-0").await;
            tokio::time::timeout(PATIENCE, opened.cancelled()).await.unwrap();
            let pods: Api<Pod> = Api::namespaced(stage.admin.clone(), TEAM);
            pods.delete("a-worker-0", &DeleteParams::default().grace_period(0)).await.unwrap();
            let address = format!("{LOGS}?worker=0");
            let ends = async {
                // The request has come as far as it can before the output ends.
                tokio::task::yield_now().await;
                end.cancel();
            };
            let (reply, ()) = futures::join!(stage.get(&address, JANE), ends);
            assert_eq!(reply.status, 200, "{}", reply.text);
            let written: Vec<&str> = [line].into_iter().filter(|line| !line.is_empty()).collect();
            assert_eq!(lines(&reply), written);
            assert!(!reply.text.contains("problem"), "{}", reply.text);
        }
    });
}

#[test]
fn a_store_that_is_away_refuses_changes_and_lets_reads_go_on() {
    on_sqlite(async |place| {
        let mut stage = Stage::on(place).await;
        stage.job(TEAM, "a").await;
        until(&stage, HISTORY, JANE, |reply| phases(reply) == ["Pending"]).await;
        let mut other = place.raw().await.acquire().await.unwrap().detach();
        let run = async |connection: &mut sqlx::AnyConnection, text: &'static str| {
            sqlx::raw_sql(text).execute(connection).await.unwrap();
        };
        stage.keep.database.lock_timeout = Duration::from_millis(50);
        stage.restart().await;
        until(&stage, HISTORY, JANE, |reply| reply.status == 200).await;
        run(&mut other, "BEGIN IMMEDIATE").await;
        let job = json!({ "manifest": crate::stage::job("b").to_string() });
        let create = async |stage: &Stage| {
            stage.rest("POST", "/api/v1/namespaces/team-cv/jobs", JANE, Some(job.clone())).await
        };
        let refused = create(&stage).await;
        assert_eq!(
            (refused.status, &refused.json()["reason"]),
            (503, &json!("StoreLocked")),
            "{}",
            refused.text
        );
        assert!(refused.json()["message"].as_str().unwrap().starts_with("nothing was done"));
        assert!(refused.headers.contains_key("retry-after"));
        let jobs: Api<DynamicObject> = ::jobs::Kind::MpiJob.api(&stage.admin, TEAM);
        assert!(jobs.get_opt("b").await.unwrap().is_none());
        assert_eq!(stage.get("/api/v1/jobs", JANE).await.status, 200);
        assert_eq!(stage.get(HISTORY, JANE).await.status, 200, "a reader waits for no writer");
        // What succeeds meanwhile, such as a read, is heard of too.
        let told = "ok\nstore: unavailable\n";
        let ready = until(&stage, "/readyz", "", |reply| reply.text == told).await;
        assert_eq!(ready.status, 200);
        run(&mut other, "ROLLBACK").await;
        let created = until_created(&stage, create).await;
        assert_eq!(created.status, 200, "{}", created.text);
        until(&stage, "/readyz", "", |reply| reply.text == "ok\n").await;
    });
}

/// Creates a job, as soon as that is possible.
async fn until_created(stage: &Stage, create: impl AsyncFn(&Stage) -> Reply) -> Reply {
    let created = async {
        loop {
            let reply = create(stage).await;
            if reply.status != 503 {
                return reply;
            }
        }
    };
    tokio::time::timeout(PATIENCE, created).await.unwrap()
}

#[test]
fn the_metrics_have_how_full_the_disk_and_a_bounded_store_are() {
    on_sqlite(async |place| {
        let mut stage = Stage::on(place).await;
        stage.keep.database.max_bytes = Some(64 << 20);
        stage.restart().await;
        let has = |reply: &Reply, of: &str| {
            reply.text.contains(&format!("training_service_store_used_ratio{{of=\"{of}\"}} 0."))
        };
        until(&stage, "/metrics", ADMIN, |reply| has(reply, "disk") && has(reply, "size")).await;
    });
}

#[test]
fn a_service_starts_without_its_store_and_says_so() {
    on_sqlite(async |place| {
        let mut stage = Stage::on(place).await;
        stage.job(TEAM, "a").await;
        stage.stop();
        let nowhere = place.folder.path().join("a file/history.db");
        std::fs::write(nowhere.parent().unwrap(), "in the way").unwrap();
        let there =
            std::mem::replace(&mut stage.keep.database.location, history::store::Location::File(nowhere));
        stage.restart().await;
        assert_eq!(stage.get("/api/v1/jobs", JANE).await.json()["jobs"][0]["name"], "a");
        for (verb, path) in [("GET", HISTORY), ("DELETE", "/api/v1/namespaces/team-cv/jobs/mpijob/a")] {
            let refused = stage.rest(verb, path, JANE, None).await;
            assert_eq!((refused.status, &refused.json()["reason"]), (503, &json!("StoreUnavailable")));
        }
        assert_eq!(stage.get("/readyz", "").await.text, "ok\nstore: unavailable\n");
        stage.keep.database.location = there;
        stage.restart().await;
        assert_eq!(stage.get("/readyz", "").await.text, "ok\n");
        assert_eq!(stage.get("/api/v1/audit", ADMIN).await.status, 200);
    });
}

#[test]
fn output_is_archived_and_read_while_the_bucket_is_away_and_readiness_says_so() {
    on_sqlite(async |place| {
        let mut stage = with_output(place).await;
        stage.stop();
        let credentials = place.folder.path().join("credentials");
        std::fs::write(&credentials, "key\nvery-secret\n").unwrap();
        // A port that nothing listens at.
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        stage.keep.bucket = Some(service::Bucket {
            name: "logs".to_owned(),
            endpoint: Some(format!("http://{free}")),
            credentials: Some(credentials),
            ..service::Bucket::default()
        });
        stage.restart().await;
        let away = "ok\nstore: logs cannot be packed\n";
        until(&stage, "/readyz", "", |reply| reply.text == away).await;
        stage.until_archived("a", 3).await;
        delete(&stage, "a").await;
        let read = until(&stage, &format!("{LOGS}?worker=1"), JANE, |reply| reply.status == 200).await;
        assert_eq!(lines(&read), ["worker 1"]);
    });
}

#[test]
fn output_of_a_pytorchjob_is_read_by_replica_before_and_after_its_pods_are_gone() {
    const LOGS: &str = "/api/v1/namespaces/team-cv/jobs/pytorchjob/net/logs";
    on_sqlite(async |place| {
        let mut stage = Stage::on(place).await;
        stage.define_pytorchjob().await;
        // It looks for kinds when it starts.
        stage.restart().await;
        let line = |pod: &str, second: i64, text: &str| (pod.to_owned(), second, text.to_owned());
        stage.output(vec![
            line("net-master-0", 1, "master begins"),
            line("net-worker-0", 2, "worker 0"),
            line("net-worker-1", 3, "worker 1"),
            line("net-master-0", 4, "master ends"),
        ]);
        let jobs: Api<DynamicObject> = ::jobs::Kind::PyTorchJob.api(&stage.admin, TEAM);
        let job = json!({ "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": { "name": "net" },
            "spec": { "pytorchReplicaSpecs": { "Master": {}, "Worker": { "replicas": 2 } } } });
        jobs.create(&Default::default(), &serde_json::from_value(job).unwrap()).await.unwrap();
        stage.until_shown(TEAM, "net", |_| true).await;
        for (replica, index) in [("master", "0"), ("worker", "0"), ("worker", "1")] {
            let labels = json!({ api::LABEL_JOB_NAME: "net", api::LABEL_OPERATOR_NAME: "pytorchjob-controller",
                api::LABEL_REPLICA_TYPE: replica, api::LABEL_REPLICA_INDEX: index });
            stage.labelled_pod(TEAM, &format!("net-{replica}-{index}"), labels).await;
        }
        let all = ["master begins", "worker 0", "worker 1", "master ends"];
        let read = async |query: &str| {
            let reply = until(&stage, &format!("{LOGS}?{query}"), ADMIN, |reply| reply.status == 200).await;
            lines(&reply)
        };
        stage.until_archived("net", 3).await;
        let pods: Api<Pod> = Api::namespaced(stage.admin.clone(), TEAM);
        for gone in ["nothing", "the pods", "the job"] {
            match gone {
                "the pods" => {
                    let at_once = DeleteParams::default().grace_period(0);
                    pods.delete_collection(&at_once, &kube::api::ListParams::default()).await.unwrap();
                    stage.output(Vec::new());
                }
                "the job" => {
                    jobs.delete("net", &DeleteParams::default()).await.unwrap();
                    until(&stage, "/api/v1/jobs", ADMIN, |reply| reply.json()["jobs"] == json!([])).await;
                }
                _ => {}
            }
            assert_eq!(read("all=true").await, all, "gone: {gone}");
            assert_eq!(read("").await, ["master begins", "master ends"], "gone: {gone}");
            assert_eq!(read("worker=1").await, ["worker 1"], "gone: {gone}");
        }
    });
}

#[test]
fn a_long_log_is_a_curve_to_its_end() {
    const LINES: i64 = 50_500;
    on_sqlite(async |place| {
        let stage = Stage::on(place).await;
        stage.job(TEAM, "a").await;
        let text = |number: i64| match number % 100 {
            0 => format!("step={number} loss={number}"),
            _ => ".".to_owned(),
        };
        stage.output((1..=LINES).map(|number| ("a-launcher-x".to_owned(), number, text(number))).collect());
        stage.pod(TEAM, "a", "launcher", "a-launcher-x").await;
        let end = Some((Some(LINES), LINES as f64));
        let until_end = async |path: &str, name: &str| {
            let asked = async {
                loop {
                    let metrics = stage.get(path, JANE).await.json();
                    if points(&metrics, name).last().copied() == end {
                        return metrics;
                    }
                    tokio::time::sleep(POLL * 10).await;
                }
            };
            tokio::time::timeout(PATIENCE * 10, asked).await.unwrap()
        };
        until_end(METRICS, "loss").await;
        stage.delete_pod(TEAM, "a-launcher-x").await;
        stage.output(Vec::new());
        let seen = until_end(&with_pattern("loss=(?<own>[0-9]+)"), "own").await;
        for name in ["loss", "own"] {
            let steps: Vec<i64> = points(&seen, name).iter().filter_map(|(step, _)| *step).collect();
            assert!(steps.len() > 100 && steps.len() < 300, "{}", steps.len());
            assert_eq!(steps[0], 100);
            let gaps = steps.windows(2).map(|pair| pair[1] - pair[0]);
            assert!(gaps.clone().all(|gap| gap > 0) && gaps.max() < Some(LINES / 100), "{steps:?}");
        }
        assert!(!seen["notes"].to_string().contains("patterns"), "{seen:#}");
    });
}

#[test]
fn a_namespace_that_is_created_again_shows_nothing_of_the_former_one() {
    on_each(async |place| {
        let stage = Stage::on(place).await;
        let of = |what: &str| format!("/api/v1/namespaces/recycled/{what}");
        stage.create_namespace("recycled").await;
        for role in ["kubeflow-mpijobs-edit", "system:aggregate-to-view"] {
            stage.allow("recycled", "jane", role).await;
        }
        let rule = json!({ "url": "https://example.com/hook" });
        until(&stage, &of("notifications"), JANE, |reply| reply.status == 200).await;
        assert_eq!(stage.rest("PUT", &of("notifications/old"), JANE, Some(rule)).await.status, 200);
        stage.job("recycled", "train").await;
        stage.output(vec![("train-worker-0".to_owned(), 1, "a secret".to_owned())]);
        stage.pod("recycled", "train", "worker", "train-worker-0").await;
        stage.until_archived("train", 1).await;
        let (history, logs) = (of("jobs/mpijob/train/history"), of("jobs/mpijob/train/logs?all=true"));
        until(&stage, &history, JANE, |reply| reply.status == 200).await;
        let jobs: Api<DynamicObject> = ::jobs::Kind::MpiJob.api(&stage.admin, "recycled");
        jobs.delete("train", &DeleteParams::default()).await.unwrap();
        stage.delete_pod("recycled", "train-worker-0").await;
        until(&stage, &logs, JANE, |reply| reply.text.contains("a secret")).await;
        stage.delete_namespace("recycled").await;
        stage.create_namespace("recycled").await;
        until(&stage, &history, JANE, |reply| reply.status == 404).await;
        let hidden = stage.get(&logs, JANE).await;
        assert_eq!((hidden.status, hidden.text.contains("a secret")), (404, false), "{}", hidden.text);
        assert_eq!(stage.get(&of("notifications"), JANE).await.json()["rules"], json!([]));
        assert_eq!(stage.get(&history, ADMIN).await.status, 200, "those who may read everything still can");
        assert!(stage.get(&logs, ADMIN).await.text.contains("a secret"));
    });
}
