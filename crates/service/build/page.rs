//! The page at `/docs`: the contract for people, complete in one file without scripts and without requests to others.

use std::fmt::Write;

use serde_json::Value;

use crate::contract::{Contract, Field, FieldKind, Message, Method};

const STYLE: &str = "
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --link: light-dark(#0057b8, #7cc0ff); }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem 2rem 4rem; max-width: 72rem; }
a { color: var(--link); } code, pre { font: 14px/1.45 ui-monospace, monospace; }
pre { background: var(--soft); padding: .75rem 1rem; overflow-x: auto; border-radius: 6px; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
section { border-top: 1px solid var(--line); margin-top: 2rem; } h2 code { font-size: 1em; }
.verb { font-weight: 700; } nav ul { columns: 3 16rem; list-style: none; padding: 0; }
";

/// Returns the page.
pub fn html(contract: &Contract, document: &Value) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Training service: API</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1>Training service: API {}</h1>\n",
        escape(document["info"]["version"].as_str().unwrap_or_default())
    );
    for paragraph in contract.about.split("\n\n") {
        let _ = writeln!(page, "<p>{}</p>", prose(paragraph));
    }
    let _ = writeln!(
        page,
        "<p>For programs: <a href=\"/openapi.json\">OpenAPI 3.1</a>; gRPC <code>training.v1.Training</code> at the same \
         port, with server reflection.</p>\n</header>\n<nav aria-label=\"Methods\"><h2>Methods</h2><ul>"
    );
    for method in &contract.methods {
        let _ = writeln!(page, "<li><a href=\"#{0}\">{0}</a></li>", method.name);
    }
    let _ = writeln!(page, "</ul></nav>\n<main>");
    for method in &contract.methods {
        section(&mut page, contract, method);
    }
    let _ = writeln!(page, "<section id=\"messages\"><h2>Messages</h2>");
    for message in &contract.messages {
        if !contract.methods.iter().any(|method| method.input == message.name) {
            let _ =
                writeln!(page, "<h3 id=\"{0}\">{0}</h3>\n<p>{1}</p>", message.name, prose(&message.about));
            fields(&mut page, message);
        }
    }
    page.push_str("</section>\n</main>\n</body>\n</html>\n");
    page
}

fn section(page: &mut String, contract: &Contract, method: &Method) {
    let _ = writeln!(
        page,
        "<section id=\"{0}\"><h2>{0}</h2>\n<p><code><span class=\"verb\">{1}</span> {2}</code></p>\n<p>{3}</p>",
        method.name,
        method.verb,
        escape(&method.path),
        prose(&method.about)
    );
    if !method.access_verb.is_empty() {
        let _ = writeln!(
            page,
            "<p>Needs the permission <code>{} {}</code>.</p>",
            escape(&method.access_verb),
            escape(&method.access_resource)
        );
    }
    if let Some(input) = contract.message(&method.input) {
        fields(page, input);
    }
    let stream = if method.streams { "a stream of " } else { "" };
    let _ = writeln!(page, "<p>Returns {stream}<a href=\"#{0}\">{0}</a>.</p>", method.output);
    if !method.example.is_empty() {
        let _ = writeln!(page, "<pre><code>{}</code></pre>", escape(&example(method)));
    }
    page.push_str("</section>\n");
}

/// The example as a command that can be copied.
fn example(method: &Method) -> String {
    let example: Value = serde_json::from_str(&method.example).unwrap_or_default();
    let mut path = method.path.clone();
    let mut rest = serde_json::Map::new();
    for (name, value) in example.as_object().into_iter().flatten() {
        let slot = format!("{{{name}}}");
        match value.as_str() {
            Some(text) if path.contains(&slot) => path = path.replace(&slot, text),
            _ => {
                rest.insert(name.clone(), value.clone());
            }
        }
    }
    let head = "curl --cacert \"$ODH_TRAINING_CA\" -H \"Authorization: Bearer $ODH_TRAINING_TOKEN\"";
    let verb = if method.verb == "GET" { String::new() } else { format!(" -X {}", method.verb) };
    if method.body {
        let body = Value::Object(rest);
        return format!(
            "{head}{verb} \\\n  \"$ODH_TRAINING_URL{path}\" \\\n  -H 'Content-Type: application/json' -d '{body}'"
        );
    }
    let mut query = Vec::new();
    for (name, value) in rest {
        for one in value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]) {
            query.push(format!("{name}={}", one.as_str().map_or_else(|| one.to_string(), str::to_owned)));
        }
    }
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{head}{verb} \\\n  \"$ODH_TRAINING_URL{path}{mark}{}\"", query.join("&"))
}

fn fields(page: &mut String, message: &Message) {
    if message.fields.is_empty() {
        return;
    }
    page.push_str("<table><thead><tr><th scope=\"col\">Field</th><th scope=\"col\">Type</th><th scope=\"col\">Meaning</th></tr></thead><tbody>\n");
    for field in &message.fields {
        let required = if field.required { ", required" } else { "" };
        let mut about = prose(&field.about);
        if !field.values.is_empty() {
            let values: Vec<String> =
                field.values.iter().map(|v| format!("<code>{}</code>", escape(v))).collect();
            let _ = write!(about, " One of {}.", values.join(", "));
        }
        let _ = writeln!(
            page,
            "<tr id=\"{0}.{1}\"><td><code>{1}</code></td><td>{2}{required}</td><td>{about}</td></tr>",
            message.name,
            escape(&field.json),
            type_of(field)
        );
    }
    page.push_str("</tbody></table>\n");
}

fn type_of(field: &Field) -> String {
    let one = match &field.kind {
        FieldKind::Text => "text".to_owned(),
        FieldKind::Bytes => "bytes".to_owned(),
        FieldKind::Number | FieldKind::Double => "number".to_owned(),
        FieldKind::Flag => "true or false".to_owned(),
        FieldKind::Message(name) => format!("<a href=\"#{name}\">{name}</a>"),
    };
    match (field.list, field.map) {
        (true, _) => format!("list of {one}"),
        (_, true) => format!("map to {one}"),
        _ => one,
    }
}

/// Escapes a text; what is between backticks is code.
fn prose(text: &str) -> String {
    let mut html = String::new();
    for (at, part) in text.split('`').enumerate() {
        let part = escape(part);
        if at % 2 == 1 {
            let _ = write!(html, "<code>{part}</code>");
        } else {
            html.push_str(&part);
        }
    }
    html
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
