//! The programs that start the ranks of a job, and those of their options that differ between MPIs. Pure.
//!
//! Measured with Open MPI 4.1 and 5.0, MPICH 5.0 and Intel MPI 2021.18: neither knows an option of the other
//! family.

use crate::Implementation;

/// The programs that start ranks.
pub const STARTERS: [&str; 5] = ["mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"];

/// The option that tags each line of a rank with the rank: `[1,3]<stdout>:` (Open MPI).
const TAG_OUTPUT: &str = "--tag-output";
/// The same for MPICH and Intel MPI: `[3] `.
const PREPEND_RANK: &str = "-prepend-rank";
/// Characters that separate words in a line of a shell, apart from blanks.
const SEPARATORS: [char; 5] = [';', '&', '|', '(', ')'];

impl Implementation {
    /// The name used in `spec.mpiImplementation`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Implementation::OpenMpi => "OpenMPI",
            Implementation::Intel => "Intel",
            Implementation::Mpich => "MPICH",
        }
    }

    /// The starter's option that tags the output of ranks.
    #[must_use]
    pub fn tag_option(self) -> &'static str {
        match self {
            Implementation::OpenMpi => TAG_OUTPUT,
            Implementation::Intel | Implementation::Mpich => PREPEND_RANK,
        }
    }

    /// The starter's option for the directory in which ranks start.
    #[must_use]
    pub fn directory_option(self) -> &'static str {
        match self {
            Implementation::OpenMpi => "--wdir",
            Implementation::Intel | Implementation::Mpich => "-wdir",
        }
    }

    /// The starter's option that gives ranks a variable of the Launcher, if they do not get all of them.
    #[must_use]
    pub fn forward_option(self) -> Option<&'static str> {
        match self {
            Implementation::OpenMpi => Some("-x"),
            Implementation::Intel | Implementation::Mpich => None,
        }
    }

    /// The starter's option for the number of ranks, if it does not start as many as the hostfile has slots.
    #[must_use]
    pub fn count_option(self) -> Option<&'static str> {
        match self {
            Implementation::OpenMpi => None,
            Implementation::Intel | Implementation::Mpich => Some("-n"),
        }
    }
}

/// Whether a word of a command is the name or the path of a program that starts ranks.
#[must_use]
pub fn is_starter(word: &str) -> bool {
    STARTERS.contains(&word.rsplit('/').next().unwrap_or(word))
}

/// Whether a command starts the ranks itself; a word may be a whole line of a shell.
#[must_use]
pub fn starts_ranks(command: &[String]) -> bool {
    let separates = |c: char| c.is_whitespace() || SEPARATORS.contains(&c);
    command.iter().any(|word| word.split(separates).any(is_starter))
}

/// Whether a command asks MPICH or Intel MPI to tag lines. Without it, `[3] ` may be the program's own text.
#[must_use]
pub fn prepends_rank<'a>(command: impl IntoIterator<Item = &'a str>) -> bool {
    command.into_iter().flat_map(str::split_whitespace).any(|word| word == PREPEND_RANK)
}

/// Whether a command asks for lines to be tagged with their ranks, whatever implementation of MPI it starts.
#[must_use]
pub fn tags_ranks<'a>(command: impl IntoIterator<Item = &'a str>) -> bool {
    let is_asked = |word: &str| {
        word == PREPEND_RANK || word.trim_start_matches('-') == TAG_OUTPUT.trim_start_matches('-')
    };
    command.into_iter().flat_map(str::split_whitespace).any(|word| word.starts_with('-') && is_asked(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_starts_ranks_if_any_of_its_words_or_lines_does() {
        let table = [
            (&["mpirun", "a"][..], true),
            (&["/opt/bin/prterun", "-np", "2", "a"][..], true),
            (&["bash", "-c", "cd /x && (mpiexec.hydra a)"][..], true),
            (&["python", "mpirun.py"][..], false),
            (&["echo", "mpirunner"][..], false),
            (&[][..], false),
        ];
        for (words, expected) in table {
            let command: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(starts_ranks(&command), expected, "{words:?}");
        }
    }

    #[test]
    fn only_hydras_option_announces_bare_ranks() {
        assert!(prepends_rank(["sh", "-c", "mpiexec -prepend-rank a"]));
        assert!(!prepends_rank(["mpirun", "--tag-output", "a"]));
        assert!(
            tags_ranks(["mpirun", "--tag-output", "a"]) && tags_ranks(["sh", "-c", "mpirun -tag-output a"])
        );
        assert!(tags_ranks(["mpiexec", "-prepend-rank", "a"]) && !tags_ranks(["mpirun", "tag-output"]));
    }
}
