//! Generates `docs/reference/cli.md` from the definition of the command line; the test that compares the file also
//! writes it.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use super::{EXIT_CODES, built, tree};
use crate::output;

/// The text before the commands.
const HEAD: &str = "# The command line

Generated from the definition of the command line by `cargo xtask gen`. `odh help -o json` prints the same for programs, and
`odh help --man-pages FOLDER` writes man pages. `odh training <verb> <kind> <name>` and `odh training <verb> <kind>/<name>` are the
same. `kubectl odh training …` works if `odh` is linked as `kubectl-odh-training` on `PATH`.

Data goes to stdout, everything else to stderr. With `-o json` and `-o yaml`, stderr contains only JSON lines; if the command fails, the
last of them is `{\"error\":{\"code\",\"reason\",\"message\",\"hint\"}}`.
";

/// The text below the exit codes.
const CODES: &str = "
Each command below lists its possible exit codes. Any command that is interrupted exits with 130; the lists include 130 only for commands
that wait or watch. `exec` exits with the code of the command that it runs, and `--propagate-exit-code` with that of the Launcher.
";

/// The text between formats and commands.
const SETTINGS: &str = "
## Cluster and settings

Like kubectl, odh reaches a cluster through the kubeconfig's `proxy-url`, else through `HTTPS_PROXY`, unless the cluster is on this
machine or `NO_PROXY` names it (hosts with their subdomains, addresses, CIDRs, `*`). The proxy may be `http://`, `https://` or
`socks5://`, with a user and a password. A pod reaches its own cluster directly.

Like kubectl, odh uses the first of these that exists: `--kubeconfig`, the files of `$KUBECONFIG`, `kubeconfig` of the settings,
`~/.kube/config`, or the service account of the pod that it runs in. If there is none of them, odh uses the local cluster if it is up, and
prints a note. `--context` and `--namespace` select a context and a namespace; `--as` and `--as-group` impersonate a user and groups.

Settings are read from `$ODH_CONFIG`, else `$XDG_CONFIG_HOME/odh/config.yaml`, else `~/.config/odh/config.yaml`. Flags override them.

```yaml
namespace: team-cv           # overrides that of the context
context: research            # of the kubeconfig
kubeconfig: ~/clusters/a     # relative to the folder of this file
output: wide                 # the default for -o
color: never                 # auto, always, never
```

`NO_COLOR` is honoured. On a terminal, tables are cut to its width; elsewhere, nothing is cut, coloured or redrawn.
";

/// The reference as Markdown.
fn reference(root: &Value) -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (code, meaning) in EXIT_CODES {
        let _ = writeln!(text, "| {code} | {meaning} |");
    }
    text.push_str(CODES);
    text.push_str("\n## Formats\n\n| `-o` | prints |\n|---|---|\n");
    for (format, meaning) in output::formats() {
        let _ = writeln!(text, "| `{format}` | {meaning} |");
    }
    text.push_str("\nTo read a template from a file, append `-file` to the name of its format: `-o jsonpath-file=FILE`.\n");
    text.push_str(&SETTINGS.replace("~/clusters/a ", "clusters/a   "));
    text.push_str("\n## Options of every command\n\n");
    options(&mut text, root, true);
    for command in list(root, "commands") {
        section(&mut text, command);
    }
    text
}

fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value[key].as_array().into_iter().flatten()
}

fn string<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn section(text: &mut String, command: &Value) {
    let _ = write!(text, "\n## {}\n\n{}.\n", string(command, "command"), string(command, "about"));
    let aliases: Vec<&str> = list(command, "aliases").filter_map(Value::as_str).collect();
    if !aliases.is_empty() {
        let _ = write!(text, "\nAlso: `{}`.\n", aliases.join("`, `"));
    }
    if list(command, "commands").next().is_none() {
        let _ = write!(text, "\n```\n{}\n```\n\n", string(command, "usage"));
        options(text, command, false);
        let notes = string(command, "notes");
        if !notes.is_empty() {
            let _ = write!(text, "\n```\n{notes}\n```\n");
        }
        let codes: Vec<String> = list(command, "exitCodes").map(|code| code["code"].to_string()).collect();
        let _ = write!(text, "\nExit codes: {}.\n", codes.join(", "));
    }
    for inner in list(command, "commands") {
        section(text, inner);
    }
}

/// A table of arguments and options, either the global ones or the others.
fn options(text: &mut String, command: &Value, global: bool) {
    let mut rows = String::new();
    for argument in list(command, "arguments").chain(list(command, "options")) {
        if argument["global"] != global || string(argument, "name") == "--help" {
            continue;
        }
        let name = match (string(argument, "short"), string(argument, "name"), string(argument, "value")) {
            ("", name, value) if value == name || value.is_empty() => format!("`{name}`"),
            ("", name, value) => format!("`{name} {value}`"),
            (short, name, "") => format!("`{short}`, `{name}`"),
            (short, name, value) => format!("`{short}`, `{name} {value}`"),
        };
        let mut help = string(argument, "help").replace('|', "\\|");
        if let Some(default) = argument["default"].as_str() {
            let _ = write!(help, " (default: {default})");
        }
        let _ = writeln!(rows, "| {name} | {help} |");
    }
    if !rows.is_empty() {
        let _ = write!(text, "| | |\n|---|---|\n{rows}");
    }
}

#[test]
fn generated_reference_of_the_command_line() {
    let text = reference(&tree(&built()));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, text).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let line = committed.lines().zip(text.lines()).take_while(|(is, should)| is == should).count() + 1;
    assert!(
        committed == text,
        "docs/reference/cli.md differs from line {line}: UPDATE=1 cargo test -p cli generated_, or cargo xtask gen"
    );
}
