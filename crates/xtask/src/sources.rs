//! The source of a crate as the checks see it: its modules, each with its code and its string literals.
//!
//! The lexer knows comments, strings and characters and nothing else of Rust; that is enough to find paths in code and
//! words in strings. Tests are left out: files and folders named `tests`, and modules under `#[cfg(test)]`.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::steps::{self, Stop};

/// A module of a crate.
pub struct Module {
    /// Its path in the crate, e.g. `training::logs`; empty for the root.
    pub name: String,
    /// Its file, from the repository's root.
    pub file: String,
    /// Its code, with comments and literals blanked out.
    pub code: String,
    /// Its string literals as written, without quotes.
    pub strings: Vec<String>,
}

/// Returns the names of all crates of this repository, sorted.
pub fn crates() -> Result<Vec<String>, Stop> {
    let folder = steps::root().join("crates");
    let entries = std::fs::read_dir(&folder).map_err(|error| Stop::io(&folder, &error))?;
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join("src").is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

/// Reads the modules of the crate in `crates/NAME`, sorted by file.
pub fn modules(name: &str) -> Result<Vec<Module>, Stop> {
    let root = steps::root();
    let source = root.join("crates").join(name).join("src");
    let mut files = Vec::new();
    collect(&source, &mut files)?;
    files.sort();
    files
        .iter()
        .map(|file| {
            let text = std::fs::read_to_string(file).map_err(|error| Stop::io(file, &error))?;
            let inside = file.strip_prefix(&source).unwrap_or(file);
            let path = file.strip_prefix(&root).unwrap_or(file).display().to_string();
            Ok(module(module_name(inside), path, &text))
        })
        .collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Stop> {
    for entry in std::fs::read_dir(folder).map_err(|error| Stop::io(folder, &error))? {
        let path = entry.map_err(|error| Stop::io(folder, &error))?.path();
        if path.file_stem().is_some_and(|stem| stem == "tests") {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// `a/mod.rs` and `a.rs` are the module `a`; `lib.rs` and `main.rs` are the root.
fn module_name(file: &Path) -> String {
    let mut names: Vec<String> =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let is_root = matches!(&names[..], [only] if only == "lib" || only == "main");
    if is_root || names.last().is_some_and(|last| last == "mod") {
        names.pop();
    }
    names.join("::")
}

/// Takes a source text apart.
pub fn module(name: String, file: String, text: &str) -> Module {
    let (mut code, strings) = lex(text);
    let tests = test_modules(&code);
    let outside = |at: usize| !tests.iter().any(|range| range.contains(&at));
    let strings = strings.into_iter().filter(|(at, _)| outside(*at)).map(|(_, string)| string).collect();
    for range in tests.iter().rev() {
        code.replace_range(range.clone(), "");
    }
    Module { name, file, code, strings }
}

/// Returns the code, with each byte of comments and literals replaced by a blank, and the strings with their places.
fn lex(text: &str) -> (String, Vec<(usize, String)>) {
    let mut code = String::with_capacity(text.len());
    let mut strings = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let word_before = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let (length, string) = token(rest, word_before);
        strings.extend(string.map(|inside| (at, rest.get(inside).unwrap_or_default().to_owned())));
        if length == 0 {
            code.extend(rest.chars().next());
        } else {
            code.extend(std::iter::repeat_n(' ', length));
        }
        // A blank for each byte keeps the places of code and text the same.
        at = code.len();
    }
    (code, strings)
}

/// The length of the comment or literal at the start of a text, 0 if there is none, and the range inside a string's
/// quotes.
fn token(text: &str, word_before: bool) -> (usize, Option<Range<usize>>) {
    let until = |end: &str, from: usize| {
        text.get(from..).and_then(|rest| rest.find(end)).map_or(text.len(), |found| from + found)
    };
    if text.starts_with("//") {
        return (until("\n", 0), None);
    }
    if text.starts_with("/*") {
        return ((until("*/", 2) + 2).min(text.len()), None);
    }
    let bytes = text.as_bytes();
    let hashes = bytes.iter().skip(1).take_while(|byte| **byte == b'#').count();
    if bytes.first() == Some(&b'r') && !word_before && bytes.get(1 + hashes) == Some(&b'"') {
        let start = hashes + 2;
        let end = until(&format!("\"{}", "#".repeat(hashes)), start);
        return ((end + 1 + hashes).min(text.len()), Some(start..end));
    }
    match bytes {
        [b'"', ..] => {
            let end = closing(bytes, b'"');
            ((end + 1).min(text.len()), Some(1..end))
        }
        // A character, not a lifetime or a label.
        [b'\'', b'\\', ..] => ((closing(bytes, b'\'') + 1).min(text.len()), None),
        [b'\'', ..] => {
            let letter = text.get(1..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
            if bytes.get(1 + letter) == Some(&b'\'') { (letter + 2, None) } else { (0, None) }
        }
        _ => (0, None),
    }
}

/// The place of the quote that closes the one at the start; a backslash escapes the byte after it.
fn closing(bytes: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at).filter(|byte| **byte != quote) {
        at += if *byte == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

/// The ranges of modules under `#[cfg(test)]`, with their bodies.
fn test_modules(code: &str) -> Vec<Range<usize>> {
    const MARK: &str = "#[cfg(test)]";
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = code.get(from..).and_then(|rest| rest.find(MARK)).map(|at| from + at) {
        let after = at + MARK.len();
        let item = code.get(after..).unwrap_or_default();
        let end = match item.trim_start().starts_with("mod ") {
            true => after + body_length(item),
            false => after,
        };
        if end > after {
            found.push(at..end);
        }
        from = end.max(after);
    }
    found
}

/// The length of an item up to the end of its braces, or to its semicolon.
fn body_length(item: &str) -> usize {
    let mut depth = 0_usize;
    for (at, letter) in item.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth = depth.saturating_sub(1),
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    item.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_tests_are_no_code() {
        let text = r##"//! crate::a
            fn f<'a>(x: &'a str) -> char { g("say \"crate::b\"", r#"raw "x""#); '"' /* crate::c */ }
            #[cfg(test)]
            mod tests { fn t() { h("in a test", crate::d); } }
            use crate::e;
        "##;
        let module = module(String::new(), String::new(), text);
        assert_eq!(module.strings, [r#"say \"crate::b\""#, r#"raw "x""#]);
        assert!(module.code.contains("use crate::e;"));
        for gone in ["crate::a", "crate::b", "crate::c", "crate::d"] {
            assert!(!module.code.contains(gone), "{gone}: {}", module.code);
        }
    }

    #[test]
    fn modules_are_named_by_their_files() {
        for (file, name) in [("lib.rs", ""), ("a.rs", "a"), ("a/mod.rs", "a"), ("a/b.rs", "a::b")] {
            assert_eq!(module_name(Path::new(file)), name);
        }
    }
}
