//! CustomResourceDefinitions: their defaults, validation, and the kinds that they define.
//!
//! Rules of `apiextensions-apiserver/pkg/apis/apiextensions/validation` and of structural schemas
//! (`pkg/apiserver/schema/validation.go`, KEP-1693). Conversion webhooks are rejected, because this server does not
//! call them: all versions of a CRD have the same shape (conversion strategy None).

mod kinds;
mod structural;

use std::collections::BTreeSet;

use serde_json::{Value, json};

pub use self::kinds::{kinds_of_crd, version_rank};
use self::structural::validate_schema;
use super::fault::FieldFault;
use super::names;

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
}
