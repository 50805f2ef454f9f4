//! `describe`: everything known about a job, the failure first.

use std::time::Duration;

use diagnosis::Cause;
use jiff::Timestamp;
use jobs::Kind;
use jobs::alike::{Alike, each};
use jobs::describe::{Description, EventView, PodView, without_empty_part};
use jobs::view::{self, Reported};
use serde_json::Value;

use super::rows::state;
use super::several;
use crate::arguments::{Describe, Global, Output};
use crate::connect::connect;
use crate::console::{BAD, CAREFUL, Console, GOOD, STRONG, styled};
use crate::failure::Failure;
use crate::shown::ago;
use crate::{advice, object, table};

/// `odh training describe mpijob NAME`
pub async fn run(console: &Console, global: &Global, describe: &Describe) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let (client, namespace) = (&connection.client, &connection.namespace);
    let (mut texts, mut values) = (Vec::new(), Vec::new());
    let mut each = several::Each::default();
    for (kind, name) in several::many(console, &connection, &describe.several).await? {
        let found = match jobs::detail::describe(client, kind, namespace, &name).await {
            Ok(found) => found,
            Err(error) => {
                each.failed(console, &error.into());
                continue;
            }
        };
        for unread in &found.unread {
            console.warn(&format!("could not read {unread}"));
        }
        match describe.output {
            Output::Json | Output::Yaml | Output::Template(_) => {
                let pods = jobs::describe::pods(client, kind, namespace, &name).await.unwrap_or_default();
                values.push(object::value(&found.object));
                values.extend(pods.iter().filter_map(|pod| typed(pod, "v1", "Pod")));
            }
            Output::Name => texts.push(object::name(&found.object) + "\n"),
            Output::Table => texts.push(text(&found, false, Timestamp::now())),
            Output::Wide => texts.push(text(&found, true, Timestamp::now())),
        }
    }
    if describe.output.shows_objects() && !values.is_empty() {
        console.data(&object::text(&object::together(values, true), describe.output)?)?;
    }
    let between = if describe.output == Output::Name { "" } else { "\n\n" };
    console.data(&texts.join(between))?;
    Ok(each.ending(0))
}

/// Adds kind and version, which objects from a typed list lack.
fn typed(object: &impl serde::Serialize, version: &str, kind: &str) -> Option<serde_json::Value> {
    let mut value = serde_json::to_value(object).ok()?;
    let fields = value.as_object_mut()?;
    fields.insert("apiVersion".to_owned(), version.into());
    fields.insert("kind".to_owned(), kind.into());
    Some(value)
}

/// Returns the description for people. Pure.
pub fn text(found: &Description, wide: bool, now: Timestamp) -> String {
    let mut text = table::fields(&head(found, now));
    if let Some(failure) = failure(found) {
        text.push_str(&section("Failure", &failure));
    } else if let Some(problem) = problem(found) {
        text.push_str(&section("Problem", &problem));
    }
    if !found.warnings.is_empty() {
        text.push_str(&section("Warnings", &found.warnings.join("\n")));
    }
    if !found.last_lines.is_empty() {
        text.push_str(&section("Last lines of its output", &found.last_lines.join("\n")));
    }
    if !found.pods.is_empty() {
        let shown = if wide { each(&found.pods) } else { found.pods_by_state() };
        text.push_str(&section("Pods", &pods(&shown, wide, now)));
    }
    let waiting: String = found
        .waiting()
        .iter()
        .filter_map(|pod| {
            let word = if pod.others == 0 { "waits" } else { "wait" };
            Some(format!("{} {word} for {}\n", pod.name(&pod.first.name), pod.first.waits_for.as_ref()?))
        })
        .collect();
    if !waiting.is_empty() {
        text.push_str(&section("Waiting", &waiting));
    }
    let conditions = conditions(found, now);
    if !conditions.is_empty() {
        text.push_str(&section("Conditions", &conditions));
    }
    text.push_str(&section("Events", &events(found, wide, now)));
    text
}

fn events(found: &Description, wide: bool, now: Timestamp) -> String {
    if found.events.is_empty() {
        return "none\n".to_owned();
    }
    let mut text = events_table(&found.events, wide, now);
    if found.earlier_events > 0 {
        let row = &found.row;
        let (kind, name, namespace) = (row.kind.word(), &row.name, &row.namespace);
        let earlier = found.earlier_events;
        text.push_str(&format!("{earlier} earlier: odh training events {kind} {name} -n {namespace}\n"));
    }
    text
}

fn section(title: &str, body: &str) -> String {
    let body: String = body.lines().map(|line| format!("  {line}\n")).collect();
    format!("\n{}\n{body}", styled(STRONG, title))
}

fn head(found: &Description, now: Timestamp) -> Vec<(&'static str, String)> {
    let row = &found.row;
    let ranks = row.workers.of * row.slots_per_worker;
    let slots = if row.slots_per_worker == 1 { "slot" } else { "slots" };
    let of_ranks = if ranks == 1 { "rank" } else { "ranks" };
    // The Workers of a job that has ended may be cleaned up.
    let ready = match row.has_ended() {
        true => row.workers.of.to_string(),
        false => format!("{} of {} ready", row.workers.running, row.workers.of),
    };
    let mut fields = vec![
        ("Name", row.name.clone()),
        ("Namespace", row.namespace.clone()),
        ("State", state(row, false)),
        ("Workers", format!("{ready}, {} {slots} each, {ranks} {of_ranks}", row.slots_per_worker)),
        ("MPI", row.mpi.clone()),
        ("Image", row.image.clone()),
    ];
    fields.extend(jobs::runtime::named(&found.object).map(|runtime| ("Runtime", runtime)));
    if let Some(command) = command(found) {
        fields.push(("Command", command));
    }
    if let Some(created) = row.created {
        fields.push(("Created", format!("{created} ({} ago)", ago(row.age(now)))));
    }
    if let Some(runtime) = row.runtime(now) {
        let word = if row.has_ended() { "Ran for" } else { "Running for" };
        fields.push((word, view::duration(runtime)));
    }
    if let Some(reported) = &row.progress {
        fields.push(("Progress", progress(reported, row.has_ended(), now)));
    }
    fields
}

/// What the training program has reported, e.g. `40 %, 1m30s left, loss 0.25`.
fn progress(reported: &Reported, has_ended: bool, now: Timestamp) -> String {
    let percent = reported.percent.map(|percent| format!("{percent} %"));
    let seconds = reported.remaining_seconds(now).filter(|_| !has_ended);
    let left = seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
    let left = left.map(|left| format!("{} left", view::duration(left)));
    let metrics = reported.metrics.iter().map(|(name, value)| format!("{name} {value}"));
    percent.into_iter().chain(left).chain(metrics).collect::<Vec<_>>().join(", ")
}

/// The words of the command that the Launcher runs; a TrainJob may leave it to its runtime.
fn command_words(found: &Description) -> Vec<String> {
    if found.row.kind == Kind::TrainJob {
        let trainer = &found.object.data["spec"]["trainer"];
        let lists = [&trainer["command"], &trainer["args"]].into_iter().filter_map(Value::as_array);
        return lists.flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    }
    let launcher = found.spec.mpi_replica_specs.get(api::LAUNCHER);
    let template = launcher.and_then(|launcher| launcher.template.spec.as_ref());
    let Some(container) = template.and_then(|template| template.containers.first()) else {
        return Vec::new();
    };
    container.command.iter().flatten().chain(container.args.iter().flatten()).cloned().collect()
}

fn command(found: &Description) -> Option<String> {
    let quoted: Vec<String> = command_words(found)
        .iter()
        .map(|word| match word.lines().count() {
            // A script, of which the first line says enough; the whole is in the YAML.
            lines @ 2.. => {
                let first = word.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
                format!("'{} …' ({lines} lines)", first.trim().replace('\'', "'\\''"))
            }
            _ => match word.is_empty()
                || word.contains(|c: char| c.is_whitespace() || "\"'$&|;<>()*".contains(c))
            {
                true => format!("'{}'", word.replace('\'', "'\\''")),
                false => word.clone(),
            },
        })
        .collect();
    Some(quoted.join(" ")).filter(|line| !line.is_empty())
}

fn failure(found: &Description) -> Option<String> {
    let failure = found.status.failure.as_ref()?;
    let mut fields = vec![("Reason", styled(BAD, &failure.reason)), ("Message", failure.message.clone())];
    let place = match (failure.worker, &failure.pod) {
        (Some(worker), Some(pod)) => Some(format!("Worker {worker} ({pod})")),
        (Some(worker), None) => Some(format!("Worker {worker}")),
        (None, Some(pod)) => Some(pod.clone()),
        (None, None) => None,
    };
    fields.extend(place.map(|place| ("Where", place)));
    fields.extend(failure.exit_code.map(|code| ("Exit code", exit_code(code))));
    let suggestion = failure.suggestion.as_deref().map(advice::with_flags);
    fields.extend(suggestion.map(|suggestion| ("What to do", suggestion)));
    let reason = &failure.reason;
    fields.extend(failure.link.as_ref().map(|_| ("Read more", format!("odh help causes {reason}"))));
    Some(table::fields(&fields))
}

/// What keeps a job that has not ended from going on: what its status waits for, a stall, or the failure of the last
/// attempt.
fn problem(found: &Description) -> Option<String> {
    if found.row.has_ended() {
        return None;
    }
    let holds = |kind: &str| {
        found.status.conditions.iter().find(|condition| condition.type_ == kind && condition.status == "True")
    };
    let (reason, message, suggestion) = if let Some(waiting) = &found.status.waiting {
        (waiting.reason.clone(), waiting.message.clone(), waiting.suggestion.clone())
    } else if let Some(stalled) = holds(api::CONDITION_STALLED) {
        let cause = stalled.reason.as_deref().and_then(Cause::of_word);
        let advice = cause.map(|cause| cause.texts().suggestion.to_owned());
        (stalled.reason.clone().unwrap_or_default(), stalled.message.clone().unwrap_or_default(), advice)
    } else if let Some(restarting) = holds(api::CONDITION_RESTARTING) {
        let reason = found.status.attempts.iter().rev().find_map(|attempt| attempt.reason.clone());
        let reason = reason.unwrap_or_default();
        (reason, restarting.message.clone().unwrap_or_default(), None)
    } else {
        return None;
    };
    let mut fields = vec![("Reason", styled(CAREFUL, &reason)), ("Message", message)];
    fields.extend(suggestion.map(|suggestion| ("What to do", advice::with_flags(&suggestion))));
    fields.extend(Cause::of_word(&reason).map(|_| ("Read more", format!("odh help causes {reason}"))));
    Some(table::fields(&fields))
}

/// Formats an exit code, with its signal if it has one (128 + signal, as in shells).
pub fn exit_code(code: i32) -> String {
    let signal = match code - 128 {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return code.to_string(),
    };
    format!("{code} ({signal})")
}

fn pods(pods: &[Alike<&PodView>], wide: bool, now: Timestamp) -> String {
    let mut headings = vec!["POD", "STATE", "READY", "EXIT", "RESTARTS", "NODE"];
    // Only the embedded cluster has isolation modes.
    let modes = pods.iter().any(|pod| pod.first.mode.is_some());
    if modes {
        headings.push("MODE");
    }
    if wide {
        headings.push("AGE");
    }
    let rows: Vec<Vec<String>> = pods
        .iter()
        .map(|alike| {
            let pod = alike.first;
            let dash = || "-".to_owned();
            let style = match pod.state.as_str() {
                "Running" | "Completed" => GOOD,
                "Pending" | "Unschedulable" | "ContainerCreating" | "Terminating" => CAREFUL,
                other if other.starts_with("Init:") => CAREFUL,
                _ => BAD,
            };
            let mut cells = vec![
                alike.name(&pod.name),
                styled(style, &pod.state),
                if pod.ready { "yes" } else { "no" }.to_owned(),
                pod.exit_code.map_or_else(dash, |code| code.to_string()),
                pod.restarts.to_string(),
                pod.node.clone().unwrap_or_else(dash),
            ];
            if modes {
                cells.push(pod.mode.clone().unwrap_or_else(dash));
            }
            if wide {
                let age =
                    pod.created.and_then(|created| u64::try_from(now.as_second() - created.as_second()).ok());
                cells.push(ago(age.map(std::time::Duration::from_secs)));
            }
            cells
        })
        .collect();
    table::table(&headings, &rows)
}

fn conditions(found: &Description, now: Timestamp) -> String {
    let conditions = &found.status.conditions;
    if conditions.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = conditions
        .iter()
        .map(|condition| {
            let since = condition.last_transition_time.as_ref().map(|time| time.0);
            vec![
                condition.type_.clone(),
                condition.status.clone(),
                elapsed(since, now),
                without_empty_part(condition.reason.as_deref()).to_owned(),
                without_empty_part(condition.message.as_deref()).to_owned(),
            ]
        })
        .collect();
    table::wrapped(&["TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"], &rows, columns_of_section())
}

fn elapsed(at: Option<Timestamp>, now: Timestamp) -> String {
    ago(at
        .and_then(|at| u64::try_from(now.as_second() - at.as_second()).ok())
        .map(std::time::Duration::from_secs))
}

/// Returns events for people. Pure.
pub fn events_table(events: &[Alike<EventView>], wide: bool, now: Timestamp) -> String {
    let rows: Vec<Vec<String>> = events
        .iter()
        .map(|alike| {
            let event = &alike.first;
            let when = match (wide, event.at) {
                (true, Some(at)) => at.to_string(),
                _ => elapsed(event.at, now),
            };
            let kind =
                if event.kind == "Warning" { styled(CAREFUL, &event.kind) } else { event.kind.clone() };
            let times = if event.count > 1 { format!(" (x{})", event.count) } else { String::new() };
            let message = event.message.replace('\n', " ");
            vec![when, kind, event.reason.clone(), alike.name(&event.object), format!("{message}{times}")]
        })
        .collect();
    table::wrapped(&["AGE", "TYPE", "REASON", "OBJECT", "MESSAGE"], &rows, columns_of_section())
}

/// The width of the terminal without the indentation of a section.
fn columns_of_section() -> Option<usize> {
    table::screen_columns().map(|columns| columns.saturating_sub(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_job_that_does_not_go_on_says_why_and_what_to_do() {
        let text = |status: serde_json::Value| {
            let job = serde_json::from_value(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
                "metadata": {"name": "pi", "namespace": "team", "uid": "u"},
                "spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"containers": []}}}}},
                "status": status}))
            .unwrap();
            let found = jobs::describe::assemble(job, &[], &[], Vec::new());
            anstream::adapter::strip_str(&super::text(&found, false, Timestamp::now())).to_string()
        };
        let retrying = text(
            json!({"phase": "Running", "phaseReason": "Retrying", "waiting": {"reason": "OutOfMemory",
            "message": "it ran out; attempt 2 of 4 of the Launcher starts at about 12:00:40 UTC", "suggestion": "Give it more."}}),
        );
        for line in [
            "  Reason:       OutOfMemory",
            "  Message:      it ran out; attempt 2 of 4 of the Launcher starts at about 12:00:40 UTC",
            "  What to do:   Give it more.",
            "  Read more:    odh help causes OutOfMemory",
        ] {
            assert!(retrying.contains(&format!("{line}\n")), "{retrying}");
        }
        let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "reason": reason, "message": message});
        let stalled = text(json!({"phase": "Running",
            "conditions": [condition("Stalled", "True", "PythonException", "A rank raised KeyError")]}));
        assert!(stalled.contains("Problem\n  Reason:       PythonException\n"), "{stalled}");
        assert!(stalled.contains("What to do:   Correct the program"), "{stalled}");
        let restarting = text(json!({"phase": "Pending", "phaseReason": "Restarting",
            "attempts": [{"number": 1, "outcome": "Failed", "reason": "NodeLost"}, {"number": 2, "outcome": "Active"}],
            "conditions": [condition("Restarting", "True", "MPIJobRestarting", "Attempt 1 of 3 failed: m")]}));
        assert!(
            restarting
                .contains("Problem\n  Reason:      NodeLost\n  Message:     Attempt 1 of 3 failed: m\n"),
            "{restarting}"
        );
        let over =
            text(json!({"phase": "Running", "conditions": [condition("Stalled", "False", "Resumed", "m")]}));
        assert!(!over.contains("Problem"), "{over}");
    }

    #[test]
    fn a_trainjob_is_described_with_its_runtime_and_command() {
        let job =
            serde_json::from_value(json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": {"name": "pi", "namespace": "team", "uid": "u"},
            "spec": {"runtimeRef": {"name": "own", "kind": "TrainingRuntime"},
                "trainer": {"numNodes": 2, "command": ["python", "train.py"], "args": ["--name", "a b"]}}}))
            .unwrap();
        let found = jobs::describe::assemble(job, &[], &[], Vec::new());
        let text = anstream::adapter::strip_str(&super::text(&found, false, Timestamp::now())).to_string();
        for line in ["Runtime:     trainingruntime/own", "Command:     python train.py --name 'a b'"] {
            assert!(text.contains(&format!("{line}\n")), "{text}");
        }
    }

    #[test]
    fn a_failed_job_says_who_failed_and_what_to_do() {
        let at = |second: u32| format!("2026-01-01T00:00:{second:02}Z");
        let job = serde_json::from_value(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": {"name": "digits", "namespace": "team", "uid": "u", "creationTimestamp": at(0)},
            "spec": {"slotsPerWorker": 2, "mpiReplicaSpecs": {
                "Launcher": {"template": {"spec": {"containers": [{"name": "l", "image": "img", "command": ["mpirun", "python", "-c", "print('x')"]}]}}},
                "Worker": {"replicas": 2, "template": {"spec": {"containers": [{"name": "w", "image": "img"}]}}}}},
            "status": {"phase": "Failed", "phaseReason": "OutOfMemory", "startTime": at(1), "completionTime": at(31),
                "workers": {"running": 1, "pending": 0, "failed": 1, "of": 2},
                "failure": {"reason": "OutOfMemory", "message": "Worker 1 used more memory than its limit of 1Gi.", "worker": 1,
                    "pod": "digits-worker-1", "exitCode": 137, "suggestion": "Give the workers more memory."},
                "trainerStatus": {"progressPercentage": 40, "estimatedRemainingSeconds": 90, "lastUpdatedTime": at(21),
                    "metrics": [{"name": "loss", "value": "0.25"}]},
                "conditions": [{"type": "Failed", "status": "True", "reason": "OutOfMemory", "message": "m", "lastTransitionTime": at(31)}]},
        })).unwrap();
        let pod = |name: &str, role: &str, status: serde_json::Value| {
            serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {api::LABEL_JOB_ROLE: role}, "annotations": {semantics::local_nodes::ANNOTATION_NODE_MODE: "root"}},
            "spec": {"nodeName": "local", "containers": []}, "status": status})).unwrap()
        };
        let container = |state: serde_json::Value| json!([{"name": "w", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state}]);
        let pods = [
            pod(
                "digits-worker-1",
                "worker",
                json!({"phase": "Failed",
                "containerStatuses": container(json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}))}),
            ),
            pod(
                "digits-worker-0",
                "worker",
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": container(json!({"running": {}}))}),
            ),
        ];
        let event = serde_json::from_value(json!({"metadata": {}, "type": "Warning", "reason": "OOMKilling", "message": "killed",
            "involvedObject": {"kind": "Pod", "name": "digits-worker-1"}, "lastTimestamp": at(30), "count": 2})).unwrap();
        let mut found = jobs::describe::assemble(job, &pods, &[event], Vec::new());
        found.last_lines = vec!["rank 3: batch 17".to_owned(), "MemoryError".to_owned()];
        let text = text(&found, false, at(41).parse().unwrap());
        let expected = include_str!("describe.golden.txt");
        assert_eq!(anstream::adapter::strip_str(&text).to_string(), expected);
        found.warnings = vec!["The image \"img\" is not mapped".to_owned()];
        let text = super::text(&found, false, at(41).parse().unwrap());
        assert!(text.contains("\n  The image \"img\" is not mapped\n"), "{text}");
    }

    #[test]
    fn the_progress_of_a_running_job_has_the_time_that_is_left_by_now() {
        let metrics = [("loss".to_owned(), "0.25".to_owned())].into();
        let updated = Some("2026-01-01T00:00:00Z".parse().unwrap());
        let reported = Reported { percent: Some(40), time_left_seconds: Some(90), updated, metrics };
        let now = "2026-01-01T00:00:10Z".parse().unwrap();
        assert_eq!(progress(&reported, false, now), "40 %, 1m20s left, loss 0.25");
        assert_eq!(progress(&reported, true, now), "40 %, loss 0.25");
    }

    #[test]
    fn exit_codes_name_their_signal() {
        assert_eq!(exit_code(137), "137 (SIGKILL)");
        assert_eq!(exit_code(3), "3");
    }
}
