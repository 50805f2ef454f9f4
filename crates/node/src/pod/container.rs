//! One container: starts it, watches it, restarts it according to the restart policy, and ends it gracefully.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated, LifecycleHandler};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::hooks::{self, Target};
use super::{PodRun, Slot, grace_of, mounting, probes, security, spec};
use crate::environment::{self, EnvironmentError, Variables, expand, nanos, relocate};
use crate::logs::RunLog;
use crate::sandbox::client::Running;
use crate::sandbox::protocol::{ContainerSpec, Exit, Failure, Limits, Security, Streams, User};
use crate::status::State;
use crate::streams::{Ends, Known, Live, feed};

/// kubelet's back-off between restarts: none before the first restart, then this delay, doubling each time.
const FIRST_BACK_OFF: Duration = Duration::from_secs(10);
/// The longest back-off.
const LAST_BACK_OFF: Duration = Duration::from_secs(300);
/// A container that ran this long starts its back-off again from the beginning.
const BACK_OFF_RESET: Duration = Duration::from_secs(600);
/// The first pause before a missing ConfigMap or Secret is looked up again; it doubles.
const FIRST_CONFIG_RETRY: Duration = Duration::from_millis(500);
/// The longest such pause.
const LAST_CONFIG_RETRY: Duration = Duration::from_secs(10);
/// kubelet's pauses between two attempts to pull an image.
const FIRST_PULL_RETRY: Duration = Duration::from_secs(10);
const LAST_PULL_RETRY: Duration = Duration::from_secs(300);
/// How long a container is in `ErrImagePull` before `ImagePullBackOff`.
const PULL_FAULT_SHOWN: Duration = Duration::from_secs(1);
/// The least time that SIGTERM gets after a preStop hook (`minimumGracePeriodInSeconds`).
const LEAST_GRACE: Duration = Duration::from_secs(2);
/// Bounds of a termination message (`pkg/kubelet/kuberuntime`).
const MAX_MESSAGE_BYTES: usize = 4096;
const MAX_MESSAGE_LOG_LINES: usize = 80;
const MAX_MESSAGE_LOG_BYTES: usize = 2048;
/// How long to wait until the last output of an ended container is in its log.
const DRAIN_PATIENCE: Duration = Duration::from_secs(30);
/// The exit code that containerd shows for a container that could not be started.
const START_ERROR_CODE: i32 = 128;
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// The role of a container in its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Runs to completion before the next one starts.
    Init,
    /// An init container that keeps running beside the others.
    Sidecar,
    /// A regular container.
    Main,
}

/// Returns the container's CPU and memory limits, in billionths.
pub fn limits(container: &Container) -> BTreeMap<&'static str, i128> {
    let table = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    ["cpu", "memory"].into_iter().filter_map(|name| Some((name, nanos(table?.get(name)?)))).collect()
}

/// Returns the terminated state of a container whose process was lost with an earlier process of this node.
pub fn lost(id: &Option<String>) -> ContainerStateTerminated {
    ContainerStateTerminated {
        container_id: id.clone(),
        exit_code: 128 + SIGKILL,
        reason: Some("ContainerStatusUnknown".to_owned()),
        message: Some("The container could not be located when the node restarted".to_owned()),
        finished_at: Some(Time(Timestamp::now())),
        ..ContainerStateTerminated::default()
    }
}

enum StartFault {
    /// Something that the container references is missing.
    Config(String),
    /// The container could not be run.
    Start(Failure),
}

struct Started {
    running: Running,
    target: Target,
    log: Arc<RunLog>,
    ended: CancellationToken,
    collected: tokio::task::JoinHandle<()>,
    live: Live,
}

/// Runs a container as often as its policy requires. Returns true if it ended successfully. Notifies `ready` after each
/// start.
pub async fn run(run: Arc<PodRun>, slot: Slot, container: Container, role: Role, ready: Arc<Notify>) -> bool {
    let stop = if role == Role::Sidecar { run.stop_sidecars.clone() } else { run.stop.clone() };
    let policy = spec(&run.pod()).restart_policy.unwrap_or_else(|| "Always".to_owned());
    let mut back_off: Option<Duration> = None;
    loop {
        let Some(attempt) = start_patiently(&run, slot, &container, &stop).await else { return false };
        let began = Instant::now();
        let ended = match attempt {
            Ok(started) => watch(&run, slot, &container, started, &stop, &ready).await,
            Err(failure) => start_error(&run, slot, &container, &failure),
        };
        let code = ended.exit_code;
        run.update(|record| {
            let entry = slot.of(record);
            (entry.ready, entry.started) = (role == Role::Init && code == 0, false);
            entry.state = State::Terminated(Box::new(ended.clone()));
        });
        let again = match role {
            Role::Sidecar => true,
            Role::Init => code != 0 && policy != "Never",
            Role::Main => policy == "Always" || (policy == "OnFailure" && code != 0),
        };
        if !again || stop.is_cancelled() {
            return code == 0;
        }
        if began.elapsed() > BACK_OFF_RESET {
            back_off = None;
        }
        if !wait_to_restart(&run, slot, &container, back_off, &stop).await {
            return code == 0;
        }
        back_off = Some(back_off.map_or(FIRST_BACK_OFF, |pause| (pause * 2).min(LAST_BACK_OFF)));
    }
}

async fn wait_to_restart(
    run: &PodRun,
    slot: Slot,
    container: &Container,
    back_off: Option<Duration>,
    stop: &CancellationToken,
) -> bool {
    let Some(pause) = back_off else {
        again(run, slot, "ContainerCreating", None);
        return true;
    };
    let pod = run.pod();
    let name = pod.metadata.name.clone().unwrap_or_default();
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let text = format!("restarting failed container={} pod={name}_{namespace}({})", container.name, run.uid);
    run.node.events.warning(&pod, Some(&container.name), "BackOff", format!("Back-off {text}"));
    let message = format!("back-off {}s {text}", pause.as_secs());
    let ended = slot.of(&mut run.record()).state.clone();
    again(run, slot, "CrashLoopBackOff", Some(message));
    tokio::select! {
        () = stop.cancelled() => {
            // It will not be restarted, so its end is its current state.
            run.update(|record| {
                let entry = slot.of(record);
                entry.restarts -= 1;
                entry.state = ended;
            });
            false
        }
        () = tokio::time::sleep(pause) => true,
    }
}

/// Moves the end of the run to the container's last state.
fn again(run: &PodRun, slot: Slot, reason: &'static str, message: Option<String>) {
    run.update(|record| {
        let entry = slot.of(record);
        if let State::Terminated(ended) = std::mem::replace(&mut entry.state, State::Waiting(reason, message))
        {
            entry.last = Some(*ended);
        }
        entry.restarts = entry.restarts.saturating_add(1);
    });
}

/// Starts a container, waiting for missing objects that it references. Returns `None` if the pod must end first.
async fn start_patiently(
    run: &Arc<PodRun>,
    slot: Slot,
    container: &Container,
    stop: &CancellationToken,
) -> Option<Result<Started, Failure>> {
    let mut pause = FIRST_CONFIG_RETRY;
    if let Some(fault) = semantics::image_name::fault(container.image.as_deref().unwrap_or_default()) {
        never_named(run, slot, container, fault, stop).await;
        return None;
    }
    if let Some(fault) = run.node.pull_fault(container.image.as_deref().unwrap_or_default()) {
        never_pulled(run, slot, container, &fault, stop).await;
        return None;
    }
    loop {
        if stop.is_cancelled() {
            return None;
        }
        match start(run, slot, container).await {
            Ok(started) => return Some(Ok(started)),
            Err(StartFault::Start(failure)) => return Some(Err(failure)),
            Err(StartFault::Config(message)) => {
                let events = &run.node.events;
                events.warning(&run.pod(), Some(&container.name), "Failed", format!("Error: {message}"));
                run.update(|record| {
                    slot.of(record).state = State::Waiting("CreateContainerConfigError", Some(message));
                });
            }
        }
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LAST_CONFIG_RETRY),
        }
    }
}

/// Reports an image whose name is invalid, as the kubelet does, and waits until the pod must end.
async fn never_named(
    run: &Arc<PodRun>,
    slot: Slot,
    container: &Container,
    fault: String,
    stop: &CancellationToken,
) {
    run.node.events.warning(&run.pod(), Some(&container.name), "InspectFailed", fault.clone());
    run.update(|record| slot.of(record).state = State::Waiting("InvalidImageName", Some(fault)));
    stop.cancelled().await;
}

/// Retries an image that this node cannot provide, as the kubelet does, until the pod must end.
async fn never_pulled(
    run: &Arc<PodRun>,
    slot: Slot,
    container: &Container,
    fault: &str,
    stop: &CancellationToken,
) {
    let image = container.image.as_deref().unwrap_or_default();
    let warn =
        |message: String| run.node.events.warning(&run.pod(), Some(&container.name), "Failed", message);
    let waits = |reason: &'static str, message: String| {
        run.update(|record| slot.of(record).state = State::Waiting(reason, Some(message)));
    };
    let failed = format!("Failed to pull image \"{image}\": {fault}");
    let mut pause = FIRST_PULL_RETRY;
    loop {
        run.node.events.normal(
            &run.pod(),
            Some(&container.name),
            "Pulling",
            format!("Pulling image \"{image}\""),
        );
        warn(failed.clone());
        warn("Error: ErrImagePull".to_owned());
        waits("ErrImagePull", failed.clone());
        if stop.run_until_cancelled(tokio::time::sleep(PULL_FAULT_SHOWN)).await.is_none() {
            return;
        }
        warn("Error: ImagePullBackOff".to_owned());
        waits("ImagePullBackOff", format!("Back-off pulling image \"{image}\": ErrImagePull: {fault}"));
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
        pause = (pause * 2).min(LAST_PULL_RETRY);
    }
}

async fn start(run: &Arc<PodRun>, slot: Slot, container: &Container) -> Result<Started, StartFault> {
    let pod = run.pod();
    let restarts = slot.of(&mut run.record()).restarts;
    let user = user_of(run, container).map_err(StartFault::Config)?;
    let security = security::of(container).map_err(StartFault::Config)?;
    let base = run.node.base_variables(&pod, container, &user, &mounting::temporary_folder(run, container));
    let variables = environment::resolve(&run.node.client, &pod, container, &run.facts(), base)
        .await
        .map_err(|error: EnvironmentError| StartFault::Config(error.to_string()))?;
    let mounts = mounting::mounts(run, container, &user, &variables, restarts).map_err(StartFault::Config)?;
    let mut spec = container_spec(run, container, user, variables, mounts, security);
    let failed = |e: std::io::Error| StartFault::Start(Failure::new(format!("the container's output: {e}")));
    let terminal = container.tty == Some(true);
    let mut ends = Ends::make(container.stdin == Some(true), terminal).map_err(failed)?;
    spec.streams = ends.streams;
    let log = run.node.begin_log(&pod, &container.name, restarts).map_err(failed)?;
    run.node.tell_environment(&pod, container, restarts);
    run.node.events.normal(
        &pod,
        Some(&container.name),
        "Created",
        format!("Created container: {}", container.name),
    );
    let target = Target {
        process: 0,
        env: spec.env.clone(),
        working_directory: spec.working_directory.clone(),
        user: spec.user.clone(),
        security: spec.security.clone(),
        paths: if run.node.mode.kind.isolates() { Vec::new() } else { run.relocations() },
    };
    if terminal && !spec.env.iter().any(|(name, _)| name == "TERM") {
        spec.env.push(("TERM".to_owned(), "xterm".to_owned()));
    }
    let id = Some(format!("odh://{}-{}-{restarts}", run.uid, container.name));
    // The image may have been mapped since the pod came.
    let image_id = run.node.image_id(container.image.as_deref().unwrap_or_default());
    slot.of(&mut run.record()).image_id = image_id;
    slot.of(&mut run.record()).id = id;
    let descriptors = std::mem::take(&mut ends.descriptors);
    let running = run.node.sandbox.start(spec, descriptors).await.map_err(StartFault::Start)?;
    let connected = ends.connect().map_err(failed)?;
    let ended = CancellationToken::new();
    let collected = tokio::spawn(Arc::clone(&log).collect(connected.output, connected.error, ended.clone()));
    run.node.events.normal(
        &pod,
        Some(&container.name),
        "Started",
        format!("Started container {}", container.name),
    );
    let target = Target { process: running.id, ..target };
    let wants_input = container.stdin == Some(true);
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let live = Live {
        node: pod.spec.as_ref().map(|spec| text(&spec.node_name)).unwrap_or_default(),
        namespace: text(&pod.metadata.namespace),
        pod: text(&pod.metadata.name),
        target: target.clone(),
        log: Arc::clone(&log),
        input: Mutex::new(connected.input.filter(|_| wants_input).map(feed)),
        input_once: container.stdin_once == Some(true),
        terminal: connected.terminal,
    };
    Ok(Started { running, target, log, ended, collected, live })
}

fn container_spec(
    run: &PodRun,
    container: &Container,
    user: User,
    variables: Variables,
    mounts: Vec<crate::sandbox::protocol::MountSpec>,
    security: Security,
) -> ContainerSpec {
    let isolates = run.node.mode.kind.isolates();
    let lookup = |name: &str| variables.get(name).map(str::to_owned);
    let entry = match container.command.as_deref() {
        None | Some([]) => run.node.entry(container.image.as_deref().unwrap_or_default()),
        Some(_) => Vec::new(),
    };
    let command = container.command.iter().flatten().chain(container.args.iter().flatten());
    let argv: Vec<String> = entry.into_iter().chain(command.map(|text| expand(text, lookup))).collect();
    let argv = run.relocate_all(&argv);
    let working_directory = container.working_dir.clone().unwrap_or_default();
    let (env, working_directory) = if isolates {
        (variables.0, working_directory)
    } else {
        let paths = run.relocations();
        let env = variables.0.iter().map(|(key, value)| (key.clone(), relocate(value, &paths))).collect();
        let fallback = mounting::temporary_folder(run, container).display().to_string();
        let there =
            if working_directory.is_empty() { fallback } else { relocate(&working_directory, &paths) };
        (env, there)
    };
    let limits = limits(container);
    ContainerSpec {
        pod: run.uid.clone(),
        name: container.name.clone(),
        argv,
        env,
        working_directory,
        user,
        security,
        mounts,
        streams: Streams::default(),
        limits: Limits {
            memory_bytes: limits.get("memory").map(|amount| bounded(amount / 1_000_000_000)),
            cpu_millis: limits.get("cpu").map(|amount| bounded(amount / 1_000_000)),
        },
    }
}

/// Converts an amount for the sandbox. Values beyond `u64` are unlimited in practice.
fn bounded(amount: i128) -> u64 {
    u64::try_from(amount.max(0)).unwrap_or(u64::MAX)
}

/// Returns the user that the container runs as.
fn user_of(run: &PodRun, container: &Container) -> Result<User, String> {
    let spec = spec(&run.pod());
    let (own, shared) =
        (container.security_context.clone().unwrap_or_default(), spec.security_context.unwrap_or_default());
    let number =
        |value: i64| u32::try_from(value).map_err(|_| format!("user or group id {value} is out of range"));
    let default = run.node.default_user();
    let wanted = own.run_as_user.or(shared.run_as_user).map(number).transpose()?;
    let non_root = own.run_as_non_root.or(shared.run_as_non_root) == Some(true);
    // An image here names no user, so one that must not be root is taken for it, as OpenShift does.
    let assigned = (non_root && wanted.is_none() && default.uid == 0).then_some(crate::DEFAULT_UID);
    let uid = wanted.or(assigned).unwrap_or(default.uid);
    let group = own.run_as_group.or(shared.run_as_group).map(number).transpose()?;
    let gid = group.unwrap_or(if wanted.or(assigned).is_some() { 0 } else { default.gid });
    if non_root && uid == 0 {
        return Err(format!(
            "container has runAsNonRoot and image will run as root (pod: {:?}, container: {})",
            format!("{}({})", run.pod().metadata.name.clone().unwrap_or_default(), run.uid),
            container.name
        ));
    }
    let groups = shared.supplemental_groups.into_iter().flatten().chain(shared.fs_group);
    Ok(User { uid, gid, groups: groups.map(number).collect::<Result<_, _>>()? })
}

fn start_error(
    run: &PodRun,
    slot: Slot,
    container: &Container,
    failure: &Failure,
) -> ContainerStateTerminated {
    let message = format!("failed to start container {:?}: {failure}", container.name);
    run.node.events.warning(&run.pod(), Some(&container.name), "Failed", format!("Error: {message}"));
    ContainerStateTerminated {
        container_id: slot.of(&mut run.record()).id.clone(),
        exit_code: START_ERROR_CODE,
        reason: Some("StartError".to_owned()),
        message: Some(message),
        started_at: Some(Time(Timestamp::UNIX_EPOCH)),
        finished_at: Some(Time(Timestamp::now())),
        signal: None,
    }
}

/// Watches a running container until it ends by itself or is ended.
async fn watch(
    run: &Arc<PodRun>,
    slot: Slot,
    container: &Container,
    started: Started,
    stop: &CancellationToken,
    ready: &Notify,
) -> ContainerStateTerminated {
    let Started { running, target, log, ended, collected, live } = started;
    let known = Known::new(&run.node, (run.uid.clone(), container.name.clone()), live);
    let began = Timestamp::now();
    let probed = container.startup_probe.is_some() || container.readiness_probe.is_some();
    run.update(|record| {
        let entry = slot.of(record);
        entry.state = State::Running(began);
        entry.started = container.startup_probe.is_none();
        entry.ready = !probed;
    });
    let unhealthy = Arc::new(Notify::new());
    let beside = async {
        let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
        if let Some(Err(why)) = run_hook(run, container, &target, hook).await {
            let message = format!("PostStartHook failed: {why}");
            run.node.events.warning(&run.pod(), Some(&container.name), "FailedPostStartHook", message);
            unhealthy.notify_one();
            return;
        }
        ready.notify_one();
        probes::watch(Arc::clone(run), slot, container.clone(), target.clone(), Arc::clone(&unhealthy)).await;
    };
    let exit = {
        let mut ended = std::pin::pin!(running.ended());
        let mut beside = std::pin::pin!(beside);
        let mut beside_done = false;
        loop {
            tokio::select! {
                exit = &mut ended => break exit,
                () = &mut beside, if !beside_done => beside_done = true,
                () = stop.cancelled() => break terminate(run, container, &target, ended, run.grace()).await,
                () = unhealthy.notified() => {
                    let grace = spec(&run.pod()).termination_grace_period_seconds.unwrap_or(30);
                    break terminate(run, container, &target, ended, grace_of(grace)).await;
                }
            }
        }
    };
    // No client can attach any more. This also closes our end of a terminal.
    drop(known);
    ended.cancel();
    // The pipes end with the processes. Don't wait for a survivor in another session that keeps one open. But do wait
    // for what the container itself wrote, however busy the machine: clients read the log next once they see the
    // container's end.
    let _ = tokio::time::timeout(Duration::from_secs(1), collected).await;
    let _ = tokio::time::timeout(DRAIN_PATIENCE, log.drained()).await;
    terminated(run, slot, container, exit, began, &log)
}

async fn run_hook(
    run: &PodRun,
    container: &Container,
    target: &Target,
    hook: Option<&LifecycleHandler>,
) -> Option<Result<(), String>> {
    /// kubelet's bound for an HTTP hook.
    const HTTP_TIMEOUT: Duration = Duration::from_secs(30);
    let hook = hook?;
    Some(if let Some(action) = &hook.exec {
        let command = action.command.as_deref().unwrap_or_default();
        hooks::exec(run, target, command, LAST_BACK_OFF).await
    } else if let Some(action) = &hook.http_get {
        hooks::http(run, container, action, HTTP_TIMEOUT).await
    } else if let Some(action) = &hook.sleep {
        tokio::time::sleep(Duration::from_secs(u64::try_from(action.seconds).unwrap_or(0))).await;
        Ok(())
    } else {
        Err("this node does not support this kind of hook".to_owned())
    })
}

/// Ends a container: preStop hook, SIGTERM, grace period, SIGKILL. Honors a deletion with a shorter grace period that
/// arrives meanwhile.
async fn terminate(
    run: &PodRun,
    container: &Container,
    target: &Target,
    mut ended: std::pin::Pin<&mut impl Future<Output = Exit>>,
    grace: Duration,
) -> Exit {
    let message = format!("Stopping container {}", container.name);
    run.node.events.normal(&run.pod(), Some(&container.name), "Killing", message);
    let mut deadline = Instant::now() + grace;
    let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    if hook.is_some() && !grace.is_zero() {
        tokio::select! {
            exit = &mut ended => return exit,
            outcome = tokio::time::timeout_at(deadline, run_hook(run, container, target, hook)) => {
                if let Ok(Some(Err(why))) = outcome {
                    let message = format!("PreStopHook failed: {why}");
                    run.node.events.warning(&run.pod(), Some(&container.name), "FailedPreStopHook", message);
                }
            }
        }
        deadline = deadline.max(Instant::now() + LEAST_GRACE);
    }
    if !grace.is_zero() {
        run.node.sandbox.signal(target.process, SIGTERM).await;
        let mut wish = run.wish.clone();
        loop {
            tokio::select! {
                exit = &mut ended => return exit,
                () = tokio::time::sleep_until(deadline) => break,
                changed = wish.changed() => match changed {
                    Ok(()) => deadline = deadline.min(Instant::now() + run.grace()),
                    Err(_) => break,
                },
            }
        }
    }
    run.node.sandbox.signal(target.process, SIGKILL).await;
    ended.await
}

fn terminated(
    run: &PodRun,
    slot: Slot,
    container: &Container,
    exit: Exit,
    began: Timestamp,
    log: &Arc<RunLog>,
) -> ContainerStateTerminated {
    let (id, restarts) = {
        let mut record = run.record();
        let entry = slot.of(&mut record);
        (entry.id.clone(), entry.restarts)
    };
    let reason = match exit {
        Exit { out_of_memory: true, code, .. } if code != 0 => "OOMKilled",
        Exit { code: 0, .. } => "Completed",
        Exit { .. } => "Error",
    };
    let file = mounting::termination_file(run, container, restarts);
    let mut message = std::fs::read(&file).unwrap_or_default();
    message.truncate(MAX_MESSAGE_BYTES);
    let mut message = String::from_utf8_lossy(&message).into_owned();
    let falls_back = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
    if message.is_empty() && falls_back && exit.code != 0 {
        message = log.last_words(MAX_MESSAGE_LOG_LINES, MAX_MESSAGE_LOG_BYTES);
    }
    let _ = std::fs::remove_file(file);
    ContainerStateTerminated {
        container_id: id,
        exit_code: exit.code,
        signal: exit.signal,
        reason: Some(reason.to_owned()),
        message: (!message.is_empty()).then_some(message),
        started_at: Some(Time(began)),
        finished_at: Some(Time(Timestamp::now())),
    }
}
