//! The program's ports for probes, metrics and the progress of jobs.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use operator::certificates::{Kept, Shown};
use operator::monitor::{Access, Reviewer, answer_metrics, answer_probe};
use operator::progress::{Progress, ProgressServer};
use operator::{Vitals, serve};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::flags::Flags;

/// Serves the probes, if enabled.
///
/// # Errors
/// If the port is taken or not allowed.
pub async fn probes(
    flags: &Flags,
    vitals: &Vitals,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> io::Result<()> {
    let Some(listener) = bind(flags.health_address, flags.health_port).await? else { return Ok(()) };
    tracing::info!(address = %listener.local_addr()?, "serving probes");
    let vitals = vitals.clone();
    let answer = move |request| std::future::ready(answer_probe(&vitals, &request));
    tasks.spawn(serve::serve(listener, None, answer, stop.clone()));
    Ok(())
}

/// Serves the metrics, if enabled. Beyond loopback a reader sends a token, so the connection is encrypted, with the
/// webhook's certificate if there is one: its authority is in a Secret, so that a reader can check who receives the
/// token.
///
/// # Errors
/// If the port is taken or not allowed, or no certificate could be made.
pub async fn metrics(
    flags: &Flags,
    vitals: &Vitals,
    client: &kube::Client,
    certificate: Option<Arc<Shown>>,
    (tasks, stop): (&TaskTracker, &CancellationToken),
) -> Result<(), Box<dyn std::error::Error>> {
    let Some(listener) = bind(flags.monitoring_address, flags.monitoring_port).await? else { return Ok(()) };
    let address = listener.local_addr()?;
    let is_open = flags.monitoring_open || address.ip().is_loopback();
    tracing::info!(%address, tls = !is_open, "serving metrics");
    let (access, tls) = if is_open {
        (Access::Open, None)
    } else {
        let shown = certificate.map_or_else(
            || {
                let names = ["mpi-operator-metrics".to_owned()];
                Shown::new(&Kept::make(&names, jiff::Timestamp::now())?)
            },
            Ok,
        )?;
        (Access::Reviewed(Box::new(Reviewer::new(client.clone()))), Some(shown.acceptor()?))
    };
    let (vitals, access) = (vitals.clone(), Arc::new(access));
    let answer = move |request| answer_metrics(vitals.clone(), access.clone(), request);
    tasks.spawn(serve::serve(listener, tls, answer, stop.clone()));
    Ok(())
}

/// Serves the endpoint for the progress of jobs, if enabled, with the webhook's certificate. Any replica does, whether
/// it leads or not.
///
/// # Errors
/// If the port is taken or not allowed, or the webhook has no certificate.
pub async fn progress(
    flags: &Flags,
    client: &kube::Client,
    certificate: Option<Arc<Shown>>,
    (tasks, stop): (&TaskTracker, &CancellationToken),
) -> Result<Option<Progress>, Box<dyn std::error::Error>> {
    let Some(listener) = bind(None, flags.progress_port).await? else { return Ok(None) };
    let certificate = certificate.ok_or("--progress-port needs the certificate of --webhook-port")?;
    tracing::info!(address = %listener.local_addr()?, "serving the progress of jobs");
    let (server, acceptor) = (Arc::new(ProgressServer::new(client.clone())), certificate.acceptor()?);
    let answer = move |request| server.clone().answer(request);
    tasks.spawn(serve::serve(listener, Some(acceptor), answer, stop.clone()));
    let Flags { webhook_namespace: namespace, webhook_service: service, progress_port: port, .. } = flags;
    Ok(Some(Progress { url: format!("https://{service}.{namespace}.svc:{port}"), certificate }))
}

async fn bind(address: Option<SocketAddr>, port: u16) -> io::Result<Option<TcpListener>> {
    match address {
        Some(address) => TcpListener::bind(address).await.map(Some),
        None if port == 0 => Ok(None),
        None => serve::bind_everywhere(port).await.map(Some),
    }
    .map_err(|error| {
        let whose = address.map_or_else(|| format!("port {port}"), |address| address.to_string());
        io::Error::new(error.kind(), format!("cannot listen on {whose}: {error}"))
    })
}
