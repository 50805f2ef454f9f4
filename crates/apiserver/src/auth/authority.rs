//! The RBAC authorizer: decides by the stored roles and bindings.
//!
//! The compiled index ([`objects::access::Index`]) follows the store through watches of its four resources.
//! Each decision first applies all pending events, so a new role takes effect at once. A decision parses
//! nothing and looks only at the bindings of the requesting user.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

use crate::request_context::RequestContext;
use crate::route::Action;
use crate::status::{self, About, StatusError};
use crate::store::{Event, Resource, Store, Verb};
use objects::FieldSelector;
use objects::access::index::{Kind, ResolvedRules};
use objects::access::{AccessAttributes, AccessDecision, GROUP, Index, MASTERS, Rule, UserInfo};

/// The watched resources.
const FOLLOWED: [(Kind, &str); 4] = [
    (Kind::ClusterRole, "clusterroles"),
    (Kind::Role, "roles"),
    (Kind::ClusterRoleBinding, "clusterrolebindings"),
    (Kind::RoleBinding, "rolebindings"),
];

/// The RBAC authorizer.
pub struct Authority {
    store: Arc<Store>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    index: Index,
    /// In the order of [`FOLLOWED`].
    watches: Vec<mpsc::Receiver<Arc<Event>>>,
}

impl Authority {
    /// Creates an authorizer on this store.
    pub fn new(store: Arc<Store>) -> Self {
        Self { store, state: Mutex::default() }
    }

    /// Decides whether the user may perform the action.
    pub fn decide(&self, user: &UserInfo, ask: &AccessAttributes<'_>) -> AccessDecision {
        if user.is_in(MASTERS) {
            return AccessDecision { allowed: true, reason: String::new() };
        }
        self.state().index.decide(user, ask)
    }

    /// Returns every rule that the user has in a namespace, or in the whole cluster if it is empty.
    pub fn held(&self, user: &UserInfo, namespace: &str) -> ResolvedRules {
        self.state().index.held(user, namespace)
    }

    /// Returns the rules of a role, or `None` if it doesn't exist. Without a namespace, it is a ClusterRole.
    pub fn role(&self, namespace: Option<&str>, name: &str) -> Option<Arc<[Rule]>> {
        self.state().index.role(namespace, name).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic between two insertions leaves an incomplete index, which the next restart of a watch
        // repairs.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.catch_up(&self.store);
        state
    }
}

impl State {
    fn catch_up(&mut self, store: &Store) {
        let has_lost = self.watches.len() != FOLLOWED.len() || !self.take_in();
        if has_lost {
            self.begin(store);
        }
    }

    /// Applies all pending events; false if a watch has ended.
    fn take_in(&mut self) -> bool {
        for ((kind, _), watch) in FOLLOWED.iter().zip(&mut self.watches) {
            loop {
                match watch.try_recv() {
                    Ok(event) if event.verb == Verb::Deleted => {
                        self.index.remove(*kind, &event.record.value())
                    }
                    Ok(event) => self.index.put(*kind, &event.record.value()),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return false,
                }
            }
        }
        true
    }

    fn begin(&mut self, store: &Store) {
        *self = Self::default();
        for (kind, plural) in FOLLOWED {
            let (snapshot, watch) = store.list_and_watch(&Resource::new(GROUP, plural), None);
            snapshot.records.iter().for_each(|record| self.index.put(kind, &record.value()));
            self.watches.push(watch.events);
        }
    }
}

/// Returns the one object name that a list or watch selects, or an empty string
/// (`apiserver/pkg/endpoints/request/requestinfo.go`). It parses the selector exactly as the selection does;
/// an invalid selector names nothing and is rejected later. Other verbs, including `deletecollection`, are
/// authorized by the path.
pub fn selected_name(action: &Action<'_>, field_selector: &str) -> String {
    if field_selector.is_empty() || !action.name.is_empty() || !matches!(action.verb, "list" | "watch") {
        return String::new();
    }
    let selector = FieldSelector::read(field_selector).unwrap_or_default();
    let is_name = |name: &&str| !matches!(*name, "." | "..") && !name.contains(['/', '%']);
    selector.exact("metadata.name").filter(is_name).unwrap_or_default().to_owned()
}

/// Returns the attributes to authorize (`apiserver/pkg/endpoints/request/requestinfo.go`). A Namespace is in
/// itself, and a list or watch of one object is authorized for that object ([`selected_name`]).
pub fn ask_of<'a>(action: &Action<'a>, selected: &'a str) -> AccessAttributes<'a> {
    let is_namespace = action.group.is_empty() && action.resource == "namespaces";
    let own = if is_namespace { action.name } else { "" };
    AccessAttributes::Resource {
        verb: action.verb,
        group: action.group,
        resource: action.resource,
        subresource: action.subresource,
        namespace: action.namespace.unwrap_or(own),
        name: if action.name.is_empty() { selected } else { action.name },
    }
}

/// Authorizes an action, and returns the reason, which names the binding.
///
/// # Errors
/// 403, worded as in `apiserver/pkg/endpoints/handlers/responsewriters/errors.go`.
pub fn authorize(
    authority: &Authority,
    user: &UserInfo,
    ask: &AccessAttributes<'_>,
) -> Result<String, StatusError> {
    let verdict = authority.decide(user, ask);
    if verdict.allowed {
        return Ok(verdict.reason);
    }
    let mut why = words(user, ask);
    if !verdict.reason.is_empty() {
        why = format!("{why}: {}", verdict.reason);
    }
    let about = match *ask {
        AccessAttributes::Resource { group, resource, name, .. } => About { group, resource, name },
        AccessAttributes::Path { .. } => About { group: "", resource: "", name: "" },
    };
    Err(status::forbidden(about, &why))
}

/// Authorizes the creation of an object by a PUT or an apply.
///
/// # Errors
/// 403.
pub fn authorize_creation(context: &RequestContext<'_>) -> Result<(), StatusError> {
    let ask = ask_of(&Action { verb: "create", ..context.action }, "");
    authorize(&context.server.authority, &context.user, &ask).map(|_| ())
}

fn words(user: &UserInfo, ask: &AccessAttributes<'_>) -> String {
    match *ask {
        AccessAttributes::Resource { verb, group, resource, subresource, namespace, .. } => {
            let slash = if subresource.is_empty() { "" } else { "/" };
            let scope = match namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace \"{namespace}\""),
            };
            format!(
                "User \"{}\" cannot {verb} resource \"{resource}{slash}{subresource}\" in API group \"{group}\" {scope}",
                user.name
            )
        }
        AccessAttributes::Path { verb, path } => {
            format!("User \"{}\" cannot {verb} path \"{path}\"", user.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Key, Volatile};
    use serde_json::json;

    fn authority() -> Authority {
        Authority::new(Arc::new(Store::new(16, Box::new(Volatile))))
    }

    #[test]
    fn errors_are_worded_as_in_kubernetes() {
        let authority = authority();
        let nobody = UserInfo { name: "u".into(), ..UserInfo::default() };
        let action = Action {
            verb: "list",
            group: "",
            version: "v1",
            namespace: Some("default"),
            resource: "pods",
            name: "",
            subresource: "",
        };
        let one = Action { verb: "get", name: "p", subresource: "log", ..action };
        let global = Action { group: "batch", resource: "jobs", namespace: None, ..action };
        let own = Action { verb: "get", namespace: None, resource: "namespaces", name: "n", ..action };
        let table = [
            (
                action,
                r#"pods is forbidden: User "u" cannot list resource "pods" in API group "" in the namespace "default""#,
            ),
            (
                one,
                r#"pods "p" is forbidden: User "u" cannot get resource "pods/log" in API group "" in the namespace "default""#,
            ),
            (
                global,
                r#"jobs.batch is forbidden: User "u" cannot list resource "jobs" in API group "batch" at the cluster scope"#,
            ),
            (
                own,
                r#"namespaces "n" is forbidden: User "u" cannot get resource "namespaces" in API group "" in the namespace "n""#,
            ),
        ];
        for (action, message) in table {
            let refused =
                authorize(&authority, &nobody, &ask_of(&action, "")).map_err(|r| (r.code, r.message));
            assert_eq!(refused, Err((403, message.to_owned())));
        }
        assert!(authorize(&authority, &UserInfo::admin(), &ask_of(&action, "")).is_ok());
        let path = AccessAttributes::Path { verb: "get", path: "/metrics" };
        let refused = authorize(&authority, &nobody, &path).map_err(|refusal| refusal.message);
        assert_eq!(refused, Err(r#"forbidden: User "u" cannot get path "/metrics""#.to_owned()));
    }

    #[test]
    fn field_selectors_name_an_object_only_in_a_list_or_watch() {
        let list = Action {
            verb: "list",
            group: "",
            version: "v1",
            namespace: Some("default"),
            resource: "secrets",
            name: "",
            subresource: "",
        };
        let table = [
            ("metadata.name=a", "a"),
            ("metadata.name==a", "a"),
            ("type=x,metadata.name=a", "a"),
            (r"metadata.namespace!=x\,metadata.name=a", ""),
            (r"metadata.namespace!=x\\,metadata.name=a", "a"),
            ("metadata.name!=a", ""),
            (r"metadata.name=a\,b", "a,b"),
            (r"metadata.name=a\", ""),
            ("metadata.name=a,nonsense", ""),
            ("metadata.name=a/b", ""),
            ("", ""),
        ];
        for (selector, name) in table {
            assert_eq!(selected_name(&list, selector), name, "{selector}");
            assert_eq!(selected_name(&Action { verb: "watch", ..list }, selector), name, "{selector}");
            assert_eq!(selected_name(&Action { verb: "deletecollection", ..list }, selector), "");
        }
    }

    #[tokio::test]
    async fn a_decision_respects_every_earlier_write() {
        let authority = authority();
        let user = UserInfo::known("u", &[]);
        let ask = AccessAttributes::Resource {
            verb: "get",
            group: "",
            resource: "pods",
            subresource: "",
            namespace: "n",
            name: "p",
        };
        let may = || authority.decide(&user, &ask).allowed;
        assert!(!may());
        let (roles, bindings) = (Resource::new(GROUP, "clusterroles"), Resource::new(GROUP, "rolebindings"));
        let role = json!({"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
        authority.store.create(&roles, Key::new(None, "r"), role).await.unwrap();
        let binding = json!({"metadata": {"name": "b", "namespace": "n"}, "roleRef": {"kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}]});
        let key = Key::new(Some("n"), "b");
        let record = authority.store.create(&bindings, key.clone(), binding.clone()).await.unwrap();
        assert!(may());
        authority.store.remove(&bindings, &key, record.revision, record.to_value()).await.unwrap();
        assert!(!may());
        // The watches end when the store closes them. Later writes still count.
        authority.store.close();
        authority.store.create(&bindings, key, binding).await.unwrap();
        assert!(may());
    }
}
