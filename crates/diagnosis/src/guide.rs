//! Writes `docs/guides/troubleshooting.md` from the causes and rules.

use std::fmt::Write as _;

use super::cause::Cause;
use super::rules::{self, Rule};

/// Examples per cause; more would be too many to take in at a glance.
const MAX_EXAMPLES: usize = 4;

/// Returns the troubleshooting guide, in Markdown. The introduction says where an interface shows these causes.
#[must_use]
pub fn troubleshooting(introduction: &str) -> String {
    let mut text = format!(
        "# Troubleshooting\n\n\
         <!-- Written by the test `generated_troubleshooting_guide` of crates/plan from the rules that diagnose jobs; UPDATE=1 rewrites it. -->\n\n{introduction}\n\n\
         A diagnosis says how far it can be relied on: *high* where mpirun, ssh, MPI or Kubernetes itself says so, *medium* where \
         another explanation is possible, *low* where it rests on an exit code, on silence, or on lines that the program itself may have printed.\n\n\
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
    for cause in Cause::ALL {
        text.push_str(&section(*cause));
    }
    text
}

fn section(cause: Cause) -> String {
    let texts = cause.texts();
    let rules: Vec<&Rule> = rules::all().filter(|rule| rule.cause == cause).collect();
    let mut text = format!("\n## {}\n\n**{}.** {}\n", cause.word(), texts.title, texts.meaning);
    if !rules.is_empty() {
        text.push_str("\nYou see, for example:\n\n```text\n");
        for rule in rules.iter().take(MAX_EXAMPLES) {
            text.push_str(rule.example);
            text.push('\n');
        }
        text.push_str("```\n");
    }
    let _ = write!(text, "\nWhat to do: {}\n", texts.suggestion);
    for special in rules.iter().filter(|rule| rule.advice.is_some()) {
        let first = special.example.lines().next().unwrap_or_default();
        let _ = write!(text, "\nWhere it says `{first}`: {}\n", special.advice.unwrap_or_default());
    }
    text
}
