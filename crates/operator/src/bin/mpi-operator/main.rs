//! The operator as a program for a real cluster: parses flags and sets up logs; the library does everything else.

mod flags;
mod listeners;
mod logs;
mod webhook;

use std::process::ExitCode;
use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use operator::fence::fenced_client;
use operator::lease::Lease;
use operator::{Vitals, allocator};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use flags::Flags;

/// How long passes in progress may take to end: a pod gets 30 s by default, and the lease must still be released.
const STOP_WITHIN: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    allocator::share_one_arena();
    start()
}

#[tokio::main(worker_threads = 2)]
async fn start() -> ExitCode {
    let flags = Flags::read(std::env::args_os());
    logs::start(flags.log_format, flags.verbosity);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), namespace = flags.namespace, "starting");
    let without_effect = flags.without_effect();
    if !without_effect.is_empty() {
        tracing::info!(flags = without_effect.join(" "), "ignoring upstream flags that have no effect here");
    }
    match live(&flags).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "stopping because of an error");
            ExitCode::FAILURE
        }
    }
}

async fn live(flags: &Flags) -> Result<(), Box<dyn std::error::Error>> {
    let (stop, tasks, vitals) = (CancellationToken::new(), TaskTracker::new(), Vitals::default());
    tokio::spawn(allocator::return_freed(vitals.clone()));
    listeners::probes(flags, &vitals, &tasks, &stop).await?;
    let config = config(flags).await?;
    let client = client::connect(config.clone())?;
    let certificate = webhook::serve(flags, &vitals, &client, &tasks, &stop).await?;
    let progress = listeners::progress(flags, &client, certificate.clone(), (&tasks, &stop)).await?;
    listeners::metrics(flags, &vitals, &client, certificate, (&tasks, &stop)).await?;
    let lease = Lease::new(client, &flags.lock_namespace, Duration::from_secs(flags.lease_duration))?;
    let settings = operator::Settings { progress, ..flags.settings() };
    let outcome = lead(settings, &config, &lease, &vitals).await;
    vitals.metrics.set_leader(false);
    lease.release().await;
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    outcome
}

/// Waits for the lease, then runs the operator until a signal or until the lease is lost; after a signal, for a
/// bounded time.
async fn lead(
    settings: operator::Settings,
    config: &Config,
    lease: &Lease,
    vitals: &Vitals,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut stopped = std::pin::pin!(stop_signal());
    // An operator that stands by counts as ready.
    vitals.health.set_ready(true);
    tokio::select! {
        () = lease.acquire() => {}
        () = stopped.as_mut() => return Ok(()),
    }
    vitals.metrics.set_leader(true);
    tracing::info!(identity = lease.identity(), "leading");
    let stop = CancellationToken::new();
    let client = fenced_client(config, lease.fence())?;
    let operating = operator::operate(client, settings, vitals.clone(), stop.clone().cancelled_owned());
    let mut operating = std::pin::pin!(operating);
    let mut lost = std::pin::pin!(lease.keep());
    let is_lost = |why: String| Err(format!("lost the lease: {why}").into());
    tokio::select! {
        outcome = operating.as_mut() => return Ok(outcome?),
        why = lost.as_mut() => return is_lost(why),
        () = stopped => tracing::info!("stopping: waiting for reconciliations in progress"),
    }
    stop.cancel();
    tokio::select! {
        outcome = tokio::time::timeout(STOP_WITHIN, operating) => match outcome {
            Ok(outcome) => Ok(outcome?),
            Err(_) => {
                tracing::warn!(seconds = STOP_WITHIN.as_secs(), "reconciliations did not end in time; aborting them");
                Ok(())
            }
        },
        why = lost => is_lost(why),
    }
}

/// Returns the configuration of the API client, in upstream's order: the variable KUBECONFIG, the flag, the pod's
/// service account. The flag `--master` overrides the address of each.
async fn config(flags: &Flags) -> Result<Config, Box<dyn std::error::Error>> {
    let from_variable = std::env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty());
    let mut config = match &flags.kubeconfig {
        Some(path) if !from_variable => {
            let kubeconfig = Kubeconfig::read_from(path)?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
        }
        _ if from_variable => Config::from_kubeconfig(&KubeConfigOptions::default()).await?,
        _ => match &flags.master {
            Some(master) => Config::new(master.clone()),
            None => Config::infer().await?,
        },
    };
    if let Some(master) = &flags.master {
        config.cluster_url = master.clone();
    }
    Ok(config)
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
