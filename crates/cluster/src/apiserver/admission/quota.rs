//! ResourceQuota: refuses what would exceed a namespace's quotas, and keeps their `status.used`.
//!
//! Source of rules and texts: apiserver `pkg/admission/plugin/resourcequota/controller.go`; what counts is
//! [`crate::objects::Counted`]'s knowledge. Upstream charges `status.used` and lets a controller put it right later;
//! here each check counts the objects that are there, under a lock of the namespace that the commit keeps ([`Lease`]).
//! So neither a race nor a failed write can over- or undercount, and what the status says is for people only.
//! [`run`] brings it up to date after every other change.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

use super::{Attributes, Operation};
use crate::apiserver::ApiServer;
use crate::apiserver::catalog::Entry;
use crate::apiserver::status::Refusal;
use crate::objects::{Amounts, Counted, Quantity, add, amounts};
use crate::store::{self, Key, Record, Resource};

/// How often a quota's status is written anew when others write the quota meanwhile.
const MAX_ATTEMPTS: usize = 16;

/// What each object of a namespace uses, by the revision of which it is known: as many entries as there are counted
/// objects.
type Ledger = HashMap<(Resource, Key), (u64, Arc<Amounts>)>;

/// The locks of the namespaces with quotas, and the namespaces whose status is out of date.
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

    /// Something changed in a namespace: its quotas' status is brought up to date soon.
    pub fn touch(&self, namespace: &str) {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner).insert(namespace.to_owned());
        self.wake.notify_one();
    }

    /// Forgets a namespace without quotas, unless somebody holds or awaits its lock.
    fn forget(&self, namespace: &str) {
        let mut ledgers = self.ledgers.lock().unwrap_or_else(PoisonError::into_inner);
        if ledgers.get(namespace).is_some_and(|ledger| Arc::strong_count(ledger) == 1) {
            ledgers.remove(namespace);
        }
    }
}

/// Keeps a namespace's quotas exact from the check to the commit.
pub struct Lease {
    ledger: OwnedMutexGuard<Ledger>,
    namespace: String,
}

impl Lease {
    /// Writes what is used now that the write is done.
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
) -> Result<Option<Lease>, Refusal> {
    let (Some(namespace), Some(object)) = (at.namespace(), object) else { return Ok(None) };
    let server = at.call.server;
    let kind = counted(&at.call.entry);
    if !is_judged(at, kind, object, old) || server.store.count(&quotas()) == 0 {
        return Ok(None);
    }
    if server.store.list(&quotas(), Some(namespace)).records.is_empty() {
        return Ok(None);
    }
    let mut ledger = server.quotas.lock(namespace).await;
    for quota in server.store.list(&quotas(), Some(namespace)).records {
        check_one(at, kind, &quota.value, [Some(object), old], &mut ledger)?;
    }
    Ok(Some(Lease { ledger, namespace: namespace.to_owned() }))
}

/// Which writes can use more than before (`Handles` of the evaluators).
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
) -> Result<(), Refusal> {
    let Some(object) = object else { return Ok(()) };
    let hard = amounts(&quota["spec"]["hard"]);
    let names = hard.keys().map(String::as_str).filter(|name| kind.counts_for(name)).collect::<Vec<_>>();
    if names.is_empty() || !kind.is_in_scope(quota, object) {
        return Ok(());
    }
    let quota_name = quota["metadata"]["name"].as_str().unwrap_or_default();
    if let Some(why) = kind.unsaid(&names, object) {
        return Err(at.forbidden(Some(object), &format!("failed quota: {quota_name}: {why}")));
    }
    let mut more = kind.usage(object, at.call.now);
    if let Some(old) = old.filter(|old| kind.is_in_scope(quota, old)) {
        more = difference(&more, &kind.usage(old, at.call.now));
    }
    more.retain(|name, amount| names.contains(&name.as_str()) && amount.nanos() > 0);
    if more.is_empty() {
        return Ok(());
    }
    let used = used_of(at.call.server, &at.call.entry, quota, ledger);
    let zero = Quantity::zero();
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

/// What the objects of one kind use of a quota.
fn used_of(server: &ApiServer, entry: &Entry, quota: &Value, ledger: &mut Ledger) -> Amounts {
    let kind = counted(entry);
    let namespace = quota["metadata"]["namespace"].as_str();
    let now = Timestamp::now();
    let mut used = Amounts::new();
    for record in server.store.list(&entry.resource, namespace).records {
        if kind.is_in_scope(quota, &record.value) {
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
    // A pod on its way out is free after a time, without a change.
    if !record.value["metadata"]["deletionTimestamp"].is_null() {
        return Arc::new(kind.usage(&record.value, now));
    }
    let place = ledger.entry((resource.clone(), record.key.clone())).or_default();
    if place.0 != record.revision {
        *place = (record.revision, Arc::new(kind.usage(&record.value, now)));
    }
    place.1.clone()
}

/// Writes `status.hard` and `status.used` of a namespace's quotas, where they differ.
async fn write_status(server: &ApiServer, namespace: &str, ledger: &mut Ledger) {
    let catalog = server.catalog();
    for record in server.store.list(&quotas(), Some(namespace)).records {
        let mut record = record;
        for _ in 0..MAX_ATTEMPTS {
            let status = status_of(server, &catalog, &record.value, ledger);
            if record.value["status"] == status || !record.value["metadata"]["deletionTimestamp"].is_null() {
                break;
            }
            let mut next = record.value.clone();
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
    catalog: &crate::apiserver::catalog::Catalog,
    quota: &Value,
    ledger: &mut Ledger,
) -> Value {
    let hard = amounts(&quota["spec"]["hard"]);
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

/// Brings the status of quotas up to date after changes, until `stop`. It is the resource quota controller, kept
/// where the counting is.
pub async fn run(server: Arc<ApiServer>, stop: CancellationToken) {
    for quota in server.store.list(&quotas(), None).records {
        server.quotas.touch(quota.value["metadata"]["namespace"].as_str().unwrap_or_default());
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

/// Tells that a write or deletion in a namespace is done.
pub fn changed(server: &ApiServer, namespace: Option<&str>) {
    if let Some(namespace) = namespace.filter(|_| server.store.count(&quotas()) > 0) {
        server.quotas.touch(namespace);
    }
}
