//! Derives the action from method and path: verb, group, version, namespace, resource, name, subresource.
//!
//! Pure. Rules: apiserver `pkg/endpoints/request/requestinfo.go`. Doesn't check that the resource exists.

use http::Method;

use super::status::{self, StatusError};

/// The action on a resource that method and path ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action<'a> {
    /// get, list, watch, create, update, patch, delete, deletecollection.
    pub verb: &'a str,
    /// The API group, empty for the core group.
    pub group: &'a str,
    /// The API version.
    pub version: &'a str,
    /// The namespace, if the path has one.
    pub namespace: Option<&'a str>,
    /// The resource's plural.
    pub resource: &'a str,
    /// The object's name, or empty.
    pub name: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
}

/// The target of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(&'a str),
    /// `/api/v1` or `/apis/GROUP/VERSION`
    Resources {
        /// Empty for the core group.
        group: &'a str,
        /// The version.
        version: &'a str,
    },
    /// An action on a resource.
    Action(Action<'a>),
    /// Anything else.
    Other(&'a str),
}

/// Parses a path.
///
/// # Errors
/// 404 or 405.
pub fn route<'a>(method: &Method, path: &'a str, is_watch: bool) -> Result<Target<'a>, StatusError> {
    let parts = path.trim_matches('/').split('/').collect::<Vec<_>>();
    match parts.as_slice() {
        ["api"] => Ok(Target::CoreVersions),
        ["apis"] => Ok(Target::Groups),
        ["apis", group] => Ok(Target::Group(group)),
        ["api", version] => Ok(Target::Resources { group: "", version }),
        ["apis", group, version] => Ok(Target::Resources { group, version }),
        ["api", version, rest @ ..] => action(method, "", version, rest, is_watch).map(Target::Action),
        ["apis", group, version, rest @ ..] => {
            action(method, group, version, rest, is_watch).map(Target::Action)
        }
        _ => Ok(Target::Other(path)),
    }
}

fn action<'a>(
    method: &Method,
    group: &'a str,
    version: &'a str,
    rest: &[&'a str],
    is_watch: bool,
) -> Result<Action<'a>, StatusError> {
    let (namespace, resource, name, subresource) = match *rest {
        ["namespaces", name, subresource @ ("status" | "finalize")] => {
            (None, "namespaces", name, subresource)
        }
        ["namespaces"] => (None, "namespaces", "", ""),
        ["namespaces", name] => (None, "namespaces", name, ""),
        ["namespaces", namespace, resource] => (Some(namespace), resource, "", ""),
        ["namespaces", namespace, resource, name] => (Some(namespace), resource, name, ""),
        ["namespaces", namespace, resource, name, subresource] => {
            (Some(namespace), resource, name, subresource)
        }
        [resource] => (None, resource, "", ""),
        [resource, name] => (None, resource, name, ""),
        [resource, name, subresource] => (None, resource, name, subresource),
        _ => return Err(status::no_such_resource()),
    };
    let verb = match (method, name.is_empty()) {
        (&Method::GET | &Method::HEAD, _) if is_watch => "watch",
        (&Method::GET | &Method::HEAD, true) => "list",
        (&Method::GET | &Method::HEAD, false) => "get",
        (&Method::POST, _) => "create",
        // A PUT without a name is rejected once the kind is known.
        (&Method::PUT, _) => "update",
        (&Method::PATCH, false) => "patch",
        (&Method::DELETE, true) => "deletecollection",
        (&Method::DELETE, false) => "delete",
        _ => return Err(status::method_not_allowed()),
    };
    Ok(Action { verb, group, version, namespace, resource, name, subresource })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: Method, path: &str) -> (String, Option<String>, String, String, String) {
        match route(&method, path, false) {
            Ok(Target::Action(a)) => (
                a.verb.into(),
                a.namespace.map(Into::into),
                format!("{}/{}", a.group, a.resource),
                a.name.into(),
                a.subresource.into(),
            ),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn paths_name_actions() {
        let own = |v: &str, ns: Option<&str>, r: &str, n: &str, s: &str| {
            (v.to_owned(), ns.map(str::to_owned), r.to_owned(), n.to_owned(), s.to_owned())
        };
        let table = [
            (Method::GET, "/api/v1/namespaces", own("list", None, "/namespaces", "", "")),
            (Method::GET, "/api/v1/namespaces/a", own("get", None, "/namespaces", "a", "")),
            (
                Method::PUT,
                "/api/v1/namespaces/a/finalize",
                own("update", None, "/namespaces", "a", "finalize"),
            ),
            (Method::POST, "/api/v1/namespaces/a/pods", own("create", Some("a"), "/pods", "", "")),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods/p/binding",
                own("create", Some("a"), "/pods", "p", "binding"),
            ),
            (Method::GET, "/apis/batch/v1/jobs", own("list", None, "batch/jobs", "", "")),
            (
                Method::DELETE,
                "/apis/batch/v1/namespaces/a/jobs",
                own("deletecollection", Some("a"), "batch/jobs", "", ""),
            ),
            (Method::PATCH, "/api/v1/nodes/n/status", own("patch", None, "/nodes", "n", "status")),
        ];
        for (method, path, expected) in table {
            assert_eq!(read(method, path), expected, "{path}");
        }
    }

    #[test]
    fn unsupported_methods_and_paths_are_rejected() {
        assert_eq!(route(&Method::PATCH, "/api/v1/pods", false).map_err(|r| r.code), Err(405));
        assert_eq!(route(&Method::GET, "/api/v1/namespaces/a/b/c/d/e", false).map_err(|r| r.code), Err(404));
    }
}
