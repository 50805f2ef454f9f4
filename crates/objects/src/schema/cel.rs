//! CEL rules (`x-kubernetes-validations`, KEP-2876) on the values of a schema.
//!
//! Each rule is compiled once, with the schema of its own value only, and this crate walks the object. As in
//! `apiextensions-apiserver`, old values are found by list-map keys, and never across atomic or set lists. The crate
//! `kube-cel` evaluates the rules; [`super::cost`] bounds their cost beforehand. `oldSelf` of a rule with
//! `optionalOldSelf` is an optional value, which kube-cel does not support, so such a rule is rewritten
//! ([`with_optional`]).

use std::collections::BTreeMap;

use kube_cel::cel::Program;
use kube_cel::{CompiledSchema, ErrorKind};
use serde_json::Value;

use super::cost::{self, PER_RULE};
use super::passed::{OLD, Passed, Reads};
use super::validate::NOWHERE;
use super::{NodeId, Schema, read};
use crate::expressions;
use crate::{FieldFault, Reason};

const RULES: &str = "x-kubernetes-validations";
/// The old value as an optional, built from what kube-cel binds: the value, or null if there is none.
const OPTIONAL_OLD: &str = "(oldSelf == null ? optional.none() : optional.of(oldSelf))";
const OVERSPENT: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The compiled rules of a schema, by node.
#[derive(Debug, Default)]
pub(super) struct Rules {
    by_node: BTreeMap<NodeId, OfNode>,
    passed: Passed,
}

/// The rules of one node: compiled for evaluation, and parsed separately to bound their cost.
#[derive(Debug)]
struct OfNode {
    compiled: CompiledSchema,
    programs: Vec<Program>,
    reads: Reads,
    kind: String,
    /// The messages of rules, by rule.
    messages: BTreeMap<String, String>,
}

impl Rules {
    /// Compiles the rules of each `(node, schema)` pair.
    pub(super) fn compile(sources: &[(NodeId, Box<str>)]) -> Rules {
        let compile = |(node, source): &(NodeId, Box<str>)| {
            let mut source = read(source);
            strip_below(&mut source, true);
            for rule in source[RULES].as_array_mut().into_iter().flatten() {
                if rule["optionalOldSelf"] == true {
                    rule["rule"] = with_optional(rule["rule"].as_str().unwrap_or_default()).into();
                }
            }
            let rules = source[RULES].as_array().into_iter().flatten();
            let programs: Vec<Program> =
                rules.filter_map(|rule| Program::compile(rule["rule"].as_str()?).ok()).collect();
            let mut reads = Reads::default();
            programs.iter().for_each(|program| reads.add(&program.expression().expr));
            let kind = source["type"].as_str().unwrap_or_default().to_owned();
            let said = |rule: &Value| {
                Some((rule["rule"].as_str()?.to_owned(), rule["message"].as_str()?.trim().to_owned()))
            };
            let messages = source[RULES].as_array().into_iter().flatten().filter_map(said).collect();
            (*node, OfNode { compiled: kube_cel::compile_schema(&source), programs, reads, kind, messages })
        };
        Rules { by_node: sources.iter().map(compile).collect(), passed: Passed::default() }
    }

    /// Evaluates the rules of one value if their cost fits into `budget`, which is charged. Violations by an
    /// `unchanged` value are ignored unless the rule refers to the old value.
    pub(super) fn check(
        &self,
        node: NodeId,
        value: &Value,
        old: Option<&Value>,
        path: &str,
        unchanged: bool,
        budget: &mut u64,
    ) -> Vec<FieldFault> {
        let Some(rules) = self.by_node.get(&node) else { return Vec::new() };
        let OfNode { compiled, programs, reads, kind, .. } = rules;
        if value.is_null() {
            return Vec::new();
        }
        let old = old.filter(|old| !old.is_null());
        let variables = [("self", value), (OLD, old.unwrap_or(&Value::Null))];
        let key = self.passed.key(node, reads, [Some(value), old], path.is_empty());
        if let Some(cost) = self.passed.cost(key).filter(|cost| cost <= budget) {
            *budget -= cost;
            return Vec::new();
        }
        let mut total = 0;
        for program in programs {
            let cost = cost::bound(program, &variables);
            if cost > PER_RULE || cost > *budget {
                *budget = 0;
                return vec![FieldFault::invalid(path, kind.as_str(), OVERSPENT)];
            }
            *budget -= cost;
            total += cost;
        }
        let judge = || expressions::with_room(|| kube_cel::validate_compiled(compiled, value, old));
        match expressions::without_delay(total, judge) {
            Ok(()) => {
                self.passed.add(key, total);
                Vec::new()
            }
            Err(errors) => {
                let counts = |error: &&kube_cel::ValidationError| {
                    let is_broken = matches!(error.kind, ErrorKind::ValidationFailure);
                    !(unchanged && is_broken && !error.rule.contains(OLD))
                };
                errors.as_slice().iter().filter(counts).map(|error| rules.fault(error, value, path)).collect()
            }
        }
    }
}

/// Rewrites a rule so that `oldSelf` is optional, except within quotes.
fn with_optional(rule: &str) -> String {
    let mut rewritten = String::with_capacity(rule.len());
    let (mut rest, mut quote) = (rule, None);
    while let Some(next) = rest.chars().next() {
        let follows = |text: &str| text.chars().next().is_some_and(|c| c.is_alphanumeric() || c == '_');
        let is_begin = !rewritten.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.');
        match quote {
            None if is_begin && rest.strip_prefix(OLD).is_some_and(|after| !follows(after)) => {
                rewritten.push_str(OPTIONAL_OLD);
                rest = rest.get(OLD.len()..).unwrap_or_default();
                continue;
            }
            None if matches!(next, '\'' | '"') => quote = Some(next),
            Some(end) if next == end && !rewritten.ends_with('\\') => quote = None,
            _ => {}
        }
        rewritten.push(next);
        rest = rest.get(next.len_utf8()..).unwrap_or_default();
    }
    rewritten
}

impl OfNode {
    /// Returns the fault of a violated rule. A rule that could not be evaluated is a fault of the value as a whole.
    fn fault(&self, error: &kube_cel::ValidationError, value: &Value, at: &str) -> FieldFault {
        if !matches!(error.kind, ErrorKind::ValidationFailure) {
            let rule = self.messages.get(&error.rule).unwrap_or(&error.rule);
            let text = format!("{} evaluating rule: {}", error.message, rule.replace(OPTIONAL_OLD, OLD));
            let at = if at.is_empty() { NOWHERE } else { at };
            return FieldFault::new(at, Reason::Invalid, Some(self.kind.as_str().into()), text);
        }
        let below = error.field_path.trim_start_matches('.');
        let path = match (at.is_empty(), below.is_empty()) {
            (true, true) => NOWHERE.to_owned(),
            (true, false) => below.to_owned(),
            (false, true) => at.to_owned(),
            _ if below.starts_with('[') => format!("{at}{below}"),
            _ => format!("{at}.{below}"),
        };
        let shown = if value.is_object() || value.is_array() { None } else { Some(value.clone()) };
        FieldFault::new(path, Reason::of_rule(error.reason.as_deref()), shown, error.message.trim())
    }
}

/// Removes the rules of all nested values, and defaults, which are already set.
fn strip_below(schema: &mut Value, top: bool) {
    match schema {
        Value::Object(map) => {
            if !top {
                map.remove(RULES);
            }
            map.remove("default");
            for (key, child) in map.iter_mut() {
                match (key.as_str(), child) {
                    ("properties", Value::Object(properties)) => {
                        properties.values_mut().for_each(|p| strip_below(p, false));
                    }
                    ("items" | "additionalProperties", child) => strip_below(child, false),
                    _ => {}
                }
            }
            for junctor in ["allOf", "anyOf", "oneOf", "not"] {
                map.remove(junctor);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| strip_below(item, false)),
        _ => {}
    }
}

impl Schema {
    pub(super) fn rules(&self) -> Option<&Rules> {
        if self.rule_sources.is_empty() {
            return None;
        }
        Some(self.rules.get_or_init(|| Box::new(Rules::compile(&self.rule_sources))))
    }
}

/// Returns the rules of `schema` that do not compile: path in the schema, index, rule and error.
pub fn compile_faults(schema: &Schema) -> Vec<(String, usize, String, String)> {
    let mut faults = Vec::new();
    for ((_, source), path) in schema.rule_sources.iter().zip(&schema.rule_paths) {
        let rules = read(source).get(RULES).and_then(Value::as_array).cloned().unwrap_or_default();
        for (index, rule) in rules.iter().enumerate() {
            let text = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
            if let Err(fault) = expressions::compile(text) {
                faults.push((path.clone(), index, text.to_owned(), fault));
                continue;
            }
            let alone = serde_json::json!({RULES: [rule]});
            for error in kube_cel::compile_schema(&alone).compilation_errors() {
                faults.push((path.clone(), index, text.to_owned(), error.to_string()));
            }
        }
    }
    faults
}
