//! The troubleshooting guide as a page of the service, so that what the dashboard shows of a failure leads to it
//! without the internet.

use std::fmt::Write as _;

use diagnosis::{CONFIDENCE, Section};

use crate::page::{self, escape};

const TITLE: &str = "Troubleshooting";
const INTRODUCTION: &str = "When a job fails or cannot start, its page and its status name one of these causes. Each \
     section has what you see, what it means and what to do.";

/// Returns the whole page.
#[must_use]
pub fn html() -> String {
    let sections = diagnosis::sections();
    let mut body = format!(
        "<h1>{TITLE}</h1>\n<p>{INTRODUCTION}</p>\n<p>{}</p>\n<nav aria-label=\"Causes\">\n<ul>\n",
        stressed(CONFIDENCE)
    );
    for Section { cause, .. } in &sections {
        let (word, title) = (cause.word(), escape(cause.texts().title));
        let _ = writeln!(body, "<li><a href=\"#{}\">{word}</a>: {title}</li>", word.to_lowercase());
    }
    body.push_str("</ul>\n</nav>\n");
    for section in &sections {
        write_section(&mut body, section);
    }
    page::html(TITLE, &body)
}

fn write_section(body: &mut String, Section { cause, examples, special }: &Section) {
    let (word, texts) = (cause.word(), cause.texts());
    let _ = writeln!(
        body,
        "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{word}</h2>\n<p><strong>{}.</strong> {}</p>",
        escape(texts.title),
        escape(texts.meaning),
        id = word.to_lowercase()
    );
    if !examples.is_empty() {
        let _ = writeln!(
            body,
            "<p>You see, for example:</p>\n<pre><code>{}</code></pre>",
            escape(&examples.join("\n"))
        );
    }
    let _ = writeln!(body, "<p>What to do: {}</p>", escape(texts.suggestion));
    for (line, suggestion) in special {
        let (line, suggestion) = (escape(line), escape(suggestion));
        let _ = writeln!(body, "<p>Where it says <code>{line}</code>: {suggestion}</p>");
    }
    body.push_str("</section>\n");
}

/// A text of our own in which words in asterisks are stressed.
fn stressed(text: &str) -> String {
    let mut html = String::new();
    for (at, part) in text.split('*').enumerate() {
        if at % 2 == 0 {
            html.push_str(&escape(part));
        } else {
            let _ = write!(html, "<em>{}</em>", escape(part));
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use diagnosis::Cause;

    use super::*;

    #[test]
    fn every_link_about_a_cause_has_its_section_in_the_page() {
        let page = html();
        for cause in Cause::ALL {
            let link = cause.link();
            let (_, section) = link.split_once('#').unwrap();
            assert!(page.contains(&format!("<h2 id=\"{section}\">")), "{cause:?}");
            assert!(page.contains(&format!("href=\"#{section}\"")), "{cause:?}");
        }
        assert!(page.contains("<em>high</em>"));
        assert!(!page.contains("href=\"http") && !page.contains("<script"));
    }

    #[test]
    fn output_is_shown_as_it_is() {
        let section = Section {
            cause: Cause::Unknown,
            examples: vec!["<b>first</b> & last"],
            special: vec![("a < b", "compare \"them\"")],
        };
        let mut body = String::new();
        write_section(&mut body, &section);
        assert!(body.contains("&lt;b&gt;first&lt;/b&gt; &amp; last"), "{body}");
        assert!(body.contains("<code>a &lt; b</code>: compare &quot;them&quot;"), "{body}");
    }
}
