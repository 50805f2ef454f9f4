//! `odh local up`: starts the cluster in the background and returns when jobs can be created.
//!
//! The background process is this same program (`server`). It reports in one line on its standard output, a pipe to
//! this process, that it is ready or why it is not; its standard error is the log file.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::{Args as _, FromArgMatches as _};
use jobs::Class;

use super::home::{Home, unusable};
use super::remembered::{Remembered, kept};
use super::server::{self, Message};
use super::state::State;
use super::{adopt, dashboard, disk, image, log, remembered};
use crate::arguments::{ClusterOptions, Mode, Up};
use crate::console::{Console, GOOD, STRONG, styled};
use crate::failure::Failure;

/// How long the cluster may take to become ready; it normally takes a fraction of a second.
const START: Duration = Duration::from_secs(60);
/// How long to wait for a concurrent `up`, and the interval of checks.
const OTHER: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);
/// How long the training service may take to make an address that signs in.
const SIGN_IN: Duration = Duration::from_secs(5);
/// The number of log lines shown if the cluster died without a message.
const LAST_WORDS: usize = 8;

/// Each pod has its own copy of this directory.
const PODS_OWN: &str = "/tmp";

/// `odh local up`
pub fn run(console: &Console, up: &Up) -> Result<u8, Failure> {
    let home = Home::find()?;
    home.make()?;
    let given = checked(&up.cluster)?;
    if up.foreground {
        return server::run(console, &home, &given, up.detached);
    }
    let (options, last) = if up.reset { (given.clone(), None) } else { remembered::complete(&home, &given) };
    let began = Instant::now();
    match start(&home, &options).map_err(|failure| with_disk(&home, failure))? {
        Started::New(state) => {
            remembered::write(&home, &Remembered::default().with(&options))?;
            if let Some(last) = last {
                console.note(&format!(
                    "started as the last time, with {last}; to forget that: odh local up --reset"
                ));
            }
            console.data(&ready_text(&home, &state, began.elapsed()))?;
            console.data(&dashboard_text(&state))?;
            limits(console, &state);
        }
        Started::Already(state) => {
            let text = format!(
                "The local cluster is already up at https://{} (process {}).\n",
                state.address, state.pid
            );
            console.data(&text)?;
            console.data(&dashboard_text(&state))?;
            let state = adopt::given(console, &home, state, &given)?;
            differs(console, &given, &state);
        }
    }
    if let Some(warning) = disk::room(&home).and_then(|room| room.warning(&home)) {
        console.warn(&warning);
    }
    Ok(0)
}

/// Adds that the disk is full to a failure that may come from it.
fn with_disk(home: &Home, failure: Failure) -> Failure {
    let warning = disk::room(home).and_then(|room| room.warning(home));
    match warning.filter(|_| !failure.message.contains("is full")) {
        Some(warning) => failure.with_hint(warning),
        None => failure,
    }
}

/// A running cluster, and whether this process started it.
pub enum Started {
    /// Started by this process.
    New(State),
    /// It was already up.
    Already(State),
}

/// Starts the cluster in the background unless it is up.
pub fn start(home: &Home, up: &ClusterOptions) -> Result<Started, Failure> {
    home.make()?;
    let ends = Instant::now() + OTHER;
    while Instant::now() < ends {
        if let Some(state) = State::alive(home) {
            return Ok(Started::Already(state));
        }
        // Another `up` is starting a cluster, or a killed one has not quite disappeared.
        if home.try_lock()?.is_none() {
            std::thread::sleep(LOOK);
            continue;
        }
        let mut child = spawn(home, up)?;
        let said = child.stdout.take().map(listen);
        match said.and_then(|said| said.recv_timeout(START).ok()).flatten() {
            Some(Message::Ready(state)) => return Ok(Started::New(*state)),
            // A concurrent `up` was faster.
            Some(Message::Already) => std::thread::sleep(LOOK),
            Some(Message::Failed { code, reason, message, hint }) => {
                let _ = child.wait();
                return Err(Failure {
                    hints: hint.into_iter().collect(),
                    passed_on: Some(code),
                    ..Failure::new(Class::Error, &reason, message)
                });
            }
            None => return Err(died(home, &mut child)),
        }
    }
    Err(Failure::new(
        Class::Error,
        "Locked",
        format!("another process uses {}, but its cluster is not up", home.root().display()),
    )
    .with_hint("try again; if this persists: odh local down"))
}

/// Checks the image directories and makes their paths absolute.
pub fn checked(up: &ClusterOptions) -> Result<ClusterOptions, Failure> {
    let mut up = up.clone();
    if let Some(file) = &mut up.store_url_file {
        *file = std::path::absolute(&*file).map_err(|error| unusable(file, &error))?;
    }
    for (name, directory) in &mut up.images {
        *directory = image::directory_of(name, directory)?;
    }
    Ok(up)
}

fn spawn(home: &Home, up: &ClusterOptions) -> Result<Child, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(Class::Error, "Program", format!("cannot find the path of this program: {error}"))
    })?;
    let log = log::create(home)?;
    let mut command = Command::new(program);
    command.args(["local", "up", "--foreground", "--detached"]).args(flags(up));
    command.env("ODH_HOME", home.root()).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    // Each arena of glibc's allocator keeps the memory it once had; two are enough for two threads.
    command.env("MALLOC_ARENA_MAX", "2");
    command
        .spawn()
        .map_err(|error| Failure::new(Class::Error, "Program", format!("cannot start the cluster: {error}")))
}

fn flags(up: &ClusterOptions) -> Vec<String> {
    let Remembered { nodes, gpus, mode, .. } = Remembered::default().with(up);
    let mut flags = vec![
        format!("--nodes={nodes}"),
        format!("--gpus={gpus}"),
        format!("--mode={}", mode.word()),
        format!("--port={}", up.port),
    ];
    if up.no_operator {
        flags.push("--no-operator".to_owned());
    }
    flags.extend(kept(up));
    flags.extend(up.images.iter().map(|(name, directory)| format!("--image={name}={}", directory.display())));
    flags
}

/// Reads the child's line in a separate thread, so that waiting for it can time out.
fn listen(stdout: ChildStdout) -> mpsc::Receiver<Option<Message>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        let message = read.ok().and_then(|_| serde_json::from_str(&line).ok());
        let _ = sender.send(message);
    });
    receiver
}

fn died(home: &Home, child: &mut Child) -> Failure {
    let _ = child.kill();
    let how = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
    let log = std::fs::read_to_string(home.log()).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let last = lines.get(lines.len().saturating_sub(LAST_WORDS)..).unwrap_or_default().join("\n");
    let mut failure =
        Failure::new(Class::Error, "DidNotStart", format!("the cluster did not start ({how})")).with_hint(
            format!("see its log: {}; check this machine with: odh local doctor", home.log().display()),
        );
    failure.excerpt = Some(last.into_boxed_str()).filter(|last| !last.is_empty());
    failure
}

fn ready_text(home: &Home, state: &State, took: Duration) -> String {
    let kubeconfig = shell_word(&home.kubeconfig());
    format!(
        "{} in {:.2} s at https://{} (mode {}).\n\n\
         Run a job and watch it:\n  odh local run job.yaml\n\
         Use it from kubectl and odh:\n  export KUBECONFIG={kubeconfig}\n  \
         odh training create mpijob hello --workers 2 --image local -- hostname\n\
         Stop it:\n  odh local down\n",
        styled(GOOD, "The local cluster is up"),
        took.as_secs_f64(),
        state.address,
        styled(STRONG, &state.mode),
    )
}

/// How to see the dashboard: an address on a line of its own.
fn dashboard_text(state: &State) -> String {
    // The service records who signs in, and waits for room on a full disk.
    let address = state.service.as_deref().and_then(|service| {
        let asked = async { tokio::time::timeout(SIGN_IN, dashboard::address(service)).await.ok()?.ok() };
        crate::runtime().ok()?.block_on(asked)
    });
    match address {
        Some(address) => {
            format!("Open the dashboard (the address signs in once, within 15 minutes):\n  {address}\n")
        }
        None => "Open the dashboard:\n  odh local dashboard\n".to_owned(),
    }
}

/// Quotes a path for a shell.
pub fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+".contains(c));
    if plain { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Warns about limitations of the mode in use.
pub fn limits(console: &Console, state: &State) {
    if let Some(reason) = &state.mode_reason {
        let said = match state.mode.as_str() {
            "plain" => "pods are plain processes: they share this machine's host name and network",
            _ => "no stronger mode is possible",
        };
        console.warn(&format!("{said} ({reason})"));
    }
    if let Some(reason) = &state.limits_not_enforced {
        console.warn(&format!("memory and CPU limits are not enforced ({reason})"));
    }
    for (name, directory) in state.images.iter().filter(|_| state.mode != "plain") {
        if let Some((program, target)) = hidden_program(directory) {
            console.warn(&format!(
                "--image {name}: {} links to {}, which pods cannot see because each has its own /tmp; move it out of /tmp, or into {}",
                program.display(),
                target.display(),
                directory.display()
            ));
        }
    }
}

/// Finds a program of an environment that is a link to a path below the machine's `/tmp`, which pods cannot see;
/// returns the link and its target. The environment itself is visible to pods wherever it is.
fn hidden_program(directory: &Path) -> Option<(PathBuf, PathBuf)> {
    let programs = std::fs::read_dir(directory.join("bin")).ok()?;
    programs.filter_map(Result::ok).map(|entry| entry.path()).find_map(|program| {
        let target = program.canonicalize().ok()?;
        let hidden = target.starts_with(PODS_OWN) && !target.starts_with(directory);
        hidden.then_some((program, target))
    })
}

/// Warns about options that a running cluster does not adopt.
pub fn differs(console: &Console, up: &ClusterOptions, state: &State) {
    let without = unadopted(up, state);
    if !without.is_empty() {
        console.warn(&format!(
            "the running cluster does not adopt {}: it stays as it was started until it is stopped; to change that: \
             odh local down, then odh local up with these options",
            without.join(", ")
        ));
    }
}

/// The options that were given and that a running cluster neither has nor adopts. One with its default counts as not given.
fn unadopted(up: &ClusterOptions, state: &State) -> Vec<String> {
    let started_so = started_as_asked(up, state).into_iter().filter(|(_, is_so)| !is_so);
    let mut names: Vec<String> = started_so.map(|(name, _)| name.to_owned()).collect();
    let defaults = kept_defaults();
    let asked = kept(up).into_iter().filter(|flag| !defaults.contains(flag));
    let lacking = asked.filter(|flag| !state.kept_options.contains(flag));
    names.extend(lacking.map(|flag| flag.split('=').next().unwrap_or_default().to_owned()));
    names
}

/// What [`kept`] returns if no option is given.
fn kept_defaults() -> Vec<String> {
    let command = ClusterOptions::augment_args(clap::Command::new("up"));
    let matches = command.try_get_matches_from(["up"]).ok();
    let options = matches.and_then(|matches| ClusterOptions::from_arg_matches(&matches).ok());
    options.as_ref().map(kept).unwrap_or_default()
}

/// Whether a running cluster has all options that were given that decide how jobs run, except for those that it adopts:
/// images, nodes and GPUs.
pub fn is_as_asked(up: &ClusterOptions, state: &State) -> bool {
    started_as_asked(up, state).into_iter().all(|(_, is_so)| is_so)
}

fn started_as_asked(up: &ClusterOptions, state: &State) -> [(&'static str, bool); 3] {
    let mode = match up.mode {
        None | Some(Mode::Auto) => true,
        Some(asked) => state.mode == asked.word(),
    };
    // Without the flag, a cluster stays as it is.
    let operator = !up.no_operator || state.no_operator;
    let port = up.port == 0 || up.port == state.address.port();
    [("--mode", mode), ("--port", port), ("--no-operator", operator)]
}
