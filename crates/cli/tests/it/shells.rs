//! Tests completion in real shells: the script of `odh completion` is loaded into each shell installed on this
//! machine, and the shell is asked for candidates. bash is always there; the others are optional.

use std::path::Path;
use std::process::Command;

use crate::odh::Home;

/// How to ask each shell for candidates, with `TYPED` for the incomplete command line; prints the candidates.
const BASH: &str = r#"
source <(odh completion bash)
words=(TYPED); COMP_WORDS=("${words[@]}" ""); COMP_CWORD=${#words[@]}; COMP_LINE="${words[*]} "; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
entry=$(complete -p odh); entry=${entry##*-F }; ${entry%% *} odh "" "${words[-1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;
const FISH: &str = "odh completion fish | source; complete --do-complete 'TYPED '";
/// zsh completes only input typed on a terminal; its output is read until it contains WANTED.
const ZSH: &str = r#"
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PS1=; autoload -Uz compinit; compinit -u -D; source <(odh completion zsh); LISTMAX=1000; echo rea""dy'
while zpty -r z line; do [[ $line == *ready* ]] && break; done
zpty -w -n z $'TYPED \t\t'
tries=0
while (( tries < 300 )); do
  if zpty -r -t z line; then print -rn -- "$line"; [[ $line == *WANTED* ]] && break; else sleep 0.1; (( ++tries )); fi
done
zpty -d z
"#;

fn asked(home: &Home, shell: &str, script: &str, line: &str, wanted: &str) -> Option<String> {
    let program = std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(shell))
        .find(|candidate| candidate.is_file())?;
    let programs = Path::new(env!("CARGO_BIN_EXE_odh")).parent().map(Path::to_path_buf);
    let places = std::env::var_os("PATH")?;
    let path = std::env::join_paths(programs.into_iter().chain(std::env::split_paths(&places)));
    let mut command = Command::new(program);
    command.args(["-c", &script.replace("TYPED", line).replace("WANTED", wanted)]).env_clear();
    command.env("PATH", path.ok()?).env("HOME", home.path()).env("TERM", "xterm").current_dir(home.path());
    let out = command.output().unwrap();
    Some(String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr))
}

#[test]
fn shells_complete_verbs_kinds_and_options() {
    let home = Home::new();
    let lines =
        [("odh training", "describe"), ("odh training logs", "mpijob"), ("odh training list --sort", "age")];
    for (line, candidate) in lines {
        let said = asked(&home, "bash", BASH, line, candidate).expect("there is a bash");
        assert!(said.lines().any(|word| word.trim() == candidate), "bash, {line}: {said}");
        if let Some(said) = asked(&home, "fish", FISH, line, candidate) {
            let mut words = said.lines().filter_map(|word| word.split('\t').next());
            assert!(words.any(|word| word.trim() == candidate), "fish, {line}: {said}");
        }
        if let Some(said) = asked(&home, "zsh", ZSH, line, candidate) {
            assert!(said.contains(candidate), "zsh, {line}: {said}");
        }
    }
}
