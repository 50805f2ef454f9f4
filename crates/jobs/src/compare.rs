//! Compares several jobs, or the attempts of one: how each ended, what each requested, and where they differ. Pure.

use std::collections::{BTreeMap, BTreeSet};

use api::{AttemptOutcome, Phase};
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde::Serialize;

use crate::flat::flatten;
use crate::view::{self, Row};
use crate::{Kind, export};

/// The maximum number of differing fields shown.
const MAX_DIFFERENCES: usize = 100;

/// A comparison in columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The compared items: names of jobs, or numbers of attempts.
    pub columns: Vec<String>,
    /// How each ended, shown even if they do not differ.
    pub outcome: Vec<Line>,
    /// What their training programs reported last, if they report anything.
    pub metrics: Vec<Line>,
    /// Fields of the manifests that differ.
    pub differences: Vec<Line>,
}

/// One fact, with its value for each column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// Its name: a word, or a field's path.
    pub field: String,
    /// Its value in each column; `None` if a column has none.
    pub values: Vec<Option<String>>,
    /// Whether all columns have the same value.
    pub same: bool,
}

impl Comparison {
    /// Returns the comparison without what is the same for all.
    #[must_use]
    pub fn only_differences(mut self) -> Comparison {
        for lines in [&mut self.outcome, &mut self.metrics, &mut self.differences] {
            lines.retain(|line| !line.same);
        }
        self
    }
}

impl Line {
    fn new(field: impl Into<String>, values: Vec<Option<String>>) -> Line {
        let same = values.windows(2).all(|pair| matches!(pair, [a, b] if a == b));
        Line { field: field.into(), values, same }
    }
}

/// Compares jobs.
pub fn jobs(objects: &[DynamicObject], now: Timestamp) -> Comparison {
    let rows: Vec<Row> = objects.iter().map(view::row).collect();
    let ours: Vec<api::MPIJob> = objects.iter().map(view::in_our_words).collect();
    let failure = |get: fn(&api::Failure) -> Option<String>| -> Vec<Option<String>> {
        ours.iter().map(|job| get(job.status.as_ref()?.failure.as_ref()?)).collect()
    };
    let of = |get: &dyn Fn(&Row) -> Option<String>| rows.iter().map(get).collect::<Vec<_>>();
    let outcome = vec![
        Line::new("kind", of(&|row| Some(row.kind.name().to_owned()))),
        Line::new("state", of(&|row| Some(row.state.word.clone()))),
        Line::new("reason", of(&|row| row.phase_reason.clone())),
        Line::new("what happened", failure(|failure| Some(failure.message.clone()))),
        Line::new("exit code", failure(|failure| failure.exit_code.map(|code| code.to_string()))),
        Line::new("failed Worker", failure(|failure| failure.worker.map(|worker| worker.to_string()))),
        Line::new("run time", of(&|row| row.runtime(now).map(view::duration))),
        Line::new("waited", rows.iter().map(|row| waited(row, now)).collect()),
        Line::new("workers", of(&|row| Some(row.workers.of.to_string()))),
        Line::new("attempts", ours.iter().map(attempts).collect()),
    ];
    let outcome = outcome.into_iter().filter(|line| line.values.iter().any(Option::is_some)).collect();
    Comparison {
        columns: rows.iter().map(|row| row.name.clone()).collect(),
        outcome,
        metrics: metrics(&rows),
        differences: differences(objects),
    }
}

/// The time from the job's creation until it ran, until its end if it never ran, or until now while it is pending.
fn waited(row: &Row, now: Timestamp) -> Option<String> {
    let until = match row.phase {
        Phase::Pending => now,
        _ => row.running_since.or(row.finished)?,
    };
    let seconds = until.as_second() - row.created?.as_second();
    Some(view::duration(std::time::Duration::from_secs(u64::try_from(seconds).ok()?)))
}

fn attempts(job: &api::MPIJob) -> Option<String> {
    let attempts = &job.status.as_ref()?.attempts;
    (!attempts.is_empty()).then(|| attempts.len().to_string())
}

/// Compares the attempts of one job, from its own record; `None` if it has none.
pub fn attempts_of(object: &DynamicObject) -> Option<Comparison> {
    let attempts = view::status(object).attempts;
    if attempts.is_empty() {
        return None;
    }
    let of = |get: &dyn Fn(&api::Attempt) -> Option<String>| attempts.iter().map(get).collect::<Vec<_>>();
    let outcome = vec![
        Line::new("state", of(&|attempt| Some(word(attempt.outcome)))),
        Line::new("reason", of(&|attempt| attempt.reason.clone())),
        Line::new("exit code", of(&|attempt| attempt.exit_code.map(|code| code.to_string()))),
        Line::new(
            "launcher failures",
            of(&|attempt| attempt.launcher_failures.map(|count| count.to_string())),
        ),
        Line::new("started", of(&|attempt| attempt.start_time.as_ref().map(|time| time.0.to_string()))),
        Line::new("ended", of(&|attempt| attempt.completion_time.as_ref().map(|time| time.0.to_string()))),
    ];
    Some(Comparison {
        columns: attempts.iter().map(|attempt| format!("attempt {}", attempt.number)).collect(),
        outcome: outcome.into_iter().filter(|line| line.values.iter().any(Option::is_some)).collect(),
        metrics: Vec::new(),
        differences: Vec::new(),
    })
}

/// The progress and the metrics of all jobs that report them.
fn metrics(rows: &[Row]) -> Vec<Line> {
    let reported = |get: &dyn Fn(&view::Reported) -> Option<String>| -> Vec<Option<String>> {
        rows.iter().map(|row| get(row.progress.as_ref()?)).collect()
    };
    let names: BTreeSet<&String> = rows
        .iter()
        .filter_map(|row| row.progress.as_ref())
        .flat_map(|progress| progress.metrics.keys())
        .collect();
    let progress =
        Line::new("progress", reported(&|progress| progress.percent.map(|percent| format!("{percent} %"))));
    let metrics = names
        .into_iter()
        .map(|name| Line::new(name, reported(&|progress| progress.metrics.get(name).cloned())));
    let lines = std::iter::once(progress).chain(metrics);
    lines.filter(|line| line.values.iter().any(Option::is_some)).collect()
}

fn word(outcome: AttemptOutcome) -> String {
    serde_json::to_value(outcome).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// The fields in which the manifests differ, except names and annotations about their origin.
fn differences(objects: &[DynamicObject]) -> Vec<Line> {
    let flat: Vec<BTreeMap<String, String>> = objects
        .iter()
        .map(|object| {
            let manifest = export::manifest(object);
            let mut found = BTreeMap::new();
            for part in ["/spec", "/metadata/labels"] {
                if let Some(value) = manifest.pointer(part) {
                    let path = part.trim_start_matches('/').replace('/', ".");
                    flatten(value, &path, Kind::of(object), &mut found);
                }
            }
            found
        })
        .collect();
    let paths: BTreeSet<&String> = flat.iter().flat_map(BTreeMap::keys).collect();
    paths
        .into_iter()
        .map(|path| Line::new(path, flat.iter().map(|fields| fields.get(path).cloned()).collect()))
        .filter(|line| !line.same)
        .take(MAX_DIFFERENCES)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn job(name: &str, memory: &str, status: Value) -> DynamicObject {
        serde_json::from_value(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"containers": [
                {"name": "w", "image": "i", "command": ["sleep", "1"], "resources": {"limits": {"memory": memory}}}]}}}}},
            "status": status}))
        .unwrap()
    }

    #[test]
    fn only_differences_are_shown() {
        let failed = json!({"phase": "Failed", "phaseReason": "OutOfMemory", "startTime": "2026-01-01T00:00:05Z",
            "completionTime": "2026-01-01T00:00:35Z",
            "failure": {"reason": "OutOfMemory", "message": "worker 1 ran out of memory", "worker": 1, "exitCode": 137}});
        let well = json!({"phase": "Succeeded", "startTime": "2026-01-01T00:00:05Z", "completionTime": "2026-01-01T00:01:05Z"});
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let found = jobs(&[job("a", "1Gi", failed), job("b", "2Gi", well)], now);
        assert_eq!(found.columns, ["a", "b"]);
        let line =
            |field: &str| found.outcome.iter().find(|line| line.field == field).unwrap().values.clone();
        assert_eq!(line("state"), [Some("Failed".into()), Some("Succeeded".into())]);
        assert_eq!(line("exit code"), [Some("137".into()), None]);
        assert_eq!(line("run time"), [Some("30s".into()), Some("1m".into())]);
        assert_eq!(line("waited"), [Some("5s".into()), Some("5s".into())]);
        let fields: Vec<&str> = found.differences.iter().map(|line| line.field.as_str()).collect();
        assert_eq!(
            fields,
            ["spec.mpiReplicaSpecs[Worker].template.spec.containers[w].resources.limits.memory"]
        );
        assert_eq!(found.differences[0].values, [Some("1Gi".into()), Some("2Gi".into())]);
    }

    #[test]
    fn reported_metrics_are_compared() {
        let reports = |loss: &str| json!({"phase": "Running", "trainerStatus": {"progressPercentage": 50, "metrics": [{"name": "loss", "value": loss}]}});
        let now = "2026-01-01T00:03:00Z".parse().unwrap();
        let three =
            [job("a", "1Gi", reports("0.5")), job("b", "1Gi", reports("0.25")), job("c", "1Gi", json!({}))];
        let found = jobs(&three, now);
        let values: Vec<_> =
            found.metrics.iter().map(|line| (line.field.as_str(), line.values.clone())).collect();
        let half = Some("50 %".to_owned());
        assert_eq!(
            values,
            [
                ("progress", vec![half.clone(), half, None]),
                ("loss", vec![Some("0.5".to_owned()), Some("0.25".to_owned()), None])
            ]
        );
        let short = jobs(&three[..2], now).only_differences();
        assert_eq!(short.metrics.len(), 1);
        assert!(short.outcome.is_empty() && short.differences.is_empty(), "{short:?}");
    }

    #[test]
    fn a_job_that_waits_has_waited_until_now() {
        let waiting =
            json!({"phase": "Pending", "phaseReason": "Initializing", "startTime": "2026-01-01T00:00:00Z"});
        let started = json!({"phase": "Running", "startTime": "2026-01-01T00:00:00Z",
            "startup": {"launched": "2026-01-01T00:00:42Z"}});
        let now = "2026-01-01T00:03:00Z".parse().unwrap();
        let found = jobs(&[job("a", "1Gi", waiting), job("b", "1Gi", started)], now);
        let waited = found.outcome.iter().find(|line| line.field == "waited").unwrap();
        assert_eq!(waited.values, [Some("3m".into()), Some("42s".into())]);
    }

    #[test]
    fn attempts_at_one_job_are_compared_too() {
        let status = json!({"attempts": [
            {"number": 1, "outcome": "Failed", "reason": "WorkerLost"}, {"number": 2, "outcome": "Active"}]});
        let found = attempts_of(&job("a", "1Gi", status)).unwrap();
        assert_eq!(found.columns, ["attempt 1", "attempt 2"]);
        assert_eq!(found.outcome[1].values, [Some("WorkerLost".into()), None]);
        assert!(attempts_of(&job("a", "1Gi", json!({}))).is_none());
    }
}
