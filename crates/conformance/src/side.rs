//! One of the two servers: sends requests and receives answers.

use std::time::Duration;

use http::Request;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The timeout of an answer, including the whole of a watch.
const PATIENCE: Duration = Duration::from_secs(60);
/// The user agent of requests. It is the same on both sides, because the names of field managers are derived from it.
const USER_AGENT: &str = "twin/1";

/// A server, with the client that reaches it.
#[derive(Clone)]
pub struct Side {
    client: Client,
}

/// An answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The HTTP code; 0 without an answer.
    pub code: u16,
    /// The texts of `Warning` headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The media type.
    #[serde(rename = "type")]
    pub media: String,
    /// The body; a string if it is not JSON, an array of events for a watch.
    pub body: Value,
}

/// A request with all references replaced.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub uri: String,
    /// Headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<String>,
    /// Whether the answer is a stream of events.
    pub is_watch: bool,
}

impl Side {
    /// Creates a side from a client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Sends a request, and waits for the whole answer.
    pub async fn ask(&self, asked: &Asked) -> Answer {
        match tokio::time::timeout(PATIENCE, self.try_ask(asked)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Answer { body: Value::String(error), ..Answer::default() },
            Err(_) => {
                Answer { body: Value::String(format!("no answer within {PATIENCE:?}")), ..Answer::default() }
            }
        }
    }

    async fn try_ask(&self, asked: &Asked) -> Result<Answer, String> {
        let mut request =
            Request::builder().method(asked.method.as_str()).uri(&asked.uri).header("user-agent", USER_AGENT);
        for (name, value) in &asked.headers {
            request = request.header(name, value);
        }
        let body = asked.body.clone().unwrap_or_default().into_bytes();
        let request = request.body(Body::from(body)).map_err(|error| error.to_string())?;
        let response = self.client.send(request).await.map_err(|error| error.to_string())?;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
        let header = |name| parts.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let media = header("content-type").next().unwrap_or_default().split(';').next().unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let code = parts.status.as_u16();
        let body = if asked.is_watch && code == 200 { events(&text) } else { parse(&text) };
        Ok(Answer { code, warnings: header("warning").map(warning).collect(), media: media.to_owned(), body })
    }
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

fn events(text: &str) -> Value {
    Value::Array(text.lines().map(parse).collect())
}

/// Returns the text of a `Warning` header: `299 - "text"`.
fn warning(header: &str) -> String {
    let text = header.strip_prefix("299 - \"").and_then(|rest| rest.strip_suffix('"')).unwrap_or(header);
    text.replace("\\\"", "\"").replace("\\\\", "\\")
}
