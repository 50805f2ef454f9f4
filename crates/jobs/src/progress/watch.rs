//! Watches a job, its pods and its events.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::time::Instant;

use futures::stream::{BoxStream, StreamExt};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, DynamicObject};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};

use super::waiting::tell_quiet;
use super::warnings::warn;
use super::{Progress, QUIET, Seen, Told, refused, tell};
use crate::{Attempt, Error, Kind, describe, list, view};

/// The maximum number of consecutive failures of the watch.
const MAX_BREAKS: u32 = 20;
/// The maximum before the server has answered once: the watches of the job and of its pods may each fail once.
const FIRST_BREAKS: u32 = 2;

enum Change {
    Job(Option<Box<DynamicObject>>),
    Pod(Box<watcher::Event<Pod>>),
    Event(Box<Event>),
    Broken(watcher::Error),
}

/// A running watch of one job.
pub struct Watch {
    client: Client,
    kind: Kind,
    namespace: String,
    name: String,
    changes: Pin<Box<dyn futures::Stream<Item = Change> + Send>>,
    seen: Seen,
    told: Told,
    pending: VecDeque<Progress>,
    breaks: u32,
    /// Whether the server has answered at all.
    heard: bool,
    pods_listed: bool,
    ends_if_refused: bool,
}

/// Creates a watch of a job; no request is made before [`Watch::next`] is awaited.
pub fn watch(client: &Client, kind: Kind, namespace: &str, name: &str) -> Watch {
    let jobs = job_changes(client, kind, namespace, name);
    let pods = pod_changes(client, kind, namespace, name);
    let events = event_changes(client, namespace);
    Watch {
        client: client.clone(),
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        changes: Box::pin(futures::stream::select(futures::stream::select(jobs, pods), events)),
        seen: Seen::default(),
        told: Told::default(),
        pending: VecDeque::new(),
        breaks: 0,
        heard: false,
        pods_listed: false,
        ends_if_refused: false,
    }
}

fn job_changes(client: &Client, kind: Kind, namespace: &str, name: &str) -> BoxStream<'static, Change> {
    let jobs = kind.api(client, namespace);
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut initial = false;
    watcher(jobs, config)
        .default_backoff()
        .filter_map(move |event| {
            let change = match event {
                Ok(watcher::Event::Init) => {
                    initial = false;
                    None
                }
                Ok(watcher::Event::InitApply(job)) => {
                    initial = true;
                    Some(Change::Job(Some(Box::new(job))))
                }
                Ok(watcher::Event::InitDone) => (!initial).then_some(Change::Job(None)),
                Ok(watcher::Event::Apply(job)) => Some(Change::Job(Some(Box::new(job)))),
                Ok(watcher::Event::Delete(_)) => Some(Change::Job(None)),
                Err(error) => Some(Change::Broken(error)),
            };
            futures::future::ready(change)
        })
        .boxed()
}

fn pod_changes(client: &Client, kind: Kind, namespace: &str, name: &str) -> BoxStream<'static, Change> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    watcher(api, watcher::Config::default().labels(&kind.pod_selector(name)))
        .default_backoff()
        .map(|event| match event {
            Ok(event) => Change::Pod(Box::new(event)),
            Err(error) => Change::Broken(error),
        })
        .boxed()
}

/// Ignores errors: a caller who may not read events still gets the rest of the progress.
fn event_changes(client: &Client, namespace: &str) -> BoxStream<'static, Change> {
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    watcher(api, watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .filter_map(|event| futures::future::ready(event.ok().map(|event| Change::Event(Box::new(event)))))
        .boxed()
}

impl Watch {
    /// Ends the watch with an error once the API server has refused the job's pods for two minutes.
    #[must_use]
    pub fn ending_if_refused(self) -> Self {
        Self { ends_if_refused: true, ..self }
    }

    /// Waits for the next step of progress; `None` after [`Progress::Ended`].
    ///
    /// # Errors
    /// [`Error::NotFound`] if the job does not exist, [`Error::PodsRefused`] after [`Watch::ending_if_refused`], or the
    /// server's refusal.
    pub async fn next(&mut self) -> Result<Option<Progress>, Error> {
        loop {
            if let Some(progress) = self.pending.pop_front() {
                return Ok(Some(progress));
            }
            if self.told.ended {
                return Ok(None);
            }
            match tokio::time::timeout(QUIET, self.changes.next()).await {
                Ok(Some(change)) => self.take_in(change).await?,
                Ok(None) => return Ok(None),
                Err(_) => self.pending.extend(tell_quiet(&mut self.told, &self.seen)),
            }
            let refused = refused(&mut self.told, &self.seen, Instant::now());
            if let Some(error) = refused.filter(|_| self.ends_if_refused) {
                return Err(error);
            }
        }
    }

    /// Processes one change without reporting it, for callers that read [`Watch::pods`] themselves. Returns `false`
    /// once the job has ended and its pods are known.
    ///
    /// # Errors
    /// As [`Watch::next`].
    pub async fn step(&mut self) -> Result<bool, Error> {
        match self.changes.next().await {
            Some(change) => self.take_in(change).await?,
            None => return Ok(false),
        }
        self.pending.clear();
        Ok(!(self.told.ended && self.pods_listed))
    }

    /// Returns the job as last observed.
    pub fn job(&self) -> Option<&DynamicObject> {
        self.seen.job.as_ref()
    }

    /// Returns the job's pods as last observed.
    pub fn pods(&self) -> &BTreeMap<String, Pod> {
        &self.seen.pods
    }

    async fn take_in(&mut self, change: Change) -> Result<(), Error> {
        match change {
            Change::Broken(error) => return self.broken(error),
            Change::Event(event) => {
                self.pending.extend(warn(&mut self.told, &self.seen, &event));
                return Ok(());
            }
            Change::Job(Some(job)) => {
                let has_ended = view::row(&job).has_ended();
                self.seen.job = Some(*job);
                if has_ended && self.told.launcher.is_none() {
                    self.catch_up().await;
                }
            }
            Change::Job(None) if self.seen.job.is_none() => {
                let kind = Some(self.kind);
                return Err(list::not_found(&self.client, kind, &self.namespace, &self.name).await);
            }
            Change::Job(None) => self.seen.gone = true,
            // The list is about to be requested; the server has not answered yet.
            Change::Pod(event) if matches!(*event, watcher::Event::Init) => {
                take_in_pod(&mut self.seen.pods, *event);
                return Ok(());
            }
            Change::Pod(event) => {
                self.pods_listed |= matches!(*event, watcher::Event::InitDone);
                take_in_pod(&mut self.seen.pods, *event);
            }
        }
        (self.breaks, self.heard) = (0, true);
        self.pending.extend(tell(&mut self.told, &self.seen));
        Ok(())
    }

    /// Lists the pods: their watch may be behind the job's, and a job that has ended so soon has output all the same. Without the
    /// list the job has ended no less.
    async fn catch_up(&mut self) {
        if let Ok(pods) = describe::pods(&self.client, self.kind, &self.namespace, &self.name).await {
            self.seen.pods.extend(pods.into_iter().map(|pod| (pod.name_any(), pod)));
        }
    }

    fn broken(&mut self, error: watcher::Error) -> Result<(), Error> {
        self.breaks += 1;
        let final_refusal = match &error {
            watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => {
                matches!(status.code, 401 | 403 | 404)
            }
            _ => false,
        };
        let most = if self.heard { MAX_BREAKS } else { FIRST_BREAKS };
        if !final_refusal && self.breaks <= most {
            return Ok(());
        }
        let attempt =
            Attempt { verb: "watch", what: self.kind.names(), name: &self.name, namespace: &self.namespace };
        Err(match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => Error::from_kube(error, attempt),
            other => Error::BrokenStream { what: "the watch".to_owned(), detail: other.to_string() },
        })
    }
}

fn take_in_pod(pods: &mut BTreeMap<String, Pod>, event: watcher::Event<Pod>) {
    match event {
        watcher::Event::Init => pods.clear(),
        watcher::Event::InitApply(pod) | watcher::Event::Apply(pod) => {
            pods.insert(pod.name_any(), pod);
        }
        watcher::Event::Delete(pod) => {
            pods.remove(&pod.name_any());
        }
        watcher::Event::InitDone => {}
    }
}
