//! ConfigMaps and Secrets: keys, sizes, types, immutability (`ValidateConfigMap`, `ValidateSecret`).

use serde_json::Value;

use super::{FieldFault, text};
use crate::names;

/// The most data of one ConfigMap or Secret, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// The required keys of a Secret, by type.
const REQUIRED_KEYS: &[(&str, &[&str])] = &[
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
];

fn keys(data: &Value, field: &str, faults: &mut Vec<FieldFault>) -> usize {
    let mut bytes = 0;
    for (key, value) in data.as_object().into_iter().flatten() {
        for fault in names::config_key(key) {
            faults.push(FieldFault::invalid(format!("{field}[{key}]"), key.as_str(), fault));
        }
        bytes += value.as_str().map_or(0, str::len);
    }
    bytes
}

pub(super) fn config_map(object: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    let data = keys(&object["data"], "data", &mut faults);
    let binary = keys(&object["binaryData"], "binaryData", &mut faults) / 4 * 3;
    for key in object["binaryData"].as_object().into_iter().flatten().map(|(key, _)| key) {
        if object["data"].get(key).is_some() {
            faults.push(FieldFault::invalid(
                format!("data[{key}]"),
                key.as_str(),
                "duplicate of key present in binaryData",
            ));
        }
    }
    if data + binary > MAX_BYTES {
        faults.push(FieldFault::too_long("", MAX_BYTES));
    }
    faults
}

pub(super) fn secret(object: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    let bytes = keys(&object["data"], "data", &mut faults) / 4 * 3;
    if bytes > MAX_BYTES {
        faults.push(FieldFault::too_long("data", MAX_BYTES));
    }
    let kind = text(object, "type");
    let has = |key: &str| object["data"].get(key).is_some();
    if kind == "kubernetes.io/basic-auth" && !has("username") && !has("password") {
        faults.push(FieldFault::required("data[username]", ""));
        faults.push(FieldFault::required("data[password]", ""));
    }
    if kind == "kubernetes.io/ssh-auth"
        && has("ssh-privatekey")
        && text(&object["data"], "ssh-privatekey").is_empty()
    {
        faults.push(FieldFault::required("data[ssh-privatekey]", ""));
    }
    for (_, required) in REQUIRED_KEYS.iter().filter(|(name, _)| *name == kind) {
        for key in required.iter().filter(|key| object["data"].get(**key).is_none()) {
            faults.push(FieldFault::required(format!("data[{key}]"), ""));
        }
    }
    if kind == "kubernetes.io/service-account-token"
        && text(&object["metadata"]["annotations"], "kubernetes.io/service-account.name").is_empty()
    {
        faults.push(FieldFault::required("metadata.annotations[kubernetes.io/service-account.name]", ""));
    }
    faults
}

/// An object marked immutable keeps its data and the mark.
pub(super) fn immutable(new: &Value, old: &Value, fields: &[&str]) -> Vec<FieldFault> {
    if old["immutable"] != true {
        return Vec::new();
    }
    let text = "field is immutable when `immutable` is set";
    let mut faults = Vec::new();
    if new["immutable"] != true {
        faults.push(FieldFault::forbidden("immutable", text));
    }
    faults.extend(fields.iter().filter(|f| new[**f] != old[**f]).map(|f| FieldFault::forbidden(*f, text)));
    faults
}
