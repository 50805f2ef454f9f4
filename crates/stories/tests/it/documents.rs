//! A newcomer types the commands of the documents, in order, and they work.

use std::process::{Command, Stdio};

use stories::{Home, places};

/// Commands that the test runner has run already, or that would run these tests.
const DONE_ALREADY: [&str; 3] = ["cargo xtask setup", "cargo xtask demo", "cargo xtask test"];

#[test]
fn the_readme_is_right() {
    type_what_it_says("README.md");
}

#[test]
fn the_quick_start_is_right() {
    type_what_it_says("docs/quick-start.md");
}

#[test]
fn the_guide_for_ci_is_right() {
    type_what_it_says("docs/guides/ci.md");
}

#[test]
fn the_guide_to_ones_own_program_is_right() {
    type_what_it_says("docs/guides/your-own-program.md");
}

#[test]
fn the_guide_to_trainjobs_is_right() {
    type_what_it_says("docs/guides/trainjobs.md");
}

#[test]
fn the_guide_to_quotas_is_right() {
    type_what_it_says("docs/guides/quotas.md");
}

/// Runs every `sh` block of a document in one shell that stops at the first failure, in the repository's root. The document
/// starts a cluster, and ends it.
fn type_what_it_says(document: &str) {
    type_at_home(&Home::new(), document);
}

/// The same at a home that may have a cluster already.
pub fn type_at_home(home: &Home, document: &str) {
    let text = std::fs::read_to_string(places::repository(document)).expect("the document can be read");
    let commands = commands_of(&text);
    assert!(commands.len() > 3, "{document} has no commands to run");
    let mut script = String::from("set -e\n");
    for command in &commands {
        script.push_str(command);
        script.push('\n');
    }
    // The documents' paths are those of a checkout that was built in place; ours may have been built elsewhere.
    let programs = places::odh().parent().expect("odh stands in a folder").to_path_buf();
    let target = programs.parent().expect("a build has a target folder").display().to_string();
    let script = script.replace("$PWD/target", &target).replace("=target/", &format!("={target}/"));
    let kubectl = places::kubectl().parent().expect("kubectl stands in a folder").display().to_string();
    let path = format!("{kubectl}:{}", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("bash")
        .args(["-x", "-c", &script])
        .env("ODH_HOME", home.state())
        .env("HOME", home.path())
        .env("PATH", path)
        .env_remove("KUBECONFIG")
        .current_dir(places::repository(""))
        .stdin(Stdio::null())
        .output()
        .expect("a shell can be started");
    assert!(
        output.status.success(),
        "{document} ended with {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_ne!(home.odh(&["local", "status"]).code, 0, "{document} leaves its cluster running");
}

/// Returns the lines of the `sh` blocks: continued lines joined, commands that are done already left out.
fn commands_of(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut inside = false;
    let mut open = String::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
            continue;
        }
        if !inside {
            continue;
        }
        if let Some(more) = line.strip_suffix('\\') {
            open.push_str(more);
            continue;
        }
        let command = format!("{}{line}", std::mem::take(&mut open));
        if !DONE_ALREADY.iter().any(|done| command.starts_with(done)) {
            commands.push(command);
        }
    }
    commands
}

#[test]
fn what_a_newcomer_sees_is_right() {
    let text = std::fs::read_to_string(places::repository("docs/guides/by-help-alone.md"))
        .expect("the document can be read");
    let home = Home::new();
    let mut typed = 0;
    for shown in shown_commands(&text) {
        let words: Vec<&str> = shown.command.split_whitespace().skip(1).collect();
        let answer = home.odh(&words);
        let said = answer.stdout.clone() + &answer.stderr;
        let printed: Vec<String> = said.lines().map(without_what_varies).collect();
        for line in shown.lines.iter().map(|line| without_what_varies(line)).filter(|line| line != "…") {
            assert!(printed.contains(&line), "{}: no line {line:?} in\n{}", shown.command, said);
        }
        assert_eq!(answer.code, shown.code, "{}:\n{}", shown.command, said);
        typed += 1;
    }
    assert!(typed > 8, "the document has lost its commands");
}

/// A command of a `console` block, the shown part of its output, and its exit code.
struct Shown<'t> {
    command: &'t str,
    lines: Vec<&'t str>,
    code: i32,
}

fn shown_commands(text: &str) -> Vec<Shown<'_>> {
    let mut found: Vec<Shown<'_>> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let (true, Some(command)) = (inside, line.strip_prefix("$ ")) {
            found.push(Shown { command, lines: Vec::new(), code: 0 });
        } else if let (true, Some(shown)) = (inside, found.last_mut()) {
            match line.strip_prefix("[exit ").and_then(|rest| rest.strip_suffix(']')) {
                Some(code) => shown.code = code.parse().expect("an exit code is a number"),
                None => shown.lines.push(line),
            }
        }
    }
    found
}

/// Normalizes a line: single blanks, numbers and the ends of generated names replaced.
fn without_what_varies(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let generated = word.find("launcher-").map(|at| at + "launcher-".len());
        let word = generated.map_or(word, |end| &word[..end]);
        let mut kept = String::new();
        for letter in word.chars() {
            match letter.is_ascii_digit() {
                true if kept.ends_with('#') => {}
                true => kept.push('#'),
                false => kept.push(letter),
            }
        }
        kept
    });
    words.collect::<Vec<_>>().join(" ")
}
