//! `-o custom-columns=NAME:.metadata.name,PHASE:.status.phase`: a table with custom columns, as kubectl prints it.
//! Pure.

use jsonpath::{Path, printed};
use serde_json::Value;

use crate::table;

/// The cell's text if a path finds nothing, as in kubectl.
const NONE: &str = "<none>";

/// Headings and paths.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns(Vec<(String, Path)>);

impl Columns {
    /// Parses `HEADING:PATH,…`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Columns, String> {
        let column = |part: &str| {
            let (heading, path) = part
                .split_once(':')
                .filter(|(heading, path)| !heading.is_empty() && !path.is_empty())
                .ok_or_else(|| format!("\"{part}\" is not HEADING:PATH, e.g. NAME:.metadata.name"))?;
            Ok((heading.to_owned(), Path::parse(path)?))
        };
        text.split(',').map(column).collect::<Result<_, _>>().map(Columns)
    }

    /// Returns the table of some objects.
    ///
    /// # Errors
    /// If a path cannot be evaluated.
    pub fn text(&self, objects: &[Value]) -> Result<String, String> {
        let Columns(columns) = self;
        let headings: Vec<&str> = columns.iter().map(|(heading, _)| heading.as_str()).collect();
        let cell = |path: &Path, object: &Value| {
            let values = path.find(object)?;
            match values.is_empty() {
                true => Ok(NONE.to_owned()),
                false => Ok(values.into_iter().map(printed).collect::<Vec<_>>().join(",")),
            }
        };
        let row = |object: &Value| columns.iter().map(|(_, path)| cell(path, object)).collect();
        let rows: Vec<Vec<String>> = objects.iter().map(row).collect::<Result<_, String>>()?;
        Ok(table::table(&headings, &rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn custom_columns_are_printed_as_a_table() {
        let columns = Columns::parse("NAME:.metadata.name,ON:spec.on,ALL:{.spec.list[*]}").unwrap();
        let objects = [
            json!({"metadata": {"name": "a"}, "spec": {"on": true, "list": [1, 2]}}),
            json!({"metadata": {"name": "longer"}, "spec": {}}),
        ];
        let text = anstream::adapter::strip_str(&columns.text(&objects).unwrap()).to_string();
        assert_eq!(text, "NAME     ON       ALL\na        true     1,2\nlonger   <none>   <none>\n");
        for wrong in ["", "NAME", ":.a", "NAME:", "A:.b,"] {
            assert!(Columns::parse(wrong).is_err(), "{wrong}");
        }
    }
}
