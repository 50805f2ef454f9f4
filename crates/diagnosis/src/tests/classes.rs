//! Classes of answers that were wrong for outputs that no rule had been written for.

use super::super::facts::{ContainerFacts, Facts, PodFacts, Terminated, World};
use super::super::{Cause, Confidence, Diagnosis, Ending, Output, diagnose};
use super::of;

const FRAME: &str = "--------------------------------------------------------------------------\n";

fn found(text: &str, ending: Ending) -> Diagnosis {
    of(text, ending).unwrap_or_else(|| panic!("no failure in {text}"))
}

/// A traceback that ends with this exception.
fn raising(exception: &str) -> String {
    format!(
        "Traceback (most recent call last):\n  File \"/app/train.py\", line 7, in <module>\n{exception}\n"
    )
}

#[test]
fn an_address_that_does_not_answer_between_ranks_blames_no_network_policy() {
    let cases = [
        (
            "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (10.9.9.9, 29500).",
            "10.9.9.9",
        ),
        (
            "RuntimeError: The client socket has failed to connect to any network address of (sea-worker-9, 29500).",
            "sea-worker-9",
        ),
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [10.9.9.9]:40213: Connection refused",
            "10.9.9.9",
        ),
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:144] Connect timeout [10.9.9.9]:40213",
            "10.9.9.9",
        ),
    ];
    for (exception, address) in cases {
        let ended = found(&raising(exception), Ending::Exited(1));
        assert_eq!((ended.cause, ended.confidence), (Cause::RankExited, Confidence::Medium), "{ended:#?}");
        let running = found(&raising(exception), Ending::Running { silent_seconds: 20 });
        assert_eq!(running.cause, Cause::PythonException, "{running:#?}");
        for answer in [ended, running] {
            assert!(answer.message.contains(address), "{answer:#?}");
            assert!(!answer.message.contains("NetworkPolic"), "{answer:#?}");
        }
    }
    let refused = "[W socket.cpp:601] [c10d] The client socket has failed to connect to [sea-worker-0]:29500 (errno: 111 - Connection refused).\n";
    let answer = found(refused, Ending::Exited(1));
    assert_eq!(answer.cause, Cause::RankExited);
    assert!(answer.message.contains("sea-worker-0 port 29500: Connection refused"), "{answer:#?}");
    let no_route = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [10.9.9.9]:40213: No route to host\n";
    assert_eq!(found(no_route, Ending::Exited(1)).cause, Cause::PeerUnreachable, "the network says so");
}

#[test]
fn a_refusal_between_ranks_of_mpi_says_that_nothing_listens() {
    let lines = [
        "[[43557,1],1][btl_tcp_endpoint.c:793:mca_btl_tcp_endpoint_start_connect] from w-1 to: w-2 Unable to connect to the peer 10.77.1.5 on port 1024: Connection refused\n",
        "[1795.87] [w-1:595  :0]  sock.c:323  UCX  ERROR   connect(fd=27, dest_addr=10.77.1.5:1024) failed: Connection refused\n",
    ];
    for line in lines {
        let answer = found(line, Ending::Exited(1));
        assert_eq!((answer.cause, answer.worker.as_deref()), (Cause::PeerUnreachable, Some("w-1")));
        assert!(answer.message.ends_with("port 1024: Connection refused"), "{answer:#?}");
        assert!(answer.suggestion.contains("the rank that ended first"), "{answer:#?}");
    }
}

#[test]
fn a_program_of_another_mpi_is_named_by_the_process_management_that_it_misses() {
    let report = format!(
        "{FRAME}mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[41076,1],2]\n  Exit code:    15\n{FRAME}"
    );
    let signs = [
        "[unset]: launcher not compatible with PMI1 client\nAbort(739895823): Fatal error in internal_Init_thread: Other MPI error, error stack:\npmi1_init(14)...........: PMI_Init returned -1\n",
        "Abort(807027984): Fatal error in internal_Init_thread: Internal MPI error!, error stack:\ncheck_MPIR_CVAR_PMI_VERSION(167):  Runtime environment uses unsupported PMI version PMIx. Aborting.\n",
    ];
    for sign in signs {
        let tagged: String = sign.lines().map(|line| format!("[1,2]<stderr>:{line}\n")).collect();
        for text in [format!("{sign}{report}"), format!("{tagged}{report}")] {
            let answer = found(&text, Ending::Exited(15));
            assert_eq!((answer.cause, answer.confidence), (Cause::WrongMpi, Confidence::High), "{answer:#?}");
        }
    }
    let warned = "<frozen importlib._bootstrap>:241: RuntimeWarning: suspicious MPI execution environment\nYour environment has OMPI_COMM_WORLD_SIZE=4 set, but mpi4py was built with MPICH.\nYou may be using `mpiexec` or `mpirun` from a different MPI implementation.\n";
    let answer = found(&format!("{warned}{}", raising("IndexError: rank 1 of 1")), Ending::Exited(1));
    assert_eq!(answer.cause, Cause::WrongMpi);
    assert!(answer.message.contains("MPICH"), "{answer:#?}");
}

/// Intel MPI's report of a rank that signal 9 ended.
fn intel(rank: u32, host: &str) -> String {
    let rule = "=".repeat(83);
    format!(
        "\n{rule}\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK {rank} PID 12 RUNNING AT {host}\n=   KILLED BY SIGNAL: 9 (Killed)\n{rule}\n"
    )
}

fn two_workers(slots: u32) -> Facts {
    let workers = ["w-0", "w-1"].map(str::to_owned).to_vec();
    Facts { world: Some(World { workers, slots }), ..Facts::default() }
}

#[test]
fn the_ranks_that_intel_mpi_reports_tell_a_killed_rank_from_one_that_exited() {
    let ended = Ending::Exited(255);
    let read = |text: &str, facts: &Facts| diagnose(&Output::from(text), ended, facts).unwrap();
    let one = read(&intel(1, "w-1"), &Facts::default());
    assert_eq!((one.cause, one.confidence), (Cause::RankKilled, Confidence::Low));
    assert_eq!(one.worker.as_deref(), Some("w-1"));
    let single = read(&intel(1, "w-1"), &two_workers(1));
    assert_eq!((single.cause, single.confidence), (Cause::RankKilled, Confidence::Medium));
    assert_eq!(single.message, "Rank 1 on w-1 was killed by signal 9");
    let all = read(&(intel(2, "w-1") + &intel(3, "w-1")), &two_workers(2));
    assert_eq!(
        (all.cause, all.message.as_str()),
        (Cause::RankKilled, "Rank 2 or 3 on w-1 was killed by signal 9")
    );
    let others = read(&intel(2, "w-1"), &two_workers(2));
    assert_eq!((others.cause, others.worker.as_deref()), (Cause::RankExited, Some("w-1")));
    assert!(others.message.starts_with("Rank 3 on w-1 ended with an error"), "{others:#?}");
    let mut of_memory = two_workers(2);
    of_memory.pods = vec![out_of_memory("w-1")];
    let counted = read(&(intel(2, "w-1") + &intel(3, "w-1")), &of_memory);
    assert_eq!((counted.cause, counted.worker.as_deref()), (Cause::OutOfMemory, Some("w-1")));
}

/// A Worker in which the kernel has killed a process.
fn out_of_memory(name: &str) -> PodFacts {
    let container = ContainerFacts { name: "mpi".to_owned(), oom_kills: 1, ..ContainerFacts::default() };
    PodFacts { name: name.to_owned(), worker: true, containers: vec![container], ..PodFacts::default() }
}

#[test]
fn of_several_workers_short_of_memory_the_one_with_the_killed_rank_is_named() {
    let report = "mpirun noticed that process rank 1 with PID 697 on node w-1 exited on signal 9 (Killed).\n";
    let facts = Facts { pods: vec![out_of_memory("w-0"), out_of_memory("w-1")], ..Facts::default() };
    let answer = diagnose(&Output::from(report), Ending::Exited(137), &facts).unwrap();
    assert_eq!((answer.cause, answer.worker.as_deref()), (Cause::OutOfMemory, Some("w-1")));
}

#[test]
fn words_without_a_name_belong_to_the_rank_that_the_launcher_reports() {
    let report = "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[42395,1],3]\n  Exit code:    1\n";
    let text = raising("MemoryError") + report;
    let answer = diagnose(&Output::from(text.as_str()), Ending::Exited(1), &two_workers(2)).unwrap();
    assert_eq!((answer.cause, answer.worker.as_deref()), (Cause::OutOfMemory, Some("w-1")));
    let twice = raising("MemoryError") + &text;
    let answer = diagnose(&Output::from(twice.as_str()), Ending::Exited(1), &two_workers(2)).unwrap();
    assert_eq!(answer.worker, None, "two ranks printed it");
}

#[test]
fn a_message_does_not_deny_what_the_output_has() {
    let silent = Ending::Running { silent_seconds: 60 };
    let log = "[w-0:00012] [[3,0],1] ORTE_ERROR_LOG: Data unpack would read past end of buffer in file grpcomm_direct.c at line 355\n";
    let answer = found(log, silent);
    assert_eq!(answer.cause, Cause::SilentHang);
    assert!(!answer.message.contains("no error"), "{answer:#?}");
    assert!(answer.message.contains("Data unpack would read past end of buffer"), "{answer:#?}");
    assert!(answer.evidence.iter().any(|evidence| evidence.line == Some(1)), "{answer:#?}");
    let metric = found("epoch 3 error 0.13\nstep 4: error: 0.12, 0 errors\n", silent);
    assert!(!metric.message.contains("error"), "{metric:#?}");

    let report = format!(
        "{FRAME}ORTE was unable to reliably start one or more daemons.\nThis usually is caused by:\n{FRAME}"
    );
    let reasons = ["the jump host is closed for maintenance", "Error: your ticket has expired"];
    for reason in reasons {
        for text in [format!("{reason}\n{report}"), format!("{report}{reason}\n")] {
            let answer = found(&text, Ending::Exited(1));
            assert_eq!(answer.cause, Cause::Unknown);
            assert!(answer.message.ends_with(reason) && !answer.message.contains("not in"), "{answer:#?}");
        }
    }
    assert!(!found(&report, Ending::Exited(1)).message.contains("not in this output"));
}

#[test]
fn an_account_without_a_shell_is_named() {
    let text = format!(
        "This account is currently not available.\n{FRAME}ORTE was unable to reliably start one or more daemons.\n{FRAME}"
    );
    let answer = found(&text, Ending::Exited(1));
    assert_eq!(answer.cause, Cause::AuthenticationFailed);
    assert!(answer.suggestion.contains("login") || answer.suggestion.contains("shell"), "{answer:#?}");
}

#[test]
fn advice_fits_what_the_output_shows() {
    let executable = "Open MPI tried to fork a new process via the \"execve\" system call but\n  Local host:        w-1\n  Application name:  /opt/train\n  Error:             Exec format error\n";
    let killed_by_bus_error =
        "mpirun noticed that process rank 1 with PID 6 on node w-1 exited on signal 7 (Bus error).\n";
    let cases = [
        ("exec /opt/train: exec format error\n", 1, "amd64"),
        (executable, 1, "amd64"),
        (
            "[proxy:0@w-1] HYDU_create_process (launch.c:73): execvp error on file /opt/train (Exec format error)\n",
            255,
            "amd64",
        ),
        ("No user exists for uid 1000660000\n", 255, "launch agent"),
        ("Permissions 0640 for '/root/.ssh/id_rsa' are too open.\n", 255, "defaultMode: 0400"),
        (killed_by_bus_error, 135, "emptyDir with medium: Memory at /dev/shm"),
        ("Fatal Python error: Bus error\n", 135, "emptyDir with medium: Memory at /dev/shm"),
        ("cp: error writing '/data/x': No space left on device\n", 1, "the volume"),
        ("OSError: [Errno 122] Disk quota exceeded: '/home/a/ck.pt'\n", 1, "quota"),
        ("OSError: [Errno 30] Read-only file system: '/opt/app/cache'\n", 1, "readOnlyRootFilesystem"),
        (
            "touch: cannot touch \u{2018}/opt/app/x\u{2019}: Read-only file system\n",
            1,
            "readOnlyRootFilesystem",
        ),
    ];
    for (text, code, words) in cases {
        let answer = found(text, Ending::Exited(code));
        assert!(answer.suggestion.contains(words), "{text}{answer:#?}");
        assert!(!answer.suggestion.starts_with("chmod"), "{text}{answer:#?}");
    }
    let key = found("No user exists for uid 1000660000\n", Ending::Exited(255));
    assert!(!key.suggestion.contains("0600"), "{key:#?}");
    let silent = found("epoch 1\n", Ending::Running { silent_seconds: 60 });
    let first = silent.suggestion.split('.').next().unwrap();
    assert!(first.contains("CPU") && !first.contains("NetworkPolicies"), "{silent:#?}");
    let consequence =
        found(&raising("ConnectionResetError: [Errno 104] Connection reset by peer"), Ending::Exited(1));
    assert!(consequence.suggestion.contains("ended first"), "{consequence:#?}");
}

#[test]
fn full_and_read_only_storage_is_named_with_its_path() {
    let cases = [
        (
            "OSError: [Errno 28] No space left on device: '/checkpoints/3.pt'\n",
            Cause::StorageUnusable,
            "/checkpoints/3.pt",
        ),
        ("cp: error writing '/data/x': No space left on device\n", Cause::StorageUnusable, "/data/x"),
        ("sh: 1: cannot create /opt/app/x: Read-only file system\n", Cause::StorageUnusable, "/opt/app/x"),
        (
            "touch: cannot touch \u{2018}/opt/app/x\u{2019}: Read-only file system\n",
            Cause::StorageUnusable,
            "/opt/app/x",
        ),
        (
            "OSError: [Errno 30] Read-only file system: '/opt/app/cache'\n",
            Cause::StorageUnusable,
            "/opt/app/cache",
        ),
        ("RuntimeError: write failed (No space left on device)\n", Cause::StorageUnusable, ""),
        (
            "OSError: [Errno 28] No space left on device: '/dev/shm/batch-7'\n",
            Cause::SharedMemoryTooSmall,
            "/dev/shm",
        ),
    ];
    for (text, cause, path) in cases {
        let answer = found(text, Ending::Exited(1));
        assert_eq!(answer.cause, cause, "{text}{answer:#?}");
        assert!(answer.message.contains(path), "{text}{answer:#?}");
    }
}

#[test]
fn an_image_of_another_architecture_is_named_by_the_cluster_too() {
    let pod = |change: &dyn Fn(&mut PodFacts)| {
        let mut pod = PodFacts { name: "w-1".to_owned(), worker: true, ..PodFacts::default() };
        change(&mut pod);
        let facts = Facts { pods: vec![pod], ..Facts::default() };
        diagnose(&Output::from(""), Ending::Unknown, &facts).unwrap()
    };
    let pulled = pod(&|pod| {
        let words =
            "Failed to pull image \"registry.example/train:1\": no match for platform in manifest: not found";
        pod.events.push(("Failed".to_owned(), words.to_owned()));
    });
    let started = pod(&|pod| {
        let message =
            "failed to create containerd task: exec /usr/sbin/sshd: exec format error: unknown".to_owned();
        let terminated = Some(Terminated { exit_code: 128, reason: "StartError".to_owned(), message });
        pod.containers.push(ContainerFacts {
            name: "mpi".to_owned(),
            terminated,
            ..ContainerFacts::default()
        });
    });
    assert_eq!((pulled.cause, started.cause), (Cause::ImagePull, Cause::ExecutableNotPermitted));
    for answer in [pulled, started] {
        assert!(answer.suggestion.contains("linux/amd64"), "{answer:#?}");
    }
}

#[test]
fn a_proxy_that_mpich_has_lost_is_a_lost_daemon() {
    let lost = "[mpiexec@l] control_cb (mpiexec/pmiserv_cb.c:280): assert (!closed) failed\n[mpiexec@l] main (mpiexec.c:270): process manager error waiting for completion\n";
    let answer = found(lost, Ending::Exited(255));
    assert_eq!((answer.cause, answer.confidence), (Cause::DaemonLost, Confidence::Low));
    assert!(answer.suggestion.contains("-wdir"), "{answer:#?}");
}

#[test]
fn while_ranks_wait_the_first_exception_that_is_no_consequence_is_named() {
    let text = raising("ValueError: no data in shard 2")
        + &raising("RuntimeError: [../gloo/tcp/pair.cc] Connection closed by peer [10.0.0.4]:3");
    let answer = found(&text, Ending::Running { silent_seconds: 5 });
    assert!(answer.message.contains("ValueError: no data in shard 2"), "{answer:#?}");
}

#[test]
fn a_program_that_python_cannot_parse_has_exited_by_that_line() {
    let error =
        "  File \"/workspace/train.py\", line 4\n    print(\"done\")\nIndentationError: unexpected indent\n";
    for ending in [Ending::Exited(255), Ending::Exited(1), Ending::Unknown] {
        let answer = found(&format!("epoch 1\n{error}"), ending);
        assert_eq!(answer.cause, Cause::RankExited, "{answer:#?}");
        let words = "ended with IndentationError: unexpected indent (/workspace/train.py, line 4)";
        assert!(answer.message.contains(words), "{answer:#?}");
    }
    let tagged = "[1,1]<stderr>:  File \"/workspace/train.py\", line 4\n[1,0]<stdout>:epoch 1\n[1,1]<stderr>:    print(\n[1,1]<stderr>:         ^\n[1,1]<stderr>:SyntaxError: '(' was never closed\n";
    assert!(found(tagged, Ending::Exited(1)).message.starts_with("Rank 1 ended with SyntaxError"));
    assert_eq!(of("  File \"list\", line 4\nall files read\n", Ending::Unknown), None);
}

#[test]
fn a_report_that_no_rule_knows_is_quoted() {
    let report = format!(
        "{FRAME}PRTE could not agree with itself about the shape of the\nmachine. This is unusual.\n\n  Node: w-0\n{FRAME}"
    );
    let answer = found(&report, Ending::Exited(213));
    assert_eq!(answer.cause, Cause::Unknown);
    let words = "the output also has: PRTE could not agree with itself about the shape of the machine";
    assert!(answer.message.ends_with(words), "{answer:#?}");
    assert!(answer.evidence.iter().any(|evidence| evidence.line == Some(2)), "{answer:#?}");
}

#[test]
fn what_a_rank_printed_before_it_exited_is_quoted() {
    let report = format!(
        "{FRAME}mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[42395,1],1]\n  Exit code:    1\n{FRAME}"
    );
    let answer = found(&format!("run.sh: line 3: DATA_DIR: unbound variable\n{report}"), Ending::Exited(1));
    assert_eq!(
        answer.message,
        "Rank 1 exited with code 1; the output also has: run.sh: line 3: DATA_DIR: unbound variable"
    );
    assert_eq!(found(&format!("epoch 1\n{report}"), Ending::Exited(1)).message, "Rank 1 exited with code 1");
}

#[test]
fn a_failed_spawn_is_named_although_a_rank_has_aborted() {
    let slots = format!(
        "{FRAME}There are not enough slots available in the system to satisfy the 64\nslots that were requested by the application:\n\n  /bin/true\n{FRAME}"
    );
    let abort = format!(
        "{FRAME}MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n{FRAME}"
    );
    let raised = raising("mpi4py.MPI.Exception: MPI_ERR_SPAWN: could not spawn processes");
    let answer = found(&format!("{slots}{raised}{abort}"), Ending::Exited(1));
    assert_eq!(answer.cause, Cause::MpiError, "{answer:#?}");
    assert!(answer.message.contains("MPI_Comm_spawn"), "{answer:#?}");
    let errors = [
        ("MPI_ERR_SPAWN: could not spawn processes", "slots"),
        ("MPI_ERR_NO_SUCH_FILE: no such file or directory", "volume that they share"),
        ("MPI_ERR_RMA_RANGE: invalid RMA address range", "window"),
        ("MPI_ERR_TRUNCATE: message truncated", "counts"),
    ];
    for (error, words) in errors {
        let answer = found(
            &format!("{}{abort}", raising(&format!("mpi4py.MPI.Exception: {error}"))),
            Ending::Exited(1),
        );
        assert_eq!(answer.cause, Cause::MpiError, "{answer:#?}");
        assert!(answer.message.contains(error) && answer.suggestion.contains(words), "{answer:#?}");
    }
}

#[test]
fn processes_that_mpi4py_reports_as_alone_have_failed_although_the_launcher_ends_with_0() {
    let warning = "<frozen importlib._bootstrap>:241: RuntimeWarning: suspicious MPI execution environment\nYour environment has OMPI_COMM_WORLD_SIZE=4 set, but mpi4py was built with Intel MPI.\nYou may be using `mpiexec` or `mpirun` from a different MPI implementation.\n";
    let tagged: String = warning.lines().map(|line| format!("[1,2]<stderr>:{line}\n")).collect();
    for text in [warning, &tagged] {
        let answer = found(text, Ending::Exited(0));
        assert_eq!((answer.cause, answer.confidence), (Cause::WrongMpi, Confidence::High), "{answer:#?}");
    }
}

#[test]
fn the_end_of_sshs_own_lines_is_no_part_of_what_they_say() {
    let text = format!(
        "kex_exchange_identification: read: Connection reset by peer\r\n{FRAME}ORTE was unable to reliably start one or more daemons.\n{FRAME}"
    );
    let answer = found(&text, Ending::Exited(255));
    assert!(!format!("{answer:?}").contains("\\r"), "{answer:#?}");
}

#[test]
fn a_remote_shell_that_ends_with_255_under_intel_mpi_may_have_any_reason() {
    let text = "[mpiexec@s-launcher] Error: Unable to run bstrap_proxy on s-worker-0 (pid 774, exit code 65280)\n[mpiexec@s-launcher] Error setting up the bootstrap proxies\n";
    let answer = found(text, Ending::Exited(255));
    assert_eq!((answer.cause, answer.confidence), (Cause::PeerUnreachable, Confidence::Low), "{answer:#?}");
    assert_eq!(answer.worker.as_deref(), Some("s-worker-0"));
    assert!(answer.message.contains("cannot reach or enter a Worker"), "{answer:#?}");
    assert!(answer.suggestion.contains("Run the same ssh command by hand"), "{answer:#?}");
}

#[test]
fn programs_that_cannot_be_loaded_are_named_with_what_is_wrong() {
    let cases = [
        (
            "/opt/a/bin/orted: error while loading shared libraries: /opt/a/lib/libopen-rte.so.40: file too short\n",
            127,
            Cause::LibraryMissing,
            "file too short",
        ),
        (
            "Can't locate Statistics/Regression.pm in @INC (you may need to install it)\n",
            2,
            Cause::LibraryMissing,
            "Statistics/Regression.pm",
        ),
        (
            "Error in library(pbdMPI) : there is no package called \u{2018}pbdMPI\u{2019}\n",
            1,
            Cause::LibraryMissing,
            "pbdMPI",
        ),
        (
            "/workspace/train: 1: Syntax error: \")\" unexpected\n",
            255,
            Cause::ExecutableNotPermitted,
            "another architecture",
        ),
        (
            "/usr/bin/python3: can't find '__main__' module in '/workspace'\n",
            1,
            Cause::ExecutableNotFound,
            "is a directory",
        ),
        (
            "mpirun has detected that one or more applications was given a negative\nnumber of processes to run:\n\n  Application:  hostname\n  Num procs:    -1\n",
            1,
            Cause::BadOption,
            "-1 processes",
        ),
        (
            "Connection timed out during banner exchange\r\n",
            255,
            Cause::ConnectionTimeout,
            "sshd does not answer",
        ),
        (
            "/root/.ssh/config: line 5: Bad configuration option: stricthostchecking\r\n",
            255,
            Cause::BadOption,
            "line 5",
        ),
        (
            "[1795.68] [w-0:10108:0]  ucp_context.c:1643 UCX  ERROR no usable transports/devices (asked rc_x on all devices)\nAbort(68830607): Fatal error in internal_Init_thread: Other MPI error, error stack:\n",
            143,
            Cause::BadOption,
            "rc_x",
        ),
        (
            "PMIx detected a call to mkdir was unable to create the desired directory:\n\n  Directory: /tmp/ompi.1322\n  Error:     Read-only file system\n",
            213,
            Cause::StorageUnusable,
            "/tmp/ompi.1322",
        ),
    ];
    for (text, code, cause, words) in cases {
        let answer = found(text, Ending::Exited(code));
        assert_eq!(answer.cause, cause, "{text}{answer:#?}");
        assert!(answer.message.contains(words), "{text}{answer:#?}");
    }
    let script = found("/workspace/run.sh: 1: Syntax error: \")\" unexpected\n", Ending::Exited(2));
    assert_eq!(script.cause, Cause::RankExited, "{script:#?}");
}

#[test]
fn packages_that_were_built_for_another_numpy_are_named_with_the_import_that_failed() {
    for exception in [
        "RuntimeError: module compiled against ABI version 0x1000009 but this version of numpy is 0x2000000",
        "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88 from PyObject",
        "ImportError: numpy.core.multiarray failed to import",
    ] {
        let text = format!(
            "Traceback (most recent call last):\n  File \"/app/train.py\", line 7, in <module>\n    import scipy\n  File \"/usr/lib/python3/dist-packages/scipy/__init__.py\", line 3, in <module>\n{exception}\n"
        );
        for ending in [Ending::Unknown, Ending::Exited(1)] {
            let answer = found(&text, ending);
            assert_eq!(
                (answer.cause, answer.confidence),
                (Cause::RankExited, Confidence::Medium),
                "{answer:#?}"
            );
            let told = format!("{exception} (/app/train.py, line 7)");
            assert!(answer.message.contains(&told), "{answer:#?}");
        }
    }
}

#[test]
fn a_group_of_exceptions_is_an_uncaught_exception() {
    let text = "  + Exception Group Traceback (most recent call last):\n  |   File \"/workspace/train.py\", line 14, in <module>\n  |     raise ExceptionGroup(\"loading failed\", errors)\n  | ExceptionGroup: loading failed (1 sub-exception)\n  +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n    |   File \"/workspace/train.py\", line 11, in <module>\n    |     load(0)\n    | ValueError: shard 0 is empty\n    +------------------------------------\n";
    let answer = found(text, Ending::Exited(1));
    assert_eq!(answer.cause, Cause::RankExited, "{answer:#?}");
    assert!(
        answer
            .message
            .contains("ExceptionGroup: loading failed (1 sub-exception) (/workspace/train.py, line 14)"),
        "{answer:#?}"
    );
}

#[test]
fn a_hostfile_of_another_mpi_is_named_where_its_slots_are_taken_for_a_name() {
    let answer =
        found("ssh: Could not resolve hostname w-0:2: Name or service not known\r\n", Ending::Exited(255));
    assert_eq!(answer.cause, Cause::BadHostfile, "{answer:#?}");
    assert!(answer.message.contains("w-0:2"), "{answer:#?}");
}

#[test]
fn what_a_program_survived_is_not_what_it_ended_with() {
    let report = format!(
        "{FRAME}mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[42395,1],1]\n  Exit code:    1\n{FRAME}"
    );
    let survived = "CUDA out of memory. Tried to allocate 2.00 GiB\nhalving the batch size\n";
    let answer = found(&format!("{survived}{}{report}", raising("KeyError: 'labels'")), Ending::Exited(1));
    assert_eq!(answer.cause, Cause::RankExited, "{answer:#?}");
    assert!(answer.message.contains("KeyError: 'labels'"), "{answer:#?}");
    let ended = raising("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB");
    let consequence = raising("RuntimeError: [../gloo/tcp/pair.cc] Connection closed by peer [10.0.0.4]:3");
    let answer = found(&format!("{ended}{consequence}{report}"), Ending::Exited(1));
    assert_eq!(answer.cause, Cause::GpuOutOfMemory, "{answer:#?}");

    let refused = "[W socket.cpp:601] [c10d] The client socket has failed to connect to [w-0]:29500 (errno: 111 - Connection refused).\n";
    let answer =
        found(&format!("{refused}epoch 1\n{}", raising("ValueError: 12 classes")), Ending::Exited(1));
    assert!(answer.message.contains("ValueError: 12 classes"), "{answer:#?}");
    let epochs = "epoch\n".repeat(60);
    let silent = found(&format!("{refused}{epochs}"), Ending::Running { silent_seconds: 200 });
    assert_eq!(silent.cause, Cause::SilentHang, "it tried again: {silent:#?}");
    let dist = raising("torch.distributed.DistNetworkError: cannot reach the store");
    let answer = found(&format!("{refused}{dist}"), Ending::Exited(1));
    assert!(answer.message.contains("w-0 port 29500"), "{answer:#?}");
}

#[test]
fn an_exception_of_mpi_that_was_caught_does_not_explain_a_later_abort() {
    let raised = raising("mpi4py.MPI.Exception: Invalid rank, error stack:");
    let abort = |code: i32| {
        let text = format!(
            "{raised}epoch 2\nAbort({code}) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, {code}) - process 1\n"
        );
        found(&text, Ending::Exited(code))
    };
    assert_eq!(abort(9).cause, Cause::RankAborted);
    assert_eq!(
        (abort(1).cause, abort(1).message.as_str()),
        (Cause::MpiError, "An MPI call failed: Invalid rank")
    );
}

#[test]
fn of_mpichs_two_reports_the_one_that_fits_the_exit_code_counts() {
    let rule = "=".repeat(83);
    let text = format!(
        "{}\n{rule}\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 622 RUNNING AT w-0\n=   EXIT CODE: 9\n=   CLEANING UP REMAINING PROCESSES\n{rule}\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)\n",
        raising("ModuleNotFoundError: No module named 'apex'")
    );
    let answer = found(&text, Ending::Exited(11));
    assert_eq!((answer.cause, answer.confidence), (Cause::RankCrashed, Confidence::High), "{answer:#?}");
    assert_eq!(answer.worker, None, "that one was ended by mpiexec");
}

#[test]
fn a_warning_is_not_quoted_as_the_reason() {
    let text = format!(
        "warning: too many small files\n{FRAME}mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[42395,1],1]\n  Exit code:    1\n{FRAME}"
    );
    assert_eq!(found(&text, Ending::Exited(1)).message, "Rank 1 exited with code 1");
}
