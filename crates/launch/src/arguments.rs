//! Parses the command line once: our own subcommands, or a call as MPI launchers make it to ssh and rsh.
//!
//! Options of ssh (OpenSSH's manual, ssh(1)) are accepted if ignoring them makes no difference that a caller can
//! observe. Options that request something this program does not do, such as forwarding a port, are refused.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The text of `odh-launch --help`.
pub const HELP: &str = "\
odh-launch: starts processes in the pods of an MPI job, in place of ssh

  odh-launch serve                          accept calls (in a Worker)
  odh-launch ready                          exit 0 if the local agent answers (for an exec probe)
  odh-launch drain                          ask all ranks of the job to end, and wait for them (for a preStop hook)
  odh-launch install DIR                    copy this program to DIR/odh-launch
  odh-launch version | --version | --help
  odh-launch [OPTIONS] [USER@]HOST COMMAND  run COMMAND on HOST; ssh's options are accepted

For Open MPI 4 set OMPI_MCA_plm_rsh_agent, for Open MPI 5 PRTE_MCA_plm_ssh_agent, for MPICH HYDRA_LAUNCHER_EXEC and for
Intel MPI I_MPI_HYDRA_BOOTSTRAP_EXEC to the path of this program.

Environment:
  ODH_LAUNCH_KEY            file with this job's key; the same in every pod of the job
  ODH_LAUNCH_PORT           port of the agents (7222)
  ODH_LAUNCH_START_TIMEOUT  seconds to wait for an agent to come up (600)
  ODH_LAUNCH_PEER_TIMEOUT   seconds of silence after which a connection counts as lost (60)
  ODH_LAUNCH_GRACE          seconds that the pod may take to end; ranks get all but the last of them (30)
  ODH_LAUNCH_REGISTRY       folder in which agents on loopback announce themselves under ODH_POD_NAME

Exit code: that of COMMAND, 128+N if signal N ended it, 255 if HOST could not be reached or the connection was lost.
";

/// Options of ssh that take a value and have no effect here.
const IGNORED_WITH_VALUE: &[u8] = b"BbcEeFIilmoPpS";
/// Options of ssh that take no value and have no effect here.
const IGNORED_FLAGS: &[u8] = b"1246AaCfgKkqTtvXxYy";
/// Options of ssh that request something this program does not do.
const REFUSED: &[u8] = b"DGJLMNOQRsWw";

/// A parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// Serve calls.
    Serve,
    /// Copy this program into a folder.
    Install(PathBuf),
    /// Check whether the local agent answers.
    Ready,
    /// Ask all ranks to end, and wait for them.
    Drain,
    /// Print the version.
    Version,
    /// Print the help.
    Help,
    /// Run a command on a host.
    RemoteCommand(RemoteCommand),
}

/// A command to run on a host.
#[derive(Debug, PartialEq, Eq)]
pub struct RemoteCommand {
    /// The host, without the user's name.
    pub host: String,
    /// The command: one line for `/bin/sh -c`.
    pub command: Vec<u8>,
    /// `-n`: give the command no standard input.
    pub without_stdin: bool,
}

/// A usage error.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UsageFault {
    /// `install` without a folder.
    #[error("install: no folder given, e.g. odh-launch install /opt/odh/launch")]
    InstallWhere,
    /// No host.
    #[error("no host given; see odh-launch --help")]
    NoHost,
    /// No command.
    #[error("no command given for {0}: this program runs commands and has no interactive shell")]
    NoCommand(String),
    /// An option that requests something this program does not do.
    #[error("option -{0} is not supported: this program only runs commands")]
    Refused(char),
    /// An option that ssh does not have.
    #[error("unknown option {0}; see odh-launch --help")]
    Unknown(String),
    /// An option that lacks its value.
    #[error("option -{0} requires a value")]
    NoValue(char),
    /// An invalid host name.
    #[error("{0:?} is not a valid host name")]
    BadHost(String),
}

impl UsageFault {
    /// Returns whether the program was called in place of ssh, so that the caller expects ssh's exit code.
    pub fn is_remote_call(&self) -> bool {
        *self != Self::InstallWhere
    }
}

/// Parses the words after the program's name. A word counts as a subcommand only if the whole line fits it, so that
/// a host may be called `ready` or `serve`.
pub fn parse(words: &[OsString]) -> Result<Request, UsageFault> {
    let texts: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    match texts.as_slice() {
        [b"serve"] => Ok(Request::Serve),
        [b"ready"] => Ok(Request::Ready),
        [b"drain"] => Ok(Request::Drain),
        [b"version" | b"--version" | b"-V"] => Ok(Request::Version),
        [] | [b"help" | b"--help" | b"-h"] => Ok(Request::Help),
        [b"install"] => Err(UsageFault::InstallWhere),
        [b"install", directory] => {
            Ok(Request::Install(PathBuf::from(OsString::from_vec(directory.to_vec()))))
        }
        call => parse_remote_command(call).map(Request::RemoteCommand),
    }
}

fn parse_remote_command(words: &[&[u8]]) -> Result<RemoteCommand, UsageFault> {
    let mut options = Options { without_stdin: false };
    // As with OpenSSH, options may come before and after the host. The first word that is not an option begins the
    // command.
    let rest = skip_options(words, &mut options)?;
    let (host, rest) = rest.split_first().ok_or(UsageFault::NoHost)?;
    let host = host_of(host)?;
    let rest = skip_options(rest, &mut options)?;
    if rest.is_empty() {
        return Err(UsageFault::NoCommand(host));
    }
    Ok(RemoteCommand { host, command: rest.join(&b' '), without_stdin: options.without_stdin })
}

struct Options {
    without_stdin: bool,
}

fn skip_options<'a, 'b>(
    mut words: &'a [&'b [u8]],
    options: &mut Options,
) -> Result<&'a [&'b [u8]], UsageFault> {
    while let Some((word, rest)) = words.split_first() {
        match *word {
            b"--" => return Ok(rest),
            [b'-', letters @ ..] if !letters.is_empty() => {
                let value_follows = skip_letters(word, letters, options)?;
                words = match (value_follows, rest) {
                    (None, rest) => rest,
                    (Some(_), [_, rest @ ..]) => rest,
                    (Some(letter), []) => return Err(UsageFault::NoValue(letter)),
                };
            }
            _ => return Ok(words),
        }
    }
    Ok(words)
}

/// Parses a word such as `-xq` or `-oBatchMode=yes`. Returns the option whose value is the next word, if any.
fn skip_letters(word: &[u8], letters: &[u8], options: &mut Options) -> Result<Option<char>, UsageFault> {
    for (index, letter) in letters.iter().enumerate() {
        if *letter == b'n' {
            options.without_stdin = true;
        } else if IGNORED_WITH_VALUE.contains(letter) {
            return Ok((index + 1 == letters.len()).then_some(char::from(*letter)));
        } else if REFUSED.contains(letter) {
            return Err(UsageFault::Refused(char::from(*letter)));
        } else if !IGNORED_FLAGS.contains(letter) {
            return Err(UsageFault::Unknown(String::from_utf8_lossy(word).into_owned()));
        }
    }
    Ok(None)
}

/// Returns the host of `[user@]host` or `[user@][v6-address]`.
fn host_of(word: &[u8]) -> Result<String, UsageFault> {
    let text = String::from_utf8_lossy(word);
    let host = text.rsplit('@').next().unwrap_or_default();
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let plausible = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
    match !bare.is_empty() && bare.len() <= 255 && bare.chars().all(plausible) && !bare.starts_with('.') {
        true => Ok(bare.to_owned()),
        false => Err(UsageFault::BadHost(host.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request, UsageFault> {
        parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    fn call(line: &str) -> (String, String, bool) {
        match parsed(line) {
            Ok(Request::RemoteCommand(call)) => {
                (call.host, String::from_utf8(call.command).unwrap(), call.without_stdin)
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn calls_as_mpi_launchers_make_them() {
        for (line, host, command, without_stdin) in [
            // Open MPI 4 with upstream's plm_rsh_args
            (
                "-o ConnectionAttempts=10 w-0.job.ns.svc orted -mca ess env",
                "w-0.job.ns.svc",
                "orted -mca ess env",
                false,
            ),
            // hydra
            (
                "-x w-1 hydra_pmi_proxy --control-port l:4 -p 3",
                "w-1",
                "hydra_pmi_proxy --control-port l:4 -p 3",
                false,
            ),
            ("-q -x -oBatchMode=yes -p22 -p 22 me@w-1 true", "w-1", "true", false),
            ("-xqn w-1 cat", "w-1", "cat", true),
            // rsh takes -l after the host
            ("w-1 -n -l user hostname -f", "w-1", "hostname -f", true),
            ("-o A=b -- w-1 -- ls -l", "w-1", "ls -l", false),
            ("user@[fd00::1] true", "fd00::1", "true", false),
            // our subcommands are host names if the rest of the line does not fit
            ("serve hostname", "serve", "hostname", false),
            ("install a b", "install", "a b", false),
        ] {
            assert_eq!(call(line), (host.into(), command.into(), without_stdin), "{line}");
        }
    }

    #[test]
    fn subcommands() {
        assert_eq!(parsed("serve"), Ok(Request::Serve));
        assert_eq!(parsed("ready"), Ok(Request::Ready));
        assert_eq!(parsed("--version"), Ok(Request::Version));
        assert_eq!(parsed(""), Ok(Request::Help));
        assert_eq!(parsed("install /opt/x"), Ok(Request::Install(PathBuf::from("/opt/x"))));
        assert_eq!(parsed("install"), Err(UsageFault::InstallWhere));
    }

    #[test]
    fn unsupported_command_lines_are_refused() {
        for (line, fault) in [
            ("w-1", UsageFault::NoCommand("w-1".into())),
            ("-x", UsageFault::NoHost),
            ("-o", UsageFault::NoValue('o')),
            ("-L 1:a:2 w-1 true", UsageFault::Refused('L')),
            ("-W a:1 w-1", UsageFault::Refused('W')),
            ("-Z w-1 true", UsageFault::Unknown("-Z".into())),
            ("--nonsense w-1 true", UsageFault::Unknown("--nonsense".into())),
            ("a/b true", UsageFault::BadHost("a/b".into())),
            (".. true", UsageFault::BadHost("..".into())),
            ("me@ true", UsageFault::BadHost(String::new())),
        ] {
            assert_eq!(parsed(line), Err(fault), "{line}");
        }
    }
}
