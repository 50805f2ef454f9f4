//! Rules for ending a Job before all of its pods have ended (`validatePodFailurePolicy`, `validateSuccessPolicy`).

use std::collections::BTreeSet;

use serde_json::Value;

use super::{FieldFault, Reason, items, not_negative, text};
use crate::names;

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_CONDITIONS: usize = 20;
const MAX_INDEXES_BYTES: usize = 64 * 1024;

pub(super) fn failure(spec: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let policy = &spec["podFailurePolicy"];
    let at = format!("{at}.podFailurePolicy.rules");
    let count = items(policy, "rules").count();
    if count > MAX_RULES {
        faults.push(FieldFault::too_many(&at, count, MAX_RULES as u64));
    }
    let pod = &spec["template"]["spec"];
    let containers = ["containers", "initContainers"].into_iter().flat_map(|list| items(pod, list));
    let containers = containers.map(|(_, one)| text(one, "name")).collect::<BTreeSet<_>>();
    for (index, rule) in items(policy, "rules") {
        let limited = !spec["backoffLimitPerIndex"].is_null();
        failure_rule(rule, limited, &containers, &format!("{at}[{index}]"), faults);
    }
}

fn failure_rule(
    rule: &Value,
    is_limited: bool,
    containers: &BTreeSet<&str>,
    at: &str,
    faults: &mut Vec<FieldFault>,
) {
    let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
    let (action, path) = (text(rule, "action"), format!("{at}.action"));
    one_required(action, &actions, &path, faults);
    if action == "FailIndex" && !is_limited {
        faults.push(FieldFault::invalid(path, action, "requires the backoffLimitPerIndex to be set"));
    }
    let has_codes = !rule["onExitCodes"].is_null();
    if has_codes {
        exit_codes(&rule["onExitCodes"], containers, &format!("{at}.onExitCodes"), faults);
    }
    let conditions = items(rule, "onPodConditions").count();
    if conditions > MAX_CONDITIONS {
        let path = format!("{at}.onPodConditions");
        faults.push(FieldFault::too_many(path, conditions, MAX_CONDITIONS as u64));
    }
    for (index, condition) in items(rule, "onPodConditions") {
        let at = format!("{at}.onPodConditions[{index}]");
        let kind = text(condition, "type");
        let judged = names::qualified_name(kind).into_iter();
        faults.extend(judged.map(|f| FieldFault::invalid(format!("{at}.type"), kind, f)));
        let status = text(condition, "status");
        one_required(status, &["False", "True", "Unknown"], &format!("{at}.status"), faults);
    }
    let why = match (has_codes, conditions > 0) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    // The fault omits the value (`field.OmitValueType`).
    faults.push(FieldFault::new(at, Reason::Invalid, None, why));
}

/// A required value of an enumeration.
fn one_required(value: &str, known: &[&str], at: &str, faults: &mut Vec<FieldFault>) {
    if value.is_empty() {
        let quoted = known.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(" ");
        faults.push(FieldFault::required(at, format!("valid values: [{quoted}]")));
    } else if !known.contains(&value) {
        faults.push(FieldFault::not_supported(at, value, known));
    }
}

fn exit_codes(codes: &Value, containers: &BTreeSet<&str>, at: &str, faults: &mut Vec<FieldFault>) {
    let operator = text(codes, "operator");
    one_required(operator, &["In", "NotIn"], &format!("{at}.operator"), faults);
    if let Some(name) = codes["containerName"].as_str().filter(|name| !containers.contains(name)) {
        let text = "must be one of the container or initContainer names in the pod template";
        faults.push(FieldFault::invalid(format!("{at}.containerName"), name, text));
    }
    let at = format!("{at}.values");
    let values =
        items(codes, "values").map(|(_, code)| code.as_i64().unwrap_or_default()).collect::<Vec<_>>();
    if values.is_empty() {
        faults.push(FieldFault::invalid(&at, codes["values"].clone(), "at least one value is required"));
    } else if values.len() > MAX_EXIT_CODES {
        faults.push(FieldFault::too_many(&at, values.len(), MAX_EXIT_CODES as u64));
    }
    let mut seen = BTreeSet::new();
    for (index, code) in values.iter().enumerate() {
        let at = format!("{at}[{index}]");
        if operator == "In" && *code == 0 {
            faults.push(FieldFault::invalid(&at, *code, "must not be 0 for the In operator"));
        }
        if !seen.insert(code) {
            faults.push(FieldFault::duplicate(at, *code));
        }
    }
    if !values.is_sorted() {
        faults.push(FieldFault::invalid(at, codes["values"].clone(), "must be ordered"));
    }
}

/// The success policy of an indexed Job.
pub(super) fn success(spec: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let (policy, at) = (&spec["successPolicy"], &format!("{at}.successPolicy.rules"));
    let count = items(policy, "rules").count();
    if count == 0 {
        let text = "at least one rules must be specified when the successPolicy is specified";
        faults.push(FieldFault::required(at, text));
    } else if count > MAX_RULES {
        faults.push(FieldFault::too_many(at, count, MAX_RULES as u64));
    }
    let completions = spec["completions"].as_i64().unwrap_or_default();
    for (index, rule) in items(policy, "rules") {
        success_rule(rule, completions, &format!("{at}[{index}]"), faults);
    }
}

fn success_rule(rule: &Value, completions: i64, at: &str, faults: &mut Vec<FieldFault>) {
    let indexes = rule["succeededIndexes"].as_str();
    if rule["succeededCount"].is_null() && indexes.is_none() {
        let text = "at least one of succeededCount or succeededIndexes must be specified";
        faults.push(FieldFault::required(at, text));
    }
    let mut total = 0;
    if let Some(indexes) = indexes {
        let at = format!("{at}.succeededIndexes");
        if indexes.len() > MAX_INDEXES_BYTES {
            faults.push(FieldFault::too_long(&at, MAX_INDEXES_BYTES));
        }
        match count_indexes(indexes, completions) {
            Ok(count) => total = count,
            Err(why) => {
                let text = format!("error parsing succeededIndexes: {why}");
                faults.push(FieldFault::invalid(at, indexes, text));
            }
        }
    }
    let Some(wanted) = rule["succeededCount"].as_i64() else { return };
    not_negative(rule, "succeededCount", at, faults);
    let at = format!("{at}.succeededCount");
    if wanted > completions {
        let text =
            format!("must be less than or equal to {completions} (the number of specified completions)");
        faults.push(FieldFault::invalid(&at, wanted, text));
    }
    if indexes.is_some() && wanted > total {
        let text = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        faults.push(FieldFault::invalid(at, wanted, text));
    }
}

/// Returns how many indexes a text such as `0-3,7` contains (`validateIndexesFormat`).
fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let (mut total, mut last) = (0, None);
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let ends = interval.split('-').collect::<Vec<_>>();
        if ends.len() > 2 {
            return Err(format!(
                "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated by '-'"
            ));
        }
        let end = |text: &str| match text.parse::<i64>() {
            Err(_) => Err(format!("cannot convert string to integer for index: {text:?}")),
            Ok(index) if index >= completions => Err(format!("too large index: {text:?}")),
            Ok(index) => Ok(index),
        };
        let first = end(ends[0])?;
        let second = ends.get(1).map_or(Ok(first), |text| end(text))?;
        let order = |previous: i64, current: i64| {
            format!("non-increasing order, previous: {previous}, current: {current}")
        };
        if ends.len() == 2 && first >= second {
            return Err(order(first, second));
        }
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(order(last, first));
        }
        total += second - first + 1;
        last = Some(second);
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn indexes_are_counted() {
        assert_eq!(count_indexes("0-2,5", 6), Ok(4));
        assert_eq!(count_indexes("", 6), Ok(0));
        assert_eq!(count_indexes("1-9", 6), Err("too large index: \"9\"".to_owned()));
        assert_eq!(count_indexes("3,1", 6), Err("non-increasing order, previous: 3, current: 1".to_owned()));
        assert!(count_indexes("a", 6).is_err() && count_indexes("1-2-3", 6).is_err());
    }

    #[test]
    fn a_failure_rule_has_either_exit_codes_or_conditions() {
        let said = |rule: Value| {
            let mut faults = Vec::new();
            let spec = json!({"podFailurePolicy": {"rules": [rule]}, "template": {"spec": {"containers": [{"name": "c"}]}}});
            failure(&spec, "spec", &mut faults);
            faults.iter().map(|fault| fault.body()).collect::<Vec<_>>()
        };
        assert_eq!(
            said(json!({"action": "FailJob"})),
            ["Invalid value: specifying one of OnExitCodes and OnPodConditions is required"]
        );
        assert_eq!(
            said(
                json!({"action": "FailJob", "onExitCodes": {"operator": "In", "containerName": "c", "values": [1, 2]}})
            ),
            [""; 0]
        );
        assert_eq!(
            said(json!({"action": "FailJob", "onExitCodes": {"containerName": "d", "values": [2, 1]}})),
            [
                "Required value: valid values: [\"In\" \"NotIn\"]",
                "Invalid value: \"d\": must be one of the container or initContainer names in the pod template",
                "Invalid value: [2,1]: must be ordered"
            ]
        );
    }
}
