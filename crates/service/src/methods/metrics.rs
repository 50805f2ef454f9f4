//! A job's metrics over time: what its pods used, what its program reported, and what patterns find in its output.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jobs::logs::sieve;
use jobs::logs::{self, Choice, Item, Which};
use jobs::{Class, list};
use kube::ResourceExt as _;
use regex::Regex;
use tokio::time::Instant;

use crate::contract::{GetMetricsRequest, JobMetrics, MetricSeries, PodSeries};
use crate::filter::kind;
use crate::identity::Caller;
use crate::problem::Problem;
use crate::row::{count, time};
use crate::samples::{PodSamples, Series};
use crate::service::Service;

/// The most patterns.
const MOST_PATTERNS: usize = 8;
/// The most lines that patterns are looked for in, and how long that may take.
const MOST_LINES: usize = 500_000;
const READ_WITHIN: Duration = Duration::from_secs(15);
/// What is said of GPUs: the metrics API knows nothing about them.
const NO_GPU_TELEMETRY: &str = "GPUs: no telemetry";

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
    let mut notes = vec![NO_GPU_TELEMETRY.to_owned()];
    if samples.pods.is_empty() {
        notes.push(
            "CPU and memory: no samples; they are taken while the job runs, if the cluster has a metrics API"
                .to_owned(),
        );
    }
    let mut training: Vec<MetricSeries> =
        samples.reported.iter().map(|(name, series)| metric(name, "report", series)).collect();
    if !patterns.is_empty() {
        let which = Which::Launcher;
        let choice = Choice { which, ..Choice::default() };
        match logs::logs(&caller.client, kind, &request.namespace, &request.name, choice).await {
            Ok(lines) => {
                let (found, is_whole) = search(lines, &patterns).await?;
                training.extend(found.iter().map(|(name, series)| metric(name, "pattern", series)));
                if !is_whole {
                    notes.push("patterns: only the beginning of the output was searched".to_owned());
                }
            }
            Err(error) if matches!(error.class(), Class::NotFound | Class::Conflict) => {
                notes.push(format!("patterns: {error}"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(JobMetrics {
        pods: samples.pods.into_iter().map(|(name, samples)| pod(name, &samples)).collect(),
        training,
        notes,
    })
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

/// The seconds of points since the first.
fn seconds<T>(points: &[(Timestamp, T)]) -> (String, Vec<i32>) {
    let start = points.first().map(|(at, _)| *at);
    let since = |at: &Timestamp| start.map_or(0, |start| at.as_second() - start.as_second());
    (time(start), points.iter().map(|(at, _)| count(since(at))).collect())
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

fn pod(name: String, samples: &PodSamples) -> PodSeries {
    let points = samples.used.points();
    let (start, seconds) = seconds(points);
    let is_worker = samples.role == "worker";
    PodSeries {
        role: match samples.role.as_str() {
            "worker" => "Worker",
            "launcher" => "Launcher",
            other => other,
        }
        .to_owned(),
        index: is_worker.then(|| name.rsplit('-').next()?.parse().ok()).flatten(),
        name,
        start,
        seconds,
        cpu_millis: points.iter().map(|(_, used)| count(used.cpu_millis)).collect(),
        memory_mib: points.iter().map(|(_, used)| count(used.memory_mib)).collect(),
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
