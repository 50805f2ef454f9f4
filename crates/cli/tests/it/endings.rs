//! How every command ends, for people and for programs: `tests/endings.txt` has a row for each exit code of each verb.
//!
//! Every row is run without a terminal. Its exit code, the reason of its error and the shape of its data are as the row
//! says; and whatever the command, data goes to stdout and messages to stderr, as docs/reference/cli.md promises. What
//! the messages say, also on a terminal, is shown by the transcripts.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::golden::stage::{CAST, Stage};
use crate::golden::{observe, words};
use crate::odh::{Home, Said};

/// The commands that run at the same time.
const AT_ONCE: usize = 4;
/// The code of what exists already, and of an interrupted command.
const EXISTS: i32 = 7;
const INTERRUPTED: i32 = 130;

/// What no row shows, and why: the command, the exit code, the reason.
const ELSEWHERE: &[(&str, u64, &str)] = &[
    (
        "training cp",
        0,
        "files are copied from real pods in the guide to one's own program, which a story types",
    ),
    ("training runtimes", 0, "this API server has no TrainJobs; a story lists runtimes"),
    ("training runtimes", 4, "the same"),
    (
        "training wait",
        5,
        "a refusal of the API server counts after minutes; unit tests of jobs::progress let them pass",
    ),
    ("training port-forward", 0, "it runs until it is interrupted, and a pod is needed that listens"),
];
/// Commands that other tests run with real processes; only their answers to invalid usage have rows.
const REAL: [&str; 9] = [
    "local ",
    "completion",
    "version",
    "help",
    "training usage",
    "training audit",
    "training capacity",
    "training advice",
    "training notifications",
];

/// A row of the table.
struct Row<'t> {
    line: usize,
    verb: &'t str,
    code: i32,
    reason: &'t str,
    data: &'t str,
    /// Commands that prepare this one.
    given: Vec<&'t str>,
    arguments: &'t str,
    /// What happens at the first output.
    event: Option<&'t str>,
}

/// A shape of data without a kind: its name, and the keys that it may have.
type Shapes<'t> = Vec<(&'t str, Vec<&'t str>)>;

fn table() -> (Vec<Row<'static>>, Shapes<'static>) {
    let (mut rows, mut shapes) = (Vec::new(), Shapes::new());
    let (mut verb, mut given) = ("", Vec::new());
    for (text, line) in include_str!("../endings.txt").lines().zip(1..) {
        if let Some(shape) = text.strip_prefix("= ") {
            let mut words = shape.split_whitespace();
            shapes.push((words.next().unwrap(), words.collect()));
        } else if let Some(command) = text.strip_prefix("+ ") {
            given.push(command);
        } else if text.starts_with(' ') {
            let (row, event) = text.split_once(" @ ").map_or((text, None), |(row, event)| (row, Some(event)));
            let mut rest = row;
            let mut cell = || {
                let (cell, after) = rest.trim_start().split_once(' ').unwrap_or((rest.trim_start(), ""));
                rest = after;
                cell
            };
            let (code, reason, data) = (cell().parse().unwrap(), cell(), cell());
            let given = std::mem::take(&mut given);
            rows.push(Row { line, verb, code, reason, data, given, arguments: rest.trim(), event });
        } else if !text.is_empty() && !text.starts_with('#') {
            verb = text;
        }
    }
    (rows, shapes)
}

#[test]
fn every_command_ends_as_its_row_says() {
    let stage = Stage::set();
    stage.home().file("settings.yaml", &format!("namespace: {CAST}\n"));
    let (rows, shapes) = table();
    let commands = commands();
    let takes_json = |verb: &str| commands.iter().any(|command| command.words == verb && command.json);
    for given in rows.iter().flat_map(|row| &row.given).filter(|given| !given.contains("NAME")) {
        prepare(&stage, given, "");
    }
    let next = AtomicUsize::new(0);
    let check = || -> Vec<String> {
        let mut wrong = Vec::new();
        while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
            let people = run(&stage, row, "");
            wrong.extend(for_people(row, &people).err().map(|why| report(row, "", &why, &people)));
            if takes_json(row.verb) {
                let programs = run(&stage, row, " -o json");
                let why = for_programs(row, &shapes, &programs).err();
                wrong.extend(why.map(|why| report(row, " -o json", &why, &programs)));
            } else if (row.reason, row.data) != ("-", "-") {
                wrong.push(format!("endings.txt:{}: {} does not take -o json", row.line, row.verb));
            }
        }
        wrong
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(check)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} commands end otherwise:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_documented_exit_code_has_a_row_and_every_row_is_documented() {
    let (rows, _) = table();
    let documented: BTreeSet<(String, u64)> = commands()
        .iter()
        .flat_map(|command| command.codes.iter().map(|code| (command.words.clone(), *code)))
        .filter(|(words, code)| *code == 2 || !REAL.iter().any(|real| words.starts_with(real)))
        .filter(|(words, code)| !ELSEWHERE.iter().any(|(other, known, _)| other == words && known == code))
        .collect();
    let shown = rows
        .iter()
        .map(|row| (row.verb.to_owned(), u64::try_from(row.code).unwrap()))
        .collect::<BTreeSet<_>>();
    let difference: Vec<_> = documented.symmetric_difference(&shown).collect();
    assert!(difference.is_empty(), "in one of help/codes.rs and endings.txt only: {difference:#?}");
}

#[test]
fn every_exit_code_in_the_transcripts_is_documented() {
    let commands = commands();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/cluster");
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let transcript = std::fs::read_to_string(&path).unwrap();
        let mut line = "";
        for next in transcript.lines() {
            if next.starts_with("$ odh ") || next.starts_with("% odh ") {
                line = next;
            } else if let Some(code) = next.strip_prefix("[exit ").and_then(|rest| rest.strip_suffix(']')) {
                let words = &line["$ odh ".len()..];
                let is = |command: &&Command| words.starts_with(&format!("{} ", command.words));
                // A group of commands has no codes of its own; `exec` passes on those of its command.
                let Some(command) = commands.iter().find(is).filter(|found| found.words != "training exec")
                else {
                    continue;
                };
                let code: u64 = code.parse().unwrap();
                assert!(
                    command.codes.contains(&code),
                    "{}: {line}: {code} is not in help/codes.rs",
                    path.display()
                );
            }
        }
    }
}

/// A command that does something.
struct Command {
    words: String,
    codes: Vec<u64>,
    /// Whether it takes `-o json`.
    json: bool,
}

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

/// Runs a row's command, with more words before those of another program.
fn run(stage: &Stage, row: &Row<'_>, more: &str) -> Said {
    let name = format!("row-{}-{}", row.line, if more.is_empty() { "people" } else { "programs" });
    row.given.iter().for_each(|given| prepare(stage, given, &name));
    let line = match row.arguments.split_once("-- ") {
        Some((ours, theirs)) if ours.is_empty() || ours.ends_with(' ') => {
            format!("{} {ours}{} -- {theirs}", row.verb, more.trim())
        }
        _ => format!("{} {}{more}", row.verb, row.arguments),
    };
    let event = row.event.map(|event| match event {
        "interrupt" => event.to_owned(),
        what => format!("{what} mpijob {name}"),
    });
    start(stage, &line, &name, event.as_deref())
}

/// Runs a command that prepares others; what it creates may already exist.
fn prepare(stage: &Stage, line: &str, name: &str) {
    let said = start(stage, line, name, None);
    assert!(said.code == 0 || said.code == EXISTS, "{line}: exit code {}: {}", said.code, said.err);
}

fn start(stage: &Stage, line: &str, name: &str, event: Option<&str>) -> Said {
    let mut command = stage.command(&words(&line.replace("NAME", name)));
    command.stdin(Stdio::null()).env("ODH_CONFIG", stage.home().path().join("settings.yaml"));
    observe(&mut command, |pid| stage.meanwhile(event, pid))
}

fn report(row: &Row<'_>, more: &str, why: &str, said: &Said) -> String {
    let Row { line, verb, arguments, .. } = row;
    format!(
        "endings.txt:{line}: {verb} {arguments}{more}: {why}\nstdout:\n{}\nstderr:\n{}\n",
        said.out, said.err
    )
}

fn ensure(holds: bool, why: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why.into()) }
}

/// Checks what holds with and without `-o json`.
fn in_every_format(row: &Row<'_>, said: &Said) -> Result<(), String> {
    ensure(said.code == row.code, format!("exit code {}, not {}", said.code, row.code))?;
    ensure(!said.out.contains('\u{1b}') && !said.err.contains('\u{1b}'), "escapes without a terminal")
}

fn for_people(row: &Row<'_>, said: &Said) -> Result<(), String> {
    in_every_format(row, said)?;
    let is_error = |text: &str| text.lines().any(|line| line.to_lowercase().starts_with("error: "));
    ensure(!is_error(&said.out), "an error on stdout")?;
    // Who interrupts a command knows why it ends.
    let as_expected = row.code == INTERRUPTED || is_error(&said.err) == (row.code != 0);
    ensure(as_expected, "an error on stderr at failure, and only then")
}

fn for_programs(row: &Row<'_>, shapes: &Shapes<'_>, said: &Said) -> Result<(), String> {
    in_every_format(row, said)?;
    let documents = serde_json::Deserializer::from_str(&said.out).into_iter::<Value>();
    let documents =
        documents.collect::<Result<Vec<_>, _>>().map_err(|error| format!("stdout is not JSON: {error}"))?;
    let data =
        documents.iter().map(|document| shape(document, shapes)).collect::<Result<BTreeSet<_>, _>>()?;
    let data = if data.is_empty() { "-".to_owned() } else { data.into_iter().collect::<Vec<_>>().join("+") };
    ensure(data == row.data, format!("data {data}, not {}", row.data))?;
    let messages = said.err.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
    let messages = messages.map_err(|error| format!("stderr is not lines of JSON: {error}"))?;
    for error in messages.iter().filter_map(|message| message.get("error")) {
        is_an_error(error)?;
    }
    let last = messages.last().and_then(|message| message.get("error"));
    let reason = last.map_or("-", |error| error["reason"].as_str().unwrap());
    ensure(reason == row.reason, format!("reason {reason}, not {}", row.reason))?;
    ensure(last.is_none_or(|error| error["code"] == row.code), "the error has another code")
}

/// Returns the kind of an object of Kubernetes, or the name of the shape that it has.
fn shape(document: &Value, shapes: &Shapes<'_>) -> Result<String, String> {
    let keys = document.as_object().ok_or("data that is no object")?;
    let Some(kind) = document["kind"].as_str() else {
        let keys: BTreeSet<&str> = keys.keys().map(String::as_str).collect();
        let has = |shape: &&(&str, Vec<&str>)| keys == shape.1.iter().copied().collect();
        let found = shapes.iter().find(has).ok_or_else(|| format!("keys {keys:?}"))?;
        return Ok(found.0.to_owned());
    };
    ensure(
        document["apiVersion"].is_string() && document["metadata"].is_object(),
        "no object of Kubernetes",
    )?;
    let items = document["items"].as_array().into_iter().flatten();
    let whole = |item: &Value| item["kind"].is_string() && item["metadata"]["name"].is_string();
    ensure(items.clone().all(whole), "items without kind and name")?;
    ensure(kind == "List" || document["metadata"]["name"].is_string(), "an object without a name")?;
    Ok(kind.to_owned())
}

/// Checks the documented shape of an error.
fn is_an_error(error: &Value) -> Result<(), String> {
    let keys: BTreeSet<&str> =
        error.as_object().ok_or("an error that is no object")?.keys().map(String::as_str).collect();
    let always = BTreeSet::from(["code", "hint", "message", "reason"]);
    let known = keys == always || keys == &always | &BTreeSet::from(["faults"]);
    ensure(known, format!("an error has the keys {keys:?}"))?;
    let reason = error["reason"].as_str().unwrap_or_default();
    let camel = reason.starts_with(|first: char| first.is_ascii_uppercase())
        && reason.chars().all(char::is_alphanumeric);
    ensure(camel, format!("the reason {reason:?} is not one CamelCase word"))?;
    ensure(
        error["message"].as_str().is_some_and(|message| !message.is_empty()),
        "an error without a message",
    )?;
    ensure(error["hint"].is_string() || error["hint"].is_null(), "a hint that is no text")?;
    let fault = |fault: &Value| fault["message"].is_string() && fault["path"].is_string();
    ensure(error["faults"].as_array().into_iter().flatten().all(fault), "a fault without message and path")
}
