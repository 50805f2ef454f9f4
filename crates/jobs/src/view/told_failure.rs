//! The failure of a TrainJob, which has no field for it: our operator puts it behind upstream's text in the message of the
//! condition Failed, as `UPSTREAM'S TEXT: CAUSE: WHAT HAPPENED (WHERE). WHAT TO DO`. Pure.

use api::{Failure, MPIJobStatus};
use diagnosis::Cause;
use plan::Place;
use plan::trainjob::{DEADLINE, deadline_failure};

/// Returns the failure in the message of the condition Failed; `None` if there is none.
pub(super) fn of(status: &MPIJobStatus) -> Option<Failure> {
    let failed = status.conditions.iter().find(|condition| condition.type_ == api::CONDITION_FAILED)?;
    let message = failed.message.as_deref().filter(|_| failed.status == "True")?;
    if failed.reason.as_deref() == Some(DEADLINE) {
        return Some(deadline_failure(message));
    }
    read(message)
}

fn read(message: &str) -> Option<Failure> {
    let mut rest = message;
    let (cause, told) = loop {
        let (word, after) = rest.split_once(": ")?;
        if let Some(cause) = Cause::of_word(word) {
            break (cause, after);
        }
        rest = after;
    };
    let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    let failure = Failure {
        reason: cause.word().to_owned(),
        link: Some(cause.link()),
        worker: told.strip_prefix("Worker ").and_then(number),
        exit_code: told.split_once("exit code ").and_then(|(_, rest)| number(rest)),
        ..Failure::default()
    };
    if let Some((happened, place, advice)) = parted(told) {
        return Some(Failure {
            message: happened.to_owned(),
            suggestion: advice.map(str::to_owned),
            worker: place.worker.or(failure.worker),
            exit_code: place.exit_code.or(failure.exit_code),
            ..failure
        });
    }
    let usual = cause.texts().suggestion;
    let happened = told.strip_suffix(usual).map(|before| before.trim_end().trim_end_matches('.'));
    Some(Failure {
        message: happened.unwrap_or(told).to_owned(),
        suggestion: happened.map(|_| usual.to_owned()),
        ..failure
    })
}

/// What happened, where, and what to do, if the text says where it was.
fn parted(told: &str) -> Option<(&str, Place, Option<&str>)> {
    told.rmatch_indices(" (").find_map(|(at, opening)| {
        let (place, rest) = told[at + opening.len()..].split_once(')')?;
        let advice = rest.strip_prefix(". ");
        let place = plan::read_place(place).filter(|_| rest.is_empty() || advice.is_some())?;
        Some((&told[..at], place, advice))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_behind_upstreams_text_is_found() {
        let usual = Cause::ExecutableNotFound.texts().suggestion;
        let launcher = format!(
            "jobset failed due to one or more job failures (first failed job: digits-launcher-0): ExecutableNotFound: \
             pyhton does not exist on a Worker. {usual}"
        );
        let found = read(&launcher).unwrap();
        assert_eq!((found.reason.as_str(), found.worker), ("ExecutableNotFound", None));
        assert_eq!(found.message, "pyhton does not exist on a Worker");
        assert_eq!(found.suggestion.as_deref(), Some(usual));
        let worker = "jobset failed due to reaching max number of restarts: OutOfMemory: Worker 1 (digits-node-0-1) \
                      failed: exit code 137 (OOMKilled). Increase memory allocation.";
        let found = read(worker).unwrap();
        assert_eq!((found.reason.as_str(), found.worker, found.suggestion), ("OutOfMemory", Some(1), None));
        assert_eq!(found.exit_code, Some(137));
        assert!(found.message.starts_with("Worker 1 (digits-node-0-1) failed"), "{}", found.message);
        let placed = "jobset failed due to one or more job failures (first failed job: a-launcher-0): OutOfMemory: A rank on \
                      a-node-0-0 was killed (limit 1 GiB) (Worker 0, exit code 137). Raise it (or not).";
        let found = read(placed).unwrap();
        assert_eq!(found.message, "A rank on a-node-0-0 was killed (limit 1 GiB)");
        assert_eq!((found.worker, found.exit_code), (Some(0), Some(137)));
        assert_eq!(found.suggestion.as_deref(), Some("Raise it (or not)."));
        assert_eq!(read("jobset failed due to one or more job failures (first failed job: a-node-0)"), None);
        assert_eq!(read("TrainJob exceeded its active deadline"), None);
    }

    #[test]
    fn a_job_that_exceeded_its_deadline_has_a_cause_and_advice() {
        let condition = serde_json::json!({ "type": "Failed", "status": "True", "reason": "DeadlineExceeded",
            "message": "TrainJob exceeded its active deadline" });
        let status = serde_json::from_value(serde_json::json!({ "conditions": [condition] })).unwrap();
        let found = of(&status).unwrap();
        assert_eq!(found.reason, "Timeout");
        assert!(found.suggestion.unwrap().contains("spec.activeDeadlineSeconds"));
    }
}
