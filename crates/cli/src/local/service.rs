//! The training service of the local cluster: REST and gRPC on loopback, with an authority of its own.

use std::net::{Ipv4Addr, SocketAddr};

use cluster::Cluster;
use jobs::Class;
use service::{Service, Settings, tls};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::home::{Home, make_private, unusable};
use super::roles;
use super::state::{ServiceState, write_private};
use crate::failure::Failure;

/// Starts the service at the last port used, or any free one; returns what its clients need.
pub async fn start(
    home: &Home,
    cluster: &Cluster,
    shutdown: &CancellationToken,
    services: &TaskTracker,
) -> Result<ServiceState, Failure> {
    let account = roles::install_for_service(&cluster.client()).await?;
    let folder = home.service();
    make_private(&folder).map_err(|error| unusable(&folder, &error))?;
    let (certificate_authority, token, port) =
        (folder.join("ca.crt"), folder.join("token"), folder.join("port"));
    let (acceptor, authority) = tls::for_this_machine().map_err(|error| did_not_start(&error))?;
    let last = std::fs::read_to_string(&port).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let listener = listen(last).await.map_err(|error| did_not_start(&error))?;
    let address = listener.local_addr().map_err(|error| did_not_start(&error))?;
    write_private(&certificate_authority, authority.as_bytes())?;
    write_private(&token, administrators_token(cluster)?.as_bytes())?;
    write_private(&port, address.port().to_string().as_bytes())?;
    let own = cluster.client_of(account);
    let service = Service::start(&own, &cluster.client_of_credentials(), Settings::default(), shutdown);
    let stop = shutdown.clone();
    services.spawn(async move {
        if let Err(error) = service::serve(listener, acceptor, service, stop).await {
            tracing::error!(%error, "the training service ended");
        }
    });
    Ok(ServiceState { url: format!("https://{address}"), certificate_authority, token })
}

/// Listens at a port of loopback, or at any other if it is taken.
async fn listen(port: u16) -> std::io::Result<TcpListener> {
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match TcpListener::bind(at(port)).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind(at(0)).await,
    }
}

fn administrators_token(cluster: &Cluster) -> Result<String, Failure> {
    let kubeconfig = serde_json::to_value(cluster.kubeconfig()).unwrap_or_default();
    let token =
        kubeconfig.pointer("/users/0/user/token").and_then(serde_json::Value::as_str).map(str::to_owned);
    token.ok_or_else(|| did_not_start(&"the administrator has no token"))
}

fn did_not_start(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Class::Error, "DidNotStart", format!("cannot start the training service: {error}"))
}
