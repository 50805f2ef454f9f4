//! The training service of the local cluster: REST and gRPC on loopback, with an authority of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use cluster::Cluster;
use jobs::Class;
use kube::config::{Kubeconfig, NamedExtension};
use serde_json::json;
use service::{Keep, Service, Settings, tls};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::audit::Audit;
use super::home::{Home, make_private, unusable};
use super::roles;
use super::state::{ServiceState, write_private};
use crate::arguments::ClusterOptions;
use crate::failure::Failure;
use crate::training_service::EXTENSION;

/// How long the cluster waits until the store of the service was opened: a database that is away must not keep it from starting.
const OPENED_WITHIN: Duration = Duration::from_secs(5);

/// Starts the service at the last port used, or any free one; returns what its clients need.
pub async fn start(
    (home, up): (&Home, &ClusterOptions),
    cluster: &Cluster,
    audit: &Audit,
    (shutdown, services): (&CancellationToken, &TaskTracker),
) -> Result<ServiceState, Failure> {
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
    let own = cluster.client_of(roles::service());
    let url = service::store_url(up.store_url_file.as_deref()).map_err(|error| did_not_start(&error))?;
    let other = if url.is_some() { "another database" } else { "another ODH_HOME" };
    let keep = url.map_or_else(|| Keep::in_folder(&folder), Keep::in_postgres);
    let keep = if up.local_webhooks { keep.with_local_webhooks() } else { keep };
    let settings = Settings { asks_nodes: true, ..Settings::default() };
    let service = Service::start(&own, &cluster.client_of_credentials(), settings, &keep, shutdown);
    tokio::select! {
        biased;
        error = service.store_too_new() => return Err(too_new(&error, other)),
        _ = tokio::time::timeout(OPENED_WITHIN, service.store_tried()) => {}
    }
    audit.begin(&service);
    let stop = shutdown.clone();
    services.spawn(async move {
        if let Err(error) = service::serve(listener, acceptor, service, stop).await {
            tracing::error!(%error, "the training service ended");
        }
    });
    Ok(ServiceState { url: format!("https://{address}"), certificate_authority, token })
}

/// Adds where the service is to each cluster of a kubeconfig, for clients that know nothing but the kubeconfig.
pub fn kubeconfig(mut kubeconfig: Kubeconfig, service: &ServiceState) -> Kubeconfig {
    let place = json!({"url": service.url, "certificateAuthority": service.certificate_authority});
    let extension = NamedExtension { name: EXTENSION.to_owned(), extension: place };
    for cluster in kubeconfig.clusters.iter_mut().filter_map(|cluster| cluster.cluster.as_mut()) {
        cluster.extensions = Some(vec![extension.clone()]);
    }
    kubeconfig
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

fn too_new(error: &dyn std::fmt::Display, other: &str) -> Failure {
    Failure::new(Class::Error, "StoreUnusable", error.to_string())
        .with_hint(format!("nothing is lost: upgrade odh to the release that wrote it, or use {other}"))
}

fn did_not_start(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Class::Error, "DidNotStart", format!("cannot start the training service: {error}"))
}
