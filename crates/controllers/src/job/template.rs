//! Creates a pod from a Job's template: name prefix, labels, owner, finalizer, completion index. Pure.
//!
//! Rules: `pkg/controller/controller_utils.go` (`GetPodFromTemplate`), `pkg/controller/job/indexed_job_utils.go`
//! (`addCompletionIndexEnvVariable`, `podGenerateNameWithIndex`) of Kubernetes 1.36.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use kube::Resource;
use kube::api::ObjectMeta;

use super::pods::{INDEX_ANNOTATION, TRACKING_FINALIZER};

const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The longest prefix that leaves room for the five random characters of a generated name.
const PREFIX_MAX: usize = 58;

/// Creates the pod for one completion; `index` is for Indexed Jobs only.
pub fn pod(job: &Job, index: Option<i32>) -> Pod {
    let template = job.spec.as_ref().map(|s| s.template.clone()).unwrap_or_default();
    let mut metadata = template.metadata.unwrap_or_default();
    let mut spec = template.spec.unwrap_or_default();
    let job_name = job.metadata.name.clone().unwrap_or_default();
    let job_uid = job.metadata.uid.clone().unwrap_or_default();

    let labels = metadata.labels.get_or_insert_default();
    for (key, value) in [
        ("batch.kubernetes.io/controller-uid", &job_uid),
        ("batch.kubernetes.io/job-name", &job_name),
        ("controller-uid", &job_uid),
        ("job-name", &job_name),
    ] {
        labels.insert(key.to_owned(), value.clone());
    }
    if let Some(index) = index {
        labels.insert(INDEX_ANNOTATION.to_owned(), index.to_string());
        metadata.annotations.get_or_insert_default().insert(INDEX_ANNOTATION.to_owned(), index.to_string());
        spec.hostname = Some(format!("{job_name}-{index}"));
        for container in spec.init_containers.iter_mut().flatten().chain(spec.containers.iter_mut()) {
            add_index_variable(container);
        }
    }
    let finalizers = metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|f| f == TRACKING_FINALIZER) {
        finalizers.push(TRACKING_FINALIZER.to_owned());
    }
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(name_prefix(&job_name, index)),
            namespace: job.metadata.namespace.clone(),
            labels: metadata.labels,
            annotations: metadata.annotations,
            finalizers: metadata.finalizers,
            owner_references: job.controller_owner_ref(&()).map(|mut owner| {
                owner.block_owner_deletion = Some(true);
                vec![owner]
            }),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}

fn name_prefix(job_name: &str, index: Option<i32>) -> String {
    let suffix = index.map_or_else(|| "-".to_owned(), |index| format!("-{index}-"));
    let room = PREFIX_MAX - suffix.len();
    let kept: String = job_name.chars().take(room).collect();
    kept + &suffix
}

fn add_index_variable(container: &mut Container) {
    let variables = container.env.get_or_insert_default();
    if variables.iter().any(|v| v.name == INDEX_VARIABLE) {
        return;
    }
    variables.push(EnvVar {
        name: INDEX_VARIABLE.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: None,
                field_path: format!("metadata.labels['{INDEX_ANNOTATION}']"),
            }),
            ..EnvVarSource::default()
        }),
    });
}
