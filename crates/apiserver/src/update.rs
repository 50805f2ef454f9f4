//! update: replaces an object with a new state that is based on an earlier one.
//!
//! Rules: apiserver `pkg/registry/generic/registry/store.go` (Update), `pkg/registry/rest/update.go`. Every
//! request that changes an existing object ends in [`change`].

use std::sync::Arc;

use serde_json::Value;

use super::admission::{self, Attributes, Operation, QuotaLock};
use super::auth::{authority, escalation};
use super::body::Decoded;
use super::reply::Shown;
use super::request_context::RequestContext;
use super::scale::{scale_of, scaled};
use super::status::{self, StatusError};
use super::{create, decoding, managed, owners, services, type_meta, versions};
use crate::store::{self, Record};

/// The number of attempts to write a change without a resourceVersion, in case of conflicts.
const MAX_ATTEMPTS: usize = 16;

/// Handles a PUT. The flag says whether it created the object.
///
/// # Errors
/// 400, 404, 409, 422.
pub async fn update(context: &RequestContext<'_>, decoded: Decoded) -> Result<(Shown, bool), StatusError> {
    let mut value = decoded.value;
    type_meta::check_type(context, &mut value)?;
    let warnings = decoding::drop_unknown(
        &context.entry.kind,
        &mut value,
        &decoded.duplicates,
        context.query.field_validation,
    )?;
    warnings.into_iter().for_each(|warning| context.warn(warning));
    create::check_namespace_field(context, &mut value)?;
    check_name(context, &mut value)?;
    let is_there = context.server.store.get(&context.entry.resource, &context.key()).is_some();
    // The status of a Service follows rules of its own.
    let may_create = context.action.subresource.is_empty()
        || (context.action.subresource == "status" && context.entry.kind.is("", "Service"));
    if !is_there && may_create && may_create_on_update(&context.entry.kind) {
        authority::authorize_creation(context)?;
        create::admit_into_namespace(context)?;
        check_uid(context, &Value::Null, &value)?;
        check_version(version_of(&value))?;
        if !context.query.dry_run {
            // There is no previous version.
            decoding::metadata(&mut value)?.remove("resourceVersion");
        }
        return Ok((create::complete(context, value).await?, true));
    }
    let Some(record) = context.server.store.get(&context.entry.resource, &context.key()) else {
        return Err(status::not_found(context.about()));
    };
    check_uid(context, &record.value()["metadata"]["uid"], &value)?;
    check_version(version_of(&value))?;
    if is_any(version_of(&value)) && !may_update_unconditionally(&context.entry.kind) {
        let detail = "Invalid value: 0: must be specified for an update".to_owned();
        // The error names the resource, not the kind (`genericregistry.Store.Update`).
        let about = context.about();
        let cause = ("FieldValueInvalid".to_owned(), detail, "metadata.resourceVersion".to_owned());
        return Err(status::invalid(about, &[cause]));
    }
    Ok((change(context, |_| Ok(value.clone())).await?, false))
}

/// Changes the object in the path: `transform` receives its present state, in the version of the path, and
/// returns the next. If the next state has another resourceVersion than the present one, the change is
/// rejected. Otherwise conflicting writes are retried.
///
/// # Errors
/// 404, 409, 422 and the errors of `transform`.
pub async fn change(
    context: &RequestContext<'_>,
    transform: impl Fn(&Value) -> Result<Value, StatusError>,
) -> Result<Shown, StatusError> {
    for _ in 0..MAX_ATTEMPTS {
        let record = context
            .server
            .store
            .get(&context.entry.resource, &context.key())
            .ok_or_else(|| status::not_found(context.about()))?;
        let value = record.value();
        let present = versions::served(&context.entry.kind, &value);
        let next = transform(&present)?;
        if let Some(shown) = commit(context, &record, next).await? {
            return Ok(shown);
        }
    }
    Err(status::conflict(context.about(), status::OUTDATED))
}

/// Commits the next state of `record`; `None` if another write came first.
async fn commit(
    context: &RequestContext<'_>,
    record: &Arc<Record>,
    mut next: Value,
) -> Result<Option<Shown>, StatusError> {
    let kind = &context.entry.kind;
    let value = record.value();
    let present = versions::served(kind, &value);
    check_identity(context, &present, &mut next)?;
    decoding::default(kind, &mut next);
    // A binding isn't an update: its fields have no owner, and it doesn't increment the generation.
    if context.action.subresource != "binding" {
        if context.action.verb == "update" {
            owners::drop_repeated(context, &mut next, owners::When::Given);
        }
        managed::track_update(context, &present, &mut next);
        stamp_phase(context, &present, &mut next);
        objects::prepare_update(kind, named(context.action.subresource), &mut next, &present);
    }
    admit(context, &present, &mut next).await?;
    owners::drop_repeated(context, &mut next, owners::When::Admitted);
    let promise = services::allocate(context, &mut next, Some(&present))?;
    // What other subresources change is decided by the server and isn't subject to the rules of updates.
    let is_judged = matches!(context.action.subresource, "" | "status" | "scale");
    let faults = if is_judged {
        objects::validate_update(kind, context.action.subresource, &next, &present)
    } else {
        Vec::new()
    };
    if !faults.is_empty() {
        return Err(status::invalid_as_claimed(kind, &next, context.action.name, &faults));
    }
    if is_judged && context.action.subresource != "status" {
        objects::warnings(kind, &next, Some(&present)).into_iter().for_each(|warning| context.warn(warning));
    }
    escalation::check(context, Some(&present), &next)?;
    let held = consent(context, &present, &next).await?;
    // The request that removes the last finalizer returns the object as it would be, which is never written: watches show it
    // as it was stored (`deleteWithoutFinalizers`).
    let last = is_final(kind, &present, &next).then(|| next.clone());
    let next = versions::stored(kind, next);
    // Any change of who owns a Scale's replicas, even of the time only, is written
    // (`managedfields.ScaleHandler.ToParent`).
    let is_scale = context.action.subresource == "scale" && context.action.verb == "update";
    let is_same = if is_scale { *value == next } else { managed::is_unchanged(&value, &next) };
    if is_same {
        return Ok(Some(Shown::Stored(record.clone())));
    }
    let store = &context.server.store;
    if context.query.dry_run {
        store.check(&context.entry.resource, &record.key, &next).map_err(status::unwritten)?;
        return Ok(Some(Shown::Draft(Arc::new(next))));
    }
    let result = if let Some(last) = last {
        let removed =
            store.remove(&context.entry.resource, &record.key, record.revision, record.to_value()).await;
        if removed.is_ok() {
            drop(promise);
            held.settle(context).await;
            return Ok(Some(Shown::Draft(Arc::new(last))));
        }
        removed
    } else {
        store.replace(&context.entry.resource, &record.key, record.revision, next).await
    };
    drop(promise);
    match result {
        Ok(record) => {
            held.settle(context).await;
            Ok(Some(Shown::Stored(record)))
        }
        Err(store::Error::Changed(_)) => Ok(None),
        Err(store::Error::Missing) => Err(status::not_found(context.about())),
        Err(error) => Err(status::unwritten(error)),
    }
}

/// Sets when a PersistentVolume entered its phase (`persistentvolumeStatusStrategy.PrepareForUpdate`).
fn stamp_phase(context: &RequestContext<'_>, present: &Value, next: &mut Value) {
    if !context.entry.kind.is("", "PersistentVolume") || context.action.subresource != "status" {
        return;
    }
    let field = "lastPhaseTransitionTime";
    let (given, before) = (&next["status"][field], &present["status"][field]);
    let is_same = next["status"]["phase"] == present["status"]["phase"];
    let time = match is_same {
        true if given.is_null() => before.clone(),
        false if given.is_null() || given == before => context.timestamp(),
        _ => return,
    };
    if !time.is_null() {
        next["status"][field] = time;
    }
}

/// Runs mutating admission. A binding has been admitted already; for `scale`, admission sees the Scale.
async fn admit(context: &RequestContext<'_>, present: &Value, next: &mut Value) -> Result<(), StatusError> {
    let kind = &context.entry.kind;
    let at = Attributes::of(context, Operation::Update, context.action.name);
    match context.action.subresource {
        "binding" => Ok(()),
        "scale" => {
            let mut scale = scale_of(context, next);
            let before = scale.clone();
            admission::mutate(&at, &mut scale, Some(&scale_of(context, present))).await?;
            if scale != before {
                *next = scaled(context, next, &scale)?;
            }
            Ok(())
        }
        subresource => {
            let before = next.clone();
            admission::mutate(&at, next, Some(present)).await?;
            if *next != before {
                check_identity(context, present, next)?;
                objects::prepare_update(kind, named(subresource), next, present);
            }
            Ok(())
        }
    }
}

/// Runs validating admission.
async fn consent(
    context: &RequestContext<'_>,
    present: &Value,
    next: &Value,
) -> Result<QuotaLock, StatusError> {
    let at = Attributes::of(context, Operation::Update, context.action.name);
    match context.action.subresource {
        "binding" => Ok(QuotaLock::nothing()),
        "scale" => {
            let [new, old] = [next, present].map(|object| scale_of(context, object));
            admission::validate(&at, Some(&new), Some(&old)).await
        }
        _ => admission::validate(&at, Some(next), Some(present)).await,
    }
}

/// Returns whether a PUT may create an object of the kind (`AllowCreateOnUpdate` of its strategy).
fn may_create_on_update(kind: &objects::Kind) -> bool {
    const MAY: [&str; 9] = [
        "Endpoints",
        "Event",
        "Lease",
        "LimitRange",
        "Service",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
    ];
    kind.is_builtin() && MAY.contains(&kind.kind.as_str())
}

/// Returns whether an update may omit the resourceVersion (`AllowUnconditionalUpdate`).
fn may_update_unconditionally(kind: &objects::Kind) -> bool {
    kind.is_builtin()
        && !matches!(kind.kind.as_str(), "Lease" | "CustomResourceDefinition" | "PodDisruptionBudget")
}

/// Returns the subresource, if there is one.
fn named(subresource: &str) -> Option<&str> {
    (!subresource.is_empty()).then_some(subresource)
}

/// Returns whether this write removes the last thing that kept a deleted object (`ShouldDeleteDuringUpdate`).
fn is_final(kind: &objects::Kind, present: &Value, next: &Value) -> bool {
    let is_deleted = !present["metadata"]["deletionTimestamp"].is_null();
    let has_finalizers =
        |value: &Value| value["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    if kind.is("", "Namespace") {
        let has_spec_finalizers = next["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        return is_deleted && !has_finalizers(next) && !has_spec_finalizers;
    }
    let grace = present["metadata"]["deletionGracePeriodSeconds"].as_i64();
    is_deleted && !has_finalizers(next) && matches!(grace, None | Some(0))
}

fn version_of(value: &Value) -> &str {
    value["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

/// Returns whether a resourceVersion matches any revision.
fn is_any(version: &str) -> bool {
    version.is_empty() || version.parse() == Ok(0_u64)
}

/// Rejects a resourceVersion that isn't a number (`APIObjectVersioner.ObjectResourceVersion`).
fn check_version(version: &str) -> Result<(), StatusError> {
    if version.is_empty() || version.parse::<u64>().is_ok() {
        return Ok(());
    }
    let why = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
    Err(StatusError::new(500, "", why))
}

fn check_name(context: &RequestContext<'_>, value: &mut Value) -> Result<(), StatusError> {
    let metadata = decoding::metadata(value)?;
    let given = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    if given.is_empty() {
        let name = context.action.name;
        let message =
            format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
        return Err(status::bad_request(message));
    }
    if given != context.action.name {
        let message = format!(
            "the name of the object ({given}) does not match the name on the URL ({})",
            context.action.name
        );
        return Err(status::bad_request(message));
    }
    Ok(())
}

/// The UID in a PUT is a precondition of the store (`rest.defaultUpdatedObjectInfo.Preconditions`).
fn check_uid(context: &RequestContext<'_>, own: &Value, next: &Value) -> Result<(), StatusError> {
    let (uid, own) = (next["metadata"]["uid"].as_str().unwrap_or_default(), own.as_str().unwrap_or_default());
    if uid.is_empty() || uid == own {
        return Ok(());
    }
    let root = if context.query.dry_run { "" } else { "/registry" };
    let folder = context.entry.kind.storage_folder();
    let namespace = context.action.namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let name = context.action.name;
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {root}/{folder}/{namespace}{name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {own}"
    );
    Err(status::conflict(context.about(), &why))
}

fn check_identity(
    context: &RequestContext<'_>,
    present: &Value,
    next: &mut Value,
) -> Result<(), StatusError> {
    if context.action.verb == "update" {
        check_uid(context, &present["metadata"]["uid"], next)?;
    }
    let version = version_of(next);
    check_version(version)?;
    if !is_any(version) && version != version_of(present) {
        return Err(status::conflict(context.about(), status::OUTDATED));
    }
    let metadata = decoding::metadata(next)?;
    metadata.insert("resourceVersion".into(), present["metadata"]["resourceVersion"].clone());
    // Validation reports another UID as an immutable field.
    if metadata.get("uid").and_then(Value::as_str).is_none_or(str::is_empty) {
        metadata.insert("uid".into(), present["metadata"]["uid"].clone());
    }
    Ok(())
}
