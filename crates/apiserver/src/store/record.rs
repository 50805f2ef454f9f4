//! An object in the store: its key, its revision, its JSON, and its value while it is in use.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use serde_json::Value;

/// The name of a resource, `plural` or `plural.group`, which is the same for all versions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource(Arc<str>);

impl Resource {
    /// Creates the resource of a group; the core group is the empty string.
    pub fn new(group: &str, plural: &str) -> Self {
        if group.is_empty() { Self(plural.into()) } else { Self(format!("{plural}.{group}").into()) }
    }
}

impl Resource {
    /// Parses the result of [`Resource::as_str`].
    pub fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the resource as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// `namespace/name`, or `name` for cluster-scoped resources. Ordered like kube-apiserver's keys in etcd, so
/// lists have the same order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// Creates the key of an object; neither part may contain a slash.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            Some(namespace) => Self(format!("{namespace}/{name}").into()),
            None => Self(name.into()),
        }
    }

    /// Parses the key in a continue token.
    pub fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns a key that precedes all objects of a namespace.
    pub fn first_of(namespace: &str) -> Self {
        Self(format!("{namespace}/").into())
    }

    /// Returns whether the object is in the namespace; always true for `None`.
    pub fn is_in(&self, namespace: Option<&str>) -> bool {
        namespace
            .is_none_or(|namespace| self.0.strip_prefix(namespace).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One immutable state of an object.
///
/// A value takes about eight times the memory of its JSON, and most objects of a large cluster are rarely looked at. So only the
/// values that were made or read last are kept; of the others, the JSON is read again when somebody asks.
#[derive(Debug)]
pub struct Record {
    /// The object's key.
    pub key: Key,
    /// The revision of the write; equal to `metadata.resourceVersion`.
    pub revision: u64,
    text: Arc<Text>,
    /// The serial number of the kind as which its JSON is served as it is; 0 if none is known.
    served_as: AtomicU64,
}

/// An object as JSON, as a value, or as both.
#[derive(Debug, Default)]
struct Text {
    json: OnceLock<Bytes>,
    value: Mutex<Option<Arc<Value>>>,
}

impl Record {
    /// Creates a state of an object, and sets its `metadata.resourceVersion` to `revision`.
    pub fn new(key: Key, revision: u64, mut value: Value) -> Self {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".into(), Value::String(revision.to_string()));
        }
        let text = Text { json: OnceLock::new(), value: Mutex::new(Some(Arc::new(value))) };
        Self::with(key, revision, text)
    }

    /// Creates a state from the JSON of one that has been created before.
    pub(super) fn from_json(key: Key, revision: u64, json: Bytes) -> Self {
        Self::with(key, revision, Text { json: OnceLock::from(json), value: Mutex::default() })
    }

    fn with(key: Key, revision: u64, text: Text) -> Self {
        Self { key, revision, text: Arc::new(text), served_as: AtomicU64::new(0) }
    }

    /// Returns the object.
    pub fn value(&self) -> Arc<Value> {
        let known = self.text.value().clone();
        known.unwrap_or_else(|| {
            let value = self.text.read();
            *self.text.value() = Some(value.clone());
            self.settle();
            value
        })
    }

    /// Returns a copy of the object, to be changed.
    pub fn to_value(&self) -> Value {
        Arc::unwrap_or_clone(self.value())
    }

    /// Returns the object's JSON, serialised on the first call.
    pub fn json(&self) -> &Bytes {
        self.text.json()
    }

    /// Lets the value be dropped once others were made or read since.
    pub(super) fn settle(&self) {
        self.json();
        RECENT.lock().unwrap_or_else(PoisonError::into_inner).add(&self.text);
    }

    /// Whether the JSON is known to be what is served of the kind with this serial number.
    pub fn is_served_as(&self, kind: u64) -> bool {
        self.served_as.load(Ordering::Relaxed) == kind
    }

    /// Notes that the JSON is what is served of the kind with this serial number.
    pub fn note_served_as(&self, kind: u64) {
        self.served_as.store(kind, Ordering::Relaxed);
    }
}

impl Text {
    fn json(&self) -> &Bytes {
        self.json.get_or_init(|| {
            let value = self.value().clone().unwrap_or_default();
            // Without the spare room of the text that grew.
            Bytes::from(value.to_string().into_bytes().into_boxed_slice())
        })
    }

    fn read(&self) -> Arc<Value> {
        // What a value was written as can be read: its depth is bounded.
        Arc::new(serde_json::from_slice(self.json()).unwrap_or_default())
    }

    fn value(&self) -> MutexGuard<'_, Option<Arc<Value>>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the value, which can be read again.
    fn forget(&self) {
        self.json();
        *self.value() = None;
    }
}

/// The values that are kept, of all stores of this process.
static RECENT: Mutex<Recent> = Mutex::new(Recent { texts: VecDeque::new(), bytes: 0 });
/// The most bytes of JSON of which the values are kept; the values themselves take about eight times as much.
const MOST_BYTES: usize = 2 << 20;
/// What even an empty object counts.
const LEAST_BYTES: usize = 512;

/// Objects of which the values are kept, in the order in which these were made or read.
struct Recent {
    texts: VecDeque<(Weak<Text>, usize)>,
    bytes: usize,
}

impl Recent {
    fn add(&mut self, text: &Arc<Text>) {
        let bytes = text.json().len().max(LEAST_BYTES);
        self.texts.push_back((Arc::downgrade(text), bytes));
        self.bytes += bytes;
        // The last one stays, however large it is.
        while self.bytes > MOST_BYTES && self.texts.len() > 1 {
            let Some((oldest, bytes)) = self.texts.pop_front() else { return };
            self.bytes -= bytes;
            if let Some(oldest) = oldest.upgrade() {
                oldest.forget();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_was_dropped_is_read_again() {
        let word = "x".repeat(4096);
        let value = serde_json::json!({ "metadata": { "name": "a" }, "data": word });
        let records: Vec<Record> = (0..MOST_BYTES as u64 / 4096 + 8)
            .map(|revision| {
                let record = Record::new(Key::new(None, "a"), revision, value.clone());
                record.settle();
                record
            })
            .collect();
        let kept = || records.iter().filter(|record| record.text.value().is_some()).count();
        assert!(kept() < records.len() && kept() > 8, "{} of {}", kept(), records.len());
        assert!(records[0].text.value().is_none());
        assert_eq!(
            records[0].value()["metadata"],
            serde_json::json!({ "name": "a", "resourceVersion": "0" })
        );
        assert_eq!(records[0].value()["data"], word);
        assert!(records[0].text.value().is_some(), "it was read last");
    }
}
