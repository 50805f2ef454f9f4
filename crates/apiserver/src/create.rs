//! create: decode → default → mutating admission → prepare → validate → validating admission → commit.
//!
//! Rules: apiserver `pkg/endpoints/handlers/create.go`, `pkg/registry/rest/create.go`, and the admission
//! plug-in NamespaceLifecycle.

use serde_json::{Value, json};

use super::admission::{self, Attributes, Operation};
use super::auth::escalation;
use super::body::Decoded;
use super::call::Call;
use super::query::FieldValidation;
use super::reply::Shown;
use super::status::{self, About, BodyError, Refusal};
use super::{decoding, managed, service_accounts, services, versions};
use crate::store::{self, Key, Resource};

/// The number of names to try for `generateName` (KEP-4420).
const MAX_GENERATED_NAMES: usize = 8;
/// The maximum length of a generated name's prefix (`names.MaxGeneratedNameLength`).
const MAX_GENERATED_PREFIX: usize = 58;
/// The number of random characters in a generated name.
const GENERATED_LENGTH: usize = 5;
/// No vowels, so that no words come out (`apimachinery/pkg/util/rand`).
const GENERATED_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Metadata that only the server sets.
const SERVERS: [&str; 5] =
    ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"];

/// Why an object was not created.
pub enum CreateError {
    /// 409: another object has the name.
    NameTaken(Refusal),
    /// Any other error.
    Refused(Refusal),
}

impl From<Refusal> for CreateError {
    fn from(refusal: Refusal) -> Self {
        CreateError::Refused(refusal)
    }
}

impl From<CreateError> for Refusal {
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
pub async fn create(call: &Call<'_>, decoded: Decoded) -> Result<Shown, Refusal> {
    let kind = &call.entry.kind;
    let mut value = decoded.value;
    check_type(call, &mut value)?;
    let warnings =
        decoding::drop_unknown(kind, &mut value, &decoded.duplicates, call.query.field_validation)?;
    warnings.into_iter().for_each(|warning| call.warn(warning));
    check_namespace_field(call, &mut value)?;
    admit_into_namespace(call)?;
    Ok(complete(call, value).await?)
}

/// Creates an object whose type and namespace have been checked.
///
/// # Errors
/// Same as [`create`].
pub async fn complete(call: &Call<'_>, mut value: Value) -> Result<Shown, CreateError> {
    let metadata = decoding::metadata(&mut value)?;
    let version = metadata.get("resourceVersion").and_then(Value::as_str).unwrap_or_default();
    // A resourceVersion that isn't a number counts as absent (`etcd3.store.Create`).
    let is_versioned = version.parse::<u64>().is_ok_and(|version| version != 0) && !call.query.dry_run;
    let kept = metadata.get("resourceVersion").cloned().filter(|_| call.query.dry_run);
    for field in SERVERS {
        metadata.remove(field);
    }
    // A dry run keeps it, because it never reaches the store, which would reject it.
    metadata.extend(kept.map(|version| ("resourceVersion".to_owned(), version)));
    for field in ["uid", "creationTimestamp"] {
        metadata.remove(field);
    }
    decoding::default(&call.entry.kind, &mut value);
    managed::track_create(call, &mut value);
    admit(call, &mut value).await?;
    let metadata = decoding::metadata(&mut value)?;
    metadata.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".into(), call.timestamp());
    let Some(prefix) = generated_prefix(&value) else { return commit(call, value, is_versioned).await };
    for _ in 1..MAX_GENERATED_NAMES {
        match commit(call, named(value.clone(), &prefix), is_versioned).await {
            Err(CreateError::NameTaken(_)) => {}
            result => return result,
        }
    }
    commit(call, named(value, &prefix), is_versioned).await
}

/// Runs mutating admission. The object has no UID yet, and perhaps no name.
async fn admit(call: &Call<'_>, value: &mut Value) -> Result<(), Refusal> {
    service_accounts::admit(call, value).await?;
    let name = name_of(value);
    admission::mutate(&Attributes::of(call, Operation::Create, &name), value, None).await?;
    check_namespace_field(call, value)
}

fn name_of(value: &Value) -> String {
    value["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// Validates and stores the object. Rejects one with a resourceVersion, but only after everything else.
async fn commit(call: &Call<'_>, mut value: Value, is_versioned: bool) -> Result<Shown, CreateError> {
    let kind = &call.entry.kind;
    if kind.is("", "LimitRange") && name_of(&value).is_empty() {
        // `registry/core/limitrange/strategy.go`.
        value["metadata"]["name"] = uuid::Uuid::new_v4().to_string().into();
    }
    let name = name_of(&value);
    let promise = services::allocate(call, &mut value, None)?;
    objects::prepare_create(kind, &mut value);
    let faults = objects::validate_create(kind, &value);
    if !faults.is_empty() {
        return Err(status::invalid_as_claimed(kind, &value, &name, &faults).into());
    }
    objects::warnings(kind, &value, None).into_iter().for_each(|warning| call.warn(warning));
    escalation::check(call, None, &value)?;
    let held =
        admission::validate(&Attributes::of(call, Operation::Create, &name), Some(&value), None).await?;
    if is_versioned {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Refusal::new(500, "", message).into());
    }
    let key = Key::new(call.action.namespace, &name);
    let is_generated = value["metadata"]["generateName"].as_str().is_some_and(|prefix| !prefix.is_empty());
    let value = versions::stored(kind, value);
    if call.query.dry_run {
        call.server.store.check(&call.entry.resource, &key, &value).map_err(status::unwritten)?;
        return match call.server.store.get(&call.entry.resource, &key) {
            Some(_) => Err(CreateError::NameTaken(taken(call, &name, is_generated))),
            None => Ok(Shown::Draft(value)),
        };
    }
    let created = call.server.store.create(&call.entry.resource, key, value).await;
    drop(promise);
    match created {
        Ok(record) => {
            held.settle(call).await;
            Ok(Shown::Stored(record))
        }
        Err(store::Error::Exists) => Err(CreateError::NameTaken(taken(call, &name, is_generated))),
        Err(error) => Err(status::unwritten(error).into()),
    }
}

/// 409: another object has the name, possibly one that is being deleted.
fn taken(call: &Call<'_>, name: &str, is_generated: bool) -> Refusal {
    let mut about = call.about_name(name);
    if is_generated && call.entry.kind.kind == "Event" {
        // Events are stored as those of the core group.
        about.group = "";
    }
    let mut refusal = status::already_exists(about);
    if is_generated {
        // `rest.CheckGeneratedNameError`.
        refusal.message.push_str(", the server was not able to generate a unique name for the object");
        refusal = refusal.retry_after(1);
    }
    let key = Key::new(call.action.namespace, name);
    let is_leaving = call
        .server
        .store
        .get(&call.entry.resource, &key)
        .is_some_and(|record| !record.value["metadata"]["deletionTimestamp"].is_null());
    if is_leaving {
        refusal.message = format!("object is being deleted: {}", refusal.message);
    }
    refusal
}

/// The start of the error for a body whose type cannot be read.
pub const UNREADABLE: &str = "couldn't get version/kind; json parse error: ";

/// Why the type of a body cannot be read.
pub struct TypeFault {
    /// The reason.
    pub text: String,
    /// Whether the kind is missing.
    lacks_kind: bool,
}

/// 400 for a body whose type cannot be read (`handlers/rest.go`, `transformBodyError`).
pub fn unrecognized(call: &Call<'_>, why: &str, bytes: &[u8]) -> Refusal {
    const SHOWN: usize = 30;
    let text = |bytes: &[u8]| match bytes.first() {
        Some(b'{') => String::from_utf8_lossy(bytes).into_owned(),
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let summary = match bytes.get(..SHOWN) {
        _ if bytes.is_empty() => "<empty>".to_owned(),
        Some(start) if bytes.len() > SHOWN => format!("{} ...", text(start)),
        _ => text(bytes),
    };
    let kind = &call.entry.kind.kind;
    status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({summary})"
    ))
}

/// Rejects a body whose `apiVersion` or `kind` isn't a string, or is malformed.
///
/// # Errors
/// 400.
pub fn check_type_fields(call: &Call<'_>, value: &Value, bytes: &[u8]) -> Result<(), Refusal> {
    let Some(fault) = type_fault(call, value, bytes) else { return Ok(()) };
    // Upstream's lenient decoder has read the version by then; its strict one hasn't.
    if fault.lacks_kind && call.query.field_validation == FieldValidation::Ignore {
        let (kind, version) = (&call.entry.kind.kind, &call.entry.kind.version);
        let given = value["apiVersion"].as_str().filter(|version| !version.is_empty()).unwrap_or(version);
        let version = given.rsplit('/').next().unwrap_or_default();
        return Err(BodyError::of(kind, version, kind, fault.text).into());
    }
    Err(unrecognized(call, &fault.text, bytes))
}

/// Returns why a body's type cannot be read, or `None` if it can.
pub fn type_fault(call: &Call<'_>, value: &Value, bytes: &[u8]) -> Option<TypeFault> {
    let fault = |text: String| Some(TypeFault { text, lacks_kind: false });
    if value.is_null() {
        return None;
    }
    if !value.is_object() {
        let why = format!(
            "{UNREADABLE}json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            objects::json_kind(value)
        );
        return fault(why);
    }
    for field in ["apiVersion", "kind"] {
        if !value[field].is_null() && !value[field].is_string() {
            let why = format!(
                "{UNREADABLE}json: cannot unmarshal {} into Go struct field .{field} of type string",
                objects::json_kind(&value[field])
            );
            return fault(why);
        }
    }
    let version = value["apiVersion"].as_str().unwrap_or_default();
    if version.matches('/').count() > 1 {
        return fault(format!("unexpected GroupVersion string: {version}"));
    }
    if !call.entry.kind.is_builtin() && value["kind"].as_str().unwrap_or_default().is_empty() {
        let text = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(bytes));
        return Some(TypeFault { text, lacks_kind: true });
    }
    None
}

/// Rejects a body of another type, and fills in a missing one.
///
/// # Errors
/// 400.
pub fn check_type(call: &Call<'_>, value: &mut Value) -> Result<(), BodyError> {
    let kind = &call.entry.kind;
    let object = value.as_object_mut().ok_or_else(|| {
        BodyError::plain(format!(
            "the object provided is unrecognized (must be of type {}): it is no object",
            kind.kind
        ))
    })?;
    check_registered(kind, object)?;
    if !kind.is_builtin() && object.get("apiVersion").is_some_and(Value::is_null) {
        let given = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        let why = ".apiVersion accessor error: <nil> is of the type <nil>, expected string";
        return Err(BodyError::of(given, "", &kind.kind, why));
    }
    let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !kind.is_builtin() && version != kind.api_version() {
        // The metadata must be readable before the version is compared (`unstructuredSchemaCoercer.apply`).
        decoding::check_metadata(kind, value)?;
        let message = format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            kind.api_version()
        );
        return Err(BodyError::plain(message));
    }
    let given = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    if !kind.is_builtin() && !given.is_empty() && given != kind.kind {
        // Validation rejects it (`validator.ValidateTypeMeta`).
        return Ok(());
    }
    let wanted = [("apiVersion", kind.api_version(), "API version"), ("kind", kind.kind.clone(), "kind")];
    for (field, wanted, words) in wanted {
        match object.get(field).and_then(Value::as_str).unwrap_or_default() {
            "" => {
                object.insert(field.into(), wanted.into());
            }
            given if given != wanted => {
                let message = format!(
                    "the {words} in the data ({given}) does not match the expected {words} ({wanted})"
                );
                return Err(BodyError::plain(message));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Rejects a kind or version that isn't registered in Kubernetes, in the body of a built-in kind.
fn check_registered(kind: &objects::Kind, object: &serde_json::Map<String, Value>) -> Result<(), BodyError> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (own, name) = (kind.api_version(), kind.kind.as_str());
    let (given_version, given) = (text("apiVersion").unwrap_or(&own), text("kind").unwrap_or(name));
    let is_other_kind = given != name && !objects::builtin_kinds().iter().any(|known| known.kind == given);
    if !kind.is_builtin() || (given_version == own && !is_other_kind) {
        return Ok(());
    }
    let version = given_version.rsplit('/').next().unwrap_or_default();
    if given == "Status" {
        // `Status` exists in every version. It is decoded as one before its conversion to this kind fails.
        let found = object.get("status").filter(|status| !status.is_string() && !status.is_null());
        if let Some(found) = found.map(objects::json_kind) {
            let why =
                format!("json: cannot unmarshal {found} into Go struct field Status.status of type string");
            return Err(BodyError::of(given, version, name, why));
        }
        let package = match kind.group.split('.').next().unwrap_or_default() {
            "" | "events" => "core",
            first => first,
        };
        let why = format!("converting (v1.Status) to ({package}.{name}): unknown conversion");
        return Err(BodyError::of(given, version, name, why));
    }
    let why = format!(
        "no kind {given:?} is registered for version {given_version:?} in scheme \"pkg/runtime/scheme.go:111\""
    );
    Err(BodyError::of(given, version, name, why))
}

/// Rejects a body with another namespace than the path's, and fills in a missing one.
///
/// # Errors
/// 400.
pub fn check_namespace_field(call: &Call<'_>, value: &mut Value) -> Result<(), Refusal> {
    let metadata = decoding::metadata(value)?;
    let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default().to_owned();
    match call.action.namespace {
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
pub fn admit_into_namespace(call: &Call<'_>) -> Result<(), Refusal> {
    let Some(namespace) = call.action.namespace else { return Ok(()) };
    let key = Key::new(None, namespace);
    let Some(record) = call.server.store.get(&Resource::new("", "namespaces"), &key) else {
        return Err(status::not_found(About { group: "", resource: "namespaces", name: namespace }));
    };
    if record.value["metadata"]["deletionTimestamp"].is_null() {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let cause = format!("namespace {namespace} is being terminated");
    Err(status::forbidden(call.about(), &why).with_cause(
        "NamespaceTerminating",
        &cause,
        "metadata.namespace",
    ))
}

fn generated_prefix(value: &Value) -> Option<String> {
    let metadata = &value["metadata"];
    let has_name = metadata["name"].as_str().is_some_and(|name| !name.is_empty());
    let prefix = metadata["generateName"].as_str().filter(|prefix| !prefix.is_empty() && !has_name)?;
    Some(prefix.chars().take(MAX_GENERATED_PREFIX).collect())
}

fn named(mut value: Value, prefix: &str) -> Value {
    value["metadata"]["name"] = json!(format!("{prefix}{}", random_suffix()));
    value
}

/// Returns the random suffix of a generated name.
pub fn random_suffix() -> String {
    // A UUID has more than enough random bytes for five characters.
    let random = uuid::Uuid::new_v4();
    let suffix = random
        .as_bytes()
        .iter()
        .rev()
        .take(GENERATED_LENGTH)
        .filter_map(|byte| GENERATED_ALPHABET.get(usize::from(*byte) % GENERATED_ALPHABET.len()))
        .map(|byte| char::from(*byte));
    suffix.collect()
}
