//! One webhook of a configuration, compiled: what it matches, where it is, and how it is asked.
//!
//! A configuration has been validated before it was stored. What cannot be compiled all the same (a certificate that
//! is none) is kept as the text that the call then fails with.

use std::time::Duration;

use kube_cel::cel::Program;
use serde_json::Value;

use super::client::{self, Place};
use crate::expressions;
use crate::objects::LabelSelector;

/// See the module.
pub struct Hook {
    /// The hook's own name.
    pub name: String,
    /// The configuration that it stands in.
    pub configuration: String,
    /// Whether it may change objects.
    pub is_mutating: bool,
    /// What it is asked about.
    pub rules: Vec<Rule>,
    /// Whether other versions of the same objects count too (`matchPolicy: Equivalent`).
    pub matches_equivalents: bool,
    /// Which namespaces.
    pub namespaces: LabelSelector,
    /// Which objects.
    pub objects: LabelSelector,
    /// All must hold.
    pub conditions: Vec<Condition>,
    /// Whether it counts as consent when it does not answer (`failurePolicy: Ignore`).
    pub ignores_failure: bool,
    /// Whether a dry run may ask it.
    pub is_free_of_side_effects: bool,
    /// Whether it is asked again when others changed the object after it.
    pub reinvokes: bool,
    /// How long it may take.
    pub timeout: Duration,
    /// `v1` or `v1beta1`.
    pub review_version: &'static str,
    /// Where it is.
    pub place: Place,
}

/// A match condition: its name and its expression, or why that does not compile.
pub type Condition = (String, Result<Program, String>);

/// The match conditions of a webhook or a policy.
pub fn conditions(owner: &Value) -> Vec<Condition> {
    let one = |condition: &Value| {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        (text("name").to_owned(), expressions::compile(text("expression")))
    };
    owner["matchConditions"].as_array().into_iter().flatten().map(one).collect()
}

/// Operations, groups, versions, resources and scope, any of which may be `*`.
#[derive(Debug, Clone, Default)]
pub struct Rule {
    /// `CREATE` and so on.
    pub operations: Vec<String>,
    /// API groups.
    pub groups: Vec<String>,
    /// API versions.
    pub versions: Vec<String>,
    /// `pods`, `pods/status`, `*/scale`.
    pub resources: Vec<String>,
    /// `Cluster`, `Namespaced` or `*`.
    pub scope: String,
    /// Names of objects, of a policy only; none means all.
    pub names: Vec<String>,
}

impl Rule {
    /// Reads a rule of a configuration or policy.
    pub fn of(rule: &Value) -> Self {
        Self {
            operations: texts(&rule["operations"]),
            groups: texts(&rule["apiGroups"]),
            versions: texts(&rule["apiVersions"]),
            resources: texts(&rule["resources"]),
            scope: rule["scope"].as_str().unwrap_or("*").to_owned(),
            names: texts(&rule["resourceNames"]),
        }
    }
}

/// The hooks of a configuration, in its order.
pub fn compile(configuration: &Value) -> Vec<Hook> {
    let hooks = configuration["webhooks"].as_array();
    hooks.into_iter().flatten().map(|hook| one(configuration, hook)).collect()
}

fn one(configuration: &Value, hook: &Value) -> Hook {
    let is = |field: &str, word: &str| hook[field] == word;
    let versions = texts(&hook["admissionReviewVersions"]);
    let version =
        versions.iter().find_map(|version| ["v1", "v1beta1"].into_iter().find(|known| known == version));
    Hook {
        name: hook["name"].as_str().unwrap_or_default().to_owned(),
        configuration: configuration["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        is_mutating: configuration["kind"] == "MutatingWebhookConfiguration",
        rules: hook["rules"].as_array().into_iter().flatten().map(Rule::of).collect(),
        matches_equivalents: !is("matchPolicy", "Exact"),
        namespaces: selector(&hook["namespaceSelector"]),
        objects: selector(&hook["objectSelector"]),
        conditions: conditions(hook),
        ignores_failure: is("failurePolicy", "Ignore"),
        is_free_of_side_effects: is("sideEffects", "None") || is("sideEffects", "NoneOnDryRun"),
        reinvokes: is("reinvocationPolicy", "IfNeeded"),
        timeout: Duration::from_secs(hook["timeoutSeconds"].as_u64().unwrap_or(10).clamp(1, 30)),
        review_version: version.unwrap_or("v1"),
        place: client::place(&hook["clientConfig"]),
    }
}

/// An absent selector selects everything, as its default `{}` does.
pub fn selector(value: &Value) -> LabelSelector {
    if value.is_null() {
        return LabelSelector::everything();
    }
    // Validation has refused what does not parse.
    LabelSelector::of(value).unwrap_or_default()
}

/// The texts of a list.
pub fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}
