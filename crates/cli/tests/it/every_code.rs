//! Checks that every command has a transcript for every exit code that it can end with, for people and for programs,
//! on a terminal and without one, or that this file explains why there is none.
//!
//! The commands and their exit codes are read from the program itself (`odh help -o json`), so that a new verb or exit
//! code without a transcript fails here.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::odh::Home;

/// A command and how it ended, as shown in a transcript.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shown {
    /// Its words, without `odh`.
    command: String,
    code: u64,
    json: bool,
    terminal: bool,
}

/// A command of the tree.
struct Command {
    words: String,
    codes: Vec<u64>,
    /// Whether it takes `-o json`.
    json: bool,
}

/// What no transcript shows, and why: the command (or a prefix of it), the exit code, the reason.
const ELSEWHERE: &[(&str, u64, &str)] = &[(
    "training list",
    3,
    "a cluster that does not know a kind: `refusals_say_what_a_person_can_use` of `jobs`; here each is known",
)];
/// Commands that other tests run with real processes; the transcripts show only their answers to invalid usage.
const REAL: &[(&str, &str)] = &[
    ("local ", "they start and end processes: `running.rs`, `cluster.rs` and the stories"),
    ("completion", "its scripts are tried in the shells: `shells.rs`"),
    ("version", "says one number"),
    ("help", "prints what docs/reference/cli.md is compared with"),
];

#[test]
fn every_verb_has_a_transcript_of_every_exit_code() {
    let commands = commands();
    let shown = shown(&commands);
    let mut missing = Vec::new();
    for command in &commands {
        let real = REAL.iter().any(|(beginning, _)| command.words.starts_with(beginning));
        for code in command.codes.iter().filter(|code| !real || **code == 2) {
            let elsewhere =
                ELSEWHERE.iter().any(|(words, known, _)| *words == command.words && known == code);
            for (json, terminal) in [(false, false), (false, true), (true, false), (true, true)] {
                let wanted = !elsewhere && (command.json || !json) && (!real || !json && !terminal);
                let one = Shown { command: command.words.clone(), code: *code, json, terminal };
                if wanted && !shown.contains(&one) {
                    missing.push(one);
                }
            }
        }
    }
    let list: String = missing.iter().map(|one| format!("  {one:?}\n")).collect();
    assert!(missing.is_empty(), "{} endings are in no transcript:\n{list}", missing.len());
}

#[test]
fn every_exit_code_in_the_transcripts_is_documented() {
    let commands = commands();
    // `exec` passes on the exit codes of its command.
    let passed_on = |shown: &Shown| shown.command == "training exec";
    let codes =
        |shown: &Shown| commands.iter().find(|command| command.words == shown.command).unwrap().codes.clone();
    let unknown: Vec<Shown> = shown(&commands)
        .into_iter()
        .filter(|one| !passed_on(one) && !codes(one).contains(&one.code))
        .collect();
    assert!(unknown.is_empty(), "help/codes.rs does not know that these can end so: {unknown:#?}");
}

/// The commands that do something.
fn commands() -> Vec<Command> {
    fn collect(value: &Value, found: &mut Vec<Command>) {
        let inner = value["commands"].as_array().unwrap();
        inner.iter().for_each(|inner| collect(inner, found));
        if inner.is_empty() {
            let whole = value["command"].as_str().unwrap();
            let codes = value["exitCodes"].as_array().unwrap();
            let options = value["options"].as_array().unwrap();
            found.push(Command {
                words: whole.strip_prefix("odh ").unwrap().to_owned(),
                codes: codes.iter().map(|code| code["code"].as_u64().unwrap()).collect(),
                json: options.iter().any(|option| option["name"] == "--output"),
            });
        }
    }
    let mut found = Vec::new();
    collect(&Home::new().odh(&["help", "-o", "json"]).ends(0).json(), &mut found);
    assert!(found.len() > 30, "{}", found.len());
    found
}

/// What the transcripts show.
fn shown(commands: &[Command]) -> BTreeSet<Shown> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut shown = BTreeSet::new();
    for folder in [folder.clone(), folder.join("cluster")] {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_file() {
                read(&std::fs::read_to_string(path).unwrap(), commands, &mut shown);
            }
        }
    }
    shown
}

fn read(transcript: &str, commands: &[Command], shown: &mut BTreeSet<Shown>) {
    let mut line = "";
    for next in transcript.lines() {
        if next.starts_with("$ odh ") || next.starts_with("% odh ") {
            line = next;
        } else if let Some(code) = next.strip_prefix("[exit ").and_then(|rest| rest.strip_suffix(']')) {
            // Words after two dashes belong to another program.
            let words = line["$ odh ".len()..].split(" -- ").next().unwrap();
            let is = |command: &&Command| {
                words == command.words || words.starts_with(&format!("{} ", command.words))
            };
            let Some(command) = commands.iter().find(is) else { continue };
            shown.insert(Shown {
                command: command.words.clone(),
                code: code.parse().unwrap(),
                json: words.contains(" -o json") && !words.contains(" -o jsonpath"),
                terminal: line.starts_with('%'),
            });
        }
    }
}
