//! How deep and how large an object may be.
//!
//! Pure. The one bound of everything that is stored, by any writer and any kind of request: [`crate::store`] holds every
//! write against it, and [`crate::patch`] holds each step of a JSON patch against the depth, so that nothing deeper is
//! ever built, copied or dropped. Values are handled by functions that call themselves for each level.

use serde_json::Value;

/// How deep lists and maps may be nested. What is stored is read with `serde_json`, which takes 127 levels: this leaves
/// room for what is put around an object, such as a list, a watch event or an `AdmissionReview`.
pub const MAX_DEPTH: usize = 120;
/// How many bytes an object's JSON may have: as many as a request's body, so that whatever can be read can be written.
pub const MAX_BYTES: usize = 3 << 20;
/// What an object that is being deleted may have beyond [`MAX_BYTES`]: its mark must never be refused.
pub const MARK_BYTES: usize = 64 << 10;

/// Why an object is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OutOfBounds {
    /// Lists and maps in it are nested too deeply.
    #[error("the object is nested deeper than {} levels", MAX_DEPTH)]
    Depth,
    /// Its JSON is too long.
    #[error("the object is too large: its JSON has {0} bytes, and {max} are permitted", max = MAX_BYTES)]
    Bytes(usize),
}

/// The measures of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// Levels of lists and maps, at most one more than [`MAX_DEPTH`]: what is deeper is not looked into.
    pub depth: usize,
    /// The length of the JSON, give or take the digits of fractions.
    pub bytes: usize,
    /// Values in it, itself among them.
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
                // Brackets, and a comma between two.
                self.bytes += 1 + items.len().max(1);
                if inside <= MAX_DEPTH {
                    items.iter().for_each(|item| self.take_in(item, inside));
                }
            }
            Value::Object(fields) => {
                self.depth = self.depth.max(inside);
                // Brackets, a colon each, and a comma between two.
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

/// With the quotes, and what JSON escapes.
fn text_bytes(text: &str) -> usize {
    let escaped = text.bytes().filter(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\'));
    let added = escaped.map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        _ => 5,
    });
    2 + text.len() + added.sum::<usize>()
}

/// Holds an object that is to be stored against the bounds. One that is no deeper and no larger than it was is let pass:
/// it may come from a time before the bounds, and must be able to go.
///
/// # Errors
/// The bound that it exceeds.
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
    fn depth_is_counted_in_levels_and_the_deepest_that_is_let_pass_can_be_read_back_within_others() {
        assert_eq!(Extent::of(&json!("x")).depth, 0);
        assert_eq!(Extent::of(&json!({})).depth, 1);
        assert_eq!(Extent::of(&json!({"a": [{}], "b": 1})).depth, 3);
        assert_eq!(check(&nested(MAX_DEPTH), || None), Ok(()));
        assert_eq!(check(&nested(MAX_DEPTH + 1), || None), Err(OutOfBounds::Depth));
        let within = json!({"request": {"object": {"items": [nested(MAX_DEPTH)]}}}).to_string();
        assert!(serde_json::from_str::<Value>(&within).is_ok());
    }

    #[test]
    fn bytes_are_those_of_the_json() {
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
    fn an_object_at_the_bound_can_be_marked_and_a_larger_one_can_shrink() {
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
