//! MPI's own errors.

use super::super::weight::{EXIT, REASON, SYMPTOM};
use super::super::{Rule, Speaker, rule};
use crate::cause::Cause;

pub(super) const RULES: &[Rule] = &[
    rule(
        "ompi-mpi-error",
        Cause::MpiError,
        REASON - 2,
        "*** MPI_ERR_",
        r"^\[(?P<host>[\w.-]+?)(?::\d+)?\] \*\*\* (?P<name>MPI_ERR_(?:ARG|BUFFER|COMM|COUNT|DIMS|GROUP|IN_STATUS|OP|RANK|REQUEST|ROOT|TAG|TOPOLOGY|TRUNCATE|TYPE|WIN|FILE|IO|KEYVAL|INFO|PENDING)\b.*)",
        "[train-worker-1:00419] *** MPI_ERR_TRUNCATE: message truncated",
    )
    .by(Speaker::Rank),
    rule(
        "ompi-mpi-error-internal",
        Cause::MpiError,
        SYMPTOM,
        "*** MPI_ERR_",
        r"^\[(?P<host>[\w.-]+?)(?::\d+)?\] \*\*\* (?P<name>MPI_ERR_\w+.*)",
        "[train-worker-1:00419] *** MPI_ERR_INTERN: internal error",
    )
    .by(Speaker::Rank),
    // MPI ended the rank; the program did not call MPI_Abort, though the launcher reports both in the same words. This
    // can also be a consequence of a peer that ended or cannot be reached.
    rule(
        "ompi-errors-are-fatal",
        Cause::MpiError,
        EXIT - 3,
        "*** An error occurred in ",
        r"^\[(?P<host>[\w.-]+?)(?::\d+)?\] \*\*\* An error occurred in (?P<name>\S.*)",
        "[train-worker-1:00000] *** An error occurred in Socket closed",
    )
    .by(Speaker::Rank),
    rule(
        "ompi-mpi-not-initialised",
        Cause::MpiError,
        REASON - 2,
        "*** The MPI_",
        r"^\*\*\* (?P<name>The MPI_\w+\(\) function was called (?:before MPI_INIT|after MPI_FINALIZE)\b.*)",
        "*** The MPI_Comm_rank() function was called before MPI_INIT was invoked.",
    )
    .by(Speaker::Rank)
    .says("A call of MPI came at the wrong time: {name|}")
    .advice("Call MPI only after MPI_Init and before MPI_Finalize, in every rank; with mpi4py, look for exit handlers and destructors that use MPI after its end."),
    rule(
        "mpich-mpi-error",
        Cause::MpiError,
        REASON - 2,
        "Fatal error in ",
        r"\(rank (?P<rank>\d+) in comm \w+\): Fatal error in (?P<name>\w+: (?:Message truncated|Invalid \w+|Null \w+|Unmatched|Request pending|Missing hostname).*?)(?:, error stack)?:?$",
        "Abort(402792462) on node 1 (rank 1 in comm 0): Fatal error in internal_Recv: Message truncated, error stack:",
    )
    .by(Speaker::Rank)
    .says("An MPI call failed on {whom|a rank}: {name|}"),
    rule(
        "mpich-mpi-error-other",
        Cause::MpiError,
        SYMPTOM - 2,
        "Fatal error in ",
        r"(?:\(rank (?P<rank>\d+) in comm \w+\): )?Fatal error in (?P<name>(?:internal_|P?MPI_|PMPI)\w+: .*?)(?:, error stack)?:?$",
        "Abort(876203535) on node 0 (rank 0 in comm 0): Fatal error in internal_Init: Other MPI error, error stack:",
    )
    .by(Speaker::Rank)
    .says("An MPI call failed on {whom|a rank}: {name|}"),
    rule(
        "mpi4py-error",
        Cause::MpiError,
        // `python -m mpi4py` ends the job with MPI_Abort because of it.
        REASON + 1,
        "mpi4py.MPI.Exception: ",
        r"^mpi4py\.MPI\.Exception: (?P<name>(?:MPI_ERR_(?:ARG|BUFFER|COMM|COUNT|DIMS|GROUP|IN_STATUS|OP|RANK|REQUEST|ROOT|TAG|TOPOLOGY|TRUNCATE|TYPE|WIN|FILE|IO|KEYVAL|INFO|PENDING)\b|Message truncated|Invalid |Null |Unmatched|Request pending).*?)(?:, error stack:?)?$",
        "mpi4py.MPI.Exception: MPI_ERR_TRUNCATE: message truncated",
    )
    .by(Speaker::Rank)
    .says("An MPI call failed: {name|}"),
    rule(
        "mpi4py-error-file",
        Cause::MpiError,
        REASON + 1,
        "mpi4py.MPI.Exception: MPI_ERR_",
        r"^mpi4py\.MPI\.Exception: (?P<name>MPI_ERR_(?:NO_SUCH_FILE|ACCESS|AMODE|BAD_FILE|FILE_EXISTS|FILE_IN_USE|READ_ONLY|NO_SPACE|QUOTA)\b.*)",
        "mpi4py.MPI.Exception: MPI_ERR_NO_SUCH_FILE: no such file or directory",
    )
    .by(Speaker::Rank)
    .says("A file could not be opened or written with MPI: {name|}")
    .advice("MPI opens the file in every rank: its path must be the same in all Workers, on a volume that they share, and the user that runs must be allowed to read or write it."),
    rule(
        "mpi4py-error-spawn",
        Cause::MpiError,
        REASON + 1,
        "mpi4py.MPI.Exception: MPI_ERR_SPAWN",
        r"^mpi4py\.MPI\.Exception: (?P<name>MPI_ERR_SPAWN\b.*)",
        "mpi4py.MPI.Exception: MPI_ERR_SPAWN: could not spawn processes",
    )
    .by(Speaker::Rank)
    .says("The program could not start more processes (MPI_Comm_spawn): {name|}")
    .advice("Leave slots of the hostfile free for them (start fewer ranks with -np, or raise slotsPerWorker), and check that the program exists in every Worker."),
    rule(
        "mpi4py-error-window",
        Cause::MpiError,
        REASON + 1,
        "mpi4py.MPI.Exception: MPI_ERR_",
        r"^mpi4py\.MPI\.Exception: (?P<name>MPI_ERR_(?:RMA_\w+|BASE|DISP|SIZE|LOCKTYPE|ASSERT)\b.*)",
        "mpi4py.MPI.Exception: MPI_ERR_RMA_RANGE: invalid RMA address range",
    )
    .by(Speaker::Rank)
    .says("A one-sided MPI call failed: {name|}")
    .advice("Look at that call: displacement and count must lie within the other rank's window, and a fence or lock must be open."),
    // MPICH has no class for it, and says what it is below.
    rule(
        "mpi4py-error-usage",
        Cause::MpiError,
        REASON + 1,
        "mpi4py.MPI.Exception: Other MPI error",
        r"^mpi4py\.MPI\.Exception: Other MPI error, error stack:",
        "mpi4py.MPI.Exception: Other MPI error, error stack:\ninternal_Init(70): MPI_Init(argc=(nil), argv=(nil)) failed\ninternal_Init(50): Cannot call MPI_INIT or MPI_INIT_THREAD more than once",
    )
    .block(r"\n\w+\(\d+\)\.*: (?:Cannot call|Attempting to use|Value of|Invalid|Null|Negative) ")
    .details(&[r"\n\w+\(\d+\)\.*: (?P<name>(?:Cannot call|Attempting to use|Value of|Invalid|Null|Negative) .*)"])
    .by(Speaker::Rank)
    .says("An MPI call failed: {name|}")
    .advice("Correct that call in the program."),
    // What made it fail is in other lines, if anywhere.
    rule(
        "mpi4py-error-internal",
        Cause::MpiError,
        SYMPTOM - 1,
        "mpi4py.MPI.Exception: ",
        r"^mpi4py\.MPI\.Exception: (?P<name>.+?)(?:, error stack:?)?$",
        "mpi4py.MPI.Exception: MPI_ERR_INTERN: internal error",
    )
    .by(Speaker::Rank)
    .says("An MPI call failed: {name|}"),
];
