//! An admission review (`admission.k8s.io/v1`) and its answer; fields that are not used are not parsed.

use api::MPIJob;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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
