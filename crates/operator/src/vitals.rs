//! What an operator shows of itself while it runs.

use std::sync::Arc;

use crate::health::Health;
use crate::metrics::Metrics;

/// Health and metrics of one operator, shared by those who fill and those who show them.
#[derive(Clone, Debug)]
pub struct Vitals {
    /// Whether it lives and can work.
    pub health: Arc<Health>,
    /// What it counts and times.
    pub metrics: Arc<Metrics>,
}

impl Default for Vitals {
    fn default() -> Self {
        let health = Arc::new(Health::default());
        Self { metrics: Arc::new(Metrics::new(health.clone())), health }
    }
}
