//! PersistentVolumes, PersistentVolumeClaims and StorageClasses (`pkg/apis/core/validation`,
//! `pkg/apis/storage/validation`).

use serde_json::Value;

use super::{FieldFault, immutable_field, items, label_selector, one_of, placement, pod_volumes, text};
use semantics::Quantity;

use crate::names;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// The fields of a volume's spec other than its source.
const NO_SOURCES: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// `ValidatePersistentVolumeSpec`, for the sources that this cluster supports.
pub(super) fn volume(volume: &Value) -> Vec<FieldFault> {
    let (spec, mut faults) = (&volume["spec"], Vec::new());
    access_modes(spec, "", &mut faults);
    capacity(spec, &mut faults);
    if !text(spec, "persistentVolumeReclaimPolicy").is_empty() {
        one_of(spec, "persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"], "spec", &mut faults);
    }
    let affinity = &spec["nodeAffinity"];
    if affinity.is_object() {
        let at = "spec.nodeAffinity.required";
        if affinity["required"].is_null() {
            faults.push(FieldFault::required(at, "must specify required node constraints"));
        } else {
            placement::node_selector(&affinity["required"], at, &mut faults);
        }
    }
    sources(spec, &mut faults);
    let path = text(&spec["hostPath"], "path");
    if !path.is_empty()
        && path.chars().all(|c| c == '/')
        && spec["persistentVolumeReclaimPolicy"] == "Recycle"
    {
        let text = "may not be 'recycle' for a hostPath mount of '/'";
        faults.push(FieldFault::forbidden("spec.persistentVolumeReclaimPolicy", text));
    }
    class_name(spec, &mut faults);
    one_of(spec, "volumeMode", &["Block", "Filesystem"], "spec", &mut faults);
    faults
}

fn access_modes(spec: &Value, detail: &str, faults: &mut Vec<FieldFault>) {
    let at = "spec.accessModes";
    let modes = items(spec, "accessModes").map(|(_, mode)| mode.as_str().unwrap_or_default());
    let modes = modes.collect::<Vec<_>>();
    if modes.is_empty() {
        faults.push(FieldFault::required(at, detail));
    }
    let (known, unknown): (Vec<&str>, Vec<&str>) = modes.into_iter().partition(|m| ACCESS_MODES.contains(m));
    faults.extend(unknown.into_iter().map(|mode| FieldFault::not_supported(at, mode, &ACCESS_MODES)));
    if known.contains(&"ReadWriteOncePod") && known.iter().any(|mode| *mode != "ReadWriteOncePod") {
        faults.push(FieldFault::forbidden(at, "may not use ReadWriteOncePod with other access modes"));
    }
}

fn capacity(spec: &Value, faults: &mut Vec<FieldFault>) {
    let at = "spec.capacity";
    let amounts = spec["capacity"].as_object().filter(|amounts| !amounts.is_empty());
    if amounts.is_none() {
        faults.push(FieldFault::required(at, ""));
    }
    let is_storage = amounts.is_some_and(|amounts| amounts.len() == 1 && amounts.contains_key("storage"));
    if !is_storage {
        let detail = "supported values: \"storage\"";
        let shown = spec["capacity"].clone();
        faults.push(FieldFault::new(at, super::Reason::NotSupported, Some(shown), detail));
    }
    for (name, amount) in amounts.into_iter().flatten() {
        let at = format!("{at}[{name}]");
        let Ok(quantity) = Quantity::of(amount) else { continue };
        if quantity.is_negative() {
            faults.push(FieldFault::invalid(&at, whole(&quantity), "must be a valid resource quantity"));
        }
        if quantity.nanos() <= 0 {
            faults.push(FieldFault::invalid(&at, quantity.to_string(), "must be greater than zero"));
        }
    }
}

/// Returns an amount in whole units.
fn whole(amount: &Quantity) -> i64 {
    i64::try_from(amount.units()).unwrap_or(i64::MIN)
}

fn sources(spec: &Value, faults: &mut Vec<FieldFault>) {
    let named = spec.as_object().into_iter().flatten();
    let sources = named.filter(|(name, value)| !value.is_null() && !NO_SOURCES.contains(&name.as_str()));
    let sources = sources.map(|(name, _)| name).collect::<Vec<_>>();
    if sources.is_empty() {
        faults.push(FieldFault::required("spec", "must specify a volume type"));
    }
    for extra in sources.iter().skip(1) {
        let text = "may not specify more than 1 volume type";
        faults.push(FieldFault::forbidden(format!("spec.{extra}"), text));
    }
    let only = sources.first().map(|name| name.as_str());
    match only {
        Some("hostPath") => pod_volumes::host_path(&spec["hostPath"], "spec.hostPath", faults),
        Some("nfs") => pod_volumes::nfs(&spec["nfs"], "spec.nfs", faults),
        _ => {}
    }
}

fn class_name(spec: &Value, faults: &mut Vec<FieldFault>) {
    let name = text(spec, "storageClassName");
    if !name.is_empty() {
        let judged = names::subdomain(name).into_iter();
        faults.extend(judged.map(|f| FieldFault::invalid("spec.storageClassName", name, f)));
    }
}

/// `ValidatePersistentVolumeUpdate`.
pub(super) fn volume_update(new: &Value, old: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    let source = |volume: &Value| {
        let mut spec = volume["spec"].as_object().cloned().unwrap_or_default();
        spec.retain(|name, _| !NO_SOURCES.contains(&name.as_str()));
        spec
    };
    if source(new) != source(old) {
        let text = "spec.persistentvolumesource is immutable after creation\n";
        faults.push(FieldFault::forbidden("spec.persistentvolumesource", text));
    }
    if new["spec"]["volumeMode"] != old["spec"]["volumeMode"] {
        let value = new["spec"]["volumeMode"].clone();
        faults.push(FieldFault::invalid("volumeMode", value, "field is immutable"));
    }
    faults
}

/// `ValidatePersistentVolumeClaimSpec`.
pub(super) fn claim(claim: &Value) -> Vec<FieldFault> {
    let (spec, mut faults) = (&claim["spec"], Vec::new());
    access_modes(spec, "at least 1 access mode is required", &mut faults);
    label_selector(&spec["selector"], "spec.selector", &mut faults);
    let at = "spec.resources[storage]";
    match Quantity::of(&spec["resources"]["requests"]["storage"]) {
        Err(_) => faults.push(FieldFault::required(at, "")),
        Ok(amount) if amount.nanos() <= 0 => {
            faults.push(FieldFault::invalid(at, amount.to_string(), "must be greater than zero"));
        }
        Ok(_) => {}
    }
    class_name(spec, &mut faults);
    one_of(spec, "volumeMode", &["Block", "Filesystem"], "spec", &mut faults);
    faults
}

/// `ValidatePersistentVolumeClaimUpdate`: a claim's spec is immutable, except that its volume may be set once, and a
/// bound claim may request a different size.
pub(super) fn claim_update(new: &Value, old: &Value) -> Vec<FieldFault> {
    let mut faults = status(new, old);
    let (mut changed, mut before) = (new["spec"].clone(), old["spec"].clone());
    if changed == before {
        return faults;
    }
    if text(&before, "volumeName").is_empty() {
        copy(&changed, &mut before, "volumeName");
    }
    if before["storageClassName"].is_null() && !changed["storageClassName"].is_null() {
        copy(&before.clone(), &mut changed, "storageClassName");
    }
    if new["status"]["phase"] == "Bound" {
        if changed["resources"]["requests"].is_object() {
            changed["resources"]["requests"]["storage"] = before["resources"]["requests"]["storage"].clone();
        }
        copy(&before, &mut changed, "volumeAttributesClassName");
    }
    if without_empty(&changed) != without_empty(&before) {
        let text = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n";
        faults.push(FieldFault::forbidden("spec", text));
    }
    let amount = |object: &Value, pointer: &str| {
        object.pointer(pointer).map(Quantity::of).and_then(Result::ok).map_or(0, |q| q.nanos())
    };
    let asked = "/spec/resources/requests/storage";
    if amount(new, asked) < amount(old, asked)
        && amount(new, asked) <= amount(old, "/status/capacity/storage")
    {
        let text = "field can not be less than status.capacity";
        faults.push(FieldFault::forbidden("spec.resources.requests.storage", text));
    }
    if new["spec"]["volumeMode"] != old["spec"]["volumeMode"] {
        let value = new["spec"]["volumeMode"].clone();
        faults.push(FieldFault::invalid("volumeMode", value, "field is immutable"));
    }
    faults
}

/// Removes empty maps and lists, which Go does not distinguish from absent ones (`apiequality.Semantic`).
fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), without_empty(value)));
            let is_empty = |value: &Value| {
                value.is_null()
                    || value.as_array().is_some_and(Vec::is_empty)
                    || value.as_object().is_some_and(serde_json::Map::is_empty)
            };
            // Keep an empty selector: it selects everything.
            Value::Object(fields.filter(|(name, value)| name == "selector" || !is_empty(value)).collect())
        }
        other => other.clone(),
    }
}

fn copy(from: &Value, to: &mut Value, field: &str) {
    match from.get(field) {
        Some(value) => to[field] = value.clone(),
        None => {
            to.as_object_mut().map(|fields| fields.remove(field));
        }
    }
}

/// `ValidatePersistentVolumeClaimStatusUpdate`.
fn status(new: &Value, old: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    if new["status"] == old["status"] {
        return faults;
    }
    for (name, amount) in new["status"]["capacity"].as_object().into_iter().flatten() {
        if let Ok(amount) = Quantity::of(amount)
            && amount.is_negative()
        {
            let at = format!("status.capacity[{name}]");
            faults.push(FieldFault::invalid(at, whole(&amount), "must be a valid resource quantity"));
        }
    }
    faults
}

/// `ValidateStorageClass`.
pub(super) fn class(class: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    let provisioner = text(class, "provisioner").to_lowercase();
    if provisioner.is_empty() {
        faults.push(FieldFault::required("provisioner", ""));
    } else {
        let judged = names::qualified_name(&provisioner).into_iter();
        faults.extend(judged.map(|f| FieldFault::invalid("provisioner", provisioner.as_str(), f)));
    }
    if class["parameters"].as_object().is_some_and(|all| all.contains_key("")) {
        faults.push(FieldFault::invalid("parameters", "", "field can not be empty."));
    }
    if !text(class, "reclaimPolicy").is_empty() {
        one_of(class, "reclaimPolicy", &["Delete", "Retain"], "", &mut faults);
    }
    one_of(class, "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"], "", &mut faults);
    faults
}

pub(super) fn class_update(new: &Value, old: &Value) -> Vec<FieldFault> {
    let fields = ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"];
    fields.iter().flat_map(|field| immutable_field(new, old, field)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(faults: &[FieldFault]) -> Vec<String> {
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_volume_needs_access_modes_a_capacity_and_a_source() {
        let empty = said(&volume(&json!({"spec": {}})));
        assert_eq!(
            empty,
            [
                "spec.accessModes: Required value",
                "spec.capacity: Required value",
                "spec.capacity: Unsupported value: null: supported values: \"storage\"",
                "spec: Required value: must specify a volume type"
            ]
        );
        let whole = json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "nfs": {"server": "s", "path": "/x"}}});
        assert_eq!(said(&volume(&whole)), [""; 0]);
    }

    #[test]
    fn the_spec_of_a_claim_is_immutable() {
        let old = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Pending"}});
        let mut new = old.clone();
        new["spec"]["volumeName"] = json!("v");
        assert_eq!(said(&claim_update(&new, &old)), [""; 0]);
        new["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
        assert_eq!(claim_update(&new, &old).len(), 1);
    }
}
