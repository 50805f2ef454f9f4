//! The two text formats. The library writes OpenMetrics. A client that names no format gets Prometheus' own text
//! format 0.0.4, which writes counter names in full and has neither units nor an end marker.

/// A format of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// Prometheus' text format 0.0.4.
    Text,
}

impl Format {
    /// Returns the format that a request's `Accept` asks for.
    #[must_use]
    pub fn accepted(accept: Option<&str>) -> Self {
        if accept.is_some_and(|accept| accept.contains("application/openmetrics-text")) {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    /// Returns the format's `Content-Type`.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Converts metrics to the text format 0.0.4.
pub(super) fn from_open_metrics(shown: &str) -> String {
    let mut text = String::with_capacity(shown.len());
    let mut help: Option<(&str, &str)> = None;
    for line in shown.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), words) => help = Some((name, words.unwrap_or_default())),
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let suffix = if kind == "counter" { "_total" } else { "" };
                if let Some((_, words)) = help.take().filter(|(of, _)| *of == name) {
                    text.push_str(&format!("# HELP {name}{suffix} {words}\n"));
                }
                text.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
            }
            (Some("#"), ..) => {}
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_named_in_full_and_the_rest_stays() {
        let open = "# HELP a_b Things.\n# TYPE a_b counter\na_b_total{x=\"# y\"} 1\n\
                    # HELP t_seconds Time\n# TYPE t_seconds histogram\n# UNIT t_seconds seconds\nt_seconds_sum 1.5\n# EOF\n";
        let text = "# HELP a_b_total Things.\n# TYPE a_b_total counter\na_b_total{x=\"# y\"} 1\n\
                    # HELP t_seconds Time\n# TYPE t_seconds histogram\nt_seconds_sum 1.5\n";
        assert_eq!(from_open_metrics(open), text);
    }

    #[test]
    fn a_scraper_gets_the_format_it_asks_for() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::accepted(Some(prometheus)), Format::OpenMetrics);
        assert_eq!((Format::accepted(Some("*/*")), Format::accepted(None)), (Format::Text, Format::Text));
    }
}
