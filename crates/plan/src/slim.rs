//! What [`plan`](crate::plan), [`report`](crate::report) and the diagnosis read of pods and Launchers, which are by far
//! the most of what an operator keeps in memory: whoever reads more of a spec keeps it here too. The golden tests run
//! on objects that went through here, so a part that is read and not kept is noticed.

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodTemplateSpec};

/// Drops from a pod what nothing reads: the fields' managers, volumes, environments, commands, probes.
pub fn slim_pod(pod: &mut Pod) {
    pod.metadata.managed_fields = None;
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
    Container { name: container.name, resources: container.resources, ..Container::default() }
}
