//! CronJobs (`pkg/apis/batch/validation`): schedule and time zone, counts, and the Job that is created.

use std::sync::LazyLock;

use jiff::tz::TimeZone;
use regex::Regex;
use semantics::Schedule;
use serde_json::Value;

use super::{FieldFault, job, not_negative, one_of, text};

/// A Job is named after its CronJob and the minute, which take eleven of 63 characters.
const MAX_NAME_BYTES: usize = 52;

/// `old` is the previous state, for an update.
pub(super) fn validate(cron_job: &Value, old: Option<&Value>) -> Vec<FieldFault> {
    let (spec, mut faults) = (&cron_job["spec"], Vec::new());
    schedule(text(spec, "schedule"), &mut faults);
    not_negative(spec, "startingDeadlineSeconds", "spec", &mut faults);
    if old.is_none_or(|old| old["spec"]["timeZone"] != spec["timeZone"])
        && let Some(name) = spec["timeZone"].as_str()
    {
        time_zone(name, &mut faults);
    }
    one_of(spec, "concurrencyPolicy", &["Allow", "Forbid", "Replace"], "spec", &mut faults);
    job_template(&spec["jobTemplate"]["spec"], &mut faults);
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        not_negative(spec, field, "spec", &mut faults);
    }
    let name = text(&cron_job["metadata"], "name");
    if old.is_none() && name.len() > MAX_NAME_BYTES {
        let text = format!("must be no more than {MAX_NAME_BYTES} characters");
        faults.push(FieldFault::invalid("metadata.name", name, text));
    }
    faults
}

fn schedule(schedule: &str, faults: &mut Vec<FieldFault>) {
    let path = "spec.schedule";
    if schedule.is_empty() {
        faults.push(FieldFault::required(path, ""));
        return;
    }
    // A zone in the schedule is refused, but does not make it unreadable.
    let has_zone = schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=");
    let fields =
        if has_zone { schedule.split_once(' ').map_or("", |(_, fields)| fields.trim()) } else { schedule };
    if let Err(error) = Schedule::parse(fields, TimeZone::UTC) {
        faults.push(FieldFault::invalid(path, schedule, error.to_string()));
    }
    if schedule.contains("TZ") {
        let text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        faults.push(FieldFault::invalid(path, schedule, text));
    }
}

fn time_zone(name: &str, faults: &mut Vec<FieldFault>) {
    static PART: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[A-Za-z0-9._+-]{1,14}$").ok());
    let path = "spec.timeZone";
    if name.is_empty() {
        faults.push(FieldFault::invalid(path, name, "timeZone must be nil or non-empty string"));
        return;
    }
    let is_part = |part: &str| {
        !matches!(part, "." | "..")
            && !part.starts_with('-')
            && PART.as_ref().is_none_or(|pattern| pattern.is_match(part))
    };
    let unknown = || FieldFault::invalid(path, name, format!("unknown time zone {name}"));
    if !name.split('/').all(is_part) {
        faults.push(unknown());
        return;
    }
    if name.eq_ignore_ascii_case("Local") {
        let text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        faults.push(FieldFault::invalid(path, name, text));
    }
    if name != "Local" && semantics::time_zone(name).is_none() {
        faults.push(unknown());
    }
}

/// The selector of each Job is generated.
fn job_template(spec: &Value, faults: &mut Vec<FieldFault>) {
    let at = "spec.jobTemplate.spec";
    job::spec(spec, at, faults);
    if !spec["selector"].is_null() {
        let text = "`selector` will be auto-generated";
        faults.push(FieldFault::invalid(format!("{at}.selector"), spec["selector"].clone(), text));
    }
    if spec["manualSelector"] == true {
        faults.push(FieldFault::not_supported(format!("{at}.manualSelector"), true, &["nil", "false"]));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{builtin_kind, default_object, validate_create, validate_update};

    /// Returns a CronJob with a changed spec, defaulted.
    fn cron_job(name: &str, change: Value) -> Value {
        let mut spec = json!({"schedule": "0 2 * * *", "jobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}});
        json_patch::merge(&mut spec, &change);
        let mut object = json!({"metadata": {"name": name, "namespace": "n"}, "spec": spec});
        default_object(builtin_kind("batch", "CronJob").unwrap(), &mut object);
        object
    }

    fn faults(name: &str, change: Value) -> Vec<String> {
        let kind = builtin_kind("batch", "CronJob").unwrap();
        validate_create(kind, &cron_job(name, change)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_cron_job_is_judged_as_in_kubernetes() {
        for (change, expected) in [
            (json!({}), &[][..]),
            (json!({"schedule": "@every 1h30m", "timeZone": "Europe/Berlin"}), &[]),
            (json!({"schedule": ""}), &["spec.schedule: Required value"]),
            (
                json!({"schedule": "* * * * 7"}),
                &["spec.schedule: Invalid value: \"* * * * 7\": end of range (7) above maximum (6): 7"],
            ),
            (
                json!({"schedule": "TZ=UTC 0 2 * * *"}),
                &[
                    "spec.schedule: Invalid value: \"TZ=UTC 0 2 * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
                ],
            ),
            (
                json!({"timeZone": ""}),
                &["spec.timeZone: Invalid value: \"\": timeZone must be nil or non-empty string"],
            ),
            (
                json!({"timeZone": "Mars/Phobos"}),
                &["spec.timeZone: Invalid value: \"Mars/Phobos\": unknown time zone Mars/Phobos"],
            ),
            (
                json!({"timeZone": "europe/berlin"}),
                &["spec.timeZone: Invalid value: \"europe/berlin\": unknown time zone europe/berlin"],
            ),
            (
                json!({"timeZone": "../UTC"}),
                &["spec.timeZone: Invalid value: \"../UTC\": unknown time zone ../UTC"],
            ),
            (
                json!({"timeZone": "Local"}),
                &[
                    "spec.timeZone: Invalid value: \"Local\": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
                ],
            ),
            (
                json!({"concurrencyPolicy": "Maybe"}),
                &[
                    "spec.concurrencyPolicy: Unsupported value: \"Maybe\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
                ],
            ),
            (
                json!({"startingDeadlineSeconds": -1, "successfulJobsHistoryLimit": -2, "failedJobsHistoryLimit": -3}),
                &[
                    "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
                    "spec.successfulJobsHistoryLimit: Invalid value: -2: must be greater than or equal to 0",
                    "spec.failedJobsHistoryLimit: Invalid value: -3: must be greater than or equal to 0",
                ],
            ),
            (
                json!({"jobTemplate": {"spec": {"selector": {}, "manualSelector": true, "backoffLimit": -1}}}),
                &[
                    "spec.jobTemplate.spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
                    "spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated",
                    "spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: \"nil\", \"false\"",
                ],
            ),
            (
                json!({"jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": null}}}}}),
                &[
                    "spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
                ],
            ),
        ] {
            assert_eq!(faults("nightly", change.clone()), expected, "{change}");
        }
    }

    #[test]
    fn a_name_leaves_room_for_those_of_the_jobs() {
        assert_eq!(faults(&"a".repeat(52), json!({})), [""; 0]);
        let long = "a".repeat(53);
        let expected =
            format!("metadata.name: Invalid value: \"{long}\": must be no more than 52 characters");
        assert_eq!(faults(&long, json!({})), [expected]);
        let (old, mut new) = (cron_job(&long, json!({})), cron_job(&long, json!({"suspend": true})));
        new["metadata"]["resourceVersion"] = json!("1");
        let kind = builtin_kind("batch", "CronJob").unwrap();
        let faults = validate_update(kind, "", &new, &old);
        assert!(faults.is_empty(), "{faults:?}");
    }
}
