//! The names of images, by the grammar of `distribution/reference` (`reference.go`): what a kubelet refuses as
//! `InvalidImageName` before it pulls anything. Pure.

/// The maximum length of a name without tag and digest.
const LONGEST_NAME: usize = 255;
/// The maximum length of a tag.
const LONGEST_TAG: usize = 128;

/// Returns why a kubelet would not accept the name, in its own words; `None` if it is valid.
pub fn fault(image: &str) -> Option<String> {
    let why = why(image)?;
    Some(format!(
        "Failed to apply default image tag \"{image}\": couldn't parse image name \"{image}\": {why}"
    ))
}

fn why(image: &str) -> Option<&'static str> {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match name[last..].split_once(':') {
        Some((path, tag)) => (&name[..last + path.len()], Some(tag)),
        None => (name, None),
    };
    if name.bytes().any(|byte| byte.is_ascii_uppercase())
        && is_name(&name.to_ascii_lowercase())
        && !is_name(name)
    {
        return Some("invalid reference format: repository name must be lowercase");
    }
    let good =
        is_name(name) && name.len() <= LONGEST_NAME && tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
    (!good).then_some("invalid reference format")
}

/// `registry:5000/team/train`
fn is_name(name: &str) -> bool {
    let (registry, path) = match name.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" || has_uppercase(first) => {
            (Some(first), rest)
        }
        _ => (None, name),
    };
    registry.is_none_or(is_registry) && path.split('/').all(is_component)
}

fn has_uppercase(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_registry(registry: &str) -> bool {
    let (host, port) = registry.split_once(':').map_or((registry, None), |(host, port)| (host, Some(port)));
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    host.split('.').all(is_label)
        && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Lower-case letters and digits, with single separators between them: `.`, `_`, `__`, or any number of `-`.
fn is_component(component: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [component.bytes().next(), component.bytes().last()];
    let separators = component.split(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    ends.into_iter().all(|end| end.is_some_and(is_inner))
        && separators
            .into_iter()
            .all(|part| matches!(part, "" | "." | "_" | "__") || part.bytes().all(|byte| byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let starts = tag.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    starts
        && tag.len() <= LONGEST_TAG
        && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        algorithm.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
            && hex.len() >= 32
            && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images_are_told_from_other_text() {
        let digest = format!("train@sha256:{}", "0".repeat(64));
        for good in [
            "local",
            "train:1",
            "quay.io/opendatahub/mpi-examples:openmpi",
            "registry:5000/a/b_c/d--e:V1.0",
            "localhost/x__y.z",
            &digest,
        ] {
            assert_eq!(fault(good), None, "{good}");
        }
        for bad in ["Not An Image", "", "a//b", "-a", "a:", "a:b:c", "a_-b", "train@sha256:0", "x/-y"] {
            assert!(fault(bad).unwrap().ends_with("invalid reference format"), "{bad}");
        }
        assert!(fault("Train:1").unwrap().ends_with("repository name must be lowercase"));
    }
}
