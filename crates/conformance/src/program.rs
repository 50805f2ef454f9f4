//! A program: a sequence of requests, which may refer to earlier answers.
//!
//! In paths, query values and bodies, `${ns}` is the program's namespace, and `${rv:3}`, `${uid:3}`, `${name:3}` and
//! `${continue:3}` are values from the answer to step 3, or `missing` if that answer has no such value.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Replaces a reference to a value that an earlier answer does not have.
pub const MISSING: &str = "missing";

/// A sequence of requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The seed that it was generated from.
    pub seed: u64,
    /// The requests.
    pub steps: Vec<Step>,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Identifies this step in references; unaffected by the removal of other steps.
    pub id: u32,
    /// The HTTP method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query: Vec<(String, String)>,
    /// Headers in addition to those of every request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The body.
    #[serde(default, skip_serializing_if = "Body::is_nothing")]
    pub body: Body,
}

/// A request's body.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Body {
    /// No body.
    #[default]
    Nothing,
    /// Text as it is.
    Text(String),
    /// JSON.
    Json(Value),
    /// The answer to an earlier step, changed by JSON patch operations. Operations that do not apply are skipped.
    Answer {
        /// The step's id.
        of: u32,
        /// The operations.
        edits: Vec<Value>,
    },
}

impl Body {
    fn is_nothing(&self) -> bool {
        *self == Body::Nothing
    }
}

impl Step {
    /// Returns whether the answer is a stream of events.
    pub fn is_watch(&self) -> bool {
        self.method == "GET" && self.query.iter().any(|(name, value)| name == "watch" && value != "0")
    }

    /// Returns the resource of the path, with its subresource: `pods`, `jobs.batch/status`.
    pub fn resource(&self) -> String {
        let parts = self.path.trim_matches('/').split('/').collect::<Vec<_>>();
        let (group, rest) = match parts.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => return self.path.clone(),
        };
        let rest = match rest {
            ["namespaces", _, rest @ ..]
                if rest.first().is_some_and(|r| !matches!(*r, "status" | "finalize")) =>
            {
                rest
            }
            rest => rest,
        };
        let mut name = rest.first().copied().unwrap_or_default().to_owned();
        if !group.is_empty() {
            name = format!("{name}.{group}");
        }
        match rest.get(2) {
            Some(subresource) => format!("{name}/{subresource}"),
            None => name,
        }
    }

    /// Returns the kind of request, in a word or two: `GET`, `PATCH merge`, `WATCH`.
    pub fn verb(&self) -> String {
        if self.is_watch() {
            return "WATCH".into();
        }
        let content =
            self.headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value.as_str());
        let patch = match content {
            Some("application/json-patch+json") => " json",
            Some("application/merge-patch+json") => " merge",
            Some("application/strategic-merge-patch+json") => " strategic",
            Some("application/apply-patch+yaml") => " apply",
            _ => "",
        };
        format!("{}{patch}", self.method)
    }
}

/// The values of references on one side.
#[derive(Debug, Default)]
pub struct References {
    /// The program's namespace.
    pub namespace: String,
    /// The bodies of answers, by step.
    pub answers: BTreeMap<u32, Value>,
}

impl References {
    /// Replaces the references in a text.
    pub fn resolve(&self, text: &str) -> String {
        let mut resolved = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            resolved.push_str(before);
            let Some((name, after)) = after.split_once('}') else {
                resolved.push_str("${");
                rest = after;
                continue;
            };
            resolved.push_str(&self.value(name));
            rest = after;
        }
        resolved + rest
    }

    fn value(&self, name: &str) -> String {
        let Some((what, step)) = name.split_once(':') else { return self.namespace.clone() };
        let field = match what {
            "rv" => "/metadata/resourceVersion",
            "uid" => "/metadata/uid",
            "name" => "/metadata/name",
            "continue" => "/metadata/continue",
            _ => return MISSING.into(),
        };
        let answer = step.parse().ok().and_then(|step: u32| self.answers.get(&step));
        let value = answer.and_then(|answer| answer.pointer(field)).and_then(Value::as_str);
        value.unwrap_or(MISSING).to_owned()
    }

    /// Returns the body as text, with its references replaced.
    pub fn body(&self, body: &Body) -> Option<String> {
        match body {
            Body::Nothing => None,
            Body::Text(text) => Some(self.resolve(text)),
            Body::Json(value) => Some(self.resolve(&value.to_string())),
            Body::Answer { of, edits } => {
                let mut value = self.answers.get(of).cloned().unwrap_or(Value::Null);
                for edit in edits {
                    let edit = self.resolve(&Value::Array(vec![edit.clone()]).to_string());
                    let Ok(patch) = serde_json::from_str::<json_patch::Patch>(&edit) else { continue };
                    // If it does not apply, json_patch leaves the value unchanged.
                    let _ = json_patch::patch(&mut value, &patch);
                }
                Some(value.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_replaced_by_answers() {
        let answers = BTreeMap::from([(3, json!({"metadata": {"resourceVersion": "7", "uid": "u"}}))]);
        let references = References { namespace: "n".into(), answers };
        assert_eq!(
            references.resolve("a/${ns}/${rv:3}/${uid:3}/${name:3}/${rv:4}"),
            "a/n/7/u/missing/missing"
        );
        let edits =
            vec![json!({"op": "remove", "path": "/metadata/uid"}), json!({"op": "remove", "path": "/x"})];
        let body = references.body(&Body::Answer { of: 3, edits });
        assert_eq!(body.unwrap(), json!({"metadata": {"resourceVersion": "7"}}).to_string());
    }

    #[test]
    fn the_resource_of_a_path_is_found() {
        let resource = |path: &str| {
            Step {
                id: 0,
                method: "GET".into(),
                path: path.into(),
                query: vec![],
                headers: vec![],
                body: Body::Nothing,
            }
            .resource()
        };
        assert_eq!(resource("/api/v1/namespaces/n/pods/p/status"), "pods/status");
        assert_eq!(resource("/apis/batch/v1/namespaces/n/jobs"), "jobs.batch");
        assert_eq!(resource("/api/v1/namespaces/n"), "namespaces");
        assert_eq!(resource("/api/v1/namespaces/n/status"), "namespaces/status");
        assert_eq!(resource("/api/v1/nodes/n/status"), "nodes/status");
    }
}
