//! A change of an object, shared by all watchers.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::Record;

/// The type of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// The object was created.
    Added,
    /// The object was replaced.
    Modified,
    /// The object was removed.
    Deleted,
}

impl Verb {
    /// Returns the type's name in the API (`metav1.WatchEvent`).
    pub fn text(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// A change of an object.
#[derive(Debug)]
pub struct Event {
    /// The type.
    pub verb: Verb,
    /// The new state; for a removal the last state, with the revision of the removal.
    pub record: Arc<Record>,
    /// The previous state.
    pub previous: Option<Arc<Record>>,
    line: OnceLock<Bytes>,
}

impl Event {
    /// Creates the event of a change that is about to be committed.
    pub fn new(verb: Verb, record: Arc<Record>, previous: Option<Arc<Record>>) -> Self {
        Self { verb, record, previous, line: OnceLock::new() }
    }

    /// Returns the revision of the change.
    pub fn revision(&self) -> u64 {
        self.record.revision
    }

    /// Returns the event as a line of a watch (`{"type":…,"object":…}` and a line feed), serialised on the
    /// first call.
    pub fn line(&self) -> &Bytes {
        self.line.get_or_init(|| line(self.verb, self.record.json()))
    }
}

/// Formats a line of a watch from an object's JSON.
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
