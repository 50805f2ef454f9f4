//! Images for which a node of the embedded cluster has no local environment.

use super::{Situation, Told};
use diagnosis::Cause;

/// A part of the message with which a node of the embedded cluster refuses an image that is mapped with other tags only.
const NODE_PULLS_NONE: &str = "this node pulls no images";

/// The first suspect where an image, a program or a library is missing: the embedded cluster's node had no local
/// environment for the image, and used the machine's own programs or none.
pub(super) fn unmapped_image(situation: &Situation<'_>, cause: Option<&str>) -> Option<String> {
    if cause.and_then(Cause::of_word) == Some(Cause::ImagePull) {
        let is_local = |told: &Told| told.message.contains(NODE_PULLS_NONE);
        return situation.events.iter().any(is_local).then(|| {
            "The local cluster pulls no images: correct the tag, or map the image to a local environment. \
             In another cluster:"
                .to_owned()
        });
    }
    let is_about_the_image = matches!(
        cause.and_then(Cause::of_word)?,
        Cause::ExecutableNotFound
            | Cause::LibraryMissing
            | Cause::LaunchProgramMissing
            | Cause::DaemonMissing
            | Cause::WrongMpi
            | Cause::MpiMismatch
            | Cause::VersionMismatch
    );
    let image = situation.unmapped_images.first().filter(|_| is_about_the_image)?;
    Some(format!(
        "First look at the image: \"{image}\" is not mapped to a local environment, so this machine's own programs were used."
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::explanation::explain;
    use crate::explanation::samples::{alone, job};

    #[test]
    fn an_image_that_is_not_mapped_is_the_first_suspect_where_a_program_is_missing() {
        let job = job(
            json!({ "phase": "Failed", "failure": { "reason": "ExecutableNotFound", "message": "m", "suggestion": "put it there" } }),
            json!({}),
        );
        let images = ["team/train:1".to_owned()];
        let advice = explain(&Situation { unmapped_images: &images, ..alone(&job) }).advice.unwrap().text;
        assert!(advice.starts_with("First look at the image: \"team/train:1\" is not mapped"), "{advice}");
        assert!(advice.ends_with("put it there"), "{advice}");
        assert_eq!(explain(&alone(&job)).advice.unwrap().text, "put it there");
    }

    #[test]
    fn an_image_whose_tag_is_not_mapped_is_explained_for_the_local_cluster() {
        let job = job(
            json!({ "phase": "Failed", "failure": { "reason": "ImagePull", "message": "m", "suggestion": "correct it" } }),
            json!({}),
        );
        let message = "Failed to pull image \"mpi:2\": manifest unknown: this node pulls no images, and the only known tags are mpi:1";
        let events = [Told { pod: None, reason: "Failed".to_owned(), message: message.to_owned() }];
        let advice = explain(&Situation { events: &events, ..alone(&job) }).advice.unwrap().text;
        assert!(
            advice.starts_with("The local cluster pulls no images") && advice.ends_with("correct it"),
            "{advice}"
        );
        assert_eq!(explain(&alone(&job)).advice.unwrap().text, "correct it");
    }
}
