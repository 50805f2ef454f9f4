//! Names that are bytes, as texts: percent-encoded in paths, readable in messages. Pure.

use percent_encoding::percent_decode_str;

use super::Fault;

/// The longest path, in bytes, as in Linux.
const LONGEST_PATH: usize = 4095;

/// Returns a path as a text, which stands for the same bytes when it is asked for.
#[must_use]
pub fn path_of(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter == '%' || letter.is_control() {
                encode(letter.to_string().as_bytes(), &mut text);
            } else {
                text.push(letter);
            }
        }
        encode(chunk.invalid(), &mut text);
    }
    text
}

fn encode(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        text.push_str(percent_encoding::percent_encode_byte(*byte));
    }
}

/// Returns a name for people.
#[must_use]
pub fn spoken(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Checks a path as it was asked for; returns its bytes without slashes at its end.
pub(super) fn checked(path: &str) -> Result<Vec<u8>, Fault> {
    let path: Vec<u8> = percent_decode_str(path).collect();
    if path.first() != Some(&b'/') {
        return Err(Fault::Path("is not absolute"));
    }
    if path.len() > LONGEST_PATH {
        return Err(Fault::Path("is too long"));
    }
    if path.contains(&0) {
        return Err(Fault::Path("has a NUL"));
    }
    if path.split(|byte| *byte == b'/').any(|part| part == b".." || part == b".") {
        return Err(Fault::Path("has a part . or .."));
    }
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    Ok([b"/", parts.join(&b'/').as_slice()].concat())
}
