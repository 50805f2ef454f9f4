//! Runs `odh` with its own home directory, isolated from this machine's user, and leaves nothing behind.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;

use serde_json::Value;

/// A command's output and exit code.
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    /// Checks the exit code; shows the output if it differs.
    #[track_caller]
    pub fn ends(self, code: i32) -> Said {
        assert_eq!(self.code, code, "\nstdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Checks that stderr contains a text.
    #[track_caller]
    pub fn says(self, text: &str) -> Said {
        assert!(self.err.contains(text), "no {text:?} in stderr:\n{}", self.err);
        self
    }

    /// Checks that stdout contains a text.
    #[track_caller]
    pub fn prints(self, text: &str) -> Said {
        assert!(self.out.contains(text), "no {text:?} in stdout:\n{}", self.out);
        self
    }

    /// stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }

    /// Returns the `error` of the last line of stderr; every line of stderr must be JSON.
    #[track_caller]
    pub fn error(&self) -> Value {
        let lines: Vec<Value> = self.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines.last().expect("an error")["error"].clone()
    }
}

/// A home directory with no kubeconfig, no cluster and nothing else.
pub struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    pub fn new() -> Home {
        Home { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// The state directory of this home's cluster.
    pub fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        build_launch_agent();
        let mut command = Command::new(env!("CARGO_BIN_EXE_odh"));
        command.args(arguments).current_dir(self.path()).stdin(Stdio::null());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", self.path()).env("ODH_HOME", self.state());
        command
    }

    pub fn odh(&self, arguments: &[&str]) -> Said {
        let out = self.command(arguments).output().unwrap();
        Said {
            code: out.status.code().unwrap_or(-1),
            out: String::from_utf8(out.stdout).unwrap(),
            err: String::from_utf8(out.stderr).unwrap(),
        }
    }

    /// Runs `odh` with a line of words that contain no blanks.
    pub fn run(&self, line: &str) -> Said {
        self.odh(&line.split_whitespace().collect::<Vec<_>>())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if self.state().is_dir() {
            let _ = self.command(&["local", "down", "--purge"]).output();
        }
    }
}

/// `odh local up` needs the launch agent next to it, but for a test cargo builds only the test's own package.
fn build_launch_agent() {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let agent = Path::new(env!("CARGO_BIN_EXE_odh")).with_file_name("odh-launch");
        if !agent.is_file() {
            let built =
                Command::new(env!("CARGO")).args(["build", "--quiet", "--package", "launch"]).status();
            assert!(built.unwrap().success(), "the launch agent does not build");
        }
    });
}
