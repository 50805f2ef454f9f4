//! Failures to start the daemons: the programs that start them, and the daemons themselves.

use super::super::weight::{CONNECT, CONSEQUENCE, ROOT, SYMPTOM};
use super::super::{Rule, rule};
use crate::cause::Cause;

/// Programs that MPI starts on the Workers.
macro_rules! daemons {
    () => {
        r"(?:orted|prted|hydra_pmi_proxy|hydra_bstrap_proxy|pmi_proxy|bstrap_proxy)"
    };
}

pub(super) const RULES: &[Rule] = &[
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
];

/// What follows from any failure to start daemons.
pub(super) const CONSEQUENCES: &[Rule] = &[
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
