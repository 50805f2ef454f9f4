//! The verbs delete and deletecollection.
//!
//! Rules: apiserver `pkg/registry/rest/delete.go` (BeforeDelete), `pkg/registry/generic/registry/store.go`
//! (Delete, deletionFinalizersForGarbageCollection). An object with finalizers is marked and stays until the
//! last one is removed. A pod on a node stays for its grace period, until the kubelet deletes it with grace
//! period 0.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::admission::{self, Attributes};
use super::definitions;
use super::reply::Shown;
use super::request_context::RequestContext;
use super::selection::Selection;
use super::status::{self, About, BodyError, StatusError};
use super::versions;
use crate::store::{self, Record};
use objects::Kind;

/// The number of attempts to delete an object, in case of conflicts.
const MAX_ATTEMPTS: usize = 16;
/// The default `terminationGracePeriodSeconds` of a pod.
const DEFAULT_GRACE_SECONDS: i64 = 30;
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// `metav1.DeleteOptions`, from the body and the query.
#[derive(Debug, Clone, Default)]
pub struct Options {
    grace_period_seconds: Option<i64>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    uid: Option<String>,
    resource_version: Option<String>,
    dry_run: bool,
}

/// The result of a deletion.
#[derive(Debug)]
pub enum Deletion {
    /// Deleted; this was its last state.
    Gone(Shown),
    /// Marked for deletion.
    Marked(Shown),
}

impl Options {
    /// Returns whether this is a dry run.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Parses the options. A body, if there is one, overrides the query.
    ///
    /// # Errors
    /// 400 and 422.
    pub fn parse(context: &RequestContext<'_>, body: Option<&Value>) -> Result<Self, StatusError> {
        let query = &context.query;
        let mut options = Self {
            grace_period_seconds: query.grace_period_seconds,
            propagation_policy: query.propagation_policy.clone(),
            orphan_dependents: query.orphan_dependents,
            dry_run: query.dry_run,
            ..Self::default()
        };
        if let Some(body) = body.filter(|body| body.is_object()) {
            let body = delete_options(body)?;
            let text = |value: &Value| value.as_str().map(str::to_owned);
            options = Self {
                grace_period_seconds: body["gracePeriodSeconds"].as_i64(),
                propagation_policy: text(&body["propagationPolicy"]),
                orphan_dependents: body["orphanDependents"].as_bool(),
                uid: text(&body["preconditions"]["uid"]),
                resource_version: text(&body["preconditions"]["resourceVersion"]),
                dry_run: super::query::dry_run(body["dryRun"][0].as_str())?,
            };
        }
        options.check()?;
        Ok(options)
    }

    /// Returns the options without preconditions, which apply to a single object.
    fn for_each(&self) -> Self {
        Self { uid: None, resource_version: None, ..self.clone() }
    }

    /// Returns the options as `meta.k8s.io/v1` DeleteOptions.
    fn to_value(&self) -> Value {
        let mut value = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        if let Some(seconds) = self.grace_period_seconds {
            value["gracePeriodSeconds"] = seconds.into();
        }
        if let Some(policy) = &self.propagation_policy {
            value["propagationPolicy"] = policy.as_str().into();
        }
        if let Some(orphan) = self.orphan_dependents {
            value["orphanDependents"] = orphan.into();
        }
        for (field, condition) in [("uid", &self.uid), ("resourceVersion", &self.resource_version)] {
            if let Some(condition) = condition {
                value["preconditions"][field] = condition.as_str().into();
            }
        }
        if self.dry_run {
            value["dryRun"] = json!(["All"]);
        }
        value
    }

    fn check(&self) -> Result<(), StatusError> {
        let refuse = |reason: &str, detail: String, field: &str| {
            let about = About { group: "meta.k8s.io", resource: "DeleteOptions", name: "" };
            Err(status::invalid(about, &[(reason.to_owned(), detail, field.to_owned())]))
        };
        match self.propagation_policy.as_deref() {
            None | Some("Foreground" | "Background" | "Orphan") => {}
            Some(other) => {
                let detail = format!(
                    "Unsupported value: \"{other}\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
                );
                return refuse("FieldValueNotSupported", detail, "propagationPolicy");
            }
        }
        if self.propagation_policy.is_some() && self.orphan_dependents.is_some() {
            let policy = self.propagation_policy.as_deref().unwrap_or_default();
            let detail = format!(
                "Invalid value: {policy:?}: orphanDependents and deletionPropagation cannot be both set"
            );
            return refuse("FieldValueInvalid", detail, "propagationPolicy");
        }
        Ok(())
    }
}

/// Deletes the object in the path.
///
/// # Errors
/// 403, 404, 409.
pub async fn delete(context: &RequestContext<'_>, options: &Options) -> Result<Deletion, StatusError> {
    warn_of_orphans(context, options);
    let record = context
        .server
        .store
        .get(&context.entry.resource, &context.key())
        .ok_or_else(|| status::not_found(context.about()))?;
    delete_record(context, options, record).await
}

/// Deletes every object that matches the selectors. Objects that others delete meanwhile are no error.
///
/// # Errors
/// 400 for invalid selectors; the first error of an object.
pub async fn delete_collection(
    context: &RequestContext<'_>,
    options: &Options,
) -> Result<Vec<Arc<Record>>, StatusError> {
    let selection = Selection::of_list(&context.entry.kind, &context.query)?;
    let mut deleted = context.server.store.list(&context.entry.resource, context.action.namespace).records;
    deleted.retain(|record| selection.matches(&record.value()));
    warn_of_orphans(context, options);
    for record in &deleted {
        match delete_record(context, &options.for_each(), record.clone()).await {
            Err(refusal) if refusal.code == 404 => {}
            result => {
                result?;
            }
        }
    }
    Ok(deleted)
}

/// Writes the response (`endpoints/handlers/delete.go`): some kinds return the object, most a `Status`.
pub fn answer(
    context: &RequestContext<'_>,
    outcome: Deletion,
) -> Result<http::Response<super::reply::Body>, StatusError> {
    const RETURNED: [&str; 8] = [
        "pods",
        "services",
        "serviceaccounts",
        "persistentvolumes",
        "persistentvolumeclaims",
        "resourcequotas",
        "storageclasses",
        "namespaces",
    ];
    match outcome {
        Deletion::Marked(shown) => super::reply::object(context, 200, &shown),
        Deletion::Gone(shown)
            if RETURNED.contains(&context.entry.kind.plural.as_str())
                && context.action.subresource.is_empty() =>
        {
            super::reply::object(context, 200, &shown)
        }
        Deletion::Gone(shown) => {
            let value = shown.value();
            let uid = value["metadata"]["uid"].as_str().unwrap_or_default();
            Ok(super::reply::json_value(200, &status::deleted(context.about(), uid)))
        }
    }
}

async fn delete_record(
    context: &RequestContext<'_>,
    options: &Options,
    first: Arc<Record>,
) -> Result<Deletion, StatusError> {
    let mut record = first;
    for _ in 0..MAX_ATTEMPTS {
        let name = record.value()["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        // Namespaces have a deletion of their own, and its errors name the resource
        // (`pkg/registry/core/namespace/storage`).
        let is_namespace = context.entry.kind.is("", "Namespace");
        let about = if is_namespace { context.about_name(&name) } else { of_kind(context, &name) };
        check_preconditions(about, options, &record.value(), is_namespace)?;
        refuse_protected(context, &name)?;
        admit(context, options, &name, &record.value()).await?;
        let mut next = versions::read(&context.entry.kind, &record.value()).into_owned();
        let step = plan(&context.entry.kind, options, &mut next, context.now);
        let store = &context.server.store;
        if options.dry_run || step == Step::Nothing {
            let shown =
                if step == Step::Nothing { Shown::Stored(record) } else { Shown::Draft(Arc::new(next)) };
            return Ok(if step == Step::Remove { Deletion::Gone(shown) } else { Deletion::Marked(shown) });
        }
        let result = match step {
            Step::Remove if is_marked_first(&context.entry.kind, &record.value()) => {
                mark_and_remove(context, &record, next).await
            }
            Step::Remove => {
                // An object that is deleted immediately is reported as stored, including the finalizers that
                // this deletion would have removed (`errDeleteNow`). A namespace is marked first.
                let last = if context.entry.kind.is("", "Namespace") { next } else { record.to_value() };
                let removed = store.remove(&context.entry.resource, &record.key, record.revision, last).await;
                removed.map(|record| Deletion::Gone(Shown::Stored(record)))
            }
            Step::Mark | Step::Nothing => store
                .replace(&context.entry.resource, &record.key, record.revision, next)
                .await
                .map(|record| Deletion::Marked(Shown::Stored(record))),
        };
        match result {
            Ok(outcome) => {
                admission::quota::changed(context.server, record.value()["metadata"]["namespace"].as_str());
                return Ok(outcome);
            }
            Err(store::Error::Changed(present)) => record = present,
            Err(store::Error::Missing) => return Err(status::not_found(context.about_name(&name))),
            Err(error) => return Err(status::unwritten(error)),
        }
    }
    Err(status::conflict(context.about(), status::OUTDATED))
}

/// Returns whether an object is marked before it is removed immediately, so that watchers see the mark: only
/// for kinds with graceful deletion, and only if the grace period isn't over (`BeforeDelete`).
fn is_marked_first(kind: &Kind, value: &Value) -> bool {
    let metadata = &value["metadata"];
    let is_over = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() == 0;
    kind.is("", "Pod") && (metadata["deletionTimestamp"].is_null() || !is_over)
}

/// Marks the object, then removes it.
async fn mark_and_remove(
    context: &RequestContext<'_>,
    record: &Record,
    marked: Value,
) -> Result<Deletion, store::Error> {
    let (store, resource) = (&context.server.store, &context.entry.resource);
    let mut last = store.replace(resource, &record.key, record.revision, marked).await?;
    for _ in 0..MAX_ATTEMPTS {
        match store.remove(resource, &last.key, last.revision, last.to_value()).await {
            Ok(record) => return Ok(Deletion::Gone(Shown::Stored(record))),
            Err(store::Error::Changed(present)) => last = present,
            // Another client removed it meanwhile, which is what the request asked for.
            Err(store::Error::Missing) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(Deletion::Gone(Shown::Stored(last)))
}

/// Runs admission for a deletion. An eviction has been admitted already.
async fn admit(
    context: &RequestContext<'_>,
    options: &Options,
    name: &str,
    value: &Value,
) -> Result<(), StatusError> {
    if context.action.subresource == "eviction" {
        return Ok(());
    }
    let old = versions::served(&context.entry.kind, value);
    let at = Attributes::of_deletion(context, name, options.to_value(), options.dry_run);
    admission::mutate(&at, &mut Value::Null, Some(&old)).await?;
    admission::validate(&at, None, Some(&old)).await.map(|_| ())
}

/// What to do with an object now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It is being deleted already, and no later than requested.
    Nothing,
    /// Mark it and keep it.
    Mark,
    /// Remove it.
    Remove,
}

fn plan(kind: &Kind, options: &Options, next: &mut Value, now: Timestamp) -> Step {
    if kind.is("", "Namespace") {
        return plan_namespace(kind, options, next, now);
    }
    let finalizers_changed = set_garbage_finalizers(kind, options, next) | set_cleanup_finalizer(kind, next);
    let has_finalizers = next["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    if kind.is("", "Pod") {
        return plan_pod(options, next, now, has_finalizers, finalizers_changed);
    }
    if !has_finalizers {
        return Step::Remove;
    }
    let is_marked = !next["metadata"]["deletionTimestamp"].is_null();
    if is_marked && !finalizers_changed {
        return Step::Nothing;
    }
    mark(next, now, 0);
    Step::Mark
}

fn plan_pod(
    options: &Options,
    next: &mut Value,
    now: Timestamp,
    has_finalizers: bool,
    finalizers_changed: bool,
) -> Step {
    let asked = options.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let marked = !next["metadata"]["deletionTimestamp"].is_null();
    let current = next["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    let grace = if marked { asked.unwrap_or(current).min(current) } else { pod_grace(asked, next) };
    if marked && current > 0 && grace == current {
        // The running deletion cannot be changed otherwise (`BeforeDelete`).
        return Step::Nothing;
    }
    let is_last = grace == 0 && !has_finalizers;
    if marked && grace == current && !finalizers_changed {
        return if is_last { Step::Remove } else { Step::Nothing };
    }
    if marked {
        // A grace period can only be shortened; it starts at the first deletion (`BeforeDelete`).
        let from =
            next["metadata"]["deletionTimestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
        let end = from.unwrap_or(now).checked_sub(SignedDuration::from_secs(current)).unwrap_or(now);
        let end = end.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
        next["metadata"]["deletionTimestamp"] = objects::timestamp(end).into();
        next["metadata"]["deletionGracePeriodSeconds"] = grace.into();
    } else {
        mark(next, now, grace);
    }
    if is_last { Step::Remove } else { Step::Mark }
}

/// `pkg/registry/core/pod/strategy.go`, CheckGracefulDelete.
fn pod_grace(asked: Option<i64>, pod: &Value) -> i64 {
    let is_assigned = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    if !is_assigned || semantics::has_ended(pod) {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64();
    let grace = asked.or(own).unwrap_or(DEFAULT_GRACE_SECONDS);
    if grace < 0 { 1 } else { grace }
}

/// `pkg/registry/core/namespace/storage/storage.go`, Delete.
fn plan_namespace(kind: &Kind, options: &Options, next: &mut Value, now: Timestamp) -> Step {
    let is_empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    if next["metadata"]["deletionTimestamp"].is_null() {
        set_garbage_finalizers(kind, options, next);
        next["metadata"]["deletionTimestamp"] = objects::timestamp(now).into();
        next["status"]["phase"] = "Terminating".into();
        return if is_empty(&next["spec"]["finalizers"]) && is_empty(&next["metadata"]["finalizers"]) {
            Step::Remove
        } else {
            Step::Mark
        };
    }
    if is_empty(&next["spec"]["finalizers"]) && is_empty(&next["metadata"]["finalizers"]) {
        return Step::Remove;
    }
    Step::Nothing
}

fn mark(next: &mut Value, now: Timestamp, grace: i64) {
    let metadata = &mut next["metadata"];
    if metadata["deletionTimestamp"].is_null() {
        let end = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
        metadata["deletionTimestamp"] = objects::timestamp(end).into();
        if let Some(generation) = metadata["generation"].as_i64() {
            metadata["generation"] = (generation + 1).into();
        }
    }
    metadata["deletionGracePeriodSeconds"] = grace.into();
}

/// Adds or removes the finalizers that tell the garbage collector how to handle dependents. Returns whether
/// they changed.
fn set_garbage_finalizers(kind: &Kind, options: &Options, next: &mut Value) -> bool {
    let own = next["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let has = |name: &str| own.iter().any(|finalizer| finalizer == name);
    let (orphan, foreground) = match (options.propagation_policy.as_deref(), options.orphan_dependents) {
        // Events have no dependents (`eventStrategy.DefaultGarbageCollectionPolicy`).
        _ if kind.kind == "Event" && kind.is_builtin() => (false, false),
        (Some("Orphan"), _) | (None, Some(true)) => (true, false),
        (Some("Foreground"), _) => (false, true),
        (Some(_), _) | (None, Some(false)) => (false, false),
        (None, None) if has(ORPHAN) => (true, false),
        (None, None) if has(FOREGROUND) => (false, true),
        (None, None) => (orphans_by_default(kind), false),
    };
    let mut wanted = own
        .iter()
        .filter(|finalizer| *finalizer != ORPHAN && *finalizer != FOREGROUND)
        .cloned()
        .collect::<Vec<_>>();
    if orphan {
        wanted.push(ORPHAN.into());
    }
    if foreground {
        wanted.push(FOREGROUND.into());
    }
    if wanted == own {
        return false;
    }
    if wanted.is_empty()
        && let Some(metadata) = next["metadata"].as_object_mut()
    {
        metadata.remove("finalizers");
    } else {
        next["metadata"]["finalizers"] = json!(wanted);
    }
    true
}

/// Adds the finalizer that keeps a CustomResourceDefinition until its objects are gone.
fn set_cleanup_finalizer(kind: &Kind, next: &mut Value) -> bool {
    let is_marked = !next["metadata"]["deletionTimestamp"].is_null();
    if is_marked || !kind.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        return false;
    }
    let mut finalizers = next["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.push(definitions::CLEANUP_FINALIZER.into());
    next["metadata"]["finalizers"] = finalizers.into();
    true
}

/// Deleting a Job orphans its pods by default (`jobStrategy.DefaultGarbageCollectionPolicy`).
fn orphans_by_default(kind: &Kind) -> bool {
    kind.is("batch", "Job")
}

fn warn_of_orphans(context: &RequestContext<'_>, options: &Options) {
    if orphans_by_default(&context.entry.kind)
        && options.propagation_policy.is_none()
        && options.orphan_dependents.is_none()
    {
        context.warn(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
             them or set propagationPolicy=Orphan to suppress this warning",
        );
    }
}

/// Identifies an object as errors of the store do: by kind instead of resource.
fn of_kind<'a>(context: &'a RequestContext<'_>, name: &'a str) -> About<'a> {
    // Events are stored as those of the core group.
    let group = if context.entry.kind.kind == "Event" { "" } else { &context.entry.kind.group };
    About { group, resource: &context.entry.kind.kind, name }
}

fn check_preconditions(
    about: About<'_>,
    options: &Options,
    value: &Value,
    is_namespace: bool,
) -> Result<(), StatusError> {
    let own = &value["metadata"];
    let checks = [
        ("UID", &options.uid, "uid", "The object might have been deleted and then recreated"),
        (
            "ResourceVersion",
            &options.resource_version,
            "resourceVersion",
            "The object might have been modified",
        ),
    ];
    for (what, wanted, field, perhaps) in checks {
        let found = own[field].as_str().unwrap_or_default();
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
            let why = if is_namespace {
                format!(
                    "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
                )
            } else {
                format!(
                    "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). {perhaps}"
                )
            };
            return Err(status::conflict(about, &why));
        }
    }
    Ok(())
}

fn refuse_protected(context: &RequestContext<'_>, name: &str) -> Result<(), StatusError> {
    let is_protected = matches!(name, "default" | "kube-system" | "kube-public");
    if context.entry.kind.is("", "Namespace") && is_protected {
        return Err(status::forbidden(context.about_name(name), "this namespace may not be deleted"));
    }
    Ok(())
}

/// Decodes the options of a deletion.
///
/// # Errors
/// 400 for a value of the wrong type.
fn delete_options(options: &Value) -> Result<Value, StatusError> {
    // An Eviction has such options as one of its fields.
    let Some(kind) = objects::accepted_kind("policy", "Eviction") else { return Ok(options.clone()) };
    let mut holder = json!({"deleteOptions": options});
    objects::decode(kind, &mut holder).map_err(|error| {
        let why = error.to_string().replace("DeleteOptions.deleteOptions.", "DeleteOptions.");
        BodyError::of("DeleteOptions", "v1", "DeleteOptions", why)
    })?;
    Ok(holder["deleteOptions"].take())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(value: Value) -> Value {
        let mut pod = json!({"metadata": {"name": "p", "generation": 1}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        json_patch::merge(&mut pod, &value);
        pod
    }

    #[test]
    fn pods_are_deleted_gracefully() {
        let Some(kind) = objects::builtin_kind("", "Pod") else { panic!("pods are not served") };
        let now = Timestamp::UNIX_EPOCH;
        let options = |seconds| Options { grace_period_seconds: seconds, ..Options::default() };
        let marked = json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}});
        let table = [
            (pod(json!({})), None, Step::Mark, json!("1970-01-01T00:00:30Z")),
            (pod(json!({})), Some(0), Step::Remove, json!("1970-01-01T00:00:00Z")),
            (pod(json!({"spec": {"nodeName": null}})), None, Step::Remove, json!("1970-01-01T00:00:00Z")),
            (
                pod(json!({"status": {"phase": "Failed"}})),
                Some(9),
                Step::Remove,
                json!("1970-01-01T00:00:00Z"),
            ),
            (pod(marked.clone()), None, Step::Nothing, json!("1970-01-01T00:00:30Z")),
            (pod(marked.clone()), Some(60), Step::Nothing, json!("1970-01-01T00:00:30Z")),
            (pod(marked.clone()), Some(5), Step::Mark, json!("1970-01-01T00:00:05Z")),
            (pod(marked), Some(0), Step::Remove, json!("1970-01-01T00:00:00Z")),
            (
                pod(json!({"metadata": {"finalizers": ["x/y"]}})),
                Some(0),
                Step::Mark,
                json!("1970-01-01T00:00:00Z"),
            ),
        ];
        for (mut value, seconds, step, end) in table {
            let before = value.clone();
            assert_eq!(plan(kind, &options(seconds), &mut value, now), step, "{before} {seconds:?}");
            assert_eq!(value["metadata"]["deletionTimestamp"], end, "{before} {seconds:?}");
        }
    }

    #[test]
    fn propagation_policies_become_finalizers() {
        let Some(job) = objects::builtin_kind("batch", "Job") else { panic!("jobs are not served") };
        let Some(map) = objects::builtin_kind("", "ConfigMap") else { panic!("configmaps are not served") };
        let policy = |policy: Option<&str>| Options {
            propagation_policy: policy.map(Into::into),
            ..Options::default()
        };
        let table = [
            (&job, None, json!(["orphan"])),
            (&job, Some("Background"), Value::Null),
            (&map, None, Value::Null),
            (&map, Some("Foreground"), json!(["foregroundDeletion"])),
            (&map, Some("Orphan"), json!(["orphan"])),
        ];
        for (kind, name, finalizers) in table {
            let mut value = json!({"metadata": {"name": "x"}});
            set_garbage_finalizers(kind, &policy(name), &mut value);
            assert_eq!(value["metadata"]["finalizers"], finalizers, "{kind:?} {name:?}");
        }
    }
}
