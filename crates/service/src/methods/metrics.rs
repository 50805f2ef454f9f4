//! A job's metrics over time: what its pods used, what its program reported, and what patterns find in its output.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jobs::logs::sieve;
use jobs::logs::{self, Choice, Item, Which};
use jobs::{Class, Kind, list};
use kube::ResourceExt as _;
use regex::Regex;
use tokio::time::Instant;

use super::measured::{self, seconds};
use crate::contract::{GetMetricsRequest, JobMetrics, MetricSeries};
use crate::filter::kind;
use crate::identity::Caller;
use crate::problem::Problem;
use crate::samples::Series;
use crate::service::Service;

/// The most patterns.
const MOST_PATTERNS: usize = 8;
/// The most lines that patterns are looked for in, and how long that may take.
const MOST_LINES: usize = 500_000;
const READ_WITHIN: Duration = Duration::from_secs(15);

/// Returns a job's metrics.
pub async fn get_metrics(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: GetMetricsRequest,
) -> Result<JobMetrics, Problem> {
    let kind = kind(&request.kind)?;
    let patterns = patterns(&request.pattern)?;
    let job = list::get(&caller.client, kind, &request.namespace, &request.name).await?;
    let samples = service.samples.of(&job.uid().unwrap_or_default());
    let mut training: Vec<MetricSeries> =
        samples.reported.iter().map(|(name, series)| metric(name, "report", series)).collect();
    let (found, (pods, mut notes)) = futures::join!(
        output(&caller, kind, &request, &patterns),
        measured::of_pods(&service, &job, samples),
    );
    let (found, note) = found?;
    training.extend(found.iter().map(|(name, series)| metric(name, "pattern", series)));
    notes.extend(note);
    Ok(JobMetrics { pods, training, notes })
}

/// Returns what patterns find in the Launcher's output, and what was not searched.
async fn output(
    caller: &Caller,
    kind: Kind,
    request: &GetMetricsRequest,
    patterns: &[Regex],
) -> Result<(BTreeMap<String, Series<f64>>, Option<String>), Problem> {
    if patterns.is_empty() {
        return Ok((BTreeMap::new(), None));
    }
    let choice = Choice { which: Which::Launcher, ..Choice::default() };
    match logs::logs(&caller.client, kind, &request.namespace, &request.name, choice).await {
        Ok(lines) => {
            let (found, is_whole) = search(lines, patterns).await?;
            let note = "patterns: only the beginning of the output was searched";
            Ok((found, (!is_whole).then(|| note.to_owned())))
        }
        Err(error) if matches!(error.class(), Class::NotFound | Class::Conflict) => {
            Ok((BTreeMap::new(), Some(format!("patterns: {error}"))))
        }
        Err(error) => Err(error.into()),
    }
}

fn patterns(sent: &[String]) -> Result<Vec<Regex>, Problem> {
    if sent.len() > MOST_PATTERNS {
        let fault = format!("has {} patterns", sent.len());
        return Err(Problem::invalid("pattern", fault, format!("send at most {MOST_PATTERNS}")));
    }
    let fix = "name what to find, e.g. loss=(?<loss>[0-9.e+-]+)";
    sent.iter()
        .map(|text| {
            let pattern =
                sieve::pattern(text, false).map_err(|fault| Problem::invalid("pattern", fault, fix))?;
            if pattern.capture_names().flatten().next().is_none() {
                return Err(Problem::invalid("pattern", "has no named group", fix));
            }
            Ok(pattern)
        })
        .collect()
}

/// Finds the numbers that patterns name in a job's output; returns them and whether all of it was read.
async fn search(
    mut lines: logs::Logs,
    patterns: &[Regex],
) -> Result<(BTreeMap<String, Series<f64>>, bool), Problem> {
    let mut found: BTreeMap<String, Series<f64>> = BTreeMap::new();
    let until = Instant::now() + READ_WITHIN;
    for _ in 0..MOST_LINES {
        let item = match tokio::time::timeout_at(until, lines.next()).await {
            Ok(Some(item)) => item?,
            Ok(None) => return Ok((found, true)),
            Err(_) => return Ok((found, false)),
        };
        if let Item::Line { text, at, .. } = item {
            take_in(&mut found, &text, at.unwrap_or_default(), patterns);
        }
    }
    Ok((found, false))
}

fn take_in(found: &mut BTreeMap<String, Series<f64>>, text: &str, at: Timestamp, patterns: &[Regex]) {
    for pattern in patterns {
        let Some(groups) = pattern.captures(text) else { continue };
        for name in pattern.capture_names().flatten() {
            let value = groups.name(name).and_then(|group| group.as_str().parse::<f64>().ok());
            if let Some(value) = value.filter(|value| value.is_finite()) {
                found.entry(name.to_owned()).or_default().push(at, value);
            }
        }
    }
}

fn metric(name: &str, source: &str, series: &Series<f64>) -> MetricSeries {
    let (start, seconds) = seconds(series.points());
    let values = series.points().iter().map(|(_, value)| value.to_string());
    MetricSeries {
        name: name.to_owned(),
        source: source.to_owned(),
        start,
        seconds,
        values: values.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_groups_become_series_of_their_numbers() {
        let patterns = patterns(&["loss=(?<loss>\\S+)( acc=(?<accuracy>\\S+))?".to_owned()]).unwrap();
        let mut found = BTreeMap::new();
        for (second, line) in
            [(1, "step 1 loss=0.5 acc=0.7"), (2, "loss=nan"), (3, "loss=2e-1"), (4, "other")]
        {
            take_in(&mut found, line, Timestamp::from_second(second).unwrap(), &patterns);
        }
        let loss = metric("loss", "pattern", &found["loss"]);
        assert_eq!((loss.seconds, loss.values), (vec![0, 2], vec!["0.5".to_owned(), "0.2".to_owned()]));
        assert_eq!(found["accuracy"].points().len(), 1);
        assert!(
            super::patterns(&["loss".to_owned()]).is_err() && super::patterns(&["(?<a>".to_owned()]).is_err()
        );
    }
}
