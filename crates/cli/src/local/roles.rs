//! The permissions for MPIJobs, as in a real installation: the ClusterRoles that aggregate to `admin`, `edit` and
//! `view` for users, and the accounts of the operator
//! and the training service with minimal permissions.

use cluster::access::UserInfo;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Client, ResourceExt as _};

use jobs::Class;

use crate::failure::Failure;

/// The name of the operator's namespace and account in `deploy/base`.
pub const OPERATOR: &str = "mpi-operator";
const USER_ROLES: &str = include_str!("../../../../deploy/base/user-roles.yaml");
/// The name of the training service's account, in the same namespace.
pub const SERVICE: &str = "training-service";
const SERVICE_ROLES: [&str; 3] = [
    include_str!("../../../../deploy/base/namespace.yaml"),
    include_str!("../../../../deploy/service/service-account.yaml"),
    include_str!("../../../../deploy/service/role.yaml"),
];
const OPERATOR_ROLES: [&str; 3] = [
    include_str!("../../../../deploy/base/namespace.yaml"),
    include_str!("../../../../deploy/base/service-account.yaml"),
    include_str!("../../../../deploy/base/role.yaml"),
];

/// Applies the users' roles.
pub async fn install_for_people(client: &Client) -> Result<(), Failure> {
    apply(client, &[USER_ROLES]).await
}

/// Applies the operator's namespace, account and roles; returns its user.
pub async fn install_for_operator(client: &Client) -> Result<UserInfo, Failure> {
    apply(client, &OPERATOR_ROLES).await?;
    Ok(UserInfo::account(OPERATOR, OPERATOR))
}

/// Applies the training service's account and role; returns its user.
pub async fn install_for_service(client: &Client) -> Result<UserInfo, Failure> {
    apply(client, &SERVICE_ROLES).await?;
    Ok(UserInfo::account(OPERATOR, SERVICE))
}

async fn apply(client: &Client, files: &[&str]) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(Class::Error, "DidNotStart", format!("cannot install the roles for MPIJobs: {error}"))
    };
    for object in files.iter().flat_map(|file| file.split("\n---\n")) {
        let object: DynamicObject = serde_saphyr::from_str(object).map_err(|error| failed(&error))?;
        let types = object.types.clone().unwrap_or_default();
        let kind = GroupVersionKind::try_from(&types).map_err(|error| failed(&error))?;
        let resource = ApiResource::from_gvk(&kind);
        // Where a Kustomize overlay puts objects whose file gives no namespace.
        let api: Api<DynamicObject> = match types.kind.as_str() {
            "ServiceAccount" | "Role" | "RoleBinding" => {
                Api::namespaced_with(client.clone(), OPERATOR, &resource)
            }
            _ => Api::all_with(client.clone(), &resource),
        };
        let parameters = PatchParams::apply("odh").force();
        api.patch(&object.name_any(), &parameters, &Patch::Apply(&object))
            .await
            .map_err(|error| failed(&error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::rbac::v1::ClusterRole;

    use super::*;

    fn roles() -> Vec<ClusterRole> {
        USER_ROLES.split("\n---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect()
    }

    #[test]
    fn editors_may_run_jobs_and_viewers_may_look() {
        let roles = roles();
        let verbs = |name: &str| {
            let role = roles.iter().find(|role| role.name_any() == name).unwrap();
            let rules = role.rules.as_deref().unwrap_or_default();
            let jobs =
                rules.iter().filter(|rule| rule.resources.iter().flatten().any(|name| name == "mpijobs"));
            jobs.flat_map(|rule| rule.verbs.clone()).collect::<Vec<_>>()
        };
        assert!(verbs("kubeflow-mpijobs-edit").contains(&"create".to_owned()));
        assert_eq!(verbs("kubeflow-mpijobs-view"), ["get", "list", "watch"]);
        for (name, label) in [("kubeflow-mpijobs-edit", "edit"), ("kubeflow-mpijobs-view", "view")] {
            let role = roles.iter().find(|role| role.name_any() == name).unwrap();
            assert_eq!(role.labels()[&format!("rbac.authorization.k8s.io/aggregate-to-{label}")], "true");
        }
    }
}
