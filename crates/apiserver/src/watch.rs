//! watch: one line of JSON per change, until the client disconnects, the time is up or the client falls
//! behind.
//!
//! Rules: KEP-956 (bookmarks), KEP-3157 (`sendInitialEvents`); apiserver `pkg/storage/cacher/cacher.go`. An
//! object that starts to match the selectors is ADDED, one that stops matching is DELETED. The lines of full
//! objects are shared by all watchers; other formats are serialised per watcher.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use super::catalog::Entry;
use super::decoding;
use super::negotiate::ResponseFormat;
use super::reply::{self, Body};
use super::request_context::RequestContext;
use super::selection::Selection;
use super::status::StatusError;
use super::versions;
use crate::store::{Event, Record, Start, Store, Verb, line};
use objects::IncludeObject;

/// The interval of bookmarks, for watchers that allow them (`cacher.bookmarkFrequency`).
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// The default duration of a watch (`MinRequestTimeout`).
const DEFAULT_DURATION: Duration = Duration::from_secs(30 * 60);
/// The maximum duration of a watch.
const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum number of lines sent in one piece.
const BATCH: usize = 128;

/// Handles a watch.
///
/// # Errors
/// 400 for invalid selectors. A compacted revision isn't an error, but the stream's only event.
pub fn watch(context: &RequestContext<'_>) -> Result<Response<Body>, StatusError> {
    let kind = &context.entry.kind;
    let mut selection = Selection::of_list(kind, &context.query)?;
    if !context.action.name.is_empty() {
        selection = selection.named(context.action.name);
    }
    let lines = Lines {
        entry: context.entry.clone(),
        selection,
        namespace: context.action.namespace.map(Into::into),
        form: context.form,
        include: table_include(context)?,
        columns_sent: false,
    };
    let (store, resource) = (&context.server.store, &context.entry.resource);
    let seconds =
        context.query.timeout_seconds.map_or(DEFAULT_DURATION, Duration::from_secs).min(MAX_DURATION);
    let with_state = match (context.query.initial_events, context.query.resource_version) {
        (Some(initial), _) => initial,
        (None, None | Some(0)) => true,
        (None, Some(_)) => false,
    };
    let mut watcher = if with_state {
        let (snapshot, watch) = store.list_and_watch(resource, context.action.namespace);
        Watcher::new(context, lines, watch.events, seconds).with_state(snapshot.records, watch.revision)
    } else {
        // `sendInitialEvents=false` without a revision starts at the present.
        let start =
            context.query.resource_version.filter(|asked| *asked > 0).map_or(Start::Now, Start::After);
        match store.watch(resource, start) {
            // A future revision comes from a previous store: the client has to list again.
            Ok(watch) if matches!(start, Start::After(asked) if asked > watch.revision) => {
                let asked = context.query.resource_version.unwrap_or_default();
                return Ok(expired(&format!(
                    "Too large resource version: {asked}, current: {}",
                    watch.revision
                )));
            }
            Ok(watch) => Watcher::new(context, lines, watch.events, seconds).with_backlog(watch.backlog),
            Err(gone) => {
                return Ok(expired(&format!("too old resource version: {} ({})", gone.asked, gone.oldest)));
            }
        }
    };
    if context.query.initial_events == Some(true) && context.query.bookmarks {
        watcher.push_bookmark(true);
    }
    Ok(stream_of(watcher))
}

fn table_include(context: &RequestContext<'_>) -> Result<IncludeObject, StatusError> {
    // Validates the parameter before the stream starts.
    reply::table(context, &[], "v1", true, &json!({}))?;
    Ok(IncludeObject::parse(Some(&context.query.include_object)))
}

fn stream_of(watcher: Watcher) -> Response<Body> {
    let frames = stream::unfold(watcher, |mut watcher| async move {
        let bytes = watcher.next().await?;
        Some((Ok::<_, std::io::Error>(Frame::data(bytes)), watcher))
    });
    reply::with_body(200, "application/json", StreamBody::new(frames).boxed_unsync())
}

fn expired(why: &str) -> Response<Body> {
    let refusal = super::status::expired(why);
    let text = format!("{}\n", json!({"type": "ERROR", "object": refusal.to_value()}));
    reply::full(200, "application/json", text.into())
}

/// Formats events as lines.
struct Lines {
    entry: Entry,
    selection: Selection,
    namespace: Option<String>,
    form: ResponseFormat,
    include: IncludeObject,
    columns_sent: bool,
}

impl Lines {
    fn of_state(&mut self, record: &Record) -> Option<Bytes> {
        let is_selected = self.selection.is_everything()
            || self.selection.matches(&versions::served(&self.entry.kind, &record.value()));
        is_selected.then(|| self.of_record(Verb::Added, record, None))
    }

    fn of_event(&mut self, event: &Event) -> Option<Bytes> {
        if !event.record.key.is_in(self.namespace.as_deref()) {
            return None;
        }
        if self.selection.is_everything() {
            return Some(self.of_record(event.verb, &event.record, Some(event)));
        }
        let matches =
            |record: &Record| self.selection.matches(&versions::served(&self.entry.kind, &record.value()));
        let before = event.previous.as_deref().is_some_and(matches);
        let after = event.verb != Verb::Deleted && matches(&event.record);
        match (before, after) {
            (false, false) => None,
            (false, true) => Some(self.of_record(Verb::Added, &event.record, Some(event))),
            (true, true) => Some(self.of_record(Verb::Modified, &event.record, Some(event))),
            (true, false) if event.verb == Verb::Deleted => {
                Some(self.of_record(Verb::Deleted, &event.record, Some(event)))
            }
            // The object still exists but no longer matches: its last matching state is sent as DELETED, with
            // the revision of the change (`cacheWatcher.convertToWatchEvent`).
            (true, false) => {
                let previous = event.previous.as_ref()?;
                let last = Record::new(previous.key.clone(), event.revision(), previous.to_value());
                Some(self.of_record(Verb::Deleted, &last, None))
            }
        }
    }

    fn of_record(&mut self, verb: Verb, record: &Record, event: Option<&Event>) -> Bytes {
        let kind = &self.entry.kind;
        match self.form {
            ResponseFormat::Object | ResponseFormat::Discovery(_) => match event {
                Some(event) if event.verb == verb && versions::is_served_as_stored(kind, record) => {
                    event.line().clone()
                }
                _ => line(verb, &versions::served_json(kind, record)),
            },
            ResponseFormat::Metadata | ResponseFormat::MetadataList => {
                let value = reply::partial(&versions::served(kind, &record.value()), "PartialObjectMetadata");
                line(verb, value.to_string().as_bytes())
            }
            ResponseFormat::Table(version) => {
                let value = record.value();
                let value = versions::served(kind, &value);
                let mut table = objects::table(kind, &[&value], self.include, Timestamp::now());
                table["apiVersion"] = format!("meta.k8s.io/{version}").into();
                table["metadata"] = json!({"resourceVersion": record.revision.to_string()});
                if std::mem::replace(&mut self.columns_sent, true) {
                    table["columnDefinitions"] = Value::Null;
                }
                line(verb, table.to_string().as_bytes())
            }
        }
    }

    fn bookmark(&mut self, revision: u64, ends_initial_events: bool) -> Bytes {
        let kind = self.entry.kind.clone();
        // A typed object has more fields than were set.
        let mut whole = json!({"kind": kind.kind, "apiVersion": kind.api_version()});
        if kind.is_builtin() {
            decoding::fill_in(&kind, &mut whole);
        }
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if ends_initial_events {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.form {
            ResponseFormat::Metadata | ResponseFormat::MetadataList => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            ResponseFormat::Table(version) => {
                whole["metadata"] = metadata;
                let mut table = objects::table(&kind, &[&whole], self.include, Timestamp::now());
                table["apiVersion"] = format!("meta.k8s.io/{version}").into();
                table["metadata"] = json!({"resourceVersion": revision.to_string()});
                if std::mem::replace(&mut self.columns_sent, true) {
                    table["columnDefinitions"] = Value::Null;
                }
                table
            }
            ResponseFormat::Object | ResponseFormat::Discovery(_) => {
                whole["metadata"] = metadata;
                whole
            }
        };
        format!("{}\n", json!({"type": "BOOKMARK", "object": object})).into()
    }
}

/// Something to send. It is formatted when the client reads it, so a slow client costs only pointers.
enum Waiting {
    State(Arc<Record>),
    Change(Arc<Event>),
    /// The revision, and whether the bookmark ends the initial events.
    Bookmark(u64, bool),
}

/// One active watch.
struct Watcher {
    store: Arc<Store>,
    lines: Lines,
    waiting: VecDeque<Waiting>,
    events: mpsc::Receiver<Arc<Event>>,
    /// Every event up to this revision has been queued or doesn't concern this watcher.
    revision: u64,
    bookmarks: Option<Interval>,
    deadline: Instant,
}

impl Watcher {
    fn new(
        context: &RequestContext<'_>,
        lines: Lines,
        events: mpsc::Receiver<Arc<Event>>,
        lasts: Duration,
    ) -> Self {
        let mut bookmarks = interval_at(Instant::now() + BOOKMARK_INTERVAL, BOOKMARK_INTERVAL);
        bookmarks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            store: context.server.store.clone(),
            lines,
            waiting: VecDeque::new(),
            events,
            revision: context.query.resource_version.unwrap_or_default(),
            bookmarks: context.query.bookmarks.then_some(bookmarks),
            deadline: Instant::now() + lasts,
        }
    }

    fn with_state(mut self, records: Vec<Arc<Record>>, revision: u64) -> Self {
        self.waiting.extend(records.into_iter().map(Waiting::State));
        self.revision = revision;
        self
    }

    fn with_backlog(mut self, events: Vec<Arc<Event>>) -> Self {
        events.into_iter().for_each(|event| self.take(event));
        self
    }

    fn take(&mut self, event: Arc<Event>) {
        self.revision = event.revision();
        self.waiting.push_back(Waiting::Change(event));
    }

    fn push_bookmark(&mut self, ends_initial_events: bool) {
        self.waiting.push_back(Waiting::Bookmark(self.revision, ends_initial_events));
    }

    /// Returns the next piece to send; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            while self.waiting.len() < BATCH
                && let Ok(event) = self.events.try_recv()
            {
                self.take(event);
            }
            if let Some(batch) = self.batch() {
                return Some(batch);
            }
            if !self.waiting.is_empty() {
                continue;
            }
            tokio::select! {
                biased;
                event = self.events.recv() => match event {
                    Some(event) => self.take(event),
                    None => return None,
                },
                () = sleep_until(self.deadline) => return None,
                () = tick(&mut self.bookmarks) => self.progress(),
            }
        }
    }

    /// Queues a bookmark for the store's present revision. Every earlier commit is in the channel by now.
    fn progress(&mut self) {
        let revision = self.store.revision();
        while let Ok(event) = self.events.try_recv() {
            self.take(event);
        }
        self.revision = self.revision.max(revision);
        self.push_bookmark(false);
    }

    /// Returns the next lines in one piece; `None` if no queued event concerns this watcher.
    fn batch(&mut self) -> Option<Bytes> {
        let mut lines = Vec::new();
        for _ in 0..BATCH {
            let line = match self.waiting.pop_front() {
                None => break,
                Some(Waiting::State(record)) => self.lines.of_state(&record),
                Some(Waiting::Change(event)) => self.lines.of_event(&event),
                Some(Waiting::Bookmark(revision, ends)) => Some(self.lines.bookmark(revision, ends)),
            };
            lines.extend(line);
        }
        match lines.len() {
            0 => None,
            1 => lines.pop(),
            _ => Some(lines.concat().into()),
        }
    }
}

async fn tick(bookmarks: &mut Option<Interval>) {
    match bookmarks {
        Some(interval) => {
            interval.tick().await;
        }
        None => futures::future::pending().await,
    }
}
