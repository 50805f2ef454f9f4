//! Columns for people: as wide as their longest cell, three blanks apart, no trailing blanks. Pure.

use std::io::IsTerminal;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::console::{FAINT, safe, styled};

/// The space between columns, as in kubectl.
const GAP: usize = 3;
/// The minimum width of a column; a narrower one would be unreadable.
const LEAST_WIDTH: usize = 10;

/// Returns a table as text, with a line of headings; each line ends with a line end.
///
/// Cells may contain colours, which do not count for the width. Text from others in a cell cannot start a new line.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let rows = &in_lines(rows);
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

/// Makes each cell safe to show and puts it on one line.
fn in_lines(rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let cell = |cell: &String| safe(cell).replace(['\n', '\t'], " ");
    rows.iter().map(|row| row.iter().map(cell).collect()).collect()
}

/// Returns the width of the terminal that stdout is; `None` if it is not a terminal.
pub fn screen_columns() -> Option<usize> {
    std::io::stdout().is_terminal().then(terminal_size::terminal_size)?.map(|(width, _)| usize::from(width.0))
}

/// Returns a table at most `columns` wide, if given: the longest cells are cut, but never below a few
/// letters.
pub fn fitted(headings: &[&str], rows: &[Vec<String>], columns: Option<usize>) -> String {
    let Some(columns) = columns else { return table(headings, rows) };
    let rows = &in_lines(rows);
    let longest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| seen_width(cell));
        cells.max().unwrap_or(0).max(headings[column].len())
    };
    let mut widths: Vec<usize> = (0..headings.len()).map(longest).collect();
    let gaps = GAP * headings.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > columns {
        match widths.iter_mut().max().filter(|width| **width > LEAST_WIDTH) {
            Some(widest) => *widest -= 1,
            None => break,
        }
    }
    let cut =
        |row: &Vec<String>| row.iter().zip(&widths).map(|(cell, width)| shortened(cell, *width)).collect();
    table(headings, &rows.iter().map(cut).collect::<Vec<_>>())
}

/// Returns a table at most `columns` wide, if given: the cells of the last column are wrapped between words, under their
/// heading.
pub fn wrapped(headings: &[&str], rows: &[Vec<String>], columns: Option<usize>) -> String {
    let rows = in_lines(rows);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| seen_width(cell));
        cells.max().unwrap_or(0).max(headings[column].len())
    };
    let last = headings.len().saturating_sub(1);
    let before = (0..last).map(width).sum::<usize>() + GAP * last;
    let room = columns.map(|columns| columns.saturating_sub(before)).filter(|room| *room >= 2 * LEAST_WIDTH);
    let Some(room) = room else { return table(headings, &rows) };
    let mut wrapped = Vec::new();
    for row in rows {
        let mut pieces = pieces(row.get(last).map(String::as_str).unwrap_or_default(), room).into_iter();
        let first = pieces.next().unwrap_or_default();
        wrapped.push(row.iter().take(last).cloned().chain([first]).collect());
        let rest =
            |piece: String| std::iter::repeat_n(String::new(), last).chain([piece]).collect::<Vec<_>>();
        wrapped.extend(pieces.map(rest));
    }
    table(headings, &wrapped)
}

/// Cuts a text between words into pieces of at most this width; a longer word is a piece of its own.
pub fn pieces(text: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for word in text.split(' ') {
        let last = pieces.last().map_or(0, |piece| seen_width(piece));
        match pieces.last_mut() {
            Some(piece) if last == 0 || last + 1 + seen_width(word) <= width => {
                if last > 0 {
                    piece.push(' ');
                }
                piece.push_str(word);
            }
            _ => pieces.push(word.to_owned()),
        }
    }
    pieces
}

/// Cuts a cell to the given width, with a final ellipsis; colours are kept.
fn shortened(cell: &str, width: usize) -> String {
    if seen_width(cell) <= width {
        return cell.to_owned();
    }
    let mut text = String::new();
    let mut seen = 0;
    let mut letters = cell.chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            text.push(letter);
            for part in letters.by_ref() {
                text.push(part);
                if part.is_ascii_alphabetic() {
                    break;
                }
            }
            continue;
        }
        if seen >= width {
            continue;
        }
        let next = seen + letter.width().unwrap_or(0);
        if next < width {
            text.push(letter);
            seen = next;
        } else {
            text.push('…');
            seen = width;
        }
    }
    text
}

/// Returns one line of a table, without its line end.
pub fn line(row: &[String], widths: &[usize]) -> String {
    let mut text = String::new();
    let mut pad = 0;
    for (cell, width) in row.iter().zip(widths) {
        text.push_str(&" ".repeat(pad));
        text.push_str(cell);
        pad = width.saturating_sub(seen_width(cell)) + GAP;
    }
    text.trim_end().to_owned()
}

/// Returns the visible width of a text that may contain colours, in columns of a terminal.
pub fn seen_width(text: &str) -> usize {
    anstream::adapter::strip_str(text).to_string().width()
}

/// Returns lines of `name: value`, with the values aligned.
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

    #[test]
    fn the_last_column_is_wrapped_between_words() {
        let rows = vec![vec!["a".to_owned(), "one two three four five".to_owned()]];
        let plain = |columns| {
            anstream::adapter::strip_str(&wrapped(&["NAME", "MESSAGE"], &rows, columns)).to_string()
        };
        assert_eq!(plain(Some(27)), "NAME   MESSAGE\na      one two three four\n       five\n");
        assert_eq!(plain(None), "NAME   MESSAGE\na      one two three four five\n");
        assert_eq!(plain(Some(9)), plain(None), "it would be unreadable");
    }
    use crate::console::BAD;

    #[test]
    fn colours_take_no_width() {
        let rows = [vec![styled(BAD, "Failed"), "x".to_owned()], vec!["ok".to_owned(), String::new()]];
        let text = anstream::adapter::strip_str(&table(&["STATE", "A"], &rows)).to_string();
        assert_eq!(text, "STATE    A\nFailed   x\nok\n");
    }

    #[test]
    fn a_table_fits_the_screen_by_cutting_what_is_longest() {
        let rows = [vec!["short".to_owned(), styled(BAD, "Failed (SomethingVeryLong)"), "img".to_owned()]];
        let seen = |columns: Option<usize>| {
            anstream::adapter::strip_str(&fitted(&["NAME", "STATE", "IMAGE"], &rows, columns)).to_string()
        };
        assert_eq!(
            seen(None),
            "NAME    STATE                        IMAGE\nshort   Failed (SomethingVeryLong)   img\n"
        );
        assert_eq!(seen(Some(28)), "NAME    STATE          IMAGE\nshort   Failed (Som…   img\n");
        assert_eq!(seen(Some(3)), "NAME    STATE        IMAGE\nshort   Failed (S…   img\n");
        let coloured = fitted(&["NAME", "STATE", "IMAGE"], &rows, Some(28));
        assert!(coloured.contains(&BAD.render_reset().to_string()), "{coloured:?}");
    }

    #[test]
    fn a_cell_is_one_line_and_cannot_control_a_terminal() {
        let rows = [vec!["a\nb".to_owned(), "\u{1b}]0;x\u{7}".to_owned()]];
        for text in [table(&["NAME", "WHY"], &rows), fitted(&["NAME", "WHY"], &rows, Some(80))] {
            let text = anstream::adapter::strip_str(&text).to_string();
            assert_eq!(text, "NAME   WHY\na b    \\u{1b}]0;x\\u{7}\n");
        }
    }

    #[test]
    fn letters_that_take_two_columns_or_none_keep_the_columns_aligned() {
        let rows = [vec!["日本".to_owned(), "a".to_owned()], vec!["e\u{301}te".to_owned(), "b".to_owned()]];
        let seen = |text: &str| anstream::adapter::strip_str(text).to_string();
        assert_eq!(seen(&table(&["N", "W"], &rows)), "N      W\n日本   a\ne\u{301}te    b\n");
        let long = [vec!["日本語日本語日本語".to_owned()]];
        assert_eq!(seen(&fitted(&["N"], &long, Some(12))), "N\n日本語日本…\n");
    }

    #[test]
    fn lines_of_a_long_value_are_aligned() {
        assert_eq!(
            fields(&[("Name", "pi".into()), ("Why", "a\nb".into())]),
            "Name:   pi\nWhy:    a\n        b\n"
        );
    }
}
