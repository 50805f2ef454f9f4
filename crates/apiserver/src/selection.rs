//! The label and field selectors of a list, a watch or a deletion of a collection.

use std::sync::Arc;

use serde_json::Value;

use super::query::Query;
use super::status::{self, StatusError};
use objects::{FieldSelector, Kind, LabelSelector, SelectorError};

/// The objects that a list or watch selects.
#[derive(Debug, Clone)]
pub struct Selection {
    kind: Arc<Kind>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// Parses both selectors.
    ///
    /// # Errors
    /// 400 for an invalid selector, or a field that doesn't support selection.
    pub fn parse(kind: &Arc<Kind>, labels: &str, fields: &str) -> Result<Self, StatusError> {
        let refuse = |error: SelectorError| status::bad_request(error.to_string());
        Ok(Self {
            kind: kind.clone(),
            labels: LabelSelector::parse(labels).map_err(refuse)?,
            fields: FieldSelector::parse(kind, fields).map_err(refuse)?,
        })
    }

    /// Parses the selectors of a list or watch and checks its other options, in the order of Kubernetes:
    /// syntax, forbidden combinations, fields that don't support selection, the revision.
    ///
    /// # Errors
    /// 400 and 422.
    pub fn of_list(kind: &Arc<Kind>, query: &Query) -> Result<Self, StatusError> {
        let refuse = |error: SelectorError| status::bad_request(error.to_string());
        let labels = LabelSelector::parse(&query.label_selector).map_err(refuse)?;
        FieldSelector::read(&query.field_selector).map_err(refuse)?;
        query.check_combination()?;
        let fields = FieldSelector::parse(kind, &query.field_selector).map_err(refuse)?;
        query.check_version()?;
        Ok(Self { kind: kind.clone(), labels, fields })
    }

    /// Narrows the selection to the object with this name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { fields: self.fields.named(name), ..self }
    }

    /// Returns whether the selection matches at most one object, by name
    /// (`SelectionPredicate.MatchesSingle`).
    pub fn is_of_one(&self) -> bool {
        self.fields.exact("metadata.name").is_some()
    }

    /// Returns whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Returns whether an object, in the kind's version, is selected.
    pub fn matches(&self, value: &Value) -> bool {
        self.labels.matches(value) && self.fields.matches(&self.kind, value)
    }
}
