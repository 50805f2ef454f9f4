//! `-o jq=FILTER`: a jq program, run by jaq on the JSON that `-o json` would print. Strings are printed without
//! quotes, one value per line, as `gh --jq` does. Pure.

use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars, data, unwrap_valr};
use jaq_json::{Val, read};
use serde_json::Value;

/// A program that compiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(String);

type Filter = jaq_core::compile::Filter<jaq_core::Native<data::JustLut<Val>>>;

impl Program {
    /// Checks that a program compiles, and keeps its text.
    ///
    /// # Errors
    /// The compiler's error, in one line.
    pub fn parse(text: &str) -> Result<Program, String> {
        compile(text)?;
        Ok(Program(text.to_owned()))
    }

    /// Runs the program on a value and returns its output.
    ///
    /// # Errors
    /// The error that ended the program.
    pub fn text(&self, input: &Value) -> Result<String, String> {
        let filter = compile(&self.0)?;
        let input = read::parse_single(input.to_string().as_bytes()).map_err(|error| error.to_string())?;
        let context = Ctx::<data::JustLut<Val>>::new(&filter.lut, Vars::new([]));
        let mut text = String::new();
        for value in filter.id.run((context, input)).map(unwrap_valr) {
            match value.map_err(|error| without_data(&error.to_string()))? {
                Val::TStr(bare) => text.push_str(&String::from_utf8_lossy(&bare)),
                other => text.push_str(&other.to_string()),
            }
            text.push('\n');
        }
        Ok(text)
    }
}

/// The most characters of a value in an error: jq's own messages show about as many.
const MOST_OF_VALUE: usize = 11;

/// Shortens the values in an error of jaq, which are whole objects with all that they contain. The program's own errors, those
/// of `error`, stay as they are.
fn without_data(error: &str) -> String {
    if !["cannot ", "invalid path expression "].iter().any(|start| error.starts_with(start)) {
        return error.to_owned();
    }
    let (mut text, mut rest) = (String::new(), error);
    while let Some((before, value)) = rest.find(['{', '[', '"']).map(|at| rest.split_at(at)) {
        let mut values = serde_json::Deserializer::from_str(value).into_iter::<serde::de::IgnoredAny>();
        // What is not JSON may still be data.
        let length = if matches!(values.next(), Some(Ok(_))) { values.byte_offset() } else { value.len() };
        let (value, after) = value.split_at(length);
        text.push_str(before);
        match value.char_indices().nth(MOST_OF_VALUE) {
            Some((end, _)) => text.extend([&value[..end], "..."]),
            None => text.push_str(value),
        }
        rest = after;
    }
    text + rest
}

/// The formats of jq that jaq lacks.
const FORMATS: &str = r#"
def _row(f): map(if type == "array" or type == "object" then error("a row holds only texts, numbers and booleans")
    elif . == null then "" elif type == "string" then f else tojson end);
def @csv: _row("\"" + (split("\"") | join("\"\"")) + "\"") | join(",");
def @tsv: _row(split("\\") | join("\\\\") | split("\t") | join("\\t") | split("\n") | join("\\n") | split("\r") | join("\\r")) | join("\t");
"#;

fn compile(text: &str) -> Result<Filter, String> {
    let arena = Arena::default();
    let formats = load::parse(FORMATS, |parser| parser.defs()).unwrap_or_default();
    let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs()).chain(formats);
    let modules = Loader::new(definitions)
        .load(&arena, File { code: text, path: () })
        .map_err(|faults| faults.first().map_or_else(String::new, |(_, fault)| unread(fault)))?;
    let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    Compiler::default().with_funs(functions).compile(modules).map_err(|faults| {
        let unknown = faults.iter().flat_map(|(_, faults)| faults).map(|(name, _)| *name);
        format!("undefined in jq: {}", unknown.collect::<Vec<_>>().join(", "))
    })
}

/// What jaq expected, and where; jaq reports the position as the rest of the text.
fn unread(fault: &load::Error<&str>) -> String {
    let place = |rest: &str| match rest.trim() {
        "" => "at the end".to_owned(),
        rest => format!("before {rest:?}"),
    };
    let told = match fault {
        load::Error::Io(faults) => faults.first().map(|(name, why)| format!("{name}: {why}")),
        load::Error::Lex(faults) => {
            faults.first().map(|(expected, rest)| format!("expected {} {}", expected.as_str(), place(rest)))
        }
        load::Error::Parse(faults) => {
            faults.first().map(|(expected, rest)| format!("expected {} {}", expected.as_str(), place(rest)))
        }
    };
    format!("not a jq program: {}", told.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn programs_run_as_in_jq() {
        let input = json!({"items": [{"name": "a", "size": 3}, {"name": "b", "size": 5}]});
        let table = [
            (".items[].name", "a\nb\n"),
            ("[.items[] | select(.size > 3) | {name}]", "[{\"name\":\"b\"}]\n"),
            (".items | map(.size) | add", "8\n"),
            (".items | length as $n | \"\\($n) jobs\"", "2 jobs\n"),
            ("empty", ""),
            (".items[] | [.name, .size, null, true] | @tsv", "a\t3\t\ttrue\nb\t5\t\ttrue\n"),
            ("[\"a\\tb\\\\\", 1] | @tsv", "a\\tb\\\\\t1\n"),
            ("[\"say \\\"hi\\\"\", 1.5, false] | @csv", "\"say \"\"hi\"\"\",1.5,false\n"),
            (".items[0] | keys", "[\"name\",\"size\"]\n"),
            ("\"2026-01-01T00:00:00Z\" | fromdate", "1767225600\n"),
            (".items[].name | test(\"^a\")", "true\nfalse\n"),
        ];
        for (program, text) in table {
            assert_eq!(Program::parse(program).unwrap().text(&input).as_deref(), Ok(text), "{program}");
        }
        assert!(Program::parse(".[").is_err());
        assert!(Program::parse("[.items] | @csv").unwrap().text(&input).is_err());
        assert_eq!(Program::parse("nosuch(1)").unwrap_err(), "undefined in jq: nosuch");
        assert!(Program::parse(".items + 1").unwrap().text(&input).is_err());
    }

    #[test]
    fn an_error_does_not_print_the_data() {
        let input = json!({"items": [{"env": {"name": "KEY", "value": "sec\"ret}"}}, {"size": 3}]});
        let error = |program: &str| Program::parse(program).unwrap().text(&input).unwrap_err();
        assert_eq!(error("group_by(.x)"), "cannot use {\"items\":[{... as array");
        assert_eq!(error(".items - .items[0]"), "cannot calculate [{\"env\":{\"n... - {\"env\":{\"na...");
        assert_eq!(error(".items[0].env.value | .name"), "cannot index \"sec\\\"ret}\" with \"name\"");
        assert_eq!(error(".items | .name"), "cannot index [{\"env\":{\"n... with \"name\"");
        assert_eq!(error("error(\"no job \\\"a long name\\\"\")"), "\"no job \\\"a long name\\\"\"");
    }
}
