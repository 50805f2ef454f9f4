//! Who owns an object, and which version of it was read.

use kube::{Resource, ResourceExt};

/// Whether the object with this UID is the controller of another.
pub(crate) fn is_controlled_by<K: Resource>(child: &K, uid: &str) -> bool {
    child.owner_references().iter().any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

/// The UID of an object's controller.
pub(crate) fn controller_of<K: Resource>(child: &K) -> Option<&str> {
    child.owner_references().iter().find(|owner| owner.controller == Some(true)).map(|owner| &*owner.uid)
}

/// Whether an object belongs to another object of this kind and name that is gone: it has the name and another UID, so
/// the garbage collector is about to remove what it controlled.
pub(crate) fn is_left_behind<K: Resource>(child: &K, kind: &str, name: &str, uid: &str) -> bool {
    let mut owners = child.owner_references().iter().filter(|owner| owner.controller == Some(true));
    owners.any(|owner| owner.kind == kind && owner.name == name && owner.uid != uid)
}

/// A resource version as a number, which it is (KEP-5504), and 0 where a server gave none.
pub(crate) fn version<K: Resource>(object: &K) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Namespace and name of the job that a label names.
pub(crate) fn owner_by<K: Resource>(child: &K, label: &str) -> Option<(String, String)> {
    Some((child.namespace()?, child.labels().get(label)?.clone()))
}
