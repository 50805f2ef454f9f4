//! The steps of a job from its creation to its end: which are done, which one it is at, and who must act where it does
//! not go on by itself.
//!
//! The input is the same [`Situation`] as for [`explain`](crate::explain), and its [`Explanation`]; the output is one
//! [`Step`] for each [`StepName`], in order. Pure. Every interface shows these steps; none computes its own.

use api::{CONDITION_RUNNING, LABEL_JOB_ROLE, MPIJobStatus, WORKER};
use diagnosis::Actor;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use semantics::{has_ended, is_ready};
use serde::Serialize;

use crate::conditions::condition;
use crate::explanation::{Explanation, Situation, Stage};
use crate::kept::Pod;

/// A step, in the order in which a job takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum StepName {
    /// A queue or a suspension lets the job go.
    Queue,
    /// Its pods are created and get nodes.
    Nodes,
    /// Images are pulled, containers start, Workers become ready.
    Start,
    /// The Launcher connects to the Workers.
    Launch,
    /// The program runs.
    Train,
}

impl StepName {
    /// All steps, in order.
    pub const ALL: [StepName; 5] =
        [StepName::Queue, StepName::Nodes, StepName::Start, StepName::Launch, StepName::Train];
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum StepState {
    /// It is over.
    Done,
    /// The job is at this step, and it goes on by itself.
    Active,
    /// The job is at this step, and does not go on before someone acts.
    Blocked,
    /// The job failed at this step.
    Failed,
    /// It is still to come.
    Waiting,
    /// The job ended before it.
    Skipped,
}

/// Who acts next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Mover {
    /// The author of the job must act.
    User,
    /// The administrator of the cluster or its queues must act.
    Administrator,
    /// The queue decides.
    Queue,
    /// The cluster is at work.
    Cluster,
    /// The program runs.
    Program,
}

/// A step of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Which step.
    pub name: StepName,
    /// How far it is.
    pub state: StepState,
    /// Who acts next, if the job is at this step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<Mover>,
    /// What the job waits for, or where it failed; empty unless the job is at this step.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The number of Workers that have this step behind them, if the job is at it and it has Workers to count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers_done: Option<usize>,
    /// When it was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
}

/// Returns the steps of a job, of which one is the current one unless the job has succeeded.
#[must_use]
pub fn steps(situation: &Situation<'_>, explanation: &Explanation) -> Vec<Step> {
    let none = MPIJobStatus::default();
    let status = situation.job.status.as_ref().unwrap_or(&none);
    let current = current(situation, explanation, status);
    let succeeded = explanation.state == Stage::Succeeded;
    let other = |name: StepName| {
        let state = match () {
            () if succeeded || name < current.name => StepState::Done,
            () if explanation.state.is_failure() => StepState::Skipped,
            () => StepState::Waiting,
        };
        let ended = if state == StepState::Done { ended(name, status) } else { None };
        Step { name, state, actor: None, message: String::new(), workers_done: None, ended }
    };
    let of = |name: StepName| {
        if name == current.name && !succeeded { current.clone() } else { other(name) }
    };
    StepName::ALL.into_iter().map(of).collect()
}

/// The step that the job is at.
fn current(situation: &Situation<'_>, explanation: &Explanation, status: &MPIJobStatus) -> Step {
    let workers: Vec<&Pod> = situation.pods.iter().filter(|pod| !is_launcher(pod)).collect();
    let wanted = situation.job.spec.mpi_replica_specs.get(WORKER).and_then(|worker| worker.replicas);
    let wanted = usize::try_from(wanted.unwrap_or(0)).unwrap_or(0);
    let name = match explanation.state {
        Stage::Queued | Stage::Suspended => StepName::Queue,
        Stage::Succeeded | Stage::Running | Stage::Stalled => StepName::Train,
        Stage::Retrying if workers.iter().all(|pod| has_behind(pod, StepName::Start)) => StepName::Launch,
        Stage::FirstOutput => StepName::Launch,
        Stage::Failed | Stage::Cancelled if has_run(status) => StepName::Train,
        _ => unfinished(&workers, wanted),
    };
    let counts =
        matches!(name, StepName::Nodes | StepName::Start) && !explanation.state.is_failure() && wanted > 0;
    let (state, actor) = state_and_actor(explanation, name);
    Step {
        name,
        state,
        actor: Some(actor),
        message: explanation.message.clone(),
        workers_done: counts.then(|| workers.iter().filter(|pod| has_behind(pod, name)).count()),
        ended: None,
    }
}

fn state_and_actor(explanation: &Explanation, name: StepName) -> (StepState, Mover) {
    let person = match explanation.actor {
        Actor::Administrator => Mover::Administrator,
        Actor::User | Actor::Nobody => Mover::User,
    };
    match explanation.state {
        Stage::Failed | Stage::Cancelled => (StepState::Failed, person),
        Stage::Queued if explanation.cause.is_none() => (StepState::Blocked, Mover::Queue),
        // Another try is under way, whatever the last one failed for.
        Stage::Retrying | Stage::Restarting if explanation.actor == Actor::Nobody => {
            (StepState::Active, Mover::Cluster)
        }
        // In the first moments of every job, no operator has picked it up yet.
        Stage::Creating if explanation.cause.is_none() => (StepState::Active, Mover::Cluster),
        _ if explanation.actor != Actor::Nobody || explanation.cause.is_some() => {
            (StepState::Blocked, person)
        }
        _ if name == StepName::Train => (StepState::Active, Mover::Program),
        _ => (StepState::Active, Mover::Cluster),
    }
}

/// Whether the job has run: then it failed at its program.
fn has_run(status: &MPIJobStatus) -> bool {
    let launched = status.startup.as_ref().is_some_and(|startup| startup.launched.is_some());
    launched || condition(status, CONDITION_RUNNING).is_some()
}

fn is_launcher(pod: &Pod) -> bool {
    let role = pod.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_JOB_ROLE));
    role.is_some_and(|role| role == "launcher")
}

/// The first step that not all Workers have behind them.
fn unfinished(workers: &[&Pod], wanted: usize) -> StepName {
    let all = |step| workers.len() >= wanted && workers.iter().all(|pod| has_behind(pod, step));
    if !all(StepName::Nodes) {
        return StepName::Nodes;
    }
    if all(StepName::Start) { StepName::Launch } else { StepName::Start }
}

fn has_behind(pod: &Pod, step: StepName) -> bool {
    match step {
        StepName::Nodes => pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()),
        _ => is_ready(pod) || has_ended(pod),
    }
}

/// When a step of the last start was over, as far as the status says so.
fn ended(name: StepName, status: &MPIJobStatus) -> Option<Timestamp> {
    let startup = status.startup.as_ref();
    let of = |time: Option<&Time>| time.map(|time| time.0);
    match name {
        StepName::Queue => of(startup.and_then(|startup| startup.queued.as_ref())),
        StepName::Nodes => of(startup.and_then(|startup| startup.scheduled.as_ref())),
        StepName::Start => of(startup.and_then(|startup| startup.ready.as_ref())),
        StepName::Launch => of(startup.and_then(|startup| startup.launched.as_ref())),
        StepName::Train => of(status.completion_time.as_ref()),
    }
}

#[cfg(test)]
mod tests {
    use api::MPIJob;
    use serde_json::{Value, json};

    use super::StepState::{Active, Blocked, Done, Failed, Skipped, Waiting};
    use super::*;

    fn job(status: Value, policy: Value) -> MPIJob {
        let mut job = json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": { "name": "pi" },
            "spec": { "runPolicy": policy, "mpiReplicaSpecs": { "Launcher": {}, "Worker": { "replicas": 2 } } },
            "status": status });
        for role in ["Launcher", "Worker"] {
            job["spec"]["mpiReplicaSpecs"][role]["template"] =
                json!({ "spec": { "containers": [{ "name": "main" }] } });
        }
        serde_json::from_value(job).unwrap()
    }

    fn pod(name: &str, role: &str, node: Option<&str>, ready: bool) -> Pod {
        let mut status = json!({ "phase": if ready { "Running" } else { "Pending" }, "conditions": [
            { "type": "Ready", "status": if ready { "True" } else { "False" } },
            { "type": "PodScheduled", "status": if node.is_some() { "True" } else { "False" } }] });
        if ready {
            status["containerStatuses"] = json!([{ "name": "main", "ready": true, "restartCount": 0,
                "state": { "running": { "startedAt": "2026-01-01T00:00:07Z" } } }]);
        }
        serde_json::from_value(json!({ "metadata": { "name": name, "labels": { LABEL_JOB_ROLE: role } },
            "spec": { "nodeName": node, "containers": [{ "name": "main" }] }, "status": status }))
        .unwrap()
    }

    fn of(job: &MPIJob, pods: &[Pod]) -> Vec<Step> {
        let situation = Situation {
            job,
            kind: "MPIJob",
            pods,
            events: &[],
            gpus: None,
            has_printed: None,
            unmapped_images: &[],
            crash_log: None,
            place: None,
        };
        steps(&situation, &crate::explain(&situation))
    }

    fn states(steps: &[Step]) -> Vec<StepState> {
        steps.iter().map(|step| step.state).collect()
    }

    #[test]
    fn a_suspended_or_queued_job_stops_at_the_queue() {
        let mut held =
            job(json!({ "phase": "Pending", "phaseReason": "Suspended" }), json!({ "suspend": true }));
        let found = of(&held, &[]);
        assert_eq!(states(&found), [Blocked, Waiting, Waiting, Waiting, Waiting]);
        assert_eq!(found[0].actor, Some(Mover::User));
        held.metadata.labels = Some([(api::LABEL_QUEUE_NAME.to_owned(), "gpus".to_owned())].into());
        assert_eq!(of(&held, &[])[0].actor, Some(Mover::Queue));
    }

    #[test]
    fn workers_with_a_node_are_counted_and_the_cause_says_who_must_act() {
        let waiting = json!({ "reason": "Unschedulable", "message": "no node has room" });
        let status = json!({ "phase": "Pending", "phaseReason": "Initializing", "waiting": waiting,
            "startup": { "queued": "2026-01-01T00:00:01Z" } });
        let pods = [pod("pi-worker-0", "worker", Some("a"), true), pod("pi-worker-1", "worker", None, false)];
        let found = of(&job(status, json!({})), &pods);
        assert_eq!(states(&found), [Done, Blocked, Waiting, Waiting, Waiting]);
        assert_eq!(found[0].ended, Some("2026-01-01T00:00:01Z".parse().unwrap()));
        assert_eq!((found[1].actor, found[1].workers_done), (Some(Mover::Administrator), Some(1)));
    }

    #[test]
    fn a_starting_job_waits_for_its_workers_and_then_for_the_launch() {
        let starting = job(json!({ "phase": "Pending", "phaseReason": "Initializing" }), json!({}));
        let worker = |index: usize, ready| pod(&format!("pi-worker-{index}"), "worker", Some("a"), ready);
        let found = of(&starting, &[worker(0, true), worker(1, false)]);
        assert_eq!(states(&found), [Done, Done, Active, Waiting, Waiting]);
        assert_eq!((found[2].actor, found[2].workers_done), (Some(Mover::Cluster), Some(1)));
        let ready = [worker(0, true), worker(1, true), pod("pi-launcher-x", "launcher", None, false)];
        assert_eq!(states(&of(&starting, &ready)), [Done, Done, Done, Active, Waiting]);
    }

    #[test]
    fn a_job_that_nobody_has_picked_up_is_left_to_the_cluster() {
        let found = of(&job(json!({}), json!({})), &[]);
        assert_eq!(states(&found), [Done, Active, Waiting, Waiting, Waiting]);
        assert_eq!(found[1].actor, Some(Mover::Cluster));
    }

    #[test]
    fn a_running_job_is_at_its_program_which_may_stall() {
        let running = json!({ "type": "Running", "status": "True" });
        let found = of(&job(json!({ "phase": "Running", "conditions": [running] }), json!({})), &[]);
        assert_eq!(states(&found), [Done, Done, Done, Done, Active]);
        assert_eq!(found[4].actor, Some(Mover::Program));
        let stalled = json!({ "type": "Stalled", "status": "True", "message": "no output for 10 minutes" });
        let found = of(&job(json!({ "phase": "Running", "conditions": [running, stalled] }), json!({})), &[]);
        assert_eq!((found[4].state, found[4].message.as_str()), (Blocked, "no output for 10 minutes"));
    }

    #[test]
    fn a_failed_job_failed_at_the_step_that_it_was_at() {
        let failed = |conditions: Value| {
            let failure = json!({ "reason": "Unschedulable", "message": "no node" });
            job(json!({ "phase": "Failed", "failure": failure, "conditions": conditions }), json!({}))
        };
        let ran = of(&failed(json!([{ "type": "Running", "status": "False" }])), &[]);
        assert_eq!(states(&ran), [Done, Done, Done, Done, Failed]);
        let early = of(&failed(json!([])), &[pod("pi-worker-0", "worker", None, false)]);
        assert_eq!(states(&early), [Done, Failed, Skipped, Skipped, Skipped]);
        assert_eq!(early[1].actor, Some(Mover::Administrator));
        assert_eq!(states(&of(&job(json!({ "phase": "Succeeded" }), json!({})), &[])), [Done; 5]);
    }
}
