//! `Impersonate-User`, `-Group`, `-Uid`, `-Extra-KEY`: who may act as somebody else does, each part authorized.
//!
//! Rules: `apiserver/pkg/endpoints/filters/impersonation`. A header that is present and cannot be read is refused: a
//! request that asks to act as somebody else never runs with the caller's own rights.

use http::{HeaderMap, HeaderValue};

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
/// 403 for who may not; 400 for groups or more without a user, and for a header that is not UTF-8.
pub fn wanted(
    authority: &Authority,
    user: &UserInfo,
    headers: &HeaderMap,
) -> Result<Option<UserInfo>, Refusal> {
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

fn asked(headers: &HeaderMap) -> Result<UserInfo, Refusal> {
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

/// A header's value is bytes, of which UTF-8 is understood: names are not ASCII everywhere.
fn readable(name: &str, value: &HeaderValue) -> Result<String, Refusal> {
    std::str::from_utf8(value.as_bytes()).map(str::to_owned).map_err(|_| unreadable(name))
}

fn unreadable(name: &str) -> Refusal {
    status::bad_request(format!("the header {name} is not valid UTF-8"))
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
            (HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
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
    async fn names_beyond_ascii_are_read_and_what_is_not_utf8_is_refused() {
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
    async fn anonymous_stays_unknown() {
        let authority = authority(json!([])).await;
        let asked = wanted(&authority, &UserInfo::admin(), &headers(&[("Impersonate-User", ANONYMOUS)]));
        assert_eq!(asked.unwrap().unwrap().groups, [UNAUTHENTICATED]);
    }
}
