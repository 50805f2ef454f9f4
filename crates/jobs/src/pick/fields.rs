//! The selection of a row's fields, for callers that show few of them. Pure.

use serde_json::Value;

use crate::manifest::nearest;
use crate::view::Row;

/// The fields of a row in JSON.
pub const FIELDS: [&str; 25] = [
    "kind",
    "namespace",
    "name",
    "uid",
    "phase",
    "phaseReason",
    "cause",
    "state",
    "health",
    "message",
    "ended",
    "actions",
    "workers",
    "owner",
    "created",
    "started",
    "runningSince",
    "finished",
    "gpus",
    "queue",
    "progress",
    "slotsPerWorker",
    "mpi",
    "image",
    "deleting",
];

/// The fields to return of each row; the default returns all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<&'static str>);

impl Fields {
    /// Reads field names separated by commas, as in JSON: `name,phase,workers`.
    ///
    /// # Errors
    /// A sentence about the first unknown field.
    pub fn read(text: &str) -> Result<Fields, String> {
        let known = |name: &str| {
            FIELDS.into_iter().find(|known| *known == name).ok_or_else(|| match nearest(name, &FIELDS) {
                Some(meant) => format!("a job has no field \"{name}\"; did you mean \"{meant}\"?"),
                None => format!("a job has no field \"{name}\"; the fields are: {}", FIELDS.join(", ")),
            })
        };
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        Ok(Fields(names.map(known).collect::<Result<_, _>>()?))
    }

    /// Returns the row in JSON, with these fields only.
    pub fn of(&self, row: &Row) -> Value {
        let mut value = serde_json::to_value(row).unwrap_or_default();
        if let (Some(fields), false) = (value.as_object_mut(), self.0.is_empty()) {
            fields.retain(|name, _| self.0.contains(&name.as_str()));
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row() -> Row {
        let object = json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": {"name": "pi", "namespace": "team", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {api::ANNOTATION_OWNER: "jane"}, "labels": {crate::kind::LABEL_QUEUE: "q"}},
            "status": {"phase": "Failed", "phaseReason": "OutOfMemory", "trainerStatus": {"progressPercentage": 1},
                "failure": {"reason": "OutOfMemory", "message": "too much"}}});
        crate::view::row(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn only_the_chosen_fields_are_returned() {
        let fields = Fields::read("name, phase").unwrap();
        assert_eq!(fields.of(&row()), json!({"name": "pi", "phase": "Failed"}));
        assert!(Fields::read("nmae").unwrap_err().contains("did you mean \"name\"?"));
    }

    #[test]
    fn every_field_of_a_row_can_be_chosen() {
        let all = Fields::default().of(&row());
        let mut names: Vec<&str> = all.as_object().unwrap().keys().map(String::as_str).collect();
        let mut known = FIELDS.to_vec();
        names.sort_unstable();
        known.sort_unstable();
        assert_eq!(names, known);
    }
}
