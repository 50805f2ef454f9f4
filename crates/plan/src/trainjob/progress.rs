//! Which pods of a TrainJob can report their progress. Upstream gives what that takes to the Launcher alone. Here the
//! nodes have it too, because their ranks are the program.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;

use super::job_set::{NODE, Replicated, TRAINER, upsert};
use super::objects::owned;
use super::pods::{mount_at, upsert_volume};
use super::valid::ValidTrainJob;
use crate::progress::{AUTHORITY, AuthoritySource, Reporter, ReportingKind, volume_mount};

/// The name of the ConfigMap with the authorities.
#[must_use]
pub fn authority_name(job: &str) -> String {
    format!("{job}-tls-config")
}

/// The ConfigMap with the authorities, if programs can report.
pub(super) fn authority(job: &ValidTrainJob) -> Option<ConfigMap> {
    let endpoint = job.progress.as_ref()?;
    Some(ConfigMap {
        metadata: owned(job, authority_name(&job.name)),
        data: Some(BTreeMap::from([(AUTHORITY.to_owned(), endpoint.authorities.clone())])),
        ..ConfigMap::default()
    })
}

/// Lets the containers of a replicated job report, if they train.
pub(super) fn let_report(job: &ValidTrainJob, part: &mut Replicated) {
    let Some(endpoint) = &job.progress else { return };
    if part.name != NODE && part.ancestor() != Some(TRAINER) {
        return;
    }
    let Some(pod) = part.template.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()) else { return };
    let (kind, namespace) = (ReportingKind::TrainJob, job.namespace.as_str());
    let reporter = Reporter { kind, namespace, job: &job.name, endpoint };
    for container in &mut pod.containers {
        upsert(&mut container.env, reporter.variables());
        mount_at(container, volume_mount());
    }
    let authorities =
        AuthoritySource { config_map: authority_name(&job.name), key: AUTHORITY, optional: None };
    upsert_volume(pod, reporter.volume(authorities));
}
