//! Field paths in Kubernetes' notation, `spec.mpiReplicaSpecs[Worker].template.spec.containers[0].image`, and their
//! positions in a manifest.

use super::node::{Node, Shape};
use crate::Position;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Into a map, by key.
    Key(String),
    /// Into a list, by index; into a map, if the key happens to be a number.
    Index(usize),
}

/// Splits a path into steps; brackets hold an index or a key that may itself contain dots.
pub fn steps(path: &str) -> Vec<Step> {
    let mut found = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let end = inside.find(']').unwrap_or(inside.len());
            let word = inside[..end].trim_matches('"');
            found.push(word.parse().map_or_else(|_| Step::Key(word.to_owned()), Step::Index));
            rest = inside.get(end + 1..).unwrap_or("");
        } else {
            let rest_trimmed = rest.trim_start_matches('.');
            let end = rest_trimmed.find(['.', '[']).unwrap_or(rest_trimmed.len());
            if end > 0 {
                found.push(Step::Key(rest_trimmed[..end].to_owned()));
            }
            rest = &rest_trimmed[end..];
        }
    }
    found
}

/// Returns the position of a field, or of its innermost existing ancestor.
///
/// For an existing key, this is the position of its value if the value is a scalar, else of the key itself.
pub fn locate(root: &Node, path: &str) -> Position {
    let mut node = root;
    let mut at = root.at;
    for step in steps(path) {
        let next = match (&node.shape, &step) {
            (Shape::Map(_), Step::Key(key)) => node.entry(key).map(|entry| (entry.at, &entry.value)),
            (Shape::Map(_), Step::Index(index)) => {
                node.entry(&index.to_string()).map(|entry| (entry.at, &entry.value))
            }
            (Shape::List(items), Step::Index(index)) => items.get(*index).map(|item| (item.at, item)),
            _ => None,
        };
        let Some((key_at, value)) = next else {
            return at;
        };
        at = if matches!(value.shape, Shape::Scalar { .. }) { value.at } else { key_at };
        node = value;
    }
    at
}

/// Appends a field name to `path`.
pub fn field(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::super::node::documents;
    use super::*;

    #[test]
    fn paths_are_split_at_dots_and_brackets() {
        let key = |word: &str| Step::Key(word.to_owned());
        assert_eq!(
            steps("spec.limits[nvidia.com/gpu].a[3]"),
            [key("spec"), key("limits"), key("nvidia.com/gpu"), key("a"), Step::Index(3)]
        );
        assert_eq!(steps(""), []);
    }

    #[test]
    fn a_missing_field_has_the_position_of_its_nearest_ancestor() {
        let text = "spec:\n  list:\n  - name: x\n    value: 3\n";
        let root = documents(text).unwrap().remove(0);
        let place = |path: &str| locate(&root, path).to_string();
        assert_eq!(place("spec.list[0].value"), "4:12");
        assert_eq!(place("spec.list[0].nothing"), "3:5");
        assert_eq!(place("spec.list[7]"), "2:3");
        assert_eq!(place("elsewhere"), "1:1");
    }
}
