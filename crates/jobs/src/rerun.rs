//! Runs a job again, unchanged (`retry`) or with changes (`clone`). Both create a new job from the old one's manifest.
//!
//! A retry keeps the old job, so that its record stays and the two can be compared. The new job is named
//! `NAME-retry-2`, then `-3`, and its annotations name the job that it repeats. With `replace`, the old job is deleted
//! first and the new one takes its name; the record is deleted with the old job.

use kube::Client;
use kube::api::{DynamicObject, ListParams};
use kube::{ResourceExt, api::PostParams};
use serde_json::{Value, json};

use crate::delete::{self, Manner};
use crate::mistyped::{Mistyped, typed};
use crate::setting::{self, Setting};
use crate::submit::{self, FIELD_MANAGER};
use crate::view::JobAction;
use crate::{Action, Advice, Attempt, Class, Error, Fault, Kind, export, list, manifest, view};

/// Annotation of a job that repeats another: the first job's name.
pub const ANNOTATION_RETRY_OF: &str = "training.opendatahub.io/retry-of";
/// Annotation of a job that was cloned from another: that job's name.
pub const ANNOTATION_CLONED_FROM: &str = "training.opendatahub.io/cloned-from";
/// The longest name that leaves room for a Worker's suffix in a host name of 63 characters.
const MAX_NAME: usize = 50;
/// The maximum number of names to try.
const MAX_TRIES: u32 = 1000;

/// How to run a job again.
#[derive(Clone, Debug, Default)]
pub struct Rerun {
    /// The new job's name; generated if not given.
    pub name: Option<String>,
    /// Delete the old job first, in this way, and take its name.
    pub replace: Option<Manner>,
    /// A JSON merge patch (RFC 7386) on the spec, applied before the settings.
    pub patch: Option<Value>,
    /// The changes to make.
    pub settings: Vec<Setting>,
    /// Make the server validate the job without creating it.
    pub dry_run: bool,
    /// The id of the request that this is for, which the new job has as an annotation.
    pub request: Option<String>,
}

/// Creates a job that repeats an ended one.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Refused`] if the job has not ended, or the server's refusal.
pub async fn retry(
    client: &Client,
    kind: Kind,
    namespace: &str,
    name: &str,
    rerun: &Rerun,
) -> Result<DynamicObject, Error> {
    let old = list::get(client, kind, namespace, name).await?;
    if !view::row(&old).permits(JobAction::Retry) {
        return Err(Error::Refused {
            class: Class::Conflict,
            reason: "NotEnded".to_owned(),
            message: format!("{} \"{name}\" has not ended", kind.name()),
            advice: Some(
                Advice::from("wait for it, cancel it, or run a copy")
                    .with(Action::Wait(kind.job(namespace, name)))
                    .with(Action::Cancel(kind.job(namespace, name)))
                    .with(Action::Clone(kind.job(namespace, name))),
            ),
            faults: Vec::new(),
        });
    }
    let first = old.annotations().get(ANNOTATION_RETRY_OF).cloned().unwrap_or_else(|| name.to_owned());
    let new_name = match (&rerun.name, rerun.replace) {
        (Some(name), _) => name.clone(),
        (None, Some(_)) => name.to_owned(),
        (None, None) => free_name(client, kind, namespace, &first, "retry").await?,
    };
    let origin = (new_name != name).then_some((ANNOTATION_RETRY_OF, first.as_str()));
    let mut manifest = renamed(export::manifest(&old), &new_name, origin);
    note_request(&mut manifest, rerun);
    let manifest = changed(manifest, kind, rerun.patch.as_ref(), &rerun.settings)?;
    checked(kind, &manifest)?;
    if let (Some(manner), false) = (rerun.replace, rerun.dry_run) {
        delete::delete(client, kind, namespace, name, manner).await?;
    }
    create(client, kind, namespace, &manifest, rerun.dry_run).await
}

/// Creates a job from another, whatever that one's state.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Invalid`] if the changed job cannot be valid, or the server's refusal.
pub async fn clone(
    client: &Client,
    kind: Kind,
    namespace: &str,
    name: &str,
    rerun: &Rerun,
) -> Result<DynamicObject, Error> {
    let old = list::get(client, kind, namespace, name).await?;
    let new_name = match &rerun.name {
        Some(name) => name.clone(),
        None => free_name(client, kind, namespace, name, "clone").await?,
    };
    let mut manifest = renamed(export::manifest(&old), &new_name, Some((ANNOTATION_CLONED_FROM, name)));
    note_request(&mut manifest, rerun);
    let manifest = changed(manifest, kind, rerun.patch.as_ref(), &rerun.settings)?;
    checked(kind, &manifest)?;
    create(client, kind, namespace, &manifest, rerun.dry_run).await
}

/// Changes a manifest: first its spec by a JSON merge patch, then the settings. Pure.
///
/// # Errors
/// [`Error::Invalid`] with every change that cannot be made.
pub fn changed(
    mut manifest: Value,
    kind: Kind,
    patch: Option<&Value>,
    settings: &[Setting],
) -> Result<Value, Error> {
    let mut faults = Vec::new();
    match patch {
        None => {}
        Some(patch @ Value::Object(_)) => json_patch::merge(&mut manifest["spec"], patch),
        Some(_) => faults.push(Fault {
            source: String::new(),
            position: None,
            path: "patch".to_owned(),
            message: "is not an object".to_owned(),
            advice: Some("give the fields of the spec that change, and null for those to remove".to_owned()),
        }),
    }
    match setting::set(manifest, kind, settings) {
        Ok(manifest) if faults.is_empty() => Ok(manifest),
        Ok(_) => Err(Error::Invalid { faults }),
        Err(Error::Invalid { faults: more }) => {
            faults.extend(more);
            Err(Error::Invalid { faults })
        }
        Err(other) => Err(other),
    }
}

/// How a job came from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It repeats the other.
    Retry,
    /// It was copied from the other.
    Clone,
}

/// Returns the name of the job that a job repeats or was copied from, if it came from another.
pub fn origin(job: &DynamicObject) -> Option<(How, &str)> {
    let annotation = |name: &str| job.annotations().get(name).map(String::as_str);
    let retry = annotation(ANNOTATION_RETRY_OF).map(|name| (How::Retry, name));
    retry.or_else(|| annotation(ANNOTATION_CLONED_FROM).map(|name| (How::Clone, name)))
}

/// Returns the job's family: the first job and all that repeat it, oldest first.
///
/// # Errors
/// The server's refusal to list.
pub async fn family(
    client: &Client,
    kind: Kind,
    namespace: &str,
    name: &str,
) -> Result<Vec<DynamicObject>, Error> {
    let job = list::get(client, kind, namespace, name).await?;
    let first = job.annotations().get(ANNOTATION_RETRY_OF).cloned().unwrap_or_else(|| name.to_owned());
    let selection = list::Selection { kind: Some(kind), namespace: Some(namespace.to_owned()), labels: None };
    let mut found = list::list(client, &selection).await?;
    found.retain(|job| {
        job.name_any() == first || job.annotations().get(ANNOTATION_RETRY_OF).is_some_and(|of| *of == first)
    });
    found.sort_by_key(|job| (job.creation_timestamp(), job.name_any()));
    Ok(found)
}

/// Checks jobs of our kind by our rules; for other kinds, only the server knows the rules.
pub(crate) fn checked(kind: Kind, written: &Value) -> Result<(), Error> {
    if kind != Kind::MpiJob {
        return Ok(());
    }
    // By the schema too: an unknown field would be dropped without a word.
    let documents = manifest::read(written.to_string().as_bytes(), "")?;
    let unplaced = |fault: Fault| Fault { position: None, source: String::new(), ..fault };
    let faults: Vec<Fault> = documents.iter().flat_map(manifest::check_fields).map(unplaced).collect();
    if !faults.is_empty() {
        return Err(Error::Invalid { faults });
    }
    let job = typed(written.clone()).map_err(|Mistyped { path, fault, fix }| Error::Invalid {
        faults: vec![Fault {
            source: String::new(),
            position: None,
            path,
            message: fault,
            advice: (!fix.is_empty()).then_some(fix),
        }],
    })?;
    submit::check(job).map(|_| ())
}

/// Renames the manifest and annotates its origin.
pub(crate) fn renamed(mut manifest: Value, name: &str, origin: Option<(&str, &str)>) -> Value {
    manifest["metadata"]["name"] = name.into();
    if let Some(annotations) = manifest["metadata"].get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION_CLONED_FROM);
        annotations.remove(ANNOTATION_RETRY_OF);
    }
    if let Some((annotation, from)) = origin {
        annotate(&mut manifest, annotation, from);
    }
    manifest
}

fn note_request(manifest: &mut Value, rerun: &Rerun) {
    if let Some(request) = &rerun.request {
        annotate(manifest, api::ANNOTATION_REQUEST, request);
    }
}

fn annotate(manifest: &mut Value, name: &str, value: &str) {
    if let Some(metadata) = manifest["metadata"].as_object_mut()
        && let Some(annotations) = metadata.entry("annotations").or_insert_with(|| json!({})).as_object_mut()
    {
        annotations.insert(name.to_owned(), value.into());
    }
}

async fn free_name(
    client: &Client,
    kind: Kind,
    namespace: &str,
    base: &str,
    word: &str,
) -> Result<String, Error> {
    let attempt = Attempt { verb: "list", what: kind.names(), name: "", namespace };
    let listed = kind.api(client, namespace).list_metadata(&ListParams::default()).await;
    let listed = listed.map_err(|error| Error::from_kube(error, attempt))?;
    let taken: Vec<String> = listed.items.iter().map(ResourceExt::name_any).collect();
    Ok(next_name(base, word, &taken))
}

/// Returns `BASE-retry-2`, or the next free number.
fn next_name(base: &str, word: &str, taken: &[String]) -> String {
    let stem = base.get(..base.len().min(MAX_NAME)).unwrap_or(base).trim_end_matches(['-', '.']);
    let first = if word == "retry" { 2 } else { 1 };
    let of = |number: u32| format!("{stem}-{word}-{number}");
    (first..first + MAX_TRIES).map(of).find(|name| !taken.contains(name)).unwrap_or_else(|| of(MAX_TRIES))
}

pub(crate) async fn create(
    client: &Client,
    kind: Kind,
    namespace: &str,
    manifest: &Value,
    dry_run: bool,
) -> Result<DynamicObject, Error> {
    let object: DynamicObject =
        serde_json::from_value(manifest.clone()).map_err(|error| Error::Client(error.to_string()))?;
    let name = object.name_any();
    let parameters = PostParams { dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) };
    let attempt = Attempt { verb: "create", what: kind.names(), name: &name, namespace };
    let created = kind.api(client, namespace).create(&parameters, &object).await;
    created.map_err(|error| Error::from_kube(error, attempt))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_is_numbered_and_never_takes_a_name() {
        let taken = ["pi".to_owned(), "pi-retry-2".to_owned()];
        assert_eq!(next_name("pi", "retry", &taken), "pi-retry-3");
        assert_eq!(next_name("pi", "clone", &taken), "pi-clone-1");
        let long = "a".repeat(60);
        assert!(next_name(&long, "retry", &[]).len() < 63);
    }

    #[test]
    fn a_merge_patch_changes_and_removes_fields_before_the_settings() {
        let manifest = json!({"kind": "MPIJob", "spec": {"slotsPerWorker": 1, "runPolicy": {"backoffLimit": 3, "cleanPodPolicy": "All"}}});
        let patch = json!({"slotsPerWorker": 2, "runPolicy": {"backoffLimit": null}});
        let slots = [Setting::read("slots=4").unwrap()];
        let found = changed(manifest.clone(), Kind::MpiJob, Some(&patch), &slots).unwrap();
        assert_eq!(found["spec"], json!({"slotsPerWorker": 4, "runPolicy": {"cleanPodPolicy": "All"}}));
        let wrong = [Setting::read("slotz=4").unwrap()];
        let error = changed(manifest, Kind::MpiJob, Some(&json!(7)), &wrong).unwrap_err();
        assert_eq!(
            error.faults().iter().map(|fault| fault.path.as_str()).collect::<Vec<_>>(),
            ["patch", "slotz"]
        );
    }
}
