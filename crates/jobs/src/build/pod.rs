//! The pod templates of a request.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapKeySelector, ConfigMapVolumeSource, Container, EmptyDirVolumeSource, EnvVar,
    EnvVarSource, PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec, PodTemplateSpec,
    ResourceRequirements, SeccompProfile, SecretKeySelector, SecretVolumeSource, SecurityContext, Volume,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;

use super::variables::in_order_of_use;
use super::{Mount, Part, Request, Source, Variable, VariableValue};

/// The template of one role's pods, with the container's own fields filled in.
pub(super) fn template(request: &Request, part: &Part, container: Container) -> PodTemplateSpec {
    let mounts: Vec<&Mount> = request.volumes.iter().chain(&part.volumes).collect();
    let container = Container {
        image: Some(part.image.clone().unwrap_or_else(|| request.image.clone())),
        // mpirun starts the ranks in the directory that it was started in.
        working_dir: request.workdir.clone(),
        env: some_unless_empty(environment(container.env.unwrap_or_default(), request, part)),
        volume_mounts: some_unless_empty(volume_mounts(&mounts)),
        security_context: request.restricted.then(restricted_container),
        ..container
    };
    let placement = part.scheduling.as_ref().unwrap_or(&request.scheduling);
    let spec = PodSpec {
        containers: vec![container],
        volumes: some_unless_empty(volumes(&mounts)),
        priority_class_name: request.priority.clone(),
        security_context: request.restricted.then(restricted_pod),
        node_selector: some_map(&placement.node_selector),
        tolerations: some_unless_empty(placement.tolerations.clone()),
        affinity: placement.affinity.clone(),
        topology_spread_constraints: some_unless_empty(placement.topology_spread.clone()),
        scheduler_name: placement.scheduler.clone(),
        ..PodSpec::default()
    };
    let metadata = ObjectMeta {
        labels: some_map(&part.labels),
        annotations: some_map(&part.annotations),
        ..ObjectMeta::default()
    };
    PodTemplateSpec {
        metadata: Some(metadata).filter(|metadata| *metadata != ObjectMeta::default()),
        spec: Some(spec),
    }
}

pub(super) fn some_map(map: &BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    Some(map.clone()).filter(|map| !map.is_empty())
}

fn some_unless_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

/// What `restricted` requires of a pod
/// (<https://kubernetes.io/docs/concepts/security/pod-security-standards/>).
pub(super) fn restricted_pod() -> PodSecurityContext {
    let seccomp = SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None };
    PodSecurityContext {
        run_as_non_root: Some(true),
        seccomp_profile: Some(seccomp),
        ..PodSecurityContext::default()
    }
}

/// What `restricted` requires of each container.
pub(crate) fn restricted_container() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
        ..SecurityContext::default()
    }
}

/// The role's variables after the job's after those that the builder sets, as far as their values allow it; of one name, the last
/// counts.
fn environment(preset: Vec<EnvVar>, request: &Request, part: &Part) -> Vec<EnvVar> {
    let mut env = preset;
    for variable in request.env.iter().chain(&part.env) {
        env.retain(|earlier| earlier.name != variable.name);
        env.push(env_var(variable));
    }
    in_order_of_use(env)
}

/// A variable as Kubernetes has it.
pub(super) fn env_var(variable: &Variable) -> EnvVar {
    let name = variable.name.clone();
    let from = |source| EnvVar { name: name.clone(), value: None, value_from: Some(source) };
    match &variable.value {
        VariableValue::Text(text) => text_var(&name, text),
        VariableValue::SecretKey(secret, key) => from(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: secret.clone(),
                key: key.clone(),
                optional: None,
            }),
            ..EnvVarSource::default()
        }),
        VariableValue::ConfigMapKey(map, key) => from(EnvVarSource {
            config_map_key_ref: Some(ConfigMapKeySelector {
                name: map.clone(),
                key: key.clone(),
                optional: None,
            }),
            ..EnvVarSource::default()
        }),
    }
}

pub(super) fn text_var(name: &str, text: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(text.to_owned()), value_from: None }
}

fn volume_name(index: usize, mount: &Mount) -> String {
    mount.volume.clone().unwrap_or_else(|| format!("data-{index}"))
}

pub(super) fn volumes(mounts: &[&Mount]) -> Vec<Volume> {
    let volume = |(index, mount): (usize, &&Mount)| {
        let volume = Volume { name: volume_name(index, mount), ..Volume::default() };
        match &mount.source {
            Source::Claim { claim, .. } => {
                let claim = PersistentVolumeClaimVolumeSource { claim_name: claim.clone(), read_only: None };
                Volume { persistent_volume_claim: Some(claim), ..volume }
            }
            Source::Secret(name) => {
                let secret =
                    SecretVolumeSource { secret_name: Some(name.clone()), ..SecretVolumeSource::default() };
                Volume { secret: Some(secret), ..volume }
            }
            Source::ConfigMap(name) => {
                let map = ConfigMapVolumeSource { name: name.clone(), ..ConfigMapVolumeSource::default() };
                Volume { config_map: Some(map), ..volume }
            }
            Source::Scratch { size, in_memory } => {
                let medium = in_memory.then(|| "Memory".to_owned());
                let space = EmptyDirVolumeSource { medium, size_limit: size.clone().map(Quantity) };
                Volume { empty_dir: Some(space), ..volume }
            }
        }
    };
    mounts.iter().enumerate().map(volume).collect()
}

pub(super) fn volume_mounts(mounts: &[&Mount]) -> Vec<VolumeMount> {
    let mount = |(index, mount): (usize, &&Mount)| {
        let (read_only, sub_path) = match &mount.source {
            Source::Claim { read_only, sub_path, .. } => (read_only.then_some(true), sub_path.clone()),
            _ => (None, None),
        };
        VolumeMount {
            name: volume_name(index, mount),
            mount_path: mount.path.clone(),
            read_only,
            sub_path,
            ..VolumeMount::default()
        }
    };
    mounts.iter().enumerate().map(mount).collect()
}

/// The resources of a container: the limits that have fields of their own, and those of its role. Requests
/// default to limits, because a container that can use more than it requested harms its neighbours.
pub(super) fn resources(amounts: &[(&str, Option<String>)], part: &Part) -> Option<ResourceRequirements> {
    let given =
        amounts.iter().filter_map(|(name, amount)| Some(((*name).to_owned(), Quantity(amount.clone()?))));
    let quantities = |map: &BTreeMap<String, String>| -> BTreeMap<String, Quantity> {
        map.iter().map(|(name, amount)| (name.clone(), Quantity(amount.clone()))).collect()
    };
    let mut limits: BTreeMap<String, Quantity> = given.collect();
    limits.extend(quantities(&part.limits));
    let requests = quantities(&part.requests);
    let resources = ResourceRequirements {
        limits: Some(limits).filter(|limits| !limits.is_empty()),
        requests: Some(requests).filter(|requests| !requests.is_empty()),
        ..ResourceRequirements::default()
    };
    Some(resources).filter(|resources| *resources != ResourceRequirements::default())
}
