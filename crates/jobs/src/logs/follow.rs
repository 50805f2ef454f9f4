//! Follows a job's pods: starts reading each as soon as it has started, reports what the others wait for, and
//! continues with pods that replace earlier ones, such as the next Launcher after a retry.
//!
//! A single watch of the job serves all its pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Phase;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DynamicObject;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::read::{self, Lane, Reader, lane};
use super::{Batch, Item, Source, Target};
use crate::progress;
use crate::{describe, view};

/// Reads the targets' pods until the job has ended and everything is read.
pub(super) async fn follow(
    source: Arc<Source>,
    targets: Vec<Target>,
    arrive: mpsc::Sender<mpsc::Receiver<Batch>>,
) {
    let (notes, told) = lane();
    if arrive.send(told).await.is_err() {
        return;
    }
    let mut watch = progress::watch(&source.client, source.kind, &source.namespace, &source.job);
    let mut following = Following {
        source,
        notes,
        arrive,
        read: BTreeSet::new(),
        seen: BTreeSet::new(),
        said: BTreeMap::new(),
        noted: None,
        stood: None,
        readers: JoinSet::new(),
    };
    loop {
        if !following.look(watch.pods(), watch.job(), &targets).await {
            return;
        }
        match tokio::time::timeout(progress::QUIET, watch.step()).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => break,
            // Nothing happens: what the job is at is said then.
            Err(_) => {
                if !following.stand(watch.pods(), watch.job()).await {
                    return;
                }
            }
            Ok(Err(error)) => {
                let _ = following.notes.send(vec![Err(error)]).await;
                return;
            }
        }
    }
    // The last observation may include a new pod.
    if following.look(watch.pods(), watch.job(), &targets).await && following.take_out(&targets).await {
        drop(following.notes);
        while following.readers.join_next().await.is_some() {}
    }
}

struct Following {
    source: Arc<Source>,
    notes: Lane,
    arrive: mpsc::Sender<mpsc::Receiver<Batch>>,
    /// UIDs of pods that are being read or were read.
    read: BTreeSet<String>,
    /// The targets of these pods.
    seen: BTreeSet<Target>,
    /// The last reported reason for waiting, for each target.
    said: BTreeMap<Target, String>,
    /// What was last noted that hinders the job, and what it was last at while nothing did.
    noted: Option<(String, String)>,
    stood: Option<(String, String)>,
    readers: JoinSet<()>,
}

impl Following {
    /// Starts reading pods that have started, and reports what the others wait for; returns `false` once the consumer
    /// is gone.
    async fn look(
        &mut self,
        pods: &BTreeMap<String, Pod>,
        job: Option<&DynamicObject>,
        targets: &[Target],
    ) -> bool {
        let mut waiting = Vec::new();
        for (target, theirs) in by_target(pods.values(), targets) {
            let mut unread = false;
            for pod in theirs {
                let uid = pod.metadata.uid.clone().unwrap_or_default();
                if self.read.contains(&uid) {
                    continue;
                }
                if describe::started(pod) || semantics::has_ended(pod) {
                    self.read.insert(uid);
                    self.seen.insert(target);
                    self.said.remove(&target);
                    let (to, from) = lane();
                    let Some(reader) = Reader::new(self.source.clone(), pod, to) else { continue };
                    if self.arrive.send(from).await.is_err() {
                        return false;
                    }
                    self.readers.spawn(reader.follow());
                } else if !unread {
                    let reason = describe::waits_for(pod).unwrap_or_else(|| "its container".to_owned());
                    waiting.push((target, pod.name_any(), reason));
                    unread = true;
                }
            }
        }
        if pods.is_empty()
            && let (Some(reason), Some(first)) = (not_made(job), targets.first())
        {
            waiting.push((*first, first.name(self.source.kind, &self.source.job), reason));
        }
        let is_silent = waiting.is_empty();
        self.say(waiting).await && (!is_silent || self.hinder(pods, job).await)
    }

    /// Reports what a job is at of which nothing else is reported; returns `false` once the consumer is gone.
    async fn stand(&mut self, pods: &BTreeMap<String, Pod>, job: Option<&DynamicObject>) -> bool {
        let at = job.filter(|_| self.said.is_empty() && self.noted.is_none());
        match at.and_then(|job| progress::standing(job, pods)) {
            Some(at) if self.stood.as_ref() != Some(&at) => {
                self.stood = Some(at.clone());
                self.note(at).await
            }
            _ => true,
        }
    }

    /// Reports what hinders the job, once for each reason; returns `false` once the consumer is gone.
    async fn hinder(&mut self, pods: &BTreeMap<String, Pod>, job: Option<&DynamicObject>) -> bool {
        let hindrance = job.and_then(|job| progress::hindrance(job, pods));
        if self.noted == hindrance {
            return true;
        }
        self.noted.clone_from(&hindrance);
        match hindrance {
            Some(hindrance) => self.note(hindrance).await,
            None => true,
        }
    }

    async fn note(&mut self, (reason, detail): (String, String)) -> bool {
        self.notes.send(vec![Ok(Item::Note(format!("{reason}: {detail}")))]).await.is_ok()
    }

    /// Reads what is kept of targets whose pods were removed before this began; returns `false` once the consumer is gone.
    async fn take_out(&mut self, targets: &[Target]) -> bool {
        let unseen = targets.iter().copied().filter(|target| !self.seen.contains(target));
        for kept in self.source.kept(unseen).await {
            let (to, from) = lane();
            if self.arrive.send(from).await.is_err() {
                return false;
            }
            let cut = self.source.cut_of(&kept);
            self.readers.spawn(read::replay(kept, cut, to));
        }
        true
    }

    async fn say(&mut self, waiting: Vec<(Target, String, String)>) -> bool {
        let mut batch = Vec::new();
        for (target, name, reason) in waiting {
            if self.said.get(&target) != Some(&reason) {
                batch.push(Ok(Item::Waiting { pod: name.into(), reason: reason.clone() }));
                self.said.insert(target, reason);
            }
        }
        batch.is_empty() || self.notes.send(batch).await.is_ok()
    }
}

/// The pods of each target, oldest first.
fn by_target<'p>(pods: impl Iterator<Item = &'p Pod>, targets: &[Target]) -> BTreeMap<Target, Vec<&'p Pod>> {
    let wanted: BTreeSet<Target> = targets.iter().copied().collect();
    let mut found: BTreeMap<Target, Vec<&Pod>> = BTreeMap::new();
    for pod in pods {
        if let Some(target) = Target::of(&describe::pod_view(pod)).filter(|target| wanted.contains(target)) {
            found.entry(target).or_default().push(pod);
        }
    }
    for pods in found.values_mut() {
        pods.sort_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0));
    }
    found
}

/// Why there is no pod yet, if the job says so.
pub(super) fn not_made(job: Option<&DynamicObject>) -> Option<String> {
    match view::row(job?).phase_reason.as_deref() {
        Some("Suspended") => Some("the job to be resumed: it is suspended".to_owned()),
        Some("Queued") => Some("the job to leave its queue".to_owned()),
        _ => None,
    }
}

/// What a job that has not started waits for, while it has not all of its pods.
pub(super) fn pending(job: &DynamicObject, pods: &[Pod]) -> Option<String> {
    let phase = view::row(job).phase;
    if phase != Phase::Pending {
        return None;
    }
    let pods: BTreeMap<String, Pod> = pods.iter().map(|pod| (pod.name_any(), pod.clone())).collect();
    let at = progress::hindrance(job, &pods).or_else(|| progress::standing(job, &pods));
    let (reason, detail) = at?;
    let phase = view::phase_name(phase);
    let state = if reason == phase { reason } else { format!("{phase} ({reason})") };
    Some(format!("its job, which is {state}: {detail}"))
}
