//! Finds modules of a crate that import one another in a circle.
//!
//! An import is a path that begins with `crate::` or `super::`, in a `use` declaration or in code. It counts for the
//! innermost module that it names; what a crate's root re-exports counts for no module. A parent's own paths into its
//! children are no imports: it consists of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::sources::Module;

/// The modules that each module imports.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Returns a shortest circle, as the modules on it; `None` if there is none.
pub fn circle(modules: &[Module]) -> Option<Vec<String>> {
    let graph = graph(modules);
    graph.keys().filter_map(|start| way_back(&graph, start)).min_by_key(Vec::len)
}

fn graph(modules: &[Module]) -> Graph {
    let known: BTreeSet<&str> = modules.iter().map(|module| module.name.as_str()).collect();
    let mut graph = Graph::new();
    for module in modules.iter().filter(|module| !module.name.is_empty()) {
        let imported = graph.entry(module.name.clone()).or_default();
        for path in paths(&module.code) {
            let steps = absolute(&path, &module.name);
            let named = (1..=steps.len()).rev().map(|count| steps[..count].join("::"));
            imported.extend(named.into_iter().find(|name| known.contains(name.as_str())));
        }
        imported.remove(&module.name);
    }
    graph
}

/// Every path of the code that begins with `crate::` or `super::`; a group in braces gives a path for each item.
fn paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for root in ["crate::", "super::"] {
        for (at, _) in code.match_indices(root) {
            let before = code.get(..at).unwrap_or_default();
            // `super::super::x` is found at its first step.
            if before.ends_with("::")
                || before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$'))
            {
                continue;
            }
            expand("", code.get(at..).unwrap_or_default(), &mut found);
        }
    }
    found
}

/// Adds the paths at the start of a text; returns what is left after them.
fn expand<'a>(prefix: &str, text: &'a str, found: &mut Vec<String>) -> &'a str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | ':'))).unwrap_or(text.len());
    let (path, mut rest) = text.split_at(end);
    let path = format!("{prefix}{path}");
    if !path.ends_with("::") || !rest.starts_with('{') {
        found.push(path);
        return rest;
    }
    while let Some(item) = rest.strip_prefix(['{', ',']) {
        let item = item.trim_start();
        if item.starts_with('}') {
            rest = item;
            break;
        }
        rest = expand(&path, item, found).trim_start();
        if let Some(renamed) = rest.strip_prefix("as ") {
            rest = renamed.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').trim_start();
        }
    }
    rest.strip_prefix('}').unwrap_or(rest)
}

/// The steps of a path from the crate's root, as seen in a module.
fn absolute(path: &str, module: &str) -> Vec<String> {
    let mut steps: Vec<&str> = module.split("::").collect();
    for step in path.split("::") {
        match step {
            "crate" => steps.clear(),
            "super" => {
                steps.pop();
            }
            "" | "self" => {}
            name => steps.push(name),
        }
    }
    steps.into_iter().map(str::to_owned).collect()
}

/// The shortest way from a module back to itself.
fn way_back(graph: &Graph, start: &str) -> Option<Vec<String>> {
    let mut ways = VecDeque::from([vec![start.to_owned()]]);
    let mut reached = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in way.last().and_then(|last| graph.get(last)).into_iter().flatten() {
            if next == start {
                return Some(way);
            }
            if reached.insert(next.clone()) {
                ways.push_back(way.iter().chain([next]).cloned().collect());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources;

    fn circle_of(files: &[(&str, &str)]) -> Option<Vec<String>> {
        let read = |(name, text): &(&str, &str)| sources::module((*name).to_owned(), String::new(), text);
        circle(&files.iter().map(read).collect::<Vec<_>>())
    }

    #[test]
    fn a_circle_is_found_through_groups_and_supers() {
        let files = [
            ("", "mod a; mod b; mod c;"),
            ("a", "use crate::{Error, b::{self, B as Bee}, d};"),
            ("b", "use crate::c::inner::f;"),
            ("c", "fn g() { h(super::a::X); }"),
            ("d", ""),
        ];
        assert_eq!(circle_of(&files), Some(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]));
    }

    #[test]
    fn a_tree_of_imports_has_no_circle() {
        let files = [
            ("a", "use crate::b::B; use std::fmt;"),
            ("a::child", "use super::Item; use super::super::b;"),
            ("b", "use crate::Error; // crate::a"),
        ];
        assert_eq!(circle_of(&files), None);
    }
}
