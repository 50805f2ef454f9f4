//! The order of a list's items after a merge.

use serde_json::Value;

use super::{DIRECTIVE, ELEMENT_ORDER, Element, List, MAP, Object, bad_type, confused, find, no_merge_key};
use crate::patch::PatchError;
use crate::printed;

/// Checks that the order contains every patched item, in the same order (`validatePatchWithSetOrderList`).
pub(super) fn check_order(patch: &[Value], order: &[Value], key: &str) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let fields = |item: &Value| match item {
        Value::Object(fields) => Ok(fields.clone()),
        other => Err(bad_type(MAP, other)),
    };
    let mut kept = Vec::new();
    for item in patch {
        let is_deleted = !key.is_empty() && fields(item)?.get(DIRECTIVE).is_some_and(|d| d == "delete");
        if !is_deleted {
            kept.push(item);
        }
    }
    let (mut at, mut in_order) = (0, 0);
    while at < kept.len() && in_order < order.len() {
        if kept[at].get(DIRECTIVE).is_some() {
            at += 1;
            continue;
        }
        let is_same = if key.is_empty() {
            *kept[at] == order[in_order]
        } else {
            let (left, right) = (fields(kept[at])?, fields(&order[in_order])?);
            let of = |fields: &Object| fields.get(key).cloned().ok_or_else(|| no_merge_key(fields, key));
            of(&left)? == of(&right)?
        };
        at += usize::from(is_same);
        in_order += 1;
    }
    if at < kept.len() && in_order >= order.len() {
        let [patch, order] = [patch, order].map(|list| printed(&Value::Array(list.to_vec())));
        return Err(confused(format!(
            "The order in patch list:\n{patch}\n doesn't match {ELEMENT_ORDER} list:\n{order}\n"
        )));
    }
    Ok(())
}

/// Splits items by whether `by` contains their key (`partitionMapsByPresentInList`).
pub(super) fn partition(items: List, by: &[Value], key: &str) -> Result<(List, List), PatchError> {
    let (mut present, mut others) = (List::new(), List::new());
    for item in items {
        let Some(fields) = item.as_object() else { return Err(bad_type(MAP, &item)) };
        let value = fields.get(key).ok_or_else(|| no_merge_key(fields, key))?;
        match find(by, key, value)? {
            Some(_) => present.push(item),
            None => others.push(item),
        }
    }
    Ok((present, others))
}

/// Removes duplicates; the list's last item moves to the place of each removed one (`deduplicateScalars`).
pub(super) fn without_repetition(mut items: List) -> List {
    let mut at = 0;
    while at + 1 < items.len() {
        let mut other = at + 1;
        while other < items.len() {
            if items[at] == items[other] {
                items.swap_remove(other);
            } else {
                other += 1;
            }
        }
        at += 1;
    }
    items
}

/// Returns the position of an item in a list, by its key or its value (`index`).
fn position(list: &[Value], item: &Value, key: &str, kind: Element) -> Option<usize> {
    let is_same = |other: &&Value| match kind {
        Element::Map => other.get(key) == item.get(key),
        Element::Scalar => *other == item,
    };
    list.iter().position(|other| is_same(&other))
}

/// Sorts the patched items by the patch's order and the others by the server's, then merges both lists
/// (`normalizeElementOrder`).
pub(super) fn in_order(
    patched: List,
    others: List,
    order: &[Value],
    server: &[Value],
    key: &str,
    kind: Element,
) -> Result<List, PatchError> {
    let patched = sorted(patched, order, key, kind)?;
    let others = sorted(others, server, key, kind)?;
    let mut out = Vec::with_capacity(patched.len() + others.len());
    let (mut patched, mut others) = (patched.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let take_other = match (others.peek(), patched.peek()) {
            (None, None) => return Ok(out),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(item)) => {
                let at = |item| position(server, item, key, kind);
                matches!((at(other), at(item)), (Some(o), Some(n)) if o < n)
            }
        };
        out.extend(if take_other { others.next() } else { patched.next() });
    }
}

/// Sorts items by their position in `order`. As in upstream's insertion sort, an item that is not in `order` counts as
/// less than those before it (`normalizeSliceOrder`).
fn sorted(items: List, order: &[Value], key: &str, kind: Element) -> Result<List, PatchError> {
    if kind == Element::Map {
        for item in items.iter().chain(order) {
            let Some(fields) = item.as_object() else { return Err(bad_type(MAP, item)) };
            if !fields.contains_key(key) {
                return Err(no_merge_key(fields, key));
            }
        }
    }
    let is_deleted =
        |item: &Value| kind == Element::Map && item.get(DIRECTIVE).is_some_and(|d| d == "delete");
    let (deleted, items): (List, List) = items.into_iter().partition(is_deleted);
    let mut sorted: Vec<(Option<usize>, Value)> = Vec::with_capacity(items.len());
    for item in items {
        let place = position(order, &item, key, kind);
        let is_less = |other: Option<usize>| match (place, other) {
            (Some(place), Some(other)) => place < other,
            _ => true,
        };
        let at = sorted.iter().rposition(|(other, _)| !is_less(*other)).map_or(0, |at| at + 1);
        sorted.insert(at, (place, item));
    }
    Ok(sorted.into_iter().map(|(_, item)| item).chain(deleted).collect())
}
