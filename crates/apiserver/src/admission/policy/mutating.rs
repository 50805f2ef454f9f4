//! MutatingAdmissionPolicies.
//!
//! Source: apiserver `pkg/admission/plugin/policy/mutating/dispatcher.go` and `patch`. The mutations of a
//! policy are applied in order, each to the result of the previous one.

use serde_json::Value;

use super::definition::{Mutation, Policy};
use super::scene::Scene;
use super::{Broken, Due, MUTATING, Round, due};
use crate::admission::{Attributes, webhook};
use crate::status::StatusError;
use objects::expressions::Variables;
use objects::patch::{self, PatchError};

/// Evaluates each matching policy in order, or only those of `only`.
///
/// # Errors
/// 403 if policies cannot be evaluated.
pub fn round(
    at: &Attributes<'_>,
    object: &mut Value,
    old: Option<&Value>,
    only: Option<&[usize]>,
) -> Result<Round, StatusError> {
    let mut round = Round::default();
    // Policies don't mutate deletions.
    if object.is_null() {
        return Ok(round);
    }
    let (due, mut broken) = due(at, MUTATING, Some(object), old)?;
    for (place, due) in due.iter().enumerate() {
        if only.is_some_and(|only| !only.contains(&place)) {
            continue;
        }
        let scene = Scene::new(at, &due.invocation, [Some(object), old], due.parameters.clone());
        let mut errors = Vec::new();
        match scene.meets(&due.policy) {
            Ok(false) => continue,
            Ok(true) => {
                let before = object.clone();
                for mutation in &due.policy.mutations {
                    errors.extend(mutate(at, due, mutation, object, old)?.err());
                }
                if *object != before {
                    round.changed_by = Some(place);
                }
                round.asked.push((place, due.policy.reinvokes));
            }
            Err(why) => errors.push(why),
        }
        broken.extend(errors.into_iter().map(|why| Broken {
            policy: due.policy.clone(),
            binding: Some(due.binding.clone()),
            why,
            is_misconfigured: false,
        }));
    }
    broken.retain(|broken| !broken.policy.ignores_failure);
    if broken.is_empty() { Ok(round) } else { Err(refusal(at, object, &broken)) }
}

/// Applies one mutation. The inner error is subject to the failure policy.
fn mutate(
    at: &Attributes<'_>,
    due: &Due,
    mutation: &Mutation,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<Result<(), String>, StatusError> {
    let mut scene = Scene::new(at, &due.invocation, [Some(object), old], due.parameters.clone());
    scene.declare(&due.policy);
    let asked = due.invocation.convert(at, object).into_owned();
    let next = match mutation {
        Mutation::Merge(Err(why)) | Mutation::Patch(Err(why)) => Err(why.clone()),
        Mutation::Merge(Ok(_)) if !at.is_whole() => {
            Err("an ApplyConfiguration is for whole objects only in the embedded cluster".to_owned())
        }
        Mutation::Merge(Ok(maker)) => scene.make(maker, Variables::make_object).and_then(|mut wanted| {
            for field in ["apiVersion", "kind"] {
                wanted[field] = asked[field].clone();
            }
            let merged = patch::apply::merge_untracked(&due.invocation.kind, &asked, &wanted);
            merged.map_err(|why| format!("error applying patch: {why}"))
        }),
        Mutation::Patch(Ok(maker)) => {
            scene.make(maker, Variables::make_operations).and_then(|operations| {
                match patch::json(&asked, &operations) {
                    Ok(next) => Ok(next),
                    // If a `test` operation fails, the patch has no effect, which isn't an error.
                    Err(PatchError::TestFailed(_)) => Ok(asked.clone()),
                    Err(PatchError::Inapplicable(why)) => Err(format!("JSON Patch: {why}")),
                    Err(other) => Err(format!("JSON Patch: {other}")),
                }
            })
        }
    };
    match next {
        Ok(next) => webhook::adopt(at, object, &asked, next).map(|_| Ok(())),
        Err(why) => Ok(Err(why)),
    }
}

fn refusal(at: &Attributes<'_>, object: &Value, broken: &[Broken]) -> StatusError {
    let text = |policy: &Policy, broken: &Broken| match &broken.binding {
        Some(binding) => {
            format!("policy '{}' with binding '{}' denied request: {}", policy.name, binding.name, broken.why)
        }
        None => format!("policy \"{}\" denied request: {}", policy.name, broken.why),
    };
    let mut refusal = at.forbidden(Some(object), "");
    for (place, broken) in broken.iter().enumerate() {
        let message = text(&broken.policy, broken);
        if place == 0 {
            refusal.message.clone_from(&message);
            // A misconfigured policy keeps the reason Forbidden.
            if !broken.is_misconfigured {
                refusal.reason = "Invalid".into();
            }
        }
        refusal = refusal.with_cause("", &message, "");
    }
    refusal
}
