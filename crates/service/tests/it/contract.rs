//! The files generated from the contract, and its promises.

use std::path::PathBuf;

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

/// What v1 has promised only grows: a line that is gone is a breaking change, which needs another version.
#[test]
fn generated_list_of_fields_only_grows() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../openapi/training-v1.fields");
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let gone: Vec<&str> =
        committed.lines().filter(|line| !FIELDS.lines().any(|present| present == *line)).collect();
    assert!(gone.is_empty(), "clients depend on these: {gone:#?}");
    compare("training-v1.fields", FIELDS);
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
