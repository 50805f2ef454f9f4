//! Defaults of kinds that are stored but have no effect: admission policies (`pkg/apis/admissionregistration/v1`), flow
//! control (`pkg/apis/flowcontrol/v1`), autoscalers (`pkg/apis/autoscaling/v1`).

use serde_json::{Map, Value, json};

use super::super::kinds::Kind;
use super::{items, set};

pub(super) fn fill(kind: &Kind, object: &mut Value) {
    let spec = &mut object["spec"];
    match kind.kind.as_str() {
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" if spec.is_object() => {
            set(spec, "failurePolicy", json!("Fail"));
            matches(&mut spec["matchConstraints"]);
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding"
            if spec["matchResources"].is_object() =>
        {
            matches(&mut spec["matchResources"]);
        }
        "HorizontalPodAutoscaler" if spec.is_object() => set(spec, "minReplicas", json!(1)),
        "FlowSchema" if spec.is_object() => set(spec, "matchingPrecedence", json!(1000)),
        "PriorityLevelConfiguration" => priority_level(spec),
        "APIService" => {
            if let Some(service) = spec.get_mut("service").filter(|service| service.is_object()) {
                set(service, "port", json!(443));
            }
        }
        _ => {}
    }
}

fn matches(resources: &mut Value) {
    if !resources.is_object() {
        *resources = Value::Object(Map::new());
    }
    set(resources, "matchPolicy", json!("Equivalent"));
    set(resources, "namespaceSelector", json!({}));
    set(resources, "objectSelector", json!({}));
    for rules in ["/resourceRules", "/excludeResourceRules"] {
        for rule in items(resources, rules) {
            set(rule, "scope", json!("*"));
        }
    }
}

fn priority_level(spec: &mut Value) {
    if let Some(limited) = spec.get_mut("limited").filter(|limited| limited.is_object()) {
        set(limited, "nominalConcurrencyShares", json!(30));
        set(limited, "lendablePercent", json!(0));
        if let Some(queuing) = limited.pointer_mut("/limitResponse/queuing").filter(|q| q.is_object()) {
            for (field, value) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
                set(queuing, field, json!(value));
            }
        }
    }
    if let Some(exempt) = spec.get_mut("exempt").filter(|exempt| exempt.is_object()) {
        for field in ["nominalConcurrencyShares", "lendablePercent"] {
            set(exempt, field, json!(0));
        }
    }
}
