//! The changes of a pass: objects of a job to create, to patch and to delete, and changes of the job itself.

use k8s_openapi::api::batch::v1::Job as WholeJob;
use k8s_openapi::api::core::v1::{ConfigMap, Pod as WholePod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::Value;

use crate::objects::PodGroup;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Creates an object; an existing one that the job controls counts as success.
    Create(Child),
    /// Changes parts of an object.
    Patch(Patch),
    /// Deletes an object; an absent one counts as success.
    Delete(Target),
}

/// An object that a job owns.
#[derive(Clone, Debug, PartialEq)]
pub enum Child {
    /// The headless Service.
    Service(Box<Service>),
    /// The hostfile.
    ConfigMap(Box<ConfigMap>),
    /// The key.
    Secret(Box<Secret>),
    /// A Worker.
    Pod(Box<WholePod>),
    /// The Launcher.
    Job(Box<WholeJob>),
    /// The gang.
    PodGroup(Box<PodGroup>),
    /// The rules for connections to the pods.
    NetworkPolicy(Box<NetworkPolicy>),
}

/// The kind of an object that a job owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChildKind {
    /// `v1` Service.
    Service,
    /// `v1` ConfigMap.
    ConfigMap,
    /// `v1` Secret.
    Secret,
    /// `v1` Pod.
    Pod,
    /// `batch/v1` Job.
    Job,
    /// A gang scheduler's PodGroup.
    PodGroup,
    /// `networking.k8s.io/v1` NetworkPolicy.
    NetworkPolicy,
}

impl ChildKind {
    /// The kind as written in YAML.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Pod => "Pod",
            Self::Job => "Job",
            Self::PodGroup => "PodGroup",
            Self::NetworkPolicy => "NetworkPolicy",
        }
    }
}

impl Child {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ChildKind {
        match self {
            Self::Service(_) => ChildKind::Service,
            Self::ConfigMap(_) => ChildKind::ConfigMap,
            Self::Secret(_) => ChildKind::Secret,
            Self::Pod(_) => ChildKind::Pod,
            Self::Job(_) => ChildKind::Job,
            Self::PodGroup(_) => ChildKind::PodGroup,
            Self::NetworkPolicy(_) => ChildKind::NetworkPolicy,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        let metadata = match self {
            Self::Service(object) => &object.metadata,
            Self::ConfigMap(object) => &object.metadata,
            Self::Secret(object) => &object.metadata,
            Self::Pod(object) => &object.metadata,
            Self::Job(object) => &object.metadata,
            Self::PodGroup(object) => &object.metadata,
            Self::NetworkPolicy(object) => &object.metadata,
        };
        metadata.name.as_deref().unwrap_or_default()
    }
}

/// A change of the job itself, made after everything else of its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobChange {
    /// Begins the attempt after this one, unless it has begun already.
    BeginAttemptAfter(u32),
    /// Deletes the job, and with it all it owns.
    Delete,
}

/// A JSON merge patch (RFC 7396) of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// The object's kind.
    pub kind: ChildKind,
    /// Its name.
    pub name: String,
    /// Whether it goes to the subresource `status`.
    pub of_status: bool,
    /// The patch.
    pub body: Value,
}

/// An object to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The object's kind.
    pub kind: ChildKind,
    /// Its name.
    pub name: String,
    /// The UID of the observed object, so that a newer one of the same name stays.
    pub uid: Option<String>,
    /// Whether to delete without a grace period: a lost node never confirms that its pod has ended.
    pub at_once: bool,
}
