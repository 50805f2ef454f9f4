//! Connections from this machine to a port of one of a job's pods.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Portforwarder};
use kube::{Client, ResourceExt};

use crate::{Attempt, Error, Kind, exec};

/// The pod that connections go to.
#[derive(Clone)]
pub struct Destination {
    client: Client,
    namespace: String,
    /// Its name.
    pub pod: String,
}

/// Finds the running pod: this Worker's, or the Launcher's.
///
/// # Errors
/// If the job or the pod does not exist, or the pod does not run.
pub async fn destination(
    client: &Client,
    kind: Kind,
    namespace: &str,
    job: &str,
    worker: Option<i32>,
) -> Result<Destination, Error> {
    let pod = exec::pod(client, kind, namespace, job, worker).await?;
    Ok(Destination { client: client.clone(), namespace: namespace.to_owned(), pod: pod.name_any() })
}

impl Destination {
    /// Opens a connection to a port; its stream is that of the port.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn connect(&self, port: u16) -> Result<Portforwarder, Error> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let (name, namespace) = (&self.pod, &self.namespace);
        let attempt = Attempt { verb: "create", what: "pods/portforward", name, namespace };
        pods.portforward(name, &[port]).await.map_err(|error| Error::from_kube(error, attempt))
    }
}
