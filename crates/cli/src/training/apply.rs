//! `apply` and `diff`: what a manifest describes, created or changed, or only compared.

use jobs::Class;
use jobs::apply::{self, Manner, Outcome, Wanted};
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::drafts::{read_file, unfolded};
use crate::arguments::{Apply, Diff, Global, Output};
use crate::connect::{Connection, connect};
use crate::console::{BAD, Console, FAINT, GOOD, styled};
use crate::failure::Failure;
use crate::{object, output};

/// `odh training apply -f FILE`
pub async fn run(console: &Console, global: &Global, asked: &Apply) -> Result<u8, Failure> {
    let wanted = wanted(&asked.file)?;
    let connection = connect(console, global).await?;
    let manner = Manner { dry_run: asked.dry_run, force: asked.force_conflicts };
    let mut objects = Vec::new();
    for wanted in &wanted {
        let outcome = one(&connection, wanted, manner).await?;
        if let Some(warning) = without_effect(&outcome) {
            console.warn(&warning);
        }
        if !asked.output.shows_objects() {
            let name = name(&outcome.after);
            let text = match asked.output {
                Output::Name => name,
                _ => format!(
                    "{name} {}{}",
                    word(&outcome),
                    if asked.dry_run { " (server dry run)" } else { "" }
                ),
            };
            console.data(&(text + "\n"))?;
        }
        objects.push(object::value(&outcome.after));
    }
    if asked.output.shows_objects() {
        console.data(&object::text(&object::together(objects, false), asked.output)?)?;
    }
    Ok(0)
}

/// Says that a change of a job that has ended starts nothing.
fn without_effect(outcome: &Outcome) -> Option<String> {
    let before = outcome.before.as_ref().filter(|_| outcome.has_changed())?;
    let kind = before.types.as_ref().and_then(|types| jobs::Kind::named(&types.kind))?;
    let row = jobs::view::row(before);
    row.has_ended().then(|| {
        let (name, word) = (name(before), kind.word());
        let of = row.name;
        format!("{name} has ended, so the change has no effect on it; odh training retry {word}/{of} runs it again")
    })
}

fn word(outcome: &Outcome) -> &'static str {
    match (&outcome.before, outcome.has_changed()) {
        (None, _) => "created",
        (Some(_), true) => "changed",
        (Some(_), false) => "unchanged",
    }
}

/// `odh training diff -f FILE`
pub async fn diff(console: &Console, global: &Global, asked: &Diff) -> Result<u8, Failure> {
    let wanted = wanted(&asked.file)?;
    let connection = connect(console, global).await?;
    let (mut differs, mut refusal) = (false, None);
    for wanted in &wanted {
        let outcome = match one(&connection, wanted, Manner { dry_run: true, force: true }).await {
            // What the server refuses is a difference that the user wants to see, too.
            Err(failure) if failure.class == Class::Invalid => {
                refusal = refusal.or(Some(failure));
                apply::merged(&connection.client, &connection.namespace, wanted).await?
            }
            outcome => outcome?,
        };
        if !outcome.has_changed() {
            continue;
        }
        differs = true;
        let text = |object: &DynamicObject| output::text(&apply::comparable(object), Output::Yaml);
        let before = outcome.before.as_ref().map(text).transpose()?.unwrap_or_default();
        let name = name(&outcome.after);
        console.data(&format!(
            "{}\n{}",
            styled(FAINT, &format!("--- {name}")),
            unified(&before, &text(&outcome.after)?)
        ))?;
    }
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    if !differs {
        console.note("no differences");
    }
    Ok(u8::from(differs && asked.exit_code))
}

async fn one(connection: &Connection, wanted: &Wanted, manner: Manner) -> Result<Outcome, Failure> {
    let outcome = apply::apply(&connection.client, &connection.namespace, wanted, manner).await;
    outcome.map_err(|error| {
        let can_be_forced = error.reason() == jobs::FIELD_MANAGER_CONFLICT;
        let mut failure = Failure::from(error);
        if can_be_forced {
            let name = format!("{}/{}", wanted.kind.to_lowercase(), wanted.object.name_any());
            failure.message = format!("{name}: {}", failure.message);
            failure = failure.with_hint("--force-conflicts takes them over");
        }
        failure
    })
}

fn wanted(files: &[std::path::PathBuf]) -> Result<Vec<Wanted>, Failure> {
    let (mut wanted, mut faults) = (Vec::new(), Vec::new());
    for file in unfolded(files)? {
        let (bytes, name) = read_file(&file)?;
        match apply::read(&bytes, &name) {
            Ok(found) => wanted.extend(found),
            Err(jobs::Error::Invalid { faults: found }) => faults.extend(found),
            Err(error) => return Err(error.into()),
        }
    }
    if !faults.is_empty() {
        return Err(jobs::Error::Invalid { faults }.into());
    }
    // Jobs of one file may need what another file has.
    wanted.sort_by_key(|wanted: &Wanted| jobs::Kind::named(&wanted.kind).is_some());
    Ok(wanted)
}

/// `configmap/code`
fn name(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map(|types| types.kind.to_lowercase()).unwrap_or_default();
    format!("{kind}/{}", object.name_any())
}

/// The lines kept around a difference.
const CONTEXT: usize = 3;
/// The maximum number of lines compared; of longer texts, only the beginning is.
const MAX_LINES: usize = 4000;

/// The lines that differ, with those around them, as `diff -u` marks them. Pure.
fn unified(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) =
        (before.lines().take(MAX_LINES).collect(), after.lines().take(MAX_LINES).collect());
    let marked = marked(&old, &new);
    let near = |at: usize| {
        let from = at.saturating_sub(CONTEXT);
        marked[from..marked.len().min(at + CONTEXT + 1)].iter().any(|(mark, _)| *mark != ' ')
    };
    let mut text = String::new();
    let mut skipped = false;
    for (at, (mark, line)) in marked.iter().enumerate() {
        if !near(at) {
            skipped = true;
            continue;
        }
        if std::mem::take(&mut skipped) {
            text.push_str(&styled(FAINT, "…"));
            text.push('\n');
        }
        let line = format!("{mark}{line}");
        text.push_str(&match mark {
            '+' => styled(GOOD, &line),
            '-' => styled(BAD, &line),
            _ => line,
        });
        text.push('\n');
    }
    text
}

/// Each line with its mark: ` ` in both texts, `-` only in the old one, `+` only in the new one.
fn marked<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(char, &'t str)> {
    // The length of the longest common subsequence of the rest of both texts.
    let mut common = vec![vec![0_u16; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = match old[i] == new[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push((' ', old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            lines.push(('-', old[i]));
            i += 1;
        } else {
            lines.push(('+', new[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_shown_with_what_is_around_them() {
        let plain =
            |before: &str, after: &str| anstream::adapter::strip_str(&unified(before, after)).to_string();
        let lines: Vec<String> = (0..12).map(|number| format!("line {number}\n")).collect();
        let before = lines.concat();
        let after = before.replace("line 6\n", "line six\n");
        assert_eq!(
            plain(&before, &after),
            "…\n line 3\n line 4\n line 5\n-line 6\n+line six\n line 7\n line 8\n line 9\n"
        );
        assert_eq!(plain("", "a\n"), "+a\n");
        assert_eq!(plain("a\nb\n", "b\n"), "-a\n b\n");
        assert_eq!(plain(&before, &before), "");
    }

    #[test]
    fn a_change_of_a_job_that_has_ended_is_said_to_have_no_effect() {
        let job = |phase: &str, workers: i32| -> DynamicObject {
            let job = serde_json::json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
                "metadata": { "name": "pi" }, "status": { "phase": phase },
                "spec": { "mpiReplicaSpecs": { "Worker": { "replicas": workers } } } });
            serde_json::from_value(job).unwrap()
        };
        let warned =
            |before: Option<DynamicObject>, after: DynamicObject| without_effect(&Outcome { before, after });
        let ended = warned(Some(job("Succeeded", 1)), job("Succeeded", 2)).unwrap();
        assert!(
            ended.contains("mpijob/pi has ended") && ended.contains("odh training retry mpijob/pi"),
            "{ended}"
        );
        assert_eq!(warned(Some(job("Succeeded", 1)), job("Succeeded", 1)), None);
        assert_eq!(warned(Some(job("Running", 1)), job("Running", 2)), None);
        assert_eq!(warned(None, job("Pending", 2)), None);
    }
}
