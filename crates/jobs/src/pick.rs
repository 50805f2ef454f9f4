//! Selects and sorts the jobs of a list, by state and by creation time. Pure.

use std::cmp::{Ordering, Reverse};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use crate::view::{self, Row};

/// The selection; the default selects every job, sorted by namespace and name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pick {
    /// Phases or reasons, in any case; a job with any of them is selected.
    pub states: Vec<String>,
    /// Only jobs created at this time or later.
    pub since: Option<Timestamp>,
    /// Only jobs created before this time.
    pub until: Option<Timestamp>,
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
}

impl Pick {
    /// Returns the selected items in the selected order; `row` converts an item to its row.
    pub fn from<T>(&self, items: Vec<T>, row: impl Fn(&T) -> Row, now: Timestamp) -> Vec<T> {
        let mut rows: Vec<(Row, T)> =
            items.into_iter().map(|item| (row(&item), item)).filter(|(row, _)| self.wants(row)).collect();
        rows.sort_by(|(a, _), (b, _)| {
            let by_name = (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name));
            let order = self.order.map_or(Ordering::Equal, |order| compare(order, a, b, now));
            let order = order.then(by_name);
            if self.reverse { order.reverse() } else { order }
        });
        rows.into_iter().map(|(_, item)| item).collect()
    }

    /// Whether a job is selected.
    pub fn wants(&self, row: &Row) -> bool {
        let is = |word: &String| {
            let word = word.trim();
            let reason = row.reason.as_deref().unwrap_or("");
            word.eq_ignore_ascii_case(view::phase_name(row.phase))
                || word.eq_ignore_ascii_case(reason)
                || (row.deleting && word.eq_ignore_ascii_case("Deleting"))
        };
        let in_time = |created: Timestamp| {
            self.since.is_none_or(|since| created >= since) && self.until.is_none_or(|until| created < until)
        };
        (self.states.is_empty() || self.states.iter().any(is))
            && row.created.map_or(self.since.is_none() && self.until.is_none(), in_time)
    }
}

fn compare(order: Order, a: &Row, b: &Row, now: Timestamp) -> Ordering {
    let urgency = |row: &Row| match row.phase {
        api::Phase::Failed => 0,
        api::Phase::Pending => 1,
        api::Phase::Running => 2,
        api::Phase::Succeeded => 3,
    };
    match order {
        Order::Name => a.name.cmp(&b.name),
        Order::State => urgency(a).cmp(&urgency(b)),
        Order::Workers => b.workers.cmp(&a.workers),
        Order::Runtime => b.runtime(now).cmp(&a.runtime(now)),
        Order::Age => Reverse(a.created).cmp(&Reverse(b.created)),
    }
}

/// Parses a point in time: an age (`90m`, `2d`, `1w`), the start of a day in the given time zone (`2026-01-31`), or an
/// instant (`2026-01-31T12:00:00Z`, without a zone in the given one).
///
/// # Errors
/// A sentence with the accepted forms.
pub fn moment(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, String> {
    let wrong = || format!("\"{text}\" is not a time: use 90m, 2d, 2026-01-31 or 2026-01-31T12:00:00Z");
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
fn length(text: &str) -> Option<Duration> {
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
        Row {
            kind: crate::Kind::MpiJob,
            namespace: "team".to_owned(),
            name: name.to_owned(),
            phase,
            reason: reason.map(str::to_owned),
            workers_ready: 0,
            workers,
            slots_per_worker: 1,
            mpi: String::new(),
            image: String::new(),
            created: created.parse().ok(),
            started: created.parse().ok(),
            ended: None,
            deleting: name == "going",
            runtime: None,
        }
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
    }
}
