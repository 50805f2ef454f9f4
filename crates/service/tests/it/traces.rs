//! Traces: what a collector receives of calls, and what calls notice of a collector that is not there.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Content;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;
use serde_json::json;
use service::contract::ListAuditRequest;
use service::contract::training_client::TrainingClient;
use tokio::net::TcpListener;
use tokio::process::Child;

use crate::place::{Place, on_sqlite};
use crate::site::Site;
use crate::stage::{PATIENCE, TEAM, call, channel, job, request, send};

/// A collector over HTTP on loopback.
struct Collector {
    address: SocketAddr,
    received: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Vec<_>>>::default();
        let into = received.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let into = into.clone();
                let take = hyper::service::service_fn(move |request| take(request, into.clone()));
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), take));
            }
        });
        Self { address, received }
    }

    /// The name of the service, and its spans, as far as received.
    fn spans(&self) -> (String, Vec<Span>) {
        let received = std::mem::take(&mut *self.received.lock().unwrap());
        let resources: Vec<_> = received.into_iter().flat_map(|request| request.resource_spans).collect();
        let name = resources.iter().flat_map(|one| one.resource.iter()).flat_map(|one| one.attributes.iter());
        let name = name.filter(|attribute| attribute.key == "service.name").find_map(|attribute| {
            match attribute.value.clone()?.value? {
                Content::StringValue(name) => Some(name),
                _ => None,
            }
        });
        let scopes = resources.into_iter().flat_map(|one| one.scope_spans);
        (name.unwrap(), scopes.flat_map(|scope| scope.spans).collect())
    }
}

async fn take(
    request: Request<Incoming>,
    into: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    assert_eq!(request.uri().path(), "/v1/traces");
    let body = request.into_body().collect().await?.to_bytes();
    into.lock().unwrap().push(ExportTraceServiceRequest::decode(body).unwrap());
    // An empty answer is one without a partial success.
    Ok(Response::new(Full::default()))
}

/// The attributes of a span as texts.
fn attributes(span: &Span) -> BTreeMap<&str, String> {
    let text = |content: &Content| match content {
        Content::StringValue(text) => text.clone(),
        Content::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let attributes = span.attributes.iter();
    attributes.filter_map(|one| Some((one.key.as_str(), text(one.value.as_ref()?.value.as_ref()?)))).collect()
}

/// Stops the program with SIGTERM and waits until it has ended by itself.
async fn stop(child: &mut Child) {
    kill(Pid::from_raw(child.id().unwrap().try_into().unwrap()), Signal::SIGTERM).unwrap();
    let status = tokio::time::timeout(PATIENCE, child.wait()).await.unwrap().unwrap();
    assert!(status.success(), "{status}");
}

fn make_folder(place: &Place) {
    std::fs::create_dir_all(place.folder.path().join("state of odh")).unwrap();
}

#[test]
fn a_callers_trace_continues_over_rest_and_grpc_down_to_the_cluster_and_the_store() {
    const REST: (&str, &str) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    const GRPC: (&str, &str) = ("1af7651916cd43dd8448eb211c80319d", "c7ad6b7169203332");
    on_sqlite(async |place| {
        make_folder(place);
        let (site, collector) = (Site::new().await, Collector::start().await);
        let endpoint = format!("http://{}", collector.address);
        let (mut child, address) = site.start(place, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]).await;
        let header = |(trace, parent): (&str, &str)| format!("00-{trace}-{parent}-01");

        let body = json!({ "manifest": job("a").to_string(), "skipChecks": true });
        let mut create = request("POST", &format!("/api/v1/namespaces/{TEAM}/jobs"), &site.token, Some(body));
        create.headers_mut().insert("traceparent", header(REST).parse().unwrap());
        let created = send(address, &site.roots, create).await.unwrap();
        assert_eq!(created.status, 200, "{}", created.text);

        let mut list = call(&site.token, ListAuditRequest::default());
        list.metadata_mut().insert("traceparent", header(GRPC).parse().unwrap());
        let origin = format!("https://localhost:{}", address.port()).parse().unwrap();
        let mut client = TrainingClient::with_origin(channel(address, &site.roots).await, origin);
        client.list_audit(list).await.unwrap();

        // What waits is sent when the program stops.
        stop(&mut child).await;
        let (name, spans) = collector.spans();
        assert_eq!(name, "training-service");
        let of = |(trace, parent): (&str, &str)| {
            let id = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let trace: Vec<&Span> = spans.iter().filter(|span| id(&span.trace_id) == trace).collect();
            let root = trace.iter().find(|span| id(&span.parent_span_id) == parent).copied().unwrap();
            let below: Vec<&Span> =
                trace.into_iter().filter(|span| span.parent_span_id == root.span_id).collect();
            (root, below)
        };

        let (root, below) = of(REST);
        assert_eq!((root.name.as_str(), root.kind()), ("CreateJob", SpanKind::Server));
        let id = created.headers["x-request-id"].to_str().unwrap();
        let expected = [
            ("http.request.method", "POST"),
            ("http.route", "/api/v1/namespaces/{namespace}/jobs"),
            ("http.response.status_code", "200"),
            ("request.id", id),
        ];
        for (key, value) in expected {
            assert_eq!(attributes(root)[key], value, "{key}");
        }
        let jobs = format!("/apis/kubeflow.org/v2beta1/namespaces/{TEAM}/mpijobs");
        let asked = below.iter().find(|span| attributes(span).get("url.path") == Some(&jobs)).unwrap();
        assert_eq!((asked.name.as_str(), asked.kind()), ("POST", SpanKind::Client));
        assert_eq!(attributes(asked)["http.response.status_code"], "201");

        let (root, below) = of(GRPC);
        assert_eq!(
            (root.name.as_str(), attributes(root)["rpc.grpc.status_code"].as_str()),
            ("ListAudit", "0")
        );
        assert!(
            below
                .iter()
                .any(|span| attributes(span).get("db.system.name").is_some_and(|name| name == "sqlite"))
        );

        // Nothing runs in a trace of its own but calls, and nothing says who called.
        for span in &spans {
            assert!(!span.parent_span_id.is_empty() || span.kind() == SpanKind::Server, "{span:?}");
            let shown = format!("{span:?}");
            assert!(!shown.contains(&site.token) && !shown.contains("system:masters"), "{shown}");
        }
        site.cluster.stop().await;
    });
}

#[test]
fn a_collector_that_never_answers_costs_spans_and_nothing_else() {
    on_sqlite(async |place| {
        make_folder(place);
        let site = Site::new().await;
        // The kernel accepts connections to it; nobody reads them.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", silent.local_addr().unwrap());
        // Small enough that the queue overflows.
        let environment = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2"),
        ];
        let (mut child, address) = site.start(place, &environment).await;
        // Delays of its timeouts would add up to more.
        let creating = async {
            for number in 0..20 {
                let body = json!({ "manifest": job(&format!("a-{number}")).to_string(), "skipChecks": true });
                let path = format!("/api/v1/namespaces/{TEAM}/jobs");
                let created = site.ask(address, "POST", &path, Some(body)).await.unwrap();
                assert_eq!(created.status, 200, "{}", created.text);
            }
        };
        tokio::time::timeout(PATIENCE, creating).await.unwrap();
        stop(&mut child).await;
        let (_child, address) = site.start(place, &[]).await;
        for number in 0..20 {
            let path = format!("/api/v1/namespaces/{TEAM}/jobs/mpijob/a-{number}");
            assert_eq!(site.get(address, &path).await.unwrap().status, 200, "{path}");
        }
        let audit = site.get(address, "/api/v1/audit?limit=500").await.unwrap().text;
        assert_eq!(audit.matches("\"ResponseComplete\"").count(), 20, "{audit}");
        site.cluster.stop().await;
    });
}
