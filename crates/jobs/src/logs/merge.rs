//! What was written until now, of one pod or of several merged by time.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{BUFFERED_LINES, Item, Sender, Source, Target, read};
use crate::{Error, describe};

/// Reads every target's pod to its present end and sends the lines in the order of their times.
pub(super) async fn merged(source: Source, targets: Vec<Target>, pods: Vec<Pod>, sender: Sender) {
    let alone = targets.len() == 1;
    let mut heads = Vec::new();
    let mut readers = JoinSet::new();
    for target in targets {
        match newest(&pods, target) {
            Some(pod) if describe::started(pod) || describe::ended(pod) => {
                let (to, from) = mpsc::channel(BUFFERED_LINES);
                readers.spawn(read::once(source.clone(), pod.name_any(), to));
                heads.push(from);
            }
            missing => {
                let error = nothing_yet(target.name(&source.job), missing);
                let item = if alone { Err(error) } else { Ok(Item::Note(format!("{error}"))) };
                if sender.send(item).await.is_err() {
                    return;
                }
            }
        }
    }
    merge(heads, sender).await;
}

fn newest(pods: &[Pod], target: Target) -> Option<&Pod> {
    pods.iter()
        .filter(|pod| target.matches(&describe::pod_view(pod)))
        .max_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

fn nothing_yet(name: String, pod: Option<&Pod>) -> Error {
    let what = match pod.map(|pod| (pod.name_any(), describe::waits_for(pod))) {
        Some((name, Some(reason))) => format!("{name} has written nothing yet: it waits for {reason}"),
        Some((name, None)) => format!("{name} has written nothing"),
        None => format!("there is no pod {name}: not yet created, or already cleaned up"),
    };
    Error::NoPod { what, advice: "to wait for it: odh training logs mpijob NAME --follow".to_owned() }
}

/// Always the oldest of the heads; a line without a time goes with the line before it.
async fn merge(mut sources: Vec<mpsc::Receiver<Result<Item, Error>>>, sender: Sender) {
    let mut heads = Vec::with_capacity(sources.len());
    for source in &mut sources {
        heads.push(source.recv().await);
    }
    loop {
        let oldest = heads
            .iter()
            .enumerate()
            .filter_map(|(index, head)| head.as_ref().map(|item| (time_of(item), index)))
            .min();
        let Some((_, index)) = oldest else { return };
        let (Some(head), Some(source)) = (heads.get_mut(index), sources.get_mut(index)) else { return };
        let next = source.recv().await;
        let Some(item) = std::mem::replace(head, next) else { return };
        if sender.send(item).await.is_err() {
            return;
        }
    }
}

fn time_of(item: &Result<Item, Error>) -> Option<jiff::Timestamp> {
    match item {
        Ok(Item::Line { at, .. }) => *at,
        _ => None,
    }
}

/// A pod's name, shared by its lines.
pub(super) fn shared(name: &str) -> Arc<str> {
    Arc::from(name)
}
