//! What the API server knows of objects, as pure functions: kinds, names, defaults, validation, selectors, tables,
//! CustomResourceDefinitions, OpenAPI.
//!
//! Data comes in as JSON values (and, where needed, the present time) and goes out as JSON values, texts or
//! [`FieldFault`]s. Nothing here does IO, reads the clock or keeps state.

mod fault;
mod kinds;
mod quantity;

pub use fault::{FieldFault, MAX_FAULTS, Reason, invalid_status};
pub use kinds::{
    ALL_VERBS, Column, Kind, NameRule, ScalePaths, Subresource, builtin_kind, builtin_kinds,
    subresource_kinds,
};
pub use quantity::{NotAQuantity, Quantity};
