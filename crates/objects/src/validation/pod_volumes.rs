//! Volumes of pods, and references to a pod's own fields (`validateVolumeSource`, `validateObjectFieldSelector`).

use std::collections::BTreeSet;

use serde_json::Value;

use super::{FieldFault, items, one_of, text};
use semantics::Quantity;

use crate::names;

const HOST_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
/// Fields of a pod that can be referenced, besides single labels and annotations (`ConvertDownwardAPIFieldLabel`).
const LABELS: [&str; 16] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.host",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.message",
];
/// Fields for environment variables.
pub(super) const IN_VARIABLES: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields for files.
const IN_FILES: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const MIN_TOKEN_SECONDS: i64 = 600;

/// Validates volumes and returns their names, which mounts refer to.
pub(super) fn volumes<'v>(spec: &'v Value, path: &str, faults: &mut Vec<FieldFault>) -> BTreeSet<&'v str> {
    let mut seen = BTreeSet::new();
    for (index, volume) in items(spec, "volumes") {
        let (at, name) = (format!("{path}.volumes[{index}]"), text(volume, "name"));
        let before = faults.len();
        volume_source(volume, &at, faults);
        let is_sound = faults.len() == before;
        if name.is_empty() {
            faults.push(FieldFault::required(format!("{at}.name"), ""));
            continue;
        }
        let judged = names::label(name);
        let is_named = judged.is_empty();
        faults.extend(judged.into_iter().map(|f| FieldFault::invalid(format!("{at}.name"), name, f)));
        if seen.contains(name) {
            faults.push(FieldFault::duplicate(format!("{at}.name"), name));
        } else if is_sound && is_named {
            seen.insert(name);
        }
    }
    seen
}

fn volume_source(volume: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let named = volume.as_object().into_iter().flatten();
    let sources = named.filter(|(name, value)| *name != "name" && !value.is_null()).map(|(name, _)| name);
    let mut sources = sources.map(String::as_str).collect::<Vec<_>>();
    // Kubernetes checks them in the order of its type's fields, `emptyDir` first.
    sources.sort_by_key(|source| {
        (*source != "emptyDir", *source != "hostPath", *source != "secret", *source != "nfs")
    });
    if sources.is_empty() {
        faults.push(FieldFault::required(at, "must specify a volume type"));
    }
    for extra in sources.iter().skip(1) {
        let extra = if *extra == "downwardAPI" { "downwarAPI" } else { extra };
        faults
            .push(FieldFault::forbidden(format!("{at}.{extra}"), "may not specify more than 1 volume type"));
    }
    let Some(kind) = sources.first() else { return };
    let (source, at) = (&volume[*kind], format!("{at}.{kind}"));
    match *kind {
        "emptyDir" if Quantity::of(&source["sizeLimit"]).is_ok_and(|size| size.is_negative()) => {
            let text = "SizeLimit field must be a valid resource quantity";
            faults.push(FieldFault::forbidden(format!("{at}.sizeLimit"), text));
        }
        "hostPath" => host_path(source, &at, faults),
        "nfs" => nfs(source, &at, faults),
        "secret" => {
            named_source(source, "secretName", &at, faults);
            keyed(source, &at, faults);
        }
        "configMap" => {
            named_source(source, "name", &at, faults);
            keyed(source, &at, faults);
        }
        "persistentVolumeClaim" => named_source(source, "claimName", &at, faults),
        "downwardAPI" => {
            mode(source, "defaultMode", &at, faults);
            items(source, "items").for_each(|(_, file)| downward(file, &at, faults));
        }
        "projected" => {
            mode(source, "defaultMode", &at, faults);
            projected(source, &at, faults);
        }
        _ => {}
    }
}

fn named_source(source: &Value, field: &str, at: &str, faults: &mut Vec<FieldFault>) {
    if text(source, field).is_empty() {
        faults.push(FieldFault::required(format!("{at}.{field}"), ""));
    }
}

fn keyed(source: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    mode(source, "defaultMode", at, faults);
    for (index, item) in items(source, "items") {
        key_to_path(item, &format!("{at}.items[{index}]"), faults);
    }
}

fn key_to_path(item: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    for field in ["key", "path"] {
        named_source(item, field, at, faults);
    }
    relative_path(text(item, "path"), &format!("{at}.path"), faults);
    mode(item, "mode", at, faults);
}

fn mode(object: &Value, field: &str, at: &str, faults: &mut Vec<FieldFault>) {
    if object[field].as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        let text = "must be a number between 0 and 0777 (octal), both inclusive";
        faults.push(FieldFault::invalid(format!("{at}.{field}"), object[field].clone(), text));
    }
}

/// `validateLocalNonReservedPath`: a path within the volume that the kubelet does not reserve.
fn relative_path(path: &str, at: &str, faults: &mut Vec<FieldFault>) {
    descending_path(path, at, faults);
    if path.starts_with("..") && !path.starts_with("../") {
        faults.push(FieldFault::invalid(at, path, "must not start with '..'"));
    }
}

/// `validateLocalDescendingPath`.
pub(super) fn descending_path(path: &str, at: &str, faults: &mut Vec<FieldFault>) {
    if path.starts_with('/') {
        faults.push(FieldFault::invalid(at, path, "must be a relative path"));
    }
    if path.split('/').any(|part| part == "..") {
        faults.push(FieldFault::invalid(at, path, "must not contain '..'"));
    }
}

/// `validateHostPathVolumeSource`.
pub(super) fn host_path(host: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let path = text(host, "path");
    if path.is_empty() {
        faults.push(FieldFault::required(format!("{at}.path"), ""));
        return;
    }
    if path.split('/').any(|part| part == "..") {
        faults.push(FieldFault::invalid(format!("{at}.path"), path, "must not contain '..'"));
    }
    one_of(host, "type", &HOST_TYPES, at, faults);
}

/// `validateNFSVolumeSource`.
pub(super) fn nfs(nfs: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    for field in ["server", "path"] {
        if text(nfs, field).is_empty() {
            faults.push(FieldFault::required(format!("{at}.{field}"), ""));
        }
    }
    let path = text(nfs, "path");
    if !path.starts_with('/') {
        faults.push(FieldFault::invalid(format!("{at}.path"), path, "must be an absolute path"));
    }
}

fn projected(source: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let mut paths = BTreeSet::new();
    for (index, part) in items(source, "sources") {
        let part_at = format!("{at}.sources[{index}]");
        for kind in ["secret", "configMap", "downwardAPI"] {
            let (one, one_at) = (&part[kind], format!("{part_at}.{kind}"));
            if one.is_null() {
                continue;
            }
            if kind != "downwardAPI" {
                named_source(one, "name", &one_at, faults);
            }
            for (index, item) in items(one, "items") {
                if kind == "downwardAPI" {
                    downward(item, &one_at, faults);
                } else {
                    key_to_path(item, &format!("{one_at}.items[{index}]"), faults);
                }
                let path = text(item, "path");
                if !path.is_empty() && !paths.insert(path) {
                    let value = if kind == "downwardAPI" { path } else { text(one, "name") };
                    faults.push(FieldFault::invalid(at, value, "conflicting duplicate paths"));
                }
            }
        }
        token(&part["serviceAccountToken"], &part_at, at, faults);
        let kinds = part.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()).count();
        if kinds > 1 {
            faults.push(FieldFault::forbidden(part_at, "may not specify more than 1 volume type per source"));
        }
    }
}

fn token(token: &Value, part_at: &str, at: &str, faults: &mut Vec<FieldFault>) {
    if token.is_null() {
        return;
    }
    let seconds = token["expirationSeconds"].as_i64().unwrap_or_default();
    let field = format!("{part_at}.serviceAccountToken.expirationSeconds");
    if seconds < MIN_TOKEN_SECONDS {
        let text = "may not specify a duration less than 10 minutes";
        faults.push(FieldFault::invalid(field, seconds, text));
    } else if seconds > 1 << 32 {
        let text = "may not specify a duration larger than 2^32 seconds";
        faults.push(FieldFault::invalid(field, seconds, text));
    }
    // Kubernetes reports the volume's path here, not the source's.
    named_source(token, "path", at, faults);
    relative_path(text(token, "path"), &format!("{at}.path"), faults);
}

/// Validates a downward API file (`validateDownwardAPIVolumeFile`). Faults do not include its index.
fn downward(file: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    named_source(file, "path", at, faults);
    relative_path(text(file, "path"), &format!("{at}.path"), faults);
    let (field, resource) = (&file["fieldRef"], &file["resourceFieldRef"]);
    if !field.is_null() {
        field_ref(field, &IN_FILES, &format!("{at}.fieldRef"), faults);
        if !resource.is_null() {
            let text = "fieldRef and resourceFieldRef can not be specified simultaneously";
            faults.push(FieldFault::invalid(at, "resource", text));
        }
    } else if resource.is_null() {
        faults.push(FieldFault::required(at, "one of fieldRef and resourceFieldRef is required"));
    } else {
        resource_ref(resource, true, &format!("{at}.resourceFieldRef"), faults);
    }
    mode(file, "mode", at, faults);
}

/// `validateObjectFieldSelector`.
pub(super) fn field_ref(reference: &Value, allowed: &[&str], at: &str, faults: &mut Vec<FieldFault>) {
    for field in ["apiVersion", "fieldPath"] {
        if text(reference, field).is_empty() {
            faults.push(FieldFault::required(format!("{at}.{field}"), ""));
            return;
        }
    }
    let (version, path) = (text(reference, "apiVersion"), text(reference, "fieldPath"));
    let subscript = path.strip_suffix("']").and_then(|path| path.split_once("['"));
    let is_known = LABELS.contains(&path)
        || subscript.is_some_and(|(path, _)| matches!(path, "metadata.annotations" | "metadata.labels"));
    if version != "v1" || !is_known {
        let why = if version == "v1" {
            format!("field label not supported: {path}")
        } else {
            format!("unsupported pod version: {version}")
        };
        let text = format!("error converting fieldPath: {why}");
        faults.push(FieldFault::invalid(format!("{at}.fieldPath"), path, text));
        return;
    }
    match subscript {
        Some((of, key)) => {
            let key = if of == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
            let judged = names::qualified_name(&key).into_iter();
            faults.extend(judged.map(|f| FieldFault::invalid(at, key.as_str(), f)));
        }
        None if !allowed.contains(&path) => {
            faults.push(FieldFault::not_supported(format!("{at}.fieldPath"), path, allowed));
        }
        None => {}
    }
}

/// `validateContainerResourceFieldSelector`. A file must name the container.
pub(super) fn resource_ref(reference: &Value, is_file: bool, at: &str, faults: &mut Vec<FieldFault>) {
    let resource = text(reference, "resource");
    let is_known = RESOURCES.contains(&resource)
        || resource.starts_with("limits.hugepages-")
        || resource.starts_with("requests.hugepages-");
    if is_file && text(reference, "containerName").is_empty() {
        faults.push(FieldFault::required(format!("{at}.containerName"), ""));
    } else if resource.is_empty() {
        faults.push(FieldFault::required(format!("{at}.resource"), ""));
    } else if !is_known {
        faults.push(FieldFault::not_supported(format!("{at}.resource"), resource, &RESOURCES));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(volume: Value) -> Vec<String> {
        let (mut faults, spec) = (Vec::new(), json!({"volumes": [volume]}));
        volumes(&spec, "spec", &mut faults);
        faults.iter().map(|fault| fault.to_string().replacen("spec.volumes[0]", "v", 1)).collect()
    }

    #[test]
    fn faults_of_volume_files_have_no_index() {
        let of = |file: Value| {
            said(json!({"name": "v", "projected": {"sources": [{"downwardAPI": {"items": [file]}}]}}))
        };
        assert_eq!(
            of(json!({"path": "l"})),
            [
                "v.projected.sources[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required"
            ]
        );
        assert_eq!(
            of(json!({"path": "l", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels['a']"}})),
            [""; 0]
        );
        assert_eq!(
            of(json!({"path": "l", "fieldRef": {"apiVersion": "v1", "fieldPath": "spec.x"}})),
            [
                "v.projected.sources[0].downwardAPI.fieldRef.fieldPath: Invalid value: \"spec.x\": error converting fieldPath: field label not supported: spec.x"
            ]
        );
    }

    #[test]
    fn a_volume_has_exactly_one_type() {
        assert_eq!(said(json!({"name": "v"})), ["v: Required value: must specify a volume type"]);
        assert_eq!(
            said(json!({"name": "v", "emptyDir": {}, "hostPath": {"path": "/a"}})),
            ["v.hostPath: Forbidden: may not specify more than 1 volume type"]
        );
        assert_eq!(said(json!({"name": "v", "hostPath": {"path": "/a/../b", "type": "x"}})).len(), 2);
    }
}
