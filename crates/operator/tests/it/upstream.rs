//! Compares the objects that this operator makes with those that MPI Operator v0.8.2 itself made of the same jobs
//! (`testdata/upstream`, recorded from upstream's own program): equal except for the deviations listed here.

use std::path::{Path, PathBuf};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::ResourceExt;
use kube::api::Api;
use plan::Gang;
use serde_json::{Value, json};

use crate::gangs::until as until_group;
use crate::gate::Gate;
use crate::stage::{Stage, running};

/// The owner's uid in the recorded objects.
const OWNER_UID: &str = "5f0c6a52-0000-4000-8000-000000000001";

#[tokio::test]
async fn open_mpi_is_as_upstream() {
    as_upstream("openmpi").await;
}

#[tokio::test]
async fn intel_mpi_is_as_upstream() {
    as_upstream("intel").await;
}

#[tokio::test]
async fn mpich_with_the_launcher_as_worker_is_as_upstream() {
    as_upstream("mpich").await;
}

#[tokio::test]
async fn a_suspended_job_is_as_upstream() {
    as_upstream("suspended").await;
}

#[tokio::test]
async fn a_launcher_without_workers_is_as_upstream() {
    as_upstream("launcher-only").await;
}

#[tokio::test]
async fn the_example_of_pi_is_as_upstream() {
    as_upstream("example-pi").await;
}

#[tokio::test]
async fn the_example_of_pi_with_intel_mpi_is_as_upstream() {
    as_upstream("example-pi-intel").await;
}

#[tokio::test]
async fn the_example_of_pi_with_mpich_is_as_upstream() {
    as_upstream("example-pi-mpich").await;
}

#[tokio::test]
async fn the_example_of_horovod_is_as_upstream() {
    as_upstream("example-horovod").await;
}

#[tokio::test]
async fn the_example_of_benchmarks_is_as_upstream() {
    as_upstream("example-benchmarks").await;
}

#[tokio::test]
async fn a_launcher_that_takes_ranks_is_as_upstream() {
    as_upstream("launcher-as-worker").await;
}

#[tokio::test]
async fn a_job_on_the_hosts_network_is_as_upstream() {
    as_upstream("host-network").await;
}

#[tokio::test]
async fn the_clusters_domain_is_as_upstream() {
    as_upstream("cluster-domain").await;
}

#[tokio::test]
async fn discovery_of_running_hosts_is_as_upstream() {
    as_upstream("discover").await;
}

#[tokio::test]
async fn discovery_with_a_launcher_that_takes_ranks_is_as_upstream() {
    as_upstream("discover-with-launcher").await;
}

#[tokio::test]
async fn a_volcano_gang_is_as_upstream() {
    as_upstream("volcano").await;
}

#[tokio::test]
async fn a_volcano_gang_with_a_policy_is_as_upstream() {
    as_upstream("volcano-policy").await;
}

#[tokio::test]
async fn a_volcano_gang_with_resources_of_its_own_is_as_upstream() {
    as_upstream("volcano-resources").await;
}

#[tokio::test]
async fn a_scheduler_plugins_gang_is_as_upstream() {
    as_upstream("plugins").await;
}

#[tokio::test]
async fn a_scheduler_plugins_gang_with_a_policy_is_as_upstream() {
    as_upstream("plugins-policy").await;
}

async fn as_upstream(case: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/upstream").join(case);
    let stage = Stage::new().await;
    let input = documents(&stage, &folder.join("input.yaml")).remove(0);
    let settings = settings(&folder);
    let groups = match &settings.gang {
        Some(gang) => Some(stage.install_pod_groups(gang).await),
        None => None,
    };
    for (name, value) in [("low", 10), ("high", 1000)] {
        let class = json!({ "metadata": { "name": name }, "value": value });
        let classes: Api<PriorityClass> = Api::all(stage.client.clone());
        stage.share(&classes, &serde_json::from_value(class).unwrap()).await;
    }
    let _operator = stage.operate_with(Gate::new(None), settings);
    let job = stage.submit(&input).await;
    if folder.join("when").exists() {
        let workers = job.spec.mpi_replica_specs["Worker"].replicas.unwrap();
        let container =
            &job.spec.mpi_replica_specs["Worker"].template.spec.as_ref().unwrap().containers[0].name;
        for index in 0..usize::try_from(workers).unwrap() {
            let pod = plan::worker_name(&job.name_any(), index);
            stage.until::<Pod>(&pod, "came", |_| true).await;
            stage.set_pod(&pod, running(container)).await;
        }
        let hosts =
            |config: &ConfigMap| config.data.as_ref().unwrap()["discover_hosts.sh"].contains("worker-2");
        stage.until(&format!("{}-config", job.name_any()), "named the hosts that run", hosts).await;
    }
    for mut expected in documents(&stage, &folder.join("objects.yaml")) {
        let name = expected["metadata"]["name"].as_str().unwrap().to_owned();
        let kind = expected["kind"].as_str().unwrap().to_owned();
        let mut ours = match (&*kind, &groups) {
            ("PodGroup", Some(groups)) => {
                until_group(groups, &name, "came", |spec| spec.is_some()).await;
                wire(groups.get(&name).await.unwrap())
            }
            _ => stored(&stage, &kind, &name).await,
        };
        without_what_the_server_adds(&mut ours);
        without_deviations(&mut ours);
        expected.as_object_mut().unwrap().retain(|field, _| field != "apiVersion" && field != "kind");
        without_what_the_server_adds(&mut expected);
        let differences = differing_lines(&ours, &expected);
        assert!(differences.is_empty(), "{kind} {name} differs from upstream's:\n{}", differences.join("\n"));
    }
}

/// Converts upstream's flags of a case to our settings.
fn settings(folder: &Path) -> plan::Settings {
    let flags = std::fs::read_to_string(folder.join("flags")).unwrap_or_default();
    let value = |name: &str| {
        flags
            .split_whitespace()
            .find_map(|flag| flag.strip_prefix(name)?.strip_prefix('='))
            .unwrap_or_default()
    };
    plan::Settings {
        gang: Gang::named(value("--gang-scheduling")),
        cluster_domain: value("--cluster-domain").to_owned(),
        ..plan::Settings::default()
    }
}

/// Returns the lines that only one of two objects has: `+` ours, `-` upstream's.
fn differing_lines(ours: &Value, upstream: &Value) -> Vec<String> {
    let lines = |object: &Value| -> Vec<String> {
        serde_json::to_string_pretty(object).unwrap().lines().map(str::to_owned).collect()
    };
    let (ours, upstream) = (lines(ours), lines(upstream));
    if ours == upstream {
        return Vec::new();
    }
    let only = |these: &[String], those: &[String], mark: char| -> Vec<String> {
        these.iter().filter(|line| !those.contains(line)).map(|line| format!("{mark} {line}")).collect()
    };
    let mut found = [only(&ours, &upstream, '+'), only(&upstream, &ours, '-')].concat();
    if found.is_empty() {
        found.push("the same lines in another order".to_owned());
    }
    found
}

fn documents(stage: &Stage, path: &PathBuf) -> Vec<Value> {
    let text = stage.here(&std::fs::read_to_string(path).unwrap());
    text.split("\n---\n").map(|one| serde_saphyr::from_str(one).unwrap()).collect()
}

async fn stored(stage: &Stage, kind: &str, name: &str) -> Value {
    match kind {
        "Service" => wire(stage.until::<Service>(name, "came", |_| true).await),
        "ConfigMap" => wire(stage.until::<ConfigMap>(name, "came", |_| true).await),
        "Secret" => wire(stage.until::<Secret>(name, "came", |_| true).await),
        "Pod" => wire(stage.until::<Pod>(name, "came", |_| true).await),
        "Job" => wire(stage.until::<Job>(name, "came", |_| true).await),
        other => panic!("upstream makes no {other}"),
    }
}

fn wire<K: serde::Serialize>(object: K) -> Value {
    let mut value = serde_json::to_value(object).unwrap();
    value
        .as_object_mut()
        .unwrap()
        .retain(|field, _| field != "apiVersion" && field != "kind" && field != "status");
    value
}

/// Removes what a server sets after it has decoded and defaulted a request, and what differs in every run.
fn without_what_the_server_adds(object: &mut Value) {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
        metadata.remove(field);
    }
    for owners in ["/metadata/ownerReferences", "/spec/template/metadata/ownerReferences"] {
        for owner in object.pointer_mut(owners).and_then(Value::as_array_mut).into_iter().flatten() {
            owner["uid"] = json!(OWNER_UID);
        }
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            spec.remove(field);
        }
        // In a Job the server chooses the selector and its labels.
        if spec.contains_key("template") {
            spec.remove("selector");
        }
        for field in ["tolerations", "serviceAccount", "serviceAccountName", "priority", "preemptionPolicy"] {
            spec.remove(field);
        }
    }
    if let Some(labels) = object.pointer_mut("/spec/template/metadata/labels").and_then(Value::as_object_mut)
    {
        for label in [
            "batch.kubernetes.io/controller-uid",
            "batch.kubernetes.io/job-name",
            "controller-uid",
            "job-name",
        ] {
            labels.remove(label);
        }
    }
    if let Some(data) = object.get_mut("data").and_then(Value::as_object_mut) {
        for (_, value) in data.iter_mut().filter(|(key, _)| key.starts_with("ssh-")) {
            *value = json!("");
        }
    }
}

/// Removes intended differences (docs/reference/deviations.md): the labels that we watch by, on every child, and
/// the variables that Open MPI 5 reads.
fn without_deviations(object: &mut Value) {
    if object["metadata"]["labels"].get("app").is_some() {
        let labels = object["metadata"]["labels"].as_object_mut().unwrap();
        labels.remove(api::LABEL_OPERATOR_NAME);
        labels.remove(api::LABEL_JOB_NAME);
        if object["spec"].get("minMember").is_some() {
            object["metadata"].as_object_mut().unwrap().remove("labels");
        }
    }
    for containers in ["/spec/containers", "/spec/template/spec/containers"] {
        for container in object.pointer_mut(containers).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(variables) = container.get_mut("env").and_then(Value::as_array_mut) {
                variables.retain(|variable| !variable["name"].as_str().unwrap().starts_with("PRTE_MCA_"));
            }
        }
    }
}
