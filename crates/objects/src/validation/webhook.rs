//! Webhook configurations (`pkg/apis/admissionregistration/validation`).

use serde_json::Value;

use super::{FieldFault, items, one_of, text};
use crate::expressions;
use crate::{LabelSelector, Reason, names};

/// The supported versions of `AdmissionReview`.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
/// The most match conditions of one webhook.
const MAX_CONDITIONS: usize = 64;

pub(super) fn configuration(configuration: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    let mut seen = Vec::new();
    for (index, webhook) in items(configuration, "webhooks") {
        let at = format!("webhooks[{index}]");
        one(webhook, &at, &mut faults);
        let name = text(webhook, "name");
        if !name.is_empty() && seen.contains(&name) {
            faults.push(FieldFault::duplicate(format!("{at}.name"), name));
        }
        seen.push(name);
    }
    faults
}

fn one(webhook: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    qualified(text(webhook, "name"), &format!("{at}.name"), faults);
    for (index, given) in items(webhook, "rules") {
        rule(given, &format!("{at}.rules[{index}]"), faults);
    }
    one_of(webhook, "failurePolicy", &["Fail", "Ignore"], at, faults);
    one_of(webhook, "matchPolicy", &["Equivalent", "Exact"], at, faults);
    one_of(webhook, "reinvocationPolicy", &["IfNeeded", "Never"], at, faults);
    if webhook["sideEffects"].is_null() {
        let detail = "must specify one of None, NoneOnDryRun";
        faults.push(FieldFault::required(format!("{at}.sideEffects"), detail));
    }
    one_of(webhook, "sideEffects", &["None", "NoneOnDryRun"], at, faults);
    if webhook["timeoutSeconds"].as_i64().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        let path = format!("{at}.timeoutSeconds");
        faults.push(FieldFault::invalid(path, webhook["timeoutSeconds"].clone(), detail));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        selector(&webhook[field], &format!("{at}.{field}"), faults);
    }
    place(&webhook["clientConfig"], &format!("{at}.clientConfig"), faults);
    conditions(webhook, at, faults);
    review_versions(webhook, at, faults);
}

/// `IsFullyQualifiedName`.
fn qualified(name: &str, path: &str, faults: &mut Vec<FieldFault>) {
    if name.is_empty() {
        return faults.push(FieldFault::required(path, ""));
    }
    let wrong = names::subdomain(name);
    if !wrong.is_empty() {
        return faults.push(FieldFault::invalid(path, name, wrong.join(",")));
    }
    if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        faults.push(FieldFault::invalid(path, name, detail));
    }
}

/// `ValidateLabelSelector`.
pub(super) fn selector(selector: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    if !selector.is_null() && LabelSelector::of(selector).is_err() {
        for (index, expression) in items(selector, "matchExpressions") {
            if !["In", "NotIn", "Exists", "DoesNotExist"].contains(&text(expression, "operator")) {
                let path = format!("{path}.matchExpressions[{index}].operator");
                let detail = "not a valid selector operator";
                faults.push(FieldFault::invalid(path, expression["operator"].clone(), detail));
            }
        }
    }
}

/// Validates a rule with its operations, of a webhook or a policy.
pub(super) fn rule(rule: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let list = |field: &str| {
        items(rule, field).map(|(_, item)| item.as_str().unwrap_or_default()).collect::<Vec<_>>()
    };
    let words = [
        ("operations", "operations"),
        ("apiGroups", "API groups"),
        ("apiVersions", "API versions"),
        ("resources", ""),
    ];
    for (field, words) in words {
        let given = list(field);
        if given.is_empty() {
            faults.push(FieldFault::required(format!("{at}.{field}"), ""));
        }
        if !words.is_empty() && given.len() > 1 && given.contains(&"*") {
            let detail = format!("if '*' is present, must not specify other {words}");
            faults.push(FieldFault::invalid(format!("{at}.{field}"), rule[field].clone(), detail));
        }
        if matches!(field, "apiVersions" | "resources") {
            let empty = given.iter().enumerate().filter(|(_, item)| item.is_empty());
            faults.extend(empty.map(|(index, _)| FieldFault::required(format!("{at}.{field}[{index}]"), "")));
        }
    }
    let operations = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    for (index, operation) in list("operations").into_iter().enumerate() {
        if !operations.contains(&operation) {
            let path = format!("{at}.operations[{index}]");
            faults.push(FieldFault::not_supported(path, operation, &operations));
        }
    }
    resources(rule, &list("resources"), &format!("{at}.resources"), faults);
    one_of(rule, "scope", &["*", "Cluster", "Namespaced"], at, faults);
}

fn resources(rule: &Value, given: &[&str], path: &str, faults: &mut Vec<FieldFault>) {
    let (mut whole, mut parts) = (Vec::new(), Vec::new());
    for (index, name) in given.iter().enumerate() {
        let Some((resource, part)) = name.split_once('/') else { continue };
        for (wildcard, of) in [
            (whole.contains(&resource), format!("{resource}/*")),
            (parts.contains(&part), format!("*/{part}")),
        ] {
            if wildcard {
                let detail = format!("if '{of}' is present, must not specify {name}");
                faults.push(FieldFault::invalid(format!("{path}[{index}]"), *name, detail));
            }
        }
        if part == "*" {
            whole.push(resource);
        }
        if resource == "*" {
            parts.push(part);
        }
    }
    let mut refuse = |detail: &str| faults.push(FieldFault::invalid(path, rule["resources"].clone(), detail));
    if given.len() > 1 && given.contains(&"*/*") {
        refuse("if '*/*' is present, must not specify other resources");
    }
    let is_bare = |name: &str| !name.is_empty() && name != "*" && !name.contains('/');
    if given.contains(&"*") && given.iter().copied().any(is_bare) {
        refuse("if '*' is present, must not specify other resources without subresources");
    }
}

fn place(config: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    match (config["url"].as_str(), config["service"].as_object()) {
        (Some(given), None) => url(given, &format!("{at}.url"), faults),
        (None, Some(_)) => service(&config["service"], &format!("{at}.service"), faults),
        _ => faults.push(FieldFault::required(at, "exactly one of url or service is required")),
    }
}

/// `ValidateWebhookURL`.
fn url(given: &str, path: &str, faults: &mut Vec<FieldFault>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let mut refuse = |value: &str, detail: String| faults.push(FieldFault::invalid(path, value, detail));
    let (scheme, rest) = given.split_once("://").unwrap_or(("", given));
    if scheme != "https" {
        refuse(scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if scheme.is_empty() || authority.rsplit('@').next().is_none_or(str::is_empty) {
        refuse("", format!("host must be specified{FORM}"));
    }
    if let Some((user, _)) = authority.rsplit_once('@') {
        refuse(user, "user information is not permitted in the URL".to_owned());
    }
    let (before, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    if !fragment.is_empty() {
        refuse(fragment, "fragments are not permitted in the URL".to_owned());
    }
    if let Some((_, query)) = before.split_once('?').filter(|(_, query)| !query.is_empty()) {
        refuse(query, "query parameters are not permitted in the URL".to_owned());
    }
}

/// `ValidateWebhookService`.
fn service(service: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    for field in ["name", "namespace"] {
        if text(service, field).is_empty() {
            faults.push(FieldFault::required(format!("{at}.{field}"), ""));
        }
    }
    let port = service["port"].as_i64().unwrap_or(443);
    if let Some(detail) = names::port(port) {
        faults.push(FieldFault::invalid(format!("{at}.port"), port, format!("port is not valid: {detail}")));
    }
    let path = text(service, "path");
    if matches!(path, "" | "/") {
        return;
    }
    let mut refuse = |detail: String| faults.push(FieldFault::invalid(format!("{at}.path"), path, detail));
    if path == "//" {
        return refuse("segment[0] may not be empty".to_owned());
    }
    if !path.starts_with('/') {
        refuse("must start with a '/'".to_owned());
    }
    let inner = path.get(1..).unwrap_or_default();
    for (index, segment) in inner.strip_suffix('/').unwrap_or(inner).split('/').enumerate() {
        if segment.is_empty() {
            refuse(format!("segment[{index}] may not be empty"));
            continue;
        }
        for detail in names::subdomain(segment) {
            refuse(format!("segment[{index}]: {detail}"));
        }
    }
}

/// Validates match conditions of a webhook or a policy.
pub(super) fn conditions(owner: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let path = if at.is_empty() { "matchConditions".to_owned() } else { format!("{at}.matchConditions") };
    let count = items(owner, "matchConditions").count();
    if count > MAX_CONDITIONS {
        faults.push(FieldFault::too_many(&path, count, MAX_CONDITIONS as u64));
    }
    let mut seen = Vec::new();
    for (index, condition) in items(owner, "matchConditions") {
        let at = format!("{path}[{index}]");
        expression(text(condition, "expression"), &format!("{at}.expression"), faults);
        let name = text(condition, "name");
        let named = format!("{at}.name");
        if name.is_empty() {
            faults.push(FieldFault::required(named, ""));
            continue;
        }
        let wrong = names::qualified_name(name);
        faults.extend(wrong.into_iter().map(|detail| FieldFault::invalid(&named, name, detail)));
        if seen.contains(&name) {
            faults.push(FieldFault::duplicate(named, name));
        }
        seen.push(name);
    }
}

/// Validates a CEL expression.
pub(super) fn expression(given: &str, path: &str, faults: &mut Vec<FieldFault>) {
    if given.trim().is_empty() {
        faults.push(FieldFault::required(path, ""));
    } else if let Err(error) = expressions::compile(given) {
        let detail = format!("compilation failed: {error}");
        faults.push(FieldFault::new(path, Reason::Invalid, Some(given.into()), detail));
    }
}

fn review_versions(webhook: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let path = format!("{at}.admissionReviewVersions");
    let given = items(webhook, "admissionReviewVersions");
    let given = given.map(|(_, version)| version.as_str().unwrap_or_default()).collect::<Vec<_>>();
    if given.is_empty() {
        let detail = format!("must specify one of {}", REVIEW_VERSIONS.join(", "));
        return faults.push(FieldFault::required(path, detail));
    }
    for (index, version) in given.iter().enumerate() {
        let at = format!("{path}[{index}]");
        if given.iter().take(index).any(|earlier| earlier == version) {
            faults.push(FieldFault::invalid(at, *version, "duplicate version"));
            continue;
        }
        let wrong = names::label_1035(version);
        faults.extend(wrong.into_iter().map(|detail| FieldFault::invalid(&at, *version, detail)));
    }
    if !given.iter().any(|version| REVIEW_VERSIONS.contains(version)) {
        let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        faults.push(FieldFault::invalid(path, webhook["admissionReviewVersions"].clone(), detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(change: Value) -> Vec<String> {
        let mut webhook = json!({"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/x"},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]});
        json_patch::merge(&mut webhook, &change);
        configuration(&json!({"webhooks": [webhook]})).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn faults_are_worded_as_upstreams() {
        let url = |url: &str| json!({"clientConfig": {"url": url}});
        let table = [
            (json!({}), ""),
            (
                json!({"name": "a.b"}),
                "webhooks[0].name: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots",
            ),
            (
                json!({"sideEffects": null}),
                "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
            ),
            (
                json!({"sideEffects": "Some"}),
                "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
            ),
            (
                json!({"timeoutSeconds": 31}),
                "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
            ),
            (
                json!({"admissionReviewVersions": ["v2"]}),
                "webhooks[0].admissionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1",
            ),
            (
                json!({"clientConfig": {"service": {"name": "s", "namespace": "n", "port": 443}}}),
                "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
            ),
            (
                url("http://a/b"),
                "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
            ),
            (
                url("https://a/b?c=d"),
                "webhooks[0].clientConfig.url: Invalid value: \"c=d\": query parameters are not permitted in the URL",
            ),
            (
                url("https://u@a/b"),
                "webhooks[0].clientConfig.url: Invalid value: \"u\": user information is not permitted in the URL",
            ),
            (
                json!({"rules": [{"operations": ["GET"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}),
                "webhooks[0].rules[0].operations[0]: Unsupported value: \"GET\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"",
            ),
            (
                json!({"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*", "pods"]}]}),
                "webhooks[0].rules[0].resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify other resources without subresources",
            ),
        ];
        for (change, expected) in table {
            assert_eq!(texts(change.clone()).join("; "), expected, "{change}");
        }
        assert!(texts(json!({"matchConditions": [{"name": "x", "expression": "1 +"}]}))[0].starts_with(
            "webhooks[0].matchConditions[0].expression: Invalid value: \"1 +\": compilation failed"
        ));
    }
}
