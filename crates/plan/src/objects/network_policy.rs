//! A NetworkPolicy for a job that asks for one (`training.opendatahub.io/network-policy: isolated`): its pods accept
//! connections only from one another. Outgoing connections are not restricted. No upstream counterpart.

use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{metadata, selector, watched_labels};
use crate::validate::ValidJob;

/// The policy, named as the job.
pub(crate) fn network_policy(job: &ValidJob) -> NetworkPolicy {
    let pods = LabelSelector { match_labels: Some(selector(job)), ..LabelSelector::default() };
    let peers = NetworkPolicyPeer { pod_selector: Some(pods.clone()), ..NetworkPolicyPeer::default() };
    NetworkPolicy {
        metadata: metadata(job, job.name.clone(), watched_labels(job)),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(pods),
            ingress: Some(vec![NetworkPolicyIngressRule { from: Some(vec![peers]), ports: None }]),
            policy_types: Some(vec!["Ingress".to_owned()]),
            egress: None,
        }),
    }
}
