//! The bucket of packed logs: of Amazon S3, or of a server with its API.
//!
//! `object_store` signs the requests and tries them again, a bounded number of times. Its own transport, reqwest, brings
//! aws-lc; this one is hyper with rustls and ring, as for everything else that leaves this program. An answer is read whole, up
//! to a maximum, within the time of its request. Credentials come from a file or from the environment, and are in no error.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::Uri;
use http_body_util::{BodyExt as _, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential};
use object_store::client::{
    HttpClient, HttpConnector as Connect, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpService,
};
use object_store::path::Path as Key;
use object_store::prefix::PrefixStore;
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, CredentialProvider, ObjectStore, RetryConfig,
};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use crate::error::{BucketFault, Error};

/// How long a connection may take, and one attempt with it.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const TRY_WITHIN: Duration = Duration::from_secs(15);
/// How often a request is tried again, and until when.
const RETRIES: usize = 3;
const RETRY_WITHIN: Duration = Duration::from_secs(30);
const BACKOFF: BackoffConfig = BackoffConfig {
    init_backoff: Duration::from_millis(100),
    max_backoff: Duration::from_secs(2),
    base: 2.0,
};
/// How long a connection without a request stays open.
const IDLE_FOR: Duration = Duration::from_secs(30);
/// The maximum size of an answer in bytes: a chunk has less, and a page of a list has a thousand names.
const MAX_ANSWER: usize = 32 << 20;
/// The maximum number of characters of an answer in an error.
const MAX_DETAIL: usize = 300;
/// What servers call a lack of space: Amazon and Ceph, MinIO, others.
const FULL: [&str; 4] = ["QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "InsufficientCapacity"];

/// Which bucket, and how it is reached. What is not given is read from the environment, in the variables of AWS' own tools.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// What the names of objects begin with; nothing if empty.
    pub prefix: String,
    /// The address of a server other than Amazon's, `http` or `https`.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// A file with the access key's id, on the next line the secret, and on the next a session token, if there is one. Read for
    /// each request, so that keys can be replaced.
    pub credentials: Option<PathBuf>,
    /// Certificate authorities in addition to those of the machine.
    pub authorities: Vec<CertificateDer<'static>>,
    /// How long one attempt may take, from its beginning to the last byte of the answer.
    pub try_within: Duration,
}

impl Default for Bucket {
    fn default() -> Self {
        Self {
            name: String::new(),
            prefix: String::new(),
            endpoint: None,
            region: None,
            credentials: None,
            authorities: Vec::new(),
            try_within: TRY_WITHIN,
        }
    }
}

/// Opens a bucket, without a request. `id` is part of the names of all objects.
pub(super) fn open(bucket: &Bucket, id: &str) -> Result<Arc<dyn ObjectStore>, Error> {
    let invalid = |error: &dyn Display| Error::Invalid(format!("the bucket for logs: {error}"));
    let Bucket { name, prefix, endpoint, region, credentials, authorities, try_within } = bucket;
    let tls = trusting(authorities).map_err(|error| invalid(&error))?;
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(name)
        // Chunks are removed one by one, and not every server knows the request for many.
        .with_config(AmazonS3ConfigKey::DisableBulkDelete, "true")
        .with_http_connector(Transports { tls, try_within: *try_within })
        .with_retry(RetryConfig { backoff: BACKOFF, max_retries: RETRIES, retry_timeout: RETRY_WITHIN });
    if let Some(endpoint) = endpoint {
        let uri: Uri = endpoint.parse().map_err(|error| invalid(&format!("{endpoint}: {error}")))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(invalid(&format!("{endpoint} is not an http or https URL")));
        }
        builder = builder
            .with_config(AmazonS3ConfigKey::S3Endpoint, endpoint)
            .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp), "true");
    }
    if let Some(region) = region {
        builder = builder.with_region(region);
    }
    if let Some(file) = credentials {
        builder = builder.with_credentials(Arc::new(FromFile(file.clone())));
    }
    let opened = builder.build().map_err(|error| invalid(&error))?;
    let below = Key::parse(format!("{}/{id}", prefix.trim_matches('/')).trim_matches('/'));
    Ok(Arc::new(PrefixStore::new(opened, below.map_err(|error| invalid(&error))?)))
}

/// Credentials in a file.
#[derive(Debug)]
struct FromFile(PathBuf);

#[async_trait]
impl CredentialProvider for FromFile {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let refused = |source: Box<dyn std::error::Error + Send + Sync>| {
            object_store::Error::Unauthenticated { path: self.0.display().to_string(), source }
        };
        let text = tokio::fs::read_to_string(&self.0).await.map_err(|error| refused(error.into()))?;
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned);
        match (lines.next(), lines.next()) {
            (Some(key_id), Some(secret_key)) => {
                Ok(Arc::new(AwsCredential { key_id, secret_key, token: lines.next() }))
            }
            _ => Err(refused("expected the access key's id and, on the next line, the secret".into())),
        }
    }
}

fn trusting(authorities: &[CertificateDer<'static>]) -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for authority in authorities {
        roots.add(authority.clone())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Makes a transport for the bucket, and one for each service that gives out credentials.
#[derive(Debug)]
struct Transports {
    tls: ClientConfig,
    try_within: Duration,
}

impl Connect for Transports {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let mut plain = HttpConnector::new();
        plain.enforce_http(false);
        plain.set_connect_timeout(Some(CONNECT_WITHIN));
        let builder = HttpsConnectorBuilder::new().with_tls_config(self.tls.clone());
        let may_be_plain = options.get_config_value(&ClientConfigKey::AllowHttp).as_deref() == Some("true");
        let builder = if may_be_plain { builder.https_or_http() } else { builder.https_only() };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_FOR)
            .build(builder.enable_http1().wrap_connector(plain));
        Ok(HttpClient::new(Transport { client, try_within: self.try_within }))
    }
}

#[derive(Debug)]
struct Transport {
    client: Client<HttpsConnector<HttpConnector>, HttpRequestBody>,
    try_within: Duration,
}

#[async_trait]
impl HttpService for Transport {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let exchange = async {
            let answer = self.client.request(request).await.map_err(|error| {
                let kind =
                    if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Interrupted };
                HttpError::new(kind, error)
            })?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await;
            let body = body.map_err(|error| HttpError::new_boxed(HttpErrorKind::Interrupted, error))?;
            Ok(HttpResponse::from_parts(head, body.to_bytes().into()))
        };
        let answered = tokio::time::timeout(self.try_within, exchange).await;
        answered.unwrap_or_else(|late| Err(HttpError::new(HttpErrorKind::Timeout, late)))
    }
}

/// Whether it is the object that is absent, not the bucket.
pub(super) fn is_absent(error: &object_store::Error) -> bool {
    let missing = || matches!(failed(error), Error::Bucket { fault: BucketFault::Missing, .. });
    matches!(error, object_store::Error::NotFound { .. }) && !missing()
}

/// Classifies what a bucket answered. The answer is an XML document with a code, a message and other elements, among them the
/// id of the key; only the first two are kept.
pub(super) fn failed(error: &object_store::Error) -> Error {
    use object_store::Error as Failed;
    let text = chain(error);
    let (code, message) = (element(&text, "Code"), element(&text, "Message"));
    // Lists have no kind of error for this.
    let is_answer = |status: u16| text.contains(&format!("status code: {status} "));
    let fault = match (error, code) {
        (_, Some("NoSuchBucket")) => BucketFault::Missing,
        (_, Some(code)) if FULL.contains(&code) => BucketFault::Full,
        _ if is_answer(507) => BucketFault::Full,
        (Failed::PermissionDenied { .. } | Failed::Unauthenticated { .. }, _) => BucketFault::Refused,
        _ if is_answer(401) || is_answer(403) => BucketFault::Refused,
        _ => BucketFault::Away,
    };
    let detail = match (code, message) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => text.split("<?xml").next().unwrap_or_default().to_owned(),
    };
    Error::Bucket { fault, detail: detail.chars().take(MAX_DETAIL).collect() }
}

/// Returns the texts of an error and its sources, each once.
fn chain(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// Returns the text of an XML element.
fn element<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_code_and_the_message_of_an_answer_are_kept() {
        let answer = "<?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code><Message>No</Message>\
                      <AWSAccessKeyId>AKIA</AWSAccessKeyId></Error>";
        let error = object_store::Error::PermissionDenied { path: "x".to_owned(), source: answer.into() };
        let Error::Bucket { fault, detail } = failed(&error) else { unreachable!() };
        assert_eq!((fault, detail.as_str()), (BucketFault::Refused, "SignatureDoesNotMatch: No"));
        let away = object_store::Error::Generic { store: "S3", source: "tcp connect error".into() };
        let Error::Bucket { fault, detail } = failed(&away) else { unreachable!() };
        assert!(fault == BucketFault::Away && detail.contains("tcp connect error"), "{detail}");
        let full = answer.replace("SignatureDoesNotMatch", "XMinioStorageFull");
        let full = object_store::Error::Generic { store: "S3", source: full.into() };
        assert!(matches!(failed(&full), Error::Bucket { fault: BucketFault::Full, .. }));
    }

    #[test]
    fn settings_that_cannot_work_are_refused_at_once() {
        let open = |endpoint: &str, prefix: &str| {
            let bucket = Bucket {
                name: "logs".to_owned(),
                prefix: prefix.to_owned(),
                endpoint: Some(endpoint.to_owned()),
                credentials: Some("/nowhere".into()),
                ..Bucket::default()
            };
            open(&bucket, "id").map(|_| ())
        };
        assert!(open("https://s3.example.com", "a/b/").is_ok());
        for (endpoint, prefix) in
            [("s3.example.com", ""), ("ftp://x", ""), ("http://a b", ""), ("http://x", "a//b")]
        {
            assert!(matches!(open(endpoint, prefix), Err(Error::Invalid(_))), "{endpoint} {prefix}");
        }
    }
}
