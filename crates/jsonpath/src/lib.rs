//! kubectl's JSONPath templates: `{.metadata.name}`, `{range .items[*]}{.metadata.name}{"\n"}{end}`; and the paths in
//! CRDs, which are the content of one pair of braces. Pure.
//!
//! The dialect is that of `k8s.io/client-go/util/jsonpath` (parser.go, jsonpath.go), which kubectl and the API server
//! use and no crate implements: text around braces, fields with `\.`, positions, slices with a step, unions, wildcards,
//! recursive descent, filters, `range`. There are two extensions: a template without braces is taken as one path, and
//! `['a.b']` is one name.
//!
//! A template is parsed once and can then be evaluated on many objects; what it finds is borrowed from them.

mod evaluate;
mod parse;

use serde_json::Value;

use evaluate::{for_each, found};
use parse::{Node, Part, Reader};

/// The most values that a template leads to; more is a mistake, and would waste memory.
const MAX_FOUND: usize = 1_000_000;
/// The most values that a single path leads to. A server evaluates the paths of others.
const MAX_FOUND_BY_PATH: usize = 10_000;
/// The longest single path, in bytes.
const MAX_PATH_BYTES: usize = 4096;

/// A parsed template.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    parts: Vec<Part>,
}

impl JsonPath {
    /// Parses a template.
    ///
    /// # Errors
    /// What is wrong with it, in a few words.
    pub fn parse(text: &str) -> Result<JsonPath, String> {
        let relaxed;
        let text = if text.contains(['{', ' ']) {
            text
        } else {
            relaxed = braced(text);
            &relaxed
        };
        Ok(JsonPath { parts: Reader::of(text).parts()? })
    }

    /// Returns the text of the template for an object.
    ///
    /// # Errors
    /// Where kubectl fails: an index out of range, a filter on something that is not a list.
    pub fn text(&self, object: &Value) -> Result<String, String> {
        let mut text = String::new();
        for_each(&self.parts, object, MAX_FOUND, &mut |found| {
            for (index, value) in found.iter().enumerate() {
                if index > 0 {
                    text.push(' ');
                }
                text.push_str(&printed(value));
            }
        })?;
        Ok(text)
    }

    /// Returns every value that the template leads to, including the texts between.
    ///
    /// # Errors
    /// As [`JsonPath::text`].
    pub fn values(&self, object: &Value) -> Result<Vec<Value>, String> {
        let mut values = Vec::new();
        for_each(&self.parts, object, MAX_FOUND, &mut |found| values.extend(found.iter().copied().cloned()))?;
        Ok(values)
    }
}

/// A single path, as in a CRD's columns and in `custom-columns`.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    steps: Vec<Node>,
}

impl Path {
    /// Parses `.metadata.name`, `metadata.name`, `$.metadata.name` or `{.metadata.name}`.
    ///
    /// # Errors
    /// What is wrong with it, in a few words.
    pub fn parse(text: &str) -> Result<Path, String> {
        let inner = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(text);
        if inner.is_empty() || inner.contains(['{', '}']) || inner.len() > MAX_PATH_BYTES {
            return Err(format!("\"{text}\" is not a path like .metadata.name"));
        }
        match Reader::of(&braced(inner)).parts()?.pop() {
            Some(Part::Action(steps)) => Ok(Path { steps }),
            _ => Err(format!("\"{text}\" is not a path like .metadata.name")),
        }
    }

    /// Returns all values at the path, in order.
    ///
    /// # Errors
    /// As [`JsonPath::text`].
    pub fn find<'v>(&'v self, object: &'v Value) -> Result<Vec<&'v Value>, String> {
        found(&self.steps, vec![object], MAX_FOUND_BY_PATH)
    }

    /// Returns the names if the path has only plain fields, as in a CRD's `selectableFields` and `scale`.
    pub fn fields(&self) -> Option<Vec<&str>> {
        let steps = self.steps.iter();
        steps.map(|step| if let Node::Field(name) = step { Some(name.as_str()) } else { None }).collect()
    }
}

/// Puts a path without braces into braces; `.a`, `a` and `$.a` mean the same.
fn braced(path: &str) -> String {
    let path = path.strip_prefix('$').unwrap_or(path);
    match path.starts_with(['.', '[']) {
        true => format!("{{{path}}}"),
        false => format!("{{.{path}}}"),
    }
}

/// Prints a value as kubectl does: strings without quotes, lists and objects as JSON on one line.
pub fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => escaped(&value.to_string()),
        Value::Number(number) if number.is_f64() => float(number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

/// Formats a float as Go's `%v` does.
fn float(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-4..1e21).contains(&size) {
        return value.to_string();
    }
    let scientific = format!("{value:e}");
    match scientific.split_once('e') {
        Some((digits, exponent)) => match exponent.strip_prefix('-') {
            Some(power) => format!("{digits}e-{power:0>2}"),
            None => format!("{digits}e+{exponent:0>2}"),
        },
        None => scientific,
    }
}

/// Escapes as Go's `json.Marshal` does.
fn escaped(json: &str) -> String {
    if !json.contains(['<', '>', '&']) {
        return json.to_owned();
    }
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn store() -> Value {
        json!({"name": "jason", "labels": {"a.b/c": "x", "web": "<1>"}, "none": null,
            "items": [{"name": "one", "size": 1, "on": true}, {"name": "two", "size": 22}, {"name": "three", "size": 3.5}]})
    }

    #[test]
    fn templates_print_what_kubectl_prints() {
        let table = [
            ("plain {.name}!", "plain jason!"),
            ("{$.name}{@.name}", "jasonjason"),
            ("name", "jason"),
            (".items[1].name", "two"),
            ("{.items[*].name}", "one two three"),
            ("{.items[-1].size}", "3.5"),
            ("{.items[0:2].name}", "one two"),
            ("{.items[0:3:2].name}", "one three"),
            ("{.items[1:].name}", "two three"),
            ("{.items[0,2].name}", "one three"),
            ("{.items[0]['name','size']}", "one 1"),
            ("{.items[1:1].name}", ""),
            (r"{.labels.a\.b/c}", "x"),
            (r"{.labels['a\.b/c']}", "x"),
            ("{.labels['a.b/c']}", "x"),
            ("{.labels}", r#"{"a.b/c":"x","web":"\u003c1\u003e"}"#),
            ("{.missing.deeper}", ""),
            ("{.none}", "null"),
            ("{.items[?(@.size>2)].name}", "two three"),
            ("{.items[?(@.size<=3.5)].name}", "one three"),
            (r#"{.items[?(@.name=="two")].size}"#, "22"),
            (r#"{.items[?(@.name != 'two')].size}"#, "1 3.5"),
            ("{.items[?(@.on)].name}", "one"),
            ("{.items[?(@.on==true)].name}", "one"),
            (
                r#"{range .items[*]}[{.name}, {.size}]{"\n"}{end}after"#,
                "[one, 1]\n[two, 22]\n[three, 3.5]\nafter",
            ),
            (r#"{range .items[*]}{.name}{"\t"}"#, "one\ttwo\tthree\t"),
            ("{..name}", "jason one two three"),
            ("{range .missing[*]}x{end}y", "y"),
            ("{.items[0].*}", "one true 1"),
        ];
        for (template, text) in table {
            let path = JsonPath::parse(template).unwrap();
            assert_eq!(path.text(&store()).as_deref(), Ok(text), "{template}");
        }
    }

    /// What kubectl printed for each template, recorded by `crates/cli/tests/kubectl/record.py`. The fixture explains every
    /// intended difference.
    #[test]
    fn templates_print_what_kubectl_printed() {
        let fixture: Value = serde_json::from_str(include_str!("../testdata/kubectl.json")).unwrap();
        let cases = fixture["cases"].as_array().unwrap();
        assert!(cases.len() > 100, "the fixture has lost its cases");
        let mut wrong = Vec::new();
        for case in cases {
            let template = case["template"].as_str().unwrap();
            let ours = JsonPath::parse(template).and_then(|path| path.text(&fixture["object"]));
            let alike = match (&ours, case["text"].as_str()) {
                (Ok(text), Some(expected)) => text == expected,
                (Err(_), None) => true,
                _ => false,
            };
            if alike != case["differs"].is_null() {
                wrong.push(format!("{template}: kubectl {}{}, here {ours:?}", case["text"], case["error"]));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn invalid_templates_are_refused() {
        for text in [
            "{.a",
            "{.a[}",
            "{end}",
            "{foo}",
            "{.items[x]}",
            "{.items[?(@.a=~'x')]}",
            "{'a}",
            "{.a..}x{",
            "{....a}",
            "{!}",
        ] {
            assert!(JsonPath::parse(text).is_err(), "{text}");
        }
        for text in
            ["{.items[7].name}", "{.name[0]}", "{.items[?(@.size=='x')]}", "{.items[2:1]}", "{.items[0:2:0]}"]
        {
            assert!(JsonPath::parse(text).unwrap().text(&store()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_needs_neither_braces_nor_a_dot() {
        for text in [".name", "name", "$.name", "{.name}", "{name}"] {
            assert_eq!(Path::parse(text).unwrap().find(&store()), Ok(vec![&json!("jason")]), "{text}");
        }
        for text in ["{.a}{.b}", "", ".a[", ".a[b]", ".a[?(b)]", ".a b", "{.a"] {
            assert!(Path::parse(text).is_err(), "{text}");
        }
        let fields = |text| Path::parse(text).unwrap().fields().map(|fields| fields.join("/"));
        assert_eq!(fields(r".spec.a['b'].c\.d").as_deref(), Some("spec/a/b/c.d"));
        assert_eq!(fields(".spec.list[0]"), None);
    }

    #[test]
    fn a_path_of_others_is_bounded() {
        let list = json!({"a": vec![vec![0; 100]; 200]});
        assert!(Path::parse(".a[*]").unwrap().find(&list).is_ok());
        assert!(Path::parse(".a[*][*]").unwrap().find(&list).is_err());
        assert!(Path::parse(&format!(".a{}", ".b".repeat(MAX_PATH_BYTES))).is_err());
        assert!(Path::parse(&format!(".a{}", "[?(@".repeat(500))).is_err());
        let filters = format!(".a{}{}", "[?(@".repeat(500), ")]".repeat(500));
        assert!(Path::parse(&filters).is_err(), "nested too deeply");
    }
}
