//! Reads jobs as raw objects: one by name, or all of one or all namespaces.

use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use paging::{MOST_PAGES, PAGE};

use crate::view::{self, Row};
use crate::{Action, Advice, Attempt, Class, Error, Kind, manifest, runtime};

/// Which jobs to list.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The kind; if not given, all kinds that the cluster serves.
    pub kind: Option<Kind>,
    /// The namespace, or all if not given.
    pub namespace: Option<String>,
    /// A label selector in kubectl's syntax.
    pub labels: Option<String>,
}

/// Returns every job of the selection, sorted by namespace and name.
///
/// If no kind is given, a kind that the cluster does not serve or the caller may not list is left out, as long as
/// another can be listed.
///
/// # Errors
/// The server's refusal, with an explanation.
pub async fn list(client: &Client, selection: &Selection) -> Result<Vec<DynamicObject>, Error> {
    gather(client, selection, |job| job).await
}

/// Returns the rows of the same jobs. Of each page, only what a list shows is kept.
///
/// # Errors
/// As [`list`].
pub async fn rows(client: &Client, selection: &Selection) -> Result<Vec<Row>, Error> {
    let mut rows = gather(client, selection, |job| view::row(&job)).await?;
    fill_in_nodes(client, &mut rows).await;
    Ok(rows)
}

/// Returns the rows of jobs that were already read.
pub async fn rows_of(client: &Client, jobs: &[DynamicObject]) -> Vec<Row> {
    let mut rows: Vec<Row> = jobs.iter().map(view::row).collect();
    fill_in_nodes(client, &mut rows).await;
    rows
}

/// Returns the names of the namespaces that the cluster lets the caller list: all of them, or on OpenShift those of the
/// caller's projects; `None` if it lets the caller list none.
pub async fn namespaces(client: &Client) -> Option<Vec<String>> {
    let project = ApiResource {
        group: "project.openshift.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "project.openshift.io/v1".to_owned(),
        kind: "Project".to_owned(),
        plural: "projects".to_owned(),
    };
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<Namespace>(&()));
    for api in [all, Api::all_with(client.clone(), &project)] {
        let mut names = Vec::new();
        let keep = |found: Vec<DynamicObject>| names.extend(found.iter().map(ResourceExt::name_any));
        if paging::each(&api, ListParams::default(), MOST_PAGES, keep).await.is_ok_and(|whole| whole) {
            return Some(names);
        }
    }
    None
}

/// Fills in the node counts from the TrainJobs' runtimes; if a runtime may not be read, the default stays.
pub(crate) async fn fill_in_nodes(client: &Client, rows: &mut [Row]) {
    let wanted = rows.iter().filter_map(|row| row.runtime.clone()).collect();
    let found = runtime::node_counts(client, wanted).await;
    for row in rows {
        let Some(nodes) = row.runtime.as_ref().and_then(|runtime| found.get(runtime)) else { continue };
        let (before, nodes) = (row.workers.of, *nodes);
        row.gpus = match (u64::try_from(before), u64::try_from(nodes)) {
            (Ok(before), Ok(nodes)) if before > 0 => row.gpus / before * nodes,
            _ => row.gpus,
        };
        row.workers.set_nodes(nodes);
    }
}

/// A job's sort key in a list, and the value made from the job.
type Placed<T> = ((Option<String>, String, Kind), T);

async fn gather<T>(
    client: &Client,
    selection: &Selection,
    make: impl Fn(DynamicObject) -> T + Copy,
) -> Result<Vec<T>, Error> {
    let mut found = match selection.kind {
        Some(kind) => list_kind(client, kind, selection, make).await?,
        None => together(join_all(Kind::ALL.map(|kind| list_kind(client, kind, selection, make))).await)?,
    };
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found.into_iter().map(|(_, made)| made).collect())
}

/// Merges what could be listed; if nothing could, returns the refusal of the first kind, which is ours.
fn together<T>(answers: Vec<Result<Vec<T>, Error>>) -> Result<Vec<T>, Error> {
    // Our kind is first. A role for it may well not cover kinds that are not even installed.
    let ours_seen = answers.first().is_some_and(Result::is_ok);
    let mut found = None;
    let mut refusal = None;
    for answer in answers {
        match answer {
            Ok(jobs) => found.get_or_insert_with(Vec::new).extend(jobs),
            Err(error) if matches!(error.class(), Class::NotFound | Class::NotAllowed) => {
                refusal.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    match (found, refusal) {
        // If something may not be listed, finding nothing does not mean that the list is empty.
        (Some(found), Some(error))
            if found.is_empty() && !ours_seen && error.class() == Class::NotAllowed =>
        {
            Err(error)
        }
        (Some(found), _) => Ok(found),
        (None, Some(error)) => Err(error),
        (None, None) => Ok(Vec::new()),
    }
}

async fn list_kind<T>(
    client: &Client,
    kind: Kind,
    selection: &Selection,
    make: impl Fn(DynamicObject) -> T,
) -> Result<Vec<Placed<T>>, Error> {
    let api = match &selection.namespace {
        Some(namespace) => kind.api(client, namespace),
        None => kind.api_all(client),
    };
    let attempt = Attempt {
        verb: "list",
        what: kind.names(),
        name: "",
        namespace: selection.namespace.as_deref().unwrap_or(""),
    };
    let selected = ListParams { label_selector: selection.labels.clone(), ..ListParams::default() };
    let mut found = Vec::new();
    let keep = |jobs: Vec<DynamicObject>| {
        found.extend(jobs.into_iter().map(|mut job| {
            // Items of a list lack kind and version; as separate objects they need them.
            job.types.get_or_insert_with(|| kube::core::TypeMeta {
                api_version: kind.api_version(),
                kind: kind.name().to_owned(),
            });
            ((job.namespace(), job.name_any(), kind), make(job))
        }));
    };
    paging::each(&api, selected, MOST_PAGES, keep).await.map_err(|error| Error::from_kube(error, attempt))?;
    Ok(found)
}

/// Checks that a namespace exists, where the caller may know: no job in it and no such namespace look alike.
///
/// # Errors
/// [`Error::Refused`] if there is no such namespace.
pub async fn check_namespace(client: &Client, namespace: &str) -> Result<(), Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match namespaces.get_metadata_opt(namespace).await {
        Ok(None) => Err(Error::Refused {
            class: Class::NotFound,
            reason: "NotFound".to_owned(),
            message: format!("namespace \"{namespace}\" does not exist"),
            advice: Some(
                Advice::from("choose another, or create it")
                    .with(Action::CreateNamespace { namespace: namespace.to_owned() }),
            ),
            faults: Vec::new(),
        }),
        Ok(Some(_)) | Err(_) => Ok(()),
    }
}

/// Returns one job.
///
/// # Errors
/// [`Error::NotFound`] with the name that was probably meant, or the server's refusal.
pub async fn get(client: &Client, kind: Kind, namespace: &str, name: &str) -> Result<DynamicObject, Error> {
    let attempt = Attempt { verb: "get", what: kind.names(), name, namespace };
    match kind.api(client, namespace).get(name).await {
        Ok(job) => Ok(job),
        Err(error) => match Error::from_kube(error, attempt) {
            Error::NotFound { .. } => Err(not_found(client, Some(kind), namespace, name).await),
            other => Err(other),
        },
    }
}

/// Returns the error for a name that no job of this kind has, or no job at all; looks for a job of another kind with this
/// name, and for a similar name.
pub async fn not_found(client: &Client, kind: Option<Kind>, namespace: &str, name: &str) -> Error {
    let others = Kind::ALL.into_iter().filter(|other| kind.is_some_and(|kind| kind != *other));
    let others = others.map(|other| async move {
        let found = other.api(client, namespace).get_metadata_opt(name).await;
        found.is_ok_and(|found| found.is_some()).then_some(other)
    });
    let of_kind = join_all(others).await.into_iter().flatten().next();
    let asked = Kind::ALL.into_iter().filter(|known| kind.is_none_or(|kind| kind == *known));
    let listed = join_all(asked.map(|known| async move {
        let listed = known.api(client, namespace).list_metadata(&ListParams::default().limit(PAGE)).await;
        listed.map(|list| list.items).unwrap_or_default()
    }));
    let names: Vec<String> = listed.await.iter().flatten().map(ResourceExt::name_any).collect();
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let meant = manifest::nearest(name, &known).map(str::to_owned);
    Error::NotFound { kind, name: name.to_owned(), namespace: namespace.to_owned(), of_kind, meant }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Result<Vec<u8>, Error> {
        Err(Error::Refused {
            class: Class::NotAllowed,
            reason: "Forbidden".to_owned(),
            message: "no".to_owned(),
            advice: None,
            faults: Vec::new(),
        })
    }

    #[test]
    fn an_empty_list_of_mpijobs_is_not_a_refusal_for_another_kind() {
        assert_eq!(together(vec![Ok(vec![]), refused()]).unwrap(), [] as [u8; 0]);
        assert_eq!(together(vec![refused(), Ok(vec![1])]).unwrap(), [1]);
        assert!(together(vec![refused(), Ok(vec![])]).is_err());
        assert!(together(vec![refused(), refused()]).is_err());
    }
}
