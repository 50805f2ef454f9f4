//! Finds out why a job failed, hangs or cannot start, from its launcher's output and what Kubernetes reports about its
//! pods.
//!
//! [`diagnose`] is pure: it takes an [`Output`] (bounded by [`Collector`]), how the launcher ended and [`Facts`], and
//! returns a [`Diagnosis`], or `None` if nothing failed. It reads no files and makes no requests. If it does not know
//! the cause, it returns [`Cause::Unknown`]: a wrong cause is worse than none. Lines that the user's own program may
//! have printed are weak evidence, and the message says so. Steps: [`collect`] → [`lines`] → [`scan`] (the [`rules`]
//! as data) → [`judge`] → [`explain`]; [`guide`] writes the same texts as a document. What a pod's status alone
//! decides is in [`pods`].

mod cause;
mod collect;
mod declared;
mod explain;
mod facts;
mod guide;
mod intel;
mod judge;
mod last_words;
mod lines;
mod pods;
mod rules;
mod scan;
mod tags;
#[cfg(test)]
mod tests;
mod trouble;
mod world;

use std::collections::BTreeSet;

use serde::Serialize;

pub use cause::{Actor, Cause, Moment, Retry, Texts};
pub use collect::{Collector, Output};
pub use explain::no_node_can_take;
pub use facts::{ContainerFacts, Facts, Gpus, PodFacts, Terminated, World};
pub use guide::{CONFIDENCE, Section, sections, troubleshooting};
pub use judge::STALL_SECONDS;
pub use last_words::last_words;
pub use lines::{as_evidence, is_noise, rank_of};
pub use pods::{
    FailedRun, PodFailure, failed_run, is_init_container, lost_with_node, of_infrastructure,
    of_init_container, of_missing_worker, of_slow_worker, of_unstartable, of_worker,
};
pub use tags::Tags;
pub use world::{Placement, agent_begins, placement, placement_by_agents};

/// How the launcher ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ending {
    /// Unknown.
    #[default]
    Unknown,
    /// It exited with this code.
    Exited(i32),
    /// It is still running.
    Running {
        /// Seconds since the last output.
        silent_seconds: u64,
    },
}

/// How reliable a diagnosis is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// It is based on lines that a program may have printed, on an exit code, or on silence.
    Low,
    /// The evidence fits, but another explanation is possible.
    Medium,
    /// The component that knows has reported it.
    High,
}

/// A line that a diagnosis is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Its number in the output, from 1; `None` for a status or event.
    pub line: Option<usize>,
    /// Its text, escaped and cut to a readable length.
    pub text: String,
}

/// What is wrong, on what evidence, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The cause.
    pub cause: Cause,
    /// How reliable it is.
    pub confidence: Confidence,
    /// The evidence, the strongest first.
    pub evidence: Vec<Evidence>,
    /// The affected Worker, if it is known.
    pub worker: Option<String>,
    /// One line for people.
    pub message: String,
    /// What to do.
    pub suggestion: String,
    /// A link to more information.
    pub link: String,
}

/// Replaces the addresses of peers that are the job's pods by their names. Drops findings of launch agents about other
/// addresses, such as a server that a program downloads from, and about peers that answered later; and what ssh says
/// about hosts that are none of the job's, unless the launcher could not start its daemons.
fn known_peers(
    mut findings: Vec<scan::Finding>,
    lines: &[lines::Line<'_>],
    facts: &Facts,
) -> Vec<scan::Finding> {
    let name_of = |address: &str| {
        let pod = facts.pods.iter().find(|pod| pod.address.as_deref() == Some(address));
        pod.map(|pod| pod.name.clone())
    };
    let addresses_known = facts.pods.iter().any(|pod| pod.address.is_some());
    let answers = |at: usize, words: &str| lines[at..].iter().any(|line| line.text.ends_with(words));
    let not_launched = findings.iter().any(|finding| rules::of_failed_launch(finding.rule));
    let programs_own = |finding: &scan::Finding| {
        let host = finding.values.get("host").filter(|_| rules::of_ssh(finding.rule));
        // `git` calls ssh, too.
        host.is_some_and(|host| lines[finding.at].text.starts_with("git@") || facts.is_foreign(host))
    };
    findings.retain_mut(|finding| {
        if rules::by_agent(finding.rule) {
            let value = |name: &str| finding.values.get(name).map_or("", String::as_str);
            let words = format!("{}: {} port {} answers again", value("host"), value("peer"), value("port"));
            if answers(finding.at, &words) {
                return false;
            }
        }
        if !not_launched && programs_own(finding) {
            return false;
        }
        let Some(peer) = finding.values.get_mut("peer") else { return true };
        match name_of(peer) {
            Some(name) => {
                *peer = name;
                true
            }
            None => !(addresses_known && rules::of_any_peer(finding.rule)),
        }
    });
    findings
}

/// A complaint of the launcher or MPI in a successful run: worth a note, but not a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What it says, as a sentence without its full stop.
    pub message: String,
    /// The number of its line in the output, from 1.
    pub line: usize,
}

/// Returns the complaints of the launcher and MPI in the output of a successful run, each kind once. Output of ranks is ignored.
#[must_use]
pub fn warnings(output: &Output) -> Vec<Warning> {
    let head = String::from_utf8_lossy(&output.head);
    let tail = String::from_utf8_lossy(&output.tail);
    let lines = lines::lines(&head, &tail, output);
    let findings = scan::scan(&lines);
    let mut seen = BTreeSet::new();
    let warnings =
        findings.iter().filter(|finding| rules::of_good_run(finding.rule) && !lines[finding.at].by_rank);
    warnings
        .filter(|finding| seen.insert(finding.rule.id))
        .map(|finding| explain::warning(finding, &lines[finding.at]))
        .collect()
}

/// Returns the diagnosis; `None` if nothing failed.
#[must_use]
pub fn diagnose(output: &Output, ending: Ending, facts: &Facts) -> Option<Diagnosis> {
    let head = String::from_utf8_lossy(&output.head);
    let tail = String::from_utf8_lossy(&output.tail);
    let printed = lines::lines(&head, &tail, output);
    let told = facts::lines(facts);
    let told: Vec<lines::Line<'_>> = told
        .iter()
        .map(|line| lines::Line { number: 0, text: line.into(), by_rank: false, rank: None })
        .collect();
    let ranks = facts.world.as_ref().map(|world| world.slots.saturating_mul(world.workers.len() as u32));
    let in_output = known_peers(scan::scan(&printed), &printed, facts);
    let in_cluster = scan::scan(&told);
    let material = judge::Material {
        ending,
        lines: &printed,
        output: &in_output,
        cluster: &in_cluster,
        lonely: world::lonely(&printed, ranks),
        world: facts.world.as_ref(),
    };
    let verdict = judge::judge(&material);
    explain::explain(&verdict, &material, &told, facts)
}
