//! Shell completion: the script that a shell loads once, and the answers to the requests that the shell later sends to
//! this program.
//!
//! Candidates are computed from the definition of the command line (`arguments`) by clap's own engine; names of jobs
//! come from the cluster that the incomplete command line selects. Errors yield no candidates: nothing is ever printed
//! into the user's prompt.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::{CommandFactory, Parser};
use clap_complete::env::{CompleteEnv, Shells};
use clap_complete::{CompletionCandidate, Shell};
use jobs::Class;
use jobs::list::Selection;
use kube::ResourceExt;

use crate::arguments::{Arguments, Global};
use crate::console::Console;
use crate::failure::Failure;

/// The variable by which a shell requests candidates; its value is the shell's name.
const VARIABLE: &str = "ODH_COMPLETE";
/// How long a user may have to wait after pressing Tab.
const PATIENCE: Duration = Duration::from_secs(2);
/// The maximum number of names offered.
const MAX_NAMES: usize = 500;

/// If this is a shell's request, answers it and exits the process.
pub fn if_asked() {
    CompleteEnv::with_factory(Arguments::command).var(VARIABLE).complete();
}

/// `odh completion SHELL`
pub fn script(console: &Console, shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string());
    let written = completer.is_some_and(|completer| {
        completer.write_registration(VARIABLE, "odh", "odh", "odh", &mut script).is_ok()
    });
    if !written {
        return Err(Failure::new(Class::Error, "Completion", format!("there is no completion for {shell}")));
    }
    console.document(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

/// Returns the names of jobs that start with the word.
pub fn job_names(word: &OsStr) -> Vec<CompletionCandidate> {
    let Some(word) = word.to_str() else { return Vec::new() };
    let global = global(std::env::args_os());
    let names = match crate::runtime() {
        Ok(runtime) => runtime.block_on(async {
            tokio::time::timeout(PATIENCE, names(&global)).await.ok().and_then(Result::ok).unwrap_or_default()
        }),
        Err(_) => Vec::new(),
    };
    names
        .into_iter()
        .filter(|name| name.starts_with(word))
        .take(MAX_NAMES)
        .map(CompletionCandidate::new)
        .collect()
}

async fn names(global: &Global) -> Result<Vec<String>, Failure> {
    let connection = crate::connect::connect_silently(global).await?;
    let selection = Selection { namespace: Some(connection.namespace), ..Selection::default() };
    let found = jobs::list::list(&connection.client, &selection).await?;
    Ok(found.iter().map(ResourceExt::name_any).collect())
}

/// Only the options that say where, of a command line that is not finished.
#[derive(Debug, Parser)]
#[command(ignore_errors = true, disable_help_flag = true)]
struct Where {
    #[command(flatten)]
    global: Global,
    #[arg(allow_hyphen_values = true, trailing_var_arg = false)]
    _others: Vec<OsString>,
}

/// The cluster options of the incomplete command line; `words` begin with this program, the shell's own arguments, and
/// `--`.
fn global(words: impl Iterator<Item = OsString>) -> Global {
    let line = words.skip_while(|word| word != "--").skip(1);
    let mut wanted = vec![OsString::from("odh")];
    let mut line = line.skip(1).peekable();
    while let Some(word) = line.next() {
        let text = word.to_string_lossy();
        let whole = ["--namespace=", "--kubeconfig=", "--context=", "--as="]
            .iter()
            .any(|option| text.starts_with(option));
        let alone = ["-n", "--namespace", "--kubeconfig", "--context", "--as"].contains(&&*text);
        if whole || (text.starts_with("-n") && text.len() > 2) {
            wanted.push(word);
        } else if alone && let Some(value) = line.next() {
            wanted.extend([word, value]);
        }
    }
    Where::try_parse_from(wanted).map_or_else(|_| Global::default(), |found| found.global)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_line_selects_the_cluster() {
        let line = "odh -- odh training logs -n team --context=big mpijob pi --tail 5";
        let found = global(line.split(' ').map(OsString::from));
        assert_eq!(found.namespace.as_deref(), Some("team"));
        assert_eq!(found.context.as_deref(), Some("big"));
        assert_eq!(global("odh -- odh training logs -n".split(' ').map(OsString::from)).namespace, None);
    }
}
