//! Words advice as commands and flags, of this program and of those that people use beside it. The crates below return [`Action`]s and know no command.

use jobs::{Action, Advice, JobRef, Kind};

/// Fields of the containers, and the flags of `create` that set them: for Workers, and for the Launcher.
const FLAGS: [(&str, &str, &str); 12] = [
    ("limits.cpu", "--cpu", "--launcher-cpu"),
    ("limits.memory", "--memory", "--launcher-memory"),
    ("limits.nvidia.com/gpu", "--gpus", ""),
    ("requests.cpu", "--cpu", "--launcher-cpu"),
    ("requests.memory", "--memory", "--launcher-memory"),
    ("requests.nvidia.com/gpu", "--gpus", ""),
    ("limits.amd.com/gpu", "--limit amd.com/gpu=…", ""),
    ("requests.amd.com/gpu", "--limit amd.com/gpu=…", ""),
    ("limits.gpu.intel.com/i915", "--limit gpu.intel.com/i915=…", ""),
    ("requests.gpu.intel.com/i915", "--limit gpu.intel.com/i915=…", ""),
    ("limits.gpu.intel.com/xe", "--limit gpu.intel.com/xe=…", ""),
    ("requests.gpu.intel.com/xe", "--limit gpu.intel.com/xe=…", ""),
];
/// What is before such a field in advice; in a path of a manifest, a dot is before that.
const RESOURCES: &str = "resources.";
/// All of them at once.
const LIMITS: &str = "limits of every container";
const ALL_FLAGS: &str = "--cpu, --memory, --gpus, --launcher-cpu and --launcher-memory";

/// How advice names the MPI of a job, and the flag of `create` that chooses it.
const MPIS: [(&str, &str); 3] = [
    ("(mpi: OpenMPI;", "(--mpi openmpi;"),
    ("(mpi: Intel;", "(--mpi intel;"),
    ("(mpi: MPICH;", "(--mpi mpich;"),
];

/// Names the flags beside the fields of a manifest in advice: `raise --memory (resources.limits.memory) of the Worker`. The
/// crates below know fields only.
pub fn with_flags(text: &str) -> String {
    let mut told = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(RESOURCES) {
        let (before, field) = rest.split_at(at);
        let after = &field[RESOURCES.len()..];
        told.push_str(before);
        let is_alone = !told.ends_with(|letter: char| letter == '.' || letter.is_alphanumeric());
        let sentence = after.split([';', ':']).next().unwrap_or(after);
        match named(after, sentence).filter(|_| is_alone) {
            Some((name, flags)) => {
                told.push_str(&format!("{flags} ({RESOURCES}{name})"));
                rest = &after[name.len()..];
            }
            None => {
                told.push_str(RESOURCES);
                rest = after;
            }
        }
    }
    MPIS.iter().fold(told + rest, |text, (field, flag)| text.replace(field, flag))
}

/// The field at the beginning of the text, and its flags for the role that the sentence names.
fn named(text: &str, sentence: &str) -> Option<(&'static str, &'static str)> {
    if text.starts_with(LIMITS) && sentence.contains("Worker") {
        return Some((LIMITS, ALL_FLAGS));
    }
    let (name, of_worker, of_launcher) = FLAGS.iter().find(|(name, ..)| text.starts_with(name))?;
    let is_launcher = sentence.contains("Launcher") && !sentence.contains("Worker");
    let flag = if is_launcher { of_launcher } else { of_worker };
    (!flag.is_empty()).then_some((*name, *flag))
}

/// Returns the advice in one line, its actions as commands.
pub fn line(advice: &Advice) -> String {
    let (mut commands, mut flags) = (Vec::new(), String::new());
    for action in &advice.actions {
        match flag(action) {
            Some(flag) => flags.extend(["; ", flag]),
            None => commands.extend(command(action)),
        }
    }
    let text = with_flags(&advice.text);
    match &commands[..] {
        [] => format!("{text}{flags}"),
        commands => format!("{}: {}{flags}", text.trim_end_matches('.'), commands.join(", or ")),
    }
}

/// Returns the advice in several lines: the text, then each command in a line of its own.
pub fn lines(advice: &Advice) -> String {
    let lines = advice.actions.iter().filter_map(command);
    [with_flags(&advice.text)].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

/// What a flag of the current command does, for actions that are not commands of their own.
fn flag(action: &Action) -> Option<&'static str> {
    match action {
        Action::CreateSuspended => Some("--suspend creates it suspended"),
        Action::SkipPreflight => Some("to skip this check: --no-preflight"),
        Action::ForceDelete(_) => Some("--force deletes without a grace period"),
        _ => None,
    }
}

fn command(action: &Action) -> Option<String> {
    Some(match action {
        Action::Describe(job) => about("describe", job),
        Action::Explain(job) => about("explain", job),
        Action::Wait(job) => about("wait", job),
        Action::Resume(job) => about("resume", job),
        Action::Retry(job) => about("retry", job),
        Action::Cancel(job) => about("cancel", job),
        Action::Clone(job) => about("clone", job),
        Action::Delete(job) => about("delete", job),
        Action::ShowUsage(job) => about("top", job),
        Action::Logs { job, workers, follow, previous } => {
            let workers = workers.as_ref().map(|workers| format!(" --worker {workers}"));
            let flags = [(*follow, " --follow"), (*previous, " --previous")];
            let flags = flags.iter().filter_map(|(given, flag)| given.then_some(*flag));
            format!("{}{}{}", about("logs", job), workers.unwrap_or_default(), flags.collect::<String>())
        }
        Action::ListJobs { namespace, phases } => {
            let place = match namespace {
                Some(namespace) => format!("-n {namespace}"),
                None => "-A".to_owned(),
            };
            let phases: Vec<String> =
                phases.iter().map(|phase| format!("{phase:?}").to_lowercase()).collect();
            let status =
                if phases.is_empty() { String::new() } else { format!(" --status {}", phases.join(",")) };
            format!("odh training list {place}{status}")
        }
        Action::ListTemplates { namespace } => format!("odh training templates list -n {namespace}"),
        Action::ListQueues { namespace } => format!("kubectl get localqueues -n {namespace}"),
        Action::CreateNamespace { namespace } => format!("kubectl create namespace {namespace}"),
        Action::LogIn => "oc login".to_owned(),
        Action::StartLocalCluster => "odh local up".to_owned(),
        Action::CreateSuspended | Action::SkipPreflight | Action::ForceDelete(_) => return None,
    })
}

/// `odh training VERB KIND NAME -n NAMESPACE`
fn about(verb: &str, job: &JobRef) -> String {
    let JobRef { kind, namespace, name } = job;
    let kind = Kind::named(kind).unwrap_or_default().word();
    format!("odh training {verb} {kind} {name} -n {namespace}")
}

#[cfg(test)]
mod tests {
    use api::Phase;
    use diagnosis::Cause;

    use super::*;

    #[test]
    fn advice_ends_with_its_commands_and_flags() {
        let job = Kind::TrainJob.job("team", "pi");
        let advice = Advice::from("Wait for one to end.")
            .with(Action::ListJobs { namespace: Some("team".to_owned()), phases: vec![Phase::Failed] })
            .with(Action::SkipPreflight)
            .with(Action::Logs { job, workers: None, follow: true, previous: false });
        assert_eq!(
            line(&advice),
            "Wait for one to end: odh training list -n team --status failed, or odh training logs trainjob pi -n team --follow; to skip this check: --no-preflight"
        );
        assert_eq!(
            lines(&advice),
            "Wait for one to end.\nodh training list -n team --status failed\nodh training logs trainjob pi -n team --follow"
        );
    }

    #[test]
    fn flags_are_named_beside_the_fields_that_they_set() {
        for (text, expected) in [
            (
                "raise resources.limits.memory of the Worker. Reduce",
                "raise --memory (resources.limits.memory) of the Worker. Reduce",
            ),
            (
                "set resources.limits.cpu of every container of the Launcher; ask",
                "set --launcher-cpu (resources.limits.cpu) of every container of the Launcher; ask",
            ),
            (
                "set resources.requests.nvidia.com/gpu of the Worker to at most 4",
                "set --gpus (resources.requests.nvidia.com/gpu) of the Worker to at most 4",
            ),
            (
                "set resources.limits.amd.com/gpu of the Worker to at most 4",
                "set --limit amd.com/gpu=… (resources.limits.amd.com/gpu) of the Worker to at most 4",
            ),
            (
                "the MPI of its image (mpi: OpenMPI; mpiImplementation in a manifest)",
                "the MPI of its image (--mpi openmpi; mpiImplementation in a manifest)",
            ),
            ("raise resources.limits.ephemeral-storage", "raise resources.limits.ephemeral-storage"),
            ("spec.containers[0].resources.limits.cpu: 10m", "spec.containers[0].resources.limits.cpu: 10m"),
            ("ask for less", "ask for less"),
        ] {
            assert_eq!(with_flags(text), expected);
        }
        let all = with_flags("Set resources.limits of every container of the Launcher and the Workers.");
        assert!(all.contains("--launcher-memory (resources.limits of every container)"), "{all}");
        let memory = with_flags(Cause::OutOfMemory.texts().suggestion);
        assert!(memory.contains("raise --memory (resources.limits.memory) of the Worker"), "{memory}");
    }

    #[test]
    fn advice_without_actions_is_its_text() {
        assert_eq!(line(&"ask for less.".into()), "ask for less.");
    }
}
