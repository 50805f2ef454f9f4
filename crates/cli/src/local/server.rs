//! The local cluster's process: API, controllers, scheduler, node, operator and training service, until it is stopped.
//!
//! Started by `up`, in the background or, with `--foreground`, by the user. It holds the lock of the state directory
//! for its lifetime; a second `up` detects it by that lock, not by a PID in a file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cluster::node::ModeChoice;
use cluster::store::OpenError;
use cluster::supervision::supervise;
use cluster::{Cluster, ResizeError};
use jiff::Timestamp;
use jobs::Class;
use kube::Client;
use operator::progress::Progress;
use semantics::local_images::LocalImages;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::audit::Audit;
use super::home::{Home, unusable};
use super::launch_agent::LaunchAgent;
use super::log;
use super::remembered::{self, Remembered};
use super::service;
use super::state::{Failures, State, process_started_ticks, write_private};
use super::variables;
use crate::SANDBOX;
use crate::arguments::{ClusterOptions, Mode, Switch};
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt::interrupted;

/// How long the operator and the cluster may take to stop.
const STOP: Duration = Duration::from_secs(25);
/// The number of threads: one can serve while the other works.
const THREADS: usize = 2;
/// The port in the pods' network at which programs report their progress, as in a real installation.
const PROGRESS_PORT: u16 = 10443;

/// The message of the background process, one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub enum Message {
    /// Jobs can be created.
    Ready(Box<State>),
    /// Another process holds the lock.
    Already,
    /// It cannot start.
    Failed {
        /// The exit code.
        code: u8,
        /// One CamelCase word.
        reason: String,
        /// The error.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
}

/// Runs the cluster until it is stopped.
pub fn run(console: &Console, home: &Home, up: &ClusterOptions, detached: bool) -> Result<u8, Failure> {
    if detached {
        // Leaves the terminal's session: closing the window or pressing Ctrl-C there must not stop the cluster.
        let _ = nix::unistd::setsid();
    }
    log::start(home, detached);
    let outcome = serve(console, home, up, detached);
    match (outcome, detached) {
        (Ok(()), _) => Ok(0),
        (Err(failure), true) => {
            say(&Message::Failed {
                code: failure.exit_code(),
                reason: failure.reason.to_string(),
                message: failure.message.clone(),
                hint: failure.hint(),
            });
            Err(failure)
        }
        (Err(failure), false) => Err(failure),
    }
}

fn serve(console: &Console, home: &Home, up: &ClusterOptions, detached: bool) -> Result<(), Failure> {
    let Some(lock) = home.try_lock()? else {
        if detached {
            say(&Message::Already);
            return Ok(());
        }
        return Err(Failure::new(Class::Conflict, "AlreadyUp", "the local cluster is already up")
            .with_hint("see: odh local status"));
    };
    put_launch_agent(home)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Class::Error, "Runtime", format!("cannot start: {error}")))?;
    let served = runtime.block_on(live(console, home, up, detached));
    // A thread that hangs must not keep the process alive.
    runtime.shutdown_timeout(Duration::from_secs(1));
    let _ = std::fs::remove_file(home.state());
    drop(lock);
    served
}

async fn live(console: &Console, home: &Home, up: &ClusterOptions, detached: bool) -> Result<(), Failure> {
    let images = with_agent(home, up.images.iter().cloned().collect());
    let cluster = start(home, up, &images).await?;
    let shutdown = CancellationToken::new();
    let mut state = describe(&cluster, up, images);
    let tell = |state: &State| {
        if detached {
            say(&Message::Ready(Box::new(state.clone())));
        } else {
            let kubeconfig = home.kubeconfig();
            console.note(&format!(
                "serving at https://{}; KUBECONFIG={}",
                state.address,
                kubeconfig.display()
            ));
        }
    };
    let services = TaskTracker::new();
    let lived = until_told((home, up), &mut state, &cluster, (&shutdown, &services), tell).await;
    tracing::info!("stopping");
    shutdown.cancel();
    services.close();
    let stopped = async {
        // Requests in progress still need the cluster.
        services.wait().await;
        cluster.stop().await;
    };
    if tokio::time::timeout(STOP, stopped).await.is_err() {
        tracing::warn!("shutdown has not finished after {} s", STOP.as_secs());
    }
    lived
}

/// Runs the operator unless it is left out, and the training service, reports that jobs can be created, and records failures until the process
/// is asked to stop.
async fn until_told(
    (home, up): (&Home, &ClusterOptions),
    state: &mut State,
    cluster: &Cluster,
    (shutdown, services): (&CancellationToken, &TaskTracker),
    tell: impl FnOnce(&State),
) -> Result<(), Failure> {
    // Before the state says that the process is there: without a handler the signal would end it.
    let mut changes = signal(SignalKind::user_defined1())
        .map_err(|error| Failure::new(Class::Error, "Signals", format!("cannot receive signals: {error}")))?;
    let audit = Arc::new(Audit::default());
    let with_operator = !state.no_operator;
    let administrator = cluster.client();
    tokio::try_join!(
        super::roles::install(&administrator, with_operator),
        install_definitions(&administrator, with_operator),
    )?;
    let (service, ()) =
        tokio::try_join!(service::start((home, up), cluster, &audit, (shutdown, services)), async {
            match with_operator {
                true => start_operator(cluster, &audit, (shutdown, services)).await,
                false => Ok(()),
            }
        },)?;
    let kubeconfig = service::kubeconfig(cluster.kubeconfig(), &service);
    state.service = Some(Box::new(service));
    let kubeconfig = serde_saphyr::to_string(&kubeconfig).map_err(|error| not_written(&error))?;
    write_private(&home.kubeconfig(), kubeconfig.as_bytes())?;
    write_private(&home.port(), state.address.port().to_string().as_bytes())?;
    let mut health = cluster.health().subscribe();
    state.failures = failures(&health.borrow_and_update());
    state.write(home)?;
    tell(state);
    let mut end = std::pin::pin!(interrupted());
    loop {
        // The cluster keeps the sender for its lifetime.
        tokio::select! {
            () = &mut end => return Ok(()),
            Some(()) = changes.recv() => {
                state.refused = adopt(home, cluster, state).await.err().map(|error| error.to_string());
                state.adoptions += 1;
            }
            Ok(()) = health.changed() => {}
        }
        state.failures = failures(&health.borrow_and_update());
        if let Err(failure) = state.write(home) {
            tracing::warn!(error = failure.message, "cannot write the cluster's state");
        }
    }
}

/// Adopts the remembered images, nodes and GPUs. If the nodes cannot change, the images do.
async fn adopt(home: &Home, cluster: &Cluster, state: &mut State) -> Result<(), ResizeError> {
    let Remembered { images, nodes, gpus, .. } = remembered::read(home);
    state.images = with_agent(home, images);
    cluster.map_images(state.images.clone());
    if (nodes, gpus) != (state.nodes, state.gpus) {
        cluster.resize(nodes, gpus).await?;
        (state.nodes, state.gpus) = (nodes, gpus);
    }
    Ok(())
}

/// Adds the launch agent's image, which is always there.
fn with_agent(home: &Home, mut images: LocalImages) -> LocalImages {
    images.insert(api::LAUNCH_IMAGE.to_owned(), home.launch());
    images
}

fn failures(report: &cluster::supervision::Report) -> BTreeMap<String, Failures> {
    let of = |failures: &cluster::supervision::Failures| Failures {
        count: failures.count,
        last: failures.last,
        message: failures.message.clone(),
    };
    report.iter().map(|(part, failures)| (part.clone(), of(failures))).collect()
}

/// Installs the operator's admission webhooks and the runtimes of TrainJobs, and runs the operator under its own account, as a
/// separate task that is restarted if it fails.
async fn start_operator(
    cluster: &Cluster,
    audit: &Arc<Audit>,
    (shutdown, services): (&CancellationToken, &TaskTracker),
) -> Result<(), Failure> {
    let administrator = cluster.client();
    let operator = cluster.client_of(super::roles::operator());
    let vitals = operator::Vitals::default();
    tokio::spawn(operator::allocator::return_freed_when_quiet(vitals.clone()));
    let callers = cluster.server().webhook_authority();
    let (reporter, reporting) = operator::webhook::Reporter::new(audit.clone(), shutdown.clone());
    services.spawn(reporting);
    let served = operator::webhook::on_loopback(
        &administrator,
        &operator,
        super::roles::OPERATOR,
        callers.as_deref(),
        true,
        Some(reporter),
        (vitals.clone(), shutdown.clone()),
    );
    served.await.map_err(|error| {
        Failure::new(
            Class::Error,
            "DidNotStart",
            format!("cannot start the admission webhook for jobs: {error}"),
        )
    })?;
    super::runtimes::install(&administrator).await?;
    let progress = serve_progress(cluster, operator.clone(), shutdown).await?;
    let (health, stop) = (cluster.health(), shutdown.clone());
    tokio::spawn(async move {
        supervise(super::roles::OPERATOR, &health, &stop, |scope| {
            operate(operator.clone(), progress.clone(), vitals.clone(), scope.stop)
        })
        .await;
    });
    Ok(())
}

/// Serves the endpoint for the progress of jobs where pods reach it: in their own network, or else at this machine's
/// loopback, which they then share.
async fn serve_progress(
    cluster: &Cluster,
    client: Client,
    shutdown: &CancellationToken,
) -> Result<Progress, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        let message = format!("cannot serve the progress of jobs: {error}");
        Failure::new(Class::Error, "DidNotStart", message)
    };
    let (address, listener) = match cluster.listen_for_pods(PROGRESS_PORT).await {
        Some(found) => found,
        None => {
            let bound = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await;
            let listener = bound.map_err(|error| failed(&error))?;
            (listener.local_addr().map_err(|error| failed(&error))?, listener)
        }
    };
    operator::progress::serve_at((listener, address), client, shutdown.clone())
        .map_err(|error| failed(&error))
}

/// Starts the cluster at the requested port, the last one used, or any free one.
async fn start(home: &Home, up: &ClusterOptions, images: &LocalImages) -> Result<Cluster, Failure> {
    let last = std::fs::read_to_string(home.port()).ok().and_then(|text| text.trim().parse().ok());
    let port = if up.port == 0 { last.unwrap_or(0) } else { up.port };
    match Cluster::start(options(home, up, images, port)?).await {
        Ok(cluster) => Ok(cluster),
        Err(cluster::Error::Listen { .. }) if up.port == 0 && port != 0 => {
            Cluster::start(options(home, up, images, 0)?).await.map_err(|error| start_failure(home, error))
        }
        Err(error) => Err(start_failure(home, error)),
    }
}

fn options(
    home: &Home,
    up: &ClusterOptions,
    images: &LocalImages,
    port: u16,
) -> Result<cluster::Options, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(Class::Error, "Program", format!("cannot find the path of this program: {error}"))
    })?;
    let Remembered { nodes, gpus, mode, .. } = Remembered::default().with(up);
    let mut options = cluster::Options::new(home.cluster());
    options.secret = vec![home.root().to_owned()];
    options.listen = SocketAddr::from(([127, 0, 0, 1], port));
    options.images = images.clone();
    options.presets = variables::presets();
    options.nodes = nodes;
    options.audit = (up.audit == Switch::On).then(|| home.audit());
    options.gpus = gpus;
    options.durable = true;
    options.node_grace = up.node_grace;
    options.dns_negative_ttl = up.dns_negative_ttl;
    options.mode = match mode {
        Mode::Auto => ModeChoice::Auto,
        Mode::Rootless => ModeChoice::Rootless,
        Mode::Root => ModeChoice::Root,
        Mode::Plain => ModeChoice::Plain,
    };
    options.sandbox_program = vec![program.into_os_string(), OsString::from(SANDBOX)];
    Ok(options)
}

fn start_failure(home: &Home, error: cluster::Error) -> Failure {
    match error {
        cluster::Error::Listen { address, source } if source.kind() == std::io::ErrorKind::AddrInUse => {
            Failure::new(
                Class::Conflict,
                "PortTaken",
                format!("port {} is in use by another program", address.port()),
            )
            .with_hint("choose another port with --port, or omit --port to use any free one")
        }
        cluster::Error::Listen { address, source } => {
            Failure::new(Class::Error, "CannotListen", format!("cannot listen on {address}: {source}"))
        }
        cluster::Error::State { path, source } => unusable(&path, &source),
        cluster::Error::Store(error) => unusable_store(&error),
        other => Failure::new(Class::Error, "DidNotStart", other.to_string()).with_hint(format!(
            "check this machine with: odh local doctor; see the log: {}",
            home.log().display()
        )),
    }
}

/// Only a damaged store justifies starting again without its objects, and only the user can decide that.
fn unusable_store(error: &OpenError) -> Failure {
    let hint = match error {
        OpenError::Damaged { path, .. } => format!(
            "restore {} from a backup, or start without its objects: odh local down --purge",
            path.display()
        ),
        OpenError::Newer { .. } => {
            "no objects are lost: upgrade odh to that release, or use another ODH_HOME".to_owned()
        }
        OpenError::InUse { .. } => "stop the process that uses it, then start the cluster again".to_owned(),
        OpenError::Io { .. } => "no objects are lost: fix this, then start the cluster again".to_owned(),
    };
    Failure::new(Class::Error, "StoreUnusable", error.to_string()).with_hint(hint)
}

/// Puts the launch agent into the `bin` of the directory that takes the place of its image.
fn put_launch_agent(home: &Home) -> Result<(), Failure> {
    let agent = LaunchAgent::find()?;
    let directory = home.launch();
    let bin = directory.join("bin");
    std::fs::create_dir_all(&bin)
        .and_then(|()| agent.put(&bin.join(api::LAUNCH_PROGRAM)))
        .map_err(|error| unusable(&directory, &error))
}

/// Installs the definitions of MPIJob, TrainJob and its runtimes if they are `wanted` here, and waits until they are served.
async fn install_definitions(client: &Client, wanted: bool) -> Result<(), Failure> {
    if !wanted {
        return Ok(());
    }
    let installed = tokio::try_join!(operator::install_crd(client), operator::install_trainjob_crds(client));
    installed.map(drop).map_err(|error| {
        Failure::new(Class::Error, "DidNotStart", format!("cannot install the definitions of jobs: {error}"))
    })
}

/// Runs the operator with a local machine's defaults: the launch agent is the default transport.
async fn operate(
    client: Client,
    progress: Progress,
    vitals: operator::Vitals,
    shutdown: CancellationToken,
) -> Result<(), operator::Error> {
    let plan = plan::Settings { default_launch: plan::Launch::Agent, ..plan::Settings::default() };
    let progress = Some(progress);
    let settings = operator::Settings { plan, trainjobs: true, progress, ..operator::Settings::default() };
    operator::operate(client, settings, vitals, shutdown.cancelled_owned()).await
}

fn describe(cluster: &Cluster, up: &ClusterOptions, images: LocalImages) -> State {
    let Remembered { nodes, gpus, .. } = Remembered::default().with(up);
    let mode = cluster.mode();
    let kind = mode.as_ref().map_or("none", |mode| mode.kind.as_str());
    let pid = std::process::id();
    State {
        pid,
        process_started_ticks: process_started_ticks(pid).unwrap_or(0),
        address: cluster.address(),
        service: None,
        mode: kind.to_owned(),
        mode_reason: mode.as_ref().and_then(|mode| mode.reason.clone()),
        limits_not_enforced: mode.and_then(|mode| mode.limits.err()),
        images,
        nodes,
        gpus,
        adoptions: 0,
        refused: None,
        no_operator: up.no_operator,
        kept_options: remembered::kept(up),
        failures: BTreeMap::new(),
        since: Timestamp::now(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn not_written(error: &dyn std::error::Error) -> Failure {
    Failure::new(Class::Error, "DidNotStart", format!("cannot write the kubeconfig: {error}"))
}

/// Writes one line to the parent process; if the parent is gone, errors do not matter.
fn say(message: &Message) {
    let line = serde_json::to_string(message).unwrap_or_default();
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
