//! create: decode → default → admit (which may change it) → fill in → validate → admit (which may refuse it) → commit.
//!
//! Rules: apiserver `pkg/endpoints/handlers/create.go`, `pkg/registry/rest/create.go`, and the admission plug-in
//! NamespaceLifecycle.

use serde_json::{Value, json};

use super::admission::{self, Attributes, Operation};
use super::auth::escalation;
use super::body::Decoded;
use super::call::Call;
use super::reply::Shown;
use super::status::{self, About, Refusal};
use super::{managed, rules, versions};
use crate::store::{self, Key, Resource};

/// How often another generated name is tried (KEP-4420).
const MAX_GENERATED_NAMES: usize = 8;
/// The longest prefix of a generated name (`names.MaxGeneratedNameLength`).
const MAX_GENERATED_PREFIX: usize = 58;
/// Random characters of a generated name.
const GENERATED_LENGTH: usize = 5;
/// Without vowels, so that no words come out (`apimachinery/pkg/util/rand`).
const GENERATED_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Metadata that a client does not set.
const SERVERS: [&str; 5] =
    ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"];

/// Creates an object from a request's body.
///
/// # Errors
/// 400, 403, 404 for the namespace, 409, 422.
pub async fn create(call: &Call<'_>, decoded: Decoded) -> Result<Shown, Refusal> {
    let kind = &call.entry.kind;
    let mut value = decoded.value;
    check_type(call, &mut value)?;
    check_namespace_field(call, &mut value)?;
    admit_into_namespace(call)?;
    let warnings = rules::drop_unknown(kind, &mut value, &decoded.duplicates, call.query.field_validation)?;
    warnings.into_iter().for_each(|warning| call.warn(warning));
    complete(call, value).await
}

/// Creates an object whose type and namespace are known to be right.
///
/// # Errors
/// As [`create`].
pub async fn complete(call: &Call<'_>, mut value: Value) -> Result<Shown, Refusal> {
    let metadata = rules::metadata(&mut value)?;
    if metadata.get("resourceVersion").and_then(Value::as_str).is_some_and(|version| !version.is_empty()) {
        return Err(Refusal::new(500, "", "resourceVersion should not be set on objects to be created"));
    }
    for field in SERVERS {
        metadata.remove(field);
    }
    for field in ["uid", "creationTimestamp"] {
        metadata.remove(field);
    }
    rules::default(&call.entry.kind, &mut value);
    managed::track_create(call, &mut value);
    admit(call, &mut value).await?;
    let metadata = rules::metadata(&mut value)?;
    metadata.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".into(), call.timestamp());
    let Some(prefix) = generated_prefix(&value) else { return commit(call, value).await };
    for _ in 1..MAX_GENERATED_NAMES {
        match commit(call, named(value.clone(), &prefix)).await {
            Err(refusal) if refusal.reason == "AlreadyExists" => {}
            result => return result,
        }
    }
    commit(call, named(value, &prefix)).await
}

/// Lets admission change the object, which has neither a UID nor, perhaps, a name yet.
async fn admit(call: &Call<'_>, value: &mut Value) -> Result<(), Refusal> {
    let name = name_of(value);
    admission::mutate(&Attributes::of(call, Operation::Create, &name), value, None).await?;
    check_namespace_field(call, value)
}

fn name_of(value: &Value) -> String {
    value["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

async fn commit(call: &Call<'_>, mut value: Value) -> Result<Shown, Refusal> {
    let kind = &call.entry.kind;
    let name = name_of(&value);
    rules::prepare_create(kind, &mut value);
    let faults = rules::validate_create(kind, &value);
    if !faults.is_empty() {
        return Err(rules::invalid(kind, &name, &faults));
    }
    escalation::check(call, None, &value)?;
    let held =
        admission::validate(&Attributes::of(call, Operation::Create, &name), Some(&value), None).await?;
    let key = Key::new(call.action.namespace, &name);
    let value = versions::stored(kind, value);
    if call.query.dry_run {
        return match call.server.store.get(&call.entry.resource, &key) {
            Some(_) => Err(status::already_exists(call.about_name(&name))),
            None => Ok(Shown::Draft(value)),
        };
    }
    match call.server.store.create(&call.entry.resource, key, value).await {
        Ok(record) => {
            held.settle(call).await;
            Ok(Shown::Stored(record))
        }
        Err(store::Error::Exists) => Err(status::already_exists(call.about_name(&name))),
        Err(error) => Err(status::internal(error)),
    }
}

/// Refuses a body of another type; fills in a type that is missing.
///
/// # Errors
/// 400.
pub fn check_type(call: &Call<'_>, value: &mut Value) -> Result<(), Refusal> {
    let kind = &call.entry.kind;
    let object = value.as_object_mut().ok_or_else(|| {
        status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): it is no object",
            kind.kind
        ))
    })?;
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
                return Err(status::bad_request(message));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses a body of another namespace than the path's; fills in one that is missing.
///
/// # Errors
/// 400.
pub fn check_namespace_field(call: &Call<'_>, value: &mut Value) -> Result<(), Refusal> {
    let metadata = rules::metadata(value)?;
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

/// Refuses what would be created in a namespace that is not there or on its way out.
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
    // Sixteen random bytes by way of a UUID: more than enough for five characters.
    let random = uuid::Uuid::new_v4();
    let suffix = random
        .as_bytes()
        .iter()
        .rev()
        .take(GENERATED_LENGTH)
        .filter_map(|byte| GENERATED_ALPHABET.get(usize::from(*byte) % GENERATED_ALPHABET.len()))
        .map(|byte| char::from(*byte));
    value["metadata"]["name"] = json!(prefix.chars().chain(suffix).collect::<String>());
    value
}
