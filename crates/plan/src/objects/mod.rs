//! The objects that a job owns, one file each. Names, labels and contents are exactly upstream's
//! (`kubeflow/mpi-operator`, `pkg/controller/mpi_job_controller.go`), unless a comment there says otherwise.

mod hostfile;
mod launcher;
mod network_policy;
mod pod_group;
mod record;
mod reporting;
mod secret;
mod service;
mod transport;
mod worker;

use std::collections::BTreeMap;

use api::{LABEL_JOB_NAME, LABEL_JOB_ROLE, LABEL_OPERATOR_NAME, OPERATOR_NAME};
use k8s_openapi::api::core::v1::{EnvVar, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::validate::ValidJob;

pub(crate) use hostfile::{DISCOVER_HOSTS, config_map, config_map_name, discover_hosts};
pub(crate) use launcher::{launcher_job, scheduling_directives};
pub(crate) use network_policy::network_policy;
pub use pod_group::{Gang, PodGroup, deciding_classes};
pub(crate) use pod_group::{drift, pod_group};
pub(crate) use record::{RecordedFailure, record, record_data};
pub use record::{record_name, recorded};
pub use secret::key_data;
pub(crate) use secret::secret;
pub(crate) use secret::{PRIVATE_KEY, PUBLIC_KEY};
pub(crate) use service::service;
pub(crate) use transport::{
    default_launch, drain_first, equip_with_agent, launcher_environment, mount, runs_agent, runs_sshd,
    set_worker_command,
};
pub(crate) use worker::worker;

/// A job's key pair, in the form that the Secret holds. The caller generates it, because nothing here has randomness.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The private key as PEM "EC PRIVATE KEY" of a P-521 key.
    pub private_pem: String,
    /// The public key as a line of `authorized_keys`.
    pub public_line: String,
}

impl std::fmt::Debug for KeyPair {
    /// Never shows the private key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyPair").field("public_line", &self.public_line).finish_non_exhaustive()
    }
}

/// The name of the Launcher's Job, and of its pod's host.
#[must_use]
pub fn launcher_name(job: &str) -> String {
    format!("{job}-launcher")
}

/// The name of a Worker's pod, and of its host.
#[must_use]
pub fn worker_name(job: &str, index: usize) -> String {
    format!("{job}-worker-{index}")
}

/// The name of the Secret with the job's key.
#[must_use]
pub fn secret_name(job: &str) -> String {
    format!("{job}-ssh")
}

/// Returns the reference that makes the job the controller of an object, so that the object is deleted with the job.
#[must_use]
pub fn owner_reference(job: &ValidJob) -> OwnerReference {
    OwnerReference {
        api_version: "kubeflow.org/v2beta1".to_owned(),
        kind: "MPIJob".to_owned(),
        name: job.name.clone(),
        uid: job.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Metadata of the Service, the ConfigMap, the Secret and the Launcher's Job.
fn metadata(job: &ValidJob, name: String, labels: BTreeMap<String, String>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: (!job.namespace.is_empty()).then(|| job.namespace.clone()),
        labels: Some(labels),
        owner_references: Some(vec![owner_reference(job)]),
        ..ObjectMeta::default()
    }
}

/// The only label that upstream puts on them.
fn app_label(job: &ValidJob) -> BTreeMap<String, String> {
    BTreeMap::from([("app".to_owned(), job.name.clone())])
}

/// `app` and, beyond upstream, the two labels that the operator's watches select by.
pub(crate) fn watched_labels(job: &ValidJob) -> BTreeMap<String, String> {
    let mut labels = app_label(job);
    labels.extend(selector(job));
    labels
}

/// The labels that select all pods of the job.
fn selector(job: &ValidJob) -> BTreeMap<String, String> {
    BTreeMap::from([
        (LABEL_OPERATOR_NAME.to_owned(), OPERATOR_NAME.to_owned()),
        (LABEL_JOB_NAME.to_owned(), job.name.clone()),
    ])
}

/// The labels of the job's pods: the template's, overridden by those for the job and the role.
fn pod_labels(
    job: &ValidJob,
    template: Option<&ObjectMeta>,
    role: &str,
    index: Option<usize>,
) -> BTreeMap<String, String> {
    let mut labels = template.and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    labels.extend(selector(job));
    labels.insert(LABEL_JOB_ROLE.to_owned(), role.to_owned());
    if let Some(index) = index {
        labels.insert(api::LABEL_REPLICA_INDEX.to_owned(), index.to_string());
    }
    labels
}

/// Sets the host name, subdomain and DNS policy that make a pod resolvable under the job's Service.
fn name_host(job: &ValidJob, pod: &mut PodSpec, host: String) {
    pod.hostname = Some(host);
    pod.subdomain = Some(job.name.clone());
    if pod.host_network == Some(true) {
        pod.dns_policy = Some("ClusterFirstWithHostNet".to_owned());
    }
}

pub(crate) fn env(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.into()), value_from: None }
}
