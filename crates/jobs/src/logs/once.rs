//! Reads what has been written so far: from the pods, from what was kept of them, or from a record.

use std::sync::Arc;

use api::Phase;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DynamicObject;
use kube::{Client, ResourceExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::target::{Target, newest};
use super::{Batch, Choice, Item, Source, follow, read};
use crate::last_lines::{recorded, was_restarted};
use crate::part::is_being_prepared;
use crate::{Action, Advice, Error, JobRef, Kind, describe, view};

/// Starts to read what these targets have written so far: from their pods, from what was kept of them, or from a record.
pub(super) async fn once(
    source: &Arc<Source>,
    object: &DynamicObject,
    mut targets: Vec<Target>,
    arrive: mpsc::Sender<mpsc::Receiver<Batch>>,
    readers: &mut JoinSet<()>,
) -> Result<(), Error> {
    let Source { client, kind, namespace, job, .. } = &**source;
    let open = || {
        let (to, from) = read::lane();
        // The channel has room for every pod.
        let _ = arrive.try_send(from);
        to
    };
    let pods = describe::pods(client, *kind, namespace, job).await?;
    let lender = source.lender(&targets);
    let all = targets.iter().copied().chain(lender);
    let gone: Vec<Target> = all.filter(|target| newest(*target, &pods).is_none()).collect();
    let kept = source.kept(gone).await;
    targets.retain(|target| !kept.iter().any(|kept| kept.part == target.part()));
    let launcher = newest(Target::Launcher, &pods).filter(|pod| has_output(pod));
    let is_kept = kept.iter().any(|kept| kept.part == Target::Launcher.part());
    let is_lent = source.lent.is_some() && (launcher.is_some() || is_kept);
    let lender = launcher.filter(|_| lender.is_some());
    for kept in kept {
        let cut = source.cut_of(&kept);
        readers.spawn(read::replay(kept, cut, open()));
    }
    if let Some(record) = record(client, object, &source.choice, &targets, &pods).await? {
        let reader = read::Reader::of_record(source.clone(), &record.name, open());
        readers.spawn(reader.written(record.text));
        return Ok(());
    }
    let (ready, notes) = ready(&targets, &pods, object, is_lent)?;
    if !notes.is_empty() {
        // The channel has room for the first item.
        let _ = open().try_send(notes);
    }
    for pod in ready.into_iter().chain(lender) {
        if let Some(reader) = read::Reader::new(source.clone(), pod, open()) {
            readers.spawn(reader.once());
        }
    }
    Ok(())
}

/// The end of an attempt's output, kept in its record.
struct Record {
    name: String,
    text: String,
}

/// Returns the record to read instead of a pod: that of an earlier attempt, or of a Launcher whose pods are gone or have
/// another log by now.
///
/// # Errors
/// If an earlier attempt was asked for and has no record.
async fn record(
    client: &Client,
    job: &DynamicObject,
    choice: &Choice,
    targets: &[Target],
    pods: &[Pod],
) -> Result<Option<Record>, Error> {
    let current = plan::attempt_of(&job.metadata);
    let attempt = choice.attempt.unwrap_or(current);
    let is_earlier = attempt != current;
    let of_launcher = targets == [Target::Launcher];
    let is_lost = match newest(Target::Launcher, pods) {
        None => true,
        // Its container was started again before the job ended: its log is that of another run than the one that failed.
        Some(launcher) => {
            !choice.previous && view::row(job).phase == Phase::Failed && was_restarted(launcher)
        }
    };
    if !(is_earlier || of_launcher && is_lost) {
        return Ok(None);
    }
    let name = plan::record_name(&job.name_any(), attempt);
    match recorded(client, job, attempt).await {
        Some(text) => Ok(Some(Record { name, text })),
        None if !is_earlier => Ok(None),
        None => Err(Error::NoPod {
            what: format!("there is no output of attempt {attempt}"),
            advice: Advice::from(format!("this is attempt {current}; see which failed")).with(
                Action::Describe(Kind::of(job).job(&job.namespace().unwrap_or_default(), &job.name_any())),
            ),
        }),
    }
}

/// Whether a pod has something to read.
fn has_output(pod: &Pod) -> bool {
    describe::started(pod) || semantics::has_ended(pod) || is_being_prepared(pod)
}

/// Returns the pods that have something to read, and notes about the others.
///
/// # Errors
/// If the only target has nothing to read, and no other pod lends it lines.
fn ready<'p>(
    targets: &[Target],
    pods: &'p [Pod],
    object: &DynamicObject,
    is_lent: bool,
) -> Result<(Vec<&'p Pod>, Batch), Error> {
    let mut ready = Vec::new();
    let mut notes = Vec::new();
    let (kind, ended) = (Kind::of(object), view::row(object).has_ended());
    let job = kind.job(&object.namespace().unwrap_or_default(), &object.name_any());
    for target in targets {
        match newest(*target, pods) {
            Some(pod) if has_output(pod) => ready.push(pod),
            // What its ranks printed is there.
            None if ended && is_lent => {}
            missing => {
                let error = match missing {
                    None if ended => gone(*target, &job),
                    Some(pod) => nothing_yet(&pod.name_any(), describe::waits_for(pod), &job),
                    None => match follow::not_made(Some(object)).or_else(|| follow::pending(object, pods)) {
                        Some(reason) => nothing_yet(&target.name(kind, &job.name), Some(reason), &job),
                        None => not_found(&target.name(kind, &job.name), &job),
                    },
                };
                if targets.len() == 1 && !is_lent {
                    return Err(error);
                }
                notes.push(Ok(Item::Note(error.to_string())));
            }
        }
    }
    Ok((ready, notes))
}

/// A pod that was deleted when its job ended.
fn gone(target: Target, job: &JobRef) -> Error {
    let what = format!(
        "pod {} was deleted when its job ended",
        target.name(Kind::named(&job.kind).unwrap_or_default(), &job.name)
    );
    let has_launcher = Kind::named(&job.kind).is_some_and(Kind::has_launcher);
    let advice = match target {
        Target::Worker(_) if has_launcher => {
            Advice::from("what the ranks printed is in the Launcher's output").with(Action::Logs {
                job: job.clone(),
                workers: None,
                follow: false,
                previous: false,
            })
        }
        _ => Advice::from("see what is known of it").with(Action::Describe(job.clone())),
    };
    Error::NoPod { what, advice }
}

fn nothing_yet(pod: &str, waits_for: Option<String>, job: &JobRef) -> Error {
    let what = match waits_for {
        Some(reason) => format!("{pod} has no output yet: it waits for {reason}"),
        None => format!("{pod} has no output"),
    };
    Error::NoPod { what, advice: to_follow(job) }
}

fn not_found(pod: &str, job: &JobRef) -> Error {
    let what = format!("pod {pod} not found: it is not yet created, or already deleted");
    Error::NoPod { what, advice: to_follow(job) }
}

fn to_follow(job: &JobRef) -> Advice {
    let follow = Action::Logs { job: job.clone(), workers: None, follow: true, previous: false };
    Advice::from("wait for it").with(follow)
}
