//! Kinds that maintain a number of pods: Deployment, ReplicaSet, ReplicationController; and PodTemplate.

use k8s_openapi::api::{apps, core};

use super::{Kind, ScalePaths, namespaced};

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        namespaced::<core::v1::PodTemplate>("", "v1", "PodTemplate", "podtemplates"),
        namespaced::<core::v1::ReplicationController>(
            "",
            "v1",
            "ReplicationController",
            "replicationcontrollers",
        )
        .short(&["rc"])
        .category("all")
        .with_scale(scale())
        .with_status(),
        namespaced::<apps::v1::Deployment>("apps", "v1", "Deployment", "deployments")
            .short(&["deploy"])
            .category("all")
            .with_scale(scale())
            .with_status(),
        namespaced::<apps::v1::ReplicaSet>("apps", "v1", "ReplicaSet", "replicasets")
            .short(&["rs"])
            .category("all")
            .with_scale(scale())
            .with_status(),
    ]
}

fn scale() -> ScalePaths {
    ScalePaths {
        spec_replicas: ".spec.replicas".to_owned(),
        status_replicas: ".status.replicas".to_owned(),
        label_selector: Some(".spec.selector".to_owned()),
    }
}
