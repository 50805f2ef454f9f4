//! Runs a program on one side.

use std::fmt::Write as _;

use serde_json::json;

use crate::program::{Program, References, Step};
use crate::side::{Answer, Asked, Side};

/// Creates the program's namespace, and sends its requests one after the other.
///
/// # Errors
/// When the namespace cannot be created.
pub async fn replay(program: &Program, side: &Side, namespace: &str) -> Result<Vec<Answer>, String> {
    make_namespace(side, namespace).await?;
    let mut references = References { namespace: namespace.to_owned(), ..References::default() };
    let mut answers = Vec::with_capacity(program.steps.len());
    for step in &program.steps {
        let answer = side.ask(&asked(step, &references)).await;
        references.answers.insert(step.id, answer.body.clone());
        answers.push(answer);
    }
    Ok(answers)
}

async fn make_namespace(side: &Side, name: &str) -> Result<(), String> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    post(side, "/api/v1/namespaces", &namespace).await?;
    for account in ["default", "runner"] {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}});
        post(side, &format!("/api/v1/namespaces/{name}/serviceaccounts"), &account).await?;
    }
    Ok(())
}

/// Creates an object that programs depend on.
///
/// # Errors
/// When it cannot be created.
pub async fn post(side: &Side, path: &str, object: &serde_json::Value) -> Result<(), String> {
    let asked = Asked {
        method: "POST".into(),
        uri: path.into(),
        headers: vec![("content-type".into(), "application/json".into())],
        body: Some(object.to_string()),
        is_watch: false,
    };
    let answer = side.ask(&asked).await;
    if answer.code == 201 { Ok(()) } else { Err(format!("POST {path}: {} {}", answer.code, answer.body)) }
}

fn asked(step: &Step, references: &References) -> Asked {
    let mut uri = escape(&references.resolve(&step.path), "/");
    for (index, (name, value)) in step.query.iter().enumerate() {
        let value = escape(&references.resolve(value), "");
        // Writing to a String cannot fail.
        let _ = write!(uri, "{}{name}={value}", if index == 0 { '?' } else { '&' });
    }
    Asked {
        method: step.method.clone(),
        uri,
        headers: step.headers.clone(),
        body: references.body(&step.body),
        is_watch: step.is_watch(),
    }
}

fn escape(text: &str, left: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        let plain =
            byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || left.as_bytes().contains(&byte);
        if plain {
            escaped.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
        escaped
    })
}
