//! The ownership graph, as seen by the watches. Pure bookkeeping: it only returns which objects to check after a
//! change.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use controller_runtime::cache::Key;
use controller_runtime::kinds::Served;

/// The finalizer of foreground deletion; removed when no dependent blocks it.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of orphaning deletion; removed when no dependent refers to the owner.
pub const ORPHAN: &str = "orphan";

/// An object of the graph.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its kind.
    pub served: Arc<Served>,
    /// Namespace and name.
    pub key: Key,
    /// Its owner references.
    pub owners: Vec<OwnerReference>,
    /// Whether it is being deleted.
    pub deleted: bool,
    /// Finalizers.
    pub finalizers: Vec<String>,
}

impl Item {
    /// Creates an item from an object's metadata.
    pub fn of(served: &Arc<Served>, meta: &ObjectMeta) -> Self {
        Self {
            served: served.clone(),
            key: Key::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default()),
            owners: meta.owner_references.clone().unwrap_or_default(),
            deleted: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
        }
    }

    /// Returns whether it is being deleted and waits for this finalizer.
    pub fn ends_with(&self, finalizer: &str) -> bool {
        self.deleted && self.finalizers.iter().any(|f| f == finalizer)
    }
}

/// Every known object, by uid.
#[derive(Debug, Default)]
pub struct Graph {
    items: HashMap<String, Item>,
    dependents: HashMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Returns the object with this uid.
    pub fn get(&self, uid: &str) -> Option<&Item> {
        self.items.get(uid)
    }

    /// Returns the uids of the objects that refer to this owner.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &str> {
        self.dependents.get(uid).into_iter().flatten().map(String::as_str)
    }

    /// Returns the dependents whose reference blocks the owner's deletion.
    pub fn blocking(&self, uid: &str) -> Vec<String> {
        let blocks = |dependent: &&str| {
            let item = self.items.get(*dependent);
            item.is_some_and(|i| {
                i.owners.iter().any(|o| o.uid == uid && o.block_owner_deletion == Some(true))
            })
        };
        self.dependents(uid).filter(blocks).map(str::to_owned).collect()
    }

    /// Returns whether a dependent waits for its own dependents: there may be a cycle.
    pub fn may_be_in_circle(&self, uid: &str) -> bool {
        self.dependents(uid)
            .any(|dependent| self.get(dependent).is_some_and(|item| item.ends_with(FOREGROUND)))
    }

    /// Returns the objects with an unknown owner.
    pub fn fatherless(&self) -> Vec<String> {
        let lacks = |item: &Item| item.owners.iter().any(|owner| !self.items.contains_key(&owner.uid));
        self.items.iter().filter(|(_, item)| lacks(item)).map(|(uid, _)| uid.clone()).collect()
    }

    /// Adds or updates an object. Returns the uids to check.
    pub fn put(&mut self, uid: &str, item: Item) -> Vec<String> {
        let old = self.items.insert(uid.to_owned(), item.clone());
        let old_owners = old.as_ref().map(|o| o.owners.clone()).unwrap_or_default();
        let mut look = Vec::new();
        for owner in &old_owners {
            if !item.owners.iter().any(|o| o.uid == owner.uid) {
                self.unlink(&owner.uid, uid);
            }
        }
        for owner in &item.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.to_owned());
        }
        if item.owners != old_owners {
            let ending = |owner: &OwnerReference| self.items.get(&owner.uid).is_none_or(|o| o.deleted);
            if item.owners.iter().any(ending) {
                look.push(uid.to_owned());
            }
            // An owner that waits for its dependents may have one less to wait for.
            let waits = old_owners.iter().filter(|o| self.items.get(&o.uid).is_some_and(|i| i.deleted));
            look.extend(waits.map(|o| o.uid.clone()));
        }
        let newly_ending =
            |finalizer| item.ends_with(finalizer) && !old.as_ref().is_some_and(|o| o.ends_with(finalizer));
        if newly_ending(FOREGROUND) || newly_ending(ORPHAN) {
            look.push(uid.to_owned());
        }
        look
    }

    /// Removes an object that is gone. Returns the uids to check: its dependents, and owners that waited for it.
    pub fn remove(&mut self, uid: &str) -> Vec<String> {
        let Some(item) = self.items.remove(uid) else { return Vec::new() };
        let mut look: Vec<String> = self.dependents(uid).map(str::to_owned).collect();
        for owner in item.owners {
            self.unlink(&owner.uid, uid);
            if self.items.get(&owner.uid).is_some_and(|o| o.deleted) {
                look.push(owner.uid);
            }
        }
        look
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if let Some(set) = self.dependents.get_mut(owner) {
            set.remove(dependent);
            if set.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }
}
