//! The Secret with the job's own key pair, in the form that sshd and ssh read. The agent's pre-shared key is derived
//! from the same private key.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use super::{KeyPair, app_label, metadata, secret_name};
use crate::validate::ValidJob;

/// The key of the private half, as in Kubernetes' type `kubernetes.io/ssh-auth`.
pub(crate) const PRIVATE_KEY: &str = "ssh-privatekey";
/// The key of the public half.
pub(crate) const PUBLIC_KEY: &str = "ssh-publickey";

/// The Secret, without its keys: the caller fills in [`key_data`], because nothing here has randomness.
pub(crate) fn secret(job: &ValidJob) -> Secret {
    Secret {
        metadata: metadata(job, secret_name(&job.name), app_label(job)),
        type_: Some("kubernetes.io/ssh-auth".to_owned()),
        ..Secret::default()
    }
}

/// The Secret's data.
#[must_use]
pub fn key_data(key: &KeyPair) -> BTreeMap<String, ByteString> {
    BTreeMap::from([
        (PRIVATE_KEY.to_owned(), ByteString(key.private_pem.clone().into_bytes())),
        (PUBLIC_KEY.to_owned(), ByteString(key.public_line.clone().into_bytes())),
    ])
}
