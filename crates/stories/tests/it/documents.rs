//! A newcomer types what the documents say, in order, and it works.

use std::process::{Command, Stdio};

use stories::{Home, places};

/// Commands that the test runner has done already, or that would run these tests.
const DONE_ALREADY: [&str; 3] = ["cargo xtask setup", "cargo xtask demo", "cargo xtask test"];

#[test]
fn the_readme_is_right() {
    type_what_it_says("README.md");
}

#[test]
fn the_quick_start_is_right() {
    type_what_it_says("docs/quick-start.md");
}

/// Runs every `sh` block of a document in one shell that stops at the first failure, in the repository's root.
fn type_what_it_says(document: &str) {
    let text = std::fs::read_to_string(places::repository(document)).expect("the document can be read");
    let commands = commands_of(&text);
    assert!(commands.len() > 3, "{document} has no commands to run");
    let home = Home::new();
    let mut script = String::from("set -e\n");
    for command in &commands {
        script.push_str(command);
        script.push('\n');
    }
    // The document's paths are those of a checkout that was built in place; ours may have been built elsewhere.
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

/// The lines of the `sh` blocks, with lines that end in a backslash joined, without those that are done already.
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
