//! Defaults of pods and pod templates (`pkg/apis/core/v1/defaults.go`).

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use super::{first_of_list, items, set, set_number};

pub(super) fn pod(object: &mut Value) {
    let spec = &mut object["spec"];
    if !spec.is_object() {
        *spec = Value::Object(Map::new());
    }
    for list in ["/containers", "/initContainers"] {
        for container in items(spec, list) {
            requests_from_limits(container);
        }
    }
    set(spec, "enableServiceLinks", json!(true));
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        // Does not apply to templates (`Convert_v1_Pod_To_core_Pod`).
        spec["terminationGracePeriodSeconds"] = json!(1);
    }
    if spec["hostNetwork"] == true {
        for list in ["/containers", "/initContainers"] {
            for port in items(spec, list).flat_map(|c| items(c, "/ports").collect::<Vec<_>>()) {
                let number = port["containerPort"].clone();
                set(port, "hostPort", number);
            }
        }
    }
    pod_spec(spec);
    if let Some(status) = object.get_mut("status") {
        first_of_list(status, "podIP", "podIPs", |ip| json!({"ip": ip}), |one| &one["ip"]);
    }
}

fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container.pointer("/resources/limits").and_then(Value::as_object).cloned() else {
        return;
    };
    let requests = &mut container["resources"]["requests"];
    if !requests.is_object() {
        *requests = Value::Object(Map::new());
    }
    for (resource, amount) in limits {
        set(requests, &resource, amount);
    }
}

/// Lets a pod stay 300 s on a node that is not ready or unreachable (admission plugin `DefaultTolerationSeconds`).
pub fn tolerate_unreachable_nodes(pod: &mut Value) {
    let spec = &mut pod["spec"];
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = spec["tolerations"].as_array().into_iter().flatten().any(|t| {
            let effect = t["effect"].as_str().unwrap_or_default();
            let keyed = t["key"] == key || t["key"].as_str().unwrap_or_default().is_empty();
            keyed && matches!(effect, "" | "NoExecute")
        });
        if tolerated {
            continue;
        }
        let toleration =
            json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
        match spec["tolerations"].as_array_mut() {
            Some(all) => all.push(toleration),
            None => spec["tolerations"] = json!([toleration]),
        }
    }
}

/// Sets the defaults of a pod's spec, in a Pod or a template.
pub(super) fn pod_spec(spec: &mut Value) {
    set(spec, "dnsPolicy", json!("ClusterFirst"));
    set(spec, "restartPolicy", json!("Always"));
    set(spec, "securityContext", json!({}));
    set(spec, "terminationGracePeriodSeconds", json!(30));
    set(spec, "schedulerName", json!("default-scheduler"));
    if let Some(account) = spec["serviceAccountName"].as_str().filter(|a| !a.is_empty()).map(str::to_owned) {
        // Keep the deprecated alias in sync.
        spec["serviceAccount"] = json!(account);
    } else if let Some(account) = spec["serviceAccount"].as_str().filter(|a| !a.is_empty()).map(str::to_owned)
    {
        spec["serviceAccountName"] = json!(account);
    }
    for list in ["/containers", "/initContainers", "/ephemeralContainers"] {
        for container in items(spec, list) {
            self::container(container);
        }
    }
    for volume in items(spec, "/volumes") {
        self::volume(volume);
    }
}

/// Returns whether a text is an image reference (`distribution/reference`, `ParseNormalizedNamed`).
fn is_image(text: &str) -> bool {
    const PATH: &str = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*";
    const DOMAIN: &str = r"(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?";
    const END: &str = r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?";
    static REFERENCE: LazyLock<Option<[Regex; 2]>> = LazyLock::new(|| {
        let whole = Regex::new(&format!("^{DOMAIN}/{PATH}{END}$")).ok()?;
        Some([Regex::new(&format!("^{PATH}{END}$")).ok()?, whole])
    });
    let Some([path, whole]) = REFERENCE.as_ref() else { return true };
    let is_hash = text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    // The bound includes the domain that is implied (`NameTotalLengthMax`).
    const MAX_NAME: usize = 255;
    const OWN_DOMAIN: usize = "docker.io/library/".len();
    let name = text.split('@').next().unwrap_or_default();
    let name = name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).map_or(name, |(name, _)| name);
    if name.len() + if name.contains('/') { 0 } else { OWN_DOMAIN } > MAX_NAME {
        return false;
    }
    let has_domain = text.split_once('/').is_some_and(|(first, _)| {
        first.contains(['.', ':']) || first == "localhost" || first.to_lowercase() != first
    });
    !is_hash && if has_domain { whole.is_match(text) } else { path.is_match(text) }
}

fn container(container: &mut Value) {
    let image = container["image"].as_str().unwrap_or_default();
    // An invalid reference has no tag either (`parsers.ParseImageName`).
    let latest = is_image(image) && image_tag(image) == "latest";
    set(container, "imagePullPolicy", json!(if latest { "Always" } else { "IfNotPresent" }));
    set(container, "terminationMessagePath", json!("/dev/termination-log"));
    set(container, "terminationMessagePolicy", json!("File"));
    set(container, "resources", json!({}));
    for port in items(container, "/ports") {
        set(port, "protocol", json!("TCP"));
    }
    for source in items(container, "/env") {
        if let Some(field) = source.pointer_mut("/valueFrom/fieldRef") {
            set(field, "apiVersion", json!("v1"));
        }
        if let Some(resource) = source.pointer_mut("/valueFrom/resourceFieldRef") {
            set(resource, "divisor", json!("0"));
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).filter(|p| p.is_object()) {
            set_number(probe, "timeoutSeconds", 1);
            set_number(probe, "periodSeconds", 10);
            set_number(probe, "successThreshold", 1);
            set_number(probe, "failureThreshold", 3);
            http_get(probe);
            if let Some(grpc) = probe.get_mut("grpc").filter(|g| g.is_object()) {
                set(grpc, "service", json!(""));
            }
        }
    }
    for hook in ["/lifecycle/postStart", "/lifecycle/preStop"] {
        if let Some(hook) = container.pointer_mut(hook) {
            http_get(hook);
        }
    }
}

fn http_get(action: &mut Value) {
    if let Some(get) = action.get_mut("httpGet").filter(|g| g.is_object()) {
        set(get, "path", json!("/"));
        set(get, "scheme", json!("HTTP"));
    }
}

/// Returns the tag of an image's name: `latest` without tag and digest, empty with only a digest.
fn image_tag(image: &str) -> &str {
    let (name, digest) = image.split_once('@').map_or((image, false), |(name, _)| (name, true));
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, tag)) => tag,
        None if digest => "",
        None => "latest",
    }
}

fn volume(volume: &mut Value) {
    let Some(map) = volume.as_object() else { return };
    if map.iter().all(|(name, value)| name == "name" || value.is_null()) {
        volume["emptyDir"] = json!({});
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source).filter(|s| s.is_object()) {
            set(source, "defaultMode", json!(0o644));
        }
    }
    if let Some(path) = volume.get_mut("hostPath").filter(|s| s.is_object())
        && path.get("type").is_none()
    {
        path["type"] = json!("");
    }
    for source in items(volume, "/projected/sources") {
        if let Some(token) = source.get_mut("serviceAccountToken").filter(|t| t.is_object()) {
            set_number(token, "expirationSeconds", 3600);
        }
        for item in items(source, "/downwardAPI/items") {
            field_version(item);
        }
    }
    for item in items(volume, "/downwardAPI/items") {
        field_version(item);
    }
}

fn field_version(item: &mut Value) {
    if let Some(field) = item.get_mut("fieldRef").filter(|f| f.is_object()) {
        set(field, "apiVersion", json!("v1"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_an_image_is_parsed() {
        let cases = [
            ("a", "latest"),
            ("a:1", "1"),
            ("r:5000/a", "latest"),
            ("r:5000/a:2", "2"),
            ("a@sha256:0", ""),
            ("a:3@sha256:0", "3"),
        ];
        for (image, tag) in cases {
            assert_eq!(image_tag(image), tag, "{image}");
        }
    }
}
