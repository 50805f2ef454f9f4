//! Creates what a manifest describes, or changes what exists to match it: jobs, and the objects that they need, such as
//! ConfigMaps and claims. All faults of jobs are found first; nothing is sent before the last fault is known.
//!
//! Objects are applied on the server's side (server-side apply), so that fields which others manage stay. Objects other
//! than jobs come first, because jobs refer to them.

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{GroupVersionKind, Status};
use kube::discovery::Scope;
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::submit::{self, FIELD_MANAGER};
use crate::{Attempt, Class, Error, FIELD_MANAGER_CONFLICT, Kind, manifest};

/// An object of a manifest that is to be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Its kind, as spelled in `kind:`.
    pub kind: String,
    /// The object exactly as written.
    pub object: DynamicObject,
}

/// How to apply.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Have the server validate without changing anything.
    pub dry_run: bool,
    /// Take over fields that others manage.
    pub force: bool,
}

/// What became of one object.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The object before, if it existed.
    pub before: Option<DynamicObject>,
    /// The object as the server then has it, or would have it after a dry run.
    pub after: DynamicObject,
}

impl Outcome {
    /// Whether anything is different, apart from what only the server writes.
    pub fn has_changed(&self) -> bool {
        self.before.as_ref().map(comparable) != Some(comparable(&self.after))
    }
}

/// An object without the fields that only the server writes, for a comparison.
pub fn comparable(object: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"] {
            metadata.remove(field);
        }
    }
    value
}

/// Reads the objects of a manifest: those that are not jobs first, each group in the order of the manifest.
///
/// # Errors
/// [`Error::Syntax`], or [`Error::Invalid`] with every fault; no request is made.
pub fn read(bytes: &[u8], source: &str) -> Result<Vec<Wanted>, Error> {
    let (mut others, mut jobs, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    for document in manifest::read(bytes, source)? {
        let kind = document.kind().to_owned();
        let into = if Kind::named(&kind).is_some() {
            match submit::draft(&document) {
                Ok(_) => &mut jobs,
                Err(found) => {
                    faults.extend(found);
                    continue;
                }
            }
        } else {
            &mut others
        };
        match serde_json::from_value::<DynamicObject>(document.value.clone()) {
            Ok(object) if object.types.is_some() && object.metadata.name.is_some() => {
                into.push(Wanted { kind, object });
            }
            Ok(object) if object.types.is_some() => {
                faults.push(document.fault("metadata.name", "is required to apply an object", None));
            }
            Ok(_) => faults.push(document.fault("", "has no apiVersion and kind", None)),
            Err(error) => faults.push(document.fault("", error.to_string(), None)),
        }
    }
    others.append(&mut jobs);
    if faults.is_empty() { Ok(others) } else { Err(Error::Invalid { faults }) }
}

/// Where an object is, and what it is now.
struct Found {
    kind: String,
    namespace: String,
    name: String,
    api: Api<DynamicObject>,
    before: Option<DynamicObject>,
}

async fn find(client: &Client, namespace: &str, wanted: &Wanted) -> Result<Found, Error> {
    let types = wanted.object.types.clone().unwrap_or_default();
    let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
    let gvk = GroupVersionKind::gvk(group, version, &types.kind);
    let name = wanted.object.name_any();
    let place = wanted.object.namespace().unwrap_or_else(|| namespace.to_owned());
    let attempt = Attempt { verb: "patch", what: &types.kind, name: &name, namespace: &place };
    let unserved = || Error::Refused {
        class: Class::NotAllowed,
        reason: "NotSupported".to_owned(),
        message: format!("the cluster does not serve {} ({})", types.kind, types.api_version),
        advice: None,
        faults: Vec::new(),
    };
    let (resource, capabilities) = match kube::discovery::pinned_kind(client, &gvk).await {
        Ok(found) => found,
        Err(kube::Error::Discovery(_)) => return Err(unserved()),
        Err(kube::Error::Api(status)) if status.is_not_found() => return Err(unserved()),
        Err(error) => return Err(Error::from_kube(error, attempt)),
    };
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Namespaced => Api::namespaced_with(client.clone(), &place, &resource),
        Scope::Cluster => Api::all_with(client.clone(), &resource),
    };
    let before = api.get_opt(&name).await.map_err(|error| Error::from_kube(error, attempt))?;
    Ok(Found { kind: types.kind, namespace: place, name, api, before })
}

/// What an apply would make of an object where the server refuses it, for example because a field cannot change: the
/// object as it is, with the manifest's fields. Lists are replaced, as in a merge patch (RFC 7386).
///
/// # Errors
/// If the object cannot be read.
pub async fn merged(client: &Client, namespace: &str, wanted: &Wanted) -> Result<Outcome, Error> {
    let Found { before, .. } = find(client, namespace, wanted).await?;
    let Some(existing) = &before else { return Ok(Outcome { before, after: wanted.object.clone() }) };
    let mut value = serde_json::to_value(existing).unwrap_or_default();
    merge(&mut value, &serde_json::to_value(&wanted.object).unwrap_or_default());
    let after = serde_json::from_value(value).unwrap_or_else(|_| wanted.object.clone());
    Ok(Outcome { before, after })
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

/// Applies one object; an object without a namespace goes into `namespace`.
///
/// # Errors
/// The server's refusal, such as [`Class::Conflict`] for a field that another program manages.
pub async fn apply(
    client: &Client,
    namespace: &str,
    wanted: &Wanted,
    manner: Manner,
) -> Result<Outcome, Error> {
    let Found { kind, namespace, name, api, before } = find(client, namespace, wanted).await?;
    let attempt = Attempt { verb: "patch", what: &kind, name: &name, namespace: &namespace };
    let parameters = PatchParams {
        dry_run: manner.dry_run,
        force: manner.force,
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Apply(&wanted.object);
    let patched = match api.patch(&name, &parameters, &patch).await {
        Err(kube::Error::Api(status)) if only_ours(&status) => {
            api.patch(&name, &parameters.force(), &patch).await
        }
        patched => patched,
    };
    let after = patched.map_err(|error| Error::from_kube(error, attempt))?;
    Ok(Outcome { before, after })
}

/// Whether an apply conflicts with nothing but what `odh` itself set when it created or changed the object: to the server,
/// an update and an apply by the same program are two managers.
///
/// Source: <https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts>.
fn only_ours(status: &Status) -> bool {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let ours = format!("conflict with \"{FIELD_MANAGER}\"");
    !causes.is_empty()
        && causes
            .iter()
            .all(|cause| cause.reason == FIELD_MANAGER_CONFLICT && cause.message.starts_with(&ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_with_others_are_left_to_the_person() {
        let conflict = |managers: &[&str]| -> Status {
            let cause = |manager: &&str| {
                serde_json::json!({"reason": "FieldManagerConflict", "field": ".spec.x",
                    "message": format!("conflict with \"{manager}\" using kubeflow.org/v2beta1")})
            };
            let causes: Vec<Value> = managers.iter().map(cause).collect();
            serde_json::from_value(serde_json::json!({"code": 409, "details": {"causes": causes}})).unwrap()
        };
        assert!(only_ours(&conflict(&[FIELD_MANAGER])));
        assert!(!only_ours(&conflict(&[FIELD_MANAGER, "argocd"])));
        assert!(!only_ours(&conflict(&["odh-dashboard"])));
        assert!(!only_ours(&conflict(&[])));
    }

    #[test]
    fn what_a_job_needs_is_applied_before_it() {
        let text = concat!(
            "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: pi}\nspec:\n  mpiReplicaSpecs:\n",
            "    Launcher: {template: {spec: {containers: [{name: l, image: x}]}}}\n",
            "    Worker: {replicas: 2, template: {spec: {containers: [{name: w, image: x}]}}}\n",
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: code}\ndata: {a: b}\n",
        );
        let kinds: Vec<String> =
            read(text.as_bytes(), "-").unwrap().into_iter().map(|wanted| wanted.kind).collect();
        assert_eq!(kinds, ["ConfigMap", "MPIJob"]);
    }

    #[test]
    fn every_fault_is_reported_with_its_place() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n---\napiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: pi}\nspec: {slotPerWorker: 2}\n";
        let Err(Error::Invalid { faults }) = read(text.as_bytes(), "all.yaml") else {
            panic!("it has faults")
        };
        let paths: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert!(paths.contains(&"metadata.name") && paths.contains(&"spec.slotPerWorker"), "{paths:?}");
    }
}
