//! What somebody meant who typed a command line that `odh` does not have: words of other tools, and options of a
//! neighbouring command. Pure; clap finds the mistakes and prints the tips.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Words of kubectl, argo, arena, docker and Slurm, with what `odh` has instead.
const WORDS: [(&[&str], &str); 8] = [
    (
        &["run", "submit", "start", "launch"],
        "odh training create NAME --workers 4 --image IMAGE --wait -- COMMAND runs a command, and odh local run FILE a manifest",
    ),
    (
        &["status", "info", "show", "inspect"],
        "odh training describe NAME shows a job's state, and odh training explain NAME why it is in it",
    ),
    (&["ps", "queue", "jobs", "history"], "odh training list shows the jobs"),
    (&["stop", "kill", "terminate", "abort"], "odh training cancel NAME stops a job and keeps its logs"),
    (&["remove", "prune", "clean"], "odh training delete NAME, or --older-than 7d, removes jobs"),
    (&["rerun", "resubmit", "restart"], "odh training retry NAME runs a job again"),
    (&["attach", "follow", "tail"], "odh training logs NAME --follow shows the output while it is printed"),
    (&["watch", "monitor"], "odh training list --watch shows changes, and odh training top who uses what"),
];

/// Options that another command has.
const OPTIONS: [(&str, &str, &str); 5] = [
    (
        "retry",
        "--set",
        "odh training clone NAME --set FIELD=VALUE runs a changed copy; retry changes nothing",
    ),
    (
        "retry",
        "--memory",
        "odh training clone NAME --set worker.memory=16Gi runs a changed copy; retry changes nothing",
    ),
    ("wait", "--for", "wait waits for the end; odh training get NAME --watch shows each state on the way"),
    ("logs", "--timeout", "odh training wait NAME --timeout 10m waits for a limited time"),
    ("list", "--limit", "odh training list --since 1d shows the newest jobs"),
];

/// Options of kubectl that no command has.
const ELSEWHERE: [(&str, &str); 2] = [
    ("--server", "--kubeconfig FILE or --context NAME chooses the cluster"),
    ("--token", "--kubeconfig FILE names a file that has the token"),
];

/// Adds what was probably meant, and takes clap's guesses away where they mislead.
pub fn guided(mut error: clap::Error, raw: &[OsString]) -> clap::Error {
    // Nobody who mistypes an option means it as a value.
    if error.kind() == ErrorKind::UnknownArgument {
        error.remove(ContextKind::Suggested);
    }
    if let Some(tip) = tip(&error, raw) {
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedValue);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// What was probably meant, if it is known.
pub fn tip(error: &clap::Error, raw: &[OsString]) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let has = |word: &str| raw.iter().take_while(|given| *given != "--").any(|given| given == word);
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = text(ContextKind::InvalidSubcommand)?;
            WORDS.iter().find(|(words, _)| words.contains(&word)).map(|(_, tip)| (*tip).to_owned())
        }
        ErrorKind::UnknownArgument => {
            let option = text(ContextKind::InvalidArg)?.split('=').next()?;
            let known = OPTIONS.iter().find(|(command, name, _)| *name == option && has(command));
            let elsewhere = || ELSEWHERE.iter().find(|(name, _)| *name == option && has("training"));
            let tip = known.map(|(_, _, tip)| tip).or_else(|| elsewhere().map(|(_, tip)| tip));
            tip.map(|tip| (*tip).to_owned())
        }
        ErrorKind::InvalidValue => {
            let is_kind = text(ContextKind::InvalidArg)? == "[KIND]" && (has("list") || has("ls"));
            let value = text(ContextKind::InvalidValue).filter(|value| is_kind && !value.is_empty())?;
            Some(format!("for one job: odh training get {value}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments;

    fn shown(line: &str) -> String {
        let raw: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        guided(arguments::parse(&raw).unwrap_err(), &raw).render().to_string()
    }

    #[test]
    fn words_of_other_tools_lead_to_ours() {
        for (line, tip) in [
            ("odh training status pi", "tip: odh training describe NAME"),
            ("odh training ps", "tip: odh training list"),
            ("odh training kill pi", "tip: odh training cancel NAME"),
            ("odh training run x", "tip: odh training create NAME"),
            ("odh run job.yaml", "odh local run FILE"),
            (
                "odh training retry pi --set worker.memory=1Gi",
                "tip: odh training clone NAME --set FIELD=VALUE",
            ),
            ("odh training wait pi --for=running", "tip: wait waits for the end"),
            ("odh training list --server x", "tip: --kubeconfig FILE or --context NAME chooses the cluster"),
            ("odh training logs pi --token=abc", "tip: --kubeconfig FILE names a file"),
            ("odh training list pi", "tip: for one job: odh training get pi"),
            ("odh training create pi --worker 2", "tip: a similar argument exists: '--workers'"),
            ("odh training dekete pi", "tip: a similar subcommand exists: 'delete'"),
        ] {
            let text = shown(line);
            assert!(text.contains(tip), "{line}: {text}");
            assert!(
                !text.contains("as a value, use '--") && text.matches("tip:").count() == 1,
                "{line}: {text}"
            );
        }
    }

    #[test]
    fn no_word_that_is_a_command_is_taken_for_another_tools() {
        let root = arguments::definition();
        let training = root.find_subcommand("training").unwrap();
        for word in WORDS.iter().flat_map(|(words, _)| *words) {
            assert!(training.find_subcommand(word).is_none(), "{word}");
        }
        for (command, option, _) in OPTIONS {
            let arguments = training.find_subcommand(command).unwrap().get_arguments();
            let mut long = arguments.filter_map(clap::Arg::get_long);
            assert!(!long.any(|name| format!("--{name}") == option), "{command} {option}");
        }
        let commands = training.get_subcommands().chain([&root, training]);
        let mut long = commands.flat_map(clap::Command::get_arguments).filter_map(clap::Arg::get_long);
        assert!(!long.any(|name| ELSEWHERE.iter().any(|(option, _)| format!("--{name}") == *option)));
    }
}
