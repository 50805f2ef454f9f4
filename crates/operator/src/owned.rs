//! Who owns an object, and which version of it was read.

use kube::{Resource, ResourceExt};

/// Whether the object with this UID is the controller of another.
pub(crate) fn is_controlled_by<K: Resource>(child: &K, uid: &str) -> bool {
    child.owner_references().iter().any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

/// A resource version as a number, which it is (KEP-5504), and 0 where a server gave none.
pub(crate) fn version<K: Resource>(object: &K) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or(0)
}
