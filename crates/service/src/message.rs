//! Checks the message of a gRPC call before it is decoded: decoded, an empty message of two bytes takes hundreds. A message that
//! does not match the contract is refused with a [`Problem`].

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Bytes;
use connections::Share;
use http::StatusCode;
use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FileDescriptorSet};

use crate::body::{self, MAX_BODY};
use crate::contract::DESCRIPTORS;
use crate::problem::Problem;

/// The bytes of a frame before its message: whether it is compressed, and its length.
pub const FRAME: usize = 5;
/// The most texts and messages in a message, and what each of them takes in memory once it is decoded.
const MOST_PARTS: usize = 50_000;
const PART_BYTES: usize = 512;
/// The most messages within one another, as prost allows.
const DEEPEST: usize = 100;

/// A field that is looked at.
enum Field {
    Text,
    Bytes,
    Message(String),
    /// A number, and how it is written; a list of them may be packed into one.
    Number {
        wire: u64,
        is_list: bool,
    },
}

impl Field {
    /// Whether its value may be written so.
    fn may_be(&self, wire: u64) -> bool {
        match self {
            Self::Number { wire: own, is_list } => wire == *own || *is_list && wire == PACKED,
            _ => wire == PACKED,
        }
    }
}

/// How texts, messages and packed lists are written: with their length before them.
const PACKED: u64 = 2;

/// The fields of a message, by their numbers.
type Shape = HashMap<u64, Field>;

/// The messages of the contract by their names, and the message of each method.
struct Shapes {
    messages: HashMap<String, Shape>,
    methods: HashMap<String, String>,
}

static SHAPES: LazyLock<Shapes> = LazyLock::new(Shapes::read);

impl Shapes {
    fn read() -> Self {
        let mut shapes = Self { messages: HashMap::new(), methods: HashMap::new() };
        // A contract that cannot be read serves nothing: the router reads it first.
        for file in FileDescriptorSet::decode(DESCRIPTORS).unwrap_or_default().file {
            let package = format!(".{}", file.package());
            file.message_type.iter().for_each(|message| shapes.add(&package, message));
            for method in file.service.iter().flat_map(|service| &service.method) {
                shapes.methods.insert(method.name().to_owned(), method.input_type().to_owned());
            }
        }
        shapes
    }

    fn add(&mut self, within: &str, message: &DescriptorProto) {
        let name = format!("{within}.{}", message.name());
        message.nested_type.iter().for_each(|nested| self.add(&name, nested));
        let fields = message.field.iter().filter_map(|field| {
            let of = match field.r#type() {
                Type::String => Field::Text,
                Type::Bytes => Field::Bytes,
                Type::Message => Field::Message(field.type_name().to_owned()),
                number => {
                    let wire = match number {
                        Type::Fixed64 | Type::Sfixed64 | Type::Double => 1,
                        Type::Fixed32 | Type::Sfixed32 | Type::Float => 5,
                        _ => 0,
                    };
                    Field::Number { wire, is_list: field.label() == Label::Repeated }
                }
            };
            Some((u64::try_from(field.number()).ok()?, of))
        });
        let shape = fields.collect();
        self.messages.insert(name, shape);
    }

    /// Returns how many texts and messages a message has; `None` if it cannot be decoded.
    fn parts(&self, mut bytes: &[u8], shape: Option<&Shape>, depth: usize) -> Option<usize> {
        let mut count = 0;
        while !bytes.is_empty() {
            let key = varint(&mut bytes)?;
            let field = shape.and_then(|shape| shape.get(&(key >> 3)));
            if field.is_some_and(|field| !field.may_be(key & 7)) {
                return None;
            }
            match key & 7 {
                0 => {
                    varint(&mut bytes)?;
                }
                1 => {
                    taken(&mut bytes, 8)?;
                }
                5 => {
                    taken(&mut bytes, 4)?;
                }
                PACKED => {
                    let length = varint(&mut bytes)?;
                    let inner = taken(&mut bytes, length)?;
                    count += 1;
                    match field {
                        Some(Field::Text) => {
                            std::str::from_utf8(inner).ok()?;
                        }
                        Some(Field::Message(name)) if depth < DEEPEST => {
                            count += self.parts(inner, self.messages.get(name), depth + 1)?;
                        }
                        Some(Field::Message(_)) => return None,
                        Some(Field::Bytes | Field::Number { .. }) | None => {}
                    }
                }
                _ => return None,
            }
        }
        Some(count)
    }
}

/// Reads a number of the wire format (protobuf.dev, *Encoding*).
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = taken(bytes, 1)? else { return None };
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn taken<'b>(bytes: &mut &'b [u8], length: u64) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(taken)
}

/// Checks the frame of a method's message, and takes the memory that it will need.
///
/// # Errors
/// 400 if it cannot be decoded, 413 if it is too large or has too many parts, 429 or 503 if there is no memory for it.
pub fn check(method: &str, frame: &Bytes, share: &Share) -> Result<(), Problem> {
    let unreadable =
        || Problem::usage("", "the message cannot be decoded", "send what the contract describes");
    let too_large = |fault: String| Problem {
        status: StatusCode::PAYLOAD_TOO_LARGE,
        ..Problem::usage("", fault, "send less at once")
    };
    let [compressed, length @ ..] = *frame.first_chunk::<FRAME>().ok_or_else(unreadable)?;
    let (length, message) = (u32::from_be_bytes(length) as usize, &frame[FRAME..]);
    if length > MAX_BODY {
        return Err(too_large(format!("the message is larger than {} MiB", MAX_BODY >> 20)));
    }
    if length != message.len() {
        return Err(unreadable());
    }
    if compressed != 0 {
        // No compression is offered; the generated code refuses it.
        return Ok(());
    }
    let shape = SHAPES.methods.get(method).and_then(|name| SHAPES.messages.get(name));
    let parts = SHAPES.parts(message, shape, 0).ok_or_else(unreadable)?;
    if parts > MOST_PARTS {
        return Err(too_large(format!("the message has more than {MOST_PARTS} texts and messages")));
    }
    share.take(parts * PART_BYTES).map_err(body::exhausted)
}

#[cfg(test)]
mod tests {
    use connections::Budget;

    use super::*;
    use crate::contract::{JobSpec, RecordAdmissionsRequest, RenderJobRequest};

    fn framed(message: &[u8]) -> Bytes {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[0][..], &length, message].concat().into()
    }

    #[test]
    fn a_message_of_many_small_parts_is_refused_before_it_is_decoded() {
        let budget = Budget::new(64 << 20, 32 << 20);
        let status = |method: &str, message: &[u8]| {
            check(method, &framed(message), &budget.share("jane")).map_err(|problem| problem.status.as_u16())
        };
        let many = [0x0a, 0x00].repeat(MOST_PARTS + 1);
        assert!(RecordAdmissionsRequest::decode(&*many).unwrap().admissions.len() > MOST_PARTS);
        assert_eq!(status("RecordAdmissions", &many), Err(413));
        let spec = JobSpec { command: vec![String::new(); MOST_PARTS], ..JobSpec::default() };
        let nested = RenderJobRequest { spec: Some(spec), ..RenderJobRequest::default() };
        assert_eq!(status("RenderJob", &nested.encode_to_vec()), Err(413), "parts of parts count");
        assert_eq!(status("RecordAdmissions", &[0x0a, 0x00].repeat(1_000)), Ok(()));
        let held = budget.share("jane");
        assert!(check("RecordAdmissions", &framed(&[0x0a, 0x00].repeat(40_000)), &held).is_ok());
        assert_eq!(status("RecordAdmissions", &[0x0a, 0x00].repeat(40_000)), Err(429), "they take memory");
    }

    #[test]
    fn what_is_no_message_is_a_fault_of_the_caller() {
        let share = Budget::new(1 << 20, 1 << 20).share("jane");
        let status =
            |frame: Bytes| check("RenderJob", &frame, &share).map_err(|problem| problem.status.as_u16());
        for broken in [&[0xff; 100][..], &[0x0a, 0x7f, b'a'], &[0x0a, 0x02, 0xff, 0xfe], &[0x0b], &[0x08, 1]]
        {
            assert_eq!(status(framed(broken)), Err(400), "{broken:?}");
        }
        assert_eq!(status(Bytes::from_static(&[0, 0, 0, 0, 9, 1])), Err(400));
        assert_eq!(status(Bytes::from_static(&[0, 0])), Err(400));
        assert_eq!(status(Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff, 1])), Err(413));
        assert_eq!(status(framed(&RenderJobRequest::default().encode_to_vec())), Ok(()));
    }
}
