//! Asks all ranks of the job to end, and waits for them: the preStop hook of a Launcher. Without it, `mpirun` receives
//! SIGTERM at once and kills its ranks a second or two later, whatever the grace period of the pods.
//!
//! It acts only on processes with this pod's settings in their environment, because in plain mode those of other pods are
//! visible too.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::arguments::{Request, parse};
use crate::grace::{Grace, WIND_DOWN};
use crate::serve::ranks::{environment_of, is_rank};
use crate::settings::Settings;

/// The pause between two checks of what is left.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Variables that the processes of one pod have in common, and those of different pods do not.
const OF_POD: [&str; 2] = ["ODH_LAUNCH_KEY", "ODH_POD_NAME"];

/// What a process of this pod is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A call to an agent, made in place of ssh.
    Caller,
    /// A rank beside `mpirun`.
    Rank,
}

/// Returns once no rank is left, or their part of the grace period is over.
pub fn drain(settings: &Settings) {
    let until = Instant::now() + Grace::of(settings.grace).ranks;
    let found = processes();
    for (process, role) in &found {
        let signal = if *role == Role::Caller { WIND_DOWN } else { Signal::SIGTERM };
        // One that has just ended is no error.
        let _ = kill(Pid::from_raw(*process), signal);
    }
    while Instant::now() < until && !processes().is_empty() {
        thread::sleep(LOOK_AGAIN);
    }
}

/// The calls and the ranks of this pod.
fn processes() -> Vec<(i32, Role)> {
    let ours = OF_POD.map(|name| std::env::var_os(name).map(OsString::into_vec));
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.filter(|id| *id != Pid::this().as_raw())
        .filter_map(|id| {
            let environment = environment_of(id);
            let is_ours =
                OF_POD.iter().zip(&ours).all(|(name, value)| of(&environment, name) == value.as_deref());
            let role = role_of(id, &environment).filter(|_| is_ours)?;
            Some((id, role))
        })
        .collect()
}

fn role_of(process: i32, environment: &[u8]) -> Option<Role> {
    if is_caller(process) {
        return Some(Role::Caller);
    }
    is_rank(environment).then_some(Role::Rank)
}

/// Whether a process runs this program as a call.
pub fn is_caller(process: i32) -> bool {
    let program = |process: &str| fs::read_link(format!("/proc/{process}/exe")).ok();
    if program(&process.to_string()).is_none_or(|found| Some(found) != program("self")) {
        return false;
    }
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words: Vec<OsString> =
        line.split(|byte| *byte == 0).skip(1).map(|word| OsString::from_vec(word.to_vec())).collect();
    // The line ends with a zero byte.
    let words = words.strip_suffix(&[OsString::new()]).unwrap_or(&words);
    matches!(parse(words), Ok(Request::RemoteCommand(_)))
}

/// The value of a variable in an environment as `/proc` shows it.
fn of<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut variables = environment.split(|byte| *byte == 0);
    variables.find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}
