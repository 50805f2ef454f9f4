//! Two teams' jobs run side by side; an isolated one accepts connections only from its own ranks.

use stories::{Home, Job, quoted, record, within};

use crate::failures::{PATIENCE, create};

/// Each rank listens, and reports once it has reached the other.
const RANKS: &str = "import os, socket, threading, time
rank, job = int(os.environ['OMPI_COMM_WORLD_RANK']), os.environ['JOB']
server = socket.create_server(('', 7000))
def serve():
    while True: server.accept()[0].close()
threading.Thread(target=serve, daemon=True).start()
other = f'{job}-worker-{1 - rank}.{job}'
while True:
    try:
        socket.create_connection((other, 7000), timeout=1).close()
        break
    except OSError:
        time.sleep(0.2)
print('rank', rank, 'reached', other, flush=True)
time.sleep(600)";
/// Succeeds only if it can connect.
const REACH: &str = "import socket, sys; socket.create_connection((sys.argv[1], 7000), timeout=2)";

fn job(name: &'static str, annotations: &'static str) -> Job {
    let environment = format!("env: [{{name: JOB, value: {name}}}]");
    let mut job = Job::new(name, &format!("[-n, '2', -x, JOB, python3, -c, {}]", quoted(RANKS)));
    (job.annotations, job.launcher, job.worker) = (annotations, environment.clone(), environment);
    job
}

#[test]
fn an_isolated_job_is_reached_by_its_own_ranks_only() {
    let home = Home::with_cluster("isolation");
    if home.mode() == "plain" {
        record("isolation", "pods share the machine's network here", true);
        return;
    }
    let jobs = [job("walled", "training.opendatahub.io/network-policy: isolated"), job("open", "")];
    create(&home, &jobs);
    for name in ["walled", "open"] {
        for rank in 0..2 {
            let said = format!("rank {rank} reached {name}-worker-{}.{name}", 1 - rank);
            within(PATIENCE, &said, || {
                home.odh(&["training", "logs", "mpijob", name]).stdout.contains(&said).then_some(())
            });
        }
    }
    let events =
        home.kubectl(&["get", "events", "-o", "name", "--field-selector", "reason=NetworkPolicyNotEnforced"]);
    if !events.ended(0).stdout.trim().is_empty() {
        record("isolation", "policies are not enforced here", true);
        return;
    }
    let reach = |from: &str, to: &str| {
        home.kubectl(&["exec", from, "-c", "mpi", "--", "python3", "-c", REACH, to]).code == 0
    };
    assert!(reach("open-worker-0", "open-worker-1.open"), "the program finds who can be reached");
    assert!(reach("walled-worker-0", "walled-worker-1.walled"), "own ranks reach each other");
    assert!(
        reach("walled-worker-0", "open-worker-0.open"),
        "what an isolated job connects to is not restricted"
    );
    for worker in ["walled-worker-0.walled", "walled-worker-1.walled"] {
        assert!(!reach("open-worker-0", worker), "{worker} was reached by another job");
    }
}
