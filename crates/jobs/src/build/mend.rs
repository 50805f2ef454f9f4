//! Replaces what is wrong with a request, so that everything else of its job can be checked at the same time. Such
//! a job is never created.

use super::faults::{of_mount, of_variable};
use super::{Mount, Request, Variable, VariableValue};
use crate::Fault;

/// A valid image and a valid command.
const ANY: &str = "any";

/// The request with other values in the fields that have these faults.
pub(crate) fn mended(request: &Request, faults: &[Fault]) -> Request {
    let mut mended = request.clone();
    for fault in faults {
        mend(&mut mended, &fault.path);
    }
    mended
}

fn mend(request: &mut Request, path: &str) {
    match path {
        "image" => ANY.clone_into(&mut request.image),
        "command" => request.command = vec![ANY.to_owned()],
        "workers" => request.workers = 1,
        "slots" => request.slots = None,
        "cpu" => request.cpu = None,
        "memory" => request.memory = None,
        "launcher_cpu" => request.launcher_cpu = None,
        "launcher_memory" => request.launcher_memory = None,
        "workdir" => request.workdir = None,
        "env" => keep_variables(request, |variable| of_variable(variable).is_none()),
        "volumes" | "volumes.size" => keep_volumes(request, |mount| of_mount(mount).is_empty()),
        _ if path.contains("variables[") => keep_variables(request, has_key),
        _ => leave_out_amount(request, path),
    }
}

fn keep_variables(request: &mut Request, is_kept: impl Fn(&Variable) -> bool) {
    for variables in [&mut request.env, &mut request.worker.env, &mut request.launcher.env] {
        variables.retain(&is_kept);
    }
}

fn keep_volumes(request: &mut Request, is_kept: impl Fn(&Mount) -> bool) {
    for volumes in [&mut request.volumes, &mut request.worker.volumes, &mut request.launcher.volumes] {
        volumes.retain(&is_kept);
    }
}

fn has_key(variable: &Variable) -> bool {
    match &variable.value {
        VariableValue::Text(_) => true,
        VariableValue::SecretKey(_, key) | VariableValue::ConfigMapKey(_, key) => !key.is_empty(),
    }
}

/// Leaves out an amount of a role's pods, such as `worker.limits.amd.com/gpu`.
fn leave_out_amount(request: &mut Request, path: &str) {
    let (worker, launcher) = (&mut request.worker, &mut request.launcher);
    for (prefix, amounts) in [
        ("worker.requests.", &mut worker.requests),
        ("worker.limits.", &mut worker.limits),
        ("launcher.requests.", &mut launcher.requests),
        ("launcher.limits.", &mut launcher.limits),
    ] {
        if let Some(resource) = path.strip_prefix(prefix) {
            amounts.remove(resource);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::build::{Part, Source, faults};

    #[test]
    fn a_mended_request_has_no_faults_and_keeps_everything_else() {
        let limits = |amount: &str| BTreeMap::from([("amd.com/gpu".to_owned(), amount.to_owned())]);
        let scratch = |size: &str| {
            Mount::new("/tmp", Source::Scratch { size: Some(size.to_owned()), in_memory: false })
        };
        let text = |name: &str| Variable::from((name.to_owned(), "1".to_owned()));
        let keyless =
            Variable { name: "B".to_owned(), value: VariableValue::SecretKey("s".to_owned(), String::new()) };
        let wrong = Request {
            name: "train".to_owned(),
            image: String::new(),
            workers: 0,
            slots: Some(0),
            cpu: Some("many".to_owned()),
            memory: Some("16".to_owned()),
            workdir: Some("here".to_owned()),
            env: vec![text("1A"), text("A"), keyless],
            volumes: vec![Mount::claim("data", "/data"), Mount::claim("data", "data"), scratch("8GB")],
            worker: Part { limits: limits("x"), ..Part::default() },
            launcher: Part { limits: limits("1"), ..Part::default() },
            queue: Some("gpus".to_owned()),
            ..Request::default()
        };
        let mut found = faults(&wrong);
        found.push(crate::build::fault("variables[0].key", "is required", ""));
        let mended = mended(&wrong, &found);
        assert_eq!(faults(&mended), []);
        assert_eq!((mended.env, mended.volumes), (vec![text("A")], vec![Mount::claim("data", "/data")]));
        assert_eq!((mended.launcher.limits, mended.queue.as_deref()), (limits("1"), Some("gpus")));
        assert!(mended.worker.limits.is_empty() && mended.cpu.is_none());
    }
}
