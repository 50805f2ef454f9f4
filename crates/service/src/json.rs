//! Which fields of a message are left out of its JSON: texts, maps and messages that are not set. Numbers, flags and
//! lists are always there, so that clients need no defaults.

use std::collections::BTreeMap;

/// A field's value.
pub trait Value {
    /// Whether it is not set.
    fn is_unset(&self) -> bool;
}

/// Whether a field is left out.
pub fn is_absent<T: Value>(value: &T) -> bool {
    value.is_unset()
}

impl Value for String {
    fn is_unset(&self) -> bool {
        self.is_empty()
    }
}

impl<K, V> Value for BTreeMap<K, V> {
    fn is_unset(&self) -> bool {
        self.is_empty()
    }
}

impl<T> Value for Option<T> {
    fn is_unset(&self) -> bool {
        self.is_none()
    }
}

impl<T> Value for Vec<T> {
    fn is_unset(&self) -> bool {
        false
    }
}

impl Value for i32 {
    fn is_unset(&self) -> bool {
        false
    }
}

impl Value for f64 {
    fn is_unset(&self) -> bool {
        false
    }
}

impl Value for bool {
    fn is_unset(&self) -> bool {
        false
    }
}
