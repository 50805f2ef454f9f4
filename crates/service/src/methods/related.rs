//! Lists the jobs that came from the same one: retries and copies, and theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jobs::list;
use jobs::rerun::How;

use crate::board::Entry;
use crate::contract::{ListRelatedJobsRequest, ListRelatedJobsResponse, RelatedJob};
use crate::filter::kind;
use crate::identity::Caller;
use crate::problem::Problem;
use crate::service::Service;

/// Lists related jobs.
pub async fn list_related_jobs(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: ListRelatedJobsRequest,
) -> Result<ListRelatedJobsResponse, Problem> {
    let kind = kind(&request.kind)?;
    let (_, all) =
        service.board.snapshot(|entry| entry.kind == kind && entry.row.namespace == request.namespace);
    let names = related(&all, &request.name);
    let mut found: Vec<&Arc<Entry>> = all.iter().filter(|entry| names.contains(&entry.row.name)).collect();
    if found.is_empty() {
        // No job of this name, and none that came from it: as in every method, the cluster says so.
        list::get(&caller.client, kind, &request.namespace, &request.name).await?;
    }
    found.sort_by(|a, b| (a.created, &a.row.name).cmp(&(b.created, &b.row.name)));
    Ok(ListRelatedJobsResponse { jobs: found.into_iter().map(|entry| shown(entry)).collect() })
}

/// The names that are connected with a name by origins, whether or not their jobs are still there.
fn related(all: &[Arc<Entry>], name: &str) -> BTreeSet<String> {
    let mut beside: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for entry in all {
        if let Some((_, origin)) = &entry.origin {
            beside.entry(origin).or_default().push(&entry.row.name);
            beside.entry(&entry.row.name).or_default().push(origin);
        }
    }
    let mut names = BTreeSet::from([name.to_owned()]);
    let mut next = vec![name];
    while let Some(name) = next.pop() {
        for other in beside.get(name).into_iter().flatten() {
            if names.insert((*other).to_owned()) {
                next.push(other);
            }
        }
    }
    names
}

fn shown(entry: &Entry) -> RelatedJob {
    let (how, origin) = match &entry.origin {
        Some((How::Retry, name)) => ("retry", name.clone()),
        Some((How::Clone, name)) => ("clone", name.clone()),
        None => ("", String::new()),
    };
    RelatedJob { job: Some(entry.row.clone()), origin, how: how.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(name: &str, annotation: Option<(&str, &str)>) -> Arc<Entry> {
        let annotations: BTreeMap<&str, &str> = annotation.into_iter().collect();
        let object = json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": { "name": name, "namespace": "team", "annotations": annotations }, "spec": {} });
        Arc::new(Entry::of(&serde_json::from_value(object).unwrap()))
    }

    #[test]
    fn jobs_are_related_through_jobs_that_are_gone() {
        let (retry, clone) = (jobs::rerun::ANNOTATION_RETRY_OF, jobs::rerun::ANNOTATION_CLONED_FROM);
        let all = [
            entry("a-retry-2", Some((retry, "a"))),
            entry("a-clone-1", Some((clone, "a"))),
            entry("small", Some((clone, "a-clone-1"))),
            entry("other", None),
            entry("other-clone-1", Some((clone, "other"))),
        ];
        let names = |of: &str| related(&all, of).into_iter().collect::<Vec<_>>();
        assert_eq!(names("small"), ["a", "a-clone-1", "a-retry-2", "small"], "a itself was deleted");
        assert_eq!(names("other-clone-1"), ["other", "other-clone-1"]);
        assert_eq!(names("alone"), ["alone"]);
    }
}
