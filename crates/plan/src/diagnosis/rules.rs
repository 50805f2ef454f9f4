//! The rules: which words of whom mean which cause. Data; [`super::scan`] applies them.
//!
//! A rule's texts are what the programs print, found in their sources: Open MPI 4 `orte/**/help-*.txt` and
//! `opal/**/help-*.txt`, PRRTE (Open MPI 5) `help-*.txt`, MPICH `src/pm/hydra` and `src/mpi/errhan`, OpenSSH
//! `sshconnect*.c`, `ssh.c`, `authfile.c`, UCX, NCCL `src/misc/socket.cc`, PyTorch, glibc's loader, the kernel,
//! the kubelet and the scheduler. Each rule carries an example, which the tests hold it to and the guide shows.

mod cluster;
mod launch;
mod network;
mod ranks;
mod settings;
mod transport;

use super::cause::Cause;

/// Who says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// mpirun, its daemons, ssh, the launch agent: a line that carries a rank's tag is not theirs.
    Launcher,
    /// Whatever the launcher calls to reach a Worker: ssh, or a program that was named in its place. Its words are its own, so they
    /// count only where the launcher reports that it could not start its daemons.
    Transport,
    /// MPI, the loader or the runtime inside a rank.
    Rank,
    /// The program, or a library in words that programs use, too: weak.
    Program,
    /// Kubernetes, in a status or event.
    Cluster,
}

/// When in a launch it can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Before any rank ran: where the launcher reports how a rank ended, it cannot be the reason for that.
    Start,
    /// While ranks start and connect, or while they run.
    Run,
    /// The launcher's own report of how a rank ended.
    Report,
}

/// Weights: the cause itself, before what only reports it, before what follows from it.
pub(crate) mod weight {
    /// Kubernetes' own word on a container that ended.
    pub const STATUS: i32 = 95;
    /// Names the cause and cannot follow from another.
    pub const ROOT: i32 = 85;
    /// Names what ended a rank.
    pub const END: i32 = 80;
    /// Names what made a rank end itself.
    pub const REASON: i32 = 76;
    /// A warning that explains a failure to connect.
    pub const WARNING: i32 = 70;
    /// A failure to connect.
    pub const CONNECT: i32 = 62;
    /// A report of what is mostly a consequence.
    pub const SYMPTOM: i32 = 50;
    /// A rank's exit code: true, and explains the least.
    pub const EXIT: i32 = 40;
    /// Follows from something else.
    pub const CONSEQUENCE: i32 = 25;
}

/// One rule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// Its name, unique.
    pub id: &'static str,
    pub cause: Cause,
    pub weight: i32,
    pub speaker: Speaker,
    pub phase: Phase,
    /// A substring of every line that can match, or several with bars between: found for all rules in one pass.
    pub needle: &'static str,
    /// The line; its named groups are what is known: host, peer, port, rank, code, signal, path, name, count, reason, image, seconds.
    pub line: &'static str,
    /// What the lines from that one on must hold, too.
    pub block: Option<&'static str>,
    /// Where in those lines more is known.
    pub details: &'static [&'static str],
    /// The message, where the cause's own would say less.
    pub says: Option<&'static str>,
    /// The advice, where the cause's own would miss it.
    pub advice: Option<&'static str>,
    /// An output that it recognises.
    pub example: &'static str,
}

/// A launcher's rule of the start phase; the other builders change what differs.
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

/// Whether the rule tells of a connection to whoever it may be, not only to one of the job's pods.
pub(crate) fn of_any_peer(rule: &Rule) -> bool {
    ["agent-no-answer", "agent-dead-connection"].contains(&rule.id)
}

/// Whether the rule reads what a launch agent tells of a connection, which it may take back.
pub(crate) fn by_agent(rule: &Rule) -> bool {
    of_any_peer(rule) || rule.id == "agent-no-answer-back"
}

/// Whether it stands in the output of runs that end well, too: something was ignored, retried or lost too late to matter.
pub(crate) fn of_good_run(rule: &Rule) -> bool {
    [
        "btl-interface",
        "ucx-device",
        "component-not-found",
        "ompi-connect-warning",
        "ompi-handshake-warning",
        "daemon-lost",
        "hydra-downstream",
        "hydra-downstream-ended",
    ]
    .contains(&rule.id)
}

/// Whether the launcher reports by it that it could not start its daemons.
pub(crate) fn of_failed_launch(rule: &Rule) -> bool {
    [
        "daemons-not-started",
        "daemon-report",
        "daemon-report-127",
        "daemon-status",
        "daemon-status-127",
        "bstrap-proxy",
        "bstrap-proxy-missing",
        "hydra-no-launch",
    ]
    .contains(&rule.id)
}

/// All rules.
pub(crate) fn all() -> impl Iterator<Item = &'static Rule> {
    [launch::RULES, transport::RULES, settings::RULES, ranks::RULES, network::RULES, cluster::RULES]
        .into_iter()
        .flatten()
}
