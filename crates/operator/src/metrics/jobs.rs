//! Metrics that are read from the stores at each scrape, so that nothing remains of a deleted job. Jobs of other
//! managers are not counted.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use api::{LAUNCHER, MPIJob, Phase};
use kube::ResourceExt;
use kube::runtime::reflector::Store;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::health::Health;
use crate::packed::Packed;

/// Reads the jobs and the queue.
pub(super) struct Jobs {
    pub jobs: Arc<OnceLock<Store<Packed>>>,
    pub health: Arc<Health>,
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jobs")
    }
}

/// The labels of one series, by name.
type Labels = [(&'static str, String); 2];

impl Collector for Jobs {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let jobs = self.jobs.get().map(Store::state).unwrap_or_default();
        let (mut phases, mut workers): (BTreeMap<Labels, i64>, BTreeMap<Labels, i64>) = Default::default();
        let mut known: BTreeMap<Labels, i64> = BTreeMap::new();
        for job in jobs.iter().map(|job| &job.rest).filter(|job| plan::is_ours(job)) {
            let namespace = job.namespace().unwrap_or_default();
            // As upstream, which sets it once it has seen the Launcher's Job.
            if job.status.as_ref().is_some_and(|status| status.replica_statuses.contains_key(LAUNCHER)) {
                let launcher = plan::launcher_name(&job.name_any());
                known.insert([("launcher", launcher), ("namespace", namespace.clone())], 1);
            }
            let phase = phase(job).to_owned();
            *phases.entry([("namespace", namespace.clone()), ("phase", phase)]).or_default() += 1;
            let Some(counts) = job.status.as_ref().and_then(|status| status.workers.as_ref()) else {
                continue;
            };
            for (state, count) in
                [("running", counts.running), ("pending", counts.pending), ("failed", counts.failed)]
            {
                let labels = [("namespace", namespace.clone()), ("state", state.to_owned())];
                *workers.entry(labels).or_default() += i64::from(count);
            }
        }
        show(&mut encoder, "jobs", "Number of MPI jobs, by phase", &phases)?;
        show(&mut encoder, "workers", "Number of Workers, by state", &workers)?;
        show(&mut encoder, "job_info", "Information about MPI jobs", &known)?;
        let queue = self.health.queue();
        let depth = [("queue_depth", "Jobs waiting for reconciliation", queue.waiting)];
        let passes = [("passes_in_progress", "Reconciliations in progress", queue.under_way)];
        for (name, help, count) in depth.into_iter().chain(passes) {
            let gauge = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}

fn show(
    encoder: &mut DescriptorEncoder<'_>,
    name: &'static str,
    help: &str,
    series: &BTreeMap<Labels, i64>,
) -> fmt::Result {
    let mut family: MetricEncoder<'_> = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in series {
        ConstGauge::new(*value).encode(family.encode_family(&Named(labels))?)?;
    }
    Ok(())
}

/// Labels with arbitrary names.
struct Named<'a>(&'a Labels);

impl EncodeLabelSet for Named<'_> {
    fn encode(&self, encoder: &mut prometheus_client::encoding::LabelSetEncoder<'_>) -> fmt::Result {
        self.0.as_slice().encode(encoder)
    }
}

fn phase(job: &MPIJob) -> &'static str {
    match job.status.as_ref().and_then(|status| status.phase) {
        Some(Phase::Running) => "Running",
        Some(Phase::Succeeded) => "Succeeded",
        Some(Phase::Failed) => "Failed",
        Some(Phase::Pending) | None => "Pending",
    }
}
