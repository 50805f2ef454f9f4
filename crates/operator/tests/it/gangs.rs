//! Gangs: the PodGroup exists before the pods, follows the job, is deleted with it, and never waits for something
//! that waits for it.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use plan::Gang;
use serde_json::{Value, json};

use crate::gate::Gate;
use crate::stage::{PATIENCE, Running, Stage, job, running};

/// Returns a stage with Volcano's PodGroups, and an operator that creates them.
async fn with_volcano() -> (Stage, Api<DynamicObject>, Running) {
    let stage = Stage::new().await;
    let groups = stage.install_pod_groups(&Gang::Volcano).await;
    let operator = operate(&stage, Gang::Volcano);
    (stage, groups, operator)
}

fn operate(stage: &Stage, gang: Gang) -> Running {
    stage.operate_with(Gate::new(None), plan::Settings { gang: Some(gang), ..plan::Settings::default() })
}

/// Waits until the spec of a job's PodGroup is as wanted; `None` if there is no PodGroup.
pub async fn until(
    groups: &Api<DynamicObject>,
    job: &str,
    what: &str,
    wanted: impl Fn(Option<&Value>) -> bool,
) {
    let wanted = |group: Option<&DynamicObject>| wanted(group.map(|group| &group.data["spec"]));
    let found = await_condition(groups.clone(), job, wanted);
    let Ok(found) = tokio::time::timeout(PATIENCE, found).await else {
        panic!("the PodGroup of {job} never {what}: {:#?}", groups.get_opt(job).await)
    };
    found.unwrap();
}

fn scale(count: usize) -> Value {
    json!({ "spec": { "mpiReplicaSpecs": { "Worker": { "replicas": count } } } })
}

#[tokio::test]
async fn a_gang_is_there_before_its_pods() {
    let (stage, _groups, operator) = with_volcano().await;
    stage.submit(&job("pi", 2, json!({}))).await;
    stage.bring_up("pi", 2).await;
    let requests = operator.gate.requests();
    let first =
        |end: &str| requests.iter().position(|call| call.starts_with("POST") && call.ends_with(end)).unwrap();
    assert!(first("/podgroups") < first("/pods") && first("/podgroups") < first("/jobs"), "{requests:#?}");
    let pod: Pod = stage.api().get("pi-worker-0").await.unwrap();
    assert_eq!(pod.spec.unwrap().scheduler_name.as_deref(), Some("volcano"));
    assert_eq!(pod.metadata.annotations.unwrap()["scheduling.k8s.io/group-name"], "pi");
}

#[tokio::test]
async fn a_gang_follows_the_workers_and_the_policy() {
    let (stage, groups, _operator) = with_volcano().await;
    stage.submit(&job("pi", 2, json!({}))).await;
    stage.bring_up("pi", 2).await;
    let members =
        |count: i64| move |spec: Option<&Value>| spec.is_some_and(|spec| spec["minMember"] == count);
    until(&groups, "pi", "was made", members(3)).await;
    stage.change_job("pi", scale(4)).await;
    until(&groups, "pi", "grew", members(5)).await;
    stage
        .change_job(
            "pi",
            json!({ "spec": { "runPolicy": { "schedulingPolicy": { "minAvailable": 2, "queue": "q" } } } }),
        )
        .await;
    until(&groups, "pi", "took the policy", |spec| {
        spec.is_some_and(|spec| spec["minMember"] == 2 && spec["queue"] == "q")
    })
    .await;
    let meddled = Patch::Merge(json!({ "spec": { "minMember": 9 } }));
    groups.patch("pi", &PatchParams::default(), &meddled).await.unwrap();
    until(&groups, "pi", "was put right", members(2)).await;
}

#[tokio::test]
async fn a_suspended_job_has_no_gang_and_a_resumed_one_has_it_again() {
    let (stage, groups, _operator) = with_volcano().await;
    stage.submit(&job("pi", 1, json!({ "suspend": true }))).await;
    stage.until_true("pi", "Suspended").await;
    assert!(groups.get_opt("pi").await.unwrap().is_none(), "what is held back needs no gang");
    let suspend = |suspend: bool| json!({ "spec": { "runPolicy": { "suspend": suspend } } });
    stage.change_job("pi", suspend(false)).await;
    until(&groups, "pi", "was made", |spec| spec.is_some()).await;
    stage.bring_up("pi", 1).await;
    stage.change_job("pi", suspend(true)).await;
    until(&groups, "pi", "went", |spec| spec.is_none()).await;
}

#[tokio::test]
async fn a_gang_goes_with_the_pods_that_are_cleaned_up() {
    let (stage, groups, _operator) = with_volcano().await;
    stage.submit(&job("pi", 1, json!({ "cleanPodPolicy": "Running" }))).await;
    stage.bring_up("pi", 1).await;
    stage.complete_launcher("pi").await;
    until(&groups, "pi", "went", |spec| spec.is_none()).await;
    stage.until_gone::<Pod>("pi-worker-0").await;
}

#[tokio::test]
async fn a_launcher_that_waits_for_its_workers_stands_outside_its_gang() {
    let (stage, groups, _operator) = with_volcano().await;
    let mut waiting = job("pi", 2, json!({}));
    waiting["spec"]["launcherCreationPolicy"] = json!("WaitForWorkersReady");
    stage.submit(&waiting).await;
    until(&groups, "pi", "was made", |spec| spec.is_some_and(|spec| spec["minMember"] == 2)).await;
    // A gang scheduler starts the two Workers now. With upstream's three members it would wait for the Launcher,
    // which waits for them.
    stage.start_worker("pi", 0).await;
    stage.start_worker("pi", 1).await;
    stage.until::<Job>("pi-launcher", "came", |_| true).await;
}

/// Adds a node with `cpus` CPUs, and a foreign pod that takes `taken` of them.
async fn a_node_with_a_stranger(stage: &Stage, cpus: usize, taken: usize) {
    let room = json!({ "cpu": cpus.to_string(), "memory": "64Gi", "pods": "110" });
    let node = json!({ "metadata": { "name": "only" }, "status": { "capacity": room, "allocatable": room,
        "conditions": [{ "type": "Ready", "status": "True" }] } });
    let nodes: Api<Node> = Api::all(stage.client.clone());
    nodes.create(&PostParams::default(), &serde_json::from_value(node.clone()).unwrap()).await.unwrap();
    let status = Patch::Merge(json!({ "status": node["status"] }));
    nodes.patch_status("only", &PatchParams::default(), &status).await.unwrap();
    let stranger = json!({ "metadata": { "name": "stranger" }, "spec": { "nodeName": "only", "terminationGracePeriodSeconds": 0,
        "containers": [{ "name": "main", "image": "i", "resources": { "requests": { "cpu": taken.to_string() } } }] } });
    let stranger = serde_json::from_value(stranger).unwrap();
    stage.api::<Pod>().create(&PostParams::default(), &stranger).await.unwrap();
}

/// Returns a job whose pods request one CPU each.
fn wanting(name: &str, workers: usize, launcher: &str) -> Value {
    let mut wanting = job(name, workers, json!({}));
    wanting["spec"]["launcherCreationPolicy"] = json!(launcher);
    for role in ["Launcher", "Worker"] {
        wanting["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["containers"][0]["resources"] =
            json!({ "requests": { "cpu": "1" } });
    }
    wanting
}

/// Returns the names of the job's pods that have a node.
async fn placed(stage: &Stage, job: &str) -> Vec<String> {
    let of_job = ListParams::default().labels(&format!("{}={job}", api::LABEL_JOB_NAME));
    let pods = stage.api::<Pod>().list(&of_job).await.unwrap().items;
    let on_node = pods.into_iter().filter(|pod| pod.spec.as_ref().unwrap().node_name.is_some());
    on_node.map(|pod| pod.metadata.name.unwrap()).collect()
}

fn is_told_to_wait(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|it| it.type_ == "PodScheduled" && it.status == "False")
}

fn has_node(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|pod| pod.node_name.is_some())
}

#[tokio::test]
async fn together_with_a_gang_scheduler_a_job_waits_whole_and_starts_whole() {
    let stage = Stage::with_controllers().await;
    let gang = Gang::named("scheduler-plugins-scheduler").unwrap();
    stage.install_pod_groups(&gang).await;
    let _operator = operate(&stage, gang);
    // There is room for three of the job's four pods: its Launcher and three Workers.
    a_node_with_a_stranger(&stage, 4, 1).await;
    stage.submit(&wanting("pi", 3, "AtStartup")).await;
    let launcher = stage.launcher_pod("pi", &[]).await;
    let workers = [0, 1, 2].map(|index| plan::worker_name("pi", index));
    for pod in workers.iter().chain([&launcher]) {
        stage.until::<Pod>(pod, "was told to wait", is_told_to_wait).await;
    }
    assert_eq!(placed(&stage, "pi").await, Vec::<String>::new(), "it waits whole");
    stage.api::<Pod>().delete("stranger", &DeleteParams::default().grace_period(0)).await.unwrap();
    for pod in workers.iter().chain([&launcher]) {
        stage.until::<Pod>(pod, "got a node", has_node).await;
    }
}

#[tokio::test]
async fn together_with_a_gang_scheduler_a_launcher_that_waits_comes_after_its_gang() {
    let stage = Stage::with_controllers().await;
    let gang = Gang::named("scheduler-plugins-scheduler").unwrap();
    stage.install_pod_groups(&gang).await;
    let _operator = operate(&stage, gang);
    a_node_with_a_stranger(&stage, 4, 3).await;
    stage.submit(&wanting("pi", 2, "WaitForWorkersReady")).await;
    let workers = [0, 1].map(|index| plan::worker_name("pi", index));
    for pod in &workers {
        stage.until::<Pod>(pod, "was told to wait", is_told_to_wait).await;
    }
    assert_eq!(placed(&stage, "pi").await, Vec::<String>::new(), "half a gang gets nothing");
    stage.api::<Pod>().delete("stranger", &DeleteParams::default().grace_period(0)).await.unwrap();
    for (index, pod) in workers.iter().enumerate() {
        stage.until::<Pod>(pod, "got a node", has_node).await;
        stage.start_worker("pi", index).await;
    }
    let launcher = stage.launcher_pod("pi", &[]).await;
    stage.until::<Pod>(&launcher, "got a node", has_node).await;
    stage.set_pod(&launcher, running("main")).await;
    stage.until_true("pi", "Running").await;
}

#[tokio::test]
async fn a_strangers_pod_group_is_told_and_left_alone() {
    let stage = Stage::new().await;
    let groups = stage.install_pod_groups(&Gang::Volcano).await;
    let theirs = json!({ "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": { "name": "pi" }, "spec": { "minMember": 7 } });
    groups.create(&PostParams::default(), &serde_json::from_value(theirs).unwrap()).await.unwrap();
    let _operator = operate(&stage, Gang::Volcano);
    stage.submit(&job("pi", 1, json!({}))).await;
    stage.until_event("pi", "ErrResourceExists").await;
    assert_eq!(groups.get("pi").await.unwrap().data["spec"]["minMember"], 7);
    assert_eq!(stage.names::<Pod>().await, Vec::<String>::new(), "no pod waits for a gang that is another's");
}

#[tokio::test]
async fn without_its_definitions_a_gang_scheduler_is_refused() {
    let stage = Stage::new().await;
    for (gang, api) in
        [(Gang::Volcano, "scheduling.volcano.sh/v1beta1"), (Gang::Kubernetes, "scheduling.k8s.io/v1beta1")]
    {
        let mut operator = operate(&stage, gang);
        let error = (&mut operator.task).await.unwrap().unwrap_err().to_string();
        assert!(error.contains(&format!("does not serve podgroups in {api}")), "{error}");
    }
}

#[tokio::test]
async fn a_priority_class_that_decides_only_later_counts() {
    let stage = Stage::new().await;
    let gang = Gang::SchedulerPlugins("scheduler".to_owned());
    let groups = stage.install_pod_groups(&gang).await;
    let _operator = operate(&stage, gang);
    let class = serde_json::from_value(json!({ "metadata": { "name": "urgent" }, "value": 7 })).unwrap();
    let classes: Api<PriorityClass> = Api::all(stage.client.clone());
    stage.share(&classes, &class).await;
    // While all pods are members, no priority class decides which of them count.
    let mut job = job("pi", 2, json!({ "schedulingPolicy": { "minAvailable": 3 } }));
    for (role, cpus) in [("Launcher", "1"), ("Worker", "4")] {
        let pod = &mut job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"];
        pod["containers"][0]["resources"] = json!({ "requests": { "cpu": cpus } });
    }
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["priorityClassName"] = json!("urgent");
    stage.submit(&job).await;
    until(&groups, "pi", "came", |spec| spec.is_some_and(|spec| spec["minMember"] == 3)).await;
    let fewer = json!({ "spec": { "runPolicy": { "schedulingPolicy": { "minAvailable": 2 } } } });
    stage.change_job("pi", fewer).await;
    let counts_workers = |spec: Option<&Value>| {
        spec.is_some_and(|spec| spec["minMember"] == 2 && spec["minResources"]["cpu"] == "9")
    };
    until(&groups, "pi", "counted the urgent Workers", counts_workers).await;
}
