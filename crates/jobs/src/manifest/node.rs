//! Parses YAML text into a tree that records the position of every node.
//!
//! A recursive walk over the parser's events. The text is not trusted: depth, the number of nodes, the entries of a map and
//! the expansion of aliases are bounded, in number and in bytes, and the time is proportional to the number of nodes. The input is text; the output is one [`Node`] for each non-empty document, or a
//! [`SyntaxError`].

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use serde_json::Value;

use super::{MAX_BYTES, scalar};
use crate::Position;

/// The maximum nesting of maps and lists.
const MAX_DEPTH: usize = 64;
/// The maximum number of nodes in all documents of a text together, with anchors kept and aliases expanded.
const MAX_NODES: usize = 200_000;
/// The maximum number of entries of a map: far more than any field of a job has.
const MAX_ENTRIES: usize = 10_000;
/// The longest key; Kubernetes' longest, those of labels, have 317 bytes. Each fault of what is below repeats it.
const MAX_KEY_BYTES: usize = 1024;

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where the value starts.
    pub at: Position,
    /// The value.
    pub shape: Shape,
}

/// The kind of a node, with its content.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A string, number, boolean or null, and its original text if it was unquoted.
    Scalar {
        /// The value as a Kubernetes client interprets it.
        value: Value,
        /// The original text if it was unquoted.
        plain: Option<String>,
    },
    /// A list.
    List(Vec<Node>),
    /// A map, in the order of the text; keys are unique.
    Map(Vec<Entry>),
}

/// One key of a map and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key in JSON.
    pub key: String,
    /// The key as written.
    pub written: String,
    /// Where the key starts.
    pub at: Position,
    /// Its value.
    pub value: Node,
}

/// Why a text is not YAML.
#[derive(Clone, Debug, PartialEq)]
pub struct SyntaxError {
    /// Where parsing stopped.
    pub at: Position,
    /// What was wrong.
    pub message: String,
}

impl Node {
    /// Returns the value as JSON.
    pub fn to_value(&self) -> Value {
        match &self.shape {
            Shape::Scalar { value, .. } => value.clone(),
            Shape::List(items) => Value::Array(items.iter().map(Node::to_value).collect()),
            Shape::Map(entries) => Value::Object(
                entries.iter().map(|entry| (entry.key.clone(), entry.value.to_value())).collect(),
            ),
        }
    }

    /// Returns the entry with that key, if this is a map that has it.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.shape {
            Shape::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// Returns the string value of that key.
    pub fn text(&self, key: &str) -> Option<&str> {
        match &self.entry(key)?.value.shape {
            Shape::Scalar { value: Value::String(text), .. } => Some(text),
            _ => None,
        }
    }
}

/// Parses every non-empty document of a YAML text.
pub fn documents(text: &str) -> Result<Vec<Node>, SyntaxError> {
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        nodes: 0,
        repeated_bytes: 0,
        ends_at: end_of(text),
    };
    let mut found = Vec::new();
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamEnd => return Ok(found),
            Event::DocumentStart(_) => {
                reader.anchors.clear();
                let (event, span) = reader.next()?;
                let node = reader.node(event, span, 0)?;
                if !is_null(&node) {
                    found.push(node);
                }
            }
            _ => {
                let _ = span;
            }
        }
    }
}

fn is_null(node: &Node) -> bool {
    matches!(&node.shape, Shape::Scalar { value: Value::Null, .. })
}

/// The position after the last character.
pub fn end_of(text: &str) -> Position {
    let line = text.matches('\n').count() + 1;
    let column = text.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
    Position { line, column }
}

fn position(marker: &Marker) -> Position {
    Position { line: marker.line().max(1), column: marker.col() + 1 }
}

struct Reader<'text> {
    parser: Parser<'text, StrInput<'text>>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    /// The bytes of the texts that anchors keep and aliases repeat.
    repeated_bytes: usize,
    ends_at: Position,
}

impl<'text> Reader<'text> {
    fn next(&mut self) -> Result<(Event<'text>, Span), SyntaxError> {
        match self.parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(syntax(&error)),
            None => Err(SyntaxError { at: self.ends_at, message: "unexpected end of text".to_owned() }),
        }
    }

    fn count(&mut self, more: usize, at: Position) -> Result<(), SyntaxError> {
        self.nodes += more;
        if self.nodes > MAX_NODES {
            return Err(SyntaxError {
                at,
                message: format!(
                    "more than {MAX_NODES} values with all aliases expanded, too many for a job"
                ),
            });
        }
        Ok(())
    }

    /// Counts a node that is kept once more.
    fn repeat(&mut self, size: Size, at: Position) -> Result<(), SyntaxError> {
        self.count(size.nodes, at)?;
        self.repeated_bytes += size.bytes;
        if self.repeated_bytes > MAX_BYTES {
            let most = MAX_BYTES / 1024 / 1024;
            let message =
                format!("anchors and aliases repeat more than {most} MiB of text, too much for a job");
            return Err(SyntaxError { at, message });
        }
        Ok(())
    }

    fn node(&mut self, event: Event<'text>, span: Span, depth: usize) -> Result<Node, SyntaxError> {
        let at = position(&span.start);
        if depth > MAX_DEPTH {
            return Err(SyntaxError { at, message: format!("nested more than {MAX_DEPTH} levels deep") });
        }
        self.count(1, at)?;
        let (anchor, node) = match event {
            Event::Alias(anchor) => return self.alias(anchor, at),
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, scalar_node(&text, style, tag.as_deref(), at)?)
            }
            Event::SequenceStart(anchor, _) => (anchor, self.list(at, depth)?),
            Event::MappingStart(anchor, _) => (anchor, self.map(at, depth)?),
            other => {
                return Err(SyntaxError { at, message: format!("unexpected {other:?}") });
            }
        };
        if anchor != 0 {
            // It is kept once more: maps within maps that all have an anchor would take more memory with each level.
            self.repeat(size(&node), at)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, at: Position) -> Result<Node, SyntaxError> {
        let missing = || SyntaxError { at, message: "this alias has no preceding anchor".to_owned() };
        let size = size(self.anchors.get(&anchor).ok_or_else(missing)?);
        self.repeat(size, at)?;
        let node = self.anchors.get(&anchor).cloned().ok_or_else(missing)?;
        Ok(Node { at, ..node })
    }

    fn list(&mut self, at: Position, depth: usize) -> Result<Node, SyntaxError> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Node { at, shape: Shape::List(items) });
            }
            items.push(self.node(event, span, depth + 1)?);
        }
    }

    fn map(&mut self, at: Position, depth: usize) -> Result<Node, SyntaxError> {
        let (mut own, mut merged) = (Entries::default(), Entries::default());
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let key = self.node(event, span, depth + 1)?;
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            let written = key_text(&key)?;
            if written.merge {
                // A merged key overrides entries before it and yields to entries after it.
                for entry in merge(value)?.into_list() {
                    own.remove(&entry.key);
                    merged.remove(&entry.key);
                    merged.add(entry);
                }
                merged.check(at)?;
                continue;
            }
            if let Some(first) = own.get(&written.key) {
                return Err(SyntaxError {
                    at: key.at,
                    message: format!(
                        "duplicate key \"{}\", already set at line {}",
                        written.key, first.at.line
                    ),
                });
            }
            own.add(Entry { key: written.key, written: written.text, at: key.at, value });
            own.check(at)?;
        }
        for entry in merged.into_list() {
            own.add_if_new(entry);
        }
        own.check(at)?;
        Ok(Node { at, shape: Shape::Map(own.into_list()) })
    }
}

/// The entries of a map while it is read, in the order of the text, and where each key is.
#[derive(Default)]
struct Entries {
    /// `None` where an entry was removed.
    list: Vec<Option<Entry>>,
    places: HashMap<String, usize>,
}

impl Entries {
    fn get(&self, key: &str) -> Option<&Entry> {
        self.list.get(*self.places.get(key)?)?.as_ref()
    }

    fn add(&mut self, entry: Entry) {
        self.places.insert(entry.key.clone(), self.list.len());
        self.list.push(Some(entry));
    }

    fn add_if_new(&mut self, entry: Entry) {
        if !self.places.contains_key(&entry.key) {
            self.add(entry);
        }
    }

    fn remove(&mut self, key: &str) {
        if let Some(entry) = self.places.remove(key).and_then(|place| self.list.get_mut(place)) {
            *entry = None;
        }
    }

    /// Checks the number of entries; `at` is where the map starts.
    fn check(&self, at: Position) -> Result<(), SyntaxError> {
        if self.places.len() > MAX_ENTRIES {
            let message = format!("a map with more than {MAX_ENTRIES} entries, too many for a job");
            return Err(SyntaxError { at, message });
        }
        Ok(())
    }

    fn into_list(self) -> Vec<Entry> {
        self.list.into_iter().flatten().collect()
    }
}

/// A map's key, in JSON and as written.
struct Key {
    key: String,
    text: String,
    merge: bool,
}

fn key_text(node: &Node) -> Result<Key, SyntaxError> {
    let Shape::Scalar { value, plain } = &node.shape else {
        return Err(SyntaxError {
            at: node.at,
            message: "a key must be a scalar, not a list or a map".to_owned(),
        });
    };
    let key = match value {
        Value::String(text) => text.clone(),
        Value::Null => {
            return Err(SyntaxError { at: node.at, message: "a key must not be empty".to_owned() });
        }
        Value::Number(number) if number.is_f64() => scalar::float_key(number.as_f64().unwrap_or(0.0)),
        other => other.to_string(),
    };
    if key.len() > MAX_KEY_BYTES {
        let message = format!("a key of {} bytes; at most {MAX_KEY_BYTES} are allowed", key.len());
        return Err(SyntaxError { at: node.at, message });
    }
    let text = plain.clone().unwrap_or_else(|| key.clone());
    let merge = plain.as_deref() == Some("<<");
    Ok(Key { key, text, merge })
}

/// The entries that YAML's merge key adds; in a list of maps, earlier maps take precedence. For the rest, the order of
/// keys decides, as in `go.yaml.in/yaml/v2` (`decode.go`, `merge`).
fn merge(value: Node) -> Result<Entries, SyntaxError> {
    let at = value.at;
    let mut into = Entries::default();
    let sources = match value.shape {
        Shape::List(items) => items,
        shape => vec![Node { at, shape }],
    };
    for source in sources {
        let Shape::Map(entries) = source.shape else {
            return Err(SyntaxError {
                at: source.at,
                message: "the value of `<<` must be a map or a list of maps".to_owned(),
            });
        };
        for entry in entries {
            into.add_if_new(entry);
        }
        into.check(at)?;
    }
    Ok(into)
}

/// What a node takes.
#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    /// The bytes of its texts and keys.
    bytes: usize,
}

fn size(node: &Node) -> Size {
    let mut size = Size { nodes: 0, bytes: 0 };
    measure(node, &mut size);
    size
}

fn measure(node: &Node, size: &mut Size) {
    size.nodes += 1;
    match &node.shape {
        Shape::Scalar { value: Value::String(text), .. } => size.bytes += text.len(),
        Shape::Scalar { plain, .. } => size.bytes += plain.as_ref().map_or(0, String::len),
        Shape::List(items) => items.iter().for_each(|item| measure(item, size)),
        Shape::Map(entries) => {
            for entry in entries {
                size.bytes += entry.key.len();
                measure(&entry.value, size);
            }
        }
    }
}

fn scalar_node(text: &str, style: ScalarStyle, tag: Option<&Tag>, at: Position) -> Result<Node, SyntaxError> {
    let plain = style == ScalarStyle::Plain;
    let value = match tag {
        Some(tag) if tag.is_yaml_core_schema() => scalar::tagged(&tag.suffix, text).ok_or_else(|| {
            SyntaxError { at, message: format!("{text:?} is not a valid !!{}", tag.suffix) }
        })?,
        // A lone `!` means text; Kubernetes ignores custom tags.
        Some(tag) if tag.suffix.is_empty() || tag.suffix == "!" => Value::String(text.to_owned()),
        Some(_) if plain => scalar::resolve(text),
        Some(_) => Value::String(text.to_owned()),
        None if plain && scalar::is_no_json_number(text) => {
            let message =
                format!("JSON cannot represent the number {text}; to use it as a string, write it in quotes");
            return Err(SyntaxError { at, message });
        }
        None if plain => scalar::resolve(text),
        None => Value::String(text.to_owned()),
    };
    Ok(Node { at, shape: Shape::Scalar { value, plain: plain.then(|| text.to_owned()) } })
}

fn syntax(error: &ScanError) -> SyntaxError {
    SyntaxError { at: position(error.marker()), message: error.info().to_owned() }
}
