//! Decides whether a webhook is called for a write, and with which version of the object.
//!
//! Source: apiserver `pkg/admission/plugin/webhook/generic/webhook.go` (ShouldCallHook) and `predicates`.
//! Checks the namespace selector, the object selector, the rules and finally the CEL conditions.

use std::sync::Arc;

use serde_json::Value;

use super::hook::{Condition, Hook, Rule};
use super::invocation::Invocation;
use super::review;
use crate::admission::{Attributes, Operation};
use crate::status::{self, About, StatusError};
use crate::store::Key;
use objects::Kind;
use objects::LabelSelector;
use objects::expressions::{self, Variables};
use objects::schema::cost;

/// The maximum cost of one match condition (`RuntimeCELCostBudgetMatchConditions`).
const MAX_COST: u64 = 2_500_000;

/// Returns how to call a webhook, or `None` if it doesn't match.
///
/// # Errors
/// 404 for an unknown namespace, 403 for conditions that cannot be evaluated.
pub fn invocation(
    at: &Attributes<'_>,
    hook: &Hook,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<Option<Invocation>, StatusError> {
    let Some(kind) = matching_kind(at, &hook.rules, hook.matches_equivalents) else { return Ok(None) };
    if !selects_namespace(at, &hook.namespaces, object)? || !selects_object(&hook.objects, object, old) {
        return Ok(None);
    }
    let invocation = Invocation { kind };
    Ok(meets_conditions(at, hook, &invocation, object, old)?.then_some(invocation))
}

/// Returns the kind in whose version a rule matches: the request's own or, if equivalents match, another
/// version's.
pub fn matching_kind(at: &Attributes<'_>, rules: &[Rule], equivalents: bool) -> Option<Arc<Kind>> {
    let own = &at.context.entry.kind;
    if rules.iter().any(|rule| rule_matches(at, rule, own)) {
        return Some(own.clone());
    }
    if !equivalents {
        return None;
    }
    let catalog = at.context.server.catalog();
    let others = catalog.versions_of(&at.context.entry.resource);
    let others = others.filter(|entry| entry.kind.api_version() != own.api_version()).collect::<Vec<_>>();
    rules.iter().find_map(|rule| {
        others.iter().find(|entry| rule_matches(at, rule, &entry.kind)).map(|entry| entry.kind.clone())
    })
}

fn rule_matches(at: &Attributes<'_>, rule: &Rule, kind: &Kind) -> bool {
    let has = |list: &[String], word: &str| list.iter().any(|item| item == "*" || item == word);
    let of_namespace = at.namespace().is_some() && !at.kind().is("", "Namespace");
    let in_scope = match rule.scope.as_str() {
        "Namespaced" => of_namespace,
        "Cluster" => !of_namespace,
        _ => true,
    };
    in_scope
        && has(&rule.operations, at.operation.name())
        && has(&rule.groups, &kind.group)
        && has(&rule.versions, &kind.version)
        && (rule.names.is_empty() || rule.names.iter().any(|name| name == at.name))
        && rule.resources.iter().any(|pattern| resource_matches(pattern, &kind.plural, at.subresource()))
}

fn resource_matches(pattern: &str, plural: &str, subresource: &str) -> bool {
    let (resource, part) = pattern.split_once('/').unwrap_or((pattern, ""));
    (resource == "*" || resource == plural) && (part == "*" || part == subresource)
}

/// Returns whether the selector matches the labels of the write's namespace. Cluster-scoped objects other
/// than Namespaces always match.
///
/// # Errors
/// 404 for an unknown namespace.
pub fn selects_namespace(
    at: &Attributes<'_>,
    selector: &LabelSelector,
    object: Option<&Value>,
) -> Result<bool, StatusError> {
    let is_namespace = at.kind().is("", "Namespace");
    if selector.is_everything() {
        return Ok(true);
    }
    if is_namespace
        && at.subresource().is_empty()
        && at.operation != Operation::Delete
        && let Some(object) = object
    {
        return Ok(selector.matches(object));
    }
    let Some(name) = at.namespace() else { return Ok(!is_namespace) };
    let namespace = at.context.server.store.get(&crate::namespaces(), &Key::new(None, name));
    let namespace =
        namespace.ok_or_else(|| status::not_found(About { group: "", resource: "namespaces", name }))?;
    Ok(selector.matches(&namespace.value()))
}

/// Returns whether the selector matches the new or the old object.
pub fn selects_object(selector: &LabelSelector, object: Option<&Value>, old: Option<&Value>) -> bool {
    selector.is_everything() || [object, old].into_iter().flatten().any(|object| selector.matches(object))
}

/// Returns whether all conditions of a webhook hold. If any is false, errors of others don't matter
/// (`matchconditions/matcher.go`).
fn meets_conditions(
    at: &Attributes<'_>,
    hook: &Hook,
    invocation: &Invocation,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<bool, StatusError> {
    if hook.conditions.is_empty() {
        return Ok(true);
    }
    let null = Value::Null;
    let convert = |object: Option<&Value>| object.map(|object| invocation.convert(at, object).into_owned());
    let (object, old) = (convert(object), convert(old));
    let request = review::request_value(at, invocation, "", [None, None]);
    let bound = [
        ("object", object.as_ref().unwrap_or(&null)),
        ("oldObject", old.as_ref().unwrap_or(&null)),
        ("request", &request),
    ];
    match (conditions_hold(&hook.conditions, &bound, &Variables::new(&bound)), hook.ignores_failure) {
        (Ok(answer), _) => Ok(answer),
        (Err(_), true) => Ok(false),
        (Err(why), false) => Err(status::forbidden(at.context.about_name(at.name), &why)),
    }
}

/// Returns whether all conditions hold, given the variables and their values as JSON.
///
/// # Errors
/// Why they cannot be evaluated, for people.
pub fn conditions_hold(
    conditions: &[Condition],
    bound: &[(&str, &Value)],
    variables: &Variables,
) -> Result<bool, String> {
    let mut errors = Vec::new();
    for (name, condition) in conditions {
        let answer = match condition {
            Ok(program) => match cost::bound(program, bound) {
                cost if cost > MAX_COST => Err("operation cancelled: actual cost limit exceeded".to_owned()),
                cost => expressions::without_delay(cost, || variables.holds(program)),
            },
            Err(why) => Err(why.clone()),
        };
        match answer {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => {
                errors.push(format!("expression of match condition '{name}' resulted in error: {why}"))
            }
        }
    }
    match errors.as_slice() {
        [] => Ok(true),
        [only] => Err(only.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_patterns_match_resources_and_subresources() {
        let table = [
            ("pods", "pods", "", true),
            ("pods", "pods", "status", false),
            ("pods/status", "pods", "status", true),
            ("pods/*", "pods", "", true),
            ("pods/*", "pods", "binding", true),
            ("*", "jobs", "", true),
            ("*", "jobs", "status", false),
            ("*/status", "jobs", "status", true),
            ("*/*", "jobs", "scale", true),
            ("jobs", "pods", "", false),
        ];
        for (pattern, plural, part, expected) in table {
            assert_eq!(resource_matches(pattern, plural, part), expected, "{pattern} {plural}/{part}");
        }
    }
}
