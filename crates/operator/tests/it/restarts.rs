//! Gang restarts: whatever failure hits a gang at whatever moment of its start, even if the operator is killed
//! meanwhile. A user's error ends a job at every moment, and so does one failure more than the job allows.

use api::AttemptOutcome;
use futures::future::join_all;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{Api, DeleteParams};
use serde_json::json;

use crate::stage::{Running, Stage, ended, job, running};

/// A node that no longer reports.
const LOST: &str = "lost";

/// How far a job has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// One Worker of two runs, the other waits for a node.
    Pending,
    /// Both Workers run, the Launcher does not.
    Starting,
    /// All run.
    Running,
}

const MOMENTS: [Moment; 3] = [Moment::Pending, Moment::Starting, Moment::Running];

/// The failure that hits the first Worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Somebody kills its container.
    Killed,
    /// Its node is short of a resource.
    Evicted,
    /// Its node no longer reports.
    NodeLost,
    /// Its program ends with an error of its own.
    OwnError,
}

const MISFORTUNES: [Fate; 3] = [Fate::Killed, Fate::Evicted, Fate::NodeLost];

impl Fate {
    fn cause(self) -> &'static str {
        match self {
            Self::Killed | Self::OwnError => "WorkerLost",
            Self::Evicted => "Evicted",
            Self::NodeLost => "NodeLost",
        }
    }

    async fn befall(self, stage: &Stage) {
        let status = match self {
            Self::Killed => ended("main", "Failed", 137),
            Self::OwnError => ended("main", "Failed", 1),
            Self::Evicted => json!({ "phase": "Failed", "reason": "Evicted", "message": "low on memory" }),
            Self::NodeLost => {
                let mut silent = running("main");
                silent["conditions"][1]["status"] = json!("False");
                silent
            }
        };
        stage.set_pod("pi-worker-0", status).await;
    }
}

impl Moment {
    async fn come(self, stage: &Stage) {
        match self {
            Self::Pending => {
                stage.until::<Pod>("pi-worker-1", "came", |_| true).await;
                stage.start_worker("pi", 0).await;
            }
            Self::Starting => {
                stage.start_worker("pi", 0).await;
                stage.start_worker("pi", 1).await;
                stage.until::<Job>("pi-launcher", "came", |_| true).await;
            }
            Self::Running => stage.bring_up("pi", 2).await,
        }
    }
}

/// Returns a stage on which a job with one permitted restart has come this far.
async fn set(stage: &Stage, moment: Moment, fate: Fate) -> (Stage, Running) {
    let name = format!("{moment:?}-{fate:?}").to_lowercase();
    let stage = stage.in_namespace(&name).await;
    let operator = stage.operate();
    let mut job = job("pi", 2, json!({}));
    job["metadata"]["annotations"] = json!({ api::ANNOTATION_MAX_GANG_RESTARTS: "1" });
    if fate == Fate::NodeLost {
        job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["nodeName"] = json!(LOST);
    }
    stage.submit(&job).await;
    moment.come(&stage).await;
    (stage, operator)
}

/// Waits until the second attempt exists and nothing of the first is left.
async fn made_anew(stage: &Stage, moment: Moment) {
    if moment == Moment::Running {
        stage.until_gone::<Job>("pi-launcher").await;
        // As the garbage collector does.
        let at_once = DeleteParams::default().grace_period(0);
        stage.api::<Pod>().delete("pi-launcher-pod", &at_once).await.unwrap();
    }
    for worker in ["pi-worker-0", "pi-worker-1"] {
        stage.until(worker, "was created again", |pod: &Pod| plan::attempt_of(&pod.metadata) == 2).await;
    }
    stage.until("pi-launcher", "was created again", |job: &Job| plan::attempt_of(&job.metadata) == 2).await;
}

async fn stage_with_a_lost_node() -> Stage {
    let stage = Stage::new().await;
    let node = json!({ "metadata": { "name": LOST },
        "status": { "conditions": [{ "type": "Ready", "status": "Unknown", "message": "it stopped posting" }] } });
    let nodes: Api<Node> = Api::all(stage.client.clone());
    stage.share(&nodes, &serde_json::from_value(node).unwrap()).await;
    stage
}

#[tokio::test]
async fn a_misfortune_at_any_moment_restarts_the_gang_though_the_operator_is_killed() {
    let stage = &stage_with_a_lost_node().await;
    let cases = MOMENTS.into_iter().flat_map(|moment| MISFORTUNES.map(|fate| (moment, fate)));
    join_all(cases.map(|(moment, fate)| async move {
        let (stage, operator) = set(stage, moment, fate).await;
        fate.befall(&stage).await;
        // The operator dies while it handles the failure.
        drop(operator);
        let _operator = stage.operate();
        made_anew(&stage, moment).await;
        stage.bring_up("pi", 2).await;
        stage.complete_launcher("pi").await;
        let status = stage.until_true("pi", "Succeeded").await;
        let attempts: Vec<_> = status.attempts.iter().map(|it| (it.outcome, it.reason.as_deref())).collect();
        let expected = [(AttemptOutcome::Failed, Some(fate.cause())), (AttemptOutcome::Succeeded, None)];
        assert_eq!(attempts, expected, "{moment:?} {fate:?}");
        let record: ConfigMap = stage.api().get("pi-attempt-1").await.unwrap();
        assert_eq!(record.data.unwrap()["reason"], fate.cause(), "{moment:?} {fate:?}");
    }))
    .await;
}

#[tokio::test]
async fn a_users_error_restarts_nothing_at_any_moment() {
    let stage = &Stage::new().await;
    join_all(MOMENTS.map(|moment| async move {
        let (stage, _operator) = set(stage, moment, Fate::OwnError).await;
        Fate::OwnError.befall(&stage).await;
        let status = stage.until_true("pi", "Failed").await;
        assert_eq!(status.failure.unwrap().exit_code, Some(1), "{moment:?}");
        let job: api::MPIJob = stage.api().get("pi").await.unwrap();
        assert_eq!(plan::attempt_of(&job.metadata), 1, "{moment:?}");
    }))
    .await;
}

#[tokio::test]
async fn no_misfortune_restarts_a_gang_more_often_than_the_job_allows() {
    let stage = &stage_with_a_lost_node().await;
    join_all(MISFORTUNES.map(|fate| async move {
        let (stage, operator) = set(stage, Moment::Pending, fate).await;
        fate.befall(&stage).await;
        made_anew(&stage, Moment::Pending).await;
        stage.bring_up("pi", 2).await;
        fate.befall(&stage).await;
        drop(operator);
        let _operator = stage.operate();
        let status = stage.until_true("pi", "Failed").await;
        assert_eq!(status.failure.unwrap().reason, fate.cause());
        let outcomes: Vec<_> = status.attempts.iter().map(|it| it.outcome).collect();
        assert_eq!(outcomes, [AttemptOutcome::Failed, AttemptOutcome::Failed], "{fate:?}");
    }))
    .await;
}
