//! The permissions for MPIJobs and TrainJobs, as in a real installation: the ClusterRoles that aggregate to `admin`, `edit` and
//! `view` for users, and the accounts of the operator
//! and the training service with minimal permissions.

use cluster::access::UserInfo;
use futures::future::try_join_all;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Client, ResourceExt as _};

use jobs::Class;

use crate::failure::Failure;

/// The name of the operator's namespace and account in `deploy/base`.
pub const OPERATOR: &str = "mpi-operator";
const USER_ROLES: [&str; 2] = [
    include_str!("../../../../deploy/base/user-roles.yaml"),
    include_str!("../../../../deploy/components/trainjob/user-roles.yaml"),
];
/// The name of the training service's account, in the same namespace.
pub const SERVICE: &str = "training-service";
/// The namespace of both.
const NAMESPACE: &str = include_str!("../../../../deploy/base/namespace.yaml");
const SERVICE_ROLES: [&str; 3] = [
    include_str!("../../../../deploy/service/service-account.yaml"),
    include_str!("../../../../deploy/service/role.yaml"),
    include_str!("node-reader-role.yaml"),
];
const OPERATOR_ROLES: [&str; 3] = [
    include_str!("../../../../deploy/base/service-account.yaml"),
    include_str!("../../../../deploy/base/role.yaml"),
    include_str!("../../../../deploy/components/trainjob/role.yaml"),
];
/// What these files hold, for errors.
const WHAT: &str = "the roles for jobs";

/// Applies the namespace, accounts and roles of the service, and of the operator and its users if they are `wanted` here.
pub async fn install(client: &Client, wanted: bool) -> Result<(), Failure> {
    apply(client, WHAT, &[NAMESPACE]).await?;
    let operators: &[&str] = if wanted { &OPERATOR_ROLES } else { &[] };
    let users: &[&str] = if wanted { &USER_ROLES } else { &[] };
    apply(client, WHAT, &[&SERVICE_ROLES, operators, users].concat()).await
}

/// Returns the user that the operator acts as.
pub fn operator() -> UserInfo {
    UserInfo::account(OPERATOR, OPERATOR)
}

/// Returns the user that the training service acts as.
pub fn service() -> UserInfo {
    UserInfo::account(OPERATOR, SERVICE)
}

/// Applies the objects of these files side by side; an error says `what` they are.
pub(super) async fn apply(client: &Client, what: &str, files: &[&str]) -> Result<(), Failure> {
    let documents = files.iter().flat_map(|file| file.split("\n---\n"));
    let failed = |error| Failure::new(Class::Error, "DidNotStart", format!("cannot install {what}: {error}"));
    try_join_all(documents.map(|document| apply_one(client, document))).await.map(drop).map_err(failed)
}

async fn apply_one(client: &Client, document: &str) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let object: DynamicObject = serde_saphyr::from_str(document)?;
    let types = object.types.clone().unwrap_or_default();
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    // Where a Kustomize overlay puts objects whose file gives no namespace.
    let api: Api<DynamicObject> = match types.kind.as_str() {
        "ServiceAccount" | "Role" | "RoleBinding" | "ConfigMap" => {
            let namespace = object.namespace().unwrap_or_else(|| OPERATOR.to_owned());
            Api::namespaced_with(client.clone(), &namespace, &resource)
        }
        _ => Api::all_with(client.clone(), &resource),
    };
    api.patch(&object.name_any(), &PatchParams::apply("odh").force(), &Patch::Apply(&object)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::rbac::v1::ClusterRole;

    use super::*;

    fn roles() -> Vec<ClusterRole> {
        let documents = USER_ROLES.iter().flat_map(|file| file.split("\n---\n"));
        documents.map(|text| serde_saphyr::from_str(text).unwrap()).collect()
    }

    #[test]
    fn editors_may_run_jobs_and_viewers_may_look() {
        let roles = roles();
        let role = |name: String| roles.iter().find(|role| role.name_any() == name).unwrap();
        for kind in ["mpijobs", "trainjobs"] {
            let verbs = |end: &str| {
                let rules = role(format!("kubeflow-{kind}-{end}")).rules.as_deref().unwrap_or_default();
                let jobs =
                    rules.iter().filter(|rule| rule.resources.iter().flatten().any(|name| name == kind));
                jobs.flat_map(|rule| rule.verbs.clone()).collect::<Vec<_>>()
            };
            assert!(verbs("edit").contains(&"create".to_owned()));
            assert_eq!(verbs("view"), ["get", "list", "watch"]);
            for end in ["edit", "view"] {
                let label = format!("rbac.authorization.k8s.io/aggregate-to-{end}");
                assert_eq!(role(format!("kubeflow-{kind}-{end}")).labels()[&label], "true");
            }
        }
    }
}
