//! Jobs, as people and operators write them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{ADMIN, PATIENCE, Stage};

impl Stage {
    /// Installs a CRD of PyTorchJob; a service that starts then watches its jobs.
    pub async fn define_pytorchjob(&self) {
        let schema =
            json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
        let definition = json!({ "metadata": { "name": "pytorchjobs.kubeflow.org" }, "spec": { "group": "kubeflow.org",
            "scope": "Namespaced", "names": { "kind": "PyTorchJob", "plural": "pytorchjobs" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }] } });
        let crds: Api<CustomResourceDefinition> = Api::all(self.admin.clone());
        crds.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
    }

    /// Creates a job of a kind that needs no checks, as the administrator, and waits until lists show it.
    pub async fn job(&self, namespace: &str, name: &str) {
        self.create(namespace, name, job(name)).await;
    }

    /// Such a job whose Workers have limits.
    pub async fn job_with(&self, namespace: &str, name: &str, limits: Value) {
        let mut manifest = job(name);
        let container = "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0/resources/limits";
        *manifest.pointer_mut(container).unwrap() = limits;
        self.create(namespace, name, manifest).await;
    }

    async fn create(&self, namespace: &str, name: &str, manifest: Value) {
        let jobs: Api<DynamicObject> = ::jobs::Kind::MpiJob.api(&self.admin, namespace);
        let object: DynamicObject = serde_json::from_value(manifest).unwrap();
        jobs.create(&PostParams::default(), &object).await.unwrap();
        self.until_shown(namespace, name, |_| true).await;
    }

    /// Writes a job's status, as an operator does.
    pub async fn status(&self, namespace: &str, name: &str, status: Value) {
        let jobs = ::jobs::Kind::MpiJob.api(&self.admin, namespace);
        let patch = Patch::Merge(json!({ "status": status }));
        jobs.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Annotates a job, as an operator does.
    pub async fn annotate(&self, namespace: &str, name: &str, annotation: &str, text: &str) {
        let jobs = ::jobs::Kind::MpiJob.api(&self.admin, namespace);
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { annotation: text } } }));
        jobs.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until the administrator's list has the job in a state.
    pub async fn until_shown(&self, namespace: &str, name: &str, is: impl Fn(&Value) -> bool) {
        let path = format!("/api/v1/jobs?namespace={namespace}&limit=500");
        let shown = async {
            loop {
                let rows =
                    self.get(&path, ADMIN).await.json()["jobs"].as_array().cloned().unwrap_or_default();
                if rows.iter().any(|row| row["name"] == name && is(row)) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, shown).await.unwrap();
    }

    /// Waits until the output of so many containers of a job is archived.
    pub async fn until_archived(&self, job: &str, containers: usize) {
        let rows = self.get(&format!("/api/v1/jobs?q={job}"), ADMIN).await.json();
        let uid = rows["jobs"][0]["uid"].as_str().unwrap().to_owned();
        let store = history::Store::open(self.keep.database.clone()).await.unwrap();
        let archive = history::logs::Archive::in_memory(store);
        let archived = async {
            while history::logs::sources(&archive, &uid, None).await.unwrap().len() < containers {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, archived).await.unwrap();
    }
}

/// A job.
pub fn job(name: &str) -> Value {
    let template = json!({ "spec": { "containers": [{ "name": "main", "image": "train:1",
        "command": ["mpirun", "python", "train.py"],
        "resources": { "limits": { "cpu": "1", "memory": "1Gi" } } }] } });
    json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": { "name": name, "labels": { "team": "vision" } },
        "spec": { "mpiReplicaSpecs": { "Launcher": { "replicas": 1, "template": template },
            "Worker": { "replicas": 2, "template": template } } } })
}
