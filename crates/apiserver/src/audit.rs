//! The audit log: who requested what, when, and with which result; one line of JSON per event.
//!
//! Events are `audit.k8s.io/v1` at the level Metadata, without bodies and credentials. As in most clusters'
//! policies, the stage RequestReceived is omitted, and so are this process's own reads, leases and events. A
//! [`AuditEvent`] collects the data of a request; a separate thread writes the log, so no request waits for the
//! disk. If more than [`BACKLOG`] events are queued, further ones are dropped, and their number is logged.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::request::Parts;
use http::{Response, header};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::auth::UserInfo;
use super::reply::Body;
use super::reviews::user_value;
use super::route::Action;

/// The maximum number of queued events.
const BACKLOG: usize = 8192;
/// The maximum size of the file in bytes. A full file is compressed, to about a twentieth.
pub const LARGEST_BYTES: u64 = 16 << 20;
/// The number of full files that are kept: some days of work.
const FULL_FILES: usize = 16;
/// The maximum length of a logged URI, user agent or message, in characters.
const MAX_TEXT: usize = 2048;

/// The audit log. Dropping it writes all queued events.
pub struct Audit {
    sender: Option<SyncSender<Value>>,
    writer: Option<JoinHandle<()>>,
    dropped: AtomicU64,
}

impl Audit {
    /// Opens the log at `path` and appends to it. When the file is full, it becomes `path.1.gz`, the former one
    /// `path.2.gz`, and so on; the oldest is removed.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn begin(path: &Path, largest_bytes: u64) -> io::Result<Self> {
        let mut log = Log::open(path, largest_bytes)?;
        let (sender, receiver) = sync_channel(BACKLOG);
        let writer =
            std::thread::Builder::new().name("audit".into()).spawn(move || log.write_all(&receiver))?;
        Ok(Self { sender: Some(sender), writer: Some(writer), dropped: AtomicU64::new(0) })
    }

    /// Logs a response; for a long-running one, also its end.
    pub fn finish(self: &std::sync::Arc<Self>, trail: AuditEvent, answer: Response<Body>) -> Response<Body> {
        if trail.is_left_out() && answer.status() != http::StatusCode::FORBIDDEN {
            return answer;
        }
        let code = answer.status().as_u16();
        if !trail.goes_on() || code >= 400 {
            self.put(trail.event("ResponseComplete", code));
            return answer;
        }
        self.put(trail.event("ResponseStarted", code));
        let end = End { audit: self.clone(), trail, code };
        answer.map(|body| {
            // The body holds `end`, whose drop logs the end of the response.
            body.map_frame(move |frame| {
                let _held = &end;
                frame
            })
            .boxed_unsync()
        })
    }

    fn put(&self, event: Value) {
        let Some(sender) = &self.sender else { return };
        if sender.try_send(event).is_err() {
            let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
            // Logged at powers of two, to keep the number of messages low.
            if dropped.is_power_of_two() {
                tracing::warn!(dropped, "the audit log is behind; events are lost");
            }
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

struct End {
    audit: std::sync::Arc<Audit>,
    trail: AuditEvent,
    code: u16,
}

impl Drop for End {
    fn drop(&mut self) {
        self.audit.put(self.trail.event("ResponseComplete", self.code));
    }
}

/// The audit data of a request, collected during processing.
#[derive(Debug, Default)]
pub struct AuditEvent {
    id: String,
    received: Timestamp,
    uri: String,
    agent: String,
    verb: String,
    /// Whether the request comes from this process.
    is_own: bool,
    user: Option<UserInfo>,
    impersonated: Option<UserInfo>,
    object: Map<String, Value>,
    annotations: Map<String, Value>,
    message: String,
}

impl AuditEvent {
    /// Starts the trail of a request.
    pub fn begin(parts: &Parts, is_own: bool) -> Self {
        let bounded = |text: &str| text.chars().take(MAX_TEXT).collect::<String>();
        let agent = parts.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        let uri = parts.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str);
        Self {
            id: uuid::Uuid::new_v4().to_string(),
            received: Timestamp::now(),
            uri: bounded(uri),
            agent: bounded(agent.unwrap_or_default()),
            verb: parts.method.as_str().to_lowercase(),
            is_own,
            ..Self::default()
        }
    }

    /// Sets the authenticated user and the impersonated one.
    pub fn know(&mut self, user: &UserInfo, impersonated: Option<&UserInfo>) {
        self.user = Some(user.clone());
        self.impersonated = impersonated.cloned();
    }

    /// Sets the action.
    pub fn about(&mut self, action: &Action<'_>) {
        action.verb.clone_into(&mut self.verb);
        let fields = [
            ("resource", action.resource),
            ("namespace", action.namespace.unwrap_or_default()),
            ("name", action.name),
            ("apiGroup", action.group),
            ("apiVersion", action.version),
            ("subresource", action.subresource),
        ];
        let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
        self.object = fields.map(|(key, value)| (key.to_owned(), value.into())).collect();
    }

    /// Sets the authorization decision and its reason.
    pub fn decided(&mut self, allowed: bool, reason: &str) {
        let decision = if allowed { "allow" } else { "forbid" };
        self.annotate("authorization.k8s.io/decision", decision);
        self.annotate("authorization.k8s.io/reason", reason);
    }

    /// Adds an annotation.
    pub fn annotate(&mut self, key: &str, value: &str) {
        self.annotations.insert(key.to_owned(), value.into());
    }

    /// Sets the error message.
    pub fn refused(&mut self, message: &str) {
        self.message = message.chars().take(MAX_TEXT).collect();
    }

    fn is_left_out(&self) -> bool {
        let is_read = matches!(self.verb.as_str(), "get" | "list" | "watch" | "head");
        let of = self.object.get("resource").and_then(Value::as_str);
        self.is_own && (is_read || matches!(of, Some("leases" | "events")))
    }

    /// Returns whether the response may be long-running.
    fn goes_on(&self) -> bool {
        let part = self.object.get("subresource").and_then(Value::as_str);
        self.verb == "watch" || matches!(part, Some("log" | "exec" | "attach" | "portforward"))
    }

    fn event(&self, stage: &str, code: u16) -> Value {
        let mut event = json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": self.id,
            "stage": stage, "requestURI": self.uri, "verb": self.verb, "user": {},
            "responseStatus": {"metadata": {}, "code": code},
            "requestReceivedTimestamp": format!("{:.6}", self.received),
            "stageTimestamp": format!("{:.6}", Timestamp::now())});
        if let Some(user) = &self.user {
            event["user"] = user_value(user);
        }
        if let Some(user) = &self.impersonated {
            event["impersonatedUser"] = user_value(user);
        }
        if !self.agent.is_empty() {
            event["userAgent"] = self.agent.as_str().into();
        }
        if !self.object.is_empty() {
            event["objectRef"] = Value::Object(self.object.clone());
        }
        if !self.annotations.is_empty() {
            event["annotations"] = Value::Object(self.annotations.clone());
        }
        if code >= 400 && !self.message.is_empty() {
            event["responseStatus"]["status"] = "Failure".into();
            event["responseStatus"]["message"] = self.message.as_str().into();
        }
        event
    }
}

/// The log file.
struct Log {
    path: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
    largest_bytes: u64,
}

impl Log {
    fn open(path: &Path, largest_bytes: u64) -> io::Result<Self> {
        let file = append(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file), bytes, largest_bytes })
    }

    /// Returns the path with an addition: `audit.log` and `.1.gz`.
    fn beside(&self, addition: &str) -> PathBuf {
        let mut path = self.path.as_os_str().to_owned();
        path.push(addition);
        path.into()
    }

    /// Compresses the full file and begins a new one. What an earlier rotation left unfinished is written over.
    fn rotate(&mut self) -> io::Result<()> {
        self.file.flush()?;
        for number in (1..FULL_FILES).rev() {
            match std::fs::rename(
                self.beside(&format!(".{number}.gz")),
                self.beside(&format!(".{}.gz", number + 1)),
            ) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let unfinished = self.beside(".gz.new");
        let to = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&unfinished)?;
        let mut packed = GzEncoder::new(to, Compression::fast());
        io::copy(&mut File::open(&self.path)?, &mut packed)?;
        packed.finish()?;
        std::fs::rename(&unfinished, self.beside(".1.gz"))?;
        std::fs::remove_file(&self.path)?;
        self.file = BufWriter::new(append(&self.path)?);
        self.bytes = 0;
        Ok(())
    }

    /// Writes events until the last sender is dropped.
    fn write_all(&mut self, events: &Receiver<Value>) {
        while let Ok(event) = events.recv() {
            let mut next = Some(event);
            while let Some(event) = next {
                if let Err(error) = self.write(&event) {
                    tracing::warn!(%error, path = %self.path.display(), "the audit log cannot be written");
                }
                next = events.try_recv().ok();
            }
            let _ = self.file.flush();
        }
    }

    fn write(&mut self, event: &Value) -> io::Result<()> {
        let line = format!("{event}\n");
        let length = line.len() as u64;
        if self.bytes > 0 && self.bytes + length > self.largest_bytes {
            self.rotate()?;
        }
        self.bytes += length;
        self.file.write_all(line.as_bytes())
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn trail(method: &str, uri: &str, is_own: bool) -> AuditEvent {
        let request =
            http::Request::builder().method(method).uri(uri).header("authorization", "Bearer secret");
        AuditEvent::begin(&request.body(()).unwrap().into_parts().0, is_own)
    }

    fn answer(code: u16) -> Response<Body> {
        super::super::reply::text(code, "body")
    }

    #[test]
    fn an_event_has_the_users_and_the_object_but_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let audit = Arc::new(Audit::begin(&path, LARGEST_BYTES).unwrap());
        let mut trail = trail("PATCH", "/api/v1/namespaces/a/pods/p?x=1", false);
        trail.know(&UserInfo::admin(), Some(&UserInfo::known("anna", &[])));
        trail.about(&Action {
            verb: "patch",
            group: "",
            version: "v1",
            namespace: Some("a"),
            resource: "pods",
            name: "p",
            subresource: "",
        });
        trail.decided(false, "");
        trail.refused("no");
        audit.finish(trail, answer(403));
        drop(audit);
        let [event] = &lines(&path)[..] else { panic!("{:?}", lines(&path)) };
        assert_eq!((&event["stage"], &event["level"]), (&json!("ResponseComplete"), &json!("Metadata")));
        assert_eq!((&event["verb"], &event["responseStatus"]["code"]), (&json!("patch"), &json!(403)));
        assert_eq!(
            event["objectRef"],
            json!({"resource": "pods", "namespace": "a", "name": "p", "apiVersion": "v1"})
        );
        assert_eq!(event["impersonatedUser"]["username"], "anna");
        assert_eq!(event["user"]["username"], "kubernetes-admin");
        assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "forbid");
        assert!(!std::fs::read_to_string(&path).unwrap().contains("secret"));
    }

    #[test]
    fn long_requests_are_logged_twice_and_own_reads_never() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let audit = Arc::new(Audit::begin(&path, LARGEST_BYTES).unwrap());
        let watch = |is_own| {
            let mut trail = trail("GET", "/api/v1/pods?watch=1", is_own);
            trail.about(&Action {
                verb: "watch",
                group: "",
                version: "v1",
                namespace: None,
                resource: "pods",
                name: "",
                subresource: "",
            });
            trail
        };
        drop(audit.finish(watch(false), answer(200)));
        drop(audit.finish(watch(true), answer(200)));
        drop(audit);
        let stages =
            lines(&path).iter().map(|event| event["stage"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(stages, ["ResponseStarted", "ResponseComplete"]);
    }

    #[test]
    fn full_files_are_compressed_and_the_oldest_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let record = |events: usize| {
            let audit = Arc::new(Audit::begin(&path, 1000).unwrap());
            for _ in 0..events {
                audit.finish(trail("DELETE", "/x", false), answer(200));
            }
        };
        let packed = |number: usize| {
            let file = File::open(folder.path().join(format!("audit.log.{number}.gz"))).ok()?;
            let mut text = String::new();
            io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text).unwrap();
            Some(text)
        };
        let everything = || {
            let old = (1..).map_while(packed).collect::<Vec<_>>();
            let all = old
                .iter()
                .rev()
                .cloned()
                .chain([std::fs::read_to_string(&path).unwrap()])
                .collect::<String>();
            (old.len(), all.lines().count())
        };
        record(7);
        record(3);
        let (files, events) = everything();
        assert_eq!(events, 10, "nothing is lost while files are few");
        assert!((2..=FULL_FILES).contains(&files), "{files}");
        record(100);
        let (files, events) = everything();
        assert_eq!(files, FULL_FILES);
        assert!((FULL_FILES..110).contains(&events), "{events}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), FULL_FILES + 1);
        for file in ["audit.log", "audit.log.1.gz"] {
            let about = std::fs::metadata(folder.path().join(file)).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::mode(&about.permissions());
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
    }
}
