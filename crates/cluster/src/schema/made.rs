//! What the functions of CEL make, and what they look through beyond their arguments, at most.
//!
//! Pure. One table for the functions of `cel` and `kube-cel`: what is not in it gives a part of its arguments, or no more
//! than all of them together.

use kube_cel::cel::common::ast::{CallExpr, Expr, LiteralValue};
use serde_json::Value;

use super::cost::{Place, Size};

/// The longest text of a number or a time.
const SCALAR_TEXT: u64 = 64;
/// The states of a pattern of which nothing is known: what `regex` takes at most is a few times that.
const UNKNOWN_STATES: u64 = 100_000;
/// The states of a class of characters, such as `\w`, which knows all of Unicode.
const CLASS_STATES: u64 = 50;
/// The states of a list of characters in brackets.
const RANGE_STATES: u64 = 10;
/// States of a pattern that are compiled in one step.
const STATES_PER_STEP: u64 = 4;
/// Pairs of characters or values that are held against each other in one step.
const PAIRS_PER_STEP: u64 = 10;

/// The argument at a place; the target comes first.
fn argument(call: &CallExpr, place: usize) -> Option<&Expr> {
    let target = call.target.as_deref().filter(|target| !is_namespace(&target.expr));
    let parts = target.into_iter().chain(&call.args);
    parts.map(|part| &part.expr).nth(place)
}

/// Whether this is the first part of a function's name, as in `lists.range`.
fn is_namespace(target: &Expr) -> bool {
    const NAMES: [&str; 9] =
        ["lists", "sets", "base64", "strings", "math", "ip", "format", "optional", "jsonpatch"];
    matches!(target, Expr::Ident(name) if NAMES.contains(&name.as_str()))
}

fn sized(call: &CallExpr, place: usize, at: Place<'_, '_>) -> Size {
    argument(call, place).map(|argument| at.size(argument)).unwrap_or_default()
}

/// How large the result of a function or an operator can be.
pub(super) fn size(call: &CallExpr, at: Place<'_, '_>) -> Size {
    let of = |place: usize| sized(call, place, at);
    let count = call.args.len() + usize::from(call.target.is_some());
    let all = || (0..count).map(of).fold(Size::default(), Size::and);
    match call.func_name.as_str() {
        "_?_:_" => of(1).max(of(2)),
        "_[_]" | "_[?_]" | "first" | "last" => of(0).part(),
        "min" | "max" | "or" | "orValue" | "value" | "optional.of" | "of" | "ofNonZeroValue" => all().part(),
        // Two texts or lists become one.
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

/// What a function does beyond looking through its arguments once and making its result.
pub(super) fn search(name: &str, call: &CallExpr, at: Place<'_, '_>) -> u64 {
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
    // What is empty is found before each character and at the end.
    let places = match argument(call, 1).and_then(literal) {
        Some(sought) if !sought.is_empty() => text.length / sought.len() as u64,
        _ => text.length.saturating_add(1),
    };
    Size::text(text.length.saturating_add(places.saturating_mul(by.length)))
}

/// Everything that is given is printed at most once, and a number with as many digits as are asked for.
fn formatted(call: &CallExpr, given: Size, at: Place<'_, '_>) -> Size {
    let Some(format) = argument(call, 0) else { return Size::ENDLESS };
    let Some(texts) = texts(format, at) else { return Size::ENDLESS };
    let longest =
        texts.iter().map(|text| (text.len() as u64).saturating_add(digits(text))).max().unwrap_or(0);
    let printed = given.nodes.saturating_mul(SCALAR_TEXT).saturating_add(given.bytes.saturating_mul(6));
    Size::text(longest.saturating_add(printed))
}

/// The digits behind the point that a format asks for, all together.
fn digits(format: &str) -> u64 {
    let asked = format.split("%.").skip(1);
    let numbers = asked.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    numbers
        .map(|number| number.parse().unwrap_or(if number.is_empty() { 0 } else { u64::MAX }))
        .fold(0, u64::saturating_add)
}

/// The texts that an expression can be, where they are known.
fn texts(expression: &Expr, at: Place<'_, '_>) -> Option<Vec<String>> {
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

/// The largest number that an expression can be.
fn most_number(expression: &Expr, at: Place<'_, '_>) -> u64 {
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

fn most_states(pattern: &Expr, at: Place<'_, '_>) -> u64 {
    let known = texts(pattern, at).map(|texts| texts.iter().map(|text| states(text)).max().unwrap_or(0));
    known.unwrap_or(UNKNOWN_STATES)
}

/// About how many states a pattern has: each character is one, and what is repeated is there as often.
fn states(pattern: &str) -> u64 {
    // The sums of the groups that are open, and what was read last in the innermost.
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
            // What is repeated without a bound is there once; it may be repeated again.
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
