//! Shrinks a program that shows a difference, as long as the difference remains.

use std::future::Future;

use serde_json::Value;

use crate::program::{Body, Program};

/// The most smaller programs that are tried.
const MAX_TRIALS: usize = 80;

/// Returns the smallest program found for which `shows` is still true.
pub async fn shrink<F, T>(program: Program, shows: F) -> Program
where
    F: Fn(Program) -> T,
    T: Future<Output = bool>,
{
    let mut best = program;
    let mut trials = 0;
    loop {
        let mut smaller = None;
        for candidate in candidates(&best) {
            if trials >= MAX_TRIALS {
                return best;
            }
            trials += 1;
            if shows(candidate.clone()).await {
                smaller = Some(candidate);
                break;
            }
        }
        match smaller {
            Some(program) => best = program,
            None => return best,
        }
    }
}

/// Returns smaller programs, those with the most removed first.
fn candidates(program: &Program) -> Vec<Program> {
    let with = |steps| Program { seed: program.seed, steps };
    let mut made = Vec::new();
    let count = program.steps.len();
    if count > 3 {
        made.push(with(program.steps[..count / 2].to_vec()));
        made.push(with(program.steps[count / 2..].to_vec()));
    }
    if count > 1 {
        for index in (0..count).rev() {
            let mut steps = program.steps.clone();
            steps.remove(index);
            made.push(with(steps));
        }
    }
    for (index, step) in program.steps.iter().enumerate() {
        let Body::Json(body) = &step.body else { continue };
        for pointer in removable(body) {
            let mut steps = program.steps.clone();
            let mut body = body.clone();
            remove(&mut body, &pointer);
            steps[index].body = Body::Json(body);
            made.push(with(steps));
        }
    }
    made
}

/// Returns pointers to what may be removed: everything except for what identifies an object.
fn removable(body: &Value) -> Vec<String> {
    let mut found = crate::generate::pointers(body);
    found.retain(|pointer| {
        !matches!(pointer.as_str(), "" | "/apiVersion" | "/kind" | "/metadata" | "/metadata/name")
    });
    found.sort_by_key(|pointer| pointer.matches('/').count());
    found
}

/// Removes the value at a pointer.
pub fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, last)) = pointer.rsplit_once('/') else { return };
    match value.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.remove(&last.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(items)) => {
            if let Some(index) = last.parse::<usize>().ok().filter(|index| *index < items.len()) {
                items.remove(index);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::program::Step;

    #[tokio::test]
    async fn shrinking_removes_what_the_difference_does_not_need() {
        let step = |id, body| Step {
            id,
            method: "POST".into(),
            path: "/".into(),
            query: vec![],
            headers: vec![],
            body: Body::Json(body),
        };
        let steps = (0..6).map(|id| step(id, json!({"a": {"b": id, "c": 1}, "d": [1, 2]}))).collect();
        let shows = |program: Program| async move {
            program.steps.iter().any(|step| matches!(&step.body, Body::Json(body) if body["a"]["b"] == 3))
        };
        let small = shrink(Program { seed: 0, steps }, shows).await;
        assert_eq!(small.steps, vec![step(3, json!({"a": {"b": 3}}))]);
    }
}
