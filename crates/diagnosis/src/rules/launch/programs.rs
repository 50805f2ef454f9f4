//! Failures to start the program: the file, its interpreter, its libraries.

use super::super::weight::ROOT;
use super::super::{Rule, Speaker, rule};
use super::{CRLF, CRLF_ADVICE, FORMAT, FORMAT_ADVICE};
use crate::cause::Cause;

pub(super) const RULES: &[Rule] = &[
    // The program
    rule(
        "exe-not-found",
        Cause::ExecutableNotFound,
        ROOT,
        "was unable to find the specified executable file",
        r"was unable to find the specified executable file",
        "mpirun was unable to find the specified executable file, and therefore\ndid not launch the job.\n\nNode:       train-worker-1\nExecutable: train",
    )
    .details(&[r"Node: +(?P<host>\S+)", r"Executable: +(?P<path>\S+)"])
    .run(),
    // Open MPI 4 and 5 print this text both for a missing file and for one without the executable bit. Only the name
    // gives a hint: scripts mostly exist and are not executable.
    rule(
        "exe-missing-or-no-access",
        Cause::ExecutableNotFound,
        ROOT - 1,
        "was unable to launch the specified application as it could not",
        r"was unable to launch the specified application as it could not\b",
        "mpirun was unable to launch the specified application as it could not access\nor execute an executable:\n\nExecutable: /opt/train/run\nNode: train-worker-2",
    )
    .block(r"could not access|\naccess an executable")
    .details(&[r"Node: +(?P<host>\S+)", r"Executable: +(?P<path>\S+)"])
    .says("{path|The program} does not exist on {host|a Worker}, or may not be executed there")
    .run(),
    rule(
        "exe-script-no-access",
        Cause::ExecutableNotPermitted,
        ROOT,
        "was unable to launch the specified application as it could not",
        r"was unable to launch the specified application as it could not\b",
        "prterun was unable to launch the specified application as it could not\naccess an executable:\n\n   Executable: /workspace/train.py\nNode: train-worker-2",
    )
    .block(r"(?:could not access|\naccess an executable)(?s:.*)Executable: +\S*(?i:\.(?:py|sh|pl|r|jl|txt|json|ya?ml)\b|no_?-?exec|not_?-?exec|no_?-?perm|no_?-?x\b)")
    .details(&[r"Node: +(?P<host>\S+)", r"Executable: +(?P<path>\S+)"])
    .says("{path|The program} may not be executed on {host|a Worker}, or does not exist there")
    .run(),
    rule(
        "hydra-exe-not-found",
        Cause::ExecutableNotFound,
        ROOT - 1,
        "execvp error on file ",
        r"(?:\[proxy:[^@\]]*@(?P<host>[^\]]+)\].*)?execvp error on file (?P<path>\S+) \((?:No such file|Not a directory)",
        "[proxy:0:1@train-worker-1] HYDU_create_process (utils/launch/launch.c:73): execvp error on file /opt/train (No such file or directory)",
    )
    .run(),
    rule(
        "hydra-exe-no-access",
        Cause::ExecutableNotPermitted,
        ROOT - 1,
        "execvp error on file ",
        r"(?:\[proxy:[^@\]]*@(?P<host>[^\]]+)\].*)?execvp error on file (?P<path>\S+) \((?P<reason>Permission denied)",
        "[proxy:0:1@train-worker-1] HYDU_create_process (utils/launch/launch.c:73): execvp error on file /opt/train (Permission denied)",
    )
    .run(),
    rule(
        "hydra-exe-format",
        Cause::ExecutableNotPermitted,
        ROOT - 1,
        "execvp error on file ",
        r"(?:\[proxy:[^@\]]*@(?P<host>[^\]]+)\].*)?execvp error on file (?P<path>\S+) \((?P<reason>Exec format error)",
        "[proxy:0:1@train-worker-1] HYDU_create_process (utils/launch/launch.c:73): execvp error on file /opt/train (Exec format error)",
    )
    .run()
    .says(FORMAT)
    .advice(FORMAT_ADVICE),
    rule(
        "execve-error",
        Cause::ExecutableNotPermitted,
        ROOT,
        "tried to fork a new process via the \"execve\"",
        r#"tried to fork a new process via the "execve" system call"#,
        "Open MPI tried to fork a new process via the \"execve\" system call but\n  Local host:        train-worker-1\n  Application name:  /opt/train\n  Error:             Exec format error",
    )
    .details(&[r"Local host: +(?P<host>\S+)", r"Application name: +(?P<path>\S+)", r"Error: +(?P<reason>\S.*)"])
    .run(),
    rule(
        "execve-format",
        Cause::ExecutableNotPermitted,
        ROOT + 1,
        "tried to fork a new process via the \"execve\"",
        r#"tried to fork a new process via the "execve" system call"#,
        "Open MPI tried to fork a new process via the \"execve\" system call but\n  Local host:        train-worker-1\n  Application name:  /opt/train\n  Error:             Exec format error",
    )
    .block(r"Error: +Exec format error")
    .details(&[r"Local host: +(?P<host>\S+)", r"Application name: +(?P<path>\S+)"])
    .run()
    .says(FORMAT)
    .advice(FORMAT_ADVICE),
    rule(
        "python-no-script",
        Cause::ExecutableNotFound,
        ROOT - 2,
        "can't open file ",
        // In the directory `/`, Python puts two slashes before a relative path.
        r"python[\w./]*: can't open file '?/??(?P<path>/?[^'/][^']*)'?: \[Errno 2\]",
        "python: can't open file '/workspace/train.py': [Errno 2] No such file or directory",
    )
    .by(Speaker::Rank),
    rule(
        "python-no-main",
        Cause::ExecutableNotFound,
        ROOT - 2,
        "can't find '__main__' module in ",
        r"python[\w./]*: can't find '__main__' module in '(?P<path>[^']+)'",
        "/usr/bin/python3: can't find '__main__' module in '/workspace'",
    )
    .by(Speaker::Rank)
    .says("{path|The path} is a directory, and not a program that Python can run"),
    rule(
        "shell-no-program",
        Cause::ExecutableNotFound,
        ROOT - 5,
        "ot found",
        r"^(?:/\S+/)?(?:ba|da|k|z)?sh: (?:(?:line )?\d+: )?(?:exec: )?(?P<path>[^\s:]+): (?:command )?not found",
        "/bin/sh: 1: ./train: not found",
    )
    .by(Speaker::Rank),
    rule(
        "shell-no-file",
        Cause::ExecutableNotFound,
        ROOT - 5,
        "No such file or directory",
        r"^(?:/\S+/)?(?:ba|da|k|z)?sh: (?:(?:line )?\d+: )?(?:exec: )?(?P<path>[./][^\s:]+): No such file or directory",
        "bash: line 1: ./train: No such file or directory",
    )
    .by(Speaker::Rank),
    // Where Kubeflow's SDK writes the function of a CustomTrainer; what follows is that Python does not find it.
    rule(
        "sdk-no-folder",
        Cause::ExecutableNotFound,
        ROOT - 1,
        "/home/mpiuser/",
        r"^(?:/\S+/)?(?:ba|da|k|z)?sh: (?:(?:line )?\d+: )?(?P<path>/home/mpiuser)/[^\s:]+: No such file or directory",
        "bash: line 9: /home/mpiuser/train.py: No such file or directory",
    )
    .by(Speaker::Rank)
    .says("The folder {path|} does not exist on a Worker, so Kubeflow's SDK could not write the function there")
    .advice("Use a runtime that mounts a volume there, or an image with that folder; or set DEFAULT_MPI_USER_HOME=/tmp where the SDK runs."),
    // The remote shell does not find the program that the launcher requested, and the daemons do not start.
    rule(
        "shell-no-custom-daemon",
        Cause::DaemonMissing,
        ROOT + 1,
        "ot found",
        r"^(?:/\S+/)?(?:ba|da|k|z)?sh: (?:(?:line )?\d+: )?(?:exec: )?(?P<path>[^\s:]+): (?:command )?not found",
        "/bin/sh: 1: my-orted: not found\nORTE was unable to reliably start one or more daemons.",
    )
    .block(r"unable to reliably start one or more daemons|HYDU_sock_write"),
    rule(
        "shell-no-permission",
        Cause::ExecutableNotPermitted,
        ROOT - 5,
        "Permission denied",
        r"^(?:/\S+/)?(?:ba|da|k|z)?sh: (?:(?:line )?\d+: )?(?:exec: )?(?P<path>[./][^\s:]+): Permission denied",
        "/bin/sh: 1: /workspace/train.py: Permission denied",
    )
    .by(Speaker::Rank),
    rule(
        "exec-format",
        Cause::ExecutableNotPermitted,
        ROOT - 5,
        "xec format error",
        r"(?:exec )?(?P<path>/\S+?):? (?:cannot execute binary file: )?[Ee]xec format error",
        "exec /opt/train: exec format error",
    )
    .by(Speaker::Rank)
    .says(FORMAT)
    .advice(FORMAT_ADVICE),
    // The shell tries to read a file that the kernel cannot run as a script.
    rule(
        "binary-as-script",
        Cause::ExecutableNotPermitted,
        ROOT - 6,
        "yntax error: |: ELF|syntax error near unexpected token",
        r#"^(?P<path>\.?/\S*/[^\s.:]+|\./[^\s.:]+): (?:line )?[1-9]: (?:.?ELF\S*: (?:command )?not found|Syntax error: (?:"\)" unexpected|"\(" unexpected|word unexpected|Unterminated quoted string|end of file unexpected|EOF in backquote)|syntax error near unexpected token)"#,
        "/workspace/train: 1: Syntax error: \")\" unexpected",
    )
    .by(Speaker::Rank)
    .says("The shell read {path|the program} as a script: it is a program that is built for another architecture, or a script with an error in its first lines")
    .advice(FORMAT_ADVICE),
    // Scripts with Windows line ends. `lines` shows a carriage return that is part of a name as `\r`; bash and env print it
    // so themselves, the shell and Perl as `^M`.
    rule(
        "crlf-name",
        Cause::ExecutableNotFound,
        ROOT + 4,
        "\\r|^M",
        r#"(?:^|[\s:'"`\x98/])(?P<path>[\w./+-]*?)(?:'?\$?'?\\r'?|\^M)\S{0,3}:? (?:(?:command )?not found|No such file or directory|\(No such file|bad interpreter)|\$'\\r': command not found|bad interpreter: (?:No such file|\S*\^M)|bad interpreter: \S*\\r"#,
        "run.sh: line 2: $'\\r': command not found",
    )
    .by(Speaker::Rank)
    .says(CRLF)
    .advice(CRLF_ADVICE),
    rule(
        "crlf-option",
        Cause::ExecutableNotFound,
        ROOT + 4,
        "-\\r",
        r"\bset: (?:Illegal option )?-\w?\\r|nvalid option.*-\\r",
        "run.sh: 2: set: Illegal option -\\r",
    )
    .by(Speaker::Rank)
    .says(CRLF)
    .advice(CRLF_ADVICE),
    rule(
        "crlf-executable",
        Cause::ExecutableNotFound,
        ROOT + 4,
        "\\r",
        r"^\s*Executable: +(?P<path>\S+?)\\r$|execvp error on file (?P<file>\S+?)\\r ",
        "  Executable: hostname\\r",
    )
    .run()
    .says(CRLF)
    .advice(CRLF_ADVICE),
    // Libraries
    rule(
        "loader",
        Cause::LibraryMissing,
        ROOT + 2,
        "error while loading shared libraries",
        r"(?P<path>\S+): error while loading shared libraries: (?P<name>\S+?): cannot open shared object file",
        "/opt/train: error while loading shared libraries: libfoo.so.2: cannot open shared object file: No such file or directory",
    )
    .by(Speaker::Rank),
    // A file that is there, and no library for this program.
    rule(
        "loader-broken",
        Cause::LibraryMissing,
        ROOT + 2,
        "error while loading shared libraries",
        r"(?P<path>\S+): error while loading shared libraries: (?P<name>\S+?): (?P<reason>file too short|invalid ELF header|wrong ELF class|ELF load command|cannot read file data|failed to map segment|cannot apply additional)",
        "/opt/openmpi/bin/orted: error while loading shared libraries: /opt/openmpi/lib/libopen-rte.so.40: file too short",
    )
    .by(Speaker::Rank)
    .says("{path|The program} cannot load {name|a library}: {reason|it is damaged}")
    .advice("That file is cut off, damaged, or for another architecture: build the image again, and do not copy libraries from a machine of another kind. \"failed to map segment\" also comes from a volume that is mounted noexec."),
    rule(
        "mpi4py-no-library",
        Cause::LibraryMissing,
        ROOT - 3,
        "cannot load MPI library",
        r"(?:RuntimeError|ImportError): cannot load MPI library",
        "RuntimeError: cannot load MPI library\nlibmpi.so: cannot open shared object file: No such file or directory",
    )
    .details(&[r"(?P<name>lib(?:mpi|mpich|msmpi)[\w.]*): cannot open shared object file"])
    .by(Speaker::Rank)
    .says("mpi4py needs the MPI library ({name|libmpi}), which it loads when it is imported, and finds none")
    .advice("Install the library of the MPI that starts the ranks where the ranks run, or add its directory to LD_LIBRARY_PATH: mpi4py from PyPI brings none."),
    rule(
        "python-shared-object",
        Cause::LibraryMissing,
        ROOT - 4,
        "cannot open shared object file",
        r"(?:ImportError|OSError|RuntimeError): (?P<name>\S+?): cannot open shared object file",
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
    )
    .by(Speaker::Rank)
    .says("The program needs {name|a library}, which is not there"),
    rule(
        "python-no-module",
        Cause::LibraryMissing,
        ROOT - 6,
        "ModuleNotFoundError: No module named ",
        r"^ModuleNotFoundError: No module named '(?P<name>[^']+)'",
        "ModuleNotFoundError: No module named 'horovod'",
    )
    .by(Speaker::Program)
    .says("The program needs the Python module {name|}, which is not there"),
    rule(
        "perl-no-module",
        Cause::LibraryMissing,
        ROOT - 6,
        "Can't locate ",
        r"^Can't locate (?P<name>\S+\.pm) in @INC",
        "Can't locate Statistics/Regression.pm in @INC (you may need to install the Statistics::Regression module)",
    )
    .by(Speaker::Rank)
    .says("The program needs the Perl module {name|}, which is not there")
    .advice("Install the module in the image of every Worker (cpanm, or the distribution's package), or name its folder in PERL5LIB."),
    rule(
        "r-no-package",
        Cause::LibraryMissing,
        ROOT - 6,
        "there is no package called ",
        r"there is no package called [^\w\s]{1,4}(?P<name>[\w.]+)",
        "Error in library(pbdMPI) : there is no package called 'pbdMPI'",
    )
    .by(Speaker::Rank)
    .says("The program needs the R package {name|}, which is not there")
    .advice("Install the package in the image of every Worker, or name its library in R_LIBS."),
    rule(
        "python-no-main-module",
        Cause::LibraryMissing,
        ROOT - 6,
        ": No module named ",
        r"^\S*python[\w.]*: No module named (?P<name>[\w.]+)$",
        "/opt/venv/bin/python3: No module named mpi4py",
    )
    .by(Speaker::Rank)
    .says("Python cannot run the module {name|}, which is not there"),
    rule(
        "loader-version",
        Cause::VersionMismatch,
        ROOT + 2,
        "' not found (required by ",
        r"(?P<path>\S+): version [`'](?P<name>[^']+)' not found \(required by (?P<reason>[^)]+)\)",
        "/opt/train: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by /opt/train)",
    )
    .by(Speaker::Rank)
    .says("Versions do not match: {reason|the program} needs {name|another version}, which {path|the library in the image} lacks"),
    rule(
        "loader-symbol",
        Cause::VersionMismatch,
        ROOT,
        "symbol lookup error",
        r"(?P<path>\S+): symbol lookup error: (?P<reason>\S+): undefined symbol: (?P<name>[^\s,]+)",
        "/opt/train: symbol lookup error: /opt/train: undefined symbol: ompi_mpi_comm_world",
    )
    .by(Speaker::Rank)
    .says("Versions do not match: {path|the program} needs the symbol {name|}, which the library in the image lacks"),
];
