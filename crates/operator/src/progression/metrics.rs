//! What a training program answers at its metrics endpoint, and the annotation that is made of it, as the Open Data Hub
//! build of Trainer reads and writes them (`opendatahub-io/trainer`, `pkg/rhai/progression`). Pure.

use api::{Metric, TrainerStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The most metrics of `status.trainerStatus`, and the longest name or value of one, in characters.
const MOST_METRICS: usize = 256;
const LONGEST_METRIC: usize = 64;

/// Prefixes of the summary of a job that has ended.
const COMPLETE: &str = "complete";
const FAILED_AT: &str = "failed at";

/// The progress of a program. Its own text for the remaining time and its own time of update are replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Progression {
    /// In percent. It is written even where it is missing.
    pub progress_percentage: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_remaining_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_remaining_time_summary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_step: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_steps: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_epoch: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_epochs: Option<i64>,
    #[serde(skip_serializing_if = "is_empty")]
    pub train_metrics: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "is_empty")]
    pub eval_metrics: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated_time: Option<String>,
}

fn is_empty(metrics: &Option<Map<String, Value>>) -> bool {
    metrics.as_ref().is_none_or(Map::is_empty)
}

impl Progression {
    /// Reads a program's answer. Numbers that cannot be are left out; `None` if it is no progress at all.
    pub fn read(text: &str) -> Option<Self> {
        let mut read: Self = serde_json::from_str(&with_null_for_no_numbers(text)).ok()?;
        read.progress_percentage = read.progress_percentage.filter(|percent| (0..=100).contains(percent));
        for count in [&mut read.estimated_remaining_seconds, &mut read.total_steps, &mut read.total_epochs] {
            *count = count.filter(|count| *count >= 0);
        }
        read.current_step = read.current_step.map(|step| step.max(0));
        read.current_epoch = read.current_epoch.map(|epoch| epoch.max(0.0));
        read.estimated_remaining_time_summary = read.estimated_remaining_seconds.and_then(summary);
        Some(read)
    }

    /// Reads the annotation.
    pub fn of_annotation(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The annotation's text.
    pub fn annotation(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    /// When it was written.
    pub fn updated(&self) -> Option<Timestamp> {
        self.last_updated_time.as_deref()?.parse().ok()
    }

    /// Whether it says how the job ended.
    pub fn is_final(&self) -> bool {
        let summary = self.estimated_remaining_time_summary.as_deref().unwrap_or_default();
        summary.starts_with(COMPLETE) || summary.starts_with(FAILED_AT)
    }

    /// Says how the job ended.
    pub fn conclude(&mut self, has_succeeded: bool) {
        let stopped_early = self.current_step.zip(self.total_steps).is_some_and(|(step, of)| step < of);
        self.estimated_remaining_time_summary = Some(match has_succeeded {
            true if stopped_early => format!("{COMPLETE} (early stopped)"),
            true => COMPLETE.to_owned(),
            false => format!("{FAILED_AT} {}%", self.progress_percentage.unwrap_or(0)),
        });
    }

    /// The same values for `status.trainerStatus`; what its schema does not allow is left out.
    pub fn trainer_status(&self, updated: Timestamp) -> TrainerStatus {
        let number = |value: Option<i64>| value.and_then(|value| i32::try_from(value).ok());
        let metrics = [&self.train_metrics, &self.eval_metrics].into_iter().flatten().flatten();
        let metrics = metrics.filter_map(|(name, value)| {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
            };
            let fits = |text: &str| (1..=LONGEST_METRIC).contains(&text.chars().count());
            (fits(name) && fits(&value)).then(|| Metric { name: name.clone(), value })
        });
        TrainerStatus {
            progress_percentage: number(self.progress_percentage),
            estimated_remaining_seconds: number(self.estimated_remaining_seconds),
            metrics: metrics.take(MOST_METRICS).collect(),
            last_updated_time: Some(Time(updated)),
        }
    }
}

/// The remaining time for people: its two largest units, and minutes only below a day.
fn summary(seconds: i64) -> Option<String> {
    if seconds <= 0 {
        return None;
    }
    let (days, hours, minutes) = (seconds / 86_400, seconds % 86_400 / 3600, seconds % 3600 / 60);
    let units = [(days, "day"), (hours, "hour"), (if days == 0 { minutes } else { 0 }, "minute")];
    let words: Vec<String> = units
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count} {unit}{}", if count == 1 { "" } else { "s" }))
        .collect();
    Some(if words.is_empty() { "less than a minute".to_owned() } else { words.join(" ") })
}

/// JSON in which Python's `NaN` and `Infinity` are null; strings stay as they are.
fn with_null_for_no_numbers(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        let words = ["NaN", "Infinity", "-Infinity"];
        let length = if first == '"' { string_length(rest) } else { first.len_utf8() };
        if let Some(after) = words.into_iter().find_map(|word| rest.strip_prefix(word)) {
            out.push_str("null");
            rest = after;
        } else {
            out.push_str(&rest[..length]);
            rest = &rest[length..];
        }
    }
    out
}

/// The length of the string that a text begins with, in bytes; the whole text if it does not end.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '"' if !is_escaped => return at + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_becomes_the_annotation_that_trainer_writes() {
        let answer = r#"{"progressPercentage": 45, "estimatedRemainingSeconds": 7384, "currentStep": 450, "totalSteps": 1000,
            "currentEpoch": 1.98, "totalEpochs": 5, "trainMetrics": {"loss": NaN, "note": "NaN \" Infinity"},
            "evalMetrics": {}, "lastUpdatedTime": "whenever", "estimatedRemainingTimeSummary": "soon"}"#;
        let mut read = Progression::read(answer).unwrap();
        read.last_updated_time = Some("2026-01-01T00:00:00Z".to_owned());
        let expected = concat!(
            r#"{"progressPercentage":45,"estimatedRemainingSeconds":7384,"#,
            r#""estimatedRemainingTimeSummary":"2 hours 3 minutes","currentStep":450,"totalSteps":1000,"#,
            r#""currentEpoch":1.98,"totalEpochs":5,"trainMetrics":{"loss":null,"note":"NaN \" Infinity"},"#,
            r#""lastUpdatedTime":"2026-01-01T00:00:00Z"}"#
        );
        assert_eq!(read.annotation().as_deref(), Some(expected));
        let again = Progression::of_annotation(expected).and_then(|known| known.annotation());
        assert_eq!(again.as_deref(), Some(expected), "it reads back");
    }

    #[test]
    fn numbers_that_cannot_be_are_left_out() {
        let answer = r#"{"progressPercentage": 101, "estimatedRemainingSeconds": -1, "currentStep": -3, "totalSteps": -1}"#;
        let read = Progression::read(answer).unwrap();
        assert_eq!(read, Progression { current_step: Some(0), ..Progression::default() });
        assert!(read.annotation().unwrap().starts_with(r#"{"progressPercentage":null"#));
        for wrong in ["", "7", "{", "<html>", r#"{"progressPercentage": "45"}"#, "\"", "NaN"] {
            assert_eq!(Progression::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_remaining_time_is_worded_with_two_units() {
        let table = [
            (0, None),
            (59, Some("less than a minute")),
            (60, Some("1 minute")),
            (7384, Some("2 hours 3 minutes")),
            (86_400, Some("1 day")),
            (9 * 86_400 + 5 * 3600 + 120, Some("9 days 5 hours")),
        ];
        for (seconds, expected) in table {
            assert_eq!(summary(seconds).as_deref(), expected, "{seconds}");
        }
    }

    #[test]
    fn an_end_is_worded_by_the_outcome_and_the_steps() {
        let mut read =
            Progression::read(r#"{"progressPercentage": 40, "currentStep": 4, "totalSteps": 10}"#).unwrap();
        assert!(!read.is_final());
        for (has_succeeded, expected) in [(true, "complete (early stopped)"), (false, "failed at 40%")] {
            read.conclude(has_succeeded);
            assert_eq!(read.estimated_remaining_time_summary.as_deref(), Some(expected));
            assert!(read.is_final());
        }
        read.current_step = Some(10);
        read.conclude(true);
        assert_eq!(read.estimated_remaining_time_summary.as_deref(), Some("complete"));
    }

    #[test]
    fn the_status_has_what_its_schema_allows() {
        let long = "n".repeat(65);
        let answer = json!({ "progressPercentage": 45, "estimatedRemainingSeconds": 1_i64 << 40,
            "trainMetrics": { "loss": 0.25, "layers": [1], "done": true, long: 1 }, "evalMetrics": { "acc": "0.5" } });
        let status = Progression::read(&answer.to_string()).unwrap().trainer_status(Timestamp::UNIX_EPOCH);
        let metrics: Vec<_> = status.metrics.iter().map(|it| (it.name.as_str(), it.value.as_str())).collect();
        assert_eq!(metrics, [("loss", "0.25"), ("acc", "0.5")]);
        assert_eq!((status.progress_percentage, status.estimated_remaining_seconds), (Some(45), None));
    }
}
