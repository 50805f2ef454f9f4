//! `compare`: jobs, or the attempts of one, side by side.

use jiff::Timestamp;
use jobs::compare::{self, Comparison, Line};

use crate::arguments::{Compare, Global, read_words};
use crate::connect::connect;
use crate::console::{CAREFUL, Console, STRONG, styled};
use crate::failure::Failure;
use crate::{object, table};

/// The maximum width of a cell; longer values are cut, but `-o json` has them in full.
const MAX_CELL: usize = 60;

/// `odh training compare KIND NAME…`
pub async fn run(console: &Console, global: &Global, asked: &Compare) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let (client, namespace) = (&connection.client, &connection.namespace);
    let mut named = Vec::new();
    for job in read_words(&asked.words).1 {
        named.push(job.resolve(client, namespace).await?);
    }
    let found = match &named[..] {
        [] => return Err(Failure::usage("no job is given", "name one or several jobs of the namespace")),
        [(kind, one)] => {
            let family = jobs::rerun::family(client, *kind, namespace, one).await?;
            let own = family.first().filter(|_| family.len() == 1).and_then(compare::attempts_of);
            own.unwrap_or_else(|| compare::jobs(&family, Timestamp::now()))
        }
        several => {
            let mut objects = Vec::new();
            for (kind, name) in several {
                objects.push(jobs::list::get(client, *kind, namespace, name).await?);
            }
            compare::jobs(&objects, Timestamp::now())
        }
    };
    let text = if asked.output.shows_objects() {
        object::text(&serde_json::to_value(&found).unwrap_or_default(), asked.output)?
    } else {
        text(&found)
    };
    console.data(&text)?;
    Ok(0)
}

/// The comparison for people. Pure.
fn text(found: &Comparison) -> String {
    let headings: Vec<&str> = std::iter::once("").chain(found.columns.iter().map(String::as_str)).collect();
    let mut text = table::table(&headings, &found.outcome.iter().map(cells).collect::<Vec<_>>());
    if !found.metrics.is_empty() {
        text.push_str(&format!("\n{}\n", styled(STRONG, "Metrics")));
        text.push_str(&table::table(&headings, &found.metrics.iter().map(cells).collect::<Vec<_>>()));
    }
    if !found.differences.is_empty() {
        text.push_str(&format!("\n{}\n", styled(STRONG, "Differences")));
        text.push_str(&table::table(&headings, &found.differences.iter().map(cells).collect::<Vec<_>>()));
    } else if found.outcome.iter().any(|line| line.field == "kind") && found.columns.len() > 1 {
        // For the attempts of one job this is always so.
        text.push_str("\nThe specs are identical.\n");
    }
    text
}

fn cells(line: &Line) -> Vec<String> {
    let value = |value: &Option<String>| {
        let text = cut(value.as_deref().unwrap_or("-"));
        if line.same { text } else { styled(CAREFUL, &text) }
    };
    std::iter::once(line.field.clone()).chain(line.values.iter().map(value)).collect()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_CELL) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_printed_side_by_side() {
        let line = |field: &str, values: [&str; 2]| Line {
            field: field.to_owned(),
            values: values.map(|value| Some(value.to_owned())).to_vec(),
            same: values[0] == values[1],
        };
        let found = Comparison {
            columns: vec!["a".to_owned(), "b".to_owned()],
            outcome: vec![line("state", ["Failed", "Succeeded"])],
            metrics: vec![line("loss", ["0.5", "0.25"])],
            differences: vec![line("memory", ["1Gi", "2Gi"])],
        };
        assert_eq!(
            anstream::adapter::strip_str(&text(&found)).to_string(),
            "        a        b\nstate   Failed   Succeeded\n\nMetrics\n       a     b\nloss   0.5   0.25\n\nDifferences\n         a     b\nmemory   1Gi   2Gi\n"
        );
    }
}
