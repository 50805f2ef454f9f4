//! Limits on the depth and the size of an object.
//!
//! Pure. These limits apply to everything that is stored, regardless of its author: the API server's store checks every
//! write, and [`crate::patch`] checks the depth after each step of a JSON patch. So nothing deeper is ever
//! built, copied or dropped, which matters because these operations are recursive.

use serde_json::Value;

/// The maximum nesting of lists and maps. `serde_json`, which reads stored objects, allows 127 levels; the
/// rest is for what encloses an object, such as a list, a watch event or an `AdmissionReview`.
pub const MAX_DEPTH: usize = 120;
/// The maximum size of an object's JSON in bytes: that of a request's body, so whatever can be read can be
/// written back.
pub const MAX_BYTES: usize = 3 << 20;
/// The allowance beyond [`MAX_BYTES`] for an object that is being deleted, because marking it must never
/// fail.
pub const MARK_BYTES: usize = 64 << 10;

/// The limit that an object exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OutOfBounds {
    /// Its lists and maps are nested too deeply.
    #[error("the object is nested deeper than {} levels", MAX_DEPTH)]
    Depth,
    /// Its JSON is too large.
    #[error("the object is too large: its JSON has {0} bytes, and {max} are permitted", max = MAX_BYTES)]
    Bytes(usize),
}

/// The depth and the size of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// The nesting of lists and maps; at most one more than [`MAX_DEPTH`], because deeper levels aren't
    /// visited.
    pub depth: usize,
    /// The length of the JSON; approximate for fractions.
    pub bytes: usize,
    /// The number of values, including the value itself.
    pub nodes: usize,
}

impl Extent {
    /// Measures a value.
    pub fn of(value: &Value) -> Extent {
        let mut extent = Extent::default();
        extent.take_in(value, 0);
        extent
    }

    fn take_in(&mut self, value: &Value, outside: usize) {
        self.nodes += 1;
        let inside = outside + 1;
        match value {
            Value::Null | Value::Bool(true) => self.bytes += 4,
            Value::Bool(false) => self.bytes += 5,
            Value::Number(number) => self.bytes += number_bytes(number),
            Value::String(text) => self.bytes += text_bytes(text),
            Value::Array(items) => {
                self.depth = self.depth.max(inside);
                // Brackets, and commas between items.
                self.bytes += 1 + items.len().max(1);
                if inside <= MAX_DEPTH {
                    items.iter().for_each(|item| self.take_in(item, inside));
                }
            }
            Value::Object(fields) => {
                self.depth = self.depth.max(inside);
                // Brackets, a colon per field, and commas between fields.
                self.bytes += 1 + fields.len().max(1) + fields.len();
                if inside <= MAX_DEPTH {
                    for (name, value) in fields {
                        self.bytes += text_bytes(name);
                        self.take_in(value, inside);
                    }
                }
            }
        }
    }
}

fn number_bytes(number: &serde_json::Number) -> usize {
    const FRACTION: usize = 18;
    let digits = |number: u64| number.checked_ilog10().map_or(1, |log| log as usize + 1);
    match (number.as_u64(), number.as_i64()) {
        (Some(number), _) => digits(number),
        (None, Some(number)) => 1 + digits(number.unsigned_abs()),
        (None, None) => FRACTION,
    }
}

/// Returns the length including quotes and escapes.
fn text_bytes(text: &str) -> usize {
    let escaped = text.bytes().filter(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\'));
    let added = escaped.map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        _ => 5,
    });
    2 + text.len() + added.sum::<usize>()
}

/// Checks an object to be stored against the limits. Accepts one that is no deeper and no larger than before:
/// it may predate the limits, and must remain deletable.
///
/// # Errors
/// The limit that it exceeds.
pub fn check(value: &Value, before: impl FnOnce() -> Option<Extent>) -> Result<(), OutOfBounds> {
    let extent = Extent::of(value);
    let is_marked = !value["metadata"]["deletionTimestamp"].is_null();
    let max_bytes = if is_marked { MAX_BYTES + MARK_BYTES } else { MAX_BYTES };
    let why = match extent {
        Extent { depth, .. } if depth > MAX_DEPTH => OutOfBounds::Depth,
        Extent { bytes, .. } if bytes > max_bytes => OutOfBounds::Bytes(bytes),
        _ => return Ok(()),
    };
    let is_no_worse = |before: Extent| extent.depth <= before.depth && extent.bytes <= before.bytes;
    if before().is_some_and(is_no_worse) { Ok(()) } else { Err(why) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(1), |value, _| json!([value]))
    }

    #[test]
    fn an_object_of_maximum_depth_can_be_read_within_a_review() {
        assert_eq!(Extent::of(&json!("x")).depth, 0);
        assert_eq!(Extent::of(&json!({})).depth, 1);
        assert_eq!(Extent::of(&json!({"a": [{}], "b": 1})).depth, 3);
        assert_eq!(check(&nested(MAX_DEPTH), || None), Ok(()));
        assert_eq!(check(&nested(MAX_DEPTH + 1), || None), Err(OutOfBounds::Depth));
        let within = json!({"request": {"object": {"items": [nested(MAX_DEPTH)]}}}).to_string();
        assert!(serde_json::from_str::<Value>(&within).is_ok());
    }

    #[test]
    fn bytes_are_the_length_of_the_json() {
        let values = [
            json!(null),
            json!({"a": [], "b": {}, "c": [true, false, null]}),
            json!([0, 9, 10, -1, -10, u64::MAX, i64::MIN]),
            json!({"quoted \"text\"": "\\ \n \t \u{1} \u{8} \u{c} ü"}),
        ];
        for value in values {
            assert_eq!(Extent::of(&value).bytes, value.to_string().len(), "{value}");
        }
    }

    #[test]
    fn an_object_at_the_limit_can_be_marked_and_a_larger_one_can_shrink() {
        let sized = |bytes: usize| json!({"metadata": {"name": "x"}, "data": "x".repeat(bytes)});
        let full = sized(MAX_BYTES - json!({"metadata": {"name": "x"}, "data": ""}).to_string().len());
        assert_eq!(check(&full, || None), Ok(()));
        let mut marked = full.clone();
        marked["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(check(&marked, || None), Ok(()));
        let larger = sized(MAX_BYTES + 100);
        assert!(matches!(check(&larger, || Some(Extent::of(&full))), Err(OutOfBounds::Bytes(_))));
        assert_eq!(check(&larger, || Some(Extent::of(&sized(MAX_BYTES + 200)))), Ok(()));
    }
}
