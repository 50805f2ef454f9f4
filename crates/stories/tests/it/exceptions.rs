//! Somebody's Python program raises an exception in one rank while the other ranks wait for it: the commonest failure of
//! mpi4py, and one that no exit code shows.

use std::time::Duration;

use jiff::Timestamp;
use stories::{EXAMPLES_IMAGE, Home, within};

use crate::failures::{PATIENCE, fails, status};

const PROGRAM: &str = "from mpi4py import MPI
world = MPI.COMM_WORLD
world.Barrier()
if world.rank == 1: {}['missing']
world.Barrier()";
/// From when all ranks run until the cause is named.
const AT_MOST: Duration = Duration::from_secs(15);

#[test]
fn an_exception_in_one_rank_is_named_within_seconds_while_the_others_wait() {
    let home = Home::with_cluster("exceptions");
    let create = |name: &str, python: &[&str]| {
        let job = ["training", "create", "mpijob", name, "--workers", "4", "--image", EXAMPLES_IMAGE, "--"];
        home.odh(&[&job, python].concat()).ended(0);
    };
    create("boom", &["python3", "-c", PROGRAM]);
    let stalled = within(PATIENCE, "the cause is named", || {
        let conditions = status(&home, "boom")["conditions"].as_array()?.clone();
        let of = |type_: &str| {
            let found = conditions.iter().find(|it| it["type"] == type_ && it["status"] == "True")?;
            Some((found["lastTransitionTime"].as_str()?.parse::<Timestamp>().ok()?, found["reason"].clone()))
        };
        Some((of("Running")?.0, of("Stalled")?))
    });
    let (running, (named, reason)) = stalled;
    assert_eq!(reason, "PythonException");
    assert!(Duration::try_from(named.duration_since(running)).unwrap() <= AT_MOST, "{running} {named}");
    home.odh(&["training", "list"]).ended(0).says("Running (PythonException)");
    home.odh(&["training", "explain", "mpijob", "boom"])
        .ended(0)
        .says("raised KeyError: 'missing'")
        .says("python -m mpi4py")
        .says("Traceback (most recent call last)");
    home.odh(&["training", "wait", "mpijob", "boom", "--timeout", "2s"]).ended(8).says("KeyError: 'missing'");
    // What the advice says cures it.
    create("cured", &["python3", "-m", "mpi4py", "-c", PROGRAM]);
    fails(&home, "cured", "RankAborted", Some(1), "KeyError: 'missing'");
}

#[test]
fn a_failed_job_shows_what_its_rank_said_last_even_when_its_pods_are_gone() {
    let home = Home::with_cluster("exceptions::last_lines");
    let line = "if [ $OMPI_COMM_WORLD_RANK = 1 ]; then sleep 1; echo the data set is missing, giving up; exit 3; fi; sleep 300";
    let job =
        ["training", "create", "mpijob", "fails", "--workers", "2", "--image", EXAMPLES_IMAGE, "--wait"];
    home.odh(&[&job[..], &["--", "sh", "-c", line]].concat())
        .ended(100)
        .says("the data set is missing, giving up");
    assert_eq!(status(&home, "fails")["attempts"][0]["launcherFailures"], 1, "it is not tried again");
    for verb in ["explain", "describe"] {
        home.odh(&["training", verb, "mpijob", "fails"]).ended(0).says("the data set is missing, giving up");
    }
    home.kubectl(&["delete", "pods", "--all"]).ended(0);
    home.odh(&["training", "explain", "mpijob", "fails"]).ended(0).says("the data set is missing, giving up");
}
