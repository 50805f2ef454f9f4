//! What jobs use and report while they run: CPU and memory of their pods, sampled from the metrics API as the service's
//! own account; their network traffic, where nodes may be asked for it; and the metrics that training programs report
//! through their jobs.
//!
//! The memory is bounded: a series of any length keeps at most [`MOST_POINTS`] points, which become sparser as it grows, and
//! there are at most [`MOST_SERIES`]. The samples of a job go when the job goes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use history::series::Values;
use jiff::Timestamp;
use jobs::usage::{self, Measured, Traffic};
use jobs::view::Reported;
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::board::Board;
use crate::interval::every;
use crate::peaks::Peaks;

/// The most points of a series.
const MOST_POINTS: usize = 256;
/// The name of the series of a job's progress, in percent.
pub const PROGRESS: &str = "progress";
/// The most series of all jobs. Beyond it, the job that was sampled longest ago loses its own.
const MOST_SERIES: usize = 10_000;

/// A series: its points become sparser as it grows.
#[derive(Clone, Debug)]
pub struct Series<T> {
    points: Vec<(Timestamp, T)>,
    /// Of how many values one is kept.
    stride: usize,
    /// The number of values so far.
    seen: usize,
}

impl<T> Default for Series<T> {
    fn default() -> Self {
        Self { points: Vec::new(), stride: 1, seen: 0 }
    }
}

impl<T> Series<T> {
    /// Adds a value.
    pub fn push(&mut self, at: Timestamp, value: T) {
        let is_kept = self.seen.is_multiple_of(self.stride);
        self.seen += 1;
        if !is_kept {
            return;
        }
        self.points.push((at, value));
        if self.points.len() == MOST_POINTS {
            let mut number = 0;
            self.points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.stride *= 2;
        }
    }

    /// Returns the points, the oldest first.
    pub fn points(&self) -> &[(Timestamp, T)] {
        &self.points
    }
}

/// What a pod uses at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Used {
    /// CPU, in thousandths of a core.
    pub cpu_millis: u32,
    /// Memory, in MiB.
    pub memory_mib: u32,
}

/// A pod's network traffic at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// KiB received a second.
    pub received_kib: u32,
    /// KiB sent a second.
    pub sent_kib: u32,
}

/// A pod's samples.
#[derive(Clone, Debug, Default)]
pub struct PodSamples {
    /// `launcher` or `worker`.
    pub role: String,
    /// What it used.
    pub used: Series<Used>,
    /// Its network traffic, if its node counts it.
    pub network: Series<Rates>,
    /// The last count of its traffic.
    counted: Option<(Timestamp, Traffic)>,
}

impl PodSamples {
    /// Takes in a count: with the one before, it is a rate.
    fn counted(&mut self, traffic: Traffic, now: Timestamp) {
        let before = self.counted.replace((now, traffic.clone()));
        // A pod of the same name that was created again counts from 0.
        let Some((at, before)) = before.filter(|(_, before)| before.uid == traffic.uid) else { return };
        let millis = u64::try_from(now.duration_since(at).as_millis()).unwrap_or(0).max(1);
        let rate = |now: u64, before: u64| {
            let kib = u128::from(now.saturating_sub(before)) * 1000 / u128::from(millis) / 1024;
            u32::try_from(kib).unwrap_or(u32::MAX)
        };
        let received_kib = rate(traffic.received_bytes, before.received_bytes);
        let sent_kib = rate(traffic.sent_bytes, before.sent_bytes);
        self.network.push(now, Rates { received_kib, sent_kib });
    }
}

/// A job's samples.
#[derive(Clone, Debug, Default)]
pub struct JobSamples {
    /// Its pods, by name.
    pub pods: BTreeMap<String, PodSamples>,
    /// What its program reported, by name.
    pub reported: BTreeMap<String, Series<f64>>,
    /// The values of the same, exact although points are left out.
    values: BTreeMap<String, Values>,
    /// Whether the first report was seen: only then are the extreme values known.
    is_whole: bool,
    last: Timestamp,
}

impl JobSamples {
    fn series(&self) -> usize {
        self.pods.len() + self.reported.len()
    }
}

/// The samples of all jobs, by UID.
#[derive(Default)]
pub struct Samples {
    jobs: Mutex<HashMap<String, JobSamples>>,
}

impl Samples {
    /// Returns a job's samples.
    pub fn of(&self, uid: &str) -> JobSamples {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.get(uid).cloned().unwrap_or_default()
    }

    /// Returns the values of what a job's program reported, by name.
    pub fn values(&self, uid: &str) -> BTreeMap<String, Values> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.get(uid).map(|job| job.values.clone()).unwrap_or_default()
    }

    /// Takes in what a job's program reports, if it is newer than what it reported before. `is_first` says whether the job was
    /// seen without a report before.
    pub fn report(&self, uid: &str, reported: &Reported, is_first: bool, now: Timestamp) {
        let at = reported.updated.unwrap_or(now);
        let percent = reported.percent.map(|percent| (PROGRESS.to_owned(), f64::from(percent)));
        let metrics = reported.metrics.iter().filter_map(|(name, text)| {
            let value: f64 = text.parse().ok()?;
            value.is_finite().then(|| (name.clone(), value))
        });
        let values: Vec<(String, f64)> = percent.into_iter().chain(metrics).collect();
        if values.is_empty() {
            return;
        }
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let job = jobs.entry(uid.to_owned()).or_default();
        job.last = now;
        job.is_whole |= is_first;
        let is_whole = job.is_whole;
        let extreme = |known: Option<f64>, value: f64, of: fn(f64, f64) -> f64| {
            is_whole.then(|| known.map_or(value, |known| of(known, value)))
        };
        for (name, value) in values {
            let known = job.values.entry(name.clone()).or_default();
            let series = job.reported.entry(name).or_default();
            if series.points().last().is_none_or(|(last, _)| *last < at) {
                series.push(at, value);
                known.newest = Some(value);
                known.lowest = extreme(known.lowest, value, f64::min);
                known.highest = extreme(known.highest, value, f64::max);
            }
        }
        bound(&mut jobs);
    }

    /// Takes in what a job's pods use, and the counts of their traffic by name.
    fn measured(
        &self,
        uid: &str,
        pods: Vec<Measured>,
        traffic: &mut HashMap<(String, String), Traffic>,
        now: Timestamp,
    ) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let job = jobs.entry(uid.to_owned()).or_default();
        job.last = now;
        for pod in pods {
            let counted = traffic.remove(&(pod.namespace, pod.name.clone()));
            let samples = job.pods.entry(pod.name).or_default();
            if let Some(traffic) = counted {
                samples.counted(traffic, now);
            }
            samples.role = pod.role;
            let used = Used { cpu_millis: pod.cpu_millis, memory_mib: pod.memory_mib };
            samples.used.push(now, used);
        }
        bound(&mut jobs);
    }

    /// Forgets jobs that are gone.
    fn keep(&self, is_there: impl Fn(&str) -> bool) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| is_there(uid));
    }
}

fn bound(jobs: &mut HashMap<String, JobSamples>) {
    let mut series: usize = jobs.values().map(JobSamples::series).sum();
    while series > MOST_SERIES && jobs.len() > 1 {
        let oldest = jobs.iter().min_by_key(|(_, job)| job.last).map(|(uid, _)| uid.clone());
        let Some(gone) = oldest.and_then(|uid| jobs.remove(&uid)) else { return };
        series -= gone.series();
    }
}

/// Samples the pods of running jobs until `stop`, and asks nodes for their traffic if it may. While no job runs, nothing is
/// asked.
pub async fn sample(
    client: Client,
    board: Arc<Board>,
    (samples, peaks): (Arc<Samples>, Arc<Peaks>),
    (period, asks_nodes): (Duration, bool),
    stop: CancellationToken,
) {
    let mut ticks = every(period);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let (_, jobs) = board.snapshot(|_| true);
        let there: HashSet<&str> = jobs.iter().map(|job| job.row.uid.as_str()).collect();
        samples.keep(|uid| there.contains(uid));
        let running: HashMap<(&str, &str), &str> = jobs
            .iter()
            .filter(|job| job.row.phase == "Running")
            .map(|job| ((job.row.namespace.as_str(), job.row.name.as_str()), job.row.uid.as_str()))
            .collect();
        if running.is_empty() {
            continue;
        }
        let measured = match stop.run_until_cancelled(usage::measure(&client)).await {
            Some(Ok(measured)) => measured,
            Some(Err(error)) => {
                tracing::debug!(%error, "cannot read the usage of pods");
                continue;
            }
            None => return,
        };
        let mut by_job: HashMap<&str, Vec<Measured>> = HashMap::new();
        for pod in measured {
            if let Some(uid) = running.get(&(pod.namespace.as_str(), pod.job.as_str())) {
                by_job.entry(uid).or_default().push(pod);
            }
        }
        let traffic = async { if asks_nodes { traffic(&client).await } else { HashMap::new() } };
        let Some(mut traffic) = stop.run_until_cancelled(traffic).await else { return };
        let now = Timestamp::now();
        peaks.measured(&jobs, &by_job, now);
        for (uid, pods) in by_job {
            samples.measured(uid, pods, &mut traffic, now);
        }
    }
}

/// Returns the traffic of all pods by namespace and name.
async fn traffic(client: &Client) -> HashMap<(String, String), Traffic> {
    match usage::traffic(client).await {
        Ok(all) => all.into_iter().map(|one| ((one.namespace.clone(), one.name.clone()), one)).collect(),
        Err(error) => {
            tracing::debug!(%error, "cannot read the traffic of pods");
            HashMap::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_long_series_keeps_its_whole_time_in_few_points() {
        let mut series = Series::default();
        for second in 0..100_000 {
            series.push(at(second), second);
        }
        let points = series.points();
        assert!(points.len() < MOST_POINTS && points.len() >= MOST_POINTS / 2, "{}", points.len());
        assert_eq!(points[0].1, 0);
        let gaps: Vec<i64> = points.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
        assert!(gaps.iter().all(|gap| *gap == gaps[0]), "evenly spaced: {gaps:?}");
        assert!(points.last().unwrap().1 > 99_000);
    }

    #[test]
    fn two_counts_of_the_same_pod_are_a_rate() {
        let mut pod = PodSamples::default();
        for (second, uid, bytes) in
            [(0, "u", 1 << 30), (10, "u", (1 << 30) + (20 << 20)), (20, "v", 5), (30, "v", 4)]
        {
            let (namespace, name, uid) = (String::new(), String::new(), uid.to_owned());
            let traffic = Traffic { namespace, name, uid, received_bytes: bytes, sent_bytes: bytes / 2 };
            pod.counted(traffic, at(second));
        }
        let rates = |received_kib, sent_kib| Rates { received_kib, sent_kib };
        assert_eq!(pod.network.points(), [(at(10), rates(2048, 1024)), (at(30), rates(0, 0))]);
    }

    #[test]
    fn a_report_counts_once_and_only_its_numbers() {
        let samples = Samples::default();
        let report = |second: i64, loss: &str| Reported {
            percent: Some(10),
            updated: Some(at(second)),
            metrics: [("loss", loss), ("note", "warm"), ("bad", "NaN")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..Reported::default()
        };
        for (second, loss) in [(1, "0.5"), (1, "0.5"), (2, "0.4"), (1, "0.9")] {
            samples.report("u", &report(second, loss), second == 1, at(9));
        }
        let job = samples.of("u");
        assert_eq!(job.reported.keys().collect::<Vec<_>>(), ["loss", "progress"]);
        assert_eq!(job.reported["loss"].points(), [(at(1), 0.5), (at(2), 0.4)]);
    }

    #[test]
    fn the_values_of_a_job_are_exact_and_its_extremes_known_if_its_first_report_was_seen() {
        let (samples, all) = (Samples::default(), Samples::default());
        let report = |second: i64, loss: f64| Reported {
            updated: Some(at(second)),
            metrics: [("loss".to_owned(), loss.to_string())].into(),
            ..Reported::default()
        };
        for second in 0..1000 {
            let loss = if second == 701 { -5.5 } else { 1.0 + second as f64 };
            all.report("u", &report(second, loss), second == 0, at(second));
            samples.report("u", &report(second, loss), false, at(second));
        }
        let known = Values { newest: Some(1000.0), lowest: Some(-5.5), highest: Some(1000.0), not_finite: 0 };
        assert_eq!(all.values("u")["loss"], known);
        let since_a_restart = Values { newest: Some(1000.0), ..Values::default() };
        assert_eq!(samples.values("u")["loss"], since_a_restart);
        assert!(samples.values("another").is_empty());
    }

    #[test]
    fn the_job_that_was_sampled_longest_ago_makes_room() {
        let mut jobs = HashMap::new();
        for (uid, second, series) in
            [("old", 1, MOST_SERIES / 2), ("new", 3, MOST_SERIES / 2), ("middle", 2, 2)]
        {
            let reported = (0..series).map(|number| (number.to_string(), Series::default())).collect();
            jobs.insert(uid.to_owned(), JobSamples { reported, last: at(second), ..JobSamples::default() });
        }
        bound(&mut jobs);
        let mut left: Vec<&str> = jobs.keys().map(String::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["middle", "new"]);
    }
}
