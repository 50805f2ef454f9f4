//! The operator as a program for a real cluster: flags in, logs out, everything else is the library's.

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use operator::Settings;
use tracing_subscriber::EnvFilter;

/// Runs MPIJobs (kubeflow.org/v2beta1).
#[derive(Parser)]
#[command(name = "mpi-operator", version)]
struct Flags {
    /// Look after this namespace only.
    #[arg(long, env = "KUBEFLOW_NAMESPACE")]
    namespace: Option<String>,
    /// The cluster's DNS domain, appended to host names in hostfiles, e.g. cluster.local.
    #[arg(long, default_value = "")]
    cluster_domain: String,
    /// The transport of jobs that do not say which.
    #[arg(long, value_enum, default_value = "ssh")]
    default_launch: Transport,
    /// The image that carries the launch agent.
    #[arg(long, default_value = api::LAUNCH_IMAGE)]
    launch_image: String,
    /// Writes to the API server in flight at once.
    #[arg(long, default_value_t = Settings::default().writes)]
    writes: usize,
}

/// How the launcher reaches the workers.
#[derive(Clone, Copy, ValueEnum)]
enum Transport {
    /// sshd in the workers, as upstream.
    Ssh,
    /// The launch agent.
    Agent,
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().json().with_env_filter(filter).with_writer(std::io::stderr).init();
    match serve(Flags::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the operator stops");
            ExitCode::FAILURE
        }
    }
}

async fn serve(flags: Flags) -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings {
        namespace: flags.namespace.filter(|namespace| !namespace.is_empty()),
        plan: plan::Settings {
            cluster_domain: flags.cluster_domain,
            default_launch: match flags.default_launch {
                Transport::Ssh => plan::Launch::Ssh,
                Transport::Agent => plan::Launch::Agent,
            },
            launch_image: flags.launch_image,
        },
        writes: flags.writes,
    };
    let client = kube::Client::try_default().await?;
    operator::run(client, settings, stop_signal()).await?;
    Ok(())
}

/// Ends with the first signal that asks the process to stop.
async fn stop_signal() {
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            // Without a handler the default one ends the process.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = terminated => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
