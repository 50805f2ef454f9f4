//! Creates the Job of a CronJob for a scheduled time: name, labels, annotations, owner. Finds the owner of a Job. Pure.
//!
//! Rules: `getJobFromTemplate2` of `pkg/controller/cronjob/utils.go`, Kubernetes 1.36.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};

use controller_runtime::cache::Key;

const TIME_ANNOTATION: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// A CronJob: namespace and name, and the uid in its Jobs' owner references.
pub type Item = (Key, String);

/// Returns the CronJob that controls the Job of this metadata.
pub fn owner(job: &ObjectMeta) -> Option<Item> {
    let owner = job.owner_references.iter().flatten().find(|o| o.controller == Some(true))?;
    let is_cron_job = owner.kind == "CronJob" && owner.api_version.starts_with("batch/");
    is_cron_job
        .then(|| (Key::new(job.namespace.clone().unwrap_or_default(), owner.name.clone()), owner.uid.clone()))
}

/// Returns the name of the Job for a scheduled time, so that it can be created only once.
pub fn name(cron_job: &CronJob, time: Timestamp) -> String {
    format!("{}-{}", cron_job.name_any(), time.as_second() / 60)
}

/// Creates the Job for a scheduled time.
pub fn job(cron_job: &CronJob, time: Timestamp) -> Job {
    let template = cron_job.spec.job_template.clone();
    let metadata = template.metadata.unwrap_or_default();
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.insert(TIME_ANNOTATION.to_owned(), in_zone(time, cron_job.spec.time_zone.as_deref()));
    Job {
        metadata: ObjectMeta {
            name: Some(name(cron_job, time)),
            namespace: cron_job.namespace(),
            labels: metadata.labels,
            annotations: Some(annotations),
            owner_references: cron_job.controller_owner_ref(&()).map(|mut owner| {
                owner.block_owner_deletion = Some(true);
                vec![owner]
            }),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

/// Formats a time as RFC 3339 in a time zone.
fn in_zone(time: Timestamp, zone: Option<&str>) -> String {
    let zone = zone.and_then(semantics::time_zone).unwrap_or(TimeZone::UTC);
    let time = time.to_zoned(zone);
    let offset = if time.offset().is_zero() { "Z" } else { "%:z" };
    time.strftime(&format!("%Y-%m-%dT%H:%M:%S{offset}")).to_string()
}
