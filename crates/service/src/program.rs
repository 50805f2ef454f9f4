//! The program that a job runs, short enough to be kept of every job. Pure.

use std::collections::BTreeMap;

use jobs::Kind;
use jobs::sizing::{self, Requested};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The length of an id in bytes.
const ID_BYTES: usize = 16;

/// A program, and what a job that runs it requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The same for all jobs that run the same program ([`sizing::program`]).
    pub id: String,
    /// The image of the Workers.
    pub image: String,
    /// What is requested for each pod, by role.
    pub requested: BTreeMap<String, Requested>,
}

impl Program {
    /// Reads it from the spec of a job; `None` if the spec names none.
    pub fn of(kind: Kind, spec: &Value) -> Option<Self> {
        let sizing::Program { identity, image, requested } = sizing::program(kind, spec)?;
        let digest = Sha256::digest(identity);
        let id = digest.iter().take(ID_BYTES).map(|byte| format!("{byte:02x}")).collect();
        Some(Self { id, image, requested })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_is_short_and_that_of_the_command() {
        let of = |command: &str| {
            let pod = json!({ "spec": { "containers": [{ "image": "train:1", "command": [command] }] } });
            Program::of(Kind::MpiJob, &json!({ "mpiReplicaSpecs": { "Worker": { "template": pod } } }))
                .unwrap()
        };
        assert_eq!((of("a").id.len(), &of("a")), (2 * ID_BYTES, &of("a")));
        assert_ne!(of("a").id, of("b").id);
        assert_eq!(Program::of(Kind::MpiJob, &json!({})), None);
    }
}
