//! Replaces values that always differ between two servers by comparable ones. Pure.
//!
//! - resourceVersions of objects become their rank among those in the program's answers, so that their order is
//!   compared. Those of lists and bookmarks also count other clients' writes, so only their presence is compared.
//! - UIDs become their rank of appearance.
//! - Times of the run become `<now>`. Generated names lose their random part, and allocated addresses and ports their
//!   number.
//! - The order and the repetition of faults in one refusal are not compared: the real server iterates over maps for
//!   some, and finds some twice.
//! - The order of unknown fields after a JSON patch is not compared: in the real server, it depends on the field order
//!   of Go types for copied values.
//! - Objects within messages are removed, because the real server prints them in the form of its internal types.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};
use regex::Regex;
use serde_json::{Map, Value};

use crate::program::{Body, Program};
use crate::side::Answer;

/// Times between `SKEW` before a program's start and `RUN` after it are times of the run.
const RUN: SignedDuration = SignedDuration::from_hours(1);
const SKEW: SignedDuration = SignedDuration::from_secs(10);

static UUID: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").ok());
static TIME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").ok());
static VERSIONS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"(resource version: |current: |object meta: |precondition: |resourceVersion: |the precondition \(|in record \(|"resourceVersion":")(\d+)"#).ok()
});
static NODE_PORT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(:|Duplicate value: |duplicate nodePort: \{[A-Z]+ )3\d{4}([/,\]} ]|$)").ok()
});

/// A flat object of an internal type, with its fields in the order of that type.
static DUPLICATE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"Duplicate value: \{[^{}]*\}").ok());
/// The volume of a pod's token; its name is random.
static TOKEN_VOLUME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new("kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}").ok());
static ADDRESS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\b10\.96\.\d+\.\d+\b").ok());

/// The text before the list of unknown fields in a strict decoding error.
const UNKNOWN: &str = "strict decoding error: ";

/// The replacements in one side's answers to a program.
struct Run {
    began: Timestamp,
    namespace: String,
    ranks: BTreeMap<u64, usize>,
    uids: BTreeMap<String, usize>,
    generated: Vec<Regex>,
}

/// Returns the answers of one side in comparable form.
pub fn normalise(program: &Program, answers: &[Answer], namespace: &str, began: Timestamp) -> Vec<Answer> {
    let mut versions = BTreeSet::new();
    for answer in answers {
        collect_versions(&answer.body, true, &mut versions);
    }
    let mut run = Run {
        began,
        namespace: namespace.to_owned(),
        ranks: versions.into_iter().enumerate().map(|(rank, version)| (version, rank)).collect(),
        uids: BTreeMap::new(),
        generated: program.steps.iter().filter_map(|step| generated(&step.body)).collect(),
    };
    let mut normal = answers
        .iter()
        .map(|answer| Answer {
            code: answer.code,
            media: answer.media.clone(),
            warnings: answer.warnings.iter().map(|warning| run.text(warning)).collect(),
            body: run.body(&answer.body),
        })
        .collect::<Vec<_>>();
    for (_, answer) in program.steps.iter().zip(&mut normal).filter(|(step, _)| step.verb() == "PATCH json") {
        order_unknown(answer);
    }
    normal
}

/// Sorts the unknown fields in an answer's warnings and message.
fn order_unknown(answer: &mut Answer) {
    let is_unknown = |warning: &str| warning.starts_with("unknown field ");
    let mut sorted =
        answer.warnings.iter().filter(|warning| is_unknown(warning)).cloned().collect::<Vec<_>>();
    sorted.sort_unstable();
    let places = answer.warnings.iter_mut().filter(|warning| is_unknown(warning));
    places.zip(sorted).for_each(|(place, warning)| *place = warning);
    if let Some(Value::String(message)) = answer.body.get_mut("message") {
        *message = with_sorted_fields(message);
    }
    let causes = answer.body.pointer_mut("/details/causes").and_then(Value::as_array_mut);
    for cause in causes.into_iter().flatten() {
        if let Some(Value::String(message)) = cause.get_mut("message") {
            *message = with_sorted_fields(message);
        }
    }
}

fn with_sorted_fields(message: &str) -> String {
    let Some((start, fields)) = message.split_once(UNKNOWN) else { return message.to_owned() };
    let mut fields = fields.split(", ").collect::<Vec<_>>();
    fields.sort_unstable();
    format!("{start}{UNKNOWN}{}", fields.join(", "))
}

/// Returns a pattern of the names that are generated for this body.
fn generated(body: &Body) -> Option<Regex> {
    let Body::Json(object) = body else { return None };
    let prefix = object.pointer("/metadata/generateName")?.as_str()?;
    let kept = prefix.chars().take(58).collect::<String>();
    Regex::new(&format!("({})[bcdfghjklmnpqrstvwxz2456789]{{5}}\\b", regex::escape(&kept))).ok()
}

fn collect_versions(value: &Value, top: bool, into: &mut BTreeSet<u64>) {
    match value {
        Value::Object(fields) => {
            let list = is_list(fields);
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("resourceVersion", Value::String(version)) => into.extend(version.parse::<u64>()),
                    ("metadata", _) if top && list => {}
                    ("object", Value::Object(_))
                        if fields.get("type").is_some_and(|kind| kind == "BOOKMARK") => {}
                    _ => collect_versions(value, top && name == "object", into),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_versions(item, top, into)),
        _ => {}
    }
}

fn is_list(fields: &Map<String, Value>) -> bool {
    let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
    kind.ends_with("List") || kind == "Table"
}

impl Run {
    fn body(&mut self, body: &Value) -> Value {
        let mut body = self.value("", &without_progress(body), true);
        order_faults(&mut body);
        mask_ages(&mut body);
        body
    }

    fn value(&mut self, name: &str, value: &Value, top: bool) -> Value {
        match value {
            Value::String(text) if name == "resourceVersion" => self.version(text),
            Value::String(text) if name == "continue" && !text.is_empty() => "<continue>".into(),
            Value::String(text) => self.text(text).into(),
            Value::Number(number)
                if name.to_lowercase().ends_with("nodeport") && number.as_u64() >= Some(30000) =>
            {
                "<port>".into()
            }
            Value::Array(items) => {
                let mut items = items.iter().map(|item| self.value(name, item, top)).collect::<Vec<_>>();
                if name == "managedFields" {
                    items.sort_by_key(|item| item.as_object().map(manager_key));
                }
                Value::Array(items)
            }
            Value::Object(fields) => Value::Object(self.object(fields, top)),
            other => other.clone(),
        }
    }

    fn object(&mut self, fields: &Map<String, Value>, top: bool) -> Map<String, Value> {
        let unranked = is_list(fields) && top;
        let bookmark = fields.get("type").is_some_and(|kind| kind == "BOOKMARK");
        let mut made = Map::new();
        for (name, value) in fields {
            let mut value = self.value(name, value, top && name == "object");
            if name == "object" && bookmark {
                for version in value.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
                    if let Some(version) = version.pointer_mut("/object/metadata/resourceVersion") {
                        *version = "<some>".into();
                    }
                }
            }
            let metadata = match name.as_str() {
                "metadata" if unranked => Some(&mut value),
                "object" if bookmark => value.get_mut("metadata"),
                _ => None,
            };
            if let Some(version) = metadata.and_then(|metadata| metadata.get_mut("resourceVersion")) {
                *version = "<some>".into();
            }
            made.insert(self.text(name), value);
        }
        made
    }

    fn version(&self, text: &str) -> Value {
        match text.parse().ok().and_then(|version: u64| self.ranks.get(&version)) {
            Some(rank) => format!("rv-{rank}").into(),
            None => text.into(),
        }
    }

    fn text(&mut self, text: &str) -> String {
        let mut text = text.replace(&self.namespace, "${ns}");
        if let Some(uuid) = UUID.as_ref() {
            text = uuid.replace_all(&text, |found: &regex::Captures<'_>| self.uid(&found[0])).into_owned();
        }
        if let Some(time) = TIME.as_ref() {
            text = time.replace_all(&text, |found: &regex::Captures<'_>| self.time(&found[0])).into_owned();
        }
        if let Some(versions) = VERSIONS.as_ref() {
            text = versions.replace_all(&text, "$1<some>").into_owned();
        }
        if let Some(port) = NODE_PORT.as_ref() {
            text = port.replace_all(&text, "$1<port>$2").into_owned();
        }
        if let Some(volume) = TOKEN_VOLUME.as_ref() {
            text = volume.replace_all(&text, "kube-api-access-<generated>").into_owned();
        }
        if let Some(address) = ADDRESS.as_ref() {
            text = address.replace_all(&text, "<address>").into_owned();
        }
        for name in &self.generated {
            text = name.replace_all(&text, "$1<generated>").into_owned();
        }
        text
    }

    fn uid(&mut self, uid: &str) -> String {
        let next = self.uids.len();
        format!("<uid {}>", self.uids.entry(uid.to_owned()).or_insert(next))
    }

    fn time(&self, text: &str) -> String {
        let of_run =
            text.parse::<Timestamp>().is_ok_and(|time| time >= self.began - SKEW && time <= self.began + RUN);
        match text.split_once('.') {
            _ if !of_run => text.to_owned(),
            Some((_, fraction)) => format!("<now.{}>", fraction.len() - 1),
            None => "<now>".into(),
        }
    }
}

/// Removes progress bookmarks from events: whether one arrives before a watch ends depends on timing. Keeps the
/// bookmark that ends the initial events.
fn without_progress(body: &Value) -> Value {
    let Value::Array(events) = body else { return body.clone() };
    let is_progress = |event: &&Value| {
        event["type"] == "BOOKMARK" && !event.to_string().contains("k8s.io/initial-events-end")
    };
    Value::Array(events.iter().filter(|event| !is_progress(event)).cloned().collect())
}

fn manager_key(entry: &Map<String, Value>) -> String {
    ["manager", "operation", "subresource", "apiVersion"]
        .map(|name| entry.get(name).map(Value::to_string).unwrap_or_default())
        .join(" ")
}

/// Sorts the causes of a refusal, and the faults in its message, and removes duplicates.
fn order_faults(body: &mut Value) {
    if body.get("kind").is_none_or(|kind| kind != "Status") {
        return;
    }
    if let Some(causes) = body.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
        for cause in causes.iter_mut() {
            if let Some(Value::String(message)) = cause.get_mut("message") {
                *message = without_dumps(message);
            }
        }
        causes.sort_by_key(Value::to_string);
        causes.dedup();
    }
    let Some(Value::String(message)) = body.get_mut("message") else { return };
    *message = without_dumps(message);
    if let Some((start, rest)) = message.split_once(": [")
        && let Some(faults) = rest.strip_suffix(']')
    {
        let mut faults = faults.split(", ").collect::<Vec<_>>();
        faults.sort_unstable();
        faults.dedup();
        *message = match faults.as_slice() {
            [only] => format!("{start}: {only}"),
            several => format!("{start}: [{}]", several.join(", ")),
        };
    }
}

/// Removes objects from a message that Kubernetes prints in the form of its internal types.
fn without_dumps(message: &str) -> String {
    const VALUE: &str = "Invalid value: ";
    let message = match DUPLICATE.as_ref() {
        Some(dump) => dump.replace_all(message, "Duplicate value: <object>").into_owned(),
        None => message.to_owned(),
    };
    let (mut left, mut rest) = (String::new(), message.as_str());
    while let Some(at) = rest.find(VALUE) {
        let (before, value) = rest.split_at(at + VALUE.len());
        left.push_str(before);
        let end = dump_end(value).filter(|end| value[*end..].starts_with(": "));
        rest = match end {
            Some(end) => {
                left.push_str("<object>");
                &value[end..]
            }
            None => value,
        };
    }
    left.push_str(rest);
    left
}

/// Returns the end of the printed object, list, Go map or `null` at the beginning of a text.
fn dump_end(text: &str) -> Option<usize> {
    if text.starts_with("null") {
        return Some("null".len());
    }
    if text.starts_with("\"{") || text.starts_with("\"map[") {
        let mut is_escaped = false;
        let quote = text.char_indices().skip(1).find(|(_, c)| {
            let ends = *c == '"' && !is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            ends
        });
        return quote.map(|(at, _)| at + 1);
    }
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let (mut depth, mut is_quoted, mut is_escaped) = (0_i32, false, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' if !is_escaped => is_quoted = !is_quoted,
            '{' | '[' if !is_quoted => depth += 1,
            '}' | ']' if !is_quoted => depth -= 1,
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// Masks the cells of a Table that show an age. Events of a watch share the first one's columns.
fn mask_ages(body: &mut Value) {
    let mut ages = Vec::new();
    match body {
        Value::Array(events) => {
            events.iter_mut().filter_map(|event| event.get_mut("object")).for_each(|o| mask(o, &mut ages));
        }
        table => mask(table, &mut ages),
    }
}

fn mask(table: &mut Value, ages: &mut Vec<usize>) {
    if let Some(columns) = table.get("columnDefinitions").and_then(Value::as_array) {
        let named = columns.iter().enumerate().filter(|(_, column)| {
            matches!(column["name"].as_str(), Some("Age" | "Last Seen" | "First Seen" | "Duration" | "When"))
        });
        *ages = named.map(|(index, _)| index).collect();
    }
    let Some(rows) = table.get_mut("rows").and_then(Value::as_array_mut) else { return };
    for row in rows {
        let Some(cells) = row.get_mut("cells").and_then(Value::as_array_mut) else { continue };
        for index in ages.iter() {
            match cells.get_mut(*index) {
                Some(Value::String(age)) if age.ends_with(['s', 'm', 'h', 'd', 'y']) => *age = "<age>".into(),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn normal(began: &str, bodies: &[Value]) -> Vec<Value> {
        let steps = vec![crate::program::Step {
            id: 0,
            method: "POST".into(),
            path: String::new(),
            query: vec![],
            headers: vec![],
            body: Body::Json(json!({"metadata": {"generateName": "a-"}})),
        }];
        let answers =
            bodies.iter().map(|body| Answer { body: body.clone(), ..Answer::default() }).collect::<Vec<_>>();
        let made = normalise(&Program { seed: 0, steps }, &answers, "t-7", began.parse().unwrap());
        made.into_iter().map(|answer| answer.body).collect()
    }

    #[test]
    fn unstable_values_are_replaced_and_their_order_kept() {
        let seen = [
            json!({"metadata": {"name": "a-bcdfg", "namespace": "t-7", "resourceVersion": "41", "uid": "00000000-0000-0000-0000-000000000001",
                "creationTimestamp": "2026-01-01T10:00:05Z", "annotations": {"t": "2020-01-01T10:00:05Z"}}}),
            json!({"kind": "PodList", "metadata": {"resourceVersion": "99", "continue": "xyz"}, "items": [{"metadata": {"resourceVersion": "17"}}]}),
        ];
        let expected = [
            json!({"metadata": {"name": "a-<generated>", "namespace": "${ns}", "resourceVersion": "rv-1", "uid": "<uid 0>",
                "creationTimestamp": "<now>", "annotations": {"t": "2020-01-01T10:00:05Z"}}}),
            json!({"kind": "PodList", "metadata": {"resourceVersion": "<some>", "continue": "<continue>"}, "items": [{"metadata": {"resourceVersion": "rv-0"}}]}),
        ];
        assert_eq!(normal("2026-01-01T10:00:00Z", &seen), expected);
    }

    #[test]
    fn the_order_of_unknown_fields_does_not_count() {
        let warnings = |fields: [&str; 2]| fields.map(|field| format!("unknown field {field:?}"));
        let answer = |fields: [&str; 2]| Answer {
            warnings: [vec!["v1 is deprecated".to_owned()], warnings(fields).to_vec()].concat(),
            body: json!({"message": format!("{UNKNOWN}{}", fields.join(", "))}),
            ..Answer::default()
        };
        let (mut one, mut other) = (answer(["a", "b"]), answer(["b", "a"]));
        order_unknown(&mut one);
        order_unknown(&mut other);
        assert_eq!(one, other);
        assert_eq!(one.warnings, ["v1 is deprecated", "unknown field \"a\"", "unknown field \"b\""]);
    }

    #[test]
    fn printed_objects_are_removed_one_by_one() {
        let message = r#"[a: Invalid value: {"b":"}","c":[1]}: no, d: Invalid value: "{\"e\":1}": no, f: Invalid value: "text": no]"#;
        let left = r#"[a: Invalid value: <object>: no, d: Invalid value: <object>: no, f: Invalid value: "text": no]"#;
        assert_eq!(without_dumps(message), left);
    }

    #[test]
    fn the_order_of_faults_does_not_count() {
        let refusal = |message: &str, fields: [&str; 2]| json!({"kind": "Status", "message": message, "details": {"causes": [{"field": fields[0]}, {"field": fields[1]}]}});
        let both = [
            refusal("Pod \"p\" is invalid: [a: x, b: y]", ["a", "b"]),
            refusal("Pod \"p\" is invalid: [b: y, a: x]", ["b", "a"]),
        ];
        let made = normal("2026-01-01T10:00:00Z", &both);
        assert_eq!(made[0], made[1]);
    }
}
