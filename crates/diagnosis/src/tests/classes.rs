//! Classes of answers that were wrong for outputs that no rule had been written for.

use super::super::{Cause, Confidence, Diagnosis, Ending};
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
