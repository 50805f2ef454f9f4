//! Advice about requests, from what former runs used.

use std::time::Duration;

use history::jobs::{Observation, State};
use history::peaks;
use serde_json::{Value, json};
use service::Settings;
use service::contract::ListAdviceRequest;

use crate::keeping::until;
use crate::stage::{ADMIN, JANE, JOE, NOBODYS, Reply, Stage, TEAM, VERA, call, job};

const ADVICE: &str = "/api/v1/advice";
const CREATE: &str = "/api/v1/namespaces/team-cv/jobs?dryRun=true";

/// A stage with three jobs that run and are sampled.
async fn three_runs() -> Stage {
    let settings =
        Settings { sample: Duration::from_millis(50), rate: 10_000, burst: 10_000, ..Settings::default() };
    let stage = Stage::with(settings).await;
    let mut used = Vec::new();
    for name in ["a", "b", "c"] {
        stage.job(TEAM, name).await;
        for (role, cpu, memory) in [("launcher", 20_000_000, 64 << 20), ("worker", 1_500_000_000, 2 << 30)] {
            let pod = format!("{name}-{role}-0");
            stage.pod(TEAM, name, role, &pod).await;
            used.push((pod, cpu, memory));
        }
    }
    let used: Vec<(&str, u64, u64)> =
        used.iter().map(|(pod, cpu, memory)| (pod.as_str(), *cpu, *memory)).collect();
    stage.uses(TEAM, &used).await;
    for name in ["a", "b", "c"] {
        stage.status(TEAM, name, json!({ "phase": "Running" })).await;
        let metrics = format!("/api/v1/namespaces/team-cv/jobs/mpijob/{name}/metrics");
        until(&stage, &metrics, JANE, |reply| {
            reply.json()["pods"].as_array().is_some_and(|pods| pods.len() == 2)
        })
        .await;
    }
    stage
}

async fn succeed(stage: &Stage, name: &str, second: u32) {
    let time = format!("2026-01-01T00:10:{second:02}Z");
    stage.status(TEAM, name, json!({ "phase": "Succeeded", "completionTime": time })).await;
}

async fn runs(stage: &Stage, count: usize) -> Value {
    let is = |advice: &Value| advice["programs"][0]["runs"].as_array().map_or(0, Vec::len) == count;
    until(stage, ADVICE, JANE, |reply| is(&reply.json())).await.json()
}

/// What is advised about a role's resource: the verdict, the request, the highest use and the suggestion.
fn of<'a>(program: &'a Value, role: usize, resource: &str) -> [&'a str; 4] {
    let advice = &program["roles"][role][resource];
    ["verdict", "requested", "peak", "suggested"].map(|field| advice[field].as_str().unwrap_or_default())
}

#[tokio::test]
async fn three_runs_that_succeeded_say_what_the_next_one_needs() {
    let stage = three_runs().await;
    succeed(&stage, "a", 1).await;
    succeed(&stage, "b", 2).await;
    let two = runs(&stage, 2).await;
    assert_eq!(of(&two["programs"][0], 1, "memory"), ["Unknown", "1Gi", "", ""], "{two:#}");
    succeed(&stage, "c", 3).await;
    let three = runs(&stage, 3).await;
    let program = &three["programs"][0];
    assert_eq!(
        (&program["roles"][0]["role"], &program["roles"][1]["role"]),
        (&json!("Launcher"), &json!("Worker"))
    );
    assert_eq!(of(program, 0, "memory"), ["TooMuch", "1Gi", "64Mi", "128Mi"]);
    assert_eq!(of(program, 0, "cpu"), ["TooMuch", "1", "20m", "100m"]);
    assert_eq!(of(program, 1, "memory"), ["TooLittle", "1Gi", "2Gi", "2560Mi"]);
    assert_eq!(of(program, 1, "cpu"), ["TooLittle", "1", "1500m", "2"]);
    assert_eq!(program["roles"][1]["meanCpu"], "1500m");
    assert_eq!((&program["kind"], &program["image"]), (&json!("MPIJob"), &json!("train:1")));
    assert_eq!(program["runs"][0]["name"], "c", "the newest first");
    let message = ListAdviceRequest { namespace: TEAM.to_owned() };
    let over_grpc = stage.grpc().await.list_advice(call(VERA, message)).await.unwrap().into_inner();
    assert_eq!(serde_json::to_value(over_grpc).unwrap(), three);
    let path = "/api/v1/namespaces/team-cv/jobs/mpijob/a";
    assert_eq!(stage.rest("DELETE", path, JANE, None).await.status, 200);
    assert_eq!(runs(&stage, 3).await, three, "also after a job is gone");
}

#[tokio::test]
async fn advice_is_about_programs_that_the_caller_may_see() {
    let stage = three_runs().await;
    for name in ["a", "b", "c"] {
        succeed(&stage, name, 1).await;
    }
    runs(&stage, 3).await;
    let programs = async |path: &str, token: &str| {
        let reply = stage.get(path, token).await;
        (reply.status, reply.json()["programs"].as_array().map(Vec::len))
    };
    assert_eq!(programs(ADVICE, ADMIN).await, (200, Some(1)));
    assert_eq!(programs(ADVICE, JOE).await, (200, Some(0)));
    assert_eq!(programs(&format!("{ADVICE}?namespace={TEAM}"), JOE).await, (403, None));
}

#[tokio::test]
async fn advice_about_another_kind_is_for_those_who_may_list_that_kind() {
    let stage = Stage::new().await;
    let rights = json!({ "apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs"], "verbs": ["list"] });
    stage.create_role("pytorch", rights).await;
    stage.allow(TEAM, "joe", "pytorch").await;
    let store = history::Store::open(stage.keep.database.clone()).await.unwrap();
    let now = jiff::Timestamp::now();
    let run = Observation {
        uid: "uid-of-net".to_owned(),
        kind: "PyTorchJob".to_owned(),
        namespace: TEAM.to_owned(),
        name: "net".to_owned(),
        owner: None,
        created: now,
        started: Some(now),
        finished: Some(now),
        version: 1,
        at: now,
        state: State { phase: "Succeeded".to_owned(), ..State::default() },
        shown: "Succeeded".to_owned(),
        spec: None,
    };
    history::jobs::record(&store, &[run]).await.unwrap();
    let used = peaks::Report {
        uid: "uid-of-net".to_owned(),
        role: "worker".to_owned(),
        source: "one".to_owned(),
        program: "train".to_owned(),
        image: "train:1".to_owned(),
        measured: peaks::Measured { samples: 1, memory_bytes: 1 << 30, ..peaks::Measured::default() },
        requested: peaks::Requested::default(),
    };
    peaks::record(&store, &[used]).await.unwrap();
    for path in [ADVICE.to_owned(), format!("{ADVICE}?namespace={TEAM}")] {
        let shows_it = |reply: &Reply| reply.json()["programs"][0]["kind"] == "PyTorchJob";
        until(&stage, &path, JOE, shows_it).await;
        let others = stage.get(&path, JANE).await;
        assert_eq!((others.status, &others.json()["programs"]), (200, &json!([])), "{path}");
    }
    assert_eq!(stage.get(&format!("{ADVICE}?namespace={NOBODYS}"), JOE).await.status, 403);
}

#[tokio::test]
async fn a_dry_run_has_advice_about_the_job_that_is_to_be_created() {
    let stage = three_runs().await;
    for name in ["a", "b", "c"] {
        succeed(&stage, name, 1).await;
    }
    runs(&stage, 3).await;
    let dry_run = async |manifest: Value| {
        let body = json!({ "manifest": manifest.to_string() });
        stage.rest("POST", CREATE, JANE, Some(body)).await.json()["advice"].clone()
    };
    let mut manifest = job("d");
    let worker = |manifest: &mut Value, path: &str, value: Value| {
        let container = "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0";
        *manifest.pointer_mut(&format!("{container}{path}")).unwrap() = value;
    };
    worker(&mut manifest, "/resources/limits/memory", json!("64Gi"));
    let advice = dry_run(manifest.clone()).await;
    assert_eq!(of(&advice, 1, "memory"), ["TooMuch", "64Gi", "2Gi", "2560Mi"], "{advice:#}");
    assert_eq!(
        advice["roles"][1]["memory"]["message"],
        "64Gi of memory for a Worker is more than twice what is used: 3 runs used at most 2Gi. 2560Mi is enough."
    );
    worker(&mut manifest, "/image", json!("train:2"));
    assert_eq!(dry_run(manifest).await, Value::Null, "another program");
}
