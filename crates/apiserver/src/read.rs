//! The verbs get and list.
//!
//! Rules of `resourceVersion`, `limit` and `continue`: KEP-365, KEP-2340; apiserver
//! `pkg/storage/etcd3/store.go`. All reads are served from memory, so a consistent list costs no more than a
//! possibly stale one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Response;
use serde_json::{Value, json};

use super::query::Match;
use super::reply::{self, Body, Shown};
use super::request_context::RequestContext;
use super::selection::Selection;
use super::status::{self, StatusError};
use crate::store::{Key, Snapshot};

/// Handles a get.
///
/// # Errors
/// 404; 504 for a future revision; 406.
pub fn get(context: &RequestContext<'_>) -> Result<Response<Body>, StatusError> {
    context.query.check_version()?;
    if let Some(asked) = context.query.resource_version {
        refuse_future(context.server.store.revision(), asked)?;
    }
    let record = context
        .server
        .store
        .get(&context.entry.resource, &context.key())
        .ok_or_else(|| status::not_found(context.about()))?;
    reply::object(context, 200, &Shown::Stored(record))
}

/// Handles a list.
///
/// # Errors
/// 400 for invalid selectors and continue tokens; 410 for a compacted revision; 504 for a future one.
pub fn list(context: &RequestContext<'_>) -> Result<Response<Body>, StatusError> {
    let selection = Selection::of_list(&context.entry.kind, &context.query)?;
    let token = (!context.query.next.is_empty()).then(|| Token::parse(&context.query.next)).transpose()?;
    let Snapshot { mut records, revision } = snapshot(context, token.as_ref())?;
    if let Some(token) = &token {
        records.retain(|record| record.key.as_str() > token.after.as_str());
    }
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    let total = records.len();
    let last = records.last().map(|record| record.key.clone());
    if !selection.is_everything() {
        records.retain(|record| {
            selection.matches(&super::versions::served(&context.entry.kind, &record.value()))
        });
    }
    // A list of one object, selected by name, is never paged.
    let limit = context.query.limit.filter(|_| !selection.is_of_one());
    if let Some(limit) = limit.filter(|limit| *limit <= records.len()) {
        records.truncate(limit);
        // There may be more as long as there are keys, whether or not their objects match the selectors.
        if let Some(end) = records.last().filter(|end| last.as_ref().is_some_and(|last| *last != end.key)) {
            metadata["continue"] = Token { revision, after: end.key.clone() }.text().into();
            if selection.is_everything() {
                metadata["remainingItemCount"] = (total - limit).into();
            }
        }
    }
    reply::list(context, &records, &metadata)
}

fn snapshot(context: &RequestContext<'_>, token: Option<&Token>) -> Result<Snapshot, StatusError> {
    let (store, resource, namespace) =
        (&context.server.store, &context.entry.resource, context.action.namespace);
    match (token, context.query.resource_version, context.query.version_match) {
        (Some(Token { revision: 0, .. }), _, _) => Ok(store.list(resource, namespace)),
        (Some(token), _, _) if context.server.compaction.is_compacted(token.revision) => {
            Err(token_expired(context, token))
        }
        (Some(token), _, _) => {
            store.list_at(resource, namespace, token.revision).map_err(|_| token_expired(context, token))
        }
        // A limit with a revision but without a match means `Exact` (legacy rules in KEP-2340's table).
        (None, Some(asked), Some(Match::Exact)) => exact(context, asked),
        (None, Some(asked), None) if asked > 0 && context.query.limit.is_some() => exact(context, asked),
        (None, asked, _) => {
            let snapshot = store.list(resource, namespace);
            refuse_future(snapshot.revision, asked.unwrap_or_default())?;
            Ok(snapshot)
        }
    }
}

fn exact(context: &RequestContext<'_>, asked: u64) -> Result<Snapshot, StatusError> {
    refuse_future(context.server.store.revision(), asked)?;
    let too_old = || status::expired("The resourceVersion for the provided list is too old.");
    if context.server.compaction.is_compacted(asked) {
        return Err(too_old());
    }
    let (resource, namespace) = (&context.entry.resource, context.action.namespace);
    context.server.store.list_at(resource, namespace, asked).map_err(|_| too_old())
}

/// Rejects a future revision with 504 (`storage.NewTooLargeResourceVersionError`).
fn refuse_future(current: u64, asked: u64) -> Result<(), StatusError> {
    if asked <= current {
        return Ok(());
    }
    let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
    Err(StatusError::new(504, "Timeout", message)
        .with_cause("ResourceVersionTooLarge", "Too large resource version", "")
        .retry_after(1))
}

/// 410 with a token for reading the rest of the list inconsistently.
fn token_expired(context: &RequestContext<'_>, token: &Token) -> StatusError {
    let text = "The provided continue parameter is too old to display a consistent list result. You can start a new \
                list without the continue parameter, or use the continue token in this response to retrieve the \
                remainder of the results. Continuing with the provided token results in an inconsistent list - \
                objects that were created, modified, or deleted between the time the first chunk was returned and \
                now may show up in the list.";
    let next = Token { revision: 0, after: token.after.clone() };
    let mut refusal = status::expired(text);
    refusal.next = Some(next.text().into());
    tracing::debug!(resource = %context.entry.resource, "a continue token is too old");
    refusal
}

/// A continue token. Opaque to clients; the format is that of apiserver's `pkg/storage/continue.go`.
pub(super) struct Token {
    /// The revision of the list's first page; 0 to continue inconsistently.
    revision: u64,
    /// The last key that was returned.
    after: Key,
}

impl Token {
    fn text(&self) -> String {
        let start = format!("{}\u{0}", self.after.as_str());
        URL_SAFE_NO_PAD
            .encode(json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": start}).to_string())
    }

    /// Parses a client's token.
    ///
    /// # Errors
    /// 400.
    pub(super) fn parse(text: &str) -> Result<Self, StatusError> {
        let invalid = |why: &str| status::bad_request(format!("continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| invalid(&error.to_string()))?;
        let value = serde_json::from_slice::<Value>(&bytes).map_err(|error| invalid(&error.to_string()))?;
        if value["v"] != "meta.k8s.io/v1" {
            return Err(invalid("server does not recognize this encoded version"));
        }
        let revision =
            value["rv"].as_u64().ok_or_else(|| invalid("incorrect encoded start resourceVersion"))?;
        let start = value["start"].as_str().filter(|start| !start.is_empty());
        let after = start.ok_or_else(|| invalid("encoded start key empty"))?.trim_end_matches('\u{0}');
        Ok(Self { revision, after: Key::from_text(after) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_tokens_survive_a_round_trip() {
        let token = Token { revision: 12, after: Key::new(Some("a"), "b") };
        let back = Token::parse(&token.text()).unwrap();
        assert_eq!((back.revision, back.after), (12, token.after));
        for broken in ["", "%%", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ"] {
            assert_eq!(
                Token::parse(broken).map(|_| ()).map_err(|refusal| refusal.code),
                Err(400),
                "{broken}"
            );
        }
    }
}
