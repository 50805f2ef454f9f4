//! Reads a request's body, with limits on size, time and depth, and decodes it from JSON, YAML or protobuf.
//!
//! Duplicate fields are detected while decoding, since the decoded value no longer has them.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::negotiate::Encoding;
use super::status::{self, StatusError};

/// The maximum size of a body (`genericapiserver.Config.MaxRequestBodyBytes`).
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;
/// The timeout for receiving a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of duplicate fields to report.
const MAX_DUPLICATES: usize = 32;

/// Reads a body.
///
/// # Errors
/// 413 if it is larger than [`MAX_BODY_BYTES`]; 400 if it is incomplete; 408 if it takes too long.
pub async fn read<B>(body: B) -> Result<Bytes, StatusError>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<tower::BoxError>,
{
    let collected = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await;
    match collected {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(status::too_large(MAX_BODY_BYTES)),
        Ok(Err(error)) => Err(status::bad_request(format!("the request's body broke off: {error}"))),
        Err(_) => Err(StatusError::new(408, "Timeout", "the request's body did not arrive in time")),
    }
}

/// A decoded body and its duplicate fields.
#[derive(Debug)]
pub struct Decoded {
    /// The body.
    pub value: Value,
    /// Paths of duplicate JSON fields, for example `spec.replicas`.
    pub duplicates: Vec<String>,
    /// The first duplicate YAML key, as Go's decoder reports it.
    pub duplicate_key: Option<String>,
}

/// Why a body cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[error("error decoding the request's body: {why}")]
pub struct Undecodable {
    why: String,
    /// Whether the body is truncated.
    is_short: bool,
}

impl From<String> for Undecodable {
    fn from(why: String) -> Self {
        Undecodable { why, is_short: false }
    }
}

impl From<serde_json::Error> for Undecodable {
    fn from(error: serde_json::Error) -> Self {
        Undecodable { why: error.to_string(), is_short: error.is_eof() }
    }
}

impl Undecodable {
    /// Returns Kubernetes' message where it is known.
    pub fn kubernetes(&self) -> String {
        if self.is_short { "unexpected end of JSON input".into() } else { self.why.clone() }
    }
}

/// Decodes a body.
///
/// # Errors
/// If the body is malformed.
pub fn decode(bytes: &[u8], encoding: Encoding) -> Result<Decoded, Undecodable> {
    match encoding {
        Encoding::Json => json(bytes),
        Encoding::Yaml => yaml(bytes),
        Encoding::Protobuf => {
            let value = super::protobuf::decode(bytes)?;
            Ok(Decoded { value, duplicates: Vec::new(), duplicate_key: None })
        }
    }
}

fn json(bytes: &[u8]) -> Result<Decoded, Undecodable> {
    let mut duplicates = Vec::new();
    let mut path = String::new();
    let mut decoder = serde_json::Deserializer::from_slice(bytes);
    let seed = Seed { duplicates: &mut duplicates, path: &mut path };
    let value = seed.deserialize(&mut decoder)?;
    decoder.end()?;
    Ok(Decoded { value, duplicates, duplicate_key: None })
}

fn yaml(bytes: &[u8]) -> Result<Decoded, Undecodable> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let (value, duplicate_key) = match serde_saphyr::from_str::<Value>(text) {
        Ok(value) => (value, None),
        Err(error) => match repeated(&error) {
            Some(key) => {
                let options = serde_saphyr::options! {
                    duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins
                };
                let value = serde_saphyr::from_str_with_options(text, options);
                (value.map_err(|error| error.to_string())?, Some(key))
            }
            None => return Err(error.to_string().into()),
        },
    };
    Ok(Decoded { value, duplicates: Vec::new(), duplicate_key })
}

/// Returns the error as `line 9: key "foo" already set in map` if it is a duplicate key.
fn repeated(error: &serde_saphyr::Error) -> Option<String> {
    use serde_saphyr::Error;
    match error {
        Error::WithSnippet { error, .. } => repeated(error),
        Error::DuplicateMappingKey { key, location } => {
            let key = key.clone().unwrap_or_default();
            Some(format!("line {}: key {key:?} already set in map", location.line()))
        }
        _ => None,
    }
}

/// Builds a [`Value`] and records the path of every duplicate field.
struct Seed<'a> {
    duplicates: &'a mut Vec<String>,
    path: &'a mut String,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, decoder: D) -> Result<Value, D::Error> {
        decoder.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        let length = self.path.len();
        loop {
            self.path.push_str(&format!("[{}]", array.len()));
            let item = items.next_element_seed(Seed { duplicates: self.duplicates, path: self.path })?;
            self.path.truncate(length);
            match item {
                Some(item) => array.push(item),
                None => return Ok(Value::Array(array)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        let length = self.path.len();
        while let Some(name) = fields.next_key::<String>()? {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&name);
            if object.contains_key(&name) && self.duplicates.len() < MAX_DUPLICATES {
                self.duplicates.push(self.path.clone());
            }
            let value = fields.next_value_seed(Seed { duplicates: self.duplicates, path: self.path })?;
            self.path.truncate(length);
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_found_and_the_last_wins() {
        let decoded = json(br#"{"a":{"b":1,"b":2},"l":[{"x":1,"x":1}],"n":null,"f":1.5}"#).unwrap();
        assert_eq!(decoded.value, serde_json::json!({"a":{"b":2},"l":[{"x":1}],"n":null,"f":1.5}));
        assert_eq!(decoded.duplicates, ["a.b", "l[0].x"]);
    }

    #[test]
    fn a_duplicate_yaml_key_is_reported_and_the_last_wins() {
        let decoded = yaml(b"spec:\n  foo: 1\n  bar: 2\n  foo: 3\n").unwrap();
        assert_eq!(decoded.value, serde_json::json!({"spec": {"foo": 3, "bar": 2}}));
        assert_eq!(decoded.duplicate_key.as_deref(), Some(r#"line 4: key "foo" already set in map"#));
    }

    #[test]
    fn depth_is_bounded() {
        let deep = "[".repeat(5000) + &"]".repeat(5000);
        assert!(json(deep.as_bytes()).unwrap_err().why.contains("recursion"));
        assert!(yaml(deep.as_bytes()).is_err());
    }
}
