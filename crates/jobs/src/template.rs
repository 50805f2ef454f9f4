//! Templates: manifests kept in the cluster, from which jobs are created.
//!
//! A template is a ConfigMap with the label [`LABEL`] and the manifest under [`KEY`], in a user's own namespace or in
//! [`SHARED`], where everybody with read access finds it. It holds a job as `export` prints it, without a namespace.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde::Serialize;
use serde_json::Value;

use crate::rerun::{self, ANNOTATION_CLONED_FROM, ANNOTATION_RETRY_OF};
use crate::setting::{self, Setting};
use crate::submit::FIELD_MANAGER;
use crate::{Action, Advice, Attempt, Class, Error, Kind, export, manifest};

/// The label that marks a ConfigMap as a template; its value is `true`.
pub const LABEL: &str = "training.opendatahub.io/template";
/// The key of the manifest in the ConfigMap.
pub const KEY: &str = "job.yaml";
/// The namespace of templates shared by a whole organisation.
pub const SHARED: &str = "odh-training-templates";
/// The annotation with a one-sentence description of a template.
const ANNOTATION_DESCRIPTION: &str = "training.opendatahub.io/description";
/// The annotation of a job that names the template it was created from.
const ANNOTATION_FROM: &str = "training.opendatahub.io/template";
/// The prefix of the name of a template's ConfigMap.
const PREFIX: &str = "training-template-";

/// A template.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The kind of job that it creates.
    pub kind: Kind,
    /// Its description.
    pub description: String,
    /// The manifest.
    pub manifest: Value,
}

/// Saves a job's manifest as a template; an existing one of that name is overwritten.
///
/// # Errors
/// If the job does not exist, or the server refuses.
pub async fn save(
    client: &Client,
    job: &DynamicObject,
    namespace: &str,
    name: &str,
    description: &str,
) -> Result<Template, Error> {
    let mut manifest = export::manifest(job);
    if let Some(metadata) = manifest["metadata"].as_object_mut() {
        metadata.remove("namespace");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(ANNOTATION_CLONED_FROM);
            annotations.remove(ANNOTATION_RETRY_OF);
        }
    }
    let text = serde_json::to_string_pretty(&manifest).map_err(|error| Error::Client(error.to_string()))?;
    let kept = ConfigMap {
        metadata: ObjectMeta {
            name: Some(format!("{PREFIX}{name}")),
            labels: Some(BTreeMap::from([(LABEL.to_owned(), "true".to_owned())])),
            annotations: Some(BTreeMap::from([(ANNOTATION_DESCRIPTION.to_owned(), description.to_owned())])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(KEY.to_owned(), text + "\n")])),
        ..ConfigMap::default()
    };
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let attempt = Attempt { verb: "patch", what: "configmaps", name, namespace };
    let written = api
        .patch(&format!("{PREFIX}{name}"), &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&kept))
        .await;
    let written = written.map_err(|error| Error::from_kube(error, attempt))?;
    read(&written).ok_or_else(|| Error::Client("cannot read the saved template".to_owned()))
}

/// Returns the templates of these namespaces. Only a refusal for the first namespace is an error; the others may be
/// inaccessible.
///
/// # Errors
/// The server's refusal.
pub async fn templates(client: &Client, namespaces: &[&str]) -> Result<Vec<Template>, Error> {
    let mut found = Vec::new();
    for (index, namespace) in namespaces.iter().enumerate() {
        let attempt = Attempt { verb: "list", what: "configmaps", name: "", namespace };
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        match api.list(&ListParams::default().labels(&format!("{LABEL}=true"))).await {
            Ok(kept) => found.extend(kept.items.iter().filter_map(read)),
            Err(error) if index == 0 => return Err(Error::from_kube(error, attempt)),
            Err(_) => {}
        }
    }
    found.sort_by(|a, b| (&a.name, &a.namespace).cmp(&(&b.name, &b.namespace)));
    Ok(found)
}

/// Returns a template by its name, searching the namespaces in order.
///
/// # Errors
/// [`Error::Refused`] if there is none, with the name that was probably meant.
pub async fn template(client: &Client, namespaces: &[&str], name: &str) -> Result<Template, Error> {
    let known = templates(client, namespaces).await?;
    let own =
        |namespace: &&str| known.iter().find(|known| known.name == name && known.namespace == **namespace);
    match namespaces.iter().find_map(own) {
        Some(found) => Ok(found.clone()),
        None => {
            let names: Vec<&str> = known.iter().map(|known| known.name.as_str()).collect();
            {
                let namespace = namespaces.first().copied().unwrap_or_default();
                Err(missing(namespace, name, manifest::nearest(name, &names)))
            }
        }
    }
}

/// Creates a job from a template.
///
/// # Errors
/// [`Error::Invalid`] if a setting does not fit, or the server's refusal.
pub async fn use_template(
    client: &Client,
    template: &Template,
    namespace: &str,
    name: &str,
    settings: &[Setting],
    dry_run: bool,
) -> Result<DynamicObject, Error> {
    let manifest = setting::set(template.manifest.clone(), template.kind, settings)?;
    let manifest = rerun::renamed(manifest, name, Some((ANNOTATION_FROM, &template.name)));
    rerun::checked(template.kind, &manifest)?;
    rerun::create(client, template.kind, namespace, &manifest, dry_run).await
}

/// Deletes a template.
///
/// # Errors
/// [`Error::Refused`] if there is none, or the server refuses.
pub async fn delete(client: &Client, namespace: &str, name: &str) -> Result<(), Error> {
    let attempt = Attempt { verb: "delete", what: "configmaps", name, namespace };
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    match api.delete(&format!("{PREFIX}{name}"), &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Err(missing(namespace, name, None)),
        Err(error) => Err(Error::from_kube(error, attempt)),
    }
}

fn missing(namespace: &str, name: &str, meant: Option<&str>) -> Error {
    Error::Refused {
        class: Class::NotFound,
        reason: "NotFound".to_owned(),
        message: format!("template \"{name}\" not found"),
        advice: Some(match meant {
            Some(meant) => format!("did you mean \"{meant}\"?").into(),
            None => Advice::from("list the templates")
                .with(Action::ListTemplates { namespace: namespace.to_owned() }),
        }),
        faults: Vec::new(),
    }
}

fn read(kept: &ConfigMap) -> Option<Template> {
    let name = kept.name_any().strip_prefix(PREFIX)?.to_owned();
    let documents = manifest::read(kept.data.as_ref()?.get(KEY)?.as_bytes(), &name).ok()?;
    let document = documents.first()?;
    Some(Template {
        name,
        namespace: kept.namespace().unwrap_or_default(),
        kind: Kind::named(document.kind())?,
        description: kept.annotations().get(ANNOTATION_DESCRIPTION).cloned().unwrap_or_default(),
        manifest: document.value.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_template_is_read_from_what_a_person_may_have_written() {
        let kept: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": "training-template-digits", "namespace": "team",
                "annotations": {ANNOTATION_DESCRIPTION: "the usual"}},
            "data": {KEY: "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: x}\n"}}))
        .unwrap();
        let found = read(&kept).unwrap();
        assert_eq!(
            (found.name.as_str(), found.kind, found.description.as_str()),
            ("digits", Kind::MpiJob, "the usual")
        );
        let other: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": "x"}, "data": {}})).unwrap();
        assert!(read(&other).is_none());
    }
}
