//! `notifications`: the notification rules of a namespace.

use http::Method;
use serde_json::{Value, json};

use super::reports::{list, moment, text};
use crate::arguments::{Global, NotificationVerb, Output, PutRule};
use crate::console::Console;
use crate::failure::Failure;
use crate::training_service::{self, escaped};
use crate::{object, table};

/// `odh training notifications …`
pub async fn run(console: &Console, global: &Global, verb: &NotificationVerb) -> Result<u8, Failure> {
    let service = training_service::find(console, global).await?;
    let of_namespace = format!("/api/v1/namespaces/{}", escaped(&service.namespace));
    let of_rule = |name: &str| format!("{of_namespace}/notifications/{}", escaped(name));
    match verb {
        NotificationVerb::List { output } => {
            let found = service.get(&format!("{of_namespace}/notifications"), &[]).await?;
            rules(console, &found, *output)?;
        }
        NotificationVerb::Alerts { all_namespaces, output } => {
            let namespace = if *all_namespaces { String::new() } else { service.namespace.clone() };
            let found = service.get("/api/v1/alerts", &[("namespace", namespace)]).await?;
            alerts(console, &found, *output)?;
        }
        NotificationVerb::Put(put) => {
            let made = service.send(Method::PUT, &of_rule(&put.name), Some(&rule(put))).await?;
            if put.output.shows_objects() {
                console.document(&object::text(&made, put.output)?)?;
                return Ok(0);
            }
            console.data(&format!("notification/{} configured\n", put.name))?;
            let key = text(&made, "secret");
            if !key.is_empty() {
                console.data(&format!("key that signs its webhooks, shown this once: {key}\n"))?;
            }
        }
        NotificationVerb::Test { name } => {
            service.send(Method::POST, &format!("{}/test", of_rule(name)), Some(&json!({}))).await?;
            console.data(&format!("notification/{name}: a test is on its way\n"))?;
            console.note("see its outcome: odh training notifications deliveries");
        }
        NotificationVerb::Deliveries { state, output } => {
            let query = [("state", state.clone().unwrap_or_default())];
            let found = service.get(&format!("{of_namespace}/deliveries"), &query).await?;
            deliveries(console, &found, *output)?;
        }
        NotificationVerb::Delete { name } => {
            service.send(Method::DELETE, &of_rule(name), None).await?;
            console.data(&format!("notification/{name} deleted\n"))?;
        }
    }
    Ok(0)
}

fn rule(put: &PutRule) -> Value {
    let fields = [
        ("job", json!(put.job)),
        ("kind", json!(put.kind)),
        ("phases", json!(put.phase)),
        ("causes", json!(put.cause)),
        ("quotaPercent", json!(put.quota_percent)),
        ("runsLongerThan", json!(put.longer_than)),
        ("stalled", json!(put.stalled)),
        ("url", json!(put.url)),
        ("email", json!(put.email)),
        ("disabled", json!(put.disabled)),
    ];
    fields
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn rules(console: &Console, found: &Value, output: Output) -> Result<(), Failure> {
    if output.shows_objects() {
        return console.document(&object::text(found, output)?);
    }
    let rows: Vec<Vec<String>> = list(found, "rules").iter().map(rule_row).collect();
    if rows.is_empty() {
        console.note("there are no rules; create one: odh training notifications put NAME --phase Failed --email ADDRESS");
        return Ok(());
    }
    let headings = ["NAME", "ABOUT", "WHEN", "TO", "OWNER", "IN FORCE"];
    console.data(&table::fitted(&headings, &rows, table::screen_columns()))
}

fn rule_row(rule: &Value) -> Vec<String> {
    let words = |field: &str| {
        list(rule, field).iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let about = match text(rule, "job").as_str() {
        "" => "all jobs".to_owned(),
        job => job.to_owned(),
    };
    let mut when = [words("phases"), words("reasons"), words("causes")].concat();
    when.extend(condition(rule));
    let to = [text(rule, "url"), text(rule, "email")].concat();
    let force = match (rule.get("enabled").and_then(Value::as_bool), text(rule, "disabledBecause")) {
        (Some(true), _) => "yes".to_owned(),
        (_, because) if because.is_empty() => "no".to_owned(),
        (_, because) => format!("no: {because}"),
    };
    let when = if when.is_empty() { "every change".to_owned() } else { when.join(", ") };
    vec![text(rule, "name"), about, when, to, text(rule, "owner"), force]
}

/// The condition of a rule in words, if it has one.
fn condition(rule: &Value) -> Option<String> {
    if let Some(percent) = rule.get("quotaPercent").and_then(Value::as_i64) {
        return Some(format!("quota used to {percent}%"));
    }
    match text(rule, "runsLongerThan").as_str() {
        "" => rule.get("stalled").and_then(Value::as_bool)?.then(|| "stalled".to_owned()),
        time => Some(format!("runs longer than {time}")),
    }
}

fn alerts(console: &Console, found: &Value, output: Output) -> Result<(), Failure> {
    if output.shows_objects() {
        return console.document(&object::text(found, output)?);
    }
    let of = |alert: &Value| {
        let rest = ["namespace", "rule", "kind", "name", "message"].map(|field| text(alert, field));
        [moment(alert, "since")].into_iter().chain(rest).collect()
    };
    let rows: Vec<Vec<String>> = list(found, "alerts").iter().map(of).collect();
    let unknown: Vec<String> = list(found, "unknown")
        .iter()
        .map(|rule| text(rule, "namespace") + "/" + &text(rule, "rule"))
        .collect();
    if !unknown.is_empty() {
        console.note(&format!("unknown, because not evaluated lately: {}", unknown.join(", ")));
    }
    if rows.is_empty() {
        if unknown.is_empty() {
            console.note("no condition of a rule holds now");
        }
        return Ok(());
    }
    let headings = ["SINCE", "NAMESPACE", "RULE", "KIND", "NAME", "WHAT"];
    console.data(&table::fitted(&headings, &rows, table::screen_columns()))
}

fn deliveries(console: &Console, found: &Value, output: Output) -> Result<(), Failure> {
    if output.shows_objects() {
        return console.document(&object::text(found, output)?);
    }
    let of = |delivery: &Value| {
        let rest = ["rule", "state", "tries", "status", "error"].map(|field| text(delivery, field));
        [moment(delivery, "created")].into_iter().chain(rest).collect()
    };
    let rows: Vec<Vec<String>> = list(found, "deliveries").iter().map(of).collect();
    if rows.is_empty() {
        console.note("nothing was sent");
        return Ok(());
    }
    let headings = ["CREATED", "RULE", "STATE", "TRIES", "STATUS", "ERROR"];
    console.data(&table::fitted(&headings, &rows, table::screen_columns()))
}
