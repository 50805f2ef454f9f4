//! The audit log, over the service.

use history::audit::{Verification, verify, verify_export};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::keeping::until;
use crate::place::on_each;
use crate::stage::{ADMIN, JANE, Stage, TEAM, VERA, job};

const JOBS: &str = "/api/v1/namespaces/team-cv/jobs";

/// The lines of all operations: verb, object, stage, status.
async fn lines(stage: &Stage, query: &str) -> Vec<(String, String, String, Value)> {
    let reply = stage.get(&format!("/api/v1/audit?{query}"), ADMIN).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let json = reply.json();
    let operations = json["operations"].as_array().unwrap().iter();
    let lines = operations.flat_map(|operation| operation["lines"].as_array().unwrap());
    let text = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
    lines
        .map(|line| (text(line, "verb"), text(line, "object"), text(line, "stage"), line["status"].clone()))
        .collect()
}

fn line(verb: &str, object: &str, stage: &str, status: Value) -> (String, String, String, Value) {
    (verb.to_owned(), object.to_owned(), stage.to_owned(), status)
}

#[test]
fn each_operation_is_in_the_log_with_who_what_where_and_result() {
    on_each(async |place| {
        let mut stage = Stage::on(place).await;
        let body = json!({ "manifest": job("a").to_string() });
        let created = stage.rest("POST", JOBS, JANE, Some(body.clone())).await;
        assert_eq!(created.status, 200, "{}", created.text);
        let id = created.headers["x-request-id"].to_str().unwrap().to_owned();
        let refused = stage.rest("POST", JOBS, VERA, Some(body)).await;
        assert_eq!(refused.status, 403);
        assert_ne!(refused.headers["x-request-id"], id, "refusals have an id, too");
        stage.get("/api/v1/jobs", JANE).await;
        assert_eq!(stage.rest("DELETE", &format!("{JOBS}/mpijob/a"), JANE, None).await.status, 200);
        let expected = [
            line("CreateJob", "", "RequestReceived", Value::Null),
            line("CreateJob", "a", "ResponseComplete", json!(200)),
            line("CreateJob", "", "ResponseComplete", json!(403)),
            line("DeleteJob", "a", "RequestReceived", Value::Null),
            line("DeleteJob", "a", "ResponseComplete", json!(200)),
        ];
        assert_eq!(lines(&stage, "").await, expected);
        stage.restart().await;
        assert_eq!(lines(&stage, "").await, expected, "also after a restart");
        assert_eq!(lines(&stage, "who=vera").await, expected[2..3]);
        assert_eq!(lines(&stage, "object=a&namespace=team-cv").await.len(), 4);
        assert_eq!(lines(&stage, "namespace=team-nlp").await, []);
        let all = stage.get("/api/v1/audit?limit=1", ADMIN).await.json();
        let first = &all["operations"][0];
        assert_eq!(first["request"], json!(id));
        let received = &first["lines"][0];
        assert_eq!((&received["who"], &received["resource"]), (&json!("jane"), &json!("mpijobs")));
        assert!(received["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{received}");
        let next = all["continue"].as_str().unwrap();
        assert_eq!(lines(&stage, &format!("continue={next}")).await, expected[2..]);
        let newest = stage.get("/api/v1/audit?limit=1&newestFirst=true", ADMIN).await.json();
        assert_eq!(newest["operations"][0]["lines"][0]["verb"], json!("DeleteJob"));
        let next = newest["continue"].as_str().unwrap();
        let before = lines(&stage, &format!("newestFirst=true&limit=500&continue={next}")).await;
        assert_eq!(before.last(), Some(&expected[1]), "the oldest operation is the last one");
        assert_eq!(before.len(), expected.len() - 2);
    });
}

#[test]
fn refusals_and_checks_do_not_fill_the_log() {
    on_each(async |place| {
        let stage = Stage::on(place).await;
        let body = json!({ "manifest": job("a").to_string() });
        for _ in 0..20 {
            assert_eq!(stage.rest("POST", JOBS, VERA, Some(body.clone())).await.status, 403);
        }
        let dry = json!({ "manifest": job("a").to_string(), "dryRun": true });
        assert_eq!(stage.rest("POST", JOBS, JANE, Some(dry)).await.status, 200);
        let availability = "/api/v1/namespaces/team-cv/availability";
        assert_eq!(stage.rest("POST", availability, JANE, Some(body)).await.status, 200);
        let expected = [line("CreateJob", "", "ResponseComplete", json!(403))];
        assert_eq!(lines(&stage, "").await, expected, "the others are counted");
    });
}

#[test]
fn a_batch_has_a_line_for_each_job() {
    on_each(async |place| {
        let stage = Stage::on(place).await;
        for name in ["a", "b"] {
            stage.job(TEAM, name).await;
        }
        let body = json!({ "action": "delete", "names": ["a", "b", "missing"] });
        let done = stage.rest("POST", "/api/v1/namespaces/team-cv/batch", JANE, Some(body)).await;
        assert_eq!(done.json()["failed"], 1, "{}", done.text);
        let mut found = lines(&stage, "").await;
        found.sort_by(|one, other| one.1.cmp(&other.1));
        let expected = [
            line("BatchJobs", "", "RequestReceived", Value::Null),
            line("BatchJobs", "a", "ResponseComplete", json!(200)),
            line("BatchJobs", "b", "ResponseComplete", json!(200)),
            line("BatchJobs", "missing", "ResponseComplete", json!(404)),
        ];
        assert_eq!(found, expected);
    });
}

#[test]
fn all_jobs_of_a_batch_that_are_not_there_have_one_line() {
    on_each(async |place| {
        let stage = Stage::on(place).await;
        stage.job(TEAM, "a").await;
        let mut names: Vec<String> = (0..100).map(|number| format!("none-{number}")).collect();
        names.push("a".to_owned());
        let body = json!({ "action": "delete", "names": names });
        let done = stage.rest("POST", "/api/v1/namespaces/team-cv/batch", JANE, Some(body)).await;
        assert_eq!(done.json()["failed"], 100, "{}", done.text);
        let mut found = lines(&stage, "").await;
        found.sort_by(|one, other| one.1.cmp(&other.1));
        let expected = [
            line("BatchJobs", "", "RequestReceived", Value::Null),
            line("BatchJobs", "a", "ResponseComplete", json!(200)),
            line("BatchJobs", "none-0", "ResponseComplete", json!(404)),
        ];
        assert_eq!(found, expected);
        let all = stage.get("/api/v1/audit", ADMIN).await.text;
        assert!(all.contains("99 others were not found, either: none-1, none-2, "), "{all}");
    });
}

#[test]
fn an_export_is_a_chain_that_anybody_can_verify() {
    on_each(async |place| {
        let stage = Stage::on(place).await;
        for name in ["a", "b", "c"] {
            let body = json!({ "manifest": job(name).to_string() });
            assert_eq!(stage.rest("POST", JOBS, JANE, Some(body)).await.status, 200);
        }
        let export = stage.get("/api/v1/audit/export", ADMIN).await;
        assert_eq!(export.headers["content-type"], "application/x-ndjson");
        let closing = verify_export(export.text.lines()).unwrap().unwrap();
        assert_eq!(closing.seq, 6);
        let Verification::Intact { head, .. } = verify(&place.open().await, &[]).await.unwrap() else {
            unreachable!()
        };
        assert_eq!(head, closing);
        // As the contract says it: the hash before, the number, the entry.
        let text = export.text.lines().next().unwrap();
        let record: Value = serde_json::from_str(text).unwrap();
        let entry = text.split_once("\"entry\":").unwrap().1.strip_suffix('}').unwrap();
        let hashed = format!("{}\n1\n{entry}", record["previous"].as_str().unwrap());
        let hash: String = Sha256::digest(hashed).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(record["hash"], json!(hash));
        let rest = stage.get("/api/v1/audit/export?after=4", ADMIN).await;
        assert_eq!(rest.text.lines().count(), 2);
        assert_eq!(verify_export(rest.text.lines()).unwrap(), Some(closing));
        assert_eq!(stage.get("/api/v1/audit/export?after=x", ADMIN).await.status, 422);
    });
}

#[test]
fn reads_are_in_the_log_only_where_that_was_asked_for() {
    on_each(async |place| {
        let mut stage = Stage::on(place).await;
        stage.get("/api/v1/jobs", JANE).await;
        assert_eq!(lines(&stage, "").await, []);
        stage.keep.audit_reads = true;
        stage.restart().await;
        stage.get("/api/v1/jobs", JANE).await;
        let listed = |reply: &crate::stage::Reply| reply.text.contains("ListJobs");
        until(&stage, "/api/v1/audit?who=jane", ADMIN, listed).await;
    });
}

#[test]
fn a_write_past_the_service_is_in_the_log_too_and_one_through_it_only_once() {
    on_each(async |place| {
        let stage = Stage::on(place).await;
        let created = stage.rest("POST", JOBS, JANE, Some(json!({ "manifest": job("a").to_string() }))).await;
        let id = created.headers["x-request-id"].to_str().unwrap().to_owned();
        let jobs = jobs::Kind::MpiJob.api(&stage.admin, TEAM);
        let a = jobs.get("a").await.unwrap();
        assert_eq!(a.annotations()[api::ANNOTATION_REQUEST], id, "the job says which request created it");
        let seen = |review: &str, verb: &str, name: &str, request: &str| {
            json!({ "review": review, "at": jiff::Timestamp::now().to_string(), "user": "jane", "verb": verb,
                "resource": "mpijobs", "namespace": TEAM, "name": name, "request": request })
        };
        let admissions = [seen("r1", "create", "a", &id), seen("r2", "create", "by-kubectl", "")];
        let body = json!({ "admissions": admissions });
        let path = "/api/v1/audit/admissions";
        assert_eq!(stage.rest("POST", path, JANE, Some(body.clone())).await.status, 403);
        for _ in 0..2 {
            let reported = stage.rest("POST", path, ADMIN, Some(body.clone())).await;
            assert_eq!(
                (reported.status, reported.json()),
                (200, json!({ "pending": [] })),
                "{}",
                reported.text
            );
        }
        let log = stage.get("/api/v1/audit", ADMIN).await.json();
        let operations = log["operations"].as_array().unwrap();
        let channels = |at: usize| -> Vec<&str> {
            let lines = operations[at]["lines"].as_array().unwrap().iter();
            lines.map(|line| line["channel"].as_str().unwrap()).collect()
        };
        assert_eq!(operations.len(), 2, "{log:#}");
        assert_eq!(
            (&operations[0]["request"], channels(0)),
            (&json!(id), vec!["service", "service", "webhook"])
        );
        assert_eq!((&operations[1]["request"], channels(1)), (&json!("r2"), vec!["webhook"]));
        assert_eq!(operations[1]["lines"][0]["object"], "by-kubectl");
        let wrong = json!({ "admissions": [seen("r3", "connect", "a", "")] });
        let refused = stage.rest("POST", path, ADMIN, Some(wrong)).await.json();
        assert_eq!(refused["fields"][0]["path"], "admissions[0].verb");
    });
}

#[test]
fn what_is_too_long_in_a_report_is_cut_and_missing_reports_are_a_line() {
    on_each(async |place| {
        let stage = Stage::on(place).await;
        let report = |review: &str, verb: &str, user: &str| {
            json!({ "review": review, "at": jiff::Timestamp::now().to_string(), "user": user, "verb": verb,
                "groups": vec!["\u{1}".repeat(600); 60], "resource": "mpijobs", "namespace": TEAM,
                "name": "\u{1}".repeat(600), "reason": "7 reports are missing" })
        };
        let long = "j".repeat(600);
        let reports = [report("r1", "create", &long), report("r2", "lost", "mpi-operator")];
        let recorded = stage
            .rest("POST", "/api/v1/audit/admissions", ADMIN, Some(json!({ "admissions": reports })))
            .await;
        assert_eq!((recorded.status, recorded.json()["pending"].as_array().map_or(0, Vec::len)), (200, 0));
        let shown = stage.get("/api/v1/audit", ADMIN).await.json();
        let lines: Vec<&Value> = shown["operations"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|operation| operation["lines"].as_array().unwrap())
            .filter(|line| line["channel"] == "webhook")
            .collect();
        assert_eq!(lines[0]["who"], format!("{}…", "j".repeat(512)));
        assert_eq!(
            (&lines[1]["verb"], &lines[1]["reason"]),
            (&json!("lost"), &json!("7 reports are missing"))
        );
    });
}
