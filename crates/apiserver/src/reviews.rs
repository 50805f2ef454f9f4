//! Reviews, which are answered but not stored: SelfSubjectReview, access reviews, TokenReview.
//!
//! Rules: `pkg/registry/authorization`, `pkg/apis/authorization/validation`, `pkg/registry/authentication`.
//! The answers come from [`super::auth`], which also decides about requests.

use http::Response;
use serde_json::{Value, json};

use super::auth::UserInfo;
use super::body::Decoded;
use super::reply::{self, Body};
use super::request_context::RequestContext;
use super::status::{self, About, StatusError};
use super::{decoding, type_meta};
use objects::access::{AccessAttributes, Rule};

/// Handles a POST of a review.
///
/// # Errors
/// 400 and 422 for an invalid review; 501 for an unsupported kind.
pub fn review(context: &RequestContext<'_>, decoded: Decoded) -> Result<Response<Body>, StatusError> {
    let mut value = decoded.value;
    type_meta::check_type(context, &mut value)?;
    let validation = context.query.field_validation;
    let warnings = decoding::drop_unknown(&context.entry.kind, &mut value, &decoded.duplicates, validation)?;
    warnings.into_iter().for_each(|warning| context.warn(warning));
    let status = match context.entry.kind.kind.as_str() {
        "SelfSubjectReview" => json!({"userInfo": user_value(&context.user)}),
        "TokenReview" => token(context, &value["spec"]),
        kind @ ("SelfSubjectAccessReview" | "SubjectAccessReview" | "LocalSubjectAccessReview") => {
            check(context, kind, &value["spec"])?;
            let user = if kind == "SelfSubjectAccessReview" {
                context.user.clone()
            } else {
                subject(&value["spec"])
            };
            access(context, &user, &value["spec"])
        }
        "SelfSubjectRulesReview" => rules_of(context, &value["spec"])?,
        other => return Err(status::not_implemented(other)),
    };
    if value["metadata"].is_null() {
        value["metadata"] = json!({});
    }
    value["status"] = status;
    Ok(reply::json_value(201, &value))
}

/// Formats a user as in reviews (`authentication/v1.UserInfo`).
pub fn user_value(user: &UserInfo) -> Value {
    let mut value = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        value["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        value["extra"] = json!(user.extra);
    }
    value
}

fn token(context: &RequestContext<'_>, spec: &Value) -> Value {
    let token = spec["token"].as_str().unwrap_or_default();
    let audiences = list(&spec["audiences"]);
    match context.server.identities.of_token(&context.server.store, token, &audiences, context.now) {
        Some(found) => {
            json!({"authenticated": true, "user": user_value(&found.user), "audiences": found.audiences})
        }
        None => json!({"user": {}, "error": "[invalid bearer token]"}),
    }
}

fn list(value: &Value) -> Vec<String> {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// Rejects an access review with no question or two (`pkg/apis/authorization/validation/validation.go`).
fn check(context: &RequestContext<'_>, kind: &str, spec: &Value) -> Result<(), StatusError> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let invalid = |field: &str, given: &str, why: &str| {
        let causes =
            [("FieldValueInvalid".to_owned(), format!("Invalid value: {given}: {why}"), field.to_owned())];
        Err(status::invalid(About { group: "authorization.k8s.io", resource: "", name: "" }, &causes))
    };
    if kind != "SelfSubjectAccessReview"
        && spec["user"].as_str().unwrap_or_default().is_empty()
        && spec["groups"].as_array().is_none_or(Vec::is_empty)
    {
        return invalid("spec.user", "\"\"", "at least one of user or group must be specified");
    }
    if resource.is_object() && path.is_object() {
        let why = "cannot be specified in combination with resourceAttributes";
        return invalid("spec.nonResourceAttributes", &path.to_string(), why);
    }
    if !resource.is_object() && !path.is_object() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        return invalid("spec.resourceAttributes", "null", why);
    }
    if kind != "LocalSubjectAccessReview" {
        return Ok(());
    }
    if path.is_object() {
        let why = "disallowed on this kind of request";
        return invalid("spec.nonResourceAttributes", &path.to_string(), why);
    }
    let given = resource["namespace"].as_str().unwrap_or_default();
    if Some(given) != context.action.namespace {
        return invalid(
            "spec.resourceAttributes.namespace",
            &format!("{given:?}"),
            "must match metadata.namespace",
        );
    }
    Ok(())
}

fn subject(spec: &Value) -> UserInfo {
    let extra = spec["extra"].as_object().into_iter().flatten();
    UserInfo {
        name: spec["user"].as_str().unwrap_or_default().into(),
        uid: spec["uid"].as_str().unwrap_or_default().into(),
        groups: list(&spec["groups"]),
        extra: extra.map(|(key, values)| (key.to_lowercase(), list(values))).collect(),
    }
}

fn access(context: &RequestContext<'_>, user: &UserInfo, spec: &Value) -> Value {
    let (asked, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let text = |field: &str| asked[field].as_str().unwrap_or_default();
    let ask = if asked.is_object() {
        AccessAttributes::Resource {
            verb: text("verb"),
            group: text("group"),
            resource: text("resource"),
            subresource: text("subresource"),
            namespace: text("namespace"),
            name: text("name"),
        }
    } else {
        let text = |field: &str| path[field].as_str().unwrap_or_default();
        AccessAttributes::Path { verb: text("verb"), path: text("path") }
    };
    let verdict = context.server.authority.decide(user, &ask);
    let mut status = json!({"allowed": verdict.allowed});
    if !verdict.reason.is_empty() {
        status["reason"] = verdict.reason.into();
    }
    status
}

fn rules_of(context: &RequestContext<'_>, spec: &Value) -> Result<Value, StatusError> {
    let namespace = spec["namespace"].as_str().filter(|namespace| !namespace.is_empty());
    let namespace = namespace.ok_or_else(|| status::bad_request("no namespace on request"))?;
    let held = context.server.authority.held(&context.user, namespace);
    let (paths, resources): (Vec<Rule>, Vec<Rule>) =
        held.rules.into_iter().partition(|rule| !rule.non_resource_urls.is_empty());
    let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
    if !held.errors.is_empty() {
        status["evaluationError"] = held.errors.join(", ").into();
    }
    Ok(status)
}
