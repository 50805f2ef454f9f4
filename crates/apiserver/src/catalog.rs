//! The served kinds, by group, version and plural: the built-in ones and those of CustomResourceDefinitions.
//!
//! A catalog is immutable; [`Catalog::with`] and [`Catalog::without`] return a new one. It contains no
//! objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::store::Resource;
use objects::Kind;

/// One served version of one kind.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The kind.
    pub kind: Arc<Kind>,
    /// The resource under which its objects are stored.
    pub resource: Resource,
    /// The name of its CustomResourceDefinition, for a custom kind.
    pub definition: Option<Arc<str>>,
}

impl Entry {
    fn new(kind: Arc<Kind>, definition: Option<Arc<str>>) -> Self {
        let resource = Resource::new(&kind.storage.0, &kind.storage.1);
        Self { kind, resource, definition }
    }
}

type Versions = BTreeMap<String, BTreeMap<String, Entry>>;

/// A set of served kinds.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    entries: Vec<Entry>,
    index: BTreeMap<String, Versions>,
    /// Increases with every change.
    pub generation: u64,
}

impl Catalog {
    /// Creates a catalog of the built-in kinds.
    pub fn of_builtin(kinds: &[Arc<Kind>]) -> Self {
        let mut catalog = Self::default();
        for kind in kinds {
            catalog.push(Entry::new(kind.clone(), None));
        }
        catalog
    }

    /// Finds the kind of a path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Entry> {
        self.index.get(group)?.get(version)?.get(plural)
    }

    /// Returns whether any kind of this group and version is served.
    pub fn has_version(&self, group: &str, version: &str) -> bool {
        self.index.get(group).is_some_and(|versions| versions.contains_key(version))
    }

    /// Returns the groups in discovery order, each with its versions, the preferred one first.
    pub fn groups(&self) -> Vec<(&str, Vec<&str>)> {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for entry in &self.entries {
            let (group, version) = (entry.kind.group.as_str(), entry.kind.version.as_str());
            match groups.iter_mut().find(|(known, _)| *known == group) {
                Some((_, versions)) if versions.contains(&version) => {}
                Some((_, versions)) => versions.push(version),
                None => groups.push((group, vec![version])),
            }
        }
        for (_, versions) in &mut groups {
            versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        }
        groups
    }

    /// Returns the entries of one group and version.
    pub fn of_version(&self, group: &str, version: &str) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.kind.group == group && entry.kind.version == version)
    }

    /// Returns the entries of every group and version under which a resource's objects are served.
    pub fn versions_of<'s>(&'s self, resource: &'s Resource) -> impl Iterator<Item = &'s Entry> {
        self.entries.iter().filter(move |entry| entry.resource == *resource)
    }

    /// Returns one entry for each resource whose objects are stored.
    pub fn stored_kinds(&self) -> impl Iterator<Item = &Entry> {
        let mut seen = std::collections::HashSet::new();
        self.entries.iter().filter(move |entry| entry.kind.is_stored() && seen.insert(entry.resource.clone()))
    }

    /// Returns a catalog with the definition's kinds replaced.
    pub fn with(&self, definition: &str, kinds: Vec<Kind>) -> Self {
        let mut next = self.without(definition);
        let definition = Arc::<str>::from(definition);
        for kind in kinds {
            next.push(Entry::new(Arc::new(kind), Some(definition.clone())));
        }
        next
    }

    /// Returns a catalog without the definition's kinds.
    pub fn without(&self, definition: &str) -> Self {
        let mut next = Self { generation: self.generation + 1, ..Self::default() };
        for entry in &self.entries {
            if entry.definition.as_deref() != Some(definition) {
                next.push(entry.clone());
            }
        }
        next
    }

    fn push(&mut self, entry: Entry) {
        let kind = entry.kind.clone();
        let versions = self.index.entry(kind.group.clone()).or_default();
        versions.entry(kind.version.clone()).or_default().insert(kind.plural.clone(), entry.clone());
        self.entries.push(entry);
    }
}

/// Orders versions as apimachinery's `pkg/version/helpers.go` does: GA before beta before alpha, newer first,
/// and other names last.
fn priority(version: &str) -> (u8, u32, u32) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let major = rest.get(..digits)?.parse().ok()?;
        let stage = rest.get(digits..)?;
        if stage.is_empty() {
            return Some((3, major, 0));
        }
        let (level, minor) = match (stage.strip_prefix("beta"), stage.strip_prefix("alpha")) {
            (Some(minor), _) => (2, minor),
            (_, Some(minor)) => (1, minor),
            _ => return None,
        };
        Some((level, major, minor.parse().ok()?))
    };
    parse().unwrap_or((0, 0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_maturity_then_number() {
        let mut versions = vec!["v1alpha1", "v2beta1", "foo", "v1", "v11alpha2", "v2", "v1beta1"];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(versions, ["v2", "v1", "v2beta1", "v1beta1", "v11alpha2", "v1alpha1", "foo"]);
    }
}
