//! `diagnose`: applies the operator's rules to a saved output; contacts no server.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use diagnosis::{
    Collector, Confidence, Diagnosis, Ending, Facts, Output as Printed, Warning, diagnose, warnings,
};
use serde_json::{Value, json};

use super::drafts::unreadable;
use crate::arguments::{Diagnose, Output};
use crate::console::{ACCENT, BAD, CAREFUL, Console, FAINT, GOOD, styled};
use crate::failure::Failure;
use crate::{advice, object, table};

/// The size of a read, in bytes.
const CHUNK_BYTES: usize = 256 * 1024;

/// `odh training diagnose FILE`
pub fn run(console: &Console, asked: &Diagnose) -> Result<u8, Failure> {
    let printed = read(&asked.file)?;
    let found = diagnose(&printed, ending(asked), &Facts::default());
    let text = match asked.output {
        Output::Json | Output::Yaml | Output::Template(_) => {
            object::text(&value(found.as_ref()), asked.output)?
        }
        Output::Name => found.as_ref().map_or("null", |diagnosis| diagnosis.cause.word()).to_owned() + "\n",
        Output::Table | Output::Wide => text(found.as_ref()),
    };
    if printed.skipped_bytes > 0 {
        let mebibytes = printed.skipped_bytes.div_ceil(1 << 20);
        console.note(&format!("skipped {mebibytes} MiB between the first and the last lines"));
    }
    if found.is_none() && asked.exit_code == Some(0) {
        for Warning { message, line } in warnings(&printed) {
            console.note(&format!("the run succeeded, but: {message} (line {line})"));
        }
    }
    console.data(&text)?;
    Ok(0)
}

fn ending(asked: &Diagnose) -> Ending {
    match asked.exit_code {
        Some(code) => Ending::Exited(code),
        None if asked.still_running => {
            Ending::Running { silent_seconds: asked.silent_for.map_or(0, |silence| silence.as_secs()) }
        }
        None => Ending::Unknown,
    }
}

/// Reads head and tail of a file, or of standard input.
fn read(file: &Path) -> Result<Printed, Failure> {
    let name = file.display().to_string();
    let failed = |source: io::Error| unreadable(name.clone(), &source);
    if file.as_os_str() == "-" {
        return collect(io::stdin().lock()).map_err(failed);
    }
    collect(File::open(file).map_err(failed)?).map_err(failed)
}

fn collect(mut from: impl Read) -> io::Result<Printed> {
    let mut collector = Collector::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok(collector.finish()),
            Ok(count) => collector.push(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The object for programs; its fields are always the same.
fn value(found: Option<&Diagnosis>) -> Value {
    match found {
        Some(diagnosis) => json!(diagnosis),
        None => json!({
            "cause": null,
            "confidence": null,
            "evidence": [],
            "worker": null,
            "message": NOTHING,
            "suggestion": null,
            "link": null,
        }),
    }
}

const NOTHING: &str = "No failure found in this output";

/// The text for people.
fn text(found: Option<&Diagnosis>) -> String {
    let Some(diagnosis) = found else { return format!("{}\n", styled(GOOD, NOTHING)) };
    let (confidence, style) = match diagnosis.confidence {
        Confidence::High => ("high", BAD),
        Confidence::Medium => ("medium", CAREFUL),
        Confidence::Low => ("low", CAREFUL),
    };
    let cause = format!("{} ({confidence} confidence)", styled(style, diagnosis.cause.word()));
    let mut fields = vec![("Cause", cause), ("Message", diagnosis.message.clone())];
    fields.extend(diagnosis.worker.iter().map(|worker| ("Worker", worker.clone())));
    fields.push(("What to do", styled(ACCENT, &advice::with_flags(&diagnosis.suggestion))));
    fields.push(("More", diagnosis.link.clone()));
    let mut text = table::fields(&fields);
    text.push_str("\nEvidence\n");
    for evidence in &diagnosis.evidence {
        let place = evidence.line.map_or_else(String::new, |line| line.to_string());
        text.push_str(&format!("  {} {}\n", styled(FAINT, &format!("{place:>6}")), evidence.text));
    }
    text
}
