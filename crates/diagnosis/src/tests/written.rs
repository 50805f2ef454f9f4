//! Outputs composed from the programs' sources, for causes and versions that the measured ones lack.

use super::super::facts::{Facts, PodFacts};
use super::super::{Cause, Confidence, Ending, Output, diagnose};
use super::of;

const CASES: &[(&str, i32, &str, Option<&str>, &str)] = &[
    (
        "Open MPI 5: killed, wrapped",
        137,
        "RankKilled",
        Some("w-1"),
        "--------------------------------------------------------------------------\nprterun noticed that process rank 1 with PID 697 on node w-1 exited on\nsignal 9 (Killed).\n--------------------------------------------------------------------------\n",
    ),
    (
        "Open MPI 5: crashed, wrapped",
        139,
        "RankCrashed",
        Some("w-1"),
        "[w-1:00408] *** Process received signal ***\n[w-1:00408] Signal: Segmentation fault (11)\n--------------------------------------------------------------------------\nprterun noticed that process rank 1 with PID 408 on node w-1 exited on\nsignal 11 (Segmentation fault).\n--------------------------------------------------------------------------\n",
    ),
    (
        "Open MPI 5: abort",
        42,
        "RankAborted",
        Some("w-1"),
        "--------------------------------------------------------------------------\nMPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n  Proc: [[21318,1],1]\n  Errorcode: 42\n\nNOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.\n--------------------------------------------------------------------------\n--------------------------------------------------------------------------\nprterun has exited due to process rank 1 with PID 0 on node w-1 calling\n\"abort\". This may have caused other processes in the application to be\nterminated by signals sent by prterun (as reported here).\n",
    ),
    (
        "Open MPI 5: exit code",
        3,
        "RankExited",
        None,
        "prterun detected that one or more processes exited with non-zero status,\nthus causing the job to be terminated. The first process to do so was:\n\n   Process name: [prterun-l-1-17@1,1]\n   Exit code:    3\n",
    ),
    (
        "Open MPI 5: no program",
        132,
        "ExecutableNotFound",
        Some("w-0"),
        "prterun was unable to find the specified executable file, and therefore did\nnot launch the job.  This error was first reported for process rank\n0; it may have occurred for other processes as well.\n\nNOTE: A common cause for this error is misspelling a prterun command\n   line parameter option\n\n   Node:       w-0\n   Executable: /no/such/train\n",
    ),
    (
        "Open MPI 5: no permission",
        132,
        "ExecutableNotPermitted",
        Some("w-0"),
        "prterun was unable to launch the specified application as it could not\naccess an executable:\n\n   Executable: /opt/train.py\n   Node: w-0\n\nwhile attempting to start process rank 0.\n",
    ),
    (
        "Open MPI 5: daemon lost",
        1,
        "DaemonLost",
        Some("w-1"),
        "PRTE has lost communication with a remote daemon.\n\n  HNP daemon   : [prterun-l-17@0,0] on node train-launcher\n  Remote daemon: [prterun-l-17@0,2] on node w-1\n\nThis is usually due to either a failure of the TCP network\n",
    ),
    (
        "Open MPI 5: call back",
        1,
        "CallbackBlocked",
        Some("w-0"),
        "------------------------------------------------------------\nA daemon was unable to complete a TCP connection\nto another daemon:\n  Local host:    w-0\n  Remote host:   train-launcher\nThis is usually caused by a firewall on the remote host. Please\n------------------------------------------------------------\n",
    ),
    (
        "Open MPI 5: no slots",
        1,
        "NotEnoughSlots",
        None,
        "There are not enough slots available in the system to satisfy the 8\nslots that were requested by the application:\n\n  ./hello\n\nEither request fewer procs for your application, or make more slots\n",
    ),
    (
        "Open MPI 5: refused",
        1,
        "ConnectionRefused",
        Some("w-0"),
        "ssh: connect to host w-0 port 22: Connection refused\n--------------------------------------------------------------------------\nPRTE has failed\nprterun was unable to reliably start one or more daemons.\nThis usually is caused by:\n",
    ),
    (
        "Open MPI 5: no daemon",
        127,
        "DaemonMissing",
        None,
        "bash: line 1: /opt/openmpi/bin/prted: No such file or directory\n------------------------------------------------------------\nA daemon failed to report back after being spawned. This could\nbe due to several factors, including inability to find the\nback to prterun:\n\n  Local host:    l\n  Remote host:   w-0\n  Daemon exit status: 127\n",
    ),
    (
        "Open MPI 5: option",
        1,
        "BadOption",
        None,
        "An unrecognized option was included on the mpirun command line:\n\n   Option: --no-such-option\n\nPlease use the \"mpirun --help\" command\n",
    ),
    (
        "Open MPI 5: agent",
        1,
        "LaunchProgramMissing",
        None,
        "The value of the MCA parameter \"plm_ssh_agent\" was set to a path\nthat could not be found:\n\n  plm_ssh_agent: /usr/bin/no-such-ssh\n",
    ),
    (
        "Open MPI 5: root",
        1,
        "RootRefused",
        None,
        "prterun has detected an attempt to run as root.\n\nRunning as root is *strongly* discouraged\n",
    ),
    (
        "Open MPI 4: version",
        1,
        "VersionMismatch",
        Some("w-1"),
        "Open MPI detected a mismatch in versions between two processes.  This\ntypically means\n\n  Local host:             l\n  Local Open MPI version: v4.1.4\n  Peer host:              w-1\n  Peer Open MPI version:  v4.0.3\n",
    ),
    (
        "Open MPI 4: killed by cleaning up after an abort",
        1,
        "RankAborted",
        None,
        "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\nValueError: bad batch\n--------------------------------------------------------------------------\nMPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n--------------------------------------------------------------------------\n",
    ),
    (
        "MPICH 5: exec",
        255,
        "ExecutableNotFound",
        Some("w-1"),
        "[proxy:0@w-1] HYDU_create_process (lib/utils/launch.c:73): execvp error on file /no/such/train (No such file or directory)\n",
    ),
    (
        "MPICH 5: exit code",
        3,
        "RankExited",
        None,
        "START rank 0 host w-0 pid 4\nSTART rank 1 host w-1 pid 5\n",
    ),
    (
        "MPICH: crash",
        139,
        "RankCrashed",
        Some("w-1"),
        "===================================================================================\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 559 RUNNING AT w-1\n=   EXIT CODE: 139\n=   CLEANING UP REMAINING PROCESSES\n===================================================================================\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)\n",
    ),
    (
        "MPICH: hostfile of Open MPI",
        255,
        "BadHostfile",
        None,
        "[mpiexec@l] HYDU_process_mfile_token (lib/utils/args.c:296): token slots not supported at this time\n[mpiexec@l] HYDU_parse_hostfile (lib/utils/args.c:343): unable to process token\n[mpiexec@l] mfile_fn (mpiexec/options.c:329): error parsing hostfile\n",
    ),
    (
        "MPICH: option",
        255,
        "BadOption",
        None,
        "[mpiexec@l] match_arg (lib/utils/args.c:166): unrecognized argument no-such-option\n[mpiexec@l] HYDU_parse_array (lib/utils/args.c:181): argument matching returned error\n",
    ),
    (
        "MPICH: call back",
        255,
        "CallbackBlocked",
        Some("w-0"),
        "[proxy:0@w-0] HYDU_sock_connect (lib/utils/sock.c:141): unable to connect from \"w-0\" to \"train-launcher\" (Connection timed out)\n[proxy:0@w-0] main (proxy/pmip.c:108): unable to connect to server train-launcher at port 39211 (check for firewalls!)\n",
    ),
    (
        "MPICH: peer",
        15,
        "PeerUnreachable",
        Some("w-0"),
        "[1795253853.87] [w-0:595  :0]  sock.c:323  UCX  ERROR   connect(fd=27, dest_addr=10.77.1.5:40213) failed: No route to host\nAbort(876203535) on node 0 (rank 0 in comm 0): Fatal error in internal_Init: Other MPI error, error stack:\n",
    ),
    (
        "Intel MPI: crash, the others cleaned up",
        139,
        "RankCrashed",
        Some("w-1"),
        "===================================================================================\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 0 PID 11 RUNNING AT w-0\n=   KILLED BY SIGNAL: 9 (Killed)\n===================================================================================\n\n===================================================================================\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 1 PID 12 RUNNING AT w-1\n=   KILLED BY SIGNAL: 11 (Segmentation fault)\n===================================================================================\n",
    ),
    (
        "Intel MPI: killed, by whatever",
        255,
        "RankKilled",
        Some("w-1"),
        "===================================================================================\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 1 PID 12 RUNNING AT w-1\n=   KILLED BY SIGNAL: 9 (Killed)\n===================================================================================\n",
    ),
    (
        "Intel MPI: exit code",
        3,
        "RankExited",
        Some("w-1"),
        "===================================================================================\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 1 PID 12 RUNNING AT w-1\n=   EXIT STATUS: 3\n===================================================================================\n",
    ),
    (
        "ssh: host key",
        255,
        "HostKeyMismatch",
        None,
        "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\nHost key verification failed.\nORTE was unable to reliably start one or more daemons.\n",
    ),
    (
        "ssh: uid",
        255,
        "AuthenticationFailed",
        None,
        "No user exists for uid 1000660000\nORTE was unable to reliably start one or more daemons.\n",
    ),
    (
        "ssh: key mode",
        255,
        "AuthenticationFailed",
        None,
        "@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @\nPermissions 0640 for '/root/.ssh/id_rsa' are too open.\nLoad key \"/root/.ssh/id_rsa\": bad permissions\nroot@w-0: Permission denied (publickey).\n",
    ),
    (
        "agent: gave up",
        255,
        "ConnectionRefused",
        Some("w-1"),
        "odh-launch: connect to host w-1 (10.0.0.7) port 7222: Connection refused (os error 111) (gave up after 600 s: the Worker did not come up)\nORTE was unable to reliably start one or more daemons.\n",
    ),
    (
        "agent: key",
        255,
        "AuthenticationFailed",
        Some("w-1"),
        "odh-launch: w-1: authentication failed: the key of this job does not match\n",
    ),
    (
        "agent: name",
        255,
        "HostUnresolvable",
        Some("w-1"),
        "odh-launch: Could not resolve hostname w-1: Temporary failure in name resolution (name server 10.96.0.10: timed out)\n",
    ),
    (
        "kernel",
        137,
        "OutOfMemory",
        Some("w-1"),
        "[ 1234.5] Memory cgroup out of memory: Killed process 697 (python) total-vm:20971520kB, anon-rss:16777216kB\nmpirun noticed that process rank 1 with PID 697 on node w-1 exited on signal 9 (Killed).\n",
    ),
    (
        "PyTorch: GPU memory",
        1,
        "GpuOutOfMemory",
        None,
        "[1,3]<stderr>:Traceback (most recent call last):\n[1,3]<stderr>:  File \"train.py\", line 88, in <module>\n[1,3]<stderr>:torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.12 GiB is free.\nmpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[42395,1],3]\n  Exit code:    1\n",
    ),
    (
        "JAX: GPU memory",
        1,
        "GpuOutOfMemory",
        None,
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.\n",
    ),
    (
        "NCCL: connect",
        1,
        "RankExited",
        Some("w-1"),
        "w-1:37:112 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.8<0>\nw-1:37:112 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.7<45763> failed : Connection refused\nw-1:37:112 [0] NCCL INFO bootstrap.cc:270 -> 2\ntorch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1331, unhandled system error, NCCL version 2.20.5\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\nmpirun detected that one or more processes exited with non-zero status, thus causing\n\n  Process name: [[42395,1],1]\n  Exit code:    1\n",
    ),
    (
        "PyTorch: rendezvous",
        1,
        "RankExited",
        None,
        "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (train-launcher, 29500).\n",
    ),
    (
        "NCCL: interface",
        1,
        "BadInterface",
        Some("w-1"),
        "w-1:37:112 [0] bootstrap.cc:53 NCCL WARN Bootstrap : no socket interface found\n",
    ),
    (
        "loader: C library",
        1,
        "VersionMismatch",
        None,
        "/opt/train: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by /opt/train)\nmpirun detected that one or more processes exited with non-zero status, thus causing\n\n  Process name: [[42395,1],1]\n  Exit code:    1\n",
    ),
    (
        "Python: module",
        1,
        "LibraryMissing",
        None,
        "Traceback (most recent call last):\n  File \"/opt/train.py\", line 1, in <module>\n    import horovod\nModuleNotFoundError: No module named 'horovod'\nmpirun detected that one or more processes exited with non-zero status, thus causing\n\n  Process name: [[42395,1],1]\n  Exit code:    1\n",
    ),
    ("shell: no mpirun", 127, "LaunchProgramMissing", None, "/bin/sh: 1: mpirun: not found\n"),
    (
        "shared memory: PyTorch",
        1,
        "SharedMemoryTooSmall",
        None,
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\nRuntimeError: DataLoader worker (pid 17) is killed by signal: Bus error.\nmpirun detected that one or more processes exited with non-zero status, thus causing\n\n  Process name: [[42395,1],1]\n  Exit code:    1\n",
    ),
    ("only an exit code: killed", 137, "RankKilled", None, ""),
    ("only an exit code: crashed", 139, "RankCrashed", None, ""),
    ("only an exit code: terminated", 143, "Terminated", None, "epoch 1\n"),
];

#[test]
fn outputs_written_after_the_sources_get_their_cause_and_worker() {
    let mut wrong = Vec::new();
    for (name, code, cause, worker, text) in CASES {
        let got = of(text, Ending::Exited(*code)).unwrap();
        if (got.cause.word(), got.worker.as_deref()) != (*cause, *worker) {
            wrong.push(format!("{name}: {} on {:?}: {}", got.cause.word(), got.worker, got.message));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn processes_that_did_not_find_each_other_are_distinguished_from_a_job_of_one() {
    let wrong = |text: &str| of(text, Ending::Exited(0)).map(|diagnosis| diagnosis.cause.word());
    assert_eq!(
        wrong(
            "Hello world from processor w-0, rank 0 out of 1 processors\nHello world from processor w-1, rank 0 out of 1 processors\n"
        ),
        Some("WrongMpi")
    );
    assert_eq!(wrong("Hello, I am 0 of 1\nHello, I am 0 of 1\nHello, I am 0 of 1\n"), Some("WrongMpi"));
    assert_eq!(
        wrong("[1,0]<stdout>:rank=0 world_size=1 step 3\n[1,1]<stdout>:rank=0 world_size=1 step 4\n"),
        Some("WrongMpi")
    );
    assert_eq!(wrong("Hello, I am rank 0 of 1\n"), None);
    assert_eq!(wrong("rank 0/1 host w-0 pid 7 loss 0.3\nrank 0/1 host w-0 pid 7 loss 0.2\n"), None);
}

#[test]
fn the_last_exception_is_evidence_of_an_exit() {
    let text = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    main()\nValueError: bad batch size\nmpirun detected that one or more processes exited with non-zero status, thus causing\n\n  Process name: [[42395,1],1]\n  Exit code:    1\n";
    let diagnosis = of(text, Ending::Exited(1)).unwrap();
    assert_eq!(
        diagnosis.message,
        "Rank 1 exited with code 1; before that the program printed: ValueError: bad batch size"
    );
    assert!(diagnosis.evidence.iter().any(|evidence| evidence.line == Some(4)), "{diagnosis:#?}");
}

/// Two pods with addresses.
fn pods() -> Facts {
    let pod = |name: &str, address: &str| PodFacts {
        name: name.to_owned(),
        address: Some(address.to_owned()),
        worker: true,
        ..PodFacts::default()
    };
    Facts { pods: vec![pod("w-0", "10.0.0.6"), pod("w-1", "10.0.0.7")], ..Facts::default() }
}

const UNANSWERED: &str = "odh-launch: w-0: no answer from 10.0.0.7 port 1024 for 6 s: packets to it are dropped, or its machine is down\n";

#[test]
fn a_peer_that_does_not_answer_is_named_and_distinguished_from_a_slow_one() {
    let silent = Ending::Running { silent_seconds: 60 };
    let found = |text: &str| diagnose(&Output::from(text), silent, &pods());
    let unanswered = found(UNANSWERED).unwrap();
    assert_eq!((unanswered.cause, unanswered.worker.as_deref()), (Cause::PeerUnreachable, Some("w-0")));
    assert_eq!(unanswered.confidence, Confidence::High);
    assert!(unanswered.message.contains("w-0 gets no answer from w-1 port 1024"), "{}", unanswered.message);
    let dead = "odh-launch: w-1: connection to 10.0.0.6 port 40001 is dead: nothing was acknowledged for 6 s or more, and even a slow machine would do that\n";
    assert!(
        found(dead).unwrap().message.contains("w-0 of w-1") || found(dead).unwrap().message.contains("w-0")
    );
    let answered = format!("{UNANSWERED}odh-launch: w-0: 10.0.0.7 port 1024 answers again\n");
    assert_eq!(found(&answered).unwrap().cause, Cause::SilentHang, "it was slow");
    let elsewhere = UNANSWERED.replace("10.0.0.7", "151.101.0.223");
    assert_eq!(
        found(&elsewhere).unwrap().cause,
        Cause::SilentHang,
        "a server that is none of the job's pods"
    );
}

#[test]
fn ranks_that_have_ended_explain_a_silence_and_nothing_else() {
    let told = "epoch 1\nodh-launch: train-worker-1: ranks 4-7 of 8 have ended, but the process that started them is still running\n";
    let found = |ending| diagnose(&Output::from(told), ending, &pods());
    let silent = found(Ending::Running { silent_seconds: 60 }).unwrap();
    assert_eq!((silent.cause, silent.worker.as_deref()), (Cause::SilentHang, Some("train-worker-1")));
    assert!(
        silent.confidence > Confidence::Low
            && silent.message.starts_with("Ranks 4-7 on train-worker-1 have ended")
    );
    assert_eq!(found(Ending::Running { silent_seconds: 1 }), None, "it prints");
    assert_eq!(found(Ending::Exited(0)), None);
    assert_eq!(found(Ending::Exited(1)).unwrap().cause, Cause::Unknown);
}

#[test]
fn an_oom_killed_rank_is_distinguished_from_one_killed_by_hand() {
    let report = "mpirun noticed that process rank 1 with PID 697 on node w-1 exited on signal 9 (Killed).\n";
    let counted = "odh-launch: w-1: 1 process was killed by the kernel: out of memory, limit 128 MiB\n";
    let found = of(&format!("{report}{counted}"), Ending::Exited(137)).unwrap();
    assert_eq!((found.cause, found.worker.as_deref()), (Cause::OutOfMemory, Some("w-1")));
    assert!(found.message.contains("128 MiB"), "{}", found.message);
    assert_eq!(of(report, Ending::Exited(137)).unwrap().cause, Cause::RankKilled);
}

#[test]
fn a_line_of_dashes_from_a_rank_does_not_end_the_launchers_message() {
    let text = "--------------------------------------------------------------------------\nmpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n----------------------------------------\n\n  Process name: [[42395,1],1]\n  Exit code:    3\n--------------------------------------------------------------------------\n";
    let found = of(text, Ending::Exited(3)).unwrap();
    assert!(found.message.starts_with("Rank 1 exited with code 3"), "{}", found.message);
    let tagged = text.replace(
        "\n----------------------------------------\n",
        "\n[1,0]<stdout>:--------------------------------------------------------------------------\n",
    );
    assert!(of(&tagged, Ending::Exited(3)).unwrap().message.starts_with("Rank 1 exited with code 3"));
}

const RAISED: &str = "rank 0 waits\nTraceback (most recent call last):\n  File \"/work/boom.py\", line 9, in <module>\n    print({}['missing'])\nKeyError: 'missing'\n";

#[test]
fn an_exception_for_which_the_others_wait_is_named_at_once() {
    let after = |silent_seconds: u64, text: &str| of(text, Ending::Running { silent_seconds });
    let found = after(3, RAISED).unwrap();
    assert_eq!((found.cause, found.confidence), (Cause::PythonException, Confidence::Medium));
    assert_eq!(
        found.message,
        "A rank raised KeyError: 'missing' (/work/boom.py, line 9), and nothing has been printed since: the other ranks are waiting for it"
    );
    assert!(found.suggestion.contains("python -m mpi4py"), "{}", found.suggestion);
    assert_eq!(found.evidence.last().unwrap().text, "KeyError: 'missing'");
    assert_eq!(after(600, RAISED).unwrap().cause, Cause::PythonException);
    let tagged: String = RAISED.lines().map(|line| format!("[1,1]<stderr>:{line}\n")).collect();
    assert!(after(3, &tagged).unwrap().message.starts_with("Rank 1 raised KeyError"));
}

#[test]
fn an_exception_after_which_the_program_goes_on_is_no_failure() {
    let after = |silent_seconds: u64, text: &str| of(text, Ending::Running { silent_seconds });
    assert_eq!(after(0, RAISED), None, "it may be handled");
    let handled = format!("{RAISED}{}", "epoch\n".repeat(11));
    assert_eq!(after(3, &handled), None);
    let once_more = format!("{RAISED}{}", "epoch\n".repeat(3));
    assert_eq!(after(3, &once_more), None, "it prints slowly");
    assert_eq!(after(30, &once_more).unwrap().cause, Cause::PythonException);
    assert_eq!(after(600, &handled).unwrap().cause, Cause::SilentHang);
    assert_eq!(after(3, &RAISED.replace("KeyError: 'missing'", "KeyboardInterrupt")), None);
    let unanswered = diagnose(
        &Output::from(format!("{UNANSWERED}{RAISED}").as_str()),
        Ending::Running { silent_seconds: 60 },
        &pods(),
    );
    assert_eq!(unanswered.unwrap().cause, Cause::PeerUnreachable, "what the launch agent reports is firm");
}

/// What `diagnose` finds with and without an exit code.
fn both(text: &str) -> [(Cause, String); 2] {
    [Ending::Unknown, Ending::Exited(1)].map(|ending| {
        let found = of(text, ending).unwrap();
        (found.cause, format!("{} {} {:?}", found.message, found.suggestion, found.evidence))
    })
}

#[test]
fn roots_that_stand_in_the_output_are_named_with_and_without_an_exit_code() {
    let cases = [
        (
            "[mpiexec@sea-launcher] check_exit_codes (../src/demux/hydra_demux_poll.c:117): unable to run bstrap_proxy on sea-worker-2.sea (pid 31, exit code 65280)\n[mpiexec@sea-launcher] poll_for_event (../src/demux/hydra_demux_poll.c:159): check exit codes error\n",
            Cause::PeerUnreachable,
            "ssh",
        ),
        (
            "Traceback (most recent call last):\n  File \"/app/a.py\", line 2, in <module>\n    from mpi4py import MPI\nRuntimeError: cannot load MPI library\nlibmpi.so: cannot open shared object file: No such file or directory\n",
            Cause::LibraryMissing,
            "libmpi.so",
        ),
        (
            "[1668.72] [sea-worker-1:88  :0] ib_log.c:246  UCX  ERROR mlx5_1: ibv_reg_mr() failed: Cannot allocate memory. Please set max locked memory (ulimit -l) to 'unlimited' (current: 8192 kbytes)\n--------------------------------------------------------------------------\nmpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[5121,1],0]\n  Exit code:    1\n--------------------------------------------------------------------------\n",
            Cause::MpiError,
            "locked memory",
        ),
        (
            "[sea-worker-1:00012] [[3,0],1] ORTE_ERROR_LOG: Error in file util/session_dir.c at line 107\n[sea-worker-1:00012] mkdir: cannot create directory '/scratch/ompi.sea': Read-only file system\n",
            Cause::StorageUnusable,
            "/scratch/ompi.sea",
        ),
        (
            "epoch 1\nTraceback (most recent call last):\n  File \"/app/train.py\", line 9, in main\n    load(settings[\"data\"])\n  File \"/usr/lib/python3.11/os.py\", line 679, in __getitem__\n    raise KeyError(key)\nKeyError: 'data'\n",
            Cause::RankExited,
            "KeyError: 'data' (/app/train.py, line 9)",
        ),
        (
            "Traceback (most recent call last):\n  File \"/app/train.py\", line 12, in <module>\n    os.makedirs(folder)\n  File \"<frozen os>\", line 225, in makedirs\nFileExistsError: [Errno 17] File exists: '/data/out'\n",
            Cause::RankExited,
            "'/data/out' (/app/train.py, line 12)",
        ),
        (
            "bash: line 9: /home/mpiuser/train.py: No such file or directory\npython: can't open file '/home/mpiuser/train.py': [Errno 2] No such file or directory\n",
            Cause::ExecutableNotFound,
            "The folder /home/mpiuser does not exist on a Worker, so Kubeflow's SDK could not write the function",
        ),
    ];
    for (text, cause, words) in cases {
        for (found, told) in both(text) {
            assert!(found == cause && told.contains(words), "{found:?}: {told}\n{text}");
        }
    }
}

#[test]
fn a_script_that_python_does_not_find_in_the_root_directory_has_one_slash() {
    for (printed, path) in [
        ("//trian.py", "/trian.py"),
        ("/app/trian.py", "/app/trian.py"),
        ("trian.py", "trian.py"),
        ("./a/trian.py", "./a/trian.py"),
    ] {
        let log =
            format!("/usr/bin/python3: can't open file '{printed}': [Errno 2] No such file or directory\n");
        let found = of(&log, Ending::Exited(2)).unwrap();
        assert_eq!(found.message, format!("{path} does not exist on a Worker"), "{found:#?}");
        assert!(found.evidence[0].text.contains(printed), "as it was printed: {found:#?}");
    }
}

#[test]
fn a_handled_exception_is_no_failure_where_the_end_is_unknown() {
    let log = "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nKeyError: 'x'\n";
    assert_eq!(of(&format!("{log}{}", "epoch 2\n".repeat(3)), Ending::Unknown), None);
    assert_eq!(of(log, Ending::Exited(0)), None);
}

#[test]
fn the_first_exception_that_is_no_consequence_is_named() {
    let raises = |rank: u32, text: &str| {
        format!(
            "[{rank}] Traceback (most recent call last):\n[{rank}]   File \"t.py\", line 3, in <module>\n[{rank}] {text}\n"
        )
    };
    let log = raises(2, "ValueError: no data in shard 2")
        + &raises(0, "RuntimeError: [../gloo/tcp/pair.cc] Connection closed by peer [10.0.0.4]:3")
        + &raises(1, "concurrent.futures.process.BrokenProcessPool: A process ended abruptly");
    let found = of(&log, Ending::Exited(1)).unwrap();
    assert!(found.message.starts_with("Rank 2 ended with ValueError: no data in shard 2"), "{found:?}");
    let chained = "Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\nKeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"t.py\", line 5, in <module>\nValueError: no a\n";
    assert!(of(chained, Ending::Exited(1)).unwrap().message.contains("ValueError: no a"));
}

#[test]
fn open_mpi_5_that_has_lost_a_daemon_has_failed_although_it_ends_with_0() {
    let log = "epoch 1\n--------------------------------------------------------------------------\nPRTE has lost communication with a remote daemon.\n\n  HNP daemon   : [prterun-l-17@0,0] on node sea-launcher\n  Remote daemon: [prterun-l-17@0,2] on node sea-worker-1\n--------------------------------------------------------------------------\n";
    let found = of(log, Ending::Exited(0)).unwrap();
    assert_eq!((found.cause, found.worker.as_deref()), (Cause::DaemonLost, Some("sea-worker-1")));
    assert_eq!(
        of(&log.replace("PRTE", "ORTE"), Ending::Exited(0)),
        None,
        "Open MPI 4 reports it by its code"
    );
    let by_rank: String = log.lines().map(|line| format!("[1,0]<stdout>:{line}\n")).collect();
    assert_eq!(of(&by_rank, Ending::Exited(0)), None, "the program may print anything");
}

#[test]
fn windows_line_ends_in_a_script_are_named_by_each_of_their_signs() {
    let signs = [
        "epoch\n/scripts/run.sh: line 2: $'\\r': command not found\n",
        "epoch\nrun.sh: 2: hostname\r: not found\n",
        "epoch\nrun.sh: 2: set: Illegal option -\r\nmore\n",
        "epoch\nrun.sh: line 2: set: -\r: invalid option\nmore\n",
        "epoch\n/bin/sh: ./run.sh: /bin/bash^M: bad interpreter: No such file or directory\n",
        "epoch\nenv: \u{2018}python3\\r\u{2019}: No such file or directory\n",
        "epoch\n/usr/bin/env: 'python3\r': No such file or directory\nmore\n",
        "--------------------------------------------------------------------------\nmpirun was unable to find the specified executable file, and therefore\ndid not launch the job.\n\nNode:       sea-worker-0\nExecutable: hostname\r\n--------------------------------------------------------------------------\n",
        "[proxy:0:1@sea-worker-1] HYDU_create_process (launch.c:73): execvp error on file hostname\r (No such file or directory)\nmore\n",
    ];
    for sign in signs {
        let found = of(sign, Ending::Exited(127)).unwrap();
        assert_eq!(found.cause, Cause::ExecutableNotFound, "{sign:?}: {found:?}");
        assert!(found.message.contains("Windows line ends"), "{sign:?}: {found:?}");
        assert!(!format!("{found:?}").contains("\\r\\u"), "{found:?}");
    }
    let converted = "epoch 1\r\nsh: 1: train: not found\r\n";
    let found = of(converted, Ending::Exited(127)).unwrap();
    assert!(!found.message.contains("Windows"), "a log that was converted as a whole: {found:?}");
    let progress = "  0%| | 0/9\r 50%| | 4/9\r100%| | 9/9\nsh: 1: train: not found\n";
    assert!(!of(progress, Ending::Exited(127)).unwrap().message.contains("Windows"));
}
