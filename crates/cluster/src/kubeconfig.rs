//! The administrator's kubeconfig: address, CA and token, for kubectl and all other clients.
//!
//! Pure.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::Kubeconfig;
use serde_json::json;

/// The name of the cluster, the user and the context.
pub const NAME: &str = "odh-local";

/// Returns the kubeconfig of a cluster that serves at `address`.
///
/// # Errors
/// If the `kube` crate rejects the documented format.
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
