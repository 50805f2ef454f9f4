//! `port-forward`: connections to ports of this machine end in a port of one of a job's pods.

use std::net::Ipv4Addr;

use jobs::Class;
use jobs::forward::{Destination, destination};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::several;
use crate::arguments::{Global, PortForward};
use crate::connect::connect;
use crate::console::{Console, error_line};
use crate::failure::Failure;
use crate::interrupt::Interruption;

/// The maximum number of connections at once.
const MAX_CONNECTIONS: usize = 256;

/// `odh training port-forward JOB --port LOCAL:REMOTE`; runs until it is interrupted.
pub async fn run(console: &Console, global: &Global, asked: &PortForward) -> Result<u8, Failure> {
    let mut interruption = Interruption::listen();
    let connection = connect(console, global).await?;
    let (kind, name) = several::one(&connection, &asked.target).await?;
    let worker = asked.worker.map(i32::from);
    let to = destination(&connection.client, kind, &connection.namespace, &name, worker).await?;
    let mut listeners = JoinSet::new();
    for (local, remote) in &asked.ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, *local)).await.map_err(|error| {
            Failure::new(Class::Error, "Port", format!("cannot listen on port {local}: {error}"))
                .with_hint("choose another local port: --port LOCAL:REMOTE, or 0 for a free one")
        })?;
        let port = listener.local_addr().map_or(*local, |address| address.port());
        console.data(&format!("127.0.0.1:{port} -> {}:{remote}\n", to.pod))?;
        listeners.spawn(serve(listener, to.clone(), *remote));
    }
    interruption.came().await;
    Ok(0)
}

async fn serve(listener: TcpListener, to: Destination, remote: u16) {
    let mut connections = JoinSet::new();
    while let Ok((accepted, _)) = listener.accept().await {
        while connections.len() >= MAX_CONNECTIONS {
            connections.join_next().await;
        }
        let to = to.clone();
        connections.spawn(async move {
            if let Err(error) = pass_on(accepted, &to, remote).await {
                error_line(&format!("{}:{remote}: {error}", to.pod));
            }
        });
    }
}

/// Passes on both directions of a connection until one of them ends.
async fn pass_on(mut accepted: TcpStream, to: &Destination, remote: u16) -> Result<(), String> {
    let mut forwarder = to.connect(remote).await.map_err(|error| error.to_string())?;
    let Some(mut stream) = forwarder.take_stream(remote) else { return Ok(()) };
    let refusal = forwarder.take_error(remote);
    // A connection that either side resets has ended like any other.
    let _ = copy_bidirectional(&mut accepted, &mut stream).await;
    drop(stream);
    let refused = match refusal {
        Some(refusal) => refusal.await,
        None => None,
    };
    refused.map_or(Ok(()), Err)
}
