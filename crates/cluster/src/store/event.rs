//! One change of one object, shared by every watcher.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::Record;

/// What a change did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// The object is new.
    Added,
    /// The object was replaced.
    Modified,
    /// The object is gone.
    Deleted,
}

impl Verb {
    /// The name of the change on the wire (`metav1.WatchEvent`).
    pub fn text(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change of one object.
#[derive(Debug)]
pub struct Event {
    /// What it did.
    pub verb: Verb,
    /// The object after it; for a removal the last state, under the revision of the removal.
    pub record: Arc<Record>,
    /// The object before it.
    pub previous: Option<Arc<Record>>,
    line: OnceLock<Bytes>,
}

impl Event {
    /// A change that is about to be committed.
    pub fn new(verb: Verb, record: Arc<Record>, previous: Option<Arc<Record>>) -> Self {
        Self { verb, record, previous, line: OnceLock::new() }
    }

    /// The write that made the change.
    pub fn revision(&self) -> u64 {
        self.record.revision
    }

    /// The change as a watch's line (`{"type":…,"object":…}` and a line feed), made on the first call.
    pub fn line(&self) -> &Bytes {
        self.line.get_or_init(|| line(self.verb, self.record.json()))
    }
}

/// A watch's line for an object's JSON.
pub fn line(verb: Verb, object: &[u8]) -> Bytes {
    let verb = verb.text();
    let mut line = Vec::with_capacity(object.len() + verb.len() + 24);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(verb.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line.into()
}
