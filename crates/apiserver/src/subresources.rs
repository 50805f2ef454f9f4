//! Subresources with handlers of their own: binding, eviction, log, scale, finalize. `status` is a normal
//! update.
//!
//! Rules: `pkg/registry/core/pod/storage/{storage,eviction}.go`, `pkg/registry/core/pod/strategy.go`
//! (LogLocation), `pkg/registry/core/namespace/storage/storage.go`.

use bytes::Bytes;
use futures::TryStreamExt as _;
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::admission::{self, Attributes, Operation};
use super::body::{self, Decoded};
use super::eviction;
use super::kubelet::{LogError, LogRequest};
use super::negotiate::{self, Encoding, PatchType};
use super::reply::{self, Body};
use super::request_context::RequestContext;
use super::scale::{scale_of, scaled};
use super::status::{self, About, StatusError};
use super::{create, decoding, delete, type_meta, update};

/// The maximum number of containers that an error lists.
const MAX_LISTED_CONTAINERS: usize = 32;

/// Handles pods/binding: assigns the pod to a node.
///
/// # Errors
/// 400, 404, 409.
pub async fn bind(context: &RequestContext<'_>, decoded: &Decoded) -> Result<Response<Body>, StatusError> {
    let node = decoded.value["target"]["name"].as_str().filter(|node| !node.is_empty());
    let node = node.ok_or_else(|| {
        let about = About { group: "", resource: "Binding", name: context.action.name };
        status::invalid(
            about,
            &[("FieldValueRequired".into(), "Required value".into(), "target.name".into())],
        )
    })?;
    let about = About { group: "", resource: "pods/binding", name: context.action.name };
    admit_posted(context, &decoded.value).await?;
    let wanted_uid = decoded.value["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty());
    update::change(context, |pod| {
        let own = pod["metadata"]["uid"].as_str().unwrap_or_default();
        if let Some(wanted) = wanted_uid.filter(|wanted| *wanted != own) {
            let why =
                format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {own}");
            return Err(status::conflict(about, &why));
        }
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            let why = format!("pod {} is being deleted, cannot be assigned to a host", context.action.name);
            return Err(status::conflict(about, &why));
        }
        if let Some(host) = pod["spec"]["nodeName"].as_str().filter(|host| !host.is_empty()) {
            let why = format!("pod {} is already assigned to node \"{host}\"", context.action.name);
            return Err(status::conflict(about, &why));
        }
        if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
            let why = format!("pod {} has non-empty .spec.schedulingGates", context.action.name);
            return Err(status::conflict(about, &why));
        }
        Ok(bound(pod, node, &decoded.value["metadata"]["annotations"], context))
    })
    .await?;
    Ok(reply::json_value(201, &status::success(201)))
}

fn bound(pod: &Value, node: &str, annotations: &Value, context: &RequestContext<'_>) -> Value {
    let mut pod = pod.clone();
    pod["spec"]["nodeName"] = node.into();
    // The nomination ends with the binding (`ClearingNominatedNodeNameAfterBinding`).
    if let Some(status) = pod["status"].as_object_mut() {
        status.remove("nominatedNodeName");
    }
    for (name, value) in annotations.as_object().into_iter().flatten() {
        pod["metadata"]["annotations"][name] = value.clone();
    }
    let scheduled = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": context.timestamp()});
    let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|condition| condition["type"] != "PodScheduled");
    conditions.push(scheduled);
    pod["status"]["conditions"] = conditions.into();
    pod
}

/// Handles pods/eviction: a deletion that a PodDisruptionBudget can reject.
///
/// # Errors
/// 404, 409, 429.
pub async fn evict(context: &RequestContext<'_>, decoded: &Decoded) -> Result<Response<Body>, StatusError> {
    let options = delete::Options::parse(context, Some(&decoded.value["deleteOptions"]))?;
    admit_posted(context, &decoded.value).await?;
    if let Some(pod) = context.server.store.get(&context.entry.resource, &context.key()) {
        eviction::charge(context, &pod.value(), options.is_dry_run()).await?;
    }
    if !options.is_dry_run() {
        eviction::mark(context).await?;
    }
    delete::delete(context, &options).await?;
    Ok(reply::json_value(201, &status::success(201)))
}

/// Handles namespaces/finalize: changes only `spec.finalizers`. A deleted namespace without finalizers is
/// removed.
///
/// # Errors
/// 400, 404, 409.
pub async fn finalize(
    context: &RequestContext<'_>,
    mut decoded: Decoded,
) -> Result<Response<Body>, StatusError> {
    type_meta::check_type(context, &mut decoded.value)?;
    decode(context, &mut decoded)?;
    let finalizers = decoded.value["spec"]["finalizers"].clone();
    let version = decoded.value["metadata"]["resourceVersion"].clone();
    let shown = update::change(context, |present| {
        let mut next = present.clone();
        if version.as_str().is_some_and(|version| !version.is_empty()) {
            next["metadata"]["resourceVersion"] = version.clone();
        }
        match next["spec"].as_object_mut() {
            Some(spec) if finalizers.as_array().is_none_or(Vec::is_empty) => {
                spec.remove("finalizers");
            }
            _ => next["spec"]["finalizers"] = finalizers.clone(),
        }
        Ok(next)
    })
    .await?;
    reply::object(context, 200, &shown)
}

/// Handles pods/log.
///
/// # Errors
/// 400 for an invalid container; 404; 500 if the node doesn't answer.
pub async fn log(context: &RequestContext<'_>) -> Result<Response<Body>, StatusError> {
    let record = context
        .server
        .store
        .get(&context.entry.resource, &context.key())
        .ok_or_else(|| status::not_found(context.about()))?;
    let pod = &record.value();
    let request = log_request(context, pod)?;
    let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) else {
        // An unscheduled pod has an empty log, as in upstream.
        return Ok(reply::full(200, "text/plain", Bytes::new()));
    };
    let kubelet = context.server.kubelets.get(node).ok_or_else(|| {
        status::internal(format!("the node {node:?} of pod {:?} does not answer", context.action.name))
    })?;
    match kubelet.logs(request).await {
        Ok(stream) => {
            let body = StreamBody::new(stream.map_ok(Frame::data)).boxed_unsync();
            Ok(reply::with_body(200, "text/plain", body))
        }
        Err(LogError::NotFound(why) | LogError::NotReady(why)) => Err(status::bad_request(why)),
        Err(LogError::Io(error)) => Err(status::internal(error)),
    }
}

fn log_request(context: &RequestContext<'_>, pod: &Value) -> Result<LogRequest, StatusError> {
    let raw = &context.query.raw;
    let text = |name: &str| raw.get(name).map(String::as_str).filter(|value| !value.is_empty());
    let flag = |name: &str| crate::query::flag(raw.get(name).map(String::as_str));
    let number = |name: &str| {
        text(name)
            .map(|value| {
                value.parse::<u64>().map_err(|_| {
                    let about = About { group: "", resource: "PodLogOptions", name: "" };
                    let detail = format!("Invalid value: \"{value}\": must be greater than or equal to 0");
                    status::invalid(about, &[("FieldValueInvalid".into(), detail, name.into())])
                })
            })
            .transpose()
    };
    let since_seconds = number("sinceSeconds")?.and_then(|seconds| i64::try_from(seconds).ok());
    let since = match (text("sinceTime"), since_seconds) {
        (Some(time), _) => {
            Some(time.parse::<Timestamp>().map_err(|error| status::bad_request(error.to_string()))?)
        }
        (None, Some(seconds)) => context.now.checked_sub(SignedDuration::from_secs(seconds)).ok(),
        (None, None) => None,
    };
    Ok(LogRequest {
        namespace: context.action.namespace.unwrap_or_default().into(),
        pod: context.action.name.into(),
        uid: pod["metadata"]["uid"].as_str().unwrap_or_default().into(),
        container: container(context.action.name, pod, text("container"))?,
        follow: flag("follow"),
        tail_lines: number("tailLines")?,
        since,
        timestamps: flag("timestamps"),
        previous: flag("previous"),
        limit_bytes: number("limitBytes")?,
    })
}

/// Determines the container (`validateContainer` of `pkg/registry/core/pod/strategy.go`).
///
/// # Errors
/// 400.
pub fn container(name: &str, pod: &Value, wanted: Option<&str>) -> Result<String, StatusError> {
    let names = |field: &str| {
        let list = pod["spec"][field].as_array().cloned().unwrap_or_default();
        list.iter()
            .filter_map(|c| c["name"].as_str().map(str::to_owned))
            .take(MAX_LISTED_CONTAINERS)
            .collect::<Vec<_>>()
    };
    let (own, init) = (names("containers"), names("initContainers"));
    if let Some(wanted) = wanted {
        let known = own.iter().chain(&init).chain(&names("ephemeralContainers")).any(|known| known == wanted);
        let refusal = || status::bad_request(format!("container {wanted} is not valid for pod {name}"));
        return if known { Ok(wanted.to_owned()) } else { Err(refusal()) };
    }
    match own.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(status::bad_request(format!("a container name must be specified for pod {name}"))),
        several => {
            let mut message = format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                several.join(" ")
            );
            if !init.is_empty() {
                message = format!("{message} or one of the init containers: [{}]", init.join(" "));
            }
            Err(status::bad_request(message))
        }
    }
}

/// Runs admission for a Binding or Eviction. Mutations are discarded.
async fn admit_posted(context: &RequestContext<'_>, posted: &Value) -> Result<(), StatusError> {
    let at = Attributes::of(context, Operation::Create, context.action.name);
    let mut posted = posted.clone();
    admission::mutate(&at, &mut posted, None).await?;
    admission::validate(&at, Some(&posted), None).await.map(|_| ())
}

/// Handles GET of a `scale` subresource.
///
/// # Errors
/// 404.
pub fn get_scale(context: &RequestContext<'_>) -> Result<Response<Body>, StatusError> {
    let record = context
        .server
        .store
        .get(&context.entry.resource, &context.key())
        .ok_or_else(|| status::not_found(context.about()))?;
    Ok(reply::json_value(200, &scale_of(context, &record.value())))
}

/// Handles PUT and PATCH of a `scale` subresource: changes only the desired number of replicas.
///
/// # Errors
/// 400, 404, 409, 415, 422.
pub async fn set_scale(context: &RequestContext<'_>, bytes: &Bytes) -> Result<Response<Body>, StatusError> {
    let encoding =
        if context.action.verb == "patch" { Encoding::Json } else { negotiate::encoding(context.headers)? };
    let mut decoded =
        body::decode(bytes, encoding).map_err(|error| status::bad_request(error.to_string()))?;
    if context.action.verb == "update" {
        decode(context, &mut decoded)?;
    }
    let shown = update::change(context, |present| {
        let before = scale_of(context, present);
        let after = if context.action.verb == "patch" {
            // A Scale has no lists, so a strategic merge equals a plain merge.
            let patch_type = match negotiate::patch_type(context.headers, context.entry.kind.is_builtin())? {
                PatchType::Strategic => PatchType::Merge,
                other => other,
            };
            let value = patch_type.patched(&context.entry.kind, &before, &decoded.value)?;
            let mut patched = Decoded { value, duplicates: Vec::new(), duplicate_key: None };
            decode(context, &mut patched)?;
            patched.value
        } else {
            decoded.value.clone()
        };
        scaled(context, present, &after)
    })
    .await?;
    Ok(reply::json_value(200, &scale_of(context, &shown.value())))
}

/// The error for a subresource that this cluster doesn't support.
pub fn unsupported(context: &RequestContext<'_>) -> StatusError {
    status::not_implemented(&format!("{}/{}", context.entry.kind.resource_name(), context.action.subresource))
}

/// Decodes the body of a subresource as the kind that the subresource accepts. Every value has the right type
/// afterwards.
///
/// # Errors
/// 400 for a value of the wrong type, and for unknown fields under `Strict`.
pub fn decode(context: &RequestContext<'_>, decoded: &mut Decoded) -> Result<(), StatusError> {
    let Some((group, _, kind)) =
        context.entry.kind.subresource(context.action.subresource).map(|part| &part.takes)
    else {
        return Ok(());
    };
    let taken = objects::accepted_kind(group, kind).unwrap_or(&context.entry.kind);
    if !decoded.value.is_object() {
        let kind = &taken.kind;
        return Err(status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): it is no object"
        )));
    }
    let validation = context.query.field_validation;
    let warnings = decoding::drop_unknown(taken, &mut decoded.value, &decoded.duplicates, validation)?;
    warnings.into_iter().for_each(|warning| context.warn(warning));
    Ok(())
}

/// Checks and decodes a Binding or Eviction.
///
/// # Errors
/// 400.
pub fn check_posted(
    context: &RequestContext<'_>,
    decoded: &mut Decoded,
    kind: &str,
) -> Result<(), StatusError> {
    let given = decoded.value["kind"].as_str().unwrap_or(kind);
    if given != kind {
        return Err(status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): it is a {given}"
        )));
    }
    decode(context, decoded)?;
    let name = decoded.value["metadata"]["name"].as_str().unwrap_or(context.action.name);
    if name != context.action.name && !name.is_empty() {
        return Err(status::bad_request(format!("name in URL does not match name in {kind} object")));
    }
    create::admit_into_namespace(context)
        .or_else(|refusal| if refusal.code == 403 { Ok(()) } else { Err(refusal) })
}
