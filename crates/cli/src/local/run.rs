//! `odh local run FILE`: starts the cluster if necessary, creates the job, follows it, and ends as the job ends;
//! Ctrl-C deletes the job.

use std::time::Duration;

use jobs::Class;
use jobs::delete::Manner;
use jobs::submit::{self, DryRun};

use super::home::Home;
use super::state::State;
use super::up::{self, Started};
use super::{adopt, remembered};
use crate::arguments::{Global, Run};
use crate::connect::{Connection, connect_local};
use crate::console::{Console, FAINT, styled};
use crate::failure::Failure;
use crate::interrupt::{Interruption, interrupted};
use crate::object;
use crate::training::{Follow, draft_from_files, ending, follow_to_end, warn_of_programs};

/// How long to wait for the deletion of an interrupted job.
const CLEAN_UP: Duration = Duration::from_secs(30);

/// `odh local run FILE`
pub async fn run(console: &Console, global: &Global, run: &Run) -> Result<u8, Failure> {
    // Faults first: an invalid job starts no cluster.
    let drafts = draft_from_files(std::slice::from_ref(&run.file))?;
    let [draft] = &drafts[..] else {
        return Err(Failure::usage(
            format!("{} contains {} jobs, but only one can run at a time", run.file.display(), drafts.len()),
            "create them all with: odh training create -f FILE",
        ));
    };
    let home = Home::find()?;
    let state = cluster(console, &home, run)?;
    let connection = connect_local(&home, global.namespace.as_deref()).await?;
    warn_of_programs(console, &state, std::slice::from_ref(draft));
    let namespace = draft.namespace().unwrap_or(&connection.namespace).to_owned();
    let kind = draft.kind;
    if run.replace {
        replace(&connection, kind, &namespace, draft.name()).await?;
    }
    // Ctrl-C between creating and following must delete the job too.
    let mut interruption = Interruption::listen();
    let created =
        submit::create(&connection.client, &namespace, std::slice::from_ref(draft), DryRun::No).await;
    let created = created.map_err(|(error, _)| clash(error))?;
    let Some(name) = created.first().and_then(|job| job.metadata.name.clone()) else {
        return Err(Failure::new(
            Class::Error,
            "Unnamed",
            "the server returned the created job without a name",
        ));
    };
    console.note(&styled(FAINT, &format!("{}/{name} created in namespace {namespace}", kind.word())));
    to_the_end(console, run, &connection, (kind, &namespace, &name), &mut interruption).await
}

fn cluster(console: &Console, home: &Home, run: &Run) -> Result<State, Failure> {
    let given = up::checked(&run.cluster)?;
    if let Some(state) = State::alive(home) {
        if !up::is_as_asked(&given, &state) {
            return Err(up_with_other_options());
        }
        up::differs(console, &given, &state);
        return adopt::given(console, home, state, &given);
    }
    let (options, _) = remembered::complete(home, &given);
    match up::start(home, &options)? {
        Started::New(state) => {
            console.note(&styled(
                FAINT,
                &format!(
                    "started a local cluster at https://{} (mode {}); stop it with: odh local down",
                    state.address, state.mode
                ),
            ));
            up::limits(console, &state);
            Ok(state)
        }
        Started::Already(state) => Ok(state),
    }
}

/// The cluster keeps its mode, and the job would run in another than the one asked for.
fn up_with_other_options() -> Failure {
    Failure::new(Class::Conflict, "AlreadyUp", "the local cluster is up with other options than those given")
        .with_hint("omit them, or stop it first: odh local down")
}

async fn replace(
    connection: &Connection,
    kind: jobs::Kind,
    namespace: &str,
    name: &str,
) -> Result<(), Failure> {
    let manner = Manner { force: false, wait: Some(CLEAN_UP) };
    match jobs::delete::delete(&connection.client, kind, namespace, name, manner).await {
        Ok(()) | Err(jobs::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn clash(error: jobs::Error) -> Failure {
    let clash = error.class() == Class::Conflict;
    let mut failure = Failure::from(error);
    if clash {
        failure.hints =
            vec!["run it with --replace to delete the old job first, or choose another name".to_owned()];
    }
    failure
}

async fn to_the_end(
    console: &Console,
    run: &Run,
    connection: &Connection,
    (kind, namespace, name): (jobs::Kind, &str, &str),
    interruption: &mut Interruption,
) -> Result<u8, Failure> {
    let follow = Follow {
        client: &connection.client,
        kind,
        namespace,
        name,
        logs: true,
        timeout: run.timeout,
        interrupted_hint: "the job is deleted; the cluster stays up (odh local down stops it)",
    };
    match follow_to_end(console, &follow, interruption).await {
        Ok(ended) => {
            if run.output.shows_objects()
                && let Some(object) = &ended.object
            {
                console.data(&object::text(&object::value(object), run.output)?)?;
            }
            ending(console, &follow, &ended, run.propagate_exit_code).await
        }
        Err(failure) if matches!(failure.class, Class::Interrupted | Class::StillRunning) => {
            clean_up(console, connection, (kind, namespace, name)).await;
            Err(failure)
        }
        Err(failure) => Err(failure),
    }
}

/// Deletes the job; a second Ctrl-C stops waiting.
async fn clean_up(
    console: &Console,
    connection: &Connection,
    (kind, namespace, name): (jobs::Kind, &str, &str),
) {
    let job = format!("{}/{name}", kind.word());
    console.note(&format!("deleting {job} …"));
    let manner = Manner { force: false, wait: Some(CLEAN_UP) };
    tokio::select! {
        deleted = jobs::delete::delete(&connection.client, kind, namespace, name, manner) => {
            if let Err(error) = deleted {
                console.warn(&format!("{job} was not cleaned up: {error}"));
            }
        }
        () = interrupted() => console.warn(&format!("{job} is still being deleted")),
    }
}
