//! The order of a container's environment variables. Pure.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::EnvVar;

/// Puts each variable after those that its value names, and else keeps the order. Kubernetes expands `$(NAME)` only of variables that
/// stand before, and the variables of a request from a program are a map, which has no order
/// (`k8s.io/kubernetes`, `third_party/forked/golang/expansion/expand.go`).
pub(super) fn in_order_of_use(env: Vec<EnvVar>) -> Vec<EnvVar> {
    let position: HashMap<&str, usize> =
        env.iter().enumerate().map(|(at, variable)| (variable.name.as_str(), at)).collect();
    let (mut entered, mut placed) = (vec![false; env.len()], vec![false; env.len()]);
    let mut order = Vec::with_capacity(env.len());
    for first in 0..env.len() {
        // A stack of its own: a chain of variables may be long.
        let mut stack = vec![first];
        while let Some(at) = stack.last().copied() {
            if !std::mem::replace(&mut entered[at], true) {
                let named = used(env[at].value.as_deref().unwrap_or_default());
                let before = named.filter_map(|name| position.get(name).copied());
                stack.extend(before.filter(|before| !entered[*before]));
                continue;
            }
            stack.pop();
            if !std::mem::replace(&mut placed[at], true) {
                order.push(at);
            }
        }
    }
    let mut env: Vec<Option<EnvVar>> = env.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| env[at].take()).collect()
}

/// The variables that Kubernetes puts into a value.
fn used(value: &str) -> impl Iterator<Item = &str> {
    let mut rest = value;
    std::iter::from_fn(move || {
        loop {
            let (_, after) = rest.split_once('$')?;
            // Two are one, and no beginning of a name.
            let Some(begun) = after.strip_prefix('(') else {
                rest = after.strip_prefix('$').unwrap_or(after);
                continue;
            };
            let (name, after) = begun.split_once(')')?;
            rest = after;
            return Some(name);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_stands_after_those_that_it_names() {
        let ordered = |given: &[(&str, &str)]| {
            let variable = |(name, value): &(&str, &str)| EnvVar {
                name: (*name).to_owned(),
                value: Some((*value).to_owned()),
                value_from: None,
            };
            let env = in_order_of_use(given.iter().map(variable).collect());
            env.into_iter().map(|variable| variable.name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ordered(&[("B", "1"), ("A", "2")]), "B A");
        assert_eq!(ordered(&[("DATA", "$(ROOT)/data"), ("HOME", "/"), ("ROOT", "/mnt")]), "ROOT DATA HOME");
        assert_eq!(ordered(&[("A", "$(B)$(C)"), ("B", "$(C)"), ("C", "x")]), "C B A");
        assert_eq!(ordered(&[("A", "$$(B)"), ("B", "x")]), "A B", "it is escaped");
        assert_eq!(ordered(&[("A", "$(B) $(NOWHERE) $(A"), ("B", "$(A)")]), "B A", "a circle ends");
        let chain: Vec<(String, String)> =
            (0..20_000).map(|at| (format!("V{at}"), format!("$(V{})", at + 1))).collect();
        let chain: Vec<(&str, &str)> =
            chain.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert!(ordered(&chain).starts_with("V19999 V19998 "));
    }
}
