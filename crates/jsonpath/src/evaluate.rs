//! Evaluates a parsed template on an object. Nothing is copied: what it finds is borrowed.

use std::cmp::Ordering;

use serde_json::Value;

use crate::parse::{Filter, Node, Operator, Part, Slice, To};
use crate::printed;

/// Evaluates the parts; calls `report` with the values of each pair of braces and each text between.
pub fn for_each<'v>(
    parts: &'v [Part],
    object: &'v Value,
    most: usize,
    report: &mut dyn FnMut(&[&'v Value]),
) -> Result<(), String> {
    for part in parts {
        match part {
            Part::Text(text) => report(&[text]),
            Part::Action(nodes) => report(&found(nodes, vec![object], most)?),
            Part::Range(over, body) => {
                for value in found(over, vec![object], most)? {
                    for_each(body, value, most, report)?;
                }
            }
        }
    }
    Ok(())
}

/// Follows the steps from some values; an error if more than `most` values are found at any of them.
pub fn found<'v>(nodes: &'v [Node], values: Vec<&'v Value>, most: usize) -> Result<Vec<&'v Value>, String> {
    let mut values = values;
    for node in nodes {
        let mut next = Found { values: Vec::new(), most };
        step(node, &values, &mut next)?;
        values = next.values;
    }
    Ok(values)
}

/// The values that a step has found so far.
struct Found<'v> {
    values: Vec<&'v Value>,
    most: usize,
}

impl<'v> Found<'v> {
    fn push(&mut self, value: &'v Value) -> Result<(), String> {
        if self.values.len() == self.most {
            return Err(format!("more than {} values", self.most));
        }
        self.values.push(value);
        Ok(())
    }

    fn extend(&mut self, values: impl IntoIterator<Item = &'v Value>) -> Result<(), String> {
        values.into_iter().try_for_each(|value| self.push(value))
    }
}

fn step<'v>(node: &'v Node, values: &[&'v Value], next: &mut Found<'v>) -> Result<(), String> {
    match node {
        Node::Literal(value) => next.push(value),
        Node::Field(name) => next.extend(values.iter().filter_map(|value| value.get(name.as_str()))),
        Node::Wildcard => values.iter().try_for_each(|value| next.extend(children(value))),
        Node::Recursive => values.iter().try_for_each(|value| containers(value, next)),
        Node::Slice(slice) => values.iter().try_for_each(|value| match value {
            Value::Null => Ok(()),
            Value::Array(items) => next.extend(sliced(*slice, items)?),
            other => Err(format!("{} is not array or slice", printed(other))),
        }),
        Node::Union(members) => {
            members.iter().try_for_each(|member| next.extend(found(member, values.to_vec(), next.most)?))
        }
        Node::Filter(filter) => values.iter().try_for_each(|value| match value {
            Value::Null => Ok(()),
            Value::Array(items) => items.iter().try_for_each(|item| match passes(filter, item, next.most)? {
                true => next.push(item),
                false => Ok(()),
            }),
            other => Err(format!("{} is not array or slice and cannot be filtered", printed(other))),
        }),
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Collects the value and all its descendants that contain values themselves.
fn containers<'v>(value: &'v Value, into: &mut Found<'v>) -> Result<(), String> {
    let mut inner = children(value).peekable();
    if inner.peek().is_none() {
        return Ok(());
    }
    into.push(value)?;
    inner.try_for_each(|child| containers(child, into))
}

fn sliced(slice: Slice, items: &[Value]) -> Result<Vec<&Value>, String> {
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let from_end = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    let from = from_end(slice.from.unwrap_or(0));
    let to = match slice.to {
        To::One => from.saturating_add(1),
        To::End => length,
        To::Before(to) => from_end(to),
    };
    if from == to {
        return Ok(Vec::new());
    }
    let outside = |index: i64| format!("array index out of bounds: index {index}, length {length}");
    if from < 0 || from >= length {
        return Err(outside(from));
    }
    if to < 0 || to > length {
        return Err(outside(to.saturating_sub(1)));
    }
    if from > to {
        return Err(format!("starting index {from} is greater than ending index {to}"));
    }
    let step = slice.step.unwrap_or(1);
    if step <= 0 {
        return Err("step must be > 0".to_owned());
    }
    let size = |number: i64| usize::try_from(number).unwrap_or(0);
    Ok(items.iter().take(size(to)).skip(size(from)).step_by(size(step)).collect())
}

fn passes(filter: &Filter, item: &Value, most: usize) -> Result<bool, String> {
    let left = found(&filter.left, vec![item], most)?;
    let Some((operator, right)) = &filter.compared else { return Ok(!left.is_empty()) };
    let right = found(right, vec![item], most)?;
    match (&left[..], &right[..]) {
        ([], _) | (_, []) => Ok(false),
        ([left], [right]) => compare(*operator, left, right),
        _ => Err("can only compare one element at a time".to_owned()),
    }
}

fn compare(operator: Operator, left: &Value, right: &Value) -> Result<bool, String> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => {
            left.as_f64().zip(right.as_f64()).and_then(|(left, right)| left.partial_cmp(&right))
        }
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        _ => return Err("incompatible types for comparison".to_owned()),
    };
    Ok(order.is_some_and(|order| match operator {
        Operator::Equal => order == Ordering::Equal,
        Operator::NotEqual => order != Ordering::Equal,
        Operator::Less => order == Ordering::Less,
        Operator::LessOrEqual => order != Ordering::Greater,
        Operator::Greater => order == Ordering::Greater,
        Operator::GreaterOrEqual => order != Ordering::Less,
    }))
}
