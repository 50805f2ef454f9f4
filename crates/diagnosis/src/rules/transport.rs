//! Messages of programs that are called in place of ssh, each in its own words: any prefix, any letter case.
//!
//! Any program may print such words. These rules count only if the launcher reports that it could not start its
//! daemons, and then with medium confidence, because a script before mpirun may have printed them, too. The messages
//! of ssh and the launch agent are in [`super::launch`].

use super::super::cause::Cause;
use super::weight::SYMPTOM;
use super::{Rule, Speaker, rule};

/// Below the rules for ssh, the launch agent and mpirun that name a cause, above those that only report it.
const WEIGHT: i32 = SYMPTOM + 4;

const fn transport(
    id: &'static str,
    cause: Cause,
    needle: &'static str,
    line: &'static str,
    example: &'static str,
) -> Rule {
    let mut rule = rule(id, cause, WEIGHT, needle, line, example);
    rule.speaker = Speaker::Transport;
    rule
}

/// Captures the peer if the line names one: `connect to host NAME port 22`, `Connection to user@NAME:22`, `dial tcp
/// 10.0.0.7:22`.
macro_rules! peer {
    ($words:literal) => {
        concat!(
            r"(?i)(?:\b(?:connect(?:ion|ing)? to(?: host| port \d+ of)?|dial tcp|(?:rsh|ssh|exec):)(?: address)? (?:[\w.-]+@)?",
            r"(?P<host>[a-z0-9](?:[\w.-]*[\w])?)(?:(?::|,? port )(?P<port>\d+))?(?:[^\w=].*?)?)?",
            $words
        )
    };
}

pub(super) const RULES: &[Rule] = &[
    transport(
        "transport-refused",
        Cause::ConnectionRefused,
        "connection refused|connection was refused|refused the connection|refused our connection|econnrefused",
        peer!(
            r"\b(?:connection (?:was )?refused|refused (?:the|our) connection|econnrefused)\b"
        ),
        "Error from server: error dialing backend: dial tcp 10.0.0.7:10250: connect: connection refused",
    ),
    transport(
        "transport-timeout",
        Cause::ConnectionTimeout,
        "timed out|timeout|etimedout",
        peer!(
            r"(?:\b(?:connection|connect|connecting|operation|dial|socket|login|request)\b(?: attempt)? (?:has )?timed out\b|\bconnect(?:ion)? timeout\b|\bi/o timeout\b|\betimedout\b|\bconnect\w*\b.*\btimed out\b|: timed out$)"
        ),
        "error: unable to upgrade connection: dial tcp 10.0.0.7:10250: i/o timeout",
    ),
    transport(
        "transport-no-route",
        Cause::PeerUnreachable,
        "no route to host|network is unreachable|network unreachable|host is unreachable|host is down|ehostunreach|enetunreach",
        peer!(
            r"\b(?P<reason>no route to host|network (?:is )?unreachable|host is (?:unreachable|down)|ehostunreach|enetunreach)\b"
        ),
        "rsh: train-worker-1: No route to host",
    )
    .says("MPI communication failure – check NetworkPolicies: the Launcher cannot reach {host|a Worker}: {reason|no route}"),
    transport(
        "transport-unresolvable",
        Cause::HostUnresolvable,
        "name or service not known|name resolution|no address associated with|nodename nor servname|resolve host|error resolving|unknown host|no such host|nxdomain",
        r#"(?i)(?:\b(?:lookup|resolving|resolve host(?:name)?:?|unknown host:?)\s+["']?(?P<host>[a-z0-9](?:[\w.-]*\w)?)\b.*|\b(?:name or service not known|temporary failure in name resolution|no address associated with (?:host)?name|nodename nor servname provided|unknown host|no such host|nxdomain)\b)"#,
        "dbclient: Connection to root@train-worker-1:22 exited: Connect failed: Error resolving 'train-worker-1' port '22'. Name or service not known",
    ),
    transport(
        "transport-denied",
        Cause::AuthenticationFailed,
        "permission denied (|authentication fail|authentication methods|unable to authenticate|authentication exception|auth fail",
        r"(?i)(?:(?:^|\s)(?:\S+@)?(?P<host>[a-z0-9][\w.-]*): )?(?:\bpermission denied \((?P<reason>[a-z][\w,-]*)\)|\bauthentication fail(?:ed|ure)\b|\bno (?:more|supported) authentication methods\b|\bunable to authenticate\b|\bauth fail(?:ed|ure)?\b)",
        "train-worker-1: permission denied (publickey)",
    ),
    transport(
        "transport-host-key",
        Cause::HostKeyMismatch,
        "host key",
        r"(?i)\bhost key (?:verification failed|mismatch|is not trusted|for \S+ does not match)",
        "dbclient: Connection to root@train-worker-1:22 exited: Host key mismatch for train-worker-1",
    ),
];
