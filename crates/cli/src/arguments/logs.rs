//! `odh training logs`: its flags.

use std::time::Duration;

use clap::{ArgGroup, Args};
use jobs::logs::Level;
use jobs::logs::pattern::Pattern;

use super::target::Target;
use super::{Output, read_duration};
use crate::settings;

/// Show a job's output.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training logs pi                 the Launcher's output, which includes all ranks
  odh training logs pi -f              follow it until the job has ended
  odh training logs pi --worker 0-3,7  the output of these Workers, merged by time
  odh training logs pi --all --tail 20 --timestamps
  odh training logs pi --grep 'loss=|Error' --exclude DEBUG -C 2
  odh training logs pi --rank 3        the output of rank 3
  odh training logs pi --fold          what ranks write alike, once
  odh training logs pi --all --level warning -C 3
  odh training logs pi --all --state Failed
  odh training logs pi --failed        the last lines of what failed
  odh training logs pi --attempt 1     the end of an earlier attempt, even when its pods are gone
  odh training logs pi --all -o json   one object per line: {\"pod\", \"time\", \"line\", …}

The server applies --tail and --since before --grep, --exclude and --level filter the lines.")]
#[command(group(ArgGroup::new("search").args(["grep", "level"]).multiple(true)))]
pub struct Logs {
    /// Which job.
    #[command(flatten)]
    pub target: Target,
    /// Show what these Workers wrote themselves, instead of the Launcher's output, which has the output of
    /// all ranks: 2, or 0-3,7
    #[arg(short, long, value_name = "NUMBERS", value_parser = read_indices)]
    pub worker: Option<Indices>,
    /// Show the Launcher and all Workers
    #[arg(short, long, conflicts_with = "worker")]
    pub all: bool,
    /// Only lines of these ranks: 3, or 0-3,7. An mpirun of your own must tag lines with their rank:
    /// --tag-output, or -prepend-rank with MPICH and Intel MPI
    #[arg(short, long, value_name = "NUMBERS", value_parser = read_indices, conflicts_with_all = ["worker", "all"])]
    pub rank: Option<Indices>,
    /// Only pods in these states now: Running, Failed, Error, Pending, …
    #[arg(long, value_name = "STATES", value_delimiter = ',')]
    pub state: Vec<String>,
    /// Show lines that several ranks or pods write alike at about the same time once
    #[arg(long)]
    pub fold: bool,
    /// Follow the output, and wait for pods that have not started
    #[arg(short, long)]
    pub follow: bool,
    /// Only lines newer than this: 30s, 10m
    #[arg(long, value_parser = read_duration, value_name = "TIME")]
    pub since: Option<Duration>,
    /// Only the last N lines of each pod; with --rank or --worker, of those that these ranks wrote
    #[arg(long, value_name = "N")]
    pub tail: Option<u32>,
    /// Print a timestamp before each line
    #[arg(long)]
    pub timestamps: bool,
    /// Show the previous run of a restarted container
    #[arg(short, long)]
    pub previous: bool,
    /// Show the end of the Launcher's output of this attempt; its record outlives its pods
    #[arg(long, value_name = "N", conflicts_with_all = ["worker", "all", "follow", "previous"])]
    pub attempt: Option<u32>,
    /// Show only the last lines of the rank or the Launcher that failed
    #[arg(long, conflicts_with_all = ["worker", "all", "follow", "previous", "attempt", "rank"])]
    pub failed: bool,
    /// Show the lines that launch agents and MPI's starters write themselves, too
    #[arg(long)]
    pub agent: bool,
    /// Container; defaults to the first
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Only lines that match this regular expression, highlighted on a terminal
    #[arg(short, long, value_name = "PATTERN", value_parser = read_pattern)]
    pub grep: Option<Pattern>,
    /// Omit lines that match this regular expression
    #[arg(long, value_name = "PATTERN", value_parser = read_pattern)]
    pub exclude: Option<Pattern>,
    /// Only lines that are marked with this level or a higher one: debug, info, warning, error
    #[arg(long, value_name = "LEVEL")]
    pub level: Option<Level>,
    /// Highlight what matches this regular expression, without filtering lines
    #[arg(long, value_name = "PATTERN", value_parser = read_pattern)]
    pub highlight: Option<Pattern>,
    /// Show N lines of the same pod before and after each match of --grep and --level
    #[arg(short = 'C', long, value_name = "N", requires = "search")]
    pub around: Option<usize>,
    /// Output format: table, or json for one object per line
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Parses a regular expression in the syntax of the regex crate; a leading `(?i)` ignores case.
fn read_pattern(text: &str) -> Result<Pattern, String> {
    Pattern::new(text, false)
}

/// Indices of Workers or ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indices(pub Vec<i32>);

/// The maximum number of indices in a range; a larger one is taken for a typing error.
const MAX_INDICES: usize = 10_000;

/// Parses `0-3,7`.
fn read_indices(text: &str) -> Result<Indices, String> {
    let wrong = || "expected a number, or ranges like 0-3,7".to_owned();
    let number = |part: &str| part.trim().parse::<u16>().map(i32::from).map_err(|_| wrong());
    let mut found = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            Some((from, to)) => {
                let (from, to) = (number(from)?, number(to)?);
                if from > to {
                    return Err(wrong());
                }
                found.extend(from..=to);
            }
            None => found.push(number(part)?),
        }
        if found.len() > MAX_INDICES {
            return Err(format!("selects more than {MAX_INDICES} Workers or ranks"));
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(Indices(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_workers_are_parsed() {
        assert_eq!(read_indices("0-3,7"), Ok(Indices(vec![0, 1, 2, 3, 7])));
        assert_eq!(read_indices("2,2,1"), Ok(Indices(vec![1, 2])));
        for wrong in ["", "a", "3-1", "1-", "-1"] {
            assert!(read_indices(wrong).is_err(), "{wrong}");
        }
    }
}
