//! Admission policies and their bindings (`pkg/apis/admissionregistration/validation`).
//!
//! Expressions are parsed but not type-checked, because what they refer to is known only at evaluation.

use serde_json::Value;

use super::webhook::{conditions, expression, rule, selector};
use super::{FieldFault, items, one_of, text};
use crate::expressions::initializers;
use crate::{Reason, names};

/// The most audit annotations of one policy.
const MAX_ANNOTATIONS: usize = 20;
/// The operations that a mutating policy can match.
const MUTABLE: [&str; 3] = ["*", "CREATE", "UPDATE"];

pub(super) fn policy(policy: &Value) -> Vec<FieldFault> {
    let (spec, mut faults) = (&policy["spec"], Vec::new());
    one_of(spec, "failurePolicy", &["Fail", "Ignore"], "spec", &mut faults);
    if spec["paramKind"].is_object() {
        parameter_kind(&spec["paramKind"], &mut faults);
    }
    match spec["matchConstraints"]["resourceRules"].as_array() {
        Some(rules) if !rules.is_empty() => {}
        _ => faults.push(FieldFault::required("spec.matchConstraints.resourceRules", "")),
    }
    resources(&spec["matchConstraints"], "spec.matchConstraints", &mut faults);
    conditions(spec, "spec", &mut faults);
    for (index, variable) in items(spec, "variables") {
        let at = format!("spec.variables[{index}]");
        let name = text(variable, "name");
        if name.is_empty() {
            faults.push(FieldFault::required(format!("{at}.name"), "name must not be empty"));
        } else if !is_identifier(name) {
            let detail = "name is not a valid CEL identifier";
            faults.push(FieldFault::invalid(format!("{at}.name"), name, detail));
        }
        expression(text(variable, "expression"), &format!("{at}.expression"), &mut faults);
    }
    match policy["kind"].as_str() {
        Some("MutatingAdmissionPolicy") => mutations(spec, &mut faults),
        _ => validations(policy, spec, &mut faults),
    }
    faults
}

/// `^[a-zA-Z_][a-zA-Z0-9_]*$`.
fn is_identifier(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn parameter_kind(kind: &Value, faults: &mut Vec<FieldFault>) {
    for field in ["apiVersion", "kind"] {
        if text(kind, field).is_empty() {
            faults.push(FieldFault::required(format!("spec.paramKind.{field}"), ""));
        }
    }
    let version = text(kind, "apiVersion");
    if version.matches('/').count() > 1 {
        let detail = format!("unexpected GroupVersion string: {version}");
        faults.push(FieldFault::invalid("spec.paramKind.apiVersion", version, detail));
    }
}

/// `validateMatchResources`.
fn resources(resources: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    one_of(resources, "matchPolicy", &["Equivalent", "Exact"], at, faults);
    for field in ["namespaceSelector", "objectSelector"] {
        selector(&resources[field], &format!("{at}.{field}"), faults);
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (index, given) in items(resources, field) {
            let at = format!("{at}.{field}[{index}]");
            let mut seen = Vec::new();
            for (index, name) in items(given, "resourceNames") {
                if seen.contains(&name) {
                    faults.push(FieldFault::duplicate(format!("{at}.resourceNames[{index}]"), name.clone()));
                }
                seen.push(name);
            }
            rule(given, &at, faults);
        }
    }
}

fn validations(policy: &Value, spec: &Value, faults: &mut Vec<FieldFault>) {
    let none = |field: &str| items(spec, field).next().is_none();
    if none("validations") && none("auditAnnotations") {
        let detail = "validations or auditAnnotations must contain at least one item";
        faults.push(FieldFault::required("spec.validations", detail));
        faults.push(FieldFault::required("spec.auditAnnotations", detail));
        return;
    }
    for (index, given) in items(spec, "validations") {
        validation(given, &format!("spec.validations[{index}]"), faults);
    }
    let count = items(spec, "auditAnnotations").count();
    if count > MAX_ANNOTATIONS {
        let detail = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
        faults.push(FieldFault::invalid("spec.auditAnnotations", spec["auditAnnotations"].clone(), detail));
    }
    let mut seen = Vec::new();
    for (index, given) in items(spec, "auditAnnotations") {
        let at = format!("spec.auditAnnotations[{index}]");
        let key = text(given, "key");
        let path = format!("{at}.key");
        let whole = format!("{}/{key}", text(&policy["metadata"], "name"));
        let wrong = names::qualified_name(&whole);
        faults.extend(wrong.into_iter().map(|detail| FieldFault::invalid(&path, key, detail)));
        if seen.contains(&key) {
            faults.push(FieldFault::duplicate(path, key));
        }
        seen.push(key);
        let value = text(given, "valueExpression");
        if value.trim().is_empty() {
            let detail = "valueExpression must be specified";
            faults.push(FieldFault::required(format!("{at}.valueExpression"), detail));
        } else {
            expression(value, &format!("{at}.valueExpression"), faults);
        }
    }
}

fn validation(given: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let (asked, message) = (text(given, "expression"), text(given, "message"));
    if asked.trim().is_empty() {
        faults.push(FieldFault::required(format!("{at}.expression"), "expression is not specified"));
    } else {
        expression(asked, &format!("{at}.expression"), faults);
    }
    let path = format!("{at}.messageExpression");
    match given["messageExpression"].as_str() {
        None | Some("") => {}
        Some(blank) if blank.trim().is_empty() => {
            let detail = "must be non-empty if specified";
            faults.push(FieldFault::invalid(path, blank, detail));
        }
        Some(given) => expression(given, &path, faults),
    }
    let path = format!("{at}.message");
    if !message.is_empty() && message.trim().is_empty() {
        faults.push(FieldFault::invalid(path, message, "message must be non-empty if specified"));
    } else if message.trim().contains('\n') {
        faults.push(FieldFault::invalid(path, message, "message must not contain line breaks"));
    } else if asked.trim().contains('\n') && message.trim().is_empty() {
        let detail = "message must be specified if expression contains line breaks";
        faults.push(FieldFault::required(path, detail));
    }
    let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];
    one_of(given, "reason", &reasons, at, faults);
}

fn mutations(spec: &Value, faults: &mut Vec<FieldFault>) {
    operations(&spec["matchConstraints"], "spec.matchConstraints", faults);
    if items(spec, "mutations").next().is_none() {
        faults.push(FieldFault::required("spec.mutations", "mutations must contain at least one item"));
    }
    for (index, given) in items(spec, "mutations") {
        mutation(given, &format!("spec.mutations[{index}]"), faults);
    }
    if text(spec, "reinvocationPolicy").is_empty() {
        faults.push(FieldFault::required("spec.reinvocationPolicy", ""));
    }
    one_of(spec, "reinvocationPolicy", &["IfNeeded", "Never"], "spec", faults);
}

fn operations(resources: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    for (_, rule) in items(resources, "resourceRules") {
        for (_, operation) in items(rule, "operations") {
            if !MUTABLE.iter().any(|known| operation == known) {
                let path = format!("{at}.resourceRules.operations");
                faults.push(FieldFault::not_supported(path, operation.clone(), &MUTABLE));
            }
        }
    }
}

fn mutation(given: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let kinds = [("ApplyConfiguration", "applyConfiguration"), ("JSONPatch", "jsonPatch")];
    let own = text(given, "patchType");
    if own.is_empty() {
        return faults.push(FieldFault::required(format!("{at}.patchType"), ""));
    }
    one_of(given, "patchType", &kinds.map(|(kind, _)| kind), at, faults);
    if !kinds.iter().any(|(kind, _)| *kind == own) {
        return;
    }
    for (kind, field) in kinds {
        let path = format!("{at}.{field}");
        match (kind == own, given[field].is_object()) {
            (true, true) => maker(text(&given[field], "expression"), &format!("{path}.expression"), faults),
            (true, false) => {
                let detail = format!("must be specified when patchType is {own}");
                faults.push(FieldFault::required(path, detail));
            }
            (false, true) => {
                let detail = format!("must not be specified when patchType is {own}");
                faults.push(FieldFault::invalid(path, format!("{{{field}}}"), detail));
            }
            (false, false) => {}
        }
    }
}

/// Validates an expression that constructs an object to apply.
fn maker(given: &str, path: &str, faults: &mut Vec<FieldFault>) {
    if given.trim().is_empty() {
        faults.push(FieldFault::required(path, ""));
    } else if let Err(error) = initializers::compile(given.trim()) {
        let detail = format!("compilation failed: {error}");
        faults.push(FieldFault::new(path, Reason::Invalid, Some(given.into()), detail));
    }
}

pub(super) fn binding(binding: &Value) -> Vec<FieldFault> {
    let (spec, mut faults) = (&binding["spec"], Vec::new());
    let name = text(spec, "policyName");
    if name.is_empty() {
        faults.push(FieldFault::required("spec.policyName", ""));
    } else {
        let wrong = names::subdomain(name);
        faults.extend(wrong.into_iter().map(|detail| FieldFault::invalid("spec.policyName", name, detail)));
    }
    if spec["paramRef"].is_object() {
        parameters(&spec["paramRef"], &mut faults);
    }
    if spec["matchResources"].is_object() {
        resources(&spec["matchResources"], "spec.matchResources", &mut faults);
    }
    match binding["kind"].as_str() {
        Some("MutatingAdmissionPolicyBinding") => {
            operations(&spec["matchResources"], "spec.matchResources", &mut faults);
        }
        _ => actions(spec, &mut faults),
    }
    faults
}

fn parameters(reference: &Value, faults: &mut Vec<FieldFault>) {
    let both = "name and selector are mutually exclusive";
    match (text(reference, "name").is_empty(), reference["selector"].is_null()) {
        (true, true) => {
            let detail = "one of name or selector must be specified";
            faults.push(FieldFault::required("spec.paramRef", detail));
        }
        (false, false) => {
            faults.push(FieldFault::forbidden("spec.paramRef.name", both));
            faults.push(FieldFault::forbidden("spec.paramRef.selector", both));
        }
        _ => {}
    }
    selector(&reference["selector"], "spec.paramRef.selector", faults);
    if text(reference, "parameterNotFoundAction").is_empty() {
        faults.push(FieldFault::required("spec.paramRef.parameterNotFoundAction", ""));
    }
    one_of(reference, "parameterNotFoundAction", &["Deny", "Allow"], "spec.paramRef", faults);
}

fn actions(spec: &Value, faults: &mut Vec<FieldFault>) {
    const PATH: &str = "spec.validationActions";
    let mut seen = Vec::new();
    for (index, action) in items(spec, "validationActions") {
        let (at, action) = (format!("{PATH}[{index}]"), action.as_str().unwrap_or_default());
        if !["Audit", "Deny", "Warn"].contains(&action) {
            faults.push(FieldFault::not_supported(&at, action, &["Audit", "Deny", "Warn"]));
        }
        if seen.contains(&action) {
            faults.push(FieldFault::duplicate(at, action));
        }
        seen.push(action);
    }
    if seen.contains(&"Deny") && seen.contains(&"Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        faults.push(FieldFault::invalid(PATH, spec["validationActions"].clone(), detail));
    }
    if seen.is_empty() {
        faults.push(FieldFault::required(PATH, "at least one validation action is required"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn policy_with(kind: &str, change: &Value) -> Vec<String> {
        let mut object = json!({"kind": kind, "metadata": {"name": "p"}, "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""],
                "apiVersions": ["v1"], "resources": ["pods"]}]}}});
        json_patch::merge(&mut object["spec"], change);
        policy(&object).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn faults_of_policies_are_worded_as_upstreams() {
        let fine = json!({"validations": [{"expression": "true"}]});
        let table = [
            (fine.clone(), ""),
            (
                json!({}),
                "spec.validations: Required value: validations or auditAnnotations must contain at least one item; spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
            ),
            (
                json!({"validations": [{"expression": " "}]}),
                "spec.validations[0].expression: Required value: expression is not specified",
            ),
            (
                json!({"validations": [{"expression": "true", "message": "a\nb", "reason": "No"}]}),
                "spec.validations[0].message: Invalid value: \"a\\nb\": message must not contain line breaks; spec.validations[0].reason: Unsupported value: \"No\": supported values: \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\", \"Unauthorized\"",
            ),
            (
                json!({"validations": [{"expression": "Object{} == null"}]}),
                "spec.validations[0].expression: Invalid value: \"Object{} == null\": compilation failed: undeclared reference to 'Object'",
            ),
        ];
        for (change, expected) in table {
            assert_eq!(policy_with("ValidatingAdmissionPolicy", &change).join("; "), expected, "{change}");
        }
        let table = [
            (
                json!({"reinvocationPolicy": "Never", "mutations": [{"patchType": "ApplyConfiguration",
                    "applyConfiguration": {"expression": "Object{}"}}]}),
                "",
            ),
            (
                json!({}),
                "spec.mutations: Required value: mutations must contain at least one item; spec.reinvocationPolicy: Required value",
            ),
            (
                json!({"reinvocationPolicy": "Never", "mutations": [{"patchType": "JSONPatch",
                    "applyConfiguration": {"expression": "Object{}"}}]}),
                "spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified when patchType is JSONPatch; spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
            ),
        ];
        for (change, expected) in table {
            assert_eq!(policy_with("MutatingAdmissionPolicy", &change).join("; "), expected, "{change}");
        }
    }

    #[test]
    fn faults_of_bindings_are_worded_as_upstreams() {
        let table = [
            (json!({"policyName": "p", "validationActions": ["Deny", "Audit"]}), ""),
            (
                json!({"validationActions": ["Deny", "Warn"]}),
                "spec.policyName: Required value; spec.validationActions: Invalid value: [\"Deny\",\"Warn\"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
            ),
            (
                json!({"policyName": "p", "validationActions": ["Deny"], "paramRef": {}}),
                "spec.paramRef: Required value: one of name or selector must be specified; spec.paramRef.parameterNotFoundAction: Required value",
            ),
        ];
        for (spec, expected) in table {
            let object = json!({"kind": "ValidatingAdmissionPolicyBinding", "spec": spec});
            let texts = binding(&object).iter().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!(texts.join("; "), expected, "{spec}");
        }
    }
}
