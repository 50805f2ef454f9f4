//! Mistakes: replaces, removes or duplicates a value in an object.

use serde_json::{Value, json};

use super::text;
use crate::random::Random;

/// Returns pointers to all values in a value, the value itself first.
pub fn pointers(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(value, String::new(), &mut found);
    found
}

fn collect(value: &Value, at: String, into: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                collect(value, format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), into);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                collect(value, format!("{at}/{index}"), into);
            }
        }
        _ => {}
    }
    into.push(at);
}

/// Makes one mistake in an object. Mostly keeps what identifies the object.
pub fn mutate(object: &mut Value, random: &mut Random) {
    let mut places = pointers(object);
    places.retain(|place| {
        !matches!(
            place.as_str(),
            "" | "/metadata" | "/metadata/labels/twin" | "/metadata/labels" | "/globalDefault"
        ) && !place.starts_with("/metadata/name")
    });
    if places.is_empty() {
        return;
    }
    if random.chance(85) {
        places.retain(|place| !matches!(place.as_str(), "/kind" | "/apiVersion") || random.chance(10));
    }
    if random.chance(8) {
        return identity(object, random);
    }
    if places.is_empty() {
        return;
    }
    let place = random.pick(&places).clone();
    let kind = random.below(6);
    let other = {
        let from = pointers(object);
        object.pointer(random.pick::<String>(&from)).cloned().unwrap_or(Value::Null)
    };
    if kind == 0 {
        return crate::shrink::remove(object, &place);
    }
    let Some(target) = object.pointer_mut(&place) else { return };
    *target = match kind {
        1 => Value::Null,
        2 if !other.is_object() => other,
        _ => wrong(target, random),
    };
}

/// Makes a mistake in what identifies an object.
fn identity(object: &mut Value, random: &mut Random) {
    let metadata = &mut object["metadata"];
    match random.below(9) {
        0 => metadata["name"] = text("Not_A_Name"),
        1 => metadata["namespace"] = text("elsewhere"),
        2 => metadata["labels"]["bad key!"] = text("x"),
        3 => metadata["labels"]["app"] = text("not a value!"),
        4 => metadata["annotations"] = json!({"x/y/z": "1"}),
        5 => metadata["finalizers"] = json!(["unqualified", "example.com/f"]),
        6 => {
            metadata["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": ""}])
        }
        7 => metadata["resourceVersion"] = text("12"),
        _ => metadata["uid"] = text("00000000-0000-0000-0000-000000000000"),
    }
}

/// Returns a wrong replacement for this value.
fn wrong(value: &Value, random: &mut Random) -> Value {
    let numbers = [json!(-1), json!(0), json!(1), json!(70_000), json!(2_147_483_648_u64), json!(1.5)];
    match value {
        Value::String(_) if random.chance(70) => {
            let long = "x".repeat(64);
            let longest = "y".repeat(254);
            let texts = [
                "",
                "Not_A_Name",
                "-a",
                "a b",
                "x/y/z",
                "${ns}",
                "ü",
                "10Gi",
                "Always",
                "a.b",
                &long,
                &longest,
                "1",
            ];
            text(random.pick::<&str>(&texts))
        }
        Value::Number(_) if random.chance(75) => random.pick(&numbers).clone(),
        Value::Bool(set) if random.chance(60) => Value::Bool(!set),
        Value::Array(items) if random.chance(75) => {
            let mut items = items.clone();
            match (random.below(4), items.first().cloned()) {
                (0, _) => items.clear(),
                (1, _) => items.push(Value::Null),
                (_, Some(first)) => items.push(first),
                (_, None) => items.push(json!({})),
            }
            Value::Array(items)
        }
        Value::Object(fields) if random.chance(75) => {
            let mut fields = fields.clone();
            match random.below(3) {
                0 => fields.clear(),
                _ => {
                    fields.insert("bogus".into(), json!({"a": 1}));
                }
            }
            Value::Object(fields)
        }
        _ => {
            let others =
                [json!("text"), json!(7), json!(true), json!([]), json!({}), json!(["a"]), json!({"a": "b"})];
            random.pick(&others).clone()
        }
    }
}
