//! The context of one authenticated, routed and negotiated request.

use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
use http::header::USER_AGENT;
use jiff::Timestamp;
use serde_json::Value;

use super::ApiServer;
use super::auth::UserInfo;
use super::catalog::Entry;
use super::negotiate::{self, PatchType, ResponseFormat};
use super::query::Query;
use super::route::Action;
use super::status::About;
use crate::store::Key;

/// The maximum number of warnings in a response; further ones are dropped.
const MAX_WARNINGS: usize = 32;

/// The maximum number of audit annotations of a request; further ones are dropped.
const MAX_ANNOTATIONS: usize = 128;

/// The context of a request, shared by all handlers.
pub struct RequestContext<'a> {
    /// The server that handles the request.
    pub server: &'a Arc<ApiServer>,
    /// The authenticated (or impersonated) user.
    pub user: UserInfo,
    /// The action that method and path ask for.
    pub action: Action<'a>,
    /// The kind that the action is about.
    pub entry: Entry,
    /// The query's parameters.
    pub query: Query,
    /// The negotiated response format.
    pub form: ResponseFormat,
    /// The request's headers.
    pub headers: &'a HeaderMap,
    /// When the request arrived.
    pub now: Timestamp,
    /// The warnings for the response.
    pub warnings: Mutex<Vec<String>>,
    /// The audit annotations, written by admission.
    pub annotations: Mutex<Vec<(String, String)>>,
}

impl RequestContext<'_> {
    /// Identifies the object in the path, for an error.
    pub fn about(&self) -> About<'_> {
        self.about_name(self.action.name)
    }

    /// Identifies an object of the action's resource, for an error.
    pub fn about_name<'b>(&'b self, name: &'b str) -> About<'b> {
        About { group: &self.entry.kind.group, resource: &self.entry.kind.plural, name }
    }

    /// Returns the key of the object in the path.
    pub fn key(&self) -> Key {
        Key::new(self.action.namespace, self.action.name)
    }

    /// Returns the field manager: the `fieldManager` parameter, or the first part of the user agent
    /// (`apiserver/pkg/endpoints/handlers/create.go`, `managerOrUserAgent`).
    pub fn manager(&self) -> String {
        if !self.query.field_manager.is_empty() {
            return self.query.field_manager.clone();
        }
        let agent = self.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let name = agent.split('/').next().unwrap_or_default().trim();
        if name.is_empty() { "unknown".into() } else { name.chars().take(128).collect() }
    }

    /// Returns whether the request is a server-side apply.
    pub fn is_apply(&self) -> bool {
        self.action.verb == "patch" && negotiate::patch_type(self.headers, true) == Ok(PatchType::Apply)
    }

    /// Returns the request's time as Kubernetes formats it.
    pub fn timestamp(&self) -> Value {
        Value::String(objects::timestamp(self.now))
    }

    /// Calls `show` with the key and value of each audit annotation.
    pub fn each_annotation(&self, mut show: impl FnMut(&str, &str)) {
        let annotations = self.annotations.lock().unwrap_or_else(PoisonError::into_inner);
        annotations.iter().for_each(|(key, value)| show(key, value));
    }

    /// Adds a warning to the response.
    pub fn warn(&self, text: impl Into<String>) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let text = text.into();
        if warnings.len() < MAX_WARNINGS && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// Adds an audit annotation. If the key exists already, the first value stays.
    pub fn annotate(&self, key: String, value: String) {
        let mut annotations = self.annotations.lock().unwrap_or_else(PoisonError::into_inner);
        if annotations.len() < MAX_ANNOTATIONS && annotations.iter().all(|(known, _)| *known != key) {
            annotations.push((key, value));
        }
    }
}
