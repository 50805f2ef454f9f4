//! Schemas of objects: what a field is, what it defaults to, which values it takes, how its lists are merged.
//!
//! One form serves built-in kinds (from the schemas of `k8s-openapi` with the facts of `overlay`) and kinds made by a
//! CustomResourceDefinition (structural schemas, KEP-1693/KEP-4008 and `apiextensions-apiserver/pkg/apiserver/schema`).
//! A schema is immutable once built; objects come in as JSON values and go out changed ([`Schema::prune`],
//! [`Schema::default`]) or as faults ([`Schema::validate`]). It never reads a clock, a file or the network.

mod builtin;
mod cel;
mod convert;
pub(crate) mod cost;
mod default;
mod embedded;
mod formats;
mod go;
mod made;
mod normalize;
mod overlay;
mod parse;
mod prune;
mod validate;

use std::collections::BTreeMap;

use std::sync::OnceLock;

use regex::Regex;
use serde_json::Value;

pub use builtin::builtin;
pub use cel::compile_faults;
pub use go::{GoField, Zero};
pub use normalize::DecodeError;
pub use parse::{MAX_NODES, SchemaError};

/// How deep an object may be nested before it is refused.
pub const MAX_DEPTH: usize = 128;

/// One node of a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(u32);

/// The JSON type that a schema asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A JSON object.
    Object,
    /// A JSON array.
    Array,
    /// A string.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
}

impl Type {
    /// The type's name in JSON schema.
    pub fn name(self) -> &'static str {
        match self {
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
        }
    }
}

/// How two versions of a list are merged by server-side apply (`x-kubernetes-list-type`).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum ListType {
    /// Replaced as a whole.
    #[default]
    Atomic,
    /// A set of scalars.
    Set,
    /// A map whose keys are these fields of the items.
    Map(Vec<String>),
}

/// How strategic merge patch treats a field (`x-kubernetes-patch-strategy`, `x-kubernetes-patch-merge-key`).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PatchStrategy {
    /// Lists are merged rather than replaced.
    pub merge: bool,
    /// Fields not named in `$retainKeys` are cleared.
    pub retain_keys: bool,
    /// Maps are replaced rather than merged.
    pub replace: bool,
    /// The field of the items by which they are told apart; none for lists of scalars.
    pub merge_key: Option<String>,
}

/// A field of an object: its schema, and what belongs to the field rather than to its type.
#[derive(Clone, Debug)]
pub struct Property {
    /// The field's schema.
    pub node: NodeId,
    /// How strategic merge patch treats it.
    pub strategy: PatchStrategy,
    /// What it is, for `kubectl explain`.
    pub description: Option<String>,
    /// Whether the field as a whole is atomic although its type is not.
    pub atomic: bool,
    /// What Go's encoding makes of it, for a field of a built-in type.
    pub go: GoField,
}

/// Fields of an object beyond its named ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Additional {
    /// There are none.
    #[default]
    Forbidden,
    /// Any, with any value.
    Anything,
    /// Any name, with values of this schema: the object is a map.
    Of(NodeId),
}

/// One rule on values that stands in `allOf`, `anyOf`, `oneOf` or `not`.
#[derive(Clone, Debug, Default)]
pub struct Junctors {
    /// All must hold.
    pub all_of: Vec<NodeId>,
    /// At least one must hold.
    pub any_of: Vec<NodeId>,
    /// Exactly one must hold.
    pub one_of: Vec<NodeId>,
    /// Must not hold.
    pub not: Option<NodeId>,
}

/// Bounds on a value.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// `enum`.
    pub one_of: Vec<Value>,
    /// `minimum` and whether it is exclusive.
    pub minimum: Option<(f64, bool)>,
    /// `maximum` and whether it is exclusive.
    pub maximum: Option<(f64, bool)>,
    /// `multipleOf`.
    pub multiple_of: Option<f64>,
    /// `minLength`, in characters.
    pub min_length: Option<u64>,
    /// `maxLength`, in characters.
    pub max_length: Option<u64>,
    /// `minItems`.
    pub min_items: Option<u64>,
    /// `maxItems`.
    pub max_items: Option<u64>,
    /// `minProperties`.
    pub min_properties: Option<u64>,
    /// `maxProperties`.
    pub max_properties: Option<u64>,
    /// `uniqueItems`.
    pub unique_items: bool,
    /// `pattern`: as written, and compiled.
    pub pattern: Option<(String, Regex)>,
}

/// What is known of one value.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The OpenAPI name of the type, if it has one of its own.
    pub definition: Option<String>,
    /// What it is, for `kubectl explain`.
    pub description: Option<String>,
    /// Its JSON type; `None` takes any.
    pub kind: Option<Type>,
    /// `null` is a value.
    pub nullable: bool,
    /// `format`.
    pub format: Option<String>,
    /// Named fields.
    pub properties: BTreeMap<String, Property>,
    /// Other fields.
    pub additional: Additional,
    /// The items of an array.
    pub items: Option<NodeId>,
    /// Fields that must be there.
    pub required: Vec<String>,
    /// The value of an absent field.
    pub default: Option<Value>,
    /// Bounds.
    pub bounds: Bounds,
    /// Junctors.
    pub junctors: Junctors,
    /// How the array is merged.
    pub list_type: ListType,
    /// Whether `x-kubernetes-list-type` was written.
    pub list_type_given: bool,
    /// The object is replaced as a whole.
    pub atomic: bool,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// A resource quantity of a built-in type.
    pub quantity: bool,
    /// Has `x-kubernetes-validations`.
    pub has_rules: bool,
}

impl Node {
    /// Whether the object is a map from free names to values of one schema.
    pub fn map_values(&self) -> Option<NodeId> {
        match self.additional {
            Additional::Of(node) => Some(node),
            _ => None,
        }
    }

    /// Whether nothing at all is known of the value.
    pub fn is_unstructured(&self) -> bool {
        self.kind.is_none() && !self.int_or_string && self.properties.is_empty() && self.items.is_none()
    }
}

/// A schema: nodes that refer to each other, so that shared and recursive types stand once.
#[derive(Debug)]
pub struct Schema {
    nodes: Vec<Node>,
    root: NodeId,
    /// The schema as JSON, with rules; only kinds of a CRD have one.
    source: Option<Value>,
    /// The JSON of each node that has rules, and where it stands in the schema.
    rule_sources: Vec<(NodeId, Value)>,
    rule_paths: Vec<String>,
    rules: OnceLock<Box<cel::Rules>>,
    builtin: bool,
    /// Whether any node has a default.
    has_defaults: bool,
}

impl Schema {
    /// Builds the schema of a version of a CRD from its `openAPIV3Schema`.
    ///
    /// # Errors
    /// Where the text is no schema at all, or too large; the finer rules on structural schemas are
    /// [`crate::objects::validate_crd`]'s.
    pub fn of_crd(open_api_v3_schema: &Value) -> Result<Schema, SchemaError> {
        parse::of_crd(open_api_v3_schema)
    }

    /// A schema that takes any object.
    pub fn anything() -> Schema {
        let node = Node { kind: Some(Type::Object), preserve_unknown: true, ..Node::default() };
        Schema::new(vec![node], NodeId(0))
    }

    fn new(nodes: Vec<Node>, root: NodeId) -> Schema {
        Schema {
            has_defaults: nodes.iter().any(|node| node.default.is_some()),
            nodes,
            root,
            source: None,
            rule_sources: Vec::new(),
            rule_paths: Vec::new(),
            rules: OnceLock::new(),
            builtin: false,
        }
    }

    /// The root node.
    pub fn root(&self) -> NodeId {
        self.root
    }

    /// A node by its number.
    pub fn node(&self, id: NodeId) -> &Node {
        // Ids are made by `parse` only, and always of nodes of the same schema.
        &self.nodes[id.0 as usize]
    }

    /// The schema of the field `name` of `node`, named or additional.
    pub fn field(&self, node: NodeId, name: &str) -> Option<NodeId> {
        let node = self.node(node);
        node.properties.get(name).map(|p| p.node).or_else(|| node.map_values())
    }

    /// The node at a path of field names from the root; arrays are stepped into.
    pub fn at(&self, path: &[&str]) -> Option<NodeId> {
        path.iter().try_fold(self.root, |at, name| {
            let at = self.node(at).items.unwrap_or(at);
            self.field(at, name)
        })
    }

    /// Whether the schema is that of a built-in kind.
    pub fn is_builtin(&self) -> bool {
        self.builtin
    }

    /// The schema as it stands in the CRD.
    pub fn source(&self) -> Option<&Value> {
        self.source.as_ref()
    }
}
