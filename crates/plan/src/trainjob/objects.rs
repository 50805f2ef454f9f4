//! The objects that a TrainJob owns. Names, labels and contents are those of Trainer and JobSet: one Job for each Job of
//! the JobSet that upstream would create, but no JobSet, whose controller would create its own.

use std::collections::BTreeMap;
use std::fmt::Write;

use api::{
    LABEL_JOB_INDEX, LABEL_JOB_SET_NAME, LABEL_REPLICATED_JOB, LABEL_RESTART_ATTEMPT, LABEL_TRAINJOB,
    LABEL_WORKER_INDEX,
};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{ConfigMap, PodSpec, Secret, Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use semantics::Amounts;
use serde_json::{Map, Value, json};

use super::job_set::{DATASET_INITIALIZER, LAUNCHER, MODEL_INITIALIZER, NODE, Replicated};
use super::runtime::{Runtime, SNAPSHOT, snapshot_name};
use super::valid::{GangPolicy, ValidTrainJob};
use crate::objects::{Gang, PodGroup};
use crate::validate::Implementation;

const GROUP_VERSION: &str = "trainer.kubeflow.org/v1alpha1";
/// The annotation by which Volcano finds a pod's group.
const VOLCANO_GROUP: &str = "scheduling.k8s.io/group-name";
/// The label by which scheduler-plugins find a pod's group.
const PLUGINS_GROUP: &str = "scheduling.x-k8s.io/pod-group";
/// Volcano's annotation for a queue.
const VOLCANO_QUEUE: &str = api::ANNOTATION_VOLCANO_QUEUE;

/// The name of the Secret with the job's key.
#[must_use]
pub fn key_name(job: &str) -> String {
    format!("{job}-mpi-ssh-auth")
}

/// The name of the ConfigMap with the hostfile.
#[must_use]
pub fn hostfile_name(job: &str) -> String {
    format!("{job}-mpi-hostfile")
}

/// The name of a Job, and with the index of a pod appended, of its host.
#[must_use]
pub fn job_name(job: &str, replicated: &str, index: usize) -> String {
    format!("{job}-{replicated}-{index}")
}

/// Metadata of an object that the job controls.
pub(super) fn owned(job: &ValidTrainJob, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: (!job.namespace.is_empty()).then(|| job.namespace.clone()),
        labels: Some(watched(job)),
        owner_references: Some(vec![OwnerReference {
            api_version: GROUP_VERSION.to_owned(),
            kind: "TrainJob".to_owned(),
            name: job.name.clone(),
            uid: job.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]),
        ..ObjectMeta::default()
    }
}

/// The label that the watches select by.
fn watched(job: &ValidTrainJob) -> BTreeMap<String, String> {
    BTreeMap::from([(LABEL_TRAINJOB.to_owned(), job.name.clone())])
}

/// The ConfigMap with the snapshot. The text is JSON, which is YAML as well, so upstream's controller can read it.
pub(super) fn snapshot(job: &ValidTrainJob) -> ConfigMap {
    let Runtime { kind, name, labels, spec } = &job.runtime;
    let runtime = json!({
        "apiVersion": GROUP_VERSION,
        "kind": kind,
        "metadata": { "name": name, "labels": labels },
        "spec": spec,
    });
    ConfigMap {
        metadata: owned(job, snapshot_name(&job.name)),
        data: Some(BTreeMap::from([(SNAPSHOT.to_owned(), runtime.to_string())])),
        ..ConfigMap::default()
    }
}

/// The headless Service, named as the subdomain.
pub(super) fn service(job: &ValidTrainJob) -> Service {
    let selector = BTreeMap::from([(LABEL_JOB_SET_NAME.to_owned(), job.name.clone())]);
    Service {
        metadata: owned(job, job.job_set.subdomain.clone()),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(selector),
            publish_not_ready_addresses: Some(job.job_set.publish_not_ready),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// The Secret; its keys are filled in when it is created.
pub(super) fn key_secret(job: &ValidTrainJob) -> Secret {
    Secret {
        metadata: owned(job, key_name(&job.name)),
        type_: Some("kubernetes.io/ssh-auth".to_owned()),
        immutable: Some(true),
        ..Secret::default()
    }
}

/// The ConfigMap with one line for each host, in the order of the replicated jobs.
pub(super) fn hostfile(job: &ValidTrainJob) -> ConfigMap {
    let slots = job.mpi.slots;
    let mut text = String::new();
    for host in hosts(job) {
        let _ = match job.mpi.implementation {
            Implementation::OpenMpi => writeln!(text, "{host} slots={slots}"),
            Implementation::Intel | Implementation::Mpich => writeln!(text, "{host}:{slots}"),
        };
    }
    ConfigMap {
        metadata: owned(job, hostfile_name(&job.name)),
        data: Some(BTreeMap::from([("hostfile".to_owned(), text)])),
        ..ConfigMap::default()
    }
}

/// Where the ranks of a TrainJob run, as its hostfile says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// The number of hosts.
    pub count: u32,
    /// The slots of each.
    pub slots: u32,
    /// Whether the first ranks run on the Launcher, though as a Worker it has the last number.
    pub launcher_first: bool,
}

/// Reads the hostfile of a job; `None` unless each host has the same number of slots.
///
/// Open MPI begins with the host on which it was started, the Launcher, wherever the file names it; MPICH and Intel MPI keep to
/// the file. (Measured with Open MPI 4.1 and 5.0, MPICH 4 and Intel MPI 2021.)
#[must_use]
pub fn read_hostfile(job: &str, hostfile: &str) -> Option<Hosts> {
    let launcher = format!("{}-0", job_name(job, LAUNCHER, 0));
    let mut hosts = Hosts { count: 0, slots: 0, launcher_first: false };
    for line in hostfile.lines() {
        let (host, slots, is_open_mpi) = match line.split_once(" slots=") {
            Some((host, slots)) => (host, slots, true),
            None => line.split_once(':').map(|(host, slots)| (host, slots, false))?,
        };
        let slots = slots.trim().parse().ok().filter(|slots| *slots > 0)?;
        if hosts.count > 0 && hosts.slots != slots {
            return None;
        }
        let is_launcher = host.split('.').next() == Some(launcher.as_str());
        hosts.launcher_first |= is_launcher && (is_open_mpi || hosts.count == 0);
        (hosts.slots, hosts.count) = (slots, hosts.count + 1);
    }
    (hosts.count > 0).then_some(hosts)
}

fn hosts(job: &ValidTrainJob) -> impl Iterator<Item = String> {
    let takes_ranks =
        |part: &&Replicated| part.name == NODE || (job.mpi.launcher_as_node && part.name == LAUNCHER);
    job.job_set.replicated.iter().filter(takes_ranks).flat_map(move |part| {
        (0..part.replicas).flat_map(move |index| {
            let name = job_name(&job.name, &part.name, index);
            (0..part.pods).map(move |pod| format!("{name}-{pod}.{}", job.job_set.subdomain))
        })
    })
}

/// A Job, with all labels and annotations of JobSet's.
pub(super) fn child_job(job: &ValidTrainJob, part: &Replicated, index: usize) -> Job {
    let template = part.template.clone();
    let marks = marks(job, part, index);
    let mut metadata = owned(job, job_name(&job.name, &part.name, index));
    mark(&mut metadata, template.metadata.as_ref(), &marks);
    let mut spec: JobSpec = template.spec.unwrap_or_default();
    spec.suspend = Some(false);
    let of_template = spec.template.metadata.take();
    let mut of_pods = ObjectMeta { labels: Some(watched(job)), ..ObjectMeta::default() };
    mark(&mut of_pods, of_template.as_ref(), &marks);
    if job.mpi.launcher_as_node && part.name == LAUNCHER {
        let nodes = job.nodes().map_or(0, |nodes| nodes.replicas.saturating_mul(nodes.pods));
        of_pods.labels.get_or_insert_default().insert(LABEL_WORKER_INDEX.to_owned(), nodes.to_string());
    }
    let pod: &mut PodSpec = spec.template.spec.get_or_insert_default();
    pod.subdomain = Some(job.job_set.subdomain.clone());
    if let Some(policy) = job.gang.as_ref().filter(|_| in_gang(job, part)) {
        join(job, policy, &mut of_pods);
    }
    spec.template.metadata = Some(of_pods);
    Job { metadata, spec: Some(spec), status: None }
}

/// Adds a template's labels and annotations, and JobSet's marks as both.
fn mark(metadata: &mut ObjectMeta, template: Option<&ObjectMeta>, marks: &BTreeMap<String, String>) {
    let labels = metadata.labels.get_or_insert_default();
    let annotations = metadata.annotations.get_or_insert_default();
    if let Some(template) = template {
        labels.extend(template.labels.clone().unwrap_or_default());
        annotations.extend(template.annotations.clone().unwrap_or_default());
    }
    labels.extend(marks.clone());
    annotations.extend(marks.clone());
}

/// JobSet's labels, which are annotations too (`labelAndAnnotateObject` in `pkg/controllers/jobset_controller.go`). Of
/// these only the hash of the Job's name is missing, which serves exclusive placement.
fn marks(job: &ValidTrainJob, part: &Replicated, index: usize) -> BTreeMap<String, String> {
    let all = &job.job_set.replicated;
    let before = || all.iter().take_while(|other| other.name != part.name);
    let in_group = |other: &&Replicated| other.group == part.group;
    let (global, in_groups) = (jobs_of(before()), jobs_of(before().filter(in_group)));
    let values = [
        (LABEL_JOB_SET_NAME, job.name.clone()),
        ("jobset.sigs.k8s.io/jobset-uid", job.uid.clone()),
        (LABEL_REPLICATED_JOB, part.name.clone()),
        (LABEL_RESTART_ATTEMPT, job.attempt.saturating_sub(1).to_string()),
        ("jobset.sigs.k8s.io/replicatedjob-replicas", part.replicas.to_string()),
        ("jobset.sigs.k8s.io/global-replicas", jobs_of(all.iter()).to_string()),
        (LABEL_JOB_INDEX, index.to_string()),
        ("jobset.sigs.k8s.io/job-global-index", (global + index).to_string()),
        ("jobset.sigs.k8s.io/group-name", part.group.clone()),
        ("jobset.sigs.k8s.io/group-replicas", jobs_of(all.iter().filter(in_group)).to_string()),
        ("jobset.sigs.k8s.io/job-group-index", (in_groups + index).to_string()),
    ];
    let coordinator =
        job.job_set.coordinator.iter().map(|address| ("jobset.sigs.k8s.io/coordinator", address.clone()));
    values.into_iter().chain(coordinator).map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The number of Jobs of these replicated jobs.
fn jobs_of<'a>(parts: impl Iterator<Item = &'a Replicated>) -> usize {
    parts.map(|part| part.replicas).sum()
}

/// Whether the pods of a replicated job are scheduled together with the others. Initializers run before, and what waits
/// for a member of the gang cannot be one, or both would wait for each other forever; upstream's gang has all pods.
fn in_gang(job: &ValidTrainJob, part: &Replicated) -> bool {
    let initializes =
        |part: &Replicated| [DATASET_INITIALIZER, MODEL_INITIALIZER].map(Some).contains(&part.ancestor());
    let find = |name: &str| job.job_set.replicated.iter().find(|part| part.name == name);
    let waits = part.needs.iter().filter_map(|need| find(&need.name)).any(|needed| !initializes(needed));
    !initializes(part) && !waits
}

fn join(job: &ValidTrainJob, policy: &GangPolicy, metadata: &mut ObjectMeta) {
    if policy.gang == Gang::Volcano {
        metadata.annotations.get_or_insert_default().insert(VOLCANO_GROUP.to_owned(), job.name.clone());
    } else {
        metadata.labels.get_or_insert_default().insert(PLUGINS_GROUP.to_owned(), job.name.clone());
    }
}

/// The PodGroup, if the runtime asks for one.
pub(super) fn pod_group(job: &ValidTrainJob) -> Option<PodGroup> {
    let policy = job.gang.as_ref()?;
    let members = || job.job_set.replicated.iter().filter(|part| in_gang(job, part));
    let pods = |part: &Replicated| part.replicas.saturating_mul(part.pods);
    let mut sum = Amounts::new();
    for part in members() {
        let Some(pod) = part.pod() else { continue };
        let count = i64::try_from(pods(part)).unwrap_or(i64::MAX);
        let requests = semantics::pod_requests(pod).into_iter();
        semantics::add(&mut sum, &requests.map(|(name, amount)| (name, amount.times(count))).collect());
    }
    let resources: Map<String, Value> =
        sum.into_iter().map(|(name, amount)| (name, json!(amount.to_string()))).collect();
    let mut spec = Map::from_iter([
        ("minMember".to_owned(), json!(members().map(pods).sum::<usize>())),
        ("minResources".to_owned(), Value::Object(resources)),
    ]);
    if policy.gang == Gang::Volcano {
        let queue =
            job.job_set.annotations.get(VOLCANO_QUEUE).map(|queue| ("queue".to_owned(), json!(queue)));
        let class = members().filter_map(|part| part.pod()?.priority_class_name.clone()).next_back();
        spec.extend(queue);
        spec.extend(class.map(|class| ("priorityClassName".to_owned(), json!(class))));
        if let Some((mode, tier)) = &policy.topology {
            let mut topology = json!({ "mode": mode.as_deref().unwrap_or("hard") });
            if let Some(tier) = tier {
                topology["highestTierAllowed"] = json!(tier);
            }
            spec.insert("networkTopology".to_owned(), topology);
        }
    } else {
        spec.insert("scheduleTimeoutSeconds".to_owned(), json!(policy.timeout_seconds));
    }
    let (group, version) = policy.gang.api();
    Some(PodGroup {
        api_version: format!("{group}/{version}"),
        kind: "PodGroup".to_owned(),
        metadata: owned(job, job.name.clone()),
        spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ranks_of_a_job_are_where_its_mpi_puts_them() {
        let of = |hostfile: &str| read_hostfile("pi", hostfile);
        let hosts = |count, slots, launcher_first| Some(Hosts { count, slots, launcher_first });
        assert_eq!(of("pi-node-0-0.pi slots=2\npi-launcher-0-0.pi slots=2\n"), hosts(2, 2, true));
        assert_eq!(of("pi-node-0-0.pi:2\npi-launcher-0-0.pi:2\n"), hosts(2, 2, false));
        assert_eq!(of("pi-launcher-0-0.pi:1\npi-node-0-0.pi:1\n"), hosts(2, 1, true));
        assert_eq!(of("pi-node-0-0.pi slots=4\npi-node-0-1.pi slots=4\n"), hosts(2, 4, false));
        assert_eq!(of("pi-node-0-0.pi slots=1\npi-node-0-1.pi slots=2\n"), None, "each rank may be anywhere");
        assert_eq!((of(""), of("pi-node-0-0.pi\n"), of("pi-node-0-0.pi slots=0\n")), (None, None, None));
    }
}
