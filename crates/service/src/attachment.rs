//! A file of a container as a response: to be saved, never to be shown. Its name and its content are hostile.

use axum::body::Body;
use http::{HeaderName, HeaderValue, Response, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::contract::ArtifactChunk;

/// What `filename*` need not encode (RFC 8187).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_');
/// The longest name, in letters.
const LONGEST_NAME: usize = 150;

/// The media type of every file, so that no browser interprets one.
pub const MEDIA_TYPE: &str = "application/octet-stream";

/// Marks a response as such a file; the first chunk has the name and the length.
pub fn mark(response: &mut Response<Body>, head: &ArtifactChunk) {
    let of = HeaderValue::from_static;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_DISPOSITION, disposition(&head.name));
    headers.insert(header::CONTENT_SECURITY_POLICY, of("default-src 'none'; sandbox"));
    headers.insert(HeaderName::from_static("cross-origin-resource-policy"), of("same-origin"));
    if let Ok(length) = HeaderValue::try_from(&head.length) {
        headers.insert(header::CONTENT_LENGTH, length);
    }
}

/// The header that lets a browser save the response under a name: once in ASCII, once in UTF-8.
fn disposition(name: &str) -> HeaderValue {
    let name = harmless(name);
    let ascii: String = name.chars().map(|letter| if letter.is_ascii() { letter } else { '_' }).collect();
    let text =
        format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{}", utf8_percent_encode(&name, ENCODED));
    // It has only ASCII that may be in headers.
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("attachment"))
}

/// A name that no file system and no person takes for another one: no separators, no control or invisible letters, no
/// letters that turn the direction around, no dot at the beginning.
fn harmless(name: &str) -> String {
    let is_odd = |letter: char| {
        letter.is_control()
            || matches!(letter, '/' | '\\' | '"' | '\'' | ':' | '*' | '?' | '<' | '>' | '|' | '%')
            || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            || matches!(letter, '\u{61c}' | '\u{feff}' | '\u{fffd}' | '\u{e0000}'..='\u{e007f}')
    };
    let replaced = name.chars().map(|letter| if is_odd(letter) { '_' } else { letter });
    let name: String = replaced.take(LONGEST_NAME).collect();
    let name = name.trim_matches(|letter: char| letter == '.' || letter.is_whitespace());
    if name.is_empty() { "file".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_how_the_file_is_saved_and_nothing_else() {
        for (name, expected) in [
            ("model.npz", "attachment; filename=\"model.npz\"; filename*=UTF-8''model.npz"),
            ("ä b", "attachment; filename=\"_ b\"; filename*=UTF-8''%C3%A4%20b"),
            ("../../x", "attachment; filename=\"_.._x\"; filename*=UTF-8''_.._x"),
            (
                "a\"; filename=b.exe",
                "attachment; filename=\"a_; filename=b.exe\"; filename*=UTF-8''a_%3B%20filename%3Db.exe",
            ),
            (
                "a\r\nset-cookie: x",
                "attachment; filename=\"a__set-cookie_ x\"; filename*=UTF-8''a__set-cookie_%20x",
            ),
            ("gpj\u{202e}exe", "attachment; filename=\"gpj_exe\"; filename*=UTF-8''gpj_exe"),
            ("...", "attachment; filename=\"file\"; filename*=UTF-8''file"),
            ("", "attachment; filename=\"file\"; filename*=UTF-8''file"),
        ] {
            assert_eq!(disposition(name).to_str().unwrap(), expected, "{name:?}");
        }
        assert!(disposition(&"ä".repeat(5000)).len() < 2000);
    }
}
