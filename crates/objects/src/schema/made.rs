//! Upper bounds on the results of CEL functions, and on what they traverse besides their arguments.
//!
//! Pure. One table for the functions of `cel` and `kube-cel`. The result of any other function is bounded by a part of
//! its arguments, or by all of them together.

use kube_cel::cel::common::ast::{CallExpr, Expr, LiteralValue};
use serde_json::Value;

use super::size::{Size, Sizes};

/// The longest text of a number or time.
const SCALAR_TEXT: u64 = 64;
/// The states assumed for an unknown pattern; `regex` allows at most a few times as many.
const UNKNOWN_STATES: u64 = 100_000;
/// The states of a character class such as `\w`, which covers all of Unicode.
const CLASS_STATES: u64 = 50;
/// The states of a bracket expression.
const RANGE_STATES: u64 = 10;
/// States of a pattern compiled per step.
const STATES_PER_STEP: u64 = 4;
/// Pairs of characters or values compared per step.
const PAIRS_PER_STEP: u64 = 10;

/// Returns the argument at a position; a call's target comes first.
fn argument(call: &CallExpr, place: usize) -> Option<&Expr> {
    let target = call.target.as_deref().filter(|target| !is_namespace(&target.expr));
    let parts = target.into_iter().chain(&call.args);
    parts.map(|part| &part.expr).nth(place)
}

/// Returns whether this is the namespace of a function, as in `lists.range`.
fn is_namespace(target: &Expr) -> bool {
    const NAMES: [&str; 9] =
        ["lists", "sets", "base64", "strings", "math", "ip", "format", "optional", "jsonpatch"];
    matches!(target, Expr::Ident(name) if NAMES.contains(&name.as_str()))
}

fn sized<'v>(call: &CallExpr, place: usize, at: impl Sizes<'v>) -> Size {
    argument(call, place).map(|argument| at.size(argument)).unwrap_or_default()
}

/// Returns an upper bound on the size of the result of a function or operator.
pub(super) fn size<'v>(call: &CallExpr, at: impl Sizes<'v>) -> Size {
    let of = |place: usize| sized(call, place, at);
    let count = call.args.len() + usize::from(call.target.is_some());
    let all = || (0..count).map(of).fold(Size::default(), Size::and);
    match call.func_name.as_str() {
        "_?_:_" => of(1).max(of(2)),
        "_[_]" | "_[?_]" | "first" | "last" => of(0).part(),
        "min" | "max" | "or" | "orValue" | "value" | "optional.of" | "of" | "ofNonZeroValue" => all().part(),
        // Concatenates two texts or lists.
        "_+_" => Size { nodes: all().nodes.saturating_sub(1), ..all() },
        "flatten" => Size { length: of(0).nodes, ..of(0) },
        "trim" | "substring" | "charAt" | "lowerAscii" | "upperAscii" | "reverse" | "sort" | "distinct"
        | "slice" | "find" | "decode" | "bytes" => of(0),
        "encode" | "escapeKey" => Size::text(of(0).length.saturating_mul(2).saturating_add(4)),
        "quote" => Size::text(of(0).length.saturating_mul(6).saturating_add(2)),
        "string" => Size::text(of(0).length.max(SCALAR_TEXT)),
        "split" | "findAll" => {
            let text = of(0);
            let pieces = text.length.saturating_add(2);
            Size { length: pieces, nodes: pieces.saturating_add(1), bytes: text.bytes }
        }
        "replace" => replaced(call, of(0), of(2)),
        "join" => {
            let separators = of(0).length.saturating_mul(of(1).length);
            Size::text(of(0).bytes.saturating_add(separators))
        }
        "format" => formatted(call, of(1), at),
        "range" => {
            let length = argument(call, 0).map_or(0, |number| most_number(number, at));
            Size { length, nodes: length.saturating_add(1), bytes: 0 }
        }
        "_&&_"
        | "_||_"
        | "!_"
        | "_==_"
        | "_!=_"
        | "_<_"
        | "_<=_"
        | "_>_"
        | "_>=_"
        | "@in"
        | "_in_"
        | "@not_strictly_false"
        | "-_"
        | "_-_"
        | "_*_"
        | "_/_"
        | "_%_"
        | "size"
        | "int"
        | "uint"
        | "double"
        | "contains"
        | "startsWith"
        | "endsWith"
        | "matches"
        | "indexOf"
        | "lastIndexOf"
        | "isSorted"
        | "equivalent"
        | "intersects" => Size::SCALAR,
        _ => all(),
    }
}

/// Returns the cost of a function besides traversing its arguments once and creating its result.
pub(super) fn search<'v>(name: &str, call: &CallExpr, at: impl Sizes<'v>) -> u64 {
    let of = |place: usize| sized(call, place, at);
    match name {
        "contains" if call.target.as_deref().is_some_and(|target| is_namespace(&target.expr)) => {
            pairs(of(0), of(1))
        }
        "equivalent" | "intersects" => pairs(of(0), of(1)),
        "indexOf" | "lastIndexOf" => of(0).length.saturating_mul(of(1).part().length) / PAIRS_PER_STEP,
        "distinct" => of(0).length.saturating_mul(of(0).nodes) / PAIRS_PER_STEP,
        "sort" | "isSorted" => of(0).length.saturating_mul(2),
        "matches" | "find" | "findAll" => {
            let states = argument(call, 1).map_or(0, |pattern| most_states(pattern, at));
            let looked_at = of(0).length.saturating_mul(1 + states / 64) / PAIRS_PER_STEP;
            (states / STATES_PER_STEP).saturating_add(looked_at)
        }
        _ => 0,
    }
}

fn pairs(one: Size, other: Size) -> u64 {
    let nodes = one.length.saturating_mul(other.nodes).saturating_add(other.length.saturating_mul(one.nodes));
    nodes / PAIRS_PER_STEP
}

fn replaced(call: &CallExpr, text: Size, by: Size) -> Size {
    // An empty text is found before each character and at the end.
    let places = match argument(call, 1).and_then(literal) {
        Some(sought) if !sought.is_empty() => text.length / sought.len() as u64,
        _ => text.length.saturating_add(1),
    };
    Size::text(text.length.saturating_add(places.saturating_mul(by.length)))
}

/// Each argument is printed at most once, and a number with as many digits as requested.
fn formatted<'v>(call: &CallExpr, given: Size, at: impl Sizes<'v>) -> Size {
    let Some(format) = argument(call, 0) else { return Size::ENDLESS };
    let Some(texts) = texts(format, at) else { return Size::ENDLESS };
    let longest =
        texts.iter().map(|text| (text.len() as u64).saturating_add(digits(text))).max().unwrap_or(0);
    let printed = given.nodes.saturating_mul(SCALAR_TEXT).saturating_add(given.bytes.saturating_mul(6));
    Size::text(longest.saturating_add(printed))
}

/// Returns the sum of all requested digits after the decimal point.
fn digits(format: &str) -> u64 {
    let asked = format.split("%.").skip(1);
    let numbers = asked.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    numbers
        .map(|number| number.parse().unwrap_or(if number.is_empty() { 0 } else { u64::MAX }))
        .fold(0, u64::saturating_add)
}

/// Returns the possible texts of an expression, if known.
fn texts<'v>(expression: &Expr, at: impl Sizes<'v>) -> Option<Vec<String>> {
    if let Some(text) = literal(expression) {
        return Some(vec![text.to_owned()]);
    }
    let values = at.values(expression)?;
    Some(values.into_iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

fn literal(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// Returns the largest possible number of an expression.
fn most_number<'v>(expression: &Expr, at: impl Sizes<'v>) -> u64 {
    if let Some(values) = at.values(expression) {
        let whole = values.into_iter().map(|value| value.as_u64().unwrap_or(0));
        return whole.max().unwrap_or(0);
    }
    let of =
        |place: usize, call: &CallExpr| argument(call, place).map_or(0, |argument| most_number(argument, at));
    match expression {
        Expr::Literal(LiteralValue::Int(number)) => u64::try_from(*number.inner()).unwrap_or(0),
        Expr::Literal(_) => 0,
        Expr::Call(call) if call.func_name == "size" => sized(call, 0, at).length,
        Expr::Call(call) if call.func_name == "_+_" => of(0, call).saturating_add(of(1, call)),
        _ => u64::MAX,
    }
}

fn most_states<'v>(pattern: &Expr, at: impl Sizes<'v>) -> u64 {
    let known = texts(pattern, at).map(|texts| texts.iter().map(|text| states(text)).max().unwrap_or(0));
    known.unwrap_or(UNKNOWN_STATES)
}

/// Estimates the number of states of a pattern: one per character, multiplied by repetitions.
fn states(pattern: &str) -> u64 {
    // The sums of the open groups, and the last element of the innermost one.
    let (mut open, mut last) = (vec![0_u64], 0_u64);
    let mut rest = pattern.chars();
    let mut in_class = false;
    while let Some(c) = rest.next() {
        let innermost = |open: &mut Vec<u64>, states: u64| {
            if let Some(sum) = open.last_mut() {
                *sum = sum.saturating_add(states);
            }
        };
        match c {
            '\\' => {
                let escaped = rest.next().unwrap_or_default();
                let states = if escaped.is_ascii_alphabetic() { CLASS_STATES } else { 1 };
                last = if in_class { last.saturating_add(states) } else { states };
                innermost(&mut open, states);
            }
            ']' => in_class = false,
            _ if in_class => {}
            '[' => {
                in_class = true;
                last = RANGE_STATES;
                innermost(&mut open, RANGE_STATES);
            }
            '(' => open.push(0),
            ')' => {
                last = open.pop().unwrap_or(0);
                innermost(&mut open, last);
            }
            '{' => {
                let Some((inside, after)) = rest.as_str().split_once('}') else { continue };
                rest = after.chars();
                let times = inside.split(',').map(|number| number.trim().parse().unwrap_or(0)).max();
                let added = last.saturating_mul(times.unwrap_or(0));
                last = last.saturating_add(added);
                innermost(&mut open, added);
            }
            // Unbounded repetition does not multiply states; another repetition may follow.
            '+' | '*' | '?' => innermost(&mut open, 1),
            '.' => {
                last = CLASS_STATES;
                innermost(&mut open, CLASS_STATES);
            }
            _ => {
                last = 1;
                innermost(&mut open, 1);
            }
        }
    }
    open.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_multiply_states() {
        assert!(states("^[a-z]([-a-z0-9]*[a-z0-9])?$") < 100);
        assert!(states("^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$") < 1000);
        assert!(states("(a{1000}){1000}") > 1_000_000);
        assert!(states(r"(\w{100}){100}") > 100_000);
        assert!(states("a{1000}{1000}") > 1_000_000 && states("(a{1000})+{1000}") > 1_000_000);
        assert_eq!(states(""), 0);
    }
}
