//! Selects, sorts and pages the jobs of a list. Pure.
//!
//! The input is rows, borrowed from wherever they are kept, and a [`Pick`]; the output is the selected rows in order, or
//! one [`Page`] of them. Pages are cut by key, not by offset: a page begins after the last row of the one before, so
//! that jobs created or deleted in between neither repeat nor hide others. A job whose sort value itself changes, such
//! as its state, may change its place like in any list.

mod fields;
mod labels;
mod pages;

use std::cmp::Ordering;
use std::time::Duration;

use api::Phase;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use crate::Kind;
use crate::view::{self, CANCELLING, DELETING, Row};

pub use fields::{FIELDS, Fields};
pub use labels::Labels;
pub use pages::{Cursor, MAX_CURSOR_BYTES, MAX_PAGE, Page};

/// The selection; the default selects every job, sorted by namespace and name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pick {
    /// The kinds; all if empty.
    pub kinds: Vec<Kind>,
    /// The namespaces; all if empty.
    pub namespaces: Vec<String>,
    /// Phases or reasons, in any case; a job with any of them is selected. `Deleting` selects jobs being deleted.
    pub states: Vec<String>,
    /// Only jobs created at this time or later.
    pub since: Option<Timestamp>,
    /// Only jobs created before this time.
    pub until: Option<Timestamp>,
    /// Only jobs of this user.
    pub owner: Option<String>,
    /// Only jobs with these labels.
    pub labels: Option<Labels>,
    /// Only jobs with this text, in any case, in their name, namespace, image, owner, queue, reason or cause.
    pub text: Option<String>,
    /// The sort order; by namespace and name if not given.
    pub order: Option<Order>,
    /// Whether to reverse the order.
    pub reverse: bool,
}

/// The sort order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By name, regardless of the namespace.
    Name,
    /// By urgency: failed, pending, running, succeeded.
    State,
    /// Most Workers first.
    Workers,
    /// Longest run time first.
    Runtime,
    /// Newest first.
    Age,
    /// Most GPUs first.
    Gpus,
}

/// What a row is sorted by: the order's own value, then the name if it comes first, then what makes it unique.
type Key<'r> = (i64, &'r str, &'r str, &'r str, Kind);

impl Order {
    /// Reads a sort field of an API, with whether it reverses the order: `name`, `created`, `phase`, `duration` and
    /// `gpus` sort from the least to the greatest, and with `-` before them from the greatest to the least. Phases
    /// sort by urgency, the failed ones first.
    ///
    /// # Errors
    /// A sentence with the accepted words.
    pub fn read(text: &str) -> Result<(Order, bool), String> {
        let (word, descending) = text.strip_prefix('-').map_or((text, false), |word| (word, true));
        let (order, greatest_first) = match word {
            "name" => (Order::Name, false),
            "phase" => (Order::State, false),
            "created" => (Order::Age, true),
            "duration" => (Order::Runtime, true),
            "gpus" => (Order::Gpus, true),
            "workers" => (Order::Workers, true),
            _ => {
                return Err(format!(
                    "\"{text}\" is not a sort field: use name, created, phase, duration, gpus or workers, with - before it to reverse the order"
                ));
            }
        };
        Ok((order, greatest_first != descending))
    }

    /// A number that sorts rows in this order. The run time is as of `now` even if the job has ended since, so that
    /// jobs keep their order from page to page.
    fn rank(self, row: &Row, now: Timestamp) -> i64 {
        let greatest_first = |value: Option<i64>| value.map_or(i64::MAX, |value| -value);
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        match self {
            Order::Name => 0,
            Order::State => match row.phase {
                api::Phase::Failed => 0,
                api::Phase::Pending => 1,
                api::Phase::Running => 2,
                api::Phase::Succeeded => 3,
            },
            Order::Workers => -i64::from(row.workers.of),
            Order::Gpus => -number(row.gpus),
            Order::Runtime => {
                let until = row.finished.map_or(now, |finished| finished.min(now));
                let lasted = row.running_since.map(|since| until.as_millisecond() - since.as_millisecond());
                greatest_first(lasted.filter(|lasted| *lasted >= 0))
            }
            Order::Age => greatest_first(row.created.map(Timestamp::as_microsecond)),
        }
    }
}

impl Pick {
    /// Returns the selected items in the selected order; `row` converts an item to its row.
    pub fn from<T>(&self, items: Vec<T>, row: impl Fn(&T) -> Row, now: Timestamp) -> Vec<T> {
        let mut rows: Vec<(Row, T)> =
            items.into_iter().map(|item| (row(&item), item)).filter(|(row, _)| self.wants(row)).collect();
        rows.sort_by(|(a, _), (b, _)| self.compare(&self.key(a, now), &self.key(b, now)));
        rows.into_iter().map(|(_, item)| item).collect()
    }

    /// Returns one page of the selected rows: at most `limit` of them, and at most [`MAX_PAGE`], after the cursor.
    /// Takes time proportional to the number of rows, and copies none of them.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if the cursor is of a list in another order.
    pub fn page<'r>(
        &self,
        rows: impl IntoIterator<Item = &'r Row>,
        limit: usize,
        after: Option<&Cursor>,
        now: Timestamp,
    ) -> Result<Page<'r>, crate::Error> {
        pages::page(self, rows, limit, after, now)
    }

    fn key<'r>(&self, row: &'r Row, now: Timestamp) -> Key<'r> {
        let first = if self.order == Some(Order::Name) { row.name.as_str() } else { "" };
        (self.order.map_or(0, |order| order.rank(row, now)), first, &row.namespace, &row.name, row.kind)
    }

    fn compare(&self, a: &Key<'_>, b: &Key<'_>) -> Ordering {
        if self.reverse { b.cmp(a) } else { a.cmp(b) }
    }

    /// Whether a job is selected.
    pub fn wants(&self, row: &Row) -> bool {
        let in_time = |created: Timestamp| {
            self.since.is_none_or(|since| created >= since) && self.until.is_none_or(|until| created < until)
        };
        (self.kinds.is_empty() || self.kinds.contains(&row.kind))
            && (self.namespaces.is_empty() || self.namespaces.contains(&row.namespace))
            && (self.states.is_empty() || self.states.iter().any(|state| is_in_state(row, state)))
            && row.created.map_or(self.since.is_none() && self.until.is_none(), in_time)
            && self.owner.as_ref().is_none_or(|owner| row.owner.as_ref() == Some(owner))
            && self.labels.as_ref().is_none_or(|labels| labels.matches(&row.labels))
            && self.text.as_ref().is_none_or(|text| mentions(row, text))
    }
}

fn is_in_state(row: &Row, word: &str) -> bool {
    let word = word.trim();
    let because = [&row.phase_reason, &row.cause].into_iter().flatten();
    word.eq_ignore_ascii_case(view::phase_name(row.phase))
        || because.into_iter().any(|reason| word.eq_ignore_ascii_case(reason))
        || word.eq_ignore_ascii_case(&row.state.word)
}

/// Returns the words for states that this version knows: phases, and the reasons for them.
pub fn known_states() -> Vec<&'static str> {
    let phases = [Phase::Pending, Phase::Running, Phase::Succeeded, Phase::Failed].map(view::phase_name);
    let reasons = [
        CANCELLING,
        DELETING,
        api::PHASE_REASON_QUEUED,
        api::PHASE_REASON_SUSPENDED,
        api::PHASE_REASON_INITIALIZING,
        api::PHASE_REASON_RESTARTING,
        api::PHASE_REASON_RETRYING,
        api::CONDITION_STALLED,
        api::REASON_COLLAPSED,
        api::REASON_VALIDATION,
    ];
    let causes = diagnosis::Cause::ALL.iter().map(|cause| cause.word());
    phases.into_iter().chain(reasons).chain(causes).collect()
}

/// Whether a word is a state that a job can be in: one that is known, or that one of these jobs is in by the words of its
/// own operator.
pub fn is_state(word: &str, rows: &[Row]) -> bool {
    let word = word.trim();
    known_states().iter().any(|known| known.eq_ignore_ascii_case(word))
        || rows.iter().any(|row| is_in_state(row, word))
}

fn mentions(row: &Row, text: &str) -> bool {
    let optional = [&row.owner, &row.phase_reason, &row.cause].into_iter().flatten().map(String::as_str);
    let queue = row.queue.iter().map(|queue| queue.name.as_str());
    let always = [row.name.as_str(), &row.namespace, &row.image, row.kind.name()];
    always.into_iter().chain(optional).chain(queue).any(|part| contains(part, text.trim()))
}

/// Whether `text` has `part` in it, in any case of ASCII letters.
fn contains(text: &str, part: &str) -> bool {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    part.is_empty() || text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}

/// What to write where a point in time is expected.
pub const MOMENTS: &str = "use 90m, 2d, 2026-01-31 or 2026-01-31T12:00:00Z";

/// Parses a point in time: an age (`90m`, `2d`, `1w`), the start of a day in the given time zone (`2026-01-31`), or an
/// instant (`2026-01-31T12:00:00Z`, without a zone in the given one).
///
/// # Errors
/// What is wrong; [`MOMENTS`] has the accepted forms.
pub fn moment(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, String> {
    let wrong = || format!("\"{text}\" is not a time");
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    if let Some(ago) = length(text) {
        return now.checked_sub(ago).map_err(|_| wrong());
    }
    let local = match text.parse::<DateTime>() {
        Ok(local) => local,
        Err(_) => text.parse::<Date>().map_err(|_| wrong())?.at(0, 0, 0, 0),
    };
    local.to_zoned(zone.clone()).map(|zoned| zoned.timestamp()).map_err(|_| wrong())
}

/// Parses `90m`, `2d12h`, `1w`, `90`; a day has 24 hours.
#[must_use]
pub fn length(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u32 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let seconds = match rest.get(..unit)? {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            "w" => 604_800,
            _ => return None,
        };
        total += Duration::from_secs(seconds).checked_mul(number)?;
        rest = rest.get(unit..)?;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Phase;

    fn now() -> Timestamp {
        "2026-01-31T12:00:00Z".parse().unwrap()
    }

    fn row(name: &str, phase: Phase, reason: Option<&str>, created: &str, workers: i32) -> Row {
        let created: Timestamp = created.parse().unwrap();
        let object = serde_json::json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": {"name": name, "namespace": "team", "creationTimestamp": created, "labels": {"name": name},
                "annotations": {api::ANNOTATION_OWNER: format!("owner-of-{name}")},
                "deletionTimestamp": (name == "going").then_some(created)},
            "spec": {"mpiReplicaSpecs": {"Worker": {"replicas": workers, "template": {"spec": {"containers": [
                {"name": "w", "image": "horovod:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}}}},
            "status": {"phase": phase, "phaseReason": reason, "startTime": created}});
        view::row(&serde_json::from_value(object).unwrap())
    }

    fn rows() -> Vec<Row> {
        vec![
            row("old", Phase::Running, None, "2026-01-01T00:00:00Z", 2),
            row("broken", Phase::Failed, Some("OutOfMemory"), "2026-01-30T00:00:00Z", 8),
            row("held", Phase::Pending, Some("Suspended"), "2026-01-31T11:00:00Z", 4),
            row("going", Phase::Succeeded, None, "2026-01-31T11:30:00Z", 1),
        ]
    }

    fn picked(pick: &Pick) -> Vec<String> {
        pick.from(rows(), Row::clone, now()).into_iter().map(|row| row.name).collect()
    }

    #[test]
    fn jobs_are_picked_by_state_and_time() {
        let states = |words: &[&str]| Pick {
            states: words.iter().map(ToString::to_string).collect(),
            ..Pick::default()
        };
        assert_eq!(picked(&Pick::default()), ["broken", "going", "held", "old"]);
        assert_eq!(picked(&states(&["failed", "Suspended"])), ["broken", "held"]);
        assert_eq!(picked(&states(&["deleting"])), ["going"]);
        let at = |text: &str| moment(text, now(), &TimeZone::UTC).ok();
        assert_eq!(picked(&Pick { since: at("2d"), ..Pick::default() }), ["broken", "going", "held"]);
        assert_eq!(picked(&Pick { until: at("2026-01-30"), ..Pick::default() }), ["old"]);
        assert_eq!(picked(&Pick { since: at("2026-01-30"), until: at("1h"), ..Pick::default() }), ["broken"]);
    }

    #[test]
    fn jobs_are_picked_by_what_they_are() {
        let all = ["broken", "going", "held", "old"];
        let cases = [
            (Pick { kinds: vec![Kind::MpiJob], ..Pick::default() }, &all[..]),
            (Pick { kinds: vec![Kind::TfJob], ..Pick::default() }, &[]),
            (Pick { namespaces: vec!["team".into(), "other".into()], ..Pick::default() }, &all),
            (Pick { namespaces: vec!["other".into()], ..Pick::default() }, &[]),
            (Pick { owner: Some("owner-of-old".into()), ..Pick::default() }, &["old"]),
            (Pick { labels: Labels::read("name in (old, held)").ok(), ..Pick::default() }, &["held", "old"]),
            (Pick { text: Some("OUTOF".into()), ..Pick::default() }, &["broken"]),
            (Pick { text: Some("Horovod".into()), ..Pick::default() }, &all),
            (Pick { text: Some(" eld ".into()), ..Pick::default() }, &["held"]),
            (Pick { text: Some("nowhere".into()), ..Pick::default() }, &[]),
        ];
        for (pick, expected) in cases {
            assert_eq!(picked(&pick), expected, "{pick:?}");
        }
    }

    #[test]
    fn sort_fields_of_an_api_go_up_unless_reversed() {
        let sorted = |text: &str| {
            let (order, reverse) = Order::read(text).unwrap();
            picked(&Pick { order: Some(order), reverse, ..Pick::default() })
        };
        assert_eq!(sorted("created"), ["old", "broken", "held", "going"]);
        assert_eq!(sorted("-created"), ["going", "held", "broken", "old"]);
        assert_eq!(sorted("-gpus"), ["broken", "held", "old", "going"]);
        assert_eq!(sorted("name"), ["broken", "going", "held", "old"]);
        assert_eq!(sorted("-name"), ["old", "held", "going", "broken"]);
        assert!(Order::read("size").unwrap_err().contains("duration"));
    }

    #[test]
    fn jobs_are_sorted() {
        let by = |order| Pick { order: Some(order), ..Pick::default() };
        assert_eq!(picked(&by(Order::State)), ["broken", "held", "old", "going"]);
        assert_eq!(picked(&by(Order::Age)), ["going", "held", "broken", "old"]);
        assert_eq!(picked(&by(Order::Workers)), ["broken", "held", "old", "going"]);
        assert_eq!(picked(&by(Order::Runtime))[0], "old");
        assert_eq!(picked(&Pick { reverse: true, ..by(Order::Age) }), ["old", "broken", "held", "going"]);
    }

    #[test]
    fn points_in_time_are_parsed_in_all_forms() {
        let read = |text: &str| moment(text, now(), &TimeZone::UTC).map(|at| at.to_string());
        assert_eq!(read("90m").as_deref(), Ok("2026-01-31T10:30:00Z"));
        assert_eq!(read("1d12h").as_deref(), Ok("2026-01-30T00:00:00Z"));
        assert_eq!(read("1w").as_deref(), Ok("2026-01-24T12:00:00Z"));
        assert_eq!(read("2026-01-30").as_deref(), Ok("2026-01-30T00:00:00Z"));
        assert_eq!(read("2026-01-30T08:15:00").as_deref(), Ok("2026-01-30T08:15:00Z"));
        assert_eq!(read("2026-01-30T08:15:00+02:00").as_deref(), Ok("2026-01-30T06:15:00Z"));
        for text in ["", "soon", "5 parsecs", "2026-13-01", "m", "5"] {
            assert_eq!(read(text).is_err(), text != "5", "{text}");
        }
        assert_eq!(read("yesterday").unwrap_err(), "\"yesterday\" is not a time");
    }
}
