//! The health and metrics of a running operator.

use std::sync::Arc;

use crate::health::Health;
use crate::metrics::Metrics;

/// Health and metrics of one operator, shared by those who write and those who read them.
#[derive(Clone, Debug)]
pub struct Vitals {
    /// Liveness and readiness.
    pub health: Arc<Health>,
    /// Counters and histograms.
    pub metrics: Arc<Metrics>,
}

impl Default for Vitals {
    fn default() -> Self {
        let health = Arc::new(Health::default());
        Self { metrics: Arc::new(Metrics::new(health.clone())), health }
    }
}
