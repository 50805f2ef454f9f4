//! Questions that are answered and forgotten: who am I, may I, whose token is this.
//!
//! Rules: `pkg/registry/authorization`, `pkg/registry/authentication`. The answers come from [`super::auth`], the
//! same that decides about requests.

use http::Response;
use serde_json::{Value, json};

use super::auth::{self, UserInfo};
use super::call::Call;
use super::reply::{self, Body};
use super::route::Action;
use super::status::{self, Refusal};

/// Answers a POST of a review.
///
/// # Errors
/// 501 for a review that this cluster does not answer.
pub fn review(call: &Call<'_>, mut value: Value) -> Result<Response<Body>, Refusal> {
    super::create::check_type(call, &mut value)?;
    let status = match call.entry.kind.kind.as_str() {
        "SelfSubjectReview" => json!({"userInfo": user_value(&call.user)}),
        "TokenReview" => token(call, &value),
        "SelfSubjectAccessReview" => access(&call.user, &value["spec"], call.now),
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            access(&subject(&value["spec"]), &value["spec"], call.now)
        }
        "SelfSubjectRulesReview" => rules_of(&call.user),
        other => return Err(status::not_implemented(other)),
    };
    if value["metadata"].is_null() {
        value["metadata"] = json!({});
    }
    value["status"] = status;
    Ok(reply::json_value(201, &value))
}

fn user_value(user: &UserInfo) -> Value {
    let mut value = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        value["uid"] = user.uid.as_str().into();
    }
    value
}

fn token(call: &Call<'_>, value: &Value) -> Value {
    match call.server.identities.of_token(value["spec"]["token"].as_str().unwrap_or_default()) {
        Some(user) => json!({"authenticated": true, "user": user_value(&user)}),
        None => json!({"user": {}, "error": "[invalid bearer token]"}),
    }
}

fn subject(spec: &Value) -> UserInfo {
    let groups = spec["groups"].as_array().map(Vec::as_slice).unwrap_or_default();
    UserInfo {
        name: spec["user"].as_str().unwrap_or_default().into(),
        uid: spec["uid"].as_str().unwrap_or_default().into(),
        groups: groups.iter().filter_map(|group| group.as_str().map(str::to_owned)).collect(),
    }
}

fn access(user: &UserInfo, spec: &Value, _now: jiff::Timestamp) -> Value {
    let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    let decision = if spec["resourceAttributes"].is_object() {
        let asked = &spec["resourceAttributes"];
        let namespace = text(&asked["namespace"]);
        let (verb, group, resource) = (text(&asked["verb"]), text(&asked["group"]), text(&asked["resource"]));
        let (name, subresource) = (text(&asked["name"]), text(&asked["subresource"]));
        auth::authorize(
            user,
            &Action {
                verb: &verb,
                group: &group,
                version: "",
                namespace: (!namespace.is_empty()).then_some(namespace.as_str()),
                resource: &resource,
                name: &name,
                subresource: &subresource,
            },
        )
    } else {
        let asked = &spec["nonResourceAttributes"];
        auth::authorize_path(user, &text(&asked["verb"]), &text(&asked["path"]))
    };
    match decision {
        Ok(()) => json!({"allowed": true}),
        Err(_) => json!({"allowed": false}),
    }
}

fn rules_of(user: &UserInfo) -> Value {
    if user.is_in(auth::MASTERS) {
        return json!({"resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}], "incomplete": false});
    }
    json!({"resourceRules": [], "nonResourceRules": [], "incomplete": false})
}
