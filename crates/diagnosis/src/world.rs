//! Finds runs whose processes did not find each other: each reports that it is rank 0 of 1.
//!
//! A job of one process reports the same, and so may a program that prints such a line per epoch. So at least two
//! *processes* must report it (distinguished by host, process ID or rank tag, or by the very same greeting twice), and
//! none may report otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use super::collect::Output;
use super::facts::World;
use super::lines::{Line, lines};

/// The maximum number of such lines examined.
const MAX_GREETINGS: usize = 4096;
/// The maximum number of ranks read from one line of an agent.
const MAX_RANKS: usize = 1 << 16;

static RANK_OF_SIZE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:rank|process|processor|proc|task|worker|node|id|am) *[:=#]? *(?P<rank>\d+) *(?:/|,? *(?:out )?of:?) *(?P<size>\d+)\b").ok()
});
static SIZE_APART: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\brank *[:=]? *(?P<rank>\d+)\b.{0,40}?\b(?:world[_ ]?)?size *[:=]? *(?P<size>\d+)\b")
        .ok()
});
static SIZE_BEFORE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:world[_ ]?)?size *[:=]? *(?P<size>\d+)\b.{0,40}?\brank *[:=]? *(?P<rank>\d+)\b")
        .ok()
});
static HOST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:\b(?:host|hostname|node|on|processor)[ =:]+|@)(?P<host>[a-z][\w.-]*\d[\w.-]*|[a-z][\w]*-[\w.-]+)").ok()
});
static PID: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?i)\bpid[ =:]+(?P<pid>\d+)").ok());

/// Returns the indices of the lines in which processes report that they are alone, if all do and there are several.
/// `ranks` is the expected number of ranks, if known.
pub(crate) fn lonely(lines: &[Line<'_>], ranks: Option<u32>) -> Option<Vec<usize>> {
    if ranks == Some(1) {
        return None;
    }
    let greetings: Vec<usize> = (0..lines.len())
        .filter(|at| may_greet(&lines[*at].text) && rank_and_size(&lines[*at].text) == Some((0, 1)))
        .take(MAX_GREETINGS)
        .collect();
    if greetings.len() < 2 || !(ranks.is_some() || are_processes(lines, &greetings)) {
        return None;
    }
    let otherwise = |line: &Line<'_>| rank_and_size(&line.text).is_some_and(|(_, size)| size > 1);
    (!lines.iter().any(otherwise)).then_some(greetings)
}

/// Where ranks ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// On hosts that the job was given, and on enough of them.
    Spread {
        /// The number of ranks.
        ranks: usize,
        /// The number of hosts.
        hosts: usize,
    },
    /// On fewer hosts than their slots require.
    Collapsed {
        /// The number of ranks.
        ranks: usize,
        /// The hosts that they ran on.
        hosts: Vec<String>,
    },
    /// Processes, however many, were started on this host and on no other.
    Alone {
        /// The host.
        host: String,
    },
    /// Nothing was started on any host of the job.
    Elsewhere,
}

/// Returns where the ranks of a run ran, by their own output, or `None` unless every rank of one world of several ranks
/// named one host of the job. Only the first label of a host name is compared, as pods use that as their host name.
#[must_use]
pub fn placement(output: &Output, world: &World) -> Option<Placement> {
    let head = String::from_utf8_lossy(&output.head);
    let tail = String::from_utf8_lossy(&output.tail);
    let printed = lines(&head, &tail, output);
    let said = printed.iter().filter(|line| line.text.contains('-')).filter_map(|line| {
        let (rank, size) = rank_and_size(&line.text).filter(|(rank, size)| rank < size)?;
        let host = HOST.as_ref()?.captures(&line.text)?["host"].to_owned();
        Some(Sighting { rank, size, host: host.split('.').next().unwrap_or_default().to_owned() })
    });
    place(said, world)
}

/// Returns where the ranks of a run ran, by what the hosts' launch agents logged; the keys of `agents` are positions in the
/// world. Agents may miss ranks that end quickly, but the log of what was started where can still show that there was
/// no common world.
#[must_use]
pub fn placement_by_agents(agents: &BTreeMap<usize, String>, world: &World) -> Option<Placement> {
    let heard: Vec<(&String, &String)> =
        agents.iter().filter_map(|(at, words)| Some((world.workers.get(*at)?, words))).collect();
    let seen = heard.iter().flat_map(|(host, words)| {
        words.lines().flat_map(ranks_seen).map(|(rank, size)| Sighting { rank, size, host: (*host).clone() })
    });
    if let Some(placement) = place(seen, world) {
        return Some(placement);
    }
    if heard.len() < world.workers.len() {
        return None;
    }
    let called: Vec<&String> =
        heard.iter().filter(|(_, words)| words.lines().any(agent_begins)).map(|(host, _)| *host).collect();
    match called[..] {
        [] => Some(Placement::Elsewhere),
        [host] => Some(Placement::Alone { host: host.clone() }),
        _ => None,
    }
}

/// Returns whether a launch agent logs in this line that it starts a process for a caller.
#[must_use]
pub fn agent_begins(line: &str) -> bool {
    line.contains(": session ") && line.ends_with(" begins")
}

/// The ranks that a launch agent saw, each with the size of its world: `odh-launch: ranks 0-2,5 of 8 ran here`.
fn ranks_seen(line: &str) -> impl Iterator<Item = (u64, u64)> {
    let told =
        line.split_once(": ranks ").and_then(|(_, rest)| rest.strip_suffix(" ran here")?.split_once(" of "));
    let (ranks, size) = told.and_then(|(ranks, size)| Some((ranks, size.parse().ok()?))).unwrap_or(("", 0));
    let ranges = ranks.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<u64>().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().take_while(move |rank| *rank < size).take(MAX_RANKS).map(move |rank| (rank, size))
}

/// A rank that was observed.
struct Sighting {
    rank: u64,
    size: u64,
    host: String,
}

/// Where ranks ran, if every rank of one world of several was seen, each on one host of the job.
fn place(sightings: impl Iterator<Item = Sighting>, world: &World) -> Option<Placement> {
    let mut placed: BTreeMap<u64, String> = BTreeMap::new();
    let mut world_size = None;
    for Sighting { rank, size, host } in sightings {
        if !world.workers.contains(&host) || *world_size.get_or_insert(size) != size {
            return None;
        }
        if *placed.entry(rank).or_insert_with(|| host.clone()) != host {
            return None;
        }
    }
    let ranks = placed.len();
    if ranks < 2 || world_size != u64::try_from(ranks).ok() {
        return None;
    }
    let hosts: BTreeSet<String> = placed.into_values().collect();
    let slots = usize::try_from(world.slots).ok()?;
    Some(if hosts.len() < ranks.div_ceil(slots) {
        Placement::Collapsed { ranks, hosts: hosts.into_iter().collect() }
    } else {
        Placement::Spread { ranks, hosts: hosts.len() }
    })
}

/// A cheap check first: it rejects nearly every line.
fn may_greet(text: &str) -> bool {
    text.contains('0') && ["/1", "/ 1", "of 1", "of: 1", "ize", "IZE"].iter().any(|part| text.contains(part))
}

fn rank_and_size(text: &str) -> Option<(u64, u64)> {
    [&RANK_OF_SIZE, &SIZE_APART, &SIZE_BEFORE].into_iter().find_map(|pattern| {
        let captures = pattern.as_ref()?.captures(text)?;
        Some((captures["rank"].parse().ok()?, captures["size"].parse().ok()?))
    })
}

fn are_processes(lines: &[Line<'_>], greetings: &[usize]) -> bool {
    let several = |values: BTreeSet<String>| values.len() > 1;
    let found = |pattern: &'static LazyLock<Option<Regex>>, group: &'static str| {
        greetings
            .iter()
            .filter_map(|at| Some(pattern.as_ref()?.captures(&lines[*at].text)?[group].to_owned()))
            .collect::<BTreeSet<_>>()
    };
    let tags = greetings.iter().filter_map(|at| lines[*at].rank.map(|rank| rank.to_string())).collect();
    let greeting = &lines[greetings[0]].text;
    several(found(&HOST, "host"))
        || several(found(&PID, "pid"))
        || several(tags)
        || greetings.iter().all(|at| lines[*at].text == *greeting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_placed_only_if_all_of_them_name_their_host() {
        let world = World { workers: vec!["pi-worker-0".to_owned(), "pi-worker-1".to_owned()], slots: 2 };
        let said = |text: &str| placement(&Output::from(text), &world);
        let lines = |hosts: [u8; 4]| -> String {
            let line =
                |(rank, host): (usize, &u8)| format!("rank {rank} of 4 on pi-worker-{host}.pi.team.svc\n");
            hosts.iter().enumerate().map(line).collect()
        };
        assert_eq!(said(&lines([0, 0, 1, 1])), Some(Placement::Spread { ranks: 4, hosts: 2 }));
        let collapsed = Placement::Collapsed { ranks: 4, hosts: vec!["pi-worker-0".to_owned()] };
        assert_eq!(said(&lines([0, 0, 0, 0])), Some(collapsed));
        assert_eq!(said("rank 0 of 4 on pi-worker-0\nrank 1 of 4 on pi-worker-0\n"), None, "two are missing");
        assert_eq!(said(&lines([0, 0, 1, 7])), None, "a host of somebody else");
        assert_eq!(said("epoch 1 of 4\n"), None);
    }

    #[test]
    fn agents_place_the_ranks_of_programs_that_print_nothing() {
        let workers = ["pi-worker-0", "pi-worker-1"].map(str::to_owned).to_vec();
        let world = World { workers, slots: 2 };
        let told = |words: &[&str]| {
            let words = words.iter().map(|words| format!("odh-launch: serving on [::]:7222\n{words}"));
            placement_by_agents(&words.enumerate().collect(), &world)
        };
        let called = "odh-launch: session 1 from 10.0.0.7:40112: orted begins\n";
        let ran = |ranks: &str| format!("{called}odh-launch: ranks {ranks} ran here\n");
        let collapsed = Placement::Collapsed { ranks: 4, hosts: vec!["pi-worker-0".to_owned()] };
        assert_eq!(
            told(&[&ran("0-1 of 4"), &ran("2-3 of 4")]),
            Some(Placement::Spread { ranks: 4, hosts: 2 })
        );
        assert_eq!(told(&[&ran("0-3 of 4"), called]), Some(collapsed.clone()));
        assert_eq!(told(&[&ran("0-3 of 4")]), Some(collapsed), "the other was not heard");
        assert_eq!(told(&[&ran("0-1 of 2"), ""]), Some(Placement::Spread { ranks: 2, hosts: 1 }));
        assert_eq!(told(&[&ran("0-1 of 4"), &ran("2 of 4")]), None, "one was too quick");
        assert_eq!(told(&[called, called]), None, "all were too quick");
        assert_eq!(told(&["", ""]), Some(Placement::Elsewhere));
        assert_eq!(told(&["", called]), Some(Placement::Alone { host: "pi-worker-1".to_owned() }));
        assert_eq!(told(&[called]), None, "the other was not heard");
        assert_eq!(told(&[&ran("0-99999999999 of 99999999999"), called]), None, "bounded");
    }
}
