//! Authenticates service account tokens: the objects that a token is bound to must still exist.
//!
//! Rules: `pkg/serviceaccount/claims.go` (Validate), `pkg/serviceaccount/jwt.go`.

use serde_json::Value;

use super::tokens::{Claims, ISSUER, Keys, Reference};
use crate::store::{Key, Resource, Store};
use objects::access::{UserInfo, account_name};

const EXTRA: &str = "authentication.kubernetes.io/";

/// Returns the user of a service account token, and those of the requested audiences that it is for; `None`
/// for any other token. `now` is in seconds since 1970. If no audiences are requested, the API server's own
/// is assumed.
pub fn of_token(
    keys: &Keys,
    store: &Store,
    token: &str,
    audiences: &[String],
    now: i64,
) -> Option<(UserInfo, Vec<String>)> {
    let claims = keys.verify(token, now)?;
    let own = [ISSUER.to_owned()];
    let wanted = if audiences.is_empty() { own.as_slice() } else { audiences };
    let meant = wanted.iter().filter(|audience| claims.aud.contains(audience)).cloned().collect::<Vec<_>>();
    (!meant.is_empty() && is_bound_to_living(store, &claims)).then(|| (user(&claims), meant))
}

fn is_bound_to_living(store: &Store, claims: &Claims) -> bool {
    let bound = &claims.bound;
    let account = &bound.serviceaccount;
    let lives = |plural: &str, namespace: Option<&str>, reference: &Reference| {
        let found = store.get(&Resource::new("", plural), &Key::new(namespace, &reference.name));
        // Kubernetes honours the tokens of a deleted object for its grace period; nothing here needs that.
        found.is_some_and(|record| uid(&record.value()) == reference.uid)
    };
    let own = Some(bound.namespace.as_str());
    claims.sub == account_name(&bound.namespace, &account.name)
        && lives("serviceaccounts", own, account)
        && bound.pod.as_ref().is_none_or(|pod| lives("pods", own, pod))
        && bound.secret.as_ref().is_none_or(|secret| lives("secrets", own, secret))
        // A pod's token also names the pod's node, but remains valid without it, like the pod.
        && (bound.pod.is_some() || bound.node.as_ref().is_none_or(|node| lives("nodes", None, node)))
}

fn uid(value: &Value) -> &str {
    value["metadata"]["uid"].as_str().unwrap_or_default()
}

fn user(claims: &Claims) -> UserInfo {
    let bound = &claims.bound;
    let mut user = UserInfo::account(&bound.namespace, &bound.serviceaccount.name);
    user.uid.clone_from(&bound.serviceaccount.uid);
    let mut tell = |key: &str, value: String| user.extra.insert(format!("{EXTRA}{key}"), vec![value]);
    tell("credential-id", format!("JTI={}", claims.jti));
    for (what, reference) in [("pod", &bound.pod), ("node", &bound.node)] {
        if let Some(reference) = reference {
            tell(&format!("{what}-name"), reference.name.clone());
            if !reference.uid.is_empty() {
                tell(&format!("{what}-uid"), reference.uid.clone());
            }
        }
    }
    user
}
