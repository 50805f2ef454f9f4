//! Enforces NetworkPolicies. Whenever policies, pods or namespaces change, a new ruleset is loaded where all pods'
//! packets pass.
//!
//! The pure module [`ruleset`] computes the rules. `nft` loads them inside the sandbox's own network, so the machine's
//! firewall is never touched. If that is not possible (plain mode, no `nft`), each policy gets a Warning Event, so that
//! no policy only appears to be in force.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::{Api, Resource as _, ResourceExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

mod ruleset;

use super::LocalNode;
use controller_runtime::cache::{Cache, Change, follow};
use controller_runtime::record::{Note, Recorder};
use ruleset::{Member, ruleset};

/// Folders searched for `nft` after `PATH`; they are often missing from the `PATH` of users other than root.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Keeps the ruleset up to date until dropped.
pub async fn enforce(node: Arc<LocalNode>, stop: CancellationToken) {
    let (policies, pods, namespaces) =
        (Cache::<NetworkPolicy>::default(), Cache::<Pod>::default(), Cache::<Namespace>::default());
    let (wake, any) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (to, there) = (wake.clone(), any.clone());
    policies.on_change(&stop, move |_| {
        to.notify_one();
        there.notify_one();
    });
    let to = wake.clone();
    pods.on_change(&stop, move |change| {
        if matters(change) {
            to.notify_one();
        }
    });
    let to = wake.clone();
    namespaces.on_change(&stop, move |_| to.notify_one());
    let recorder = Recorder::start(node.client.clone(), "network-policy", stop.clone());
    let client = || node.client.clone();
    let keep = keep(&node, &policies, &pods, &namespaces, &wake, &recorder);
    let members = async {
        // Most clusters have no policy, and then nobody asks about pods: to read every change of each has its price.
        while policies.list().is_empty() {
            tokio::select! {
                () = any.notified() => {}
                () = stop.cancelled() => return,
            }
        }
        tokio::join!(
            follow(Api::all(client()), pods.clone(), stop.clone()),
            follow(Api::all(client()), namespaces.clone(), stop.clone()),
        );
    };
    tokio::join!(follow(Api::all(client()), policies.clone(), stop.clone()), members, keep);
}

/// Returns whether a pod's address, labels or termination changed.
fn matters(change: &Change<Pod>) -> bool {
    let seen = |pod: &Pod| {
        let status = pod.status.as_ref();
        (
            status.and_then(|s| s.pod_ip.clone()),
            status.and_then(|s| s.phase.clone()),
            pod.metadata.labels.clone(),
        )
    };
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => seen(old) != seen(new),
        (_, Some(new)) => new.status.as_ref().is_some_and(|s| s.pod_ip.is_some()),
        _ => true,
    }
}

async fn keep(
    node: &LocalNode,
    policies: &Cache<NetworkPolicy>,
    pods: &Cache<Pod>,
    namespaces: &Cache<Namespace>,
    wake: &Notify,
    recorder: &Recorder,
) {
    policies.filled().await;
    pods.filled().await;
    namespaces.filled().await;
    let mut loaded: Option<String> = None;
    let mut told: BTreeSet<String> = BTreeSet::new();
    loop {
        let all: Vec<NetworkPolicy> = policies.list().iter().map(|policy| policy.as_ref().clone()).collect();
        // Load nothing at all until there is a first policy.
        if !all.is_empty() || loaded.is_some() {
            let members: Vec<Member> = pods.list().iter().filter_map(|pod| Member::of(pod)).collect();
            let labels: BTreeMap<_, _> =
                namespaces.list().iter().map(|n| (n.name_any(), n.labels().clone())).collect();
            let rules = ruleset(&all, &members, &labels);
            if loaded.as_ref() != Some(&rules) {
                match load(node, "policy.nft", &rules).await {
                    Ok(()) => loaded = Some(rules),
                    Err(why) => tell(&all, &why, &mut told, recorder),
                }
            }
        }
        wake.notified().await;
    }
}

/// Records an Event, once per policy and reason, that the policy is not in force.
fn tell(policies: &[NetworkPolicy], why: &str, told: &mut BTreeSet<String>, recorder: &Recorder) {
    tracing::warn!(why, "network policies are not enforced");
    for policy in policies {
        if told.insert(format!("{} {why}", policy.uid().unwrap_or_default())) {
            let message = format!("The policy is stored but not enforced: {why}");
            recorder.note_ref(policy.object_ref(&()), Note::warning("NetworkPolicyNotEnforced", message));
        }
    }
}

/// Writes the rules to a file of this name and loads it in the pods' network. The error is for a person.
pub(super) async fn load(node: &LocalNode, file: &str, rules: &str) -> Result<(), String> {
    if !node.mode.kind.isolates() {
        return Err("in plain mode pods share the machine's network".to_owned());
    }
    let program = program().ok_or("the program nft (package nftables) is not installed on this machine")?;
    let path = node.runtime.join(file);
    std::fs::write(&path, rules).map_err(|error| format!("{}: {error}", path.display()))?;
    let outcome = node.sandbox.filter(program, path).await;
    outcome.map_err(|failure| failure.to_string())?
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join("nft")).find(|program| program.is_file())
}
