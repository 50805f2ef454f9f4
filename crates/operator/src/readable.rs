//! Jobs that are decoded one by one. A number beyond its type or a value of another kind may be stored where neither a schema nor the
//! webhook refuses it; decoded with the others of a list or a watch, one such job would stop them all, in every namespace.

use std::future::ready;

use futures::{Stream, TryStreamExt};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kube::core::ObjectMeta;
use kube::runtime::watcher::{self, Event};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::slim::Slim;

/// How many jobs may wait to be told about; the log has all of them.
const MOST_WAITING: usize = 256;

/// A job of the API, or what is known of one that cannot be decoded.
#[derive(Clone, Debug)]
pub(crate) enum Readable<K> {
    /// The job.
    Yes(K),
    /// Its metadata, and why it cannot be decoded.
    No(Box<(ObjectMeta, String)>),
}

impl<'de, K: for<'v> Deserialize<'v>> Deserialize<'de> for Readable<K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Slim(mut value) = Slim::<Value>::deserialize(from)?;
        match K::deserialize(&value) {
            Ok(job) => Ok(Readable::Yes(job)),
            Err(why) => {
                let metadata = serde_json::from_value(value["metadata"].take()).unwrap_or_default();
                Ok(Readable::No(Box::new((metadata, why.to_string()))))
            }
        }
    }
}

semantics::resource_as! {
    impl [K: Resource] for Readable<K> as K {
        self => match self {
            Readable::Yes(job) => job.meta(),
            Readable::No(unreadable) => &unreadable.0,
        },
        match self {
            Readable::Yes(job) => job.meta_mut(),
            Readable::No(unreadable) => &mut unreadable.0,
        }
    }
}

/// A job that cannot be decoded.
pub(crate) struct Unreadable {
    /// The job.
    pub reference: ObjectReference,
    /// Why it cannot be decoded.
    pub why: String,
}

/// Those of a watch that are to be told about.
pub(crate) type Told = mpsc::Receiver<Unreadable>;

/// Passes on what can be decoded. A job that no longer can be keeps its last readable version, so that it is looked after as before;
/// `bare` makes one of metadata, to say that it was deleted.
pub(crate) fn readable<K: Resource<DynamicType = ()>>(
    events: impl Stream<Item = Result<Event<Readable<K>>, watcher::Error>>,
    bare: impl Fn(ObjectMeta) -> K,
) -> (impl Stream<Item = Result<Event<K>, watcher::Error>>, Told) {
    let (sender, told) = mpsc::channel(MOST_WAITING);
    let skipped = move |unreadable: Box<(ObjectMeta, String)>| {
        let (metadata, why) = *unreadable;
        let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
        tracing::warn!(kind = %K::kind(&()), ?namespace, ?name, why, "a job cannot be read");
        let reference = ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            namespace,
            name,
            uid: metadata.uid,
            ..ObjectReference::default()
        };
        // The log has it if nobody takes it.
        let _ = sender.try_send(Unreadable { reference, why });
    };
    let passed = events.try_filter_map(move |event| {
        ready(Ok(match event {
            Event::Init => Some(Event::Init),
            Event::InitDone => Some(Event::InitDone),
            Event::InitApply(Readable::Yes(job)) => Some(Event::InitApply(job)),
            Event::Apply(Readable::Yes(job)) => Some(Event::Apply(job)),
            Event::Delete(Readable::Yes(job)) => Some(Event::Delete(job)),
            Event::Delete(Readable::No(unreadable)) => Some(Event::Delete(bare(unreadable.0))),
            Event::InitApply(Readable::No(unreadable)) | Event::Apply(Readable::No(unreadable)) => {
                skipped(unreadable);
                None
            }
        }))
    });
    (passed, told)
}

#[cfg(test)]
mod tests {
    use api::MPIJob;
    use futures::{StreamExt, executor::block_on, stream};
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_that_cannot_be_decoded_leaves_the_others_alone() {
        let job = |name: &str, slots: i64| {
            let job = json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
                "metadata": { "name": name, "namespace": "team", "uid": name, "resourceVersion": "7" },
                "spec": { "slotsPerWorker": slots, "mpiReplicaSpecs": {} } });
            serde_json::from_value::<Readable<MPIJob>>(job).unwrap()
        };
        assert_eq!(
            job("odd", 1 << 40).resource_version().as_deref(),
            Some("7"),
            "the watch goes on after it"
        );
        let events = [
            Event::Init,
            Event::InitApply(job("well", 2)),
            Event::InitApply(job("odd", 1 << 40)),
            Event::InitDone,
            Event::Apply(job("well", 1 << 40)),
            Event::Delete(job("well", 1 << 40)),
        ];
        let bare = |metadata| MPIJob { metadata, spec: api::MPIJobSpec::default(), status: None };
        let (passed, mut told) = readable(stream::iter(events.map(Ok)), bare);
        let passed: Vec<String> = block_on(passed.collect::<Vec<_>>())
            .into_iter()
            .map(|event| match event.unwrap() {
                Event::InitApply(job) => format!("listed {}", job.name_any()),
                Event::Apply(job) => format!("changed {}", job.name_any()),
                Event::Delete(job) => format!("deleted {}", job.name_any()),
                Event::Init => "begin".to_owned(),
                Event::InitDone => "end".to_owned(),
            })
            .collect();
        assert_eq!(passed, ["begin", "listed well", "end", "deleted well"]);
        for name in ["odd", "well"] {
            let Unreadable { reference, why } = told.try_recv().unwrap();
            assert_eq!((reference.name.as_deref(), reference.kind.as_deref()), (Some(name), Some("MPIJob")));
            assert!(why.contains("i32"), "{why}");
        }
    }
}
