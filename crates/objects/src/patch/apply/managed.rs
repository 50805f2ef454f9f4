//! `metadata.managedFields`: reads, writes and bounds the record of which manager set which fields
//! (`apimachinery/pkg/util/managedfields/internal`).

use serde_json::{Value, json};

use super::fieldset::FieldSet;

/// The most entries of operation Update in an object; beyond that, the oldest are merged.
const MAX_UPDATERS: usize = 10;
/// The manager of the merged entries.
const ANCIENT: &str = "ancient-changes";

/// The operation by which a manager set its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// A manager and the fields that it set.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
    /// RFC 3339; empty if unknown.
    pub time: String,
    pub set: FieldSet,
}

impl Entry {
    /// Returns whether both are the same manager. For appliers, the version is ignored.
    pub(super) fn same_manager(&self, other: &Entry) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// Identifies the manager as Kubernetes does, which orders managers by it (`managedfields.BuildManagerIdentifier`).
    pub(super) fn identifier(&self) -> String {
        let (operation, version) = match self.operation {
            Operation::Apply => ("Apply", String::new()),
            Operation::Update => ("Update", format!(",\"apiVersion\":{:?}", self.api_version)),
        };
        let subresource = match self.subresource.as_str() {
            "" => String::new(),
            name => format!(",\"subresource\":{name:?}"),
        };
        format!("{{\"manager\":{:?},\"operation\":{operation:?}{version}{subresource}}}", self.manager)
    }

    /// Formats the manager for a conflict message.
    pub(super) fn show(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}

/// Reads the entries of an object. Of several entries of one manager, the last counts. Returns `None` if any entry is
/// malformed.
pub(super) fn read(object: &Value) -> Option<Vec<Entry>> {
    let entries = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
    let mut read: Vec<Entry> = Vec::new();
    for entry in entries.iter().map(entry) {
        let entry = entry?;
        read.retain(|other| !other.same_manager(&entry));
        read.push(entry);
    }
    Some(read)
}

fn entry(entry: &Value) -> Option<Entry> {
    let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    let operation = match entry["operation"].as_str()? {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return None,
    };
    let set = match &entry["fieldsV1"] {
        Value::Null => FieldSet::default(),
        wire => FieldSet::of_wire(wire)?,
    };
    let (manager, api_version) = (text("manager"), text("apiVersion"));
    Some(Entry { manager, operation, api_version, subresource: text("subresource"), time: text("time"), set })
}

/// Writes the entries to an object, sorted: appliers first, then by time and name.
pub(super) fn write(object: &mut Value, entries: Vec<Entry>) {
    let mut entries: Vec<Entry> = entries.into_iter().filter(|e| !e.set.is_empty()).collect();
    cap(&mut entries);
    entries.sort_by(|a, b| {
        let key = |e: &Entry| {
            (e.operation, e.time.clone(), e.manager.clone(), e.api_version.clone(), e.subresource.clone())
        };
        key(a).cmp(&key(b))
    });
    if entries.is_empty() {
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("managedFields");
        }
        return;
    }
    object["metadata"]["managedFields"] = entries.iter().map(to_value).collect();
}

fn to_value(entry: &Entry) -> Value {
    let operation = if entry.operation == Operation::Apply { "Apply" } else { "Update" };
    let mut value = json!({
        "manager": entry.manager, "operation": operation, "apiVersion": entry.api_version,
        "fieldsType": "FieldsV1", "fieldsV1": entry.set.to_wire(),
    });
    for (field, text) in [("time", &entry.time), ("subresource", &entry.subresource)] {
        if !text.is_empty() {
            value[field] = json!(text);
        }
    }
    value
}

/// Merges the oldest updaters of each version into one, until few enough are left.
fn cap(entries: &mut Vec<Entry>) {
    let mut updaters: Vec<Entry> =
        entries.iter().filter(|e| e.operation == Operation::Update).cloned().collect();
    if updaters.len() <= MAX_UPDATERS {
        return;
    }
    updaters.sort_by(|a, b| (&a.time, &a.manager).cmp(&(&b.time, &b.manager)));
    let mut kept: Vec<Entry> = Vec::new();
    let mut surplus = updaters.len() + 1 - MAX_UPDATERS;
    for updater in updaters {
        let bucket = kept.iter_mut().find(|k| {
            k.manager == ANCIENT && k.api_version == updater.api_version && k.subresource.is_empty()
        });
        match bucket {
            Some(bucket) if surplus > 0 => {
                bucket.set = std::mem::take(&mut bucket.set).union(&updater.set);
                bucket.time = updater.time;
                surplus -= 1;
            }
            None if surplus > 0 => {
                surplus -= 1;
                kept.push(Entry { manager: ANCIENT.to_owned(), subresource: String::new(), ..updater });
            }
            _ => kept.push(updater),
        }
    }
    entries.retain(|e| e.operation == Operation::Apply);
    entries.extend(kept);
}
