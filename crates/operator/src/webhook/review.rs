//! An admission review (`admission.k8s.io/v1`) and its answer; fields that are not used are not parsed.

use std::sync::Arc;

use api::MPIJob;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use connections::{MOST_JSON_VALUES, Share};
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::body;

/// The API server's request.
#[derive(Debug, Deserialize)]
#[serde(bound = "K: DeserializeOwned")]
pub(super) struct Review<K = MPIJob> {
    pub request: Request<K>,
}

/// The operation on a job under review.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound = "K: DeserializeOwned")]
pub(super) struct Request<K = MPIJob> {
    pub uid: String,
    pub operation: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub namespace: String,
    #[serde(default)]
    pub user_info: UserInfo,
    #[serde(default)]
    pub dry_run: bool,
    /// The new job; none on a deletion.
    #[serde(default)]
    pub object: Option<K>,
    /// The old job; none on a creation.
    #[serde(default)]
    pub old_object: Option<K>,
    /// The options of the write.
    #[serde(default)]
    pub options: Option<Options>,
}

/// The options of a write (`CreateOptions`, `UpdateOptions`, `PatchOptions`).
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Options {
    #[serde(default)]
    pub field_manager: String,
}

/// The most characters of a program's name.
const LONGEST_PROGRAM: usize = 64;

impl<K: Resource> Request<K> {
    /// Returns the program that writes, as the API server knows it: the field manager that it names, else the one that wrote
    /// last, which the API server takes from the program's `User-Agent`. Empty for a deletion.
    pub fn program(&self) -> String {
        let options = self.options.as_ref();
        let named = options.map(|options| options.field_manager.clone()).filter(|name| !name.is_empty());
        let managed = || {
            let entries = self.object.as_ref()?.meta().managed_fields.as_ref()?;
            let newest = entries.iter().max_by_key(|entry| entry.time.as_ref().map(|time| time.0));
            newest?.manager.clone()
        };
        named.or_else(managed).unwrap_or_default().chars().take(LONGEST_PROGRAM).collect()
    }
}

/// The requesting user.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UserInfo {
    #[serde(default)]
    pub username: String,
    #[serde(default)]
    pub uid: String,
    #[serde(default)]
    pub groups: Vec<String>,
}

/// The decision on a review.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Decision {
    /// Why the request is refused, if it is.
    pub denial: Option<Denial>,
    /// Warnings for the user; each at most 256 bytes, because the API server cuts longer ones.
    pub warnings: Vec<String>,
    /// JSON patch operations (RFC 6902).
    pub patch: Vec<Value>,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Denial {
    /// An HTTP status code.
    pub code: u16,
    /// Kubernetes' reason for it.
    pub reason: &'static str,
    pub message: String,
}

impl Decision {
    pub(super) fn deny(code: u16, reason: &'static str, message: String) -> Self {
        Self { denial: Some(Denial { code, reason, message }), ..Self::default() }
    }

    /// Returns the review to send back.
    pub(super) fn answer(&self, uid: &str) -> Value {
        let mut response = json!({ "uid": uid, "allowed": self.denial.is_none() });
        if let Some(denial) = &self.denial {
            response["status"] = json!(denial);
        }
        if !self.warnings.is_empty() {
            response["warnings"] = json!(self.warnings);
        }
        if !self.patch.is_empty() {
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(STANDARD.encode(json!(self.patch).to_string()));
        }
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
    }
}

/// Reads a review; the inner error is the answer to one of an object that cannot be read. Its schema permits what this
/// program has no place for, such as a port beyond 32 bits, and such an object in the cluster would break every watch of its
/// kind. One that could not be read before either may be changed: it is on its way out.
///
/// # Errors
/// The error of reading, if it is no review, or if only the old object cannot be read.
pub(super) async fn read<K: DeserializeOwned + Send + 'static>(
    body: Bytes,
    share: &Arc<Share>,
) -> Result<Result<Request<K>, (String, Decision)>, serde_json::Error> {
    let error = match body::parse::<Review<K>>(body.clone(), share).await {
        Ok(Review { request }) => return Ok(Ok(request)),
        Err(error) => error,
    };
    let Ok(Review::<Value> { request }) = body::parse(body, share).await else { return Err(error) };
    let read = |object: Option<Value>| object.map(serde_json::from_value::<K>).transpose();
    match (read(request.object), read(request.old_object)) {
        (Err(fault), Ok(_)) => {
            let message = format!("the object cannot be read: {fault}");
            Ok(Err((request.uid, Decision::deny(422, "Invalid", message))))
        }
        _ => Err(error),
    }
}

/// What is read of a review that has too many parts.
#[derive(Deserialize)]
struct Head {
    request: HeadOfRequest,
}

#[derive(Deserialize)]
struct HeadOfRequest {
    uid: String,
    operation: String,
}

/// The most bytes of a request's UID: it is a UUID.
const LONGEST_UID: usize = 128;

/// Refuses the creation of an object with too many parts, none of which is kept in memory. Returns `None` for anything but a
/// creation: the failure policy lets an object that is there be changed and deleted.
pub(super) async fn refuse_creation(body: Bytes, share: &Arc<Share>) -> Option<(String, Decision)> {
    let Head { request } = body::parse(body, share).await.ok()?;
    let HeadOfRequest { uid, operation } = request;
    if operation != "CREATE" || uid.len() > LONGEST_UID {
        return None;
    }
    let message = format!(
        "the object is too large to be checked: it has more than {} objects and lists, \
         or more than {MOST_JSON_VALUES} values",
        body::JSON_LIMITS.containers
    );
    Some((uid, Decision::deny(422, "Invalid", message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_creation_of_an_object_of_too_many_parts_is_refused_with_the_limit() {
        let share = Arc::new(connections::Budget::new(16 << 20, 16 << 20).share("a"));
        let refused = async |operation: &str, rest: &str| {
            let values = "0,".repeat(MOST_JSON_VALUES);
            let review = format!(
                r#"{{"kind":"AdmissionReview","request":{{"object":[{values}0],"uid":"1","operation":"{operation}"}}{rest}"#
            );
            refuse_creation(review.into(), &share).await
        };
        let (uid, decision) = refused("CREATE", "}").await.unwrap();
        let denial = decision.denial.unwrap();
        assert_eq!((uid.as_str(), denial.code, denial.reason), ("1", 422, "Invalid"));
        assert!(denial.message.contains("more than 200000 values"), "{}", denial.message);
        for (operation, rest) in [("UPDATE", "}"), ("DELETE", "}"), ("CREATE", "")] {
            assert!(refused(operation, rest).await.is_none(), "{operation}: a change, or no JSON");
        }
    }

    #[tokio::test]
    async fn an_object_that_cannot_be_read_is_refused_unless_it_was_so_before() {
        let share = Arc::new(connections::Budget::new(1 << 20, 1 << 20).share("a"));
        let port = |number: u64| {
            json!({ "metadata": { "name": "a" }, "spec": { "mpiReplicaSpecs": { "Worker": { "template": { "spec": {
                "containers": [{ "name": "w", "livenessProbe": { "httpGet": { "port": number } } }] } } } } } })
        };
        let answer = async |old: Value, new: Value| {
            let request = json!({ "uid": "1", "operation": "UPDATE", "oldObject": old, "object": new });
            let answer = read::<MPIJob>(json!({ "request": request }).to_string().into(), &share).await;
            answer.map(|read| read.map(drop).unwrap_err()).map(|(uid, decision)| (uid, decision.denial))
        };
        let (uid, denial) = answer(port(80), port(99_999_999_999)).await.unwrap();
        assert_eq!((uid.as_str(), denial.unwrap().code), ("1", 422));
        assert!(answer(Value::Null, port(99_999_999_999)).await.unwrap().1.is_some(), "a creation");
        assert!(answer(port(99_999_999_999), port(99_999_999_999)).await.is_err(), "the policy decides");
        assert!(answer(port(99_999_999_999), Value::Null).await.is_err(), "it can be deleted");
        assert!(answer(port(99_999_999_999), port(80)).await.is_err(), "it can be mended");
    }

    #[test]
    fn the_program_is_the_field_manager_or_the_one_that_wrote_last() {
        let program = |options: Value, managers: Value| {
            let object = json!({ "metadata": { "managedFields": managers } });
            let request = json!({ "uid": "1", "operation": "UPDATE", "object": object, "options": options });
            let request: Request<k8s_openapi::api::core::v1::ConfigMap> =
                serde_json::from_value(request).unwrap();
            request.program()
        };
        let managers = json!([{ "manager": "odh", "time": "2026-01-01T00:00:02Z" },
            { "manager": "kubectl-create", "time": "2026-01-01T00:00:01Z" }, { "manager": "old" }]);
        assert_eq!(program(json!({ "fieldManager": "kubectl-edit" }), managers.clone()), "kubectl-edit");
        assert_eq!(program(Value::Null, managers.clone()), "odh");
        assert_eq!(program(json!({ "fieldManager": "" }), managers), "odh");
        assert_eq!(program(Value::Null, json!([])), "");
    }
}
