//! Settings that cannot be satisfied: slots, options, hostfiles, versions, limits.

use super::super::cause::Cause;
use super::weight::{CONNECT, CONSEQUENCE, REASON, ROOT, SYMPTOM};
use super::{Rule, Speaker, rule};

const OTHER_MPI: &str = "The program belongs to another MPI than this mpirun: it does not find the process management (PMI) of its own MPI's launcher";

pub(super) const RULES: &[Rule] = &[
    rule(
        "ompi-session-dir",
        Cause::StorageUnusable,
        ROOT - 2,
        "session_dir",
        r"(?:^\[(?P<host>[\w.-]+?):\d+\] .*)?(?:(?:orte|prte|pmix)_session_dir failed|_ERROR_LOG: .* in file \S*session_dir\.c)",
        "[train-worker-0:00012] [[34567,0],1] ORTE_ERROR_LOG: Error in file util/session_dir.c at line 107\n[train-worker-0:00012] mkdir: cannot create directory '/tmp/ompi.train-worker-0.1000': Read-only file system",
    )
    .details(&[r"annot create directory '(?P<path>[^']+)': (?P<reason>\S.*)"])
    .says("Open MPI cannot create its session directory {path|in the temporary directory}: {reason|it cannot be written there}")
    .advice("Mount an emptyDir volume at /tmp in Launcher and Workers, or set TMPDIR to a directory that the job's user may write."),
    rule(
        "ucx-locked-memory",
        Cause::MpiError,
        ROOT - 2,
        "max locked memory|RLIMIT_MEMLOCK|memlock",
        r"(?i:Please set max locked memory.*?(?:current: (?P<name>[^)]+))?\)?$|(?:RLIMIT_MEMLOCK|memlock).*(?:too (?:small|low)|exceeded|is \d+))",
        "[1668693753.723360] [train-worker-0:88  :0]          ib_log.c:246  UCX  ERROR mlx5_0: ibv_create_cq() failed: Cannot allocate memory. Please set max locked memory (ulimit -l) to 'unlimited' (current: 64 kbytes)",
    )
    .by(Speaker::Rank)
    .says("The limit of locked memory (ulimit -l) is too small to register memory with the network card")
    .advice("Add the capability IPC_LOCK to the pods (securityContext.capabilities.add), which lifts the limit, or have an administrator raise the container runtime's limit of locked memory (LimitMEMLOCK)."),
    rule(
        "not-enough-slots",
        Cause::NotEnoughSlots,
        ROOT,
        "here are not enough slots available in the system",
        r"here are not enough slots available in the system to (?:satisfy the (?P<count>\d+)|launch)",
        "There are not enough slots available in the system to satisfy the 8\nslots that were requested by the application:",
    ),
    rule(
        "already-filled",
        Cause::NotEnoughSlots,
        ROOT - 1,
        "All nodes which are allocated for this job are already filled",
        r"All nodes which are allocated for this job are already filled",
        "All nodes which are allocated for this job are already filled.",
    )
    .says("Not enough slots: all nodes of the job are already filled")
    .advice("Ask for at most Worker.replicas × slotsPerWorker processes. Open MPI prints this too where plm_rsh_agent is set to an empty value: then unset it."),
    rule(
        "binding-overload",
        Cause::NotEnoughSlots,
        ROOT,
        "A request was made to bind",
        r"A request was made to bind (?:to )?that would re(?:sult in|quire) binding",
        "A request was made to bind to that would result in binding more\nprocesses than cpus on a resource:\n\n   Bind to:     CORE\n   Node:        train-worker-0\n   #processes:  2\n   #cpus:       1",
    )
    .details(&[r"Node: +(?P<host>\S+)", r"#processes: +(?P<count>\d+)"])
    .says("Not enough cores on {host|a Worker} to bind {count|its} processes to")
    .advice("Ask for at least as many CPUs as slots per Worker, or do not bind: --bind-to none, or add overload-allowed."),
    rule(
        "no-allocated-resources",
        Cause::NotEnoughSlots,
        CONNECT,
        "There are no allocated resources for the application",
        r"There are no allocated resources for the application",
        "There are no allocated resources for the application:",
    ),
    rule(
        "no-nodes",
        Cause::BadHostfile,
        SYMPTOM + 4,
        "nodes",
        r"^(?:No nodes are available for this job, either due to|There are no available nodes allocated to this job\.|There are no nodes allocated to this job\.)",
        "No nodes are available for this job, either due to a failure to\nallocate nodes to the job, or allocated nodes being marked",
    )
    .says("mpirun has no node to run on: the hostfile names none, or the program to reach nodes with is set to an empty value")
    .advice("Use the hostfile that the job provides (/etc/mpi/hostfile): a file of the image or a pipe such as <(…) may be empty when mpirun reads it. Leave plm_rsh_agent (plm_ssh_agent) unset rather than empty, and do not leave the only node out with --host or -nolocal."),
    rule(
        "failed-map",
        Cause::NotEnoughSlots,
        CONNECT,
        "Your job failed to map",
        r"^Your job failed to map",
        "Your job failed to map. Either no mapper was available, or none\nof the available mappers was able to perform the requested\nmapping operation.\n\n  Mapper result:       Out of resource\n  #procs to be mapped: 2",
    )
    .block(r"Mapper result: +Out of resource")
    .details(&[r"#procs to be mapped: +(?P<count>\d+)"])
    .says("mpirun cannot place {count|the} processes as it was asked to: slots or cores do not suffice"),
    rule(
        "too-many-for-ppr",
        Cause::NotEnoughSlots,
        ROOT,
        "Your job has requested more processes than the ppr for",
        r"^Your job has requested more processes than the ppr for",
        "Your job has requested more processes than the ppr for\nthis topology can support:\n\n  App: train\n  Number of procs:  40\n  PPR: 2:node",
    )
    .details(&[r"Number of procs: +(?P<count>\d+)"]),
    rule(
        "too-many-cpus-per-rank",
        Cause::NotEnoughSlots,
        ROOT,
        "Your job has requested more cpus per process",
        r"^Your job has requested more cpus per process\(rank\) than there",
        "Your job has requested more cpus per process(rank) than there\nare cpus in a package:\n\n  Cpus/rank: 64\n  #cpus/package: 2",
    )
    .details(&[r"Cpus/rank: +(?P<count>\d+)"])
    .says("Not enough cores: {count|many} were asked for each process"),
    rule(
        "too-many-procs",
        Cause::NotEnoughSlots,
        ROOT,
        "Your job has requested a conflicting number of processes for the",
        r"^Your job has requested a conflicting number of processes for the",
        "Your job has requested a conflicting number of processes for the\napplication:\n\nApp: train\nnumber of procs:  40\n\nThis is more processes than we can launch under the following",
    )
    .details(&[r"number of procs: +(?P<count>\d+)"]),
    rule(
        "root-refused",
        Cause::RootRefused,
        ROOT,
        "has detected an attempt to run as root",
        r"has detected an attempt to run as root",
        "mpirun has detected an attempt to run as root.",
    ),
    // Hostfile
    rule(
        "hostfile-open",
        Cause::BadHostfile,
        ROOT,
        "was unable to open the hostfile",
        r"was unable to open the hostfile",
        "Open RTE was unable to open the hostfile:\n    /etc/mpi/hostfile\nCheck to make sure the path and filename are correct.",
    )
    .details(&[r"\n\s*(?P<path>/?\S+)"]),
    rule(
        "hostfile-scanner",
        Cause::BadHostfile,
        SYMPTOM,
        "input in flex scanner failed",
        r"^input in flex scanner failed$",
        "input in flex scanner failed",
    )
    .says("mpirun cannot read a file that it was given, mostly the hostfile: it may be a directory"),
    rule(
        "hydra-hostfile-open",
        Cause::BadHostfile,
        ROOT,
        "pen host|pen the host|pen machine|pen the machine",
        r"(?:nable to|annot|an't|ould not|ouldn't|ailed to) open (?:the )?(?:host|machine) ?file:? *(?P<path>\S*)",
        "[mpiexec@train-launcher] HYDU_parse_hostfile (utils/args/args.c:319): unable to open host file: /etc/mpi/hostfile",
    ),
    rule(
        "hydra-hostfile-missing",
        Cause::BadHostfile,
        ROOT,
        "no such file, or not a regular file",
        r"\[mpiexec@.*\bHYD_hostfile\w* .*: (?P<path>\S+) no such file, or not a regular file",
        "[mpiexec@train-launcher] HYD_hostfile_unique_parse (hostfile/hydra_hostfile.c:157): /etc/mpi/hostfile no such file, or not a regular file",
    ),
    rule(
        "hydra-hostfile-token",
        Cause::BadHostfile,
        ROOT,
        " not supported at this time",
        r"\[mpiexec@.*token (?P<name>\S+) not supported at this time",
        "[mpiexec@train-launcher] HYDU_process_mfile_token (utils/args/args.c:296): token slots not supported at this time",
    )
    .says("mpiexec cannot read the hostfile: it does not know the word {name|in it}")
    .advice("MPICH and Intel MPI want `host:N` where Open MPI wants `host slots=N`: set mpiImplementation to the MPI of the image."),
    rule(
        "hostfile-parse",
        Cause::BadHostfile,
        ROOT,
        "in the hostfile",
        r"detected a (?:parse error|bad parameter) in the hostfile",
        "Open RTE detected a parse error in the hostfile:\n    /etc/mpi/hostfile\nIt occured on line number 2 on token 5:",
    )
    .details(&[r"\n\s*(?P<path>/?\S+)"]),
    rule(
        "hostfile-with-colons",
        Cause::BadHostfile,
        ROOT + 2,
        "ssh: Could not resolve hostname ",
        r"^ssh: Could not resolve hostname (?P<name>[\w.-]+:\d+): ",
        "ssh: Could not resolve hostname train-worker-0:2: Name or service not known",
    )
    .says("Open MPI takes {name|host:N} of the hostfile for the name of a host: it is written for MPICH or Intel MPI")
    .advice("Open MPI wants `host slots=N` where MPICH and Intel MPI want `host:N`: use the hostfile that the job provides (/etc/mpi/hostfile), and set mpiImplementation to the MPI of the image."),
    rule(
        "hostfile-not-allocated",
        Cause::BadHostfile,
        CONNECT,
        "requested hosts are not included in the current",
        r"Some of the requested hosts are not included in the current",
        "Some of the requested hosts are not included in the current allocation for the",
    ),
    rule(
        "hostfile-extra",
        Cause::BadHostfile,
        ROOT,
        "A hostfile was provided that contains ",
        r"A hostfile was provided that contains (?:at least one node not present|multiple definitions)",
        "A hostfile was provided that contains at least one node not present in the\nallocation:\n\n  hostfile:  /etc/mpi/hostfile\n  node:      train-worker-9",
    )
    .details(&[r"hostfile: +(?P<path>\S+)", r"node: +(?P<host>\S+)"]),
    // Options
    rule(
        "unknown-option",
        Cause::BadOption,
        ROOT,
        "rror: unknown option",
        r#"^(?:\S*(?:mpirun|mpiexec|orterun|prterun|prun)\S*): Error: unknown option "?(?P<name>[^"]+)"#,
        "mpirun: Error: unknown option \"--no-such-option\"",
    ),
    rule(
        "option-parameters",
        Cause::BadOption,
        ROOT,
        "did not have enough parameters",
        r#"^(?:\S*(?:mpirun|mpiexec|orterun|prterun|prun)\S*): Error: option "?(?P<name>[^"]+)"? did not have enough parameters"#,
        "mpirun: Error: option \"--mca\" did not have enough parameters (2)",
    ),
    rule(
        "prte-missing-values",
        Cause::BadOption,
        ROOT,
        "The provided command line option requires ",
        r"^The provided command line option requires ",
        "The provided command line option requires passing two\nvalues:\n\n  Option:  --mca <MCA param name> <param value>",
    )
    .details(&[r"Option: +(?P<name>\S+)"]),
    rule(
        "prte-option-argument",
        Cause::BadOption,
        ROOT,
        " option was provided, but the argument is one not",
        r"^The (?P<name>--?\S+).* option was provided, but the argument is one not",
        "The --dvm <arg> option was provided, but the argument is one not\nrecognized:\n\n   arg: nosuch",
    ),
    rule(
        "negative-processes",
        Cause::BadOption,
        ROOT,
        "was given a negative",
        r"has detected that one or more applications was given a negative",
        "mpirun has detected that one or more applications was given a negative\nnumber of processes to run:\n\n  Application:  train\n  Num procs:    -1",
    )
    .details(&[r"Num procs: +(?P<count>-\d+)"])
    .says("mpirun cannot start {count|a negative number of} processes"),
    rule(
        "option-format",
        Cause::BadOption,
        ROOT,
        "has detected that a parameter given to a command line",
        r"has detected that a parameter given to a command line",
        "Open MPI has detected that a parameter given to a command line\noption does not match the expected format:\n\n  Option: np\n  Param:  x",
    )
    .details(&[r"Option: +(?P<name>\S+)"]),
    rule(
        "nothing-to-do",
        Cause::BadOption,
        ROOT,
        "could not find anything to do",
        r"(?:mpirun|mpiexec|orterun|prterun)\S* could not find anything to do",
        "mpirun could not find anything to do.",
    )
    .says("mpirun was given no program to run"),
    rule(
        "prte-unrecognized-option",
        Cause::BadOption,
        ROOT,
        "An unrecognized option was included on the ",
        r"An unrecognized option was included on the \S+ command line",
        "An unrecognized option was included on the mpirun command line:\n\n   Option: --no-such-option",
    )
    .details(&[r"Option: +(?P<name>\S+)"]),
    rule(
        "hydra-unrecognized",
        Cause::BadOption,
        ROOT,
        "nrecognized argument",
        r"\[mpiexec@.*unrecognized argument (?P<name>\S+)",
        "[mpiexec@train-launcher] match_arg (utils/args/args.c:166): unrecognized argument no-such-option",
    ),
    rule(
        "hydra-unrecognized-launcher",
        Cause::BadOption,
        ROOT,
        "unrecognized ",
        r"\[mpiexec@.*unrecognized (?P<name>launcher|RMK):? ",
        "[mpiexec@train-launcher] HYDT_bsci_init (tools/bootstrap/src/bsci_init.c:175): unrecognized launcher: sssh",
    ),
    rule(
        "hydra-no-program",
        Cause::BadOption,
        ROOT,
        "executable",
        r"\[mpiexec@.*: (?:no executable specified|Missing executable\b|No executable provided)",
        "[mpiexec@train-launcher] main (mpiexec/mpiexec.c:54): Missing executable. Try -h for usages.",
    )
    .says("mpiexec was given no program to run"),
    rule(
        "hydra-config-file",
        Cause::BadOption,
        ROOT + 1,
        "error parsing config file",
        r"\[mpiexec@.*: error parsing config file",
        "[mpiexec@train-launcher] HYD_uii_mpx_get_parameters (mpiexec/get_parameters.c:98): error parsing config file",
    )
    .says("mpiexec cannot read the file of its option -configfile"),
    rule(
        "hydra-option-value",
        Cause::BadOption,
        CONNECT + 1,
        "_fn (",
        r"\[mpiexec@[^\]]*\] \w+_fn \([^)]*\): (?P<reason>.+)",
        "[mpiexec@train-launcher] i_np_fn (mpiexec_params.h:964): process count should be > 0",
    )
    .says("mpiexec does not accept an option's value: {reason|see the evidence}"),
    rule(
        "hydra-parameters",
        Cause::BadOption,
        CONNECT,
        "error parsing parameters",
        r"\[mpiexec@[^\]]*\] main .*: error parsing parameters",
        "[mpiexec@train-launcher] main (mpiexec/mpiexec.c:1745): error parsing parameters",
    )
    .says("mpiexec does not accept its options"),
    rule(
        "tmpdir-conflict",
        Cause::BadOption,
        ROOT - 2,
        "tmpdir_base was specified, which sets the base",
        r"The MCA param (?P<name>\w+_tmpdir_base) was specified, which sets the base",
        "The MCA param orte_tmpdir_base was specified, which sets the base",
    )
    .run(),
    rule(
        "component-not-found",
        Cause::BadOption,
        REASON - 8,
        "A requested component was not found",
        r"A requested component was not found, or was unable to be opened",
        "A requested component was not found, or was unable to be opened.  This\n\nHost:      train-worker-0\nFramework: btl\nComponent: openib",
    )
    .details(&[r"Host: +(?P<host>\S+)", r"Component: +(?P<name>\S+)"])
    .says("MPI on {host|a Worker} has no component {name|of the requested name}")
    .run(),
    rule(
        "no-components",
        Cause::BadOption,
        REASON - 8,
        "No components were able to be opened in the ",
        r"No components were able to be opened in the (?P<name>\w+) framework",
        "No components were able to be opened in the pml framework.",
    )
    .says("MPI has no usable component for {name|what was requested}")
    .run(),
    rule(
        "policy-not-recognized",
        Cause::BadOption,
        ROOT,
        " is not recognized:",
        r"^The specified .*(?:policy|directive) is not recognized:",
        "The specified mapping policy is not recognized:\n\n  Policy: BYCOFFEE",
    )
    .details(&[r"(?:Policy|Directive): +(?P<name>\S+)"]),
    rule(
        "mapping-modifier",
        Cause::BadOption,
        ROOT,
        " contains an unrecognized ",
        r"^The \w+ (?:request|directive|policy) contains an unrecognized (?:modifier|qualifier|directive)",
        "The mapping request contains an unrecognized modifier:\n\n  Request: slot:file=/no/rankfile",
    )
    .details(&[r"(?:Request|Modifier|Qualifier|Directive): +(?P<name>\S+)"]),
    rule(
        "appfile-open",
        Cause::BadOption,
        ROOT,
        "Unable to open the appfile",
        r"^Unable to open the appfile:",
        "Unable to open the appfile:\n\n    jobs.txt\n\nDouble check that this file exists and is readable.",
    )
    .details(&[r"\n\s*(?P<path>/?\S+)"])
    .says("mpirun cannot read {path|the file} of its option --app")
    .advice("Correct the path in the Launcher's command, or mount the file in the Launcher."),
    rule(
        "pe-list-too-short",
        Cause::BadOption,
        ROOT + 1,
        "CPUs in the specified PE-LIST",
        r"^CPUs in the specified PE-LIST to map the number of processes",
        "CPUs in the specified PE-LIST to map the number of processes requested\nby the application:\n\n  app:  hostname\n  Number of procs: 4\n  pe-list: 977",
    )
    .details(&[r"Number of procs: (?P<count>\d+)", r"pe-list: (?P<name>\S+)"])
    .says("The CPUs {name|of the list} that --map-by pe-list names are too few for {count|the} ranks, or not there")
    .advice("Leave pe-list out, or name CPUs that every Worker has."),
    rule(
        "hydra-binding",
        Cause::BadOption,
        ROOT,
        "unrecognized directive ",
        r#"^\[proxy:\S+@(?P<host>[^\]\s]+)\] .*unrecognized directive "(?P<name>[^"]+)""#,
        "[proxy:0@train-worker-0] get_hw_obj_list (lib/tools/topo/hwloc/topo_hwloc.c:378): unrecognized directive \"nosuch\"",
    )
    .says("mpiexec cannot bind ranks to {name|what -bind-to or -map-by names}")
    .advice("Correct the value of -bind-to or -map-by: none, hwthread, core, socket, numa and board are known, for example."),
    rule(
        "rankfile-open",
        Cause::BadOption,
        ROOT,
        "was unable to open the rankfile",
        r"was unable to open the rankfile",
        "prterun was unable to open the rankfile:\n\n  Filename: /etc/mpi/rankfile\n\nCheck to make sure the path and filename are correct.",
    )
    .details(&[r"\n\s*(?:Filename: +)?(?P<path>/?\S+)"])
    .says("mpirun cannot open the rankfile {path|that was given}"),
    rule(
        "policy-conflict",
        Cause::BadOption,
        ROOT - 2,
        "Conflicting directives for ",
        r"^Conflicting directives for (?P<name>.*) (?:policy|are|were)",
        "Conflicting directives for mapping policy are causing the policy",
    ),
    rule(
        "generic-mca",
        Cause::BadOption,
        ROOT,
        "The command line contains a generic MCA param",
        r"The command line contains a generic MCA param",
        "The command line contains a generic MCA param that is not\n\n  Param name:   plm_rsh_agnet",
    )
    .details(&[r"Param name: +(?P<name>\S+)"]),
    rule(
        "mca-twice",
        Cause::BadOption,
        ROOT,
        "an MCA param",
        r"(?:detected multiple instances of an MCA param|an MCA parameter was listed more than once)",
        "Error: an MCA parameter was listed more than once on the command line, or\n  Param:  btl",
    )
    .details(&[r"(?i)param: +(?P<name>\S+)"]),
    rule(
        "option-twice",
        Cause::BadOption,
        ROOT,
        "listed more than once on the command line",
        r#"The "(?P<name>[^"]+)" command line option was listed more than once"#,
        "ERROR: The \"np\" command line option was listed more than once on the command line.",
    ),
    rule(
        "no-executable-given",
        Cause::BadOption,
        ROOT,
        "No executable was specified",
        r"^No executable was specified on the \S+ command line",
        "No executable was specified on the mpirun command line.",
    )
    .says("mpirun was given no program to run"),
    rule(
        "working-directory",
        Cause::BadOption,
        ROOT,
        "was unable to launch the specified application as it could not",
        r"was unable to launch the specified application as it could not",
        "mpirun was unable to launch the specified application as it could not\nchange to the specified working directory:\n\nWorking directory: /no/such\nNode: train-worker-0",
    )
    .block(r"the specified working directory")
    .details(&[r"Working directory: +(?P<path>\S+)", r"Node: +(?P<host>\S+)"])
    .says("The working directory {path|that was given} does not exist on {host|a Worker}")
    .advice("Correct -wdir (or the container's workingDir), and mount the volume at the same path in every Worker.")
    .run(),
    rule(
        "agent-command-line",
        Cause::BadOption,
        ROOT,
        "odh-launch: ",
        r"^odh-launch: (?:option -(?P<name>\S+) is not supported|unknown option (?P<reason>\S+);|.*ODH_LAUNCH_\w+=.* is not )",
        "odh-launch: ODH_LAUNCH_PORT=x is not a port",
    ),
    // Versions
    rule(
        "version-mismatch",
        Cause::VersionMismatch,
        ROOT,
        "detected a mismatch in versions between two processes",
        r"detected a mismatch in versions between two processes",
        "Open MPI detected a mismatch in versions between two processes.  This\n  Local host:             train-launcher\n  Local Open MPI version: v4.1.4\n  Peer host:              train-worker-0\n  Peer Open MPI version:  v5.0.3",
    )
    .details(&[r"Peer host: +(?P<host>\S+)", r"Local \w+(?: MPI)? version: +(?P<name>\S+)", r"Peer \w+(?: MPI)? version: +(?P<reason>\S+)"])
    .says("Versions do not match: mpirun is {name|one version}, {host|a Worker} has {reason|another}"),
    rule(
        "agent-version",
        Cause::VersionMismatch,
        ROOT,
        " of the launch protocol",
        r"(?:(?P<host>[\w.-]+): )?it speaks version \S+ of the launch protocol",
        "odh-launch: train-worker-0: it speaks version 2 of the launch protocol, this program version 1: use one version in all pods of a job",
    ),
    rule(
        "help-topic-missing",
        Cause::VersionMismatch,
        SYMPTOM,
        "You were supposed to get help about:",
        r"^Sorry!  You were supposed to get help about:",
        "Sorry!  You were supposed to get help about:\n    mpi_errors_are_fatal unknown handle\nfrom the file:\n    /opt/openmpi/share/openmpi/help-mpi-errors.txt: No such file or directory\nBut I couldn't find that topic in the file.  Sorry!",
    )
    .details(&[r"(?s)help about:\s+(?P<name>\S[^\n]*)"])
    .says("Versions do not match: the program's MPI library does not belong to this mpirun (it lacks its own help text on \"{name|an error}\")")
    .run(),
    rule(
        "cuda-driver",
        Cause::VersionMismatch,
        ROOT - 4,
        "CUDA driver version is insufficient",
        r"CUDA driver version is insufficient for CUDA runtime version",
        "CUDA error: CUDA driver version is insufficient for CUDA runtime version",
    )
    .by(Speaker::Program)
    .says("Versions do not match: the node's CUDA driver is older than the program's CUDA runtime"),
    rule(
        "cuda-driver-old",
        Cause::VersionMismatch,
        ROOT - 4,
        "The NVIDIA driver on your system is too old",
        r"The NVIDIA driver on your system is too old \(found version (?P<name>\d+)",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
    )
    .by(Speaker::Program)
    .says("Versions do not match: the node's NVIDIA driver (version {name|}) is too old for the program's PyTorch"),
    rule(
        "ucx-transport",
        Cause::BadOption,
        CONNECT + 4,
        "no usable transports/devices",
        r"(?:\[(?P<host>[\w.-]+):\d+ *:\d+\].*)?UCX  ERROR no usable transports/devices \(asked (?P<name>.+?) on ",
        "[1795817470.683930] [train-worker-0:10108:0]     ucp_context.c:1643 UCX  ERROR no usable transports/devices (asked rc_x on all devices)",
    )
    .by(Speaker::Rank)
    .says("UCX on {host|a Worker} has none of the transports that it was told to use ({name|UCX_TLS})")
    .advice("Leave UCX_TLS unset, or name transports that the pods have (ucx_info -d lists them; tcp,self,sm works everywhere). For rc, ud or dc, the pods need an RDMA device."),
    // Other MPI
    rule(
        "pmi-server-missing",
        Cause::WrongMpi,
        CONNECT,
        "PMI server not found",
        r"MPI startup\(\): PMI server not found",
        "MPI startup(): PMI server not found. Please set I_MPI_PMI_LIBRARY variable if it is not a singleton case.",
    )
    .by(Speaker::Rank)
    .says(OTHER_MPI),
    rule(
        "direct-launched",
        Cause::WrongMpi,
        CONNECT,
        "The application appears to have been direct launched",
        r"The application appears to have been direct launched",
        "The application appears to have been direct launched using \"srun\",",
    )
    .by(Speaker::Rank)
    .says(OTHER_MPI),
    rule(
        "pmi-of-another",
        Cause::WrongMpi,
        ROOT,
        "unsupported PMI version",
        r"Runtime environment uses unsupported PMI version \S+ Aborting",
        "check_MPIR_CVAR_PMI_VERSION(167):  Runtime environment uses unsupported PMI version PMIx. Aborting.",
    )
    .by(Speaker::Rank)
    .says(OTHER_MPI),
    // MPICH finds what Open MPI's launchers set, and not the PMI of its own.
    rule(
        "pmi1-launcher",
        Cause::WrongMpi,
        ROOT,
        "launcher not compatible with PMI",
        r"^\[unset\]: launcher not compatible with PMI\d? client",
        "[unset]: launcher not compatible with PMI1 client",
    )
    .by(Speaker::Rank)
    .says(OTHER_MPI),
    rule(
        "pmix-no-server",
        Cause::WrongMpi,
        SYMPTOM,
        "No PMIx server was reachable, but a PMI1/2 was detected",
        r"^No PMIx server was reachable, but a PMI1/2 was detected",
        "No PMIx server was reachable, but a PMI1/2 was detected.\nIf srun is being used to launch application,  4 singletons will be started.",
    )
    .by(Speaker::Rank)
    .says(OTHER_MPI),
    rule(
        "mpi4py-environment",
        Cause::WrongMpi,
        CONNECT,
        " set, but mpi4py was built with ",
        r"^Your environment has (?P<reason>\w+)=\d+ set, but mpi4py was built with (?P<name>.+?)\.?$",
        "Your environment has OMPI_COMM_WORLD_SIZE=4 set, but mpi4py was built with MPICH.",
    )
    .by(Speaker::Rank)
    .says("mpi4py uses {name|another MPI}, and the mpirun that started it belongs to another: each process is alone"),
    // Limits
    rule(
        "mpirun-timeout",
        Cause::Timeout,
        ROOT,
        "The user-provided time limit for job execution has been reached",
        r"The user-provided time limit for job execution has been reached",
        "The user-provided time limit for job execution has been reached:\n\n  Timeout: 3600 seconds",
    )
    .details(&[r"Timeout: (?P<seconds>\d+ seconds)"])
    .run(),
    rule(
        "intel-timeout",
        Cause::Timeout,
        ROOT,
        "job ending due to application timeout",
        r"^I_MPI_JOB_TIMEOUT = (?P<seconds>\d+ second)\(s\): job ending due to application timeout",
        "I_MPI_JOB_TIMEOUT = 3600 second(s): job ending due to application timeout",
    )
    .run(),
    rule(
        "hydra-timeout",
        Cause::Timeout,
        ROOT,
        "APPLICATION TIMED OUT",
        r"APPLICATION TIMED OUT, TIMEOUT = (?P<seconds>\d+ ?s)",
        "[mpiexec@train-launcher] APPLICATION TIMED OUT, TIMEOUT = 3600s",
    )
    .run(),
    rule(
        "hydra-asked-to-stop",
        Cause::Terminated,
        CONSEQUENCE,
        "unable to send signal downstream",
        r"\[mpiexec@[^\]]*\] ui_cmd_cb .*unable to send signal downstream",
        "[mpiexec@train-launcher] ui_cmd_cb (pm/pmiserv/pmiserv_pmci.c:42): unable to send signal downstream",
    )
    .says("mpiexec was told to stop while it waited for its daemons"),
    rule(
        "interrupted",
        Cause::Terminated,
        SYMPTOM,
        "Sending Ctrl-C to processes as requested",
        r"Sending Ctrl-C to processes as requested",
        "[mpiexec@train-launcher] Sending Ctrl-C to processes as requested",
    )
    .run()
    .says("The job was ended from outside (SIGINT)"),
];
