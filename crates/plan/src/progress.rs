//! How a training program reports its progress: the address, a token and the authority of the operator's endpoint in its
//! pod, as Trainer's feature `TrainJobStatus` has them (`kubeflow/trainer`, `pkg/runtime/framework/plugins/trainjobstatus`).
//! What a pod gets is the same for jobs of every kind; which pods get it is decided where they are made.

use k8s_openapi::api::core::v1::{
    ConfigMapProjection, EnvVar, KeyToPath, ProjectedVolumeSource, ServiceAccountTokenProjection, Volume,
    VolumeMount, VolumeProjection,
};

/// The folder with the token and the authority.
const FOLDER: &str = "/var/run/secrets/kubeflow/trainer";
/// The volume with both.
const VOLUME: &str = "kubeflow-trainer-token";
/// The file with the token.
const TOKEN: &str = "token";
/// The file with the authority.
pub(crate) const AUTHORITY: &str = "ca.crt";
/// The lifetime of a token, in seconds; the kubelet renews it.
const TOKEN_SECONDS: i64 = 3600;

/// Where programs report their progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressEndpoint {
    /// Its address without a path, e.g. `https://mpi-operator.mpi-operator.svc:10443`.
    pub url: String,
    /// The authorities to trust for it, in PEM.
    pub authorities: String,
}

/// A kind of job whose programs report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportingKind {
    /// `kubeflow.org/v2beta1`.
    MpiJob,
    /// `trainer.kubeflow.org/v1alpha1`.
    TrainJob,
}

impl ReportingKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::MpiJob, Self::TrainJob];
}

/// The path for a job's progress.
#[must_use]
pub fn progress_path(kind: ReportingKind, namespace: &str, job: &str) -> String {
    format!("/apis/{}", progress_audience(kind, namespace, job))
}

/// The audience of the tokens with which a job's progress is reported.
#[must_use]
pub fn progress_audience(kind: ReportingKind, namespace: &str, job: &str) -> String {
    let (version, plural) = match kind {
        ReportingKind::MpiJob => ("kubeflow.org/v2beta1", "mpijobs"),
        ReportingKind::TrainJob => ("trainer.kubeflow.org/v1alpha1", "trainjobs"),
    };
    format!("{version}/namespaces/{namespace}/{plural}/{job}/status")
}

/// The job of a pod whose program reports, and where.
pub(crate) struct Reporter<'a> {
    pub kind: ReportingKind,
    pub namespace: &'a str,
    pub job: &'a str,
    pub endpoint: &'a ProgressEndpoint,
}

/// The ConfigMap with the authorities, and its key for them.
pub(crate) struct AuthoritySource {
    pub config_map: String,
    pub key: &'static str,
    /// Whether a pod starts without them, too.
    pub optional: Option<bool>,
}

impl Reporter<'_> {
    /// The variables of a container.
    pub(crate) fn variables(&self) -> [EnvVar; 3] {
        let path = progress_path(self.kind, self.namespace, self.job);
        [
            ("KUBEFLOW_TRAINER_SERVER_URL", format!("{}{path}", self.endpoint.url)),
            ("KUBEFLOW_TRAINER_SERVER_CA_CERT", format!("{FOLDER}/{AUTHORITY}")),
            ("KUBEFLOW_TRAINER_SERVER_TOKEN", format!("{FOLDER}/{TOKEN}")),
        ]
        .map(|(name, value)| EnvVar { name: name.to_owned(), value: Some(value), value_from: None })
    }

    /// The volume with the token and the authorities.
    pub(crate) fn volume(&self, authorities: AuthoritySource) -> Volume {
        let token = ServiceAccountTokenProjection {
            audience: Some(progress_audience(self.kind, self.namespace, self.job)),
            expiration_seconds: Some(TOKEN_SECONDS),
            path: TOKEN.to_owned(),
        };
        let AuthoritySource { config_map, key, optional } = authorities;
        let item = KeyToPath { key: key.to_owned(), path: AUTHORITY.to_owned(), mode: None };
        let authority = ConfigMapProjection { name: config_map, items: Some(vec![item]), optional };
        let sources = vec![
            VolumeProjection { service_account_token: Some(token), ..VolumeProjection::default() },
            VolumeProjection { config_map: Some(authority), ..VolumeProjection::default() },
        ];
        Volume {
            name: VOLUME.to_owned(),
            projected: Some(ProjectedVolumeSource { sources: Some(sources), default_mode: None }),
            ..Volume::default()
        }
    }
}

/// The volume's place in a container.
pub(crate) fn volume_mount() -> VolumeMount {
    VolumeMount {
        name: VOLUME.to_owned(),
        mount_path: FOLDER.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    }
}
