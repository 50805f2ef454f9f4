//! The conditions that report what is left in a namespace that is being deleted. Pure.
//!
//! Rules: `pkg/controller/namespace/deletion/status_condition_utils.go` of Kubernetes 1.36.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NamespaceCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The result of one attempt to empty a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remains {
    /// Objects left, by `plural.group`.
    pub objects: BTreeMap<String, usize>,
    /// Objects left, by finalizer.
    pub finalizers: BTreeMap<String, usize>,
    /// Failed deletions and lists.
    pub failures: Vec<String>,
}

impl Remains {
    /// Returns whether nothing is left and nothing failed.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.failures.is_empty()
    }
}

/// Returns the five conditions that upstream writes. Transition times change only with a status.
pub fn conditions(
    remains: &Remains,
    known: &[NamespaceCondition],
    now: Timestamp,
) -> Vec<NamespaceCondition> {
    let counted = |map: &BTreeMap<String, usize>, what: &str| {
        let parts: Vec<String> =
            map.iter().map(|(name, count)| format!("{name}{what} {count} resource instances")).collect();
        parts.join(", ")
    };
    let rows = [
        (
            "NamespaceDeletionDiscoveryFailure",
            None,
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            None,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            (!remains.failures.is_empty()).then(|| {
                let (count, list) = (remains.failures.len(), remains.failures.join(", "));
                (
                    "ContentDeletionFailed",
                    format!("Failed to delete all resource types, {count} remaining: {list}"),
                )
            }),
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            (!remains.objects.is_empty()).then(|| {
                let list = counted(&remains.objects, " has");
                ("SomeResourcesRemain", format!("Some resources are remaining: {list}"))
            }),
            "ContentRemoved",
            "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining",
            (!remains.finalizers.is_empty()).then(|| {
                let list = counted(&remains.finalizers, " in");
                (
                    "SomeFinalizersRemain",
                    format!("Some content in the namespace has finalizers remaining: {list}"),
                )
            }),
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    ];
    rows.into_iter()
        .map(|(type_, wrong, fine_reason, fine_message)| {
            let status = if wrong.is_some() { "True" } else { "False" };
            let (reason, message) = wrong.unwrap_or((fine_reason, fine_message.to_owned()));
            let since = known.iter().find(|c| c.type_ == type_ && c.status == status);
            NamespaceCondition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message),
                last_transition_time: since.and_then(|c| c.last_transition_time.clone()).or(Some(Time(now))),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_report_what_is_left() {
        let remains = Remains {
            objects: [("pods.".to_owned(), 2), ("jobs.batch".to_owned(), 1)].into(),
            finalizers: [("example.com/hold".to_owned(), 2)].into(),
            failures: Vec::new(),
        };
        let at = Timestamp::from_second(5).unwrap();
        let conditions = conditions(&remains, &[], at);
        let text: Vec<String> = conditions
            .iter()
            .map(|c| format!("{}={} {}", c.type_, c.status, c.message.as_deref().unwrap()))
            .collect();
        assert_eq!(
            text,
            [
                "NamespaceDeletionDiscoveryFailure=False All resources successfully discovered",
                "NamespaceDeletionGroupVersionParsingFailure=False All legacy kube types successfully parsed",
                "NamespaceDeletionContentFailure=False All content successfully deleted, may be waiting on finalization",
                "NamespaceContentRemaining=True Some resources are remaining: jobs.batch has 1 resource instances, pods. has 2 resource instances",
                "NamespaceFinalizersRemaining=True Some content in the namespace has finalizers remaining: example.com/hold in 2 resource instances",
            ]
        );
        let again = super::conditions(&remains, &conditions, Timestamp::from_second(9).unwrap());
        assert_eq!(again, conditions);
    }
}
