//! Who may call what: every method of the contract, each kind of caller, three namespaces, both protocols.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use service::contract::training_client::TrainingClient;
use service::{METHODS, Settings};
use tonic::Status;

use crate::stage::{
    ADMIN, Channel, EXPIRED, JANE, JOE, NOBODYS, OTHER_TEAM, PATIENCE, Stage, TEAM, VERA, call, request,
    rest_of,
};

/// What a caller needs in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Needs {
    /// Nothing but to be known.
    Nothing,
    /// To view jobs.
    View,
    /// To edit jobs.
    Edit,
    /// To administer the cluster.
    Administer,
}

type Call = fn(TrainingClient<Channel>, String, Value) -> BoxFuture<'static, Result<(), Status>>;

macro_rules! row {
    ($name:literal, $function:ident, $needs:expr) => {
        ($name, $needs, |mut client, token, message| {
            async move {
                let message = serde_json::from_value(message).unwrap();
                client.$function(call(&token, message)).await.map(drop)
            }
            .boxed()
        })
    };
}

/// One row for each method. A method without a row fails.
const ROWS: &[(&str, Needs, Call)] = &[
    row!("ListJobs", list_jobs, Needs::View),
    row!("WatchJobs", watch_jobs, Needs::View),
    row!("CreateJob", create_job, Needs::Edit),
    row!("GetJob", get_job, Needs::View),
    row!("DeleteJob", delete_job, Needs::Edit),
    row!("SuspendJob", suspend_job, Needs::Edit),
    row!("ResumeJob", resume_job, Needs::Edit),
    row!("CancelJob", cancel_job, Needs::Edit),
    row!("RetryJob", retry_job, Needs::Edit),
    row!("CloneJob", clone_job, Needs::Edit),
    row!("ReadLogs", read_logs, Needs::View),
    row!("ListRelatedJobs", list_related_jobs, Needs::View),
    row!("ListEvents", list_events, Needs::View),
    row!("ListArtifacts", list_artifacts, Needs::Edit),
    row!("ReadArtifact", read_artifact, Needs::Edit),
    row!("StartReader", start_reader, Needs::Edit),
    row!("GetHistory", get_history, Needs::View),
    row!("ListUsage", list_usage, Needs::View),
    row!("ListAdvice", list_advice, Needs::View),
    row!("ListAudit", list_audit, Needs::Administer),
    row!("ExportAudit", export_audit, Needs::Administer),
    row!("RecordAdmissions", record_admissions, Needs::Administer),
    row!("ListNotificationRules", list_notification_rules, Needs::View),
    row!("GetNotificationRule", get_notification_rule, Needs::View),
    row!("PutNotificationRule", put_notification_rule, Needs::Edit),
    row!("DeleteNotificationRule", delete_notification_rule, Needs::Edit),
    row!("TestNotificationRule", test_notification_rule, Needs::Edit),
    row!("ListDeliveries", list_deliveries, Needs::View),
    row!("ListAlerts", list_alerts, Needs::View),
    row!("ExportJob", export_job, Needs::View),
    row!("CompareJobs", compare_jobs, Needs::View),
    row!("BatchJobs", batch_jobs, Needs::Edit),
    row!("CheckAvailability", check_availability, Needs::Edit),
    row!("RenderJob", render_job, Needs::Nothing),
    row!("ListTemplates", list_templates, Needs::View),
    row!("GetTemplate", get_template, Needs::View),
    row!("SaveTemplate", save_template, Needs::Edit),
    row!("DeleteTemplate", delete_template, Needs::Edit),
    row!("GetMetrics", get_metrics, Needs::View),
    row!("ListNamespaces", list_namespaces, Needs::Nothing),
    row!("GetOverview", get_overview, Needs::View),
    row!("CheckCapacity", check_capacity, Needs::Administer),
    row!("ListGpus", list_gpus, Needs::Edit),
    row!("ListChoices", list_choices, Needs::Edit),
    row!("CreateSignIn", create_sign_in, Needs::Nothing),
    row!("GetIdentity", get_identity, Needs::Nothing),
];

/// What a caller has in a namespace; `None` if the caller is not known.
fn has(caller: &str, namespace: &str) -> Option<Needs> {
    Some(match (caller, namespace) {
        (ADMIN, _) => Needs::Administer,
        (JANE, TEAM) | (JOE, OTHER_TEAM) => Needs::Edit,
        (VERA, TEAM) => Needs::View,
        (JANE | JOE | VERA, _) => Needs::Nothing,
        _ => return None,
    })
}

fn expected(caller: &str, namespace: &str, needs: Needs) -> &'static str {
    match has(caller, namespace) {
        None => "unknown",
        Some(has) if has >= needs => "allowed",
        Some(_) => "refused",
    }
}

#[test]
fn every_method_has_a_row() {
    let (methods, rows): (Vec<&str>, Vec<&str>) =
        (METHODS.iter().map(|method| method.name).collect(), ROWS.iter().map(|(name, ..)| *name).collect());
    assert_eq!(methods, rows, "add a row: what does a caller need?");
}

#[tokio::test]
async fn each_caller_may_call_what_its_roles_allow_and_nothing_else() {
    let stage = Stage::new().await;
    let wrong_audience = stage.account_token(&["another-service"]).await;
    let callers = ["", EXPIRED, &wrong_audience, JANE, VERA, JOE, ADMIN];
    let mut wrong = Vec::new();
    for (method, (name, needs, over_grpc)) in METHODS.iter().zip(ROWS) {
        for caller in callers {
            for namespace in [TEAM, OTHER_TEAM, NOBODYS] {
                let mut example: Value = serde_json::from_str(method.example).unwrap();
                if method.fields.iter().any(|field| field.name == "namespace") {
                    example["namespace"] = json!(namespace);
                }
                example.as_object_mut().unwrap().remove("follow");
                let expected = expected(caller, namespace, *needs);
                let rest = over_rest(&stage, method, caller, &example).await;
                let status = over_grpc(stage.grpc().await, caller.to_owned(), example).await;
                let grpc = match status.as_ref().map_err(Status::code) {
                    Err(tonic::Code::Unauthenticated) => "unknown",
                    Err(tonic::Code::PermissionDenied) => "refused",
                    Err(tonic::Code::Internal | tonic::Code::Unimplemented) => "broken",
                    _ => "allowed",
                };
                if rest != expected || grpc != expected {
                    wrong.push(format!(
                        "{name} by {caller:.12} in {namespace}: expected {expected}, REST {rest}, gRPC {grpc} {status:?}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

async fn over_rest(
    stage: &Stage,
    method: &service::contract::Method,
    token: &str,
    example: &Value,
) -> &'static str {
    let (path, body) = rest_of(method, example);
    // A stream does not end: its status says enough.
    match stage.open(request(method.verb, &path, token, body)).await.status().as_u16() {
        401 => "unknown",
        403 => "refused",
        500.. => "broken",
        _ => "allowed",
    }
}

#[tokio::test]
async fn a_refusal_names_user_verb_kind_and_namespace() {
    let stage = Stage::new().await;
    let refused = stage
        .rest(
            "POST",
            "/api/v1/namespaces/team-cv/jobs",
            VERA,
            Some(json!({ "manifest": crate::stage::job("a").to_string() })),
        )
        .await;
    assert_eq!(refused.headers["content-type"], "application/problem+json");
    let problem = refused.json();
    let message = "User 'vera' lacks 'create' permission for MPIJobs in namespace 'team-cv'";
    assert_eq!(
        (refused.status, &problem["message"], &problem["detail"]),
        (403, &json!(message), &json!(message))
    );
    assert_eq!((&problem["code"], &problem["reason"]), (&json!("NotAllowed"), &json!("Forbidden")));
    let unknown = stage.get("/api/v1/jobs", "").await;
    assert_eq!((unknown.status, unknown.headers["www-authenticate"].to_str().unwrap()), (401, "Bearer"));
}

#[tokio::test]
async fn an_account_acts_with_a_token_for_the_api_server() {
    let stage = Stage::new().await;
    let token = stage.account_token(&[]).await;
    let me = stage.get("/api/v1/me?namespace=team-cv", &token).await.json();
    assert_eq!(me["user"], "system:serviceaccount:team-cv:pipeline");
    let may = |verb: &str| {
        let found = me["permissions"].as_array().unwrap().iter().find(|right| right["verb"] == verb);
        found.unwrap()["allowed"].clone()
    };
    assert_eq!((may("create"), may("delete")), (json!(true), json!(true)));
}

#[tokio::test]
async fn who_asks_learns_which_kinds_of_jobs_the_cluster_has() {
    let mut stage = Stage::new().await;
    let before = kinds(&stage).await;
    assert_eq!((&before["mpijob"], &before["pytorchjob"]), (&json!("Installed"), &json!("NotInstalled")));
    stage.define_pytorchjob().await;
    stage.restart().await;
    assert_eq!(kinds(&stage).await["pytorchjob"], "Installed");
}

/// Which kinds the cluster has, once that is known.
async fn kinds(stage: &Stage) -> BTreeMap<String, Value> {
    let asked = async {
        loop {
            let me = stage.get("/api/v1/me", VERA).await.json();
            let kinds = me["kinds"].as_array().cloned().unwrap_or_default();
            if !kinds.is_empty() && kinds.iter().all(|one| one["state"] != "Unknown") {
                let named = |one: Value| (one["kind"].as_str().unwrap().to_owned(), one["state"].clone());
                return kinds.into_iter().map(named).collect();
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap()
}

#[tokio::test]
async fn the_service_itself_only_reads_jobs_and_their_pods_and_asks_who_and_what() {
    let stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    stage.get("/api/v1/namespaces/team-cv/jobs/mpijob/a", JANE).await;
    stage.rest("DELETE", "/api/v1/namespaces/team-cv/jobs/mpijob/a", JANE, None).await;
    for sent in stage.requests() {
        let allowed = sent.starts_with("POST /apis/authentication.k8s.io/v1/tokenreviews")
            || sent.starts_with("POST /apis/authorization.k8s.io/v1/subjectaccessreviews")
            || (sent.starts_with("GET /apis/") && sent.contains("jobs?"))
            || (sent.starts_with("GET /apis/kueue.x-k8s.io/") && sent.contains("/workloads?"))
            || sent.starts_with("GET /apis/metrics.k8s.io/v1beta1/pods?")
            || sent.starts_with("GET /api/v1/pods?")
            || sent.starts_with("GET /api/v1/namespaces?")
            || (sent.starts_with("GET /api/v1/namespaces/") && sent.ends_with("/resourcequotas?"))
            || (sent.starts_with("GET /api/v1/namespaces/") && sent.contains("/log?"));
        assert!(allowed, "{sent}");
    }
}

#[tokio::test]
async fn a_user_who_asks_too_often_is_told_when_to_ask_again() {
    let stage = Stage::with(Settings { rate: 1, burst: 2, ..Settings::default() }).await;
    let mut last = 0;
    for _ in 0..3 {
        let reply = stage.get("/api/v1/me", JANE).await;
        last = reply.status;
        if last == 429 {
            assert_eq!(reply.headers["retry-after"], "1");
            assert_eq!(reply.json()["code"], "TooManyRequests");
        }
    }
    assert_eq!(last, 429);
    assert_eq!(stage.get("/api/v1/me", VERA).await.status, 200, "another user is not held up");
}

#[tokio::test]
async fn each_job_of_a_batch_counts_as_a_request_and_the_batch_is_carried_out() {
    let stage = Stage::with(Settings { rate: 1, burst: 5, ..Settings::default() }).await;
    let names: Vec<String> = (0..200).map(|number| format!("none-{number}")).collect();
    let batch = async |dry_run: bool| {
        let body = json!({ "action": "delete", "names": names, "dryRun": dry_run });
        stage.rest("POST", "/api/v1/namespaces/team-cv/batch", JANE, Some(body)).await
    };
    let dry = batch(true).await;
    assert_eq!(dry.json()["results"].as_array().unwrap().len(), 200, "{}", dry.text);
    let done = batch(false).await;
    assert_eq!(done.json()["failed"], 200, "{}", done.text);
    let refused = stage.get("/api/v1/me", JANE).await;
    assert_eq!(refused.status, 429);
    assert!(refused.headers["retry-after"].to_str().unwrap().parse::<u32>().unwrap() > 60);
    assert_eq!(stage.get("/api/v1/me", VERA).await.status, 200, "another user is not held up");
}

#[tokio::test]
async fn a_stream_ends_once_its_caller_may_no_longer_see_the_jobs() {
    let settings = Settings {
        recheck: Duration::from_millis(200),
        heartbeat: Duration::from_millis(100),
        ..Settings::default()
    };
    let stage = Stage::with(settings).await;
    let mut client = stage.grpc().await;
    let watch = service::contract::WatchJobsRequest { namespace: TEAM.to_owned(), ..Default::default() };
    let mut events = client.watch_jobs(call(VERA, watch)).await.unwrap().into_inner();
    assert_eq!(events.message().await.unwrap().unwrap().r#type, "snapshot");
    stage.revoke("vera").await;
    let ended = tokio::time::timeout(PATIENCE, async {
        loop {
            match events.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(status) => return Some(status.code()),
            }
        }
    });
    assert_eq!(ended.await.unwrap(), Some(tonic::Code::PermissionDenied));
}
