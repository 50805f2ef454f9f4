//! Whose a job is. The API server itself records only the program that wrote an object (`managedFields`), not the user.

use api::{ANNOTATION_DASHBOARD_USER, ANNOTATION_OWNER, LABEL_DASHBOARD_USER};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Returns the user who created a job, as recorded by the training service, the operator's webhook or the Open Data Hub's
/// dashboard.
#[must_use]
pub fn owner(metadata: &ObjectMeta) -> Option<&str> {
    let annotation = |name: &str| metadata.annotations.as_ref()?.get(name);
    let found = annotation(ANNOTATION_OWNER)
        .or_else(|| annotation(ANNOTATION_DASHBOARD_USER))
        .or_else(|| metadata.labels.as_ref()?.get(LABEL_DASHBOARD_USER));
    found.map(|name| name.trim()).filter(|name| !name.is_empty())
}
