//! Lists the namespaces in which a caller may list jobs.

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

/// Lists namespaces.
pub async fn list_namespaces(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: ListNamespacesRequest,
) -> Result<ListNamespacesResponse, Problem> {
    let kinds: Vec<Kind> = request.kind.iter().map(|word| kind(word)).collect::<Result<_, _>>()?;
    let kinds = if kinds.is_empty() { Kind::ALL.to_vec() } else { kinds };
    let listed = list::namespaces(&caller.client).await;
    let mut partial = listed.is_none();
    let with_jobs: BTreeSet<(Kind, String)> =
        service.board.namespaces().into_iter().filter(|(kind, _)| kinds.contains(kind)).collect();
    let all = kinds.iter().map(|kind| (*kind, String::new())).collect();
    let everywhere = allowed(&service, &caller, all).await?;
    let everywhere: Vec<Kind> = everywhere.into_iter().map(|(kind, _)| kind).collect();
    let mut empty: Vec<String> = listed.unwrap_or_default();
    empty.retain(|name| !with_jobs.iter().any(|(_, namespace)| namespace == name));
    let elsewhere: Vec<Kind> = kinds.iter().copied().filter(|kind| !everywhere.contains(kind)).collect();
    if !elsewhere.is_empty() && empty.len() > MOST_EMPTY {
        partial = true;
        empty.truncate(MOST_EMPTY);
    }
    let mut names: BTreeSet<String> = with_jobs.into_iter().map(|(_, namespace)| namespace).collect();
    names.extend(empty);
    let asked = names.iter().flat_map(|name| elsewhere.iter().map(|kind| (*kind, name.clone()))).collect();
    let mut places: BTreeMap<String, BTreeSet<Kind>> = BTreeMap::new();
    for (kind, name) in allowed(&service, &caller, asked).await? {
        places.entry(name).or_default().insert(kind);
    }
    if !everywhere.is_empty() {
        for name in names {
            places.entry(name).or_default().extend(&everywhere);
        }
    }
    let namespaces = places.into_iter().map(|(name, kinds)| NamespaceSummary {
        kinds: kinds.iter().map(|kind| kind.name().to_owned()).collect(),
        jobs: count(kinds.iter().map(|kind| service.board.count(*kind, &name)).sum::<usize>()),
        name,
    });
    Ok(ListNamespacesResponse { namespaces: namespaces.collect(), partial })
}

/// Returns those of the places in which the caller may list jobs; an empty namespace is everywhere.
async fn allowed(
    service: &Service,
    caller: &Caller,
    places: Vec<(Kind, String)>,
) -> Result<Vec<(Kind, String)>, Problem> {
    let asked =
        places.into_iter().map(|(kind, namespace)| Right::on_jobs("list", kind, &namespace)).collect();
    let allowed = service.access.among(caller, asked).await?;
    let place = |right: Right| {
        let kind = Kind::ALL.into_iter().find(|kind| kind.plural() == right.resource);
        (kind.unwrap_or_default(), right.namespace)
    };
    Ok(allowed.into_iter().map(place).collect())
}
