//! Objects as a cache keeps them when there are many. A pod template, decoded, is some 10 KB of mostly empty fields; as JSON it
//! is one or two.

use std::marker::PhantomData;

use kube::Resource;
use kube::core::ObjectMeta;
use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Deserializer, Serialize};

use crate::Error;

/// An object of which only the metadata is decoded. [`Packed::whole`] decodes the rest.
#[derive(Clone, Debug)]
pub struct Packed<K> {
    metadata: ObjectMeta,
    /// The object without its metadata, as JSON.
    rest: Box<str>,
    of: PhantomData<fn() -> K>,
}

impl<K: Resource + Serialize + DeserializeOwned> Packed<K> {
    /// Packs an object.
    ///
    /// # Errors
    /// [`Error::Encode`] if the object is not JSON; no object of the API is known to be that.
    pub fn of(object: K) -> Result<Self, Error> {
        Self::split(object).map_err(Error::Encode)
    }

    fn split(mut object: K) -> Result<Self, serde_json::Error> {
        let mut metadata = std::mem::take(object.meta_mut());
        // No controller reads them, and they are longer than the rest.
        metadata.managed_fields = None;
        let rest = serde_json::to_string(&object)?.into();
        Ok(Self { metadata, rest, of: PhantomData })
    }

    /// The object.
    ///
    /// # Errors
    /// [`Error::Decode`]; none are known, because the object was encoded from a value of the same type.
    pub fn whole(&self) -> Result<K, Error> {
        let mut object: K = serde_json::from_str(&self.rest).map_err(Error::Decode)?;
        *object.meta_mut() = self.metadata.clone();
        Ok(object)
    }
}

impl<'de, K: Resource + Serialize + DeserializeOwned> Deserialize<'de> for Packed<K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::split(K::deserialize(from)?).map_err(de::Error::custom)
    }
}

semantics::resource_as! {
    impl [K: Resource] for Packed<K> as K {
        self => &self.metadata, &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::batch::v1::Job;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_the_same_after_it_was_packed() {
        let object = json!({ "apiVersion": "batch/v1", "kind": "Job",
            "metadata": { "name": "train", "namespace": "team", "uid": "1", "resourceVersion": "7",
                "ownerReferences": [{ "apiVersion": "v1", "kind": "K", "name": "n", "uid": "2", "controller": true }] },
            "spec": { "suspend": true, "template": { "metadata": { "labels": { "x": "y" } }, "spec": { "containers": [
                { "name": "c", "image": "i", "resources": { "limits": { "memory": "1.5Gi" } } }] } } },
            "status": { "startTime": "2026-01-02T03:04:05Z" } });
        let job: Job = serde_json::from_value(object).unwrap();
        let packed = Packed::of(job.clone()).unwrap();
        assert_eq!(packed.meta().name.as_deref(), Some("train"));
        assert!(!packed.rest.contains("ownerReferences") && packed.rest.contains("1.5Gi"), "{}", packed.rest);
        assert_eq!(packed.whole().unwrap(), job);
    }

    #[test]
    fn managed_fields_are_not_kept() {
        let object = json!({ "metadata": { "name": "n", "managedFields": [{ "manager": "m", "operation": "Update" }] },
            "spec": { "template": {} } });
        let packed: Packed<Job> = serde_json::from_value(object).unwrap();
        assert_eq!(packed.whole().unwrap().metadata.managed_fields, None);
    }
}
