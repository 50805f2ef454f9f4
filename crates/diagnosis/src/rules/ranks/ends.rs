//! How ranks end: killed, crashed, aborted, exited.

use super::super::weight::{CONSEQUENCE, END, EXIT, REASON, STATUS, SYMPTOM};
use super::super::{Rule, Speaker, rule};
use crate::cause::Cause;

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
];

/// What follows from the end of a Worker or of a rank.
pub(super) const CONSEQUENCES: &[Rule] = &[
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
