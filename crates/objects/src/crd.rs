//! CustomResourceDefinitions: their defaults, validation, and the kinds that they define.
//!
//! Rules of `apiextensions-apiserver/pkg/apis/apiextensions/validation` and of structural schemas
//! (`pkg/apiserver/schema/validation.go`, KEP-1693). Conversion webhooks are rejected, because this server does not
//! call them: all versions of a CRD have the same shape (conversion strategy None).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::fault::FieldFault;
use super::kinds::{Column, Kind, ScalePaths};
use super::names;
use crate::schema::{self, MAX_DEPTH, Schema, SchemaError};

/// JSON schema keywords that structural schemas do not support.
const FORBIDDEN_KEYWORDS: &[&str] = &[
    "definitions",
    "dependencies",
    "deprecated",
    "discriminator",
    "id",
    "patternProperties",
    "readOnly",
    "writeOnly",
    "xml",
    "$ref",
    "additionalItems",
];
/// The most versions of a CRD; more would only cost memory.
const MAX_VERSIONS: usize = 100;

/// Fills in the defaults of a CRD: names, list kind, conversion, stored versions.
pub(super) fn default_crd(crd: &mut Value) {
    let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(names) = crd["spec"].get_mut("names").filter(|n| n.is_object()) {
        for (field, value) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
            if names[field].as_str().unwrap_or_default().is_empty() && !kind.is_empty() {
                names[field] = json!(value);
            }
        }
    }
    if crd["spec"].is_object() && crd["spec"]["conversion"].is_null() {
        crd["spec"]["conversion"] = json!({"strategy": "None"});
    }
}

/// Returns the status of a CRD whose names are accepted and that is served. `now` is RFC 3339.
pub fn established_status(crd: &Value, now: &str) -> Value {
    let mut stored: Vec<Value> = crd["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    let storage = versions(crd).find(|v| v["storage"] == true).map(|v| v["name"].clone());
    if let Some(storage) = storage.filter(|s| !stored.contains(s)) {
        stored.push(storage);
    }
    let since = |kind: &str| {
        let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
        conditions
            .filter(|c| c["type"] == kind && c["status"] == "True")
            .find_map(|c| c["lastTransitionTime"].as_str())
            .unwrap_or(now)
            .to_owned()
    };
    json!({
        "acceptedNames": crd["spec"]["names"],
        "conditions": [
            {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found", "lastTransitionTime": since("NamesAccepted")},
            {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "the initial names have been accepted", "lastTransitionTime": since("Established")},
        ],
        "storedVersions": stored,
    })
}

fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    crd["spec"]["versions"].as_array().into_iter().flatten()
}

fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object[field].as_str().unwrap_or_default()
}

/// Returns every fault of a CRD.
pub fn validate_crd(crd: &Value) -> Vec<FieldFault> {
    judge(crd, true)
}

/// As [`validate_crd`], optionally without compiling the CEL rules, which is by far the slowest part.
fn judge(crd: &Value, with_rules: bool) -> Vec<FieldFault> {
    let (spec, mut faults) = (&crd["spec"], Vec::new());
    group_and_names(crd, &mut faults);
    match text(spec, "scope") {
        "Cluster" | "Namespaced" => {}
        "" => faults.push(FieldFault::required("spec.scope", "")),
        other => faults.push(FieldFault::not_supported("spec.scope", other, &["Cluster", "Namespaced"])),
    }
    match spec["conversion"]["strategy"].as_str() {
        None | Some("None") => {}
        Some("Webhook") => {
            let text = "conversion webhooks are not served by this cluster";
            faults.push(FieldFault::forbidden("spec.conversion.strategy", text));
        }
        Some(other) => {
            faults.push(FieldFault::not_supported("spec.conversion.strategy", other, &["None", "Webhook"]))
        }
    }
    if spec["preserveUnknownFields"] == true {
        let text = "must be false in order to use defaults in the schema";
        faults.push(FieldFault::invalid("spec.preserveUnknownFields", true, text));
    }
    version_list(crd, with_rules, &mut faults);
    faults
}

fn group_and_names(crd: &Value, faults: &mut Vec<FieldFault>) {
    let (spec, names) = (&crd["spec"], &crd["spec"]["names"]);
    let group = text(spec, "group");
    if group.is_empty() {
        faults.push(FieldFault::required("spec.group", ""));
    } else {
        faults
            .extend(names::subdomain(group).into_iter().map(|f| FieldFault::invalid("spec.group", group, f)));
        if !group.contains('.') {
            let text = "should be a domain with at least one dot";
            faults.push(FieldFault::invalid("spec.group", group, text));
        }
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        let (path, value) = (format!("spec.names.{field}"), text(names, field));
        let lower = value.to_lowercase();
        if value.is_empty() {
            faults.push(FieldFault::required(path, ""));
        } else if field.ends_with("ind") || field == "listKind" {
            let judged = names::label_1035(&lower).into_iter();
            faults.extend(judged.map(|f| {
                FieldFault::invalid(
                    &path,
                    value,
                    format!("may have mixed case, but should otherwise match: {f}"),
                )
            }));
        } else {
            faults.extend(names::label_1035(value).into_iter().map(|f| FieldFault::invalid(&path, value, f)));
        }
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in names[field].as_array().into_iter().flatten().enumerate() {
            let name = name.as_str().unwrap_or_default();
            let path = format!("spec.names.{field}[{index}]");
            faults.extend(names::label_1035(name).into_iter().map(|f| FieldFault::invalid(&path, name, f)));
        }
    }
    if !text(names, "kind").is_empty() && names["kind"] == names["listKind"] {
        let text = "kind and listKind may not be the same";
        faults.push(FieldFault::invalid("spec.names.listKind", names["listKind"].clone(), text));
    }
    let wanted = format!("{}.{group}", text(names, "plural"));
    let name = text(&crd["metadata"], "name");
    if name != wanted && !group.is_empty() {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        faults.push(FieldFault::invalid("metadata.name", name, detail));
    }
}

fn version_list(crd: &Value, with_rules: bool, faults: &mut Vec<FieldFault>) {
    let (mut seen, mut storage) = (BTreeSet::new(), 0);
    if versions(crd).count() > MAX_VERSIONS {
        faults.push(FieldFault::too_many("spec.versions", versions(crd).count(), MAX_VERSIONS as u64));
        return;
    }
    for (index, version) in versions(crd).enumerate() {
        let (at, name) = (format!("spec.versions[{index}]"), text(version, "name"));
        faults.extend(
            names::label_1035(name).into_iter().map(|f| FieldFault::invalid(format!("{at}.name"), name, f)),
        );
        if !seen.insert(name) {
            faults.push(FieldFault::duplicate(format!("{at}.name"), name));
        }
        storage += usize::from(version["storage"] == true);
        for flag in ["served", "storage"] {
            if !version[flag].is_boolean() {
                faults.push(FieldFault::required(format!("{at}.{flag}"), ""));
            }
        }
        let path = format!("{at}.schema.openAPIV3Schema");
        match version["schema"].get("openAPIV3Schema") {
            Some(schema) if schema.is_object() => validate_schema(schema, &path, with_rules, faults),
            _ => faults.push(FieldFault::required(path, "schemas are required")),
        }
        columns(version, &at, faults);
        scale(&version["subresources"]["scale"], &format!("{at}.subresources.scale"), faults);
    }
    if storage != 1 {
        let value = crd["spec"]["versions"].clone();
        faults.push(FieldFault::invalid(
            "spec.versions",
            summary(&value),
            "must have exactly one version marked as storage version",
        ));
    }
}

/// Returns versions without their schemas, for messages.
fn summary(versions: &Value) -> Value {
    let short = |v: &Value| json!({"name": v["name"], "served": v["served"], "storage": v["storage"]});
    versions.as_array().map(|all| all.iter().map(short).collect()).unwrap_or_default()
}

fn columns(version: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let types = ["boolean", "date", "integer", "number", "string"];
    for (index, column) in version["additionalPrinterColumns"].as_array().into_iter().flatten().enumerate() {
        let at = format!("{at}.additionalPrinterColumns[{index}]");
        for field in ["name", "type", "jsonPath"] {
            if text(column, field).is_empty() {
                faults.push(FieldFault::required(format!("{at}.{field}"), ""));
            }
        }
        let kind = text(column, "type");
        if !kind.is_empty() && !types.contains(&kind) {
            faults.push(FieldFault::invalid(
                format!("{at}.type"),
                kind,
                format!("must be one of {}", types.join(",")),
            ));
        }
        let path = text(column, "jsonPath");
        if !path.is_empty() && (!path.starts_with('.') || jsonpath::Path::parse(path).is_err()) {
            let text = "must be a simple json path starting with .";
            faults.push(FieldFault::invalid(format!("{at}.jsonPath"), path, text));
        }
    }
    for (index, field) in version["selectableFields"].as_array().into_iter().flatten().enumerate() {
        let path = text(field, "jsonPath");
        let simple = jsonpath::Path::parse(path).is_ok_and(|p| p.fields().is_some());
        if !path.starts_with('.') || !simple {
            let text = "must be a simple json path starting with .";
            faults.push(FieldFault::invalid(format!("{at}.selectableFields[{index}].jsonPath"), path, text));
        }
    }
}

fn scale(scale: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    if !scale.is_object() {
        return;
    }
    for (field, prefix) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let path = text(scale, field);
        if path.is_empty() {
            faults.push(FieldFault::required(format!("{at}.{field}"), ""));
        } else if !path.starts_with(prefix)
            || jsonpath::Path::parse(path).map_or(true, |p| p.fields().is_none())
        {
            let detail = format!("should be a json path under {}", prefix.trim_end_matches('.'));
            faults.push(FieldFault::invalid(format!("{at}.{field}"), path, detail));
        }
    }
}

/// Validates a schema: its structure first, then patterns, defaults and rules.
fn validate_schema(source: &Value, path: &str, with_rules: bool, faults: &mut Vec<FieldFault>) {
    let before = faults.len();
    Structural { faults }.node(source, path, Position { root: true, value_only: false }, 0);
    if faults.len() > before {
        return;
    }
    match Schema::of_crd(source) {
        Err(SchemaError::Pattern(at, pattern)) => {
            let at = at.replace("openAPIV3Schema", path);
            faults.push(FieldFault::invalid(
                format!("{at}.pattern"),
                pattern,
                "must be a valid regular expression",
            ));
        }
        Err(error) => faults.push(FieldFault::invalid(path, "", error.to_string())),
        Ok(schema) => {
            let compiled = if with_rules { schema::compile_faults(&schema) } else { Vec::new() };
            for (at, index, rule, error) in compiled {
                let at = at.replacen("openAPIV3Schema", path, 1);
                let at = format!("{at}.x-kubernetes-validations[{index}].rule");
                faults.push(FieldFault::invalid(at, rule, format!("compilation failed: {error}")));
            }
            if source["type"] != "object" {
                let text = "must be object at the root";
                faults.push(FieldFault::invalid(format!("{path}.type"), source["type"].clone(), text));
            }
        }
    }
}

/// The position of a node in its schema.
#[derive(Clone, Copy)]
struct Position {
    root: bool,
    /// Inside `allOf`, `anyOf`, `oneOf` or `not`, which may contain only conditions on values.
    value_only: bool,
}

struct Structural<'a> {
    faults: &'a mut Vec<FieldFault>,
}

impl Structural<'_> {
    fn node(&mut self, schema: &Value, path: &str, position: Position, depth: usize) {
        let Some(map) = schema.as_object() else {
            self.faults.push(FieldFault::invalid(path, schema.clone(), "must be a schema object"));
            return;
        };
        if depth > MAX_DEPTH {
            self.faults.push(FieldFault::invalid(path, "", "the schema is nested too deeply"));
            return;
        }
        for keyword in FORBIDDEN_KEYWORDS.iter().filter(|k| map.contains_key(**k)) {
            self.faults.push(FieldFault::forbidden(
                format!("{path}.{keyword}"),
                format!("{keyword} is not supported"),
            ));
        }
        if position.value_only {
            self.condition(map, path);
        } else {
            self.shape(map, path, position);
        }
        self.children(map, path, position, depth);
    }

    /// Validates a node that defines the shape of a value.
    fn shape(&mut self, map: &Map<String, Value>, path: &str, position: Position) {
        let kind = map.get("type").and_then(Value::as_str).unwrap_or_default();
        let flag = |key: &str| map.get(key) == Some(&Value::Bool(true));
        let (either, free) =
            (flag("x-kubernetes-int-or-string"), flag("x-kubernetes-preserve-unknown-fields"));
        let types = ["array", "boolean", "integer", "number", "object", "string"];
        match kind {
            "" if either || (free && !position.root) => {}
            "" => {
                let text = "must not be empty for specified object fields";
                self.faults.push(FieldFault::required(
                    format!("{path}.type"),
                    if position.root { "must not be empty at the root" } else { text },
                ));
            }
            _ if either => {
                let text = "must be empty if x-kubernetes-int-or-string is true";
                self.faults.push(FieldFault::invalid(format!("{path}.type"), kind, text));
            }
            kind if !types.contains(&kind) => {
                self.faults.push(FieldFault::not_supported(format!("{path}.type"), kind, &types));
            }
            _ => {}
        }
        if kind == "array" && !map.get("items").is_some_and(Value::is_object) {
            self.faults.push(FieldFault::required(format!("{path}.items"), "must be specified"));
        }
        if map.contains_key("properties")
            && map.get("additionalProperties").is_some_and(|a| *a != Value::Bool(false))
        {
            let text = "additionalProperties and properties are mutual exclusive";
            self.faults.push(FieldFault::forbidden(format!("{path}.additionalProperties"), text));
        }
        if map.get("additionalProperties") == Some(&Value::Bool(false)) {
            let text = "additionalProperties cannot be set to false";
            self.faults.push(FieldFault::forbidden(format!("{path}.additionalProperties"), text));
        }
        if map.get("uniqueItems") == Some(&Value::Bool(true)) {
            let text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.faults.push(FieldFault::forbidden(format!("{path}.uniqueItems"), text));
        }
        self.list(map, path);
    }

    fn list(&mut self, map: &Map<String, Value>, path: &str) {
        let Some(list_type) = map.get("x-kubernetes-list-type").and_then(Value::as_str) else { return };
        let at = format!("{path}.x-kubernetes-list-type");
        match list_type {
            "atomic" | "set" => {}
            "map" => self.list_keys(map, path),
            other => self.faults.push(FieldFault::not_supported(&at, other, &["atomic", "set", "map"])),
        }
        if map.get("type").and_then(Value::as_str) != Some("array") {
            let text = "must be array if x-kubernetes-list-type is specified";
            self.faults.push(FieldFault::invalid(
                format!("{path}.type"),
                map.get("type").cloned().unwrap_or_default(),
                text,
            ));
        }
    }

    fn list_keys(&mut self, map: &Map<String, Value>, path: &str) {
        let keys: Vec<&str> = map
            .get("x-kubernetes-list-map-keys")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if keys.is_empty() {
            let text = "must not be empty if x-kubernetes-list-type is map";
            self.faults.push(FieldFault::required(format!("{path}.x-kubernetes-list-map-keys"), text));
        }
        let items = map.get("items").unwrap_or(&Value::Null);
        for (index, key) in keys.iter().enumerate() {
            let property = &items["properties"][key];
            let required = items["required"].as_array().is_some_and(|r| r.iter().any(|r| r == key));
            if property.is_null() {
                let at = format!("{path}.x-kubernetes-list-map-keys[{index}]");
                self.faults.push(FieldFault::invalid(
                    at,
                    *key,
                    "entries must all be names of item properties",
                ));
            } else if !required && property.get("default").is_none() {
                let at = format!("{path}.items.properties[{key}].default");
                let text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                self.faults.push(FieldFault::required(at, text));
            }
        }
    }

    /// Validates a node that only imposes conditions on a value.
    fn condition(&mut self, map: &Map<String, Value>, path: &str) {
        for keyword in
            ["description", "type", "default", "title", "additionalProperties", "nullable", "example"]
        {
            if !map.contains_key(keyword) {
                continue;
            }
            let int_or_string = keyword == "type" && path.contains(".anyOf[");
            if !int_or_string {
                let text = "must be undefined to be structural";
                self.faults.push(FieldFault::forbidden(format!("{path}.{keyword}"), text));
            }
        }
        for keyword in map.keys().filter(|k| k.starts_with("x-kubernetes-")) {
            let text = "must be undefined to be structural";
            self.faults.push(FieldFault::forbidden(format!("{path}.{keyword}"), text));
        }
    }

    fn children(&mut self, map: &Map<String, Value>, path: &str, position: Position, depth: usize) {
        let inner = Position { root: false, ..position };
        for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if position.root && name == "metadata" {
                continue;
            }
            self.node(property, &format!("{path}.properties[{name}]"), inner, depth + 1);
        }
        if let Some(items) = map.get("items").filter(|i| i.is_object()) {
            self.node(items, &format!("{path}.items"), inner, depth + 1);
        }
        if let Some(values) = map.get("additionalProperties").filter(|a| a.is_object()) {
            self.node(values, &format!("{path}.additionalProperties"), inner, depth + 1);
        }
        let either = map.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
        let below = Position { root: false, value_only: true };
        for junctor in ["allOf", "anyOf", "oneOf"] {
            if either && junctor == "anyOf" {
                // Generators write int-or-string as `anyOf: [{type: integer}, {type: string}]`.
                continue;
            }
            for (index, schema) in
                map.get(junctor).and_then(Value::as_array).into_iter().flatten().enumerate()
            {
                self.node(schema, &format!("{path}.{junctor}[{index}]"), below, depth + 1);
            }
        }
        if let Some(schema) = map.get("not") {
            self.node(schema, &format!("{path}.not"), below, depth + 1);
        }
    }
}

/// Validates an update of a CRD: scope and names are immutable once accepted, and stored versions must remain.
pub fn validate_crd_update(new: &Value, old: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    for path in ["/spec/group", "/spec/scope", "/spec/names/kind", "/spec/names/plural"] {
        let (after, before) = (new.pointer(path), old.pointer(path));
        if after != before {
            let field = path[1..].replace('/', ".");
            faults.push(FieldFault::invalid(field, after.cloned().unwrap_or_default(), "field is immutable"));
        }
    }
    for (index, stored) in old["status"]["storedVersions"].as_array().into_iter().flatten().enumerate() {
        if !versions(new).any(|v| v["name"] == *stored) {
            let text = format!(
                "missing from spec.versions; {} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {} and removes {} from status.storedVersions",
                stored.as_str().unwrap_or_default(),
                stored.as_str().unwrap_or_default(),
                stored.as_str().unwrap_or_default()
            );
            faults.push(FieldFault::invalid(format!("status.storedVersions[{index}]"), stored.clone(), text));
        }
    }
    faults
}

/// Returns the kinds that a valid CRD defines, one per served version, the preferred one first.
///
/// # Errors
/// The CRD's faults.
pub fn kinds_of_crd(crd: &Value) -> Result<Vec<Kind>, Vec<FieldFault>> {
    let mut defaulted = crd.clone();
    default_crd(&mut defaulted);
    // Writing the CRD already rejected rules that do not compile. Should one remain, its evaluation rejects the object.
    let faults = judge(&defaulted, false);
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut kinds: Vec<Kind> = Vec::new();
    for version in versions(&defaulted).filter(|v| v["served"] == true) {
        let schema = Schema::of_crd(&version["schema"]["openAPIV3Schema"])
            .map_err(|e| vec![FieldFault::invalid("spec.versions", text(version, "name"), e.to_string())])?;
        kinds.push(kind_of_version(&defaulted["spec"], version).with_schema(schema));
    }
    if let Some(stored) = kinds.iter().find(|kind| kind.stored_version).map(|kind| kind.schema().clone()) {
        kinds = kinds
            .into_iter()
            .map(|kind| if kind.stored_version { kind } else { kind.with_stored_schema(Some(&stored)) })
            .collect();
    }
    kinds.sort_by_key(|kind| std::cmp::Reverse(version_rank(&kind.version)));
    Ok(kinds)
}

fn kind_of_version(spec: &Value, version: &Value) -> Kind {
    let names = &spec["names"];
    let mut kind = Kind::new(
        text(spec, "group"),
        text(version, "name"),
        text(names, "kind"),
        text(names, "plural"),
        spec["scope"] == "Namespaced",
    );
    let strings = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
    };
    kind.list_kind = text(names, "listKind").to_owned();
    kind.singular = text(names, "singular").to_owned();
    kind.short_names = strings(&names["shortNames"]);
    kind.categories = strings(&names["categories"]);
    kind.stored_version = version["storage"] == true;
    kind.columns = version["additionalPrinterColumns"].as_array().into_iter().flatten().map(column).collect();
    kind.selectable_fields = version["selectableFields"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|f| text(f, "jsonPath").to_owned())
        .collect();
    if version["deprecated"] == true {
        let default = format!("{}/{} {} is deprecated", kind.group, kind.version, kind.kind);
        kind.deprecation = Some(version["deprecationWarning"].as_str().map_or(default, str::to_owned));
    }
    if version["subresources"]["status"].is_object() {
        kind = kind.with_status();
    }
    let scale = &version["subresources"]["scale"];
    if scale.is_object() {
        kind = kind.with_scale(ScalePaths {
            spec_replicas: text(scale, "specReplicasPath").to_owned(),
            status_replicas: text(scale, "statusReplicasPath").to_owned(),
            label_selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
        });
    }
    kind
}

fn column(column: &Value) -> Column {
    Column {
        name: text(column, "name").to_owned(),
        kind: text(column, "type").to_owned(),
        format: text(column, "format").to_owned(),
        description: text(column, "description").to_owned(),
        priority: column["priority"].as_i64().unwrap_or_default(),
        json_path: text(column, "jsonPath").to_owned(),
    }
}

/// Returns a sort key of a version (`apimachinery/pkg/version.CompareKubeAwareVersionStrings`): v10, v2, v1, v2beta1,
/// v1alpha1, others.
pub fn version_rank(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let other = (0, 0, 0, std::cmp::Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else { return other };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let Ok(major) = rest[..end].parse() else { return other };
    let (stability, minor) = match &rest[end..] {
        "" => (3, "0"),
        rest if rest.starts_with("beta") => (2, &rest[4..]),
        rest if rest.starts_with("alpha") => (1, &rest[5..]),
        _ => return other,
    };
    match minor.parse() {
        Ok(minor) => (stability, major, minor, std::cmp::Reverse(String::new())),
        Err(_) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(schema: Value) -> Value {
        json!({"metadata": {"name": "ks.g.io"}, "spec": {"group": "g.io", "scope": "Namespaced", "names": {"kind": "K", "plural": "ks", "shortNames": ["k"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".spec.n"}]}]}})
    }

    #[test]
    fn a_crd_defines_kinds() {
        let kinds = kinds_of_crd(&crd(json!({"type": "object", "properties": {"spec": {"type": "object"}}})))
            .unwrap();
        let kind = &kinds[0];
        assert_eq!(
            (kind.singular.as_str(), kind.list_kind.as_str(), kind.api_version()),
            ("k", "KList", "g.io/v1".to_owned())
        );
        assert!(kind.subresource("status").is_some() && kind.namespaced && !kind.is_builtin());
        assert_eq!(kind.columns[0].json_path, ".spec.n");
    }

    #[test]
    fn the_mpijob_crd_is_accepted() {
        let crd = serde_json::to_value(api::mpijob_crd()).unwrap();
        let kinds = kinds_of_crd(&crd).unwrap_or_else(|faults| panic!("{faults:?}"));
        assert_eq!(kinds[0].plural, "mpijobs");
    }

    #[test]
    fn the_rules_of_the_mpijob_crd_are_evaluated() {
        let crd = serde_json::to_value(api::mpijob_crd()).unwrap();
        let kind = kinds_of_crd(&crd).unwrap_or_else(|faults| panic!("{faults:?}")).remove(0);
        let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
        let job = |slots: i64, image: &str| {
            let mut worker = template.clone();
            worker["spec"]["containers"][0]["image"] = json!(image);
            let mut job = json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "j", "namespace": "n"},
                "spec": {"slotsPerWorker": slots, "mpiReplicaSpecs": {"Launcher": {"template": template}, "Worker": {"replicas": 2, "template": worker}}}});
            assert_eq!(crate::decode(&kind, &mut job).unwrap(), Vec::<String>::new());
            crate::default_object(&kind, &mut job);
            job
        };
        let old = job(1, "i");
        let texts = |faults: Vec<FieldFault>| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts(crate::validate_create(&kind, &old)), Vec::<String>::new());
        assert_eq!(texts(crate::validate_update(&kind, "", &old, &old)), Vec::<String>::new());
        assert!(!crate::validate_update(&kind, "", &job(2, "i"), &old).is_empty(), "slots are immutable");
        assert!(!crate::validate_update(&kind, "", &job(1, "j"), &old).is_empty(), "templates are immutable");
    }

    #[test]
    fn bad_schemas_are_refused() {
        let cases = [
            (
                json!({"properties": {}}),
                "spec.versions[0].schema.openAPIV3Schema.type: Required value: must not be empty at the root",
            ),
            (json!({"type": "object", "properties": {"a": {}}}), ".properties[a].type: Required value"),
            (
                json!({"type": "object", "properties": {"a": {"type": "array"}}}),
                ".properties[a].items: Required value",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
                "must be a valid regular expression",
            ),
            (
                json!({"type": "object", "anyOf": [{"properties": {"a": {"default": 1}}}]}),
                "must be undefined to be structural",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}}}),
                "x-kubernetes-list-map-keys: Required value",
            ),
            (
                json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.("}]}),
                "x-kubernetes-validations[0].rule: Invalid value: \"self.(\": compilation failed",
            ),
        ];
        for (schema, text) in cases {
            let mut crd = crd(schema);
            default_crd(&mut crd);
            let faults = validate_crd(&crd);
            assert!(faults.iter().any(|f| f.to_string().contains(text)), "{text}: {faults:?}");
        }
    }

    #[test]
    fn bad_crds_are_refused() {
        let good = crd(json!({"type": "object"}));
        let cases = [
            ("/metadata/name", json!("x"), r#"must be spec.names.plural+"."+spec.group"#),
            ("/spec/group", json!("nodots"), "should be a domain"),
            ("/spec/scope", json!("Galaxy"), "spec.scope: Unsupported value"),
            ("/spec/versions/0/storage", json!(false), "exactly one version marked as storage version"),
            ("/spec/versions/0/schema", json!({}), "schemas are required"),
            ("/spec/conversion", json!({"strategy": "Webhook"}), "conversion webhooks are not served"),
        ];
        for (at, value, text) in cases {
            let mut bad = good.clone();
            match bad.pointer_mut(at) {
                Some(position) => *position = value,
                None => bad["spec"]["conversion"] = value,
            }
            let faults = kinds_of_crd(&bad).unwrap_err();
            assert!(faults.iter().any(|f| f.to_string().contains(text)), "{text}: {faults:?}");
        }
    }

    #[test]
    fn versions_are_ranked() {
        let mut versions = vec!["v1alpha1", "v2", "foo", "v10", "v1", "v2beta1", "v1beta2"];
        versions.sort_by_key(|v| std::cmp::Reverse(version_rank(v)));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo"]);
    }
}
