//! A job's agents for the duration of a test, and helpers to inspect the processes of this machine.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_odh-launch");
/// The longest wait for a condition; far more than any takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Agents `w-0`, `w-1`, … that share a key and a registry; all end when this value is dropped.
pub struct Job {
    pub directory: tempfile::TempDir,
    pub agents: Vec<Agent>,
}

pub struct Agent {
    pub process: Child,
    pub log: PathBuf,
}

impl Job {
    /// Starts `count` agents and waits until each has announced itself. Each has its own folder for temporary
    /// files, as in a pod: daemons of Open MPI that share a session folder crash (4.1.4 in
    /// `hwloc_shmem_topology_write`).
    pub fn start(count: usize) -> Self {
        Self::start_with(count, &[])
    }

    /// The same with more variables in the agents' environment.
    pub fn start_with(count: usize, environment: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("registry")).unwrap();
        fs::write(directory.path().join("key"), "the key of this job").unwrap();
        let mut job = Self { directory, agents: Vec::new() };
        for index in 0..count {
            let log = job.directory.path().join(format!("log-{index}"));
            let temporary = job.directory.path().join(format!("tmp-{index}"));
            fs::create_dir(&temporary).unwrap();
            let mut command = job.command("w-0");
            command
                .arg("serve")
                .env("ODH_POD_NAME", format!("w-{index}"))
                .env("TMPDIR", temporary)
                .envs(environment.iter().copied());
            // Not in the test's session, as in a pod.
            command
                .process_group(0)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(fs::File::create(&log).unwrap());
            job.agents.push(Agent { process: command.spawn().unwrap(), log });
        }
        wait_until("the agents announce themselves", || {
            (0..count).all(|index| job.registry().join(format!("w-{index}")).exists())
        });
        job
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn registry(&self) -> PathBuf {
        self.path("registry")
    }

    pub fn address(&self, name: &str) -> String {
        fs::read_to_string(self.registry().join(name)).unwrap().trim().to_owned()
    }

    /// Returns a command that runs the program in this job's environment, as the pod of this name.
    pub fn command(&self, pod: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        self.put_into(&mut command);
        command.env("ODH_POD_NAME", pod);
        command
    }

    /// Sets this job's environment for another program.
    pub fn put_into(&self, command: &mut Command) {
        command.env("ODH_LAUNCH_KEY", self.path("key")).env("ODH_LAUNCH_REGISTRY", self.registry());
        command.env("ODH_LAUNCH_START_TIMEOUT", "20").env("ODH_LAUNCH_GRACE", "6");
    }

    /// Makes a call without standard input.
    pub fn call(&self, host: &str, command: &str) -> Output {
        self.command("launcher").args([host, command]).stdin(Stdio::null()).output().unwrap()
    }

    pub fn log(&self, index: usize) -> String {
        fs::read_to_string(&self.agents[index].log).unwrap()
    }

    pub fn pid(&self, index: usize) -> Pid {
        pid_of(&self.agents[index].process)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for agent in &mut self.agents {
            if agent.process.try_wait().unwrap().is_none() {
                kill(pid_of(&agent.process), Signal::SIGTERM).unwrap();
            }
        }
        for agent in &mut self.agents {
            agent.process.wait().unwrap();
        }
    }
}

pub fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

pub fn stdout_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits for a condition, polling every few milliseconds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process as `/proc` shows it.
pub struct ProcessInfo {
    pub pid: i32,
    pub parent: i32,
    pub state: char,
    pub command_line: String,
}

pub fn processes() -> Vec<ProcessInfo> {
    let seen = |path: &Path| {
        let stat = fs::read_to_string(path.join("stat")).ok()?;
        let (head, tail) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = tail.split_whitespace().collect();
        let command_line = fs::read(path.join("cmdline")).ok()?;
        Some(ProcessInfo {
            pid: head.split_whitespace().next()?.parse().ok()?,
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            command_line: String::from_utf8_lossy(&command_line).replace('\0', " "),
        })
    };
    fs::read_dir("/proc").unwrap().filter_map(|entry| seen(&entry.ok()?.path())).collect()
}

/// Counts the living processes with exactly this command line, its words joined by blanks.
pub fn count_of(command_line: &str) -> usize {
    let wanted = format!("{command_line} ");
    processes().iter().filter(|p| p.state != 'Z' && p.command_line == wanted).count()
}

/// Returns the peak resident memory of a process, in KiB.
pub fn peak_memory_kib(pid: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Returns a `sleep` command that no other test runs, so that the processes of this one can be identified.
pub fn unique_sleep() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("sleep {}.{}", 10_000 + std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
