//! The contract in Rust: its messages, its table of methods, and the files generated for others.

#[expect(clippy::allow_attributes, clippy::too_many_lines, reason = "generated")]
mod messages {
    tonic::include_proto!("training.v1");
}

pub use messages::*;

/// The compiled contract, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
/// The OpenAPI document.
pub const OPENAPI: &str = include_str!(concat!(env!("OUT_DIR"), "/openapi.json"));
/// The page that shows the contract.
pub const DOCS: &str = include_str!(concat!(env!("OUT_DIR"), "/docs.html"));
/// Every method and field that clients depend on, one a line.
pub const FIELDS: &str = include_str!(concat!(env!("OUT_DIR"), "/fields.txt"));

/// A method of the contract.
#[derive(Debug)]
pub struct Method {
    /// Its name, e.g. `ListJobs`.
    pub name: &'static str,
    /// `GET`, `POST`, `PUT` or `DELETE`.
    pub verb: &'static str,
    /// The path over REST; `{field}` is a field of the request.
    pub path: &'static str,
    /// Whether a REST request has a body.
    pub body: bool,
    /// Whether it answers with a stream.
    pub streams: bool,
    /// The verb that the caller needs; empty if the method restricts its answer to what the caller may see.
    pub access_verb: &'static str,
    /// `jobs`, or a resource such as `pods/log`.
    pub access_resource: &'static str,
    /// An example of a request, as a JSON object.
    pub example: &'static str,
    /// The fields of the request.
    pub fields: &'static [Field],
}

/// A field of a request.
#[derive(Debug)]
pub struct Field {
    /// Its name in JSON.
    pub name: &'static str,
    /// Its type, or that of its items.
    pub kind: FieldKind,
    /// Whether it is a list.
    pub list: bool,
    /// Whether a request must have it.
    pub required: bool,
    /// Every accepted value, if they are limited.
    pub values: &'static [&'static str],
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A text.
    Text,
    /// A whole number.
    Number,
    /// True or false.
    Flag,
    /// A message or a map: only in bodies.
    Object,
}

/// What a request is about.
pub trait Addressed {
    /// The namespace; empty for all.
    fn namespace(&self) -> &str {
        ""
    }

    /// The kinds of jobs whose permission is checked before the method runs; an empty text is the default kind.
    fn kinds(&self) -> Vec<&str> {
        vec![""]
    }

    /// The job's name, if the request is about one job.
    fn name(&self) -> Option<&str> {
        None
    }

    /// Whether the request asks what would happen.
    fn is_dry_run(&self) -> bool {
        false
    }
}

/// The answer of a method: a message of the contract, or what makes one, with its JSON prepared.
pub trait Answer<M>: Send + 'static {
    /// Returns the message.
    fn message(self) -> M;

    /// Returns the message as REST sends it: in JSON, unless it has another content type.
    fn json(&self) -> Vec<u8>;

    /// The content type of an answer over REST.
    fn content_type(&self) -> &'static str {
        "application/json"
    }

    /// The name of this item in a stream of server-sent events.
    fn event(&self) -> &str {
        ""
    }

    /// The identifier of this item in a stream of server-sent events, which a client sends to continue after it.
    fn id(&self) -> &str {
        ""
    }
}

impl<M: prost::Message + serde::Serialize + 'static> Answer<M> for M {
    fn message(self) -> M {
        self
    }

    fn json(&self) -> Vec<u8> {
        // Messages have only texts as keys, so this cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}
