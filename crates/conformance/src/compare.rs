//! The differences between two normalized answers, and which of them are known. Pure.

use serde_json::Value;

use crate::difference::Difference;
use crate::known::Known;
use crate::program::{Program, Step};
use crate::side::Answer;

/// The most differences reported for one answer.
const MAX_PER_ANSWER: usize = 12;

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Differences {
    /// The unknown differences of the first answer that has any.
    pub unknown: Vec<Difference>,
    /// The names of the known differences that occurred.
    pub known: Vec<String>,
}

/// Compares answers in order, up to the first one with an unknown difference or another code: after a write that
/// succeeded on one side only, further answers are not comparable.
pub fn compare(program: &Program, real: &[Answer], ours: &[Answer], list: &[Known]) -> Differences {
    let mut outcome = Differences::default();
    for ((step, real), ours) in program.steps.iter().zip(real).zip(ours) {
        let found = differences(step, real, ours);
        for difference in &found {
            match list.iter().find(|known| known.covers(step, difference, real)) {
                Some(known) => outcome.known.push(known.name.clone()),
                None => outcome.unknown.push(difference.clone()),
            }
        }
        let apart = found.iter().any(|d| d.pointer == "/code") || (!found.is_empty() && step.method != "GET");
        if !outcome.unknown.is_empty() || apart {
            break;
        }
    }
    outcome
}

fn differences(step: &Step, real: &Answer, ours: &Answer) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut add = |pointer: &str, real: Option<&Value>, ours: Option<&Value>| {
        found.push(Difference {
            step: step.id,
            verb: step.verb(),
            resource: step.resource(),
            pointer: pointer.to_owned(),
            real: real.cloned(),
            ours: ours.cloned(),
        });
    };
    if real.code != ours.code {
        let tell = |answer: &Answer| match answer.body.get("message").and_then(Value::as_str) {
            Some(message) => Value::String(format!("{} {message}", answer.code)),
            None => Value::from(answer.code),
        };
        add("/code", Some(&tell(real)), Some(&tell(ours)));
        return found;
    }
    if real.media != ours.media {
        add("/type", Some(&real.media.clone().into()), Some(&ours.media.clone().into()));
    }
    walk("/warnings", &real.warnings.clone().into(), &ours.warnings.clone().into(), &mut add);
    walk("/body", &real.body, &ours.body, &mut add);
    found.truncate(MAX_PER_ANSWER);
    found
}

fn walk(
    pointer: &str,
    real: &Value,
    ours: &Value,
    add: &mut impl FnMut(&str, Option<&Value>, Option<&Value>),
) {
    match (real, ours) {
        (Value::Object(a), Value::Object(b)) => {
            for (name, value) in a {
                let at = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                match b.get(name) {
                    Some(other) => walk(&at, value, other, add),
                    None => add(&at, Some(value), None),
                }
            }
            for (name, value) in b.iter().filter(|(name, _)| !a.contains_key(*name)) {
                add(&format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1")), None, Some(value));
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for (index, value) in a.iter().enumerate() {
                match b.get(index) {
                    Some(other) => walk(&format!("{pointer}/{index}"), value, other, add),
                    None => add(&format!("{pointer}/{index}"), Some(value), None),
                }
            }
            for (index, value) in b.iter().enumerate().skip(a.len()) {
                add(&format!("{pointer}/{index}"), None, Some(value));
            }
        }
        (a, b) if same(a, b) => {}
        (a, b) => add(pointer, Some(a), Some(b)),
    }
}

/// Returns whether two JSON values are equal; 1 equals 1.0.
fn same(a: &Value, b: &Value) -> bool {
    a == b || (a.is_number() && b.is_number() && a.as_f64() == b.as_f64())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::program::Body;

    fn step() -> Step {
        let path = "/api/v1/namespaces/n/pods".into();
        Step { id: 4, method: "POST".into(), path, query: vec![], headers: vec![], body: Body::Nothing }
    }

    fn answer(code: u16, body: Value) -> Answer {
        Answer { code, body, ..Answer::default() }
    }

    #[test]
    fn every_differing_place_is_reported() {
        let real = answer(200, json!({"a": 1, "b": [{"c": "x"}, 2], "only": true}));
        let ours = answer(200, json!({"a": 1.0, "b": [{"c": "y"}], "more": null}));
        let pointers = differences(&step(), &real, &ours).into_iter().map(|d| d.pointer).collect::<Vec<_>>();
        assert_eq!(pointers, ["/body/b/0/c", "/body/b/1", "/body/only", "/body/more"]);
    }

    #[test]
    fn known_differences_are_separated_and_end_the_comparison_of_a_write() {
        let program = Program { seed: 0, steps: vec![step(), step()] };
        let real = [answer(422, json!({"message": "no"})), answer(200, json!({"a": 1}))];
        let ours = [answer(201, json!({})), answer(200, json!({"a": 2}))];
        let known: Known = serde_json::from_value(
            json!({"name": "n", "reason": "r", "resource": "pods", "pointer": "/code"}),
        )
        .unwrap();
        let outcome = compare(&program, &real, &ours, &[known]);
        assert_eq!((outcome.known, outcome.unknown.len()), (vec!["n".to_owned()], 0));
        assert_eq!(compare(&program, &real, &ours, &[]).unknown.len(), 1);
    }
}
