//! Words that an engineer has to read twice, which older texts of this project were full of.

use std::path::Path;
use std::process::Command;

use crate::steps::{self, Stop};

/// Whole words in lower case; they are refused in any case.
const REFUSED: [&str; 3] = ["anew", "for want of", "whoever"];
/// This file, and text that others wrote.
const EXCEPT: [&str; 3] = [":!crates/xtask/src/words.rs", ":!*/testdata/*", ":!**/package-lock.json"];

/// Checks every file that git tracks and that is text.
pub fn check() -> Result<(), Stop> {
    steps::step("Plain words");
    let root = steps::root();
    let Some(files) = tracked(&root)? else {
        steps::say("    NOT CHECKED: this is no checkout of git");
        return Ok(());
    };
    let mut found = Vec::new();
    for file in files {
        // Binary files are skipped, and files that were deleted but are still tracked.
        let Ok(text) = std::fs::read_to_string(root.join(&file)) else { continue };
        found.extend(refused(&text).map(|(line, text)| format!("{file}:{line}:{text}")));
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(Stop::new(
        format!("words that read like a dialect:\n{}", found.join("\n")),
        "say it as the Kubernetes documentation would: again, for lack of, the one that, …",
    ))
}

/// The files that git tracks, or `None` outside of a checkout.
fn tracked(root: &Path) -> Result<Option<Vec<String>>, Stop> {
    let mut command = Command::new("git");
    command.current_dir(root).args(["ls-files", "-z", "--", "."]).args(EXCEPT);
    let listed = command.output().map_err(|error| Stop::plain(format!("git: {error}")))?;
    let names = String::from_utf8_lossy(&listed.stdout);
    Ok(listed.status.success().then(|| names.split_terminator('\0').map(str::to_owned).collect()))
}

/// The lines with a refused word, counted from 1.
fn refused(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.filter(|(_, line)| REFUSED.iter().any(|words| has_word(&line.to_lowercase(), words)))
}

fn has_word(line: &str, words: &str) -> bool {
    let inside = |neighbour: Option<char>| neighbour.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(words).any(|(at, _)| {
        !inside(line[..at].chars().next_back()) && !inside(line[at + words.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_word_is_found_with_its_line() {
        let found: Vec<_> = refused("It begins\nAnew.\nIt stopped for want of memory\n").collect();
        assert_eq!(found, [(2, "Anew."), (3, "It stopped for want of memory")]);
    }

    #[test]
    fn a_part_of_another_word_is_not_refused() {
        assert_eq!(refused("It begins again, in renewal.\nanewly whoever_else\n").count(), 0);
    }
}
