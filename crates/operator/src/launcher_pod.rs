//! Why a Launcher has no pod. The Job controller creates it, and where the API server refuses it (a quota, a policy, an account
//! that is missing), the controller tries again for ever and says why in events of the Job only, which the operator may not
//! read. So the API server is asked whether it would accept the pod. Nothing is created.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use kube::core::ObjectMeta;
use plan::{ObservedState, ValidJob};

use crate::context::Context;
use crate::error::Error;
use crate::memory::KnownAttempt;

/// An answer is good for this long.
const FRESH: Duration = Duration::from_secs(10);

/// Returns why the API server refuses the pod of a Launcher that should have one by now.
///
/// # Errors
/// If the Launcher's Job could not be read.
pub(crate) async fn refusal(
    context: &Context,
    job: &ValidJob,
    seen: &ObservedState,
    known: &mut KnownAttempt,
    now: Timestamp,
) -> Result<Option<String>, Error> {
    if !plan::lacks_launcher_pod(job, seen, now) {
        known.launcher_asked = None;
        return Ok(None);
    }
    if let Some((_, answer)) = known.launcher_asked.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
        return Ok(answer.clone());
    }
    let jobs: Api<Job> = Api::namespaced(context.client.clone(), &job.namespace);
    let name = plan::launcher_name(&job.name);
    let found = jobs.get_opt(&name).await.map_err(Error::request("read the Launcher's Job"))?;
    let Some(template) = found.and_then(|found| found.spec).map(|spec| spec.template) else {
        return Ok(None);
    };
    let metadata = template.metadata.unwrap_or_default();
    let pod = Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            labels: metadata.labels,
            annotations: metadata.annotations,
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    };
    let pods: Api<Pod> = Api::namespaced(context.client.clone(), &job.namespace);
    let answer = match pods.create(&PostParams { dry_run: true, ..PostParams::default() }, &pod).await {
        // A webhook that cannot be asked without effects answers 400, which says nothing about the pod.
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 422) => Some(status.message.clone()),
        Ok(_) | Err(_) => None,
    };
    tracing::debug!(
        job = job.name,
        launcher = pod.name_any(),
        ?answer,
        "asked whether the Launcher's pod is accepted"
    );
    known.launcher_asked = Some((Instant::now(), answer.clone()));
    Ok(answer)
}
