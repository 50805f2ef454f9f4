//! Peers that are not permitted, broken or hostile: keys, garbage, silence, missing hosts.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::agents::{Job, PROGRAM, stderr_of, stdout_of, wait_until};

/// A caller's first message.
const HELLO: usize = 53;
/// The length of an agent's answer to an accepted caller.
const WELCOME: usize = 54;
/// How often a refused caller tries.
const TRIES_IF_REFUSED: usize = 6;
/// The most calls that an agent runs at once.
const SESSIONS: usize = 128;
/// Longer than the trial of a connection that has not proved the key.
const LONGEST_TRIAL: Duration = Duration::from_secs(25);

#[test]
fn a_wrong_key_is_refused_with_a_clear_word() {
    let job = Job::start(1);
    fs::write(job.path("other"), "another key").unwrap();
    let marker = job.path("marker");
    let output = job
        .command("launcher")
        .env("ODH_LAUNCH_KEY", job.path("other"))
        .args(["w-0.job.ns", &format!("touch {}", marker.display())])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(255));
    assert_eq!(
        stderr_of(&output),
        "odh-launch: w-0.job.ns: authentication failed: the key of this job does not match\n"
    );
    assert!(!marker.exists(), "nothing was run");
    wait_until("the agent has logged it", || job.log(0).contains("authentication failed"));
}

#[test]
fn an_agent_that_does_not_hold_the_key_is_refused() {
    let job = Job::start(0);
    // It answers "welcome" and some 48 bytes, and tries to obtain a command.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    fs::write(job.registry().join("w-0"), listener.local_addr().unwrap().to_string()).unwrap();
    let impostor = std::thread::spawn(move || {
        let mut told = Vec::new();
        for socket in listener.incoming().take(TRIES_IF_REFUSED) {
            let mut socket = socket.unwrap();
            socket.read_exact(&mut [0; HELLO]).unwrap();
            socket.write_all(&[b"ODHL\x01\x00".as_slice(), &[9; 48]].concat()).unwrap();
            socket.read_to_end(&mut told).unwrap();
        }
        told
    });
    let output = job.call("w-0", "secret command");
    assert_eq!(output.status.code(), Some(255));
    assert!(stderr_of(&output).contains("authentication failed"), "{}", stderr_of(&output));
    assert!(impostor.join().unwrap().is_empty(), "nothing was told");
}

#[test]
fn without_a_key_nothing_begins() {
    let job = Job::start(1);
    for (call, code) in [(&["w-0", "true"][..], 255), (&["serve"], 1), (&["ready"], 1)] {
        let output = job.command("w-5").env_remove("ODH_LAUNCH_KEY").args(call).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{call:?}");
        assert!(stderr_of(&output).contains("ODH_LAUNCH_KEY is not set"), "{}", stderr_of(&output));
        let output = job.command("w-5").env("ODH_LAUNCH_KEY", "/no/such/key").args(call).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{call:?}");
        assert!(stderr_of(&output).contains("/no/such/key"), "{}", stderr_of(&output));
    }
}

#[test]
fn hosts_that_do_not_come_up_are_named_with_the_reason() {
    let job = Job::start(0);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    fs::write(job.registry().join("refused"), free.to_string()).unwrap();
    let port = free.port();
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    fs::write(job.registry().join("stranger"), stranger.local_addr().unwrap().to_string()).unwrap();
    let serving = std::thread::spawn(move || {
        for socket in stranger.incoming().take(TRIES_IF_REFUSED) {
            let mut socket = socket.unwrap();
            socket.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
            // Until the caller closes.
            drop(socket.read_to_end(&mut Vec::new()));
        }
    });
    for (host, wanted) in [
        ("absent.job.ns", "Could not resolve hostname absent.job.ns: no agent has announced itself under this name (gave up after 1 s".to_owned()),
        ("refused.job.ns", format!("connect to host refused.job.ns (127.0.0.1) port {port}: Connection refused (gave up after 1 s")),
        ("stranger.job.ns", "stranger.job.ns: the peer is not a launch agent".to_owned()),
    ] {
        let timeout = if host.starts_with("stranger") { "20" } else { "1" };
        let output = job.command("launcher").env("ODH_LAUNCH_START_TIMEOUT", timeout).args([host, "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(255));
        assert!(stderr_of(&output).starts_with(&format!("odh-launch: {wanted}")), "{}", stderr_of(&output));
    }
    serving.join().unwrap();
}

#[test]
fn a_waiting_caller_names_the_host() {
    let job = Job::start(0);
    let begun = Instant::now();
    let mut caller = job.command("launcher");
    caller.env("ODH_LAUNCH_START_TIMEOUT", "11").args(["late.job.ns", "true"]).stdin(Stdio::null());
    let output = caller.output().unwrap();
    let said = stderr_of(&output);
    assert!(begun.elapsed() >= Duration::from_secs(11), "{:?}", begun.elapsed());
    assert!(
        said.starts_with(
            "odh-launch: waiting for late.job.ns (10 s of 11 s): Could not resolve hostname late.job.ns: "
        ),
        "{said}"
    );
    assert!(said.contains("(gave up after 11 s"), "{said}");
}

#[test]
fn an_address_without_registry_is_dialled_at_the_port() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    fs::write(&key, "key").unwrap();
    let program = || {
        let mut command = Command::new(PROGRAM);
        command
            .env("ODH_LAUNCH_KEY", &key)
            .env("ODH_LAUNCH_PORT", &free)
            .env("ODH_LAUNCH_START_TIMEOUT", "20");
        command.env_remove("ODH_LAUNCH_REGISTRY").stdin(Stdio::null());
        command
    };
    // The caller starts first and waits for the agent.
    let caller = program().args(["localhost", "echo up"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut agent = program().arg("serve").stderr(Stdio::null()).spawn().unwrap();
    let output = caller.wait_with_output().unwrap();
    let ready = program().arg("ready").status().unwrap();
    nix::sys::signal::kill(crate::agents::pid_of(&agent), nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(agent.wait().unwrap().success());
    assert_eq!((stdout_of(&output).as_str(), ready.success()), ("up\n", true));
}

#[test]
fn garbage_and_silent_connections_harm_nobody() {
    let job = Job::start(1);
    let address = job.address("w-0");
    // Far more than the agent keeps, all silent after a few bytes.
    let mut idle: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for (index, socket) in idle.iter_mut().enumerate() {
        // The agent may have dropped it for a newer one.
        drop(socket.write_all(&b"ODHL\x01ABCDEFG"[..index % 12]));
    }
    let mut garbage = TcpStream::connect(&address).unwrap();
    drop(garbage.write_all(&[0xff; 100_000]));
    assert!(job.call("w-0", "true").status.success(), "a caller with the key gets through");
    let limit = LONGEST_TRIAL;
    garbage.set_read_timeout(Some(limit)).unwrap();
    assert!(!matches!(garbage.read(&mut [0; 1]), Ok(1..)), "a stranger is told nothing");

    // The last ones were kept; their ten seconds pass now.
    let begun = Instant::now();
    let last = idle.last_mut().unwrap();
    last.set_read_timeout(Some(limit)).unwrap();
    assert!(!matches!(last.read(&mut [0; 1]), Ok(1..)));
    assert!(begun.elapsed() < LONGEST_TRIAL, "{:?}", begun.elapsed());
    let lines = job.log(0).lines().filter(|line| line.contains("refused 127.0.0.1")).count();
    assert!((1..=5).contains(&lines), "the log is not flooded:\n{}", job.log(0));
}

/// Returns a real caller's first message, as somebody on the network may record it.
fn recorded_hello(job: &Job) -> [u8; HELLO] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    fs::write(job.registry().join("recorder"), listener.local_addr().unwrap().to_string()).unwrap();
    let mut caller = job.command("launcher").args(["recorder", "true"]).stdin(Stdio::null()).spawn().unwrap();
    let mut hello = [0; HELLO];
    listener.accept().unwrap().0.read_exact(&mut hello).unwrap();
    caller.kill().unwrap();
    caller.wait().unwrap();
    hello
}

/// Sends a first message to an agent. Returns the socket, and whether the agent accepted it.
fn replay(address: &str, hello: &[u8; HELLO]) -> (TcpStream, bool) {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(LONGEST_TRIAL)).unwrap();
    let mut answer = [0; WELCOME];
    let answered = socket.write_all(hello).and_then(|()| socket.read_exact(&mut answer));
    (socket, answered.is_ok() && answer.starts_with(b"ODHL\x01\x00"))
}

#[test]
fn recorded_first_messages_take_no_sessions() {
    let job = Job::start(1);
    let (address, hello) = (job.address("w-0"), recorded_hello(&job));
    let mut replayed: Vec<TcpStream> = Vec::new();
    for _ in 0..2 * SESSIONS {
        let (mut socket, welcomed) = replay(&address, &hello);
        assert!(welcomed, "a recorded message cannot be told from a true one");
        // The length of a long record that never comes. The agent may have dropped the connection.
        drop(socket.write_all(&[0xff, 0xff]));
        replayed.push(socket);
    }
    let output = job.call("w-0", "echo run");
    assert_eq!(stdout_of(&output), "run\n", "{}", stderr_of(&output));
    let log = job.log(0);
    assert!(log.contains("session 1 from ") && !log.contains("session 2"), "{log}");
}

#[test]
fn slow_bytes_do_not_prolong_the_trial_of_a_recorded_first_message() {
    let job = Job::start(1);
    let (mut socket, welcomed) = replay(&job.address("w-0"), &recorded_hello(&job));
    assert!(welcomed);
    socket.write_all(&[0xff, 0xff]).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let begun = Instant::now();
    loop {
        match socket.read(&mut [0; 64]) {
            Ok(1..) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => break,
        }
        assert!(begun.elapsed() < LONGEST_TRIAL, "it was kept for {:?}", begun.elapsed());
        if socket.write_all(&[7]).is_err() {
            break;
        }
    }
}

#[test]
fn a_forged_refusal_does_not_end_a_caller() {
    let job = Job::start(1);
    let agent = job.address("w-0");
    let between = TcpListener::bind("127.0.0.1:0").unwrap();
    fs::write(job.registry().join("between"), between.local_addr().unwrap().to_string()).unwrap();
    let forger = std::thread::spawn(move || {
        for status in [1, 2] {
            let (mut socket, _) = between.accept().unwrap();
            socket.read_exact(&mut [0; HELLO]).unwrap();
            socket.write_all(&[b'O', b'D', b'H', b'L', 1, status]).unwrap();
            drop(socket.read_to_end(&mut Vec::new()));
        }
        let (caller, _) = between.accept().unwrap();
        let agent = TcpStream::connect(agent).unwrap();
        let (mut from, mut to) = (caller.try_clone().unwrap(), agent.try_clone().unwrap());
        let there = std::thread::spawn(move || drop(std::io::copy(&mut from, &mut to)));
        drop(std::io::copy(&mut &agent, &mut &caller));
        drop(caller.shutdown(std::net::Shutdown::Both));
        drop(agent.shutdown(std::net::Shutdown::Both));
        there.join().unwrap();
    });
    let output = job.call("between", "echo through");
    assert_eq!(stdout_of(&output), "through\n", "{}", stderr_of(&output));
    forger.join().unwrap();
}

#[test]
fn a_caller_of_another_version_gets_a_clear_refusal() {
    let job = Job::start(1);
    let mut socket = TcpStream::connect(job.address("w-0")).unwrap();
    socket.write_all(b"ODHL\x07").unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"ODHL\x01\x02");
}

#[test]
fn a_command_that_is_too_long_is_refused_here() {
    let job = Job::start(1);
    let long = "x".repeat(100_000);
    let output =
        job.command("launcher").args(["w-0", ":", &long, &long]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(255));
    assert!(stderr_of(&output).contains("a shell accepts at most"), "{}", stderr_of(&output));
    let output = job
        .command("launcher")
        .args(["w-0", "echo", &long, "|", "wc", "-c"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(stdout_of(&output).trim(), "100001");
}
