//! Builds the schema of a built-in kind from the `schemars` schema in `k8s-openapi` and the table in `overlay`.
//! Building one takes some milliseconds; [`crate::Kind::schema`] caches it.

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::{Schema, parse};

/// Builds the schema of the built-in type `T`.
pub fn builtin<T: JsonSchema>() -> Schema {
    let mut source = SchemaGenerator::default().into_root_schema_for::<T>().to_value();
    if let Value::Object(map) = &mut source {
        map.insert("title".to_owned(), Value::String(T::schema_name().into_owned()));
    }
    match parse::of_builtin(&source) {
        Ok(schema) => schema,
        Err(error) => {
            // Only a change of k8s-openapi can cause this; the test of all kinds would detect it.
            tracing::error!(%error, kind = %T::schema_name(), "a built-in schema could not be read");
            Schema::anything()
        }
    }
}
