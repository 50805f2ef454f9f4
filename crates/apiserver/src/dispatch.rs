//! Hands an action to the module that performs it.

use bytes::Bytes;
use http::Response;

use super::reply::{self, Body, Shown};
use super::request_context::RequestContext;
use super::status::{self, StatusError};
use super::{
    body, create, definitions, delete, metrics, negotiate, patching, read, reviews, subresources,
    token_request, type_meta, update, watch,
};
use crate::store::Key;

pub async fn dispatch(context: &RequestContext<'_>, bytes: &Bytes) -> Result<Response<Body>, StatusError> {
    if context.action.group == metrics::GROUP {
        return metrics::answer(context).await;
    }
    match (context.action.verb, context.action.subresource) {
        ("get", "log") => subresources::log(context).await,
        ("get", "scale") => subresources::get_scale(context),
        ("get", _) => read::get(context),
        ("list", _) => read::list(context),
        ("watch", _) => watch::watch(context),
        ("delete", "") => {
            let options = delete_options(context, bytes)?;
            let outcome = delete::delete(context, &options).await?;
            clean_up_definition(context, context.action.name);
            delete::answer(context, outcome)
        }
        ("deletecollection", "") => {
            let options = delete_options(context, bytes)?;
            let records = delete::delete_collection(context, &options).await?;
            records.iter().for_each(|record| clean_up_definition(context, record.key.as_str()));
            let revision = context.server.store.revision().to_string();
            reply::list(context, &records, &serde_json::json!({"resourceVersion": revision}))
        }
        ("update" | "patch", "scale") => subresources::set_scale(context, bytes).await,
        ("patch", _) => {
            let (shown, is_new) = patching::patch(context, bytes).await?;
            written(context, if is_new { 201 } else { 200 }, &shown).await
        }
        ("create" | "update", _) => write(context, bytes).await,
        _ => Err(status::method_not_allowed()),
    }
}

/// Limits the length of a field manager's name (`metav1/validation.ValidateFieldManager`).
pub fn check_manager(context: &RequestContext<'_>) -> Result<(), StatusError> {
    const MAX_BYTES: usize = 128;
    let options = match context.action.verb {
        "create" => "CreateOptions",
        "update" => "UpdateOptions",
        "patch" => "PatchOptions",
        _ => return Ok(()),
    };
    if context.query.field_manager.len() <= MAX_BYTES {
        return Ok(());
    }
    let about = status::About { group: "meta.k8s.io", resource: options, name: "" };
    let text = format!("Too long: may not be more than {MAX_BYTES} bytes");
    Err(status::invalid(about, &[("FieldValueTooLong".into(), text, "fieldManager".into())]))
}

async fn write(context: &RequestContext<'_>, bytes: &Bytes) -> Result<Response<Body>, StatusError> {
    let mut decoded = body::decode(bytes, negotiate::encoding(context.headers)?).map_err(|error| {
        type_meta::unrecognized(context, &format!("{}{}", type_meta::UNREADABLE, error.kubernetes()), bytes)
    })?;
    type_meta::check_type_fields(context, &decoded.value, bytes)?;
    match (context.action.verb, context.action.subresource) {
        ("create", "") if !context.entry.kind.is_stored() => {
            negotiate::only_as_it_is(context.form)?;
            reviews::review(context, decoded)
        }
        ("create", "") => {
            let shown = create::create(context, decoded).await?;
            written(context, 201, &shown).await
        }
        ("create", "binding") => {
            subresources::check_posted(context, &mut decoded, "Binding")?;
            subresources::bind(context, &decoded).await
        }
        ("create", "token") => {
            subresources::check_posted(context, &mut decoded, "TokenRequest")?;
            token_request::request(context, decoded.value)
        }
        ("create", "eviction") => {
            subresources::check_posted(context, &mut decoded, "Eviction")?;
            subresources::evict(context, &decoded).await
        }
        ("update", "finalize") => subresources::finalize(context, decoded).await,
        ("update", "" | "status") => {
            let (shown, is_new) = update::update(context, decoded).await?;
            written(context, if is_new { 201 } else { 200 }, &shown).await
        }
        _ => Err(subresources::unsupported(context)),
    }
}

/// Answers a write. If it wrote a CustomResourceDefinition, updates the catalog first.
async fn written(
    context: &RequestContext<'_>,
    code: u16,
    shown: &Shown,
) -> Result<Response<Body>, StatusError> {
    if let Shown::Stored(record) = shown
        && is_definition(context)
    {
        definitions::follow(context.server, record).await.map_err(status::internal)?;
    }
    reply::object(context, code, shown)
}

fn is_definition(context: &RequestContext<'_>) -> bool {
    context.entry.kind.is("apiextensions.k8s.io", "CustomResourceDefinition")
}

/// Starts to delete the objects of a CustomResourceDefinition that is marked for deletion.
fn clean_up_definition(context: &RequestContext<'_>, name: &str) {
    if !is_definition(context) {
        return;
    }
    let key = Key::new(None, name);
    let is_marked = context
        .server
        .store
        .get(&context.entry.resource, &key)
        .is_some_and(|record| !record.value()["metadata"]["deletionTimestamp"].is_null());
    if is_marked {
        tokio::spawn(definitions::clean_up(context.server.clone(), name.to_owned()));
    }
}

fn delete_options(context: &RequestContext<'_>, bytes: &Bytes) -> Result<delete::Options, StatusError> {
    let body = if bytes.is_empty() {
        None
    } else {
        let decoded = body::decode(bytes, negotiate::encoding(context.headers)?);
        Some(decoded.map_err(|error| status::bad_request(error.to_string()))?.value)
    };
    delete::Options::parse(context, body.as_ref())
}
