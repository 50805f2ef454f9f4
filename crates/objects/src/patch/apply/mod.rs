//! Server-side apply (KEP-555): a client sends the fields that it wants, and the server tracks which manager owns which
//! fields.
//!
//! Semantics of structured-merge-diff v6 `merge.Updater` and of `apimachinery/pkg/util/managedfields`. [`apply`] merges
//! a manager's fields into the live object, removes fields that it applied before and that no manager applies any more,
//! and rejects changes of other managers' fields unless forced. [`update_managed_fields`] maintains the record for all
//! other writes. The caller passes the current time, and applies defaults, pruning and validation to the result.

mod fieldset;
mod managed;
mod typed;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::fieldset::{FieldSet, show};
use self::managed::{Entry, Operation};
use self::typed::{Comparison, TypeRef};
use super::PatchError;
use crate::Kind;

/// The manager of fields that existed before the first apply to an object without a record.
const BEFORE: &str = "before-first-apply";
/// The subresource that changes the number of replicas.
const SCALE: &str = "scale";
/// The longest name of a manager, in bytes.
pub const MAX_MANAGER_BYTES: usize = 128;
/// Metadata fields that no manager can own.
const UNOWNED: &[&str] = &[
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// The manager of a write, its subresource, and the time.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The field manager's name.
    pub manager: &'a str,
    /// The subresource that is written; `None` for the object itself.
    pub subresource: Option<&'a str>,
    /// The current time.
    pub now: Timestamp,
}

/// A field that another manager has set to another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager, as in messages: `"kubectl" using v1`.
    pub manager: String,
    /// What Kubernetes identifies the other manager by, which orders managers in the message.
    pub identifier: String,
    /// The field, e.g. `.spec.replicas`.
    pub field: String,
}

/// Why a configuration was not applied.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ApplyError {
    /// Other managers have set the fields to other values; `force` would take them over.
    #[error("{}", conflict_text(.0))]
    Conflicts(Vec<Conflict>),
    /// The configuration cannot be applied at all.
    #[error(transparent)]
    Patch(#[from] PatchError),
}

impl ApplyError {
    /// Returns the `Status` that reports the error.
    pub fn status(&self) -> Value {
        match self {
            ApplyError::Conflicts(conflicts) => {
                let cause = |c: &Conflict| json!({"reason": "FieldManagerConflict", "message": format!("conflict with {}", c.manager), "field": c.field});
                let causes: Vec<Value> = conflicts.iter().map(cause).collect();
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.to_string(),
                    "reason": "Conflict", "details": {"causes": causes}, "code": 409})
            }
            ApplyError::Patch(error) => {
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": error.to_string(),
                    "reason": error.reason(), "code": error.code()})
            }
        }
    }
}

fn conflict_text(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", one.manager, one.field);
    }
    let mut managers: BTreeMap<&str, Vec<&Conflict>> = BTreeMap::new();
    for conflict in conflicts {
        managers.entry(&conflict.identifier).or_default().push(conflict);
    }
    let mut lines = Vec::new();
    for conflicts in managers.values() {
        lines.extend(conflicts.first().map(|first| format!("conflicts with {}:", first.manager)));
        lines.extend(conflicts.iter().map(|conflict| format!("- {}", conflict.field)));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// Applies a configuration and returns the new object, with its updated `managedFields`.
///
/// `live` is the stored object, or `None` if there is none yet. An apply that changes nothing returns `live` unchanged,
/// so that nothing must be stored.
///
/// # Errors
/// Conflicts with other managers, or a malformed configuration.
pub fn apply(
    kind: &Kind,
    live: Option<&Value>,
    applied: &Value,
    by: Writer<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    check(kind, applied, by)?;
    let schema = kind.schema();
    let root = TypeRef::root(schema);
    let empty = skeleton(kind, applied);
    let before = live.unwrap_or(&empty);
    let mut entries = managed::read(before).unwrap_or_default();
    let named = |object: &Value| {
        let name = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        format!(
            "({}/{}; {}/{}, Kind={})",
            name("namespace"),
            name("name"),
            kind.group,
            kind.version,
            kind.kind
        )
    };
    let strange = live.and_then(|live| Some((live, typed::check(root, live, true).err()?)));
    if let (Some((live, faults)), true) = (&strange, entries.is_empty()) {
        let (at, why) = (named(live), typed::join(faults));
        let what = "failed to create manager for existing fields: failed to convert new object";
        return Err(PatchError::Untyped(format!("{what} {at} to smd typed: {why}")).into());
    }
    if let (Some(live), true) = (live, entries.is_empty()) {
        let first = Writer { manager: BEFORE, subresource: None, ..by };
        record(kind, &mut entries, typed::compare(root, &empty, live), &first);
    }
    let bare = without_managers(before);
    let untyped = |text: String| {
        PatchError::Untyped(format!("failed to create typed patch object {}: {text}", named(applied)))
    };
    typed::check(root, applied, false).map_err(|faults| untyped(typed::join(&faults)))?;
    if let Some((live, faults)) = strange {
        let (at, why) = (named(live), typed::join(&faults));
        return Err(PatchError::Untyped(format!("failed to create typed live object {at}: {why}")).into());
    }
    let wanted = written(kind, by.subresource, typed::field_set(root, applied));
    let merged = typed::merge(root, Some(&bare), Some(applied), 0).map_err(untyped)?.unwrap_or_default();
    let mut mine = Entry {
        manager: by.manager.to_owned(),
        operation: Operation::Apply,
        api_version: kind.api_version(),
        subresource: by.subresource.unwrap_or_default().to_owned(),
        time: crate::timestamp(by.now),
        set: stripped(wanted.clone()),
    };
    let last = entries.iter().find(|e| e.same_manager(&mine)).cloned();
    entries.retain(|e| !e.same_manager(&mine));
    let mut result = match &last {
        Some(last) if !last.set.is_empty() => {
            // With the fields that no manager owns: the object's name, which the configuration has, holds `metadata`.
            let all = entries.iter().fold(wanted, |all, entry| all.union(&entry.set));
            give_up(root, &merged, &last.set, &all)
        }
        _ => merged,
    };
    let difference = typed::compare(root, &bare, &result);
    settle(kind, &mut entries, &difference, by, force)?;
    if live.is_some() && typed::equal(&result, &bare) {
        result = bare;
        // Nothing was written now: the entry keeps its time, and a new one gets none.
        mine.time = last.map(|last| last.time).unwrap_or_default();
    }
    entries.push(mine);
    managed::write(&mut result, entries);
    Ok(result)
}

/// Merges a mutating policy's configuration into an object as [`apply`] does, but without tracking ownership (apiserver
/// `pkg/admission/plugin/policy/mutating/patch/smd.go`).
///
/// # Errors
/// Why it cannot be merged, for a person.
pub fn merge_untracked(kind: &Kind, object: &Value, wanted: &Value) -> Result<Value, String> {
    let root = TypeRef::root(kind.schema());
    typed::check(root, wanted, false).map_err(|faults| {
        format!("failed to convert patch object to typed object: {}", typed::join(&faults))
    })?;
    let atomics = typed::atomics(root, wanted);
    if !atomics.is_empty() {
        let paths = atomics.join(", ");
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {paths}"
        ));
    }
    let merged = typed::merge(root, Some(object), Some(wanted), 0);
    Ok(merged.map_err(|why| format!("failed to merge patch: {why}"))?.unwrap_or_default())
}

fn check(kind: &Kind, applied: &Value, by: Writer<'_>) -> Result<(), PatchError> {
    let bad = |text: String| Err(PatchError::Malformed(text));
    if !applied.is_object() {
        return bad("an apply patch must be an object".to_owned());
    }
    if by.manager.is_empty() {
        return bad("fieldManager: Required value: is required for apply patch".to_owned());
    }
    if by.manager.len() > MAX_MANAGER_BYTES {
        return bad(format!("fieldManager: Too long: may not be more than {MAX_MANAGER_BYTES} bytes"));
    }
    let version = applied["apiVersion"].as_str().unwrap_or_default();
    if version != kind.api_version() {
        return bad(format!(
            "Incorrect version specified in apply patch. Specified patch version: {version}, expected: {}",
            kind.api_version()
        ));
    }
    if !applied["metadata"]["managedFields"].is_null() {
        return bad("metadata.managedFields must be nil".to_owned());
    }
    Ok(())
}

/// Returns whether an object's `managedFields` can be read; absent ones can.
pub fn is_readable(object: &Value) -> bool {
    matches!(object["metadata"]["managedFields"], Value::Null | Value::Array(_))
        && managed::read(object).is_some()
}

/// Removes from the merged object the fields that the manager applied before and that no manager applies any more.
fn give_up(root: TypeRef<'_>, merged: &Value, last: &FieldSet, wanted: &FieldSet) -> Value {
    let named = |set: &FieldSet| typed::with_named_fields(root, set);
    let set_of = |value: &Value| named(&typed::field_set(root, value));
    let (all, last) = (set_of(merged), named(last));
    let pruned = typed::remove(root, merged, &last);
    // Restore what any manager still applies,
    let kept = set_of(&pruned).union(&named(wanted));
    let pruned = typed::remove(root, merged, &all.difference(&kept));
    // and fields that this manager did not own.
    let gone = all.difference(&set_of(&pruned)).intersection(&last);
    typed::remove(root, merged, &gone)
}

/// Takes over changed fields from other managers, if they have the same value or with `force`.
fn settle(
    kind: &Kind,
    entries: &mut Vec<Entry>,
    difference: &Comparison,
    by: Writer<'_>,
    force: bool,
) -> Result<(), ApplyError> {
    let changed = owned(kind, by.subresource, difference.modified.clone().union(&difference.added));
    let mut conflicts = Vec::new();
    for entry in entries.iter() {
        let fields = entry.set.intersection(&changed).paths();
        let mut fields = fields;
        // At each level, paths that end there come before deeper ones (`fieldpath.Set.Iterate`).
        fields.sort_by(|a, b| {
            let shared = a.iter().zip(b.iter()).take_while(|(a, b)| a == b).count();
            let is_deeper = |path: &[_]| path.len() > shared + 1;
            is_deeper(a).cmp(&is_deeper(b))
        });
        conflicts.extend(fields.iter().map(|path| Conflict {
            manager: entry.show(),
            identifier: entry.identifier(),
            field: show(path),
        }));
    }
    if !force && !conflicts.is_empty() {
        return Err(ApplyError::Conflicts(conflicts));
    }
    take(entries, &changed, &difference.removed);
    Ok(())
}

fn take(entries: &mut Vec<Entry>, changed: &FieldSet, removed: &FieldSet) {
    for entry in entries.iter_mut() {
        entry.set.subtract(changed);
        entry.set.subtract(removed);
    }
    entries.retain(|entry| !entry.set.is_empty());
}

/// Updates the record of managers for a create, update or patch, by setting `managedFields` in `new`.
///
/// `live` is the object as stored before, or `None` on create. `managedFields` sent by a client are accepted as they
/// are; a single empty entry clears them.
pub fn update_managed_fields(kind: &Kind, live: Option<&Value>, new: &mut Value, by: Writer<'_>) {
    let sent = new["metadata"]["managedFields"].as_array();
    let is_blank = |entry: &Value| entry.as_object().is_none_or(serde_json::Map::is_empty);
    let is_cleared =
        sent.is_some_and(|all| all.is_empty() || matches!(all.as_slice(), [one] if is_blank(one)));
    let read = || sent.and_then(|_| managed::read(new)).filter(|entries| !entries.is_empty());
    let stored = || live.and_then(managed::read).unwrap_or_default();
    let mut entries = match by.subresource {
        Some(_) => stored(),
        None if is_cleared => Vec::new(),
        None => read().unwrap_or_else(stored),
    };
    // The first apply creates the record of an object without one (`skipNonAppliedManager`).
    let is_untracked = live.is_some() && entries.is_empty();
    let root = TypeRef::root(kind.schema());
    let fits = |object: &Value| typed::check(root, object, true).is_ok();
    if is_untracked || !fits(new) || !live.is_none_or(fits) {
        *new = without_managers(new);
        return;
    }
    if by.subresource == Some(SCALE) && !entries.iter().any(|entry| owns_replicas(kind, entry)) {
        // A Scale has the entries of the owners of its only field. Without one, it counts as an object without a record.
        managed::write(new, entries);
        return;
    }
    let mut difference = match live {
        Some(live) => typed::compare(root, live, new),
        None => typed::compare(root, &skeleton(kind, new), new),
    };
    if by.subresource == Some(SCALE) && replicas(kind, new) == Some(0) {
        // A Scale with zero replicas does not have the field.
        let Comparison { added, modified, removed } = difference;
        difference = Comparison { removed: removed.union(&added).union(&modified), ..Comparison::default() };
    }
    record(kind, &mut entries, difference, &by);
    if by.subresource == Some(SCALE) {
        part(kind, &mut entries);
    }
    managed::write(new, entries);
}

/// Returns the path of the field with an object's desired number of replicas.
fn replicas_path(kind: &Kind) -> impl Iterator<Item = &str> {
    let path = kind.scale.as_ref().map_or(".spec.replicas", |paths| paths.spec_replicas.as_str());
    path.trim_start_matches('.').split('.')
}

/// Returns an object's desired number of replicas.
fn replicas(kind: &Kind, object: &Value) -> Option<i64> {
    replicas_path(kind).fold(object, |value, part| &value[part]).as_i64()
}

/// Returns the set with only the desired number of replicas.
fn replicas_set(kind: &Kind) -> FieldSet {
    let mut number = FieldSet::default();
    number.insert(&replicas_path(kind).map(fieldset::field).collect::<Vec<_>>());
    number
}

/// Returns whether the entry owns an object's desired number of replicas.
fn owns_replicas(kind: &Kind, entry: &Entry) -> bool {
    !entry.set.intersection(&replicas_set(kind)).is_empty()
}

/// Splits the updater that owns the number of replicas into an entry for that field, without a time, and one for its
/// other fields. A Scale has another version, so its writer counts as another manager
/// (`managedfields.ScaleHandler.ToParent`).
fn part(kind: &Kind, entries: &mut Vec<Entry>) {
    let number = replicas_set(kind);
    let mut parted = Vec::new();
    let owners = entries.iter_mut().filter(|entry| entry.operation == Operation::Update);
    for entry in owners.filter(|entry| owns_replicas(kind, entry)) {
        entry.set.subtract(&number);
        parted.push(Entry { time: String::new(), set: number.clone(), ..entry.clone() });
    }
    entries.retain(|entry| !entry.set.is_empty());
    entries.extend(parted);
}

/// Assigns the changed fields to the writer of an update, and removes them from other managers.
fn record(kind: &Kind, entries: &mut Vec<Entry>, difference: Comparison, by: &Writer<'_>) {
    let changed = owned(kind, by.subresource, difference.modified.union(&difference.added));
    let removed = owned(kind, by.subresource, difference.removed);
    let mut manager = by.manager.to_owned();
    let mut end = MAX_MANAGER_BYTES.min(manager.len());
    while !manager.is_char_boundary(end) {
        end -= 1;
    }
    manager.truncate(end);
    let mut mine = Entry {
        manager,
        operation: Operation::Update,
        api_version: kind.api_version(),
        subresource: by.subresource.unwrap_or_default().to_owned(),
        // The entry of a scale has no time (`managedfields.ScaleHandler.ToParent`).
        time: if by.subresource == Some(SCALE) { String::new() } else { crate::timestamp(by.now) },
        set: FieldSet::default(),
    };
    let previous = entries.iter().position(|e| e.same_manager(&mine)).map(|at| entries.remove(at));
    take(entries, &changed, &removed);
    mine.set = match previous {
        Some(mut previous) => {
            if changed.is_empty() {
                mine.time = previous.time;
            }
            previous.set.subtract(&removed);
            previous.set.union(&changed)
        }
        None => changed,
    };
    entries.push(mine);
}

/// Returns the part of a set that a write to this subresource can own.
fn owned(kind: &Kind, subresource: Option<&str>, set: FieldSet) -> FieldSet {
    written(kind, subresource, stripped(set))
}

/// Removes the fields that no manager owns (`managedfields/internal/stripmeta.go`).
fn stripped(mut set: FieldSet) -> FieldSet {
    static NEVER: LazyLock<FieldSet> = LazyLock::new(|| {
        let mut never = FieldSet::default();
        for name in ["apiVersion", "kind", "metadata"] {
            never.insert(&[fieldset::field(name)]);
        }
        for name in UNOWNED {
            never.insert(&[fieldset::field("metadata"), fieldset::field(name)]);
        }
        never
    });
    set.subtract(&NEVER);
    set
}

/// Returns the part of a set that a write to this subresource changes.
fn written(kind: &Kind, subresource: Option<&str>, mut set: FieldSet) -> FieldSet {
    match subresource {
        Some("status") if kind.is_builtin() => {
            if kind.is("", "Pod") {
                // `podStatusStrategy.GetResetFields`.
                set.drop_below("metadata", "ownerReferences");
            }
            set.filter_root(|field| matches!(field, "metadata" | "status"))
        }
        Some("status") => set.filter_root(|field| field == "status"),
        None if kind.subresource("status").is_some() => set.filter_root(|field| field != "status"),
        _ => set,
    }
}

fn without_managers(object: &Value) -> Value {
    let mut bare = object.clone();
    if let Some(meta) = bare.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("managedFields");
    }
    bare
}

/// Returns an empty object, with the fields that a typed server's empty object has, so that no manager is recorded as
/// having added them.
fn skeleton(kind: &Kind, like: &Value) -> Value {
    let mut empty = json!({"apiVersion": like["apiVersion"], "kind": like["kind"]});
    if kind.is_builtin() && kind.schema().normalize(&mut empty).is_err() {
        // Cannot happen: it contains nothing with a wrong type.
        tracing::error!(kind = %kind.kind, "the empty object could not be made");
    }
    empty
}

#[cfg(test)]
mod tests;
