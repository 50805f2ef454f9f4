//! Columns for people: as wide as their longest cell, three spaces apart, no trailing blanks. Pure.

use crate::console::{FAINT, styled};

/// The space between columns, as kubectl has it.
const GAP: usize = 3;

/// A table's text, with a line of headings and a line end behind each line.
///
/// Cells may hold colours; widths are those that are seen.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| seen_width(cell));
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let mut text = String::new();
    let titles: Vec<String> = headings.iter().map(|heading| styled(FAINT, heading)).collect();
    for row in std::iter::once(&titles).chain(rows) {
        text.push_str(&line(row, &widths));
        text.push('\n');
    }
    text
}

fn line(row: &[String], widths: &[usize]) -> String {
    let mut text = String::new();
    let mut pad = 0;
    for (cell, width) in row.iter().zip(widths) {
        text.push_str(&" ".repeat(pad));
        text.push_str(cell);
        pad = width.saturating_sub(seen_width(cell)) + GAP;
    }
    text.trim_end().to_owned()
}

/// How many characters are seen of a text that may hold colours.
pub fn seen_width(text: &str) -> usize {
    anstream::adapter::strip_str(text).to_string().chars().count()
}

/// Lines of `name: value`, the values aligned.
pub fn fields(fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len() + 1).max().unwrap_or(0) + GAP;
    let mut text = String::new();
    for (name, value) in fields {
        let indent = format!("\n{}", " ".repeat(width));
        let value = value.trim_end().replace('\n', &indent);
        text.push_str(&format!("{name}:{}{value}\n", " ".repeat(width - name.len() - 1)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::BAD;

    #[test]
    fn colours_take_no_width() {
        let rows = [vec![styled(BAD, "Failed"), "x".to_owned()], vec!["ok".to_owned(), String::new()]];
        let text = anstream::adapter::strip_str(&table(&["STATE", "A"], &rows)).to_string();
        assert_eq!(text, "STATE    A\nFailed   x\nok\n");
    }

    #[test]
    fn long_values_hang_under_each_other() {
        assert_eq!(
            fields(&[("Name", "pi".into()), ("Why", "a\nb".into())]),
            "Name:   pi\nWhy:    a\n        b\n"
        );
    }
}
