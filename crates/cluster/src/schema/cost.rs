//! What a rule in CEL may cost at most on one value, before it is evaluated.
//!
//! kube-apiserver counts what a rule costs while it runs, and stops it at a limit (`apiserver/pkg/apis/cel/config.go`).
//! kube-cel's interpreter counts nothing and cannot be stopped, so that the cost is bounded beforehand: every step
//! counts one, a loop as often as the longest list that it can run over in this very value. The bound is never below
//! the steps taken, but a loop over what a function returns counts the longest list of the whole value.

use kube_cel::cel::Program;
use kube_cel::cel::common::ast::{EntryExpr, Expr};
use serde_json::Value;

/// What all rules on one object may cost together (`RuntimeCELCostBudget`).
pub const BUDGET: u64 = 10_000_000;
/// What one evaluation of one rule may cost (`PerCallLimit`).
pub const PER_RULE: u64 = 1_000_000;
/// Characters of a string that count one step (`StringTraversalCostFactor`).
const CHARACTERS: u64 = 10;
/// How deep an expression is looked into; a deeper one costs too much.
const MAX_DEPTH: usize = 256;

/// The values that a variable can have.
struct Scope<'s, 'v> {
    name: &'s str,
    values: Option<Vec<&'v Value>>,
    outer: Option<&'s Scope<'s, 'v>>,
}

/// What evaluating an expression costs at most with these variables, each with its value.
pub fn bound(program: &Program, variables: &[(&str, &Value)]) -> u64 {
    let expression = &program.expression().expr;
    let longest = variables.iter().map(|(_, value)| longest(value)).max().unwrap_or(0);
    bind(expression, variables, None, longest)
}

fn bind(expression: &Expr, variables: &[(&str, &Value)], outer: Option<&Scope<'_, '_>>, longest: u64) -> u64 {
    match variables {
        [] => cost(expression, outer, longest, 0),
        [(name, value), rest @ ..] => {
            let scope = Scope { name, values: Some(vec![value]), outer };
            bind(expression, rest, Some(&scope), longest)
        }
    }
}

/// The most items that any list, map or string within a value has.
fn longest(value: &Value) -> u64 {
    let own = length(value);
    match value {
        Value::Array(items) => items.iter().map(longest).fold(own, u64::max),
        Value::Object(fields) => fields.values().map(longest).fold(own, u64::max),
        _ => own,
    }
}

fn length(value: &Value) -> u64 {
    match value {
        Value::Array(items) => items.len() as u64,
        Value::Object(fields) => fields.len() as u64,
        Value::String(text) => text.len() as u64,
        _ => 0,
    }
}

fn cost(expression: &Expr, scope: Option<&Scope<'_, '_>>, most: u64, depth: usize) -> u64 {
    if depth > MAX_DEPTH {
        return u64::MAX;
    }
    let of = |expression: &Expr| cost(expression, scope, most, depth + 1);
    let sum = |costs: &mut dyn Iterator<Item = u64>| costs.fold(1, u64::saturating_add);
    match expression {
        Expr::Call(call) => {
            let target = call.target.as_ref();
            let long = |expression: &Expr| match (expression, values(expression, scope)) {
                (Expr::Literal(_), _) => 0,
                (_, Some(values)) => values.into_iter().map(length).max().unwrap_or(0),
                (_, None) => most,
            };
            // Texts and lists that are put together are copied.
            let copied = match call.func_name.as_str() {
                "_+_" => call.args.iter().map(|arg| long(&arg.expr)).fold(0, u64::saturating_add),
                _ => 0,
            };
            let traversed = target.map_or(copied, |target| long(&target.expr));
            let parts = target.into_iter().map(|target| of(&target.expr));
            let parts = &mut parts.chain(call.args.iter().map(|arg| of(&arg.expr)));
            sum(parts).saturating_add(traversed / CHARACTERS)
        }
        Expr::Select(select) => of(&select.operand.expr).saturating_add(1),
        Expr::List(list) => sum(&mut list.elements.iter().map(|element| of(&element.expr))),
        Expr::Map(map) => sum(&mut map.entries.iter().map(|entry| of_entry(&entry.expr, &of))),
        Expr::Struct(made) => sum(&mut made.entries.iter().map(|entry| of_entry(&entry.expr, &of))),
        Expr::Comprehension(each) => {
            let range = &each.iter_range.expr;
            let times = runs(range, scope, most);
            let inner = Scope { name: &each.iter_var, values: elements(range, scope), outer: scope };
            // The second variable has the values, as the first has where there is only one.
            let second = each.iter_var2.as_deref().unwrap_or_default();
            let inner = Scope { name: second, values: elements(range, scope), outer: Some(&inner) };
            let inner = Scope { name: &each.accu_var, values: None, outer: Some(&inner) };
            let step = |expression: &Expr| cost(expression, Some(&inner), most, depth + 1);
            let once = step(&each.loop_step.expr).saturating_add(step(&each.loop_cond.expr));
            let around = of(range).saturating_add(of(&each.accu_init.expr));
            times.saturating_mul(once).saturating_add(around).saturating_add(step(&each.result.expr))
        }
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => 1,
    }
}

fn of_entry(entry: &EntryExpr, of: &impl Fn(&Expr) -> u64) -> u64 {
    match entry {
        EntryExpr::StructField(field) => of(&field.value.expr),
        EntryExpr::MapEntry(entry) => of(&entry.key.expr).saturating_add(of(&entry.value.expr)),
    }
}

/// How often a loop over this runs at most.
fn runs(range: &Expr, scope: Option<&Scope<'_, '_>>, most: u64) -> u64 {
    match range {
        Expr::List(list) => list.elements.len() as u64,
        Expr::Map(map) => map.entries.len() as u64,
        // What filters or maps a list gives no longer one.
        Expr::Comprehension(each) => runs(&each.iter_range.expr, scope, most),
        range => match values(range, scope) {
            Some(values) => values.into_iter().map(length).max().unwrap_or(0),
            None => most,
        },
    }
}

/// The values that an expression can have, where it is a path into a variable.
fn values<'v>(expression: &Expr, scope: Option<&Scope<'_, 'v>>) -> Option<Vec<&'v Value>> {
    match expression {
        Expr::Ident(name) => {
            let mut scope = scope;
            while let Some(here) = scope {
                if here.name == name {
                    return here.values.clone();
                }
                scope = here.outer;
            }
            None
        }
        // An escaped name (`__namespace__`) stands for another field.
        Expr::Select(select) if !select.test && !select.field.contains("__") => {
            let owners = values(&select.operand.expr, scope)?;
            Some(owners.into_iter().filter_map(|owner| owner.get(&select.field)).collect())
        }
        _ => None,
    }
}

/// The values that a loop's variable can have.
fn elements<'v>(range: &Expr, scope: Option<&Scope<'_, 'v>>) -> Option<Vec<&'v Value>> {
    let of = |owner: &'v Value| match owner {
        Value::Array(items) => items.iter().collect::<Vec<_>>(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    };
    Some(values(range, scope)?.into_iter().flat_map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn loops_cost_what_they_can_run() {
        let list = |count: usize| (0..count).map(|n| json!({"n": n, "of": [1, 2, 3]})).collect::<Vec<_>>();
        let value = json!({"few": list(3), "many": list(2000), "text": "x".repeat(5000)});
        let of = |text: &str| bound(&Program::compile(text).unwrap(), &[("self", &value)]);
        assert!(of("self.text == 'x'") < 10);
        assert!(of("self.few.all(x, self.few.exists(y, y.n == x.n))") < 200);
        assert!(of("self.many.all(x, x.of.all(y, y > 0))") < PER_RULE);
        assert!(of("self.many.all(x, self.many.exists(y, y.n == x.n))") > PER_RULE);
        assert!(of("self.many.filter(x, x.n > 1).all(x, self.many.exists(y, y.n == x.n))") > PER_RULE);
        assert!(of("self.text.split('').all(x, self.text.split('').all(y, x == y))") > PER_RULE);
        assert!(of("self.text.contains('y')") > 500);
    }
}
