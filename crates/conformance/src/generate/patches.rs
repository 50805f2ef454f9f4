//! Generates patches of every type for an object similar to a given one.

use serde_json::{Map, Value, json};

use super::kinds::{Kind, List};
use super::mutate::{mutate, pointers};
use super::text;
use crate::random::Random;

/// Returns a patch and its content type.
pub fn patch(kind: &Kind, like: &Value, random: &mut Random) -> (&'static str, Value) {
    match random.below(if kind.custom { 5 } else { 8 }) {
        0 | 1 => ("application/json-patch+json", json(like, random)),
        2..=4 => ("application/merge-patch+json", merge(like, random)),
        _ => ("application/strategic-merge-patch+json", strategic(kind, like, random)),
    }
}

fn json(like: &Value, random: &mut Random) -> Value {
    let operations = (0..=random.below(3)).map(|_| operation(like, random)).collect();
    Value::Array(operations)
}

fn operation(like: &Value, random: &mut Random) -> Value {
    let mut places = pointers(like);
    places.retain(|place| {
        !matches!(
            place.as_str(),
            "" | "/metadata" | "/metadata/labels" | "/metadata/labels/twin" | "/globalDefault"
        )
    });
    places.push("/metadata/labels/new".into());
    places.push("/metadata/annotations".into());
    places.push("/nothing/there".into());
    let path = random.pick(&places).clone();
    let value = value_near(like, &path, random);
    match random.below(10) {
        0..=3 => json!({"op": "replace", "path": path, "value": value}),
        4 | 5 => json!({"op": "add", "path": path, "value": value}),
        6 => json!({"op": "remove", "path": path}),
        7 => json!({"op": "test", "path": path, "value": like.pointer(&path)}),
        8 => json!({"op": "copy", "from": random.pick(&places), "path": path}),
        _ => json!({"op": "move", "from": random.pick(&places), "path": "/metadata/labels/moved"}),
    }
}

/// Returns the value at a path, or a variation of it.
fn value_near(like: &Value, path: &str, random: &mut Random) -> Value {
    let mut holder = json!({"spec": like.pointer(path).cloned().unwrap_or(text("new"))});
    if random.chance(60) {
        mutate(&mut holder, random);
    }
    holder.get("spec").cloned().unwrap_or(Value::Null)
}

/// Wraps a value in objects along a pointer.
fn wrap(path: &str, value: Value) -> Value {
    path.trim_start_matches('/').rsplit('/').fold(value, |inner, name| {
        let mut fields = Map::new();
        fields.insert(name.replace("~1", "/").replace("~0", "~"), inner);
        Value::Object(fields)
    })
}

fn merge(like: &Value, random: &mut Random) -> Value {
    if random.chance(15) {
        return json!({"metadata": {"labels": {"app": null, "more": "x"}, "annotations": {"a": "b"}}});
    }
    // Only paths through objects, because a merge patch replaces lists.
    let mut places = pointers(like);
    places.retain(|place| {
        !place.split('/').any(|part| part.parse::<usize>().is_ok())
            && !matches!(
                place.as_str(),
                "" | "/metadata" | "/metadata/labels" | "/metadata/labels/twin" | "/globalDefault"
            )
    });
    let Some(path) = (!places.is_empty()).then(|| random.pick(&places).clone()) else { return json!({}) };
    let value = if random.chance(20) { Value::Null } else { value_near(like, &path, random) };
    wrap(&path, value)
}

fn strategic(kind: &Kind, like: &Value, random: &mut Random) -> Value {
    if kind.lists.is_empty() || random.chance(30) {
        return directives(merge(like, random), random);
    }
    let list = random.pick(&kind.lists);
    let items = like.pointer(&list.path).and_then(Value::as_array).cloned().unwrap_or_default();
    let path = list.path.clone();
    // A nested list is reached through an item of the outer list, by its key.
    if let Some((outer, inner)) = path.split_once("/0/") {
        let key = kind.lists.iter().find(|list| list.path == outer).and_then(|list| list.key.clone());
        let first = like.pointer(&format!("{outer}/0")).cloned().unwrap_or_default();
        let key = key.unwrap_or_else(|| "name".into());
        let mut item = wrap(inner, Value::Null);
        fill(&mut item, inner, list, &items, random);
        item[&key] = first.get(&key).cloned().unwrap_or(text("main"));
        return wrap(outer, Value::Array(vec![item]));
    }
    let mut patch = wrap(&path, Value::Null);
    fill(&mut patch, path.trim_start_matches('/'), list, &items, random);
    patch
}

/// Adds items and directives for one list to a patch.
fn fill(patch: &mut Value, path: &str, list: &List, items: &[Value], random: &mut Random) {
    let (parent, name) = match path.rsplit_once('/') {
        Some((parent, name)) => (format!("/{parent}"), name.to_owned()),
        None => (String::new(), path.to_owned()),
    };
    let Some(holder) = patch.pointer_mut(&parent) else { return };
    if list.primitive {
        match random.below(3) {
            0 => holder[&name] = json!(["example.com/a", "example.com/b"]),
            1 => {
                holder[format!("$deleteFromPrimitiveList/{name}")] = json!(["example.com/a"]);
                holder[&name] = json!(["example.com/c"]);
            }
            _ => {
                holder[format!("$setElementOrder/{name}")] = json!(["example.com/b", "example.com/a"]);
                holder[&name] = json!(["example.com/b"]);
            }
        }
        return;
    }
    let Some(key) = &list.key else {
        holder[&name] = Value::Array(items.iter().rev().cloned().collect());
        return;
    };
    let mut made = Vec::new();
    if let Some(item) = (!items.is_empty()).then(|| random.pick(items).clone()) {
        let keep = item.get(key).cloned().unwrap_or(Value::Null);
        made.push(match random.below(5) {
            0 => json!({"$patch": "delete", key: keep}),
            1 => {
                let mut item = item;
                item["$patch"] = text("replace");
                item
            }
            _ => {
                let mut holder = json!({"spec": item});
                mutate(&mut holder, random);
                let mut item = holder["spec"].take();
                if item.is_object() && random.chance(90) {
                    item[key] = keep;
                }
                item
            }
        });
    }
    if random.chance(40) {
        let mut more = items.first().cloned().unwrap_or(json!({}));
        more[key] = if key == "containerPort" || key == "port" { json!(8081) } else { text("more") };
        made.push(more);
    }
    if random.chance(8) {
        made.push(json!({"$patch": "replace"}));
    }
    if random.chance(30) {
        let mut order = items
            .iter()
            .filter_map(|item| item.get(key))
            .map(|value| json!({key: value}))
            .collect::<Vec<_>>();
        order.extend(made.iter().filter_map(|item| item.get(key)).map(|value| json!({key: value})));
        order.dedup();
        order.reverse();
        holder[format!("$setElementOrder/{name}")] = Value::Array(order);
    }
    holder[&name] = Value::Array(made);
}

/// Sometimes adds a directive to an object of the patch.
fn directives(mut patch: Value, random: &mut Random) -> Value {
    let directive = match random.below(14) {
        0 => ("$patch", text("replace")),
        1 => ("$patch", text("merge")),
        2 => ("$patch", text("delete")),
        3 => ("$patch", text("bogus")),
        4 => ("$retainKeys", json!(["containers", "restartPolicy", "template", "ports", "name"])),
        _ => return patch,
    };
    if let Some(fields) = patch.get_mut("spec").and_then(Value::as_object_mut) {
        fields.insert(directive.0.into(), directive.1);
    }
    patch
}
