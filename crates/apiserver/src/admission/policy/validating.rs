//! ValidatingAdmissionPolicies.
//!
//! Source: apiserver `pkg/admission/plugin/policy/validating/{dispatcher,validator}.go`.

use kube_cel::cel::Value as Cel;
use serde_json::{Value, json};

use super::definition::{Annotation, Binding, Policy, Validation};
use super::scene::Scene;
use super::{Due, VALIDATING, due};
use crate::admission::Attributes;
use crate::status::StatusError;

/// The maximum size of an evaluated message, in bytes (`MaxEvaluatedMessageExpressionSizeBytes`).
const MAX_MESSAGE_BYTES: usize = 5 * 1024;
/// The maximum length of an audit annotation, in characters.
const MAX_ANNOTATION: usize = 10 * 1024;
/// The audit annotation for failures that don't deny the request (`validationActions: [Audit]`).
const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// A failed validation.
struct Denial {
    /// The index of the validation; 0 for other errors.
    place: usize,
    message: String,
    reason: String,
}

impl Denial {
    fn of_error(place: usize, message: String) -> Self {
        Self { place, message, reason: "Invalid".to_owned() }
    }
}

/// The result of evaluating one policy.
#[derive(Default)]
struct PolicyDecision {
    denials: Vec<Denial>,
    /// Errors of audit annotations. They deny the request whatever the binding's actions are.
    broken_notes: Vec<String>,
    notes: Vec<(String, String)>,
}

/// Evaluates every matching policy for a write.
///
/// # Errors
/// The first denial.
pub fn validate(at: &Attributes<'_>, object: Option<&Value>, old: Option<&Value>) -> Result<(), StatusError> {
    let (due, broken) = due(at, VALIDATING, object, old)?;
    let mut refused = None;
    for broken in broken.into_iter().filter(|broken| !broken.policy.ignores_failure) {
        let denial = Denial::of_error(0, broken.why);
        refused
            .get_or_insert_with(|| refusal(at, object, &broken.policy, broken.binding.as_deref(), &denial));
    }
    for Due { policy, binding, invocation, parameters } in &due {
        let scene = Scene::new(at, invocation, [object, old], parameters.clone());
        let verdict = judge(policy, scene);
        for denial in &verdict.denials {
            for action in &binding.actions {
                match action.as_str() {
                    "Deny" => {
                        refused.get_or_insert_with(|| refusal(at, object, policy, Some(binding), denial));
                    }
                    "Warn" => at.context.warn(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                        policy.name, binding.name, denial.message
                    )),
                    _ => at.context.annotate(FAILURE.to_owned(), failure(policy, binding, denial)),
                }
            }
        }
        for why in verdict.broken_notes {
            let denial = Denial::of_error(0, why);
            refused.get_or_insert_with(|| refusal(at, object, policy, Some(binding), &denial));
        }
        for (key, value) in verdict.notes {
            at.context.annotate(format!("{}/{key}", policy.name), value);
        }
    }
    refused.map_or(Ok(()), Err)
}

fn judge(policy: &Policy, mut scene: Scene) -> PolicyDecision {
    let mut verdict = PolicyDecision::default();
    match scene.meets(policy) {
        Ok(true) => {}
        Ok(false) => return verdict,
        Err(why) => {
            if !policy.ignores_failure {
                verdict.denials.push(Denial::of_error(0, why));
            }
            return verdict;
        }
    }
    scene.declare(policy);
    for (place, validation) in policy.validations.iter().enumerate() {
        match scene.evaluate(&validation.expression) {
            Ok(Cel::Bool(true)) => {}
            Ok(_) => {
                let message = message(&mut scene, validation);
                verdict.denials.push(Denial { place, message, reason: validation.reason.clone() });
            }
            Err(why) if !policy.ignores_failure => verdict.denials.push(Denial::of_error(place, why)),
            Err(_) => {}
        }
    }
    for annotation in &policy.annotations {
        note(&mut scene, annotation, policy.ignores_failure, &mut verdict);
    }
    verdict
}

/// Returns the message of a failed validation: its message expression's value, its own message, or the
/// expression.
fn message(scene: &mut Scene, validation: &Validation) -> String {
    let given =
        validation.message_expression.as_ref().and_then(|expression| match scene.evaluate(expression) {
            Ok(Cel::String(text)) => Some(text.trim().to_owned()),
            _ => None,
        });
    let is_fit = |text: &String| !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n');
    match (given.filter(is_fit), validation.message.as_str()) {
        (Some(given), _) => given,
        (None, "") => format!("failed expression: {}", validation.expression.text),
        (None, message) => message.to_owned(),
    }
}

fn note(scene: &mut Scene, annotation: &Annotation, ignores_failure: bool, verdict: &mut PolicyDecision) {
    match scene.evaluate(&annotation.value) {
        Ok(Cel::String(text)) if !text.trim().is_empty() => {
            let value = text.trim().chars().take(MAX_ANNOTATION).collect();
            verdict.notes.push((annotation.key.clone(), value));
        }
        Ok(Cel::String(_) | Cel::Null) => {}
        Ok(other) => verdict.broken_notes.push(format!(
            "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or null.",
            annotation.value.text,
            other.type_of()
        )),
        Err(why) if !ignores_failure => verdict.broken_notes.push(why),
        Err(_) => {}
    }
}

fn failure(policy: &Policy, binding: &Binding, denial: &Denial) -> String {
    json!([{"message": denial.message, "policy": policy.name, "binding": binding.name,
        "expressionIndex": denial.place, "validationActions": binding.actions}])
    .to_string()
}

fn refusal(
    at: &Attributes<'_>,
    object: Option<&Value>,
    policy: &Policy,
    binding: Option<&Binding>,
    denial: &Denial,
) -> StatusError {
    let with = binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
    let message =
        format!("ValidatingAdmissionPolicy '{}'{with} denied request: {}", policy.name, denial.message);
    let mut refusal = at.forbidden(object, &message).with_cause("", &message, "");
    refusal.code = match denial.reason.as_str() {
        "Forbidden" => 403,
        "Unauthorized" => 401,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    refusal.reason = denial.reason.clone().into();
    refusal
}
