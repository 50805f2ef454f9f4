//! Why a node cannot take a pod: the status that kube-scheduler's filters return.

/// Why a node cannot take a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Unschedulable {
    /// The reasons, in kube-scheduler's words.
    pub reasons: Vec<String>,
    /// Whether removing other pods from the node would not help (`UnschedulableAndUnresolvable`).
    pub unresolvable: bool,
    /// Whether it applies to all nodes and is reported once (upstream's `PreFilter`).
    pub of_all: bool,
}

impl Unschedulable {
    /// Creates a status with one reason that removing other pods would not resolve.
    pub fn unresolvable(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], unresolvable: true, of_all: false }
    }

    /// Creates a status that applies to all nodes.
    pub fn of_all(reason: &str) -> Self {
        Self { of_all: true, ..Self::unresolvable(reason) }
    }

    /// Creates a status with one reason that other pods cause.
    pub fn resolvable(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], unresolvable: false, of_all: false }
    }
}
