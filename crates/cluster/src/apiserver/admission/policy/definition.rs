//! Policies and their bindings, compiled: what they match, what they say, which parameters they take.
//!
//! Both were validated before they were stored. An expression that cannot be compiled all the same is kept as the text
//! that its evaluation then fails with.

use std::sync::Arc;

use kube_cel::cel::Program;
use serde_json::Value;

use crate::apiserver::admission::Attributes;
use crate::apiserver::admission::webhook::hook::{Condition, Rule, conditions, selector, texts};
use crate::apiserver::admission::webhook::matching;
use crate::apiserver::rules::Kind;
use crate::apiserver::status::Refusal;
use crate::expressions;
use crate::expressions::initializers::{self, Maker};
use crate::objects::LabelSelector;

/// What a policy or a binding matches (`MatchResources`).
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

    /// The kind in whose version it matches a write, if it does; without rules every write matches
    /// (`policy/matching/matching.go`).
    ///
    /// # Errors
    /// 404 for a namespace that is not there.
    pub fn kind(
        &self,
        at: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<Option<Arc<Kind>>, Refusal> {
        if !matching::selects_object(&self.objects, object, old)
            || matching::matching_kind(at, &self.excluded, self.matches_equivalents).is_some()
        {
            return Ok(None);
        }
        let kind = match self.rules.as_slice() {
            [] => Some(at.call.entry.kind.clone()),
            rules => matching::matching_kind(at, rules, self.matches_equivalents),
        };
        let Some(kind) = kind else { return Ok(None) };
        Ok(matching::selects_namespace(at, &self.namespaces, object)?.then_some(kind))
    }
}

/// An expression with its text, or why it does not compile.
pub struct Expression {
    /// As it was written, without space around it.
    pub text: String,
    /// Compiled.
    pub program: Result<Program, String>,
}

impl Expression {
    fn of(text: &Value) -> Self {
        let text = text.as_str().unwrap_or_default().trim().to_owned();
        Self { program: expressions::compile(&text), text }
    }
}

/// One thing that a validating policy asks for.
pub struct Validation {
    /// Must give true.
    pub expression: Expression,
    /// The reason of a refusal.
    pub reason: String,
    /// Said where it does not hold,
    pub message: String,
    /// unless this gives a text.
    pub message_expression: Option<Expression>,
}

/// What is noted in the audit log.
pub struct Annotation {
    /// The key, behind the policy's name.
    pub key: String,
    /// Gives the value; nothing is noted for null.
    pub value: Expression,
}

/// One change of a mutating policy.
pub enum Mutation {
    /// Merged into the object as server-side apply does.
    Merge(Result<Maker, String>),
    /// The operations of a JSON patch.
    Patch(Result<Maker, String>),
}

/// A policy of either kind.
pub struct Policy {
    /// Its name.
    pub name: String,
    /// What it matches.
    pub matching: Matching,
    /// All must hold.
    pub conditions: Vec<Condition>,
    /// What its expressions find under `variables`, in the order in which one may refer to another.
    pub variables: Vec<(String, Expression)>,
    /// Version and kind of its parameters.
    pub parameters: Option<(String, String)>,
    /// Whether it counts as consent when it cannot be evaluated (`failurePolicy: Ignore`).
    pub ignores_failure: bool,
    /// Of a validating policy.
    pub validations: Vec<Validation>,
    /// Of a validating policy.
    pub annotations: Vec<Annotation>,
    /// Of a mutating policy.
    pub mutations: Vec<Mutation>,
    /// Whether it is asked again when others changed the object after it.
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

/// Where a policy applies, with which parameters, and what follows.
pub struct Binding {
    /// Its name.
    pub name: String,
    /// The policy's name.
    pub policy: String,
    /// What it narrows the policy to.
    pub matching: Option<Matching>,
    /// Which parameters (`ParamRef`), or null.
    pub parameters: Value,
    /// `Deny`, `Warn`, `Audit`.
    pub actions: Vec<String>,
}

impl Binding {
    /// Reads a binding.
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
