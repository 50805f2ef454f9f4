//! Examples of the help in the width of a narrow terminal: what an example does stays below the beginning of its text.

use clap::Command;
use unicode_width::UnicodeWidthStr as _;

use crate::table::pieces;

/// The columns of a help text at most; clap's `max_term_width` is the same.
const MOST_COLUMNS: usize = 100;
/// The columns that an explanation needs beside its example; with less it is put below it.
const LEAST_BESIDE: usize = 24;
/// The indentation of an explanation below its example.
const BELOW: usize = 6;

/// Fits the examples of a command and of all below it to the terminal.
pub fn fitted(command: Command) -> Command {
    let of_shell = || std::env::var("COLUMNS").ok()?.parse().ok();
    let columns = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)).or_else(of_shell);
    match columns.filter(|columns| *columns < MOST_COLUMNS) {
        Some(columns) => narrowed(command, columns),
        None => command,
    }
}

fn narrowed(command: Command, columns: usize) -> Command {
    let text = command.get_after_help().map(|text| aligned(&text.to_string(), columns));
    let command = match text {
        Some(text) => command.after_help(text),
        None => command,
    };
    command.mut_subcommands(|inner| narrowed(inner, columns))
}

/// Wraps the explanations of examples. Other lines stay, and clap wraps them.
fn aligned(text: &str, columns: usize) -> String {
    text.lines().map(|line| wrapped(line, columns)).collect::<Vec<_>>().join("\n")
}

fn wrapped(line: &str, columns: usize) -> String {
    let example = line.strip_prefix("  ").filter(|_| line.width() > columns);
    let Some((example, explanation)) = example.and_then(|example| example.rsplit_once("   ")) else {
        return line.to_owned();
    };
    let beside = line.width() - explanation.width();
    let (first, indent) = match beside + LEAST_BESIDE <= columns {
        true => (format!("  {example}   "), beside),
        false => (format!("  {}\n{}", example.trim_end(), " ".repeat(BELOW)), BELOW),
    };
    let room = columns.saturating_sub(indent).max(1);
    first + &pieces(explanation, room).join(&format!("\n{}", " ".repeat(indent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_stays_beside_or_below_its_example() {
        let text = "Examples:\n  odh up                     a small cluster of your own, in the background\n  \
                    odh local image add my-env=$HOME/venv   image my-env: ~/venv/bin first on PATH\n  odh down";
        assert_eq!(
            aligned(text, 60),
            "Examples:\n  odh up                     a small cluster of your own, in\n                             the background\n  \
             odh local image add my-env=$HOME/venv\n      image my-env: ~/venv/bin first on PATH\n  odh down"
        );
        assert_eq!(aligned(text, 100), text);
    }

    #[test]
    fn no_explanation_of_any_command_is_broken_at_80_columns() {
        fn check(command: &Command) {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            // A line without explanation is left to clap.
            let explained = |line: &&str| line.starts_with("  ") && line.trim().contains("   ");
            for line in text.lines().filter(explained).flat_map(|line| {
                let wrapped = wrapped(line, 80);
                wrapped.lines().map(str::to_owned).collect::<Vec<_>>()
            }) {
                assert!(line.width() <= 80, "{}: {line}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&crate::arguments::definition());
    }
}
