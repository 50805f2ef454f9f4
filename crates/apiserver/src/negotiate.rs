//! Content negotiation: the format of the response and the encoding of the body.
//!
//! Pure. Rules: apiserver `pkg/endpoints/handlers/negotiation`. Responses are JSON only: a client that
//! accepts only protobuf or CBOR gets 406. Bodies may be JSON, YAML or, for built-in types, protobuf; others
//! get 415.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use serde_json::Value;

use super::status::{self, StatusError};
use objects::Kind;
use objects::patch::{self, PatchError};

/// The format of objects in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseFormat {
    /// The full object.
    Object,
    /// `meta.k8s.io` Table, of version v1 or v1beta1.
    Table(&'static str),
    /// `meta.k8s.io/v1` PartialObjectMetadata.
    Metadata,
    /// `meta.k8s.io/v1` PartialObjectMetadataList, for lists only.
    MetadataList,
    /// `apidiscovery.k8s.io` APIGroupDiscoveryList, of version v2 or v2beta1.
    Discovery(&'static str),
}

/// The media types of responses.
const SPOKEN: [&str; 1] = ["application/json"];

/// Returns the first supported format in `Accept`.
///
/// # Errors
/// 406 if JSON isn't accepted at all.
pub fn accepted(headers: &HeaderMap) -> Result<ResponseFormat, StatusError> {
    let mut values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).peekable();
    if values.peek().is_none() {
        return Ok(ResponseFormat::Object);
    }
    values
        .flat_map(|value| value.split(','))
        .filter(|clause| !clause.trim().is_empty())
        .find_map(form)
        .ok_or_else(|| status::not_acceptable(&SPOKEN))
}

/// Rejects all formats but the full object, for kinds that aren't stored and have neither columns nor
/// metadata.
///
/// # Errors
/// 406.
pub fn only_as_it_is(form: ResponseFormat) -> Result<(), StatusError> {
    if form == ResponseFormat::Object { Ok(()) } else { Err(status::not_acceptable(&SPOKEN)) }
}

fn form(clause: &str) -> Option<ResponseFormat> {
    let mut parts = clause.split(';').map(str::trim);
    let media = parts.next()?;
    if !matches!(media, "application/json" | "application/*" | "*/*" | "text/*" | "text/plain") {
        return None;
    }
    let (mut kind, mut group, mut version) = ("", "", "");
    for parameter in parts {
        match parameter.split_once('=') {
            Some(("as", value)) => kind = value,
            Some(("g", value)) => group = value,
            Some(("v", value)) => version = value,
            _ => {}
        }
    }
    match (kind, group, version) {
        ("", _, _) => Some(ResponseFormat::Object),
        ("Table", "meta.k8s.io", "v1") => Some(ResponseFormat::Table("v1")),
        ("Table", "meta.k8s.io", "v1beta1") => Some(ResponseFormat::Table("v1beta1")),
        ("PartialObjectMetadata", "meta.k8s.io", "v1") => Some(ResponseFormat::Metadata),
        ("PartialObjectMetadataList", "meta.k8s.io", "v1") => Some(ResponseFormat::MetadataList),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(ResponseFormat::Discovery("v2")),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => {
            Some(ResponseFormat::Discovery("v2beta1"))
        }
        _ => None,
    }
}

/// The encoding of an object in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Kubernetes' protobuf, which Go clients send for built-in types.
    Protobuf,
}

/// The media type of Kubernetes' protobuf.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Returns the encoding of a body that contains an object.
///
/// # Errors
/// 415.
pub fn encoding(headers: &HeaderMap) -> Result<Encoding, StatusError> {
    match media_type(headers).as_deref() {
        None | Some("application/json") => Ok(Encoding::Json),
        Some("application/yaml") => Ok(Encoding::Yaml),
        Some(PROTOBUF) => Ok(Encoding::Protobuf),
        Some(_) => Err(status::unsupported_media_type(&["application/json", "application/yaml", PROTOBUF])),
    }
}

/// The type of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7396.
    Merge,
    /// Kubernetes' own format.
    Strategic,
    /// Server-side apply, in YAML (a superset of JSON).
    Apply,
}

impl PatchType {
    /// Applies a patch other than a server-side apply.
    ///
    /// # Errors
    /// If the patch is invalid, or does not fit the object.
    pub fn patched(self, kind: &Kind, live: &Value, change: &Value) -> Result<Value, PatchError> {
        match self {
            PatchType::Json => patch::json(live, change),
            PatchType::Merge | PatchType::Apply => patch::merge(live, change),
            PatchType::Strategic => patch::strategic(kind, live, change),
        }
    }
}

/// Returns the type of a patch; `strategic` says whether the kind supports strategic merge patches.
///
/// # Errors
/// 415.
pub fn patch_type(headers: &HeaderMap, strategic: bool) -> Result<PatchType, StatusError> {
    match media_type(headers).as_deref() {
        Some("application/json-patch+json") => Ok(PatchType::Json),
        Some("application/merge-patch+json") => Ok(PatchType::Merge),
        Some("application/strategic-merge-patch+json") if strategic => Ok(PatchType::Strategic),
        Some("application/apply-patch+yaml") => Ok(PatchType::Apply),
        // For built-in kinds the router rejects it, for others the handler.
        _ if strategic => {
            Err(StatusError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").empty_details())
        }
        _ => {
            let message = PatchError::Unsupported.to_string();
            Err(StatusError::new(415, "UnsupportedMediaType", message))
        }
    }
}

fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let media = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    (!media.is_empty()).then_some(media)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(value: &str) -> Result<ResponseFormat, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, value.parse().unwrap());
        accepted(&headers).map_err(|refusal| refusal.code)
    }

    #[test]
    fn the_first_supported_format_is_used() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(accept(kubectl), Ok(ResponseFormat::Table("v1")));
        assert_eq!(
            accept("application/vnd.kubernetes.protobuf,application/json"),
            Ok(ResponseFormat::Object)
        );
        assert_eq!(accept("application/json;as=Other;v=v1;g=meta.k8s.io,*/*"), Ok(ResponseFormat::Object));
        assert_eq!(accept("application/vnd.kubernetes.protobuf"), Err(406));
    }
}
