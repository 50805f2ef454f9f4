//! What is wrong with a request, as far as the request itself shows it. The paths are the names of its
//! fields.

use plan::MOST_WORKERS;

use super::{Mount, Part, Request, Source, Variable};
use crate::{Fault, Kind};

/// The fault of a field.
pub(crate) fn fault(path: &str, message: impl Into<String>, advice: &str) -> Fault {
    let advice = Some(advice.to_owned()).filter(|advice| !advice.is_empty());
    Fault { source: String::new(), position: None, path: path.to_owned(), message: message.into(), advice }
}

/// The fault of a request without an image. A TrainJob may leave the image to its runtime.
pub(super) fn without_image(request: &Request) -> Option<Fault> {
    request.image.is_empty().then(|| fault("image", "is required", "name the image that has the program"))
}

/// The fault of an image that no node could pull (`InvalidImageName`).
fn of_image(image: &str) -> Option<Fault> {
    let is_faulty = !image.is_empty() && semantics::image_name::fault(image).is_some();
    let advice =
        "write it as registry/path:tag, such as quay.io/team/train:1; the path has no upper-case letters";
    is_faulty.then(|| fault("image", format!("\"{image}\" is not the name of an image"), advice))
}

/// All other faults.
pub(super) fn faults(request: &Request) -> Vec<Fault> {
    let mut found = Vec::from_iter(of_image(&request.image));
    if request.kind != Kind::TrainJob && !request.runtime.is_empty() {
        found.push(fault("runtime", "is for a TrainJob", "leave it out, or create a TrainJob"));
    }
    if request.command.is_empty() {
        found.push(fault("command", "is required", "give a program and its arguments"));
    }
    if request.workers < 1 {
        found.push(fault("workers", format!("must be at least 1, but is {}", request.workers), ""));
    }
    if request.workers > MOST_WORKERS {
        let advice = "use fewer Workers, with more slots each";
        found.push(fault(
            "workers",
            format!("must be at most {MOST_WORKERS}, but is {}", request.workers),
            advice,
        ));
    }
    if request.slots.is_some_and(|slots| slots < 1) {
        found.push(fault("slots", "must be at least 1", "it is the number of ranks per Worker"));
    }
    let amounts = [
        ("cpu", "cpu", &request.cpu),
        ("memory", "memory", &request.memory),
        ("launcher_cpu", "cpu", &request.launcher_cpu),
        ("launcher_memory", "memory", &request.launcher_memory),
    ];
    let amounts = amounts.map(|(path, resource, text)| (path, resource, text.as_deref()));
    found.extend(amounts.iter().flat_map(|(path, resource, text)| not_a_quantity(path, resource, *text)));
    found.extend(amounts.iter().flat_map(|(path, resource, text)| odd_memory(path, resource, *text)));
    let parts = [("worker", &request.worker), ("launcher", &request.launcher)];
    found.extend(parts.into_iter().flat_map(|(path, part)| of_resources(path, part)));
    if request.workdir.as_deref().is_some_and(|directory| !directory.starts_with('/')) {
        found.push(fault("workdir", "is not an absolute path", "begin it with /"));
    }
    let variables = parts.map(|(_, part)| &part.env).into_iter().flatten();
    found.extend(request.env.iter().chain(variables).filter_map(of_variable));
    let mounts = parts.map(|(_, part)| &part.volumes).into_iter().flatten();
    found.extend(request.volumes.iter().chain(mounts).flat_map(of_mount));
    found
}

fn of_resources(path: &str, part: &Part) -> Vec<Fault> {
    let mut found = Vec::new();
    for (kind, amounts) in [("requests", &part.requests), ("limits", &part.limits)] {
        for (resource, text) in amounts {
            found.extend(of_amount(&format!("{path}.{kind}.{resource}"), resource, Some(text)));
        }
    }
    found
}

fn of_amount(path: &str, resource: &str, text: Option<&str>) -> Vec<Fault> {
    not_a_quantity(path, resource, text).into_iter().chain(odd_memory(path, resource, text)).collect()
}

fn not_a_quantity(path: &str, resource: &str, text: Option<&str>) -> Option<Fault> {
    let text = text.filter(|text| !is_quantity(text))?;
    let advice = match resource {
        "cpu" => "use 4, 0.5 or 500m",
        "memory" => "use 512Mi, 16Gi or 1.5G",
        _ => "use a number such as 1",
    };
    Some(fault(path, format!("\"{text}\" is not a quantity"), advice))
}

/// Amounts of memory that nobody means.
fn odd_memory(path: &str, resource: &str, text: Option<&str>) -> Option<Fault> {
    let text = text.filter(|_| resource == "memory")?;
    if text.ends_with('m') {
        return Some(fault(path, "is in thousandths of a byte", "use Mi for mebibytes"));
    }
    let advice = "use Mi for mebibytes, Gi for gibibytes";
    is_without_unit(text).then(|| fault(path, format!("is {text} bytes"), advice))
}

pub(super) fn of_variable(variable: &Variable) -> Option<Fault> {
    let Variable { name, .. } = variable;
    let is_wrong =
        name.is_empty() || name.contains(['=', '\0']) || name.starts_with(|c: char| c.is_ascii_digit());
    is_wrong.then(|| fault("env", format!("\"{name}\" is not a valid variable name"), "use NAME=VALUE"))
}

pub(super) fn of_mount(Mount { path, source, .. }: &Mount) -> Vec<Fault> {
    let mut found = Vec::new();
    if !path.starts_with('/') || path.contains(':') {
        let message = format!("mounts {} at \"{path}\"", source.name());
        found.push(fault("volumes", message, "use an absolute path without a colon"));
    }
    if let Source::Scratch { size, .. } = source {
        found.extend(of_amount("volumes.size", "memory", size.as_deref()));
    }
    found
}

/// Whether an amount of memory lacks its unit: no container runs in less than a mebibyte.
fn is_without_unit(text: &str) -> bool {
    text.bytes().all(|letter| letter.is_ascii_digit())
        && text.parse().is_ok_and(|bytes: u64| (1..1 << 20).contains(&bytes))
}

/// Whether the text is a Kubernetes quantity that is not negative (`k8s.io/apimachinery/pkg/api/resource`).
pub fn is_quantity(text: &str) -> bool {
    // Kubernetes takes a suffix alone for zero.
    let has_number = text.trim_start_matches('.').starts_with(|c: char| c.is_ascii_digit());
    has_number && text.parse::<semantics::Quantity>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_distinguished_from_other_text() {
        for good in ["1", "0.5", "500m", "16Gi", "1e3", "2G", "1."] {
            assert!(is_quantity(good), "{good}");
        }
        for bad in ["", "four", "16GB", "1.2.3", "-1", "Gi", "."] {
            assert!(!is_quantity(bad), "{bad}");
        }
    }
}
