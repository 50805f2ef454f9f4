//! The API server's only access to knowledge about objects: kinds, defaults, validation, patches, selectors,
//! tables. Everything here is pure and thin; the knowledge is in [`objects`], [`objects::schema`] and
//! [`objects::patch`].

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::call::Call;
use super::negotiate::PatchType;
use super::query::{FieldValidation, Query};
use super::status::{self, About, DecodeError, Refusal};
use objects::patch::{self, apply};
use objects::{self, FieldSelector, IncludeObject, LabelSelector, SelectorError};
pub use objects::{
    FieldFault, Kind, builtin_kinds, convert_autoscaler, convert_event, json_kind, read_back, v2_definitions,
    v3_schemas,
};

/// Finds a built-in kind by group and kind.
pub fn builtin_kind(group: &str, kind: &str) -> Option<Arc<Kind>> {
    objects::builtin_kind(group, kind).cloned()
}

/// Finds the built-in kind that a subresource accepts, including those that only subresources accept.
pub fn taken_kind(group: &str, kind: &str) -> Option<Arc<Kind>> {
    let own = objects::subresource_kinds().iter().find(|known| known.is(group, kind));
    own.cloned().or_else(|| builtin_kind(group, kind))
}

/// Decodes the options of a deletion.
///
/// # Errors
/// 400 for a value of the wrong type.
pub fn delete_options(options: &Value) -> Result<Value, Refusal> {
    // An Eviction has such options as one of its fields.
    let Some(kind) = taken_kind("policy", "Eviction") else { return Ok(options.clone()) };
    let mut holder = json!({"deleteOptions": options});
    objects::decode(&kind, &mut holder).map_err(|error| {
        let why = error.to_string().replace("DeleteOptions.deleteOptions.", "DeleteOptions.");
        DecodeError::of("DeleteOptions", "v1", "DeleteOptions", why)
    })?;
    Ok(holder["deleteOptions"].take())
}

/// Formats a time as Kubernetes does (`metav1.Time`): whole seconds, UTC.
pub fn timestamp(time: Timestamp) -> String {
    format!("{time:.0}")
}

/// 422 for an object's faults.
pub fn invalid(kind: &Kind, name: &str, faults: &[FieldFault]) -> Refusal {
    let causes = faults
        .iter()
        .map(|fault| (fault.reason.cause().to_owned(), fault.body(), fault.path.clone()))
        .collect::<Vec<_>>();
    // Events are reported as events of the core group, whichever group they were written in.
    let group = if kind.is("events.k8s.io", "Event") { "" } else { kind.group.as_str() };
    status::invalid(About { group, resource: &kind.kind, name }, &causes)
}

/// Same as [`invalid`], but a custom object is named by the kind and group that it claims, which may be
/// another's.
pub fn invalid_of(kind: &Kind, value: &Value, name: &str, faults: &[FieldFault]) -> Refusal {
    if kind.is_builtin() {
        return invalid(kind, name, faults);
    }
    let mut named = kind.clone();
    if let Some(given) = value["kind"].as_str().filter(|given| !given.is_empty()) {
        given.clone_into(&mut named.kind);
    }
    if let Some(given) = value["apiVersion"].as_str().filter(|given| !given.is_empty()) {
        given.split_once('/').map_or("", |(group, _)| group).clone_into(&mut named.group);
    }
    invalid(&named, name, faults)
}

/// Drops unknown fields and converts values to canonical form. Returns warnings about unknown and duplicate
/// fields.
///
/// # Errors
/// 400 for such fields under `Strict`, and for a value of the wrong type.
pub fn drop_unknown(
    kind: &Kind,
    value: &mut Value,
    duplicates: &[String],
    validation: FieldValidation,
) -> Result<Vec<String>, DecodeError> {
    if !kind.is_builtin() {
        let metadata = check_metadata(kind, value)?;
        if !metadata.is_null() {
            value["metadata"] = metadata;
        }
        if !is_of(kind, value) {
            // There is no schema to check it against. Validation reports the wrong kind later.
            return Ok(Vec::new());
        }
        let mut whole = value.take();
        let coerced = kind.schema().coerce_embedded(&mut whole, &objects::decode_metadata);
        *value = whole;
        coerced.map_err(|why| strange(value, kind, &why))?;
    }
    let unknown = objects::decode(kind, value)
        .map_err(|error| DecodeError::of(&kind.kind, &kind.version, &kind.kind, error))?;
    // A custom kind's unknown fields are known only after the body has been read, so they come last.
    tell_unknown(kind, &unknown, duplicates, kind.is_builtin(), validation)
}

/// Same as [`drop_unknown`], for the result of a strategic merge patch.
///
/// # Errors
/// Same as [`drop_unknown`].
pub fn convert_patched(
    kind: &Kind,
    value: &mut Value,
    duplicates: &[String],
    validation: FieldValidation,
) -> Result<Vec<String>, DecodeError> {
    let unknown = objects::convert(kind, value).map_err(DecodeError::plain)?;
    tell_unknown(kind, &unknown, duplicates, false, validation)
}

/// Reports unknown and duplicate fields, as warnings or as an error; the unknown ones first or last.
fn tell_unknown(
    kind: &Kind,
    unknown: &[String],
    duplicates: &[String],
    unknown_first: bool,
    validation: FieldValidation,
) -> Result<Vec<String>, DecodeError> {
    let unknown = unknown.iter().map(|path| format!("unknown field \"{path}\""));
    let repeated = duplicates.iter().map(|path| format!("duplicate field \"{path}\""));
    let texts: Vec<String> =
        if unknown_first { unknown.chain(repeated).collect() } else { repeated.chain(unknown).collect() };
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(texts),
        FieldValidation::Strict if texts.is_empty() => Ok(texts),
        FieldValidation::Strict => {
            let why = format!("strict decoding error: {}", texts.join(", "));
            Err(DecodeError::of(&kind.kind, &kind.version, &kind.kind, why))
        }
    }
}

/// Decodes a custom object's metadata with the types of `ObjectMeta`.
///
/// # Errors
/// 400.
pub fn check_metadata(kind: &Kind, value: &Value) -> Result<Value, DecodeError> {
    let mut metadata = value["metadata"].clone();
    objects::decode_metadata(&mut metadata).map_err(|why| strange(value, kind, &why))?;
    Ok(metadata)
}

/// Converts a custom object to the form in which the store returns it: only fields of the stored version's
/// schema, no `null`s that mean absence, and metadata (its own and that of embedded objects) as of any
/// object.
pub fn settle(kind: &Kind, value: &mut Value) {
    let schema = kind.stored_schema().unwrap_or_else(|| kind.schema());
    schema.prune(value);
    schema.drop_nulls(value);
    // A label whose value is null is written as null, and becomes an empty string only when read back.
    let nulls = objects::null_labels(value);
    // Admission accepted what cannot be decoded; it stays as it is.
    let _ = objects::decode_metadata(&mut value["metadata"]);
    let _ = schema.coerce_embedded(value, &objects::decode_metadata);
    for (field, name) in nulls {
        value["metadata"][field][name] = Value::Null;
    }
}

/// Returns whether a custom object claims to be of this kind, in any version.
fn is_of(kind: &Kind, value: &Value) -> bool {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    group == kind.group && text("kind") == kind.kind
}

/// Adds the fields that Kubernetes writes for a built-in object even if nobody set them.
pub fn fill_in(kind: &Kind, value: &mut Value) {
    // Cannot fail: the object has no field of a wrong type.
    let _ = objects::decode(kind, value);
}

/// 400 for a body that cannot be read. A custom object's body may claim another kind.
fn strange(value: &Value, kind: &Kind, why: &str) -> DecodeError {
    let given = value["kind"].as_str().unwrap_or(&kind.kind);
    let version = value["apiVersion"].as_str().and_then(|version| version.rsplit('/').next());
    DecodeError::of(given, version.unwrap_or(&kind.version), &kind.kind, why)
}

/// Sets defaults. A custom object that claims another kind or an unknown version gets none.
pub fn default(kind: &Kind, value: &mut Value) {
    let version = value["apiVersion"].as_str().and_then(|version| version.rsplit('/').next());
    if kind.is_builtin() || (version == Some(&kind.version) && is_of(kind, value)) {
        objects::default_object(kind, value);
    }
}

/// Resets what a client may not set at creation: status, generation, a job's selector.
pub fn prepare_create(kind: &Kind, value: &mut Value) {
    objects::prepare_create(kind, value);
}

/// Reverts what a client may not change through this (sub)resource, and increments the generation if needed.
pub fn prepare_update(kind: &Kind, subresource: &str, new: &mut Value, old: &Value) {
    objects::prepare_update(kind, (!subresource.is_empty()).then_some(subresource), new, old);
}

/// Returns the faults of a new object.
pub fn validate_create(kind: &Kind, value: &Value) -> Vec<FieldFault> {
    objects::validate_create(kind, value)
}

/// Returns the warnings about a valid object.
pub fn warnings(kind: &Kind, new: &Value, old: Option<&Value>) -> Vec<String> {
    objects::warnings(kind, new, old)
}

/// Returns the faults of an object's new state.
pub fn validate_update(kind: &Kind, subresource: &str, new: &Value, old: &Value) -> Vec<FieldFault> {
    objects::validate_update(kind, subresource, new, old)
}

/// Returns the status of a CustomResourceDefinition that is served.
pub fn established_status(definition: &Value, now: Timestamp) -> Value {
    objects::established_status(definition, &timestamp(now))
}

/// Returns whether a PUT may create an object of the kind (`AllowCreateOnUpdate` of its strategy).
pub fn may_create_on_update(kind: &Kind) -> bool {
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
pub fn may_update_unconditionally(kind: &Kind) -> bool {
    kind.is_builtin()
        && !matches!(kind.kind.as_str(), "Lease" | "CustomResourceDefinition" | "PodDisruptionBudget")
}

/// Returns whether the kind supports strategic merge patches; custom resources don't.
pub fn knows_strategic(kind: &Kind) -> bool {
    kind.is_builtin()
}

/// Applies a patch other than a server-side apply.
///
/// # Errors
/// 422 for a patch that doesn't apply, 400 for an invalid one.
pub fn patched(kind: &Kind, patch_type: PatchType, live: &Value, change: &Value) -> Result<Value, Refusal> {
    match patch_type {
        PatchType::Json => patch::json(live, change),
        PatchType::Merge | PatchType::Apply => patch::merge(live, change),
        PatchType::Strategic => patch::strategic(kind, live, change),
    }
    .map_err(|error| {
        let refusal = Refusal::new(error.code(), error.reason(), error.to_string());
        if error.code() == 422 { refusal.empty_details() } else { refusal }
    })
}

/// Returns the result of a server-side apply, with its managedFields.
///
/// # Errors
/// 409 for fields with other owners, 400 for an invalid configuration.
pub fn applied(call: &Call<'_>, live: Option<&Value>, intent: &Value) -> Result<Value, Refusal> {
    let manager = call.manager();
    let writer = writer(&manager, call.action.subresource, call.now);
    let mut made = apply::apply(&call.entry.kind, live, intent, writer, call.query.force)
        .map_err(|error| Refusal::of_status(&error.status(), error.to_string()))?;
    let kind = &call.entry.kind;
    objects::convert(kind, &mut made).map_err(|error| {
        let (name, version) = (&intent["metadata"]["name"], kind.api_version());
        let version = if version.contains('/') { version } else { format!("/{version}") };
        let (name, kind) = (name.as_str().unwrap_or_default(), &kind.kind);
        Refusal::new(500, "", format!(
            "failed to convert new object (/{name}; {version}, Kind={kind}) to proper version: unable to convert unstructured object to {version}, Kind={kind}: {error}"
        ))
    })?;
    Ok(made)
}

/// Updates managedFields after a write other than an apply.
pub fn track(call: &Call<'_>, old: Option<&Value>, new: &mut Value) {
    let manager = call.manager();
    let writer = writer(&manager, call.action.subresource, call.now);
    apply::update_managed_fields(&call.entry.kind, old, new, writer);
}

/// Returns whether an object's managedFields can be decoded.
pub fn has_readable_managers(value: &Value) -> bool {
    apply::is_readable(value)
}

fn writer<'a>(manager: &'a str, subresource: &'a str, now: Timestamp) -> apply::Writer<'a> {
    apply::Writer { manager, subresource: (!subresource.is_empty()).then_some(subresource), now }
}

/// Returns the kinds that a CustomResourceDefinition defines.
///
/// # Errors
/// The definition's faults.
pub fn kinds_of_crd(definition: &Value) -> Result<Vec<Kind>, Vec<FieldFault>> {
    objects::kinds_of_crd(definition)
}

/// Formats objects in the kind's version as a Table of `meta.k8s.io/v1`; `include` is a value of
/// `includeObject`.
pub fn table(kind: &Kind, objects: &[&Value], include: &str, now: Timestamp) -> Value {
    objects::table(kind, objects, IncludeObject::parse(Some(include)), now)
}

/// The objects that a list or watch selects.
#[derive(Debug, Clone)]
pub struct Selection {
    kind: Arc<Kind>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// Parses both selectors.
    ///
    /// # Errors
    /// 400 for an invalid selector, or a field that doesn't support selection.
    pub fn parse(kind: &Arc<Kind>, labels: &str, fields: &str) -> Result<Self, Refusal> {
        let refuse = |error: SelectorError| status::bad_request(error.to_string());
        Ok(Self {
            kind: kind.clone(),
            labels: LabelSelector::parse(labels).map_err(refuse)?,
            fields: FieldSelector::parse(kind, fields).map_err(refuse)?,
        })
    }

    /// Parses the selectors of a list or watch and checks its other options, in the order of Kubernetes:
    /// syntax, forbidden combinations, fields that don't support selection, the revision.
    ///
    /// # Errors
    /// 400 and 422.
    pub fn of_list(kind: &Arc<Kind>, query: &Query) -> Result<Self, Refusal> {
        let refuse = |error: SelectorError| status::bad_request(error.to_string());
        let labels = LabelSelector::parse(&query.label_selector).map_err(refuse)?;
        FieldSelector::read(&query.field_selector).map_err(refuse)?;
        query.check_combination()?;
        let fields = FieldSelector::parse(kind, &query.field_selector).map_err(refuse)?;
        query.check_version()?;
        Ok(Self { kind: kind.clone(), labels, fields })
    }

    /// Narrows the selection to the object with this name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { fields: self.fields.named(name), ..self }
    }

    /// Returns whether the selection matches at most one object, by name
    /// (`SelectionPredicate.MatchesSingle`).
    pub fn is_of_one(&self) -> bool {
        self.fields.exact("metadata.name").is_some()
    }

    /// Returns whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Returns whether an object, in the kind's version, is selected.
    pub fn matches(&self, value: &Value) -> bool {
        self.labels.matches(value) && self.fields.matches(&self.kind, value)
    }
}

/// Formats a selector as text, as in `scale`: from a text, a map of labels, or a `LabelSelector`.
pub fn selector_text(selector: &Value) -> Option<String> {
    match selector {
        Value::String(text) => Some(text.clone()),
        Value::Object(map) if map.values().all(Value::is_string) => {
            Some(LabelSelector::of_map(selector).to_string())
        }
        _ => LabelSelector::of(selector).ok().map(|selector| selector.to_string()),
    }
}

/// Returns the object's metadata, and creates it if it is absent.
pub fn metadata(value: &mut Value) -> Result<&mut Map<String, Value>, Refusal> {
    let metadata = value
        .as_object_mut()
        .ok_or_else(|| status::bad_request("the request's body is no object"))?
        .entry("metadata")
        .or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    metadata.as_object_mut().ok_or_else(|| status::bad_request("metadata is no object"))
}
