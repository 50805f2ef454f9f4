//! Golden transcripts: `tests/transcripts/*.txt` hold commands and their complete output, without any cluster.
//!
//! A line that starts with `$ odh` is a command, followed by its stdout, its stderr with `! ` before each line, and
//! `[exit N]`. `UPDATE=1` rewrites them; read the diff.

use std::fmt::Write;
use std::path::Path;

use crate::odh::Home;

/// Files that the transcripts use.
const FILES: [(&str, &str); 4] = [
    ("good.yaml", include_str!("../manifests/good.yaml")),
    ("faults.yaml", include_str!("../manifests/faults.yaml")),
    ("broken.yaml", include_str!("../manifests/broken.yaml")),
    ("other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n"),
];

#[test]
fn commands_match_their_transcripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let expected = std::fs::read_to_string(&path).unwrap();
        let actual = replay(&expected);
        seen += 1;
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &actual).unwrap();
        } else if actual != expected {
            wrong.push(format!("{}:\n{actual}", path.display()));
        }
    }
    assert!(seen > 0, "no transcripts");
    assert!(wrong.is_empty(), "these differ (UPDATE=1 rewrites):\n{}", wrong.join("\n"));
}

fn replay(transcript: &str) -> String {
    let home = Home::new();
    for (name, text) in FILES {
        home.file(name, text);
    }
    let mut text = String::new();
    for line in transcript.lines().filter(|line| line.starts_with("$ odh")) {
        let words = line["$ odh".len()..].split_whitespace().collect::<Vec<_>>();
        let said = home.odh(&words);
        writeln!(text, "{line}\n{}", said.out.trim_end_matches('\n')).unwrap();
        for line in said.err.lines() {
            writeln!(text, "! {line}").unwrap();
        }
        writeln!(text, "[exit {}]\n", said.code).unwrap();
    }
    let place = home.path().display().to_string();
    text.replace(&place, "HOME").replace("\n\n!", "\n!").replace("\n\n[exit", "\n[exit")
}
