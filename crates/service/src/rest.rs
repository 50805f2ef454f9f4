//! The methods over REST: from path, query and body to a request, from an answer to JSON.
//!
//! Nothing that a client sends is trusted: the body is read only once the caller is known, it is bounded, every name and
//! value is read by the types of the contract, and what does not fit is a problem that names the field.

use std::future::Future;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use connections::{JsonLimits, JsonRefused, MOST_JSON_VALUES, Share};
use futures::FutureExt as _;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Response, StatusCode, header};
use jobs::mistyped::{Mistyped, typed};
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::Interval;

use crate::attachment;
use crate::body::{self, Bounded, MAX_BODY};
use crate::call;
use crate::contract::{Addressed, Answer, ArtifactChunk, Field, FieldKind, Method};
use crate::identity::Caller;
use crate::interval::every;
use crate::problem::Problem;
use crate::response::{refuse, respond};
use crate::service::Service;
use crate::spans;

/// What a body may consist of.
const JSON_LIMITS: JsonLimits = JsonLimits { containers: 50_000, container_bytes: 640 };
/// The most bytes of a stream that are sent at once.
const CHUNK: usize = 32 << 10;
/// What to do where nothing better is known.
const DOCS: &str = "see /docs for the fields of this request";
/// The header with which a client repeats a creation.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The header with which a browser continues a stream.
const LAST_EVENT_ID: &str = "last-event-id";

/// Calls a method that answers once.
pub async fn unary<Q, M, A, F, R>(
    service: &Arc<Service>,
    method: &'static Method,
    request: Request,
    run: F,
) -> Response<Body>
where
    Q: Addressed + DeserializeOwned + Send + 'static,
    A: Answer<M>,
    F: FnOnce(Arc<Service>, Arc<Caller>, Q) -> R,
    R: Future<Output = Result<A, Problem>>,
{
    let span = spans::rest(method, request.headers());
    let answered = async {
        let (parts, body) = request.into_parts();
        let admitted = call::admit(service, method, &parts.headers).await?;
        let message = read(method, parts, body, admitted.share.clone());
        let message = call::read(service, method, &admitted, message).await?;
        call::unary(service, method, admitted, message, run).await
    };
    match spans::answer(span, answered).await {
        Ok(answer) => respond(StatusCode::OK, answer.content_type(), answer.json().into()),
        Err(problem) => refuse(&problem),
    }
}

/// Calls a method that answers with a stream.
pub async fn stream<Q, M: 'static, A, F, R>(
    service: &Arc<Service>,
    method: &'static Method,
    request: Request,
    run: F,
) -> Response<Body>
where
    Q: Addressed + DeserializeOwned + Send + 'static,
    A: Answer<M>,
    F: FnOnce(Arc<Service>, Arc<Caller>, Q) -> R,
    R: Future<Output = Result<BoxStream<'static, Result<A, Problem>>, Problem>>,
{
    let framing = match request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok()) {
        Some(accept) if accept.contains("text/event-stream") => Framing::Events,
        _ => Framing::Lines,
    };
    let span = spans::rest(method, request.headers());
    let answered = async {
        let (parts, body) = request.into_parts();
        let admitted = call::admit(service, method, &parts.headers).await?;
        let message = read(method, parts, body, admitted.share.clone());
        let message = call::read(service, method, &admitted, message).await?;
        call::stream(service, method, admitted, message, run).await
    };
    match spans::answer(span, answered).await {
        Ok(items) => {
            let frames = frames(items, framing, every(service.settings.heartbeat));
            respond(StatusCode::OK, framing.content_type(), Body::from_stream(frames))
        }
        Err(problem) => refuse(&problem),
    }
}

/// Calls a method that answers with a file: its first item says what follows, the others are the content.
pub async fn file<Q, F, R>(
    service: &Arc<Service>,
    method: &'static Method,
    request: Request,
    run: F,
) -> Response<Body>
where
    Q: Addressed + DeserializeOwned + Send + 'static,
    F: FnOnce(Arc<Service>, Arc<Caller>, Q) -> R,
    R: Future<Output = Result<BoxStream<'static, Result<ArtifactChunk, Problem>>, Problem>>,
{
    let span = spans::rest(method, request.headers());
    let answered = async {
        let (parts, body) = request.into_parts();
        let admitted = call::admit(service, method, &parts.headers).await?;
        let message = read(method, parts, body, admitted.share.clone());
        let message = call::read(service, method, &admitted, message).await?;
        let mut chunks = call::stream(service, method, admitted, message, run).await?;
        let head = chunks.next().await.unwrap_or_else(|| Ok(ArtifactChunk::default()))?;
        Ok((head, chunks))
    };
    match spans::answer(span, answered).await {
        // A problem from here on cuts the response off, which a client notices by the length.
        Ok((head, chunks)) => {
            let content = chunks.map(|chunk| chunk.map(|chunk| Bytes::from(chunk.data)));
            let content = Body::from_stream(content);
            let mut response = respond(StatusCode::OK, attachment::MEDIA_TYPE, content);
            attachment::mark(&mut response, &head);
            response
        }
        Err(problem) => refuse(&problem),
    }
}

/// Reads a request's message from its path, query, headers and body. `share` is the caller's memory for it.
async fn read<Q: DeserializeOwned + Send + 'static>(
    method: &'static Method,
    parts: Parts,
    body: Body,
    share: Arc<Share>,
) -> Result<Q, Problem> {
    if !method.body {
        return message(method, &parts, Map::new());
    }
    let bytes = Bounded::new(body, share.clone(), MAX_BODY).bytes().await?;
    let form = Form::of(method, &parts.headers);
    if matches!(form, Form::Json) {
        JSON_LIMITS.take(&bytes, &share).map_err(|refused| match refused {
            JsonRefused::TooMany => too_many_parts(),
            JsonRefused::NoMemory(exhausted) => body::exhausted(exhausted),
        })?;
    }
    body::parse(bytes.len(), move || message(method, &parts, object(form, bytes)?)).await
}

fn too_many_parts() -> Problem {
    let fault = format!(
        "the body has more than {} objects and lists, or more than {MOST_JSON_VALUES} values",
        JSON_LIMITS.containers
    );
    let problem = Problem::usage("", fault, "send fewer at once");
    Problem { status: StatusCode::PAYLOAD_TOO_LARGE, ..problem }
}

/// Returns the message that a body, with path, query and headers, makes.
fn message<Q: DeserializeOwned>(
    method: &Method,
    parts: &Parts,
    mut message: Map<String, Value>,
) -> Result<Q, Problem> {
    from_query(method, parts.uri.query().unwrap_or_default(), &mut message)?;
    from_header(method, &parts.headers, IDEMPOTENCY_KEY, "idempotencyKey", &mut message)?;
    from_header(method, &parts.headers, LAST_EVENT_ID, "lastEventId", &mut message)?;
    from_header(method, &parts.headers, LAST_EVENT_ID, "cursor", &mut message)?;
    from_path(method, parts.uri.path(), &mut message)?;
    message.retain(|_, value| !value.is_null());
    typed(Value::Object(message)).map_err(|Mistyped { path, fault, fix }| {
        let fix = if fix.is_empty() { DOCS.to_owned() } else { fix };
        Problem::usage(&path, fault, fix)
    })
}

/// The form of a body.
enum Form {
    Json,
    /// A manifest as it is.
    Yaml,
    Other(String),
}

impl Form {
    fn of(method: &Method, headers: &HeaderMap) -> Self {
        let content_type =
            headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let takes_manifest = method.fields.iter().any(|field| field.name == "manifest");
        match essence.as_str() {
            "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml" if takes_manifest => {
                Self::Yaml
            }
            "" | "application/json" => Self::Json,
            _ => Self::Other(essence),
        }
    }
}

/// Reads a body: a JSON object, or a manifest as it is.
fn object(form: Form, bytes: Bytes) -> Result<Map<String, Value>, Problem> {
    match form {
        Form::Yaml => {
            let text = String::from_utf8(bytes.into())
                .map_err(|_| Problem::usage("manifest", "is not UTF-8", "send text in UTF-8"))?;
            Ok(Map::from_iter([("manifest".to_owned(), Value::String(text))]))
        }
        _ if bytes.iter().all(u8::is_ascii_whitespace) => Ok(Map::new()),
        Form::Json => match serde_json::from_slice(&bytes) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => Err(Problem::usage("", "the body is not a JSON object", "send an object, {…}")),
            Err(error) => {
                let fault = format!("the body is not JSON: {error}");
                Err(Problem::usage("", fault, "send a JSON object"))
            }
        },
        Form::Other(essence) => {
            let fault = format!("the content type \"{}\" is not supported", essence.escape_debug());
            let problem = Problem::usage("", fault, "send application/json");
            Err(Problem { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, ..problem })
        }
    }
}

fn from_query(method: &Method, query: &str, message: &mut Map<String, Value>) -> Result<(), Problem> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, text) = (decoded(name, true)?, decoded(text, true)?);
        let known = method.fields.iter().find(|field| field.name == name && field.kind != FieldKind::Object);
        let Some(field) = known else {
            let names: Vec<&str> = method.fields.iter().map(|field| field.name).collect();
            let fix = match jobs::manifest::nearest(&name, &names) {
                Some(nearest) => format!("did you mean \"{nearest}\"?"),
                None => format!("use one of {}", names.join(", ")),
            };
            let shown: String = name.chars().take(80).collect();
            return Err(Problem::usage(&shown, "is not a parameter of this request", fix));
        };
        let value = parameter(field, text)?;
        match (field.list, message.get_mut(field.name)) {
            (true, Some(Value::Array(values))) => values.push(value),
            (true, _) => {
                message.insert(name, Value::Array(vec![value]));
            }
            (false, Some(_)) => {
                return Err(Problem::usage(field.name, "is given more than once", "give it once"));
            }
            (false, None) => {
                message.insert(name, value);
            }
        }
    }
    Ok(())
}

fn from_header(
    method: &Method,
    headers: &HeaderMap,
    header: &'static str,
    field: &str,
    message: &mut Map<String, Value>,
) -> Result<(), Problem> {
    let sent = headers.get(HeaderName::from_static(header));
    let Some(known) = method.fields.iter().find(|known| known.name == field) else { return Ok(()) };
    let Some(value) = sent.filter(|_| !message.contains_key(field)) else { return Ok(()) };
    let text = value.to_str().map_err(|_| Problem::usage(field, "is not text", "send printable ASCII"))?;
    let text = Value::String(text.to_owned());
    message.insert(field.to_owned(), if known.list { Value::Array(vec![text]) } else { text });
    Ok(())
}

/// Reads the fields in the path. It has as many parts as the method's, or the request would not have come here.
fn from_path(method: &Method, path: &str, message: &mut Map<String, Value>) -> Result<(), Problem> {
    for (pattern, part) in method.path.split('/').zip(path.split('/')) {
        let Some(name) = pattern.strip_prefix('{').and_then(|name| name.strip_suffix('}')) else { continue };
        let text = Value::String(decoded(part, false)?);
        if message.get(name).is_some_and(|sent| *sent != text) {
            return Err(Problem::usage(name, "is another one in the path", "leave it out of the body"));
        }
        message.insert(name.to_owned(), text);
    }
    Ok(())
}

fn parameter(field: &Field, text: String) -> Result<Value, Problem> {
    let wrong = |fix: &str| {
        let shown: String = text.chars().take(40).collect();
        Problem::usage(field.name, format!("\"{}\" is not valid", shown.escape_debug()), fix)
    };
    match field.kind {
        FieldKind::Number => text.parse::<i32>().map(Value::from).map_err(|_| wrong("send a whole number")),
        FieldKind::Flag => match text.as_str() {
            "true" | "1" | "" => Ok(Value::Bool(true)),
            "false" | "0" => Ok(Value::Bool(false)),
            _ => Err(wrong("send true or false")),
        },
        FieldKind::Text | FieldKind::Object => Ok(Value::String(text)),
    }
}

/// Decodes a part of a path, or of a query or form.
pub fn decoded(text: &str, in_query: bool) -> Result<String, Problem> {
    let text = if in_query { text.replace('+', " ") } else { text.to_owned() };
    let decoded = percent_decode_str(&text).decode_utf8();
    decoded
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| Problem::usage("", "the address is not UTF-8", "encode it as UTF-8"))
}

/// How the items of a stream are written.
#[derive(Clone, Copy)]
enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON object a line.
    Lines,
}

impl Framing {
    fn content_type(self) -> &'static str {
        match self {
            Framing::Events => "text/event-stream",
            Framing::Lines => "application/x-ndjson",
        }
    }

    fn item<M>(self, item: &impl Answer<M>, into: &mut BytesMut) {
        match self {
            Framing::Events => {
                for (field, value) in [("id", item.id()), ("event", item.event())] {
                    if !value.is_empty() {
                        into.extend_from_slice(format!("{field}: {value}\n").as_bytes());
                    }
                }
                self.text(&item.json(), into);
            }
            Framing::Lines => self.text(&item.json(), into),
        }
    }

    fn problem(self, problem: &Problem, into: &mut BytesMut) {
        let json = serde_json::to_vec(&problem.message()).unwrap_or_default();
        match self {
            Framing::Events => {
                into.extend_from_slice(b"event: problem\n");
                self.text(&json, into);
            }
            Framing::Lines => {
                into.extend_from_slice(b"{\"problem\":");
                into.extend_from_slice(&json);
                into.extend_from_slice(b"}\n");
            }
        }
    }

    fn text(self, json: &[u8], into: &mut BytesMut) {
        match self {
            Framing::Events => {
                into.extend_from_slice(b"data: ");
                into.extend_from_slice(json);
                into.extend_from_slice(b"\n\n");
            }
            Framing::Lines => {
                into.extend_from_slice(json);
                into.extend_from_slice(b"\n");
            }
        }
    }

    /// Something that clients ignore and that shows that the connection is alive.
    fn heartbeat(self) -> Bytes {
        match self {
            Framing::Events => Bytes::from_static(b":\n\n"),
            Framing::Lines => Bytes::from_static(b"\n"),
        }
    }
}

type Frame = Result<Bytes, std::convert::Infallible>;

/// Writes the items of a stream: those that are ready go out together, up to [`CHUNK`] bytes and the last one.
fn frames<M: 'static, A: Answer<M>>(
    items: BoxStream<'static, Result<A, Problem>>,
    framing: Framing,
    heartbeat: Interval,
) -> impl Stream<Item = Frame> {
    stream::unfold((items.fuse(), heartbeat), move |(mut items, mut heartbeat)| async move {
        tokio::select! {
            biased;
            first = items.next() => {
                let mut buffer = BytesMut::with_capacity(CHUNK);
                let mut ready = Some(first?);
                while let Some(item) = ready {
                    match item {
                        Ok(item) => framing.item(&item, &mut buffer),
                        Err(problem) => framing.problem(&problem, &mut buffer),
                    }
                    let is_full = buffer.len() >= CHUNK;
                    ready = if is_full { None } else { items.next().now_or_never().flatten() };
                }
                heartbeat.reset();
                Some((Ok(buffer.freeze()), (items, heartbeat)))
            }
            _ = heartbeat.tick() => Some((Ok(framing.heartbeat()), (items, heartbeat))),
        }
    })
}
