//! A resource's latest events, within bounds on their number and on their size.
//!
//! A JSON value takes about eight times the memory of its text, so only the very last events are kept as they were
//! committed. An older one is kept as text, and read again where a watch or a list goes back to it.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::{Event, Key, Record, Verb};

/// The number of latest events that are kept as they were committed. Their texts are made outside of the store's lock, by
/// the journal and by watchers, and by the time that they leave this part they usually exist.
const WHOLE: usize = 4;
/// The most bytes of texts in one ring: objects with hundreds of parts, such as the endpoints of a large job, change with
/// each of their parts.
const MOST_BYTES: usize = 4 << 20;

/// The events of one resource, in the order of their revisions.
#[derive(Default)]
pub(super) struct Ring {
    old: VecDeque<Past>,
    new: VecDeque<Arc<Event>>,
    /// The bytes of the texts in `old`.
    bytes: usize,
}

/// An event that is kept as text, or as it was committed.
#[derive(Clone)]
pub(super) enum Kept {
    /// As text.
    Past(Past),
    /// As it was committed.
    Whole(Arc<Event>),
}

/// An event whose objects are kept as text.
#[derive(Clone)]
pub(super) struct Past {
    verb: Verb,
    state: PastState,
    previous: Option<PastState>,
}

/// A state of an object that is kept as text, which it shares with the record and with the events before and after it.
#[derive(Clone)]
pub(super) struct PastState {
    key: Key,
    revision: u64,
    json: Bytes,
}

impl Ring {
    /// Adds an event, and drops the oldest beyond `window` events or [`MOST_BYTES`]. Returns the revision of the last one
    /// that was dropped.
    pub fn push(&mut self, event: Arc<Event>, window: usize) -> Option<u64> {
        self.new.push_back(event);
        if self.new.len() > WHOLE
            && let Some(event) = self.new.pop_front()
        {
            let past = Past::from(&*event);
            self.bytes += past.state.json.len();
            self.old.push_back(past);
        }
        let mut dropped = None;
        while self.old.len() + self.new.len() > window || self.bytes > MOST_BYTES {
            match self.pop() {
                Some(revision) => dropped = Some(revision),
                None => break,
            }
        }
        dropped
    }

    /// Drops the events up to and including a revision.
    pub fn drop_until(&mut self, revision: u64) {
        while self.first().is_some_and(|first| first <= revision) {
            self.pop();
        }
    }

    /// Returns the events after a revision.
    pub fn since(&self, revision: u64) -> Vec<Kept> {
        let old = self.old.range(self.old.partition_point(|past| past.state.revision <= revision)..);
        let new = self.new.range(self.new.partition_point(|event| event.revision() <= revision)..);
        old.cloned().map(Kept::Past).chain(new.cloned().map(Kept::Whole)).collect()
    }

    fn first(&self) -> Option<u64> {
        let old = self.old.front().map(|past| past.state.revision);
        old.or_else(|| self.new.front().map(|event| event.revision()))
    }

    fn pop(&mut self) -> Option<u64> {
        if let Some(past) = self.old.pop_front() {
            self.bytes -= past.state.json.len();
            return Some(past.state.revision);
        }
        self.new.pop_front().map(|event| event.revision())
    }
}

impl Kept {
    /// Returns the event as it was committed.
    pub fn event(self) -> Arc<Event> {
        match self {
            Self::Whole(event) => event,
            Self::Past(past) => {
                let previous = past.previous.map(|state| Arc::new(state.record()));
                Arc::new(Event::new(past.verb, Arc::new(past.state.record()), previous))
            }
        }
    }

    /// Returns the key of the object that changed.
    pub fn key(&self) -> &Key {
        match self {
            Self::Whole(event) => &event.record.key,
            Self::Past(past) => &past.state.key,
        }
    }

    /// Returns the state before the change, if there was one.
    pub fn previous(&self) -> Option<State> {
        match self {
            Self::Whole(event) => event.previous.clone().map(State::Whole),
            Self::Past(past) => past.previous.clone().map(State::Past),
        }
    }
}

/// A state of an object that is kept as text, or as it was committed.
pub(super) enum State {
    /// As text.
    Past(PastState),
    /// As it was committed.
    Whole(Arc<Record>),
}

impl State {
    /// Returns the state as it was committed.
    pub fn record(self) -> Arc<Record> {
        match self {
            Self::Past(state) => Arc::new(state.record()),
            Self::Whole(record) => record,
        }
    }
}

impl PastState {
    fn record(self) -> Record {
        Record::from_json(self.key, self.revision, self.json)
    }
}

impl From<&Event> for Past {
    fn from(event: &Event) -> Self {
        let previous = event.previous.as_deref().map(PastState::from);
        Self { verb: event.verb, state: PastState::from(&*event.record), previous }
    }
}

impl From<&Record> for PastState {
    fn from(record: &Record) -> Self {
        Self { key: record.key.clone(), revision: record.revision, json: record.json().clone() }
    }
}
