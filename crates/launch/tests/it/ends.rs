//! Endings: callers that vanish, agents that are stopped, processes that nobody waits for.

use std::process::Stdio;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};

use crate::agents::{Job, count_of, pid_of, processes, stderr_of, unique_sleep, wait_until};

#[test]
fn a_caller_that_is_killed_takes_its_processes_with_it() {
    let job = Job::start(1);
    let sleep = unique_sleep();
    // One in the group, one that ignores SIGTERM, one in a session of its own.
    let command = format!("{sleep} & (trap '' TERM; exec {sleep}) & setsid {sleep} & wait");
    let mut child = job.command("launcher").args(["w-0", &command]).stdin(Stdio::null()).spawn().unwrap();
    wait_until("all three run", || count_of(&sleep) == 3);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("all three have ended", || count_of(&sleep) == 0);
    assert!(job.log(0).contains("lost its caller"), "{}", job.log(0));
    assert!(job.call("w-0", "true").status.success(), "the agent lives on");
}

#[test]
fn no_process_is_left_unreaped() {
    let job = Job::start(1);
    for _ in 0..10 {
        // Grandchildren whose parent has ended become the agent's.
        assert!(job.call("w-0", "(setsid sh -c 'sleep 0.01' &) ; (sleep 0.02 &) ; true").status.success());
    }
    let agent = job.pid(0).as_raw();
    wait_until("all children of the agent are gone", || !processes().iter().any(|p| p.parent == agent));
}

#[test]
fn an_agent_that_is_stopped_ends_everything_in_order() {
    let mut job = Job::start(1);
    let (gentle, stubborn) = (unique_sleep(), unique_sleep());
    let gentle_call = job
        .command("launcher")
        .args(["w-0", &format!("trap 'echo bye >&2; exit 4' TERM; {gentle} & wait")])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stubborn_call = job
        .command("launcher")
        .args(["w-0", &format!("trap '' TERM; {stubborn}; {stubborn}")])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("both run", || count_of(&gentle) > 0 && count_of(&stubborn) > 0);
    let begun = Instant::now();
    kill(job.pid(0), Signal::SIGTERM).unwrap();
    let status = job.agents[0].process.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    assert_eq!((count_of(&gentle), count_of(&stubborn)), (0, 0));
    let gentle_output = gentle_call.wait_with_output().unwrap();
    assert_eq!((stderr_of(&gentle_output).as_str(), gentle_output.status.code()), ("bye\n", Some(4)));
    assert_eq!(stubborn_call.wait().unwrap().code(), Some(137));
    assert!(!job.registry().join("w-0").exists(), "the announcement is gone");
}

#[test]
fn an_idle_agent_that_is_stopped_ends_at_once() {
    let mut job = Job::start(1);
    let begun = Instant::now();
    kill(job.pid(0), Signal::SIGTERM).unwrap();
    assert_eq!(job.agents[0].process.wait().unwrap().code(), Some(0));
    assert!(begun.elapsed().as_secs() < 3, "{:?}", begun.elapsed());
}

#[test]
fn an_agent_that_is_killed_ends_the_call_with_255() {
    let mut job = Job::start(1);
    let sleep = unique_sleep();
    let child = job
        .command("launcher")
        .args(["w-0", &format!("exec {sleep}")])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let sleeper = format!("{sleep} ");
    let left = || processes().into_iter().find(|p| p.command_line == sleeper);
    wait_until("it runs", || left().is_some());
    job.agents[0].process.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(255));
    assert!(stderr_of(&output).starts_with("odh-launch: w-0: connection lost: "), "{}", stderr_of(&output));
    // In a pod the agent is process 1, and nothing outlives it. Here its child does.
    left().iter().for_each(|p| kill(nix::unistd::Pid::from_raw(p.pid), Signal::SIGKILL).unwrap());
}

#[test]
fn a_frozen_caller_is_distinguished_from_a_slow_one() {
    let job = Job::start_with(1, &[("ODH_LAUNCH_PEER_TIMEOUT", "3")]);
    let (slow, frozen) = (unique_sleep(), unique_sleep());
    let start = |command: &str| {
        let mut call = job.command("launcher");
        call.env("ODH_LAUNCH_PEER_TIMEOUT", "3").args(["w-0", command]).stdin(Stdio::null());
        call.spawn().unwrap()
    };
    let mut slow_call = start(&slow);
    let mut frozen_call = start(&format!("exec {frozen}"));
    let frozen_runs = || count_of(&frozen) > 0;
    wait_until("both run", || count_of(&slow) > 0 && frozen_runs());
    kill(pid_of(&frozen_call), Signal::SIGSTOP).unwrap();
    wait_until("what the frozen caller ran has ended", || !frozen_runs());
    assert!(slow_call.try_wait().unwrap().is_none(), "nothing to say is no sign of death");
    assert!(job.log(0).contains("nothing heard from the caller for 3 s"), "{}", job.log(0));
    for call in [&mut frozen_call, &mut slow_call] {
        call.kill().unwrap();
        call.wait().unwrap();
    }
}

#[test]
fn a_pause_of_both_sides_ends_no_call() {
    let job = Job::start_with(1, &[("ODH_LAUNCH_PEER_TIMEOUT", "4")]);
    let sleep = unique_sleep();
    let mut call = job.command("launcher");
    call.env("ODH_LAUNCH_PEER_TIMEOUT", "4").args(["w-0", &format!("{sleep} & wait")]).stdin(Stdio::null());
    let mut call = call.spawn().unwrap();
    wait_until("it runs", || count_of(&sleep) > 0);
    let all = [job.pid(0), pid_of(&call)];
    all.iter().for_each(|process| kill(*process, Signal::SIGSTOP).unwrap());
    let begun = Instant::now();
    wait_until("twice the time of a silent peer has passed", || begun.elapsed().as_secs() >= 8);
    all.iter().for_each(|process| kill(*process, Signal::SIGCONT).unwrap());
    let begun = Instant::now();
    wait_until("they have had time to notice", || begun.elapsed().as_secs() >= 6);
    assert!(call.try_wait().unwrap().is_none(), "{}", job.log(0));
    assert!(count_of(&sleep) > 0, "{}", job.log(0));
    call.kill().unwrap();
    call.wait().unwrap();
}
