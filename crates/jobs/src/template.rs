//! Templates: manifests kept in the cluster, from which jobs are created.
//!
//! A template is a ConfigMap with the label [`LABEL`] and the manifest under [`KEY`], in a user's own namespace or in
//! [`SHARED`], where everybody with read access finds it. It holds a job as `export` prints it, without a namespace.
//! Under [`KEY_PARAMETERS`] it may have typed parameters. Saving under a name that exists makes a new version; the last
//! [`MAX_VERSIONS`] are kept, each under a key of its own. Kubernetes' access rules for ConfigMaps are those of templates.

mod parameter;

use std::collections::BTreeMap;

use futures::future;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, PostParams};
use kube::{Client, ResourceExt};
use semantics::is_subdomain;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rerun::{self, ANNOTATION_CLONED_FROM, ANNOTATION_RETRY_OF};
use crate::setting::{self, Setting};
use crate::submit::FIELD_MANAGER;
use crate::{Action, Advice, Attempt, Class, Error, Fault, Kind, export, manifest};

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
/// The maximum number of templates of a namespace.
pub const MAX_TEMPLATES: u32 = 200;
/// The number of ConfigMaps that are read at once for a list.
const CHUNK: usize = 4;
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
    /// The manifest; null in lists.
    #[serde(skip_serializing_if = "Value::is_null")]
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

/// Whether it is marked as a template.
fn is_template(kept: &ConfigMap) -> bool {
    let has_manifest = kept.data.as_ref().is_some_and(|data| data.contains_key(KEY));
    has_manifest && kept.labels().get(LABEL).is_some_and(|value| value == "true")
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
            None => {
                require_room(&api, namespace).await?;
                (api.create(&parameters, &next).await, "create")
            }
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

/// Refuses one more template than a namespace may have.
async fn require_room(api: &Api<ConfigMap>, namespace: &str) -> Result<(), Error> {
    // Who may create but not list them gets the server's answer.
    let Ok(page) = api.list_metadata(&of_templates().limit(MAX_TEMPLATES)).await else { return Ok(()) };
    if page.items.len() < MAX_TEMPLATES as usize {
        return Ok(());
    }
    Err(Error::Refused {
        class: Class::Quota,
        reason: "QuotaExceeded".to_owned(),
        message: format!("namespace \"{namespace}\" has {} templates", page.items.len()),
        advice: Some(format!("delete one that is no longer used: at most {MAX_TEMPLATES} are kept").into()),
        faults: Vec::new(),
    })
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
    if size(&data) > MAX_BYTES {
        return Err(Error::Invalid { faults: vec![too_large(&data)] });
    }
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
    while !numbers.is_empty() && (numbers.len() >= MAX_VERSIONS || size(data) > MAX_BYTES) {
        data.remove(&format!("{KEY_VERSION}{}", numbers.remove(0)));
    }
}

/// The bytes of everything that a ConfigMap holds.
fn size(data: &BTreeMap<String, String>) -> usize {
    data.iter().map(|(key, text)| key.len() + text.len()).sum()
}

fn too_large(data: &BTreeMap<String, String>) -> Fault {
    Fault {
        source: String::new(),
        position: None,
        path: "manifest".to_owned(),
        message: format!("takes {} KiB with its parameters", size(data).div_ceil(1024)),
        advice: Some(format!("a template has at most {} KiB; keep data in a volume", MAX_BYTES / 1024)),
    }
}

/// The numbers of the earlier versions, the oldest first.
fn earlier_versions(data: &BTreeMap<String, String>) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        data.keys().filter_map(|key| key.strip_prefix(KEY_VERSION)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Returns the templates of these namespaces without their manifests, in the order of [`names`].
///
/// # Errors
/// As [`names`].
pub async fn templates(client: &Client, namespaces: &[&str]) -> Result<Vec<Template>, Error> {
    let known = names(client, namespaces).await?;
    let mut found = Vec::new();
    for places in known.chunks(CHUNK) {
        let kept = places.iter().map(|(name, namespace)| stored(client, namespace, name, &known));
        let kept = future::try_join_all(kept).await?;
        found.extend(kept.into_iter().flatten().filter_map(|stored| stored.summary()));
    }
    Ok(found)
}

/// The name of a template, and its namespace.
pub type Place = (String, String);

/// Returns which templates there are in these namespaces, by name and namespace. Only a refusal for the first namespace is an
/// error; the others may be inaccessible.
///
/// # Errors
/// The server's refusal.
pub async fn names(client: &Client, namespaces: &[&str]) -> Result<Vec<Place>, Error> {
    let mut found: Vec<Place> = Vec::new();
    for (index, namespace) in namespaces.iter().enumerate() {
        match names_in(client, namespace).await {
            Ok(names) => found.extend(names.into_iter().map(|name| (name, (*namespace).to_owned()))),
            Err(error) if index == 0 => return Err(error),
            Err(_) => {}
        }
    }
    found.sort_unstable();
    Ok(found)
}

async fn names_in(client: &Client, namespace: &str) -> Result<Vec<String>, Error> {
    let attempt = Attempt { verb: "list", what: "configmaps", name: "", namespace };
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let (mut names, mut parameters) = (Vec::new(), of_templates().limit(paging::PAGE));
    for _ in 0..paging::MOST_PAGES {
        let page = api.list_metadata(&parameters).await;
        let page = page.map_err(|error| Error::from_kube(error, attempt))?;
        names.extend(page.items.iter().filter_map(name_of));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(names),
        }
    }
    Err(Error::Client(format!("namespace \"{namespace}\" has too many templates to list them")))
}

fn of_templates() -> ListParams {
    ListParams::default().labels(&format!("{LABEL}=true"))
}

/// A template as the cluster keeps it.
#[derive(Clone, Debug)]
pub struct Stored {
    kept: ConfigMap,
    hides_shared: bool,
}

impl Stored {
    /// The number of bytes that [`Stored::read`] reads at most.
    #[must_use]
    pub fn size(&self) -> usize {
        self.kept.data.as_ref().map_or(0, size)
    }

    /// Reads the newest version, or the one with this number. Pure.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such version, or it is not a job's manifest.
    pub fn read(&self, version: Option<u32>) -> Result<Template, Error> {
        let Self { kept, hides_shared } = self;
        let found = read_version(kept, version).ok_or_else(|| no_version(kept, version))?;
        Ok(Template { hides_shared: *hides_shared, ..found })
    }

    /// The number of bytes that [`Stored::summary`] reads slowly: those of a manifest that a person wrote as YAML.
    #[must_use]
    pub fn size_of_summary(&self) -> usize {
        let text = self.kept.data.as_ref().and_then(|data| data.get(KEY));
        text.filter(|text| kind_of_json(text).is_none()).map_or(0, String::len)
    }

    /// Reads the newest version without its manifest; `None` if it is not a job's. Pure.
    #[must_use]
    pub fn summary(&self) -> Option<Template> {
        let text = self.kept.data.as_ref()?.get(KEY)?;
        let kind = kind_of_json(text).or_else(|| kind_of(&document(text)?))?;
        let found = newest(&self.kept, kind, Value::Null)?;
        Some(Template { hides_shared: self.hides_shared, ..found })
    }
}

/// Returns one of the templates that are `known`, unless it was deleted meanwhile.
///
/// # Errors
/// The server's refusal.
pub async fn stored(
    client: &Client,
    namespace: &str,
    name: &str,
    known: &[Place],
) -> Result<Option<Stored>, Error> {
    let attempt = Attempt { verb: "list", what: "configmaps", name: "", namespace };
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let only = of_templates().fields(&format!("metadata.name={PREFIX}{name}"));
    let mut listed = api.list(&only).await.map_err(|error| Error::from_kube(error, attempt))?;
    let is_shared = |(other, of): &Place| other == name && of == SHARED;
    let hides_shared = namespace != SHARED && known.iter().any(is_shared);
    Ok(listed.items.pop().map(|kept| Stored { kept, hides_shared }))
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
    find(client, namespaces, name).await?.read(version)
}

/// As [`template`], without reading it. Only a refusal for the first namespace is an error.
///
/// # Errors
/// As [`template`].
pub async fn find(client: &Client, namespaces: &[&str], name: &str) -> Result<Stored, Error> {
    let (kept_name, mut found, mut hides_shared) = (format!("{PREFIX}{name}"), None, false);
    let places = if is_subdomain(&kept_name) { namespaces } else { &[] };
    for (index, namespace) in places.iter().enumerate() {
        let attempt = Attempt { verb: "get", what: "configmaps", name, namespace };
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let kept = match api.get_opt(&kept_name).await {
            Ok(kept) => kept.filter(is_template),
            Err(error) if index == 0 => return Err(Error::from_kube(error, attempt)),
            Err(_) => None,
        };
        match found {
            None => found = kept,
            Some(_) => hides_shared |= *namespace == SHARED && kept.is_some(),
        }
    }
    if let Some(kept) = found {
        return Ok(Stored { kept, hides_shared });
    }
    // Who may not list them gets no suggestion.
    let known = names(client, namespaces).await.unwrap_or_default();
    let known: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    let namespace = namespaces.first().copied().unwrap_or_default();
    Err(missing(namespace, name, manifest::nearest(name, &known)))
}

fn no_version(kept: &ConfigMap, version: Option<u32>) -> Error {
    let (name, newest) = (name_of(kept).unwrap_or_default(), newest_version(kept));
    let versions = kept.data.as_ref().map(|data| versions(data, newest)).unwrap_or_default();
    let (message, advice) = match version.filter(|version| !versions.contains(version)) {
        Some(version) => {
            let versions: Vec<String> = versions.iter().map(u32::to_string).collect();
            let message = format!("template \"{name}\" has no version {version}");
            (message, format!("it has: {}", versions.join(", ")))
        }
        None => {
            let message =
                format!("template \"{name}\" cannot be read: it does not hold the manifest of a job");
            (message, "save it again".to_owned())
        }
    };
    Error::Refused {
        class: Class::NotFound,
        reason: "NotFound".to_owned(),
        message,
        advice: Some(advice.into()),
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
    // Those that fit are in the job whose rules are checked.
    faults.extend(setting::apply(&mut manifest, template.kind, &settings));
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

fn name_of(kept: &impl ResourceExt) -> Option<String> {
    kept.name_any().strip_prefix(PREFIX).map(str::to_owned)
}

/// Reads the newest version; `None` if the ConfigMap is not a valid template.
fn read(kept: &ConfigMap) -> Option<Template> {
    read_version(kept, None)
}

fn read_version(kept: &ConfigMap, version: Option<u32>) -> Option<Template> {
    let data = kept.data.as_ref()?;
    if version.is_none_or(|version| version == newest_version(kept)) {
        let manifest = document(data.get(KEY)?)?;
        return newest(kept, kind_of(&manifest)?, manifest);
    }
    let text = data.get(&format!("{KEY_VERSION}{}", version?))?;
    let Earlier { description, parameters, manifest } = serde_json::from_str(text).ok()?;
    let kind = kind_of(&manifest)?;
    let version = version?;
    Some(Template { version, ..template_of(kept, kind, description, parameters, manifest)? })
}

/// Returns the newest version, whose manifest is read already.
fn newest(kept: &ConfigMap, kind: Kind, manifest: Value) -> Option<Template> {
    let parameters = match kept.data.as_ref()?.get(KEY_PARAMETERS) {
        Some(text) => serde_json::from_str(text).ok()?,
        None => Vec::new(),
    };
    let description = kept.annotations().get(ANNOTATION_DESCRIPTION).cloned().unwrap_or_default();
    template_of(kept, kind, description, parameters, manifest)
}

fn template_of(
    kept: &ConfigMap,
    kind: Kind,
    description: String,
    parameters: Vec<Parameter>,
    manifest: Value,
) -> Option<Template> {
    let version = newest_version(kept);
    Some(Template {
        name: name_of(kept)?,
        namespace: kept.namespace().unwrap_or_default(),
        version,
        versions: versions(kept.data.as_ref()?, version),
        kind,
        description,
        parameters,
        manifest,
        hides_shared: false,
    })
}

fn newest_version(kept: &ConfigMap) -> u32 {
    let version = kept.annotations().get(ANNOTATION_VERSION);
    version.and_then(|version| version.parse().ok()).unwrap_or(1)
}

/// The numbers of all versions, the oldest first.
fn versions(data: &BTreeMap<String, String>, newest: u32) -> Vec<u32> {
    let mut versions = earlier_versions(data);
    versions.retain(|number| *number < newest);
    versions.push(newest);
    versions
}

/// Reads a manifest: JSON, as it is saved, or YAML, as a person may write it.
fn document(text: &str) -> Option<Value> {
    let written =
        || manifest::read(text.as_bytes(), KEY).ok()?.first().map(|document| document.value.clone());
    serde_json::from_str(text).ok().or_else(written)
}

fn kind_of(manifest: &Value) -> Option<Kind> {
    Kind::named(manifest["kind"].as_str()?)
}

/// Reads the kind of a manifest in JSON, and nothing else of it.
fn kind_of_json(text: &str) -> Option<Kind> {
    #[derive(Deserialize)]
    struct Head {
        kind: String,
    }
    let Head { kind } = serde_json::from_str(text).ok()?;
    Kind::named(&kind)
}

#[cfg(test)]
mod tests;
