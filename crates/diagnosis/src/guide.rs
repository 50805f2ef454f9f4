//! The troubleshooting guide, from the causes and rules: as sections, and as `docs/guides/troubleshooting.md`.

use std::fmt::Write as _;

use super::cause::Cause;
use super::rules::{self, Rule};

/// Examples per cause; more would be too many to take in at a glance.
const MAX_EXAMPLES: usize = 4;
/// How far a diagnosis can be relied on; words in asterisks are stressed.
pub const CONFIDENCE: &str = "A diagnosis says how far it can be relied on: *high* where mpirun, ssh, MPI or \
     Kubernetes itself says so, *medium* where another explanation is possible, *low* where it rests on an exit code, \
     on silence, or on lines that the program itself may have printed.";

/// What the guide says about a cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The cause.
    pub cause: Cause,
    /// Output that shows it.
    pub examples: Vec<&'static str>,
    /// Lines of output for which the suggestion is another one, each with that suggestion.
    pub special: Vec<(&'static str, &'static str)>,
}

/// Returns the sections of the guide, in its order.
#[must_use]
pub fn sections() -> Vec<Section> {
    Cause::ALL.iter().map(|cause| section(*cause)).collect()
}

fn section(cause: Cause) -> Section {
    let rules: Vec<&Rule> = rules::all().filter(|rule| rule.cause == cause).collect();
    let special = |rule: &&Rule| Some((rule.example.lines().next().unwrap_or_default(), rule.advice?));
    Section {
        cause,
        examples: rules.iter().take(MAX_EXAMPLES).map(|rule| rule.example).collect(),
        special: rules.iter().filter_map(special).collect(),
    }
}

/// Returns the guide in Markdown. The introduction says where an interface shows these causes.
#[must_use]
pub fn troubleshooting(introduction: &str) -> String {
    let mut text = format!(
        "# Troubleshooting\n\n\
         <!-- Written by the test `generated_troubleshooting_guide` of crates/plan from the rules that diagnose jobs; UPDATE=1 rewrites it. -->\n\n{introduction}\n\n\
         {CONFIDENCE}\n\n\
         | Cause | |\n|---|---|\n",
    );
    for cause in Cause::ALL {
        let _ = writeln!(
            text,
            "| [{word}](#{anchor}) | {title} |",
            word = cause.word(),
            anchor = cause.word().to_lowercase(),
            title = cause.texts().title
        );
    }
    for section in sections() {
        text.push_str(&in_markdown(&section));
    }
    text
}

fn in_markdown(Section { cause, examples, special }: &Section) -> String {
    let texts = cause.texts();
    let mut text = format!("\n## {}\n\n**{}.** {}\n", cause.word(), texts.title, texts.meaning);
    if !examples.is_empty() {
        text.push_str("\nYou see, for example:\n\n```text\n");
        for example in examples {
            text.push_str(example);
            text.push('\n');
        }
        text.push_str("```\n");
    }
    let _ = write!(text, "\nWhat to do: {}\n", texts.suggestion);
    for (line, suggestion) in special {
        let _ = write!(text, "\nWhere it says `{line}`: {suggestion}\n");
    }
    text
}
