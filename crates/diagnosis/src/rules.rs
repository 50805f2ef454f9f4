//! The rules: which text from which program means which cause. Pure data; [`super::scan`] applies them.
//!
//! A rule's texts are what the programs print, found in their sources: Open MPI 4 `orte/**/help-*.txt` and
//! `opal/**/help-*.txt`, PRRTE (Open MPI 5) `help-*.txt`, MPICH `src/pm/hydra` and `src/mpi/errhan`, OpenSSH
//! `sshconnect*.c`, `ssh.c`, `authfile.c`, UCX, NCCL `src/misc/socket.cc`, PyTorch, glibc's loader, the kernel, the
//! kubelet and the scheduler. Each rule has an example, which the tests check and the guide shows.

mod cluster;
mod launch;
mod network;
mod ranks;
mod settings;
mod transport;

use std::collections::BTreeMap;

use super::cause::Cause;

/// Which program prints the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// mpirun, its daemons, ssh or the launch agent; never a line with a rank's tag.
    Launcher,
    /// The program that the launcher calls to reach a Worker: ssh, or one configured in its place. Its wording is not
    /// fixed, so it counts only if the launcher reports that it could not start its daemons.
    Transport,
    /// MPI, the loader or the runtime inside a rank.
    Rank,
    /// The program, or a library whose wording programs use, too: weak evidence.
    Program,
    /// Kubernetes, in a status or event.
    Cluster,
}

/// The phase of a launch in which it can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Before any rank ran. If the launcher reports how a rank ended, this cannot be the reason.
    Start,
    /// While ranks start and connect, or while they run.
    Run,
    /// The launcher's own report of how a rank ended.
    Report,
}

/// Weights: a cause ranks above a report of it, and a report above a consequence.
pub(crate) mod weight {
    /// Kubernetes' own report on a container that ended.
    pub const STATUS: i32 = 95;
    /// Names a cause that cannot be a consequence of another.
    pub const ROOT: i32 = 85;
    /// Names what ended a rank.
    pub const END: i32 = 80;
    /// Names what made a rank exit.
    pub const REASON: i32 = 76;
    /// A warning that explains a failure to connect.
    pub const WARNING: i32 = 70;
    /// A failure to connect.
    pub const CONNECT: i32 = 62;
    /// Reports what is mostly a consequence.
    pub const SYMPTOM: i32 = 50;
    /// A rank's exit code: true, but explains the least.
    pub const EXIT: i32 = 40;
    /// A consequence of something else.
    pub const CONSEQUENCE: i32 = 25;
}

/// One rule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// Its unique name.
    pub id: &'static str,
    pub cause: Cause,
    pub weight: i32,
    pub speaker: Speaker,
    pub phase: Phase,
    /// A substring of every line that can match, or several separated by bars; one pass searches for those of all
    /// rules.
    pub needle: &'static str,
    /// The pattern of the line. Its named groups capture values: host, peer, port, rank, code, signal, path, name,
    /// count, reason, image, seconds.
    pub line: &'static str,
    /// A pattern that the block of lines from that one on must match, too.
    pub block: Option<&'static str>,
    /// Patterns that capture more values in those lines.
    pub details: &'static [&'static str],
    /// The message, if the cause's own would be less specific.
    pub says: Option<&'static str>,
    /// The advice, if the cause's own would not fit.
    pub advice: Option<&'static str>,
    /// An output that the rule matches.
    pub example: &'static str,
}

/// Builds a launcher's rule of the start phase; the other builders change individual fields.
const fn rule(
    id: &'static str,
    cause: Cause,
    weight: i32,
    needle: &'static str,
    line: &'static str,
    example: &'static str,
) -> Rule {
    Rule {
        id,
        cause,
        weight,
        speaker: Speaker::Launcher,
        phase: Phase::Start,
        needle,
        line,
        block: None,
        details: &[],
        says: None,
        advice: None,
        example,
    }
}

impl Rule {
    const fn run(mut self) -> Self {
        self.phase = Phase::Run;
        self
    }
    const fn report(mut self) -> Self {
        self.phase = Phase::Report;
        self
    }
    const fn by(mut self, speaker: Speaker) -> Self {
        self.speaker = speaker;
        self.phase = Phase::Run;
        self
    }
    const fn block(mut self, block: &'static str) -> Self {
        self.block = Some(block);
        self
    }
    const fn details(mut self, details: &'static [&'static str]) -> Self {
        self.details = details;
        self
    }
    const fn says(mut self, message: &'static str) -> Self {
        self.says = Some(message);
        self
    }
    const fn advice(mut self, advice: &'static str) -> Self {
        self.advice = Some(advice);
        self
    }
}

/// Returns the advice on a finding of a rule, if that of its cause would not fit.
pub(crate) fn advice(rule: &Rule, values: &BTreeMap<String, String>) -> Option<&'static str> {
    let is = |name: &str, of: &[&str]| values.get(name).is_some_and(|value| of.contains(&value.as_str()));
    let by_bus_error = is("signal", &["7", "135"]) || is("name", &["Bus error"]);
    let crashed_so = rule.cause == Cause::RankCrashed && by_bus_error;
    rule.advice.or(crashed_so.then_some(ranks::BUS_ERROR_ADVICE))
}

/// Whether the rule matches connections to any peer, not only to the job's pods.
pub(crate) fn of_any_peer(rule: &Rule) -> bool {
    ["agent-no-answer", "agent-dead-connection"].contains(&rule.id)
}

/// Whether ssh prints the line, about a host: the one that mpirun starts a daemon on, or one that a program connects to.
pub(crate) fn of_ssh(rule: &Rule) -> bool {
    rule.id.starts_with("ssh-")
        || ["host-unresolvable", "connect-refused", "connect-timeout", "connect-no-route"].contains(&rule.id)
}

/// Whether the rule reads a launch agent's report on a connection, which the agent may later withdraw.
pub(crate) fn by_agent(rule: &Rule) -> bool {
    of_any_peer(rule) || rule.id == "agent-no-answer-back"
}

/// Whether the rule matches a refused connection between ranks: also a consequence of a rank that ended first, or tried again.
pub(crate) fn of_refusal(rule: &Rule) -> bool {
    ["rendezvous-refused", "ompi-endpoint-refused", "ucx-connect-refused", "gloo-refused", "nccl-refused"]
        .contains(&rule.id)
}

/// Whether the text has two explanations.
pub(crate) fn of_two_causes(rule: &Rule) -> bool {
    ["exe-missing-or-no-access", "exe-script-no-access", "binary-as-script"].contains(&rule.id)
}

/// Whether the text only makes the cause likely: it says that something is gone or did not start, and not why.
pub(crate) fn of_guess(rule: &Rule) -> bool {
    ["hydra-proxy-lost", "bstrap-proxy-unreachable"].contains(&rule.id)
}

/// Whether it also appears in the output of successful runs: something was ignored, retried or lost too late to
/// matter.
pub(crate) fn of_good_run(rule: &Rule) -> bool {
    [
        "btl-interface",
        "ucx-device",
        "component-not-found",
        "mpi4py-environment",
        "ompi-connect-warning",
        "ompi-handshake-warning",
        "daemon-lost",
        "hydra-downstream-ended",
    ]
    .contains(&rule.id)
}

/// Whether the run has failed although the launcher may end with 0: `prterun` of Open MPI 5 reports the loss of a daemon,
/// ends the job, and mostly ends with 0 itself; `mpiexec` of Intel MPI, where ranks of the other proxies end with 0, does so
/// after a proxy was killed; and mpi4py warns in each process that is alone but should not be.
pub(crate) fn of_failed_success(rule: &Rule) -> bool {
    ["daemon-lost-prte", "hydra-downstream", "mpi4py-environment"].contains(&rule.id)
}

/// Whether only Open MPI's `mpirun` prints it: it refuses options, a hostfile or a user of its own.
pub(crate) fn of_open_mpi(rule: &Rule) -> bool {
    [
        "unknown-option",
        "option-parameters",
        "prte-missing-values",
        "prte-option-argument",
        "prte-unrecognized-option",
        "option-format",
        "hostfile-with-colons",
        "not-enough-slots",
        "already-filled",
        "root-refused",
    ]
    .contains(&rule.id)
}

/// Whether only Hydra prints it, the `mpiexec` of MPICH and Intel MPI: it refuses options or a hostfile.
pub(crate) fn of_hydra(rule: &Rule) -> bool {
    ["hydra-unrecognized", "hydra-hostfile-token"].contains(&rule.id)
}

/// Whether it is a launcher's report that its daemons could not be started.
pub(crate) fn of_failed_launch(rule: &Rule) -> bool {
    [
        "daemons-not-started",
        "daemon-report",
        "daemon-report-127",
        "daemon-status",
        "daemon-status-127",
        "bstrap-proxy",
        "bstrap-proxy-missing",
        "bstrap-proxy-unreachable",
        "hydra-no-launch",
    ]
    .contains(&rule.id)
}

/// All rules.
pub(crate) fn all() -> impl Iterator<Item = &'static Rule> {
    let before = [transport::RULES, settings::RULES];
    let after = [network::RULES, cluster::RULES];
    launch::RULES.into_iter().chain(before).chain(ranks::RULES).chain(after).flatten()
}
