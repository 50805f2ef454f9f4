//! Jobs (`pkg/apis/batch/validation`): counts, the generated selector, and the immutable template with the fields that
//! may change while the Job is suspended (KEP-2926 and its successors).

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    FieldFault, immutable_field, items, job_policies, label_selector, not_negative, one_of, pod, text,
};
use crate::lifecycle::JOB_UID_LABEL;
use crate::{names, selectors::LabelSelector};

const MAX_INDEXED_PARALLELISM: i64 = 100_000;
const MAX_MANAGED_BY_BYTES: usize = 63;

pub(super) fn validate(job: &Value) -> Vec<FieldFault> {
    let (spec, mut faults) = (&job["spec"], Vec::new());
    generated_selector(job, &mut faults);
    self::spec(spec, "spec", &mut faults);
    selector(spec, &mut faults);
    hostname(job, &mut faults);
    faults
}

/// Validates a Job's spec but for its selector (`validateJobSpec`), in a Job or a template of one.
pub(super) fn spec(spec: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        not_negative(spec, field, at, faults);
    }
    managed_by(spec, at, faults);
    one_of(spec, "completionMode", &["NonIndexed", "Indexed"], at, faults);
    indexed(spec, at, faults);
    replacement(spec, at, faults);
    if spec["successPolicy"].is_object() && spec["completionMode"] == "Indexed" {
        job_policies::success(spec, at, faults);
    }
    job_policies::failure(spec, at, faults);
    pod::template(&spec["template"], &format!("{at}.template"), faults);
    restart_policy(spec, at, faults);
}

/// A generated selector and its labels must have this Job's uid and name.
fn generated_selector(job: &Value, faults: &mut Vec<FieldFault>) {
    let spec = &job["spec"];
    if spec["manualSelector"] == true {
        return;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    let (uid, name) = (text(&job["metadata"], "uid"), text(&job["metadata"], "name"));
    if uid.is_empty() || spec["selector"].is_null() {
        return;
    }
    let labelled = [
        (JOB_UID_LABEL, uid),
        ("controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
        ("job-name", name),
    ];
    for (label, value) in labelled {
        let path = format!("spec.template.metadata.labels[{label}]");
        match labels[label].as_str() {
            None => faults.push(FieldFault::required(path, format!("must be '{value}'"))),
            Some(found) if found != value => {
                faults.push(FieldFault::invalid(path, labels.clone(), format!("must be '{value}'")));
            }
            Some(_) => {}
        }
    }
    let expected = labelled.map(|(label, value)| (label.to_owned(), value.into()));
    let expected = Value::Object(expected.into_iter().collect());
    let selects = LabelSelector::of(&spec["selector"]).map(|selector| selector.matches_labels(&expected));
    if selects == Ok(false) {
        faults.push(FieldFault::invalid(
            "spec.selector",
            spec["selector"].clone(),
            "`selector` not auto-generated",
        ));
    }
}

fn managed_by(spec: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let Some(manager) = spec["managedBy"].as_str() else { return };
    let path = &format!("{at}.managedBy");
    match manager.split_once('/') {
        Some((domain, rest)) if !rest.is_empty() => {
            faults.extend(names::subdomain(domain).into_iter().map(|f| FieldFault::invalid(path, domain, f)));
        }
        _ => {
            let text = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            faults.push(FieldFault::invalid(path, manager, text));
        }
    }
    if manager.len() > MAX_MANAGED_BY_BYTES {
        faults.push(FieldFault::too_long(path, MAX_MANAGED_BY_BYTES));
    }
}

fn indexed(spec: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    if spec["completionMode"] != "Indexed" {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"] {
            if !spec[field].is_null() {
                let text = "requires indexed completion mode";
                faults.push(FieldFault::invalid(format!("{at}.{field}"), spec[field].clone(), text));
            }
        }
        return;
    }
    if spec["completions"].is_null() {
        let text = "when completion mode is Indexed";
        faults.push(FieldFault::required(format!("{at}.completions"), text));
    }
    if spec["parallelism"].as_i64().is_some_and(|p| p > MAX_INDEXED_PARALLELISM) {
        let text = format!(
            "must be less than or equal to {MAX_INDEXED_PARALLELISM} when completion mode is Indexed"
        );
        faults.push(FieldFault::invalid(format!("{at}.parallelism"), spec["parallelism"].clone(), text));
    }
}

/// The pods of an indexed Job have host names made of its name.
fn hostname(job: &Value, faults: &mut Vec<FieldFault>) {
    let completions = job["spec"]["completions"].as_i64().unwrap_or_default();
    if job["spec"]["completionMode"] != "Indexed" || completions <= 0 {
        return;
    }
    let name = text(&job["metadata"], "name");
    let hostname = format!("{name}-{}", completions - 1);
    if !names::label(&hostname).is_empty() {
        let text = format!("will not able to create pod with invalid DNS label: {hostname}");
        faults.push(FieldFault::invalid("metadata.name", name, text));
    }
}

fn replacement(spec: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let path = &format!("{at}.podReplacementPolicy");
    let supported: &[&str] =
        if spec["podFailurePolicy"].is_object() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    if let Some(given) = spec["podReplacementPolicy"].as_str()
        && !supported.contains(&given)
    {
        faults.push(FieldFault::not_supported(path, given, supported));
    }
}

fn restart_policy(spec: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let path = &format!("{at}.template.spec.restartPolicy");
    match text(&spec["template"]["spec"], "restartPolicy") {
        "Always" | "" => faults.push(FieldFault::required(path, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if spec["podFailurePolicy"].is_object() => {
            let text = "only \"Never\" is supported when podFailurePolicy is specified";
            faults.push(FieldFault::invalid(path, "OnFailure", text));
        }
        "OnFailure" | "Never" => {}
        other => faults.push(FieldFault::not_supported(path, other, &["OnFailure", "Never"])),
    }
}

fn selector(spec: &Value, faults: &mut Vec<FieldFault>) {
    if spec["selector"].is_null() {
        faults.push(FieldFault::required("spec.selector", ""));
    }
    label_selector(&spec["selector"], "spec.selector", faults);
    let labels = &spec["template"]["metadata"]["labels"];
    // A missing selector selects nothing.
    let selects = LabelSelector::of(&spec["selector"]).map(|selector| selector.matches_labels(labels));
    if spec["selector"].is_null() || selects == Ok(false) {
        let text = "`selector` does not match template `labels`";
        faults.push(FieldFault::invalid("spec.template.metadata.labels", labels.clone(), text));
    }
}

pub(super) fn validate_update(new: &Value, old: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    completions(new, old, &mut faults);
    for field in [
        "spec.selector",
        "spec.completionMode",
        "spec.podFailurePolicy",
        "spec.backoffLimitPerIndex",
        "spec.managedBy",
        "spec.successPolicy",
    ] {
        faults.extend(immutable_field(new, old, field));
    }
    template(new, old, &mut faults);
    status(new, old, &mut faults);
    faults
}

/// Counts of pods must not be negative, and no pod may be counted twice (`validateJobStatus`).
fn counts(status: &Value, faults: &mut Vec<FieldFault>) {
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        not_negative(status, field, "status", faults);
    }
    for field in ["succeeded", "failed"] {
        let mut seen = BTreeSet::new();
        for (index, uid) in items(&status["uncountedTerminatedPods"], field) {
            let at = format!("status.uncountedTerminatedPods.{field}[{index}]");
            if uid == "" {
                faults.push(FieldFault::invalid(at, "", "must not be empty"));
            } else if !seen.insert(uid.as_str()) {
                faults.push(FieldFault::duplicate(at, uid.clone()));
            }
        }
    }
}

/// Times and counters of a Job must not go back (`ValidateJobStatusUpdate`).
fn status(new: &Value, old: &Value, faults: &mut Vec<FieldFault>) {
    let (after, before) = (&new["status"], &old["status"]);
    if after == before {
        return;
    }
    counts(after, faults);
    let holds = |status: &Value, word: &str| {
        items(status, "conditions").any(|(_, c)| c["type"] == "Suspended" && c["status"] == word)
    };
    let number = |status: &Value, field: &str| status[field].as_i64().unwrap_or_default();
    let is_scalable = new["spec"]["completionMode"] == "Indexed"
        && new["spec"]["completions"] == new["spec"]["parallelism"];
    let counters = [("failed", true), ("succeeded", !is_scalable)];
    for (field, _) in counters.into_iter().filter(|(_, is_kept)| *is_kept) {
        if number(after, field) < number(before, field) {
            let text = format!("cannot decrease the {field} counter");
            faults.push(FieldFault::invalid(format!("status.{field}"), number(after, field), text));
        }
    }
    let differ = |field: &str| after[field] != before[field] && !before[field].is_null();
    if differ("completionTime") && !after["completionTime"].is_null() {
        let value = after["completionTime"].clone();
        faults.push(FieldFault::invalid("status.completionTime", value, "field is immutable"));
    }
    let is_resuming = holds(before, "True") && holds(after, "False");
    if differ("startTime") && !is_resuming && new["spec"]["suspend"] != true {
        let text = "field is immutable for unsuspended job once set";
        faults.push(FieldFault::invalid("status.startTime", after["startTime"].clone(), text));
    }
}

/// Immutable, except for indexed Jobs, where completions and parallelism may change together (KEP-3715).
fn completions(new: &Value, old: &Value, faults: &mut Vec<FieldFault>) {
    if new["spec"]["completionMode"] != "Indexed" {
        faults.extend(immutable_field(new, old, "spec.completions"));
    } else if !new["spec"]["completions"].is_null()
        && new["spec"]["completions"] != old["spec"]["completions"]
        && new["spec"]["completions"] != new["spec"]["parallelism"]
    {
        let text = "can only be modified in tandem with spec.parallelism";
        faults.push(FieldFault::invalid("spec.completions", new["spec"]["completions"].clone(), text));
    }
}

/// While a Job is suspended and its pods have ended, its pods' placement, metadata and resources may change.
fn template(new: &Value, old: &Value, faults: &mut Vec<FieldFault>) {
    let suspended = old["spec"]["suspend"] == true;
    let (mut before, after) = (old["spec"]["template"].clone(), &new["spec"]["template"]);
    if suspended && may_change(old) {
        for field in ["labels", "annotations"] {
            adopt(&mut before["metadata"], &after["metadata"], field);
        }
        for field in ["nodeSelector", "tolerations", "schedulingGates"] {
            adopt(&mut before["spec"], &after["spec"], field);
        }
        if !(before["spec"]["affinity"].is_null() && after["spec"]["affinity"].is_null()) {
            adopt(&mut before["spec"]["affinity"], &after["spec"]["affinity"], "nodeAffinity");
            let empty = |affinity: &Value| affinity.as_object().is_none_or(serde_json::Map::is_empty);
            if empty(&before["spec"]["affinity"]) && empty(&after["spec"]["affinity"]) {
                adopt(&mut before["spec"], &after["spec"], "affinity");
            }
        }
        for list in ["containers", "initContainers"] {
            for (index, container) in items(&after["spec"], list) {
                if before["spec"][list].get(index).is_some_and(|b| b["name"] == container["name"]) {
                    adopt(&mut before["spec"][list][index], container, "resources");
                }
            }
        }
    }
    let text = "field is immutable";
    if suspended && may_change(old) {
        if before["spec"] != after["spec"] {
            faults.push(FieldFault::invalid("spec.template.spec", after["spec"].clone(), text));
        }
    } else if before != *after {
        faults.push(FieldFault::invalid("spec.template", after.clone(), text));
    }
}

/// Returns whether a suspended Job has no running pods: it has not started, or its suspension is complete.
fn may_change(old: &Value) -> bool {
    let status = &old["status"];
    let suspended =
        items(status, "conditions").any(|(_, c)| c["type"] == "Suspended" && c["status"] == "True");
    let active = status["active"].as_i64().unwrap_or_default();
    (status["startTime"].is_null() || suspended) && active == 0
}

fn adopt(before: &mut Value, after: &Value, field: &str) {
    match after.get(field) {
        Some(value) => before[field] = value.clone(),
        None => {
            before.as_object_mut().map(|map| map.remove(field));
        }
    }
}
