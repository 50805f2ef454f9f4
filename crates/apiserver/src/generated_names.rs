//! Generated names: a prefix and a random suffix (`apiserver/pkg/storage/names/generate.go`).

use serde_json::{Value, json};

/// The maximum length of a generated name's prefix (`names.MaxGeneratedNameLength`).
const MAX_GENERATED_PREFIX: usize = 58;
/// The number of random characters in a generated name.
const GENERATED_LENGTH: usize = 5;
/// No vowels, so that no words come out (`apimachinery/pkg/util/rand`).
const GENERATED_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns the prefix of the name to generate; `None` if the object has a name, or asks for none.
pub fn generated_prefix(value: &Value) -> Option<String> {
    let metadata = &value["metadata"];
    let has_name = metadata["name"].as_str().is_some_and(|name| !name.is_empty());
    let prefix = metadata["generateName"].as_str().filter(|prefix| !prefix.is_empty() && !has_name)?;
    Some(prefix.chars().take(MAX_GENERATED_PREFIX).collect())
}

/// Gives the object a name with this prefix.
pub fn named(mut value: Value, prefix: &str) -> Value {
    value["metadata"]["name"] = json!(format!("{prefix}{}", random_suffix()));
    value
}

/// Returns the random suffix of a generated name.
pub fn random_suffix() -> String {
    // A UUID has more than enough random bytes for five characters.
    let random = uuid::Uuid::new_v4();
    let suffix = random
        .as_bytes()
        .iter()
        .rev()
        .take(GENERATED_LENGTH)
        .filter_map(|byte| GENERATED_ALPHABET.get(usize::from(*byte) % GENERATED_ALPHABET.len()))
        .map(|byte| char::from(*byte));
    suffix.collect()
}
