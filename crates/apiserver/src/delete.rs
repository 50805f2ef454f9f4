//! The verbs delete and deletecollection.
//!
//! Rules: apiserver `pkg/registry/rest/delete.go` (BeforeDelete), `pkg/registry/generic/registry/store.go`
//! (Delete, deletionFinalizersForGarbageCollection). An object with finalizers is marked and stays until the
//! last one is removed. A pod on a node stays for its grace period, until the kubelet deletes it with grace
//! period 0.

mod steps;

use std::sync::Arc;

use serde_json::{Value, json};

use self::steps::{Step, orphans_by_default, plan};
use super::admission::{self, Attributes};

use super::reply::Shown;
use super::request_context::RequestContext;
use super::selection::Selection;
use super::status::{self, About, BodyError, StatusError};
use super::versions;
use crate::store::{self, Record};
use objects::Kind;

/// The number of attempts to delete an object, in case of conflicts.
const MAX_ATTEMPTS: usize = 16;

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
