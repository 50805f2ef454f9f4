//! Bounds the cost of a CEL expression before it is evaluated.
//!
//! kube-apiserver counts a rule's cost while it runs, and stops it at a limit (`apiserver/pkg/apis/cel/config.go`).
//! kube-cel's interpreter counts nothing and cannot be stopped, so the cost is bounded beforehand, for the actual
//! values.
//!
//! The bound is never below the real cost. Every step costs one, and a loop counts as often as it can run. What a step
//! copies, traverses or creates costs by its size ([`Size`]); [`super::made`] bounds the results of functions. The
//! interpreter copies a value completely whenever a field of it is read, and a list whenever a loop appends to it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use kube_cel::cel::Program;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue};
use serde_json::Value;

use super::made;
use super::size::{PER_STEP, Size, Sizes};

/// The cost limit of all rules on one object (`RuntimeCELCostBudget`).
pub const BUDGET: u64 = 10_000_000;
/// The cost limit of one evaluation of one rule (`PerCallLimit`).
pub const PER_RULE: u64 = 1_000_000;
/// The depth limit of an expression; a deeper one costs too much.
const MAX_DEPTH: usize = 256;
/// The limit on visited subexpressions; an expression with more costs too much. Loops over results of functions are
/// visited twice, so visits multiply with nesting.
const MAX_LOOKS: u64 = 200_000;
/// The stack for bounding an expression, whose depth is limited.
const STACK_BYTES: usize = 8 << 20;

/// The possible values of a variable.
#[derive(Clone)]
enum Possible<'v> {
    /// One of these values.
    Values(Vec<&'v Value>),
    /// A value of at most this size.
    Sized(Size),
}

/// The variables in scope of an expression.
#[derive(Clone, Copy)]
struct Scope<'s, 'v> {
    name: &'s str,
    possible: &'s Possible<'v>,
    outer: Option<&'s Scope<'s, 'v>>,
}

/// The state of bounding one expression.
#[derive(Default)]
struct Estimator {
    /// The size bound of an unknown variable.
    most: Size,
    sizes: RefCell<HashMap<*const Value, Size>>,
    looks: Cell<u64>,
}

/// What bounds an expression: the variables in its scope, and its depth.
#[derive(Clone, Copy)]
struct Context<'s, 'v> {
    estimator: &'s Estimator,
    scope: Option<&'s Scope<'s, 'v>>,
    depth: usize,
}

/// Returns an upper bound on the cost of evaluating an expression with these variables. The cost of computing the bound
/// is included.
pub fn bound(program: &Program, variables: &[(&str, &Value)]) -> u64 {
    let mut estimator = Estimator::default();
    let most = variables.iter().map(|(_, value)| estimator.size(value)).fold(Size::SCALAR, Size::max);
    estimator.most = most.part();
    let possible =
        variables.iter().map(|(name, value)| (*name, Possible::Values(vec![*value]))).collect::<Vec<_>>();
    estimator.estimate(&program.expression().expr, &possible)
}

/// Returns a lower bound on the cost of evaluating an expression, whatever its variables are.
pub fn least(expression: &Expr) -> u64 {
    const NAMES: [&str; 8] =
        ["self", "oldSelf", "object", "oldObject", "request", "params", "namespaceObject", "variables"];
    Estimator::default().estimate(expression, &NAMES.map(|name| (name, Possible::Values(Vec::new()))))
}

fn bind<'v>(
    expression: &Expr,
    variables: &[(&str, Possible<'v>)],
    outer: Option<&Scope<'_, 'v>>,
    estimator: &Estimator,
) -> u64 {
    match variables {
        [] => Context { estimator, scope: outer, depth: 0 }.cost(expression),
        [(name, possible), rest @ ..] => {
            bind(expression, rest, Some(&Scope { name, possible, outer }), estimator)
        }
    }
}

impl Estimator {
    fn estimate(&self, expression: &Expr, variables: &[(&str, Possible<'_>)]) -> u64 {
        let cost =
            stacker::maybe_grow(STACK_BYTES / 2, STACK_BYTES, || bind(expression, variables, None, self));
        cost.saturating_add(self.looks.get() / PER_STEP)
    }

    /// Returns the size of a value. Sizes of lists and maps are cached.
    fn size(&self, value: &Value) -> Size {
        let of_parts = |parts: &mut dyn Iterator<Item = Size>, length: usize| Size {
            length: length as u64,
            ..parts.fold(Size::SCALAR, Size::and)
        };
        match value {
            Value::String(text) => Size::text(text.len() as u64),
            Value::Array(_) | Value::Object(_) => {
                if let Some(known) = self.sizes.borrow().get(&std::ptr::from_ref(value)) {
                    return *known;
                }
                let size = match value {
                    Value::Array(items) => {
                        of_parts(&mut items.iter().map(|item| self.size(item)), items.len())
                    }
                    Value::Object(fields) => {
                        let entry = |(name, value): (&String, &Value)| {
                            Size::text(name.len() as u64).and(self.size(value))
                        };
                        of_parts(&mut fields.iter().map(entry), fields.len())
                    }
                    _ => Size::SCALAR,
                };
                self.sizes.borrow_mut().insert(std::ptr::from_ref(value), size);
                size
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Size::SCALAR,
        }
    }

    fn of_any(&self, values: &[&Value]) -> Size {
        values.iter().map(|value| self.size(value)).fold(Size::SCALAR, Size::max)
    }

    /// Counts a visit. Returns whether the limit on visits or depth is exceeded.
    fn is_exhausted(&self, depth: usize) -> bool {
        self.looks.set(self.looks.get() + 1);
        depth > MAX_DEPTH || self.looks.get() > MAX_LOOKS
    }
}

impl<'s, 'v> Context<'s, 'v> {
    fn deeper(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    /// Returns an upper bound on the cost of an expression.
    fn cost(self, expression: &Expr) -> u64 {
        if self.estimator.is_exhausted(self.depth) {
            return u64::MAX;
        }
        let of = |expression: &Expr| self.deeper().cost(expression);
        let sum = |costs: &mut dyn Iterator<Item = u64>| costs.fold(1, u64::saturating_add);
        match expression {
            Expr::Call(call) => {
                let parts = call.target.iter().map(|target| &target.expr);
                let parts = parts.chain(call.args.iter().map(|arg| &arg.expr));
                sum(&mut parts.map(of)).saturating_add(self.done(call, expression))
            }
            Expr::Select(select) => {
                let copied = if select.test { 0 } else { self.size(expression).copied() };
                of(&select.operand.expr).saturating_add(1).saturating_add(copied)
            }
            Expr::List(list) => {
                let parts = &mut list.elements.iter().map(|element| of(&element.expr));
                sum(parts).saturating_add(self.size(expression).made())
            }
            Expr::Map(map) => {
                let parts = &mut map.entries.iter().map(|entry| of_entry(&entry.expr, &of));
                sum(parts).saturating_add(self.size(expression).made())
            }
            Expr::Struct(made) => {
                let parts = &mut made.entries.iter().map(|entry| of_entry(&entry.expr, &of));
                sum(parts).saturating_add(self.size(expression).made())
            }
            Expr::Comprehension(each) => self.cost_of_loop(each),
            Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => 1,
        }
    }

    /// Returns the cost of a function or operator, without that of its arguments.
    fn done(self, call: &CallExpr, expression: &Expr) -> u64 {
        let sizes = || call.args.iter().map(|arg| self.size(&arg.expr));
        match call.func_name.as_str() {
            // A comparison traverses at most the smaller operand.
            "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" => {
                sizes().map(Size::traversed).min().unwrap_or_default()
            }
            "_&&_"
            | "_||_"
            | "!_"
            | "-_"
            | "_-_"
            | "_*_"
            | "_/_"
            | "_%_"
            | "_?_:_"
            | "@not_strictly_false" => 0,
            "_[_]" | "_[?_]" => self.size(expression).copied(),
            name => {
                let target = call.target.as_ref().map(|target| self.size(&target.expr));
                let parts = target.into_iter().chain(sizes()).map(Size::traversed);
                let made = self.size(expression).made();
                let search = made::search(name, call, self);
                parts.fold(made.saturating_add(search), u64::saturating_add)
            }
        }
    }

    fn cost_of_loop(self, each: &ComprehensionExpr) -> u64 {
        let (runs, items) = self.range(&each.iter_range.expr);
        let step = |item: &Possible<'v>, gathered: Size| {
            self.inside(each, item, gathered, |inside| {
                inside.cost(&each.loop_step.expr).saturating_add(inside.cost(&each.loop_cond.expr))
            })
        };
        let (first, last) = self.gathered(each, runs, &items);
        // A list grows by the same amount in each run, so its average length is half of the final one. It is copied
        // twice, in addition to what the step itself does with it.
        let average = first.half().and(last.half());
        let copied = average.copied().saturating_mul(2);
        let (once, all) = match &items {
            Possible::Values(values) => {
                (step(&items, average).saturating_add(self.estimator.of_any(values).copied()), 0)
            }
            // One item may have the whole size, and then the others are empty.
            Possible::Sized(size) => {
                let all = step(&items, average).saturating_add(size.copied());
                (step(&Possible::Sized(Size::SCALAR), average), all)
            }
        };
        let nothing = Possible::Sized(Size::SCALAR);
        let result = self.inside(each, &nothing, last, |inside| inside.cost(&each.result.expr));
        let around = [&each.iter_range, &each.accu_init].map(|part| self.deeper().cost(&part.expr));
        let parts = [runs.saturating_mul(once.saturating_add(copied)), all, last.made(), result];
        parts.into_iter().chain(around).fold(1, u64::saturating_add)
    }

    /// Returns the size of a loop's accumulator, at its beginning and at its end.
    fn gathered(self, each: &ComprehensionExpr, runs: u64, items: &Possible<'v>) -> (Size, Size) {
        let first = self.deeper().size(&each.accu_init.expr);
        let added = |item: &Possible<'v>| {
            let after = self.inside(each, item, first, |inside| inside.size(&each.loop_step.expr));
            after.beyond(first)
        };
        let all = match items {
            Possible::Values(_) => added(items).times(runs),
            Possible::Sized(_) => added(items).and(added(&Possible::Sized(Size::SCALAR)).times(runs)),
        };
        (first, first.and(all))
    }

    /// Evaluates `look` in the scope of a loop's body.
    fn inside<T>(
        self,
        each: &ComprehensionExpr,
        item: &Possible<'v>,
        accumulated: Size,
        look: impl FnOnce(Context<'_, 'v>) -> T,
    ) -> T {
        let first = Scope { name: &each.iter_var, possible: item, outer: self.scope };
        let second = each.iter_var2.as_deref().unwrap_or_default();
        let second = Scope { name: second, possible: item, outer: Some(&first) };
        let gathered = Possible::Sized(accumulated);
        let gathered = Scope { name: &each.accu_var, possible: &gathered, outer: Some(&second) };
        look(Context { estimator: self.estimator, scope: Some(&gathered), depth: self.depth + 1 })
    }

    /// Returns how often a loop over this value runs at most, and the possible values of its variable: an item of a
    /// list, or a key of a map.
    fn range(self, range: &Expr) -> (u64, Possible<'v>) {
        let size = match self.values(range) {
            Some(owners) if owners.iter().all(|owner| !owner.is_object()) => {
                let runs = self.estimator.of_any(&owners).length;
                return (runs, Possible::Values(owners.into_iter().flat_map(parts).collect()));
            }
            Some(owners) => self.estimator.of_any(&owners),
            None => self.deeper().size(range),
        };
        (size.length, Possible::Sized(size.part()))
    }

    fn variable(self, name: &str) -> Option<&'s Possible<'v>> {
        let mut scope = self.scope;
        while let Some(here) = scope {
            if here.name == name {
                return Some(here.possible);
            }
            scope = here.outer;
        }
        None
    }
}

impl<'v> Sizes<'v> for Context<'_, 'v> {
    fn size(self, expression: &Expr) -> Size {
        if self.estimator.is_exhausted(self.depth) {
            return Size::ENDLESS;
        }
        if let Some(values) = self.values(expression) {
            return self.estimator.of_any(&values);
        }
        let of = |expression: &Expr| self.deeper().size(expression);
        let all = |parts: &mut dyn Iterator<Item = Size>, length: usize| Size {
            length: length as u64,
            ..parts.fold(Size::SCALAR, Size::and)
        };
        match expression {
            Expr::Literal(LiteralValue::String(text)) => Size::text(text.inner().len() as u64),
            Expr::Literal(LiteralValue::Bytes(bytes)) => Size::text(bytes.inner().len() as u64),
            Expr::Literal(_) | Expr::Unspecified => Size::SCALAR,
            Expr::Ident(name) => match self.variable(name) {
                Some(Possible::Sized(size)) => *size,
                _ => self.estimator.most,
            },
            Expr::Select(select) if select.test => Size::SCALAR,
            Expr::Select(select) => of(&select.operand.expr).part(),
            Expr::List(list) => {
                all(&mut list.elements.iter().map(|element| of(&element.expr)), list.elements.len())
            }
            Expr::Map(map) => {
                all(&mut map.entries.iter().map(|entry| entry_size(&entry.expr, &of)), map.entries.len())
            }
            Expr::Struct(made) => {
                all(&mut made.entries.iter().map(|entry| entry_size(&entry.expr, &of)), made.entries.len())
            }
            Expr::Comprehension(each) => {
                let (runs, items) = self.range(&each.iter_range.expr);
                let (_, gathered) = self.gathered(each, runs, &items);
                let nothing = Possible::Sized(Size::SCALAR);
                self.inside(each, &nothing, gathered, |inside| inside.size(&each.result.expr))
            }
            Expr::Call(call) => made::size(call, self.deeper()),
        }
    }

    fn values(self, expression: &Expr) -> Option<Vec<&'v Value>> {
        match expression {
            Expr::Ident(name) => match self.variable(name)? {
                Possible::Values(values) => Some(values.clone()),
                Possible::Sized(_) => None,
            },
            // An escaped name (`__namespace__`) refers to another field.
            Expr::Select(select) if !select.test && !select.field.contains("__") => {
                let owners = self.values(&select.operand.expr)?;
                Some(owners.into_iter().filter_map(|owner| owner.get(&select.field)).collect())
            }
            Expr::Call(call) if call.func_name == "_[_]" => {
                let owners = self.values(&call.args.first()?.expr)?;
                Some(owners.into_iter().flat_map(parts).collect())
            }
            _ => None,
        }
    }
}

/// Returns the items of a list, or the values of a map.
fn parts(owner: &Value) -> Vec<&Value> {
    match owner {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}

fn of_entry(entry: &EntryExpr, of: &impl Fn(&Expr) -> u64) -> u64 {
    match entry {
        EntryExpr::StructField(field) => of(&field.value.expr),
        EntryExpr::MapEntry(entry) => of(&entry.key.expr).saturating_add(of(&entry.value.expr)),
    }
}

fn entry_size(entry: &EntryExpr, of: &impl Fn(&Expr) -> Size) -> Size {
    match entry {
        EntryExpr::StructField(field) => Size::text(field.field.len() as u64).and(of(&field.value.expr)),
        EntryExpr::MapEntry(entry) => of(&entry.key.expr).and(of(&entry.value.expr)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value() -> Value {
        let list = |count: usize| (0..count).map(|n| json!({"n": n, "of": [1, 2, 3]})).collect::<Vec<_>>();
        json!({"few": list(3), "many": list(2000), "text": "x".repeat(5000), "number": 7, "format": "%.9f",
            "patterns": ["a", "(a{1000}){1000}"], "map": {"a": "b"}})
    }

    /// The parser recurses for each level of an expression.
    fn program(text: &str) -> Program {
        stacker::grow(256 << 20, || Program::compile(text).unwrap())
    }

    fn of(text: &str) -> u64 {
        bound(&program(text), &[("self", &value())])
    }

    #[test]
    fn loops_cost_as_often_as_they_can_run() {
        assert!(of("self.text == 'x'") < 10);
        assert!(of("self.few.all(x, self.few.exists(y, y.n == x.n))") < 200);
        assert!(of("self.many.all(x, x.of.all(y, y > 0))") < PER_RULE);
        assert!(of("self.few.map(x, x.n).all(n, n >= 0) && self.map.all(k, self.map[k] == 'b')") < 400);
        assert!(of("self.many.all(x, self.many.exists(y, y.n == x.n))") > PER_RULE);
        assert!(of("self.many.filter(x, x.n > 1).all(x, self.many.exists(y, y.n == x.n))") > PER_RULE);
        assert!(of("self.text.split('').all(x, self.text.split('').all(y, x == y))") > PER_RULE);
        assert!(of("self.text.contains('y')") > 500);
    }

    #[test]
    fn copies_and_created_values_cost_by_size() {
        let beyond = [
            // Each run reads, and therefore copies, the whole list.
            "self.many.all(x, size(self.many) > 0)",
            // A growing list is copied with each item.
            "self.text.split('').map(x, x).size() > 0",
            "lists.range(100000000).size() > 0",
            "lists.range(self.number * 1000000000).size() > 0",
            "'%.999999999f'.format([1.0]) == ''",
            "self.text.replace('', self.text) == ''",
            "self.many.map(x, self.text).join(self.text) == ''",
            "sets.contains(self.text.split(''), self.text.split(''))",
            "self.text.matches('(a{1000}){1000}')",
            "self.many.all(x, self.text.matches(self.patterns[1]))",
        ];
        for text in beyond {
            assert!(of(text) > PER_RULE, "{text}: {}", of(text));
        }
        let within = [
            "self.text.replace('x', 'yy') == ''",
            "self.text.split('').all(x, x == 'x')",
            "self.few.map(x, string(x.n)).join(',') == '0,1,2'",
            "lists.range(size(self.many)).all(n, n >= 0)",
            "lists.range(self.number).all(n, n >= 0)",
            "'%s: %.2f'.format(['a', 1.0]) == ''",
            "self.format.format([1.0]) == ''",
            "'a-b'.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')",
            "self.many.map(x, x.n).size() == 2000",
            "sets.contains(self.few.map(x, x.n), [1, 2])",
        ];
        for text in within {
            assert!(of(text) < PER_RULE, "{text}: {}", of(text));
        }
        // Repeated doubling, in every possible way.
        let doubled = |start: &str, again: &dyn Fn(String) -> String| {
            (0..40).fold(start.to_owned(), |text, _| again(text))
        };
        assert!(of(&doubled("'x'", &|text| format!("{text}.replace('x', 'xx')"))) > PER_RULE);
        assert!(of(&doubled("'x'", &|text| format!("[{text}].map(x, x + x)[0]"))) > PER_RULE);
        assert!(of(&doubled("['x']", &|text| format!("[{text}].map(x, [x, x])[0]"))) > PER_RULE);
        assert!(of(&doubled("'x'", &|text| format!("[{text}].map(x, '%s%s'.format([x, x]))[0]"))) > PER_RULE);
        assert!(of(&doubled("'x'", &|text| format!("[{text}].map(x, [x, x].join(''))[0]"))) > PER_RULE);
        // Deep nesting does not cause unlimited visits.
        let nested = (0..25).fold("true".to_owned(), |text, _| format!("'a'.split('').all(x, {text})"));
        assert_eq!(of(&nested), u64::MAX);
    }

    #[test]
    fn the_least_cost_detects_expressions_that_always_cost_too_much() {
        let least = |text: &str| super::least(&program(text).expression().expr);
        assert!(
            least("self.many.all(x, self.many.all(y, self.text.replace(x, y) == lists.range(self.n)))") < 100
        );
        let doubled = (0..28).fold("'x'".to_owned(), |text, _| format!("{text}.replace('x','xx')"));
        assert!(least(&format!("size({doubled}) > 0")) > PER_RULE);
        assert!(least("lists.range(100000000).size() > 0") > PER_RULE);
    }
}
