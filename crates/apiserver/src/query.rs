//! The query parameters that Kubernetes defines, parsed once.
//!
//! Pure. Rules: apimachinery `pkg/apis/meta/v1/types.go` (ListOptions, CreateOptions, PatchOptions,
//! DeleteOptions) and `pkg/apis/meta/internalversion/validation`.

use std::collections::HashMap;

use super::status::{self, About, StatusError};

/// How to handle unknown and duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them and warn.
    #[default]
    Warn,
    /// Reject the request.
    Strict,
}

/// How to interpret `resourceVersion`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// `NotOlderThan`
    NotOlderThan,
    /// `Exact`
    Exact,
}

/// Every parameter, parsed.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// `watch`
    pub watch: bool,
    /// `labelSelector`, unparsed.
    pub label_selector: String,
    /// `fieldSelector`, unparsed.
    pub field_selector: String,
    /// `resourceVersion`; `None` where absent or empty.
    pub resource_version: Option<u64>,
    /// `resourceVersionMatch`
    pub version_match: Option<Match>,
    /// `limit`
    pub limit: Option<usize>,
    /// `continue`
    pub next: String,
    /// `timeoutSeconds`
    pub timeout_seconds: Option<u64>,
    /// `allowWatchBookmarks`
    pub bookmarks: bool,
    /// `sendInitialEvents`
    pub initial_events: Option<bool>,
    /// `dryRun=All`
    pub dry_run: bool,
    /// `fieldManager`
    pub field_manager: String,
    /// `fieldValidation`
    pub field_validation: FieldValidation,
    /// `force`
    pub force: bool,
    /// `gracePeriodSeconds`
    pub grace_period_seconds: Option<i64>,
    /// `propagationPolicy`
    pub propagation_policy: Option<String>,
    /// `orphanDependents`
    pub orphan_dependents: Option<bool>,
    /// `includeObject`, of Tables.
    pub include_object: String,
    /// All parameters by name, for subresources with parameters of their own.
    pub raw: HashMap<String, String>,
}

impl Query {
    /// Checks that the options of a list or watch may be combined (`ValidateListOptions`).
    ///
    /// # Errors
    /// 422 for a combination that Kubernetes forbids.
    pub fn check_combination(&self) -> Result<(), StatusError> {
        check_combination(self)
    }

    /// Checks the requested revision.
    ///
    /// # Errors
    /// 400.
    pub fn check_version(&self) -> Result<(), StatusError> {
        let asked = self.raw.get("resourceVersion").filter(|asked| !asked.is_empty());
        asked.map_or(Ok(()), |asked| revision(asked).map(|_| ()))
    }

    fn has(&self, name: &str) -> bool {
        self.raw.get(name).is_some_and(|value| !value.is_empty())
    }
}

/// Parses a query string.
///
/// # Errors
/// 400 for a value that doesn't parse, 422 for one that isn't allowed.
pub fn parse(text: &str) -> Result<Query, StatusError> {
    let raw = split(text);
    let get = |name: &str| raw.get(name).map(String::as_str).filter(|value| !value.is_empty());
    let query = Query {
        watch: flag(get("watch")),
        label_selector: get("labelSelector").unwrap_or_default().into(),
        field_selector: get("fieldSelector").unwrap_or_default().into(),
        resource_version: get("resourceVersion").and_then(|value| value.parse().ok()),
        version_match: get("resourceVersionMatch").and_then(version_match),
        limit: number::<i64>(get("limit"))?
            .and_then(|limit| usize::try_from(limit).ok())
            .filter(|limit| *limit > 0),
        next: get("continue").unwrap_or_default().into(),
        timeout_seconds: number::<i64>(get("timeoutSeconds"))?
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0),
        bookmarks: flag(get("allowWatchBookmarks")),
        initial_events: get("sendInitialEvents").map(|value| flag(Some(value))),
        dry_run: dry_run(get("dryRun"))?,
        field_manager: get("fieldManager").unwrap_or_default().into(),
        field_validation: field_validation(get("fieldValidation"))?,
        force: flag(get("force")),
        grace_period_seconds: number(get("gracePeriodSeconds"))?,
        propagation_policy: get("propagationPolicy").map(Into::into),
        orphan_dependents: get("orphanDependents").map(|value| flag(Some(value))),
        include_object: get("includeObject").unwrap_or_default().into(),
        raw: raw.clone(),
    };
    Ok(query)
}

fn check_combination(query: &Query) -> Result<(), StatusError> {
    let forbid = |field: &str, why: &str| {
        let about = About { group: "meta.k8s.io", resource: "ListOptions", name: "" };
        let cause = ("FieldValueForbidden".to_owned(), format!("Forbidden: {why}"), field.to_owned());
        Err(status::invalid(about, &[cause]))
    };
    let field = "resourceVersionMatch";
    if query.watch {
        if query.has("resourceVersionMatch") && query.initial_events.is_none() {
            return forbid(
                field,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            );
        }
        if query.initial_events.is_some() && query.version_match != Some(Match::NotOlderThan) {
            return forbid(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        return Ok(());
    }
    if query.initial_events.is_some() {
        return forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
    }
    check_match(query)?;
    if !query.next.is_empty() && query.has("resourceVersion") && query.resource_version != Some(0) {
        return Err(status::bad_request("specifying resource version is not allowed when using continue"));
    }
    Ok(())
}

/// Checks the `resourceVersionMatch` of a list (`apimachinery/pkg/apis/meta/internalversion/validation`).
fn check_match(query: &Query) -> Result<(), StatusError> {
    let field = "resourceVersionMatch";
    let Some(given) = query.raw.get(field).filter(|given| !given.is_empty()) else { return Ok(()) };
    let mut causes = Vec::new();
    let mut add = |reason: &str, detail: String| causes.push((reason.to_owned(), detail, field.to_owned()));
    let mut forbid = |why: &str| add("FieldValueForbidden", format!("Forbidden: {why}"));
    if !query.has("resourceVersion") {
        forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
    }
    if !query.next.is_empty() {
        forbid("resourceVersionMatch is forbidden when continue is provided");
    }
    if query.version_match == Some(Match::Exact) && query.resource_version == Some(0) {
        forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
    }
    if query.version_match.is_none() {
        let known = "supported values: \"Exact\", \"NotOlderThan\", \"\"";
        add("FieldValueNotSupported", format!("Unsupported value: \"{given}\": {known}"));
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(status::invalid(About { group: "meta.k8s.io", resource: "ListOptions", name: "" }, &causes))
}

fn split(text: &str) -> HashMap<String, String> {
    let mut raw = HashMap::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        raw.entry(decode(name)).or_insert_with(|| decode(value));
    }
    raw
}

/// Returns all parameters in order, for those that may be repeated.
pub fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(k, v)| (decode(k), decode(v)))
        .collect()
}

/// Decodes `%XX` and `+` in a part of a query.
pub fn decode(text: &str) -> String {
    String::from_utf8_lossy(&unescape(text, true)).into_owned()
}

/// Decodes `%XX` in a path.
pub fn decode_path(text: &str) -> String {
    String::from_utf8_lossy(&unescape(text, false)).into_owned()
}

/// Decodes `%XX`; `None` if the result isn't UTF-8.
pub fn decode_utf8(text: &str) -> Option<String> {
    String::from_utf8(unescape(text, false)).ok()
}

fn unescape(text: &str, plus_is_space: bool) -> Vec<u8> {
    let digit = |byte: Option<&u8>| {
        byte.and_then(|byte| char::from(*byte).to_digit(16)).and_then(|d| u8::try_from(d).ok())
    };
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'+' if plus_is_space => decoded.push(b' '),
            b'%' => match (digit(bytes.get(at)), digit(bytes.get(at + 1))) {
                (Some(high), Some(low)) => {
                    decoded.push(high << 4 | low);
                    at += 2;
                }
                _ => decoded.push(b'%'),
            },
            other => decoded.push(other),
        }
    }
    decoded
}

/// Go's conversion of a query value to a bool: everything but `false` and `0` is true.
pub fn flag(value: Option<&str>) -> bool {
    value.is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
}

fn number<T: std::str::FromStr>(value: Option<&str>) -> Result<Option<T>, StatusError> {
    value
        .map(|value| {
            value.parse().map_err(|_| {
                status::bad_request(format!("strconv.ParseInt: parsing \"{value}\": invalid syntax"))
            })
        })
        .transpose()
}

fn revision(value: &str) -> Result<u64, StatusError> {
    value.parse().map_err(|_| {
        status::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: \"{value}\": strconv.ParseUint: parsing \"{value}\": invalid syntax"
        ))
    })
}

fn version_match(value: &str) -> Option<Match> {
    match value {
        "NotOlderThan" => Some(Match::NotOlderThan),
        "Exact" => Some(Match::Exact),
        _ => None,
    }
}

/// Parses `dryRun`.
///
/// # Errors
/// 422 for any value but `All`.
pub fn dry_run(value: Option<&str>) -> Result<bool, StatusError> {
    match value {
        None => Ok(false),
        Some("All") => Ok(true),
        Some(other) => {
            let detail = format!("Unsupported value: [{other:?}]: supported values: \"All\"");
            let about = About { group: "meta.k8s.io", resource: "CreateOptions", name: "" };
            Err(status::invalid(about, &[("FieldValueNotSupported".into(), detail, "dryRun".into())]))
        }
    }
}

fn field_validation(value: Option<&str>) -> Result<FieldValidation, StatusError> {
    match value {
        None | Some("Warn") => Ok(FieldValidation::Warn),
        Some("Strict") => Ok(FieldValidation::Strict),
        Some("Ignore") => Ok(FieldValidation::Ignore),
        Some(other) => {
            let detail = format!(
                "Unsupported value: \"{other}\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
            );
            let about = About { group: "meta.k8s.io", resource: "CreateOptions", name: "" };
            Err(status::invalid(
                about,
                &[("FieldValueNotSupported".into(), detail, "fieldValidation".into())],
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query =
            parse("labelSelector=a%3Db%2Cc+in+%28d%29&watch=1&resourceVersion=7&timeoutSeconds=3").unwrap();
        assert_eq!(query.label_selector, "a=b,c in (d)");
        assert!(query.watch);
        assert_eq!((query.resource_version, query.timeout_seconds), (Some(7), Some(3)));
    }

    #[test]
    fn forbidden_list_options_are_rejected() {
        let table = [
            ("resourceVersion=x", 400),
            ("limit=x", 400),
            ("dryRun=Some", 422),
            ("watch=true&resourceVersionMatch=Exact", 422),
            ("watch=true&sendInitialEvents=true", 422),
            ("resourceVersionMatch=Exact", 422),
            ("resourceVersionMatch=Exact&resourceVersion=0", 422),
        ];
        for (text, code) in table {
            let judged =
                parse(text).and_then(|query| query.check_combination().and_then(|()| query.check_version()));
            assert_eq!(judged.map_err(|refusal| refusal.code), Err(code), "{text}");
        }
    }
}
