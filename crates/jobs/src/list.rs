//! Reads jobs: one by name, or all of a namespace or of all namespaces, as raw objects.

use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt};

use crate::{Attempt, Error, explain, manifest, mpijob_resource, mpijobs};

/// How many objects are asked for at a time; keeps both ends' memory bounded.
const PAGE: u32 = 500;
/// How many pages are read at most.
const MAX_PAGES: usize = 200;

/// Which jobs to list.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The namespace, or all if not given.
    pub namespace: Option<String>,
    /// A label selector as kubectl takes it.
    pub labels: Option<String>,
}

/// Every job of the selection, by namespace and name.
///
/// # Errors
/// The server's refusal, explained.
pub async fn list(client: &Client, selection: &Selection) -> Result<Vec<DynamicObject>, Error> {
    let api: Api<DynamicObject> = match &selection.namespace {
        Some(namespace) => mpijobs(client, namespace),
        None => Api::all_with(client.clone(), &mpijob_resource()),
    };
    let attempt = Attempt {
        verb: "list",
        what: "MPIJobs",
        name: "",
        namespace: selection.namespace.as_deref().unwrap_or(""),
    };
    let mut parameters =
        ListParams { label_selector: selection.labels.clone(), ..ListParams::default() }.limit(PAGE);
    let mut found = Vec::new();
    for _ in 0..MAX_PAGES {
        let page = api.list(&parameters).await.map_err(|error| explain(error, attempt))?;
        let next = page.metadata.continue_.filter(|token| !token.is_empty());
        let types = page.types;
        found.extend(page.items.into_iter().map(|mut job| {
            // Items of a list come without kind and version; as objects of their own they need them.
            job.types.get_or_insert_with(|| kube::core::TypeMeta {
                api_version: types.api_version.clone(),
                kind: types.kind.trim_end_matches("List").to_owned(),
            });
            job
        }));
        match next {
            Some(token) => parameters = parameters.continue_token(&token),
            None => break,
        }
    }
    found.sort_by_key(|job| (job.namespace(), job.name_any()));
    Ok(found)
}

/// One job.
///
/// # Errors
/// [`Error::NotFound`], with the name that was probably meant, or the server's refusal.
pub async fn get(client: &Client, namespace: &str, name: &str) -> Result<DynamicObject, Error> {
    let attempt = Attempt { verb: "get", what: "MPIJobs", name, namespace };
    match mpijobs(client, namespace).get(name).await {
        Ok(job) => Ok(job),
        Err(error) => match explain(error, attempt) {
            Error::NotFound { .. } => Err(not_found(client, namespace, name).await),
            other => Err(other),
        },
    }
}

/// The error for a name that is not there; looks what name near it is.
pub async fn not_found(client: &Client, namespace: &str, name: &str) -> Error {
    let names: Vec<String> =
        match mpijobs(client, namespace).list_metadata(&ListParams::default().limit(PAGE)).await {
            Ok(list) => list.items.iter().map(ResourceExt::name_any).collect(),
            Err(_) => Vec::new(),
        };
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let meant = manifest::nearest(name, &known).map(str::to_owned);
    Error::NotFound { name: name.to_owned(), namespace: namespace.to_owned(), meant }
}
