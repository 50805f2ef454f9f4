//! What a caller may see: the namespaces, kind by kind, in which the caller may list jobs.

use std::collections::{BTreeMap, BTreeSet};

use jobs::Kind;

use crate::access::Right;
use crate::board::Entry;
use crate::filter::Filter;
use crate::identity::Caller;
use crate::problem::Problem;
use crate::service::Service;

/// What a caller may see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visible {
    /// Kinds that the caller may list everywhere.
    everywhere: BTreeSet<Kind>,
    /// Other places in which the caller may list jobs.
    places: BTreeMap<Kind, BTreeSet<String>>,
}

impl Visible {
    /// Asks what the caller may see of the jobs that a filter covers.
    ///
    /// # Errors
    /// 403 if the filter names a namespace and the caller may list none of its kinds there.
    pub async fn of(service: &Service, caller: &Caller, filter: &Filter) -> Result<Self, Problem> {
        if !filter.namespace.is_empty() {
            return Self::within(service, caller, &filter.namespace, &filter.kinds).await;
        }
        let places = service.board.namespaces().into_iter();
        let places = places.filter(|(kind, _)| filter.kinds.contains(kind)).collect();
        Self::among(service, caller, &filter.kinds, places).await
    }

    /// Asks which of some kinds of jobs the caller may list in a namespace.
    ///
    /// # Errors
    /// 403 if the caller may list none of them there.
    pub async fn within(
        service: &Service,
        caller: &Caller,
        namespace: &str,
        kinds: &[Kind],
    ) -> Result<Self, Problem> {
        let asked = kinds.iter().map(|kind| Right::on_jobs("list", *kind, namespace)).collect();
        let allowed = service.access.among(caller, asked).await?;
        if allowed.is_empty() {
            let kind = kinds.first().copied().unwrap_or_default();
            return Err(Problem::forbidden(&caller.user, "list", kind.names(), namespace));
        }
        let place = BTreeSet::from([namespace.to_owned()]);
        let places = kinds_of(&allowed, kinds).map(|kind| (kind, place.clone())).collect();
        Ok(Self { everywhere: BTreeSet::new(), places })
    }

    /// Asks which of some kinds of jobs the caller may list everywhere, and in which of some places the others.
    ///
    /// # Errors
    /// 503 if the cluster does not answer.
    pub async fn among(
        service: &Service,
        caller: &Caller,
        kinds: &[Kind],
        places: BTreeSet<(Kind, String)>,
    ) -> Result<Self, Problem> {
        let asked = kinds.iter().map(|kind| Right::on_jobs("list", *kind, "")).collect();
        let allowed = service.access.among(caller, asked).await?;
        let everywhere: BTreeSet<Kind> = kinds_of(&allowed, kinds).collect();
        let elsewhere = places.iter().filter(|(kind, _)| !everywhere.contains(kind));
        let asked = elsewhere.map(|(kind, namespace)| Right::on_jobs("list", *kind, namespace)).collect();
        let allowed = service.access.among(caller, asked).await?;
        let mut places: BTreeMap<Kind, BTreeSet<String>> = BTreeMap::new();
        for right in allowed {
            let kind = Kind::ALL.into_iter().find(|kind| kind.plural() == right.resource);
            places.entry(kind.unwrap_or_default()).or_default().insert(right.namespace);
        }
        Ok(Self { everywhere, places })
    }

    /// Whether jobs of this kind and namespace are visible; without a namespace, those of all namespaces.
    pub fn shows(&self, kind: Kind, namespace: &str) -> bool {
        self.everywhere.contains(&kind)
            || self.places.get(&kind).is_some_and(|places| places.contains(namespace))
    }

    /// Whether a job is visible.
    pub fn shows_job(&self, entry: &Entry) -> bool {
        self.shows(entry.kind, &entry.row.namespace)
    }
}

fn kinds_of<'r>(rights: &'r [Right], kinds: &'r [Kind]) -> impl Iterator<Item = Kind> + 'r {
    kinds.iter().copied().filter(|kind| rights.iter().any(|right| right.resource == kind.plural()))
}
