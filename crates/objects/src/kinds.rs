//! The kinds that are served: names, verbs, subresources, schemas, columns.
//!
//! Built-in kinds are in a table ([`builtin_kinds`]); kinds of a CustomResourceDefinition come from
//! [`super::kinds_of_crd`]. Names are those of Kubernetes' discovery documents (`kubernetes/api/discovery`, v1.36). The
//! table contains only kinds that are really supported.

mod apps;
mod recorded;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use k8s_openapi::api::{
    admissionregistration, authentication, authorization, autoscaling, batch, coordination, core, discovery,
    events, networking, policy, rbac, scheduling, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use serde_json::Value;

use crate::schema::{self, Schema};

/// The verbs of a stored kind.
pub const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The verbs of a namespace, which has no `deletecollection`.
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
/// The verbs of a kind that is only evaluated and never stored.
const ASK: &[&str] = &["create"];
/// The verbs of a stream, which GET or POST opens.
const CONNECT: &[&str] = &["create", "get"];
/// The verbs of the `status` and `scale` subresources.
const STATUS_VERBS: &[&str] = &["get", "patch", "update"];

/// A part of an object, or an action on it, with its own path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// Its name, e.g. `status`.
    pub name: String,
    /// The kind of its requests and responses: group, version and kind.
    pub takes: (String, String, String),
    /// Its verbs.
    pub verbs: &'static [&'static str],
}

/// The paths that an object's `scale` subresource reads and writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// The path of the desired number of replicas, e.g. `.spec.replicas`.
    pub spec_replicas: String,
    /// The path of the current number of replicas.
    pub status_replicas: String,
    /// The path of the selector, in its text form.
    pub label_selector: Option<String>,
}

/// A printer column of a custom kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// The OpenAPI format, often empty.
    pub format: String,
    /// What the column shows.
    pub description: String,
    /// 0 is always shown, greater values only with `-o wide`.
    pub priority: i64,
    /// The path of the value.
    pub json_path: String,
}

/// The rule for names of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain, 253 bytes.
    Subdomain,
    /// RFC 1123 label, 63 bytes.
    Label,
    /// Any path segment (RBAC).
    PathSegment,
}

type MakeSchema = fn() -> Schema;

/// The next serial number.
static SERIAL: AtomicU64 = AtomicU64::new(1);

/// A kind that is served.
#[derive(Clone)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind, e.g. `MPIJob`.
    pub kind: String,
    /// The kind of lists.
    pub list_kind: String,
    /// The resource's name in paths, e.g. `mpijobs`.
    pub plural: String,
    /// The singular name, in lower case.
    pub singular: String,
    /// Short names.
    pub short_names: Vec<String>,
    /// Categories, e.g. `all`.
    pub categories: Vec<String>,
    /// Whether objects are namespaced.
    pub namespaced: bool,
    /// The verbs of the objects themselves.
    pub verbs: &'static [&'static str],
    /// Subresources.
    pub subresources: Vec<Subresource>,
    /// Paths of the `scale` subresource, for a custom kind.
    pub scale: Option<ScalePaths>,
    /// Printer columns of a custom kind; those of built-in kinds are in `table`.
    pub columns: Vec<Column>,
    /// JSON paths that field selectors support (KEP-4358), for a custom kind.
    pub selectable_fields: Vec<String>,
    /// The rule for names of objects.
    pub name_rule: NameRule,
    /// Group and plural under which objects are stored. They differ for `events.k8s.io`, whose objects are stored as
    /// core Events.
    pub storage: (String, String),
    /// Whether this is the stored version.
    pub stored_version: bool,
    /// The warning for clients of a deprecated version.
    pub deprecation: Option<String>,
    serial: u64,
    stored_schema: Option<Arc<Schema>>,
    make_schema: Option<MakeSchema>,
    schema: Arc<OnceLock<Arc<Schema>>>,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.api_version(), self.kind)
    }
}

impl Kind {
    /// Creates a kind with the given names, its own storage and all verbs.
    pub fn new(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> Kind {
        Kind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced,
            verbs: ALL_VERBS,
            subresources: Vec::new(),
            scale: None,
            columns: Vec::new(),
            selectable_fields: Vec::new(),
            name_rule: NameRule::Subdomain,
            storage: (group.to_owned(), plural.to_owned()),
            stored_version: true,
            deprecation: None,
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            stored_schema: None,
            make_schema: None,
            schema: Arc::new(OnceLock::new()),
        }
    }

    /// Returns a number that no other kind of this process has, and that is not 0: one whose definition was changed is another.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Returns the storage path of objects in Kubernetes, which appears in messages.
    pub fn storage_folder(&self) -> String {
        let (group, plural) = (self.storage.0.as_str(), self.storage.1.as_str());
        match (group, plural) {
            ("", "services" | "endpoints") => {
                format!("services/{}", if plural == "services" { "specs" } else { plural })
            }
            ("", "nodes") => "minions".to_owned(),
            ("", "replicationcontrollers") => "controllers".to_owned(),
            ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
            ("apiextensions.k8s.io" | "apiregistration.k8s.io", _) => format!("{group}/{plural}"),
            _ if self.is_builtin() => plural.to_owned(),
            _ => format!("{group}/{plural}"),
        }
    }

    /// Sets the kind's schema.
    #[must_use]
    pub fn with_schema(mut self, schema: Schema) -> Kind {
        let cell = OnceLock::new();
        // Cannot fail: the cell is empty.
        let _ = cell.set(Arc::new(schema));
        self.schema = Arc::new(cell);
        self
    }

    /// Sets the schema of the CRD's stored version.
    #[must_use]
    pub fn with_stored_schema(mut self, schema: Option<&Arc<Schema>>) -> Kind {
        self.stored_schema = schema.cloned();
        self
    }

    /// Returns the schema of the stored version, if that is another version.
    pub fn stored_schema(&self) -> Option<&Schema> {
        self.stored_schema.as_deref()
    }

    /// Returns the kind's schema. That of a built-in kind is built on first use.
    pub fn schema(&self) -> &Arc<Schema> {
        self.schema.get_or_init(|| Arc::new(self.make_schema.map_or_else(Schema::anything, |make| make())))
    }

    /// Returns `group/version`, or `version` alone for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns `plural.group`, or `plural` alone for the core group; used in messages and RBAC.
    pub fn resource_name(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Returns whether the kind is built in, not defined by a CRD.
    pub fn is_builtin(&self) -> bool {
        self.make_schema.is_some()
    }

    /// Returns whether objects are stored, not just evaluated.
    pub fn is_stored(&self) -> bool {
        self.verbs.contains(&"get")
    }

    /// Returns the subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// Returns whether the kind has this group and name.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    /// Returns whether `object` has this kind and version.
    pub fn matches(&self, object: &Value) -> bool {
        object["kind"] == self.kind.as_str() && object["apiVersion"] == self.api_version().as_str()
    }

    /// Adds the `status` subresource.
    #[must_use]
    pub fn with_status(self) -> Kind {
        let takes = (self.group.clone(), self.version.clone(), self.kind.clone());
        self.with_subresource("status", takes, STATUS_VERBS)
    }

    /// Adds the `scale` subresource.
    #[must_use]
    pub fn with_scale(mut self, paths: ScalePaths) -> Kind {
        self.scale = Some(paths);
        self.with_subresource("scale", ("autoscaling".into(), "v1".into(), "Scale".into()), STATUS_VERBS)
    }

    fn with_subresource(
        mut self,
        name: &str,
        takes: (String, String, String),
        verbs: &'static [&'static str],
    ) -> Kind {
        self.subresources.push(Subresource { name: name.to_owned(), takes, verbs });
        self
    }

    fn action(self, name: &str, takes: [&str; 3], verbs: &'static [&'static str]) -> Kind {
        let [group, version, kind] = takes.map(str::to_owned);
        self.with_subresource(name, (group, version, kind), verbs)
    }

    fn short(mut self, names: &[&str]) -> Kind {
        self.short_names = names.iter().map(|s| (*s).to_owned()).collect();
        self
    }

    fn category(mut self, name: &str) -> Kind {
        self.categories.push(name.to_owned());
        self
    }

    pub(super) fn named(mut self, rule: NameRule) -> Kind {
        self.name_rule = rule;
        self
    }

    fn verbs(mut self, verbs: &'static [&'static str]) -> Kind {
        self.verbs = verbs;
        self
    }
}

/// Returns all built-in kinds, in the order of discovery.
pub fn builtin_kinds() -> &'static [Arc<Kind>] {
    static KINDS: LazyLock<Vec<Arc<Kind>>> = LazyLock::new(|| {
        let groups = [
            core_kinds(),
            work_kinds(),
            apps::kinds(),
            policy_kinds(),
            extension_kinds(),
            recorded::kinds(),
            review_kinds(),
        ];
        groups.into_iter().flatten().map(Arc::new).collect()
    });
    &KINDS
}

/// Returns a built-in kind by group and kind.
pub fn builtin_kind(group: &str, kind: &str) -> Option<&'static Arc<Kind>> {
    builtin_kinds().iter().find(|k| k.is(group, kind))
}

/// Returns the built-in kind that a subresource accepts; some kinds are accepted by subresources only.
pub fn accepted_kind(group: &str, kind: &str) -> Option<&'static Arc<Kind>> {
    subresource_kinds().iter().find(|known| known.is(group, kind)).or_else(|| builtin_kind(group, kind))
}

fn kind<T: schemars::JsonSchema>(
    group: &str,
    version: &str,
    kind: &str,
    plural: &str,
    namespaced: bool,
) -> Kind {
    let mut made = Kind::new(group, version, kind, plural, namespaced);
    made.make_schema = Some(schema::builtin::<T>);
    made
}

fn namespaced<T: schemars::JsonSchema>(group: &str, version: &str, name: &str, plural: &str) -> Kind {
    kind::<T>(group, version, name, plural, true)
}

fn global<T: schemars::JsonSchema>(group: &str, version: &str, name: &str, plural: &str) -> Kind {
    kind::<T>(group, version, name, plural, false)
}

fn core_kinds() -> Vec<Kind> {
    let bindings = ["", "v1", "Binding"];
    let mut endpoints = namespaced::<core::v1::Endpoints>("", "v1", "Endpoints", "endpoints").short(&["ep"]);
    endpoints.singular = "endpoints".to_owned();
    endpoints.deprecation =
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned());
    vec![
        namespaced::<core::v1::ConfigMap>("", "v1", "ConfigMap", "configmaps").short(&["cm"]),
        endpoints,
        namespaced::<core::v1::Event>("", "v1", "Event", "events")
            .named(NameRule::PathSegment)
            .short(&["ev"]),
        namespaced::<core::v1::LimitRange>("", "v1", "LimitRange", "limitranges").short(&["limits"]),
        global::<core::v1::Namespace>("", "v1", "Namespace", "namespaces")
            .short(&["ns"])
            .verbs(NAMESPACE_VERBS)
            .named(NameRule::Label)
            .action("finalize", ["", "v1", "Namespace"], &["update"])
            .with_status(),
        global::<core::v1::Node>("", "v1", "Node", "nodes").short(&["no"]).with_status(),
        namespaced::<core::v1::PersistentVolumeClaim>(
            "",
            "v1",
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
        )
        .short(&["pvc"])
        .with_status(),
        global::<core::v1::PersistentVolume>("", "v1", "PersistentVolume", "persistentvolumes")
            .short(&["pv"])
            .with_status(),
        namespaced::<core::v1::Pod>("", "v1", "Pod", "pods")
            .short(&["po"])
            .category("all")
            .action("attach", ["", "v1", "PodAttachOptions"], CONNECT)
            .action("binding", bindings, &["create"])
            .action("eviction", ["policy", "v1", "Eviction"], &["create"])
            .action("exec", ["", "v1", "PodExecOptions"], CONNECT)
            .action("log", ["", "v1", "Pod"], &["get"])
            .action("portforward", ["", "v1", "PodPortForwardOptions"], CONNECT)
            .with_status(),
        namespaced::<core::v1::ResourceQuota>("", "v1", "ResourceQuota", "resourcequotas")
            .short(&["quota"])
            .with_status(),
        namespaced::<core::v1::Secret>("", "v1", "Secret", "secrets"),
        namespaced::<core::v1::ServiceAccount>("", "v1", "ServiceAccount", "serviceaccounts")
            .short(&["sa"])
            .action("token", ["authentication.k8s.io", "v1", "TokenRequest"], &["create"]),
        namespaced::<core::v1::Service>("", "v1", "Service", "services")
            .short(&["svc"])
            .category("all")
            .named(NameRule::Label)
            .with_status(),
    ]
}

fn work_kinds() -> Vec<Kind> {
    let mut event = namespaced::<events::v1::Event>("events.k8s.io", "v1", "Event", "events").short(&["ev"]);
    event.storage = (String::new(), "events".to_owned());
    vec![
        namespaced::<batch::v1::CronJob>("batch", "v1", "CronJob", "cronjobs")
            .short(&["cj"])
            .category("all")
            .with_status(),
        namespaced::<batch::v1::Job>("batch", "v1", "Job", "jobs").category("all").with_status(),
        namespaced::<coordination::v1::Lease>("coordination.k8s.io", "v1", "Lease", "leases"),
        namespaced::<discovery::v1::EndpointSlice>(
            "discovery.k8s.io",
            "v1",
            "EndpointSlice",
            "endpointslices",
        ),
        event,
        global::<scheduling::v1::PriorityClass>(
            "scheduling.k8s.io",
            "v1",
            "PriorityClass",
            "priorityclasses",
        )
        .short(&["pc"]),
        global::<storage::v1::StorageClass>("storage.k8s.io", "v1", "StorageClass", "storageclasses")
            .short(&["sc"]),
    ]
}

fn policy_kinds() -> Vec<Kind> {
    const RBAC: &str = "rbac.authorization.k8s.io";
    vec![
        namespaced::<networking::v1::NetworkPolicy>(
            "networking.k8s.io",
            "v1",
            "NetworkPolicy",
            "networkpolicies",
        )
        .short(&["netpol"]),
        namespaced::<policy::v1::PodDisruptionBudget>(
            "policy",
            "v1",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
        )
        .named(NameRule::PathSegment)
        .short(&["pdb"])
        .with_status(),
        global::<rbac::v1::ClusterRoleBinding>(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings")
            .named(NameRule::PathSegment),
        global::<rbac::v1::ClusterRole>(RBAC, "v1", "ClusterRole", "clusterroles")
            .named(NameRule::PathSegment),
        namespaced::<rbac::v1::RoleBinding>(RBAC, "v1", "RoleBinding", "rolebindings")
            .named(NameRule::PathSegment),
        namespaced::<rbac::v1::Role>(RBAC, "v1", "Role", "roles").named(NameRule::PathSegment),
    ]
}

fn extension_kinds() -> Vec<Kind> {
    const ADMISSION: &str = "admissionregistration.k8s.io";
    vec![
        global::<admissionregistration::v1::MutatingWebhookConfiguration>(
            ADMISSION,
            "v1",
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
        )
        .category("api-extensions"),
        global::<admissionregistration::v1::ValidatingWebhookConfiguration>(
            ADMISSION,
            "v1",
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
        )
        .category("api-extensions"),
        global::<apiextensions::v1::CustomResourceDefinition>(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
        )
        .short(&["crd", "crds"])
        .category("api-extensions")
        .with_status(),
    ]
}

/// Kinds that are evaluated and never stored.
fn review_kinds() -> Vec<Kind> {
    const WHO: &str = "authentication.k8s.io";
    const MAY: &str = "authorization.k8s.io";
    vec![
        global::<authentication::v1::SelfSubjectReview>(WHO, "v1", "SelfSubjectReview", "selfsubjectreviews")
            .verbs(ASK),
        global::<authentication::v1::TokenReview>(WHO, "v1", "TokenReview", "tokenreviews").verbs(ASK),
        namespaced::<authorization::v1::LocalSubjectAccessReview>(
            MAY,
            "v1",
            "LocalSubjectAccessReview",
            "localsubjectaccessreviews",
        )
        .verbs(ASK),
        global::<authorization::v1::SelfSubjectAccessReview>(
            MAY,
            "v1",
            "SelfSubjectAccessReview",
            "selfsubjectaccessreviews",
        )
        .verbs(ASK),
        global::<authorization::v1::SelfSubjectRulesReview>(
            MAY,
            "v1",
            "SelfSubjectRulesReview",
            "selfsubjectrulesreviews",
        )
        .verbs(ASK),
        global::<authorization::v1::SubjectAccessReview>(
            MAY,
            "v1",
            "SubjectAccessReview",
            "subjectaccessreviews",
        )
        .verbs(ASK),
    ]
}

/// Returns the kinds that only subresources use: `Binding`, `Eviction`, `TokenRequest`, `Scale`.
pub fn subresource_kinds() -> &'static [Arc<Kind>] {
    static KINDS: LazyLock<Vec<Arc<Kind>>> = LazyLock::new(|| {
        let made = vec![
            namespaced::<core::v1::Binding>("", "v1", "Binding", "bindings").verbs(ASK),
            namespaced::<policy::v1::Eviction>("policy", "v1", "Eviction", "evictions").verbs(ASK),
            namespaced::<authentication::v1::TokenRequest>(
                "authentication.k8s.io",
                "v1",
                "TokenRequest",
                "tokenrequests",
            )
            .verbs(ASK),
            namespaced::<autoscaling::v1::Scale>("autoscaling", "v1", "Scale", "scales").verbs(STATUS_VERBS),
        ];
        made.into_iter().map(Arc::new).collect()
    });
    &KINDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_kind_has_a_schema_of_its_own_name() {
        for kind in builtin_kinds().iter().chain(subresource_kinds()) {
            let schema = kind.schema();
            let root = schema.node(schema.root());
            assert!(
                root.definition.as_deref().is_some_and(|d| d.ends_with(&format!(".{}", kind.kind))),
                "{kind:?}"
            );
            assert!(root.properties.contains_key("metadata"), "{kind:?}");
        }
    }

    #[test]
    fn names_are_unique_within_a_version() {
        let mut seen = std::collections::BTreeSet::new();
        for kind in builtin_kinds() {
            assert!(seen.insert((kind.group.clone(), kind.version.clone(), kind.plural.clone())), "{kind:?}");
        }
    }
}
