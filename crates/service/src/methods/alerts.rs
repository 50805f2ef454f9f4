//! What holds now of the conditions of notification rules, cut to what the caller may see.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use history::notifications::alerts::{self, QUOTA};
use jobs::Kind;

use super::notifications::name_of;
use super::visible::Visible;
use crate::access::Right;
use crate::contract::{Alert, ListAlertsRequest, ListAlertsResponse, UnknownAlerts};
use crate::filter::{Filter, Sent};
use crate::identity::Caller;
use crate::problem::Problem;
use crate::row::{count, time};
use crate::service::Service;

/// The most alerts that are shown.
const MOST: usize = 500;
/// A rule that was not evaluated for so long is unknown.
const KNOWN_FOR: Duration = Duration::from_secs(120);

/// Lists alerts.
pub async fn list_alerts(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: ListAlertsRequest,
) -> Result<ListAlertsResponse, Problem> {
    let filter = Filter::read(&Sent { namespace: &request.namespace, ..Sent::default() })?;
    let visible = Visible::of(&service, &caller, &filter).await?;
    service.tenants.require_known()?;
    let store = &service.kept.opened()?.store;
    let namespace = Some(request.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let found = alerts::alerts(store, namespace).await?;
    let since = store.now().await?.checked_sub(KNOWN_FOR).unwrap_or(jiff::Timestamp::MIN);
    let unknown = alerts::unevaluated(store, namespace, since).await?;

    let is_of_quotas = |condition: Option<alerts::Condition>| condition.is_some_and(|one| one.is_of_quotas());
    let of_quotas = found.iter().filter(|alert| alert.kind == QUOTA).map(|alert| &alert.namespace);
    let of_rules = unknown.iter().filter(|rule| is_of_quotas(rule.condition)).map(|rule| &rule.namespace);
    let quotas = Quotas::of(&service, &caller, of_quotas.chain(of_rules).cloned().collect()).await?;

    let shown = |kind: &str, namespace: &str| match Kind::named(kind) {
        Some(kind) => visible.shows(kind, namespace),
        None => quotas.shows(namespace),
    };
    let found: Vec<_> = found.into_iter().filter(|alert| shown(&alert.kind, &alert.namespace)).collect();
    let total = count(found.len());
    let alert = |alert: alerts::Alert| Alert {
        namespace: alert.namespace,
        rule: name_of(&alert.rule),
        kind: alert.kind,
        name: alert.name,
        since: time(Some(alert.since)),
        message: alert.message,
    };
    let unknown = unknown.into_iter().filter(|rule| match is_of_quotas(rule.condition) {
        true => quotas.shows(&rule.namespace),
        false => rule.kinds.iter().any(|kind| shown(kind, &rule.namespace)),
    });
    Ok(ListAlertsResponse {
        alerts: found.into_iter().take(MOST).map(alert).collect(),
        total,
        unknown: unknown
            .take(MOST)
            .map(|rule| UnknownAlerts { rule: name_of(&rule.id), namespace: rule.namespace })
            .collect(),
    })
}

/// The namespaces of which the caller may see the quotas.
struct Quotas {
    all: bool,
    places: BTreeSet<String>,
}

impl Quotas {
    async fn of(service: &Service, caller: &Caller, places: BTreeSet<String>) -> Result<Self, Problem> {
        let right = |namespace: &str| Right::on("list", "resourcequotas", namespace);
        if places.is_empty() || service.access.may(caller, right("")).await? {
            return Ok(Self { all: true, places });
        }
        let asked = places.iter().map(|namespace| right(namespace)).collect();
        let allowed = service.access.among(caller, asked).await?;
        Ok(Self { all: false, places: allowed.into_iter().map(|right| right.namespace).collect() })
    }

    fn shows(&self, namespace: &str) -> bool {
        self.all || self.places.contains(namespace)
    }
}
