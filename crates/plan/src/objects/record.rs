//! The record of a failed attempt: a ConfigMap that outlives the attempt's pods and is deleted with the job. It holds
//! the content of `status.failure`, for clusters whose MPIJob CRD drops that field, and the end of the Launcher's
//! output. No upstream counterpart.

use std::collections::BTreeMap;

use api::{CONDITION_FAILED, CONDITION_RESTARTING, Failure, MPIJobStatus};
use k8s_openapi::api::core::v1::ConfigMap;

use super::{metadata, watched_labels};
use crate::conditions::condition;
use crate::observed::{LauncherRun, ObservedState, Recorded};
use crate::outlook::Outlook;
use crate::validate::ValidJob;

/// The longest excerpt of the log, in bytes: together with everything else, and every key, it stays below the record's
/// 64 KiB.
const LONGEST_LOG_BYTES: usize = 48 * 1024;
/// The longest of the other values, in bytes.
const LONGEST_VALUE_BYTES: usize = 2 * 1024;

/// Returns the record of an attempt that ended with this outlook, Launcher's run and status; `None` if it did not fail.
pub(crate) fn record(
    job: &ValidJob,
    seen: &ObservedState,
    outlook: &Outlook,
    run: Option<&LauncherRun>,
    status: &MPIJobStatus,
) -> Option<ConfigMap> {
    let (words, failure) = match outlook {
        Outlook::Restarting(verdict) => (condition(status, CONDITION_RESTARTING)?, &verdict.failure),
        _ => (condition(status, CONDITION_FAILED)?, status.failure.as_ref()?),
    };
    let number = i32::try_from(job.attempt).unwrap_or(i32::MAX);
    let attempt = status.attempts.iter().find(|attempt| attempt.number == number)?;
    let ended = attempt.completion_time.as_ref()?.0.to_string();
    let node = failure.pod.as_deref().and_then(|name| seen.node_of(name));
    let data = record_data(&RecordedFailure {
        attempt: job.attempt,
        condition_reason: words.reason.as_deref(),
        condition_message: words.message.as_deref(),
        failure,
        node,
        ended,
        log: run.and_then(|run| run.log.as_deref()),
    });
    Some(ConfigMap {
        metadata: metadata(job, record_name(&job.name, job.attempt), watched_labels(job)),
        data: Some(data),
        immutable: Some(true),
        ..ConfigMap::default()
    })
}

/// What the record of a failed attempt says.
pub(crate) struct RecordedFailure<'a> {
    /// The number of the attempt.
    pub attempt: u32,
    /// The reason of the condition that reports the failure.
    pub condition_reason: Option<&'a str>,
    /// Its message.
    pub condition_message: Option<&'a str>,
    /// Who failed, why, and what to do.
    pub failure: &'a Failure,
    /// The node on which the pod failed.
    pub node: Option<&'a str>,
    /// When the attempt ended.
    pub ended: String,
    /// The end of the Launcher's output.
    pub log: Option<&'a str>,
}

/// The record's keys and values, each cut to its longest length.
pub(crate) fn record_data(recorded: &RecordedFailure<'_>) -> BTreeMap<String, String> {
    let RecordedFailure { attempt, condition_reason, condition_message, failure, node, ended, log } =
        recorded;
    let Failure {
        reason,
        message,
        suggestion,
        link,
        pod,
        container,
        worker,
        exit_code,
        ended_early,
        evidence,
    } = failure;
    let values = [
        ("attempt", Some(attempt.to_string())),
        ("conditionReason", condition_reason.map(str::to_owned)),
        ("conditionMessage", condition_message.map(str::to_owned)),
        ("reason", Some(reason.clone())),
        ("message", Some(message.clone())),
        ("suggestion", suggestion.clone()),
        ("link", link.clone()),
        ("pod", pod.clone()),
        ("container", container.clone()),
        ("worker", worker.map(|worker| worker.to_string())),
        ("exitCode", exit_code.map(|code| code.to_string())),
        ("endedEarly", ended_early.map(|early| early.to_string())),
        ("evidence", (!evidence.is_empty()).then(|| evidence.join("\n"))),
        ("node", node.map(str::to_owned)),
        ("completionTime", Some(ended.clone())),
    ];
    let mut data: BTreeMap<String, String> = values
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), cut_end(&value?, LONGEST_VALUE_BYTES).to_owned())))
        .collect();
    data.extend(log.map(|log| ("launcher.log".to_owned(), last_lines(log).to_owned())));
    data
}

/// Returns the name of an attempt's record; 0 counts as the first.
#[must_use]
pub fn record_name(job: &str, attempt: u32) -> String {
    format!("{job}-attempt-{}", attempt.max(1))
}

/// Parses a record; `None` if it is not one of ours.
#[must_use]
pub fn recorded(record: &ConfigMap) -> Option<Recorded> {
    let data = record.data.as_ref()?;
    let value = |key: &str| data.get(key).cloned();
    let number = |key: &str| data.get(key).and_then(|text| text.parse().ok());
    Some(Recorded {
        condition_reason: value("conditionReason")?,
        condition_message: value("conditionMessage")?,
        failure: Failure {
            reason: value("reason")?,
            message: value("message")?,
            suggestion: value("suggestion"),
            link: value("link"),
            pod: value("pod"),
            container: value("container"),
            worker: number("worker"),
            exit_code: number("exitCode"),
            ended_early: data.get("endedEarly").and_then(|early| early.parse().ok()),
            evidence: value("evidence")
                .map_or_else(Vec::new, |text| text.lines().map(str::to_owned).collect()),
        },
        completion_time: data.get("completionTime").and_then(|time| time.parse().ok()),
        node: value("node"),
    })
}

fn cut_end(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// The last whole lines that fit, or the end of a single line that is too long.
fn last_lines(log: &str) -> &str {
    if log.len() <= LONGEST_LOG_BYTES {
        return log;
    }
    let tail = &log[log.ceil_char_boundary(log.len() - LONGEST_LOG_BYTES)..];
    tail.split_once('\n').map_or(tail, |(_, whole)| whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_log_the_last_whole_lines_stay() {
        let line = "é".repeat(50) + "\n";
        let log = line.repeat(2_000);
        let kept = last_lines(&log);
        assert!(kept.len() <= LONGEST_LOG_BYTES && kept.len() > LONGEST_LOG_BYTES - 2 * line.len());
        assert!(kept.lines().all(|kept| kept == line.trim_end()));
        let one = "é".repeat(LONGEST_LOG_BYTES);
        assert!(last_lines(&one).len() <= LONGEST_LOG_BYTES);
        assert_eq!(last_lines("short\n"), "short\n");
    }
}
