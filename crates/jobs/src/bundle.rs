//! Everything that somebody else needs to understand a job, as files: manifest, status, pods, events, explanation, the
//! ends of the logs. What may be secret is taken out: no Secret is read, values of environment variables with telling
//! names are replaced, and so is what looks like a password or a token in any text.

use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams};
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::{Error, Kind, describe, events, explanation, list};

/// How many lines of each log are kept, from its end.
const LAST_LINES: i64 = 2_000;
/// How much of a log is kept, in bytes.
const MAX_LOG_BYTES: i64 = 4 * 1024 * 1024;
/// How many logs are read at once, and how many at most.
const AT_ONCE: usize = 8;
const MAX_PODS: usize = 64;
/// What stands in place of a secret.
const REDACTED: &str = "[redacted]";
/// Words in a variable's name, or before `=` or `:` in a text, behind which a secret stands.
const TELLING: [&str; 9] =
    ["password", "passwd", "secret", "token", "apikey", "api_key", "access_key", "credential", "private_key"];

/// A file of the bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path in the bundle.
    pub path: String,
    /// Its text, redacted.
    pub text: String,
}

/// Collects the files; what cannot be read is named in `unread.txt`.
///
/// # Errors
/// Where the job itself cannot be read.
pub async fn collect(client: &Client, kind: Kind, namespace: &str, name: &str) -> Result<Vec<File>, Error> {
    let job = list::get(client, kind, namespace, name).await?;
    let (pods, events, explained) = futures::join!(
        describe::pods(client, kind, namespace, name),
        events::events(client, kind, namespace, name),
        explanation::explain_job(client, kind, namespace, name),
    );
    let mut unread = Vec::new();
    let mut files = vec![json_file("job.json", serde_json::to_value(&job))];
    match explained {
        Ok(explained) => files.push(json_file("explanation.json", serde_json::to_value(&explained))),
        Err(error) => unread.push(format!("explanation: {error}")),
    }
    match events {
        Ok(events) => {
            let lines = events.iter().map(|event| {
                let at = event.at.map(|at| at.to_string()).unwrap_or_default();
                format!("{at} {} {} {}: {}\n", event.kind, event.reason, event.object, event.message)
            });
            files.push(File { path: "events.txt".to_owned(), text: redact(&lines.collect::<String>()) });
        }
        Err(error) => unread.push(format!("events: {error}")),
    }
    match pods {
        Ok(pods) => {
            files.push(json_file("pods.json", serde_json::to_value(&pods)));
            let logs = stream::iter(pods.into_iter().take(MAX_PODS)).map(|pod| log(client, namespace, pod));
            for read in logs.buffered(AT_ONCE).collect::<Vec<_>>().await {
                match read {
                    Ok(file) => files.push(file),
                    Err(why) => unread.push(why),
                }
            }
        }
        Err(error) => unread.push(format!("pods: {error}")),
    }
    if !unread.is_empty() {
        files.push(File { path: "unread.txt".to_owned(), text: unread.join("\n") + "\n" });
    }
    Ok(files)
}

async fn log(client: &Client, namespace: &str, pod: Pod) -> Result<File, String> {
    let name = pod.name_any();
    let container =
        pod.spec.as_ref().and_then(|spec| spec.containers.first()).map(|first| first.name.clone());
    let parameters = LogParams {
        container,
        tail_lines: Some(LAST_LINES),
        limit_bytes: Some(MAX_LOG_BYTES),
        timestamps: true,
        ..LogParams::default()
    };
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    match api.logs(&name, &parameters).await {
        Ok(text) => Ok(File { path: format!("logs/{name}.log"), text: redact(&text) }),
        Err(error) => Err(format!("logs of {name}: {error}")),
    }
}

fn json_file(path: &str, value: serde_json::Result<Value>) -> File {
    let mut value = value.unwrap_or_default();
    clean(&mut value);
    File { path: path.to_owned(), text: serde_json::to_string_pretty(&value).unwrap_or_default() + "\n" }
}

/// Takes secrets out of objects: values of telling variables, what managers wrote, and secrets inside of texts.
fn clean(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("managedFields");
            fields.remove("kubectl.kubernetes.io/last-applied-configuration");
            let telling = fields.get("name").and_then(Value::as_str).is_some_and(is_telling);
            for (name, field) in fields.iter_mut() {
                match field {
                    Value::String(text) if (telling && name == "value") || is_telling(name) => {
                        *text = REDACTED.to_owned();
                    }
                    other => clean(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::String(text) => *text = redact(text),
        _ => {}
    }
}

/// Names of things that hold secrets, not of things that name one (`secretName`).
fn is_telling(name: &str) -> bool {
    let lower = name.to_lowercase().replace('-', "_");
    !lower.ends_with("name") && TELLING.iter().any(|word| lower.contains(word))
}

/// A text with what stands behind a telling word, `Bearer`, or in a URL before `@`, replaced.
fn redact(text: &str) -> String {
    text.split_inclusive('\n').map(redact_line).collect()
}

fn redact_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut hides = false;
    for word in line.split_inclusive(char::is_whitespace) {
        let bare = word.trim_end();
        let end = &word[bare.len()..];
        if hides && !bare.is_empty() {
            out.push_str(REDACTED);
            hides = bare.eq_ignore_ascii_case("bearer");
        } else if let Some((name, value)) = bare.split_once(['=', ':'])
            && is_telling(name)
        {
            out.push_str(&bare[..=name.len()]);
            if !value.is_empty() {
                out.push_str(REDACTED);
            }
            hides = value.is_empty();
        } else if let Some((scheme, rest)) = bare.split_once("://")
            && let Some((user, host)) = rest.split_once('@')
            && user.contains(':')
        {
            out.push_str(&format!("{scheme}://{REDACTED}@{host}"));
        } else {
            hides = bare.eq_ignore_ascii_case("bearer");
            out.push_str(bare);
        }
        out.push_str(end);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_taken_out_and_the_rest_is_left() {
        let mut value = json!({
            "metadata": {"managedFields": [1], "name": "pi"},
            "env": [{"name": "WANDB_API_KEY", "value": "abc"}, {"name": "LR", "value": "0.1"}],
            "secretName": "pi-ssh",
            "command": ["train", "--token=abc", "--lr=0.1"],
        });
        clean(&mut value);
        assert_eq!(
            value,
            json!({
                "metadata": {"name": "pi"},
                "env": [{"name": "WANDB_API_KEY", "value": REDACTED}, {"name": "LR", "value": "0.1"}],
                "secretName": "pi-ssh",
                "command": ["train", format!("--token={REDACTED}"), "--lr=0.1"],
            })
        );
        for (text, clean) in [
            ("loss: 0.3 at step 4\n", "loss: 0.3 at step 4\n"),
            ("Authorization: Bearer eyJh rest\n", "Authorization: Bearer [redacted] rest\n"),
            ("DB_PASSWORD=x y\n", "DB_PASSWORD=[redacted] y\n"),
            ("password: hunter2\n", "password: [redacted]\n"),
            ("git clone https://me:pw@host/x\n", "git clone https://[redacted]@host/x\n"),
        ] {
            assert_eq!(redact(text), clean);
        }
    }
}
