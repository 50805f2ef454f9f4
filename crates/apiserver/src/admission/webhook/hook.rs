//! A compiled webhook of a configuration.
//!
//! Configurations were validated before they were stored. If something still doesn't compile (an invalid
//! certificate), the error is kept, and calls fail with it.

use std::time::Duration;

use kube_cel::cel::Program;
use serde_json::Value;

use super::client_config::WebhookClientConfig;
use objects::LabelSelector;
use objects::expressions;

/// A compiled webhook.
pub struct Hook {
    /// The webhook's name.
    pub name: String,
    /// The name of its configuration.
    pub configuration: String,
    /// Whether it may mutate objects.
    pub is_mutating: bool,
    /// The writes that it is called for.
    pub rules: Vec<Rule>,
    /// Whether other versions of the same objects match, too (`matchPolicy: Equivalent`).
    pub matches_equivalents: bool,
    /// The namespace selector.
    pub namespaces: LabelSelector,
    /// The object selector.
    pub objects: LabelSelector,
    /// The match conditions, all of which must hold.
    pub conditions: Vec<Condition>,
    /// Whether failures are ignored (`failurePolicy: Ignore`).
    pub ignores_failure: bool,
    /// Whether it may be called for a dry run.
    pub is_free_of_side_effects: bool,
    /// Whether it is reinvoked if the object changes after it.
    pub reinvokes: bool,
    /// The timeout of a call.
    pub timeout: Duration,
    /// The version of AdmissionReview: `v1` or `v1beta1`.
    pub review_version: &'static str,
    /// Where it listens, and which CAs to trust.
    pub client_config: WebhookClientConfig,
}

/// A match condition: its name, and its program or the error of its compilation.
pub type Condition = (String, Result<Program, String>);

/// Compiles the match conditions of a webhook or a policy.
pub fn conditions(owner: &Value) -> Vec<Condition> {
    let one = |condition: &Value| {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        (text("name").to_owned(), expressions::compile(text("expression")))
    };
    owner["matchConditions"].as_array().into_iter().flatten().map(one).collect()
}

/// A rule: operations, groups, versions, resources and scope, any of which may be `*`.
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
    /// Object names, in a policy only; if empty, all names match.
    pub names: Vec<String>,
}

impl Rule {
    /// Parses a rule of a configuration or policy.
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

/// Compiles the webhooks of a configuration, in order.
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
        client_config: WebhookClientConfig::of(&hook["clientConfig"]),
    }
}

/// Compiles a selector. An absent one selects everything, like its default `{}`.
pub fn selector(value: &Value) -> LabelSelector {
    if value.is_null() {
        return LabelSelector::everything();
    }
    // Validation rejects invalid selectors.
    LabelSelector::of(value).unwrap_or_default()
}

/// Returns the strings in a list.
pub fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}
