//! Kinds that are validated and stored, but have no effect. Clients check whether they are served
//! (`test/e2e/apimachinery/discovery.go`), and charts contain them.
//!
//! The reference (`docs/reference/embedded-cluster.md`) lists each of them.

use k8s_openapi::api::{
    admissionregistration, autoscaling, certificates, flowcontrol, networking, node, storage,
};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;

use super::{Kind, global, namespaced};

pub(super) fn kinds() -> Vec<Kind> {
    [admission(), autoscalers(), flow_control(), others()].into_iter().flatten().collect()
}

fn admission() -> Vec<Kind> {
    const GROUP: &str = "admissionregistration.k8s.io";
    vec![
        global::<admissionregistration::v1::MutatingAdmissionPolicy>(
            GROUP,
            "v1",
            "MutatingAdmissionPolicy",
            "mutatingadmissionpolicies",
        )
        .category("api-extensions"),
        global::<admissionregistration::v1::MutatingAdmissionPolicyBinding>(
            GROUP,
            "v1",
            "MutatingAdmissionPolicyBinding",
            "mutatingadmissionpolicybindings",
        )
        .category("api-extensions"),
        global::<admissionregistration::v1::ValidatingAdmissionPolicy>(
            GROUP,
            "v1",
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
        )
        .category("api-extensions")
        .with_status(),
        global::<admissionregistration::v1::ValidatingAdmissionPolicyBinding>(
            GROUP,
            "v1",
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
        )
        .category("api-extensions"),
    ]
}

/// Stored as `v2`; `v1` shows and accepts only what it can express.
fn autoscalers() -> Vec<Kind> {
    const NAMES: [&str; 2] = ["HorizontalPodAutoscaler", "horizontalpodautoscalers"];
    let [kind, plural] = NAMES;
    let second = namespaced::<autoscaling::v2::HorizontalPodAutoscaler>("autoscaling", "v2", kind, plural);
    let mut first = namespaced::<autoscaling::v1::HorizontalPodAutoscaler>("autoscaling", "v1", kind, plural);
    first.stored_version = false;
    [second, first].map(|made| made.short(&["hpa"]).category("all").with_status()).into()
}

fn flow_control() -> Vec<Kind> {
    const GROUP: &str = "flowcontrol.apiserver.k8s.io";
    vec![
        global::<flowcontrol::v1::FlowSchema>(GROUP, "v1", "FlowSchema", "flowschemas").with_status(),
        global::<flowcontrol::v1::PriorityLevelConfiguration>(
            GROUP,
            "v1",
            "PriorityLevelConfiguration",
            "prioritylevelconfigurations",
        )
        .with_status(),
    ]
}

fn others() -> Vec<Kind> {
    vec![
        global::<apiregistration::v1::APIService>(
            "apiregistration.k8s.io",
            "v1",
            "APIService",
            "apiservices",
        )
        .category("api-extensions")
        .with_status(),
        global::<certificates::v1::CertificateSigningRequest>(
            "certificates.k8s.io",
            "v1",
            "CertificateSigningRequest",
            "certificatesigningrequests",
        )
        .short(&["csr"])
        .with_status(),
        namespaced::<networking::v1::Ingress>("networking.k8s.io", "v1", "Ingress", "ingresses")
            .short(&["ing"])
            .with_status(),
        global::<networking::v1::IngressClass>("networking.k8s.io", "v1", "IngressClass", "ingressclasses"),
        global::<node::v1::RuntimeClass>("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses"),
        global::<storage::v1::CSINode>("storage.k8s.io", "v1", "CSINode", "csinodes"),
    ]
}
