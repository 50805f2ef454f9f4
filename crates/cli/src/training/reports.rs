//! `usage`, `audit`, `capacity`, `advice`: what the training service knows, as tables, CSV or JSON.

use jobs::Class;
use serde_json::{Value, json};

use crate::arguments::{Advice, Audit, Capacity, Global, Output, SumBy, Usage};
use crate::console::Console;
use crate::failure::Failure;
use crate::training_service::{self, TrainingService, escaped};
use crate::{object, table};

/// The most operations of the audit log that one request returns.
const PAGE: usize = 500;

/// `odh training usage`
pub async fn usage(console: &Console, global: &Global, asked: &Usage) -> Result<u8, Failure> {
    let service = training_service::find(console, global).await?;
    let mut query = vec![
        ("namespace", namespace(&service, asked.all_namespaces)),
        ("since", given(&asked.since)),
        ("until", given(&asked.until)),
        ("user", given(&asked.user)),
    ];
    for by in &asked.by {
        query.push(("by", if *by == SumBy::User { "user" } else { "job" }.to_owned()));
    }
    if asked.csv {
        query.push(("format", "csv".to_owned()));
        let csv = service.get_text("/api/v1/usage", &query).await?;
        // Lines end as those of every other output here do.
        console.document(&csv.replace("\r\n", "\n"))?;
        return Ok(0);
    }
    let found = service.get("/api/v1/usage", &query).await?;
    if asked.output.shows_objects() {
        return shown(console, &found, asked.output);
    }
    let rows: Vec<Vec<String>> =
        list(&found, "usage").iter().flat_map(|sum| usage_rows(sum, asked)).collect();
    if rows.is_empty() {
        let (from, until) = (moment(&found, "from"), moment(&found, "until"));
        console.note(&format!("nothing was used from {from} to {until}"));
        return Ok(0);
    }
    let mut headings = vec!["NAMESPACE"];
    headings.extend(asked.by.contains(&SumBy::User).then_some("USER"));
    headings.extend(asked.by.contains(&SumBy::Job).then_some("JOB"));
    headings.extend(["RESOURCE", "HOURS", "COST"]);
    console.data(&table::table(&headings, &rows))?;
    let (currency, cost) = (text(&found, "currency"), text(&found, "cost"));
    if !cost.is_empty() {
        console.note(&format!("{cost} {currency} together"));
    }
    Ok(0)
}

fn usage_rows(sum: &Value, asked: &Usage) -> Vec<Vec<String>> {
    let row = |amount: &Value| {
        let mut cells = vec![text(sum, "namespace")];
        cells.extend(asked.by.contains(&SumBy::User).then(|| text(sum, "user")));
        cells.extend(asked.by.contains(&SumBy::Job).then(|| text(sum, "job")));
        let resource = text(amount, "resource");
        let unit = if resource == "memory" { "memory (GiB)".to_owned() } else { resource };
        cells.extend([unit, text(amount, "hours"), text(amount, "cost")]);
        cells
    };
    list(sum, "amounts").iter().map(row).collect()
}

/// `odh training audit`
pub async fn audit(console: &Console, global: &Global, asked: &Audit) -> Result<u8, Failure> {
    let service = training_service::find(console, global).await?;
    let mut operations: Vec<Value> = Vec::new();
    let mut next = String::new();
    let most = asked.limit as usize;
    loop {
        let query = [
            ("namespace", namespace(&service, asked.all_namespaces)),
            ("who", given(&asked.user)),
            ("object", given(&asked.object)),
            ("since", given(&asked.since)),
            ("until", given(&asked.until)),
            ("newestFirst", "true".to_owned()),
            ("limit", most.saturating_sub(operations.len()).min(PAGE).to_string()),
            ("continue", next),
        ];
        let page = service.get("/api/v1/audit", &query).await?;
        operations.extend(list(&page, "operations").iter().cloned());
        next = text(&page, "continue");
        if next.is_empty() || operations.len() >= most {
            break;
        }
    }
    if asked.output.shows_objects() {
        return shown(console, &json!({ "items": operations }), asked.output);
    }
    if operations.is_empty() {
        console.note("no operations found");
        return Ok(0);
    }
    let rows: Vec<Vec<String>> = operations.iter().filter_map(audit_row).collect();
    let headings = ["TIME", "WHO", "WHAT", "NAMESPACE", "OBJECT", "VIA", "RESULT"];
    console.data(&table::fitted(&headings, &rows, table::screen_columns()))?;
    Ok(0)
}

/// The line of an operation: what its first line says, and the result that its last one has.
fn audit_row(operation: &Value) -> Option<Vec<String>> {
    let lines = list(operation, "lines");
    let (first, last) = (lines.first()?, lines.last()?);
    let program = lines.iter().map(|line| text(line, "program")).find(|program| !program.is_empty());
    let result = match (last.get("status").and_then(Value::as_i64), text(last, "reason")) {
        (Some(status), reason) if reason.is_empty() => status.to_string(),
        (Some(status), reason) => format!("{status} {reason}"),
        (None, _) => String::new(),
    };
    Some(vec![
        moment(first, "at"),
        text(first, "who"),
        text(first, "verb"),
        text(first, "namespace"),
        text(first, "object"),
        program.unwrap_or_else(|| text(first, "channel")),
        result,
    ])
}

/// `odh training capacity`
pub async fn capacity(console: &Console, global: &Global, asked: &Capacity) -> Result<u8, Failure> {
    if asked.gpus == 0 && asked.cpu.is_none() && asked.memory.is_none() {
        return Err(Failure::usage(
            "nothing is requested: add what each Worker needs, with --gpus, --cpu or --memory",
            "for one Worker with one GPU: odh training capacity --gpus 1",
        ));
    }
    let service = training_service::find(console, global).await?;
    let query = [
        ("workers", asked.workers.to_string()),
        ("gpus", if asked.gpus > 0 { asked.gpus.to_string() } else { String::new() }),
        ("cpu", given(&asked.cpu)),
        ("memory", given(&asked.memory)),
        ("gpuResource", given(&asked.gpu_resource)),
        ("namespace", service.namespace.clone()),
        ("queue", given(&asked.queue)),
    ];
    let found = match service.get("/api/v1/capacity", &query).await {
        Err(refusal) if refusal.class == Class::NotAllowed => {
            return Err(with_free_gpus(&service, refusal).await);
        }
        found => found?,
    };
    if asked.output.shows_objects() {
        return shown(console, &found, asked.output);
    }
    let number = |field: &str| found.get(field).and_then(Value::as_i64);
    let unknown = || "unknown: you may not read the nodes".to_owned();
    let now = number("workersNow").map_or_else(unknown, |now| now.to_string());
    let mut lines = vec![("Start:", text(&found, "start")), ("Workers that fit now:", now)];
    let most = number("workersAtMost").map(|most| most.to_string());
    lines.extend(most.map(|most| ("If nothing else ran:", most)));
    let queue = number("workersInQueue").map(|fit| fit.to_string());
    lines.extend(queue.map(|fit| ("Room in the queue:", fit)));
    let wait = found.get("wait").map(|wait| text(wait, "message")).filter(|wait| !wait.is_empty());
    lines.extend(wait.map(|wait| ("Estimated wait:", wait)));
    let cost = found.get("cost").map(|cost| text(cost, "message")).filter(|cost| !cost.is_empty());
    lines.extend(cost.map(|cost| ("Cost:", cost)));
    let told: String = lines.iter().map(|(name, value)| format!("{name:<23}{value}\n")).collect();
    console.data(&told)?;
    let rows: Vec<Vec<String>> =
        list(&found, "nodes").iter().map(|node| vec![text(node, "name"), text(node, "workers")]).collect();
    if !rows.is_empty() {
        console.data(&format!("\n{}", table::table(&["NODE", "WORKERS NOW"], &rows)))?;
    }
    for finding in list(&found, "findings") {
        console.warn(&format!("{}; {}", text(finding, "message"), text(finding, "advice")));
    }
    Ok(0)
}

/// Adds to a refusal how many GPUs are free, which everybody may know who may create jobs.
async fn with_free_gpus(service: &TrainingService, refusal: Failure) -> Failure {
    let path = format!("/api/v1/namespaces/{}/gpus", escaped(&service.namespace));
    let Ok(found) = service.get(&path, &[]).await else { return refusal };
    let of = |sum: &Value| format!("{} of {}", text(sum, "free"), text(sum, "gpus"));
    let of_cluster = list(&found["cluster"], "sums").iter();
    let of_cluster = of_cluster.map(|sum| format!("{} {}", of(sum), text(sum, "model")));
    let open = list(&found["queues"], "queues").iter().filter(|queue| queue["stopped"] == false);
    let of_queues = open.flat_map(|queue| {
        let sums = list(queue, "sums").iter();
        sums.map(move |sum| {
            format!("{} {} in the queue {}", of(sum), text(sum, "resource"), text(queue, "name"))
        })
    });
    let free: Vec<String> = of_cluster.chain(of_queues).collect();
    if free.is_empty() {
        return refusal;
    }
    refusal.with_hint(format!("free GPUs, in sums: {}", free.join(", ")))
}

/// `odh training advice`
pub async fn advice(console: &Console, global: &Global, asked: &Advice) -> Result<u8, Failure> {
    let service = training_service::find(console, global).await?;
    let query = [("namespace", namespace(&service, asked.all_namespaces))];
    let found = service.get("/api/v1/advice", &query).await?;
    if asked.output.shows_objects() {
        return shown(console, &found, asked.output);
    }
    let rows: Vec<Vec<String>> = list(&found, "programs").iter().flat_map(advice_rows).collect();
    if rows.is_empty() {
        console.note("no program has run often enough for advice");
        return Ok(0);
    }
    let headings =
        ["NAMESPACE", "PROGRAM", "ROLE", "RESOURCE", "VERDICT", "REQUESTED", "USED AT MOST", "SUGGESTED"];
    console.data(&table::fitted(&headings, &rows, table::screen_columns()))?;
    console.note(&text(&found, "basis"));
    Ok(0)
}

fn advice_rows(program: &Value) -> Vec<Vec<String>> {
    let of_role = |role: &Value| {
        ["cpu", "memory"]
            .into_iter()
            .filter_map(|resource| {
                let about = role.get(resource)?;
                Some(vec![
                    text(program, "namespace"),
                    text(program, "program"),
                    text(role, "role"),
                    resource.to_owned(),
                    text(about, "verdict"),
                    text(about, "requested"),
                    text(about, "peak"),
                    text(about, "suggested"),
                ])
            })
            .collect::<Vec<_>>()
    };
    list(program, "roles").iter().flat_map(of_role).collect()
}

fn shown(console: &Console, value: &Value, output: Output) -> Result<u8, Failure> {
    console.document(&object::text(value, output)?)?;
    Ok(0)
}

fn namespace(service: &TrainingService, all: bool) -> String {
    if all { String::new() } else { service.namespace.clone() }
}

fn given(value: &Option<String>) -> String {
    value.clone().unwrap_or_default()
}

/// The items of a list; none if it is not there.
pub(super) fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A field with a time, in whole seconds; empty if it is not there.
pub(super) fn moment(value: &Value, field: &str) -> String {
    let text = text(value, field);
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

/// A field as text; empty if it is not there.
pub(super) fn text(value: &Value, field: &str) -> String {
    match value.get(field) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}
