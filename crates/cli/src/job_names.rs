//! The names of jobs as candidates for shell completion.
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

/// Returns the names of jobs that start with the word.
pub fn candidates(word: &OsStr) -> Vec<CompletionCandidate> {
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
    let connection = connect_silently(global).await?;
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
