//! LimitRange: a namespace's defaults and limits for containers, pods and claims.
//!
//! Source, including messages: `plugin/pkg/admission/limitranger`. Updates of pods aren't checked: they
//! cannot change what the limits apply to.

use serde_json::{Value, json};

use super::{Attributes, Operation};
use crate::status::StatusError;
use crate::store::Resource;
use semantics::{Amounts, Quantity, limits_without_overhead, raw_amounts, requests_without_overhead};

/// The annotation that lists the defaults that were set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Sets defaults in a new pod's containers.
pub fn fill_in(at: &Attributes<'_>, object: &mut Value) {
    if !at.is_new_pod() {
        return;
    }
    for range in ranges(at) {
        default_pod(&range, object);
    }
}

/// Rejects a pod or claim that violates a limit.
///
/// # Errors
/// 403.
pub fn validate(at: &Attributes<'_>, object: &Value, old: Option<&Value>) -> Result<(), StatusError> {
    let is_claim = at.kind().is("", "PersistentVolumeClaim") && at.subresource().is_empty();
    let is_going = old.is_some_and(|old| !old["metadata"]["deletionTimestamp"].is_null());
    if !(at.is_new_pod() || is_claim) || at.operation == Operation::Delete || is_going {
        return Ok(());
    }
    for range in ranges(at) {
        let faults = if is_claim { judge_claim(&range, object) } else { judge_pod(&range, object) };
        match faults.as_slice() {
            [] => {}
            [only] => return Err(at.forbidden(Some(object), only)),
            several => return Err(at.forbidden(Some(object), &format!("[{}]", several.join(", ")))),
        }
    }
    Ok(())
}

fn ranges(at: &Attributes<'_>) -> Vec<Value> {
    let records = at.context.server.store.list(&Resource::new("", "limitranges"), at.namespace()).records;
    records.iter().map(|record| record.to_value()).collect()
}

fn limits<'v>(range: &'v Value, kind: &'v str) -> impl Iterator<Item = &'v Value> {
    range["spec"]["limits"].as_array().into_iter().flatten().filter(move |limit| limit["type"] == kind)
}

fn default_pod(range: &Value, pod: &mut Value) {
    let (mut requests, mut bounds) = (json!({}), json!({}));
    for limit in limits(range, "Container") {
        json_patch::merge(&mut requests, &limit["defaultRequest"]);
        json_patch::merge(&mut bounds, &limit["default"]);
    }
    let mut notes = Vec::new();
    for (list, words) in [("containers", "container"), ("initContainers", "init container")] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            for (field, wanted, word) in [("requests", &requests, "request"), ("limits", &bounds, "limit")] {
                let set = set_absent(container, field, wanted);
                if !set.is_empty() {
                    let name = container["name"].as_str().unwrap_or_default();
                    notes.push(format!("{} {word} for {words} {name}", set.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        pod["metadata"]["annotations"][ANNOTATION] = note.into();
    }
}

/// Sets the resources that a container doesn't specify, and returns their names.
fn set_absent(container: &mut Value, field: &str, wanted: &Value) -> Vec<String> {
    let mut set = Vec::new();
    for (name, amount) in wanted.as_object().into_iter().flatten() {
        let place = &mut container["resources"][field];
        if place.get(name).is_none() {
            place[name] = amount.clone();
            set.push(name.clone());
        }
    }
    set
}

fn judge_claim(range: &Value, claim: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let kind = "PersistentVolumeClaim";
    let requests = raw_amounts(&claim["spec"]["resources"]["requests"]);
    for limit in limits(range, kind) {
        for (name, bound) in raw_amounts(&limit["min"]) {
            faults.extend(below(kind, &name, bound, &requests, &Amounts::new()));
        }
        for (name, bound) in raw_amounts(&limit["max"]) {
            let begin = format!("maximum {name} usage per {kind} is {bound}");
            match requests.get(&name) {
                None => faults.push(format!("{begin}.  No request is specified")),
                Some(request) if *request > bound => {
                    faults.push(format!("{begin}, but request is {request}"));
                }
                Some(_) => {}
            }
        }
    }
    faults
}

fn judge_pod(range: &Value, pod: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for limit in limits(range, "Container") {
        for list in ["containers", "initContainers"] {
            for container in pod["spec"][list].as_array().into_iter().flatten() {
                let resources = &container["resources"];
                let (requests, bounds) =
                    (raw_amounts(&resources["requests"]), raw_amounts(&resources["limits"]));
                judge("Container", limit, &requests, &bounds, &mut faults);
            }
        }
    }
    for limit in limits(range, "Pod") {
        let spec = &pod["spec"];
        let (requests, bounds) = (requests_without_overhead(spec), limits_without_overhead(spec));
        judge("Pod", limit, &requests, &bounds, &mut faults);
    }
    faults
}

fn judge(kind: &str, limit: &Value, requests: &Amounts, limits: &Amounts, faults: &mut Vec<String>) {
    for (name, bound) in raw_amounts(&limit["min"]) {
        faults.extend(below(kind, &name, bound, requests, limits));
    }
    for (name, bound) in raw_amounts(&limit["max"]) {
        faults.extend(above(kind, &name, bound, requests, limits));
    }
    for (name, bound) in raw_amounts(&limit["maxLimitRequestRatio"]) {
        faults.extend(ratio(kind, &name, bound, requests, limits));
    }
}

fn below(kind: &str, name: &str, bound: Quantity, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let begin = format!("minimum {name} usage per {kind} is {bound}");
    let Some(request) = requests.get(name) else { return Some(format!("{begin}.  No request is specified")) };
    if *request < bound {
        return Some(format!("{begin}, but request is {request}"));
    }
    let limit = limits.get(name).filter(|limit| **limit < bound)?;
    Some(format!("{begin}, but limit is {limit}"))
}

fn above(kind: &str, name: &str, bound: Quantity, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let begin = format!("maximum {name} usage per {kind} is {bound}");
    let Some(limit) = limits.get(name) else { return Some(format!("{begin}.  No limit is specified")) };
    if *limit > bound {
        return Some(format!("{begin}, but limit is {limit}"));
    }
    let request = requests.get(name).filter(|request| **request > bound)?;
    Some(format!("{begin}, but request is {request}"))
}

fn ratio(kind: &str, name: &str, bound: Quantity, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let begin = format!("{name} max limit to request ratio per {kind} is {bound}");
    let given = |amounts: &Amounts| amounts.get(name).map(Quantity::nanos).filter(|nanos| *nanos != 0);
    let Some(request) = given(requests) else {
        return Some(format!("{begin}, but no request is specified or request is 0"));
    };
    let Some(limit) = given(limits) else {
        return Some(format!("{begin}, but no limit is specified or limit is 0"));
    };
    // limit / request > bound, without rounding.
    if limit.saturating_mul(1_000_000_000) <= bound.nanos().saturating_mul(request) {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "the quotient is only shown")]
    let shown = limit as f64 / request as f64;
    Some(format!("{begin}, but provided ratio is {shown:.6}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(limit: &Value) -> Value {
        json!({"spec": {"limits": [limit]}})
    }

    fn pod(resources: &Value) -> Value {
        json!({"metadata": {}, "spec": {"containers": [{"name": "c", "resources": resources}]}})
    }

    #[test]
    fn defaults_are_set_and_listed_in_an_annotation() {
        let limit = json!({"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}});
        let mut made = pod(&json!({"limits": {"memory": "2Gi"}}));
        default_pod(&range(&limit), &mut made);
        let resources = json!({"limits": {"cpu": "1", "memory": "2Gi"}, "requests": {"cpu": "100m"}});
        assert_eq!(made["spec"]["containers"][0]["resources"], resources);
        let note = "LimitRanger plugin set: cpu request for container c; cpu limit for container c";
        assert_eq!(made["metadata"]["annotations"][ANNOTATION], note);
    }

    #[test]
    fn violations_are_worded_as_upstream() {
        let of = |kind: &str, bound: &str, amount: &str| json!({"type": kind, bound: {"cpu": amount}});
        let both =
            |request: &str, limit: &str| json!({"requests": {"cpu": request}, "limits": {"cpu": limit}});
        let table = [
            (
                of("Container", "min", "1"),
                json!({}),
                "minimum cpu usage per Container is 1.  No request is specified",
            ),
            (
                of("Container", "min", "1"),
                both("500m", "2"),
                "minimum cpu usage per Container is 1, but request is 500m",
            ),
            (
                of("Pod", "max", "1"),
                json!({"requests": {"cpu": "1"}}),
                "maximum cpu usage per Pod is 1.  No limit is specified",
            ),
            (of("Pod", "max", "1"), both("1", "2"), "maximum cpu usage per Pod is 1, but limit is 2"),
            (of("Container", "max", "2"), both("1", "2"), ""),
            (of("Container", "maxLimitRequestRatio", "2"), both("1", "2"), ""),
            (
                of("Container", "maxLimitRequestRatio", "2"),
                both("1", "3"),
                "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
            ),
            (
                of("Pod", "maxLimitRequestRatio", "2"),
                json!({"limits": {"memory": "1"}}),
                "cpu max limit to request ratio per Pod is 2, but no request is specified or request is 0",
            ),
        ];
        for (limit, resources, expected) in table {
            assert_eq!(
                judge_pod(&range(&limit), &pod(&resources)).join("; "),
                expected,
                "{limit} {resources}"
            );
        }
        let claim = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
        let limit = json!({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}});
        let text = "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi";
        assert_eq!(judge_claim(&range(&limit), &claim), [text]);
    }
}
