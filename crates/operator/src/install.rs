//! Installs the definition of MPIJob in the embedded cluster. In a real cluster that is the administrator's task,
//! and the operator may not do it.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::error::Error;

/// How long the API server may take until it serves a new definition.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(30);

/// Creates or updates the definition, and returns when MPIJobs are served.
///
/// # Errors
/// If the API server refuses it, cannot be reached, or does not serve it in time.
pub async fn install_crd(client: &Client) -> Result<(), Error> {
    let crd = api::mpijob_crd();
    let name = crd.name_any();
    let what = "install the MPIJob CRD";
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    match crds.create(&PostParams::default(), &crd).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let patch = Patch::Merge(json!({ "spec": crd.spec }));
            crds.patch(&name, &PatchParams::default(), &patch).await.map_err(Error::request(what))?;
        }
        outcome => {
            outcome.map_err(Error::request(what))?;
        }
    }
    let served = await_condition(crds, &name, is_crd_established());
    match tokio::time::timeout(ESTABLISHED_WITHIN, served).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(Error::NotServed(error.to_string())),
        Err(_) => Err(Error::NotServed(format!("it was not established within {ESTABLISHED_WITHIN:?}"))),
    }
}
