//! Finds runs whose processes did not find each other: every one says that it is rank 0 of 1.
//!
//! A job of one process says so, too, and so may a program that prints a line of that kind per epoch: there must be
//! at least two *processes* that say it (by host, process id or rank tag, or the very same greeting twice), and
//! none that says otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use super::collect::Output;
use super::facts::World;
use super::lines::{Line, lines};

/// Lines of that kind that are looked at.
const MAX_GREETINGS: usize = 4096;

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

/// The indices of the lines in which processes say that they are alone, where that is true of all of them and there
/// are several. `ranks` is how many there should be, where that is known.
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

/// Where ranks said that they ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placement {
    /// On hosts that the job was given, and on as many as it takes to hold them.
    Spread { ranks: usize, hosts: usize },
    /// On fewer hosts than can hold them by their slots.
    Collapsed { ranks: usize, hosts: Vec<String> },
}

/// Where the ranks of a run said that they ran: told only if every rank of one world of several named one host that the
/// job was given. A host has one label of its name compared, as pods call themselves by the first.
pub(crate) fn placement(output: &Output, world: &World) -> Option<Placement> {
    let head = String::from_utf8_lossy(&output.head);
    let tail = String::from_utf8_lossy(&output.tail);
    let mut placed: BTreeMap<u64, String> = BTreeMap::new();
    let mut size = None;
    for line in lines(&head, &tail, output).iter().filter(|line| line.text.contains('-')) {
        let Some((rank, of)) = rank_and_size(&line.text).filter(|(rank, of)| rank < of) else { continue };
        let Some(host) = HOST.as_ref().and_then(|host| Some(host.captures(&line.text)?["host"].to_owned()))
        else {
            continue;
        };
        let host = host.split('.').next().unwrap_or_default().to_owned();
        if !world.workers.contains(&host) || *size.get_or_insert(of) != of {
            return None;
        }
        if *placed.entry(rank).or_insert_with(|| host.clone()) != host {
            return None;
        }
    }
    let ranks = placed.len();
    if ranks < 2 || size != u64::try_from(ranks).ok() {
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

/// Cheap: nearly every line ends here.
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
    fn ranks_are_placed_only_where_all_of_them_say_so() {
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
}
