//! One object as the store keeps it: its key, its revision, its value, and its JSON once somebody has needed it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;

/// A resource's name, `plural` or `plural.group`: the same for all of its versions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource(Arc<str>);

impl Resource {
    /// The resource of a group; the core group is the empty string.
    pub fn new(group: &str, plural: &str) -> Self {
        if group.is_empty() { Self(plural.into()) } else { Self(format!("{plural}.{group}").into()) }
    }
}

impl Resource {
    /// A resource by the name that [`Resource::as_str`] gave.
    pub fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// The resource as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// `namespace/name`, or `name` where the resource is not namespaced. Ordered as kube-apiserver's keys in etcd are,
/// so that lists come in the same order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// The key of an object; neither part may hold a slash.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            Some(namespace) => Self(format!("{namespace}/{name}").into()),
            None => Self(name.into()),
        }
    }

    /// A key taken from a continue token.
    pub fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// A key that precedes every object of a namespace.
    pub fn first_of(namespace: &str) -> Self {
        Self(format!("{namespace}/").into())
    }

    /// Whether the object is in the namespace; every object is where none is given.
    pub fn is_in(&self, namespace: Option<&str>) -> bool {
        namespace
            .is_none_or(|namespace| self.0.strip_prefix(namespace).is_some_and(|rest| rest.starts_with('/')))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One state of one object. Never changed once made.
#[derive(Debug)]
pub struct Record {
    /// Which object.
    pub key: Key,
    /// The write that made this state; the same number as `metadata.resourceVersion`.
    pub revision: u64,
    /// The object.
    pub value: Value,
    json: OnceLock<Bytes>,
}

impl Record {
    /// A state of an object, with its `metadata.resourceVersion` set to `revision`.
    pub fn new(key: Key, revision: u64, mut value: Value) -> Self {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".into(), Value::String(revision.to_string()));
        }
        Self { key, revision, value, json: OnceLock::new() }
    }

    /// The object's JSON, made on the first call.
    pub fn json(&self) -> &Bytes {
        self.json.get_or_init(|| Bytes::from(self.value.to_string()))
    }
}
