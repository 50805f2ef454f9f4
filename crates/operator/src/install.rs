//! Installs the definition of MPIJob in the embedded cluster. A real cluster's administrator does that; the operator
//! has no right to.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};

use crate::error::Error;

/// Writes the definition, or brings it up to date.
///
/// # Errors
/// If the API server refuses it or cannot be reached.
pub async fn install_crd(client: &Client) -> Result<(), Error> {
    let crd = api::mpijob_crd();
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let owner = PatchParams::apply("odh-local").force();
    let what = "install the definition of MPIJob";
    crds.patch(&crd.name_any(), &owner, &Patch::Apply(&crd)).await.map_err(Error::request(what))?;
    Ok(())
}
