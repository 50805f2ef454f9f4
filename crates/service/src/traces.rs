//! Exports the spans of calls to an OpenTelemetry collector: OTLP, as protobuf over HTTP.
//!
//! Ended spans wait in a bounded queue, which never blocks: when it is full, spans are lost. A thread of the SDK sends
//! them in batches, and tries each for a bounded time. What fails is the export, never a call.

use std::env::VarError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::uri::InvalidUri;
use http::{Request, Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Key, KeyValue, Value};
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use rustls::pki_types::CertificateDer;
use tokio::runtime::Handle;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::registry::LookupSpan;

use crate::tls;

/// How long one attempt to send a batch may take.
const SEND_WITHIN: Duration = Duration::from_secs(5);
/// How long the spans that still wait may take when the service stops.
const FLUSH_WITHIN: Duration = Duration::from_secs(3);
/// The name of this service in traces, unless `OTEL_SERVICE_NAME` has another.
const SERVICE_NAME: &str = "training-service";
/// Where a collector takes traces, below its address.
const PATH: &str = "v1/traces";
/// The modules whose spans are exported: those of calls and requests to the cluster, and those of queries.
const CALLS: &str = "service::spans";
const QUERIES: &str = "history::store";

/// Why traces cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is no URL.
    #[error("{text} is not a URL: {source}")]
    NotUrl {
        /// The address.
        text: String,
        /// What is wrong with it.
        source: InvalidUri,
    },
    /// The address is of something else.
    #[error("{0} is not an http or https URL")]
    NotHttp(String),
    /// A protocol that is not supported.
    #[error("{0} is not supported, only http/protobuf, which collectors serve at port 4318")]
    Protocol(String),
    /// The exporter refuses its settings.
    #[error(transparent)]
    Exporter(#[from] ExporterBuildError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// The export of spans, until [`Traces::stop`].
pub struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Starts the export to the collector at `endpoint` or, without it, at that of OpenTelemetry's environment variables.
    /// Returns `None` if neither names one. `authorities` are trusted in addition to the machine's. Needs a runtime.
    ///
    /// # Errors
    /// If the settings are not valid. An unreachable collector is no error.
    pub fn start(
        endpoint: Option<&str>,
        authorities: &[CertificateDer<'static>],
    ) -> Result<Option<Self>, Error> {
        let set = |name: &str| std::env::var(name);
        let Some(address) = address(endpoint, set) else { return Ok(None) };
        protocol(set)?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Client::new(authorities)?)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(checked(address)?)
            .build()?;
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource()).build();
        Ok(Some(Self { provider }))
    }

    /// Returns the layer that takes spans from `tracing`: those of calls, and those that run within one.
    pub fn layer<S>(&self) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let filter = dynamic_filter_fn::<S, _>(|metadata, context| {
            // What the service does in the background is no trace of a request.
            metadata.name() == "call" || context.lookup_current().is_some()
        });
        let filter = filter.with_max_level_hint(LevelFilter::DEBUG).with_callsite_filter(|metadata| {
            // Log lines are never part of a trace: they may name users.
            match metadata.is_span() && [CALLS, QUERIES].contains(&metadata.target()) {
                true => Interest::sometimes(),
                false => Interest::never(),
            }
        });
        OpenTelemetryLayer::new(self.provider.tracer(SERVICE_NAME))
            .with_context_activation(false)
            .with_location(false)
            .with_target(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(filter)
            .boxed()
    }

    /// Sends what waits, for a bounded time, and ends the export.
    pub async fn stop(self) {
        // It blocks, and the runtime must go on to send.
        let stopped = tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(FLUSH_WITHIN));
        match stopped.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the last spans may be lost"),
            Err(error) => tracing::warn!(%error, "the last spans may be lost"),
        }
    }
}

/// Returns the address that batches are sent to. `set` returns a variable of the environment.
fn address(endpoint: Option<&str>, set: impl Fn(&str) -> Result<String, VarError>) -> Option<String> {
    let below = |base: &str| format!("{}/{PATH}", base.trim_end_matches('/'));
    let set = |name| set(name).ok().filter(|text| !text.is_empty());
    endpoint
        .map(below)
        .or_else(|| set(opentelemetry_otlp::OTEL_EXPORTER_OTLP_TRACES_ENDPOINT))
        .or_else(|| set(opentelemetry_otlp::OTEL_EXPORTER_OTLP_ENDPOINT).map(|base| below(&base)))
}

/// Refuses protocols other than protobuf over HTTP: a collector does not understand one at the port of another.
fn protocol(set: impl Fn(&str) -> Result<String, VarError>) -> Result<(), Error> {
    use opentelemetry_otlp::{
        OTEL_EXPORTER_OTLP_PROTOCOL as GENERAL, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL as TRACES,
    };
    let named = [TRACES, GENERAL]
        .into_iter()
        .find_map(|name| Some((name, set(name).ok().filter(|text| !text.is_empty())?)));
    match named {
        Some((name, protocol)) if protocol != "http/protobuf" => {
            Err(Error::Protocol(format!("{name}={protocol}")))
        }
        _ => Ok(()),
    }
}

fn checked(address: String) -> Result<String, Error> {
    let uri: Uri = match address.parse() {
        Ok(uri) => uri,
        Err(source) => return Err(Error::NotUrl { text: address, source }),
    };
    match uri.scheme_str() {
        Some("http" | "https") => Ok(address),
        _ => Err(Error::NotHttp(address)),
    }
}

/// What the environment says about this process, with a name of the service if it gives none.
fn resource() -> Resource {
    let key = Key::from_static_str("service.name");
    let named = Resource::builder().build().get(&key);
    let is_named = named.is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let version = KeyValue::new("service.version", Value::from(env!("CARGO_PKG_VERSION")));
    let resource = Resource::builder().with_attribute(version);
    if is_named { resource.build() } else { resource.with_service_name(SERVICE_NAME).build() }
}

/// Sends batches, and logs when that begins to fail and when it works again.
#[derive(Debug)]
struct Client {
    inner: HyperClient<HttpsConnector<HttpConnector>>,
    /// The SDK's thread has no runtime of its own.
    runtime: Handle,
    is_failing: AtomicBool,
}

impl Client {
    fn new(authorities: &[CertificateDer<'static>]) -> Result<Self, rustls::Error> {
        let inner = HyperClient::new(tls::connector(authorities)?, SEND_WITHIN, None);
        Ok(Self { inner, runtime: Handle::current(), is_failing: AtomicBool::new(false) })
    }

    /// Logs a change. The collector's answers and addresses stay out of the log, as they may have secrets.
    fn note(&self, sent: &Result<Response<Bytes>, HttpError>) {
        let fault = match sent {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("it answered {}", response.status())),
            Err(error) => Some(error.to_string()),
        };
        let was_failing = self.is_failing.swap(fault.is_some(), Ordering::Relaxed);
        match fault {
            Some(fault) if !was_failing => {
                tracing::warn!(fault, "the collector does not take spans; they are lost until it does");
            }
            None if was_failing => tracing::info!("the collector takes spans again"),
            _ => {}
        }
    }
}

#[tonic::async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let inner = self.inner.clone();
        let sent = self.runtime.spawn(async move { inner.send_bytes(request).await }).await?;
        self.note(&sent);
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Set = &'static [(&'static str, &'static str)];

    fn environment(set: Set) -> impl Fn(&str) -> Result<String, VarError> {
        move |name| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned()).ok_or(VarError::NotPresent)
        }
    }

    #[test]
    fn a_flag_counts_before_the_variable_for_traces_and_that_before_the_general_one() {
        const GENERAL: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://general:4318/base/");
        const TRACES: (&str, &str) = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:4318/own");
        let table: [(Option<&str>, Set, Option<&str>); 5] = [
            (None, &[], None),
            (None, &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")], None),
            (None, &[GENERAL], Some("http://general:4318/base/v1/traces")),
            (None, &[GENERAL, TRACES], Some("http://traces:4318/own")),
            (Some("https://flag:4318"), &[GENERAL, TRACES], Some("https://flag:4318/v1/traces")),
        ];
        for (flag, set, expected) in table {
            assert_eq!(address(flag, environment(set)).as_deref(), expected, "{flag:?} {set:?}");
        }
    }

    #[test]
    fn what_cannot_be_exported_to_is_refused_at_the_start() {
        assert!(checked("http://collector:4318/v1/traces".to_owned()).is_ok());
        for wrong in ["collector:4318", "grpc://collector:4317", "/v1/traces", "http://a b"] {
            assert!(checked(wrong.to_owned()).is_err(), "{wrong}");
        }
        assert!(protocol(environment(&[])).is_ok());
        assert!(protocol(environment(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")])).is_ok());
        let refused = protocol(environment(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")])).unwrap_err();
        assert!(
            refused.to_string().starts_with("OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not supported"),
            "{refused}"
        );
    }
}
