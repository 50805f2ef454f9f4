//! What a form can offer for a job, as its person may read it.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use service::Settings;
use service::contract::ListChoicesRequest;

use crate::gpus::{queues, reasons, serve, serve_queues};
use crate::line::Trouble;
use crate::stage::{ADMIN, JANE, OTHER_TEAM, Stage, TEAM, VERA, call, job};

const CHOICES: &str = "/api/v1/namespaces/team-cv/choices";

async fn create<K>(api: Api<K>, object: Value)
where
    K: Clone + DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// Creates a volume claim, Secrets and ConfigMaps of the team.
async fn furnish(stage: &Stage) {
    let claim = json!({ "metadata": { "name": "data" }, "spec": { "accessModes": ["ReadWriteMany"],
        "resources": { "requests": { "storage": "10Gi" } } } });
    create(Api::<PersistentVolumeClaim>::namespaced(stage.admin.clone(), TEAM), claim).await;
    let registry = json!({ ".dockerconfigjson": "{\"auths\": {}}" });
    for (name, kind, values) in [
        ("registry", "kubernetes.io/dockerconfigjson", registry),
        ("key", "Opaque", json!({ "TOKEN": "not-to-be-seen" })),
        ("other", "example.com/other", json!({ "a": "b" })),
    ] {
        let secret = json!({ "metadata": { "name": name }, "type": kind, "stringData": values });
        create(Api::<Secret>::namespaced(stage.admin.clone(), TEAM), secret).await;
    }
    for (name, labels) in
        [("settings", json!({})), ("template", json!({ "training.opendatahub.io/template": "true" }))]
    {
        let map =
            json!({ "metadata": { "name": name, "labels": labels }, "data": { "a": "not-to-be-seen" } });
        create(Api::<ConfigMap>::namespaced(stage.admin.clone(), TEAM), map).await;
    }
}

#[tokio::test]
async fn a_form_gets_what_its_person_may_read_in_the_namespace() {
    let stage = Stage::new().await;
    furnish(&stage).await;
    stage.job(TEAM, "a").await;
    let mut other = job("b");
    *other.pointer_mut("/spec/mpiReplicaSpecs/Worker/template/spec/containers/0/image").unwrap() =
        json!("train:2");
    create(::jobs::Kind::MpiJob.api(&stage.admin, OTHER_TEAM), other).await;
    stage.until_shown(OTHER_TEAM, "b", |_| true).await;
    let reply = stage.get(CHOICES, JANE).await;
    let mut choices = reply.json();
    let claim = choices["claims"]["claims"][0].clone();
    assert_eq!(
        (&claim["name"], &claim["accessModes"], &claim["size"]),
        (&json!("data"), &json!(["ReadWriteMany"]), &json!("10Gi"))
    );
    assert_eq!(reasons(&choices), [("priorityClasses", "NotAllowed")], "{choices:#}");
    let message = &choices["unknown"][0]["message"];
    assert_eq!(message, "you may not list priority classes");
    let fields = choices.as_object_mut().unwrap();
    fields.retain(|name, _| !["claims", "unknown"].contains(&name.as_str()));
    let secrets = json!([{ "name": "key", "imagePull": false }, { "name": "registry", "imagePull": true }]);
    let expected = json!({
        "secrets": { "secrets": secrets, "more": false },
        "configMaps": { "names": ["settings"], "more": false },
        "queues": { "queues": [], "more": false },
        "runtimes": { "runtimes": [], "more": false },
        "images": { "images": ["train:1"] },
        "hardwareProfiles": { "profiles": [], "more": false },
    });
    assert_eq!(choices, expected);
    assert!(!reply.text.contains("not-to-be-seen"), "{}", reply.text);
    let request = ListChoicesRequest { namespace: TEAM.to_owned() };
    let over_grpc = stage.grpc().await.list_choices(call(JANE, request)).await.unwrap().into_inner();
    assert_eq!(serde_json::to_value(over_grpc).unwrap(), reply.json());
}

#[tokio::test]
async fn what_a_person_may_not_read_is_unknown_and_not_empty() {
    let stage = Stage::new().await;
    furnish(&stage).await;
    serve_queues(&stage).await;
    queues(&stage, &[TEAM], &[(TEAM, "ours"), (OTHER_TEAM, "theirs")]).await;
    // It may create MPIJobs, and nothing else.
    let account = stage.account_token(&[]).await;
    let choices = stage.get(CHOICES, &account).await.json();
    let hidden = ["claims", "secrets", "configMaps", "queues", "priorityClasses"];
    assert_eq!(reasons(&choices), hidden.map(|part| (part, "NotAllowed")), "{choices:#}");
    assert!(hidden.iter().all(|part| choices.get(part).is_none()), "{choices:#}");
    assert_eq!(choices["images"], json!({ "images": [] }), "it may list jobs, and there are none");
    let seen = stage.get(CHOICES, ADMIN).await.json();
    let free = json!({ "gpus": 10, "cpu": "0", "memory": "0" });
    let queue = json!({ "name": "ours", "clusterQueue": "everything", "stopped": false, "free": free });
    assert_eq!((reasons(&seen).len(), &seen["queues"]["queues"]), (0, &json!([queue])), "{seen:#}");
}

#[tokio::test]
async fn priority_classes_and_hardware_profiles_are_offered_to_those_who_may_list_them() {
    let stage = Stage::new().await;
    create(
        Api::<PriorityClass>::all(stage.admin.clone()),
        json!({ "metadata": { "name": "urgent" }, "value": 1000 }),
    )
    .await;
    let resource = ApiResource {
        group: "infrastructure.opendatahub.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "infrastructure.opendatahub.io/v1".to_owned(),
        kind: "HardwareProfile".to_owned(),
        plural: "hardwareprofiles".to_owned(),
    };
    serve(&stage, &resource, "Namespaced").await;
    let mut profile = DynamicObject::new("one-gpu", &resource);
    profile.data = json!({ "spec": { "scheduling": { "type": "Queue", "kueue": { "localQueueName": "gpus" } },
        "identifiers": [{ "identifier": "nvidia.com/gpu", "displayName": "GPU", "resourceType": "Accelerator",
            "minCount": 1, "defaultCount": 1 }] } });
    let profiles: Api<DynamicObject> = Api::namespaced_with(stage.admin.clone(), TEAM, &resource);
    profiles.create(&PostParams::default(), &profile).await.unwrap();
    let seen = stage.get(CHOICES, ADMIN).await.json();
    let classes =
        json!({ "classes": [{ "name": "urgent", "value": 1000, "standard": false }], "more": false });
    assert_eq!(seen["priorityClasses"], classes, "{seen:#}");
    let gpus = json!({ "resource": "nvidia.com/gpu", "title": "GPU", "type": "Accelerator", "minimum": "1", "initial": "1" });
    let profile = json!({ "namespace": TEAM, "name": "one-gpu", "title": "one-gpu", "resources": [gpus],
        "queue": "gpus", "tolerations": [] });
    assert_eq!(seen["hardwareProfiles"]["profiles"], json!([profile]), "{seen:#}");
    let hidden = stage.get(CHOICES, JANE).await.json();
    assert_eq!(hidden.get("hardwareProfiles"), None);
    assert!(reasons(&hidden).contains(&("hardwareProfiles", "NotAllowed")), "{hidden:#}");
}

#[tokio::test]
async fn who_may_not_create_jobs_in_the_namespace_gets_no_choices() {
    let stage = Stage::new().await;
    let theirs = format!("/api/v1/namespaces/{OTHER_TEAM}/choices");
    for (person, path) in [(VERA, CHOICES), (JANE, theirs.as_str())] {
        assert_eq!(stage.get(path, person).await.status, 403, "{path}");
    }
}

#[tokio::test]
async fn parts_that_are_late_hold_up_no_others() {
    let settings = Settings { patience: Duration::from_secs(4), ..Settings::default() };
    let stage = Stage::with(settings).await;
    stage.job(TEAM, "a").await;
    assert!(reasons(&stage.get(CHOICES, ADMIN).await.json()).is_empty());
    stage.trouble(Trouble::Silent);
    let late = stage.get(CHOICES, ADMIN).await;
    assert_eq!(late.status, 200, "{}", late.text);
    let late = late.json();
    let parts =
        ["claims", "secrets", "configMaps", "queues", "priorityClasses", "runtimes", "hardwareProfiles"];
    assert_eq!(reasons(&late), parts.map(|part| (part, "Late")), "{late:#}");
    assert_eq!(late["images"]["images"], json!(["train:1"]));
}
