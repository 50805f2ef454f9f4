//! Role-based access control, as pure rules.
//!
//! [`rule`] evaluates one rule of a role. [`covers`] checks whether rules cover other rules, so that nobody grants more
//! than they have. [`index`] indexes roles and bindings and decides for a user. [`aggregate`] computes aggregated
//! ClusterRoles. [`defaults`] has the default roles and bindings.
//!
//! Everything here is pure: no store, no request, no clock. Rules: `pkg/registry/rbac`,
//! `plugin/pkg/auth/authorizer/rbac` and `component-helpers/auth/rbac` of Kubernetes 1.36.

pub mod aggregate;
pub mod covers;
pub mod defaults;
pub mod index;
pub mod rule;

pub use index::{AccessDecision, Index};
pub use rule::{AccessAttributes, Rule};

use std::collections::BTreeMap;

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";
/// The group that may do everything.
pub const MASTERS: &str = "system:masters";
/// The group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of nodes.
pub const NODES: &str = "system:nodes";
/// The prefix of service accounts' user names.
const ACCOUNT: &str = "system:serviceaccount:";
/// The group of every service account.
const ACCOUNTS: &str = "system:serviceaccounts";

/// The user of a request (`authentication/user.Info`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// The user's name.
    pub name: String,
    /// Unique over time; may be empty.
    pub uid: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// Further facts from the credential, e.g. the pod that a token is bound to.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// Returns an authenticated user with this name and these groups.
    pub fn known(name: impl Into<String>, groups: &[&str]) -> Self {
        let groups = groups.iter().chain([&AUTHENTICATED]).map(|group| (*group).to_owned()).collect();
        Self { name: name.into(), groups, ..Self::default() }
    }

    /// Returns the administrator.
    pub fn admin() -> Self {
        Self::known("kubernetes-admin", &[MASTERS])
    }

    /// Returns a service account, with the groups of its namespace.
    pub fn account(namespace: &str, name: &str) -> Self {
        let own = format!("{ACCOUNTS}:{namespace}");
        Self::known(account_name(namespace, name), &[ACCOUNTS, &own])
    }

    /// Returns whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// Returns the user name of a service account.
pub fn account_name(namespace: &str, name: &str) -> String {
    format!("{ACCOUNT}{namespace}:{name}")
}

/// Returns the namespace and name of the service account with this user name, if it is one.
pub fn account_of(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(ACCOUNT)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_accounts_are_recognized_by_user_name() {
        assert_eq!(account_of("system:serviceaccount:ns:name"), Some(("ns", "name")));
        for other in
            ["name", "system:serviceaccount:ns", "system:serviceaccount::n", "system:serviceaccount:a:b:c"]
        {
            assert_eq!(account_of(other), None, "{other}");
        }
        let account = UserInfo::account("ns", "name");
        assert_eq!(account.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED]);
        assert_eq!(account.name, account_name("ns", "name"));
    }
}
