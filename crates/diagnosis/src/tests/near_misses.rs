//! Text that resembles a cause but is not one, next to text that is: an unknown cause stays unknown.

use super::super::{Confidence, Ending, Output, Warning, warnings};
use super::{of, word};

/// How each launcher reports that it could not start its daemons.
const NOT_LAUNCHED: [(&str, i32); 4] = [
    ("ORTE was unable to reliably start one or more daemons.\n", 255),
    (
        "------------------------------------------------------------\nA daemon failed to report back after being spawned. This could\n\n  Local host:    train-launcher\n  Remote host:   train-worker-1\n  Daemon exit status: 1\n",
        1,
    ),
    ("[mpiexec@train-launcher] ui_cmd_cb (mpiexec/pmiserv_pmci.c:51): Launch proxy failed.\n", 255),
    (
        "[mpiexec@train-launcher] Error: Unable to run bstrap_proxy on train-worker-1 (pid 892, exit code 256)\n[mpiexec@train-launcher] 3. Firewall refused connection.\n",
        255,
    ),
];

/// Messages of programs that are called in place of ssh.
const TRANSPORTS: [(&str, &str); 26] = [
    (
        "ConnectionRefused",
        "Error from server: error dialing backend: dial tcp 10.0.0.7:10250: connect: connection refused",
    ),
    ("ConnectionRefused", "ConnectionRefusedError: [Errno 111] Connection refused"),
    ("ConnectionRefused", "bash: connect: Connection refused"),
    (
        "ConnectionRefused",
        "dbclient: Connection to root@train-worker-1:22 exited: Connect failed: Connection refused",
    ),
    (
        "ConnectionRefused",
        "2026/11/22 06:57:20 socat[1266] E connect(5, AF=2 10.77.0.5:7999, 16): Connection refused",
    ),
    ("ConnectionRefused", "pdsh@launcher: train-worker-1: connect: Connection refused"),
    ("ConnectionRefused", "ERROR: CONNECTION REFUSED by train-worker-1"),
    ("ConnectionRefused", "Error: connect ECONNREFUSED 10.0.0.9:2376"),
    ("ConnectionRefused", "Ncat: Connection refused."),
    ("ConnectionTimeout", "error: unable to upgrade connection: dial tcp 10.0.0.7:10250: i/o timeout"),
    ("ConnectionTimeout", "java.net.ConnectException: Connection timed out (Connection timed out)"),
    ("ConnectionTimeout", "INFO launcher: SSH: CONNECT TO HOST train-worker-1 PORT 22: CONNECTION TIMED OUT"),
    ("ConnectionTimeout", "TimeoutError: [Errno 110] Connection timed out"),
    ("ConnectionTimeout", "ssh wrapper: connecting to train-worker-1 timed out after 5 s"),
    ("PeerUnreachable", "rsh: train-worker-1: No route to host"),
    ("PeerUnreachable", "train-worker-1: Host is down"),
    ("PeerUnreachable", "OSError: [Errno 101] Network is unreachable"),
    (
        "HostUnresolvable",
        "dbclient: Connection to root@w-1:22 exited: Connect failed: Error resolving 'w-1' port '22'. Name or service not known",
    ),
    (
        "HostUnresolvable",
        "error during connect: dial tcp: lookup train-worker-1 on 10.0.0.10:53: no such host",
    ),
    ("HostUnresolvable", "train-worker-1: Unknown host"),
    ("HostUnresolvable", "socket.gaierror: [Errno -3] Temporary failure in name resolution"),
    ("AuthenticationFailed", "train-worker-1: permission denied (publickey)"),
    ("AuthenticationFailed", "paramiko.ssh_exception.AuthenticationException: Authentication failed."),
    (
        "AuthenticationFailed",
        "ssh: handshake failed: ssh: unable to authenticate, attempted methods [none publickey], no supported methods remain",
    ),
    ("HostKeyMismatch", "dbclient: Connection to root@w-1:22 exited: Host key mismatch for w-1"),
    ("HostKeyMismatch", "error: host key verification failed for train-worker-1"),
];

#[test]
fn a_transport_may_use_its_own_words_where_the_launch_failed() {
    for (cause, line) in TRANSPORTS {
        for (report, code) in NOT_LAUNCHED {
            for text in [format!("{line}\n{report}"), format!("{report}{line}\n")] {
                let found = of(&text, Ending::Exited(code)).unwrap();
                assert_eq!(found.cause.word(), cause, "{text}{found:#?}");
            }
        }
    }
}

#[test]
fn the_same_words_mean_nothing_where_the_launch_did_not_fail() {
    for (cause, line) in TRANSPORTS.into_iter().filter(|(_, line)| !line.starts_with("INFO")) {
        let found = of(&format!("{line}\nstep 3\n"), Ending::Exited(1)).unwrap();
        assert_eq!((found.cause.word(), found.confidence), ("Unknown", Confidence::Low), "{cause}: {line}");
        let exited = "prterun detected that one or more processes exited with non-zero status,\nthus causing the job to be terminated. The first process to do so was:\n\n   Process name: [prterun-l-1-17@1,1]\n   Exit code:    3\n";
        assert_eq!(word(&format!("{line}\n{exited}"), Ending::Exited(3)), "RankExited", "{line}");
    }
}

#[test]
fn words_that_only_resemble_a_transports_stay_unknown() {
    for line in [
        "[1,0]<stderr>:metrics: Connection refused",
        "the reviewer refused the request, connection: keep-alive",
        "training timed out after 3 epochs",
        "timeout: 30 s for each connection",
        "the route to the host was computed",
        "resolved train-worker-1 to 10.0.0.7",
        "Permission denied, please try again.",
        "permission denied (os error 13)",
        "mkdir: Permission denied (13)",
        "authentication is off",
        "Adding the host key for train-worker-1 to the list of known hosts",
        "odh-launch: waiting for train-worker-1 (10 s of 600 s): connect to host train-worker-1 (10.0.0.7) port 7222: Connection refused (os error 111)",
    ] {
        for (report, code) in NOT_LAUNCHED {
            let found = of(&format!("{line}\n{report}"), Ending::Exited(code)).unwrap();
            assert_eq!(found.cause.word(), "Unknown", "{line}: {found:#?}");
        }
    }
}

#[test]
fn complaints_in_a_successful_run_are_notes_and_not_failures() {
    let complaint = "WARNING: An invalid value was given for btl_tcp_if_exclude.  This\nvalue will be ignored.\n\n  Local host: w-0\n  Value:      ib0\n";
    let text = format!("rank 0 begins\n{complaint}{complaint}done\n");
    assert_eq!(of(&text, Ending::Exited(0)), None);
    let message = "There is no network interface ib0 on w-0".to_owned();
    assert_eq!(warnings(&Output::from(text.as_str())), [Warning { message, line: 2 }]);
    let by_rank: String = complaint.lines().map(|line| format!("[1,0]<stderr>:{line}\n")).collect();
    for silent in
        [by_rank.as_str(), "ssh: connect to host db port 22: Connection refused\nretry 2: connected\n", ""]
    {
        assert_eq!(warnings(&Output::from(silent)), [], "{silent}");
    }
}

/// Exit code, cause and output. In each pair the first names its cause; the second only resembles it.
const NEAR_MISSES: &[(i32, &str, &str)] = &[
    // Hydra's proxies
    (
        255,
        "DaemonLost",
        "[mpiexec@l] Error: Downstream from host w-1 exited abnormally\n[mpiexec@l] wait_proxies_to_terminate (i_mpiexec.c:554): downstream from host w-1 exited with status 137\n",
    ),
    (
        255,
        "Unknown",
        "[mpiexec@l] Error: Downstream from host w-1 exited abnormally\n[mpiexec@l] wait_proxies_to_terminate (i_mpiexec.c:554): downstream from host w-1 exited with status 1\n",
    ),
    (
        7,
        "RankExited",
        "[mpiexec@l] Error: Downstream from host w-1 exited abnormally\n[mpiexec@l] wait_proxies_to_terminate (i_mpiexec.c:554): downstream from host w-1 exited with status 137\n",
    ),
    (255, "DaemonLost", "[mpiexec@l] control_cb (pmiserv_cb.c:280): assert (!closed) failed\n"),
    (255, "Unknown", "control_cb (worker.c:280): assert (!closed) failed\n"),
    // No nodes
    (
        1,
        "BadHostfile",
        "No nodes are available for this job, either due to a failure to\nallocate nodes to the job, or allocated nodes being marked\n",
    ),
    (1, "Unknown", "No nodes are available in the search tree\n0/3 nodes of the graph are available\n"),
    (
        213,
        "NotEnoughSlots",
        "Your job failed to map. Either no mapper was available, or none\nof the available mappers was able to perform the requested\nmapping operation.\n\n  Mapper result:       Out of resource\n",
    ),
    (
        213,
        "Unknown",
        "Your job failed to map. Either no mapper was available, or none\nof the available mappers was able to perform the requested\nmapping operation.\n\n  Mapper result:       Not found\n",
    ),
    // Intel MPI kills the other ranks
    (
        255,
        "RankCrashed",
        "train:64 terminated with signal 11 at PC=563f93424366 SP=7ffce0738780.  Backtrace:\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 0 PID 63 RUNNING AT w-0\n=   KILLED BY SIGNAL: 9 (Killed)\n",
    ),
    (
        255,
        "RankKilled",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 0 PID 63 RUNNING AT w-0\n=   KILLED BY SIGNAL: 9 (Killed)\n",
    ),
    (255, "Unknown", "the sentence is terminated with signal 11 at position 3\n"),
    // Signals of limits
    (
        152,
        "Terminated",
        "mpirun noticed that process rank 1 with PID 6 on node w-1 exited on signal 24 (CPU time limit exceeded).\n",
    ),
    (
        1,
        "Unknown",
        "the watcher noticed that process rank 1 with PID 6 on node w-1 exited on time, signal handler 24\n",
    ),
    (
        255,
        "Terminated",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 1 PID 63 RUNNING AT w-0\n=   KILLED BY SIGNAL: 25 (File size limit exceeded)\n",
    ),
    (1, "Unknown", "=   KILLED BY SIGNAL: 25 (File size limit exceeded)\n"),
    // An internal error of MPI is a consequence of what was said before
    (
        1,
        "BadInterface",
        "WARNING: An invalid value was given for btl_tcp_if_include.  This\nvalue will be ignored.\n\n  Local host: w-0\n  Value:      ib7\n--------------------------------------------------------------------------\nmpi4py.MPI.Exception: MPI_ERR_INTERN: internal error\n",
    ),
    (1, "MpiError", "mpi4py.MPI.Exception: MPI_ERR_INTERN: internal error\n"),
    // PRRTE reports every abort in the same words
    (
        6,
        "MpiError",
        "[w-0:00000] *** An error occurred in MPI_Send\n[w-0:00000] *** MPI_ERR_RANK: invalid rank\n--------------------------------------------------------------------------\nprterun has exited due to process rank 1 with PID 0 on node w-0 calling\n\"abort\". This may have caused other processes in the application to be\n",
    ),
    (
        6,
        "RankAborted",
        "prterun has exited due to process rank 1 with PID 0 on node w-0 calling\n\"abort\". This may have caused other processes in the application to be\n",
    ),
    // A missing program, and a missing directory
    (
        183,
        "ExecutableNotFound",
        "prterun was unable to launch the specified application as it could not\naccess an executable:\n\n   Executable: /no/such/train\n   Node: w-0\n",
    ),
    (
        183,
        "ExecutableNotPermitted",
        "prterun was unable to launch the specified application as it could not\naccess an executable:\n\n   Executable: /workspace/train.py\n   Node: w-0\n",
    ),
    (
        183,
        "BadOption",
        "prterun was unable to launch the specified application as it could not\nchange to the specified working directory:\n\nWorking directory: /no/such\nNode: w-0\n",
    ),
    // A daemon that crashes, and one that ends
    (
        139,
        "DaemonLost",
        "A daemon failed to report back after being spawned. This could\n  Remote host:   w-1\n  Daemon exit status: 139\n",
    ),
    (
        255,
        "Unknown",
        "A daemon failed to report back after being spawned. This could\n  Remote host:   w-1\n  Daemon exit status: 255\n",
    ),
    // Options
    (
        213,
        "BadOption",
        "The provided command line option requires passing two\nvalues:\n\n  Option:  --mca <MCA param name> <param value>\n",
    ),
    (
        1,
        "BadOption",
        "The --dvm <arg> option was provided, but the argument is one not\nrecognized:\n\n   arg: nosuch\n",
    ),
    (1, "Unknown", "The second option was provided, but the argument is one not to be won\n"),
    (
        255,
        "BadOption",
        "[mpiexec@l] i_np_fn (i_mpiexec_params.h:964): process count should be > 0\n[mpiexec@l] main (mpiexec.c:1745): error parsing parameters\n",
    ),
    (
        255,
        "BadHostfile",
        "[mpiexec@l] HYD_hostfile_unique_parse (hydra_hostfile.c:157): /no/hostfile no such file, or not a regular file\n[mpiexec@l] main (mpiexec.c:1745): error parsing parameters\n",
    ),
    (255, "BadOption", "[mpiexec@l] main (mpiexec.c:54): Missing executable. Try -h for usages.\n"),
    (
        1,
        "Unknown",
        "my_fn (train.c:3): process count should be > 0\nerror parsing parameters\nMissing executable part\n",
    ),
    // Limits
    (1, "BadOption", "The mapping request contains an unrecognized modifier:\n\n  Request: slot:coffee\n"),
    (
        213,
        "BadOption",
        "The mapby directive contains an unrecognized qualifier:\n\n  Qualifier: ppr:x:node\n",
    ),
    (1, "Unknown", "The word contains an unrecognized letter\n"),
    (
        1,
        "NotEnoughSlots",
        "Your job has requested more processes than the ppr for\nthis topology can support:\n\n  App: train\n",
    ),
    (2, "BadHostfile", "input in flex scanner failed\n"),
    (1, "Unknown", "lexer: input in flex scanner failed, line 3\n"),
    (213, "BadOption", "prterun was unable to open the rankfile:\n\n  Filename: /no/rankfile\n"),
    (1, "Unknown", "the tool was unable to open the rank file\nan unrecognized modifier\n"),
    (
        255,
        "BadOption",
        "[mpiexec@l] HYDU_parse_hostfile (args.c:324): unable to open host file: /no/config\n[mpiexec@l] HYD_uii_mpx_get_parameters (get_parameters.c:98): error parsing config file\n",
    ),
    (1, "Unknown", "trainer: error parsing config file\n"),
    (
        14,
        "MpiError",
        "[w-1:00000] *** An error occurred in Socket closed\n[w-1:00000] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\nprterun has exited due to process rank 2 with PID 344 on node w-1 calling\n\"abort\". This may have caused other processes in the application to be\n",
    ),
    (1, "Unknown", "*** An error occurred in the tokenizer\n"),
    (255, "Timeout", "I_MPI_JOB_TIMEOUT = 3 second(s): job ending due to application timeout\n"),
    (255, "Unknown", "I_MPI_JOB_TIMEOUT = 3 is set\n"),
];

#[test]
fn each_rule_has_a_near_miss() {
    for (code, cause, text) in NEAR_MISSES {
        assert_eq!(word(text, Ending::Exited(*code)), *cause, "{text}");
    }
}

#[test]
fn an_exception_is_told_from_what_other_ranks_print_in_between() {
    let running = Ending::Running { silent_seconds: 12 };
    let begin = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n";
    for exception in [
        "ValueError: no data",
        "socket.gaierror: [Errno -2] Name or service not known",
        "struct.error: unpack requires a buffer of 4 bytes",
        "MemoryError",
    ] {
        let found = of(&format!("{begin}{exception}\n"), running).unwrap();
        assert_eq!(found.cause.word(), "PythonException", "{exception}");
        assert!(found.message.contains(exception), "{}", found.message);
    }
    for line in ["model.npz", "0.5", "loss.mean:0.3", "done.", "step 3: loss"] {
        assert_eq!(word(&format!("{begin}{line}\n"), running), "SilentHang", "{line}");
    }
}
