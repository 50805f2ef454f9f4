//! What a job's pods used over time: as the service sampled it, and as Prometheus has it. A source that is missing is a note.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use jobs::view::{self, Row};
use kube::api::DynamicObject;

use super::ran::{self, Part, Ran};
use crate::contract::{MeasuredSeries, PodSeries};
use crate::prometheus::Fault;
use crate::promql::Quantity;
use crate::row::{count, time};
use crate::samples::{JobSamples, PodSamples, Rates};
use crate::service::Service;
use crate::telemetry::{self, Asked, Key, MOST_PODS, Points, Telemetry};

/// How much earlier Prometheus must know CPU and memory for its series to replace the samples.
const EARLIER: SignedDuration = SignedDuration::from_secs(60);
const MIB: f64 = 1_048_576.0;

/// Returns the series of a job's pods, and what has no source.
pub async fn of_pods(
    service: &Service,
    job: &DynamicObject,
    samples: JobSamples,
) -> (Vec<PodSeries>, Vec<String>) {
    let row = view::row(job);
    let ran = ran::pods(service, job, &row).await;
    let telemetry = look_up(service, &row, &ran, &samples).await;
    let names: BTreeSet<&String> = samples.pods.keys().chain(telemetry.pods.keys()).collect();
    let (no_samples, nothing) = (PodSamples::default(), BTreeMap::new());
    let pods: Vec<PodSeries> = names
        .into_iter()
        .map(|name| {
            let samples = samples.pods.get(name).unwrap_or(&no_samples);
            let known = ran.pods.get(name).filter(|part| !part.role.is_empty()).cloned();
            let part = known.unwrap_or_else(|| part(name, samples));
            pod(name, part, samples, telemetry.pods.get(name).unwrap_or(&nothing))
        })
        .collect();
    let lacks = Lacks {
        wants_gpus: row.gpus > 0,
        has_started: ran.since.is_some(),
        has_prometheus: service.settings.prometheus.is_some(),
        has_usage: pods.iter().any(|pod| !pod.seconds.is_empty()),
        has_network: pods
            .iter()
            .flat_map(|pod| &pod.measured)
            .any(|series| series.name.starts_with("network")),
        left_out: ran.pods.len().saturating_sub(MOST_PODS),
        telemetry: &telemetry,
    };
    let notes = notes(&lacks);
    (pods, notes)
}

/// Asks Prometheus, if there is one and a pod was there.
async fn look_up(service: &Service, row: &Row, ran: &Ran, samples: &JobSamples) -> Telemetry {
    let (Some(prometheus), Some(since)) = (&service.settings.prometheus, ran.since) else {
        return Telemetry::default();
    };
    // The Launcher, then Workers by index.
    let mut pods: Vec<(Option<i32>, &str)> =
        ran.pods.iter().map(|(name, part)| (part.index, name.as_str())).collect();
    pods.sort_unstable();
    pods.truncate(MOST_PODS);
    if pods.is_empty() {
        return Telemetry::default();
    }
    let is_sampled = |(_, name): &(_, &str)| {
        let first = samples.pods.get(*name).and_then(|samples| samples.used.points().first());
        first.is_some_and(|(first, _)| first.duration_since(since) < EARLIER)
    };
    let asked = Asked {
        namespace: &row.namespace,
        gpus: row.gpus.div_ceil(pods.len() as u64),
        basic: !pods.iter().all(is_sampled),
        pods: pods.into_iter().map(|(_, name)| name).collect(),
        since,
        until: row.finished.unwrap_or_else(Timestamp::now).max(since),
    };
    telemetry::ask(prometheus, &asked).await
}

/// What a pod is that only the samples have.
fn part(name: &str, samples: &PodSamples) -> Part {
    match samples.role.as_str() {
        "worker" => Part {
            role: "Worker".to_owned(),
            index: name.rsplit('-').next().and_then(|index| index.parse().ok()),
        },
        other => Part::of(other),
    }
}

fn pod(name: &str, part: Part, samples: &PodSamples, found: &BTreeMap<Key, Points>) -> PodSeries {
    let used = used(samples, found);
    let (start, seconds) = seconds(&used);
    PodSeries {
        name: name.to_owned(),
        role: part.role,
        index: part.index,
        start,
        seconds,
        cpu_millis: used.iter().map(|(_, (cpu, _))| *cpu).collect(),
        memory_mib: used.iter().map(|(_, (_, memory))| *memory).collect(),
        measured: counted(samples, found)
            .into_iter()
            .chain(found.iter().filter_map(|(key, points)| measured(key, points)))
            .collect(),
    }
}

/// The network traffic as the node counted it, unless Prometheus has it.
fn counted(samples: &PodSamples, found: &BTreeMap<Key, Points>) -> Vec<MeasuredSeries> {
    let points = samples.network.points();
    let has_network =
        found.keys().any(|(one, ..)| matches!(one, Quantity::NetworkReceived | Quantity::NetworkSent));
    if points.is_empty() || has_network {
        return Vec::new();
    }
    let series = |name: &str, of: fn(&Rates) -> u32| {
        let (start, seconds) = seconds(points);
        MeasuredSeries {
            name: name.to_owned(),
            gpu: String::new(),
            source: "node".to_owned(),
            start,
            seconds,
            values: points.iter().map(|(_, rates)| count(of(rates))).collect(),
        }
    };
    vec![
        series("networkReceivedKib", |rates| rates.received_kib),
        series("networkSentKib", |rates| rates.sent_kib),
    ]
}

/// CPU in thousandths and memory in MiB: the samples, unless Prometheus has more.
fn used(samples: &PodSamples, found: &BTreeMap<Key, Points>) -> Vec<(Timestamp, (i32, i32))> {
    let sampled = samples.used.points();
    let of =
        |quantity| found.get(&(quantity, u32::MAX, String::new())).map(Vec::as_slice).unwrap_or_default();
    let memory: BTreeMap<Timestamp, f64> = of(Quantity::Memory).iter().copied().collect();
    let both: Vec<(Timestamp, (i32, i32))> = of(Quantity::Cpu)
        .iter()
        .filter_map(|(at, cpu)| Some((*at, (whole(cpu * 1000.0), whole(memory.get(at)? / MIB)))))
        .collect();
    let is_longer = match (sampled.first(), both.first()) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some((sampled, _)), Some((found, _))) => sampled.duration_since(*found) > EARLIER,
    };
    if is_longer {
        return both;
    }
    sampled.iter().map(|(at, used)| (*at, (count(used.cpu_millis), count(used.memory_mib)))).collect()
}

fn measured((quantity, _, gpu): &Key, points: &Points) -> Option<MeasuredSeries> {
    let (name, unit) = match quantity {
        Quantity::NetworkReceived => ("networkReceivedKib", 1024.0),
        Quantity::NetworkSent => ("networkSentKib", 1024.0),
        Quantity::GpuUtilization => ("gpuUtilizationPercent", 1.0),
        Quantity::GpuMemory => ("gpuMemoryMib", 1.0),
        Quantity::Power => ("powerWatts", 1.0),
        Quantity::Cpu | Quantity::Memory => return None,
    };
    let (start, seconds) = seconds(points);
    Some(MeasuredSeries {
        name: name.to_owned(),
        gpu: gpu.clone(),
        source: "prometheus".to_owned(),
        start,
        seconds,
        values: points.iter().map(|(_, value)| whole(value / unit)).collect(),
    })
}

/// The seconds of points since the first.
pub fn seconds<T>(points: &[(Timestamp, T)]) -> (String, Vec<i32>) {
    let start = points.first().map(|(at, _)| *at);
    let since = |at: &Timestamp| start.map_or(0, |start| at.as_second() - start.as_second());
    (time(start), points.iter().map(|(at, _)| count(since(at))).collect())
}

fn whole(value: f64) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
    let whole = value.round() as i32;
    whole.max(0)
}

/// What decides which notes there are.
struct Lacks<'a> {
    /// Whether the job requests GPUs.
    wants_gpus: bool,
    /// Whether a pod of it was there.
    has_started: bool,
    has_prometheus: bool,
    /// Whether any pod has CPU and memory.
    has_usage: bool,
    has_network: bool,
    /// The pods that Prometheus was not asked about.
    left_out: usize,
    telemetry: &'a Telemetry,
}

fn notes(lacks: &Lacks<'_>) -> Vec<String> {
    let Lacks { wants_gpus, has_started, has_prometheus, has_usage, has_network, left_out, telemetry } =
        *lacks;
    let why = |known: &str| match telemetry.fault {
        _ if !has_prometheus => "; the service is not connected to a Prometheus".to_owned(),
        _ if !has_started => " before a pod of the job has started".to_owned(),
        Some(_) => String::new(),
        None => format!("; {known}"),
    };
    let mut notes = Vec::new();
    if let Some(fault) = telemetry.fault {
        notes.push(fault_note(fault));
    }
    let gpus = Quantity::MORE.into_iter().filter(|quantity| quantity.is_of_gpus());
    let missing: Vec<&str> = gpus.clone().filter(|one| !telemetry.has(*one)).map(Quantity::metric).collect();
    if missing.len() == gpus.count() && wants_gpus {
        notes.push(format!("GPUs: no telemetry{}", why(no_gpus(telemetry.has_dcgm))));
    } else if wants_gpus && !missing.is_empty() && telemetry.fault.is_none() {
        notes.push(format!("GPUs: Prometheus has no {} of the job's pods", missing.join(" and no ")));
    }
    if !has_network {
        let known = format!("Prometheus has no {} of the job's pods", Quantity::NetworkReceived.metric());
        notes.push(format!("Network: no telemetry{}", why(&known)));
    }
    if !has_usage {
        notes.push(
            "CPU and memory: no samples; they are taken while the job runs, if the cluster has a metrics API"
                .to_owned(),
        );
    }
    if left_out > 0 && has_prometheus {
        notes
            .push(format!("Prometheus: only the first {MOST_PODS} pods were looked up, {left_out} were not"));
    }
    notes
}

fn fault_note(fault: Fault) -> String {
    format!("Prometheus {fault}: what it measures is missing or incomplete")
}

fn no_gpus(has_dcgm: Option<bool>) -> &'static str {
    match has_dcgm {
        Some(true) => {
            "the metrics of NVIDIA's DCGM exporter in Prometheus do not name the job's pods: the exporter needs \
             DCGM_EXPORTER_KUBERNETES=true"
        }
        _ => "Prometheus has no metrics of NVIDIA's DCGM exporter",
    }
}
