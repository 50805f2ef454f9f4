//! `create`: reports all faults first, then creates the jobs, then, if requested, follows their progress to the end.

mod flags;
mod programs;
mod shell;

use std::collections::BTreeMap;

use jobs::preflight::PATIENCE;
use jobs::submit::{self, Draft};
use jobs::{Class, Error};
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::drafts::{check_namespaces, draft_from_files};
use super::{Follow, ending, follow_to_end};
use crate::arguments::{Create, DryRun, Ending, Global, Output};
use crate::connect::{Connection, connect};
use crate::console::{Console, FAINT, styled};
use crate::failure::Failure;
use crate::interrupt::Interruption;
use crate::object;
use flags::{Surroundings, from_flags, surroundings};
pub use programs::warn_of_programs;
use shell::warn_of_shell_syntax;

/// `odh training create`
pub async fn run(console: &Console, global: &Global, create: &Create) -> Result<u8, Failure> {
    let has_file = !create.file.is_empty();
    if let Some(line) = create.flags.command.as_deref().filter(|_| !has_file) {
        warn_of_shell_syntax(console, line);
    }
    let mut drafts = if !has_file {
        vec![from_flags(create, &Surroundings::of_flags(create))?]
    } else {
        draft_from_files(&create.file)?
    };
    check_namespaces(&drafts, global.namespace.as_deref())?;
    if create.ending.follow && drafts.len() > 1 {
        return Err(Failure::usage(
            format!("--follow shows the output of one job, but there are {}", drafts.len()),
            "use --wait, and odh training logs for the output of each",
        ));
    }
    if create.dry_run == Some(DryRun::Client) {
        for advice in drafts.iter().flat_map(submit::advice) {
            console.warn(&advice);
        }
        print(
            console,
            create.output,
            drafts.iter().map(|draft| draft.object.clone()).collect(),
            " created (dry run)",
        )?;
        return Ok(0);
    }
    for surprise in drafts.iter().flat_map(submit::surprises) {
        // Nobody who typed flags knows the path.
        let path = surprise.split_once(": ").filter(|_| !has_file);
        console.warn(path.map_or(surprise.as_str(), |(_, told)| told));
    }
    let connection = connect(console, global).await?;
    if let Some(state) = &connection.local {
        warn_of_programs(console, state, &drafts);
    }
    if !has_file {
        let around = surroundings(console, &connection, create).await?;
        if around != Surroundings::of_flags(create) {
            drafts = vec![from_flags(create, &around)?];
        }
    }
    let dry_run = match create.dry_run {
        Some(_) => submit::DryRun::Server,
        None => submit::DryRun::No,
    };
    if !create.no_preflight {
        check_room(console, &connection, &drafts).await?;
    }
    let objects = match submit::create(&connection.client, &connection.namespace, &drafts, dry_run).await {
        Ok(objects) => objects,
        Err((error, before)) => return Err(partly(console, create, error, &before)),
    };
    let how = Created { output: create.output, ending: &create.ending, dry_run: create.dry_run.is_some() };
    self::created(console, &connection, &how, &objects).await
}

/// What to do with jobs that were just created.
pub struct Created<'a> {
    /// The format.
    pub output: Output,
    /// Whether to wait, and how.
    pub ending: &'a Ending,
    /// Whether the server only checked them.
    pub dry_run: bool,
}

/// Prints the jobs, and waits for them if asked.
pub async fn created(
    console: &Console,
    connection: &Connection,
    how: &Created<'_>,
    created: &[DynamicObject],
) -> Result<u8, Failure> {
    if !how.dry_run && (how.ending.wait || how.ending.follow) {
        return to_the_end(console, connection, how, created).await;
    }
    let what = if how.dry_run { " created (server dry run)" } else { " created" };
    print(console, how.output, created.iter().map(object::value).collect(), what)?;
    if let ([one], true) = (created, console.live && how.output == Output::Table && !how.dry_run) {
        let (kind, name) = (jobs::Kind::of(one).word(), one.name_any());
        let namespace = one.namespace().unwrap_or_else(|| connection.namespace.clone());
        let line = format!("follow it with: odh training logs {kind} {name} -n {namespace} -f");
        console.note(&styled(FAINT, &line));
    }
    Ok(0)
}

/// Checks what would block the jobs: refusals end the command, and what the jobs would wait for is printed.
async fn check_room(console: &Console, connection: &Connection, drafts: &[Draft]) -> Result<(), Failure> {
    let mut by_namespace: BTreeMap<&str, Vec<api::MPIJob>> = BTreeMap::new();
    // For other kinds, only their own operators know how many pods they create.
    for draft in drafts.iter().filter(|draft| draft.kind == jobs::Kind::MpiJob) {
        let namespace = draft.namespace().unwrap_or(&connection.namespace);
        by_namespace.entry(namespace).or_default().push(draft.job.clone());
    }
    for (namespace, jobs) in by_namespace {
        let found = jobs::preflight::preflight(&connection.client, namespace, &jobs, PATIENCE).await?;
        super::preflight::tell(console, &found);
    }
    Ok(())
}

fn print(
    console: &Console,
    output: Output,
    values: Vec<serde_json::Value>,
    what: &str,
) -> Result<(), Failure> {
    let names = values.iter().map(|value| format!("{}/{}", word(value), display_name(value)));
    let text = match output {
        Output::Json | Output::Yaml | Output::Template(_) => {
            object::text(&object::together(values, false), output)?
        }
        Output::Name => names.map(|name| name + "\n").collect(),
        Output::Table | Output::Wide => names.map(|name| format!("{name}{what}\n")).collect(),
    };
    console.data(&text)
}

/// `mpijob`, or the word of the object's kind.
fn word(value: &serde_json::Value) -> &'static str {
    let kind = value.get("kind").and_then(serde_json::Value::as_str);
    kind.and_then(jobs::Kind::named).unwrap_or_default().word()
}

fn display_name(value: &serde_json::Value) -> String {
    let text = |key: &str| value.pointer(key).and_then(serde_json::Value::as_str);
    match (text("/metadata/name"), text("/metadata/generateName")) {
        (Some(name), _) => name.to_owned(),
        (None, Some(prefix)) => format!("{prefix}…"),
        (None, None) => String::new(),
    }
}

/// Prints what was created before the failure.
fn partly(console: &Console, create: &Create, error: Error, before: &[DynamicObject]) -> Failure {
    if !before.is_empty() {
        let values = before.iter().map(object::value).collect();
        if let Err(failure) = print(console, create.output, values, " created") {
            return failure;
        }
    }
    error.into()
}

async fn to_the_end(
    console: &Console,
    connection: &Connection,
    how: &Created<'_>,
    created: &[DynamicObject],
) -> Result<u8, Failure> {
    // Listens before the first output, because the reader may press Ctrl-C at once.
    let mut interruption = Interruption::listen();
    if !how.output.shows_objects() {
        print(console, how.output, created.iter().map(object::value).collect(), " created")?;
    }
    let mut last = Ok(0);
    let mut objects = Vec::new();
    for job in created {
        let (name, namespace) =
            (job.name_any(), job.namespace().unwrap_or_else(|| connection.namespace.clone()));
        let again = format!(
            "the job keeps running; follow it again with: odh training logs {} {name} -n {namespace} -f",
            jobs::Kind::of(job).word()
        );
        let follow = Follow {
            client: &connection.client,
            kind: jobs::Kind::of(job),
            namespace: &namespace,
            name: &name,
            logs: how.ending.follow,
            timeout: how.ending.timeout,
            interrupted_hint: &again,
        };
        let ended = follow_to_end(console, &follow, &mut interruption).await;
        let seen = ended.as_ref().ok().and_then(|ended| ended.object.clone());
        objects.push(object::value(&seen.unwrap_or_else(|| job.clone())));
        let code = match ended {
            Ok(ended) => ending(console, &follow, &ended, how.ending.propagate_exit_code).await,
            // It existed a moment ago.
            Err(failure) if failure.class == Class::NotFound => {
                Err(Error::Deleted { kind: follow.kind, name: name.clone() }.into())
            }
            Err(failure) => Err(failure),
        };
        if last.is_ok() {
            last = code;
        }
    }
    if how.output.shows_objects() {
        console.data(&object::text(&object::together(objects, false), how.output)?)?;
    }
    last
}
