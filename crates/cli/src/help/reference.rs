//! Generates `docs/reference/cli.md` from the definition of the command line; the test that compares the file also
//! writes it.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use super::{EXIT_CODES, built, tree};
use crate::output;

/// The text before the commands.
const HEAD: &str = "# The command line

Made from the definition of the command line by `cargo xtask gen`; `odh help -o json` prints the same for programs, and
`odh help --man-pages FOLDER` writes man pages. `odh training <verb> <kind> <name>` and `odh training <verb> <kind>/<name>` are the
same; `kubectl odh training …` works where `odh` is linked as `kubectl-odh-training` on `PATH`.

What is data goes to stdout, everything else to stderr. With `-o json` and `-o yaml` stderr holds JSON lines only; the last of them is
`{\"error\":{\"code\",\"reason\",\"message\",\"hint\"}}` where the command did not succeed.
";

/// The text below the exit codes.
const CODES: &str = "
Each command below says which of these it can end with. One that is interrupted ends with 130 whatever it does; there, 130 stands where a
command goes on until something happens. `exec` passes on the exit code of what it runs, and `--propagate-exit-code` the launcher's.
";

/// The text between formats and commands.
const SETTINGS: &str = "
## Which cluster, which defaults

As kubectl: `--kubeconfig`, else the files of `$KUBECONFIG`, else `kubeconfig` of the settings, else `~/.kube/config`, else the service account
of the pod that it runs in; where none of these is there and a local cluster is up, that one, and it says so. `--context` and `--namespace`
choose from it; `--as` and `--as-group` act as somebody else.

Settings are read from `$ODH_CONFIG`, else `$XDG_CONFIG_HOME/odh/config.yaml`, else `~/.config/odh/config.yaml`; flags go before them.

```yaml
namespace: team-cv           # instead of the context's own
context: research            # of the kubeconfig
kubeconfig: ~/clusters/a     # relative paths begin at this file's folder
output: wide                 # what -o says where it is not given
color: never                 # auto, always, never
```

`NO_COLOR` is honoured. A table is as wide as the terminal at most; off a terminal nothing is cut, coloured or redrawn.
";

/// The reference as Markdown.
fn reference(root: &Value) -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\n## Exit codes\n\n| code | when |\n|---|---|\n");
    for (code, meaning) in EXIT_CODES {
        let _ = writeln!(text, "| {code} | {meaning} |");
    }
    text.push_str(CODES);
    text.push_str("\n## Formats\n\n| `-o` | prints |\n|---|---|\n");
    for (format, meaning) in output::formats() {
        let _ = writeln!(text, "| `{format}` | {meaning} |");
    }
    text.push_str("\nAppend `-file` to the name of a template's format to read it from a file: `-o jsonpath-file=FILE`.\n");
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
