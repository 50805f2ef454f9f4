//! Words advice as commands and flags, of this program and of those that people use beside it. The crates below return [`Action`]s and know no command.

use jobs::{Action, Advice, JobRef, Kind};

/// Returns the advice in one line, its actions as commands.
pub fn line(advice: &Advice) -> String {
    let (mut commands, mut flags) = (Vec::new(), String::new());
    for action in &advice.actions {
        match flag(action) {
            Some(flag) => flags.extend(["; ", flag]),
            None => commands.extend(command(action)),
        }
    }
    match &commands[..] {
        [] => format!("{}{flags}", advice.text),
        commands => format!("{}: {}{flags}", advice.text.trim_end_matches('.'), commands.join(", or ")),
    }
}

/// Returns the advice in several lines: the text, then each command in a line of its own.
pub fn lines(advice: &Advice) -> String {
    let lines = advice.actions.iter().filter_map(command);
    [advice.text.clone()].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
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
    fn advice_without_actions_is_its_text() {
        assert_eq!(line(&"ask for less.".into()), "ask for less.");
    }
}
