//! Groups equal items, so that what is the same for several pods is shown once: the hundred pods of a hundred Workers
//! often have the same state.

use std::collections::BTreeMap;

/// A group of equal items, of which a reader needs to see only one.
#[derive(Clone, Debug, PartialEq)]
pub struct Alike<T> {
    /// The first item.
    pub first: T,
    /// The number of further items.
    pub others: usize,
}

impl<T> Alike<T> {
    /// The first item's name and the number of others: `pi-worker-0 and 3 more`.
    pub fn name(&self, name: &str) -> String {
        match self.others {
            0 => name.to_owned(),
            others => format!("{name} and {others} more"),
        }
    }
}

/// Groups items by key, ordered by the first occurrence of each key.
pub fn alike<T, K: Ord>(items: impl IntoIterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<Alike<T>> {
    let mut found: Vec<Alike<T>> = Vec::new();
    let mut places = BTreeMap::new();
    for item in items {
        let place = *places.entry(key(&item)).or_insert(found.len());
        match found.get_mut(place) {
            Some(group) => group.others += 1,
            None => found.push(Alike { first: item, others: 0 }),
        }
    }
    found
}

/// Puts each item into a group of its own.
pub fn each<T>(items: impl IntoIterator<Item = T>) -> Vec<Alike<T>> {
    items.into_iter().map(|first| Alike { first, others: 0 }).collect()
}

/// Removes a pod's own name and its node's from a text, so that texts about different pods compare equal.
pub(crate) fn without_names(text: &str, pod: &str, node: Option<&str>) -> String {
    let text = if pod.is_empty() { text.to_owned() } else { text.replace(pod, "POD") };
    match node.filter(|node| !node.is_empty()) {
        Some(node) => text.replace(node, "NODE"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_with_equal_keys_are_grouped_in_order_of_first_occurrence() {
        let groups = alike(["b1", "a1", "b2", "b3"], |text| text.chars().next());
        let seen: Vec<(&str, usize)> = groups.iter().map(|group| (group.first, group.others)).collect();
        assert_eq!(seen, [("b1", 2), ("a1", 0)]);
        assert_eq!(
            groups.iter().map(|group| group.name(group.first)).collect::<Vec<_>>(),
            ["b1 and 2 more", "a1"]
        );
    }

    #[test]
    fn a_pods_own_names_make_no_difference() {
        let of = |pod: &str, node: &str| {
            without_names(&format!("Successfully assigned team/{pod} to {node}"), pod, Some(node))
        };
        assert_eq!(of("pi-worker-0", "node-7"), of("pi-worker-12", "node-8"));
        assert_eq!(without_names("to node-7", "", None), "to node-7");
    }
}
