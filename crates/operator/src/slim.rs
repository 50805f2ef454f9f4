//! Objects that are decoded without `metadata.managedFields`. Nothing here reads these trees, and decoded they take more
//! memory and time than the rest of an object: some 25 KB for a new Worker pod.

use std::fmt;

use kube::Resource;
use kube::runtime::watcher::Event;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

/// An object of the API whose `managedFields` are skipped while it is decoded.
#[derive(Clone, Debug)]
pub(crate) struct Slim<K>(pub K);

impl<'de, K: Deserialize<'de>> Deserialize<'de> for Slim<K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        K::deserialize(Filtered { inner: from, level: Level::Object }).map(Self)
    }
}

semantics::resource_as! {
    impl [K: Resource] for Slim<K> as K {
        self => self.0.meta(), self.0.meta_mut()
    }
}

/// Returns the event of the object itself.
pub(crate) fn unwrapped<K>(event: Event<Slim<K>>) -> Event<K> {
    match event {
        Event::Apply(object) => Event::Apply(object.0),
        Event::Delete(object) => Event::Delete(object.0),
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(object.0),
        Event::InitDone => Event::InitDone,
    }
}

/// Where in the object a value is.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Object,
    Metadata,
    Other,
}

impl Level {
    fn of(self, key: &str) -> Self {
        if self == Self::Object && key == "metadata" { Self::Metadata } else { Self::Other }
    }
}

/// A deserializer, a visitor, the entries of a map, or the seed of a value, at a place in the object.
struct Filtered<T> {
    inner: T,
    level: Level,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Filtered<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(Filtered { inner: visitor, level: self.level })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_option(Filtered { inner: visitor, level: self.level })
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_ignored_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Filtered<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(formatter)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Entries { inner: entries, level: self.level, value: Level::Other })
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Filtered { inner: from, level: self.level })
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }
}

/// The entries of a map, and the place of the value that comes next.
struct Entries<A> {
    inner: A,
    level: Level,
    value: Level,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Entries<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        while let Some(key) = self.inner.next_key::<String>()? {
            if self.level == Level::Metadata && key == "managedFields" {
                self.inner.next_value::<IgnoredAny>()?;
                continue;
            }
            self.value = self.level.of(&key);
            return seed.deserialize(key.into_deserializer()).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        match self.value {
            Level::Metadata => self.inner.next_value_seed(Filtered { inner: seed, level: self.value }),
            _ => self.inner.next_value_seed(seed),
        }
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Filtered<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Filtered { inner: from, level: self.level })
    }
}

#[cfg(test)]
mod tests {
    use api::MPIJob;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::DynamicObject;
    use plan::kept::Pod;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn object() -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": { "managedFields": "kept", "metadata": "kept" },
            "metadata": {
                "name": "a", "labels": { "managedFields": "kept" }, "resourceVersion": "7",
                "managedFields": [{ "manager": "m", "fieldsV1": { "f:data": { "f:a": {} } } }],
            },
        })
    }

    fn both<K: Resource + DeserializeOwned>(object: &Value) -> (K, K) {
        let text = object.to_string();
        let mut whole: K = serde_json::from_str(&text).unwrap();
        assert!(whole.meta_mut().managed_fields.take().is_some(), "the object has managed fields");
        let slim: Slim<K> = serde_json::from_str(&text).unwrap();
        (whole, slim.0)
    }

    #[test]
    fn an_object_decodes_completely_but_for_its_managed_fields() {
        let (whole, slim) = both::<ConfigMap>(&object());
        assert_eq!(slim, whole);
        let (whole, slim) = both::<DynamicObject>(&object());
        assert_eq!(slim, whole);
        let (whole, slim) = both::<Pod>(&object());
        assert_eq!(slim, whole);
        let mut job = object();
        job["spec"] = json!({ "mpiReplicaSpecs": {} });
        let (whole, slim) = both::<MPIJob>(&job);
        assert_eq!(slim, whole);
    }

    #[test]
    fn an_object_of_a_wrong_shape_is_an_error() {
        for wrong in ["7", "[]", r#"{"metadata": []}"#, r#"{"metadata": {"labels": 7}}"#, r#"{"metadata": {"#]
        {
            let slim = serde_json::from_str::<Slim<ConfigMap>>(wrong);
            assert!(slim.is_err(), "{wrong}");
        }
        let empty = serde_json::from_str::<Slim<ConfigMap>>(r#"{"metadata": null}"#);
        assert_eq!(empty.unwrap().0, ConfigMap::default());
    }
}
