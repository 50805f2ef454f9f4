//! Sets the default StorageClass of claims, and checks whether a claim's class allows expansion.
//!
//! Source: `plugin/pkg/admission/storage/storageclass/setdefault`,
//! `plugin/pkg/admission/storage/persistentvolume/resize`, `pkg/volume/util/storageclass.go`.

use serde_json::Value;

use super::{Attributes, Operation};
use crate::status::StatusError;
use crate::store::{Key, Resource};
use semantics::Quantity;

/// The annotations that mark the default class.
const DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// The deprecated annotation with a claim's class.
const NAMED: &str = "volume.beta.kubernetes.io/storage-class";

fn classes() -> Resource {
    Resource::new("storage.k8s.io", "storageclasses")
}

/// Rejects the expansion of a claim unless its class allows it.
///
/// # Errors
/// 403.
pub fn validate(at: &Attributes<'_>, claim: &Value, old: Option<&Value>) -> Result<(), StatusError> {
    let is_claim = at.kind().is("", "PersistentVolumeClaim") && at.subresource().is_empty();
    let Some(old) = old.filter(|_| is_claim) else { return Ok(()) };
    let size = |claim: &Value| {
        Quantity::of(&claim["spec"]["resources"]["requests"]["storage"]).unwrap_or(Quantity::ZERO)
    };
    if size(claim) <= size(old) {
        return Ok(());
    }
    if old["status"]["phase"] != "Bound" {
        return Err(at.forbidden(Some(claim), "Only bound persistent volume claims can be expanded"));
    }
    let [class, before] = [claim, old].map(|claim| {
        let named = &claim["metadata"]["annotations"][NAMED];
        named.as_str().or(claim["spec"]["storageClassName"].as_str()).unwrap_or_default()
    });
    let found = at.context.server.store.get(&classes(), &Key::new(None, class));
    let may_grow = found.is_some_and(|class| class.value()["allowVolumeExpansion"] == true);
    if class == before && may_grow {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
    Err(at.forbidden(Some(claim), why))
}

/// Sets a new claim's class to the default one, if any; if there are several, the newest.
pub fn fill_in(at: &Attributes<'_>, claim: &mut Value) {
    let is_claim = at.kind().is("", "PersistentVolumeClaim") && at.subresource().is_empty();
    let is_named =
        !claim["spec"]["storageClassName"].is_null() || !claim["metadata"]["annotations"][NAMED].is_null();
    if !is_claim || at.operation != Operation::Create || is_named {
        return;
    }
    let records = at.context.server.store.list(&classes(), None).records;
    let is_default = |class: &Value| {
        DEFAULT.iter().any(|annotation| class["metadata"]["annotations"][annotation] == "true")
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = records.iter().map(|record| record.value());
    let newest = all.filter(|class| is_default(class)).max_by_key(|class| {
        let metadata = &class["metadata"];
        (text(&metadata["creationTimestamp"]), std::cmp::Reverse(text(&metadata["name"])))
    });
    if let Some(class) = newest {
        claim["spec"]["storageClassName"] = class["metadata"]["name"].clone();
    }
}
