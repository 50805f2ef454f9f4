//! The kinds of training job: their names, their API resources, and where each keeps the same facts.
//!
//! MPIJob is ours; TrainJob is Kubeflow Trainer's, PyTorchJob and TFJob the Training Operator's. Every difference
//! between them that more than one verb needs is decided here, so that verbs ask the kind and do not branch. Sources:
//! `kubeflow/training-operator` `pkg/apis/kubeflow.org/v1`, `kubeflow/trainer` `pkg/apis/trainer/v1alpha1`.

use api::LABEL_JOB_NAME;
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use kube::{Client, ResourceExt};
use plan::JobRef;
use semantics::{gpus, pod_requests};
use serde::{Serialize, Serializer};
use serde_json::Value;

/// The label that names a job's Kueue queue.
pub const LABEL_QUEUE: &str = api::LABEL_QUEUE_NAME;
/// The label that JobSet puts on its pods, and so on a TrainJob's.
pub const LABEL_JOB_SET: &str = "jobset.sigs.k8s.io/jobset-name";

/// The suffix of the names of a runtime's replicated jobs that prepare data and models (`kubeflow/trainer`
/// `pkg/constants/constants.go`).
const INITIALIZER: &str = "-initializer";
/// The replicated job of a runtime whose pods are a TrainJob's nodes.
pub(crate) const TRAINER_JOB: &str = "node";

/// A kind of training job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `kubeflow.org/v2beta1`
    #[default]
    MpiJob,
    /// `trainer.kubeflow.org/v1alpha1`
    TrainJob,
    /// `kubeflow.org/v1`
    PyTorchJob,
    /// `kubeflow.org/v1`
    TfJob,
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Kind {
    /// Every kind, ours first.
    pub const ALL: [Kind; 4] = [Kind::MpiJob, Kind::TrainJob, Kind::PyTorchJob, Kind::TfJob];

    /// The spelling in `kind:`, e.g. `MPIJob`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::MpiJob => "MPIJob",
            Kind::TrainJob => "TrainJob",
            Kind::PyTorchJob => "PyTorchJob",
            Kind::TfJob => "TFJob",
        }
    }

    /// The plural in a sentence, e.g. `MPIJobs`.
    pub fn names(self) -> &'static str {
        match self {
            Kind::MpiJob => "MPIJobs",
            Kind::TrainJob => "TrainJobs",
            Kind::PyTorchJob => "PyTorchJobs",
            Kind::TfJob => "TFJobs",
        }
    }

    /// The spelling on a command line and in `-o name`, e.g. `mpijob`.
    pub fn word(self) -> &'static str {
        match self {
            Kind::MpiJob => "mpijob",
            Kind::TrainJob => "trainjob",
            Kind::PyTorchJob => "pytorchjob",
            Kind::TfJob => "tfjob",
        }
    }

    /// The spelling in a URL, e.g. `mpijobs`.
    pub fn plural(self) -> &'static str {
        match self {
            Kind::MpiJob => "mpijobs",
            Kind::TrainJob => "trainjobs",
            Kind::PyTorchJob => "pytorchjobs",
            Kind::TfJob => "tfjobs",
        }
    }

    /// `trainer.kubeflow.org` or `kubeflow.org`.
    pub fn group(self) -> &'static str {
        match self {
            Kind::TrainJob => "trainer.kubeflow.org",
            Kind::MpiJob | Kind::PyTorchJob | Kind::TfJob => "kubeflow.org",
        }
    }

    /// The API version used here.
    pub fn version(self) -> &'static str {
        match self {
            Kind::MpiJob => "v2beta1",
            Kind::TrainJob => "v1alpha1",
            Kind::PyTorchJob | Kind::TfJob => "v1",
        }
    }

    /// The value of `apiVersion:`.
    pub fn api_version(self) -> String {
        format!("{}/{}", self.group(), self.version())
    }

    /// The API resource for a client.
    pub fn resource(self) -> ApiResource {
        ApiResource {
            group: self.group().to_owned(),
            version: self.version().to_owned(),
            api_version: self.api_version(),
            kind: self.name().to_owned(),
            plural: self.plural().to_owned(),
        }
    }

    /// Returns the API for jobs of this kind in a namespace, as raw objects, so that unknown fields from the server
    /// are kept.
    pub fn api(self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), namespace, &self.resource())
    }

    /// Returns the API for jobs of this kind in all namespaces.
    pub fn api_all(self, client: &Client) -> Api<DynamicObject> {
        Api::all_with(client.clone(), &self.resource())
    }

    /// Refers to a job of this kind, for an [`Action`](crate::Action).
    pub fn job(self, namespace: &str, name: &str) -> JobRef {
        JobRef { kind: self.name().to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Returns the kind with this name, as spelled in `kind:`.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the kind of an object; MPIJob if the object has none.
    pub fn of(object: &DynamicObject) -> Kind {
        object.types.as_ref().and_then(|types| Kind::named(&types.kind)).unwrap_or_default()
    }

    /// The label selector of a job's pods.
    pub fn pod_selector(self, job: &str) -> String {
        let label = match self {
            Kind::TrainJob => LABEL_JOB_SET,
            Kind::MpiJob | Kind::PyTorchJob | Kind::TfJob => LABEL_JOB_NAME,
        };
        format!("{label}={job}")
    }

    /// Whether a pod name that continues the job's name with `rest` can belong to a job of this kind. A TrainJob's
    /// pods are named after the jobs in its runtime, which follow a convention.
    pub(crate) fn makes_pod(self, rest: &str) -> bool {
        let parts: &[&str] = match self {
            Kind::MpiJob => &["-worker-", "-launcher"],
            Kind::TrainJob => &["-node-", "-launcher-", "-dataset-initializer-", "-model-initializer-"],
            Kind::PyTorchJob => &["-master-", "-worker-"],
            Kind::TfJob => &["-chief-", "-master-", "-ps-", "-worker-", "-evaluator-"],
        };
        parts.iter().any(|part| rest.starts_with(part))
    }

    /// Whether a Kubernetes Job whose name continues the job's name with `rest` can belong to a job of this kind. A TrainJob
    /// has one for each of its runtime's jobs.
    pub(crate) fn makes_job(self, rest: &str) -> bool {
        match self {
            Kind::TrainJob => {
                let numbered = rest.strip_suffix(|c: char| c.is_ascii_digit()).is_some();
                numbered && self.makes_pod(rest)
            }
            _ => rest == "-launcher",
        }
    }

    /// The name of the Kubernetes Job of a job's Launcher; `None` if the kind has none.
    pub(crate) fn launcher(self, job: &str) -> Option<String> {
        match self {
            Kind::MpiJob => Some(plan::launcher_name(job)),
            Kind::TrainJob => Some(plan::trainjob::job_name(job, "launcher", 0)),
            Kind::PyTorchJob | Kind::TfJob => None,
        }
    }

    /// A JSON pointer to the field that suspends a job.
    pub fn suspend_pointer(self) -> &'static str {
        match self {
            Kind::TrainJob => "/spec/suspend",
            Kind::MpiJob | Kind::PyTorchJob | Kind::TfJob => "/spec/runPolicy/suspend",
        }
    }

    /// The map of replica specs under `spec`; `None` if the kind has none.
    pub fn replicas_field(self) -> Option<&'static str> {
        match self {
            Kind::MpiJob => Some("mpiReplicaSpecs"),
            Kind::PyTorchJob => Some("pytorchReplicaSpecs"),
            Kind::TfJob => Some("tfReplicaSpecs"),
            Kind::TrainJob => None,
        }
    }

    /// The roles of the pods that do the work, as keys of the map of replica specs.
    ///
    /// An MPIJob's Launcher starts ranks and runs none; a PyTorchJob's Master is a rank like the others.
    pub fn working_roles(self) -> &'static [&'static str] {
        match self {
            Kind::MpiJob => &["Worker"],
            Kind::PyTorchJob => &["Master", "Worker"],
            Kind::TfJob => &["Chief", "Master", "PS", "Worker", "Evaluator"],
            Kind::TrainJob => &[],
        }
    }

    /// Whether the jobs have a Launcher, which starts the ranks and whose output has theirs.
    pub fn has_launcher(self) -> bool {
        self.launcher("").is_some()
    }

    /// The number of pods of a role that a job asks for, by a key of the map of replica specs; 0 if it has none.
    pub fn replicas(self, object: &DynamicObject, role: &str) -> i32 {
        let missing = if self == Kind::MpiJob { 0 } else { 1 };
        let field = self.replicas_field().unwrap_or_default();
        let spec = object.data.pointer(&format!("/spec/{field}/{role}"));
        spec.filter(|spec| spec.is_object()).map_or(0, |spec| whole(spec.get("replicas")).unwrap_or(missing))
    }

    /// The number of Workers that a job asks for. For a TrainJob without a number, its runtime decides: see
    /// [`Runtimes`](crate::runtime::Runtimes).
    pub fn workers(self, object: &DynamicObject) -> i32 {
        if self.replicas_field().is_none() {
            return whole(object.data.pointer("/spec/trainer/numNodes")).unwrap_or(1);
        }
        self.working_roles().iter().map(|role| self.replicas(object, role)).fold(0, i32::saturating_add)
    }

    /// The number of running Workers, as counted by the kind's own operator.
    pub fn workers_active(self, object: &DynamicObject) -> i32 {
        if self == Kind::TrainJob {
            return if nodes_ready(object) { self.workers(object) } else { 0 };
        }
        let active =
            |role: &&str| whole(object.data.pointer(&format!("/status/replicaStatuses/{role}/active")));
        self.working_roles().iter().filter_map(active).sum()
    }

    /// Whether a job without a condition for it runs: for a TrainJob, whether all pods of one of its parts run, but for those
    /// that prepare its data. Pods that wait for a node count as active, too, so that says nothing.
    pub fn is_running(self, object: &DynamicObject) -> bool {
        let prepares = |job: &Value| job["name"].as_str().is_some_and(|name| name.ends_with(INITIALIZER));
        let is_ready = |job: &Value| whole(job.get("ready")).is_some_and(|ready| ready > 0);
        self == Kind::TrainJob && child_jobs(object).any(|job| is_ready(job) && !prepares(job))
    }

    /// The image of the Workers' first container.
    pub fn image(self, object: &DynamicObject) -> Option<String> {
        let Some(field) = self.replicas_field() else {
            return text(object.data.pointer("/spec/trainer/image"));
        };
        let roles = object.data.pointer(&format!("/spec/{field}"))?;
        // Workers first; a job without them shows the image of its Launcher or Master.
        let order = ["Worker", "Launcher", "Master", "Chief"];
        order.iter().find_map(|role| text(roles.get(*role)?.pointer("/template/spec/containers/0/image")))
    }

    /// The GPUs of any vendor that all pods of a job together request. A TrainJob's pods may request more by its
    /// runtime.
    pub fn gpus(self, object: &DynamicObject) -> u64 {
        let Some(field) = self.replicas_field() else {
            let Some(resources) = object.data.pointer("/spec/trainer/resourcesPerNode") else { return 0 };
            // In the form of a pod, so that limits count where nothing is requested.
            let pod = serde_json::json!({ "containers": [{ "resources": resources }] });
            return times(gpus(&pod_requests(&pod)), self.workers(object));
        };
        let roles = object.data.pointer(&format!("/spec/{field}")).and_then(Value::as_object);
        let of = |(role, spec): (&String, &Value)| {
            let missing = if self == Kind::MpiJob && role == api::WORKER { 0 } else { 1 };
            let replicas = whole(spec.get("replicas")).unwrap_or(missing);
            times(gpus(&pod_requests(spec.pointer("/template/spec").unwrap_or(&Value::Null))), replicas)
        };
        roles.into_iter().flatten().map(of).fold(0, u64::saturating_add)
    }

    /// The name of the queue that a job is submitted to: Kueue's, or else Volcano's.
    pub fn queue(self, object: &DynamicObject) -> Option<String> {
        let found = object.labels().get(LABEL_QUEUE).cloned();
        found
            .or_else(|| text(object.data.pointer("/spec/runPolicy/schedulingPolicy/queue")))
            .or_else(|| object.annotations().get(api::ANNOTATION_VOLCANO_QUEUE).cloned())
            .filter(|name| !name.is_empty())
    }

    /// Whether the job's spec suspends it.
    pub fn suspended(self, object: &DynamicObject) -> bool {
        object.data.pointer(self.suspend_pointer()).and_then(Value::as_bool) == Some(true)
    }
}

/// The child Jobs in a TrainJob's status. These are not pods: each entry counts the Jobs that JobSet created for one
/// of the runtime's replicated jobs.
fn child_jobs(object: &DynamicObject) -> impl Iterator<Item = &Value> {
    object.data.pointer("/status/jobsStatus").and_then(Value::as_array).into_iter().flatten()
}

/// Whether all nodes of a TrainJob are ready: its child Job with that name is ready once all its pods are.
fn nodes_ready(object: &DynamicObject) -> bool {
    child_jobs(object)
        .filter(|job| job["name"] == TRAINER_JOB)
        .any(|job| whole(job.get("ready")).is_some_and(|n| n > 0))
}

fn times(each: u64, count: i32) -> u64 {
    each.saturating_mul(u64::try_from(count).unwrap_or(0))
}

fn whole(value: Option<&Value>) -> Option<i32> {
    value.and_then(Value::as_i64).and_then(|number| i32::try_from(number).ok())
}

fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(kind: &str, spec: Value, status: Value) -> DynamicObject {
        serde_json::from_value(json!({"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "a"},
            "spec": spec, "status": status}))
        .unwrap()
    }

    #[test]
    fn workers_and_image_are_read_for_each_kind() {
        let template = |image: &str| json!({"spec": {"containers": [{"name": "c", "image": image}]}});
        let table = [
            (
                object(
                    "MPIJob",
                    json!({"mpiReplicaSpecs": {"Launcher": {"template": template("l")},
                        "Worker": {"replicas": 3, "template": template("w")}}}),
                    json!({"replicaStatuses": {"Launcher": {"active": 1}, "Worker": {"active": 2}}}),
                ),
                (3, 2, Some("w")),
            ),
            (
                object(
                    "PyTorchJob",
                    json!({"pytorchReplicaSpecs": {"Master": {"template": template("m")},
                        "Worker": {"replicas": 3, "template": template("w")}}}),
                    json!({"replicaStatuses": {"Master": {"active": 1}, "Worker": {"active": 3}}}),
                ),
                (4, 4, Some("w")),
            ),
            (
                object(
                    "TFJob",
                    json!({"tfReplicaSpecs": {"PS": {"replicas": 2, "template": template("p")},
                        "Chief": {"template": template("c")}}}),
                    json!({}),
                ),
                (3, 0, Some("c")),
            ),
            (
                object(
                    "TrainJob",
                    json!({"trainer": {"numNodes": 5, "image": "t"}}),
                    json!({"jobsStatus": [{"name": "node", "active": 1, "ready": 1}, {"name": "launcher", "active": 1, "ready": 1}]}),
                ),
                (5, 5, Some("t")),
            ),
            (
                object(
                    "TrainJob",
                    json!({"trainer": {"numNodes": 8}}),
                    json!({"jobsStatus": [{"name": "node", "active": 1, "ready": 0}, {"name": "dataset-initializer", "active": 1, "ready": 1}]}),
                ),
                (8, 0, None),
            ),
        ];
        for (object, (workers, active, image)) in table {
            let kind = Kind::of(&object);
            assert_eq!((kind.workers(&object), kind.workers_active(&object)), (workers, active), "{kind:?}");
            assert_eq!(kind.image(&object).as_deref(), image);
        }
    }

    #[test]
    fn a_trainjob_runs_once_all_pods_of_a_part_do() {
        let runs = |name: &str, ready: i32| {
            let status = json!({ "jobsStatus": [{ "name": name, "active": 1, "ready": ready }] });
            Kind::TrainJob.is_running(&object("TrainJob", json!({}), status))
        };
        assert!(runs("node", 1) && runs("launcher", 1));
        assert!(!runs("node", 0), "its pods wait for a node, or start");
        assert!(!runs("dataset-initializer", 1), "nothing is trained yet");
    }

    #[test]
    fn the_gpus_of_a_job_are_those_of_all_its_pods() {
        let pod = |gpus: &str| json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]}});
        let mpi = |workers: Value| json!({"mpiReplicaSpecs": {"Launcher": {"template": pod("1")}, "Worker": workers}});
        let table = [
            (object("MPIJob", mpi(json!({"replicas": 4, "template": pod("2")})), json!({})), 9),
            (object("MPIJob", mpi(json!({"template": pod("2")})), json!({})), 1),
            (
                object(
                    "PyTorchJob",
                    json!({"pytorchReplicaSpecs": {"Master": {"template": pod("2")}, "Worker": {"replicas": 3, "template": pod("2")}}}),
                    json!({}),
                ),
                8,
            ),
            (
                object(
                    "TrainJob",
                    json!({"trainer": {"numNodes": 2, "resourcesPerNode": {"limits": {"amd.com/gpu": 4}}}}),
                    json!({}),
                ),
                8,
            ),
            (object("TFJob", json!({}), json!({})), 0),
        ];
        for (object, gpus) in table {
            assert_eq!(Kind::of(&object).gpus(&object), gpus, "{object:?}");
        }
    }

    #[test]
    fn a_queue_is_kueues_or_else_volcanos() {
        let mut job =
            object("MPIJob", json!({"runPolicy": {"schedulingPolicy": {"queue": "volcano"}}}), json!({}));
        assert_eq!(Kind::MpiJob.queue(&job).as_deref(), Some("volcano"));
        job.labels_mut().insert(LABEL_QUEUE.to_owned(), "kueue".to_owned());
        assert_eq!(Kind::MpiJob.queue(&job).as_deref(), Some("kueue"));
        assert_eq!(Kind::MpiJob.queue(&object("MPIJob", json!({}), json!({}))), None);
    }
}
