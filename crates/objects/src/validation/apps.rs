//! Deployments, ReplicaSets and ReplicationControllers (`pkg/apis/apps/validation`, `pkg/apis/core/validation`):
//! counts, a selector that matches the template's labels, and a template whose pods always restart.

use serde_json::Value;

use super::{FieldFault, not_negative, one_of, pod, text};
use crate::kinds::Kind;
use crate::selectors::LabelSelector;

pub(super) fn validate(kind: &Kind, object: &Value) -> Vec<FieldFault> {
    let (spec, mut faults) = (&object["spec"], Vec::new());
    for field in ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        not_negative(spec, field, "spec", &mut faults);
    }
    selector(kind, spec, &mut faults);
    if spec["template"].is_null() {
        faults.push(FieldFault::required("spec.template", ""));
    } else {
        pod::template(&spec["template"], "spec.template", &mut faults);
        let policy = text(&spec["template"]["spec"], "restartPolicy");
        if policy != "Always" {
            faults.push(FieldFault::not_supported("spec.template.spec.restartPolicy", policy, &["Always"]));
        }
    }
    if kind.kind == "Deployment" {
        strategy(&spec["strategy"], &mut faults);
    }
    faults
}

fn selector(kind: &Kind, spec: &Value, faults: &mut Vec<FieldFault>) {
    let is_map = kind.group.is_empty();
    let given = &spec["selector"];
    let selects = if is_map {
        given.as_object().filter(|map| !map.is_empty()).map(|_| LabelSelector::of_map(given))
    } else if given.is_object() {
        match LabelSelector::of(given) {
            Ok(selector) => Some(selector),
            Err(error) => {
                faults.push(FieldFault::invalid("spec.selector", given.clone(), error.to_string()));
                return;
            }
        }
    } else {
        None
    };
    let Some(selects) = selects else {
        faults.push(FieldFault::required("spec.selector", ""));
        return;
    };
    if selects.is_everything() {
        let text = "empty selector is invalid for deployment";
        faults.push(FieldFault::invalid("spec.selector", given.clone(), text));
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if !spec["template"].is_null() && !selects.matches_labels(labels) {
        let text = "`selector` does not match template `labels`";
        faults.push(FieldFault::invalid("spec.template.metadata.labels", labels.clone(), text));
    }
}

fn strategy(strategy: &Value, faults: &mut Vec<FieldFault>) {
    one_of(strategy, "type", &["Recreate", "RollingUpdate"], "spec.strategy", faults);
    let rolling = &strategy["rollingUpdate"];
    if strategy["type"] == "Recreate" && !rolling.is_null() {
        let text = "may not be specified when strategy `type` is 'Recreate'";
        faults.push(FieldFault::forbidden("spec.strategy.rollingUpdate", text));
    }
    let is_zero = |field: &str| {
        matches!(&rolling[field], Value::Number(n) if n.as_i64() == Some(0)) || rolling[field] == "0%"
    };
    if is_zero("maxUnavailable") && is_zero("maxSurge") {
        let text = "may not be 0 when `maxSurge` is 0";
        let at = "spec.strategy.rollingUpdate.maxUnavailable";
        faults.push(FieldFault::invalid(at, rolling["maxUnavailable"].clone(), text));
    }
}
