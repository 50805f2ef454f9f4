//! Quantities in another notation: `64Mi` for `67108864` is no change (`equality.Semantic.DeepEqual`).

use semantics::Quantity;
use serde_json::Value;

/// Fields under which amounts of resources stand.
const AMOUNTS: [&str; 5] = ["limits", "requests", "overhead", "sizeLimit", "divisor"];

/// Takes from an old spec the quantities that are the same in the new one, in another notation.
pub(crate) fn restore_equal_quantities(new: &mut Value, old: &Value) {
    restore(new, old, false);
}

fn restore(new: &mut Value, old: &Value, is_amount: bool) {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            for (key, value) in new {
                if let Some(old) = old.get(key) {
                    restore(value, old, is_amount || AMOUNTS.contains(&key.as_str()));
                }
            }
        }
        (Value::Array(new), Value::Array(old)) => {
            new.iter_mut().zip(old).for_each(|(value, old)| restore(value, old, is_amount));
        }
        (new, old) if is_amount && new != old => {
            if let (Ok(asked), Ok(present)) = (Quantity::of(new), Quantity::of(old))
                && asked == present
            {
                *new = old.clone();
            }
        }
        _ => {}
    }
}
