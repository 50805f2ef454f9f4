//! The default StorageClass, for claims that name none.
//!
//! Source: `plugin/pkg/admission/storage/storageclass/setdefault`, `pkg/volume/util/storageclass.go`.

use serde_json::Value;

use super::{Attributes, Operation};
use crate::store::Resource;

/// Annotations that mark the default class.
const DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// The old way to name a claim's class.
const NAMED: &str = "volume.beta.kubernetes.io/storage-class";

/// Sets a new claim's class, where there is a default; of several, the newest.
pub fn fill_in(at: &Attributes<'_>, claim: &mut Value) {
    let is_claim = at.kind().is("", "PersistentVolumeClaim") && at.subresource().is_empty();
    let is_named =
        !claim["spec"]["storageClassName"].is_null() || !claim["metadata"]["annotations"][NAMED].is_null();
    if !is_claim || at.operation != Operation::Create || is_named {
        return;
    }
    let records = at.call.server.store.list(&Resource::new("storage.k8s.io", "storageclasses"), None).records;
    let is_default = |class: &Value| {
        DEFAULT.iter().any(|annotation| class["metadata"]["annotations"][annotation] == "true")
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let newest =
        records.iter().map(|record| &record.value).filter(|class| is_default(class)).max_by_key(|class| {
            let metadata = &class["metadata"];
            (text(&metadata["creationTimestamp"]), std::cmp::Reverse(text(&metadata["name"])))
        });
    if let Some(class) = newest {
        claim["spec"]["storageClassName"] = class["metadata"]["name"].clone();
    }
}
