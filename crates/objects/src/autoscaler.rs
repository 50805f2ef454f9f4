//! Conversion between the two versions of a HorizontalPodAutoscaler. It is stored as `autoscaling/v2`. Where `v2` has a
//! list of metrics, `v1` has a single number (`pkg/apis/autoscaling/v1/conversion.go`) and omits metrics that it cannot
//! express.

use serde_json::{Value, json};

use super::kinds::Kind;

const PERCENT: &str = "targetCPUUtilizationPercentage";
const CURRENT: &str = "currentCPUUtilizationPercentage";

/// Converts an autoscaler to the other version. Leaves any other object as it is.
pub fn convert_autoscaler(to: &Kind, object: &mut Value) {
    if !to.is("autoscaling", "HorizontalPodAutoscaler") || to.matches(object) {
        return;
    }
    let turn = if to.version == "v1" { to_first } else { to_second };
    for (part, percent, metrics, amount) in
        [("spec", PERCENT, "metrics", "target"), ("status", CURRENT, "currentMetrics", "current")]
    {
        if let Some(part) = object.get_mut(part) {
            turn(part, percent, metrics, amount);
        }
    }
    object["apiVersion"] = json!(to.api_version());
}

fn to_first(part: &mut Value, percent: &str, metrics: &str, amount: &str) {
    let Some(map) = part.as_object_mut() else { return };
    map.remove("behavior");
    let all = map.remove(metrics).unwrap_or_default();
    let own = all.as_array().into_iter().flatten().find(|metric| metric["resource"]["name"] == "cpu");
    if let Some(share) = own.and_then(|metric| metric["resource"][amount]["averageUtilization"].as_i64()) {
        map.insert(percent.to_owned(), json!(share));
    }
}

fn to_second(part: &mut Value, percent: &str, metrics: &str, amount: &str) {
    let Some(map) = part.as_object_mut() else { return };
    if let Some(share) = map.remove(percent).and_then(|share| share.as_i64()) {
        let mut target = json!({"averageUtilization": share});
        if amount == "target" {
            target["type"] = json!("Utilization");
        }
        map.insert(
            metrics.to_owned(),
            json!([{"type": "Resource", "resource": {"name": "cpu", amount: target}}]),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_kinds;

    #[test]
    fn cpu_utilization_is_converted_between_versions() {
        let kind = |version: &str| {
            let mut kinds = builtin_kinds().iter();
            kinds.find(|k| k.is("autoscaling", "HorizontalPodAutoscaler") && k.version == version).unwrap()
        };
        let first = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 70}});
        let mut turned = first.clone();
        convert_autoscaler(kind("v2"), &mut turned);
        assert_eq!(
            turned["spec"],
            json!({"maxReplicas": 3, "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 70}}}]})
        );
        convert_autoscaler(kind("v1"), &mut turned);
        assert_eq!(turned, first);
    }
}
