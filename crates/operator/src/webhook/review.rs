//! An admission review (`admission.k8s.io/v1`) as it comes and as it is answered; what is not looked at is not read.

use api::MPIJob;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What the API server sends.
#[derive(Debug, Deserialize)]
pub(super) struct Review {
    pub request: Request,
}

/// What somebody wants to do to a job.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request {
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
    /// The job as it is to be; none on a deletion.
    #[serde(default)]
    pub object: Option<MPIJob>,
    /// The job as it is; none on a creation.
    #[serde(default)]
    pub old_object: Option<MPIJob>,
}

/// Who asks.
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

/// What is answered.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Decision {
    /// Why not, if not.
    pub refusal: Option<Refusal>,
    /// What the person should know anyway; each at most 256 bytes, as the API server cuts them.
    pub warnings: Vec<String>,
    /// JSON patch operations (RFC 6902).
    pub patch: Vec<Value>,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Refusal {
    /// An HTTP status code.
    pub code: u16,
    /// Kubernetes' word for it.
    pub reason: &'static str,
    pub message: String,
}

impl Decision {
    pub(super) fn refuse(code: u16, reason: &'static str, message: String) -> Self {
        Self { refusal: Some(Refusal { code, reason, message }), ..Self::default() }
    }

    /// The review that is sent back.
    pub(super) fn answer(&self, uid: &str) -> Value {
        let mut response = json!({ "uid": uid, "allowed": self.refusal.is_none() });
        if let Some(refusal) = &self.refusal {
            response["status"] = json!(refusal);
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
