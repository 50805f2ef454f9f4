//! A command that no shell runs: its words, and what in it only a shell would understand.

use crate::console::Console;
use crate::failure::Failure;

/// Warns of what only a shell understands in a command that no shell runs.
pub(super) fn warn_of_shell_syntax(console: &Console, line: &str) {
    if let Some(found) = shell_syntax(line) {
        console.warn(&format!(
            "no shell runs the command, so {found:?} is an argument like any other; to have one, write: -- sh -c '…'"
        ));
    }
}

/// The first word that a shell would not take as it is: an operator, a variable, or the beginning of a loop. Quoted ones are
/// arguments.
fn shell_syntax(line: &str) -> Option<String> {
    const OPERATORS: [&str; 12] = ["&&", "||", ";;", "|", "&", ";", ">>", ">", "<<", "<", "2>", "&>"];
    let mut words = Vec::new();
    let (mut word, mut quote, mut escaped) = (String::new(), None, false);
    for letter in line.chars().chain([' ']) {
        match (quote, letter) {
            _ if escaped => escaped = false,
            (_, '\\') if quote != Some('\'') => escaped = true,
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), close) if open == close => quote = None,
            // A shell expands variables between double quotes, too.
            (Some('"'), '$') | (None, '$') => word.push('$'),
            (Some(_), _) => {}
            (None, blank) if blank.is_whitespace() => words.push(std::mem::take(&mut word)),
            (None, other) => word.push(other),
        }
    }
    let is_loop = |word: &&String| ["for", "while", "if", "cd", "export"].contains(&word.as_str());
    let first = words.first().filter(is_loop);
    let found = words.iter().find(|word| {
        OPERATORS.contains(&word.as_str())
            || word.ends_with(';')
            || word.starts_with(['>', '<', '|', '&'])
            || word.contains("&&")
            || word.contains('$')
    });
    found.or(first).cloned()
}

/// Splits a line into words like a shell: blanks, both kinds of quotes, backslashes, comments; nothing is expanded.
pub(super) fn words(line: &str) -> Result<Vec<String>, Failure> {
    shlex::split(line).ok_or_else(|| {
        Failure::usage(
            "--command has an unclosed quote, or ends with a backslash",
            "close the quote, or put the command after --",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_as_a_shell_splits_it() {
        let table: [(&str, &[&str]); 6] = [
            ("python train.py  --lr 0.1", &["python", "train.py", "--lr", "0.1"]),
            ("sh -c 'echo \"a b\"'", &["sh", "-c", "echo \"a b\""]),
            ("a \"b \\\" c\" d\\ e", &["a", "b \" c", "d e"]),
            (r#"printf "a\nb""#, &["printf", r"a\nb"]),
            ("a ''", &["a", ""]),
            ("", &[]),
        ];
        for (line, expected) in table {
            assert_eq!(
                words(line).ok().as_deref(),
                Some(&expected.iter().map(ToString::to_string).collect::<Vec<_>>()[..]),
                "{line}"
            );
        }
        assert!(words("a 'b").is_err() && words("a \\").is_err());
    }

    #[test]
    fn what_only_a_shell_understands_is_found_unless_it_is_quoted() {
        let table = [
            ("cd /tmp && echo here", Some("&&")),
            ("echo one | wc -c", Some("|")),
            ("echo a > /tmp/x", Some(">")),
            ("echo a; echo b", Some("a;")),
            ("echo $HOME/x", Some("$HOME/x")),
            ("echo \"$HOME/x\"", Some("$/x")),
            ("for i in 1 2; do echo $i; done", Some("2;")),
            ("cd /tmp", Some("cd")),
            ("python3 -c \"print('a | b')\"", None),
            ("bash -c 'cd /tmp && ls | wc -l; echo $HOME'", None),
            (r"echo \$HOME \; \&", None),
            ("python train.py --lr 0.1 --if x", None),
        ];
        for (line, found) in table {
            let expected = found.map(|word| if word == "$/x" { "$".to_owned() } else { word.to_owned() });
            assert_eq!(shell_syntax(line), expected, "{line}");
        }
    }
}
