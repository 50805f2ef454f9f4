//! What a list shows of its jobs' metrics: the values that are kept of what programs print, and those that the service has seen
//! of what they report. No output is read for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use history::Error;
use history::series::{self, OfParts, Values};
use jobs::Kind;
use tokio::time::timeout;

use super::metrics::leading;
use crate::board::Entry;
use crate::contract::MetricSummary;
use crate::problem::Problem;
use crate::row::count;
use crate::samples::PROGRESS;
use crate::service::Service;

/// Returns what is known of the metrics of jobs, and what is missing.
pub async fn of_rows(service: &Service, rows: &[Arc<Entry>]) -> (Vec<MetricSummary>, Vec<String>) {
    let uids: Vec<&str> = rows.iter().map(|entry| entry.row.uid.as_str()).collect();
    let mut notes = Vec::new();
    let mut printed = printed(service, &uids).await.unwrap_or_else(|problem| {
        notes.push(format!("output: {}", problem.message));
        BTreeMap::new()
    });
    let of_row = |entry: &Arc<Entry>| {
        let uid = &entry.row.uid;
        let known = known(entry.kind, printed.remove(uid).unwrap_or_default(), service.samples.values(uid));
        known.into_iter().map(|(name, values)| summary(uid, name, values)).collect::<Vec<_>>()
    };
    (rows.iter().flat_map(of_row).collect(), notes)
}

async fn printed(service: &Service, uids: &[&str]) -> Result<BTreeMap<String, OfParts>, Problem> {
    let opened = service.kept.opened()?;
    let read = timeout(service.settings.patience_with_parts(), series::of_jobs(&opened.store, uids)).await;
    Ok(read.map_err(|_| Error::Timeout)??)
}

/// The values of a job's metrics, by name. A program prints a number more often than it reports it.
fn known(kind: Kind, printed: OfParts, mut reported: BTreeMap<String, Values>) -> BTreeMap<String, Values> {
    let parts: BTreeSet<String> = printed.keys().map(|(part, _)| part.clone()).collect();
    let leading = leading(kind, &parts);
    let is_known = |values: &Values| values.newest.is_some() || values.not_finite > 0;
    let printed =
        printed.into_iter().filter(|((part, _), values)| leading.contains(part) && is_known(values));
    reported.remove(PROGRESS);
    reported.extend(printed.map(|((_, name), values)| (name, values)));
    reported
}

fn summary(uid: &str, name: String, values: Values) -> MetricSummary {
    let Values { newest, lowest, highest, not_finite } = values;
    MetricSummary { uid: uid.to_owned(), name, last: newest, lowest, highest, not_finite: count(not_finite) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(newest: f64) -> Values {
        Values { newest: Some(newest), lowest: Some(newest), highest: Some(newest), not_finite: 0 }
    }

    #[test]
    fn what_the_leading_part_prints_comes_before_what_is_reported() {
        let of = |part: &str, name: &str, values: Values| ((part.to_owned(), name.to_owned()), values);
        let printed = OfParts::from([
            of("launcher", "loss", values(0.5)),
            of("launcher", "perplexity", Values { not_finite: 3, ..Values::default() }),
            // Of a series that a former version kept, nothing is known.
            of("launcher", "accuracy", Values::default()),
            of("worker-0", "reward", values(9.0)),
        ]);
        let reported = ["loss", "accuracy", PROGRESS].map(|name| (name.to_owned(), values(0.75)));
        let found = known(Kind::MpiJob, printed, BTreeMap::from(reported));
        let newest: Vec<_> = found.iter().map(|(name, values)| (name.as_str(), values.newest)).collect();
        assert_eq!(newest, [("accuracy", Some(0.75)), ("loss", Some(0.5)), ("perplexity", None)]);
    }

    #[test]
    fn a_value_that_is_unknown_is_not_sent() {
        let of = Values { newest: Some(0.5), ..Values::default() };
        let json = serde_json::to_value(summary("u", "loss".to_owned(), of)).unwrap();
        assert_eq!(json, serde_json::json!({ "uid": "u", "name": "loss", "last": 0.5, "notFinite": 0 }));
    }
}
