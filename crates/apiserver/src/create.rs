//! create: decode → default → mutating admission → prepare → validate → validating admission → commit.
//!
//! Rules: apiserver `pkg/endpoints/handlers/create.go`, `pkg/registry/rest/create.go`, and the admission
//! plug-in NamespaceLifecycle.

use std::sync::Arc;

use serde_json::Value;

use super::admission::{self, Attributes, Operation};
use super::auth::escalation;
use super::body::Decoded;
use super::generated_names::{generated_prefix, named};
use super::reply::Shown;
use super::request_context::RequestContext;
use super::status::{self, About, StatusError};
use super::{decoding, managed, owners, service_accounts, services, type_meta, versions};
use crate::store::{self, Key, Resource};

/// The number of names to try for `generateName` (KEP-4420).
const MAX_GENERATED_NAMES: usize = 8;
/// Metadata that only the server sets.
const SERVERS: [&str; 5] =
    ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"];

/// Why an object was not created.
pub enum CreateError {
    /// 409: another object has the name.
    NameTaken(StatusError),
    /// Any other error.
    Refused(StatusError),
}

impl From<StatusError> for CreateError {
    fn from(refusal: StatusError) -> Self {
        CreateError::Refused(refusal)
    }
}

impl From<CreateError> for StatusError {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::NameTaken(refusal) | CreateError::Refused(refusal) => refusal,
        }
    }
}

/// Creates an object from a request's body.
///
/// # Errors
/// 400, 403, 404 for the namespace, 409, 422.
pub async fn create(context: &RequestContext<'_>, decoded: Decoded) -> Result<Shown, StatusError> {
    let kind = &context.entry.kind;
    let mut value = decoded.value;
    type_meta::check_type(context, &mut value)?;
    let warnings =
        decoding::drop_unknown(kind, &mut value, &decoded.duplicates, context.query.field_validation)?;
    warnings.into_iter().for_each(|warning| context.warn(warning));
    check_namespace_field(context, &mut value)?;
    admit_into_namespace(context)?;
    Ok(complete(context, value).await?)
}

/// Creates an object whose type and namespace have been checked.
///
/// # Errors
/// Same as [`create`].
pub async fn complete(context: &RequestContext<'_>, mut value: Value) -> Result<Shown, CreateError> {
    let metadata = decoding::metadata(&mut value)?;
    let version = metadata.get("resourceVersion").and_then(Value::as_str).unwrap_or_default();
    // A resourceVersion that isn't a number counts as absent (`etcd3.store.Create`).
    let is_versioned = version.parse::<u64>().is_ok_and(|version| version != 0) && !context.query.dry_run;
    let kept = metadata.get("resourceVersion").cloned().filter(|_| context.query.dry_run);
    for field in SERVERS {
        metadata.remove(field);
    }
    // A dry run keeps it, because it never reaches the store, which would reject it.
    metadata.extend(kept.map(|version| ("resourceVersion".to_owned(), version)));
    for field in ["uid", "creationTimestamp"] {
        metadata.remove(field);
    }
    decoding::default(&context.entry.kind, &mut value);
    if !context.is_apply() {
        owners::drop_repeated(context, &mut value, owners::When::Given);
    }
    managed::track_create(context, &mut value);
    admit(context, &mut value).await?;
    owners::drop_repeated(context, &mut value, owners::When::Admitted);
    let metadata = decoding::metadata(&mut value)?;
    metadata.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".into(), context.timestamp());
    let Some(prefix) = generated_prefix(&value) else { return commit(context, value, is_versioned).await };
    for _ in 1..MAX_GENERATED_NAMES {
        match commit(context, named(value.clone(), &prefix), is_versioned).await {
            Err(CreateError::NameTaken(_)) => {}
            result => return result,
        }
    }
    commit(context, named(value, &prefix), is_versioned).await
}

/// Runs mutating admission. The object has no UID yet, and perhaps no name.
async fn admit(context: &RequestContext<'_>, value: &mut Value) -> Result<(), StatusError> {
    service_accounts::admit(context, value).await?;
    let name = name_of(value);
    admission::mutate(&Attributes::of(context, Operation::Create, &name), value, None).await?;
    check_namespace_field(context, value)
}

fn name_of(value: &Value) -> String {
    value["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// Validates and stores the object. Rejects one with a resourceVersion, but only after everything else.
async fn commit(
    context: &RequestContext<'_>,
    mut value: Value,
    is_versioned: bool,
) -> Result<Shown, CreateError> {
    let kind = &context.entry.kind;
    if kind.is("", "LimitRange") && name_of(&value).is_empty() {
        // `registry/core/limitrange/strategy.go`.
        value["metadata"]["name"] = uuid::Uuid::new_v4().to_string().into();
    }
    let name = name_of(&value);
    let promise = services::allocate(context, &mut value, None)?;
    objects::prepare_create(kind, &mut value);
    let faults = objects::validate_create(kind, &value);
    if !faults.is_empty() {
        return Err(status::invalid_as_claimed(kind, &value, &name, &faults).into());
    }
    objects::warnings(kind, &value, None).into_iter().for_each(|warning| context.warn(warning));
    escalation::check(context, None, &value)?;
    let held =
        admission::validate(&Attributes::of(context, Operation::Create, &name), Some(&value), None).await?;
    if is_versioned {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(StatusError::new(500, "", message).into());
    }
    let key = Key::new(context.action.namespace, &name);
    let is_generated = value["metadata"]["generateName"].as_str().is_some_and(|prefix| !prefix.is_empty());
    let value = versions::stored(kind, value);
    if context.query.dry_run {
        context.server.store.check(&context.entry.resource, &key, &value).map_err(status::unwritten)?;
        return match context.server.store.get(&context.entry.resource, &key) {
            Some(_) => Err(CreateError::NameTaken(taken(context, &name, is_generated))),
            None => Ok(Shown::Draft(Arc::new(value))),
        };
    }
    let created = context.server.store.create(&context.entry.resource, key, value).await;
    drop(promise);
    match created {
        Ok(record) => {
            held.settle(context).await;
            Ok(Shown::Stored(record))
        }
        Err(store::Error::Exists) => Err(CreateError::NameTaken(taken(context, &name, is_generated))),
        Err(error) => Err(status::unwritten(error).into()),
    }
}

/// 409: another object has the name, possibly one that is being deleted.
fn taken(context: &RequestContext<'_>, name: &str, is_generated: bool) -> StatusError {
    let mut about = context.about_name(name);
    if is_generated && context.entry.kind.kind == "Event" {
        // Events are stored as those of the core group.
        about.group = "";
    }
    let mut refusal = status::already_exists(about);
    if is_generated {
        // `rest.CheckGeneratedNameError`.
        refusal.message.push_str(", the server was not able to generate a unique name for the object");
        refusal = refusal.retry_after(1);
    }
    let key = Key::new(context.action.namespace, name);
    let is_leaving = context
        .server
        .store
        .get(&context.entry.resource, &key)
        .is_some_and(|record| !record.value()["metadata"]["deletionTimestamp"].is_null());
    if is_leaving {
        refusal.message = format!("object is being deleted: {}", refusal.message);
    }
    refusal
}

/// Rejects a body with another namespace than the path's, and fills in a missing one.
///
/// # Errors
/// 400.
pub fn check_namespace_field(context: &RequestContext<'_>, value: &mut Value) -> Result<(), StatusError> {
    let metadata = decoding::metadata(value)?;
    let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default().to_owned();
    match context.action.namespace {
        Some(namespace) if given.is_empty() => {
            metadata.insert("namespace".into(), namespace.into());
        }
        Some(namespace) if given != namespace => {
            let message =
                "the namespace of the provided object does not match the namespace sent on the request";
            return Err(status::bad_request(message));
        }
        None if !given.is_empty() => {
            metadata.remove("namespace");
        }
        _ => {}
    }
    Ok(())
}

/// Rejects creation in a namespace that doesn't exist or is being deleted.
///
/// # Errors
/// 404 and 403.
pub fn admit_into_namespace(context: &RequestContext<'_>) -> Result<(), StatusError> {
    let Some(namespace) = context.action.namespace else { return Ok(()) };
    let key = Key::new(None, namespace);
    let Some(record) = context.server.store.get(&Resource::new("", "namespaces"), &key) else {
        return Err(status::not_found(About { group: "", resource: "namespaces", name: namespace }));
    };
    if record.value()["metadata"]["deletionTimestamp"].is_null() {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let cause = format!("namespace {namespace} is being terminated");
    Err(status::forbidden(context.about(), &why).with_cause(
        "NamespaceTerminating",
        &cause,
        "metadata.namespace",
    ))
}
