//! Prevents privilege escalation: checks every write of a role or binding.
//!
//! Rules: `pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased/storage.go`,
//! `pkg/registry/rbac/escalation_check.go`, `pkg/registry/rbac/validation/rule.go`.

use serde_json::Value;

use crate::request_context::RequestContext;
use crate::status::{self, About, StatusError};
use objects::access::index::Kind;
use objects::access::rule::ALL;
use objects::access::{AccessAttributes, GROUP, MASTERS, Rule, covers};

/// Rejects a role or binding, about to replace `present`, that grants permissions that the user doesn't have.
/// Accepts all other kinds.
///
/// # Errors
/// 403; 404 for a binding to an unknown role.
pub fn check(context: &RequestContext<'_>, present: Option<&Value>, next: &Value) -> Result<(), StatusError> {
    if context.entry.kind.group != GROUP || context.user.is_in(MASTERS) {
        return Ok(());
    }
    let Some(kind) = Kind::of_plural(&context.entry.kind.plural) else { return Ok(()) };
    if present.is_some_and(|present| is_about_garbage_only(present, next)) {
        return Ok(());
    }
    let namespace = context.action.namespace.unwrap_or_default();
    match kind {
        Kind::Role | Kind::ClusterRole => check_role(context, namespace, next),
        Kind::RoleBinding | Kind::ClusterRoleBinding => check_binding(context, namespace, next),
    }
}

fn check_role(context: &RequestContext<'_>, namespace: &str, next: &Value) -> Result<(), StatusError> {
    let name = name_of(next);
    let may_escalate = AccessAttributes::Resource {
        verb: "escalate",
        group: GROUP,
        resource: &context.entry.kind.plural,
        subresource: "",
        namespace,
        name,
    };
    if context.server.authority.decide(&context.user, &may_escalate).allowed {
        return Ok(());
    }
    confirm(context, namespace, name, &Rule::of_role(next))?;
    if next["aggregationRule"].is_object() {
        let all = || vec![ALL.to_owned()];
        let everything = [
            Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() },
            Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() },
        ];
        let why = "must have cluster-admin privileges to use the aggregationRule";
        return confirm(context, namespace, name, &everything)
            .map_err(|_| status::forbidden(context.about_name(name), why));
    }
    Ok(())
}

fn check_binding(context: &RequestContext<'_>, namespace: &str, next: &Value) -> Result<(), StatusError> {
    let name = name_of(next);
    let role = next["roleRef"]["name"].as_str().unwrap_or_default();
    let of_cluster = next["roleRef"]["kind"] == "ClusterRole";
    let resource = if of_cluster { "clusterroles" } else { "roles" };
    let may_bind = AccessAttributes::Resource {
        verb: "bind",
        group: GROUP,
        resource,
        subresource: "",
        namespace,
        name: role,
    };
    if context.server.authority.decide(&context.user, &may_bind).allowed {
        return Ok(());
    }
    let rules = context
        .server
        .authority
        .role((!of_cluster).then_some(namespace), role)
        .ok_or_else(|| status::not_found(About { group: GROUP, resource, name: role }))?;
    confirm(context, namespace, name, &rules)
}

fn confirm(
    context: &RequestContext<'_>,
    namespace: &str,
    name: &str,
    wanted: &[Rule],
) -> Result<(), StatusError> {
    let held = context.server.authority.held(&context.user, namespace);
    let missing = covers::missing(&held.rules, wanted);
    if missing.is_empty() {
        return Ok(());
    }
    let user = &context.user;
    let mut why = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        covers::quoted(&user.groups),
        covers::described(&missing).join("\n")
    );
    if !held.errors.is_empty() {
        why = format!("{why}; resolution errors: [{}]", held.errors.join(", "));
    }
    Err(status::forbidden(context.about_name(name), &why))
}

fn name_of(value: &Value) -> &str {
    value["metadata"]["name"].as_str().unwrap_or_default()
}

/// Returns whether only fields that the garbage collector changes have changed (`IsOnlyMutatingGCFields`).
fn is_about_garbage_only(present: &Value, next: &Value) -> bool {
    let rest = |value: &Value| {
        let mut value = value.clone();
        if let Some(metadata) = value["metadata"].as_object_mut() {
            for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
                metadata.remove(field);
            }
        }
        value
    };
    present != next && rest(present) == rest(next)
}
