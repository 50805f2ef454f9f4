//! Lists the namespaces in which a caller may list or create jobs. A caller who may not list namespaces gets those that
//! it may use: the service knows all names, and returns none of a namespace in which the caller may do nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jobs::{Kind, list};

use crate::access::Right;
use crate::contract::{ListNamespacesRequest, ListNamespacesResponse, NamespaceSummary};
use crate::filter::kind;
use crate::identity::Caller;
use crate::problem::Problem;
use crate::row::count;
use crate::service::Service;

/// The most namespaces without jobs whose permissions are asked for one by one.
const MOST_EMPTY: usize = 250;
/// The prefixes of namespaces that belong to the cluster itself.
const OF_SYSTEM: [&str; 2] = ["kube-", "openshift-"];
/// What the caller may do with jobs in a namespace.
const LIST: &str = "list";
const CREATE: &str = "create";

/// Lists namespaces.
pub async fn list_namespaces(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: ListNamespacesRequest,
) -> Result<ListNamespacesResponse, Problem> {
    let kinds: Vec<Kind> = request.kind.iter().map(|word| kind(word)).collect::<Result<_, _>>()?;
    let kinds = if kinds.is_empty() { Kind::ALL.to_vec() } else { kinds };
    let verb = verb(&request.verb)?;
    let known = match list::namespaces(&caller.client).await {
        Some(names) => Some(names),
        None => service.tenants.names().await,
    };
    let mut partial = known.is_none();
    let with_jobs: BTreeSet<(Kind, String)> =
        service.board.namespaces().into_iter().filter(|(kind, _)| kinds.contains(kind)).collect();
    let all = kinds.iter().map(|kind| (*kind, String::new())).collect();
    let everywhere = allowed(&service, &caller, verb, all).await?;
    let everywhere: Vec<Kind> = everywhere.into_iter().map(|(kind, _)| kind).collect();
    let mut empty = known.unwrap_or_default();
    empty.retain(|name| !with_jobs.iter().any(|(_, namespace)| namespace == name));
    let elsewhere: Vec<Kind> = kinds.iter().copied().filter(|kind| !everywhere.contains(kind)).collect();
    if !elsewhere.is_empty() && empty.len() > MOST_EMPTY {
        partial = true;
        empty = likeliest(empty, MOST_EMPTY);
    }
    let mut names: BTreeSet<String> = with_jobs.into_iter().map(|(_, namespace)| namespace).collect();
    names.extend(empty);
    let asked = names.iter().flat_map(|name| elsewhere.iter().map(|kind| (*kind, name.clone()))).collect();
    let mut places: BTreeMap<String, BTreeSet<Kind>> = BTreeMap::new();
    for (kind, name) in allowed(&service, &caller, verb, asked).await? {
        places.entry(name).or_default().insert(kind);
    }
    if !everywhere.is_empty() {
        for name in names {
            places.entry(name).or_default().extend(&everywhere);
        }
    }
    let jobs = |kinds: &BTreeSet<Kind>, name: &str| {
        count(kinds.iter().map(|kind| service.board.count(*kind, name)).sum::<usize>())
    };
    let namespaces = places.into_iter().map(|(name, kinds)| NamespaceSummary {
        kinds: kinds.iter().map(|kind| kind.name().to_owned()).collect(),
        // Who may create jobs may not know of others.
        jobs: (verb == LIST).then(|| jobs(&kinds, &name)),
        name,
    });
    Ok(ListNamespacesResponse { namespaces: namespaces.collect(), partial })
}

fn verb(word: &str) -> Result<&'static str, Problem> {
    match word {
        "" | LIST => Ok(LIST),
        CREATE => Ok(CREATE),
        other => {
            let fault = format!("\"{}\" is not a verb of namespaces", other.escape_debug());
            Err(Problem::invalid("verb", fault, "use list or create"))
        }
    }
}

/// The first of the namespaces, by name, those of the system last.
fn likeliest(mut names: Vec<String>, most: usize) -> Vec<String> {
    let is_of_system = |name: &str| OF_SYSTEM.iter().any(|prefix| name.starts_with(prefix));
    names.sort_by_cached_key(|name| (is_of_system(name), name.clone()));
    names.truncate(most);
    names
}

/// Returns those of the places in which the caller has the verb for jobs; an empty namespace is everywhere.
async fn allowed(
    service: &Service,
    caller: &Caller,
    verb: &'static str,
    places: Vec<(Kind, String)>,
) -> Result<Vec<(Kind, String)>, Problem> {
    let asked = places.into_iter().map(|(kind, namespace)| Right::on_jobs(verb, kind, &namespace)).collect();
    let allowed = service.access.among_many(caller, asked).await?;
    let place = |right: Right| {
        let kind = Kind::ALL.into_iter().find(|kind| kind.plural() == right.resource);
        (kind.unwrap_or_default(), right.namespace)
    };
    Ok(allowed.into_iter().map(place).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_of_the_system_are_the_first_to_be_left_out() {
        let names = ["openshift-dns", "kube-system", "team-b", "team-a"].map(str::to_owned).to_vec();
        assert_eq!(likeliest(names, 3), ["team-a", "team-b", "kube-system"]);
    }
}
