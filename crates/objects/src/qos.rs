//! A pod's quality of service class, from its containers' requests and limits (`pkg/apis/core/v1/helper/qos`).

use serde_json::Value;

use semantics::Quantity;

/// Returns `Guaranteed`, `Burstable` or `BestEffort`.
pub fn class(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let containers: Vec<&Value> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| spec[list].as_array().into_iter().flatten())
        .collect();
    let amount = |container: &Value, which: &str, resource: &str| {
        Quantity::of(&container["resources"][which][resource]).ok().filter(|q| q.nanos() > 0)
    };
    let mut any = false;
    let mut guaranteed = !containers.is_empty();
    for container in containers {
        for resource in ["cpu", "memory"] {
            let (request, limit) =
                (amount(container, "requests", resource), amount(container, "limits", resource));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::class;

    #[test]
    fn qos_classes_match_upstream() {
        let pod = |resources| json!({"spec": {"containers": [{"resources": resources}]}});
        assert_eq!(class(&pod(json!({}))), "BestEffort");
        assert_eq!(class(&pod(json!({"requests": {"cpu": "1"}}))), "Burstable");
        assert_eq!(class(&pod(json!({"limits": {"cpu": "1", "memory": "1Gi"}}))), "Guaranteed");
        assert_eq!(
            class(&pod(json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}))),
            "Burstable"
        );
    }
}
