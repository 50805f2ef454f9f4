//! The pods of a job whose output can be read, and which of them are chosen.

use k8s_openapi::api::core::v1::Pod;
use kube::api::DynamicObject;
use kube::{Client, ResourceExt};

use super::{Choice, MAX_PODS, Which};
use crate::{Action, Advice, Error, Kind, describe, view};

/// A pod by its role and index in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Launcher,
    /// A replica of a PyTorchJob or TFJob that is no Worker: one of [`ROLES`], and its number.
    Replica(&'static str, i32),
    Worker(i32),
}

/// The roles of PyTorchJobs' and TFJobs' pods beside their Workers. Those that lead a job are first.
pub(super) const ROLES: [&str; 4] = ["chief", "master", "ps", "evaluator"];
/// How many of them lead.
pub(super) const LEADING: usize = 2;

impl Target {
    pub(super) fn of(pod: &describe::PodView) -> Option<Target> {
        match (pod.role.as_str(), pod.index) {
            ("launcher", _) => Some(Target::Launcher),
            (role, Some(index)) => Target::named(role, index),
            _ => None,
        }
    }

    /// Returns a replica, by its role in any case.
    fn named(role: &str, index: i32) -> Option<Target> {
        if role.eq_ignore_ascii_case(api::WORKER) {
            return Some(Target::Worker(index));
        }
        let role = ROLES.into_iter().find(|known| known.eq_ignore_ascii_case(role))?;
        Some(Target::Replica(role, index))
    }

    /// Whether it takes the Launcher's place in a job that has none.
    fn leads(self) -> bool {
        matches!(self, Target::Replica(role, _) if ROLES[..LEADING].contains(&role))
    }

    /// The part of the job that it is: `launcher`, `worker-3` or `master-0`.
    pub(super) fn part(self) -> String {
        match self {
            Target::Launcher => "launcher".to_owned(),
            Target::Worker(index) => format!("worker-{index}"),
            Target::Replica(role, index) => format!("{role}-{index}"),
        }
    }

    /// The name of its pod; that of a TrainJob's goes on with letters of its own.
    pub(super) fn name(self, kind: Kind, job: &str) -> String {
        match (kind, self) {
            (Kind::TrainJob, Target::Launcher) => format!("{job}-launcher-0-0"),
            (Kind::TrainJob, Target::Worker(index)) => format!("{job}-node-0-{index}"),
            _ => format!("{job}-{}", self.part()),
        }
    }
}

/// Returns the pods that a job has according to its spec. The first is its Launcher, or the pod that leads it.
fn all_of(kind: Kind, job: &DynamicObject) -> Vec<Target> {
    if kind.has_launcher() {
        let workers = view::row(job).workers.of;
        return [Target::Launcher].into_iter().chain((0..workers).map(Target::Worker)).collect();
    }
    let of_role = |role: &&'static str| {
        let role = *role;
        (0..kind.replicas(job, role)).filter_map(move |index| Target::named(role, index))
    };
    let mut all: Vec<Target> = kind.working_roles().iter().flat_map(of_role).collect();
    // Stable: the others keep the order of their roles.
    all.sort_by_key(|target| (!target.leads(), !matches!(target, Target::Worker(_))));
    all
}

/// Returns the pods to read among all of a job, of which the first leads.
fn targets(which: &Which, all: &[Target]) -> Result<Vec<Target>, Error> {
    match which {
        Which::Launcher => Ok(all.iter().copied().take(1).collect()),
        Which::All => Ok(all.to_vec()),
        Which::Workers(indices) => {
            let workers = all.iter().filter(|target| matches!(target, Target::Worker(_))).count();
            match indices.iter().find(|index| !all.contains(&Target::Worker(**index))) {
                None => Ok(indices.iter().copied().map(Target::Worker).collect()),
                Some(index) => Err(Error::NoPod {
                    what: format!("there is no Worker {index}"),
                    advice: match workers {
                        0 => "this job has no Workers".into(),
                        _ => format!("this job has Workers 0 to {}", workers - 1).into(),
                    },
                }),
            }
        }
    }
}

/// Returns the pods to read: those that were chosen, in the states that were chosen.
///
/// # Errors
/// If there is none, or there are too many.
pub(super) async fn chosen(
    client: &Client,
    object: &DynamicObject,
    choice: &Choice,
) -> Result<Vec<Target>, Error> {
    let (kind, job) = (Kind::of(object), object.name_any());
    let namespace = object.namespace().unwrap_or_default();
    let mut targets = targets(&choice.which, &all_of(kind, object))?;
    let is_of_nodes = kind == Kind::TrainJob && targets != [Target::Launcher];
    if is_of_nodes || !choice.states.is_empty() {
        let pods = describe::pods(client, kind, &namespace, &job).await?;
        as_launcher(&mut targets, &pods);
        let is_chosen =
            |target: &Target| newest(*target, &pods).is_some_and(|pod| is_in(&choice.states, pod));
        targets.retain(|target| choice.states.is_empty() || is_chosen(target));
        if targets.is_empty() {
            return Err(Error::NoPod {
                what: format!("no pod is in state {}", choice.states.join(" or ")),
                advice: Advice::from("see the states of the pods")
                    .with(Action::Describe(kind.job(&namespace, &job))),
            });
        }
    }
    if targets.len() > MAX_PODS {
        return Err(Error::NoPod {
            what: format!("{} pods are too many: at most {MAX_PODS} can be read at once", targets.len()),
            advice: Advice::from("select some Workers").with(Action::Logs {
                job: kind.job(&namespace, &job),
                workers: Some(format!("0-{}", MAX_PODS - 1)),
                follow: false,
                previous: false,
            }),
        });
    }
    Ok(targets)
}

/// Reads the Launcher once where it is one of a TrainJob's nodes, and so one of the Workers, too.
fn as_launcher(targets: &mut Vec<Target>, pods: &[Pod]) {
    let launcher = newest(Target::Launcher, pods).and_then(|launcher| describe::pod_view(launcher).index);
    let Some(worker) = launcher.map(Target::Worker).filter(|worker| targets.contains(worker)) else { return };
    targets.retain(|target| *target != worker);
    if !targets.contains(&Target::Launcher) {
        targets.push(Target::Launcher);
    }
}

/// The newest pod of a target.
pub(super) fn newest(target: Target, pods: &[Pod]) -> Option<&Pod> {
    pods.iter()
        .filter(|pod| Target::of(&describe::pod_view(pod)) == Some(target))
        .max_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// Whether a pod's phase or status is one of these.
fn is_in(states: &[String], pod: &Pod) -> bool {
    let (phase, status) = (semantics::phase(pod), describe::pod_view(pod).state);
    states.iter().any(|state| state.eq_ignore_ascii_case(phase) || state.eq_ignore_ascii_case(&status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_that_do_not_exist_are_named() {
        let all = [Target::Launcher, Target::Worker(0), Target::Worker(1)];
        assert_eq!(targets(&Which::Workers(vec![1]), &all).unwrap(), [Target::Worker(1)]);
        assert_eq!(targets(&Which::All, &all).unwrap().len(), 3);
        let error = targets(&Which::Workers(vec![0, 2]), &all).unwrap_err();
        assert_eq!(error.to_string(), "there is no Worker 2");
        assert_eq!(error.advice(), Some("this job has Workers 0 to 1".into()));
    }

    #[test]
    fn a_job_without_a_launcher_is_led_by_its_master_or_chief_and_else_by_worker_0() {
        let all = |kind: Kind, field: &str, roles: serde_json::Value| {
            let job = serde_json::json!({ "apiVersion": "kubeflow.org/v1", "kind": kind.name(),
                "metadata": { "name": "a" }, "spec": { field: roles } });
            let all = all_of(kind, &serde_json::from_value(job).unwrap());
            all.into_iter().map(Target::part).collect::<Vec<_>>()
        };
        let torch = serde_json::json!({ "Worker": { "replicas": 2 }, "Master": {} });
        assert_eq!(all(Kind::PyTorchJob, "pytorchReplicaSpecs", torch), ["master-0", "worker-0", "worker-1"]);
        let parameters =
            serde_json::json!({ "PS": { "replicas": 2 }, "Worker": { "replicas": 1 }, "Evaluator": {} });
        let parts = all(Kind::TfJob, "tfReplicaSpecs", parameters);
        assert_eq!(parts, ["worker-0", "ps-0", "ps-1", "evaluator-0"]);
        let chief = serde_json::json!({ "PS": {}, "Worker": {}, "Chief": {} });
        assert_eq!(all(Kind::TfJob, "tfReplicaSpecs", chief), ["chief-0", "worker-0", "ps-0"]);
        assert_eq!(all(Kind::TfJob, "tfReplicaSpecs", serde_json::json!({})), [""; 0]);
    }
}
