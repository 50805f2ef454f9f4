//! Who is asking, and whether they may.
//!
//! Two seams: [`authenticate`] turns a request's credentials into a [`UserInfo`], [`authorize`] decides about one
//! action. For now there is one credential, the administrator's bearer token, and one rule: members of
//! `system:masters` may do everything and everybody else nothing beyond discovery. Nothing is granted to
//! `system:authenticated` or `system:unauthenticated` but what Kubernetes' own default roles grant
//! (`system:discovery`, `system:public-info-viewer`).

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::route::Action;
use super::status::{self, About, Refusal};

/// The group that may do everything.
pub const MASTERS: &str = "system:masters";

/// Bytes of randomness in a token.
const TOKEN_BYTES: usize = 32;

/// Who is asking (`authentication/user.Info`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserInfo {
    /// The user's name.
    pub name: String,
    /// Unique over time; may be empty.
    pub uid: String,
    /// The user's groups.
    pub groups: Vec<String>,
}

impl UserInfo {
    /// The administrator.
    pub fn admin() -> Self {
        Self {
            name: "kubernetes-admin".into(),
            uid: String::new(),
            groups: vec![MASTERS.into(), "system:authenticated".into()],
        }
    }

    /// Whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// What identities exist.
#[derive(Debug, Clone)]
pub struct Identities {
    admin_token: String,
}

impl Identities {
    /// One identity: the administrator, known by this token.
    pub fn new(admin_token: String) -> Self {
        Self { admin_token }
    }

    /// Whose token this is.
    pub fn of_token(&self, token: &str) -> Option<UserInfo> {
        same_secret(token.as_bytes(), self.admin_token.as_bytes()).then(UserInfo::admin)
    }
}

/// A fresh random token.
///
/// # Errors
/// When the operating system gives no randomness.
pub fn new_token() -> Result<String, getrandom::Error> {
    use base64::Engine as _;
    let mut bytes = [0_u8; TOKEN_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes))
}

/// Who sent these headers: `None` without a credential.
///
/// # Errors
/// 401 for a credential that is not valid.
pub fn authenticate(identities: &Identities, headers: &HeaderMap) -> Result<Option<UserInfo>, Refusal> {
    let Some(header) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let text = header.to_str().map_err(|_| status::unauthorized())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(status::unauthorized)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(status::unauthorized());
    }
    identities.of_token(token.trim()).map(Some).ok_or_else(status::unauthorized)
}

/// Whether the user may do this to a resource.
///
/// # Errors
/// 403 in the words of `apiserver/pkg/endpoints/handlers/responsewriters/errors.go`.
pub fn authorize(user: &UserInfo, action: &Action<'_>) -> Result<(), Refusal> {
    if user.is_in(MASTERS) {
        return Ok(());
    }
    let resource = match action.subresource {
        "" => action.resource.to_owned(),
        subresource => format!("{}/{subresource}", action.resource),
    };
    let scope = match action.namespace {
        Some(namespace) => format!("in the namespace \"{namespace}\""),
        None => "at the cluster scope".to_owned(),
    };
    let why = format!(
        "User \"{}\" cannot {} resource \"{resource}\" in API group \"{}\" {scope}",
        user.name, action.verb, action.group
    );
    Err(status::forbidden(About { group: action.group, resource: action.resource, name: action.name }, &why))
}

/// Whether the user may do this to a path that is no resource.
///
/// # Errors
/// 403.
pub fn authorize_path(user: &UserInfo, verb: &str, path: &str) -> Result<(), Refusal> {
    const DISCOVERY: [&str; 5] = ["/api", "/apis", "/openapi", "/version", "/readyz"];
    let is_discovery = verb == "get"
        && DISCOVERY.iter().any(|known| {
            path.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
    if user.is_in(MASTERS) || is_discovery {
        return Ok(());
    }
    let why = format!("User \"{}\" cannot {verb} path \"{path}\"", user.name);
    Err(status::forbidden(About { group: "", resource: "", name: "" }, &why))
}

/// Compares without telling by its duration how much of the secret was right.
fn same_secret(given: &[u8], secret: &[u8]) -> bool {
    use sha2::{Digest as _, Sha256};
    Sha256::digest(given) == Sha256::digest(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_worded_as_kubernetes_words_them() {
        let nobody = UserInfo { name: "u".into(), uid: String::new(), groups: Vec::new() };
        let action = Action {
            verb: "list",
            group: "",
            version: "v1",
            namespace: Some("default"),
            resource: "pods",
            name: "",
            subresource: "",
        };
        let text = |action: Action<'_>| {
            authorize(&nobody, &action).map_err(|refusal| (refusal.code, refusal.message))
        };
        let one = Action { verb: "get", name: "p", subresource: "log", ..action };
        let global = Action { group: "batch", resource: "jobs", namespace: None, ..action };
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
        ];
        for (action, message) in table {
            assert_eq!(text(action), Err((403, message.to_owned())));
        }
        assert!(authorize(&UserInfo::admin(), &action).is_ok());
        assert!(authorize_path(&nobody, "get", "/apis/batch/v1").is_ok());
        let refused = authorize_path(&nobody, "get", "/metrics").map_err(|refusal| refusal.message);
        assert_eq!(refused, Err(r#"forbidden: User "u" cannot get path "/metrics""#.to_owned()));
    }

    #[test]
    fn credentials_are_told_apart() {
        let identities = Identities::new("secret".into());
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            authenticate(&identities, &headers)
                .map(|user| user.map(|user| user.name))
                .map_err(|refusal| refusal.code)
        };
        assert_eq!(with("Bearer secret"), Ok(Some("kubernetes-admin".into())));
        assert_eq!(with("bearer  secret"), Ok(Some("kubernetes-admin".into())));
        assert_eq!((with("Bearer x"), with("Basic secret"), with("secret")), (Err(401), Err(401), Err(401)));
        assert_eq!(authenticate(&identities, &HeaderMap::new()), Ok(None));
    }
}
