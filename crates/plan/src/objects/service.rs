//! The headless Service that gives the job's pods their DNS names; it has no ports.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use super::{metadata, selector, watched_labels};
use crate::validate::ValidJob;

/// The Service, named as the job.
pub(crate) fn service(job: &ValidJob) -> Service {
    Service {
        metadata: metadata(job, job.name.clone(), watched_labels(job)),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(selector(job)),
            // As upstream: only a Launcher that is also a Worker needs its name before it is ready.
            publish_not_ready_addresses: job.launcher_as_worker.then_some(true),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}
