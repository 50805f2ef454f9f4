//! What jobs are checked against before they are created: one reading for all callers who may read the same.
//!
//! A reading takes a list of all jobs, nodes and pods, and several people who fill in a form ask for it every second or so. It
//! is therefore read once in [`Settings::reading`](crate::Settings::reading), with the client of the first who asks, and
//! shared only by callers who have exactly the same rights.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jobs::Kind;
use jobs::availability::Snapshot;
use jobs::preflight::{self, PATIENCE};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::access::{Access, Right};
use crate::identity::Caller;
use crate::problem::Problem;

/// The most readings kept. When there are more, all are forgotten.
const MOST: usize = 64;
const KUEUE: &str = "kueue.x-k8s.io";

/// A namespace, and the rights on which a reading of it depends.
type Scope = (String, Vec<Right>);

/// A reading that was begun.
#[derive(Clone)]
struct Reading {
    begun: Instant,
    seen: Arc<OnceCell<Arc<Snapshot>>>,
}

/// The readings.
#[derive(Default)]
pub struct Rooms {
    kept: Mutex<HashMap<Scope, Reading>>,
}

impl Rooms {
    /// Returns a reading that is not older than `age`.
    ///
    /// # Errors
    /// 503 if the cluster does not say what the caller may read.
    pub async fn of(
        &self,
        access: &Access,
        caller: &Caller,
        namespace: &str,
        age: Duration,
    ) -> Result<Arc<Snapshot>, Problem> {
        let rights = access.among(caller, rights(namespace)).await?;
        let reading = self.reading((namespace.to_owned(), rights), age);
        // If the first who asks goes away, the next one reads.
        let read = async || Arc::new(preflight::snapshot(&caller.client, namespace, PATIENCE).await);
        Ok(reading.seen.get_or_init(read).await.clone())
    }

    fn reading(&self, scope: Scope, age: Duration) -> Reading {
        let now = Instant::now();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST {
            kept.retain(|_, reading| now < reading.begun + age);
        }
        if kept.len() >= MOST {
            kept.clear();
        }
        let fresh = || Reading { begun: now, seen: Arc::default() };
        let reading = kept.entry(scope).or_insert_with(fresh);
        if now >= reading.begun + age {
            *reading = fresh();
        }
        reading.clone()
    }
}

/// What [`preflight::snapshot`] reads.
fn rights(namespace: &str) -> Vec<Right> {
    let kind = Kind::MpiJob;
    let of = |group, resource, namespace: &str| Right {
        verb: "list",
        group,
        resource,
        subresource: "",
        namespace: namespace.to_owned(),
    };
    let mut all = vec![
        Right::on_jobs("list", kind, ""),
        Right::on("list", "nodes", ""),
        Right::on("list", "pods", ""),
        of("scheduling.k8s.io", "priorityclasses", ""),
        of(KUEUE, "clusterqueues", ""),
        of(KUEUE, "localqueues", ""),
        of(KUEUE, "workloads", ""),
    ];
    if !namespace.is_empty() {
        all.extend([
            Right::on_jobs("list", kind, namespace),
            Right::on("list", "resourcequotas", namespace),
            Right::on("list", "limitranges", namespace),
            Right::on("get", "namespaces", namespace),
            of(KUEUE, "localqueues", namespace),
            of(KUEUE, "workloads", namespace),
        ]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_shared_by_those_with_the_same_rights_until_it_is_old() {
        let rooms = Rooms::default();
        let age = Duration::from_secs(3600);
        let read = |namespace: &str, rights: Vec<Right>, age| {
            rooms.reading((namespace.to_owned(), rights), age).seen
        };
        let first = read("team", rights("team"), age);
        assert!(Arc::ptr_eq(&first, &read("team", rights("team"), age)));
        assert!(!Arc::ptr_eq(&first, &read("team", rights("team").split_off(1), age)), "fewer rights");
        assert!(!Arc::ptr_eq(&first, &read("other", rights("other"), age)));
        assert!(!Arc::ptr_eq(&first, &read("team", rights("team"), Duration::ZERO)), "too old");
    }

    #[test]
    fn there_are_never_many_readings() {
        let rooms = Rooms::default();
        for number in 0..1000 {
            rooms.reading((number.to_string(), Vec::new()), Duration::from_secs(3600));
        }
        assert!(rooms.kept.lock().unwrap().len() <= MOST);
    }
}
