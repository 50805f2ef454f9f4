//! Real MPI launchers with the agent in place of ssh.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};

use crate::agents::{Job, count_of, processes, stderr_of, stdout_of, unique_sleep, wait_until};

/// `mpirun` of Open MPI 4 (Debian's `openmpi-bin`) over three agents with two slots each.
fn mpirun(job: &Job, options: &[&str], program: &[&str]) -> Command {
    let hostfile = job.path("hostfile");
    fs::write(&hostfile, "w-0 slots=2\nw-1 slots=2\nw-2 slots=2\n").unwrap();
    let mut command = Command::new("mpirun");
    job.put_into(&mut command);
    command.env("OMPI_MCA_plm_rsh_agent", crate::agents::PROGRAM).env("TMPDIR", job.directory.path());
    command.args(["--allow-run-as-root", "--hostfile"]).arg(hostfile).args(options).args(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(mut command: Command) -> Output {
    command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error}; install openmpi-bin, or see `cargo xtask test`")
    })
}

const SAY: &str = "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $ODH_POD_NAME";

fn sorted_lines(output: &Output) -> Vec<String> {
    let mut lines: Vec<String> = stdout_of(output).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn open_mpi_starts_ranks_on_every_host_with_and_without_tree() {
    let job = Job::start(3);
    let wanted: Vec<String> = (0..6).map(|rank| format!("rank {rank} of 6 on w-{}", rank / 2)).collect();
    for options in [
        &[][..],
        &["--mca", "plm_rsh_no_tree_spawn", "1"],
        // The first host starts the second, the second the third.
        &["--mca", "routed", "radix", "--mca", "routed_radix", "1", "--mca", "plm_rsh_num_concurrent", "1"],
        &["--mca", "orte_leave_session_attached", "1"],
        &["--mca", "plm_rsh_args", "-o ConnectionAttempts=10"],
    ] {
        let output = run(mpirun(&job, options, &["sh", "-c", SAY]));
        assert_eq!(output.status.code(), Some(0), "{options:?}: {}", stderr_of(&output));
        assert_eq!(sorted_lines(&output), wanted, "{options:?}");
    }
    let agents: Vec<i32> = (0..3).map(|index| job.pid(index).as_raw()).collect();
    wait_until("no daemon is left", || !processes().iter().any(|p| agents.contains(&p.parent)));
}

/// Checks that each agent reports which ranks ran on it, although they print nothing.
fn told_of_ranks(job: &Job) {
    for index in 0..3 {
        let wanted = format!("odh-launch: ranks {}-{} of 6 ran here\n", 2 * index, 2 * index + 1);
        wait_until(&format!("agent {index} says: {wanted}"), || job.log(index).contains(&wanted));
        assert!(job.log(index).contains(" begins\n"), "{}", job.log(index));
    }
}

#[test]
fn ranks_that_print_nothing_are_seen() {
    let job = Job::start(3);
    let output = run(mpirun(&job, &[], &["sleep", "3"]));
    assert_eq!((output.status.code(), stdout_of(&output).as_str()), (Some(0), ""), "{}", stderr_of(&output));
    told_of_ranks(&job);
    let job = Job::start(3);
    let output = hydra(&job, &["sleep", "3"]);
    assert_eq!((output.status.code(), stdout_of(&output).as_str()), (Some(0), ""), "{}", stderr_of(&output));
    told_of_ranks(&job);
}

#[test]
fn open_mpi_passes_on_the_exit_code_of_a_rank() {
    let job = Job::start(3);
    let output = run(mpirun(&job, &[], &["sh", "-c", "[ $OMPI_COMM_WORLD_RANK = 4 ] && exit 3; sleep 600"]));
    assert_eq!(output.status.code(), Some(3), "{}", stderr_of(&output));
}

#[test]
fn open_mpi_that_is_killed_leaves_nothing() {
    let job = Job::start(3);
    let sleep = unique_sleep();
    let (program, seconds) = sleep.split_once(' ').unwrap();
    let mut child = mpirun(&job, &[], &[program, seconds]).spawn().unwrap();
    let ranks = || count_of(&sleep);
    wait_until("all ranks run", || ranks() == 6);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("no rank is left", || ranks() == 0);
}

/// Answers SIGTERM by saving its state, which takes longer than an MPI launcher waits before it kills. It ends only once
/// all have saved, as ranks that finalize MPI do.
fn saver(job: &Job, rank: &str, ranks: usize) -> String {
    let folder = job.directory.path().display();
    format!(
        "trap 'sleep 3.5; touch {folder}/saved-${rank}; until [ $(ls {folder} | grep -c saved-) = {ranks} ]; do sleep 0.1; \
         done; exit 143' TERM; touch {folder}/ready-${rank}; while :; do sleep 0.1; done"
    )
}

fn count_files(job: &Job, prefix: &str) -> usize {
    let entries = fs::read_dir(job.directory.path()).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(prefix)).count()
}

#[test]
fn ranks_save_their_state_when_all_agents_are_stopped() {
    let mut job = Job::start_with(3, &[("ODH_LAUNCH_GRACE", "30")]);
    let saver = saver(&job, "OMPI_COMM_WORLD_RANK", 6);
    let mut child = mpirun(&job, &[], &["sh", "-c", &saver]).spawn().unwrap();
    wait_until("all ranks run", || count_files(&job, "ready-") == 6);
    let begun = Instant::now();
    (0..3).for_each(|index| kill(job.pid(index), Signal::SIGTERM).unwrap());
    for agent in &mut job.agents {
        assert_eq!(agent.process.wait().unwrap().code(), Some(0));
    }
    assert_eq!(count_files(&job, "saved-"), 6, "after {:?}", begun.elapsed());
    assert!(begun.elapsed().as_secs() < 20, "the agents end with their ranks: {:?}", begun.elapsed());
    child.wait().unwrap();
}

#[test]
fn ranks_save_their_state_before_mpirun_is_stopped() {
    let job = Job::start_with(3, &[]);
    let options =
        ["--mca", "routed", "radix", "--mca", "routed_radix", "1", "--mca", "plm_rsh_num_concurrent", "1"];
    for options in [&[][..], &options] {
        for file in fs::read_dir(job.directory.path()).unwrap().map(Result::unwrap) {
            let name = file.file_name().to_string_lossy().into_owned();
            if name.starts_with("saved-") || name.starts_with("ready-") {
                fs::remove_file(file.path()).unwrap();
            }
        }
        let saver = saver(&job, "OMPI_COMM_WORLD_RANK", 6);
        let mut child = mpirun(&job, options, &["sh", "-c", &saver]);
        let mut child = child.env("ODH_POD_NAME", "launcher").spawn().unwrap();
        wait_until("all ranks run", || count_files(&job, "ready-") == 6);
        let mut drain = job.command("launcher");
        assert!(drain.arg("drain").env("ODH_LAUNCH_GRACE", "30").status().unwrap().success());
        assert_eq!(count_files(&job, "saved-"), 6, "{options:?}");
        assert!(!child.wait().unwrap().success());
    }
}

#[test]
fn a_launcher_without_ranks_is_drained_at_once_and_one_with_stubborn_ranks_in_time() {
    let job = Job::start(3);
    let begun = Instant::now();
    assert!(job.command("launcher").arg("drain").status().unwrap().success());
    assert!(begun.elapsed().as_secs() < 2, "{:?}", begun.elapsed());
    let sleep = unique_sleep();
    let program = format!("trap '' TERM; {sleep}");
    let mut child = mpirun(&job, &[], &["sh", "-c", &program]);
    let mut child = child.env("ODH_POD_NAME", "launcher").spawn().unwrap();
    wait_until("all ranks run", || count_of(&sleep) == 6);
    let begun = Instant::now();
    assert!(job.command("launcher").arg("drain").status().unwrap().success());
    assert!((2..6).contains(&begun.elapsed().as_secs()), "half of six seconds: {:?}", begun.elapsed());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn open_mpi_names_a_host_that_does_not_come_up() {
    let mut job = Job::start(3);
    job.agents.remove(2).process.kill().unwrap();
    fs::remove_file(job.registry().join("w-2")).unwrap();
    let mut command = mpirun(&job, &["--mca", "plm_rsh_no_tree_spawn", "1"], &["true"]);
    command.env("ODH_LAUNCH_START_TIMEOUT", "1");
    let output = run(command);
    assert_ne!(output.status.code(), Some(0));
    let said = stderr_of(&output);
    assert!(
        said.contains("odh-launch: Could not resolve hostname w-2: no agent has announced itself"),
        "{said}"
    );
}

/// MPICH's hydra (PyPI's wheel, `examples/requirements-mpich.txt`).
fn hydra(job: &Job, program: &[&str]) -> Output {
    let environment = std::env::var_os("ODH_MPICH_ENVIRONMENT").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/environments/mpich"),
        PathBuf::from,
    );
    let hostfile = job.path("hostfile");
    fs::write(&hostfile, "w-0:2\nw-1:2\nw-2:2\n").unwrap();
    let mut command = Command::new(environment.join("bin/mpiexec.hydra"));
    job.put_into(&mut command);
    command
        .env("HYDRA_LAUNCHER", "ssh")
        .env("HYDRA_LAUNCHER_EXEC", crate::agents::PROGRAM)
        .env("HYDRA_HOST_FILE", hostfile);
    command.args(["-n", "6"]).args(program).stdin(Stdio::null());
    command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; `cargo xtask test` makes this environment"))
}

#[test]
fn hydra_starts_ranks_on_every_host() {
    let job = Job::start(3);
    let output = hydra(&job, &["sh", "-c", "echo rank $PMI_RANK of $PMI_SIZE"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr_of(&output));
    let wanted: Vec<String> = (0..6).map(|rank| format!("rank {rank} of 6")).collect();
    assert_eq!(sorted_lines(&output), wanted);
    for index in 0..3 {
        assert!(job.log(index).contains("hydra_pmi_proxy"), "each host was called: {}", job.log(index));
    }
}

#[test]
fn hydra_passes_on_a_failure() {
    let job = Job::start(3);
    let output = hydra(&job, &["sh", "-c", "exit 3"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr_of(&output));
}
