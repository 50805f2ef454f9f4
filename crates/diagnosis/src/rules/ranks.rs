//! How ranks end: killed, crashed, aborted, exited; out of memory on host and GPU; MPI's own errors.

use super::super::cause::Cause;
use super::weight::{CONSEQUENCE, END, EXIT, REASON, ROOT, STATUS, SYMPTOM};
use super::{Rule, Speaker, rule};

/// The path in a line with the text of an error number: `cp: error writing '/data/x': TEXT`, `[Errno 28] TEXT: '/data/x'`.
macro_rules! paths_of_errno {
    ($text:literal) => {
        &[
            concat!(r#"\A.*?[^\w/](?P<path>/[^'"\s:\xe2]+)\S{0,3}: (?:\[Errno \d+\] )?(?:"#, $text, ")"),
            concat!(r"\A.*(?:", $text, r#").*?['"](?P<path>/[^'"\s]+)"#),
        ]
    };
}

/// Advice on a rank that was ended by a bus error.
pub(crate) const BUS_ERROR_ADVICE: &str = "Mount an emptyDir with medium: Memory at /dev/shm in the Workers (it counts against the memory limit): a bus error (signal 7) mostly means that /dev/shm, 64 MiB unless asked otherwise, is full. Another reason is a mapped file that was cut or whose volume is full or gone.";

pub(super) const RULES: &[Rule] = &[
    rule(
        "agent-out-of-memory",
        Cause::OutOfMemory,
        STATUS - 1,
        " killed by the kernel: out of memory",
        r"^odh-launch: (?P<host>\S+): (?P<count>\d+) process(?: was|es were) killed by the kernel: out of memory, limit (?P<name>\d+ \S+)",
        "odh-launch: train-worker-1: 1 process was killed by the kernel: out of memory, limit 16384 MiB",
    )
    .run()
    .says("A rank on {host|a Worker} was killed because the memory limit ({name|}) was exceeded"),
    rule(
        "agent-ranks-ended",
        Cause::SilentHang,
        CONSEQUENCE,
        " have ended, but the process that started them is still running",
        r"^odh-launch: (?P<host>\S+): ranks (?P<name>[0-9,-]+) of \d+ have ended, but the process that started them is still running",
        "odh-launch: train-worker-1: ranks 4-7 of 8 have ended, but the process that started them is still running",
    )
    .run()
    .says("Ranks {name|} on {host|a Worker} have ended, but the Launcher is still running: other ranks may wait for them forever")
    .advice("Read what those ranks printed before they ended. If they ended well, the others may simply work on; otherwise delete the job or run it again, and have a rank that cannot continue call MPI_Abort, which ends all others too."),
    // Open MPI 4 and 5. A rank's lines may come between the two lines of this report, hence so many characters.
    rule(
        "ompi-killed",
        Cause::RankKilled,
        END,
        " noticed that process rank ",
        r"noticed that process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on",
        "mpirun noticed that process rank 1 with PID 697 on node train-worker-1 exited on signal 9 (Killed).",
    )
    .block(r"exited on\b(?s:.{0,1200}?)\bsignal 9\b")
    .details(&[r"\bsignal (?P<signal>9)\b"])
    .report(),
    rule(
        "ompi-crashed",
        Cause::RankCrashed,
        END,
        " noticed that process rank ",
        r"noticed that process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on",
        "prterun noticed that process rank 1 with PID 697 on node train-worker-1 exited on\nsignal 11 (Segmentation fault).",
    )
    .block(r"exited on\b(?s:.{0,1200}?)\bsignal (?:3|4|5|6|7|8|11|31)\b")
    .details(&[r"\bsignal (?P<signal>\d+)\b"])
    .report(),
    rule(
        "ompi-terminated",
        Cause::Terminated,
        END - 10,
        " noticed that process rank ",
        r"noticed that process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on",
        "mpirun noticed that process rank 1 with PID 697 on node train-worker-1 exited on signal 15 (Terminated).",
    )
    .block(r"exited on\b(?s:.{0,1200}?)\bsignal (?:1|2|10|12|15)\b")
    .details(&[r"\b(?P<signal>signal \d+)\b"])
    .says("{who|A rank} on {host|a Worker} was ended from outside ({signal|SIGTERM})")
    .report(),
    rule(
        "ompi-limited",
        Cause::Terminated,
        END - 10,
        " noticed that process rank ",
        r"noticed that process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on",
        "mpirun noticed that process rank 1 with PID 697 on node train-worker-1 exited on signal 24 (CPU time limit exceeded).",
    )
    .block(r"exited on\b(?s:.{0,1200}?)\bsignal (?:13|14|24|25|26|27)\b")
    .details(&[r"\b(?P<signal>signal \d+)\b(?: \((?P<name>[^)\n]+)\))?"])
    .says("{who|A rank} on {host|a Worker} was ended by {signal|a signal} ({name|a limit or a timer})")
    .advice("Look for a limit in the image or in the start script (ulimit -t, ulimit -f), for a timer that the program sets itself, and for a pipe whose reader has ended.")
    .report(),
    rule(
        "ompi-abort",
        Cause::RankAborted,
        REASON,
        "MPI_ABORT was invoked on rank ",
        r"MPI_ABORT was invoked on rank (?P<rank>\d+) in communicator",
        "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 42.",
    )
    .details(&[r"(?i)error ?code:? (?P<code>-?\d+)"])
    .report(),
    rule(
        "ompi-ordered-abort",
        Cause::RankAborted,
        EXIT - 4,
        " has exited due to process rank ",
        r"has exited due to process rank (?P<rank>\d+) with PID \d+ on",
        "mpirun has exited due to process rank 1 with PID 697 on\nnode train-worker-1 calling \"abort\". This may have caused other processes",
    )
    .block(r#"PID \d+ on\b(?s:.{0,1200}?)\bcalling\b(?s:.{0,1200}?)"abort""#)
    .details(&[r"\bnode (?P<host>\S+)"])
    .report(),
    rule(
        "ompi-improper",
        Cause::RankExited,
        EXIT,
        " has exited due to process rank ",
        r"has exited due to process rank (?P<rank>\d+) with PID \d+ on",
        "mpirun has exited due to process rank 1 with PID 697 on\nnode train-worker-1 exiting improperly. There are three reasons this could occur:",
    )
    .block(r"\bexiting\b(?s:.{0,1200}?)\bimproperly\.")
    .details(&[r"\bnode (?P<host>\S+)"])
    .says("{who|A rank} on {host|a Worker} exited without MPI_Finalize")
    .report(),
    rule(
        "ompi-nonzero",
        Cause::RankExited,
        EXIT,
        "detected that one or more processes exited with non-zero status",
        r"detected that one or more processes exited with non-zero status",
        "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[42395,1],1]\n  Exit code:    3",
    )
    .details(&[r"Process name: +\[.*,(?P<rank>\d+)\]", r"Exit code: +(?P<code>\d+)"])
    .report(),
    rule(
        "ompi-nonzero-unnamed",
        Cause::RankExited,
        EXIT - 10,
        "terminated normally, but ",
        r"^(?:Primary|Child) job\b.*terminated normally, but (?P<count>\d+) process",
        "Primary job  terminated normally, but 1 process returned\na non-zero exit code. Per user-direction, the job has been aborted.",
    )
    .run(),
    rule(
        "ompi-signal-handler",
        Cause::RankCrashed,
        END - 1,
        " Signal: ",
        r"^\[(?P<host>[\w.-]+):\d+\] Signal: (?P<name>[A-Z][\w ]+) \((?P<signal>3|4|5|6|7|8|11|31)\)",
        "[train-worker-1:00408] Signal: Segmentation fault (11)",
    )
    .by(Speaker::Rank)
    .says("A rank on {host|a Worker} crashed with signal {signal|} ({name|})"),
    rule(
        "ucx-signal-handler",
        Cause::RankCrashed,
        END - 1,
        "Caught signal ",
        r"(?:\[(?P<host>[\w.-]+):\d+ *:[\d:]*\].*)?Caught signal (?P<signal>3|4|5|6|7|8|11|31) \((?P<name>[^:)]+)",
        "[train-worker-1:595  :0:595] Caught signal 11 (Segmentation fault: address not mapped to object at address (nil))",
    )
    .by(Speaker::Rank)
    .says("A rank on {host|a Worker} crashed with signal {signal|} ({name|})"),
    rule(
        "python-fatal",
        Cause::RankCrashed,
        END - 2,
        "Fatal Python error: ",
        r"^Fatal Python error: (?P<name>Segmentation fault|Bus error|Aborted|Illegal instruction|Floating-point exception)",
        "Fatal Python error: Segmentation fault",
    )
    .by(Speaker::Rank)
    .says("A Python rank crashed: {name|}"),
    // MPICH and Intel MPI
    rule(
        "hydra-killed",
        Cause::RankKilled,
        END,
        "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        r"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 559 RUNNING AT train-worker-1\n=   EXIT CODE: 9",
    )
    .block(r"=   EXIT CODE: (?:9|137)\b")
    .details(&[r"PID \d+ RUNNING AT (?P<host>\S+)"])
    .says("A rank on {host|a Worker} was killed by signal 9")
    .report(),
    rule(
        "hydra-crashed",
        Cause::RankCrashed,
        END + 1,
        "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        r"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 559 RUNNING AT train-worker-1\n=   EXIT CODE: 139",
    )
    // The wait status: the signal's number, plus 128 if a core was dumped.
    .block(r"=   EXIT CODE: (?:4|6|7|8|11|132|133|134|135|136|139)\b|=   KILLED BY SIGNAL: (?:4|5|6|7|8|11|31)\b")
    .details(&[r"(?:RANK (?P<rank>\d+) )?PID \d+ RUNNING AT (?P<host>\S+)", r"(?:EXIT CODE|KILLED BY SIGNAL): (?P<signal>\d+)"])
    .says("A rank on {host|a Worker} crashed (signal or wait status {signal|unknown})")
    .report(),
    rule(
        "hydra-terminated",
        Cause::Terminated,
        END - 10,
        "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        r"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 559 RUNNING AT train-worker-1\n=   EXIT CODE: 15",
    )
    .block(r"=   EXIT CODE: (?:15|143)\b|=   KILLED BY SIGNAL: (?:1|2|10|12|15)\b")
    .details(&[r"(?:RANK (?P<rank>\d+) )?PID \d+ RUNNING AT (?P<host>\S+)", r"KILLED BY SIGNAL: (?P<signal>\d+)"])
    .says("{who|A rank} on {host|a Worker} was ended from outside (signal {signal|15})")
    .report(),
    rule(
        "intel-limited",
        Cause::Terminated,
        END - 10,
        "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        r"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 1 PID 559 RUNNING AT train-worker-1\n=   KILLED BY SIGNAL: 24 (CPU time limit exceeded)",
    )
    .block(r"=   KILLED BY SIGNAL: (?:13|14|24|25|26|27)\b")
    .details(&[r"RANK (?P<rank>\d+) PID \d+ RUNNING AT (?P<host>\S+)", r"KILLED BY SIGNAL: (?P<signal>\d+) \((?P<name>[^)\n]+)\)"])
    .says("{who|A rank} on {host|a Worker} was ended by signal {signal|} ({name|a limit or a timer})")
    .report(),
    rule(
        "hydra-exited",
        Cause::RankExited,
        EXIT + 2,
        "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        r"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 1 PID 559 RUNNING AT train-worker-1\n=   EXIT STATUS: 3",
    )
    .block(r"=   EXIT STATUS: \d+|=   EXIT CODE: (?:1|2|3|255|256|512|768)\b")
    .details(&[r"(?:RANK (?P<rank>\d+) )?PID \d+ RUNNING AT (?P<host>\S+)", r"EXIT (?:STATUS|CODE): (?P<code>\d+)"])
    .report(),
    // Intel MPI ends the other ranks of a Worker with signal 9 and reports those, too. `intel` reads which it was.
    rule(
        "intel-killed",
        Cause::RankKilled,
        CONSEQUENCE,
        "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        r"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 1 PID 559 RUNNING AT train-worker-1\n=   KILLED BY SIGNAL: 9 (Killed)",
    )
    .block(r"=   KILLED BY SIGNAL: 9\b")
    .details(&[r"RANK (?P<rank>\d+) PID \d+ RUNNING AT (?P<host>\S+)"])
    .says("{who|A rank} on {host|a Worker} was killed by signal 9: from outside or for memory, or by mpiexec because another rank on that Worker had ended with an error, which Intel MPI does not report")
    .run(),
    rule(
        "intel-signal-handler",
        Cause::RankCrashed,
        END - 1,
        " terminated with signal ",
        r"^(?P<path>\S+):\d+ terminated with signal (?P<signal>3|4|5|6|7|8|11|31) at PC=",
        "train:64 terminated with signal 11 at PC=563f93424366 SP=7ffce0738780.  Backtrace:",
    )
    .by(Speaker::Rank)
    .says("A rank crashed with signal {signal|} ({path|the program})"),
    rule(
        "hydra-exit-string-killed",
        Cause::RankKilled,
        END,
        "TERMINATED WITH THE EXIT STRING: ",
        r"YOUR APPLICATION TERMINATED WITH THE EXIT STRING: .*\(signal 9\)",
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)",
    )
    .says("A rank was killed by signal 9")
    .report(),
    rule(
        "hydra-exit-string-crashed",
        Cause::RankCrashed,
        END,
        "TERMINATED WITH THE EXIT STRING: ",
        r"YOUR APPLICATION TERMINATED WITH THE EXIT STRING: .*\(signal (?P<signal>4|5|6|7|8|11|31)\)",
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)",
    )
    .report(),
    rule(
        "hydra-exit-string-terminated",
        Cause::Terminated,
        SYMPTOM,
        "TERMINATED WITH THE EXIT STRING: ",
        r"YOUR APPLICATION TERMINATED WITH THE EXIT STRING: .*\(signal (?P<signal>1|2|10|12|13|14|15|24|25)\)",
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Terminated (signal 15)",
    )
    .says("A rank was ended from outside (signal {signal|15})")
    .report(),
    rule(
        "mpich-abort",
        Cause::RankAborted,
        REASON,
        "application called MPI_Abort(",
        r"application called MPI_Abort\(.*?, (?P<code>-?\d+)\) - process (?P<rank>\d+)",
        "Abort(42) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 42) - process 1",
    )
    .report(),
    // MPI's own errors
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
    // Memory
    rule(
        "kernel-oom",
        Cause::OutOfMemory,
        ROOT + 5,
        "ut of memory: Killed process ",
        r"(?:Memory cgroup out of memory|Out of memory): Killed process \d+ \((?P<name>[^)]+)\)",
        "[1234.5] Memory cgroup out of memory: Killed process 697 (python) total-vm:20971520kB",
    )
    .by(Speaker::Rank)
    .says("The kernel killed {name|a process} because the memory limit was reached"),
    rule(
        "python-memory-error",
        Cause::OutOfMemory,
        REASON + 1,
        "MemoryError",
        r"^(?:[\w.]*\.)?_?(?:Array)?MemoryError(?:: (?P<reason>.*))?$",
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 12.0 GiB for an array",
    )
    .by(Speaker::Program)
    .says("A rank could not allocate memory: {reason|MemoryError}"),
    rule(
        "bad-alloc",
        Cause::OutOfMemory,
        END + 3,
        "std::bad_alloc",
        r"terminate called after throwing an instance of 'std::bad_alloc'",
        "terminate called after throwing an instance of 'std::bad_alloc'",
    )
    .by(Speaker::Program)
    .says("A rank could not allocate memory (std::bad_alloc)"),
    rule(
        "torch-cpu-allocator",
        Cause::OutOfMemory,
        REASON + 1,
        "DefaultCPUAllocator: ",
        r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)(?P<reason>.*)",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 17179869184 bytes.",
    )
    .by(Speaker::Program)
    .says("A rank could not allocate memory{reason|}"),
    rule(
        "torch-gpu-oom",
        Cause::GpuOutOfMemory,
        REASON + 2,
        "out of memory",
        r"^(?:.*(?:Error|error): .*)?(?P<reason>(?:CUDA|HIP) out of memory\. Tried to allocate [\d.]+ \w+)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB",
    )
    .by(Speaker::Program)
    .says("{reason|CUDA out of memory}"),
    rule(
        "cuda-gpu-oom",
        Cause::GpuOutOfMemory,
        REASON + 1,
        "out of memory",
        r"(?:CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|[Cc]uda failure (?:\d+ )?'out of memory'|cudaMalloc.*out of memory)",
        "RuntimeError: CUDA error: out of memory",
    )
    .by(Speaker::Program),
    rule(
        "cuda-driver-oom",
        Cause::GpuOutOfMemory,
        REASON + 1,
        "CUDA_ERROR_OUT_OF_MEMORY",
        r"CUDA_ERROR_OUT_OF_MEMORY",
        "failed to allocate 2.00G (2147483648 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    )
    .by(Speaker::Program),
    rule(
        "xla-gpu-oom",
        Cause::GpuOutOfMemory,
        REASON + 1,
        "RESOURCE_EXHAUSTED: Out of memory",
        r"RESOURCE_EXHAUSTED: (?P<reason>Out of memory while trying to allocate \d+ bytes)",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",
    )
    .by(Speaker::Program),
    rule(
        "tensorflow-gpu-oom",
        Cause::GpuOutOfMemory,
        REASON + 1,
        "OOM when allocating tensor",
        r"(?:ResourceExhaustedError|RESOURCE_EXHAUSTED)\b.*OOM when allocating tensor",
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[64,4096]",
    )
    .by(Speaker::Program),
    // Shared memory and disk
    rule(
        "ucx-shm",
        Cause::SharedMemoryTooSmall,
        ROOT,
        "Please check that /dev/shm",
        r"(?:\[(?P<host>[\w.-]+):\d+ *:\d+\].*)?Not enough memory to write total of \d+ bytes. Please check that /dev/shm",
        "[1795253853.874195] [train-worker-0:595  :0]        mm_posix.c:187  UCX  ERROR   Not enough memory to write total of 4292720 bytes. Please check that /dev/shm or the directory you specified has more available memory.",
    )
    .by(Speaker::Rank),
    rule(
        "ompi-shm",
        Cause::SharedMemoryTooSmall,
        REASON - 4,
        "It appears as if there is not enough space for ",
        r"It appears as if there is not enough space for (?P<path>\S+)",
        "It appears as if there is not enough space for /dev/shm/vader_segment.train-worker-0.1 (the shared-memory backing\n  Local host:  train-worker-0",
    )
    .by(Speaker::Rank)
    .details(&[r"Local host: +(?P<host>\S+)"]),
    rule(
        "torch-shm",
        Cause::SharedMemoryTooSmall,
        ROOT,
        "insufficient shared memory (shm)",
        r"insufficient shared memory \(shm\)",
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
    )
    .by(Speaker::Rank),
    rule(
        "torch-loader-bus",
        Cause::SharedMemoryTooSmall,
        ROOT,
        "out of shared memory",
        r"DataLoader worker .* is killed by signal: Bus error.*out of shared memory",
        "RuntimeError: DataLoader worker (pid 17) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
    )
    .by(Speaker::Rank),
    rule(
        "nccl-shm",
        Cause::SharedMemoryTooSmall,
        ROOT,
        "shared memory segment /dev/shm/",
        r"(?:(?P<host>[\w.-]+):\d+:\d+ \[\d+\] .*)?NCCL WARN Error(?:: failed to extend| while creating| while attaching)?.*shared memory segment (?P<path>/dev/shm/\S+)",
        "train-worker-0:37:112 [0] include/shm.h:28 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-AbCdEf (size 9637888)",
    )
    .by(Speaker::Rank),
    rule(
        "no-space-shm",
        Cause::SharedMemoryTooSmall,
        REASON + 1,
        "No space left on device",
        r"/dev/shm\b\S*: (?:\[Errno \d+\] )?No space left on device|No space left on device:? .?/dev/shm\b",
        "OSError: [Errno 28] No space left on device: '/dev/shm/batch-7'",
    )
    .by(Speaker::Program)
    .says("/dev/shm is full"),
    rule(
        "no-space",
        Cause::StorageUnusable,
        REASON,
        "No space left on device|isk quota exceeded",
        r"(?:^|[:\]('] ?)(?P<reason>No space left on device|Disk quota exceeded)\b",
        "OSError: [Errno 28] No space left on device: '/checkpoints/epoch-3.pt'",
    )
    .by(Speaker::Program)
    .details(paths_of_errno!("No space left on device|Disk quota exceeded"))
    .says("No space left: {path|a file system} is full ({reason|})")
    .advice("Delete old checkpoints or enlarge the volume; a directory that no volume is mounted at, such as /tmp, counts against the limit of ephemeral-storage: raise it, or mount an emptyDir or a claim there. With a quota (Disk quota exceeded), ask an administrator of the storage for more. If no path is named, look at /dev/shm, too: it has 64 MiB unless an emptyDir with medium: Memory is mounted there."),
    rule(
        "read-only",
        Cause::StorageUnusable,
        REASON,
        "Read-only file system",
        r"(?:^|[:\]('] ?)(?P<reason>Read-only file system)\b",
        "OSError: [Errno 30] Read-only file system: '/opt/app/cache'",
    )
    .by(Speaker::Program)
    .details(paths_of_errno!("Read-only file system"))
    .says("{path|A directory} cannot be written: its file system is read-only")
    .advice("Write to a volume: mount an emptyDir or a claim at that directory (without readOnly: true), or set TMPDIR, HOME or the program's output directory to one. With securityContext.readOnlyRootFilesystem: true, nothing outside of volumes can be written."),
    rule(
        "session-directory",
        Cause::StorageUnusable,
        ROOT,
        " call to mkdir was unable to create the desired directory",
        r"^(?:A|\w+ detected a) call to mkdir was unable to create the desired directory",
        "A call to mkdir was unable to create the desired directory:\n\n  Directory: /tmp/ompi.train-worker-0.1000\n  Error:     Permission denied",
    )
    .details(&[r"Directory: +(?P<path>\S+)", r"Error: +(?P<reason>\S.*)"])
    .says("MPI cannot create {path|its temporary directory}: {reason|see the evidence}")
    .run(),
    // What follows
    rule(
        "ompi-peer-hung-up",
        Cause::WorkerLost,
        EXIT - 2,
        "peer process has unexpectedly disconnected",
        r"An MPI communication peer process has unexpectedly disconnected",
        "An MPI communication peer process has unexpectedly disconnected.  This\n  Local host: train-worker-0\n  Peer host:  train-worker-1",
    )
    .by(Speaker::Rank)
    .details(&[r"Peer host: +(?P<host>\S+)"]),
    rule(
        "ompi-recv-reset",
        Cause::WorkerLost,
        CONSEQUENCE,
        "Connection reset by peer (104)",
        r"mca_btl_tcp_\w+\] recv\(\d+\) failed: Connection reset by peer",
        "[train-worker-0][[44285,1],0][btl_tcp.c:559:mca_btl_tcp_recv_blocking] recv(18) failed: Connection reset by peer (104)",
    )
    .by(Speaker::Rank)
    .says("A Worker was lost while the job was running"),
    rule(
        "ssh-closed-by-remote",
        Cause::WorkerLost,
        EXIT - 2,
        " closed by remote host.",
        r"^Connection to (?P<host>\S+) closed by remote host\.",
        "Connection to train-worker-1 closed by remote host.",
    )
    .run(),
    rule(
        "ssh-server-silent",
        Cause::WorkerLost,
        SYMPTOM,
        " not responding.",
        r"^Timeout, server (?P<host>\S+) not responding\.",
        "Timeout, server train-worker-1 not responding.",
    )
    .run(),
    rule(
        "agent-lost",
        Cause::WorkerLost,
        SYMPTOM + 2,
        "connection lost: ",
        r"^odh-launch: (?P<host>[\w.-]+): connection lost: (?P<reason>.*)",
        "odh-launch: train-worker-1: connection lost: nothing heard from the Worker for 30 s",
    )
    .run()
    .says("{host|A Worker} was lost while the job was running: {reason|}"),
];
