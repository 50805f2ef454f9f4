//! A list of jobs that stays up to date: every job of a selection, of each kind, and its changes.
//!
//! There is one watch per kind. Memory is bounded by the number of jobs: only the last row of each is kept.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{BoxStream, SelectAll, StreamExt};
use kube::api::DynamicObject;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};

use crate::list::Selection;
use crate::view::{self, Row};
use crate::{Attempt, Class, Error, Kind};

/// The maximum number of consecutive failures of the watches.
const MAX_BREAKS: u32 = 20;
/// The maximum for each watch before the server has answered once.
const FIRST_BREAKS: usize = 1;

/// The identity of a job in a list: its kind, namespace and name.
pub type Key = (Kind, String, String);

/// One change.
#[derive(Debug)]
pub enum Change {
    /// A job was added or modified.
    Job(Box<DynamicObject>),
    /// A job was deleted.
    Gone(Key),
    /// All existing jobs have been reported; they are reported again after a long interruption.
    Listed,
}

/// The events of one kind's watch, with the kind.
type KindEvents = BoxStream<'static, (Kind, Result<watcher::Event<DynamicObject>, watcher::Error>)>;

/// A running watch of a selection.
pub struct Live {
    events: SelectAll<KindEvents>,
    selection: Selection,
    rows: BTreeMap<Key, Row>,
    /// For each kind, the keys that a list in progress has named so far.
    naming: BTreeMap<Kind, BTreeSet<Key>>,
    /// Kinds whose list is not complete yet.
    unlisted: BTreeSet<Kind>,
    refusal: Option<Error>,
    breaks: u32,
    /// The maximum number of consecutive failures.
    most_breaks: u32,
    pending: Vec<Change>,
}

/// Creates the watch; no request is made before [`Live::next`] is awaited.
pub fn live(client: &Client, selection: &Selection) -> Live {
    let kinds: Vec<Kind> = selection.kind.map_or_else(|| Kind::ALL.to_vec(), |kind| vec![kind]);
    let streams = kinds.iter().map(|kind| {
        let kind = *kind;
        let api = match &selection.namespace {
            Some(namespace) => kind.api(client, namespace),
            None => kind.api_all(client),
        };
        let mut config = watcher::Config::default();
        config.label_selector.clone_from(&selection.labels);
        watcher(api, config)
            .default_backoff()
            .scan(false, move |over, event| {
                let goes_on = !*over;
                *over = event.as_ref().is_err_and(is_final);
                futures::future::ready(goes_on.then_some((kind, event)))
            })
            .boxed()
    });
    Live {
        events: futures::stream::select_all(streams),
        selection: selection.clone(),
        rows: BTreeMap::new(),
        naming: BTreeMap::new(),
        most_breaks: u32::try_from(kinds.len() * FIRST_BREAKS).unwrap_or(MAX_BREAKS),
        unlisted: kinds.into_iter().collect(),
        refusal: None,
        breaks: 0,
        pending: Vec::new(),
    }
}

impl Live {
    /// Returns the jobs as last observed.
    pub fn rows(&self) -> &BTreeMap<Key, Row> {
        &self.rows
    }

    /// Waits for the next change.
    ///
    /// # Errors
    /// The server's refusal of every kind, or a watch that fails too often.
    pub async fn next(&mut self) -> Result<Change, Error> {
        loop {
            match self.pending.pop() {
                // If something may not be listed, finding nothing does not mean that the list is empty.
                Some(Change::Listed) if self.rows.is_empty() && self.may_not_see() => {
                    return Err(self.refusal.take().unwrap_or_else(ended));
                }
                Some(change) => return Ok(change),
                None => {}
            }
            let (kind, event) = match self.events.next().await {
                Some(next) => next,
                None => return Err(self.refusal.take().unwrap_or_else(ended)),
            };
            match event {
                // The list is about to be requested; the server has not answered yet.
                Ok(event @ watcher::Event::Init) => self.take_in(kind, event),
                Ok(event) => {
                    (self.breaks, self.most_breaks) = (0, MAX_BREAKS);
                    self.take_in(kind, event);
                }
                Err(error) => self.broken(kind, error)?,
            }
        }
    }

    fn may_not_see(&self) -> bool {
        self.refusal.as_ref().is_some_and(|error| error.class() == Class::NotAllowed)
    }

    fn take_in(&mut self, kind: Kind, event: watcher::Event<DynamicObject>) {
        match event {
            watcher::Event::Init => {
                self.naming.insert(kind, BTreeSet::new());
            }
            watcher::Event::InitApply(job) | watcher::Event::Apply(job) => {
                let key = key(kind, &job);
                if let Some(named) = self.naming.get_mut(&kind) {
                    named.insert(key.clone());
                }
                let mut job = job;
                // Items of a list lack kind and version; as separate objects they need them.
                job.types.get_or_insert_with(|| kube::core::TypeMeta {
                    api_version: kind.api_version(),
                    kind: kind.name().to_owned(),
                });
                self.rows.insert(key, view::row(&job));
                self.pending.push(Change::Job(Box::new(job)));
            }
            watcher::Event::Delete(job) => {
                let key = key(kind, &job);
                self.rows.remove(&key);
                self.pending.push(Change::Gone(key));
            }
            watcher::Event::InitDone => {
                let named = self.naming.remove(&kind).unwrap_or_default();
                let gone: Vec<Key> =
                    self.rows.keys().filter(|key| key.0 == kind && !named.contains(*key)).cloned().collect();
                self.listed(kind);
                for key in gone {
                    self.rows.remove(&key);
                    self.pending.push(Change::Gone(key));
                }
            }
        }
    }

    /// Records that a kind's list is complete, or will never be.
    fn listed(&mut self, kind: Kind) {
        self.unlisted.remove(&kind);
        if self.unlisted.is_empty() {
            self.pending.push(Change::Listed);
        }
    }

    /// Handles a watch error. A kind that the cluster does not serve or the caller may not watch is left out while
    /// another can be watched.
    fn broken(&mut self, kind: Kind, error: watcher::Error) -> Result<(), Error> {
        let final_refusal = is_final(&error);
        let attempt = Attempt {
            verb: "watch",
            what: kind.names(),
            name: "",
            namespace: self.selection.namespace.as_deref().unwrap_or(""),
        };
        let explained = match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => Error::from_kube(error, attempt),
            other => Error::BrokenStream { what: "the watch".to_owned(), detail: other.to_string() },
        };
        if final_refusal && self.selection.kind.is_none() {
            self.refusal.get_or_insert(explained);
            self.listed(kind);
            return Ok(());
        }
        self.breaks += 1;
        if final_refusal || self.breaks > self.most_breaks { Err(explained) } else { Ok(()) }
    }
}

/// Whether retrying cannot help.
fn is_final(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => {
            matches!(status.code, 401 | 403 | 404)
        }
        _ => false,
    }
}

fn ended() -> Error {
    Error::BrokenStream { what: "the watch".to_owned(), detail: "the server closed it".to_owned() }
}

fn key(kind: Kind, job: &DynamicObject) -> Key {
    (kind, job.namespace().unwrap_or_default(), job.name_any())
}
