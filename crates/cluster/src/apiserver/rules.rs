//! The one place where the API server reaches for what it must know of objects: kinds, defaults, validation,
//! patches, selectors, tables. Everything here is pure and thin; the knowledge is in [`crate::objects`],
//! [`crate::schema`] and [`crate::patch`].

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::call::Call;
use super::negotiate::PatchType;
use super::query::{FieldValidation, Query};
use super::status::{self, About, Refusal};
use crate::objects::{self, FieldSelector, IncludeObject, LabelSelector, SelectorError};
pub use crate::objects::{
    FieldFault, Kind, builtin_kinds, convert_autoscaler, convert_event, json_kind, read_back, v2_definitions,
    v3_schemas,
};
use crate::patch::{self, apply};

/// A built-in kind by group and kind.
pub fn builtin_kind(group: &str, kind: &str) -> Option<Arc<Kind>> {
    objects::builtin_kind(group, kind).cloned()
}

/// The built-in kind that a subresource takes, one that only subresources take among them.
pub fn taken_kind(group: &str, kind: &str) -> Option<Arc<Kind>> {
    let own = objects::subresource_kinds().iter().find(|known| known.is(group, kind));
    own.cloned().or_else(|| builtin_kind(group, kind))
}

/// The options of a deletion in the form of their type.
///
/// # Errors
/// 400 for a value that is not of its type.
pub fn delete_options(options: &Value) -> Result<Value, Refusal> {
    // An Eviction has such options as one of its fields.
    let Some(kind) = taken_kind("policy", "Eviction") else { return Ok(options.clone()) };
    let mut holder = json!({"deleteOptions": options});
    objects::decode(&kind, &mut holder).map_err(|error| {
        let why = error.to_string().replace("DeleteOptions.deleteOptions.", "DeleteOptions.");
        status::bad_request(format!(
            "DeleteOptions in version \"v1\" cannot be handled as a DeleteOptions: {why}"
        ))
    })?;
    Ok(holder["deleteOptions"].take())
}

/// A time as Kubernetes writes it (`metav1.Time`): whole seconds, UTC.
pub fn timestamp(time: Timestamp) -> String {
    format!("{time:.0}")
}

/// 422 for an object's faults.
pub fn invalid(kind: &Kind, name: &str, faults: &[FieldFault]) -> Refusal {
    let causes = faults
        .iter()
        .map(|fault| (fault.reason.cause().to_owned(), fault.body(), fault.path.clone()))
        .collect::<Vec<_>>();
    // Events are events of the core group, whichever they are written as.
    let group = if kind.is("events.k8s.io", "Event") { "" } else { kind.group.as_str() };
    status::invalid(About { group, resource: &kind.kind, name }, &causes)
}

/// The same of an object that is judged; one of a custom kind may say to be of another.
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

/// Drops fields that the kind does not have, and brings values into canonical form.
///
/// # Errors
/// 400 when they are to be refused, or a value is not of its type; otherwise the warnings to give.
pub fn drop_unknown(
    kind: &Kind,
    value: &mut Value,
    duplicates: &[String],
    validation: FieldValidation,
) -> Result<Vec<String>, Refusal> {
    if !kind.is_builtin() {
        let metadata = check_metadata(kind, value)?;
        if !metadata.is_null() {
            value["metadata"] = metadata;
        }
        if !is_of(kind, value) {
            // It is not known what it should be; that it is another is told when it is judged.
            return Ok(Vec::new());
        }
        let mut whole = value.take();
        let coerced = kind.schema().coerce_embedded(&mut whole, &objects::decode_metadata);
        *value = whole;
        coerced.map_err(|why| strange(value, kind, &why))?;
    }
    let unknown = objects::decode(kind, value).map_err(|error| {
        let (version, kind) = (&kind.version, &kind.kind);
        status::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {error}"))
    })?;
    // Of a custom kind it is known only after the body has been read what is unknown.
    tell_unknown(kind, &unknown, duplicates, kind.is_builtin(), validation)
}

/// The same for what a strategic merge patch made of an object.
///
/// # Errors
/// As [`drop_unknown`].
pub fn convert_patched(
    kind: &Kind,
    value: &mut Value,
    duplicates: &[String],
    validation: FieldValidation,
) -> Result<Vec<String>, Refusal> {
    let unknown = objects::convert(kind, value).map_err(status::bad_request)?;
    tell_unknown(kind, &unknown, duplicates, false, validation)
}

/// What is said of unknown and repeated fields; the unknown ones first or last.
fn tell_unknown(
    kind: &Kind,
    unknown: &[String],
    duplicates: &[String],
    unknown_first: bool,
    validation: FieldValidation,
) -> Result<Vec<String>, Refusal> {
    let unknown = unknown.iter().map(|path| format!("unknown field \"{path}\""));
    let repeated = duplicates.iter().map(|path| format!("duplicate field \"{path}\""));
    let texts: Vec<String> =
        if unknown_first { unknown.chain(repeated).collect() } else { repeated.chain(unknown).collect() };
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(texts),
        FieldValidation::Strict if texts.is_empty() => Ok(texts),
        FieldValidation::Strict => {
            let (version, kind) = (&kind.version, &kind.kind);
            let texts = texts.join(", ");
            Err(status::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {texts}"
            )))
        }
    }
}

/// A custom object's metadata in the form of any object's.
///
/// # Errors
/// 400.
pub fn check_metadata(kind: &Kind, value: &Value) -> Result<Value, Refusal> {
    let mut metadata = value["metadata"].clone();
    objects::decode_metadata(&mut metadata).map_err(|why| strange(value, kind, &why))?;
    Ok(metadata)
}

/// Brings a custom object into the form in which it is read back from the store: with the fields that the stored version
/// has, without `null`s that are no value, its metadata and that of objects within it as of any object.
pub fn settle(kind: &Kind, value: &mut Value) {
    let schema = kind.stored_schema().unwrap_or_else(|| kind.schema());
    schema.prune(value);
    schema.drop_nulls(value);
    // A label without a value is written so, and empty only as it is read back.
    let nulls = objects::null_labels(value);
    // What cannot be read was let in, and stays as it is.
    let _ = objects::decode_metadata(&mut value["metadata"]);
    let _ = schema.coerce_embedded(value, &objects::decode_metadata);
    for (field, name) in nulls {
        value["metadata"][field][name] = Value::Null;
    }
}

/// Whether a custom object says to be of this kind, in whichever version.
fn is_of(kind: &Kind, value: &Value) -> bool {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    group == kind.group && text("kind") == kind.kind
}

/// Adds what Kubernetes writes of a built-in object even where nobody set it.
pub fn fill_in(kind: &Kind, value: &mut Value) {
    // An object without fields has none of a wrong type.
    let _ = objects::decode(kind, value);
}

/// 400 for a body that cannot be read; a custom kind's may say to be of another.
fn strange(value: &Value, kind: &Kind, why: &str) -> Refusal {
    let given = value["kind"].as_str().unwrap_or(&kind.kind);
    let version = value["apiVersion"].as_str().and_then(|version| version.rsplit('/').next());
    let (version, kind) = (version.unwrap_or(&kind.version), &kind.kind);
    status::bad_request(format!("{given} in version \"{version}\" cannot be handled as a {kind}: {why}"))
}

/// Fills in what the client left out. A custom object that says to be of another kind, or of a version which is not
/// there, has no defaults.
pub fn default(kind: &Kind, value: &mut Value) {
    let version = value["apiVersion"].as_str().and_then(|version| version.rsplit('/').next());
    if kind.is_builtin() || (version == Some(&kind.version) && is_of(kind, value)) {
        objects::default_object(kind, value);
    }
}

/// Sets what a client may not set at creation: status, generation, a job's selector.
pub fn prepare_create(kind: &Kind, value: &mut Value) {
    objects::prepare_create(kind, value);
}

/// Takes back what a client may not change by this (sub)resource, and moves the generation.
pub fn prepare_update(kind: &Kind, subresource: &str, new: &mut Value, old: &Value) {
    objects::prepare_update(kind, (!subresource.is_empty()).then_some(subresource), new, old);
}

/// The faults of an object that is to be created.
pub fn validate_create(kind: &Kind, value: &Value) -> Vec<FieldFault> {
    objects::validate_create(kind, value)
}

/// What a writer is told of an object that is right.
pub fn warnings(kind: &Kind, new: &Value, old: Option<&Value>) -> Vec<String> {
    objects::warnings(kind, new, old)
}

/// The faults of an object that is to replace another.
pub fn validate_update(kind: &Kind, subresource: &str, new: &Value, old: &Value) -> Vec<FieldFault> {
    objects::validate_update(kind, subresource, new, old)
}

/// The status of a CustomResourceDefinition that is served.
pub fn established_status(definition: &Value, now: Timestamp) -> Value {
    objects::established_status(definition, &timestamp(now))
}

/// Whether a PUT may create an object of the kind (`AllowCreateOnUpdate` of its strategy).
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

/// Whether an update may leave out the resourceVersion (`AllowUnconditionalUpdate`).
pub fn may_update_unconditionally(kind: &Kind) -> bool {
    kind.is_builtin()
        && !matches!(kind.kind.as_str(), "Lease" | "CustomResourceDefinition" | "PodDisruptionBudget")
}

/// Whether the kind knows strategic merge patches: custom resources do not.
pub fn knows_strategic(kind: &Kind) -> bool {
    kind.is_builtin()
}

/// Applies a patch that is no server-side apply.
///
/// # Errors
/// 422 for a patch that does not apply, 400 for one that is none.
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

/// A server-side apply's result, with its managedFields.
///
/// # Errors
/// 409 for fields that others own, 400 for what is no configuration.
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

/// Brings managedFields up to date after a write that was no apply.
pub fn track(call: &Call<'_>, old: Option<&Value>, new: &mut Value) {
    let manager = call.manager();
    let writer = writer(&manager, call.action.subresource, call.now);
    apply::update_managed_fields(&call.entry.kind, old, new, writer);
}

/// Whether an object's managedFields can be read.
pub fn has_readable_managers(value: &Value) -> bool {
    apply::is_readable(value)
}

fn writer<'a>(manager: &'a str, subresource: &'a str, now: Timestamp) -> apply::Writer<'a> {
    apply::Writer { manager, subresource: (!subresource.is_empty()).then_some(subresource), now }
}

/// The kinds that a CustomResourceDefinition makes.
///
/// # Errors
/// The definition's faults.
pub fn kinds_of_crd(definition: &Value) -> Result<Vec<Kind>, Vec<FieldFault>> {
    objects::kinds_of_crd(definition)
}

/// Objects, in the kind's version, as a Table of `meta.k8s.io/v1`; `include` is one of `includeObject`'s values.
pub fn table(kind: &Kind, objects: &[&Value], include: &str, now: Timestamp) -> Value {
    objects::table(kind, objects, IncludeObject::parse(Some(include)), now)
}

/// Which objects a list or watch is about.
#[derive(Debug, Clone)]
pub struct Selection {
    kind: Arc<Kind>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// Reads both selectors.
    ///
    /// # Errors
    /// 400 for a selector that is none, or a field that cannot be selected by.
    pub fn parse(kind: &Arc<Kind>, labels: &str, fields: &str) -> Result<Self, Refusal> {
        let refuse = |error: SelectorError| status::bad_request(error.to_string());
        Ok(Self {
            kind: kind.clone(),
            labels: LabelSelector::parse(labels).map_err(refuse)?,
            fields: FieldSelector::parse(kind, fields).map_err(refuse)?,
        })
    }

    /// Reads the selectors of a list or watch and judges what else it is asked with, in the order of Kubernetes: what
    /// does not parse, what may not stand together, fields that cannot be selected by, the revision.
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

    /// The same, of the object with this name only.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { fields: self.fields.named(name), ..self }
    }

    /// Whether at most one object is selected, by its name (`SelectionPredicate.MatchesSingle`).
    pub fn is_of_one(&self) -> bool {
        self.fields.exact("metadata.name").is_some()
    }

    /// Whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Whether an object, in the kind's version, is selected.
    pub fn matches(&self, value: &Value) -> bool {
        self.labels.matches(value) && self.fields.matches(&self.kind, value)
    }
}

/// A selector as one text, as `scale` gives it: a text already, a map of labels, or a `LabelSelector`.
pub fn selector_text(selector: &Value) -> Option<String> {
    match selector {
        Value::String(text) => Some(text.clone()),
        Value::Object(map) if map.values().all(Value::is_string) => {
            Some(LabelSelector::of_map(selector).to_string())
        }
        _ => LabelSelector::of(selector).ok().map(|selector| selector.to_string()),
    }
}

/// The object's metadata, made if need be.
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
