//! Impersonation through `Impersonate-User`, `-Group`, `-Uid`, `-Extra-KEY`; each part is authorized.
//!
//! Rules: `apiserver/pkg/endpoints/filters/impersonation`. A header that cannot be read is rejected, so a
//! request to impersonate never runs with the caller's own permissions.

use http::{HeaderMap, HeaderValue};

use super::authority::{Authority, authorize};
use crate::query;
use crate::status::{self, StatusError};
use objects::access::{AUTHENTICATED, AccessAttributes, UserInfo, account_of};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
/// The API group of `uids` and `userextras`.
const AUTHENTICATION: &str = "authentication.k8s.io";
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Returns the user to impersonate; `None` without such headers.
///
/// # Errors
/// 403 if the caller may not impersonate; 400 for other headers without a user, and for a header that isn't
/// UTF-8.
pub fn wanted(
    authority: &Authority,
    user: &UserInfo,
    headers: &HeaderMap,
) -> Result<Option<UserInfo>, StatusError> {
    if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
        return Ok(None);
    }
    let wanted = asked(headers)?;
    if wanted == UserInfo::default() && !headers.contains_key(USER) {
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

fn asked(headers: &HeaderMap) -> Result<UserInfo, StatusError> {
    let text = |name: &str| headers.get(name).map_or(Ok(String::new()), |value| readable(name, value));
    let groups = headers.get_all(GROUP).iter().map(|value| readable(GROUP, value));
    let mut wanted = UserInfo {
        name: text(USER)?,
        uid: text(UID)?,
        groups: groups.collect::<Result<_, _>>()?,
        extra: std::collections::BTreeMap::new(),
    };
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix(EXTRA) else { continue };
        let key = query::decode_utf8(key).ok_or_else(|| unreadable(name.as_str()))?;
        wanted.extra.entry(key).or_default().push(readable(name.as_str(), value)?);
    }
    Ok(wanted)
}

/// Header values may be any bytes; names in UTF-8 beyond ASCII are accepted.
fn readable(name: &str, value: &HeaderValue) -> Result<String, StatusError> {
    std::str::from_utf8(value.as_bytes()).map(str::to_owned).map_err(|_| unreadable(name))
}

fn unreadable(name: &str) -> StatusError {
    status::bad_request(format!("the header {name} is not valid UTF-8"))
}

/// Returns everything that must be authorized.
fn asks(wanted: &UserInfo) -> Vec<AccessAttributes<'_>> {
    let ask = |group, resource, subresource, namespace, name| AccessAttributes::Resource {
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

/// Adds the groups that a user always has.
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
        let resource = |plural| Resource::new(objects::access::GROUP, plural);
        let role = json!({"metadata": {"name": "r"}, "rules": rules});
        store.create(&resource("clusterroles"), Key::new(None, "r"), role).await.unwrap();
        let binding = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "User", "name": "me"}]});
        store.create(&resource("clusterrolebindings"), Key::new(None, "b"), binding).await.unwrap();
        Authority::new(store)
    }

    fn headers(list: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        };
        list.iter().map(pair).collect()
    }

    /// The same cases as in `impersonation_test.go`.
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
    async fn names_may_be_utf8_and_nothing_else() {
        let authority = authority(json!([])).await;
        let admin = UserInfo::admin();
        let asked = [
            ("impersonate-user", "müller"),
            ("impersonate-group", "größe"),
            ("impersonate-uid", "ü"),
            ("impersonate-extra-f%C3%BCr", "ä"),
        ];
        let user = wanted(&authority, &admin, &headers(&asked)).unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("müller", "ü"));
        assert_eq!(user.groups, ["größe", AUTHENTICATED]);
        assert_eq!(user.extra, [("für".to_owned(), vec!["ä".to_owned()])].into());
        let latin1 = HeaderValue::from_bytes(b"m\xfcller").unwrap();
        for name in ["impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-a"] {
            let mut spoiled = headers(&[("impersonate-user", "you")]);
            spoiled.insert(HeaderName::try_from(name).unwrap(), latin1.clone());
            assert_eq!(
                wanted(&authority, &admin, &spoiled).map_err(|refusal| refusal.code),
                Err(400),
                "{name}"
            );
        }
        for refused in [("impersonate-extra-f%FCr", "a"), ("impersonate-user", "")] {
            let judged = wanted(&authority, &admin, &headers(&[refused]));
            assert_eq!(judged.map_err(|refusal| refusal.code), Err(400), "{refused:?}");
        }
    }

    #[tokio::test]
    async fn an_impersonated_anonymous_user_is_unauthenticated() {
        let authority = authority(json!([])).await;
        let asked = wanted(&authority, &UserInfo::admin(), &headers(&[("Impersonate-User", ANONYMOUS)]));
        assert_eq!(asked.unwrap().unwrap().groups, [UNAUTHENTICATED]);
    }
}
