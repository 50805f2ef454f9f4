//! Expiry of Events, which would otherwise fill the memory.
//!
//! kube-apiserver writes each event with a lease of one hour (`--event-ttl`). Here, events are removed one
//! hour after their last occurrence, and the oldest ones beyond a maximum number.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::store::{Record, Resource, Store};

/// How long an event is kept after its last occurrence.
const TIME_TO_LIVE: SignedDuration = SignedDuration::from_hours(1);
/// The maximum number of events, whatever their age.
const MAX_EVENTS: usize = 20_000;
/// The number of events that have not expired which are looked at in a check.
const MOST_NEWER: usize = 64;
/// The interval of checks.
const INTERVAL: Duration = Duration::from_secs(30);

/// Removes expired events until `stop`.
pub async fn run(store: Arc<Store>, stop: CancellationToken) {
    let events = Resource::new("", "events");
    loop {
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = stop.cancelled() => return,
        }
        for record in expired(store.list(&events, None).records, Timestamp::now(), MAX_EVENTS) {
            let last = record.to_value();
            if let Err(error) = store.remove(&events, &record.key, record.revision, last).await {
                tracing::debug!(event = record.key.as_str(), %error, "an event changed as it expired");
            }
        }
    }
}

/// Returns the events to remove, latest first: the oldest of too many, and those that have expired among the others. They were written
/// in about the order of their last occurrences, so the search ends after [`MOST_NEWER`] that have not.
fn expired(mut records: Vec<Arc<Record>>, now: Timestamp, most: usize) -> Vec<Arc<Record>> {
    records.sort_by_key(|record| record.revision);
    let surplus = records.len().saturating_sub(most);
    let mut newer = 0;
    let mut place = 0;
    records.retain(|record| {
        place += 1;
        if place <= surplus {
            return true;
        }
        let is_expired = newer < MOST_NEWER
            && last_seen(&record.value()).is_some_and(|time| now.duration_since(time) > TIME_TO_LIVE);
        newer += usize::from(!is_expired);
        is_expired
    });
    records.reverse();
    records
}

/// Returns the time of an event's last occurrence, if it has one.
fn last_seen(event: &Value) -> Option<Timestamp> {
    let times = [
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["metadata"]["creationTimestamp"],
    ];
    times.into_iter().filter_map(|time| time.as_str()?.parse().ok()).max()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::Key;

    #[test]
    fn old_and_surplus_events_expire() {
        let record = |name: &str, revision, time: &str| {
            let value = json!({"metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}, "lastTimestamp": time});
            Arc::new(Record::new(Key::new(Some("a"), name), revision, value))
        };
        let records = vec![
            record("old", 1, "2026-01-01T00:00:00Z"),
            record("again", 2, "2026-01-01T01:30:00Z"),
            record("new", 3, "2026-01-01T02:00:00Z"),
        ];
        let now = "2026-01-01T02:00:00Z".parse().unwrap();
        let names = |most| {
            let gone = expired(records.clone(), now, most);
            gone.iter().map(|record| record.key.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(10), ["a/old"]);
        assert_eq!(names(1), ["a/again", "a/old"]);
    }
}
