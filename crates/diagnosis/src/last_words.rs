//! The last lines of a job's output that its own program wrote, for people who ask what it said before it failed.
//!
//! Reports of mpirun and mpiexec, the launch agent's lines, and blank lines are left out; if nothing else was printed, they
//! are what is left to show. Pure.

use super::collect::Output;
use super::lines::{self, Line, escaped, is_noise};
use super::scan::is_frame;

/// How the lines of launchers and of the launch agent begin.
const NOT_THE_PROGRAMS: [&str; 7] = [
    "odh-launch: ",
    "[mpiexec@",
    "[proxy:",
    "mpirun noticed ",
    "mpirun detected ",
    "prterun noticed ",
    "prterun detected ",
];

/// Returns the last lines of the program, at most `most`, the oldest first: those of this rank if the launcher tagged
/// lines with ranks.
#[must_use]
pub fn last_words(log: &str, rank: Option<u32>, most: usize) -> Vec<String> {
    let output = Output::from(log);
    let head = String::from_utf8_lossy(&output.head);
    let tail = String::from_utf8_lossy(&output.tail);
    let all = lines::lines(&head, &tail, &output);
    let mut kept: Vec<&Line<'_>> = unframed(&all).into_iter().map(|at| &all[at]).collect();
    let is_of_rank = |line: &&Line<'_>| rank.is_some() && line.rank == rank;
    if kept.iter().any(is_of_rank) {
        kept.retain(is_of_rank);
    }
    if kept.is_empty() {
        kept = all.iter().filter(|line| !line.text.trim().is_empty()).collect();
    }
    let from = kept.len().saturating_sub(most);
    kept[from..].iter().map(|line| escaped(&line.text)).collect()
}

/// The indices of the lines outside of a launcher's framed reports that are not the launcher's otherwise.
pub(crate) fn unframed(all: &[Line<'_>]) -> Vec<usize> {
    let mut kept = Vec::new();
    let mut from = 0;
    while from < all.len() {
        let line = &all[from];
        let end = is_frame(line).then(|| all[from + 1..].iter().position(is_frame)).flatten();
        if let Some(end) = end {
            from += end + 2;
            continue;
        }
        let foreign =
            NOT_THE_PROGRAMS.iter().any(|start| line.text.starts_with(start)) || is_noise(&line.text);
        if !is_frame(line) && (line.by_rank || !foreign) && !line.text.trim().is_empty() {
            kept.push(from);
        }
        from += 1;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "--------------------------------------------------------------------------";

    #[test]
    fn the_launchers_report_is_not_what_the_program_said() {
        let log = format!(
            "rank 0: epoch 1\nrank 1: the data set is missing, giving up\n{RULE}\nmpirun detected that one or more processes exited\n\n  Exit code:    3\n{RULE}\nodh-launch: session 1 ends\n"
        );
        let words = last_words(&log, None, 10);
        assert_eq!(words, ["rank 0: epoch 1", "rank 1: the data set is missing, giving up"]);
        assert_eq!(last_words(&log, None, 1), ["rank 1: the data set is missing, giving up"]);
    }

    #[test]
    fn what_a_launcher_prints_in_good_runs_too_is_no_reason() {
        let noise = "[s-launcher:00413] plm:ssh: Warning: setpgid(416,416) failed in parent with errno=Permission denied(13)\nprterun: Forwarding signal 18 to job\n";
        assert_eq!(last_words(&format!("giving up\n{noise}"), None, 10), ["giving up"]);
    }

    #[test]
    fn with_tags_the_lines_of_the_failed_rank_are_shown() {
        let log = "[1,0]<stdout>:waits\n[1,1]<stderr>:KeyError: 'x'\n[1,0]<stdout>:still waits\n";
        assert_eq!(last_words(log, Some(1), 10), ["KeyError: 'x'"]);
        assert_eq!(last_words(log, Some(7), 1), ["still waits"]);
    }

    #[test]
    fn if_only_the_launcher_spoke_its_words_are_shown() {
        let log = format!("{RULE}\nmpirun was unable to find the program\n{RULE}\n");
        assert_eq!(last_words(&log, None, 10)[1], "mpirun was unable to find the program");
        assert!(last_words("", None, 10).is_empty());
    }
}
