//! The contract as plain values: methods, messages and fields, with their comments and options.

use std::error::Error;
use std::fmt::Write;

use protox::prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor,
    MethodDescriptor, Value,
};

/// The package of the contract.
const PACKAGE: &str = "training.v1";

/// The whole contract.
pub struct Contract {
    /// The comment at the head of the file.
    pub about: String,
    /// The methods, in the contract's order.
    pub methods: Vec<Method>,
    /// The messages, in the contract's order.
    pub messages: Vec<Message>,
}

/// A method.
pub struct Method {
    pub name: String,
    pub about: String,
    pub input: String,
    pub output: String,
    pub streams: bool,
    /// Whether a REST response is a file.
    pub file: bool,
    /// GET, POST, PUT or DELETE.
    pub verb: String,
    pub path: String,
    pub body: bool,
    pub example: String,
    /// The verb that the caller needs; empty if the method itself decides.
    pub access_verb: String,
    pub access_resource: String,
}

/// A message.
pub struct Message {
    pub name: String,
    pub about: String,
    pub fields: Vec<Field>,
}

/// A field.
pub struct Field {
    pub name: String,
    pub json: String,
    pub number: u32,
    pub about: String,
    pub kind: FieldKind,
    pub list: bool,
    pub map: bool,
    pub optional: bool,
    pub required: bool,
    pub values: Vec<String>,
    pub example: String,
    /// A regular expression that each accepted value matches; empty if there is none.
    pub pattern: String,
    /// The least accepted number.
    pub minimum: Option<i32>,
}

/// The type of a field, of a list's items or of a map's values.
#[derive(Clone, PartialEq)]
pub enum FieldKind {
    Text,
    Bytes,
    Number,
    /// A number with a fraction. Methods return finite ones only: JSON has no others.
    Double,
    Flag,
    Message(String),
}

impl Contract {
    /// Reads it from compiled files.
    pub fn read(pool: &DescriptorPool) -> Result<Contract, Box<dyn Error>> {
        let service =
            pool.get_service_by_name("training.v1.Training").ok_or("no service training.v1.Training")?;
        let file = service.parent_file();
        let methods = service.methods().map(|method| read_method(pool, &method)).collect::<Result<_, _>>()?;
        let messages =
            file.messages().map(|message| read_message(pool, &message)).collect::<Result<_, _>>()?;
        // The comment at the head belongs to the `syntax` statement.
        Ok(Contract { about: detached(&file), methods, messages })
    }

    /// Returns the message with this name.
    pub fn message(&self, name: &str) -> Option<&Message> {
        self.messages.iter().find(|message| message.name == name)
    }

    /// Returns what a client depends on, one line for each method, field and listed value: no line may ever go or change.
    /// Lines about required fields may go, but not come to a message that was there before.
    pub fn fields(&self) -> String {
        let mut text = String::new();
        for method in &self.methods {
            let stream = if method.streams { "stream " } else { "" };
            let _ = writeln!(
                text,
                "{}({}) returns ({stream}{}) {} {}",
                method.name, method.input, method.output, method.verb, method.path
            );
        }
        for message in &self.messages {
            for field in &message.fields {
                let kind = match &field.kind {
                    FieldKind::Text => "string",
                    FieldKind::Bytes => "bytes",
                    FieldKind::Number => "int32",
                    FieldKind::Double => "double",
                    FieldKind::Flag => "bool",
                    FieldKind::Message(name) => name,
                };
                let shape = match (field.list, field.map, field.optional) {
                    (true, ..) => "repeated ",
                    (_, true, _) => "map ",
                    (.., true) => "optional ",
                    _ => "",
                };
                let _ = writeln!(text, "{}.{} = {} {shape}{kind}", message.name, field.name, field.number);
            }
        }
        for message in &self.messages {
            for field in &message.fields {
                let name = format!("{}.{}", message.name, field.name);
                if field.required {
                    let _ = writeln!(text, "{name} is required");
                }
                for value in &field.values {
                    let _ = writeln!(text, "{name} may be {value}");
                }
            }
        }
        text
    }
}

fn read_method(pool: &DescriptorPool, method: &MethodDescriptor) -> Result<Method, Box<dyn Error>> {
    let rest =
        option(pool, &method.options(), "rest").ok_or_else(|| format!("{}: no rest", method.name()))?;
    let access =
        option(pool, &method.options(), "access").ok_or_else(|| format!("{}: no access", method.name()))?;
    let (rest, access) =
        (rest.as_message().ok_or("rest")?.clone(), access.as_message().ok_or("access")?.clone());
    Ok(Method {
        name: method.name().to_owned(),
        about: comment(&method.parent_file(), method.path()),
        input: method.input().name().to_owned(),
        output: method.output().name().to_owned(),
        streams: method.is_server_streaming(),
        verb: text(&rest, "method"),
        path: text(&rest, "path"),
        file: flag(&rest, "file"),
        body: flag(&rest, "body"),
        example: text(&rest, "example"),
        access_verb: text(&access, "verb"),
        access_resource: text(&access, "resource"),
    })
}

fn read_message(pool: &DescriptorPool, message: &MessageDescriptor) -> Result<Message, Box<dyn Error>> {
    let mut fields = message.fields().map(|field| read_field(pool, &field)).collect::<Result<Vec<_>, _>>()?;
    fields.sort_by_key(|field| field.number);
    Ok(Message {
        name: message.name().to_owned(),
        about: comment(&message.parent_file(), message.path()),
        fields,
    })
}

fn read_field(pool: &DescriptorPool, field: &FieldDescriptor) -> Result<Field, Box<dyn Error>> {
    let options = field.options();
    let kind = match (field.is_map(), field.kind()) {
        (true, Kind::Message(entry)) => kind_of(&entry.map_entry_value_field())?,
        _ => kind_of(field)?,
    };
    let values = option(pool, &options, "values");
    let values = values.as_ref().and_then(|values| values.as_list()).unwrap_or_default();
    let text =
        |name| option(pool, &options, name).and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
    Ok(Field {
        name: field.name().to_owned(),
        json: field.json_name().to_owned(),
        number: field.number(),
        about: comment(&field.parent_message().parent_file(), field.path()),
        kind,
        list: field.is_list(),
        map: field.is_map(),
        optional: field.supports_presence(),
        required: option(pool, &options, "required").and_then(|value| value.as_bool()).unwrap_or(false),
        values: values.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        example: text("example"),
        pattern: text("pattern"),
        minimum: option(pool, &options, "minimum").and_then(|value| value.as_i32()),
    })
}

fn kind_of(field: &FieldDescriptor) -> Result<FieldKind, Box<dyn Error>> {
    Ok(match field.kind() {
        Kind::String => FieldKind::Text,
        Kind::Bytes => FieldKind::Bytes,
        Kind::Int32 => FieldKind::Number,
        Kind::Double => FieldKind::Double,
        Kind::Bool => FieldKind::Flag,
        Kind::Message(message) if message.package_name() == PACKAGE => {
            FieldKind::Message(message.name().to_owned())
        }
        // 64-bit integers are strings in protobuf's JSON, and enumerations have surprises of their own.
        other => return Err(format!("{}: the contract does not use {other:?}", field.full_name()).into()),
    })
}

fn option(pool: &DescriptorPool, options: &DynamicMessage, name: &str) -> Option<Value> {
    let extension = pool.get_extension_by_name(&format!("{PACKAGE}.{name}"))?;
    options.has_extension(&extension).then(|| options.get_extension(&extension).into_owned())
}

fn flag(message: &DynamicMessage, field: &str) -> bool {
    message.get_field_by_name(field).and_then(|value| value.as_bool()).unwrap_or(false)
}

fn text(message: &DynamicMessage, field: &str) -> String {
    message.get_field_by_name(field).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// The comment above a declaration, as one paragraph.
fn comment(file: &FileDescriptor, path: &[i32]) -> String {
    let info = file.file_descriptor_proto().source_code_info.clone().unwrap_or_default();
    let found = info.location.iter().find(|location| location.path == path);
    found.map(|location| one_line(location.leading_comments())).unwrap_or_default()
}

fn detached(file: &FileDescriptor) -> String {
    let info = file.file_descriptor_proto().source_code_info.clone().unwrap_or_default();
    let head = info.location.iter().find(|location| location.path == [12]);
    let comments = head.map(|location| {
        let detached = location.leading_detached_comments.iter().map(String::as_str);
        detached.chain(location.leading_comments.as_deref()).collect::<Vec<_>>().join("\n")
    });
    // A blank line parts paragraphs.
    comments.unwrap_or_default().split("\n\n").map(one_line).collect::<Vec<_>>().join("\n\n")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
