//! The runtime of a TrainJob, and the snapshot of it that the job keeps: a change of the runtime does not change jobs
//! that have begun (upstream's `pkg/runtime/core/snapshot.go`).

use std::collections::BTreeMap;

use api::{LABEL_SUPPORT, TrainingRuntimeSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

/// The key of the snapshot in its ConfigMap.
pub(super) const SNAPSHOT: &str = "runtime";

/// A runtime as it was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runtime {
    /// `TrainingRuntime` or `ClusterTrainingRuntime`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its spec.
    pub spec: TrainingRuntimeSpec,
}

impl Runtime {
    /// Whether its maintainer has announced its removal.
    #[must_use]
    pub fn is_deprecated(&self) -> bool {
        self.labels.get(LABEL_SUPPORT).is_some_and(|support| support == "deprecated")
    }

    /// Reads what a snapshot holds. The caller has parsed its YAML; `None` if it is not a runtime.
    #[must_use]
    pub fn of(snapshot: &Value) -> Option<Self> {
        let text = |pointer: &str| snapshot.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let labels = snapshot.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({}));
        Some(Self {
            kind: text("/kind")?,
            name: text("/metadata/name")?,
            labels: serde_json::from_value(labels).ok()?,
            spec: serde_json::from_value(snapshot.get("spec")?.clone()).ok()?,
        })
    }
}

/// The name of the ConfigMap with the snapshot.
#[must_use]
pub fn snapshot_name(job: &str) -> String {
    format!("{job}-runtime-snapshot")
}

/// The key of the snapshot in that ConfigMap.
#[must_use]
pub fn snapshot_text(config_map: &ConfigMap) -> Option<&str> {
    config_map.data.as_ref()?.get(SNAPSHOT).map(String::as_str)
}
