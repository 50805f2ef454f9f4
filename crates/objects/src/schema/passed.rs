//! Remembers which values have passed the rules of a schema.
//!
//! The result of a rule depends on nothing but the values of `self` and `oldSelf`. Most writes leave most values as they
//! are: a status is published many times, and many objects are made from one template. What has passed is not evaluated
//! again; what was refused is.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr};
use serde_json::Value;

use super::NodeId;

/// The name of the old value in a rule.
pub(super) const OLD: &str = "oldSelf";
/// The maximum number of values that are remembered. All are forgotten beyond it.
const MOST: usize = 8192;
/// What an object's own rules see of its metadata (`apiextensions.k8s.io/v1`, ValidationRule).
const OF_METADATA: [&str; 2] = ["name", "generateName"];

/// Values that passed, by a hash with a random key, and what their rules cost.
#[derive(Debug, Default)]
pub(super) struct Passed {
    keys: RandomState,
    costs: Mutex<HashMap<u64, u64>>,
}

impl Passed {
    /// Returns the key of a value and its old value. `reads` is what the rules of the node read of them.
    pub(super) fn key(
        &self,
        node: NodeId,
        reads: &Reads,
        values: [Option<&Value>; 2],
        is_object: bool,
    ) -> u64 {
        let mut hasher = self.keys.build_hasher();
        node.0.hash(&mut hasher);
        for (value, fields) in values.into_iter().zip(reads.of()) {
            let Some(value) = value.filter(|_| fields != &Fields::None) else {
                hasher.write_u8(0);
                continue;
            };
            match (fields, value) {
                (Fields::Some(names), Value::Object(map)) => {
                    hasher.write_u8(1);
                    for name in names {
                        match map.get(name) {
                            Some(metadata) if is_object && name == "metadata" => {
                                OF_METADATA.map(|field| metadata.get(field)).hash(&mut hasher);
                            }
                            field => field.hash(&mut hasher),
                        }
                    }
                }
                _ => {
                    hasher.write_u8(2);
                    value.hash(&mut hasher);
                }
            }
        }
        hasher.finish()
    }

    /// Returns what the rules of a value that passed cost.
    pub(super) fn cost(&self, key: u64) -> Option<u64> {
        self.costs.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied()
    }

    /// Remembers that a value passed.
    pub(super) fn add(&self, key: u64, cost: u64) {
        let mut costs = self.costs.lock().unwrap_or_else(PoisonError::into_inner);
        if costs.len() >= MOST {
            costs.clear();
        }
        costs.insert(key, cost);
    }
}

/// Which fields of a value rules read.
#[derive(Debug, Default, PartialEq, Eq)]
enum Fields {
    /// The value is not mentioned.
    #[default]
    None,
    /// These fields only.
    Some(BTreeSet<String>),
    /// The value itself, or fields whose names are not known beforehand.
    All,
}

impl Fields {
    fn add(&mut self, field: &str) {
        // Names that are no identifiers of CEL are escaped with underscores.
        if field.starts_with("__") {
            *self = Fields::All;
        }
        match self {
            Fields::All => {}
            Fields::Some(names) => {
                names.insert(field.to_owned());
            }
            Fields::None => *self = Fields::Some(BTreeSet::from([field.to_owned()])),
        }
    }
}

/// Which fields of `self` and of `oldSelf` the rules of a node read.
#[derive(Debug, Default)]
pub(super) struct Reads {
    new: Fields,
    old: Fields,
}

impl Reads {
    fn of(&self) -> [&Fields; 2] {
        [&self.new, &self.old]
    }

    fn variable(&mut self, name: &str) -> Option<&mut Fields> {
        match name {
            "self" => Some(&mut self.new),
            OLD => Some(&mut self.old),
            _ => None,
        }
    }

    /// Adds what an expression reads. One with other variables, such as those of loops, may add too much, never too
    /// little: whatever it reads of a value begins at the value's name.
    pub(super) fn add(&mut self, expression: &Expr) {
        match expression {
            Expr::Select(select) => match &select.operand.expr {
                Expr::Ident(name) => {
                    if let Some(fields) = self.variable(name) {
                        fields.add(&select.field);
                    }
                }
                operand => self.add(operand),
            },
            Expr::Ident(name) => {
                if let Some(fields) = self.variable(name) {
                    *fields = Fields::All;
                }
            }
            Expr::Call(call) => {
                call.target.as_deref().into_iter().chain(&call.args).for_each(|part| self.add(&part.expr));
            }
            Expr::List(list) => list.elements.iter().for_each(|element| self.add(&element.expr)),
            Expr::Map(map) => self.add_entries(&map.entries),
            Expr::Struct(made) => self.add_entries(&made.entries),
            Expr::Comprehension(each) => {
                let parts: [&IdedExpr; 5] =
                    [&each.iter_range, &each.accu_init, &each.loop_cond, &each.loop_step, &each.result];
                parts.into_iter().for_each(|part| self.add(&part.expr));
            }
            Expr::Unspecified | Expr::Literal(_) => {}
        }
    }

    fn add_entries(&mut self, entries: &[IdedEntryExpr]) {
        for entry in entries {
            match &entry.expr {
                EntryExpr::StructField(field) => self.add(&field.value.expr),
                EntryExpr::MapEntry(entry) => {
                    self.add(&entry.key.expr);
                    self.add(&entry.value.expr);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_cel::cel::Program;

    fn reads(rule: &str) -> Reads {
        let mut reads = Reads::default();
        reads.add(&Program::compile(rule).unwrap().expression().expr);
        reads
    }

    #[test]
    fn fields_that_rules_read_are_found() {
        let some = |names: &[&str]| Fields::Some(names.iter().map(|&name| name.to_owned()).collect());
        let found = reads("has(self.a) && self.b.c.all(x, x > oldSelf.d) && {'k': self.e}.k == [self.f][0]");
        assert_eq!(found.new, some(&["a", "b", "e", "f"]));
        assert_eq!(found.old, some(&["d"]));
        assert_eq!(reads("size(self) > 1").new, Fields::All);
        assert_eq!(reads("self['a'] == 1").new, Fields::All);
        assert_eq!(reads("self.__namespace__ == ''").new, Fields::All);
        assert_eq!(reads("self.a == 1").old, Fields::None);
    }

    #[test]
    fn only_what_is_read_makes_a_value_another() {
        let passed = Passed::default();
        let root = NodeId(0);
        let key = |rule: &str, value: &Value, old: Option<&Value>| {
            passed.key(root, &reads(rule), [Some(value), old], true)
        };
        let first =
            serde_json::json!({"metadata": {"name": "a", "uid": "1"}, "spec": {"n": 1}, "status": {"m": 1}});
        let mut second = first.clone();
        second["status"]["m"] = 2.into();
        second["metadata"]["uid"] = "2".into();
        let rule = "self.metadata.name == 'a' && self.spec.n > 0";
        assert_eq!(key(rule, &first, None), key(rule, &second, None));
        assert_ne!(key("self.status.m > 0", &first, None), key("self.status.m > 0", &second, None));
        assert_ne!(key("self == oldSelf", &first, None), key("self == oldSelf", &first, Some(&first)));
        second["spec"]["n"] = 2.into();
        assert_ne!(key(rule, &first, None), key(rule, &second, None));
        second["spec"]["n"] = 1.into();
        second["metadata"]["name"] = "b".into();
        assert_ne!(key(rule, &first, None), key(rule, &second, None));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let passed = Passed::default();
        (0..=MOST as u64).for_each(|key| passed.add(key, 1));
        assert!(passed.costs.lock().unwrap().len() <= MOST);
        assert_eq!(passed.cost(MOST as u64), Some(1));
    }
}
