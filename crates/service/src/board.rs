//! The rows of all jobs, as last seen, and the latest changes of them.
//!
//! Rows come from the watches; each is computed and written as JSON once, however many requests show it. A reader of
//! the changes remembers only a position: one that falls behind gets the newest state of each job that changed, or, if
//! the history no longer reaches back, has to start again. So slow readers cost nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use bytes::Bytes;
use jiff::Timestamp;
use jobs::rerun::{self, How};
use jobs::{Kind, view};
use kube::api::DynamicObject;
use tokio::sync::watch;

use crate::contract::JobRow;
use crate::program::Program;
use crate::row;

/// The most changes remembered.
const HISTORY: usize = 16_384;

/// Which job.
pub type Key = (Kind, String, String);
/// The place of a job in the order of age: newest first, then by namespace, name and kind.
pub type AgeKey = (Reverse<Option<Timestamp>>, String, String, Kind);

/// A job's row, ready to be shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The kind.
    pub kind: Kind,
    /// The row.
    pub row: JobRow,
    /// The row in JSON.
    pub json: Bytes,
    /// The image of the Workers; empty if the job names none.
    pub image: Box<str>,
    /// The job's labels.
    pub labels: BTreeMap<String, String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When it began to run ([`view::Row::running_since`]).
    pub running_since: Option<Timestamp>,
    /// When it ended.
    pub finished: Option<Timestamp>,
    /// Whether it is stalled.
    pub stalled: bool,
    /// The job that it repeats or was copied from.
    pub origin: Option<(How, String)>,
    /// The creation with a key that made it.
    pub creation: Option<Box<str>>,
    /// What it runs, until it has ended.
    pub program: Option<Arc<Program>>,
    /// All texts that a search looks into, in lower case.
    pub search: String,
}

impl Entry {
    /// Computes it from a job.
    pub fn of(object: &DynamicObject) -> Self {
        let row = view::row(object);
        let origin = rerun::origin(object).map(|(how, name)| (how, name.to_owned()));
        let annotations = object.metadata.annotations.as_ref();
        let creation = annotations.and_then(|all| Some(all.get(api::ANNOTATION_CREATION)?.as_str().into()));
        let (kind, created, labels) = (row.kind, row.created, row.labels.clone());
        let image = row.image.as_str().into();
        let (running_since, finished, stalled) = (row.running_since, row.finished, row.is_stalled());
        let program = if finished.is_none() { Program::of(kind, &object.data["spec"]) } else { None };
        let program = program.map(Arc::new);
        let row = row::of(row);
        let texts = [&row.name, &row.namespace, &row.owner, &row.queue, &row.phase_reason, &row.cause];
        let search = texts.map(|text| text.to_lowercase()).join("\n");
        let json = json(&row);
        Self {
            kind,
            json,
            image,
            labels,
            created,
            running_since,
            finished,
            stalled,
            origin,
            creation,
            program,
            search,
            row,
        }
    }

    /// Returns it with another place in its queue.
    fn placed(&self, queue_position: Option<i32>) -> Self {
        let row = JobRow { queue_position, ..self.row.clone() };
        Self { json: json(&row), row, ..self.clone() }
    }

    /// Which job it is.
    pub fn key(&self) -> Key {
        (self.kind, self.row.namespace.clone(), self.row.name.clone())
    }

    /// Its place in the order of age.
    pub fn age_key(&self) -> AgeKey {
        (Reverse(self.created), self.row.namespace.clone(), self.row.name.clone(), self.kind)
    }
}

fn json(row: &JobRow) -> Bytes {
    serde_json::to_vec(row).unwrap_or_default().into()
}

/// A change: the job's new entry, or `None` if it is gone.
#[derive(Clone, Debug)]
struct Change {
    sequence: u64,
    key: Key,
    entry: Option<Arc<Entry>>,
}

#[derive(Default)]
struct State {
    by_key: BTreeMap<Key, Arc<Entry>>,
    by_age: BTreeMap<AgeKey, Arc<Entry>>,
    /// The number of jobs in each namespace, by kind.
    namespaces: BTreeMap<(Kind, String), usize>,
    /// The places of waiting jobs in their queues, by UID.
    positions: HashMap<String, i32>,
    sequence: u64,
    changes: VecDeque<Change>,
}

/// The newest state of each job that changed, and the position after these changes.
pub type Changes = (u64, BTreeMap<Key, Option<Arc<Entry>>>);

/// The rows and their changes.
pub struct Board {
    state: RwLock<State>,
    moved: watch::Sender<u64>,
    /// Distinguishes positions of this process from those of another.
    epoch: String,
}

impl Default for Board {
    fn default() -> Self {
        let epoch = uuid::Uuid::new_v4().simple().to_string();
        Self {
            state: RwLock::default(),
            moved: watch::Sender::new(0),
            epoch: epoch.get(..8).unwrap_or_default().to_owned(),
        }
    }
}

impl Board {
    /// Takes in a job's entry.
    pub fn put(&self, entry: Arc<Entry>) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let position = state.positions.get(&entry.row.uid).copied();
        let entry = if position.is_some() { Arc::new(entry.placed(position)) } else { entry };
        self.put_in(&mut state, entry);
    }

    /// Takes in the places of all jobs that wait in a queue, by UID.
    pub fn place(&self, positions: HashMap<String, i32>) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let moved = |entry: &Arc<Entry>| {
            let position = positions.get(&entry.row.uid).copied();
            (entry.row.queue_position != position).then(|| Arc::new(entry.placed(position)))
        };
        let moved: Vec<Arc<Entry>> = state.by_key.values().filter_map(moved).collect();
        state.positions = positions;
        for entry in moved {
            self.put_in(&mut state, entry);
        }
    }

    fn put_in(&self, state: &mut State, entry: Arc<Entry>) {
        let key = entry.key();
        let before = state.by_key.insert(key.clone(), entry.clone());
        if before.as_ref().is_some_and(|before| *before == entry) {
            return;
        }
        match before {
            Some(before) => {
                state.by_age.remove(&before.age_key());
            }
            None => *state.namespaces.entry((key.0, key.1.clone())).or_default() += 1,
        }
        state.by_age.insert(entry.age_key(), entry.clone());
        self.note(state, key, Some(entry));
    }

    /// Removes a job.
    pub fn remove(&self, key: &Key) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = state.by_key.remove(key) else { return };
        state.by_age.remove(&entry.age_key());
        let place = (key.0, key.1.clone());
        if let Some(jobs) = state.namespaces.get_mut(&place) {
            *jobs -= 1;
            if *jobs == 0 {
                state.namespaces.remove(&place);
            }
        }
        self.note(&mut state, key.clone(), None);
    }

    fn note(&self, state: &mut State, key: Key, entry: Option<Arc<Entry>>) {
        state.sequence += 1;
        let sequence = state.sequence;
        if state.changes.len() == HISTORY {
            state.changes.pop_front();
        }
        state.changes.push_back(Change { sequence, key, entry });
        self.moved.send_replace(sequence);
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a job.
    pub fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        self.read().by_key.get(key).cloned()
    }

    /// Whether there is such a job.
    pub fn has(&self, wanted: impl Fn(&Entry) -> bool) -> bool {
        self.read().by_key.values().any(|entry| wanted(entry))
    }

    /// Returns the number of jobs.
    pub fn len(&self) -> usize {
        self.read().by_key.len()
    }

    /// Returns the namespaces with jobs, by kind.
    pub fn namespaces(&self) -> Vec<(Kind, String)> {
        self.read().namespaces.keys().cloned().collect()
    }

    /// Returns the number of jobs of a kind in a namespace.
    pub fn count(&self, kind: Kind, namespace: &str) -> usize {
        self.read().namespaces.get(&(kind, namespace.to_owned())).copied().unwrap_or(0)
    }

    /// Visits jobs from the newest to the oldest, those after a place if one is given, until `visit` returns `false`.
    pub fn by_age(&self, after: Option<&AgeKey>, mut visit: impl FnMut(&Arc<Entry>) -> bool) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        for entry in self.read().by_age.range::<AgeKey, _>((from, Bound::Unbounded)).map(|(_, entry)| entry) {
            if !visit(entry) {
                return;
            }
        }
    }

    /// Returns the jobs that `wanted` selects, newest first, and the position of the changes at that moment.
    pub fn snapshot(&self, wanted: impl Fn(&Entry) -> bool) -> (u64, Vec<Arc<Entry>>) {
        let state = self.read();
        let found = state.by_age.values().filter(|entry| wanted(entry)).cloned().collect();
        (state.sequence, found)
    }

    /// Returns what changed after a position; `None` if the history no longer reaches back to it.
    pub fn changes(&self, after: u64) -> Option<Changes> {
        let state = self.read();
        let oldest = state.changes.front().map_or(state.sequence + 1, |change| change.sequence);
        if after + 1 < oldest || after > state.sequence {
            return None;
        }
        let start = usize::try_from(after + 1 - oldest).ok()?;
        let newest = state.changes.range(start..).map(|change| (change.key.clone(), change.entry.clone()));
        Some((state.sequence, newest.collect()))
    }

    /// Returns a receiver that is marked as changed at each change.
    pub fn moved(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }

    /// Writes a position as the identifier of an event.
    pub fn event_id(&self, position: u64) -> String {
        format!("{}-{position}", self.epoch)
    }

    /// Reads the identifier of an event; `None` if it is of another process or no identifier.
    pub fn position(&self, id: &str) -> Option<u64> {
        let (epoch, position) = id.split_once('-')?;
        (epoch == self.epoch).then(|| position.parse().ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(name: &str, second: u32, phase: &str) -> Arc<Entry> {
        let object = json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": { "name": name, "namespace": "team",
                "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z") },
            "spec": {}, "status": { "phase": phase } });
        Arc::new(Entry::of(&serde_json::from_value(object).unwrap()))
    }

    fn names(board: &Board) -> Vec<String> {
        let mut names = Vec::new();
        board.by_age(None, |entry| {
            names.push(entry.row.name.clone());
            true
        });
        names
    }

    #[test]
    fn jobs_are_in_the_order_of_age_and_gone_once_removed() {
        let board = Board::default();
        for (name, second) in [("old", 1), ("new", 3), ("middle", 2)] {
            board.put(entry(name, second, "Running"));
        }
        assert_eq!(names(&board), ["new", "middle", "old"]);
        board.remove(&entry("middle", 2, "Running").key());
        assert_eq!(names(&board), ["new", "old"]);
        assert_eq!(board.namespaces(), [(Kind::MpiJob, "team".to_owned())]);
    }

    #[test]
    fn a_reader_that_falls_behind_gets_the_newest_state_of_each_job() {
        let board = Board::default();
        board.put(entry("a", 1, "Pending"));
        let (position, _) = board.snapshot(|_| true);
        for phase in ["Running", "Running", "Succeeded"] {
            board.put(entry("a", 1, phase));
        }
        board.put(entry("b", 2, "Pending"));
        let (position, changes) = board.changes(position).unwrap();
        let phases: Vec<_> =
            changes.values().map(|entry| entry.as_ref().unwrap().row.phase.clone()).collect();
        assert_eq!(phases, ["Succeeded", "Pending"]);
        assert_eq!(position, 4, "an update that changes nothing that is shown is no change");
        assert!(board.changes(position).unwrap().1.is_empty());
    }

    #[test]
    fn a_position_beyond_the_history_starts_again() {
        let board = Board::default();
        for second in 0..=HISTORY {
            let phase = if second % 2 == 0 { "Pending" } else { "Running" };
            board.put(entry("a", 1, phase));
        }
        assert!(board.changes(0).is_none());
        assert!(board.changes(1).is_some());
        assert!(board.changes(u64::MAX - 1).is_none(), "a position that has not been reached");
    }

    #[test]
    fn a_place_in_a_queue_is_shown_while_the_job_has_it() {
        let board = Board::default();
        let object = json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": { "name": "a", "namespace": "team", "uid": "u" }, "spec": {} });
        let waiting = Arc::new(Entry::of(&serde_json::from_value(object).unwrap()));
        let shown = || {
            let entry = board.get(&waiting.key()).unwrap();
            let json: serde_json::Value = serde_json::from_slice(&entry.json).unwrap();
            (entry.row.queue_position, json["queuePosition"].as_i64())
        };
        board.place(HashMap::from([("u".to_owned(), 3)]));
        board.put(waiting.clone());
        assert_eq!(shown(), (Some(3), Some(3)), "the place was known before the job");
        let (position, _) = board.snapshot(|_| true);
        board.place(HashMap::from([("u".to_owned(), 2), ("other".to_owned(), 1)]));
        assert_eq!(shown(), (Some(2), Some(2)));
        assert_eq!(board.changes(position).unwrap().1.len(), 1, "streams get it");
        board.place(HashMap::new());
        assert_eq!(shown(), (None, None));
    }

    #[test]
    fn identifiers_of_another_process_are_not_positions() {
        let (one, other) = (Board::default(), Board::default());
        assert_eq!(one.position(&one.event_id(7)), Some(7));
        assert_eq!(one.position(&other.event_id(7)), None);
        assert_eq!(one.position("x"), None);
    }
}
