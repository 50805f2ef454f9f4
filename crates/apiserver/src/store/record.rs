//! An object in the store: its key, its revision, its value, and its JSON once it is needed.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;

/// The name of a resource, `plural` or `plural.group`, which is the same for all versions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource(Arc<str>);

impl Resource {
    /// Creates the resource of a group; the core group is the empty string.
    pub fn new(group: &str, plural: &str) -> Self {
        if group.is_empty() { Self(plural.into()) } else { Self(format!("{plural}.{group}").into()) }
    }
}

impl Resource {
    /// Parses the result of [`Resource::as_str`].
    pub fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the resource as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// `namespace/name`, or `name` for cluster-scoped resources. Ordered like kube-apiserver's keys in etcd, so
/// lists have the same order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// Creates the key of an object; neither part may contain a slash.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            Some(namespace) => Self(format!("{namespace}/{name}").into()),
            None => Self(name.into()),
        }
    }

    /// Parses the key in a continue token.
    pub fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns a key that precedes all objects of a namespace.
    pub fn first_of(namespace: &str) -> Self {
        Self(format!("{namespace}/").into())
    }

    /// Returns whether the object is in the namespace; always true for `None`.
    pub fn is_in(&self, namespace: Option<&str>) -> bool {
        namespace
            .is_none_or(|namespace| self.0.strip_prefix(namespace).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One immutable state of an object.
#[derive(Debug)]
pub struct Record {
    /// The object's key.
    pub key: Key,
    /// The revision of the write; equal to `metadata.resourceVersion`.
    pub revision: u64,
    /// The object.
    pub value: Value,
    json: OnceLock<Bytes>,
}

impl Record {
    /// Creates a state of an object, and sets its `metadata.resourceVersion` to `revision`.
    pub fn new(key: Key, revision: u64, mut value: Value) -> Self {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".into(), Value::String(revision.to_string()));
        }
        Self { key, revision, value, json: OnceLock::new() }
    }

    /// Creates a state from the JSON of one that has been created before.
    pub(super) fn from_json(key: Key, revision: u64, json: Bytes) -> Self {
        // What a value was written as can be read: its depth is bounded.
        let value = serde_json::from_slice(&json).unwrap_or_default();
        Self { key, revision, value, json: OnceLock::from(json) }
    }

    /// Returns the object's JSON, serialised on the first call.
    pub fn json(&self) -> &Bytes {
        // Without the spare room of the text that grew.
        self.json.get_or_init(|| Bytes::from(self.value.to_string().into_bytes().into_boxed_slice()))
    }
}
