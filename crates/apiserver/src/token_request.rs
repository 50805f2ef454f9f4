//! serviceaccounts/token: issues a token for given audiences and a given lifetime, optionally bound to an
//! object.
//!
//! Rules: `pkg/registry/core/serviceaccount/storage/token.go`,
//! `pkg/apis/authentication/validation/validation.go`, `pkg/serviceaccount/claims.go`. The token is returned
//! in the response and not stored.

use http::Response;
use serde_json::{Value, json};

use super::auth::tokens::{Bound, Claims, ISSUER, Reference};
use super::reply::{self, Body};
use super::request_context::RequestContext;
use super::status::{self, About, StatusError};
use crate::store::{Key, Resource};
use objects::access::{NODES, account_name};

/// The default lifetime of a token, in seconds.
const DEFAULT_SECONDS: i64 = 60 * 60;
/// The minimum lifetime, in seconds.
const MIN_SECONDS: i64 = 10 * 60;
/// The maximum lifetime, in seconds.
const MAX_SECONDS: i64 = 1 << 32;

/// Handles a POST of a decoded `TokenRequest`.
///
/// # Errors
/// 400 for an object that tokens cannot be bound to, 403 for a node that requests another node's token, 404
/// for an unknown object, 409 for another UID, 422.
pub fn request(context: &RequestContext<'_>, mut request: Value) -> Result<Response<Body>, StatusError> {
    let account = context
        .server
        .store
        .get(&context.entry.resource, &context.key())
        .ok_or_else(|| status::not_found(context.about()))?;
    let seconds = seconds(&request["spec"])?;
    let audiences = match request["spec"]["audiences"].as_array() {
        Some(list) if !list.is_empty() => {
            list.iter().filter_map(|audience| audience.as_str().map(str::to_owned)).collect()
        }
        _ => vec![ISSUER.to_owned()],
    };
    let now = context.now.as_second();
    let claims = Claims {
        aud: audiences.clone(),
        exp: now.saturating_add(seconds),
        iat: now,
        iss: ISSUER.to_owned(),
        jti: uuid::Uuid::new_v4().to_string(),
        bound: bound(context, &account.value(), &request["spec"]["boundObjectRef"])?,
        nbf: now,
        sub: account_name(context.action.namespace.unwrap_or_default(), context.action.name),
    };
    let token = context.server.identities.sign(&claims).map_err(status::internal)?;
    let expires = jiff::Timestamp::from_second(claims.exp).map_err(status::internal)?;
    let metadata = json!({"name": context.action.name, "namespace": context.action.namespace, "uid": of(&account.value()).uid,
        "creationTimestamp": context.timestamp()});
    request["kind"] = "TokenRequest".into();
    request["apiVersion"] = "authentication.k8s.io/v1".into();
    request["metadata"] = metadata;
    request["spec"]["audiences"] = json!(audiences);
    request["spec"]["expirationSeconds"] = seconds.into();
    if request["spec"]["boundObjectRef"].is_null() {
        request["spec"]["boundObjectRef"] = Value::Null;
    }
    request["status"] = json!({"token": token, "expirationTimestamp": objects::timestamp(expires)});
    Ok(reply::json_value(201, &request))
}

fn seconds(spec: &Value) -> Result<i64, StatusError> {
    let given = &spec["expirationSeconds"];
    let why = match given.as_i64().unwrap_or(DEFAULT_SECONDS) {
        seconds if seconds < MIN_SECONDS => "may not specify a duration less than 10 minutes",
        seconds if seconds > MAX_SECONDS => "may not specify a duration larger than 2^32 seconds",
        seconds => return Ok(seconds),
    };
    let about = About { group: "authentication.k8s.io", resource: "TokenRequest", name: "" };
    let cause = format!("Invalid value: {given}: {why}");
    Err(status::invalid(about, &[("FieldValueInvalid".into(), cause, "spec.expirationSeconds".into())]))
}

/// Returns what the token is bound to: its account, and the object in `reference`.
fn bound(context: &RequestContext<'_>, account: &Value, reference: &Value) -> Result<Bound, StatusError> {
    let namespace = context.action.namespace.unwrap_or_default();
    let mut bound = Bound {
        namespace: namespace.to_owned(),
        node: None,
        pod: None,
        secret: None,
        serviceaccount: of(account),
    };
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let found = |plural: &'static str, namespace: Option<&str>| {
        let about = About { group: "", resource: plural, name: text("name") };
        let record = context.server.store.get(&Resource::new("", plural), &Key::new(namespace, text("name")));
        let record = record.ok_or_else(|| status::not_found(about))?;
        let own = of(&record.value());
        if !text("uid").is_empty() && text("uid") != own.uid {
            let why = format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
                 deleted and then recreated",
                text("uid")
            );
            return Err(status::conflict(about, &why));
        }
        Ok((own, record))
    };
    match (text("apiVersion"), text("kind")) {
        ("", "") if reference.is_null() => {}
        ("v1", "Pod") => {
            let (own, pod) = found("pods", Some(namespace))?;
            if pod.value()["spec"]["serviceAccountName"] != context.action.name {
                return Err(status::bad_request(format!(
                    "cannot bind token for serviceaccount \"{}\" to pod running with different serviceaccount name.",
                    context.action.name
                )));
            }
            bound.pod = Some(own);
            bound.node =
                pod.value()["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()).map(|name| {
                    let node = context.server.store.get(&Resource::new("", "nodes"), &Key::new(None, name));
                    node.map_or(Reference { name: name.into(), uid: String::new() }, |node| of(&node.value()))
                });
        }
        ("v1", "Secret") => bound.secret = Some(found("secrets", Some(namespace))?.0),
        ("v1", "Node") => bound.node = Some(found("nodes", None)?.0),
        (version, kind) => {
            let kind = format!("/{version}, Kind={kind}");
            return Err(status::bad_request(format!("cannot bind token to object of type {kind}")));
        }
    }
    restrict_node(context, &bound)?;
    Ok(bound)
}

/// A node gets tokens only for the pods that run on it (`plugin/pkg/admission/noderestriction`). This
/// process's own nodes share one identity, which may request tokens for pods on any node.
fn restrict_node(context: &RequestContext<'_>, bound: &Bound) -> Result<(), StatusError> {
    if !context.user.is_in(NODES) {
        return Ok(());
    }
    let own = context.user.name.strip_prefix("system:node:");
    let why = match (&bound.pod, &bound.node) {
        (None, _) => "node requested token not bound to a pod",
        (Some(_), None) => "node requested token bound to a pod that is not scheduled",
        (Some(_), Some(node)) if own.is_some_and(|own| own != node.name) => {
            "node requested token bound to a pod scheduled on a different node"
        }
        _ => return Ok(()),
    };
    Err(status::forbidden(context.about(), why))
}

fn of(value: &Value) -> Reference {
    let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default().to_owned();
    Reference { name: text("name"), uid: text("uid") }
}
