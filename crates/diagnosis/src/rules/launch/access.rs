//! Failures to reach the Workers and to be let in: names, connections, keys.

use super::super::weight::{CONNECT, EXIT, ROOT, SYMPTOM};
use super::super::{Rule, Speaker, rule};
use crate::cause::Cause;

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
];
