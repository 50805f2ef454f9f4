//! How a webhook is called for a write: with which version of the object.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::admission::Attributes;
use crate::versions;
use objects::Kind;

/// The version of the resource that a webhook receives.
pub struct Invocation {
    /// The kind in that version.
    pub kind: Arc<Kind>,
}

impl Invocation {
    /// Converts an object to that version.
    pub fn convert<'v>(&self, at: &Attributes<'_>, object: &'v Value) -> Cow<'v, Value> {
        if at.is_whole() { versions::served(&self.kind, object) } else { Cow::Borrowed(object) }
    }
}
