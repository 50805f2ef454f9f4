//! Parses a JSON schema, of a CRD or of `schemars`, into the nodes of a [`Schema`].
//!
//! References (`$ref` to `#/$defs/…`) become shared nodes, so recursive types terminate. It validates only what
//! building needs; whether a CRD's schema is structural is checked elsewhere.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

use super::go::{self, GoField};
use super::overlay::{ATOMIC_TYPES, FIELD_FACTS, FieldFact};
use super::{
    Additional, Bounds, Junctors, ListType, MAX_DEPTH, Node, NodeId, PatchStrategy, Property, Schema, Type,
};

/// The most nodes of a schema.
pub const MAX_NODES: usize = 65_536;
/// The size limit of a compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;
const DEFS: &str = "#/$defs/";

/// Why a schema could not be parsed.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// Not an object.
    #[error("{0}: a schema must be an object")]
    NotAnObject(String),
    /// Too many nodes, or nested too deeply.
    #[error("{0}: the schema is too large or too deep")]
    TooLarge(String),
    /// A pattern that is not a regular expression.
    #[error("{0}: pattern {1:?} is not a valid regular expression")]
    Pattern(String, String),
    /// An unknown reference.
    #[error("{0}: unknown reference {1}")]
    Reference(String, String),
}

pub(super) fn of_crd(source: &Value) -> Result<Schema, SchemaError> {
    let mut reader = Reader::new(None);
    let root = reader.node(source, "openAPIV3Schema", 0)?;
    reader.add_type_and_object_meta(root);
    let (rule_paths, rule_sources) =
        reader.rules.into_iter().map(|(path, id, source)| (path, (id, source))).unzip();
    let source = Some(source.to_string().into());
    Ok(Schema { source, rule_sources, rule_paths, ..Schema::new(reader.nodes, root) })
}

/// Builds the schema of the built-in type `T`, from that of `schemars` in `k8s-openapi` and the table in `overlay`. It
/// takes some milliseconds; [`crate::Kind::schema`] caches it.
pub fn builtin<T: JsonSchema>() -> Schema {
    let mut source = SchemaGenerator::default().into_root_schema_for::<T>().to_value();
    if let Value::Object(map) = &mut source {
        map.insert("title".to_owned(), Value::String(T::schema_name().into_owned()));
    }
    match of_builtin(&source) {
        Ok(schema) => schema,
        Err(error) => {
            // Only a change of k8s-openapi can cause this; the test of all kinds would detect it.
            tracing::error!(%error, kind = %T::schema_name(), "a built-in schema could not be read");
            Schema::anything()
        }
    }
}

/// Parses a root schema of `schemars`, with its shared types in `$defs`.
fn of_builtin(source: &Value) -> Result<Schema, SchemaError> {
    let defs = source.get("$defs").and_then(Value::as_object);
    let mut reader = Reader::new(defs);
    let title = source.get("title").and_then(Value::as_str).map(str::to_owned);
    reader.owner = title;
    let root = reader.node(source, "root", 0)?;
    Ok(Schema { builtin: true, ..Schema::new(reader.nodes, root) })
}

/// Returns the schema of `metadata`, shared by all kinds.
fn object_meta() -> &'static Schema {
    static META: LazyLock<Schema> =
        LazyLock::new(builtin::<k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>);
    &META
}

struct Reader<'a> {
    defs: Option<&'a Map<String, Value>>,
    known: BTreeMap<String, NodeId>,
    nodes: Vec<Node>,
    /// The built-in type being parsed.
    owner: Option<String>,
    /// The places with rules: path, node, and the node's JSON.
    rules: Vec<(String, NodeId, Box<str>)>,
}

impl<'a> Reader<'a> {
    fn new(defs: Option<&'a Map<String, Value>>) -> Self {
        Reader { defs, known: BTreeMap::new(), nodes: Vec::new(), owner: None, rules: Vec::new() }
    }

    fn add(&mut self, node: Node, at: &str) -> Result<NodeId, SchemaError> {
        if self.nodes.len() >= MAX_NODES {
            return Err(SchemaError::TooLarge(at.to_owned()));
        }
        self.nodes.push(node);
        Ok(NodeId((self.nodes.len() - 1) as u32))
    }

    fn node(&mut self, value: &Value, at: &str, depth: usize) -> Result<NodeId, SchemaError> {
        if depth > MAX_DEPTH {
            return Err(SchemaError::TooLarge(at.to_owned()));
        }
        if let Value::Bool(_) = value {
            return self.add(Node { preserve_unknown: true, ..Node::default() }, at);
        }
        let Some(map) = value.as_object() else { return Err(SchemaError::NotAnObject(at.to_owned())) };
        if self.defs.is_some()
            && let Some(Value::String(reference)) = map.get("$ref")
        {
            return self.reference(reference, at, depth);
        }
        let id = self.add(Node::default(), at)?;
        self.fill(id, map, at, depth)?;
        Ok(id)
    }

    fn reference(&mut self, reference: &str, at: &str, depth: usize) -> Result<NodeId, SchemaError> {
        let unknown = || SchemaError::Reference(at.to_owned(), reference.to_owned());
        let name = reference.strip_prefix(DEFS).ok_or_else(unknown)?;
        if let Some(id) = self.known.get(name) {
            return Ok(*id);
        }
        let Some(Value::Object(map)) = self.defs.and_then(|d| d.get(name)) else { return Err(unknown()) };
        let id = self.add(Node::default(), at)?;
        self.known.insert(name.to_owned(), id);
        let outer = self.owner.replace(name.to_owned());
        self.fill(id, map, at, depth)?;
        self.owner = outer;
        refine_builtin(&mut self.nodes[id.0 as usize], name);
        Ok(id)
    }

    fn fill(
        &mut self,
        id: NodeId,
        map: &Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Result<(), SchemaError> {
        let mut node = Node {
            description: text(map, "description"),
            kind: map.get("type").and_then(Value::as_str).and_then(type_of),
            nullable: flag(map, "nullable"),
            format: text(map, "format"),
            required: strings(map.get("required")),
            default: map.get("default").cloned(),
            bounds: bounds(map, at)?,
            preserve_unknown: flag(map, "x-kubernetes-preserve-unknown-fields"),
            embedded: flag(map, "x-kubernetes-embedded-resource"),
            int_or_string: flag(map, "x-kubernetes-int-or-string"),
            atomic: map.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
            list_type: list_type(map),
            list_type_given: map.contains_key("x-kubernetes-list-type"),
            has_rules: map
                .get("x-kubernetes-validations")
                .and_then(Value::as_array)
                .is_some_and(|r| !r.is_empty()),
            ..Node::default()
        };
        if node.has_rules && self.defs.is_none() {
            self.rules.push((at.to_owned(), id, serde_json::to_string(map).unwrap_or_default().into()));
        }
        let owner = self.owner.take();
        if let Some(Value::Object(properties)) = map.get("properties") {
            for (name, value) in properties {
                let property =
                    self.property(owner.as_deref(), name, value, &format!("{at}.{name}"), depth)?;
                node.properties.insert(name.clone(), property);
            }
        }
        node.additional = match map.get("additionalProperties") {
            None | Some(Value::Bool(false)) => Additional::Forbidden,
            Some(Value::Bool(true)) => Additional::Anything,
            Some(value) => Additional::Of(self.node(value, &format!("{at}.*"), depth + 1)?),
        };
        if let Some(items) = map.get("items") {
            node.items = Some(self.node(items, &format!("{at}[]"), depth + 1)?);
        }
        node.junctors = self.junctors(map, at, depth)?;
        self.owner = owner;
        if depth == 0 && node.definition.is_none() {
            node.definition.clone_from(&self.owner);
        }
        self.nodes[id.0 as usize] = node;
        Ok(())
    }

    fn property(
        &mut self,
        owner: Option<&str>,
        name: &str,
        value: &Value,
        at: &str,
        depth: usize,
    ) -> Result<Property, SchemaError> {
        let node = self.node(value, at, depth + 1)?;
        let mut property = Property {
            node,
            strategy: PatchStrategy::default(),
            description: value.get("description").and_then(Value::as_str).map(str::to_owned),
            atomic: false,
            go: owner.map(|owner| go::field(owner, name)).unwrap_or_default(),
        };
        if let Some(fact) = owner.and_then(|owner| fact_of(owner, name)) {
            self.apply_fact(fact, &mut property);
        }
        let port = owner.is_some_and(|o| {
            matches!(o, "io.k8s.api.core.v1.ContainerPort" | "io.k8s.api.core.v1.ServicePort")
        });
        if port && name == "protocol" {
            // It is part of a list's key, so apply must know its value when it is omitted.
            self.nodes[node.0 as usize].default = Some(Value::from("TCP"));
        }
        Ok(property)
    }

    fn apply_fact(&mut self, fact: &FieldFact, property: &mut Property) {
        let keys = || fact.list_keys.split(',').map(str::to_owned).collect();
        property.strategy = PatchStrategy {
            merge: fact.strategy.starts_with("merge"),
            retain_keys: fact.strategy.ends_with("retainKeys"),
            replace: fact.strategy == "replace",
            merge_key: (!fact.merge_key.is_empty()).then(|| fact.merge_key.to_owned()),
        };
        property.atomic = fact.map_type == "atomic";
        if !fact.list_type.is_empty() {
            let node = &mut self.nodes[property.node.0 as usize];
            node.list_type_given = true;
            node.list_type = match fact.list_type {
                "map" => ListType::Map(keys()),
                "set" => ListType::Set,
                _ => ListType::Atomic,
            };
        }
    }

    fn junctors(
        &mut self,
        map: &Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Result<Junctors, SchemaError> {
        let mut several = |key: &str| -> Result<Vec<NodeId>, SchemaError> {
            match map.get(key) {
                Some(Value::Array(schemas)) => {
                    schemas.iter().map(|s| self.node(s, &format!("{at}.{key}"), depth + 1)).collect()
                }
                _ => Ok(Vec::new()),
            }
        };
        let (all_of, any_of, one_of) = (several("allOf")?, several("anyOf")?, several("oneOf")?);
        let not = map.get("not").map(|s| self.node(s, &format!("{at}.not"), depth + 1)).transpose()?;
        Ok(Junctors { all_of, any_of, one_of, not })
    }

    /// Adds `apiVersion`, `kind` and `metadata` to every object, the root and embedded ones, as the API server does. A
    /// CRD's own conditions on `metadata` (in practice on its name) are kept as additional conditions.
    fn add_type_and_object_meta(&mut self, root: NodeId) {
        let objects: Vec<usize> = (0..self.nodes.len())
            .filter(|index| *index == root.0 as usize || self.nodes[*index].embedded)
            .collect();
        let string = self.push(Node { kind: Some(Type::String), ..Node::default() });
        let meta = self.push_object_meta();
        for index in objects {
            let asked = self.nodes[index].properties.get("metadata").map(|p| p.node);
            let meta = match asked {
                Some(asked) => {
                    let mut node = self.nodes[meta.0 as usize].clone();
                    node.junctors.all_of.push(asked);
                    self.push(node)
                }
                None => meta,
            };
            for (name, of) in [("apiVersion", string), ("kind", string), ("metadata", meta)] {
                let property = self.nodes[index].properties.entry(name.to_owned()).or_insert(Property {
                    node: of,
                    strategy: PatchStrategy::default(),
                    description: None,
                    atomic: false,
                    go: GoField::default(),
                });
                property.node = of;
            }
        }
    }

    fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId((self.nodes.len() - 1) as u32)
    }

    /// Appends the nodes of `metadata`'s schema to this one. Its required fields are checked along with names.
    fn push_object_meta(&mut self) -> NodeId {
        let (meta, offset) = (object_meta(), self.nodes.len() as u32);
        let moved = |id: NodeId| NodeId(id.0 + offset);
        for node in &meta.nodes {
            let mut node = node.clone();
            node.properties.values_mut().for_each(|p| p.node = moved(p.node));
            node.items = node.items.map(moved);
            node.required.clear();
            if let Additional::Of(of) = node.additional {
                node.additional = Additional::Of(moved(of));
            }
            self.nodes.push(node);
        }
        moved(meta.root)
    }
}

/// Adds the facts about a built-in type that `schemars` cannot express.
fn refine_builtin(node: &mut Node, name: &str) {
    node.definition = Some(name.to_owned());
    let short = name.rsplit('.').next().unwrap_or(name);
    if ATOMIC_TYPES.contains(&name) {
        node.atomic = true;
    }
    match short {
        "Quantity" => node.quantity = true,
        "MicroTime" => node.format = Some("micro-time".to_owned()),
        "FieldsV1" | "RawExtension" | "Unstructured" => {
            node.preserve_unknown = true;
            node.atomic = true;
        }
        "JSON" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrStringArray" => {
            *node = Node {
                definition: node.definition.take(),
                description: node.description.take(),
                preserve_unknown: true,
                ..Node::default()
            };
        }
        _ => {}
    }
}

fn fact_of(owner: &str, field: &str) -> Option<&'static FieldFact> {
    FIELD_FACTS
        .binary_search_by(|fact| (fact.definition, fact.field).cmp(&(owner, field)))
        .ok()
        .map(|i| &FIELD_FACTS[i])
}

fn type_of(name: &str) -> Option<Type> {
    Some(match name {
        "object" => Type::Object,
        "array" => Type::Array,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        _ => return None,
    })
}

fn list_type(map: &Map<String, Value>) -> ListType {
    match map.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(strings(map.get("x-kubernetes-list-map-keys"))),
        _ => ListType::Atomic,
    }
}

fn text(map: &Map<String, Value>, key: &str) -> Option<String> {
    map.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn flag(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array);
    items
        .map(|items| items.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect())
        .unwrap_or_default()
}

fn bounds(map: &Map<String, Value>, at: &str) -> Result<Bounds, SchemaError> {
    let count = |key: &str| map.get(key).and_then(Value::as_u64);
    let number = |key: &str| map.get(key).and_then(Value::as_f64);
    let pattern = match map.get("pattern").and_then(Value::as_str) {
        None => None,
        Some(text) => Some((text.to_owned(), compile(text, at)?)),
    };
    Ok(Bounds {
        one_of: map.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
        minimum: number("minimum").map(|n| (n, flag(map, "exclusiveMinimum"))),
        maximum: number("maximum").map(|n| (n, flag(map, "exclusiveMaximum"))),
        multiple_of: number("multipleOf"),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        unique_items: flag(map, "uniqueItems"),
        pattern,
    })
}

fn compile(pattern: &str, at: &str) -> Result<Regex, SchemaError> {
    regex::RegexBuilder::new(pattern)
        .size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|_| SchemaError::Pattern(at.to_owned(), pattern.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_sorted_for_the_search() {
        assert!(
            FIELD_FACTS.windows(2).all(|w| (w[0].definition, w[0].field) < (w[1].definition, w[1].field))
        );
    }
}
