//! What people may do with MPIJobs: the ClusterRoles that add themselves to `admin`, `edit` and `view`, as a real
//! installation has them.

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};

use jobs::Class;

use crate::failure::Failure;

const ROLES: &str = include_str!("../../../../deploy/base/user-roles.yaml");

/// Applies the roles.
pub async fn install(client: &Client) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(
            Class::Error,
            "DidNotStart",
            format!("the roles for MPIJobs cannot be installed: {error}"),
        )
    };
    let api: Api<ClusterRole> = Api::all(client.clone());
    for role in roles().map_err(|error| failed(&error))? {
        let parameters = PatchParams::apply("odh").force();
        api.patch(&role.name_any(), &parameters, &Patch::Apply(&role))
            .await
            .map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn roles() -> Result<Vec<ClusterRole>, String> {
    ROLES
        .split("\n---\n")
        .map(|text| serde_saphyr::from_str(text).map_err(|error| error.to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn editors_may_run_jobs_and_viewers_may_look() {
        let roles = roles().unwrap();
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
