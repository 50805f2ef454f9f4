//! Installs the definitions of MPIJob and TrainJob in the embedded cluster. In a real cluster that is the administrator's
//! task, and the operator may not do it.

use std::time::Duration;

use api::Definition;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::error::Error;

/// How long the API server may take until it serves a new definition.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(30);

/// The digest of what was installed, by which the next start sees that there is nothing to do: to check a definition and
/// to compile its rules is most of what a start costs.
const DIGEST: &str = "training.opendatahub.io/definition-digest";

/// Creates or updates the definition of MPIJob, and returns when MPIJobs are served.
///
/// # Errors
/// If the API server refuses it, cannot be reached, or does not serve it in time.
pub async fn install_crd(client: &Client) -> Result<(), Error> {
    install(client, api::MPIJOB_DEFINITION).await
}

/// Creates or updates the definitions of TrainJob and its runtimes, and returns when they are served.
///
/// # Errors
/// As [`install_crd`].
pub async fn install_trainjob_crds(client: &Client) -> Result<(), Error> {
    let all = api::TRAINER_DEFINITIONS.map(|definition| install(client, definition));
    futures::future::try_join_all(all).await.map(|_| ())
}

async fn install(client: &Client, definition: Definition) -> Result<(), Error> {
    let Definition { name, json } = definition;
    let what = || format!("install the CRD {name}");
    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    let crds: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let digest = format!("{:x}", Sha256::digest(json));
    let installed = crds.get_metadata_opt(name).await.map_err(Error::request(what()))?;
    if installed.as_ref().is_some_and(|installed| installed.annotations().get(DIGEST) == Some(&digest)) {
        return Ok(());
    }
    let mut wanted: DynamicObject =
        serde_json::from_str(json).map_err(kube::Error::SerdeError).map_err(Error::request(what()))?;
    wanted.annotations_mut().insert(DIGEST.to_owned(), digest.clone());
    if installed.is_some() {
        let change =
            json!({ "metadata": { "annotations": { DIGEST: digest } }, "spec": wanted.data.get("spec") });
        crds.patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .map_err(Error::request(what()))?;
    } else {
        match crds.create(&PostParams::default(), &wanted).await {
            // Another one was faster; it is awaited as well.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            created => drop(created.map_err(Error::request(what()))?),
        }
    }
    let served = await_condition(crds, name, |crd: Option<&DynamicObject>| crd.is_some_and(is_established));
    match tokio::time::timeout(ESTABLISHED_WITHIN, served).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(Error::NotServed(error.to_string())),
        Err(_) => Err(Error::NotServed(format!("{name} was not established within {ESTABLISHED_WITHIN:?}"))),
    }
}

/// Whether the API server says that it serves this definition.
fn is_established(crd: &DynamicObject) -> bool {
    let conditions = crd.data.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .is_some_and(|all| all.iter().any(|one| one["type"] == "Established" && one["status"] == "True"))
}
