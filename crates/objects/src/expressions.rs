//! CEL expressions about a request, for match conditions and admission policies.
//!
//! Source: apiserver `pkg/admission/plugin/cel`. The crate `kube-cel` evaluates them. The variables are `object`,
//! `oldObject`, `request`, `namespaceObject` and `params`. There is no `authorizer`: an expression that uses it fails
//! to evaluate. The caller bounds the cost of an evaluation ([`crate::schema::cost`]).

pub mod initializers;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::{EntryExpr, Expr};
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, Program, Value as Cel};
use serde_json::Value;

use crate::schema::cost;

/// The longest expression that is compiled, in bytes.
pub const MAX_EXPRESSION_BYTES: usize = 16 * 1024;

/// Reserved words of CEL. A field with such a name is also available as `__word__` (`apiserver/pkg/cel/escaping.go`).
const RESERVED: [&str; 22] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
    "import",
];

/// The deepest nesting of a parsed expression.
const MAX_DEPTH: usize = 256;
/// The deepest nesting of brackets and signs in a text to parse (cel-go's bound). With deeper nesting, parsing takes
/// far longer than the text's length suggests.
const MAX_NESTING: usize = 250;
/// Stack space per character of a text to parse, because the parser recurses for each level.
const PARSER_BYTES: usize = 32 * 1024;
/// Stack space for an evaluation, whose depth is bounded.
const EVALUATION_BYTES: usize = 16 * 1024 * 1024;

/// Steps that take only some milliseconds and need no separate thread.
const QUICK: u64 = 10_000;

/// Compiles an expression. Rejects expressions that create objects (`Object{…}`), because kube-cel's interpreter would
/// panic.
///
/// # Errors
/// The parse error, for a person.
pub fn compile(expression: &str) -> Result<Program, String> {
    parse(expression, false)
}

/// Parses an expression on its own stack, because unlimited nesting would overflow the stack and end the process.
/// `objects` allows the initializers that [`initializers`] supports.
fn parse(expression: &str, objects: bool) -> Result<Program, String> {
    if expression.trim().is_empty() {
        return Err("the expression is empty".to_owned());
    }
    if expression.len() > MAX_EXPRESSION_BYTES {
        return Err(format!("the expression is longer than {MAX_EXPRESSION_BYTES} bytes"));
    }
    if nesting(expression) > MAX_NESTING {
        return Err(format!("expression recursion limit exceeded: {MAX_NESTING}"));
    }
    stacker::grow(EVALUATION_BYTES + expression.len() * PARSER_BYTES, || {
        let parsed = guarded(|| Program::compile(expression).map_err(|error| error.to_string()))?;
        // Drop an expression that is too deep here, while there is enough stack.
        match first_fault(&parsed.expression().expr, objects, 0) {
            Some(fault) => Err(fault),
            None if cost::least(&parsed.expression().expr) > cost::PER_RULE => Err(format!(
                "the expression takes more than {} steps whatever it is about: what it makes is too large",
                cost::PER_RULE
            )),
            None => Ok(parsed),
        }
    })
}

/// Returns the nesting depth of brackets and consecutive signs in a text, ignoring quoted parts.
fn nesting(expression: &str) -> usize {
    let (mut open, mut signs, mut deepest) = (0_usize, 0_usize, 0_usize);
    let mut quote = None;
    let mut is_escaped = false;
    for byte in expression.bytes() {
        if let Some(end) = quote {
            let ends = byte == end && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            quote = (!ends).then_some(end);
            continue;
        }
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            b'!' | b'-' => signs += 1,
            b' ' | b'\n' | b'\t' | b'\r' => continue,
            b'"' | b'\'' => quote = Some(byte),
            _ => signs = 0,
        }
        deepest = deepest.max(open + signs);
    }
    deepest
}

/// Returns why the interpreter does not support an expression, for a person. `objects` allows the initializers that
/// [`initializers`] rewrites.
fn first_fault(expression: &Expr, objects: bool, depth: usize) -> Option<String> {
    if depth > MAX_DEPTH {
        return Some(format!("the expression is nested deeper than {MAX_DEPTH}"));
    }
    let of = |expression: &Expr| first_fault(expression, objects, depth + 1);
    let of_entry = |entry: &EntryExpr| match entry {
        EntryExpr::StructField(field) => of(&field.value.expr),
        EntryExpr::MapEntry(entry) => of(&entry.key.expr).or_else(|| of(&entry.value.expr)),
    };
    match expression {
        Expr::Unspecified => Some("a part of the expression is missing".to_owned()),
        Expr::Ident(_) | Expr::Literal(_) => None,
        Expr::Select(select) => of(&select.operand.expr),
        Expr::List(list) => list.elements.iter().find_map(|element| of(&element.expr)),
        Expr::Map(map) => map.entries.iter().find_map(|entry| of_entry(&entry.expr)),
        Expr::Struct(made) if objects && initializers::is_known(&made.type_name) => {
            made.entries.iter().find_map(|entry| of_entry(&entry.expr))
        }
        Expr::Struct(made) => Some(format!("undeclared reference to '{}'", made.type_name)),
        Expr::Call(call) => {
            let parts = call.target.iter().map(|target| &target.expr);
            parts.chain(call.args.iter().map(|arg| &arg.expr)).find_map(of)
        }
        Expr::Comprehension(each) => {
            let parts = [&each.iter_range, &each.accu_init, &each.loop_cond, &each.loop_step, &each.result];
            parts.into_iter().find_map(|part| of(&part.expr))
        }
    }
}

/// The variables of expressions about one request.
pub struct Variables(Context<'static>);

impl Variables {
    /// Binds variables by name.
    pub fn new(variables: &[(&str, &Value)]) -> Self {
        let mut context = Context::default().with_all();
        for (name, value) in variables {
            context.add_variable_from_value(*name, to_cel(value));
        }
        Self(context)
    }

    /// Binds another variable.
    pub fn bind(&mut self, name: &str, value: Cel) {
        self.0.add_variable_from_value(name, value);
    }

    /// Evaluates an expression.
    ///
    /// # Errors
    /// The reason, for a person.
    pub fn evaluate(&self, program: &Program) -> Result<Cel, String> {
        with_room(|| guarded(|| program.execute(&self.0).map_err(|error| error.to_string())))
    }

    /// Evaluates a boolean expression.
    ///
    /// # Errors
    /// The reason, for a person.
    pub fn holds(&self, program: &Program) -> Result<bool, String> {
        match self.evaluate(program)? {
            Cel::Bool(answer) => Ok(answer),
            other => Err(format!("the expression gives no bool but {:?}", other.type_of())),
        }
    }
}

/// Converts a panic to an error: the interpreter panics on unsupported features, and a user's expression must not end
/// the request that way.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err("the expression cannot be evaluated".to_owned()))
}

/// Runs work of at most this many steps. If it may take long, moves the thread's other tasks to other threads first.
pub fn without_delay<T>(cost: u64, work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    let may_leave = Handle::try_current().is_ok_and(|h| h.runtime_flavor() == RuntimeFlavor::MultiThread);
    if cost > QUICK && may_leave { tokio::task::block_in_place(work) } else { work() }
}

/// Runs work on an expression of bounded depth, with enough stack space.
pub fn with_room<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(EVALUATION_BYTES / 2, EVALUATION_BYTES, work)
}

/// Converts JSON to a CEL value; integers become `int`.
pub fn to_cel(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => Cel::Int(whole),
            (None, Some(whole)) => Cel::UInt(whole),
            _ => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(to_cel).collect())),
        Value::Object(fields) => {
            let mut map = HashMap::with_capacity(fields.len());
            for (name, value) in fields {
                if RESERVED.contains(&name.as_str()) {
                    map.insert(Key::String(Arc::new(format!("__{name}__"))), to_cel(value));
                }
                map.insert(Key::String(Arc::new(name.clone())), to_cel(value));
            }
            Cel::Map(Map { map: Arc::new(map) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn expressions_can_use_the_request() {
        let object =
            json!({"metadata": {"namespace": "a", "labels": {"x.y/z": "1"}}, "spec": {"replicas": 3}});
        let request = json!({"operation": "CREATE", "userInfo": {"groups": ["g"]}});
        let variables =
            Variables::new(&[("object", &object), ("oldObject", &Value::Null), ("request", &request)]);
        let table = [
            ("object.spec.replicas > 2 && oldObject == null", Some(true)),
            ("object.metadata.labels['x.y/z'] == '1'", Some(true)),
            ("object.metadata.__namespace__ == 'a'", Some(true)),
            ("has(object.status)", Some(false)),
            ("request.userInfo.groups.exists(g, g == 'g')", Some(true)),
            ("'abc'.charAt(1) == 'b'", Some(true)),
            ("object.spec.nothing == 1", None),
            ("object.spec.replicas", None),
            ("authorizer.path('/x').check('get').allowed()", None),
        ];
        for (text, expected) in table {
            assert_eq!(variables.holds(&compile(text).unwrap()).ok(), expected, "{text}");
        }
        assert!(compile("object.").is_err());
        assert_eq!(
            compile("[1].all(x, Object{a: x} != null)").err().unwrap(),
            "undeclared reference to 'Object'"
        );
        assert!(compile(&"1+".repeat(MAX_EXPRESSION_BYTES)).is_err());
        let doubled = (0..28).fold("'x'".to_owned(), |text, _| format!("{text}.replace('x','xx')"));
        let why = compile(&format!("size({doubled}) > 0")).err().unwrap();
        assert!(why.contains("more than 1000000 steps"), "{why}");
    }

    #[test]
    fn expressions_nested_too_deeply_are_not_parsed() {
        let nested = |open: &str, close: &str, times: usize| {
            compile(&format!("{}1{}", open.repeat(times), close.repeat(times))).err().unwrap_or_default()
        };
        for (open, close) in [("(", ")"), ("[", "]"), ("{1: ", "}"), ("-", ""), ("! ", "")] {
            let said = nested(open, close, MAX_NESTING + 1);
            assert_eq!(said, "expression recursion limit exceeded: 250", "{open}");
        }
        assert_eq!(nested("(", ")", 50), "");
        let quoted = format!("'{}' == \"{}\\\"\"", "(".repeat(1000), "[".repeat(1000));
        assert!(compile(&quoted).is_ok());
    }
}
