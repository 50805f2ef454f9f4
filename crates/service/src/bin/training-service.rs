//! The training service as a program for a cluster: parses flags, sets up logs, and stops at a signal.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use service::tls::{self, Files};
use service::{Service, Settings};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// Serves training jobs over REST and gRPC, as the caller.
#[derive(Debug, Parser)]
#[command(name = "training-service", version)]
struct Flags {
    /// The address to serve at, REST and gRPC alike.
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8443")]
    listen: SocketAddr,
    /// The file with the TLS certificate, in PEM; it is read again when it changes.
    #[arg(long, value_name = "FILE")]
    tls_certificate: PathBuf,
    /// The file with the certificate's key, in PEM.
    #[arg(long, value_name = "FILE")]
    tls_key: PathBuf,
    /// An audience that tokens must be for; the API server must accept it too. Its own if not given.
    #[arg(long = "audience", value_name = "NAME")]
    audiences: Vec<String>,
    /// Requests a second of one user, in the long run.
    #[arg(long, value_name = "N", default_value_t = Settings::default().rate)]
    requests_per_second: u32,
    /// Requests of one user at once.
    #[arg(long, value_name = "N", default_value_t = Settings::default().burst)]
    burst: u32,
    /// Open streams of one user.
    #[arg(long, value_name = "N", default_value_t = Settings::default().streams)]
    streams: usize,
    /// The kubeconfig of the service's own account; the pod's account if not given.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().json().with_env_filter(filter).with_writer(std::io::stderr).init();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), listen = %flags.listen, "starting");
    match live(flags).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "stopping because of an error");
            ExitCode::FAILURE
        }
    }
}

async fn live(flags: Flags) -> Result<(), Box<dyn Error>> {
    let config = match &flags.kubeconfig {
        Some(path) => {
            Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default())
                .await?
        }
        None => Config::infer().await?,
    };
    let own = Client::try_from(config.clone())?;
    let mut without_credentials = config;
    without_credentials.auth_info = AuthInfo::default();
    let nobody = Client::try_from(without_credentials)?;
    let stop = CancellationToken::new();
    let files = Files { certificate: flags.tls_certificate, key: flags.tls_key };
    let tls = tls::from_files(files, stop.clone())?;
    let listener = TcpListener::bind(flags.listen).await?;
    let settings = Settings {
        audiences: flags.audiences,
        rate: flags.requests_per_second,
        burst: flags.burst,
        streams: flags.streams,
        ..Settings::default()
    };
    let service = Service::start(&own, &nobody, settings, &stop);
    let serving = service::serve(listener, tls, service, stop.clone());
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        served = serving.as_mut() => return Ok(served?),
        () = stop_signal() => tracing::info!("stopping: ending streams and requests in progress"),
    }
    stop.cancel();
    Ok(serving.await?)
}

/// Resolves at the first signal that asks the process to stop.
async fn stop_signal() {
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            // Without a handler, the default action ends the process.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = terminated => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
