//! Failures to start the daemons and the program on the Workers: names, connections, keys, programs.

use super::super::cause::Cause;
use super::weight::{CONNECT, CONSEQUENCE, EXIT, ROOT, SYMPTOM};
use super::{Rule, Speaker, rule};

/// Programs that MPI starts on the Workers.
macro_rules! daemons {
    () => {
        r"(?:orted|prted|hydra_pmi_proxy|hydra_bstrap_proxy|pmi_proxy|bstrap_proxy)"
    };
}

/// What every sign of Windows line ends means, and how to get rid of them.
pub(super) const CRLF: &str = "A script has Windows line ends (CRLF): the carriage return at the end of each line counts as a part of the last word";
pub(super) const CRLF_ADVICE: &str = "Convert the script (sed -i 's/\\r$//' SCRIPT, or dos2unix), also where it is in a ConfigMap, and keep it so in git (.gitattributes: *.sh text eol=lf).";

/// A program that the kernel cannot run.
pub(super) const FORMAT: &str = "{path|The program} cannot run on {host|the node}: it is built for another architecture, or it is a script whose first line names no interpreter";
pub(super) const FORMAT_ADVICE: &str = "Build the image for the architecture of the nodes, which is mostly amd64 (platform linux/amd64; an image that is built on a Mac is for arm64 otherwise, and the label kubernetes.io/arch of the nodes says what they are). If it is a script, let its first line be #!/bin/sh or another interpreter.";

const KEY_MODE_ADVICE: &str = "Let only its owner read the key: defaultMode: 0400 on the Secret's volume, and no fsGroup, which lets the group read it; or copy the key to a file of the user that runs, with mode 0600, before the Launcher starts mpirun.";
const NO_USER_ADVICE: &str = "Use the launch agent, which needs no entry (annotation training.opendatahub.io/launch: agent). To stay with ssh, run as a user that the image's /etc/passwd has (securityContext.runAsUser), or let the start script add one: echo \"mpi:x:$(id -u):0::/tmp:/bin/sh\" >> /etc/passwd, where the image lets its group write that file.";

pub(super) const RULES: &[Rule] = &[
    // Names
    rule(
        "ssh-unresolvable",
        Cause::HostUnresolvable,
        ROOT + 1,
        "ssh: Could not resolve host",
        r#"^ssh: Could not resolve host(?:name)? "?(?P<host>[^\s":]+)"?:?(?P<reason>.*)"#,
        "ssh: Could not resolve hostname train-worker-3: Name or service not known",
    )
    .advice("If the Workers became ready only after the Launcher had started, start it after them (spec.launcherCreationPolicy: WaitForWorkersReady), or use the launch agent, which waits for them (annotation training.opendatahub.io/launch: agent). Otherwise check that the Worker's pod exists and is running, that the job's headless Service is there, and that the hostfile names the Workers as the job does."),
    rule(
        "host-unresolvable",
        Cause::HostUnresolvable,
        ROOT,
        "Could not resolve host",
        r#"^(?:[\w.-]+: )?Could not resolve host(?:name)? "?(?P<host>[^\s":]+)"?:?(?P<reason>.*)"#,
        "odh-launch: Could not resolve hostname train-worker-3: Temporary failure in name resolution",
    ),
    rule(
        "agent-unresolvable",
        Cause::HostUnresolvable,
        ROOT,
        "annot resolve",
        r"^(?:[\w.-]+: )?[Cc]annot resolve (?P<host>[^\s:]+): (?P<reason>.*)",
        "mpi-agent: cannot resolve train-worker-3: failed to lookup address information: Name or service not known",
    ),
    rule(
        "hydra-unresolvable",
        Cause::HostUnresolvable,
        ROOT,
        "unable to get host address for",
        r"unable to get host address for (?P<host>[^\s(]+)",
        "[proxy:0:1@train-worker-1] HYDU_sock_connect (utils/sock/sock.c:113): unable to get host address for train-launcher (1)",
    ),
    rule(
        "gethostbyname",
        Cause::HostUnresolvable,
        CONNECT,
        "gethostbyname failed",
        r"gethostbyname failed, (?P<host>[^\s(,]+)",
        "gethostbyname failed, train-worker-1 (errno 1)",
    ),
    rule(
        "rendezvous-unresolvable",
        Cause::HostUnresolvable,
        ROOT,
        "network addresses of (",
        r"The IPv[46] network addresses of \((?P<host>[^\s,]+), (?P<port>\d+)\) cannot be retrieved \(gai error: (?P<reason>[^)]*)",
        "[W socket.cpp:601] [c10d] The IPv4 network addresses of (train-worker-0, 29500) cannot be retrieved (gai error: -2 - Name or service not known).",
    )
    .by(Speaker::Rank),
    // Connections
    rule(
        "connect-refused",
        Cause::ConnectionRefused,
        ROOT,
        "connect to host ",
        r"^(?:[\w.-]+: )?connect to host (?P<host>\S+) (?:\([^)]*\) )?port (?P<port>\d+): (?i:Connection refused|Connection reset)",
        "ssh: connect to host train-worker-1 port 22: Connection refused",
    ),
    rule(
        "connect-timeout",
        Cause::ConnectionTimeout,
        ROOT,
        "connect to host ",
        r"^(?:[\w.-]+: )?connect to host (?P<host>\S+) (?:\([^)]*\) )?port (?P<port>\d+): (?i:(?:Connection|Operation) timed out|timed out|no answer)",
        "ssh: connect to host train-worker-1 port 2222: Connection timed out",
    ),
    rule(
        "ssh-banner-timeout",
        Cause::ConnectionTimeout,
        ROOT,
        "timed out during banner exchange",
        r"^(?:ssh: )?Connection (?:to (?P<host>\S+) port (?P<port>\d+) )?timed out during banner exchange",
        "Connection timed out during banner exchange",
    )
    .says("{host|A Worker} accepts the connection, but its sshd does not answer")
    .advice("Look at that Worker: its sshd is stopped or starved (CPU limit, node overloaded), or something else listens on that port. The network lets the connection through."),
    rule(
        "connect-no-route",
        Cause::PeerUnreachable,
        ROOT,
        "connect to host ",
        r"^(?:[\w.-]+: )?connect to host (?P<host>\S+) (?:\([^)]*\) )?port (?P<port>\d+): (?P<reason>(?i:No route to host|Network is unreachable|Host is unreachable))",
        "ssh: connect to host train-worker-1 port 22: No route to host",
    )
    .says("MPI communication failure – check NetworkPolicies: the Launcher cannot reach {host|a Worker}: {reason|no route}"),
    rule(
        "agent-waits-refused",
        Cause::ConnectionRefused,
        EXIT - 5,
        "waiting for ",
        r"waiting for (?P<host>\S+) \((?P<seconds>[6-9]\d|\d{3,}) s of \d+ s\): .*: (?:Connection refused|Connection reset)",
        "odh-launch: waiting for train-worker-1 (120 s of 600 s): connect to host train-worker-1 (10.0.0.7) port 7222: Connection refused (os error 111)",
    )
    .says("{host|A Worker} has refused the connection for {seconds|many} s: it is not up yet"),
    rule(
        "agent-waits-unresolvable",
        Cause::HostUnresolvable,
        EXIT - 5,
        "waiting for ",
        r"waiting for (?P<host>\S+) \((?P<seconds>[6-9]\d|\d{3,}) s of \d+ s\): Could not resolve",
        "odh-launch: waiting for train-worker-1 (120 s of 600 s): Could not resolve hostname train-worker-1: Name or service not known",
    )
    .says("The name {host|of a Worker} has not resolved for {seconds|many} s: its pod is not up yet"),
    rule(
        "agent-waits-timeout",
        Cause::ConnectionTimeout,
        EXIT - 5,
        "waiting for ",
        r"waiting for (?P<host>\S+) \((?P<seconds>[6-9]\d|\d{3,}) s of \d+ s\): .*timed out",
        "odh-launch: waiting for train-worker-1 (120 s of 600 s): connect to host train-worker-1 (10.0.0.7) port 7222: Connection timed out (os error 110)",
    ),
    rule(
        "ssh-closed-early",
        Cause::ConnectionRefused,
        CONNECT,
        "exchange_identification: ",
        r"exchange_identification: (?P<reason>.*(?:[Cc]onnection (?:closed|reset)|Broken pipe).*)",
        "kex_exchange_identification: Connection closed by remote host",
    )
    .says("A Worker's sshd closes the connection before any login: {reason|}")
    .advice("sshd is overloaded or still starting, or it is not sshd that listens on that port: raise MaxStartups in sshd_config (its default drops parallel logins), start the Launcher when the Workers are ready, and check the port."),
    rule(
        "ssh-closed-by",
        Cause::ConnectionRefused,
        SYMPTOM,
        "Connection closed by |Connection reset by ",
        r"^Connection (?:closed|reset) by (?P<host>\S+) port (?P<port>\d+)",
        "Connection closed by 10.0.0.7 port 22",
    ),
    // Keys
    rule(
        "ssh-permission-denied",
        Cause::AuthenticationFailed,
        ROOT,
        "Permission denied (",
        r"^(?:\S+@)?(?P<host>[^\s:@]+): Permission denied \((?P<reason>[a-z][\w,-]*)\)\.?",
        "mpiuser@train-worker-1: Permission denied (publickey,password,keyboard-interactive).",
    ),
    rule(
        "agent-rejected",
        Cause::AuthenticationFailed,
        ROOT,
        "authentication failed",
        r"^(?:[\w.-]+: )?(?P<host>[\w.-]+): authentication failed\b",
        "odh-launch: train-worker-1: authentication failed: the key of this job does not match",
    ),
    rule(
        "ssh-too-many-failures",
        Cause::AuthenticationFailed,
        ROOT,
        "Too many authentication failures",
        r"(?:Received disconnect from (?P<host>\S+) port \d+.*)?Too many authentication failures",
        "Received disconnect from 10.0.0.7 port 22:2: Too many authentication failures",
    ),
    rule(
        "ssh-key-mode",
        Cause::AuthenticationFailed,
        ROOT + 1,
        "are too open",
        r"Permissions (?P<code>0\d+) for '?(?P<path>[^']+?)'? are too open",
        "Permissions 0640 for '/root/.ssh/id_rsa' are too open.",
    )
    .says("ssh refuses the key {path|file}: its mode {code|} lets others read it")
    .advice(KEY_MODE_ADVICE),
    rule(
        "ssh-load-key",
        Cause::AuthenticationFailed,
        ROOT + 1,
        "Load key ",
        r#"^Load key "(?P<path>[^"]+)": (?P<reason>.+)"#,
        "Load key \"/root/.ssh/id_rsa\": bad permissions",
    )
    .says("ssh cannot use the key {path|file}: {reason|}")
    .advice("With bad permissions: give the file the mode 0600 and the user that runs as its owner (for a Secret's volume: defaultMode: 0400). With an invalid format or an error in libcrypto: the file is not a whole private key, as when its last line end is lost or it was encoded twice; create the Secret from the file itself."),
    rule(
        "ssh-config-owner",
        Cause::AuthenticationFailed,
        ROOT + 1,
        "Bad owner or permissions on ",
        r"Bad owner or permissions on (?P<path>\S+)",
        "Bad owner or permissions on /root/.ssh/config",
    )
    .says("ssh refuses {path|its configuration}: wrong owner or mode")
    .advice("Give the file the mode 0600 and the user that runs, or root, as its owner; nobody else may write it. With an arbitrary user id (OpenShift), put the options into /etc/ssh/ssh_config.d of the image instead."),
    rule(
        "ssh-config-option",
        Cause::BadOption,
        ROOT,
        ": Bad configuration option: ",
        r"^(?P<path>/\S+?):? line (?P<count>\d+): Bad configuration option: (?P<name>\S+)",
        "/root/.ssh/config: line 5: Bad configuration option: stricthostchecking",
    )
    .says("ssh does not know the option {name|in its configuration} in {path|its configuration}, line {count|unknown}")
    .advice("Correct that line of ssh's configuration in the image; options differ between versions of OpenSSH."),
    rule(
        "ssh-no-user",
        Cause::AuthenticationFailed,
        ROOT + 1,
        "No user exists for uid ",
        r"^No user exists for uid (?P<code>\d+)",
        "No user exists for uid 1000660000",
    )
    .says("ssh does not run for uid {code|}: it has no entry in the password file")
    .advice(NO_USER_ADVICE),
    rule(
        "plm-no-user",
        Cause::AuthenticationFailed,
        ROOT + 1,
        ") is unknown to the system",
        r"^The user \((?P<code>\d+)\) is unknown to the system",
        "The user (1000660000) is unknown to the system (i.e. there is no corresponding",
    )
    .says("mpirun cannot start daemons by ssh: uid {code|} has no entry in the password file")
    .advice(NO_USER_ADVICE),
    rule(
        "ssh-no-shell",
        Cause::AuthenticationFailed,
        ROOT,
        "This account is ",
        r"^This account is (?:currently not available|not available|disabled)\b",
        "This account is currently not available.",
    )
    .says("The Worker was reached, but the account there has no login shell (nologin)")
    .advice("Give the account a shell in the Workers' image (usermod --shell /bin/sh USER), log in as another user, or use the launch agent, which needs no account (annotation training.opendatahub.io/launch: agent)."),
    rule(
        "agent-key",
        Cause::AuthenticationFailed,
        ROOT + 1,
        "odh-launch: ",
        r"^odh-launch: (?P<reason>(?:cannot read the key of this job from (?P<path>\S+):|the key file (?P<file>\S+) is ).*)",
        "odh-launch: cannot read the key of this job from /root/.ssh/id_rsa: Permission denied (os error 13)",
    )
    .says("The launch agent cannot use the job's key: {reason|}"),
    rule(
        "oob-authentication",
        Cause::AuthenticationFailed,
        CONNECT,
        "the connection was refused due to a failure to",
        r"Unfortunately, the connection was refused due to a failure to",
        "Unfortunately, the connection was refused due to a failure to",
    ),
    rule(
        "host-key-failed",
        Cause::HostKeyMismatch,
        ROOT,
        "Host key verification failed",
        r"^Host key verification failed",
        "Host key verification failed.",
    ),
    rule(
        "host-key-unknown",
        Cause::HostKeyMismatch,
        ROOT + 1,
        " host key is known for ",
        r"^No \S+ host key is known for (?P<host>\S+) and you have requested strict checking",
        "No ED25519 host key is known for train-worker-1 and you have requested strict checking.",
    ),
    rule(
        "host-key-for",
        Cause::HostKeyMismatch,
        ROOT + 1,
        "ost key for ",
        r"ost key for (?P<host>\S+) has changed and you have requested strict checking",
        "Host key for [train-worker-1]:2222 has changed and you have requested strict checking.",
    ),
    rule(
        "host-key-changed",
        Cause::HostKeyMismatch,
        SYMPTOM,
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        r"WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED",
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @",
    ),
    // Programs of the launcher
    rule(
        "rsh-agent-missing",
        Cause::LaunchProgramMissing,
        ROOT,
        "The value of the MCA parameter \"plm_",
        r#"The value of the MCA parameter "(?P<name>plm_[rs]sh_agent)" was set to a path"#,
        "The value of the MCA parameter \"plm_rsh_agent\" was set to a path\nthat could not be found:\n\n  plm_rsh_agent: ssh : rsh",
    )
    .details(&[r"plm_[rs]sh_agent: (?P<path>\S.*)"]),
    rule(
        "hydra-launcher-missing",
        Cause::LaunchProgramMissing,
        ROOT,
        "execvp error on file ",
        r"\[mpiexec@[^\]]*\].*execvp error on file (?P<path>\S+) \(No such file",
        "[mpiexec@train-launcher] HYDU_create_process (utils/launch/launch.c:73): execvp error on file /usr/bin/ssh (No such file or directory)",
    ),
    rule(
        "shell-no-launcher",
        Cause::LaunchProgramMissing,
        ROOT,
        "not found",
        r"(?:^|[:/ ])(?P<path>ssh|rsh|mpirun(?:\.\w+)?|mpiexec(?:\.\w+)?|prterun|orterun|odh-launch): (?:command )?not found",
        "/bin/sh: 1: mpirun: not found",
    ),
    rule(
        "no-launch-agents",
        Cause::LaunchProgramMissing,
        CONNECT,
        "No available launching agents were found",
        r"No available launching agents were found",
        "No available launching agents were found.",
    ),
    // Daemons
    rule(
        "shell-no-daemon",
        Cause::DaemonMissing,
        ROOT,
        "orted|prted|pmi_proxy|bstrap_proxy",
        concat!(r"(?P<path>\S*", daemons!(), r"\S*): (?:(?:command )?not found|No such file or directory|Permission denied)"),
        "bash: line 1: /opt/openmpi/bin/orted: No such file or directory",
    ),
    rule(
        "hydra-no-daemon",
        Cause::DaemonMissing,
        ROOT + 1,
        "execvp error on file ",
        concat!(r"execvp error on file (?P<path>\S*", daemons!(), r")\b"),
        "[mpiexec@train-launcher] HYDU_create_process (utils/launch/launch.c:73): execvp error on file /usr/bin/hydra_pmi_proxy (No such file or directory)",
    ),
    rule(
        "bstrap-proxy-missing",
        Cause::DaemonMissing,
        ROOT,
        "nable to run bstrap_proxy on ",
        r"[Uu]nable to run bstrap_proxy on (?P<host>\S+) \(pid \d+, exit code (?:32512|127)\)",
        "[mpiexec@train-launcher] Error: Unable to run bstrap_proxy on train-worker-0 (pid 27, exit code 32512)",
    ),
    // The wait status of a remote shell that ended with 255: it did not reach the Worker, or was not let in. It mostly says why
    // itself, but Intel MPI may not pass that on; the first is then a guess.
    rule(
        "bstrap-proxy-unreachable",
        Cause::PeerUnreachable,
        SYMPTOM,
        "nable to run bstrap_proxy on ",
        r"[Uu]nable to run bstrap_proxy on (?P<host>\S+) \(pid \d+, exit code (?:65280|255)\)",
        "[mpiexec@train-launcher] check_exit_codes (libhydra/demux/hydra_demux_poll.c:117): unable to run bstrap_proxy on train-worker-0 (pid 247, exit code 65280)",
    )
    .says("mpiexec could not start its proxy on {host|a Worker}: the remote shell (ssh) ended with 255, as it does when it cannot reach or enter a Worker")
    .advice("Run the same ssh command by hand from the Launcher to see its reason: the name, the port, the key, or a NetworkPolicy. The launch agent (annotation training.opendatahub.io/launch: agent) needs no sshd."),
    rule(
        "daemon-status-127",
        Cause::DaemonMissing,
        CONNECT,
        "A daemon died unexpectedly with status 127",
        r"A daemon died unexpectedly with status 127",
        "A daemon died unexpectedly with status 127 while attempting",
    ),
    rule(
        "daemon-report-127",
        Cause::DaemonMissing,
        CONNECT,
        "A daemon failed to report back after being spawned",
        r"A daemon failed to report back after being spawned",
        "A daemon failed to report back after being spawned. This could\n  Remote host:   train-worker-0\n  Daemon exit status: 127",
    )
    .block(r"Daemon exit status: 127\b")
    .details(&[r"Remote host: +(?P<host>\S+)"]),
    rule(
        "daemon-report-crashed",
        Cause::DaemonLost,
        CONNECT,
        "A daemon failed to report back after being spawned",
        r"A daemon failed to report back after being spawned",
        "A daemon failed to report back after being spawned. This could\n  Remote host:   train-worker-0\n  Daemon exit status: 139",
    )
    .block(r"Daemon exit status: (?:132|134|135|136|139)\b")
    .details(&[r"Remote host: +(?P<host>\S+)", r"Daemon exit status: (?P<code>\d+)"])
    .says("MPI's daemon on {host|a Worker} crashed when it was started (exit status {code|})")
    .advice("Start it by hand on that Worker (prted --version): a variable that it needs, such as HOME, may not be set there, or its libraries are another version's."),
    rule(
        "no-local-daemon",
        Cause::DaemonMissing,
        ROOT,
        "component was not able to find the executable \"orted\"",
        r#"component was not able to find the executable "(?P<path>orted)""#,
        "The rsh PLS component was not able to find the executable \"orted\" in",
    ),
    rule(
        "daemon-lost",
        Cause::DaemonLost,
        CONNECT,
        "has lost communication with a remote daemon",
        r"ORTE has lost communication with a remote daemon",
        "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[42993,0],0] on node train-launcher\n  Remote daemon: [[42993,0],1] on node train-worker-0",
    )
    .details(&[r"Remote daemon: .*on node (?P<host>\S+)"])
    .run(),
    rule(
        "daemon-lost-prte",
        Cause::DaemonLost,
        CONNECT,
        "has lost communication with a remote daemon",
        r"PRR?TE has lost communication with a remote daemon",
        "PRTE has lost communication with a remote daemon.\n\n  HNP daemon   : [prterun-l-17@0,0] on node train-launcher\n  Remote daemon: [prterun-l-17@0,2] on node train-worker-0",
    )
    .details(&[r"Remote daemon: .*on node (?P<host>\S+)"])
    .run(),
    rule(
        "daemon-failed",
        Cause::DaemonLost,
        SYMPTOM,
        "daemon has unexpectedly failed after launch",
        r"daemon has unexpectedly failed after launch",
        "An ORTE daemon has unexpectedly failed after launch and before",
    ),
    rule(
        "daemon-died",
        Cause::DaemonLost,
        SYMPTOM,
        "A daemon died unexpectedly on signal ",
        r"A daemon died unexpectedly on signal (?P<signal>\d+)",
        "A daemon died unexpectedly on signal 9  while attempting to",
    ),
    rule(
        "required-daemon-ended",
        Cause::DaemonLost,
        SYMPTOM,
        "a required daemon terminated during execution",
        r"has detected that a required daemon terminated during execution",
        "mpirun has detected that a required daemon terminated during execution",
    )
    .run(),
    rule(
        "hydra-proxy-lost",
        Cause::DaemonLost,
        CONSEQUENCE + 1,
        "assert (!closed) failed",
        r"\[mpiexec@[^\]]*\] \S*control_cb .*assert \(!closed\) failed",
        "[mpiexec@train-launcher] control_cb (pm/pmiserv/pmiserv_cb.c:208): assert (!closed) failed",
    )
    .run()
    .says("mpiexec has lost its proxy on a Worker, which could not report why: it was killed, or its connection broke")
    .advice("Look at the Workers' pods: their last state, restarts, events and nodes. If the job fails so at each start, check that its working directory (-wdir) exists in all Workers: a proxy of MPICH that cannot enter it ends without a word."),
    rule(
        "hydra-downstream",
        Cause::DaemonLost,
        SYMPTOM,
        "ownstream from host ",
        r"\[mpiexec@[^\]]*\] .*[Dd]ownstream from host (?P<host>\S+) (?P<reason>was killed by signal (?:4|6|7|8|9|11)\b|exited with status (?:132|134|135|136|137|139)\b)",
        "[mpiexec@train-launcher] check_downstream_work_complete (mpiexec.c:945): downstream from host train-worker-1 was killed by signal 9 (Killed)",
    )
    .run(),
    // A proxy ends with its ranks, with the shell that started it, or with the connection, so its end explains
    // nothing.
    rule(
        "hydra-downstream-ended",
        Cause::Unknown,
        CONSEQUENCE + 1,
        "ownstream from host ",
        r"[Dd]ownstream from host (?P<host>\S+) exited (?:abnormally|with status (?P<code>\d+))",
        "[mpiexec@train-launcher] Error: Downstream from host train-worker-1 exited abnormally",
    )
    .run()
    .says("mpiexec's proxy on {host|a Worker} ended early"),
    // Open MPI 4 overruns a buffer for the part of host names before their number. Our operator prevents it for its jobs.
    rule(
        "long-host-names",
        Cause::BadHostfile,
        ROOT + 2,
        "EOF in backquote substitution",
        r"Syntax error: EOF in backquote substitution",
        "/bin/sh: 1: Syntax error: EOF in backquote substitution\nORTE was unable to reliably start one or more daemons.",
    )
    .block(r"ORTE (?:was unable to reliably start|does not know how to route)")
    .says("The daemons of Open MPI got a garbled list of hosts, as Open MPI 4 makes it of names that are too long")
    .advice("Give the job a name of at most 40 letters, or set OMPI_MCA_regx=naive in the Launcher's environment, so that the names are not packed."),
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
        r"python[\w./]*: can't open file '?(?P<path>[^']+)'?: \[Errno 2\]",
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
    // What follows
    rule(
        "hydra-no-launch",
        Cause::Unknown,
        CONSEQUENCE,
        "Launch proxy failed",
        r"\[mpiexec@[^\]]*\] ui_cmd_cb .*Launch proxy failed",
        "[mpiexec@train-launcher] ui_cmd_cb (mpiexec/pmiserv_pmci.c:51): Launch proxy failed.",
    )
    .says("mpiexec could not start its proxies on the Workers"),
    rule(
        "daemon-status",
        Cause::Unknown,
        CONSEQUENCE,
        "A daemon died unexpectedly with status ",
        r"A daemon died unexpectedly with status (?P<code>\d+)",
        "A daemon died unexpectedly with status 255 while attempting",
    )
    .says("mpirun could not start its daemons on the Workers (exit status {code|unknown})"),
    rule(
        "daemons-not-started",
        Cause::Unknown,
        CONSEQUENCE,
        "unable to reliably start one or more daemons",
        r"was unable to reliably start one or more daemons",
        "ORTE was unable to reliably start one or more daemons.",
    )
    .says("mpirun could not start its daemons on the Workers"),
    rule(
        "daemon-report",
        Cause::Unknown,
        CONSEQUENCE + 1,
        "A daemon failed to report back after being spawned",
        r"A daemon failed to report back after being spawned",
        "A daemon failed to report back after being spawned. This could\n  Remote host:   train-worker-0\n  Daemon exit status: 255",
    )
    .details(&[r"Remote host: +(?P<host>\S+)", r"Daemon exit status: (?P<code>\d+)"])
    .says("mpirun could not start its daemon on {host|a Worker} (exit status {code|unknown})")
    .advice("Read what that Worker's sshd or launch agent logged. A daemon that starts and ends again at once mostly cannot connect back to the Launcher: allow traffic from the Workers to the Launcher on all ports in NetworkPolicies. Otherwise start it by hand on that Worker (prted --version)."),
    rule(
        "bstrap-proxy",
        Cause::Unknown,
        CONSEQUENCE,
        "nable to run bstrap_proxy on ",
        r"[Uu]nable to run bstrap_proxy on (?P<host>\S+)",
        "[mpiexec@train-launcher] Error: Unable to run bstrap_proxy on train-worker-0 (pid 27, exit code 256)",
    )
    .says("mpiexec could not start its daemon on {host|a Worker}"),
];
