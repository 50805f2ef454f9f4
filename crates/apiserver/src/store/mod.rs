//! The store: all objects of the cluster, in memory, under one global resourceVersion.
//!
//! It knows resources, keys and JSON objects, but none of Kubernetes' rules: authorization, defaults and
//! validation belong to [`crate`]. Writes go through [`Store::create`], [`Store::replace`] and
//! [`Store::remove`], each a compare-and-swap on an object's revision. Readers get shared [`Record`]s,
//! watchers shared [`Event`]s. Nothing is serialised under a lock: a record's JSON is built once, on first
//! use, and shared by all readers and watchers. Of most objects only the JSON is kept ([`Record`]).
//!
//! Old states are not stored. Each resource keeps a bounded ring of its latest events, all but the last few as text. An
//! older list is reconstructed from the present one by undoing the events since; beyond the ring, it is [`Gone`] (HTTP
//! 410), as after etcd's compaction.

mod disk;
mod event;
mod journal;
mod record;
mod ring;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::Value;
use tokio::sync::mpsc;

use objects::extent::{self, Extent};

pub use disk::OpenError;
pub use event::{Event, Verb, line};
pub use journal::{Journal, Volatile};
pub use objects::extent::OutOfBounds;
pub use record::{Key, Record, Resource};
use ring::{Kept, Ring, State as RingState};

/// The default number of events in each resource's ring. kube-apiserver's watch cache holds between 100 and
/// 102,400 per resource (`cacher/watch_cache.go`). Each event keeps the text of an object's old state in memory.
pub const DEFAULT_WINDOW: usize = 512;
/// The maximum number of queued events per watcher; a watcher that falls behind further is closed.
pub const WATCHER_BACKLOG: usize = 4096;

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An object with this key exists already.
    #[error("the object exists already")]
    Exists,
    /// No object has this key.
    #[error("there is no such object")]
    Missing,
    /// The object's revision isn't the expected one; contains its present state.
    #[error("the object changed meanwhile, its revision is now {}", .0.revision)]
    Changed(Arc<Record>),
    /// The object is nested too deeply or too large.
    #[error(transparent)]
    OutOfBounds(#[from] OutOfBounds),
    /// The journal could not make the write durable.
    #[error("the write could not be made durable: {0}")]
    Journal(#[from] io::Error),
}

/// The events after a revision are compacted: the client has to list again.
#[derive(Debug, thiserror::Error, Clone, Copy, PartialEq, Eq)]
#[error("revision {asked} is older than the oldest kept, {oldest}")]
pub struct Gone {
    /// The requested revision.
    pub asked: u64,
    /// The oldest revision whose later events are known.
    pub oldest: u64,
}

/// Where a watch starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the next event.
    Now,
    /// At the first event after this revision.
    After(u64),
}

/// A running watch: process `backlog` first, then receive from `events`. The channel closes when the watcher
/// falls [`WATCHER_BACKLOG`] events behind, or when the store is dropped.
#[derive(Debug)]
pub struct Watch {
    /// Events between the requested start and the start of the watch.
    pub backlog: Vec<Arc<Event>>,
    /// Later events, in the order of their revisions.
    pub events: mpsc::Receiver<Arc<Event>>,
    /// The store's revision when the watch started.
    pub revision: u64,
}

/// A consistent view of a resource's objects, or of those in one namespace.
#[derive(Debug)]
pub struct Snapshot {
    /// The objects, ordered by key.
    pub records: Vec<Arc<Record>>,
    /// The revision of this state.
    pub revision: u64,
}

/// The store of all objects.
pub struct Store {
    state: RwLock<State>,
    journal: Box<dyn Journal>,
    window: usize,
}

#[derive(Default)]
struct State {
    revision: u64,
    /// Events up to and including this revision are compacted in every table, including future ones.
    floor: u64,
    tables: HashMap<Resource, Table>,
}

#[derive(Default)]
struct Table {
    records: BTreeMap<Key, Arc<Record>>,
    ring: Ring,
    /// Events up to and including this revision are compacted.
    compacted: u64,
    watchers: Vec<mpsc::Sender<Arc<Event>>>,
}

impl Store {
    /// Creates an empty store whose resources each keep their latest `window` events.
    pub fn new(window: usize, journal: Box<dyn Journal>) -> Self {
        let state = State { revision: 1, floor: 0, tables: HashMap::new() };
        Self { state: RwLock::new(state), journal, window }
    }

    /// Opens a store that is kept in a file, with the objects in it. Earlier events are lost: a watch from an
    /// old revision is [`Gone`].
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(window: usize, path: &Path) -> Result<Self, OpenError> {
        let (journal, loaded) = disk::Disk::open(path)?;
        Ok(Self::with(window, journal, loaded))
    }

    fn with(window: usize, journal: disk::Disk, loaded: disk::Loaded) -> Self {
        let mut state = State { revision: loaded.revision, floor: loaded.revision, tables: HashMap::new() };
        for (resource, record) in loaded.objects {
            state.table(&resource).records.insert(record.key.clone(), Arc::new(record));
        }
        Self { state: RwLock::new(state), journal: Box::new(journal), window }
    }

    /// Returns the revision of the latest write.
    pub fn revision(&self) -> u64 {
        self.read().revision
    }

    /// Returns the object with this key, if there is one.
    pub fn get(&self, resource: &Resource, key: &Key) -> Option<Arc<Record>> {
        self.read().tables.get(resource)?.records.get(key).cloned()
    }

    /// Returns the number of a resource's objects.
    pub fn count(&self, resource: &Resource) -> usize {
        self.read().tables.get(resource).map_or(0, |table| table.records.len())
    }

    /// Returns the present objects of a resource, in one namespace or in all.
    pub fn list(&self, resource: &Resource, namespace: Option<&str>) -> Snapshot {
        let state = self.read();
        let records = state.tables.get(resource).map(|table| table.select(namespace)).unwrap_or_default();
        Snapshot { records, revision: state.revision }
    }

    /// Returns the objects of a resource as of `revision`. A future revision returns the present state.
    ///
    /// # Errors
    /// [`Gone`] if the events since are compacted.
    pub fn list_at(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Snapshot, Gone> {
        let state = self.read();
        let Some(table) = state.tables.get(resource) else {
            return match state.floor {
                floor if revision < floor => Err(Gone { asked: revision, oldest: floor }),
                _ => Ok(Snapshot { records: Vec::new(), revision }),
            };
        };
        if revision < table.compacted {
            return Err(Gone { asked: revision, oldest: table.compacted });
        }
        let (present, since) = (table.select(namespace), table.ring.since(revision));
        drop(state);
        let mut past = present
            .into_iter()
            .map(|record| (record.key.clone(), RingState::Whole(record)))
            .collect::<BTreeMap<_, _>>();
        for event in since.into_iter().rev().filter(|event| event.key().is_in(namespace)) {
            match event.previous() {
                Some(previous) => past.insert(event.key().clone(), previous),
                None => past.remove(event.key()),
            };
        }
        Ok(Snapshot { records: past.into_values().map(RingState::record).collect(), revision })
    }

    /// Watches a resource from `start` on.
    ///
    /// # Errors
    /// [`Gone`] if events after `start` are compacted.
    pub fn watch(&self, resource: &Resource, start: Start) -> Result<Watch, Gone> {
        let mut state = self.write();
        let revision = state.revision;
        let table = state.table(resource);
        let backlog = match start {
            Start::Now => Vec::new(),
            Start::After(asked) => table.since(asked)?,
        };
        let events = table.attach();
        drop(state);
        Ok(Watch { backlog: backlog.into_iter().map(Kept::event).collect(), events, revision })
    }

    /// Lists a resource and watches it from exactly that state on.
    pub fn list_and_watch(&self, resource: &Resource, namespace: Option<&str>) -> (Snapshot, Watch) {
        let mut state = self.write();
        let revision = state.revision;
        let table = state.table(resource);
        let snapshot = Snapshot { records: table.select(namespace), revision };
        (snapshot, Watch { backlog: Vec::new(), events: table.attach(), revision })
    }

    /// Creates an object and sets its `metadata.resourceVersion`.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::OutOfBounds`]; [`Error::Journal`].
    pub async fn create(&self, resource: &Resource, key: Key, value: Value) -> Result<Arc<Record>, Error> {
        self.check(resource, &key, &value)?;
        self.journal.ready()?;
        let record = {
            let mut state = self.write();
            if state.tables.get(resource).is_some_and(|table| table.records.contains_key(&key)) {
                return Err(Error::Exists);
            }
            let record = Arc::new(Record::new(key, state.revision + 1, value));
            self.commit(&mut state, resource, Event::new(Verb::Added, record.clone(), None));
            record
        };
        self.journal.durable(record.revision).await?;
        record.settle();
        Ok(record)
    }

    /// Checks an object against the limits on depth and size, as every write does.
    ///
    /// # Errors
    /// The limit that it exceeds.
    pub fn check(&self, resource: &Resource, key: &Key, value: &Value) -> Result<(), OutOfBounds> {
        extent::check(value, || self.get(resource, key).map(|record| Extent::of(&record.value())))
    }

    /// Replaces an object if its revision is `expected`.
    ///
    /// # Errors
    /// [`Error::Missing`]; [`Error::Changed`]; [`Error::OutOfBounds`]; [`Error::Journal`].
    pub async fn replace(
        &self,
        resource: &Resource,
        key: &Key,
        expected: u64,
        value: Value,
    ) -> Result<Arc<Record>, Error> {
        self.check(resource, key, &value)?;
        self.journal.ready()?;
        let record = {
            let mut state = self.write();
            let previous = state.expect(resource, key, expected)?;
            let record = Arc::new(Record::new(key.clone(), state.revision + 1, value));
            self.commit(&mut state, resource, Event::new(Verb::Modified, record.clone(), Some(previous)));
            record
        };
        self.journal.durable(record.revision).await?;
        record.settle();
        Ok(record)
    }

    /// Removes an object if its revision is `expected`. `last` is its final state, which watchers see with
    /// the revision of the removal.
    ///
    /// # Errors
    /// [`Error::Missing`]; [`Error::Changed`]; [`Error::Journal`].
    pub async fn remove(
        &self,
        resource: &Resource,
        key: &Key,
        expected: u64,
        last: Value,
    ) -> Result<Arc<Record>, Error> {
        self.journal.ready()?;
        let record = {
            let mut state = self.write();
            let previous = state.expect(resource, key, expected)?;
            let record = Arc::new(Record::new(key.clone(), state.revision + 1, last));
            self.commit(&mut state, resource, Event::new(Verb::Deleted, record.clone(), Some(previous)));
            record
        };
        self.journal.durable(record.revision).await?;
        record.settle();
        Ok(record)
    }

    /// Compacts all events up to and including `revision`, like etcd.
    pub fn compact(&self, revision: u64) {
        let mut state = self.write();
        let limit = revision.min(state.revision);
        state.floor = state.floor.max(limit);
        for table in state.tables.values_mut() {
            table.compacted = table.compacted.max(limit);
            table.ring.drop_until(limit);
        }
    }

    /// Closes all watches; the store itself stays usable.
    pub fn close(&self) {
        for table in self.write().tables.values_mut() {
            table.watchers.clear();
        }
    }

    fn commit(&self, state: &mut State, resource: &Resource, event: Event) {
        let event = Arc::new(event);
        state.revision = event.revision();
        self.journal.append(resource, &event);
        let table = state.table(resource);
        match event.verb {
            Verb::Added | Verb::Modified => {
                table.records.insert(event.record.key.clone(), event.record.clone());
            }
            Verb::Deleted => {
                table.records.remove(&event.record.key);
            }
        }
        table.remember(event.clone(), self.window);
        table.watchers.retain(|watcher| watcher.try_send(event.clone()).is_ok());
    }

    // Locks are poisoned only by a panic between two assignments of plain data, so the state is still
    // consistent.
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn table(&mut self, resource: &Resource) -> &mut Table {
        let floor = self.floor;
        let made = || Table { compacted: floor, ..Table::default() };
        self.tables.entry(resource.clone()).or_insert_with(made)
    }

    fn expect(&self, resource: &Resource, key: &Key, expected: u64) -> Result<Arc<Record>, Error> {
        let found = self.tables.get(resource).and_then(|table| table.records.get(key));
        match found {
            None => Err(Error::Missing),
            Some(record) if record.revision != expected => Err(Error::Changed(record.clone())),
            Some(record) => Ok(record.clone()),
        }
    }
}

impl Table {
    fn select(&self, namespace: Option<&str>) -> Vec<Arc<Record>> {
        match namespace {
            None => self.records.values().cloned().collect(),
            Some(namespace) => self
                .records
                .range(Key::first_of(namespace)..)
                .take_while(|(key, _)| key.is_in(Some(namespace)))
                .map(|(_, record)| record.clone())
                .collect(),
        }
    }

    fn since(&self, asked: u64) -> Result<Vec<Kept>, Gone> {
        if asked < self.compacted {
            return Err(Gone { asked, oldest: self.compacted });
        }
        Ok(self.ring.since(asked))
    }

    fn attach(&mut self) -> mpsc::Receiver<Arc<Event>> {
        self.watchers.retain(|watcher| !watcher.is_closed());
        let (sender, receiver) = mpsc::channel(WATCHER_BACKLOG);
        self.watchers.push(sender);
        receiver
    }

    fn remember(&mut self, event: Arc<Event>, window: usize) {
        if let Some(dropped) = self.ring.push(event, window) {
            self.compacted = dropped;
        }
    }
}
