//! Follows the API and drives the pods' tasks: which pods are ours, the desired state of each, and which mounted
//! ConfigMaps and Secrets changed.
//!
//! One watch for all nodes that the machine poses as. A pod's task starts when the pod is first seen bound to one of
//! them, and ends by itself. This module passes the desired state on and decides nothing about it.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::hosts::PodName;
use super::pod::{self, Wish};
use super::power::{self, Parked, Switch, node_of};
use super::{LocalNode, lock, tokens, volumes};

/// Interval of the check for mounted tokens that are due; the shortest lifetime is ten minutes.
const TOKENS_LOOK: Duration = Duration::from_secs(60);

type Wishes = HashMap<String, (watch::Sender<Wish>, tokio::task::AbortHandle)>;

/// The pods' tasks; they survive a failed watch.
pub type Followed = Arc<Mutex<(Wishes, Parked)>>;

/// Follows pods until dropped. Pods' tasks run until `stop`.
pub async fn follow_pods(
    node: Arc<LocalNode>,
    tasks: TaskTracker,
    stop: CancellationToken,
    followed: Followed,
) {
    let mut followed = followed.lock().await;
    let (wishes, parked) = &mut *followed;
    let mut listed: HashSet<String> = HashSet::new();
    let pods: Api<Pod> = Api::all(node.client.clone());
    let maps: Api<ConfigMap> = Api::all(node.client.clone());
    let nodes: Api<Node> = Api::all(node.client.clone());
    let mut nodes = pin!(watcher(nodes, watcher::Config::default()).default_backoff());
    let secrets: Api<Secret> = Api::all(node.client.clone());
    let mut pods = pin!(watcher(pods, watcher::Config::default()).default_backoff());
    let mut maps = pin!(watcher(maps, watcher::Config::default()).default_backoff());
    let mut secrets = pin!(watcher(secrets, watcher::Config::default()).default_backoff());
    let mut look = tokio::time::interval(TOKENS_LOOK);
    loop {
        tokio::select! {
            event = pods.next() => match event {
                None => return,
                Some(Err(error)) => tracing::debug!(%error, "restarting the watch on pods"),
                Some(Ok(Event::Init)) => listed.clear(),
                Some(Ok(Event::InitApply(pod))) => {
                    listed.extend(pod.metadata.uid.clone());
                    see(&node, &tasks, &stop, wishes, parked, pod);
                }
                Some(Ok(Event::InitDone)) => {
                    wishes.iter().filter(|(uid, _)| !listed.contains(*uid)).for_each(|(_, (wish, _))| lose(wish));
                    let gone = parked.extract_if(|uid, _| !listed.contains(uid));
                    gone.for_each(|(_, pod)| forget(&node, &pod));
                }
                Some(Ok(Event::Apply(pod))) => see(&node, &tasks, &stop, wishes, parked, pod),
                Some(Ok(Event::Delete(pod))) => {
                    if let Some((wish, _)) = pod.metadata.uid.as_ref().and_then(|uid| wishes.get(uid)) {
                        lose(wish);
                    }
                    if let Some(pod) = pod.metadata.uid.as_ref().and_then(|uid| parked.remove(uid)) {
                        forget(&node, &pod);
                    }
                }
            },
            event = nodes.next() => if let Some(Ok(Event::Apply(known) | Event::InitApply(known))) = event {
                switch(&node, &tasks, &stop, wishes, parked, &known).await;
            },
            event = maps.next() => if let Some(Ok(Event::Apply(map))) = event {
                refresh(&node, wishes, "ConfigMap", &map.metadata);
            },
            event = secrets.next() => if let Some(Ok(Event::Apply(secret))) = event {
                refresh(&node, wishes, "Secret", &secret.metadata);
            },
            _ = look.tick() => renew(&node, wishes, |_, volume, folder| tokens::holds_due(volume, folder)),
        }
        wishes.retain(|_, (_, task)| !task.is_finished());
    }
}

fn lose(wish: &watch::Sender<Wish>) {
    wish.send_modify(|wish| wish.gone = true);
}

/// Cuts or restores a node's power if its Node requests it.
async fn switch(
    node: &Arc<LocalNode>,
    tasks: &TaskTracker,
    stop: &CancellationToken,
    wishes: &mut Wishes,
    parked: &mut Parked,
    known: &Node,
) {
    let Some(name) = known.metadata.name.as_ref().filter(|name| node.shape().names.contains(name)) else {
        return;
    };
    let change = lock(&node.dark).obey(name, known);
    match change {
        None => {}
        Some(Switch::Off) => {
            let mut killed = Vec::new();
            wishes.retain(|uid, (wish, task)| {
                let pod = Arc::clone(&wish.borrow().pod);
                let here = node_of(&pod) == Some(name);
                if here {
                    task.abort();
                    killed.push(uid.clone());
                    parked.insert(uid.clone(), pod);
                }
                !here
            });
            power::kill(node, &killed).await;
        }
        Some(Switch::On) => {
            node.pulse.notify_one();
            let back: Vec<_> = parked.extract_if(|_, pod| node_of(pod) == Some(name)).collect();
            for (_, pod) in back {
                see(node, tasks, stop, wishes, parked, Arc::unwrap_or_clone(pod));
            }
        }
    }
}

/// Cleans up after a pod that was removed from the API while its node had no power to take it down.
fn forget(node: &LocalNode, pod: &Pod) {
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    lock(&node.hosts).remove(pod.metadata.namespace.as_deref().unwrap_or_default(), &uid);
    node.forget_logs(pod);
    let folder = node.pod_folder(&uid);
    let _ = std::fs::remove_dir_all(folder);
}

fn see(
    node: &Arc<LocalNode>,
    tasks: &TaskTracker,
    stop: &CancellationToken,
    wishes: &mut Wishes,
    parked: &mut Parked,
    pod: Pod,
) {
    let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let (Some(uid), true) =
        (pod.metadata.uid.clone(), bound.as_ref().is_some_and(|name| node.shape().names.contains(name)))
    else {
        return;
    };
    let pod = Arc::new(pod);
    if bound.is_some_and(|name| lock(&node.dark).contains(&name)) {
        parked.insert(uid, pod);
        return;
    }
    if let Some((wish, _)) = wishes.get(&uid) {
        wish.send_modify(|wish| wish.pod = Arc::clone(&pod));
        return;
    }
    if semantics::has_ended(&pod) {
        if pod.metadata.deletion_timestamp.is_some() {
            // From before this process started: nothing runs, and only the node can remove the pod.
            let client = node.client.clone();
            tasks.spawn(async move { pod::delete(&client, &pod).await });
        }
        return;
    }
    let name = PodName {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        hostname: pod::hostname(&pod),
        subdomain: pod.spec.as_ref().and_then(|spec| spec.subdomain.clone()).filter(|name| !name.is_empty()),
    };
    let address = match lock(&node.hosts).add(&uid, name) {
        Ok(address) if node.mode.kind.isolates() => address,
        Ok(_) => std::net::Ipv4Addr::LOCALHOST,
        Err(error) => {
            let message = format!("Failed to create pod sandbox: {error}");
            node.events.warning(&pod, None, "FailedCreatePodSandBox", message);
            return;
        }
    };
    let (sender, receiver) = watch::channel(Wish { pod, gone: false });
    let (node, stop) = (Arc::clone(node), stop.clone());
    let task = tasks.spawn(async move {
        tokio::select! {
            () = pod::run_supervised(node, receiver, address) => {}
            () = stop.cancelled() => {}
        }
    });
    wishes.insert(uid, (sender, task.abort_handle()));
}

/// Updates mounted copies of a ConfigMap or Secret.
fn refresh(node: &Arc<LocalNode>, wishes: &Wishes, kind: &str, changed: &ObjectMeta) {
    let (Some(name), Some(namespace)) = (&changed.name, &changed.namespace) else { return };
    renew(node, wishes, |pod, volume, _| {
        pod.metadata.namespace.as_ref() == Some(namespace) && volumes::follows(volume, kind, name)
    });
}

/// Rewrites the volumes selected by `is_meant`, which gets the pod, the volume and the folder of the pod's volumes.
fn renew(node: &Arc<LocalNode>, wishes: &Wishes, is_meant: impl Fn(&Pod, &Volume, &Path) -> bool) {
    for (uid, (wish, _)) in wishes {
        let pod = Arc::clone(&wish.borrow().pod);
        let folder = node.pod_folder(uid).join("volumes");
        let Some(spec) = pod.spec.as_ref() else { continue };
        let meant = spec.volumes.iter().flatten().filter(|volume| is_meant(&pod, volume, &folder));
        let meant = meant.cloned().collect::<Vec<_>>();
        if meant.is_empty() {
            continue;
        }
        let node = Arc::clone(node);
        tokio::spawn(async move {
            let facts = node.shape().facts.clone();
            let group = node.owner_group(&pod.spec.clone().unwrap_or_default());
            let context = volumes::VolumeContext {
                client: &node.client,
                pod: &pod,
                facts: &facts,
                folder: &folder,
                group,
                secret: &node.secret,
                claims: &node.claims,
            };
            for volume in meant {
                // A missing volume belongs to a pod in preparation, which will read the new text itself.
                if folder.join(&volume.name).join("..data").exists()
                    && let Err(error) = volumes::prepare(&volume, &context).await
                {
                    tracing::debug!(%error, volume = volume.name, "cannot update a mounted volume");
                }
            }
        });
    }
}
