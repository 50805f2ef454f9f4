//! The administrator's kubeconfig: address, authority and token in one file, for kubectl and every other client.
//!
//! Pure.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::Kubeconfig;
use serde_json::json;

/// The name of the cluster, the user and the context.
pub const NAME: &str = "odh-local";

/// The kubeconfig of a cluster that serves at `address`.
///
/// # Errors
/// When the `kube` crate does not take what it documents.
pub fn kubeconfig(address: SocketAddr, ca_pem: &str, token: &str) -> Result<Kubeconfig, serde_json::Error> {
    serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {
            "server": format!("https://{address}"),
            "certificate-authority-data": STANDARD.encode(ca_pem),
        }}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}],
        "current-context": NAME,
    }))
}
