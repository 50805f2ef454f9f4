//! PodGroups of the configured gang scheduler: finds, watches and reads them. `plan` decides their content, and
//! they are written like every other child.

use std::collections::BTreeMap;

use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use plan::{Gang, PodGroup, ValidJob};

use crate::error::Error;
use crate::owned::is_controlled_by;

/// Returns the API resource of a gang scheduler's PodGroups.
pub(crate) fn resource(gang: &Gang) -> ApiResource {
    let (group, version) = gang.api();
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, "PodGroup"), "podgroups")
}

/// Returns the PodGroups of a namespace.
pub(crate) fn in_namespace(client: &Client, gang: &Gang, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &resource(gang))
}

/// Returns the PodGroups of a namespace that are of the same API as this one.
pub(crate) fn like(client: &Client, group: &PodGroup, namespace: &str) -> Api<DynamicObject> {
    let (name, version) = group.api_version.split_once('/').unwrap_or_default();
    let kind = GroupVersionKind::gvk(name, version, &group.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, "podgroups");
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// Checks that the API server serves PodGroups. Without them no pod of a gang would ever be scheduled.
///
/// # Errors
/// If discovery does not list them.
pub(crate) async fn check(client: &Client, gang: &Gang) -> Result<(), Error> {
    let (group, version) = gang.api();
    let api = format!("{group}/{version}");
    match client.list_api_group_resources(&api).await {
        Ok(listed) if listed.resources.iter().any(|resource| resource.name == "podgroups") => Ok(()),
        Ok(_) => Err(Error::GangMissing(api)),
        Err(kube::Error::Api(status)) if status.is_not_found() => Err(Error::GangMissing(api)),
        Err(error) => Err(Error::request("look for PodGroups")(error)),
    }
}

/// Converts a PodGroup to `plan`'s type.
pub(crate) fn read(object: &DynamicObject) -> Option<PodGroup> {
    serde_json::from_value(serde_json::to_value(object).ok()?).ok()
}

/// Converts a PodGroup to the type that is sent.
pub(crate) fn sent(group: &PodGroup) -> Result<DynamicObject, kube::Error> {
    serde_json::to_value(group).and_then(serde_json::from_value).map_err(kube::Error::SerdeError)
}

/// Reads the job's PodGroup by name.
///
/// # Errors
/// If the request fails.
pub(crate) async fn ask(client: &Client, gang: &Gang, job: &ValidJob) -> Result<Option<PodGroup>, Error> {
    let found = in_namespace(client, gang, &job.namespace).get_opt(&job.name).await;
    let found = found.map_err(Error::request("read the PodGroup"))?;
    Ok(found.filter(|group| is_controlled_by(group, &job.uid)).as_ref().and_then(read))
}

/// Returns the values of these priority classes; a missing one is left out.
///
/// # Errors
/// If a request fails.
pub(crate) async fn priorities(client: &Client, names: &[String]) -> Result<BTreeMap<String, i32>, Error> {
    let classes: Api<PriorityClass> = Api::all(client.clone());
    let mut values = BTreeMap::new();
    for name in names {
        let class = classes.get_opt(name).await.map_err(Error::request("read a priority class"))?;
        values.extend(class.map(|class| (class.name_any(), class.value.unwrap_or(0))));
    }
    Ok(values)
}
