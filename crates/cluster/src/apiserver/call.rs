//! One request, once it is known who asks, what for and in which form.

use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
use http::header::USER_AGENT;
use jiff::Timestamp;
use serde_json::Value;

use super::auth::UserInfo;
use super::catalog::Entry;
use super::negotiate::{self, Form, PatchType};
use super::query::Query;
use super::route::Action;
use super::status::About;
use super::{ApiServer, rules};
use crate::store::Key;

/// Warnings that one answer carries; the rest are dropped.
const MAX_WARNINGS: usize = 32;

/// Audit annotations that one request gathers; the rest are dropped.
const MAX_ANNOTATIONS: usize = 128;

/// See the module.
pub struct Call<'a> {
    /// The server that answers.
    pub server: &'a Arc<ApiServer>,
    /// Who asks.
    pub user: UserInfo,
    /// What for.
    pub action: Action<'a>,
    /// The kind that the action is about.
    pub entry: Entry,
    /// The query's parameters.
    pub query: Query,
    /// The form that the answer is to have.
    pub form: Form,
    /// The request's headers.
    pub headers: &'a HeaderMap,
    /// When the request came.
    pub now: Timestamp,
    /// What the answer warns of.
    pub warnings: Mutex<Vec<String>>,
    /// What admission notes for the audit log.
    pub annotations: Mutex<Vec<(String, String)>>,
}

impl Call<'_> {
    /// The object that the path names, for a refusal.
    pub fn about(&self) -> About<'_> {
        self.about_name(self.action.name)
    }

    /// An object of the action's resource, for a refusal.
    pub fn about_name<'b>(&'b self, name: &'b str) -> About<'b> {
        About { group: &self.entry.kind.group, resource: &self.entry.kind.plural, name }
    }

    /// The key of the object that the path names.
    pub fn key(&self) -> Key {
        Key::new(self.action.namespace, self.action.name)
    }

    /// Who writes, for managedFields: the `fieldManager` parameter, or the first part of the user agent
    /// (`apiserver/pkg/endpoints/handlers/create.go`, `managerOrUserAgent`).
    pub fn manager(&self) -> String {
        if !self.query.field_manager.is_empty() {
            return self.query.field_manager.clone();
        }
        let agent = self.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let name = agent.split('/').next().unwrap_or_default().trim();
        if name.is_empty() { "unknown".into() } else { name.chars().take(128).collect() }
    }

    /// Whether the request is a server-side apply.
    pub fn is_apply(&self) -> bool {
        self.action.verb == "patch" && negotiate::patch_type(self.headers, true) == Ok(PatchType::Apply)
    }

    /// The present time as Kubernetes writes it.
    pub fn timestamp(&self) -> Value {
        Value::String(rules::timestamp(self.now))
    }

    /// Shows each audit annotation.
    pub fn each_annotation(&self, mut show: impl FnMut(&str, &str)) {
        let annotations = self.annotations.lock().unwrap_or_else(PoisonError::into_inner);
        annotations.iter().for_each(|(key, value)| show(key, value));
    }

    /// Adds a warning to the answer.
    pub fn warn(&self, text: impl Into<String>) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let text = text.into();
        if warnings.len() < MAX_WARNINGS && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// Notes something for the audit log; the first of a key stays.
    pub fn annotate(&self, key: String, value: String) {
        let mut annotations = self.annotations.lock().unwrap_or_else(PoisonError::into_inner);
        if annotations.len() < MAX_ANNOTATIONS && annotations.iter().all(|(known, _)| *known != key) {
            annotations.push((key, value));
        }
    }
}
