//! What the service does, for Prometheus.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use history::store::Used;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Seconds that a call may take; the goals are 0.02 and 2.
const BUCKETS: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0, 10.0];

/// A call by method and outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Outcome {
    method: &'static str,
    /// The HTTP status, also of calls over gRPC.
    status: u16,
}

/// A method.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Name {
    method: &'static str,
}

/// A bound of the store: its disk, or its maximum size.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Bound {
    of: &'static str,
}

/// The metrics.
pub struct Metrics {
    registry: Registry,
    calls: Family<Outcome, Counter>,
    seconds: Family<Name, Histogram>,
    streams: Family<Name, Gauge>,
    jobs: Gauge,
    used: Family<Bound, Gauge<f64, AtomicU64>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("training_service");
        let calls = Family::default();
        let seconds = Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> Histogram);
        let (streams, jobs, used) = (Family::default(), Gauge::default(), Family::default());
        registry.register("calls", "Calls by method and HTTP status", calls.clone());
        registry.register(
            "call_seconds",
            "Seconds until a call was answered, or its stream began",
            seconds.clone(),
        );
        registry.register("open_streams", "Open streams by method", streams.clone());
        registry.register("jobs", "Jobs that are known", jobs.clone());
        registry.register(
            "store_used_ratio",
            "How much of the store's disk, and of its maximum size, is used; absent if unknown",
            used.clone(),
        );
        Self { registry, calls, seconds, streams, jobs, used }
    }
}

impl Metrics {
    /// Counts a call.
    pub fn called(&self, method: &'static str, status: u16, took: Duration) {
        self.calls.get_or_create(&Outcome { method, status }).inc();
        self.seconds.get_or_create(&Name { method }).observe(took.as_secs_f64());
    }

    /// Counts an open stream until the result is dropped.
    pub fn stream(&self, method: &'static str) -> Open {
        let gauge = self.streams.get_or_create(&Name { method }).clone();
        gauge.inc();
        Open(gauge)
    }

    /// Returns all metrics as text, in OpenMetrics' format.
    pub fn text(&self, jobs: usize, used: Used) -> String {
        for (of, used) in [("disk", used.disk), ("size", used.size)] {
            match used {
                Some(used) => {
                    self.used.get_or_create(&Bound { of }).set(used);
                }
                None => {
                    self.used.remove(&Bound { of });
                }
            }
        }
        self.jobs.set(i64::try_from(jobs).unwrap_or(i64::MAX));
        let mut text = String::new();
        // Writing to a text cannot fail.
        let _ = text::encode(&mut text, &self.registry);
        text
    }
}

/// An open stream.
pub struct Open(Gauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_of_the_store_has_no_sample() {
        let metrics = Metrics::default();
        let text = metrics.text(0, Used { disk: Some(0.5), size: Some(0.25) });
        assert!(text.contains("training_service_store_used_ratio{of=\"disk\"} 0.5\n"), "{text}");
        assert!(text.contains("training_service_store_used_ratio{of=\"size\"} 0.25\n"), "{text}");
        assert!(!metrics.text(0, Used::default()).contains("store_used_ratio{"));
    }
}
