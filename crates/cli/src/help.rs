//! `odh help`: a command's help, the whole command tree for programs, and man pages. All are generated from the
//! definition that also parses the command line (`arguments`).

mod codes;
pub mod columns;
#[cfg(test)]
mod reference;

use std::path::Path;

use clap::{Arg, ArgAction, Command};
use diagnosis::Cause;
use jobs::Class;
use serde_json::{Value, json};

use crate::arguments::{self, Help};
use crate::console::Console;
use crate::failure::Failure;
use crate::{advice, output, table};

/// Every exit code with its meaning; the numbers are those of `jobs::Class`.
pub const EXIT_CODES: [(u8, &str); 12] = [
    (0, "success; after waiting: the job succeeded"),
    (1, "any other error, for example an unreachable cluster"),
    (2, "invalid usage"),
    (3, "not found"),
    (4, "not allowed, or not supported by the cluster"),
    (5, "the job is invalid"),
    (6, "a quota is exceeded"),
    (7, "conflict: the name is taken, the object was changed meanwhile, or another program manages a field"),
    (8, "timeout: the job is still running"),
    (100, "the job failed"),
    (103, "the job was cancelled or deleted"),
    (130, "interrupted"),
];

/// `odh help [COMMAND…]`
pub fn run(console: &Console, asked: &Help) -> Result<u8, Failure> {
    if let Some((CAUSES, words)) = asked.command.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return console.data(&causes(words)?).map(|()| 0);
    }
    let is_for_programs = asked.output.shows_objects() || asked.man_pages.is_some();
    let mut root = match is_for_programs {
        true => built(),
        false => {
            let mut root = columns::fitted(arguments::definition());
            root.build();
            root
        }
    };
    let names: Vec<String> = asked.command.clone();
    let mut command = &mut root;
    for name in &names {
        let known: Vec<String> = visible(command).map(|inner| inner.get_name().to_owned()).collect();
        command = command.find_subcommand_mut(name).ok_or_else(|| {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let hint = match jobs::manifest::nearest(name, &known) {
                Some(meant) => format!("did you mean {meant}?"),
                None => format!("available commands: {}", known.join(", ")),
            };
            Failure::usage(format!("unknown command {}", names.join(" ")), hint)
        })?;
    }
    if let Some(folder) = &asked.man_pages {
        let written = write_man_pages(folder, command)?;
        console.note(&format!("wrote {written} man pages to {}", folder.display()));
        return Ok(0);
    }
    let text = match asked.output.shows_objects() {
        true => output::text(&tree(command), asked.output)?,
        false => command.render_long_help().ansi().to_string(),
    };
    console.data(&text)?;
    Ok(0)
}

/// The word after `odh help` for the causes that a diagnosis can name.
const CAUSES: &str = "causes";

/// What causes mean and what to do about them: those that are named, or a list of all.
fn causes(named: &[String]) -> Result<String, Failure> {
    if named.is_empty() {
        let rows: Vec<Vec<String>> = Cause::ALL
            .iter()
            .map(|cause| vec![cause.word().to_owned(), cause.texts().title.to_owned()])
            .collect();
        return Ok(table::table(&["CAUSE", "MEANING"], &rows));
    }
    let mut texts = Vec::new();
    for name in named {
        let cause = Cause::ALL.iter().find(|cause| cause.word().eq_ignore_ascii_case(name));
        let Some(cause) = cause else {
            let known: Vec<&str> = Cause::ALL.iter().map(|cause| cause.word()).collect();
            let hint = match jobs::manifest::nearest(name, &known) {
                Some(meant) => format!("did you mean {meant}?"),
                None => "see all: odh help causes".to_owned(),
            };
            return Err(Failure::usage(format!("unknown cause {name}"), hint));
        };
        let said = cause.texts();
        texts.push(table::fields(&[
            ("Cause", cause.word().to_owned()),
            ("Title", said.title.to_owned()),
            ("Meaning", said.meaning.to_owned()),
            ("What to do", advice::with_flags(said.suggestion)),
        ]));
    }
    Ok(texts.join("\n"))
}

/// Returns the definition including what clap adds: `--help`, inherited options, full names.
pub fn built() -> Command {
    let mut command = arguments::definition();
    command.build();
    command
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|inner| {
        !inner.is_hide_set() && inner.get_name() != "help"
            || inner.get_name() == "help" && command.get_name() == "odh"
    })
}

/// Returns a command with all its subcommands.
pub fn tree(command: &Command) -> Value {
    let about = |text: Option<&clap::builder::StyledStr>| text.map(|text| text.to_string());
    let is_option = |argument: &&Arg| !argument.is_positional() && !argument.is_hide_set();
    let mut value = json!({
        "name": command.get_name(),
        "command": command.get_bin_name().unwrap_or(command.get_name()),
        "about": about(command.get_about()),
        "usage": command.clone().render_usage().to_string().trim_start_matches("Usage: ").to_owned(),
        "aliases": command.get_visible_aliases().collect::<Vec<_>>(),
        "notes": about(command.get_after_help()),
        "arguments": command.get_positionals().map(argument).collect::<Vec<_>>(),
        "options": command.get_arguments().filter(is_option).map(argument).collect::<Vec<_>>(),
        "commands": visible(command).map(tree).collect::<Vec<_>>(),
    });
    let own = command.get_bin_name().and_then(|name| codes::of(name.strip_prefix("odh ")?));
    if let Some(own) = own {
        value["exitCodes"] = explained(own);
    }
    if command.get_name() == "odh" {
        value["version"] = json!(env!("CARGO_PKG_VERSION"));
        let formats =
            output::formats().map(|(format, meaning)| json!({ "format": format, "meaning": meaning }));
        value["formats"] = Value::from(formats.collect::<Vec<_>>());
        value["exitCodes"] = explained(&EXIT_CODES.map(|(code, _)| code));
    }
    value
}

/// Exit codes with their meanings, for programs.
fn explained(codes: &[u8]) -> Value {
    let these = EXIT_CODES.iter().filter(|(code, _)| codes.contains(code));
    Value::from(these.map(|(code, meaning)| json!({ "code": code, "meaning": meaning })).collect::<Vec<_>>())
}

fn argument(argument: &Arg) -> Value {
    let takes_value = argument.get_action().takes_values();
    let names: Vec<String> =
        argument.get_value_names().unwrap_or_default().iter().map(|name| name.to_string()).collect();
    let values: Vec<String> = match takes_value {
        true => argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect(),
        false => Vec::new(),
    };
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let several = matches!(argument.get_action(), ArgAction::Append)
        || argument.get_num_args().is_some_and(|range| range.max_values() > 1);
    json!({
        "name": argument.get_long().map_or_else(|| names.join(" "), |long| format!("--{long}")),
        "short": argument.get_short().map(|short| format!("-{short}")),
        "value": if takes_value { Some(names.join(" ")) } else { None },
        "values": values,
        "default": if takes_value && !argument.is_hide_default_value_set() { Some(defaults.join(" ")).filter(|text| !text.is_empty()) } else { None },
        "required": argument.is_required_set(),
        "repeatable": several,
        "global": argument.is_global_set(),
        "heading": argument.get_help_heading(),
        "help": argument.get_help().map(|help| help.to_string()),
    })
}

/// Writes one page for each command that is not hidden; returns their number.
fn write_man_pages(folder: &Path, command: &Command) -> Result<usize, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Class::Error, "Output", format!("cannot write to {}: {error}", folder.display()))
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut written = 0;
    for (name, page) in man_pages(command) {
        std::fs::write(folder.join(format!("{name}.1")), page).map_err(failed)?;
        written += 1;
    }
    Ok(written)
}

/// Returns names and roff text of the pages of a command and all its subcommands.
pub fn man_pages(command: &Command) -> Vec<(String, Vec<u8>)> {
    let mut pages = Vec::new();
    let name = command.get_bin_name().unwrap_or(command.get_name()).replace(' ', "-");
    let titled = command.clone().display_name(name.clone());
    let mut page = Vec::new();
    // Writing to a vector cannot fail.
    if clap_mangen::Man::new(titled).render(&mut page).is_ok() {
        pages.push((name, page));
    }
    for inner in visible(command) {
        pages.extend(man_pages(inner));
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_can_be_looked_up_without_a_network() {
        for cause in Cause::ALL {
            let text = causes(&[cause.word().to_lowercase()]).unwrap();
            assert!(text.contains(cause.texts().meaning), "{text}");
        }
        assert!(causes(&[]).unwrap().contains("OutOfMemory"));
        let unknown = causes(&["OutOfMemry".to_owned()]).unwrap_err();
        assert_eq!(unknown.hints, ["did you mean OutOfMemory?"]);
    }

    #[test]
    fn exit_codes_are_those_of_the_classes() {
        use jobs::Class::*;
        let classes = [
            Error,
            Usage,
            NotFound,
            NotAllowed,
            Invalid,
            Quota,
            Conflict,
            StillRunning,
            JobFailed,
            Cancelled,
            Interrupted,
        ];
        let codes: Vec<u8> = std::iter::once(0).chain(classes.map(jobs::Class::exit_code)).collect();
        assert_eq!(codes, EXIT_CODES.map(|(code, _)| code));
    }

    #[test]
    fn every_command_that_does_something_lists_its_exit_codes() {
        fn check(value: &Value) {
            let (command, inner) = (&value["command"], value["commands"].as_array().unwrap());
            if inner.is_empty() {
                let own: Vec<u64> = value["exitCodes"]
                    .as_array()
                    .unwrap_or_else(|| panic!("help/codes.rs does not know {command}"))
                    .iter()
                    .map(|code| code["code"].as_u64().unwrap())
                    .collect();
                assert!(own.contains(&0) && own.contains(&2), "{command}: {own:?}");
            }
            inner.iter().for_each(check);
        }
        check(&tree(&built()));
    }

    #[test]
    fn every_command_and_option_explains_itself() {
        fn check(value: &Value, wrong: &mut Vec<String>) {
            let command = value["command"].as_str().unwrap_or_default();
            if value["about"].as_str().is_none_or(str::is_empty) {
                wrong.push(command.to_owned());
            }
            for list in ["arguments", "options"] {
                for argument in value[list].as_array().into_iter().flatten() {
                    if argument["help"].as_str().is_none_or(str::is_empty) {
                        wrong.push(format!("{command} {}", argument["name"]));
                    }
                }
            }
            value["commands"].as_array().into_iter().flatten().for_each(|inner| check(inner, wrong));
        }
        let mut wrong = Vec::new();
        check(&tree(&built()), &mut wrong);
        assert!(wrong.is_empty(), "without help: {wrong:?}");
    }

    #[test]
    fn every_command_has_a_man_page() {
        let pages = man_pages(&built());
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"odh") && names.contains(&"odh-training-logs"), "{names:?}");
        for (name, page) in &pages {
            let text = String::from_utf8_lossy(page);
            assert!(text.contains(".SH SYNOPSIS") && text.contains(".TH"), "{name}: {text}");
        }
    }
}
