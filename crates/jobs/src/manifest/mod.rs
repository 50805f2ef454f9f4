//! A manifest as a user wrote it: YAML or JSON, one or several documents, with the position of every field.
//!
//! The input is bytes and the name of their source. The output is [`Document`]s, or every fault with line and column.
//! The bytes are not trusted: size, depth and aliases are bounded ([`MAX_BYTES`], [`node`]). Nothing here contacts a
//! server.

mod fields;
mod node;
mod path;
mod scalar;

use std::sync::LazyLock;

use kube::core::CustomResourceExt;
use serde_json::Value;

pub use fields::nearest;
use node::{Node, Shape, SyntaxError};
pub use path::{Step, steps};

use crate::{Error, Fault, Kind, Position};

/// The maximum size of a manifest; an API server accepts no object near this size.
pub const MAX_BYTES: usize = 3 * 1024 * 1024;
/// The maximum number of faults reported per text; a text with more is probably not a job.
pub const MAX_FAULTS: usize = 50;
/// The longest line that an error quotes.
const MAX_EXCERPT_BYTES: usize = 500;

/// One object of a manifest.
#[derive(Clone, Debug)]
pub struct Document {
    /// The origin of the text: a file's name, or `-` for standard input.
    pub source: String,
    /// The object as JSON, exactly as written.
    pub value: Value,
    node: Node,
}

impl Document {
    /// Returns the position of a field, or of its innermost existing ancestor.
    pub fn position(&self, path: &str) -> Position {
        path::locate(&self.node, path)
    }

    /// Returns the object's `kind`, empty if it has none.
    pub fn kind(&self) -> &str {
        self.node.text("kind").unwrap_or("")
    }

    /// Returns the object's `apiVersion`, empty if it has none.
    pub fn api_version(&self) -> &str {
        self.node.text("apiVersion").unwrap_or("")
    }

    /// Creates a fault of this document, with its position.
    pub fn fault(&self, path: &str, message: impl Into<String>, advice: Option<String>) -> Fault {
        Fault {
            source: self.source.clone(),
            position: Some(self.position(path)),
            path: path.to_owned(),
            message: message.into(),
            advice,
        }
    }
}

/// Reads every object in a text; a `List` counts as its items.
///
/// # Errors
/// [`Error::Syntax`] if the text is not YAML or JSON, [`Error::Invalid`] if it holds no object.
pub fn read(bytes: &[u8], source: &str) -> Result<Vec<Document>, Error> {
    if bytes.len() > MAX_BYTES {
        return Err(whole(
            source,
            format!("is larger than {} MiB, too large for a job", MAX_BYTES / 1024 / 1024),
        ));
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => return Err(not_utf8(bytes, error.valid_up_to(), source)),
    };
    let nodes = read_json(text, source)
        .unwrap_or_else(|| node::documents(text).map_err(|error| explain_syntax(text, source, error)))?;
    let mut documents = Vec::new();
    for node in nodes {
        unroll(node, source, &mut documents);
    }
    if documents.is_empty() {
        return Err(whole(source, "contains no object; expected a training job".to_owned()));
    }
    Ok(documents)
}

/// Reads one value in YAML, such as a part of a pod; null if the text is empty.
///
/// # Errors
/// What is wrong with the text, in one line.
pub(crate) fn value(text: &str) -> Result<Value, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("it is larger than {} MiB", MAX_BYTES / 1024 / 1024));
    }
    let nodes = node::documents(text).map_err(|SyntaxError { at, message }| format!("{at}: {message}"))?;
    match nodes.as_slice() {
        [] => Ok(Value::Null),
        [node] => Ok(node.to_value()),
        _ => Err("it has several documents".to_owned()),
    }
}

fn unroll(node: Node, source: &str, into: &mut Vec<Document>) {
    if node.text("kind").is_some_and(|kind| kind.ends_with("List"))
        && let Shape::Map(entries) = &node.shape
        && let Some(items) = entries.iter().find(|entry| entry.key == "items")
        && let Shape::List(items) = &items.value.shape
    {
        into.extend(items.iter().map(|item| document(item.clone(), source)));
        return;
    }
    into.push(document(node, source));
}

fn document(node: Node, source: &str) -> Document {
    Document { source: source.to_owned(), value: node.to_value(), node }
}

/// Reports JSON's error for a broken text that starts like JSON; valid JSON is read as YAML, of which it is a subset.
fn read_json(text: &str, source: &str) -> Option<Result<Vec<Node>, Error>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let error = serde_json::Deserializer::from_str(text).into_iter::<Value>().find_map(Result::err)?;
    if node::documents(text).is_ok() {
        return None;
    }
    let at = Position { line: error.line().max(1), column: error.column().max(1) };
    let full = error.to_string();
    let message = full.split(" at line ").next().unwrap_or(&full).to_owned();
    Some(Err(explain_syntax(text, source, SyntaxError { at, message })))
}

/// Checks a document against the schema of its kind; returns the faults in reading order.
pub fn check_fields(document: &Document) -> Vec<Fault> {
    if let Some(fault) = check_kind(document) {
        return vec![fault];
    }
    if Kind::named(document.kind()) != Some(Kind::MpiJob) {
        return check_top(document);
    }
    let mut faults: Vec<Fault> = fields::check(&document.node, &MPIJOB_SCHEMA)
        .into_iter()
        .map(|fault| Fault {
            source: document.source.clone(),
            position: Some(fault.at),
            path: fault.path,
            message: fault.message,
            advice: fault.advice,
        })
        .collect();
    faults.sort_by_key(|fault| fault.position);
    faults.truncate(MAX_FAULTS);
    faults
}

fn check_kind(document: &Document) -> Option<Fault> {
    if !matches!(document.node.shape, Shape::Map(_)) {
        return Some(document.fault("", "is not an object; an MPIJob begins with apiVersion and kind", None));
    }
    let (kind, version) = (document.kind(), document.api_version());
    let ours = "write apiVersion: kubeflow.org/v2beta1 and kind: MPIJob".to_owned();
    match (version, kind, Kind::named(kind)) {
        (version, _, Some(known)) if version == known.api_version() => None,
        ("", _, Some(known)) => Some(document.fault(
            "apiVersion",
            "is missing",
            Some(format!("write apiVersion: {}", known.api_version())),
        )),
        ("", _, None) => Some(document.fault("apiVersion", "is missing", Some(ours))),
        (_, "", _) => Some(document.fault("kind", "is missing", Some(ours))),
        (old, _, Some(Kind::MpiJob)) => Some(document.fault(
            "apiVersion",
            format!("{old} is not a supported version of MPIJob"),
            Some("use kubeflow.org/v2beta1, which reaches hosts through ssh or the launch agent".to_owned()),
        )),
        (other, _, Some(known)) => Some(document.fault(
            "apiVersion",
            format!("{other} is not a supported version of {}", known.name()),
            Some(format!("use {}", known.api_version())),
        )),
        (version, kind, None) => Some(document.fault(
            "kind",
            format!("this command creates training jobs, but this is a {kind} ({version})"),
            Some(match nearest(kind, &Kind::ALL.map(Kind::name)) {
                Some(meant) => format!("did you mean \"{meant}\"?"),
                None => "apply the file instead: that takes objects of other kinds beside jobs".to_owned(),
            }),
        )),
    }
}

/// The top-level fields of any object.
const TOP: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// Checks a job of another operator's kind, whose schema only the server knows.
fn check_top(document: &Document) -> Vec<Fault> {
    let Shape::Map(entries) = &document.node.shape else { return Vec::new() };
    let unknown = |key: &str| {
        let meant = nearest(key, &TOP).map(|meant| format!("did you mean \"{meant}\"?"));
        document.fault(key, "unknown field", meant)
    };
    let keys = entries.iter().map(|entry| entry.key.as_str());
    let mut faults: Vec<Fault> =
        keys.filter(|key| !TOP.contains(key)).take(MAX_FAULTS).map(unknown).collect();
    if document.node.entry("spec").is_none() && faults.is_empty() {
        faults.push(document.fault("spec", "is required", None));
    }
    faults
}

/// The CRD's schema, plus what an API server itself defines for every object: kind, version, metadata.
static MPIJOB_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";
    let derived = serde_json::to_value(api::MPIJob::crd()).unwrap_or_default();
    let installed = serde_json::to_value(api::mpijob_crd()).unwrap_or_default();
    let template = "/properties/spec/properties/mpiReplicaSpecs/additionalProperties/properties/template";
    // The derived CRD has a template's metadata in full; it applies to any object.
    let metadata = derived.pointer(&format!("{SCHEMA}{template}/properties/metadata")).cloned();
    let mut schema = installed.pointer(SCHEMA).cloned().unwrap_or_default();
    let text = serde_json::json!({"type": "string"});
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties
            .insert("metadata".to_owned(), metadata.unwrap_or_else(|| serde_json::json!({"type": "object"})));
        properties.insert("apiVersion".to_owned(), text.clone());
        properties.insert("kind".to_owned(), text);
        properties
            .insert("status".to_owned(), serde_json::json!({"x-kubernetes-preserve-unknown-fields": true}));
    }
    schema
});

fn whole(source: &str, message: String) -> Error {
    Error::Invalid {
        faults: vec![Fault {
            source: source.to_owned(),
            position: None,
            path: String::new(),
            message,
            advice: None,
        }],
    }
}

fn not_utf8(bytes: &[u8], valid: usize, source: &str) -> Error {
    let before = String::from_utf8_lossy(bytes.get(..valid).unwrap_or_default());
    Error::Syntax {
        source_name: source.to_owned(),
        at: node::end_of(&before),
        message: "this byte is not UTF-8 text".to_owned(),
        excerpt: String::new(),
        advice: Some("is this a binary or a compressed file?".to_owned()),
    }
}

fn explain_syntax(text: &str, source: &str, error: SyntaxError) -> Error {
    let SyntaxError { at, message } = error;
    let line = text.lines().nth(at.line - 1).unwrap_or("");
    let indentation = &line[..line.len() - line.trim_start().len()];
    let before = text.lines().nth(at.line.saturating_sub(2)).unwrap_or("");
    let advice = if indentation.contains('\t') || (line.trim().is_empty() && before.starts_with('\t')) {
        Some("YAML is indented with spaces; this line begins with a tab".to_owned())
    } else if message.contains("mapping values are not allowed") {
        Some("a string that contains \": \" must be in quotes; or a line is indented further than the one above".to_owned())
    } else if line.contains("{{") {
        Some("this looks like a template whose values are not filled in".to_owned())
    } else {
        None
    };
    let caret: String =
        line.chars().take(at.column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).chain(['^']).collect();
    let is_shown = !line.trim().is_empty() && line.len() <= MAX_EXCERPT_BYTES;
    let excerpt = if is_shown { format!("{line}\n{caret}") } else { String::new() };
    Error::Syntax { source_name: source.to_owned(), at, message, excerpt, advice }
}

#[cfg(test)]
mod tests;
