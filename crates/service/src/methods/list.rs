//! Lists jobs from the board: filtered, sorted, paged, and cut to what the caller may see.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use jobs::{Kind, pick};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::values;
use super::visible::Visible;
use crate::board::{AgeKey, Entry};
use crate::contract::{Answer, JobRow, ListJobsRequest, ListJobsResponse, MetricSummary};
use crate::filter::{Filter, Sent};
use crate::identity::Caller;
use crate::problem::Problem;
use crate::row::count;
use crate::service::Service;

/// The size of a page if none is given, and the largest.
const PAGE: usize = 100;
const LARGEST_PAGE: usize = 500;
/// The fields that every row has: those by which a job is known, and numbers and flags.
const ALWAYS: [&str; 6] = ["kind", "namespace", "name", "gpus", "deleting", "ended"];
/// The fields of a row in other front ends that the contract's rows lack.
const ELSEWHERE: [&str; 3] = ["slotsPerWorker", "mpi", "image"];

/// The fields of a row that can be left out.
fn optional_fields() -> impl Iterator<Item = &'static str> {
    let is_optional = |name: &&str| !ALWAYS.contains(name) && !ELSEWHERE.contains(name);
    // The contract has a job's place in its queue beside the queue.
    pick::FIELDS.into_iter().filter(is_optional).chain(["queuePosition"])
}

/// A page, whose rows are already written as JSON.
#[derive(Debug, Default)]
pub struct Page {
    rows: Vec<Arc<Entry>>,
    /// The fields to leave out.
    without: Vec<&'static str>,
    next: String,
    total: Option<i32>,
    metrics: Vec<MetricSummary>,
    notes: Vec<String>,
}

impl Answer<ListJobsResponse> for Page {
    fn message(self) -> ListJobsResponse {
        let of = |entry: &Arc<Entry>| match self.without.is_empty() {
            true => entry.row.clone(),
            // Rows are written and read by the same types.
            false => {
                serde_json::from_value(Value::Object(cut(&entry.row, &self.without))).unwrap_or_default()
            }
        };
        let jobs = self.rows.iter().map(of).collect();
        let Self { next, total, metrics, notes, .. } = self;
        ListJobsResponse { jobs, r#continue: next, total, metrics, notes }
    }

    fn json(&self) -> Vec<u8> {
        let mut json =
            Vec::with_capacity(64 + self.rows.iter().map(|entry| entry.json.len() + 1).sum::<usize>());
        json.extend_from_slice(b"{\"jobs\":");
        if self.without.is_empty() {
            write_rows(&self.rows, &mut json);
        } else {
            let rows: Vec<_> = self.rows.iter().map(|entry| cut(&entry.row, &self.without)).collect();
            json.extend(serde_json::to_vec(&rows).unwrap_or_default());
        }
        if !self.next.is_empty() {
            // Its letters need no escapes.
            json.extend_from_slice(format!(",\"continue\":\"{}\"", self.next).as_bytes());
        }
        if let Some(total) = self.total {
            json.extend_from_slice(format!(",\"total\":{total}").as_bytes());
        }
        json.extend_from_slice(b",\"metrics\":");
        json.extend(serde_json::to_vec(&self.metrics).unwrap_or_default());
        json.extend_from_slice(b",\"notes\":");
        json.extend(serde_json::to_vec(&self.notes).unwrap_or_default());
        json.push(b'}');
        json
    }
}

/// Writes a row without some of its fields.
fn cut(row: &JobRow, without: &[&str]) -> Map<String, Value> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(row) else { return Map::new() };
    fields.retain(|name, _| !without.contains(&name.as_str()));
    fields
}

/// Reads which fields are wanted; returns those to leave out.
fn without(wanted: &[String]) -> Result<Vec<&'static str>, Problem> {
    let optional: Vec<&str> = optional_fields().collect();
    for name in wanted {
        if !optional.contains(&name.as_str()) && !ALWAYS.contains(&name.as_str()) {
            let shown: String = name.chars().take(40).collect();
            let fault = format!("\"{}\" is not a field of a row", shown.escape_debug());
            return Err(Problem::invalid("fields", fault, format!("use some of {}", optional.join(", "))));
        }
    }
    let is_left_out = |name: &&str| !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name);
    Ok(optional.into_iter().filter(is_left_out).collect())
}

/// Writes rows as a JSON array.
pub fn write_rows(rows: &[Arc<Entry>], json: &mut Vec<u8>) {
    json.push(b'[');
    for (at, entry) in rows.iter().enumerate() {
        if at > 0 {
            json.push(b',');
        }
        json.extend_from_slice(&entry.json);
    }
    json.push(b']');
}

/// Lists jobs.
pub async fn list_jobs(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: ListJobsRequest,
) -> Result<Page, Problem> {
    let filter = Filter::read(&Sent {
        namespace: &request.namespace,
        kinds: &request.kind,
        names: &request.names,
        phases: &request.phase,
        owner: &request.owner,
        since: &request.since,
        until: &request.until,
        text: &request.q,
        labels: &request.labels,
    })?
    .with_states_of(&service.board)?;
    let order = Order::read(&request.sort)?;
    let limit = match usize::try_from(request.limit) {
        Ok(0) => PAGE,
        Ok(limit) if limit <= LARGEST_PAGE => limit,
        _ => {
            let fault = format!("{} is not between 1 and {LARGEST_PAGE}", request.limit);
            return Err(Problem::invalid("limit", fault, "ask for several pages"));
        }
    };
    let without = without(&request.fields)?;
    let after = Cursor::read(&request.r#continue, &request.sort)?;
    let order = Order {
        now: after.as_ref().map_or_else(|| Timestamp::now().as_second(), |cursor| cursor.now),
        ..order
    };
    let visible = Visible::of(&service, &caller, &filter).await?;
    let wanted = |entry: &Entry| filter.selects(entry) && visible.shows_job(entry);
    let mut rows = match order {
        Order { field: Field::Created, descending: true, .. } => {
            newest(&service, after.as_ref(), limit + 1, wanted)
        }
        order => sorted(&service, order, after.as_ref(), limit + 1, wanted),
    };
    let total = request.total.then(|| count(service.board.snapshot(wanted).1.len()));
    let mut next = String::new();
    if rows.len() > limit {
        rows.truncate(limit);
        next = rows.last().map(|last| Cursor::at(last, order, &request.sort)).unwrap_or_default();
    }
    let (metrics, notes) =
        if request.metrics { values::of_rows(&service, &rows).await } else { Default::default() };
    Ok(Page { rows, without, next, total, metrics, notes })
}

/// The newest jobs: the board has them in this order.
fn newest(
    service: &Service,
    after: Option<&Cursor>,
    most: usize,
    wanted: impl Fn(&Entry) -> bool,
) -> Vec<Arc<Entry>> {
    let mut found = Vec::with_capacity(most);
    service.board.by_age(after.map(Cursor::age_key).as_ref(), |entry| {
        if wanted(entry) {
            found.push(entry.clone());
        }
        found.len() < most
    });
    found
}

fn sorted(
    service: &Service,
    order: Order,
    after: Option<&Cursor>,
    most: usize,
    wanted: impl Fn(&Entry) -> bool,
) -> Vec<Arc<Entry>> {
    let mut found = service.board.snapshot(wanted).1;
    found.sort_by(|a, b| order.compare(&Place::of(order, a), &Place::of(order, b)));
    let start = after.map_or(0, |cursor| {
        found.partition_point(|entry| {
            order.compare(&Place::of(order, entry), &cursor.place()) != Ordering::Greater
        })
    });
    found.drain(..start);
    found.truncate(most);
    found
}

/// A field to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Created,
    Name,
    Namespace,
    Phase,
    Workers,
    Gpus,
    Duration,
}

/// An order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Order {
    field: Field,
    descending: bool,
    /// The time up to which running jobs have run, in seconds: the same for all pages.
    now: i64,
}

impl Order {
    fn read(text: &str) -> Result<Self, Problem> {
        let (name, descending) = match text.strip_prefix('-') {
            Some(name) => (name, true),
            None if text.is_empty() => ("created", true),
            None => (text, false),
        };
        let field = match name {
            "created" => Field::Created,
            "name" => Field::Name,
            "namespace" => Field::Namespace,
            "phase" => Field::Phase,
            "workers" => Field::Workers,
            "gpus" => Field::Gpus,
            "duration" => Field::Duration,
            _ => {
                let shown: String = text.chars().take(40).collect();
                let fault = format!("\"{}\" is not an order", shown.escape_debug());
                return Err(Problem::invalid(
                    "sort",
                    fault,
                    "use created, duration, name, namespace, phase, workers or gpus",
                ));
            }
        };
        Ok(Self { field, descending, now: 0 })
    }

    /// Compares by the field; jobs that are equal in it are in the order of their names, whatever the direction.
    fn compare(self, a: &Place<'_>, b: &Place<'_>) -> Ordering {
        let by_field = a.number.cmp(&b.number).then_with(|| a.text.cmp(b.text));
        let by_field = if self.descending { by_field.reverse() } else { by_field };
        by_field.then_with(|| (a.namespace, a.name, a.kind).cmp(&(b.namespace, b.name, b.kind)))
    }
}

/// The place of a job in an order.
struct Place<'e> {
    number: i64,
    text: &'e str,
    namespace: &'e str,
    name: &'e str,
    kind: Kind,
}

impl<'e> Place<'e> {
    fn of(order: Order, entry: &'e Entry) -> Self {
        let row = &entry.row;
        let (number, text) = match order.field {
            Field::Created => (entry.created.map_or(0, jiff::Timestamp::as_second), ""),
            Field::Name => (0, row.name.as_str()),
            Field::Namespace => (0, row.namespace.as_str()),
            Field::Phase => (urgency(&row.phase), ""),
            Field::Workers => (row.workers.as_ref().map_or(0, |workers| i64::from(workers.of)), ""),
            Field::Gpus => (i64::from(row.gpus), ""),
            Field::Duration => (duration(entry, order.now), ""),
        };
        Self { number, text, namespace: &row.namespace, name: &row.name, kind: entry.kind }
    }
}

/// How long a job has run until `now`, in seconds; -1 if it does not run yet.
fn duration(entry: &Entry, now: i64) -> i64 {
    let until = entry.finished.map_or(now, Timestamp::as_second);
    entry.running_since.map_or(-1, |since| (until - since.as_second()).max(0))
}

/// What needs attention comes first.
fn urgency(phase: &str) -> i64 {
    match phase {
        "Failed" => 0,
        "Pending" => 1,
        "Running" => 2,
        _ => 3,
    }
}

/// The last job of a page, by which the next page begins: no page shifts when jobs come or go.
#[derive(Serialize, Deserialize)]
struct Cursor {
    sort: String,
    now: i64,
    number: i64,
    text: String,
    namespace: String,
    name: String,
    kind: usize,
}

impl Cursor {
    fn at(entry: &Entry, order: Order, sort: &str) -> String {
        let place = Place::of(order, entry);
        let cursor = Cursor {
            sort: sort.to_owned(),
            now: order.now,
            number: place.number,
            text: place.text.to_owned(),
            namespace: place.namespace.to_owned(),
            name: place.name.to_owned(),
            kind: Kind::ALL.iter().position(|kind| *kind == place.kind).unwrap_or_default(),
        };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&cursor).unwrap_or_default())
    }

    fn read(text: &str, sort: &str) -> Result<Option<Self>, Problem> {
        if text.is_empty() {
            return Ok(None);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
        let cursor = serde_json::from_slice(&bytes).ok();
        let cursor = cursor.filter(|cursor: &Cursor| cursor.sort == sort && cursor.kind < Kind::ALL.len());
        let wrong = || {
            Problem::invalid(
                "continue",
                "is not of a page in this order",
                "send the continue of the page before, with the same sort",
            )
        };
        cursor.ok_or_else(wrong).map(Some)
    }

    fn kind(&self) -> Kind {
        Kind::ALL.get(self.kind).copied().unwrap_or_default()
    }

    fn place(&self) -> Place<'_> {
        Place {
            number: self.number,
            text: &self.text,
            namespace: &self.namespace,
            name: &self.name,
            kind: self.kind(),
        }
    }

    fn age_key(&self) -> AgeKey {
        let created = jiff::Timestamp::from_second(self.number).ok();
        (Reverse(created), self.namespace.clone(), self.name.clone(), self.kind())
    }
}
