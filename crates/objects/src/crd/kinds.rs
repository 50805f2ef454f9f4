//! The kinds that a CRD defines.

use serde_json::Value;

use super::{default_crd, judge, text, versions};
use crate::fault::FieldFault;
use crate::kinds::{Column, Kind, ScalePaths};
use crate::schema::Schema;

/// Returns the kinds that a valid CRD defines, one per served version, the preferred one first.
///
/// # Errors
/// The CRD's faults.
pub fn kinds_of_crd(crd: &Value) -> Result<Vec<Kind>, Vec<FieldFault>> {
    let mut defaulted = crd.clone();
    default_crd(&mut defaulted);
    // Writing the CRD already rejected rules that do not compile. Should one remain, its evaluation rejects the object.
    let faults = judge(&defaulted, false);
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut kinds: Vec<Kind> = Vec::new();
    for version in versions(&defaulted).filter(|v| v["served"] == true) {
        let schema = Schema::of_crd(&version["schema"]["openAPIV3Schema"])
            .map_err(|e| vec![FieldFault::invalid("spec.versions", text(version, "name"), e.to_string())])?;
        kinds.push(kind_of_version(&defaulted["spec"], version).with_schema(schema));
    }
    if let Some(stored) = kinds.iter().find(|kind| kind.stored_version).map(|kind| kind.schema().clone()) {
        kinds = kinds
            .into_iter()
            .map(|kind| if kind.stored_version { kind } else { kind.with_stored_schema(Some(&stored)) })
            .collect();
    }
    kinds.sort_by_key(|kind| std::cmp::Reverse(version_rank(&kind.version)));
    Ok(kinds)
}

fn kind_of_version(spec: &Value, version: &Value) -> Kind {
    let names = &spec["names"];
    let mut kind = Kind::new(
        text(spec, "group"),
        text(version, "name"),
        text(names, "kind"),
        text(names, "plural"),
        spec["scope"] == "Namespaced",
    );
    let strings = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
    };
    kind.list_kind = text(names, "listKind").to_owned();
    kind.singular = text(names, "singular").to_owned();
    kind.short_names = strings(&names["shortNames"]);
    kind.categories = strings(&names["categories"]);
    kind.stored_version = version["storage"] == true;
    kind.columns = version["additionalPrinterColumns"].as_array().into_iter().flatten().map(column).collect();
    kind.selectable_fields = version["selectableFields"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|f| text(f, "jsonPath").to_owned())
        .collect();
    if version["deprecated"] == true {
        let default = format!("{}/{} {} is deprecated", kind.group, kind.version, kind.kind);
        kind.deprecation = Some(version["deprecationWarning"].as_str().map_or(default, str::to_owned));
    }
    if version["subresources"]["status"].is_object() {
        kind = kind.with_status();
    }
    let scale = &version["subresources"]["scale"];
    if scale.is_object() {
        kind = kind.with_scale(ScalePaths {
            spec_replicas: text(scale, "specReplicasPath").to_owned(),
            status_replicas: text(scale, "statusReplicasPath").to_owned(),
            label_selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
        });
    }
    kind
}

fn column(column: &Value) -> Column {
    Column {
        name: text(column, "name").to_owned(),
        kind: text(column, "type").to_owned(),
        format: text(column, "format").to_owned(),
        description: text(column, "description").to_owned(),
        priority: column["priority"].as_i64().unwrap_or_default(),
        json_path: text(column, "jsonPath").to_owned(),
    }
}

/// Returns a sort key of a version (`apimachinery/pkg/version.CompareKubeAwareVersionStrings`): v10, v2, v1, v2beta1,
/// v1alpha1, others.
pub fn version_rank(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let other = (0, 0, 0, std::cmp::Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else { return other };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let Ok(major) = rest[..end].parse() else { return other };
    let (stability, minor) = match &rest[end..] {
        "" => (3, "0"),
        rest if rest.starts_with("beta") => (2, &rest[4..]),
        rest if rest.starts_with("alpha") => (1, &rest[5..]),
        _ => return other,
    };
    match minor.parse() {
        Ok(minor) => (stability, major, minor, std::cmp::Reverse(String::new())),
        Err(_) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ranked() {
        let mut versions = vec!["v1alpha1", "v2", "foo", "v10", "v1", "v2beta1", "v1beta2"];
        versions.sort_by_key(|v| std::cmp::Reverse(version_rank(v)));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo"]);
    }
}
