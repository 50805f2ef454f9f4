//! Templates: manifests kept in the cluster, from which jobs are created.
//!
//! A template is a ConfigMap with the label [`LABEL`] and the manifest under [`KEY`], in a user's own namespace or in
//! [`SHARED`], where everybody with read access finds it. It holds a job as `export` prints it, without a namespace.
//! Under [`KEY_PARAMETERS`] it may have typed parameters. Saving under a name that exists makes a new version; the last
//! [`MAX_VERSIONS`] are kept, each under a key of its own. Kubernetes' access rules for ConfigMaps are those of templates.

mod parameter;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, PostParams};
use kube::{Client, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rerun::{self, ANNOTATION_CLONED_FROM, ANNOTATION_RETRY_OF};
use crate::setting::{self, Setting};
use crate::submit::FIELD_MANAGER;
use crate::{Action, Advice, Attempt, Class, Error, Kind, export, manifest};

pub use parameter::{Parameter, Type};

/// The label that marks a ConfigMap as a template; its value is `true`.
pub const LABEL: &str = "training.opendatahub.io/template";
/// The key of the manifest in the ConfigMap.
pub const KEY: &str = "job.yaml";
/// The key of the parameters in the ConfigMap, a list in JSON.
pub const KEY_PARAMETERS: &str = "parameters.json";
/// The namespace of templates shared by a whole organisation.
pub const SHARED: &str = "odh-training-templates";
/// The maximum number of versions kept of a template, the newest included.
pub const MAX_VERSIONS: usize = 10;
/// The maximum size of a template with all its versions, in bytes. A ConfigMap holds at most 1 MiB.
const MAX_BYTES: usize = 900 * 1024;
/// The maximum number of tries to save while others save the same template.
const MAX_TRIES: usize = 5;
/// The annotation with a one-sentence description of a template.
const ANNOTATION_DESCRIPTION: &str = "training.opendatahub.io/description";
/// The annotation with the number of a template's newest version; 1 if absent.
const ANNOTATION_VERSION: &str = "training.opendatahub.io/template-version";
/// The annotation of a job that names the template it was created from.
const ANNOTATION_FROM: &str = "training.opendatahub.io/template";
/// The prefix of the name of a template's ConfigMap.
const PREFIX: &str = "training-template-";
/// The prefix of the key of an earlier version; its number follows.
const KEY_VERSION: &str = "version-";

/// A template.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The number of this version, from 1.
    pub version: u32,
    /// The numbers of all versions that are kept, the oldest first.
    pub versions: Vec<u32>,
    /// The kind of job that it creates.
    pub kind: Kind,
    /// Its description.
    pub description: String,
    /// What a user of it may choose.
    pub parameters: Vec<Parameter>,
    /// The manifest.
    pub manifest: Value,
    /// Whether it hides the shared template of its name, as far as the user may read shared templates.
    pub hides_shared: bool,
}

/// What to save as a template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saving {
    /// The template's name.
    pub name: String,
    /// Its description, one sentence; that of the version before if not given.
    pub description: Option<String>,
    /// Its parameters; those of the version before if not given.
    pub parameters: Option<Vec<Parameter>>,
}

/// An earlier version, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Earlier {
    description: String,
    parameters: Vec<Parameter>,
    manifest: Value,
}

/// Saves a job's manifest as a template; if there is one of that name, as its next version. Saving what is there already
/// changes nothing.
///
/// # Errors
/// [`Error::Invalid`] with every fault of the parameters, or the server's refusal.
pub async fn save(
    client: &Client,
    job: &DynamicObject,
    namespace: &str,
    saving: &Saving,
) -> Result<Template, Error> {
    let saved = write(client, job, namespace, saving).await?;
    if namespace == SHARED {
        return Ok(saved);
    }
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), SHARED);
    let shared = api.get_opt(&format!("{PREFIX}{}", saving.name)).await.ok().flatten();
    Ok(Template { hides_shared: shared.is_some_and(|shared| is_template(&shared)), ..saved })
}

/// Whether lists of templates have it.
fn is_template(kept: &ConfigMap) -> bool {
    kept.labels().get(LABEL).is_some_and(|value| value == "true") && read(kept).is_some()
}

async fn write(
    client: &Client,
    job: &DynamicObject,
    namespace: &str,
    saving: &Saving,
) -> Result<Template, Error> {
    let manifest = manifest_of(job);
    let name = &saving.name;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let kept_name = format!("{PREFIX}{name}");
    let parameters = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    for tries in 1..=MAX_TRIES {
        let attempt = |verb: &'static str| Attempt { verb, what: "configmaps", name, namespace };
        let old = api.get_opt(&kept_name).await.map_err(|error| Error::from_kube(error, attempt("get")))?;
        let next = next_version(old.as_ref(), Kind::of(job), &manifest, saving)?;
        let Some(next) = next else {
            return old.as_ref().and_then(read).ok_or_else(unreadable);
        };
        let written = match old {
            Some(_) => (api.replace(&kept_name, &parameters, &next).await, "update"),
            None => (api.create(&parameters, &next).await, "create"),
        };
        match written {
            (Ok(written), _) => return read(&written).ok_or_else(unreadable),
            // Somebody else saved it meanwhile.
            (Err(kube::Error::Api(status)), _) if status.code == 409 && tries < MAX_TRIES => {}
            (Err(error), verb) => return Err(Error::from_kube(error, attempt(verb))),
        }
    }
    Err(unreadable())
}

fn unreadable() -> Error {
    Error::Client("cannot read the saved template".to_owned())
}

/// A job's manifest without what belongs to this job only.
fn manifest_of(job: &DynamicObject) -> Value {
    let mut manifest = export::manifest(job);
    if let Some(metadata) = manifest["metadata"].as_object_mut() {
        metadata.remove("namespace");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(ANNOTATION_CLONED_FROM);
            annotations.remove(ANNOTATION_RETRY_OF);
        }
    }
    manifest
}

/// Returns the ConfigMap with the next version; `None` if the newest version is the same. Pure.
fn next_version(
    old: Option<&ConfigMap>,
    kind: Kind,
    manifest: &Value,
    saving: &Saving,
) -> Result<Option<ConfigMap>, Error> {
    let before = old.and_then(read);
    let parameters = match (&saving.parameters, &before) {
        (Some(parameters), _) => parameters.clone(),
        (None, Some(before)) => before.parameters.clone(),
        (None, None) => Vec::new(),
    };
    let description = match (&saving.description, &before) {
        (Some(description), _) => description.clone(),
        (None, Some(before)) => before.description.clone(),
        (None, None) => String::new(),
    };
    let faults = parameter::faults_of(&parameters, kind, manifest);
    if !faults.is_empty() {
        return Err(Error::Invalid { faults });
    }
    let mut data = old.and_then(|old| old.data.clone()).unwrap_or_default();
    let mut version = 1;
    if let Some(before) = before {
        let Template { description: said, parameters: were, manifest: was, version: number, .. } = before;
        if said == description && were == parameters && was == *manifest {
            return Ok(None);
        }
        let earlier = Earlier { description: said, parameters: were, manifest: was };
        data.insert(format!("{KEY_VERSION}{number}"), json(&earlier)?);
        version = number + 1;
    }
    data.insert(KEY.to_owned(), json(manifest)?);
    match parameters.is_empty() {
        true => data.remove(KEY_PARAMETERS),
        false => data.insert(KEY_PARAMETERS.to_owned(), json(&parameters)?),
    };
    forget(&mut data);
    let mut metadata = ObjectMeta {
        name: Some(format!("{PREFIX}{}", saving.name)),
        resource_version: old.and_then(|old| old.metadata.resource_version.clone()),
        labels: old.and_then(|old| old.metadata.labels.clone()),
        annotations: old.and_then(|old| old.metadata.annotations.clone()),
        ..ObjectMeta::default()
    };
    metadata.labels.get_or_insert_default().insert(LABEL.to_owned(), "true".to_owned());
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(ANNOTATION_DESCRIPTION.to_owned(), description);
    annotations.insert(ANNOTATION_VERSION.to_owned(), version.to_string());
    Ok(Some(ConfigMap { metadata, data: Some(data), ..ConfigMap::default() }))
}

fn json(value: &impl Serialize) -> Result<String, Error> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Error::Client(error.to_string()))?;
    Ok(text + "\n")
}

/// Removes the oldest versions until those left are few and small enough.
fn forget(data: &mut BTreeMap<String, String>) {
    let mut numbers = earlier_versions(data);
    let is_large = |data: &BTreeMap<String, String>| {
        data.iter().map(|(key, text)| key.len() + text.len()).sum::<usize>() > MAX_BYTES
    };
    while !numbers.is_empty() && (numbers.len() >= MAX_VERSIONS || is_large(data)) {
        data.remove(&format!("{KEY_VERSION}{}", numbers.remove(0)));
    }
}

/// The numbers of the earlier versions, the oldest first.
fn earlier_versions(data: &BTreeMap<String, String>) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        data.keys().filter_map(|key| key.strip_prefix(KEY_VERSION)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Returns the templates of these namespaces. Only a refusal for the first namespace is an error; the others may be
/// inaccessible.
///
/// # Errors
/// The server's refusal.
pub async fn templates(client: &Client, namespaces: &[&str]) -> Result<Vec<Template>, Error> {
    let mut found: Vec<Template> = kept(client, namespaces).await?.iter().filter_map(read).collect();
    found.sort_by(|a, b| (&a.name, &a.namespace).cmp(&(&b.name, &b.namespace)));
    mark_hiding(&mut found);
    Ok(found)
}

/// Marks the templates that hide a shared one among them. Pure.
fn mark_hiding(found: &mut [Template]) {
    let (shared, own): (Vec<_>, Vec<_>) = found.iter_mut().partition(|template| template.namespace == SHARED);
    for template in own {
        template.hides_shared = shared.iter().any(|shared| shared.name == template.name);
    }
}

async fn kept(client: &Client, namespaces: &[&str]) -> Result<Vec<ConfigMap>, Error> {
    let mut found = Vec::new();
    for (index, namespace) in namespaces.iter().enumerate() {
        let attempt = Attempt { verb: "list", what: "configmaps", name: "", namespace };
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        match api.list(&ListParams::default().labels(&format!("{LABEL}=true"))).await {
            Ok(kept) => found.extend(kept.items),
            Err(error) if index == 0 => return Err(Error::from_kube(error, attempt)),
            Err(_) => {}
        }
    }
    Ok(found)
}

/// Returns where a template is looked for by a user of a namespace, and its name: `shared/NAME` is the shared one, also
/// if the namespace has one of that name.
#[must_use]
pub fn place_of<'n>(namespace: &'n str, name: &'n str) -> (Vec<&'n str>, &'n str) {
    match name.strip_prefix("shared/") {
        Some(name) => (vec![SHARED], name),
        None if namespace == SHARED => (vec![SHARED], name),
        None => (vec![namespace, SHARED], name),
    }
}

/// Returns a template by its name, searching the namespaces in order: the newest version, or the one with this number.
///
/// # Errors
/// [`Error::Refused`] if there is none, with the name that was probably meant.
pub async fn template(
    client: &Client,
    namespaces: &[&str],
    name: &str,
    version: Option<u32>,
) -> Result<Template, Error> {
    let known = kept(client, namespaces).await?;
    let is = |kept: &&ConfigMap, namespace: &str| {
        kept.namespace().as_deref() == Some(namespace) && name_of(kept).is_some_and(|known| known == name)
    };
    let own = |namespace: &&str| known.iter().find(|kept| is(kept, namespace) && read(kept).is_some());
    match namespaces.iter().find_map(own) {
        Some(kept) => {
            let found = read_version(kept, version).ok_or_else(|| no_version(kept, name, version))?;
            let hides_shared = found.namespace != SHARED && own(&SHARED).is_some();
            Ok(Template { hides_shared, ..found })
        }
        None => {
            let names: Vec<String> = known.iter().filter_map(name_of).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let namespace = namespaces.first().copied().unwrap_or_default();
            Err(missing(namespace, name, manifest::nearest(name, &names)))
        }
    }
}

fn no_version(kept: &ConfigMap, name: &str, version: Option<u32>) -> Error {
    let versions = read(kept).map(|template| template.versions).unwrap_or_default();
    let versions: Vec<String> = versions.iter().map(u32::to_string).collect();
    Error::Refused {
        class: Class::NotFound,
        reason: "NotFound".to_owned(),
        message: format!("template \"{name}\" has no version {}", version.unwrap_or_default()),
        advice: Some(format!("it has: {}", versions.join(", ")).into()),
        faults: Vec::new(),
    }
}

/// What to make from a template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Using {
    /// The job's name.
    pub name: String,
    /// The values of the template's parameters, by name.
    pub values: BTreeMap<String, String>,
    /// Further changes, after the parameters'.
    pub settings: Vec<Setting>,
}

/// Returns the manifest of the job that a template makes. Pure.
///
/// # Errors
/// [`Error::Invalid`] with every fault: of the parameters' values, of the settings, and of the job that they make.
pub fn instantiate(template: &Template, using: &Using) -> Result<Value, Error> {
    let (mut settings, mut faults) = parameter::settings(&template.parameters, &using.values);
    settings.extend(using.settings.iter().cloned());
    let mut manifest = template.manifest.clone();
    // One by one, so that those that fit are in the job whose rules are checked.
    for setting in settings {
        match setting::set(manifest.clone(), template.kind, &[setting]) {
            Ok(changed) => manifest = changed,
            Err(error) => faults.extend(error.faults().iter().cloned()),
        }
    }
    let manifest = rerun::renamed(manifest, &using.name, Some((ANNOTATION_FROM, &template.name)));
    match rerun::checked(template.kind, &manifest) {
        Err(Error::Invalid { faults: more }) => faults.extend(more),
        Err(other) if faults.is_empty() => return Err(other),
        Ok(()) | Err(_) => {}
    }
    if faults.is_empty() { Ok(manifest) } else { Err(Error::Invalid { faults }) }
}

/// Creates a job from a template.
///
/// # Errors
/// As [`instantiate`], or the server's refusal.
pub async fn use_template(
    client: &Client,
    template: &Template,
    namespace: &str,
    using: &Using,
    dry_run: bool,
) -> Result<DynamicObject, Error> {
    let manifest = instantiate(template, using)?;
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

fn name_of(kept: &ConfigMap) -> Option<String> {
    kept.name_any().strip_prefix(PREFIX).map(str::to_owned)
}

/// Reads the newest version; `None` if the ConfigMap is not a valid template.
fn read(kept: &ConfigMap) -> Option<Template> {
    read_version(kept, None)
}

fn read_version(kept: &ConfigMap, version: Option<u32>) -> Option<Template> {
    let name = name_of(kept)?;
    let data = kept.data.as_ref()?;
    let annotation = |name: &str| kept.annotations().get(name);
    let newest = annotation(ANNOTATION_VERSION).and_then(|version| version.parse().ok()).unwrap_or(1);
    let version = version.unwrap_or(newest);
    let (manifest, parameters, description) = if version == newest {
        let documents = manifest::read(data.get(KEY)?.as_bytes(), &name).ok()?;
        let parameters = match data.get(KEY_PARAMETERS) {
            Some(text) => serde_json::from_str(text).ok()?,
            None => Vec::new(),
        };
        let description = annotation(ANNOTATION_DESCRIPTION).cloned().unwrap_or_default();
        (documents.first()?.value.clone(), parameters, description)
    } else {
        let earlier: Earlier = serde_json::from_str(data.get(&format!("{KEY_VERSION}{version}"))?).ok()?;
        (earlier.manifest, earlier.parameters, earlier.description)
    };
    let mut versions = earlier_versions(data);
    versions.retain(|number| *number < newest);
    versions.push(newest);
    Some(Template {
        name,
        namespace: kept.namespace().unwrap_or_default(),
        version,
        versions,
        kind: Kind::named(manifest["kind"].as_str()?)?,
        description,
        parameters,
        manifest,
        hides_shared: false,
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

    fn job(replicas: i32) -> DynamicObject {
        let template =
            json!({"spec": {"containers": [{"name": "c", "image": "i", "command": ["mpirun", "train"]}]}});
        serde_json::from_value(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": {"name": "pi", "namespace": "team", "annotations": {api::ANNOTATION_OWNER: "jane"}},
            "spec": {"mpiReplicaSpecs": {"Launcher": {"replicas": 1, "template": template},
                "Worker": {"replicas": replicas, "template": template}}}}))
        .unwrap()
    }

    fn parameters() -> Vec<Parameter> {
        let rate = Parameter {
            name: "rate".into(),
            type_: Type::Number,
            default: Some("0.1".into()),
            sets: vec!["env.LR".into()],
            ..Parameter::default()
        };
        let memory = Parameter {
            name: "memory".into(),
            type_: Type::Quantity,
            allowed: vec!["16Gi".into(), "32Gi".into()],
            sets: vec!["worker.memory".into()],
            ..Parameter::default()
        };
        vec![rate, memory]
    }

    fn saved(
        old: Option<&ConfigMap>,
        replicas: i32,
        parameters: Option<Vec<Parameter>>,
    ) -> Result<Option<ConfigMap>, Error> {
        let description = old.is_none().then(|| "d".to_owned());
        let saving = Saving { name: "base".into(), description, parameters };
        next_version(old, Kind::MpiJob, &manifest_of(&job(replicas)), &saving)
    }

    #[test]
    fn saving_again_makes_versions_and_forgets_the_oldest() {
        let mut kept = saved(None, 1, Some(parameters())).unwrap().unwrap();
        assert!(saved(Some(&kept), 1, None).unwrap().is_none(), "nothing has changed");
        for replicas in 2..=12 {
            kept = saved(Some(&kept), replicas, None).unwrap().unwrap();
        }
        let newest = read(&kept).unwrap();
        assert_eq!((newest.version, newest.versions), (12, (3..=12).collect()));
        assert_eq!(newest.parameters, parameters(), "they are kept unless given");
        assert_eq!(newest.description, "d", "it is kept unless given");
        let workers = |version: u32| {
            let template = read_version(&kept, Some(version))?;
            template.manifest.pointer("/spec/mpiReplicaSpecs/Worker/replicas")?.as_i64()
        };
        assert_eq!((workers(12), workers(5), workers(2), workers(13)), (Some(12), Some(5), None, None));
        assert!(newest.manifest["metadata"].get("namespace").is_none());
        assert_eq!(
            newest.manifest.pointer("/metadata/annotations"),
            None,
            "the owner is the job's, not the template's"
        );
    }

    #[test]
    fn a_template_that_hides_a_shared_one_is_marked() {
        let saved = read(&saved(None, 1, None).unwrap().unwrap()).unwrap();
        let of = |namespace: &str, name: &str| Template {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..saved.clone()
        };
        let mut found = [of(SHARED, "base"), of("team", "base"), of("team", "own"), of(SHARED, "common")];
        mark_hiding(&mut found);
        assert_eq!(found.map(|template| template.hides_shared), [false, true, false, false]);
    }

    #[test]
    fn a_shared_template_has_an_address_of_its_own() {
        assert_eq!(place_of("team", "base"), (vec!["team", SHARED], "base"));
        assert_eq!(place_of("team", "shared/base"), (vec![SHARED], "base"));
        assert_eq!(place_of(SHARED, "base"), (vec![SHARED], "base"));
    }

    #[test]
    fn large_templates_keep_fewer_versions() {
        let mut data: BTreeMap<String, String> =
            (1..5).map(|number| (format!("{KEY_VERSION}{number}"), "x".repeat(300 * 1024))).collect();
        data.insert(KEY.to_owned(), "x".repeat(400 * 1024));
        forget(&mut data);
        assert_eq!(earlier_versions(&data), [4]);
    }

    #[test]
    fn every_fault_of_a_definition_is_reported() {
        let wrong = vec![
            Parameter { name: "1x".into(), sets: vec!["env.A".into()], ..Parameter::default() },
            Parameter { name: "a".into(), ..Parameter::default() },
            Parameter {
                name: "a".into(),
                type_: Type::Integer,
                default: Some("many".into()),
                allowed: vec!["1".into(), "few".into()],
                sets: vec!["workrs".into()],
                ..Parameter::default()
            },
        ];
        let error = saved(None, 1, Some(wrong)).unwrap_err();
        let paths: Vec<&str> = error.faults().iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "parameters[0].name",
                "parameters[1].sets",
                "parameters[2].name",
                "parameters[2].allowed[1]",
                "parameters[2].default",
                "parameters[2].sets"
            ]
        );
    }

    #[test]
    fn a_job_is_made_with_the_chosen_values_and_the_defaults() {
        let template = read(&saved(None, 2, Some(parameters())).unwrap().unwrap()).unwrap();
        let settings = vec![Setting::read("workers=8").unwrap()];
        let values = BTreeMap::from([("memory".to_owned(), "32Gi".to_owned())]);
        let made = instantiate(&template, &Using { name: "run-1".into(), values, settings }).unwrap();
        let worker = &made["spec"]["mpiReplicaSpecs"]["Worker"];
        assert_eq!((&worker["replicas"], &made["metadata"]["name"]), (&json!(8), &json!("run-1")));
        let container = &worker["template"]["spec"]["containers"][0];
        assert_eq!(container["resources"]["limits"]["memory"], "32Gi");
        assert_eq!(container["env"], json!([{"name": "LR", "value": "0.1"}]));
        assert_eq!(made["metadata"]["annotations"][ANNOTATION_FROM], "base");
    }

    #[test]
    fn every_fault_of_the_values_the_settings_and_the_job_is_reported_at_once() {
        let template = read(&saved(None, 2, Some(parameters())).unwrap().unwrap()).unwrap();
        let settings = ["workers=0", "slotz=1"].map(|text| Setting::read(text).unwrap()).to_vec();
        let values =
            [("rate", "fast"), ("memroy", "1Gi")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let using = Using { name: "Bad_Name".into(), values: BTreeMap::from(values), settings };
        let error = instantiate(&template, &using).unwrap_err();
        let paths: Vec<&str> = error.faults().iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(
            paths,
            ["memroy", "rate", "memory", "slotz", "metadata.name", "spec.mpiReplicaSpecs[Worker].replicas"]
        );
        assert_eq!(error.faults()[0].advice.as_deref(), Some("did you mean \"memory\"?"));
    }
}
