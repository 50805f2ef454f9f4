//! Decides what to do with an object when its owners go away. Pure.
//!
//! Rules: `pkg/controller/garbagecollector/garbagecollector.go` (`attemptToDeleteItem`) of Kubernetes 1.36.

use kube::api::PropagationPolicy;

use super::graph::{FOREGROUND, ORPHAN};

/// The state of an owner, from a live request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Owner {
    /// It exists.
    Solid,
    /// It is being deleted and waits for its dependents.
    Waiting,
    /// It does not exist, or another object has its name.
    Absent,
    /// Undetermined: its kind is not served, or the reference crosses namespaces. Never a reason to delete.
    Unknown,
}

/// The action for the object.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Leave it as it is.
    Keep,
    /// Remove these owner references (positions in the list); another owner keeps the object.
    Unlink(Vec<usize>),
    /// Delete it.
    Delete(PropagationPolicy),
}

/// Decides from the object's owners, its finalizers, and whether it has dependents.
pub fn decide(owners: &[Owner], finalizers: &[String], has_dependents: bool) -> Action {
    if owners.is_empty() || owners.contains(&Owner::Unknown) {
        return Action::Keep;
    }
    if owners.contains(&Owner::Solid) {
        let ending: Vec<usize> = (0..owners.len()).filter(|n| owners[*n] != Owner::Solid).collect();
        return if ending.is_empty() { Action::Keep } else { Action::Unlink(ending) };
    }
    if owners.contains(&Owner::Waiting) && has_dependents {
        return Action::Delete(PropagationPolicy::Foreground);
    }
    let has = |name: &str| finalizers.iter().any(|f| f == name);
    Action::Delete(if has(ORPHAN) {
        PropagationPolicy::Orphan
    } else if has(FOREGROUND) {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Owner::{Absent, Solid, Unknown, Waiting};

    #[test]
    fn owners_determine_the_action() {
        let background = || Action::Delete(PropagationPolicy::Background);
        for (owners, finalizers, dependents, expected) in [
            (&[][..], &[][..], false, Action::Keep),
            (&[Solid], &[], false, Action::Keep),
            (&[Absent], &[], false, background()),
            (&[Absent, Solid], &[], false, Action::Unlink(vec![0])),
            (&[Waiting, Solid, Absent], &[], false, Action::Unlink(vec![0, 2])),
            (&[Absent, Unknown], &[], false, Action::Keep),
            (&[Waiting], &[], false, background()),
            (&[Waiting], &[], true, Action::Delete(PropagationPolicy::Foreground)),
            (&[Absent], &[ORPHAN], false, Action::Delete(PropagationPolicy::Orphan)),
            (&[Absent], &[FOREGROUND], true, Action::Delete(PropagationPolicy::Foreground)),
        ] {
            let finalizers: Vec<String> = finalizers.iter().map(|f| (*f).to_owned()).collect();
            assert_eq!(decide(owners, &finalizers, dependents), expected, "{owners:?} {finalizers:?}");
        }
    }
}
