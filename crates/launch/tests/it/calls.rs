//! Successful calls: exit codes, streams, signals, and the subcommands.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread;

use nix::sys::signal::{Signal, kill};

use crate::agents::{
    Job, PROGRAM, count_of, peak_memory_kib, pid_of, stderr_of, stdout_of, unique_sleep, wait_until,
};

/// The most memory that an agent or a caller may use, whatever passes through it. The streams' windows are 768 KiB
/// in total.
const MEMORY_LIMIT_KIB: u64 = 24 * 1024;
const LARGE: usize = 100 * 1024 * 1024;

#[test]
fn exit_codes_pass_through() {
    let job = Job::start(1);
    for (command, code) in [
        ("true", 0),
        ("exit 1", 1),
        ("exit 42", 42),
        ("exit 255", 255),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
        ("/no/such/program", 127),
        ("/etc/passwd", 126),
    ] {
        assert_eq!(job.call("w-0.job.ns.svc", command).status.code(), Some(code), "{command}");
    }
    let log = job.log(0);
    assert!(log.contains("kill ended with code 137") && log.contains(": true ended with code 0"), "{log}");
}

#[test]
fn options_of_ssh_change_nothing_and_words_are_joined() {
    let job = Job::start(1);
    let output = job
        .command("launcher")
        .args(["-x", "-o", "ConnectionAttempts=10", "-p", "22", "somebody@w-0", "echo", "a  b", "$((1+1))"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!((stdout_of(&output).as_str(), output.status.code()), ("a b 2\n", Some(0)));
}

#[test]
fn standard_input_its_end_and_both_outputs() {
    let job = Job::start(1);
    let mut child = job
        .command("launcher")
        .args(["w-0", "cat; echo to-stderr >&2; exit 3"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"through\0\xff\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"through\0\xff\n");
    assert_eq!((stderr_of(&output).as_str(), output.status.code()), ("to-stderr\n", Some(3)));

    let without = job.command("launcher").args(["-n", "w-0", "cat"]).stdin(Stdio::piped()).output().unwrap();
    assert_eq!((without.stdout.len(), without.status.code()), (0, Some(0)));
}

#[test]
fn a_hundred_mebibytes_pass_both_ways_in_little_memory() {
    let job = Job::start(1);
    let mut child = job
        .command("launcher")
        .args(["w-0", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let block: Vec<u8> = (0..1_048_576_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let sent = block.clone();
    let writer = thread::spawn(move || {
        (0..LARGE / sent.len()).for_each(|_| stdin.write_all(&sent).unwrap());
        stdin
    });
    let mut received = vec![0; block.len()];
    for index in 0..LARGE / block.len() {
        stdout.read_exact(&mut received).unwrap();
        assert!(received == block, "block {index} is not what was sent");
    }
    // Open until here: the call ends with its input, and a process that has ended says nothing of its memory.
    let stdin = writer.join().unwrap();
    let peaks = [peak_memory_kib(pid_of(&child)), peak_memory_kib(job.pid(0))];
    drop(stdin);
    assert_eq!(stdout.read(&mut received).unwrap(), 0);
    assert!(child.wait().unwrap().success());
    assert!(peaks.iter().all(|peak| *peak < MEMORY_LIMIT_KIB), "{peaks:?} KiB");
}

#[test]
fn a_reader_that_stops_blocks_the_writer_and_nothing_else() {
    let job = Job::start(1);
    // A size that no other test's writer has.
    let writer = format!("head -c {} /dev/zero", LARGE + std::process::id() as usize);
    let mut child = job
        .command("launcher")
        .args(["w-0", &format!("trap 'echo caught >&2; exit 9' USR1; {writer} & wait")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Nobody reads its output. A signal overtakes it nevertheless, and the trap's output comes back.
    wait_until("the writer runs", || count_of(&writer) > 0);
    kill(pid_of(&child), Signal::SIGUSR1).unwrap();
    let mut said = [0; 7];
    child.stderr.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"caught\n");
    assert!(peak_memory_kib(job.pid(0)) < MEMORY_LIMIT_KIB);
    // Meanwhile other calls continue.
    assert!(job.call("w-0", "true").status.success());
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[test]
fn a_command_sees_that_nobody_reads_its_output() {
    let job = Job::start(1);
    let mut child = job
        .command("launcher")
        .args(["w-0", "yes"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 100]).unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(128 + Signal::SIGPIPE as i32));
}

#[test]
fn signals_reach_every_process_of_the_group() {
    let job = Job::start(1);
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2] {
        let sleep = unique_sleep();
        let mut child =
            job.command("launcher").args(["w-0", &format!("{sleep} & {sleep}; true")]).spawn().unwrap();
        wait_until("both run", || count_of(&sleep) == 2);
        kill(pid_of(&child), signal).unwrap();
        let code = child.wait().unwrap().code();
        // A background process of a shell without job control ignores SIGINT.
        let spared = usize::from(signal == Signal::SIGINT);
        assert_eq!(code, Some(128 + signal as i32), "{signal}");
        wait_until("the group has ended", || count_of(&sleep) <= spared);
    }
}

#[test]
fn a_daemon_left_behind_does_not_hold_the_caller() {
    let job = Job::start(1);
    let sleep = unique_sleep();
    // It holds the pipes open, in a session of its own, as MPI daemons do.
    let output = job.call("w-0", &format!("setsid {sleep} & echo started; exit 5"));
    assert_eq!((stdout_of(&output).as_str(), output.status.code()), ("started\n", Some(5)));
    // It may still be `setsid` when the call ends.
    wait_until("the daemon lives on", || count_of(&sleep) == 1);
    drop(job);
    assert_eq!(count_of(&sleep), 0, "and ends with the agent");
}

#[test]
fn all_output_comes_before_the_exit_code() {
    let job = Job::start(1);
    for _ in 0..20 {
        let output = job.call("w-0", "head -c 300000 /dev/zero; head -c 70000 /dev/zero >&2");
        assert_eq!(
            (output.stdout.len(), output.stderr.len(), output.status.code()),
            (300_000, 70_000, Some(0))
        );
    }
}

#[test]
fn many_calls_at_once() {
    let job = Job::start(2);
    let callers: Vec<_> = (0..64)
        .map(|index| {
            let command = format!("echo {index}; exit {index}");
            job.command("launcher")
                .args([&format!("w-{}", index % 2), &command])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for (index, caller) in callers.into_iter().enumerate() {
        let output = caller.wait_with_output().unwrap();
        assert_eq!(
            (stdout_of(&output), output.status.code()),
            (format!("{index}\n"), i32::try_from(index).ok())
        );
    }
}

#[test]
fn ready_asks_the_agent_of_its_own_pod() {
    let job = Job::start(1);
    assert!(job.command("w-0").arg("ready").status().unwrap().success());
    let output = job.command("w-1").arg("ready").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr_of(&output).contains("no agent has announced itself"), "{}", stderr_of(&output));
    assert!(!job.log(0).contains("session"), "a probe is no session: {}", job.log(0));
}

#[test]
fn install_copies_a_program_that_runs() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("a/b");
    for _ in 0..2 {
        assert!(Command::new(PROGRAM).arg("install").arg(&target).status().unwrap().success());
    }
    let installed = target.join("odh-launch");
    assert_eq!(installed.metadata().unwrap().permissions().mode() & 0o777, 0o755);
    let version = Command::new(&installed).arg("version").output().unwrap();
    assert_eq!(stdout_of(&version), format!("odh-launch {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(target.read_dir().unwrap().count(), 1, "nothing unfinished is left");

    let output = Command::new(PROGRAM).args(["install", "/proc/nowhere"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr_of(&output).starts_with("odh-launch: cannot install into /proc/nowhere: "),
        "{}",
        stderr_of(&output)
    );
}
