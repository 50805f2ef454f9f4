//! Startup, readiness and liveness probes of one run of a container (`pkg/kubelet/prober`).
//!
//! Until a readiness probe first succeeds, it is also tried more often than its period, as Kubernetes allows ("to make
//! the Pod ready faster"). Such early attempts count neither as failures nor as Events.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::hooks::{self, Target};
use super::{PodRun, Slot};

/// The first pause between early attempts; it doubles up to the probe's period.
const EARLY_PAUSE: Duration = Duration::from_millis(50);

fn seconds(value: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(
        value.and_then(|value| u64::try_from(value).ok()).filter(|v| *v > 0).unwrap_or(default),
    )
}

/// Probes a container until the caller drops this future at the container's end. Notifies `unhealthy` when it must be
/// killed.
pub async fn watch(
    run: Arc<PodRun>,
    slot: Slot,
    container: Container,
    target: Target,
    unhealthy: Arc<Notify>,
) {
    if let Some(probe) = &container.startup_probe {
        let passed = until_settled(&run, &container, probe, &target, "Startup").await;
        if !passed {
            unhealthy.notify_one();
            return;
        }
    }
    run.update(|record| {
        let entry = slot.of(record);
        entry.started = true;
        entry.ready = container.readiness_probe.is_none();
    });
    let liveness = async {
        if let Some(probe) = &container.liveness_probe {
            keep_alive(&run, &container, probe, &target).await;
            unhealthy.notify_one();
        }
    };
    let readiness = async {
        if let Some(probe) = &container.readiness_probe {
            keep_ready(&run, slot, &container, probe, &target).await;
        }
    };
    tokio::join!(liveness, readiness);
}

async fn try_once(run: &PodRun, container: &Container, probe: &Probe, target: &Target) -> Result<(), String> {
    let timeout = seconds(probe.timeout_seconds, 1);
    if let Some(action) = &probe.exec {
        hooks::exec(run, target, action.command.as_deref().unwrap_or_default(), timeout).await
    } else if let Some(action) = &probe.http_get {
        hooks::http(run, container, action, timeout).await
    } else if let Some(action) = &probe.tcp_socket {
        hooks::tcp(run, container, action, timeout).await
    } else if let Some(action) = &probe.grpc {
        hooks::grpc(run, action, timeout).await
    } else {
        Err("this node does not support this kind of probe".to_owned())
    }
}

fn tell(run: &PodRun, container: &Container, kind: &str, why: &str) {
    let message = format!("{kind} probe failed: {why}");
    run.node.events.warning(&run.pod(), Some(&container.name), "Unhealthy", message);
}

/// Probes until success (returns true) or until the failure threshold is reached (returns false).
async fn until_settled(
    run: &PodRun,
    container: &Container,
    probe: &Probe,
    target: &Target,
    kind: &str,
) -> bool {
    tokio::time::sleep(seconds(probe.initial_delay_seconds, 0)).await;
    let period = seconds(probe.period_seconds, 10);
    let mut left = probe.failure_threshold.unwrap_or(3).max(1);
    let mut pause = EARLY_PAUSE.min(period);
    let mut due = Instant::now() + period;
    loop {
        match try_once(run, container, probe, target).await {
            Ok(()) => return true,
            Err(why) if Instant::now() >= due || pause >= period => {
                tell(run, container, kind, &why);
                left -= 1;
                if left == 0 {
                    return false;
                }
                due = Instant::now() + period;
            }
            Err(_) => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(period);
    }
}

/// Returns when the failure threshold is reached.
async fn keep_alive(run: &PodRun, container: &Container, probe: &Probe, target: &Target) {
    tokio::time::sleep(seconds(probe.initial_delay_seconds, 0)).await;
    let threshold = probe.failure_threshold.unwrap_or(3).max(1);
    let mut failures = 0;
    loop {
        match try_once(run, container, probe, target).await {
            Ok(()) => failures = 0,
            Err(why) => {
                failures += 1;
                tell(run, container, "Liveness", &why);
                if failures >= threshold {
                    return;
                }
            }
        }
        tokio::time::sleep(seconds(probe.period_seconds, 10)).await;
    }
}

async fn keep_ready(run: &PodRun, slot: Slot, container: &Container, probe: &Probe, target: &Target) {
    tokio::time::sleep(seconds(probe.initial_delay_seconds, 0)).await;
    let period = seconds(probe.period_seconds, 10);
    let (wanted, threshold) =
        (probe.success_threshold.unwrap_or(1).max(1), probe.failure_threshold.unwrap_or(3).max(1));
    let (mut ready, mut successes, mut failures) = (false, 0, 0);
    let mut pause = EARLY_PAUSE.min(period);
    let mut due = Instant::now() + period;
    loop {
        match try_once(run, container, probe, target).await {
            Ok(()) => {
                (successes, failures) = (successes + 1, 0);
                pause = period;
            }
            Err(why) => {
                successes = 0;
                if Instant::now() >= due || pause >= period {
                    failures += 1;
                    due = Instant::now() + period;
                    tell(run, container, "Readiness", &why);
                }
            }
        }
        let now = if ready { failures < threshold } else { successes >= wanted };
        if now != ready {
            ready = now;
            run.update(|record| slot.of(record).ready = ready);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(period);
    }
}
