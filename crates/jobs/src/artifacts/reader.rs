//! A small pod that mounts what a job has written to, so that its files can be read after the job's own pods have ended.
//!
//! It is started on request, with the caller's own rights, and belongs to the job: it goes with it. It has the image and the user of the
//! job's pod, so that it may read what that wrote, but none of its environment, Secrets or tokens, no way to gain rights, and its volumes
//! cannot be written to. It ends by itself once nobody has asked for a file for [`IDLE`].

use std::time::Duration;

use api::{LAUNCHER, MPIJob, WORKER};
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, Pod, PodSecurityContext, PodSpec, PodTemplateSpec, ResourceRequirements,
    SeccompProfile, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt as _};

use super::mounts;
use super::{Fault, READER_FOLDER, Wanted};
use crate::build::restricted_container;
use crate::part::{role, runs};
use crate::{Attempt, Error, Kind, describe, list};

/// How long a reader waits for a request before it ends.
pub const IDLE: Duration = Duration::from_secs(600);
/// The longest that a reader lives.
const MOST_SECONDS: i64 = 24 * 3600;
/// The label with the name of the job whose files a pod reads.
pub const LABEL: &str = "training.opendatahub.io/reader-of";
/// The longest name of a pod whose host name is the same.
const LONGEST_NAME: usize = 63;
const SUFFIX: &str = "-reader";
const SCRIPT: &str = include_str!("reader.sh");

/// A pod through which the files of a job that has ended are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// The pod.
    pub pod: String,
    /// Whether files can be read by now.
    pub ready: bool,
    /// What it waits for, if it is not ready.
    pub waits_for: Option<String>,
}

/// Starts a reader, or finds the one that was started before. One that has ended is replaced, and one that failed is first reported
/// once, so that a caller who asks again and again learns of it.
///
/// # Errors
/// If the job still runs, it mounts nothing that outlives its pods, a reader failed, or the cluster refuses.
pub async fn start(client: &Client, wanted: &Wanted) -> Result<Reader, Fault> {
    begin(client, wanted, true).await
}

async fn begin(client: &Client, wanted: &Wanted, reports_failure: bool) -> Result<Reader, Fault> {
    let Wanted { kind, namespace, name, worker: _ } = wanted;
    let job = list::get(client, *kind, namespace, name).await?;
    let pods = describe::pods(client, *kind, namespace, name).await?;
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pod_name = name_of(name);
    if let Some(found) = find(&api, &job).await? {
        if !semantics::has_ended(&found) {
            return Ok(seen(&found));
        }
        remove(&api, &found, namespace).await?;
        if let Some(why) = failure(&found).filter(|_| reports_failure) {
            return Err(Fault::ReaderFailed { pod: pod_name, why });
        }
    }
    if still_runs(&pods) {
        return Err(Fault::NotNeeded);
    }
    let reader =
        template(&job, &pods).and_then(|like| pod(&job, &pod_name, like)).ok_or(Fault::NothingKept)?;
    let attempt = Attempt { verb: "create", what: "pods", name: &pod_name, namespace };
    match api.create(&PostParams::default(), &reader).await {
        Ok(made) => Ok(seen(&made)),
        // Somebody else has just started it, or one that has ended is not gone yet.
        Err(kube::Error::Api(status)) if status.is_already_exists() => match find(&api, &job).await? {
            Some(found) => Ok(seen(&found)),
            None => Err(Error::from_kube(kube::Error::Api(status), attempt).into()),
        },
        Err(error) => Err(Error::from_kube(error, attempt).into()),
    }
}

/// Starts a reader, and waits until files can be read; `told` hears once what is waited for. An ended reader of an earlier call is
/// replaced, however it ended.
///
/// # Errors
/// As [`start`]; [`Fault::ReaderWaits`] if it does not run in this time.
pub async fn open(
    client: &Client,
    wanted: &Wanted,
    patience: Duration,
    told: impl FnOnce(&Reader),
) -> Result<String, Fault> {
    let begun = begin(client, wanted, false).await?;
    if begun.ready {
        return Ok(begun.pod);
    }
    told(&begun);
    let api: Api<Pod> = Api::namespaced(client.clone(), &wanted.namespace);
    let is_decided = |pod: Option<&Pod>| pod.is_none_or(|pod| runs(pod) || semantics::has_ended(pod));
    let decided = await_condition(api, &begun.pod, is_decided);
    // What cannot be watched is asked for once more below.
    let _ = tokio::time::timeout(patience, decided).await;
    let now = start(client, wanted).await?;
    match now.waits_for {
        None => Ok(now.pod),
        Some(waits_for) => Err(Fault::ReaderWaits { pod: now.pod, waits_for }),
    }
}

/// Returns the reader of a job if it runs.
pub(super) async fn running(client: &Client, job: &DynamicObject) -> Result<Option<Pod>, Fault> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &job.namespace().unwrap_or_default());
    Ok(find(&api, job).await?.filter(runs))
}

/// Returns the reader of a job, whatever its state. Another pod of that name is none.
async fn find(api: &Api<Pod>, job: &DynamicObject) -> Result<Option<Pod>, Fault> {
    let (name, namespace) = (name_of(&job.name_any()), job.namespace().unwrap_or_default());
    let found = api.get_opt(&name).await.map_err(|error| {
        Error::from_kube(error, Attempt { verb: "get", what: "pods", name: &name, namespace: &namespace })
    })?;
    let is_own = |pod: &Pod| {
        pod.labels().get(LABEL).is_some_and(|of| *of == label_of(&job.name_any()))
            && pod.owner_references().iter().any(|owner| Some(&owner.uid) == job.metadata.uid.as_ref())
    };
    Ok(found.filter(is_own))
}

async fn remove(api: &Api<Pod>, pod: &Pod, namespace: &str) -> Result<(), Fault> {
    let name = pod.name_any();
    let of_this = DeleteParams::default()
        .grace_period(0)
        .preconditions(kube::api::Preconditions { uid: pod.metadata.uid.clone(), resource_version: None });
    match api.delete(&name, &of_this).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        Err(error) => {
            let attempt = Attempt { verb: "delete", what: "pods", name: &name, namespace };
            Err(Error::from_kube(error, attempt).into())
        }
    }
}

/// Whether the files are read through the job's own pods: it has not ended. Workers may outlive the Launcher, for a moment or with
/// `cleanPodPolicy: None`, and need not mount what it has written to: they do not count once it has ended.
fn still_runs(pods: &[Pod]) -> bool {
    let (leaders, others): (Vec<&Pod>, Vec<&Pod>) = pods.iter().partition(|pod| leads(pod));
    let counted = if leaders.is_empty() { others } else { leaders };
    counted.into_iter().any(|pod| !semantics::has_ended(pod))
}

/// Whether the pod is the one with whose end the job ends: the Launcher, or that of a PyTorchJob or TFJob which takes its place.
pub(super) fn leads(pod: &Pod) -> bool {
    matches!(role(pod.labels()), "launcher" | "master" | "chief")
}

/// Why a reader failed; `None` if it has ended as it should, or was lost with its node.
fn failure(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref().filter(|_| semantics::phase(pod) == "Failed")?;
    let mut states =
        status.container_statuses.iter().flatten().filter_map(|one| one.state.as_ref()?.terminated.as_ref());
    if states.clone().any(|ended| ended.reason.as_deref() == Some("ContainerStatusUnknown")) {
        return None;
    }
    let told = states.find_map(|ended| ended.message.clone().or_else(|| ended.reason.clone()));
    told.or_else(|| status.message.clone())
        .or_else(|| status.reason.clone())
        .or_else(|| Some("it does not say why".to_owned()))
}

fn seen(pod: &Pod) -> Reader {
    let ready = runs(pod);
    let waits_for = (!ready).then(|| describe::waits_for(pod).unwrap_or_else(|| "its container".to_owned()));
    Reader { pod: pod.name_any(), ready, waits_for }
}

/// The name of a job's reader.
fn name_of(job: &str) -> String {
    let kept: String = job.chars().take(LONGEST_NAME - SUFFIX.len()).collect();
    format!("{kept}{SUFFIX}")
}

/// A label's value has at most 63 characters.
fn label_of(job: &str) -> String {
    job.chars().take(LONGEST_NAME).collect::<String>().trim_end_matches(['-', '.']).to_owned()
}

/// The pod that wrote the files: one that is still there, first the Launcher, says what an admission made of it, else the Launcher's
/// template, or the Workers' if only these mount something that is kept.
fn template(job: &DynamicObject, pods: &[Pod]) -> Option<Pod> {
    let is_kept = |pod: &Pod| mounts::mounts(pod).iter().any(mounts::Mount::is_kept);
    let of_templates = || {
        let spec: MPIJob = (Kind::of(job) == Kind::MpiJob).then(|| read(job)).flatten()?;
        let mut specs = spec.spec.mpi_replica_specs;
        let of_role = |replica: Option<Box<api::ReplicaSpec>>| replica.map(|replica| replica.template);
        let templates = [of_role(specs.remove(LAUNCHER)), of_role(specs.remove(WORKER))];
        let pod = |template: PodTemplateSpec| Pod { spec: template.spec, ..Pod::default() };
        templates.into_iter().flatten().map(pod).find(is_kept)
    };
    pods.iter().filter(|pod| is_kept(pod)).max_by_key(|pod| leads(pod)).cloned().or_else(of_templates)
}

fn read(job: &DynamicObject) -> Option<MPIJob> {
    serde_json::from_value(serde_json::to_value(job).ok()?).ok()
}

/// The reader of a job, made like one of its pods; `None` if that mounts nothing that is kept.
fn pod(job: &DynamicObject, name: &str, like: Pod) -> Option<Pod> {
    let kept: Vec<String> =
        mounts::mounts(&like).into_iter().filter(mounts::Mount::is_kept).map(|mount| mount.path).collect();
    let main = semantics::main_container(&like)?.clone();
    let spec = like.spec?;
    let path_of = |mount: &VolumeMount| format!("/{}", mount.mount_path.trim_matches('/'));
    // A path with variables needs the environment of the job's pod.
    let is_kept = |mount: &&VolumeMount| kept.contains(&path_of(mount)) && mount.sub_path_expr.is_none();
    let mut volume_mounts: Vec<VolumeMount> =
        main.volume_mounts.iter().flatten().filter(is_kept).cloned().collect();
    for mount in &mut volume_mounts {
        mount.read_only = Some(true);
        mount.mount_propagation = None;
    }
    let mut volumes: Vec<Volume> = spec.volumes.unwrap_or_default();
    volumes.retain(|volume| volume_mounts.iter().any(|mount| mount.name == volume.name));
    if volumes.is_empty() {
        return None;
    }
    let own = "odh-reader";
    volumes.push(Volume {
        name: own.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource { size_limit: Some(Quantity("1Mi".to_owned())), medium: None }),
        ..Volume::default()
    });
    volume_mounts.push(VolumeMount {
        name: own.to_owned(),
        mount_path: READER_FOLDER.to_owned(),
        ..VolumeMount::default()
    });
    let amounts = [("cpu", "100m"), ("memory", "64Mi")]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())));
    let words = ["sh", "-c", SCRIPT, "sh", &mark(), &IDLE.as_secs().to_string()].map(str::to_owned);
    let container = Container {
        name: "reader".to_owned(),
        image: main.image,
        image_pull_policy: main.image_pull_policy,
        command: Some(words.to_vec()),
        resources: Some(ResourceRequirements {
            requests: Some(amounts.clone().into()),
            limits: Some(amounts.into()),
            claims: None,
        }),
        volume_mounts: Some(volume_mounts),
        security_context: Some(of_container(main.security_context)),
        ..Container::default()
    };
    let owner = OwnerReference {
        api_version: Kind::of(job).api_version(),
        kind: Kind::of(job).name().to_owned(),
        name: job.name_any(),
        uid: job.metadata.uid.clone()?,
        controller: None,
        block_owner_deletion: None,
    };
    Some(Pod {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: job.namespace(),
            labels: Some([(LABEL.to_owned(), label_of(&job.name_any()))].into()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            containers: vec![container],
            volumes: Some(volumes),
            restart_policy: Some("Never".to_owned()),
            active_deadline_seconds: Some(MOST_SECONDS),
            termination_grace_period_seconds: Some(2),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            service_account_name: spec.service_account_name,
            image_pull_secrets: spec.image_pull_secrets,
            security_context: Some(of_pod(spec.security_context)),
            // A volume may be on a node that takes only pods that tolerate it.
            tolerations: spec.tolerations,
            scheduler_name: spec.scheduler_name.filter(|name| name == "default-scheduler"),
            ..PodSpec::default()
        }),
        status: None,
    })
}

/// Who a container runs as, and nothing by which it could become more.
fn of_container(own: Option<SecurityContext>) -> SecurityContext {
    let own = own.unwrap_or_default();
    SecurityContext {
        run_as_user: own.run_as_user,
        run_as_group: own.run_as_group,
        run_as_non_root: own.run_as_non_root,
        se_linux_options: own.se_linux_options,
        seccomp_profile: Some(runtime_default()),
        ..restricted_container()
    }
}

fn of_pod(own: Option<PodSecurityContext>) -> PodSecurityContext {
    let own = own.unwrap_or_default();
    PodSecurityContext {
        run_as_user: own.run_as_user,
        run_as_group: own.run_as_group,
        run_as_non_root: own.run_as_non_root,
        fs_group: own.fs_group,
        fs_group_change_policy: own.fs_group_change_policy,
        supplemental_groups: own.supplemental_groups,
        se_linux_options: own.se_linux_options,
        seccomp_profile: Some(runtime_default()),
        ..PodSecurityContext::default()
    }
}

fn runtime_default() -> SeccompProfile {
    SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }
}

/// Where a reader marks that a file was asked for.
fn mark() -> String {
    format!("{READER_FOLDER}/used")
}

/// A script that first marks that a file was asked for.
pub(super) fn marked(script: &str) -> String {
    format!("true >{}\n{script}", mark())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(volumes: Value) -> DynamicObject {
        let container = json!({ "name": "main", "image": "train:1", "command": ["train"],
            "env": [{ "name": "TOKEN", "value": "secret" }],
            "envFrom": [{ "secretRef": { "name": "keys" } }],
            "resources": { "limits": { "nvidia.com/gpu": 8 } },
            "securityContext": { "runAsUser": 1000, "privileged": true },
            "volumeMounts": [{ "name": "data", "mountPath": "/results/" }, { "name": "key", "mountPath": "/key" },
                { "name": "scratch", "mountPath": "/scratch" }] });
        let pod = json!({ "containers": [container], "volumes": volumes, "serviceAccountName": "train",
            "hostNetwork": true, "nodeSelector": { "gpu": "yes" }, "securityContext": { "fsGroup": 2000 } });
        let template = json!({ "spec": pod });
        let spec = json!({ "mpiReplicaSpecs": { "Launcher": { "template": template }, "Worker": { "replicas": 1 } } });
        serde_json::from_value(json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": { "name": "pi", "namespace": "team", "uid": "7f1c" }, "spec": spec }))
        .unwrap()
    }

    fn reader_of(job: &DynamicObject) -> Option<Value> {
        let pod = pod(job, &name_of(&job.name_any()), template(job, &[])?)?;
        Some(serde_json::to_value(pod).unwrap())
    }

    #[test]
    fn a_reader_has_the_jobs_user_and_claims_and_nothing_else_of_it() {
        let claim = json!({ "name": "data", "persistentVolumeClaim": { "claimName": "results" } });
        let secret = json!({ "name": "key", "secret": { "secretName": "keys" } });
        let scratch = json!({ "name": "scratch", "emptyDir": {} });
        let reader = reader_of(&job(json!([claim, secret, scratch]))).unwrap();
        let (metadata, spec) = (&reader["metadata"], &reader["spec"]);
        assert_eq!((&metadata["name"], &metadata["labels"][LABEL]), (&json!("pi-reader"), &json!("pi")));
        assert_eq!(metadata["ownerReferences"][0]["uid"], "7f1c");
        let names = |list: &Value, field: &str| -> Vec<String> {
            list.as_array().unwrap().iter().map(|one| one[field].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&spec["volumes"], "name"), ["data", "odh-reader"]);
        let container = &spec["containers"][0];
        assert_eq!(names(&container["volumeMounts"], "mountPath"), ["/results/", READER_FOLDER]);
        assert_eq!(container["volumeMounts"][0]["readOnly"], true);
        assert_eq!((&container["env"], &container["envFrom"]), (&Value::Null, &Value::Null));
        assert_eq!(container["resources"]["limits"], json!({ "cpu": "100m", "memory": "64Mi" }));
        let security = &container["securityContext"];
        assert_eq!((&security["runAsUser"], &security["privileged"]), (&json!(1000), &Value::Null));
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!((&spec["hostNetwork"], &spec["nodeSelector"]), (&Value::Null, &Value::Null));
        assert_eq!(spec["automountServiceAccountToken"], false);
        assert_eq!(spec["securityContext"]["fsGroup"], 2000);
        assert_eq!(
            reader_of(&job(json!([{ "name": "scratch", "emptyDir": {} }]))),
            None,
            "it goes with the pods"
        );
    }

    fn pod_of(role: &str, phase: &str) -> Pod {
        let labels = json!({ "training.kubeflow.org/job-role": role });
        let container =
            json!({ "name": role, "volumeMounts": [{ "name": "data", "mountPath": "/results" }] });
        let volume = json!({ "name": "data", "persistentVolumeClaim": { "claimName": role } });
        let spec = json!({ "containers": [container], "volumes": [volume] });
        let pod = json!({ "metadata": { "name": role, "labels": labels }, "spec": spec, "status": { "phase": phase } });
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn workers_that_outlive_the_launcher_keep_no_reader_from_being_started() {
        let running = pod_of("worker", "Running");
        for (launchers, is_running) in [
            (vec!["Succeeded"], false),
            (vec!["Failed"], false),
            (vec!["Failed", "Pending"], true),
            (vec!["Running"], true),
            (vec![], true),
        ] {
            let mut pods = vec![running.clone()];
            pods.extend(launchers.iter().map(|phase| pod_of("launcher", phase)));
            assert_eq!(still_runs(&pods), is_running, "{launchers:?}");
        }
        assert!(!still_runs(&[pod_of("worker", "Succeeded")]));
    }

    #[test]
    fn a_reader_is_made_like_the_launcher_where_workers_are_still_there() {
        let worker = pod_of("worker", "Running");
        let pods = [worker.clone(), pod_of("launcher", "Succeeded"), worker];
        let like = template(&job(json!([])), &pods).unwrap();
        assert_eq!(like.name_any(), "launcher");
    }

    #[test]
    fn a_reader_that_was_lost_with_its_node_has_not_failed() {
        let ended = |reason: &str| -> Pod {
            let state = json!({ "terminated": { "exitCode": 137, "reason": reason, "message": "told" } });
            let status = json!({ "phase": "Failed", "containerStatuses": [{ "name": "reader", "image": "i", "imageID": "",
                "ready": false, "restartCount": 0, "state": state }] });
            serde_json::from_value(json!({ "metadata": { "name": "pi-reader" }, "status": status })).unwrap()
        };
        assert_eq!(failure(&ended("ContainerStatusUnknown")), None);
        assert_eq!(failure(&ended("Error")).as_deref(), Some("told"));
    }

    #[test]
    fn a_readers_name_is_a_host_name() {
        assert_eq!(name_of(&"a".repeat(63)).len(), 63);
        assert_eq!(name_of("pi"), "pi-reader");
    }
}
