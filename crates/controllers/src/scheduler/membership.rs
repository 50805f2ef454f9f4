//! Which gang a pod belongs to: its PodGroup, of Volcano or scheduler-plugins. Pure.

use k8s_openapi::api::core::v1::Pod;

use controller_runtime::cache::Key;

const VOLCANO_ANNOTATIONS: [&str; 2] = ["scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"];
const PLUGINS_LABEL: &str = "scheduling.x-k8s.io/pod-group";

/// The scheduler that defines a PodGroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Engine {
    /// `scheduling.volcano.sh/v1beta1`.
    Volcano,
    /// `scheduling.x-k8s.io/v1alpha1`, of kubernetes-sigs/scheduler-plugins.
    Plugins,
}

impl Engine {
    /// Every known engine.
    pub const ALL: [Self; 2] = [Self::Volcano, Self::Plugins];

    /// Returns the API group of its PodGroup.
    pub fn group(self) -> &'static str {
        match self {
            Self::Volcano => "scheduling.volcano.sh",
            Self::Plugins => "scheduling.x-k8s.io",
        }
    }

    /// Returns the values of `spec.schedulerName` that its scheduler handles.
    pub fn scheduler_names(self) -> &'static [&'static str] {
        match self {
            Self::Volcano => &["volcano"],
            Self::Plugins => &["scheduler-plugins-scheduler", "scheduler-plugins"],
        }
    }
}

/// A pod's reference to a PodGroup.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Membership {
    /// The engine that defines the PodGroup.
    pub engine: Engine,
    /// Its namespace and name.
    pub key: Key,
}

/// Returns the gang of a pod. As in Volcano, its annotation counts only with Volcano's scheduler name.
pub fn membership(pod: &Pod) -> Option<Membership> {
    let meta = &pod.metadata;
    let scheduler = pod.spec.as_ref().and_then(|s| s.scheduler_name.as_deref()).unwrap_or_default();
    let (engine, name) = if Engine::Volcano.scheduler_names().contains(&scheduler) {
        let annotations = meta.annotations.as_ref()?;
        (Engine::Volcano, VOLCANO_ANNOTATIONS.iter().find_map(|name| annotations.get(*name))?)
    } else {
        (Engine::Plugins, meta.labels.as_ref()?.get(PLUGINS_LABEL)?)
    };
    let key = Key::new(meta.namespace.clone().unwrap_or_default(), name.clone());
    Some(Membership { engine, key })
}
