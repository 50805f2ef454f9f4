//! The `clientConfig` of a webhook: where it listens, and which CAs to trust (`WebhookClientConfig`).

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;

/// A webhook's address and the CAs to trust.
pub struct WebhookClientConfig {
    /// Where it listens.
    pub target: Target,
    /// The path, with a leading slash.
    pub path: String,
    /// How to verify its certificate, or why its CAs cannot be read.
    pub trust: Result<Arc<ClientConfig>, String>,
}

/// Where a webhook listens.
pub enum Target {
    /// A host and a port.
    Host(String, u16),
    /// A port of a Service.
    Service {
        /// The namespace of the Service.
        namespace: String,
        /// Its name.
        name: String,
        /// The port.
        port: u16,
    },
}

impl WebhookClientConfig {
    /// Parses a `clientConfig`.
    pub fn of(config: &Value) -> Self {
        let trust = trust(config["caBundle"].as_str().unwrap_or_default());
        if let Some(url) = config["url"].as_str() {
            // Validation rejects invalid URLs; an empty host fails to connect.
            let uri = url.parse::<Uri>().unwrap_or_default();
            let host = uri.host().unwrap_or_default().to_owned();
            return Self {
                target: Target::Host(host, uri.port_u16().unwrap_or(443)),
                path: uri.path().to_owned(),
                trust,
            };
        }
        let service = &config["service"];
        let text = |field: &str| service[field].as_str().unwrap_or_default().to_owned();
        let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443);
        let path = text("path");
        let path = if path.starts_with('/') { path } else { format!("/{path}") };
        Self {
            target: Target::Service { namespace: text("namespace"), name: text("name"), port },
            path,
            trust,
        }
    }

    /// Formats the URL, with the timeout of a call, for messages.
    pub fn url(&self, timeout: Duration) -> String {
        let authority = match &self.target {
            Target::Host(host, 443) => host.clone(),
            Target::Host(host, port) => format!("{host}:{port}"),
            Target::Service { namespace, name, port } => format!("{name}.{namespace}.svc:{port}"),
        };
        format!("https://{authority}{}?timeout={}s", self.path, timeout.as_secs())
    }
}

fn trust(bundle: &str) -> Result<Arc<ClientConfig>, String> {
    if bundle.is_empty() {
        static SYSTEM: LazyLock<Result<Arc<ClientConfig>, String>> = LazyLock::new(|| {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            client_config(roots)
        });
        return SYSTEM.clone();
    }
    let pem = STANDARD.decode(bundle).map_err(|error| format!("caBundle is no base64: {error}"))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| format!("caBundle is no PEM: {error}"))?;
        roots.add(certificate).map_err(|error| format!("caBundle: {error}"))?;
    }
    if roots.is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
    }
    client_config(roots)
}

fn client_config(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
