//! Streams changes of jobs: a snapshot, then what changed, cut to what the caller may see.
//!
//! The stream remembers a position on the board and is asked for its next event only when the client has taken the one
//! before. A client that reads slowly gets the newest state of each job, and one that stopped for long a snapshot.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::watch;
use tokio::time::Interval;

use super::list::write_rows;
use super::visible::Visible;
use crate::board::Entry;
use crate::contract::{Answer, JobRef, JobsEvent, WatchJobsRequest};
use crate::filter::{Filter, Sent};
use crate::identity::Caller;
use crate::interval::every;
use crate::problem::Problem;
use crate::service::Service;

/// How long changes are gathered before they are sent; a change is to be seen within 200 ms.
const GATHER: Duration = Duration::from_millis(20);
/// The most jobs in an event.
const PART: usize = 200;

/// An event, whose rows are already written as JSON.
#[derive(Debug)]
pub struct Event {
    id: String,
    kind: &'static str,
    jobs: Vec<Arc<Entry>>,
    deleted: Vec<JobRef>,
    first: bool,
    complete: bool,
}

impl Answer<JobsEvent> for Event {
    fn message(self) -> JobsEvent {
        JobsEvent {
            id: self.id,
            r#type: self.kind.to_owned(),
            jobs: self.jobs.iter().map(|entry| entry.row.clone()).collect(),
            deleted: self.deleted,
            first: self.first,
            complete: self.complete,
        }
    }

    fn json(&self) -> Vec<u8> {
        let mut json =
            Vec::with_capacity(128 + self.jobs.iter().map(|entry| entry.json.len() + 1).sum::<usize>());
        json.push(b'{');
        if !self.id.is_empty() {
            json.extend_from_slice(format!("\"id\":\"{}\",", self.id).as_bytes());
        }
        json.extend_from_slice(format!("\"type\":\"{}\",\"jobs\":", self.kind).as_bytes());
        write_rows(&self.jobs, &mut json);
        json.extend_from_slice(b",\"deleted\":");
        json.extend(serde_json::to_vec(&self.deleted).unwrap_or_default());
        json.extend_from_slice(
            format!(",\"first\":{},\"complete\":{}}}", self.first, self.complete).as_bytes(),
        );
        json
    }

    fn event(&self) -> &str {
        self.kind
    }

    fn id(&self) -> &str {
        &self.id
    }
}

/// Streams changes.
pub async fn watch_jobs(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: WatchJobsRequest,
) -> Result<BoxStream<'static, Result<Event, Problem>>, Problem> {
    let filter = Filter::read(&Sent {
        namespace: &request.namespace,
        kinds: &request.kind,
        names: &request.names,
        phases: &request.phase,
        owner: &request.owner,
        since: "",
        until: "",
        text: &request.q,
        labels: &request.labels,
    })?
    .with_states_of(&service.board)?;
    let visible = Visible::of(&service, &caller, &filter).await?;
    let watching = Watching {
        position: service.board.position(&request.last_event_id),
        moved: service.board.moved(),
        heartbeat: every(service.settings.heartbeat),
        recheck: every(service.settings.recheck),
        parts: VecDeque::new(),
        service,
        caller,
        filter,
        visible,
    };
    let events = stream::unfold(watching, |mut watching| async move {
        let event = watching.next().await;
        Some((event, watching))
    });
    Ok(events.boxed())
}

struct Watching {
    service: Arc<Service>,
    caller: Arc<Caller>,
    filter: Filter,
    visible: Visible,
    /// What was sent so far; `None` before a snapshot.
    position: Option<u64>,
    moved: watch::Receiver<u64>,
    heartbeat: Interval,
    recheck: Interval,
    /// The rest of a snapshot or of many changes.
    parts: VecDeque<Event>,
}

impl Watching {
    async fn next(&mut self) -> Result<Event, Problem> {
        loop {
            if let Some(part) = self.parts.pop_front() {
                self.heartbeat.reset();
                return Ok(part);
            }
            let Some(position) = self.position else {
                self.snapshot();
                continue;
            };
            self.moved.borrow_and_update();
            self.changes_after(position).await?;
            if !self.parts.is_empty() {
                continue;
            }
            tokio::select! {
                // The board keeps the sender for its lifetime.
                _ = self.moved.changed() => tokio::time::sleep(GATHER).await,
                _ = self.recheck.tick() => self.look_again().await?,
                _ = self.heartbeat.tick() => {
                    let id = self.service.board.event_id(self.position.unwrap_or(position));
                    return Ok(event("heartbeat", id));
                }
            }
        }
    }

    /// Finds out what the caller may see now; if that has changed, a snapshot says so.
    async fn look_again(&mut self) -> Result<(), Problem> {
        let visible = Visible::of(&self.service, &self.caller, &self.filter).await?;
        if visible != self.visible {
            self.visible = visible;
            self.position = None;
        }
        Ok(())
    }

    fn snapshot(&mut self) {
        let board = &self.service.board;
        let (position, found) =
            board.snapshot(|entry| self.filter.selects(entry) && self.visible.shows_job(entry));
        self.parts = found
            .chunks(PART)
            .map(|jobs| Event { jobs: jobs.to_vec(), ..event("snapshot", String::new()) })
            .collect();
        if self.parts.is_empty() {
            self.parts.push_back(event("snapshot", String::new()));
        }
        if let Some(first) = self.parts.front_mut() {
            first.first = true;
        }
        if let Some(last) = self.parts.back_mut() {
            last.complete = true;
            last.id = board.event_id(position);
        }
        self.position = Some(position);
    }

    async fn changes_after(&mut self, position: u64) -> Result<(), Problem> {
        let Some((reached, changes)) = self.service.board.changes(position) else {
            self.position = None;
            return Ok(());
        };
        let covered =
            |(kind, namespace, _): &(jobs::Kind, String, String)| self.filter.covers(*kind, namespace);
        let changes: Vec<_> = changes.into_iter().filter(|(key, _)| covered(key)).collect();
        // The first job of a namespace: nobody has asked yet whether the caller may see it.
        let is_hidden =
            |(kind, namespace, _): &(jobs::Kind, String, String)| !self.visible.shows(*kind, namespace);
        if self.filter.namespace.is_empty() && changes.iter().any(|(key, _)| is_hidden(key)) {
            self.look_again().await?;
            if self.position.is_none() {
                return Ok(());
            }
        }
        self.position = Some(reached);
        let (mut shown, mut gone) = (Vec::new(), Vec::new());
        for ((kind, namespace, name), entry) in changes {
            if !self.visible.shows(kind, &namespace) {
                continue;
            }
            match entry.filter(|entry| self.filter.selects(entry)) {
                Some(entry) => shown.push(entry),
                None => gone.push(JobRef { kind: kind.name().to_owned(), namespace, name }),
            }
        }
        if shown.is_empty() && gone.is_empty() {
            return Ok(());
        }
        self.parts = shown
            .chunks(PART)
            .map(|jobs| Event { jobs: jobs.to_vec(), ..event("change", String::new()) })
            .collect();
        if self.parts.is_empty() {
            self.parts.push_back(event("change", String::new()));
        }
        if let Some(last) = self.parts.back_mut() {
            last.deleted = gone;
            last.id = self.service.board.event_id(reached);
        }
        Ok(())
    }
}

fn event(kind: &'static str, id: String) -> Event {
    Event { id, kind, jobs: Vec::new(), deleted: Vec::new(), first: false, complete: false }
}
