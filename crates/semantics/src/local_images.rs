//! Images of the embedded cluster: a name stands for a directory of this machine, its local environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Image names and their local environments.
pub type LocalImages = BTreeMap<String, PathBuf>;

/// The `imageID` of a container for whose image there is no local environment, so that it has the machine's own programs.
pub const ID_OF_THE_MACHINE: &str = "local:";

/// Returns the `imageID` of a container that has this local environment. It has no digest, because nothing was pulled.
pub fn image_id(environment: Option<&Path>) -> String {
    let directory = environment.map(|directory| directory.display().to_string());
    format!("{ID_OF_THE_MACHINE}{}", directory.unwrap_or_default())
}

/// Returns an image's name without tag and digest.
fn repository_of(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or(image);
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    name[last..].find(':').map_or(name, |colon| &name[..last + colon])
}

/// Returns the local environment that stands for an image; a name without a tag means the tag `latest`.
pub fn environment_of<'a>(images: &'a LocalImages, image: &str) -> Option<&'a Path> {
    let untagged = || image.strip_suffix(":latest").and_then(|name| images.get(name));
    let tagged = || images.get(&format!("{image}:latest"));
    images.get(image).or_else(untagged).or_else(tagged).map(PathBuf::as_path)
}

/// Returns the mapped images of the same repository if the image itself is not mapped: its tag is then a typing error, or
/// an image that was not provided. Empty for an image of a repository that is not mapped at all.
pub fn other_tags<'a>(images: &'a LocalImages, image: &str) -> Vec<&'a str> {
    if environment_of(images, image).is_some() {
        return Vec::new();
    }
    let repository = repository_of(image);
    images.keys().map(String::as_str).filter(|known| repository_of(known) == repository).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_an_image_without_its_tag() {
        for (image, repository) in [
            ("train", "train"),
            ("train:1", "train"),
            ("host:5000/team/train", "host:5000/team/train"),
            ("host:5000/team/train:1", "host:5000/team/train"),
            ("quay.io/train@sha256:abc", "quay.io/train"),
            ("quay.io/train:1@sha256:abc", "quay.io/train"),
        ] {
            assert_eq!(repository_of(image), repository, "{image}");
        }
    }

    #[test]
    fn a_name_without_a_tag_means_latest() {
        let images: LocalImages = [("a", "/a"), ("b:latest", "/b"), ("c:1", "/c")]
            .map(|(name, at)| (name.into(), at.into()))
            .into();
        let found = |image| environment_of(&images, image).map(|at| at.to_string_lossy().into_owned());
        assert_eq!(found("a:latest").as_deref(), Some("/a"));
        assert_eq!(found("b").as_deref(), Some("/b"));
        assert_eq!(found("c"), None);
        assert_eq!(other_tags(&images, "c"), ["c:1"]);
        assert_eq!(other_tags(&images, "c:1"), [""; 0]);
        assert_eq!(other_tags(&images, "d"), [""; 0]);
        assert_eq!(image_id(environment_of(&images, "c:1")), "local:/c");
        assert_eq!(image_id(environment_of(&images, "d")), ID_OF_THE_MACHINE);
        assert_ne!(image_id(Some(Path::new("/"))), ID_OF_THE_MACHINE, "it was chosen");
    }
}
