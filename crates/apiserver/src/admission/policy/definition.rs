//! Compiled policies and bindings.
//!
//! Both were validated before they were stored. If an expression still doesn't compile, the error is kept,
//! and evaluation fails with it.

use std::sync::Arc;

use kube_cel::cel::Program;
use serde_json::Value;

use crate::admission::Attributes;
use crate::admission::webhook::hook::{Condition, Rule, conditions, selector, texts};
use crate::admission::webhook::matching;
use crate::status::StatusError;
use objects::Kind;
use objects::LabelSelector;
use objects::expressions;
use objects::expressions::initializers::{self, Maker};

/// The compiled `MatchResources` of a policy or a binding.
pub struct Matching {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    matches_equivalents: bool,
    namespaces: LabelSelector,
    objects: LabelSelector,
}

impl Matching {
    fn of(resources: &Value) -> Self {
        let rules = |field: &str| resources[field].as_array().into_iter().flatten().map(Rule::of).collect();
        Self {
            rules: rules("resourceRules"),
            excluded: rules("excludeResourceRules"),
            matches_equivalents: resources["matchPolicy"] != "Exact",
            namespaces: selector(&resources["namespaceSelector"]),
            objects: selector(&resources["objectSelector"]),
        }
    }

    /// Returns the kind in whose version a write matches, or `None`. Without rules, every write matches
    /// (`policy/matching/matching.go`).
    ///
    /// # Errors
    /// 404 for an unknown namespace.
    pub fn kind(
        &self,
        at: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<Option<Arc<Kind>>, StatusError> {
        if !matching::selects_object(&self.objects, object, old)
            || matching::matching_kind(at, &self.excluded, self.matches_equivalents).is_some()
        {
            return Ok(None);
        }
        let kind = match self.rules.as_slice() {
            [] => Some(at.context.entry.kind.clone()),
            rules => matching::matching_kind(at, rules, self.matches_equivalents),
        };
        let Some(kind) = kind else { return Ok(None) };
        Ok(matching::selects_namespace(at, &self.namespaces, object)?.then_some(kind))
    }
}

/// A compiled expression.
pub struct Expression {
    /// The source text, trimmed.
    pub text: String,
    /// The program, or the error of its compilation.
    pub program: Result<Program, String>,
}

impl Expression {
    fn of(text: &Value) -> Self {
        let text = text.as_str().unwrap_or_default().trim().to_owned();
        Self { program: expressions::compile(&text), text }
    }
}

/// A validation of a validating policy.
pub struct Validation {
    /// Must evaluate to true.
    pub expression: Expression,
    /// The reason of the rejection.
    pub reason: String,
    /// The message, used unless `message_expression` evaluates to a text.
    pub message: String,
    /// Evaluates to the message.
    pub message_expression: Option<Expression>,
}

/// An audit annotation.
pub struct Annotation {
    /// The key, appended to the policy's name.
    pub key: String,
    /// Evaluates to the value; null adds no annotation.
    pub value: Expression,
}

/// A mutation of a mutating policy.
pub enum Mutation {
    /// An apply configuration, merged as in server-side apply.
    Merge(Result<Maker, String>),
    /// The operations of a JSON patch.
    Patch(Result<Maker, String>),
}

/// A validating or mutating policy.
pub struct Policy {
    /// The name.
    pub name: String,
    /// The writes that it applies to.
    pub matching: Matching,
    /// The match conditions, all of which must hold.
    pub conditions: Vec<Condition>,
    /// The values of `variables`; later ones may refer to earlier ones.
    pub variables: Vec<(String, Expression)>,
    /// `apiVersion` and `kind` of its parameters.
    pub parameters: Option<(String, String)>,
    /// Whether errors are ignored (`failurePolicy: Ignore`).
    pub ignores_failure: bool,
    /// The validations of a validating policy.
    pub validations: Vec<Validation>,
    /// The audit annotations of a validating policy.
    pub annotations: Vec<Annotation>,
    /// The mutations of a mutating policy.
    pub mutations: Vec<Mutation>,
    /// Whether it is reinvoked if the object changes after it.
    pub reinvokes: bool,
}

impl Policy {
    /// Compiles a policy.
    pub fn of(policy: &Value) -> Self {
        let spec = &policy["spec"];
        let list = |field: &str| spec[field].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let parameters = &spec["paramKind"];
        Self {
            name: text(&policy["metadata"]["name"]),
            matching: Matching::of(&spec["matchConstraints"]),
            conditions: conditions(spec),
            variables: list("variables")
                .map(|variable| (text(&variable["name"]), Expression::of(&variable["expression"])))
                .collect(),
            parameters: parameters
                .is_object()
                .then(|| (text(&parameters["apiVersion"]), text(&parameters["kind"]))),
            ignores_failure: spec["failurePolicy"] == "Ignore",
            validations: list("validations").map(validation).collect(),
            annotations: list("auditAnnotations")
                .map(|note| Annotation {
                    key: text(&note["key"]),
                    value: Expression::of(&note["valueExpression"]),
                })
                .collect(),
            mutations: list("mutations").map(mutation).collect(),
            reinvokes: spec["reinvocationPolicy"] == "IfNeeded",
        }
    }
}

fn validation(given: &Value) -> Validation {
    let text = |field: &str| given[field].as_str().unwrap_or_default().trim().to_owned();
    Validation {
        expression: Expression::of(&given["expression"]),
        reason: match text("reason") {
            empty if empty.is_empty() => "Invalid".to_owned(),
            reason => reason,
        },
        message: text("message"),
        message_expression: Some(Expression::of(&given["messageExpression"])).filter(|e| !e.text.is_empty()),
    }
}

fn mutation(given: &Value) -> Mutation {
    let maker =
        |field: &str| initializers::compile(given[field]["expression"].as_str().unwrap_or_default().trim());
    match given["patchType"].as_str() {
        Some("JSONPatch") => Mutation::Patch(maker("jsonPatch")),
        _ => Mutation::Merge(maker("applyConfiguration")),
    }
}

/// A compiled binding.
pub struct Binding {
    /// The name.
    pub name: String,
    /// The policy's name.
    pub policy: String,
    /// Narrows the writes that the policy applies to.
    pub matching: Option<Matching>,
    /// The reference to the parameters (`ParamRef`), or null.
    pub parameters: Value,
    /// `Deny`, `Warn`, `Audit`.
    pub actions: Vec<String>,
}

impl Binding {
    /// Compiles a binding.
    pub fn of(binding: &Value) -> Self {
        let spec = &binding["spec"];
        Self {
            name: binding["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            policy: spec["policyName"].as_str().unwrap_or_default().to_owned(),
            matching: spec["matchResources"].is_object().then(|| Matching::of(&spec["matchResources"])),
            parameters: spec["paramRef"].clone(),
            actions: texts(&spec["validationActions"]),
        }
    }
}
