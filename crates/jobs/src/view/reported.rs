//! What a training program reports about its own progress, as its operator keeps it on the job.
//!
//! Two protocols are read, the newer one first: `status.trainerStatus` of Kubeflow Trainer (alpha gate
//! `TrainJobStatus`), and the annotation `trainer.opendatahub.io/trainerStatus`, a JSON text that the Open Data Hub build
//! of Trainer writes, and our operator for jobs that ask for it. Values that are not what the protocols specify are left out. Pure.

use std::collections::BTreeMap;

pub use api::ANNOTATION_TRAINER_STATUS;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde::Serialize;
use serde_json::Value;

/// The maximum number of metrics kept of a job.
pub const MAX_METRICS: usize = 16;
/// The maximum length of a metric's name or value, in characters, as in Trainer's schema.
pub const MAX_METRIC_LENGTH: usize = 64;
/// The maximum length of the annotation, in bytes; a longer one is ignored.
const MAX_ANNOTATION_BYTES: usize = 64 * 1024;

/// A training program's progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reported {
    /// The part that is done, in percent, 0 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// The remaining time as estimated by the program, in seconds, counted from when it reported.
    #[serde(rename = "timeLeft", skip_serializing_if = "Option::is_none")]
    pub time_left_seconds: Option<u32>,
    /// When it was reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<Timestamp>,
    /// The program's metrics, such as `loss`, as text; at most [`MAX_METRICS`], those of the training first.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, String>,
}

impl Reported {
    /// The remaining time as of now, in seconds, not below zero: what was reported less the time since.
    pub fn remaining_seconds(&self, now: Timestamp) -> Option<i64> {
        let since = self.updated.map_or(0, |updated| now.as_second() - updated.as_second());
        Some((i64::from(self.time_left_seconds?) - since.max(0)).max(0))
    }
}

/// Returns the progress that a job's training program reported; `None` if it reported none.
pub fn of(object: &DynamicObject) -> Option<Reported> {
    let published = object.data.pointer("/status/trainerStatus").filter(|status| status.is_object());
    let found = match published {
        Some(status) => read(status),
        None => {
            let text = object.annotations().get(ANNOTATION_TRAINER_STATUS)?;
            if text.len() > MAX_ANNOTATION_BYTES {
                return None;
            }
            read(&serde_json::from_str(text).ok()?)
        }
    };
    let says_nothing =
        found.percent.is_none() && found.time_left_seconds.is_none() && found.metrics.is_empty();
    (!says_nothing).then_some(found)
}

fn read(status: &Value) -> Reported {
    let mut found = Reported {
        percent: whole(&status["progressPercentage"]).and_then(|percent| u8::try_from(percent.min(100)).ok()),
        time_left_seconds: whole(&status["estimatedRemainingSeconds"]),
        updated: status["lastUpdatedTime"].as_str().and_then(|time| time.parse().ok()),
        metrics: BTreeMap::new(),
    };
    for metric in status["metrics"].as_array().into_iter().flatten() {
        if let Some(name) = metric["name"].as_str() {
            keep(&mut found.metrics, name, &metric["value"]);
        }
    }
    for group in ["trainMetrics", "evalMetrics"] {
        for (name, value) in status[group].as_object().into_iter().flatten() {
            keep(&mut found.metrics, name, value);
        }
    }
    found
}

/// Keeps a metric with a valid name and a value of one word.
fn keep(metrics: &mut BTreeMap<String, String>, name: &str, value: &Value) {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(_) | Value::Null | Value::Array(_) | Value::Object(_) => return,
    };
    let fits = |text: &str| !text.is_empty() && text.chars().count() <= MAX_METRIC_LENGTH;
    if metrics.len() < MAX_METRICS && fits(name) && fits(&text) {
        metrics.entry(name.to_owned()).or_insert(text);
    }
}

/// A number that is not negative; a fraction is cut.
fn whole(value: &Value) -> Option<u32> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in the range of u32")]
    let cut = |number: f64| number as u32;
    value.as_f64().filter(|number| (0.0..=f64::from(u32::MAX)).contains(number)).map(cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job(annotation: Option<Value>, status: Value) -> DynamicObject {
        let annotations = annotation.map(|text| json!({ ANNOTATION_TRAINER_STATUS: text.to_string() }));
        serde_json::from_value(json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": {"name": "a", "annotations": annotations}, "status": status}))
        .unwrap()
    }

    #[test]
    fn both_protocols_report_the_same_progress() {
        let trainer = job(
            None,
            json!({"trainerStatus": {"progressPercentage": 45, "estimatedRemainingSeconds": 795,
                "metrics": [{"name": "loss", "value": "0.25"}, {"name": "acc", "value": "0.5"}]}}),
        );
        let hub = job(
            Some(json!({"progressPercentage": 45, "estimatedRemainingSeconds": 795, "currentEpoch": 1.98,
                "trainMetrics": {"loss": 0.25, "layers": [1, 2]}, "evalMetrics": {"acc": 0.5}})),
            json!({}),
        );
        let found = of(&trainer).unwrap();
        assert_eq!((found.percent, found.time_left_seconds), (Some(45), Some(795)));
        assert_eq!(Some(found), of(&hub));
    }

    #[test]
    fn the_remaining_time_shrinks_since_it_was_reported() {
        let status = json!({"estimatedRemainingSeconds": 90, "lastUpdatedTime": "2026-01-01T00:00:00Z"});
        let found = of(&job(None, json!({ "trainerStatus": status }))).unwrap();
        let left = |time: &str| found.remaining_seconds(time.parse().unwrap());
        assert_eq!(left("2026-01-01T00:01:00Z"), Some(30));
        assert_eq!(left("2026-01-01T00:09:00Z"), Some(0));
        assert_eq!(left("2025-12-31T00:00:00Z"), Some(90));
        assert_eq!(Reported::default().remaining_seconds(Timestamp::UNIX_EPOCH), None);
    }

    #[test]
    fn what_is_not_the_protocol_is_left_out() {
        let odd = json!({"progressPercentage": 250, "estimatedRemainingSeconds": -1,
            "metrics": [{"name": "n".repeat(65), "value": "1"}, {"value": "1"}, {"name": "x", "value": null}]});
        let found = of(&job(None, json!({ "trainerStatus": odd }))).unwrap();
        assert_eq!(found, Reported { percent: Some(100), ..Reported::default() });
        assert_eq!(of(&job(Some(json!("{")), json!({}))), None);
        assert_eq!(of(&job(None, json!({"trainerStatus": {}}))), None);
        let many: Vec<Value> = (0..100).map(|n| json!({"name": format!("m{n}"), "value": "1"})).collect();
        let found = of(&job(None, json!({"trainerStatus": {"metrics": many}}))).unwrap();
        assert_eq!(found.metrics.len(), MAX_METRICS);
    }
}
