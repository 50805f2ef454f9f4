//! The events of a job and its pods: those so far, and new ones as they occur.

use std::collections::BTreeSet;

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::runtime::{WatchStreamExt, watcher};

use crate::describe::{self, EventView};
use crate::progress::{self, Progress};
use crate::{Attempt, Error, Kind, list};

/// The maximum number of events remembered to avoid duplicates.
const MAX_TOLD: usize = 10_000;

/// Returns all events so far, oldest first.
///
/// # Errors
/// If the job does not exist, or events may not be read.
pub async fn events(
    client: &Client,
    kind: Kind,
    namespace: &str,
    name: &str,
) -> Result<Vec<EventView>, Error> {
    let job = list::get(client, kind, namespace, name).await?;
    let found = describe::pods_and_events(client, &job).await.1?;
    let mut told: Vec<EventView> =
        found.iter().filter(|event| describe::concerns(event, &job)).map(describe::event_view).collect();
    told.sort_by_key(|event| event.at);
    Ok(told)
}

/// A stream of events, beginning with those so far, until the job has ended.
pub struct Watch {
    job: DynamicObject,
    events: BoxStream<'static, Result<Event, watcher::Error>>,
    progress: progress::Watch,
    told: BTreeSet<(String, String, String, i32)>,
    ended: bool,
}

/// Starts watching.
///
/// # Errors
/// If the job does not exist, or events may not be read.
pub async fn watch(client: &Client, kind: Kind, namespace: &str, name: &str) -> Result<Watch, Error> {
    let job = list::get(client, kind, namespace, name).await?;
    // A refusal must be reported at once; the watcher would retry forever.
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let attempt = Attempt { verb: "list", what: "events", name: "", namespace };
    api.list(&ListParams::default().limit(1)).await.map_err(|error| Error::from_kube(error, attempt))?;
    let events = watcher(api, watcher::Config::default()).default_backoff().applied_objects().boxed();
    let progress = progress::watch(client, kind, namespace, name);
    Ok(Watch { job, events, progress, told: BTreeSet::new(), ended: false })
}

impl Watch {
    /// Returns the next event; `None` once the job has ended.
    ///
    /// # Errors
    /// If the job can no longer be watched.
    pub async fn next(&mut self) -> Result<Option<EventView>, Error> {
        while !self.ended {
            tokio::select! {
                biased;
                event = self.events.next() => match event {
                    Some(Ok(event)) => if let Some(view) = self.unseen(&event) { return Ok(Some(view)) },
                    // The watcher reconnects by itself.
                    Some(Err(_)) => {}
                    None => return Ok(None),
                },
                news = self.progress.next() => match news? {
                    Some(Progress::Ended(_)) | None => self.ended = true,
                    Some(_) => {}
                },
            }
        }
        Ok(None)
    }

    fn unseen(&mut self, event: &Event) -> Option<EventView> {
        let view = describe::event_view(event);
        let key = (view.object.clone(), view.reason.clone(), view.message.clone(), view.count);
        let new = describe::concerns(event, &self.job) && self.told.len() < MAX_TOLD && self.told.insert(key);
        new.then_some(view)
    }
}
