//! The kinds that programs use, from `fixtures/`.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::random::Random;

const KINDS: &str = include_str!("../../fixtures/kinds.yaml");
const DEFINITIONS: &str = include_str!("../../fixtures/definitions.yaml");
const MPI_JOB: &str = include_str!("../../../../deploy/crd/kubeflow.org_mpijobs.yaml");

/// A kind, with valid objects of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The resource.
    pub plural: String,
    /// The kind.
    pub kind: String,
    /// Whether objects are namespaced.
    pub namespaced: bool,
    /// Its relative frequency in programs.
    pub weight: usize,
    /// Whether a CustomResourceDefinition defines it.
    #[serde(default)]
    pub custom: bool,
    /// Whether it has a status subresource.
    #[serde(default)]
    pub status: bool,
    /// Whether it has a scale subresource.
    #[serde(default)]
    pub scale: bool,
    /// The lists that a strategic merge patch merges.
    #[serde(default)]
    pub lists: Vec<List>,
    /// The statuses to write.
    #[serde(default)]
    pub statuses: Vec<Value>,
    /// Objects without type and metadata.
    pub objects: Vec<Value>,
}

/// A list in an object, and the key of its items.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Its path.
    pub path: String,
    /// The merge key; without one, the list is replaced.
    #[serde(default)]
    pub key: Option<String>,
    /// Whether its items are scalars, merged as a set.
    #[serde(default)]
    pub primitive: bool,
}

/// Returns all kinds.
///
/// # Panics
/// When the committed fixtures cannot be read, which a test excludes.
#[expect(clippy::expect_used, reason = "the fixtures are part of the program, and a test reads them")]
pub fn all() -> &'static [Kind] {
    static ALL: LazyLock<Vec<Kind>> =
        LazyLock::new(|| serde_saphyr::from_str(KINDS).expect("fixtures/kinds.yaml"));
    &ALL
}

/// Picks a kind.
pub fn pick(random: &mut Random) -> &'static Kind {
    let weights: Vec<(usize, &'static Kind)> = all().iter().map(|kind| (kind.weight, kind)).collect();
    random.weighted::<&'static Kind>(&weights)
}

/// Returns the CustomResourceDefinitions that programs need.
///
/// # Errors
/// When the fixtures cannot be read.
pub fn definitions() -> Result<Vec<Value>, String> {
    let mut all: Vec<Value> =
        serde_saphyr::from_str(DEFINITIONS).map_err(|error| format!("fixtures/definitions.yaml: {error}"))?;
    all.push(serde_saphyr::from_str(MPI_JOB).map_err(|error| format!("deploy/crd: {error}"))?);
    Ok(all)
}

impl Kind {
    /// Returns `group/version`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the path at which objects are listed and created.
    pub fn collection(&self) -> String {
        let root = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        let scope = if self.namespaced { "/namespaces/${ns}" } else { "" };
        format!("{root}/{}{scope}/{}", self.version, self.plural)
    }

    /// Returns the path of an object.
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.collection())
    }

    /// Returns a name that no other program uses.
    pub fn name(&self, short: &str) -> String {
        if self.namespaced { short.to_owned() } else { format!("${{ns}}-{short}") }
    }

    /// Returns an object with type and metadata.
    pub fn object(&self, name: &str, content: &Value) -> Value {
        let labels = json!({"twin": "${ns}", "app": name.rsplit('-').next().unwrap_or(name)});
        let mut object = json!({"apiVersion": self.api_version(), "kind": self.kind, "metadata": {"name": name, "labels": labels}});
        if let (Some(fields), Some(content)) = (object.as_object_mut(), content.as_object()) {
            fields.extend(content.clone());
        }
        object
    }
}
