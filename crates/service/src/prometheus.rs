//! Asks a Prometheus, or another server with its HTTP API such as Thanos Query, as the service. A query has a bound of
//! time, of size, and of how many run at once.
//!
//! The address and the token of the server stay out of answers and of the log.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::uri::InvalidUri;
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::pki_types::CertificateDer;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::tls;

/// How long everything that one call asks may take.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The most queries at once, of all calls.
const QUERIES: usize = 8;
/// The most bytes of an answer.
const MOST_BYTES: usize = 4 << 20;
/// The most bytes of a token.
const LONGEST_TOKEN: usize = 16 << 10;
/// The most idle connections.
const IDLE: usize = 4;

/// Why a Prometheus cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is no URL.
    #[error("the address of Prometheus is not a URL: {0}")]
    NotUrl(#[from] InvalidUri),
    /// The address is of something else.
    #[error("the address of Prometheus is not an http or https URL without a query")]
    NotHttp,
    /// The address has a user or a password, which others can read.
    #[error("the address of Prometheus has a user or a password; give a file with a token")]
    Credentials,
    /// A token would be sent without encryption.
    #[error("a token is sent to Prometheus over https only, or to loopback")]
    TokenInTheClear,
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// Why a query has no answer, for people: it completes "Prometheus …".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Fault {
    /// It takes too long.
    #[error("does not answer within {} s", ANSWER_WITHIN.as_secs())]
    Slow,
    /// There is no connection.
    #[error("cannot be reached")]
    Away,
    /// The service's token is missing or not enough.
    #[error("refuses the service's token (HTTP {0})")]
    Refused(u16),
    /// Another status.
    #[error("answers with HTTP {0}")]
    Status(u16),
    /// The body is too large.
    #[error("answers with more than {} MiB", MOST_BYTES >> 20)]
    TooLarge,
    /// The body is something else.
    #[error("answers with something else than a result")]
    NotUnderstood,
    /// The token's file.
    #[error("cannot be asked, because the service cannot read its token")]
    NoToken,
}

/// The moments of a range query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub start: Timestamp,
    /// None is later.
    pub end: Timestamp,
    /// The seconds between them.
    pub step: i64,
}

/// A series of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its finite values, the oldest first.
    pub points: Vec<(Timestamp, f64)>,
}

/// A Prometheus.
#[derive(Clone)]
pub struct Prometheus(Arc<Inner>);

struct Inner {
    range: Uri,
    instant: Uri,
    /// The file with the token. It is read for each query, because tokens of pods are replaced.
    token: Option<PathBuf>,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    turns: Semaphore,
    is_failing: AtomicBool,
}

impl fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prometheus").finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Answer {
    status: String,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<(f64, String)>,
    value: Option<(f64, String)>,
}

impl Prometheus {
    /// Prepares queries to the Prometheus at `url`, with the token in a file, if it needs one. `authorities` are trusted in
    /// addition to the machine's. Connects to nothing yet.
    ///
    /// # Errors
    /// If the settings are not valid.
    pub fn new(
        url: &str,
        token: Option<PathBuf>,
        authorities: &[CertificateDer<'static>],
    ) -> Result<Self, Error> {
        let base = checked(url, token.is_some())?;
        let connector = tls::connector(authorities)?;
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(IDLE).build(connector);
        Ok(Self(Arc::new(Inner {
            range: format!("{base}/api/v1/query_range").parse()?,
            instant: format!("{base}/api/v1/query").parse()?,
            token,
            client,
            turns: Semaphore::new(QUERIES),
            is_failing: AtomicBool::new(false),
        })))
    }

    /// Returns the series of a query over a range.
    ///
    /// # Errors
    /// If there is no answer `until` then, or none that has series.
    pub async fn range(&self, query: &str, over: Range, until: Instant) -> Result<Vec<Found>, Fault> {
        let (start, end) = (over.start.as_second(), over.end.as_second());
        let times = format!("start={start}&end={end}&step={}", over.step);
        self.ask(&self.0.range, query, &times, until).await
    }

    /// Returns the values of a query at a moment.
    ///
    /// # Errors
    /// As [`Prometheus::range`].
    pub async fn at(&self, query: &str, at: Timestamp, until: Instant) -> Result<Vec<Found>, Fault> {
        self.ask(&self.0.instant, query, &format!("time={}", at.as_second()), until).await
    }

    async fn ask(&self, to: &Uri, query: &str, times: &str, until: Instant) -> Result<Vec<Found>, Fault> {
        let asked = tokio::time::timeout_at(until, async {
            let _turn = self.0.turns.acquire().await;
            let within = until.saturating_duration_since(Instant::now()).as_millis().max(1);
            let query = utf8_percent_encode(query, NON_ALPHANUMERIC);
            self.send(to, format!("query={query}&{times}&timeout={within}ms")).await
        });
        let answer = asked.await.unwrap_or(Err(Fault::Slow));
        self.note(answer.as_ref().err());
        answer
    }

    /// Posts a form: a URL may be shorter than a query with the names of many pods.
    async fn send(&self, to: &Uri, form: String) -> Result<Vec<Found>, Fault> {
        let mut request = Request::post(to)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"))
            .body(Full::from(form))
            .map_err(|_| Fault::Away)?;
        if let Some(token) = self.token().await? {
            request.headers_mut().insert(AUTHORIZATION, token);
        }
        let answer = self.0.client.request(request).await.map_err(|_| Fault::Away)?;
        match answer.status() {
            StatusCode::OK => {}
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                return Err(Fault::Refused(status.as_u16()));
            }
            status => return Err(Fault::Status(status.as_u16())),
        }
        let body = Limited::new(answer.into_body(), MOST_BYTES).collect().await;
        let body = body.map_err(|error| match error.is::<http_body_util::LengthLimitError>() {
            true => Fault::TooLarge,
            false => Fault::Away,
        })?;
        series(&body.to_bytes())
    }

    async fn token(&self) -> Result<Option<HeaderValue>, Fault> {
        let Some(file) = &self.0.token else { return Ok(None) };
        let text = tokio::fs::read_to_string(file).await.map_err(|_| Fault::NoToken)?;
        let token = text.trim();
        if token.is_empty() || token.len() > LONGEST_TOKEN {
            return Err(Fault::NoToken);
        }
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| Fault::NoToken)?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// Logs a change.
    fn note(&self, fault: Option<&Fault>) {
        let was_failing = self.0.is_failing.swap(fault.is_some(), Ordering::Relaxed);
        match fault {
            Some(fault) if !was_failing => tracing::warn!("Prometheus {fault}; jobs' metrics lack its part"),
            None if was_failing => tracing::info!("Prometheus answers again"),
            _ => {}
        }
    }
}

/// Returns the address without a slash at its end.
fn checked(url: &str, has_token: bool) -> Result<&str, Error> {
    let uri: Uri = url.parse()?;
    let authority = uri.authority().ok_or(Error::NotHttp)?;
    if authority.as_str().contains('@') {
        return Err(Error::Credentials);
    }
    let is_loopback = matches!(authority.host(), "localhost" | "127.0.0.1" | "[::1]");
    match uri.scheme_str() {
        Some("https" | "http") if uri.query().is_some() || url.contains('#') => Err(Error::NotHttp),
        Some("http") if has_token && !is_loopback => Err(Error::TokenInTheClear),
        Some("https" | "http") => Ok(url.trim_end_matches('/')),
        _ => Err(Error::NotHttp),
    }
}

/// Reads the series of an answer.
fn series(body: &[u8]) -> Result<Vec<Found>, Fault> {
    let answer: Answer = serde_json::from_slice(body).map_err(|_| Fault::NotUnderstood)?;
    if answer.status != "success" {
        return Err(Fault::NotUnderstood);
    }
    let point = |(second, value): (f64, String)| {
        #[expect(clippy::cast_possible_truncation, reason = "a time that does not fit is refused below")]
        let at = Timestamp::from_second(second as i64).ok()?;
        let value: f64 = value.parse().ok()?;
        value.is_finite().then_some((at, value))
    };
    let found = |series: Series| Found {
        labels: series.metric,
        points: series.values.into_iter().chain(series.value).filter_map(point).collect(),
    };
    Ok(answer.data.result.into_iter().map(found).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_no_secret_and_a_token_is_never_sent_in_the_clear() {
        let wrong = |url: &str, token: bool| checked(url, token).unwrap_err().to_string();
        for (url, token) in [
            ("http://prometheus.monitoring.svc:9090/", false),
            ("https://thanos.monitoring.svc:9091/select", true),
            ("http://127.0.0.1:9090", true),
        ] {
            assert_eq!(checked(url, token).unwrap(), url.trim_end_matches('/'));
        }
        assert!(wrong("https://jane:secret@prometheus", false).contains("password"));
        assert!(!wrong("https://jane:secret@prometheus", false).contains("secret"));
        assert!(wrong("http://prometheus:9090", true).contains("https only"));
        for url in ["prometheus:9090", "/prometheus", "ftp://prometheus", "http://a b", "http://a/?x=1"] {
            assert!(checked(url, false).is_err(), "{url}");
        }
    }

    #[test]
    fn an_answer_is_read_without_what_is_no_number() {
        let body = br#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"pod":"a"},
            "values":[[10,"1.5"],[20.5,"NaN"],[30,"+Inf"],[40,"2"],[1e300,"3"]]}]},"warnings":["partial"]}"#;
        let at = |second| Timestamp::from_second(second).unwrap();
        let found = series(body).unwrap();
        assert_eq!(found[0].points, [(at(10), 1.5), (at(40), 2.0)]);
        let one = br#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[10,"7"]}]}}"#;
        assert_eq!(series(one).unwrap()[0].points, [(at(10), 7.0)]);
        for other in [&b"<html>"[..], b"{}", br#"{"status":"error","data":{"result":[]}}"#] {
            assert_eq!(series(other), Err(Fault::NotUnderstood));
        }
    }
}
