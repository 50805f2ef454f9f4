//! The variables and the cost budget of evaluating one policy for one request.
//!
//! Source: apiserver `pkg/admission/plugin/cel`. The variables are `object`, `oldObject`, `request`,
//! `params`, `namespaceObject` and the policy's own under `variables`. There is no `authorizer`.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::objects::{Key as CelKey, Map};
use kube_cel::cel::{Program, Value as Cel};
use serde_json::{Value, json};

use super::definition::{Expression, Policy};
use crate::admission::Attributes;
use crate::admission::webhook::invocation::Invocation;
use crate::admission::webhook::matching;
use crate::admission::webhook::review;
use crate::store::Key;
use objects::expressions::initializers::{Maker, to_json};
use objects::expressions::{self, Variables};
use objects::schema::cost::{self, BUDGET, PER_RULE};

/// The variables of expressions.
const NAMES: [&str; 6] = ["object", "oldObject", "request", "params", "namespaceObject", "variables"];
/// The maximum size of a variable's value as JSON, in bytes. It prevents growth by repeated concatenation.
const MAX_VARIABLE_BYTES: usize = 4 << 20;
const OVERSPENT: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The evaluation context of a policy.
pub struct Scene {
    /// The values as JSON, in the order of [`NAMES`].
    values: [Value; 6],
    variables: Variables,
    made: HashMap<CelKey, Cel>,
    failed: Vec<String>,
    budget: u64,
}

impl Scene {
    /// Creates a context without the policy's own variables.
    pub fn new(
        at: &Attributes<'_>,
        invocation: &Invocation,
        states: [Option<&Value>; 2],
        parameters: Value,
    ) -> Self {
        let [object, old] = states
            .map(|state| state.map_or(Value::Null, |object| invocation.convert(at, object).into_owned()));
        let request = review::request_value(at, invocation, "", [None, None]);
        let values = [object, old, request, parameters, namespace(at), json!({})];
        let bound: Vec<(&str, &Value)> = NAMES.into_iter().zip(&values).collect();
        let variables = Variables::new(&bound);
        Self { variables, values, made: HashMap::new(), failed: Vec::new(), budget: BUDGET }
    }

    /// Returns whether the policy's match conditions hold.
    ///
    /// # Errors
    /// Why they cannot be evaluated.
    pub fn meets(&self, policy: &Policy) -> Result<bool, String> {
        matching::conditions_hold(&policy.conditions, &self.bound(), &self.variables)
    }

    /// Evaluates the policy's variables. One that fails is undefined, and using it is an error.
    pub fn declare(&mut self, policy: &Policy) {
        for (name, expression) in &policy.variables {
            let value = self.evaluate(expression).and_then(|value| {
                // Values without a JSON form (a duration, a quantity) are small.
                let shown = to_json(&value, None, 0).unwrap_or(Value::Null);
                match shown.to_string().len() {
                    0..=MAX_VARIABLE_BYTES => Ok((value, shown)),
                    _ => Err("operation cancelled: actual cost limit exceeded".to_owned()),
                }
            });
            match value {
                Ok((value, shown)) => {
                    self.values[5][name.as_str()] = shown;
                    self.made.insert(CelKey::String(Arc::new(name.clone())), value);
                    self.variables.bind("variables", Cel::Map(Map { map: Arc::new(self.made.clone()) }));
                }
                Err(why) => {
                    self.failed.push(format!("composited variable \"{name}\" fails to evaluate: {why}"));
                }
            }
        }
    }

    fn bound(&self) -> [(&str, &Value); 6] {
        let [object, old, request, parameters, namespace, variables] = &self.values;
        let values = [object, old, request, parameters, namespace, variables];
        std::array::from_fn(|place| (NAMES[place], values[place]))
    }

    /// Evaluates an expression.
    ///
    /// # Errors
    /// The reason of a failure, for people.
    pub fn evaluate(&mut self, expression: &Expression) -> Result<Cel, String> {
        let program = expression.program.as_ref().map_err(Clone::clone)?;
        let cost = self.pay(program)?;
        expressions::without_delay(cost, || self.variables.evaluate(program)).map_err(|why| {
            let why = self.explained(why);
            format!("expression '{}' resulted in error: {why}", expression.text)
        })
    }

    /// Evaluates an expression that constructs an object or the operations of a patch.
    ///
    /// # Errors
    /// The reason of a failure, for people.
    pub fn make(
        &mut self,
        maker: &Maker,
        make: fn(&Variables, &Maker) -> Result<Value, String>,
    ) -> Result<Value, String> {
        let cost = self.pay(&maker.program)?;
        expressions::without_delay(cost, || make(&self.variables, maker)).map_err(|why| self.explained(why))
    }

    /// Deducts an expression's maximum cost from the budget, and returns it.
    fn pay(&mut self, program: &Program) -> Result<u64, String> {
        let cost = cost::bound(program, &self.bound());
        if cost > PER_RULE {
            return Err("operation cancelled: actual cost limit exceeded".to_owned());
        }
        self.budget = self.budget.checked_sub(cost).ok_or(OVERSPENT)?;
        Ok(cost)
    }

    /// If an error is due to an undefined variable, returns the error of that variable instead.
    fn explained(&self, why: String) -> String {
        let is_missing = |failed: &&String| {
            failed
                .split('"')
                .nth(1)
                .is_some_and(|name| why.contains(name) && self.values[5].get(name).is_none())
        };
        self.failed.iter().find(is_missing).cloned().unwrap_or(why)
    }
}

/// Returns the write's namespace, with the fields that expressions may see (`CreateNamespaceObject`).
fn namespace(at: &Attributes<'_>) -> Value {
    let name = at.context.action.namespace.filter(|_| !at.kind().is("", "Namespace"));
    let found =
        name.and_then(|name| at.context.server.store.get(&crate::namespaces(), &Key::new(None, name)));
    let Some(found) = found else { return Value::Null };
    let mut namespace = found.to_value();
    if let Some(metadata) = namespace["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        metadata.remove("ownerReferences");
    }
    namespace
}
