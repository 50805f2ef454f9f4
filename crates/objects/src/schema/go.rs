//! How Kubernetes' Go types encode fields: which ones they omit when zero, which ones they write even if unset, and the
//! names of types in messages.
//!
//! Source: the struct fields and JSON tags of `k8s.io/api`, `k8s.io/apimachinery` and `k8s.io/apiextensions-apiserver`,
//! from which `extract.py` makes the table. It has a line per type: its OpenAPI name, then `field:zero:type` for each
//! field that needs it.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

const TABLE: &str = include_str!("go_types.txt");

/// How a zero or absent field is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zero {
    /// A pointer, list or map: absent stays absent.
    #[default]
    Absent,
    /// A plain value that is omitted when zero (`omitempty`).
    LeftOut,
    /// A struct: written even if empty.
    Struct,
    /// Written as `null`: a list, map or pointer without `omitempty`, or a time.
    Null,
    /// Written as `""`.
    Text,
    /// Written as `0`.
    Number,
    /// Written as `false`.
    False,
    /// Written as `"0"`.
    Quantity,
}

/// The Go encoding of one field.
#[derive(Clone, Copy, Debug, Default)]
pub struct GoField {
    /// How it is encoded when zero.
    pub zero: Zero,
    /// The type in messages, if JSON's own type does not determine it.
    pub type_name: Option<&'static str>,
}

type Types = HashMap<&'static str, HashMap<&'static str, GoField>>;

/// Returns the encoding of a field, by the OpenAPI name of its type.
pub(super) fn field(definition: &str, name: &str) -> GoField {
    static TYPES: LazyLock<Types> = LazyLock::new(|| TABLE.lines().filter_map(line).collect());
    TYPES.get(definition).and_then(|fields| fields.get(name)).copied().unwrap_or_default()
}

fn line(line: &'static str) -> Option<(&'static str, HashMap<&'static str, GoField>)> {
    let mut words = line.split(' ');
    let definition = words.next()?;
    let fields = words.filter_map(|word| {
        let (name, rest) = word.split_once(':')?;
        let (zero, type_name) = rest.split_once(':').unwrap_or((rest, ""));
        let zero = match zero {
            "z" => Zero::LeftOut,
            "s" => Zero::Struct,
            "n" | "t" => Zero::Null,
            "e" => Zero::Text,
            "0" | "i" => Zero::Number,
            "f" => Zero::False,
            "q" => Zero::Quantity,
            _ => Zero::Absent,
        };
        Some((name, GoField { zero, type_name: (!type_name.is_empty()).then_some(type_name) }))
    });
    Some((definition, fields.collect()))
}

impl Zero {
    /// Returns the value written for an absent field; the fields of a struct are filled separately.
    pub fn value(self) -> Option<Value> {
        match self {
            Zero::Absent | Zero::LeftOut => None,
            Zero::Struct => Some(json!({})),
            Zero::Null => Some(Value::Null),
            Zero::Text => Some(json!("")),
            Zero::Number => Some(json!(0)),
            Zero::False => Some(json!(false)),
            Zero::Quantity => Some(json!("0")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_known_by_type_and_name() {
        let spec = |name| field("io.k8s.api.core.v1.PodSpec", name);
        assert_eq!((spec("hostNetwork").zero, spec("containers").zero), (Zero::LeftOut, Zero::Null));
        assert_eq!(spec("restartPolicy").type_name, Some("v1.RestartPolicy"));
        assert_eq!(field("io.k8s.api.core.v1.Pod", "spec").zero, Zero::Struct);
        assert_eq!(field("nothing", "known").zero, Zero::Absent);
    }
}
