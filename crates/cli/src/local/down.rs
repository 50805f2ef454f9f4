//! `odh local down`: stops the cluster and everything that runs in it, within a time limit.

use std::fs::{File, TryLockError};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use api::Phase;
use jobs::Class;
use jobs::list::Selection;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::home::Home;
use super::state::State;
use crate::arguments::Down;
use crate::connect::connect_local;
use crate::console::{Console, STRONG, safe, styled};
use crate::failure::Failure;

/// How often to check whether the cluster has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long a killed process may take to disappear.
const AFTER_KILL: Duration = Duration::from_secs(5);

/// How long to wait for the cluster to say which jobs run.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// The most running jobs that are named.
const MOST_NAMED: usize = 5;

/// `odh local down`
pub fn run(console: &Console, down: &Down) -> Result<u8, Failure> {
    let home = Home::find()?;
    if down.purge && !down.yes && !may_purge(&home) {
        return Err(Failure::new(Class::Error, "NotConfirmed", "nothing was stopped or removed"));
    }
    if !home.root().is_dir() {
        console.data("The local cluster is not up.\n")?;
        return Ok(0);
    }
    match State::alive(&home) {
        Some(state) => {
            if let Some(warning) = crate::runtime()?.block_on(cut_off(&home)) {
                console.warn(&warning);
            }
            let took = stop(console, &home, &state, down.timeout)?;
            console.data(&format!("The local cluster is down ({:.1} s).\n", took.as_secs_f64()))?;
        }
        None if home.try_lock()?.is_none() => {
            return Err(Failure::new(Class::Error, "Starting", "the local cluster is still starting")
                .with_hint("try again in a moment"));
        }
        None => console.data("The local cluster is not up.\n")?,
    }
    let _ = std::fs::remove_file(home.state());
    if down.purge {
        let kept = home.purge()?;
        if kept.is_empty() {
            console.data(&format!("Removed {}.\n", home.root().display()))?;
        } else {
            let names: Vec<String> = kept.iter().map(|path| path.display().to_string()).collect();
            console.warn(&format!("kept files that odh did not create: {}", names.join(", ")));
        }
    }
    Ok(0)
}

/// Says which jobs run and end with the cluster, if it answers in time.
async fn cut_off(home: &Home) -> Option<String> {
    let found = async {
        let connection = connect_local(home, None).await.ok()?;
        jobs::list::rows(&connection.client, &Selection::default()).await.ok()
    };
    let rows = tokio::time::timeout(ANSWERS_WITHIN, found).await.ok()??;
    let running: Vec<String> = rows
        .into_iter()
        .filter(|row| row.phase == Phase::Running)
        .map(|row| format!("{}/{}", row.namespace, row.name))
        .collect();
    let named = running.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match running.len() {
        0 => None,
        1 => Some(format!("a job is running and fails with its cluster: {named}")),
        all if all > MOST_NAMED => {
            Some(format!("{all} jobs are running and fail with their cluster: {named}, …"))
        }
        all => Some(format!("{all} jobs are running and fail with their cluster: {named}")),
    }
}

/// Asks before everything is removed, if there is something to remove and a terminal to ask on.
fn may_purge(home: &Home) -> bool {
    if !home.root().is_dir() || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return true;
    }
    let place = styled(STRONG, &home.root().display().to_string());
    let question = format!("Remove {place} with all jobs, logs, users and the data of all claims? [y/N] ");
    let _ = write!(anstream::stderr().lock(), "{}", safe(&question));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes" | "Yes")
}

/// Asks the process to end, waits, and kills it after the timeout.
fn stop(console: &Console, home: &Home, state: &State, timeout: Duration) -> Result<Duration, Failure> {
    let began = Instant::now();
    signal(state, Signal::SIGTERM)?;
    if ended(home, state, timeout)? {
        return Ok(began.elapsed());
    }
    console.warn(&format!("process {} has not ended after {} s; killing it", state.pid, timeout.as_secs()));
    signal(state, Signal::SIGKILL)?;
    if ended(home, state, AFTER_KILL)? {
        return Ok(began.elapsed());
    }
    Err(Failure::new(Class::Error, "DidNotEnd", format!("cannot kill process {}", state.pid))
        .with_hint(format!("see its log: {}", home.log().display())))
}

/// Sends a signal to the cluster's process, if it still runs.
pub fn signal(state: &State, signal: Signal) -> Result<(), Failure> {
    // The PID may have been reused by another process.
    if !state.is_alive() {
        return Ok(());
    }
    let pid = Pid::from_raw(i32::try_from(state.pid).unwrap_or(0));
    match kill(pid, signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(Failure::new(
            Class::NotAllowed,
            "NotYours",
            format!("cannot signal process {}: {error}", state.pid),
        )
        .with_hint("it was started by another user; do this as that user")),
    }
}

/// Whether no process has a store's file open. The threads of a process that counts as ended may hold it a little longer: the
/// memory of many jobs takes time to be freed.
fn is_released(store: &Path) -> bool {
    let Ok(file) = File::open(store) else { return true };
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

fn ended(home: &Home, state: &State, within: Duration) -> Result<bool, Failure> {
    let ends = Instant::now() + within;
    loop {
        if !state.is_alive() && home.try_lock()?.is_some() && is_released(&home.store()) {
            return Ok(true);
        }
        if Instant::now() >= ends {
            return Ok(false);
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_not_down_while_its_store_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(&folder.path().display().to_string());
        std::fs::create_dir(home.cluster()).unwrap();
        assert!(is_released(&home.store()), "there is no store");
        let store = File::create(home.store()).unwrap();
        store.lock().unwrap();
        assert!(!is_released(&home.store()));
        drop(store);
        assert!(is_released(&home.store()));
    }
}
