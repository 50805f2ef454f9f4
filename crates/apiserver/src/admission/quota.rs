//! ResourceQuota: rejects writes that would exceed a namespace's quotas, and updates their `status.used`.
//!
//! Source of rules and messages: apiserver `pkg/admission/plugin/resourcequota/controller.go`;
//! [`objects::Counted`] knows what counts. Upstream charges `status.used`, and a controller corrects
//! it later. Here, each check counts the existing objects under a lock of the namespace that the commit holds
//! ([`Lease`]). Therefore neither a race nor a failed write can miscount, and the status is only informative.
//! [`run`] updates it after all other changes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

use super::{Attributes, Operation};
use crate::ApiServer;
use crate::catalog::Entry;
use crate::status::StatusError;
use crate::store::{self, Key, Record, Resource};
use objects::Counted;
use semantics::{Amounts, Quantity, add, raw_amounts};

/// The number of attempts to write a quota's status, in case of conflicts.
const MAX_ATTEMPTS: usize = 16;

/// A cache of the usage of each object in a namespace, by the object's revision; of an object that is being deleted it has none. It has
/// at most one entry per counted object.
type Ledger = HashMap<(Resource, Key), (u64, Option<Arc<Amounts>>)>;

/// The locks of the namespaces with quotas, and the namespaces whose quota status is outdated.
#[derive(Default)]
pub struct Quotas {
    ledgers: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Ledger>>>>,
    touched: Mutex<HashSet<String>>,
    wake: Notify,
}

impl Quotas {
    async fn lock(&self, namespace: &str) -> OwnedMutexGuard<Ledger> {
        let ledger = {
            let mut ledgers = self.ledgers.lock().unwrap_or_else(PoisonError::into_inner);
            ledgers.entry(namespace.to_owned()).or_default().clone()
        };
        ledger.lock_owned().await
    }

    /// Schedules an update of the quota status in a namespace.
    pub fn touch(&self, namespace: &str) {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner).insert(namespace.to_owned());
        self.wake.notify_one();
    }

    /// Drops the cache of a namespace without quotas, unless its lock is held or awaited.
    fn forget(&self, namespace: &str) {
        let mut ledgers = self.ledgers.lock().unwrap_or_else(PoisonError::into_inner);
        if ledgers.get(namespace).is_some_and(|ledger| Arc::strong_count(ledger) == 1) {
            ledgers.remove(namespace);
        }
    }
}

/// Holds a namespace's quota lock from the check to the commit.
pub struct Lease {
    ledger: OwnedMutexGuard<Ledger>,
    namespace: String,
}

impl Lease {
    /// Writes the usage after the commit.
    pub async fn settle(mut self, server: &ApiServer) {
        write_status(server, &self.namespace, &mut self.ledger).await;
    }
}

fn quotas() -> Resource {
    Resource::new("", "resourcequotas")
}

fn counted(entry: &Entry) -> Counted<'_> {
    Counted { group: &entry.kind.group, plural: &entry.kind.plural }
}

/// Checks a write against the quotas of its namespace.
///
/// # Errors
/// 403.
pub async fn check(
    at: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<Option<Lease>, StatusError> {
    let (Some(namespace), Some(object)) = (at.namespace(), object) else { return Ok(None) };
    let server = at.context.server;
    let kind = counted(&at.context.entry);
    if !is_judged(at, kind, object, old) || server.store.count(&quotas()) == 0 {
        return Ok(None);
    }
    if server.store.list(&quotas(), Some(namespace)).records.is_empty() {
        return Ok(None);
    }
    let mut ledger = server.quotas.lock(namespace).await;
    for quota in server.store.list(&quotas(), Some(namespace)).records {
        check_one(at, kind, &quota.value(), [Some(object), old], &mut ledger)?;
    }
    Ok(Some(Lease { ledger, namespace: namespace.to_owned() }))
}

/// Returns whether a write may increase usage (`Handles` of the evaluators).
fn is_judged(at: &Attributes<'_>, kind: Counted<'_>, object: &Value, old: Option<&Value>) -> bool {
    if kind.is_ignored() || at.kind().is("", "Namespace") {
        return false;
    }
    match (at.operation, at.subresource(), kind.group, kind.plural) {
        (Operation::Create, "", ..)
        | (Operation::Update, "", "", "services" | "persistentvolumeclaims")
        | (Operation::Update, "resize", "", "pods") => true,
        (Operation::Update, "", "", "pods") => {
            let deadline = |pod: &Value| pod["spec"]["activeDeadlineSeconds"].is_null();
            old.is_some_and(|old| deadline(old) != deadline(object))
        }
        _ => false,
    }
}

fn check_one(
    at: &Attributes<'_>,
    kind: Counted<'_>,
    quota: &Value,
    [object, old]: [Option<&Value>; 2],
    ledger: &mut Ledger,
) -> Result<(), StatusError> {
    let Some(object) = object else { return Ok(()) };
    let hard = raw_amounts(&quota["spec"]["hard"]);
    let names = hard.keys().map(String::as_str).filter(|name| kind.counts_for(name)).collect::<Vec<_>>();
    if names.is_empty() || !kind.is_in_scope(quota, object) {
        return Ok(());
    }
    let quota_name = quota["metadata"]["name"].as_str().unwrap_or_default();
    if let Some(why) = kind.unsaid(&names, object) {
        return Err(at.forbidden(Some(object), &format!("failed quota: {quota_name}: {why}")));
    }
    let mut more = kind.usage(object, at.context.now);
    if let Some(old) = old.filter(|old| kind.is_in_scope(quota, old)) {
        more = difference(&more, &kind.usage(old, at.context.now));
    }
    more.retain(|name, amount| names.contains(&name.as_str()) && amount.nanos() > 0);
    if more.is_empty() {
        return Ok(());
    }
    let used = used_of(at.context.server, &at.context.entry, quota, ledger);
    let zero = Quantity::ZERO;
    let exceeded = more.iter().filter(|(name, amount)| {
        let before = used.get(*name).copied().unwrap_or(zero);
        hard.get(*name).is_some_and(|limit| before.plus(**amount) > *limit)
    });
    let exceeded = exceeded.map(|(name, _)| name.as_str()).collect::<Vec<_>>();
    if exceeded.is_empty() {
        return Ok(());
    }
    let show = |amounts: &Amounts| {
        let one = |name: &&str| format!("{name}={}", amounts.get(*name).copied().unwrap_or(zero));
        exceeded.iter().map(one).collect::<Vec<_>>().join(",")
    };
    let (requested, used, limited) = (show(&more), show(&used), show(&hard));
    let why =
        format!("exceeded quota: {quota_name}, requested: {requested}, used: {used}, limited: {limited}");
    Err(at.forbidden(Some(object), &why))
}

fn difference(new: &Amounts, old: &Amounts) -> Amounts {
    let rest = |name: &String, amount: &Quantity| old.get(name).map_or(*amount, |old| amount.less(*old));
    new.iter().map(|(name, amount)| (name.clone(), rest(name, amount))).collect()
}

/// Returns the usage of a quota by the objects of one kind.
fn used_of(server: &ApiServer, entry: &Entry, quota: &Value, ledger: &mut Ledger) -> Amounts {
    let kind = counted(entry);
    let namespace = quota["metadata"]["namespace"].as_str();
    let now = Timestamp::now();
    let mut used = Amounts::new();
    // Without scopes it counts every object, and none needs to be looked at.
    let has_scopes = !quota["spec"]["scopes"].is_null() || !quota["spec"]["scopeSelector"].is_null();
    for record in server.store.list(&entry.resource, namespace).records {
        if !has_scopes || kind.is_in_scope(quota, &record.value()) {
            add(&mut used, &known(kind, &entry.resource, &record, now, ledger));
        }
    }
    used
}

fn known(
    kind: Counted<'_>,
    resource: &Resource,
    record: &Arc<Record>,
    now: Timestamp,
    ledger: &mut Ledger,
) -> Arc<Amounts> {
    let (revision, usage) = ledger.entry((resource.clone(), record.key.clone())).or_default();
    if *revision != record.revision {
        let value = record.value();
        // A terminating pod stops counting after a time, without a change of the object, so its usage isn't cached.
        let is_terminating = !value["metadata"]["deletionTimestamp"].is_null();
        *usage = (!is_terminating).then(|| Arc::new(kind.usage(&value, now)));
        *revision = record.revision;
    }
    usage.clone().unwrap_or_else(|| Arc::new(kind.usage(&record.value(), now)))
}

/// Writes `status.hard` and `status.used` of a namespace's quotas if they changed.
async fn write_status(server: &ApiServer, namespace: &str, ledger: &mut Ledger) {
    let catalog = server.catalog();
    for record in server.store.list(&quotas(), Some(namespace)).records {
        let mut record = record;
        for _ in 0..MAX_ATTEMPTS {
            let status = status_of(server, &catalog, &record.value(), ledger);
            if record.value()["status"] == status
                || !record.value()["metadata"]["deletionTimestamp"].is_null()
            {
                break;
            }
            let mut next = record.to_value();
            next["status"] = status;
            match server.store.replace(&quotas(), &record.key, record.revision, next).await {
                Err(store::Error::Changed(present)) => record = present,
                Err(error) => {
                    tracing::warn!(quota = record.key.as_str(), %error, "what a quota uses could not be written");
                    break;
                }
                Ok(_) => break,
            }
        }
    }
}

fn status_of(
    server: &ApiServer,
    catalog: &crate::catalog::Catalog,
    quota: &Value,
    ledger: &mut Ledger,
) -> Value {
    let hard = raw_amounts(&quota["spec"]["hard"]);
    let mut used = Amounts::new();
    for entry in catalog.stored_kinds().filter(|entry| entry.kind.namespaced) {
        if hard.keys().any(|name| counted(entry).counts_for(name)) {
            add(&mut used, &used_of(server, entry, quota, ledger));
        }
    }
    let shown = |amounts: &Amounts| {
        let one = |name: &String| {
            (name.clone(), amounts.get(name).map_or("0".to_owned(), ToString::to_string).into())
        };
        hard.keys().map(one).collect::<Map<_, _>>()
    };
    json!({"hard": quota["spec"]["hard"], "used": shown(&used)})
}

/// Updates the status of quotas after changes, until `stop`. This is the resource quota controller; it is
/// here because it shares the counting.
pub async fn run(server: Arc<ApiServer>, stop: CancellationToken) {
    for quota in server.store.list(&quotas(), None).records {
        server.quotas.touch(quota.value()["metadata"]["namespace"].as_str().unwrap_or_default());
    }
    loop {
        if stop.run_until_cancelled(server.quotas.wake.notified()).await.is_none() {
            return;
        }
        let touched =
            std::mem::take(&mut *server.quotas.touched.lock().unwrap_or_else(PoisonError::into_inner));
        for namespace in touched {
            if server.store.list(&quotas(), Some(&namespace)).records.is_empty() {
                server.quotas.forget(&namespace);
                continue;
            }
            let mut ledger = server.quotas.lock(&namespace).await;
            let store = &server.store;
            ledger.retain(|(resource, key), (revision, _)| {
                store.get(resource, key).is_some_and(|record| record.revision == *revision)
            });
            write_status(&server, &namespace, &mut ledger).await;
        }
    }
}

/// Reports a completed write or deletion in a namespace.
pub fn changed(server: &ApiServer, namespace: Option<&str>) {
    if let Some(namespace) = namespace.filter(|_| server.store.count(&quotas()) > 0) {
        server.quotas.touch(namespace);
    }
}
