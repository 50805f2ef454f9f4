//! Rows of Jobs and CronJobs.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::age::{human_duration, since};
use super::Heading;
use super::cells::{
    AGE, NAME, Row, age, containers, integer, list, name, none, selector, string, text, wide,
};

/// Returns the headings of a kind, and its row function.
pub(super) fn of(kind: &str) -> (Vec<Heading>, Row) {
    let (own, row): (_, Row) = match kind {
        "CronJob" => (
            vec![
                string("Schedule"),
                string("Timezone"),
                ("Suspend", "boolean", "", 0),
                integer("Active"),
                string("Last Schedule"),
            ],
            cron_job,
        ),
        _ => (vec![string("Status"), string("Completions"), string("Duration")], job),
    };
    let shared = [AGE, wide("Containers"), wide("Images"), wide("Selector")];
    ([vec![NAME], own, shared.to_vec()].concat(), row)
}

fn job(job: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&job["spec"], &job["status"]);
    let succeeded = status["succeeded"].as_i64().unwrap_or_default();
    let parallelism = spec["parallelism"].as_i64().unwrap_or_default();
    let completions = match spec["completions"].as_i64() {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    };
    let time = |field: &str| text(status, field).parse::<Timestamp>().ok();
    let duration = time("startTime").map(|start| {
        let end = time("completionTime").unwrap_or(now);
        human_duration(end.as_second() - start.as_second())
    });
    let holds = |kind: &str| list(status, "conditions").any(|c| c["type"] == kind && c["status"] == "True");
    let word = if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if !job["metadata"]["deletionTimestamp"].is_null() {
        "Terminating"
    } else {
        ["Suspended", "FailureTarget", "SuccessCriteriaMet"]
            .into_iter()
            .find(|kind| holds(kind))
            .unwrap_or("Running")
    };
    let [names, images] = containers(&spec["template"]["spec"]);
    vec![
        name(job),
        json!(word),
        json!(completions),
        json!(duration.unwrap_or_default()),
        age(job, now),
        names,
        images,
        selector(&spec["selector"]),
    ]
}

fn cron_job(cron_job: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&cron_job["spec"], &cron_job["status"]);
    let suspend = match spec["suspend"].as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last = status["lastScheduleTime"].as_str().map(|time| since(Some(time), now));
    let job = &spec["jobTemplate"]["spec"];
    let [names, images] = containers(&job["template"]["spec"]);
    vec![
        name(cron_job),
        json!(text(spec, "schedule")),
        json!(spec["timeZone"].as_str().unwrap_or("<none>")),
        json!(suspend),
        json!(list(status, "active").count()),
        none(&last.unwrap_or_default()),
        age(cron_job, now),
        names,
        images,
        selector(&job["selector"]),
    ]
}
