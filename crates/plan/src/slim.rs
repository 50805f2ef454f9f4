//! What [`plan`](crate::plan), [`report`](crate::report) and the diagnosis read of pods and Launchers, which are by far
//! the most of what an operator keeps in memory: whoever reads more of a spec keeps it here too. The golden tests run
//! on objects that went through here, so a part that is read and not kept is noticed.

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Container, ContainerStatus, Pod, PodSpec, PodStatus, PodTemplateSpec, ResourceRequirements,
};

/// Conditions of a pod that nothing reads.
const UNREAD_CONDITIONS: [&str; 3] = ["Initialized", "ContainersReady", "PodReadyToStartContainers"];

/// Drops from a pod what nothing reads: the fields' managers, volumes, environments, commands, probes, all resources but
/// limits of memory, addresses.
pub fn slim_pod(pod: &mut Pod) {
    pod.metadata.managed_fields = None;
    pod.status.iter_mut().for_each(slim_status);
    let Some(spec) = pod.spec.take() else { return };
    pod.spec = Some(PodSpec {
        containers: spec.containers.into_iter().map(slim_container).collect(),
        init_containers: spec
            .init_containers
            .map(|containers| containers.into_iter().map(slim_container).collect()),
        node_name: spec.node_name,
        ..PodSpec::default()
    });
}

/// Drops from a Launcher's Job what nothing reads: its template but for the node selector, which a resumed job replaces.
pub fn slim_job(job: &mut Job) {
    job.metadata.managed_fields = None;
    let Some(spec) = job.spec.take() else { return };
    let pod =
        spec.template.spec.map(|pod| PodSpec { node_selector: pod.node_selector, ..PodSpec::default() });
    job.spec = Some(JobSpec {
        suspend: spec.suspend,
        template: PodTemplateSpec { metadata: None, spec: pod },
        ..JobSpec::default()
    });
}

fn slim_container(container: Container) -> Container {
    let limits = container.resources.and_then(|resources| resources.limits);
    let memory = limits.and_then(|mut limits| limits.remove_entry("memory"));
    let resources = memory.map(|memory| ResourceRequirements {
        limits: Some([memory].into()),
        ..ResourceRequirements::default()
    });
    Container { name: container.name, resources, ..Container::default() }
}

fn slim_status(status: &mut PodStatus) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| !UNREAD_CONDITIONS.contains(&condition.type_.as_str()));
    }
    // The address stays: a diagnosis tells whose it is.
    (status.host_ip, status.host_ips, status.pod_ips) = (None, None, None);
    let containers = status.container_statuses.iter_mut().chain(&mut status.init_container_statuses);
    containers.flatten().for_each(slim_container_status);
}

fn slim_container_status(status: &mut ContainerStatus) {
    (status.container_id, status.allocated_resources, status.resources) = (None, None, None);
    (status.volume_mounts, status.user) = (None, None);
    status.image_id = String::new();
}
