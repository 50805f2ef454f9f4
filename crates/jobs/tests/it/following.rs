//! A job while it runs and after its end: wait, logs, explain. The statuses are those that an operator writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use jobs::logs::kept::{Archive, Kept};
use jobs::logs::pattern::Pattern;
use jobs::logs::{self, Choice, Cursor, Item, Level, Which};
use jobs::progress::{Outcome, Progress};
use jobs::{Class, Kind, delete, explanation, wait};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use plan::Stage as State;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::stage::{Stage, TEAM, manifest, running, terminated};

const KIND: Kind = Kind::MpiJob;
/// The longest wait for something that happens.
const PATIENCE: Duration = Duration::from_secs(60);

fn failed() -> Value {
    json!({ "phase": "Failed", "failure": { "reason": "OutOfMemory", "message": "Worker 0 used too much memory",
        "worker": 0, "pod": "pi-worker-0", "exitCode": 137, "evidence": ["Killed"] } })
}

#[tokio::test]
async fn waiting_reports_every_step_until_the_job_ends() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 1)).await;
    let (report, mut steps) = mpsc::unbounded_channel();
    let report = move |progress: &Progress| report.send(progress.clone()).unwrap();
    let waiting = wait::wait(&stage.client, KIND, TEAM, "pi", Some(PATIENCE), report);
    let operator = async {
        assert_eq!(steps.recv().await, Some(Progress::Accepted));
        stage.pod("pi", "worker", "pi-worker-0", "Running", running()).await;
        assert_eq!(steps.recv().await, Some(Progress::Scheduled { pods: 1, of: 2 }));
        assert_eq!(steps.recv().await, Some(Progress::WorkersReady { ready: 1, of: 1 }));
        stage.pod("pi", "launcher", "pi-launcher-x", "Running", running()).await;
        let launcher = Progress::LauncherRunning { pod: "pi-launcher-x".to_owned() };
        assert_eq!(steps.recv().await, Some(launcher));
        stage.status("pi", json!({ "phase": "Succeeded" })).await;
        assert_eq!(steps.recv().await, Some(Progress::Ended(Outcome::Succeeded)));
    };
    let (ended, ()) = futures::join!(waiting, operator);
    let ended = ended.unwrap();
    assert_eq!((ended.class(), ended.outcome), (None, Outcome::Succeeded));
}

#[tokio::test]
async fn a_failed_job_ends_the_wait_with_its_failure() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 1)).await;
    stage.status("pi", failed()).await;
    stage.pod("pi", "launcher", "pi-launcher-x", "Failed", terminated(3)).await;
    let ended = wait::wait(&stage.client, KIND, TEAM, "pi", Some(PATIENCE), |_| {}).await.unwrap();
    assert_eq!(ended.class(), Some(Class::JobFailed));
    assert!(matches!(&ended.outcome, Outcome::Failed(failure) if failure.reason == "OutOfMemory"));
    let code = wait::launcher_exit_code(&stage.client, KIND, TEAM, "pi").await.unwrap();
    assert_eq!(code, Some(3), "a caller may pass it on");
}

#[tokio::test]
async fn a_deleted_job_ends_the_wait_as_cancelled() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 1)).await;
    let (report, mut steps) = mpsc::unbounded_channel();
    let report = move |progress: &Progress| report.send(progress.clone()).unwrap();
    let waiting = wait::wait(&stage.client, KIND, TEAM, "pi", Some(PATIENCE), report);
    let user = async {
        assert_eq!(steps.recv().await, Some(Progress::Accepted));
        delete::delete(&stage.client, KIND, TEAM, "pi", delete::Manner::default()).await.unwrap();
    };
    let (ended, ()) = futures::join!(waiting, user);
    assert_eq!(ended.unwrap().class(), Some(Class::Cancelled));
}

#[tokio::test]
async fn a_wait_ends_after_its_timeout_and_the_job_goes_on() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 1)).await;
    let briefly = Some(Duration::from_millis(100));
    let error = wait::wait(&stage.client, KIND, TEAM, "pi", briefly, |_| {}).await.unwrap_err();
    assert_eq!(error.class(), Class::StillRunning);
    let error = wait::wait(&stage.client, KIND, TEAM, "tau", Some(PATIENCE), |_| {}).await.unwrap_err();
    assert_eq!(error.class(), Class::NotFound);
}

/// The lines of a reading, as `POD: TEXT`, and its notes.
async fn read(stage: &Stage, choice: Choice) -> Vec<String> {
    let mut logs = logs::logs(&stage.client, KIND, TEAM, "pi", choice).await.unwrap();
    let mut read = Vec::new();
    while let Some(item) = tokio::time::timeout(PATIENCE, logs.next()).await.unwrap() {
        match item.unwrap() {
            Item::Line { pod, text, .. } => read.push(format!("{pod}: {text}")),
            Item::Note(text) => read.push(text),
            Item::Missing { pod, text } => read.push(format!("{pod}: missing: {text}")),
            Item::Waiting { pod, .. } => read.push(format!("waiting for {pod}")),
        }
    }
    read
}

fn grep(pattern: &str) -> logs::sieve::Wanted {
    logs::sieve::Wanted { grep: Pattern::new(pattern, true).ok(), ..Default::default() }
}

#[tokio::test]
async fn logs_are_the_launchers_or_those_of_all_pods_in_the_order_of_their_times() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 2)).await;
    stage.pod("pi", "launcher", "pi-launcher-x", "Succeeded", terminated(0)).await;
    for worker in ["pi-worker-0", "pi-worker-1"] {
        stage.pod("pi", "worker", worker, "Running", running()).await;
    }
    stage.status("pi", json!({ "phase": "Succeeded" })).await;
    stage.output(&[
        ("pi-launcher-x", 1, "starting"),
        ("pi-launcher-x", 4, "done"),
        ("pi-worker-0", 2, "step 0"),
        ("pi-worker-1", 3, "step 0"),
    ]);
    let launchers = ["pi-launcher-x: starting", "pi-launcher-x: done"];
    assert_eq!(read(&stage, Choice::default()).await, launchers);
    assert_eq!(read(&stage, Choice { follow: true, ..Choice::default() }).await, launchers);
    assert_eq!(read(&stage, Choice { tail: Some(1), ..Choice::default() }).await, launchers[1..]);
    let all =
        ["pi-launcher-x: starting", "pi-worker-0: step 0", "pi-worker-1: step 0", "pi-launcher-x: done"];
    assert_eq!(read(&stage, Choice { which: Which::All, ..Choice::default() }).await, all);
    let one = Choice { which: Which::Workers(vec![1]), ..Choice::default() };
    assert_eq!(read(&stage, one).await, ["pi-worker-1: step 0"]);
    let quiet = Choice { which: Which::Workers(vec![1]), wanted: grep("nothing"), ..Choice::default() };
    let why = "no line is tagged with rank 1; start ranks with mpirun --tag-output (Open MPI) or -prepend-rank (MPICH, \
               Intel MPI)";
    assert_eq!(read(&stage, quiet).await, [why]);
}

#[tokio::test]
async fn a_workers_log_is_what_its_ranks_wrote_wherever_it_was_written() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 2)).await;
    stage.pod("pi", "launcher", "pi-launcher-x", "Succeeded", terminated(0)).await;
    stage.pod("pi", "worker", "pi-worker-0", "Running", running()).await;
    stage.status("pi", json!({ "phase": "Succeeded" })).await;
    stage.output(&[
        ("pi-launcher-x", 1, "odh-launch: waiting for pi-worker-0.pi.team.svc (10 s of 600 s): no address"),
        ("pi-launcher-x", 1, "[host:5] plm:rsh: Warning: setpgid(5,5) failed in parent with errno=1"),
        ("pi-launcher-x", 2, "[1,0]<stdout>:step of rank 0"),
        ("pi-launcher-x", 3, "[1,1]<stdout>:step of rank 1"),
        ("pi-launcher-x", 5, "odh-launch: pi-worker-1: authentication failed"),
        ("pi-worker-0", 1, "odh-launch: serving on [::]:7222"),
        ("pi-worker-0", 4, "a warning of a library"),
    ]);
    let of = |worker: i32| Choice { which: Which::Workers(vec![worker]), ..Choice::default() };
    let waits = "the Launcher waits until its Workers answer";
    assert_eq!(
        read(&stage, of(0)).await,
        [waits, "pi-launcher-x: step of rank 0", "pi-worker-0: a warning of a library"]
    );
    // The pod is gone; what its ranks wrote is not.
    assert_eq!(read(&stage, of(1)).await, [waits, "pi-launcher-x: step of rank 1"]);
    let launcher = read(&stage, Choice::default()).await;
    let error = "pi-launcher-x: odh-launch: pi-worker-1: authentication failed";
    assert_eq!(launcher.last().map(String::as_str), Some(error), "an error is no chatter");
    assert_eq!(launcher.len(), 4, "{launcher:?}");
    let agents = Choice { agents: true, ..Choice::default() };
    assert_eq!(read(&stage, agents).await.len(), 5);
    let nobody = Choice { ranks: Some(vec![0, 9]), ..Choice::default() };
    let missing = "no line is tagged with rank 9: the job has slots for ranks 0 to 1";
    assert_eq!(read(&stage, nobody).await, [waits, "pi-launcher-x: step of rank 0", missing]);
}

#[tokio::test]
async fn the_last_lines_of_a_rank_are_counted_among_its_own_lines() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 2)).await;
    stage.pod("pi", "launcher", "pi-launcher-x", "Succeeded", terminated(0)).await;
    stage.status("pi", json!({ "phase": "Succeeded" })).await;
    stage.output(&[
        ("pi-launcher-x", 1, "[1,0]<stdout>:first of rank 0"),
        ("pi-launcher-x", 2, "[1,1]<stdout>:first of rank 1"),
        ("pi-launcher-x", 3, "[1,0]<stdout>:last of rank 0"),
        ("pi-launcher-x", 4, "[1,1]<stdout>:second of rank 1"),
        ("pi-launcher-x", 5, "[1,1]<stdout>:last of rank 1"),
    ]);
    for follow in [false, true] {
        let of_rank = |rank: u32, tail: i64| Choice {
            ranks: Some(vec![rank]),
            tail: Some(tail),
            follow,
            ..Choice::default()
        };
        assert_eq!(read(&stage, of_rank(0, 1)).await, ["pi-launcher-x: last of rank 0"], "{follow}");
        let two = ["pi-launcher-x: second of rank 1", "pi-launcher-x: last of rank 1"];
        assert_eq!(read(&stage, of_rank(1, 2)).await, two, "{follow}");
        let worker = Choice { which: Which::Workers(vec![0]), tail: Some(1), follow, ..Choice::default() };
        assert_eq!(read(&stage, worker).await, ["pi-launcher-x: last of rank 0"], "{follow}");
        let nobody = read(&stage, of_rank(9, 1)).await;
        assert_eq!(nobody, ["no line is tagged with rank 9: the job has slots for ranks 0 to 1"], "{follow}");
    }
}

#[tokio::test]
async fn a_reading_goes_on_at_the_places_of_an_earlier_one() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 2)).await;
    stage.pod("pi", "launcher", "pi-launcher-x", "Succeeded", terminated(0)).await;
    for worker in ["pi-worker-0", "pi-worker-1"] {
        stage.pod("pi", "worker", worker, "Running", running()).await;
    }
    stage.status("pi", json!({ "phase": "Succeeded" })).await;
    stage.output(&[
        ("pi-launcher-x", 1, "a"),
        ("pi-launcher-x", 1, "a"),
        ("pi-launcher-x", 3, "b"),
        ("pi-worker-0", 1, "c"),
        ("pi-worker-0", 1, "c"),
        ("pi-worker-0", 1, "d"),
        ("pi-worker-1", 1, "c"),
        ("pi-worker-1", 2, "odh-node: up to 60 MiB of output were removed here"),
        ("pi-worker-1", 2, "e"),
    ]);
    let all = Choice { which: Which::All, ..Choice::default() };
    let whole = read(&stage, all.clone()).await;
    assert_eq!(whole.len(), 9);
    let missing = "pi-worker-1: missing: up to 60 MiB of output were removed here";
    assert!(whole.iter().any(|line| line == missing), "{whole:?}");
    let lines: Vec<String> = whole.into_iter().filter(|line| !line.contains("missing")).collect();
    for cut in 1..=lines.len() {
        let mut first = logs::logs(&stage.client, KIND, TEAM, "pi", all.clone()).await.unwrap();
        let (mut got, mut cursors) = (Vec::new(), BTreeMap::new());
        while got.len() < cut {
            if let Item::Line { pod, text, cursor, .. } = first.next().await.unwrap().unwrap() {
                let cursor: Cursor = cursor.unwrap().to_string().parse().unwrap();
                cursors.insert(cursor.part().to_owned(), cursor);
                got.push(format!("{pod}: {text}"));
            }
        }
        // A tail was for the first request.
        let rest = read(&stage, Choice { cursors, tail: Some(1), ..all.clone() }).await;
        got.extend(rest.into_iter().filter(|line| !line.contains("missing")));
        let (mut got, mut all) = (got, lines.clone());
        got.sort();
        all.sort();
        assert_eq!(got, all, "cut after {cut} lines");
    }
}

#[tokio::test]
async fn a_reading_that_goes_on_after_lines_were_removed_says_so() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 1)).await;
    stage.pod("pi", "launcher", "pi-launcher-x", "Succeeded", terminated(0)).await;
    stage.status("pi", json!({ "phase": "Succeeded" })).await;
    stage.output(&[("pi-launcher-x", 1, "a"), ("pi-launcher-x", 3, "b")]);
    let mut first = logs::logs(&stage.client, KIND, TEAM, "pi", Choice::default()).await.unwrap();
    let mut cursors = BTreeMap::new();
    while let Some(item) = first.next().await {
        if let Item::Line { cursor: Some(cursor), .. } = item.unwrap() {
            cursors.insert(cursor.part().to_owned(), cursor);
        }
    }
    // The file that had the last line was rotated away.
    stage.output(&[("pi-launcher-x", 60, "c")]);
    let rest = read(&stage, Choice { cursors, ..Choice::default() }).await;
    let missing =
        "pi-launcher-x: missing: lines are missing here: they were removed before they could be read";
    assert_eq!(rest, [missing, "pi-launcher-x: c"]);
}

#[tokio::test]
async fn a_log_that_is_followed_says_once_what_the_job_waits_for() {
    for (reason, message) in
        [("ImagePull", "the image x:1 does not exist"), ("QuotaExceeded", "the queue a admits it later")]
    {
        let stage = Stage::with_mpijobs().await;
        stage.submit(&manifest("pi", 1)).await;
        let waiting = |seconds: i64| {
            json!({ "phase": "Pending", "phaseReason": reason, "waiting": { "reason": reason,
                "message": message, "since": Timestamp::from_second(seconds).unwrap() } })
        };
        stage.status("pi", waiting(1)).await;
        let pulls = json!({ "waiting": { "reason": "ContainerCreating" } });
        stage.pod("pi", "worker", "pi-worker-0", "Pending", pulls).await;
        let choice = Choice { follow: true, ..Choice::default() };
        let mut logs = logs::logs(&stage.client, KIND, TEAM, "pi", choice).await.unwrap();
        let note = tokio::time::timeout(PATIENCE, logs.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(note, Item::Note(format!("{reason}: {message}")));
        stage.status("pi", waiting(2)).await;
        stage.output(&[("pi-launcher-x", 5, "a")]);
        stage.pod("pi", "launcher", "pi-launcher-x", "Succeeded", terminated(0)).await;
        stage.status("pi", json!({ "phase": "Succeeded" })).await;
        let mut rest = Vec::new();
        while let Some(item) = tokio::time::timeout(PATIENCE, logs.next()).await.unwrap() {
            rest.push(item.unwrap());
        }
        let notes: Vec<_> = rest.iter().filter(|item| matches!(item, Item::Note(_))).collect();
        assert!(notes.is_empty(), "{notes:?}");
        assert!(matches!(rest.last(), Some(Item::Line { text, .. }) if text == "a"), "{rest:?}");
    }
}

/// Keeps one line of each part but Worker 1.
struct OneLine;

impl Archive for OneLine {
    fn of<'a>(&'a self, parts: &'a BTreeSet<String>) -> BoxFuture<'a, Result<Vec<Kept>, jobs::Error>> {
        let kept = parts.iter().filter(|part| *part != "worker-1").map(|part| Kept {
            part: part.clone(),
            pod: format!("pi-{part}"),
            lines: stream::iter([Ok((Timestamp::UNIX_EPOCH, "kept".to_owned()))]).boxed(),
        });
        let kept = kept.collect();
        async { Ok(kept) }.boxed()
    }
}

#[tokio::test]
async fn an_archive_is_read_in_place_of_pods_that_are_gone_or_go_just_then() {
    let workers = |workers: &[i32]| Choice { which: Which::Workers(workers.to_vec()), ..Choice::default() };
    for (follow, is_there) in [(false, true), (false, false), (true, true), (true, false)] {
        let stage = Stage::with_mpijobs().await;
        stage.submit(&manifest("pi", 2)).await;
        for worker in ["pi-worker-0", "pi-worker-1"].into_iter().filter(|_| is_there) {
            stage.pod("pi", "worker", worker, "Succeeded", terminated(0)).await;
        }
        stage.status("pi", json!({ "phase": "Succeeded" })).await;
        let client = stage.client_without_output();
        let read = async |choice: Choice| {
            let (choice, archive) = (Choice { follow, ..choice }, Arc::new(OneLine) as Arc<dyn Archive>);
            let mut logs = logs::logs_with(&client, (KIND, TEAM, "pi"), choice, Some(archive)).await?;
            loop {
                // The Launcher's line has no tag.
                match tokio::time::timeout(PATIENCE, logs.next()).await.unwrap().transpose()? {
                    Some(Item::Note(note)) => assert!(note.starts_with("no line is tagged"), "{note}"),
                    item => return Ok::<_, jobs::Error>(item),
                }
            }
        };
        let kept = read(workers(&[0])).await.unwrap();
        assert!(
            matches!(&kept, Some(Item::Line { pod, text, .. }) if &**pod == "pi-worker-0" && text == "kept"),
            "{kept:?}"
        );
        // Of Worker 1 nothing is kept, but of the Launcher, where its ranks may have written.
        match read(workers(&[1])).await {
            Ok(nothing) => assert!(nothing.is_none(), "{nothing:?}"),
            Err(error) => assert!(!follow && is_there && error.class() == Class::NotFound, "{error}"),
        }
    }
}

#[tokio::test]
async fn logs_are_chosen_by_level_rank_and_state_and_folded() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 2)).await;
    stage.pod("pi", "launcher", "pi-launcher-x", "Failed", terminated(1)).await;
    stage.pod("pi", "worker", "pi-worker-0", "Running", running()).await;
    stage.pod("pi", "worker", "pi-worker-1", "Failed", terminated(1)).await;
    stage.status("pi", json!({ "phase": "Failed" })).await;
    stage.output(&[
        ("pi-launcher-x", 1, "[1,0]<stdout>:INFO:root:starting"),
        ("pi-launcher-x", 1, "[1,1]<stdout>:INFO:root:starting"),
        ("pi-launcher-x", 2, "[1,1]<stderr>:Traceback (most recent call last):"),
        ("pi-launcher-x", 2, "[1,0]<stdout>:epoch 1"),
        ("pi-launcher-x", 2, "[1,1]<stderr>:  File \"train.py\", line 3"),
        ("pi-worker-0", 3, "ready"),
        ("pi-worker-1", 3, "ready"),
    ]);
    let errors = logs::sieve::Wanted { level: Some(Level::Error), ..Default::default() };
    let choice = Choice { wanted: errors, split: true, ..Choice::default() };
    let traceback = ["Traceback (most recent call last):", "  File \"train.py\", line 3"];
    assert_eq!(read(&stage, choice).await, traceback.map(|line| format!("pi-launcher-x: {line}")));
    let failed =
        Choice { which: Which::All, states: vec!["failed".to_owned()], tail: Some(1), ..Choice::default() };
    assert_eq!(
        read(&stage, failed).await,
        ["pi-launcher-x:   File \"train.py\", line 3", "pi-worker-1: ready"]
    );
    let none = Choice { states: vec!["Pending".to_owned()], ..Choice::default() };
    let error = logs::logs(&stage.client, KIND, TEAM, "pi", none).await.err().unwrap();
    assert_eq!((error.class(), error.to_string().as_str()), (Class::NotFound, "no pod is in state Pending"));

    let fold = Choice { which: Which::All, split: true, fold: true, ..Choice::default() };
    let mut folded = logs::logs(&stage.client, KIND, TEAM, "pi", fold).await.unwrap();
    let mut counts = Vec::new();
    while let Some(item) = tokio::time::timeout(PATIENCE, folded.next()).await.unwrap() {
        let Item::Line { also, text, .. } = item.unwrap() else { panic!("only lines") };
        counts.push((text, also.len()));
    }
    let counts: Vec<(&str, usize)> = counts.iter().map(|(text, others)| (text.as_str(), *others)).collect();
    let [trace, file] = traceback;
    assert_eq!(counts, [("INFO:root:starting", 1), (trace, 0), ("epoch 1", 0), (file, 0), ("ready", 1)]);
}

/// Very many lines of very many Workers, each line tagged with its rank and half of them alike.
const SOURCES: usize = 100;
const LINES: usize = 50;

#[tokio::test]
async fn lines_of_a_hundred_pods_pass_the_whole_pipe_in_order() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", i32::try_from(SOURCES).unwrap())).await;
    let names: Vec<String> = (0..SOURCES).map(|worker| format!("pi-worker-{worker}")).collect();
    for name in &names {
        stage.pod("pi", "worker", name, "Running", running()).await;
    }
    stage.tagged_output(LINES);
    let all: Vec<i32> = (0..i32::try_from(SOURCES).unwrap()).collect();
    let wanted = logs::sieve::Wanted { exclude: Pattern::new("secret", true).ok(), ..Default::default() };
    let choice = Choice { which: Which::Workers(all), split: true, fold: true, wanted, ..Choice::default() };
    let mut read = logs::logs(&stage.client, KIND, TEAM, "pi", choice).await.unwrap();
    let (mut lines, mut shown, mut last) = (0, 0, None);
    while let Some(item) = tokio::time::timeout(PATIENCE, read.next()).await.unwrap() {
        let Item::Line { at, also, .. } = item.unwrap() else { panic!("only lines") };
        assert!(last <= at, "in order");
        last = at;
        lines += 1 + also.len();
        shown += 1;
    }
    assert_eq!(lines, SOURCES * LINES);
    assert!(shown < lines, "those alike are folded");
}

#[tokio::test]
async fn logs_of_a_pod_that_does_not_exist_are_an_error() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 2)).await;
    for which in [Which::Launcher, Which::Workers(vec![0]), Which::Workers(vec![2])] {
        let choice = Choice { which, ..Choice::default() };
        let error = logs::logs(&stage.client, KIND, TEAM, "pi", choice).await.err().unwrap();
        assert_eq!(error.class(), Class::NotFound, "{error}");
    }
}

#[tokio::test]
async fn the_log_of_a_pod_that_is_not_created_yet_says_what_its_job_waits_for() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 1)).await;
    let said = async || {
        let choice = Choice { which: Which::Launcher, ..Choice::default() };
        logs::logs(&stage.client, KIND, TEAM, "pi", choice).await.err().unwrap().to_string()
    };
    let waits = "pi-launcher has no output yet: it waits for its job, which is Pending";
    assert_eq!(said().await, format!("{waits}: its pods are not created yet"));
    let pull = json!({ "waiting": { "reason": "ImagePullBackOff", "message": "no such tag" } });
    stage.pod("pi", "worker", "pi-worker-0", "Pending", pull).await;
    assert!(said().await.starts_with(&format!("{waits}: pi-worker-0 waits for ")), "{}", said().await);
    let found = json!({ "reason": "ImagePull", "message": "image train:1 cannot be pulled" });
    stage.status("pi", json!({ "phase": "Pending", "phaseReason": "ImagePull", "waiting": found })).await;
    assert_eq!(said().await, format!("{waits} (ImagePull): image train:1 cannot be pulled"));
}

#[tokio::test]
async fn a_job_is_explained_by_its_status_its_pods_and_their_output() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 1)).await;
    let explain = async || explanation::explain_job(&stage.client, KIND, TEAM, "pi").await.unwrap();
    assert_eq!(explain().await.state, State::Creating);

    jobs::suspension::set(&stage.client, KIND, TEAM, "pi", true).await.unwrap();
    assert_eq!(explain().await.state, State::Suspended);
    jobs::suspension::set(&stage.client, KIND, TEAM, "pi", false).await.unwrap();

    stage.pod("pi", "worker", "pi-worker-0", "Running", running()).await;
    stage.status("pi", json!({ "phase": "Pending" })).await;
    assert_eq!(explain().await.state, State::Launching);
    stage.pod("pi", "launcher", "pi-launcher-x", "Running", running()).await;
    stage.status("pi", json!({ "phase": "Running" })).await;
    stage.output(&[]);
    assert_eq!(explain().await.state, State::FirstOutput);
    stage.output(&[("pi-launcher-x", 1, "epoch 1")]);
    assert_eq!(explain().await.state, State::Running);

    stage.status("pi", failed()).await;
    let explained = explain().await;
    assert_eq!((explained.state, explained.cause.as_deref()), (State::Failed, Some("OutOfMemory")));
    assert_eq!(explained.message, "Worker 0 used too much memory");
}

/// Says that the Launcher's container was started again, and in which state it is now.
async fn start_again(stage: &Stage, state: Value) {
    let status = json!({ "containerStatuses": [{ "name": "main", "image": "i", "imageID": "", "ready": false,
        "restartCount": 3, "state": state, "lastState": terminated(3) }] });
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), TEAM);
    let patch = Patch::Merge(json!({ "status": status }));
    pods.patch_status("pi-launcher-x", &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test]
async fn a_container_that_is_started_again_is_explained_by_its_last_run() {
    let stage = Stage::with_mpijobs().await;
    stage.submit(&manifest("pi", 1)).await;
    stage.pod("pi", "worker", "pi-worker-0", "Running", running()).await;
    stage.pod("pi", "launcher", "pi-launcher-x", "Running", terminated(3)).await;
    stage.status("pi", json!({ "phase": "Running" })).await;
    stage.output(&[("pi-launcher-x", 1, "python: can't open file '/data/train.py': [Errno 2] No such file")]);
    let message = "back-off 40s restarting failed container=main";
    let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff", "message": message } });
    start_again(&stage, waiting).await;
    let found = explanation::explain_job(&stage.client, KIND, TEAM, "pi").await.unwrap();
    assert_eq!((found.state, found.cause.as_deref()), (State::Retrying, Some("ExecutableNotFound")));
    assert!(found.message.contains("/data/train.py"), "{}", found.message);
    assert!(found.message.contains("has run 4 times and is started again"), "{}", found.message);
    assert_eq!(found.evidence[0], "pod pi-launcher-x: exit code 3");
    assert_eq!(found.last_lines.len(), 1, "{:?}", found.last_lines);
    stage.output(&[("pi-launcher-x", 1, "epoch 1")]);
    let found = explanation::explain_job(&stage.client, KIND, TEAM, "pi").await.unwrap();
    let advice = found.advice.unwrap().text;
    assert!(!advice.contains("sshd"), "nothing says so: {advice}");
}

#[tokio::test]
async fn the_logs_of_a_failed_launcher_that_was_started_again_are_those_of_the_run_that_failed() {
    let stage = Stage::with_mpijobs().await;
    let job = stage.submit(&manifest("pi", 1)).await.remove(0);
    stage.pod("pi", "launcher", "pi-launcher-x", "Running", running()).await;
    start_again(&stage, running()).await;
    stage.status("pi", failed()).await;
    stage.output(&[]);
    let owner =
        json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "pi", "uid": job.uid() });
    let record = json!({ "metadata": { "name": plan::record_name("pi", 1), "ownerReferences": [owner] },
        "data": { "launcher.log": "no data\n" } });
    let record: ConfigMap = serde_json::from_value(record).unwrap();
    let records: Api<ConfigMap> = Api::namespaced(stage.client.clone(), TEAM);
    records.create(&PostParams::default(), &record).await.unwrap();
    assert_eq!(texts(&stage, KIND, "pi", Which::Launcher).await, ["no data"]);
}

/// The lines that a choice selects of a job, in order.
async fn texts(stage: &Stage, kind: Kind, job: &str, which: Which) -> Vec<String> {
    let choice = Choice { which, ..Choice::default() };
    let mut lines = logs::logs(&stage.client, kind, TEAM, job, choice).await.unwrap();
    let mut texts = Vec::new();
    while let Some(item) = lines.next().await {
        if let Item::Line { text, .. } = item.unwrap() {
            texts.push(text);
        }
    }
    texts
}

#[tokio::test]
async fn the_master_or_the_first_worker_takes_the_launchers_place_where_there_is_none() {
    let stage = Stage::new().await;
    stage.define("kubeflow.org/v1", "PyTorchJob", "pytorchjobs", "Namespaced").await;
    stage.define("kubeflow.org/v1", "TFJob", "tfjobs", "Namespaced").await;
    stage.output(&[
        ("net-master-0", 1, "master begins"),
        ("net-master-0", 4, "master ends"),
        ("net-worker-0", 2, "worker 0"),
        ("net-worker-1", 3, "worker 1"),
        ("words-worker-0", 1, "worker"),
        ("words-ps-0", 2, "parameters"),
    ]);
    let job =
        |name: &str, spec: Value| json!({ "metadata": { "name": name, "namespace": TEAM }, "spec": spec });
    let torch = json!({ "pytorchReplicaSpecs": { "Worker": { "replicas": 2 }, "Master": {} } });
    stage.create("kubeflow.org/v1", "PyTorchJob", "pytorchjobs", job("net", torch)).await;
    let parameters = json!({ "tfReplicaSpecs": { "PS": {}, "Worker": {} } });
    stage.create("kubeflow.org/v1", "TFJob", "tfjobs", job("words", parameters)).await;
    for (job, replica, index) in [
        ("net", "master", 0),
        ("net", "worker", 0),
        ("net", "worker", 1),
        ("words", "worker", 0),
        ("words", "ps", 0),
    ] {
        stage.replica(job, replica, index).await;
    }
    let torch = async |which| texts(&stage, Kind::PyTorchJob, "net", which).await;
    assert_eq!(torch(Which::Launcher).await, ["master begins", "master ends"]);
    assert_eq!(torch(Which::Workers(vec![1])).await, ["worker 1"]);
    assert_eq!(torch(Which::All).await, ["master begins", "worker 0", "worker 1", "master ends"]);
    let choice = Choice { which: Which::Workers(vec![2]), ..Choice::default() };
    let error = logs::logs(&stage.client, Kind::PyTorchJob, TEAM, "net", choice).await.err().unwrap();
    assert_eq!(error.to_string(), "there is no Worker 2");
    let words = async |which| texts(&stage, Kind::TfJob, "words", which).await;
    assert_eq!(words(Which::Launcher).await, ["worker"]);
    assert_eq!(words(Which::All).await, ["worker", "parameters"]);
}
