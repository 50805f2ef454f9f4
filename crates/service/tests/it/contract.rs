//! The files generated from the contract, and its promises.

use std::collections::BTreeSet;
use std::path::PathBuf;

use regex::Regex;
use serde_json::{Value, json};
use service::METHODS;
use service::contract::{self, DOCS, FIELDS, OPENAPI};

use crate::stage::{ADMIN, Stage};

/// Compares a committed file with what the contract gives, or writes it.
fn compare(name: &str, wanted: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../openapi").join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, wanted).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == wanted, "{} differs: run `cargo xtask gen`", path.display());
}

#[test]
fn generated_openapi_document_is_committed() {
    compare("training-v1.json", OPENAPI);
}

/// What breaks clients of a committed list of fields: what is gone, and what a request that was there before must have now.
fn breaking<'l>(committed: &'l str, present: &'l str) -> Vec<&'l str> {
    let lines = |text: &'l str| -> BTreeSet<&'l str> { text.lines().collect() };
    let (committed, present) = (lines(committed), lines(present));
    let is_rule = |line: &str| line.ends_with(" is required");
    let gone = committed.difference(&present).filter(|line| !is_rule(line));
    let was_there = |line: &str| {
        let message = line.split_once('.').map(|(message, _)| format!("{message}."));
        message.is_some_and(|message| committed.iter().any(|line| line.starts_with(&message)))
    };
    let added = present.difference(&committed).filter(|line| is_rule(line) && was_there(line));
    gone.chain(added).copied().collect()
}

/// A breaking change needs another version.
#[test]
fn generated_list_of_fields_only_grows() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../openapi/training-v1.fields");
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let breaking = breaking(&committed, FIELDS);
    assert!(breaking.is_empty(), "clients depend on these: {breaking:#?}");
    compare("training-v1.fields", FIELDS);
}

#[test]
fn each_kind_of_breaking_change_is_found() {
    let line = |start: &str| FIELDS.lines().find(|line| line.starts_with(start)).unwrap();
    let (field, value) = (line("JobRow.uid = "), line("BatchJobsRequest.action may be "));
    for (was, is, found) in [
        ("ListJobs(", "", "ListJobs(ListJobsRequest) returns"),
        (" GET /api/v1/jobs\n", " POST /api/v1/jobs\n", "ListJobs(ListJobsRequest) returns"),
        (" returns (stream LogItem)", " returns (LogItem)", "ReadLogs("),
        (field, "", field),
        (field, "JobRow.uid = 4 int32", field),
        (field, "JobRow.uid = 99 string", field),
        (value, "", value),
        (field, &format!("{field}\nListJobsRequest.owner is required"), "ListJobsRequest.owner is required"),
    ] {
        let present = FIELDS.replacen(was, is, 1);
        let breaking = breaking(FIELDS, &present);
        assert!(breaking.len() == 1 && breaking[0].starts_with(found), "{was} -> {is}: {breaking:?}");
    }
    let grown = format!(
        "{FIELDS}New(A) returns (B) GET /api/v1/new\nA.name = 1 string\nA.name is required\nJobRow.more = 99 string\n"
    );
    assert_eq!(breaking(FIELDS, &grown), [""; 0]);
    let looser = FIELDS.replace("CreateJobRequest.namespace is required\n", "");
    assert_eq!(breaking(FIELDS, &looser), [""; 0]);
}

#[test]
fn every_reference_in_the_openapi_document_has_its_schema() {
    let document: serde_json::Value = serde_json::from_str(OPENAPI).unwrap();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for part in OPENAPI.split("\"#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
    let operations: usize =
        document["paths"].as_object().unwrap().values().map(|path| path.as_object().unwrap().len()).sum();
    assert_eq!(operations, METHODS.len());
}

#[test]
fn examples_are_requests_of_their_methods() {
    for method in METHODS {
        let example: serde_json::Value = serde_json::from_str(method.example).unwrap();
        for name in example.as_object().unwrap().keys() {
            assert!(method.fields.iter().any(|field| field.name == name), "{}: {name}", method.name);
        }
        for field in method.fields.iter().filter(|field| field.required) {
            assert!(example.get(field.name).is_some(), "{}: {} is missing", method.name, field.name);
        }
    }
}

#[tokio::test]
async fn the_contract_is_served_without_a_token_and_needs_nothing_from_elsewhere() {
    let stage = Stage::new().await;
    let document = stage.get("/openapi.json", "").await;
    assert_eq!((document.status, document.text.as_str()), (200, OPENAPI));
    let page = stage.get("/docs", "").await;
    assert_eq!((page.status, page.text.as_str()), (200, DOCS));
    assert!(page.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    for elsewhere in ["src=", "<script", "@import", "url(", "href=\"http"] {
        assert!(!page.text.contains(elsewhere), "{elsewhere}");
    }
    for method in METHODS {
        assert!(page.text.contains(&format!("id=\"{}\"", method.name)), "{}", method.name);
    }
    for field in ["JobSpec.workers", "JobPart.restartPolicy", "CreateJobRequest.namespace"] {
        assert_eq!(page.text.matches(&format!("id=\"{field}\"")).count(), 1, "{field}");
    }
    let guide = stage.get("/docs/troubleshooting", "").await;
    assert_eq!(guide.status, 200);
    assert!(guide.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    assert!(guide.text.contains("<h2 id=\"outofmemory\">"), "{}", guide.text);
}

#[tokio::test]
async fn health_is_open_and_metrics_need_a_permission() {
    let stage = Stage::new().await;
    assert_eq!(stage.get("/healthz", "").await.status, 200);
    assert_eq!(stage.get("/readyz", "").await.status, 200);
    assert_eq!(stage.get("/metrics", "").await.status, 401);
    assert_eq!(stage.get("/metrics", crate::stage::JANE).await.status, 403);
    stage.get("/api/v1/jobs", ADMIN).await;
    let metrics = stage.get("/metrics", ADMIN).await;
    assert_eq!(metrics.status, 200);
    assert!(
        metrics.text.contains("training_service_calls_total{method=\"ListJobs\",status=\"200\"} 1"),
        "{}",
        metrics.text
    );
}

#[tokio::test]
async fn reflection_and_health_answer_over_grpc() {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

    let stage = Stage::new().await;
    let mut health = HealthClient::with_origin(stage.channel().await, stage.origin());
    let request = HealthCheckRequest { service: "training.v1.Training".to_owned() };
    assert_eq!(health.check(request).await.unwrap().into_inner().status, 1);
    let mut reflection = ServerReflectionClient::with_origin(stage.channel().await, stage.origin());
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::FileContainingSymbol("training.v1.Training".to_owned())),
    };
    let replies = reflection.server_reflection_info(futures::stream::iter([ask])).await.unwrap();
    let reply = replies.into_inner().message().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::FileDescriptorResponse(files) = reply else { panic!("{reply:?}") };
    let text = String::from_utf8_lossy(&files.file_descriptor_proto[0]).into_owned();
    assert!(text.contains("ListJobs") && !contract::DESCRIPTORS.is_empty());
}

#[tokio::test]
async fn reflection_answers_clients_of_its_first_version() {
    use tonic_reflection::pb::v1alpha::ServerReflectionRequest;
    use tonic_reflection::pb::v1alpha::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1alpha::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1alpha::server_reflection_response::MessageResponse;

    let stage = Stage::new().await;
    let mut reflection = ServerReflectionClient::with_origin(stage.channel().await, stage.origin());
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let replies = reflection.server_reflection_info(futures::stream::iter([ask])).await.unwrap();
    let reply = replies.into_inner().message().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(services) = reply else { panic!("{reply:?}") };
    assert!(services.service.iter().any(|service| service.name == "training.v1.Training"));
}

/// Whether the schema of a field accepts a value.
fn fits(schema: &Value, value: &Value) -> bool {
    let pattern = schema["pattern"].as_str().map(|pattern| Regex::new(pattern).unwrap());
    let matches = value.as_str().zip(pattern).is_none_or(|(text, pattern)| pattern.is_match(text));
    let is_enough =
        value.as_i64().zip(schema["minimum"].as_i64()).is_none_or(|(number, least)| number >= least);
    matches && is_enough
}

#[tokio::test]
async fn patterns_and_least_numbers_of_the_schema_are_what_the_service_accepts() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let fields = &document["components"]["schemas"]["JobSpec"]["properties"];
    let stage = Stage::new().await;
    let table = [
        (
            "name",
            json!("a-1"),
            [json!("A"), json!("1a"), json!("a.b"), json!("a-"), json!("a".repeat(64))].to_vec(),
        ),
        ("workers", json!(1), [json!(0), json!(-1)].to_vec()),
        ("slots", json!(1), [json!(0)].to_vec()),
        ("gpus", json!(0), [json!(-1)].to_vec()),
        ("cpu", json!("500m"), [json!("half"), json!("-1"), json!("1 core")].to_vec()),
        ("memory", json!("1.5Gi"), [json!("1GB"), json!("much"), json!("1e")].to_vec()),
        ("deadlineSeconds", json!(60), [json!(-1)].to_vec()),
        ("retries", json!(0), [json!(-1)].to_vec()),
    ];
    for (field, good, bad) in table {
        for (value, is_good) in std::iter::once((&good, true)).chain(bad.iter().map(|value| (value, false))) {
            let mut spec = json!({ "name": "a", "workers": 2, "image": "quay.io/team-cv/resnet:1.0",
                "command": ["python", "/train.py"], "cpu": "1", "memory": "1Gi" });
            spec[field] = value.clone();
            let body = Some(json!({ "spec": spec }));
            let checked =
                stage.rest("POST", "/api/v1/namespaces/team-cv/jobs?dryRun=true", ADMIN, body).await;
            assert_eq!(checked.status == 200, is_good, "{field}={value}: {}", checked.text);
            assert_eq!(fits(&fields[field], value), is_good, "{field}={value}: {}", fields[field]);
        }
    }
}
