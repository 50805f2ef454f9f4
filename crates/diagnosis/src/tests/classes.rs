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
