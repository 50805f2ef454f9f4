//! The formats of stdout, for every verb: parses the requested format, and prints objects in it.
//!
//! The input is the argument of `-o`, parsed once, and later JSON values; the output is text. Each verb creates its
//! own tables; all other formats are produced here. Pure, except for templates in files.

mod columns;
mod jq;

use std::fmt;

use clap::builder::{PossibleValue, TypedValueParser, ValueParserFactory};
use jobs::Class;
use serde_json::Value;

use crate::failure::Failure;
use columns::Columns;
use jq::Program;
use jsonpath::JsonPath;

/// The format of stdout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Output {
    /// For people
    Table,
    /// For people with a wide screen
    Wide,
    /// The Kubernetes objects as JSON
    Json,
    /// The Kubernetes objects as YAML
    Yaml,
    /// mpijob/NAME, one per line
    Name,
    /// The result of a template for the Kubernetes objects; the template lives as long as the process
    Template(&'static Template),
}

/// A template that converts objects to text.
#[derive(Clone, Debug, PartialEq)]
pub enum Template {
    /// kubectl's `jsonpath=`
    JsonPath(JsonPath),
    /// kubectl's `jsonpath-as-json=`
    JsonPathAsJson(JsonPath),
    /// kubectl's `custom-columns=`
    Columns(Columns),
    /// `jq=`
    Jq(Program),
}

/// Formats that are one word, with their description.
const WORDS: [(&str, Output, &str); 5] = [
    ("table", Output::Table, "A table"),
    ("wide", Output::Wide, "A table with exact times and more columns"),
    ("json", Output::Json, "The Kubernetes objects as JSON; stderr holds JSON lines only"),
    ("yaml", Output::Yaml, "The Kubernetes objects as YAML; stderr holds JSON lines only"),
    ("name", Output::Name, "KIND/NAME, one per line"),
];

/// Formats that take an argument, with the argument and the description.
const TEMPLATES: [(&str, &str, &str); 4] = [
    ("jsonpath", "TEMPLATE", "The result of a kubectl JSONPath template"),
    ("jsonpath-as-json", "TEMPLATE", "The values that a JSONPath template selects, as a JSON list"),
    ("custom-columns", "HEADING:PATH,…", "A table with the given columns"),
    ("jq", "PROGRAM", "The result of a jq program; strings are printed without quotes"),
];

impl Output {
    /// Returns the format of a command that prints a manifest: its prose stays prose, unless JSON was requested.
    pub fn of_a_manifest(asked: Output) -> Output {
        if asked == Output::Json { Output::Json } else { Output::Table }
    }

    /// Whether the output is for programs, so that stderr must be JSON lines too.
    pub fn is_for_programs(self) -> bool {
        matches!(self, Output::Json | Output::Yaml)
    }

    /// Whether objects are printed as the server has them, rather than as this program's view of them.
    pub fn shows_objects(self) -> bool {
        self.is_for_programs() || matches!(self, Output::Template(_))
    }

    /// Parses the argument of `-o`.
    ///
    /// # Errors
    /// What is wrong with it, and the available formats.
    pub fn parse(text: &str) -> Result<Output, String> {
        if let Some((_, output, _)) = WORDS.iter().find(|(word, _, _)| *word == text) {
            return Ok(*output);
        }
        let (word, argument) = text.split_once('=').unwrap_or((text, ""));
        let in_file = word.strip_suffix("-file");
        let known = TEMPLATES.iter().find(|(name, ..)| *name == in_file.unwrap_or(word));
        let Some((name, wanted, _)) = known else { return Err(unknown(text)) };
        if argument.is_empty() {
            return Err(format!("expected {word}={}", if in_file.is_some() { "FILE" } else { wanted }));
        }
        let argument = match in_file {
            Some(_) => std::fs::read_to_string(argument)
                .map_err(|error| format!("cannot read {argument}: {error}"))?
                .trim_end_matches('\n')
                .to_owned(),
            None => argument.to_owned(),
        };
        let template = match *name {
            "jsonpath" => Template::JsonPath(JsonPath::parse(&argument)?),
            "jsonpath-as-json" => Template::JsonPathAsJson(JsonPath::parse(&argument)?),
            "custom-columns" => Template::Columns(Columns::parse(&argument)?),
            _ => Template::Jq(Program::parse(&argument)?),
        };
        Ok(Output::Template(Box::leak(Box::new(template))))
    }
}

fn unknown(text: &str) -> String {
    let known: Vec<&str> =
        WORDS.iter().map(|(word, ..)| *word).chain(TEMPLATES.iter().map(|(word, ..)| *word)).collect();
    match jobs::manifest::nearest(text, &known) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("available formats: {}", known.join(", ")),
    }
}

/// Returns every format with its argument and description, for the reference.
pub fn formats() -> impl Iterator<Item = (String, &'static str)> {
    let words = WORDS.iter().map(|(word, _, meaning)| ((*word).to_owned(), *meaning));
    words.chain(TEMPLATES.iter().map(|(word, argument, meaning)| (format!("{word}={argument}"), *meaning)))
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = WORDS.iter().find(|(_, output, _)| output == self).map(|(word, ..)| *word);
        f.write_str(word.unwrap_or("template"))
    }
}

impl ValueParserFactory for Output {
    type Parser = Formats;

    fn value_parser() -> Formats {
        Formats
    }
}

/// Parses `-o` for clap.
#[derive(Clone, Copy, Debug)]
pub struct Formats;

impl TypedValueParser for Formats {
    type Value = Output;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<Output, clap::Error> {
        let parse = |text: &str| Output::parse(text);
        let text = clap::builder::StringValueParser::new();
        TypedValueParser::try_map(text, move |text| parse(&text)).parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let words = WORDS.iter().map(|(word, _, meaning)| PossibleValue::new(*word).help(*meaning));
        let templates =
            TEMPLATES.iter().map(|(word, _, meaning)| PossibleValue::new(format!("{word}=")).help(*meaning));
        Some(Box::new(words.chain(templates)))
    }
}

/// Prints objects in a format other than a table.
///
/// # Errors
/// If a template does not fit the objects.
pub fn text(value: &Value, output: Output) -> Result<String, Failure> {
    let failed =
        |error: String| Failure::new(Class::Error, "Output", format!("cannot write the object: {error}"));
    match output {
        Output::Yaml => serde_saphyr::to_string(value).map_err(|error| failed(error.to_string())),
        Output::Template(template) => templated(value, template).map_err(|error| {
            Failure::new(Class::Error, "Template", format!("cannot apply the template: {error}"))
                .with_hint("see the object with -o json")
        }),
        _ => serde_json::to_string_pretty(value)
            .map(|text| text + "\n")
            .map_err(|error| failed(error.to_string())),
    }
}

fn templated(value: &Value, template: &Template) -> Result<String, String> {
    match template {
        Template::JsonPath(path) => path.text(value),
        Template::JsonPathAsJson(path) => {
            let values = Value::from(path.values(value)?);
            serde_json::to_string_pretty(&values).map(|text| text + "\n").map_err(|error| error.to_string())
        }
        Template::Columns(columns) => match value.get("items").and_then(Value::as_array) {
            Some(items) => columns.text(items),
            None => columns.text(std::slice::from_ref(value)),
        },
        Template::Jq(program) => program.text(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn formats_are_parsed() {
        for (word, output, _) in WORDS {
            assert_eq!(Output::parse(word), Ok(output));
            assert_eq!(output.to_string(), word);
        }
        for text in ["jsonpath={.a}", "jsonpath-as-json=.a", "custom-columns=A:.a", "jq=.a"] {
            assert!(Output::parse(text).is_ok_and(Output::shows_objects), "{text}");
        }
        assert_eq!(Output::parse("jsn").unwrap_err(), "did you mean json?");
        assert!(Output::parse("xml-or-so").unwrap_err().starts_with("available formats: table, wide"));
        assert_eq!(Output::parse("jsonpath").unwrap_err(), "expected jsonpath=TEMPLATE");
        assert_eq!(Output::parse("jsonpath-file=").unwrap_err(), "expected jsonpath-file=FILE");
        assert!(Output::parse("jq=.[").is_err());
    }

    #[test]
    fn templates_print() {
        let value = json!({"items": [{"a": 1}, {"a": 2}]});
        let printed = |format: &str| {
            anstream::adapter::strip_str(&text(&value, Output::parse(format).unwrap()).unwrap()).to_string()
        };
        assert_eq!(printed("jsonpath={.items[*].a}"), "1 2");
        assert_eq!(printed("jsonpath-as-json={.items[*].a}"), "[\n  1,\n  2\n]\n");
        assert_eq!(printed("custom-columns=A:.a"), "A\n1\n2\n");
        assert_eq!(printed("jq=.items | length"), "2\n");
        assert!(text(&value, Output::parse("jsonpath={.items[5].a}").unwrap()).is_err());
    }
}
