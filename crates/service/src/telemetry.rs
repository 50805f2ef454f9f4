//! What Prometheus knows of a job's pods over the job's time. All queries run side by side, and one that fails takes nothing
//! from the others.

use std::collections::BTreeMap;

use futures::future::join_all;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::prometheus::{ANSWER_WITHIN, Fault, Found, Prometheus, Range};
use crate::promql::{HAS_DCGM, Quantity, query};

/// The most pods that are asked about.
pub const MOST_PODS: usize = 512;
/// The most points of a series, and the least for which there must be room.
const MOST_POINTS: usize = 240;
const LEAST_POINTS: usize = 16;
/// The most values of an answer: many series have fewer points each.
const MOST_VALUES: usize = 48 << 10;

/// A series: when, and how much.
pub type Points = Vec<(Timestamp, f64)>;

/// A quantity of a pod; of GPUs, the number for their order and the name of one.
pub type Key = (Quantity, u32, String);

/// What is asked.
pub struct Asked<'a> {
    /// The pods' namespace.
    pub namespace: &'a str,
    /// Their names, at most [`MOST_PODS`].
    pub pods: Vec<&'a str>,
    /// The GPUs of each, about.
    pub gpus: u64,
    /// When the first was created.
    pub since: Timestamp,
    /// When the last ended, or now.
    pub until: Timestamp,
    /// Whether CPU and memory are asked for, too.
    pub basic: bool,
}

/// What was found.
#[derive(Debug, Default, PartialEq)]
pub struct Telemetry {
    /// Series by pod.
    pub pods: BTreeMap<String, BTreeMap<Key, Points>>,
    /// Why something has no answer.
    pub fault: Option<Fault>,
    /// Whether Prometheus has metrics of any GPU; it is asked only if there are none of these pods'.
    pub has_dcgm: Option<bool>,
}

impl Telemetry {
    /// Whether any pod has the quantity.
    pub fn has(&self, quantity: Quantity) -> bool {
        self.pods.values().flat_map(BTreeMap::keys).any(|(found, ..)| *found == quantity)
    }
}

/// Asks Prometheus.
pub async fn ask(prometheus: &Prometheus, asked: &Asked<'_>) -> Telemetry {
    let until = Instant::now() + ANSWER_WITHIN;
    let over = range(asked);
    let basic: &[Quantity] = if asked.basic { &Quantity::BASIC } else { &[] };
    let queries = Quantity::MORE.iter().chain(basic).map(|quantity| async move {
        let text = query(*quantity, asked.namespace, &asked.pods, over.step);
        (*quantity, prometheus.range(&text, over, until).await)
    });
    let mut telemetry = Telemetry::default();
    for (quantity, answer) in join_all(queries).await {
        match answer {
            Ok(found) => found.into_iter().for_each(|found| take_in(&mut telemetry, quantity, found)),
            Err(fault) => telemetry.fault = telemetry.fault.max(Some(fault)),
        }
    }
    let has_gpus = Quantity::MORE.into_iter().any(|one| one.is_of_gpus() && telemetry.has(one));
    if !has_gpus && asked.gpus > 0 && telemetry.fault.is_none() {
        match prometheus.at(HAS_DCGM, over.end, until).await {
            Ok(found) => telemetry.has_dcgm = Some(!found.is_empty()),
            Err(fault) => telemetry.fault = Some(fault),
        }
    }
    telemetry
}

fn take_in(telemetry: &mut Telemetry, quantity: Quantity, found: Found) {
    let label = |name: &str| found.labels.get(name).map(String::as_str).filter(|text| !text.is_empty());
    let Some(pod) = label("exported_pod").or_else(|| label("pod")) else { return };
    if found.points.is_empty() {
        return;
    }
    let gpu = match (quantity.is_of_gpus(), label("gpu").unwrap_or_default(), label("GPU_I_ID")) {
        (false, ..) => String::new(),
        (true, gpu, None) => gpu.to_owned(),
        (true, gpu, Some(part)) => format!("{gpu}/{part}"),
    };
    let place = label("gpu").and_then(|gpu| gpu.parse().ok()).unwrap_or(u32::MAX);
    telemetry.pods.entry(pod.to_owned()).or_default().insert((quantity, place, gpu), found.points);
}

/// The moments of all series: few enough for all, and the same ones when a running job is asked about again.
fn range(asked: &Asked<'_>) -> Range {
    let series = asked.pods.len() * usize::try_from(asked.gpus.max(1)).unwrap_or(1);
    let points = (MOST_VALUES / series.max(1)).clamp(LEAST_POINTS, MOST_POINTS);
    let (first, last) = (asked.since.as_second(), asked.until.as_second());
    let points = i64::try_from(points).unwrap_or(1);
    let step = ((last - first).max(0) + points - 1) / points;
    let step = step.max(1);
    // Not before the first pod: until then its name may have been another pod's.
    let start = ((first + step - 1).div_euclid(step) * step).min(last.max(first));
    Range { start: Timestamp::from_second(start).unwrap_or(asked.since), end: asked.until, step }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pods: usize, gpus: u64, since: i64, until: i64) -> Range {
        let at = |second| Timestamp::from_second(second).unwrap();
        let (since, until) = (at(since), at(until));
        range(&Asked { namespace: "team", pods: vec!["a"; pods], gpus, since, until, basic: true })
    }

    #[test]
    fn the_points_of_a_range_are_bounded_whatever_its_length() {
        let points = |range: Range| (range.end.as_second() - range.start.as_second()) / range.step + 1;
        assert_eq!(asked(1, 0, 1_000, 1_030).step, 1);
        assert_eq!(asked(1, 0, 1_000, 1_000 + 3600).step, 15);
        for (pods, gpus, most) in [(1, 0, 240), (100, 1, 240), (512, 1, 96), (512, 8, 16)] {
            for length in [0, 1, 59, 3600, 86_400 * 400] {
                let range = asked(pods, gpus, 1_700_000_001, 1_700_000_001 + length);
                assert!(points(range) <= most + 1, "{pods} {gpus} {length}: {range:?}");
                assert!(range.start.as_second() >= 1_700_000_001 && range.start <= range.end, "{range:?}");
            }
        }
        // A clock that goes backwards.
        assert_eq!(points(asked(1, 0, 100, 100)), 1);
        assert_eq!(asked(1, 0, 100, 50).start.as_second(), 100);
    }

    #[test]
    fn a_series_belongs_to_the_pod_that_is_measured_and_not_to_the_exporter() {
        let mut telemetry = Telemetry::default();
        let point = (Timestamp::UNIX_EPOCH, 1.0);
        let mut take = |labels: &[(&str, &str)]| {
            let labels =
                labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            take_in(&mut telemetry, Quantity::Power, Found { labels, points: vec![point] });
        };
        take(&[("exported_pod", "a-worker-0"), ("pod", "dcgm-x"), ("gpu", "10")]);
        take(&[("pod", "a-worker-0"), ("exported_pod", ""), ("gpu", "2")]);
        take(&[("pod", "a-worker-0"), ("gpu", "2"), ("GPU_I_ID", "3")]);
        take(&[("gpu", "2")]);
        let gpus: Vec<&str> = telemetry.pods["a-worker-0"].keys().map(|(_, _, gpu)| gpu.as_str()).collect();
        assert_eq!((telemetry.pods.len(), gpus), (1, vec!["2", "2/3", "10"]));
        assert!(telemetry.has(Quantity::Power) && !telemetry.has(Quantity::GpuMemory));
    }
}
