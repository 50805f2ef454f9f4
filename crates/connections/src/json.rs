//! What JSON bodies may consist of: parsed, a short text can take far more memory than it is long.

use crate::budget::{Exhausted, Share};

/// The most values in a body.
pub const MOST_JSON_VALUES: usize = 200_000;
/// What each of them takes in memory once it is parsed.
const VALUE_BYTES: usize = 128;

/// The bounds of JSON bodies.
#[derive(Clone, Copy, Debug)]
pub struct JsonLimits {
    /// The most objects and lists in a body.
    pub containers: usize,
    /// What each of them takes in memory once it is parsed.
    pub container_bytes: usize,
}

/// Why a JSON body may not be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonRefused {
    /// It has more objects, lists or values than it may have.
    TooMany,
    /// There is no memory for it now.
    NoMemory(Exhausted),
}

impl JsonLimits {
    /// Takes the memory that a body needs once it is parsed.
    ///
    /// # Errors
    /// If it exceeds these bounds, or the share has no memory left for it.
    pub fn take(&self, json: &[u8], share: &Share) -> Result<(), JsonRefused> {
        let JsonSize { containers, values } = json_size(json);
        if containers > self.containers || values > MOST_JSON_VALUES {
            return Err(JsonRefused::TooMany);
        }
        let bytes = containers * self.container_bytes + values * VALUE_BYTES;
        share.take(bytes).map_err(JsonRefused::NoMemory)
    }
}

/// What a JSON text consists of. Parsed, each part takes far more memory than its two bytes of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct JsonSize {
    /// The number of objects and lists.
    containers: usize,
    /// The number of values in them, and one for each that is empty.
    values: usize,
}

/// Returns what a JSON text consists of, without parsing it.
fn json_size(json: &[u8]) -> JsonSize {
    let (mut size, mut in_text, mut is_escaped) = (JsonSize::default(), false, false);
    for byte in json {
        match (in_text, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => in_text = !in_text,
            (false, b'{' | b'[') => {
                size.containers += 1;
                size.values += 1;
            }
            (false, b',') => size.values += 1,
            _ => {}
        }
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    #[test]
    fn parts_are_counted_outside_of_texts() {
        let of = |containers, values| JsonSize { containers, values };
        assert_eq!(json_size(br#"{"a":[{},{"b":"[{\",{"},[]]}"#), of(5, 7));
        assert_eq!(json_size(b"\"[,[\\\\\"[[1,2"), of(2, 3));
    }

    #[test]
    fn a_body_takes_the_memory_of_its_parts_and_is_bounded_in_their_number() {
        let limits = JsonLimits { containers: 2, container_bytes: 1000 };
        let share = Budget::new(1 << 20, 2 * 1000 + 3 * VALUE_BYTES).share("jane");
        assert_eq!(limits.take(b"[{},1]", &share), Ok(()), "two containers and three values");
        assert_eq!(limits.take(b"1", &share), Ok(()), "nothing to take");
        assert_eq!(limits.take(b"[]", &share), Err(JsonRefused::NoMemory(Exhausted::Client)));
        assert_eq!(limits.take(b"[[[", &share), Err(JsonRefused::TooMany));
        let values = ",".repeat(MOST_JSON_VALUES + 1);
        assert_eq!(limits.take(values.as_bytes(), &share), Err(JsonRefused::TooMany));
    }
}
