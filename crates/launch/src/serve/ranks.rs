//! Finds the ranks of an MPI job that run here, by the environment variables that MPI sets. This proves where a
//! program ran that prints nothing. A rank that ends before the next check goes unseen: only what was seen is
//! reported.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use super::descendants::{began, children_of};

/// The variables with a rank's number and the world's size: those of Open MPI, and those of MPICH and Intel MPI.
const NAMES: [(&str, &str); 2] = [("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")];
/// The most processes examined in one check, and the most ranks remembered.
const MOST_LOOKED_AT: usize = 512;
const MOST_RANKS: usize = 4096;
/// How long no rank may live before that is reported.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most bytes read of an environment.
const MOST_BYTES: u64 = 1 << 20;

/// A rank; `number` is below `size`, the size of its world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    size: u32,
    number: u32,
}

/// The ranks that have been seen.
pub struct Ranks {
    /// The processes that were seen as ranks, with the time when each began.
    seen: BTreeMap<i32, (Rank, Option<u64>)>,
    end: End,
}

/// The state of the end of all ranks while the process that started them continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// A rank lives, or none has been seen yet.
    None,
    /// No rank has been alive since this moment.
    Since(Instant),
    /// The end has been reported.
    Told,
}

impl Ranks {
    /// Starts with no rank seen.
    pub fn begin() -> Self {
        Self { seen: BTreeMap::new(), end: End::None }
    }

    /// Returns whether no rank has been seen yet.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Examines the descendants of the process `root`, down to the first rank of each branch. Reports, once, if all
    /// ranks have ended while the process that started them continues: the ranks of other pods may wait for them
    /// for ever.
    pub fn look(&mut self, root: i32, now: Instant) -> Option<String> {
        let mut parents = vec![root];
        for _ in 0..MOST_LOOKED_AT {
            let Some(parent) = parents.pop() else { break };
            for child in children_of(parent) {
                if self.seen.contains_key(&child) || self.seen.len() >= MOST_RANKS {
                    continue;
                }
                match rank_of(&environment_of(child)) {
                    Some(rank) => {
                        self.seen.insert(child, (rank, began(child)));
                    }
                    None => parents.push(child),
                }
            }
        }
        self.look_for_end(now)
    }

    fn look_for_end(&mut self, now: Instant) -> Option<String> {
        // The environment does not help: a rank may have replaced itself by another program.
        let lives = |(process, (_, begun)): (&i32, &(Rank, Option<u64>))| {
            begun.is_some() && began(*process) == *begun
        };
        if self.seen.is_empty() || self.seen.iter().any(lives) {
            self.end = End::None;
            return None;
        }
        match self.end {
            End::None => self.end = End::Since(now),
            End::Since(then) if now.saturating_duration_since(then) >= PATIENCE => {
                self.end = End::Told;
                let worlds = self.worlds();
                return Some(format!(
                    "{} have ended, but the process that started them is still running",
                    worlds.join(" and ")
                ));
            }
            End::Since(_) | End::Told => {}
        }
        None
    }

    /// Describes the ranks that were seen, for each size of world.
    fn worlds(&self) -> Vec<String> {
        let ranks: BTreeSet<Rank> = self.seen.values().map(|(rank, _)| *rank).collect();
        let mut worlds: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for rank in ranks {
            worlds.entry(rank.size).or_default().push(rank.number);
        }
        worlds.iter().map(|(size, numbers)| format!("ranks {} of {size}", ranges(numbers))).collect()
    }

    /// Describes what has been seen since the last call, one line for each size of world.
    pub fn take(&mut self) -> Vec<String> {
        let lines = self.worlds().into_iter().map(|world| format!("{world} ran here")).collect();
        self.seen.clear();
        self.end = End::None;
        lines
    }
}

/// Formats ascending numbers as people write them: `0-2,5`.
fn ranges(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let run = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

/// Whether a process with this environment is a rank, or was started by one.
pub fn is_rank(environment: &[u8]) -> bool {
    rank_of(environment).is_some()
}

/// Returns the environment of a process as `/proc` shows it; nothing if it cannot be read.
pub fn environment_of(process: i32) -> Vec<u8> {
    let mut environment = Vec::new();
    let file = File::open(format!("/proc/{process}/environ"));
    // A process that has ended meanwhile, or belongs to another user, has none.
    let _ = file.and_then(|file| file.take(MOST_BYTES).read_to_end(&mut environment));
    environment
}

fn rank_of(environment: &[u8]) -> Option<Rank> {
    let variables = || environment.split(|byte| *byte == 0).filter_map(|it| std::str::from_utf8(it).ok());
    let number = |name: &str| -> Option<u32> {
        variables().find_map(|variable| variable.strip_prefix(name)?.strip_prefix('='))?.parse().ok()
    };
    NAMES.iter().find_map(|(rank, size)| {
        let rank = Rank { size: number(size)?, number: number(rank)? };
        (rank.number < rank.size).then_some(rank)
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn ranks_are_known_by_the_variables_that_mpi_sets() {
        let rank = |size, number| Some(Rank { size, number });
        assert_eq!(rank_of(b"A=1\0OMPI_COMM_WORLD_SIZE=4\0OMPI_COMM_WORLD_RANK=3\0"), rank(4, 3));
        assert_eq!(rank_of(b"PMI_RANK=0\0PMI_SIZE=2\0"), rank(2, 0));
        for not in
            ["", "PMI_RANK=0", "PMI_RANK=2\0PMI_SIZE=2", "PMI_RANK=x\0PMI_SIZE=2", "XPMI_RANK=0\0PMI_SIZE=2"]
        {
            assert_eq!(rank_of(not.as_bytes()), None, "{not:?}");
        }
    }

    #[test]
    fn ranks_are_reported_once_and_as_ranges() {
        let mut ranks = Ranks::begin();
        let seen = [(8, 0), (8, 1), (8, 2), (8, 5), (8, 5), (2, 1)];
        let seen = seen.into_iter().map(|(size, number)| (Rank { size, number }, None));
        ranks.seen = (1..).zip(seen).collect();
        assert_eq!(ranks.take(), ["ranks 1 of 2 ran here", "ranks 0-2,5 of 8 ran here"]);
        assert_eq!(ranks.take(), Vec::<String>::new());
    }

    #[test]
    fn a_rank_is_found_among_descendants() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "PMI_RANK=0 PMI_SIZE=2 cat; exec sleep 300"]).stdin(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let (mut ranks, own) = (Ranks::begin(), i32::try_from(std::process::id()).unwrap());
        let deadline = Instant::now() + Duration::from_secs(60);
        // Other tests' children may be there too, but none of them is a rank.
        while ranks.seen.is_empty() {
            assert!(Instant::now() < deadline, "no rank was seen");
            ranks.look(own, Instant::now());
            std::thread::yield_now();
        }
        drop(shell.stdin.take());
        // The process that started the rank continues. After a while that is reported, and only once.
        let rank = *ranks.seen.keys().next().unwrap();
        while began(rank).is_some() {
            assert!(Instant::now() < deadline, "the rank did not end");
            std::thread::yield_now();
        }
        let ended = Instant::now();
        assert_eq!(ranks.look(own, ended), None);
        let told = "ranks 0 of 2 have ended, but the process that started them is still running";
        assert_eq!(ranks.look(own, ended + PATIENCE).as_deref(), Some(told));
        assert_eq!(ranks.look(own, ended + PATIENCE * 2), None);
        assert_eq!(ranks.take(), ["ranks 0 of 2 ran here"]);
        shell.kill().unwrap();
        shell.wait().unwrap();
    }
}
