//! What jobs used, summed over a period.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use history::namespaces::Tenant;
use history::usage::{self, Group, Key, Period, Used, write_csv};
use jiff::{SignedDuration, Timestamp};
use jobs::Kind;
use jobs::prices::{Found, Money, Prices};

use super::cost;
use super::visible::Visible;
use crate::contract::{Answer, ListUsageRequest, ListUsageResponse, Usage, UsedAmount};
use crate::filter::moment;
use crate::identity::Caller;
use crate::problem::Problem;
use crate::row::time;
use crate::service::Service;

/// The length of the period if its beginning is not given.
const USUAL: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Sums; over REST, a table if one was asked for.
pub struct Summed(ListUsageResponse);

impl Answer<ListUsageResponse> for Summed {
    fn message(self) -> ListUsageResponse {
        self.0
    }

    fn json(&self) -> Vec<u8> {
        match self.0.csv.is_empty() {
            true => self.0.json(),
            false => self.0.csv.clone().into_bytes(),
        }
    }

    fn content_type(&self) -> &'static str {
        if self.0.csv.is_empty() { "application/json" } else { "text/csv; charset=utf-8; header=present" }
    }
}

/// Sums usage.
pub async fn list_usage(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: ListUsageRequest,
) -> Result<Summed, Problem> {
    let now = Timestamp::now();
    let until = moment("until", &request.until)?.unwrap_or(now);
    let from = moment("since", &request.since)?;
    let from = from.unwrap_or_else(|| until.checked_sub(USUAL).unwrap_or(Timestamp::MIN));
    if from > until {
        return Err(Problem::invalid("since", "is after until", "begin the period before its end"));
    }
    let user = !request.user.is_empty();
    let mut group = Group { namespace: true, user, ..Group::default() };
    for by in &request.by {
        match by.as_str() {
            "user" => group.user = true,
            "job" => group.job = true,
            _ => return Err(Problem::invalid("by", "is not something to sum by", "use user or job")),
        }
    }
    let is_csv = match request.format.as_str() {
        "" | "json" => false,
        "csv" => true,
        _ => return Err(Problem::invalid("format", "is not a format", "use json or csv")),
    };
    let namespace = Some(request.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let period = Period { from, until };
    let mut sums = visible_sums(&service, &caller, namespace, (period, group, now)).await?;
    if !request.user.is_empty() {
        sums.retain(|key, _| key.user.as_ref() == Some(&request.user));
    }
    let found = cost::prices(&caller).await;
    let (currency, cost_basis) = cost::basis(&found);
    let prices = if let Found::Prices(prices) = &found { Some(prices) } else { None };
    let mut csv = Vec::new();
    if is_csv {
        let cost = |used: &Used, resource: &str| cost::of_used(prices?, used, resource).map(cost::text);
        let currency = Some(currency.as_str()).filter(|currency| !currency.is_empty());
        // Writing to memory cannot fail.
        let _ = write_csv(&mut csv, period, &sums, currency, cost);
    }
    Ok(Summed(ListUsageResponse {
        from: time(Some(from)),
        until: time(Some(until)),
        usage: sums.iter().map(|(key, used)| row(key, used, prices)).collect(),
        csv: String::from_utf8_lossy(&csv).into_owned(),
        currency,
        cost_basis,
        cost: total(sums.values(), prices).map(cost::text).unwrap_or_default(),
    }))
}

/// Returns the sums of the jobs that the caller may list. What an earlier namespace of a name used counts for kinds
/// that the caller may list everywhere.
///
/// # Errors
/// 403 if the caller may list no kind of jobs in the namespace, or the store's problem.
async fn visible_sums(
    service: &Service,
    caller: &Caller,
    namespace: Option<&str>,
    (period, group, now): (Period, Group, Timestamp),
) -> Result<BTreeMap<Key, Used>, Problem> {
    if let Some(namespace) = namespace {
        Visible::within(service, caller, namespace, &Kind::ALL).await?;
    }
    service.tenants.require_known()?;
    let store = &service.kept.opened()?.store;
    let everywhere = Visible::among(service, caller, &Kind::ALL, BTreeSet::new()).await?;
    let (everywhere, elsewhere): (Vec<Kind>, Vec<Kind>) =
        Kind::ALL.into_iter().partition(|kind| everywhere.shows(*kind, ""));
    let mut by_kind: BTreeMap<Key, Used> = BTreeMap::new();
    for (tenant, kinds) in [(Tenant::Any, everywhere), (Tenant::Present, elsewhere)] {
        if kinds.is_empty() {
            continue;
        }
        let group = Group { kind: true, ..group };
        let mut found = usage::usage(store, period, group, (namespace, tenant), now).await?;
        found.retain(|key, _| place(key).is_some_and(|(kind, _)| kinds.contains(&kind)));
        by_kind.extend(found);
    }
    let places = by_kind.keys().filter_map(place).collect();
    let visible = Visible::among(service, caller, &Kind::ALL, places).await?;
    let mut sums: BTreeMap<Key, Used> = BTreeMap::new();
    for (key, used) in by_kind {
        if place(&key).is_some_and(|(kind, namespace)| visible.shows(kind, &namespace)) {
            sums.entry(Key { kind: None, ..key }).or_default().merge(used);
        }
    }
    Ok(sums)
}

/// The kind and the namespace of the jobs of a sum.
fn place(key: &Key) -> Option<(Kind, String)> {
    Some((Kind::named(key.kind.as_ref()?)?, key.namespace.clone()?))
}

/// Returns what sums cost together; `None` if nothing of them has a price.
fn total<'u>(sums: impl Iterator<Item = &'u Used>, prices: Option<&Prices>) -> Option<Money> {
    let of = |used: &'u Used| {
        let amounts = used.amounts();
        let costs: Vec<Money> =
            amounts.iter().filter_map(|amount| cost::of_used(prices?, used, amount.resource)).collect();
        costs
    };
    sums.flat_map(of).reduce(Money::plus)
}

fn row(key: &Key, used: &Used, prices: Option<&Prices>) -> Usage {
    let (job, uid) = key.job.clone().unwrap_or_default();
    let cost = |resource: &str| cost::of_used(prices?, used, resource);
    let amount = |amount: usage::Amount<'_>| UsedAmount {
        resource: amount.resource.to_owned(),
        amount_seconds: amount.amount_seconds,
        hours: amount.hours,
        cost: cost(amount.resource).map(cost::text).unwrap_or_default(),
    };
    Usage {
        namespace: key.namespace.clone().unwrap_or_default(),
        user: key.user.clone().unwrap_or_default(),
        job,
        uid,
        cost: total(std::iter::once(used), prices).map(cost::text).unwrap_or_default(),
        amounts: used.amounts().into_iter().map(amount).collect(),
    }
}
