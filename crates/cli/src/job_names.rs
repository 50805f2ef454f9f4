//! The names of jobs and runtimes as candidates for shell completion.
//!
//! They come from the cluster that the incomplete command line selects. Errors yield no candidates: nothing is ever
//! printed into the user's prompt.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::Parser;
use clap_complete::CompletionCandidate;
use jobs::list::Selection;
use kube::ResourceExt;

use crate::connect::connect_silently;
use crate::failure::Failure;
use crate::global::Global;

/// How long a user may have to wait after pressing Tab.
const PATIENCE: Duration = Duration::from_secs(2);
/// The maximum number of names offered.
const MAX_NAMES: usize = 500;

/// Returns the names of jobs that start with the word, and the kinds that may stand before a name.
pub fn candidates(word: &OsStr) -> Vec<CompletionCandidate> {
    let kinds = jobs::Kind::ALL.map(|kind| kind.word().to_owned());
    matching(word, in_time(names).into_iter().chain(kinds))
}

/// Returns the runtimes that start with the word.
pub fn runtimes(word: &OsStr) -> Vec<CompletionCandidate> {
    matching(word, in_time(runtime_names).into_iter())
}

fn matching(word: &OsStr, names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let Some(word) = word.to_str() else { return Vec::new() };
    let fitting = names.filter(|name| name.starts_with(word));
    fitting.take(MAX_NAMES).map(CompletionCandidate::new).collect()
}

/// Returns what the cluster of the incomplete command line says; nothing if it takes too long.
fn in_time<F: Future<Output = Result<Vec<String>, Failure>>>(ask: impl FnOnce(Global) -> F) -> Vec<String> {
    let asked = ask(global(std::env::args_os()));
    match crate::runtime() {
        Ok(runtime) => runtime.block_on(async {
            tokio::time::timeout(PATIENCE, asked).await.ok().and_then(Result::ok).unwrap_or_default()
        }),
        Err(_) => Vec::new(),
    }
}

async fn names(global: Global) -> Result<Vec<String>, Failure> {
    let connection = connect_silently(&global).await?;
    let selection = Selection { namespace: Some(connection.namespace), ..Selection::default() };
    let found = jobs::list::list(&connection.client, &selection).await?;
    Ok(found.iter().map(ResourceExt::name_any).collect())
}

async fn runtime_names(global: Global) -> Result<Vec<String>, Failure> {
    let connection = connect_silently(&global).await?;
    Ok(jobs::runtime::names(&connection.client, &connection.namespace).await?)
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
