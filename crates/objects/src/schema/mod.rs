//! Schemas of objects: the types, defaults and bounds of fields, and how lists are merged.
//!
//! One representation serves built-in kinds (from the schemas of `k8s-openapi` with the facts of `overlay`) and custom
//! kinds (structural schemas, KEP-1693/KEP-4008 and `apiextensions-apiserver/pkg/apiserver/schema`). A schema is
//! immutable once built. Input is an object as JSON value; output is the changed object ([`Schema::prune`],
//! [`Schema::default`]) or faults ([`Schema::validate`]). It never reads a clock, a file or the network.

mod cel;
mod convert;
pub mod cost;
mod default;
mod embedded;
mod formats;
mod go;
mod made;
mod normalize;
mod overlay;
mod parse;
mod passed;
mod prune;
mod size;
mod validate;

use std::collections::BTreeMap;

use std::sync::OnceLock;

use regex::Regex;
use serde_json::Value;

pub use cel::compile_faults;
pub use go::{GoField, Zero};
pub use normalize::DecodeError;
pub use parse::{MAX_NODES, SchemaError, builtin};

/// The deepest nesting of an object; a deeper one is rejected.
pub const MAX_DEPTH: usize = 128;

/// One node of a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(u32);

/// The JSON type of a value.
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
    /// Returns the type's name in JSON schema.
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

/// How server-side apply merges a list (`x-kubernetes-list-type`).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum ListType {
    /// Replaced as a whole.
    #[default]
    Atomic,
    /// A set of scalars.
    Set,
    /// A map, keyed by these fields of the items.
    Map(Vec<String>),
}

/// How strategic merge patch treats a field (`x-kubernetes-patch-strategy`, `x-kubernetes-patch-merge-key`).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PatchStrategy {
    /// Whether lists are merged rather than replaced.
    pub merge: bool,
    /// Whether fields not named in `$retainKeys` are cleared.
    pub retain_keys: bool,
    /// Whether maps are replaced rather than merged.
    pub replace: bool,
    /// The field that identifies items; `None` for lists of scalars.
    pub merge_key: Option<String>,
}

/// A field of an object: its schema, and the properties of the field itself rather than of its type.
#[derive(Clone, Debug)]
pub struct Property {
    /// The field's schema.
    pub node: NodeId,
    /// How strategic merge patch treats it.
    pub strategy: PatchStrategy,
    /// The description for `kubectl explain`.
    pub description: Option<String>,
    /// Whether the field as a whole is atomic although its type is not.
    pub atomic: bool,
    /// Its Go encoding, for a field of a built-in type.
    pub go: GoField,
}

/// The fields of an object besides its named ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Additional {
    /// No other fields.
    #[default]
    Forbidden,
    /// Any fields with any value.
    Anything,
    /// Any names, with values of this schema: the object is a map.
    Of(NodeId),
}

/// The combinators `allOf`, `anyOf`, `oneOf` and `not` of a value.
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

/// The schema of one value.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The OpenAPI name of the type, if it has one.
    pub definition: Option<String>,
    /// The description for `kubectl explain`.
    pub description: Option<String>,
    /// Its JSON type; `None` accepts any.
    pub kind: Option<Type>,
    /// Whether `null` is valid.
    pub nullable: bool,
    /// `format`.
    pub format: Option<String>,
    /// Named fields.
    pub properties: BTreeMap<String, Property>,
    /// Other fields.
    pub additional: Additional,
    /// The items of an array.
    pub items: Option<NodeId>,
    /// Required fields.
    pub required: Vec<String>,
    /// The default of an absent field.
    pub default: Option<Value>,
    /// Bounds.
    pub bounds: Bounds,
    /// Combinators.
    pub junctors: Junctors,
    /// How server-side apply merges the array.
    pub list_type: ListType,
    /// Whether `x-kubernetes-list-type` is given explicitly.
    pub list_type_given: bool,
    /// Whether the object is replaced as a whole.
    pub atomic: bool,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// Whether it is a resource quantity of a built-in type.
    pub quantity: bool,
    /// Whether it has `x-kubernetes-validations`.
    pub has_rules: bool,
}

impl Node {
    /// Returns the schema of the values, if the object is a map with arbitrary keys.
    pub fn map_values(&self) -> Option<NodeId> {
        match self.additional {
            Additional::Of(node) => Some(node),
            _ => None,
        }
    }

    /// Returns whether the schema does not describe the value at all.
    pub fn is_unstructured(&self) -> bool {
        self.kind.is_none() && !self.int_or_string && self.properties.is_empty() && self.items.is_none()
    }
}

/// A schema: nodes that refer to each other, so that shared and recursive types occur once.
#[derive(Debug)]
pub struct Schema {
    nodes: Vec<Node>,
    root: NodeId,
    /// The schema as JSON, with rules, for a custom kind. As text: it is seldom read, and takes a tenth of the memory.
    source: Option<Box<str>>,
    /// Each node with rules, and its JSON, as text for the same reason.
    rule_sources: Vec<(NodeId, Box<str>)>,
    rule_paths: Vec<String>,
    rules: OnceLock<Box<cel::Rules>>,
    builtin: bool,
    /// Whether any node has a default.
    has_defaults: bool,
}

/// Reads a schema that was written from a value.
fn read(source: &str) -> Value {
    serde_json::from_str(source).unwrap_or_default()
}

impl Schema {
    /// Builds the schema of a version of a CRD from its `openAPIV3Schema`.
    ///
    /// # Errors
    /// When it is not a schema, or too large. [`crate::validate_crd`] checks the finer rules of structural
    /// schemas.
    pub fn of_crd(open_api_v3_schema: &Value) -> Result<Schema, SchemaError> {
        parse::of_crd(open_api_v3_schema)
    }

    /// Returns a schema that accepts any object.
    pub fn anything() -> Schema {
        let node = Node { kind: Some(Type::Object), preserve_unknown: true, ..Node::default() };
        Schema::new(vec![node], NodeId(0))
    }

    fn new(mut nodes: Vec<Node>, root: NodeId) -> Schema {
        // As it grew, it doubled; a schema is kept for as long as its kind is served.
        nodes.shrink_to_fit();
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

    /// Returns the root node.
    pub fn root(&self) -> NodeId {
        self.root
    }

    /// Returns a node by its id.
    pub fn node(&self, id: NodeId) -> &Node {
        // Only `parse` creates ids, and always for nodes of the same schema.
        &self.nodes[id.0 as usize]
    }

    /// Returns the schema of the field `name` of `node`, whether named or additional.
    pub fn field(&self, node: NodeId, name: &str) -> Option<NodeId> {
        let node = self.node(node);
        node.properties.get(name).map(|p| p.node).or_else(|| node.map_values())
    }

    /// Returns the node at a path of field names from the root; arrays are entered implicitly.
    pub fn at(&self, path: &[&str]) -> Option<NodeId> {
        path.iter().try_fold(self.root, |at, name| {
            let at = self.node(at).items.unwrap_or(at);
            self.field(at, name)
        })
    }

    /// Returns whether this is the schema of a built-in kind.
    pub fn is_builtin(&self) -> bool {
        self.builtin
    }

    /// Returns the schema as it is in the CRD.
    pub fn source(&self) -> Option<Value> {
        self.source.as_deref().map(read)
    }
}
