//! Types that stand for objects of a kind in a cache. The macro names `kube` of the crate that uses it; this
//! crate has no client.

/// Implements `kube::Resource` for a type that stands for objects of another one: it has that one's kind, and
/// metadata of its own, which two expressions return, shared and mutable.
///
/// ```text
/// resource_as! { impl [K: Resource] for Slim<K> as K { self => self.0.meta(), self.0.meta_mut() } }
/// ```
#[macro_export]
macro_rules! resource_as {
    (impl $([$($generics:tt)*])? for $type:ty as $of:ty { $this:ident => $meta:expr, $meta_mut:expr }) => {
        impl $(<$($generics)*>)? ::kube::Resource for $type {
            type DynamicType = <$of as ::kube::Resource>::DynamicType;
            type Scope = <$of as ::kube::Resource>::Scope;

            fn kind(dynamic: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                <$of as ::kube::Resource>::kind(dynamic)
            }

            fn group(dynamic: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                <$of as ::kube::Resource>::group(dynamic)
            }

            fn version(dynamic: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                <$of as ::kube::Resource>::version(dynamic)
            }

            fn api_version(dynamic: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                <$of as ::kube::Resource>::api_version(dynamic)
            }

            fn plural(dynamic: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                <$of as ::kube::Resource>::plural(dynamic)
            }

            fn meta(&$this) -> &::kube::core::ObjectMeta {
                $meta
            }

            fn meta_mut(&mut $this) -> &mut ::kube::core::ObjectMeta {
                $meta_mut
            }
        }
    };
}
