//! A request as the words of the command that creates the job.
//!
//! The words are those of the command line's `create`, whose tests parse them again.

use std::borrow::Cow;

use crate::build::{Mpi, Request, transport_name};

/// Returns the words of the command, the program first.
pub fn command(request: &Request) -> Vec<String> {
    let mut words: Vec<String> =
        ["odh", "training", "create", "mpijob", &request.name].map(str::to_owned).to_vec();
    let mut put = |flag: &str, value: Option<String>| match value {
        // A value that looks like a flag has to be joined with its own.
        Some(value) if value.starts_with('-') => words.push(format!("{flag}={value}")),
        Some(value) => words.extend([flag.to_owned(), value]),
        None => {}
    };
    put("--namespace", request.namespace.clone());
    put("--workers", Some(request.workers.to_string()));
    put("--image", Some(request.image.clone()));
    put("--workdir", request.workdir.clone());
    put("--gpus", request.gpus.map(|gpus| gpus.to_string()));
    put("--cpu", request.cpu.clone());
    put("--memory", request.memory.clone());
    put("--slots", request.slots.map(|slots| slots.to_string()));
    let mpi = match request.mpi {
        Mpi::OpenMpi => None,
        Mpi::Intel => Some("intel"),
        Mpi::Mpich => Some("mpich"),
    };
    put("--mpi", mpi.map(str::to_owned));
    put("--transport", request.transport.map(|transport| transport_name(transport).to_owned()));
    for (name, value) in &request.env {
        put("--env", Some(format!("{name}={value}")));
    }
    for (claim, path) in &request.volumes {
        put("--pvc", Some(format!("{claim}:{path}")));
    }
    for (flag, pairs) in [("--label", &request.labels), ("--annotation", &request.annotations)] {
        for (name, value) in pairs {
            put(flag, Some(format!("{name}={value}")));
        }
    }
    put("--queue", request.queue.clone());
    put("--priority", request.priority.clone());
    put("--launcher-cpu", request.launcher_cpu.clone());
    put("--launcher-memory", request.launcher_memory.clone());
    put("--ttl", request.ttl_seconds.map(|seconds| seconds.to_string()));
    put("--clean-pods", request.clean_pod_policy.clone());
    put("--deadline", request.deadline_seconds.map(|seconds| format!("{seconds}s")));
    put("--retries", request.retries.map(|retries| retries.to_string()));
    let switches = [
        ("--untagged", request.untagged),
        ("--restricted", request.restricted),
        ("--suspend", request.suspend),
        ("--in-launcher", request.in_launcher),
    ];
    for (flag, given) in switches {
        words.extend(given.then(|| flag.to_owned()));
    }
    words.push("--".to_owned());
    words.extend(request.command.iter().cloned());
    words
}

/// Joins words to a line that a POSIX shell splits into the same words.
pub fn shell(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_only_what_was_requested() {
        let request = Request {
            name: "pi".to_owned(),
            workers: 4,
            image: "img".to_owned(),
            command: ["python", "it's", ""].map(str::to_owned).to_vec(),
            deadline_seconds: Some(90),
            env: vec![("-A".to_owned(), "1".to_owned())],
            ..Request::default()
        };
        assert_eq!(
            shell(&command(&request)),
            r"odh training create mpijob pi --workers 4 --image img --env=-A=1 --deadline 90s -- python 'it'\''s' ''"
        );
    }
}
