//! Finds the kind that an action is about, with the warning if it is deprecated.

use super::ApiServer;
use super::catalog::Entry;
use super::route::Action;
use super::status::{self, StatusError};

/// Subresources of built-in kinds that Kubernetes has and this cluster doesn't support.
const UNSUPPORTED: [(&str, &str); 5] = [
    ("pods", "ephemeralcontainers"),
    ("pods", "proxy"),
    ("pods", "resize"),
    ("services", "proxy"),
    ("nodes", "proxy"),
];

/// Finds the kind that an action is about, and checks that it supports the action.
pub fn find(server: &ApiServer, action: &Action<'_>) -> Result<Entry, StatusError> {
    let catalog = server.catalog();
    let entry = catalog
        .find(action.group, action.version, action.resource)
        .ok_or_else(status::no_such_resource)?
        .clone();
    let kind = &entry.kind;
    if !kind.namespaced && action.namespace.is_some() {
        return Err(status::no_such_resource());
    }
    let verbs = match action.subresource {
        "" => kind.verbs,
        name => match kind.subresource(name) {
            Some(part) => part.verbs,
            None if UNSUPPORTED.contains(&(kind.resource_name().as_str(), name)) => {
                let what = format!("{}/{name}", kind.resource_name());
                return Err(status::not_implemented(&what));
            }
            None if !kind.is_builtin() => {
                let about = status::About { group: &kind.group, resource: &kind.plural, name: action.name };
                return Err(status::not_found(about));
            }
            None => return Err(status::no_such_resource()),
        },
    };
    let of_all_namespaces = matches!(action.verb, "list" | "watch") && action.name.is_empty();
    let is_misplaced = kind.namespaced && action.namespace.is_none() && !of_all_namespaces;
    let is_named_create = action.verb == "create" && action.subresource.is_empty() && !action.name.is_empty();
    if action.verb == "update" && action.name.is_empty() {
        // Built-in kinds have no such route. For custom kinds, the handler reports that the name is missing.
        return Err(if kind.is_builtin() {
            status::method_not_allowed()
        } else {
            status::bad_request("name must be provided")
        });
    }
    if !verbs.contains(&action.verb) || is_misplaced || is_named_create {
        return Err(status::method_not_allowed());
    }
    Ok(entry)
}

/// Adds the deprecation warning to an error that occurs before the request reaches a handler. Only custom
/// kinds warn this early.
pub fn deprecated(server: &ApiServer, action: &Action<'_>, refusal: StatusError) -> StatusError {
    warned(server, action, refusal, false)
}

/// Adds a deprecation warning to an error. Built-in kinds warn only once the request is routed.
pub fn warned(
    server: &ApiServer,
    action: &Action<'_>,
    mut refusal: StatusError,
    is_routed: bool,
) -> StatusError {
    let catalog = server.catalog();
    let entry = catalog.find(action.group, action.version, action.resource);
    let text = entry
        .filter(|entry| is_routed || !entry.kind.is_builtin())
        .and_then(|entry| entry.kind.deprecation.as_ref());
    refusal.warning = text.map(|text| text.to_string().into());
    refusal
}
