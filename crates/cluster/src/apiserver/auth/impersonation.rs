//! `Impersonate-User`, `-Group`, `-Uid`, `-Extra-KEY`: who may act as somebody else does, each part authorized.
//!
//! Rules: `apiserver/pkg/endpoints/filters/impersonation`.

use http::HeaderMap;

use super::authority::{Authority, authorize};
use crate::access::{AUTHENTICATED, Ask, UserInfo, account_of};
use crate::apiserver::query;
use crate::apiserver::status::{self, Refusal};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
/// The group of the API with `uids` and `userextras`.
const AUTHENTICATION: &str = "authentication.k8s.io";
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Whom the headers ask to be; `None` without such headers.
///
/// # Errors
/// 403 for who may not; 400 for groups or more without a user.
pub fn wanted(
    authority: &Authority,
    user: &UserInfo,
    headers: &HeaderMap,
) -> Result<Option<UserInfo>, Refusal> {
    if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
        return Ok(None);
    }
    let wanted = asked(headers);
    if wanted == UserInfo::default() {
        return Ok(None);
    }
    if wanted.name.is_empty() {
        return Err(status::bad_request("requested groups, uid or extra without impersonating a user name"));
    }
    for ask in asks(&wanted) {
        authorize(authority, user, &ask)?;
    }
    Ok(Some(completed(wanted)))
}

fn asked(headers: &HeaderMap) -> UserInfo {
    let text =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let groups = headers.get_all(GROUP).iter().filter_map(|value| value.to_str().ok());
    let mut wanted = UserInfo {
        name: text(USER),
        uid: text(UID),
        groups: groups.map(str::to_owned).collect(),
        extra: std::collections::BTreeMap::new(),
    };
    for (name, value) in headers {
        if let (Some(key), Ok(value)) = (name.as_str().strip_prefix(EXTRA), value.to_str()) {
            wanted.extra.entry(query::decode_path(key)).or_default().push(value.to_owned());
        }
    }
    wanted
}

/// Everything that must be allowed.
fn asks(wanted: &UserInfo) -> Vec<Ask<'_>> {
    let ask = |group, resource, subresource, namespace, name| Ask::Resource {
        verb: "impersonate",
        group,
        resource,
        subresource,
        namespace,
        name,
    };
    let mut asks = vec![match account_of(&wanted.name) {
        Some((namespace, name)) => ask("", "serviceaccounts", "", namespace, name),
        None => ask("", "users", "", "", wanted.name.as_str()),
    }];
    asks.extend(wanted.groups.iter().map(|group| ask("", "groups", "", "", group.as_str())));
    if !wanted.uid.is_empty() {
        asks.push(ask(AUTHENTICATION, "uids", "", "", wanted.uid.as_str()));
    }
    for (key, values) in &wanted.extra {
        asks.extend(
            values.iter().map(|value| ask(AUTHENTICATION, "userextras", key.as_str(), "", value.as_str())),
        );
    }
    asks
}

/// The groups that come with a name.
fn completed(mut wanted: UserInfo) -> UserInfo {
    if let (Some((namespace, name)), true) = (account_of(&wanted.name), wanted.groups.is_empty()) {
        wanted.groups = UserInfo::account(namespace, name).groups;
    }
    let is_anonymous = wanted.name == ANONYMOUS;
    if !wanted.is_in(AUTHENTICATED) && !wanted.is_in(UNAUTHENTICATED) {
        wanted.groups.push(if is_anonymous { UNAUTHENTICATED } else { AUTHENTICATED }.to_owned());
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Key, Resource, Store, Volatile};
    use http::{HeaderName, HeaderValue};
    use serde_json::{Value, json};
    use std::sync::Arc;

    async fn authority(rules: Value) -> Authority {
        let store = Arc::new(Store::new(16, Box::new(Volatile)));
        let resource = |plural| Resource::new(crate::access::GROUP, plural);
        let role = json!({"metadata": {"name": "r"}, "rules": rules});
        store.create(&resource("clusterroles"), Key::new(None, "r"), role).await.unwrap();
        let binding = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "User", "name": "me"}]});
        store.create(&resource("clusterrolebindings"), Key::new(None, "b"), binding).await.unwrap();
        Authority::new(store)
    }

    fn headers(list: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap())
        };
        list.iter().map(pair).collect()
    }

    /// The cases of `impersonation_test.go` in substance.
    #[tokio::test]
    async fn every_part_is_authorized() {
        let rule = |group: &str, resource: &str, names: Value| {
            json!({"verbs": ["impersonate"], "apiGroups": [group],
            "resources": [resource], "resourceNames": names})
        };
        let authority = authority(json!([
            rule("", "users", json!(["you"])),
            rule("", "groups", json!(["dev"])),
            rule("", "serviceaccounts", json!(["robot"])),
            rule("authentication.k8s.io", "uids", json!(["7"])),
            rule("authentication.k8s.io", "userextras/scopes", json!(["view"])),
        ]))
        .await;
        let me = UserInfo::known("me", &[]);
        let try_as = |list: &[(&str, &str)]| {
            wanted(&authority, &me, &headers(list)).map_err(|refusal| (refusal.code, refusal.message))
        };
        let you = try_as(&[
            ("Impersonate-User", "you"),
            ("Impersonate-Group", "dev"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-Extra-scopes", "view"),
        ]);
        let you = you.unwrap().unwrap();
        assert_eq!((you.name.as_str(), you.uid.as_str()), ("you", "7"));
        assert_eq!(you.groups, ["dev", AUTHENTICATED]);
        assert_eq!(you.extra, [("scopes".to_owned(), vec!["view".to_owned()])].into());
        let robot = try_as(&[("Impersonate-User", "system:serviceaccount:ns:robot")]).unwrap().unwrap();
        assert_eq!(robot, UserInfo::account("ns", "robot"));
        let refused = [
            vec![("Impersonate-User", "kubernetes-admin")],
            vec![("Impersonate-User", "you"), ("Impersonate-Group", "system:masters")],
            vec![("Impersonate-User", "you"), ("Impersonate-Group", "dev"), ("Impersonate-Group", "other")],
            vec![("Impersonate-User", "you"), ("Impersonate-Uid", "8")],
            vec![("Impersonate-User", "you"), ("Impersonate-Extra-scopes", "edit")],
            vec![("Impersonate-User", "you"), ("Impersonate-Extra-other", "view")],
            vec![("Impersonate-User", "system:serviceaccount:ns:admin")],
        ];
        for list in refused {
            assert_eq!(try_as(&list).map_err(|(code, _)| code), Err(403), "{list:?}");
        }
        assert_eq!(
            try_as(&[("Impersonate-User", "x")]).map_err(|(_, message)| message),
            Err(r#"users "x" is forbidden: User "me" cannot impersonate resource "users" in API group "" at the cluster scope"#.into())
        );
        assert_eq!(try_as(&[("Impersonate-Group", "dev")]).map_err(|(code, _)| code), Err(400));
        assert_eq!(try_as(&[("Accept", "*/*")]), Ok(None));
    }

    #[tokio::test]
    async fn anonymous_stays_unknown() {
        let authority = authority(json!([])).await;
        let asked = wanted(&authority, &UserInfo::admin(), &headers(&[("Impersonate-User", ANONYMOUS)]));
        assert_eq!(asked.unwrap().unwrap().groups, [UNAUTHENTICATED]);
    }
}
