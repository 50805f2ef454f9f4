//! Which jobs a request is about: the filter that lists, streams and batches share. Pure.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use jobs::Kind;
use jobs::pick::{self, Labels};

use crate::board::{Board, Entry};
use crate::problem::Problem;

/// The longest text to search for.
const LONGEST_TEXT: usize = 256;
/// The most names.
const MOST_NAMES: usize = 100;

/// The filter as sent.
#[derive(Clone, Debug, Default)]
pub struct Sent<'a> {
    /// The namespace, or empty for all.
    pub namespace: &'a str,
    /// The kinds, or empty for all.
    pub kinds: &'a [String],
    /// The names, or empty for all.
    pub names: &'a [String],
    /// Phases or reasons.
    pub phases: &'a [String],
    /// The owner.
    pub owner: &'a str,
    /// The earliest creation.
    pub since: &'a str,
    /// The end of the time of creation.
    pub until: &'a str,
    /// The text to search for.
    pub text: &'a str,
    /// The label selector.
    pub labels: &'a str,
}

/// The filter.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// The namespace; all if empty.
    pub namespace: String,
    /// The kinds.
    pub kinds: Vec<Kind>,
    names: Vec<String>,
    phases: Vec<String>,
    owner: String,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    text: String,
    labels: Option<Labels>,
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// 422 with the field that is wrong.
    pub fn read(sent: &Sent<'_>) -> Result<Self, Problem> {
        let kinds: Result<Vec<Kind>, Problem> = sent.kinds.iter().map(|kind| self::kind(kind)).collect();
        let mut kinds = kinds?;
        if kinds.is_empty() {
            kinds = Kind::ALL.to_vec();
        }
        if sent.text.len() > LONGEST_TEXT {
            let fault = format!("is longer than {LONGEST_TEXT} bytes");
            return Err(Problem::invalid("q", fault, "search for less"));
        }
        if sent.names.len() > MOST_NAMES {
            let fault = format!("has {} names", sent.names.len());
            return Err(Problem::invalid("names", fault, format!("send at most {MOST_NAMES}")));
        }
        Ok(Self {
            namespace: sent.namespace.to_owned(),
            kinds,
            names: sent.names.to_vec(),
            phases: sent.phases.to_vec(),
            owner: sent.owner.to_owned(),
            since: moment("since", sent.since)?,
            until: moment("until", sent.until)?,
            text: sent.text.to_lowercase(),
            labels: match sent.labels {
                "" => None,
                text => Some(Labels::read(text).map_err(|fault| Problem::invalid("labels", fault, ""))?),
            },
        })
    }

    /// Refuses a word that is no state of a job: one that is known, or that a job is in by the words of its own operator. A
    /// typing error must not look like an empty result.
    ///
    /// # Errors
    /// 422 with the field that is wrong.
    pub fn with_states_of(self, board: &Board) -> Result<Self, Problem> {
        let is_state = |word: &String| is_state(word) || board.has(|entry| is_in_state(entry, word));
        let Some(unknown) = self.phases.iter().find(|word| !is_state(word)) else { return Ok(self) };
        let fix = match jobs::manifest::nearest(unknown, &pick::known_states()) {
            Some(meant) => format!("did you mean {meant}?"),
            None => "use Pending, Running, Succeeded or Failed, or a reason such as Suspended".to_owned(),
        };
        let shown: String = unknown.chars().take(40).collect();
        Err(Problem::invalid("phase", format!("\"{}\" is not a state of a job", shown.escape_debug()), fix))
    }

    /// Whether it selects by more than namespace and kind.
    pub fn is_narrow(&self) -> bool {
        !self.names.is_empty()
            || !self.phases.is_empty()
            || !self.owner.is_empty()
            || self.since.is_some()
            || self.until.is_some()
            || !self.text.is_empty()
            || self.labels.is_some()
    }

    /// Whether a job's namespace and kind are selected.
    pub fn covers(&self, kind: Kind, namespace: &str) -> bool {
        (self.namespace.is_empty() || self.namespace == namespace) && self.kinds.contains(&kind)
    }

    /// Whether a job is selected.
    pub fn selects(&self, entry: &Entry) -> bool {
        let row = &entry.row;
        let is_in = |word: &String| is_in_state(entry, word);
        let in_time = |at: Timestamp| {
            self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at < until)
        };
        self.covers(entry.kind, &row.namespace)
            && (self.names.is_empty() || self.names.contains(&row.name))
            && (self.phases.is_empty() || self.phases.iter().any(is_in))
            && (self.owner.is_empty() || self.owner == row.owner)
            && entry.created.map_or(self.since.is_none() && self.until.is_none(), in_time)
            && (self.text.is_empty() || entry.search.contains(&self.text))
            && self.labels.as_ref().is_none_or(|labels| labels.matches(&entry.labels))
    }
}

fn is_in_state(entry: &Entry, word: &str) -> bool {
    let row = &entry.row;
    [&row.phase, &row.phase_reason, &row.cause, &row.state].iter().any(|of| word.eq_ignore_ascii_case(of))
}

/// Whether a text is a known state: a phase or a reason, or both as rows show them, such as `Pending (ImagePull)`.
fn is_state(text: &str) -> bool {
    match text.strip_suffix(')').and_then(|text| text.split_once(" (")) {
        Some((state, detail)) => pick::is_state(state, &[]) && pick::is_state(detail, &[]),
        None => pick::is_state(text, &[]),
    }
}

/// Reads a kind in any case; an empty text is an MPIJob.
///
/// # Errors
/// 422 if there is no such kind.
pub fn kind(text: &str) -> Result<Kind, Problem> {
    if text.is_empty() {
        return Ok(Kind::MpiJob);
    }
    Kind::ALL
        .into_iter()
        .find(|kind| [kind.word(), kind.plural()].iter().any(|word| text.eq_ignore_ascii_case(word)))
        .ok_or_else(|| {
            Problem::invalid(
                "kind",
                format!("\"{}\" is not a kind of job", text.chars().take(40).collect::<String>()),
                "use one of mpijob, trainjob, pytorchjob, tfjob",
            )
        })
}

/// Reads a moment; `None` if it is not given.
///
/// # Errors
/// 422 with the field.
pub fn moment(field: &str, text: &str) -> Result<Option<Timestamp>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    pick::moment(text, Timestamp::now(), &TimeZone::UTC)
        .map(Some)
        .map_err(|fault| Problem::invalid(field, fault, pick::MOMENTS))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry() -> Entry {
        let object = json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": { "name": "ResNet", "namespace": "team", "creationTimestamp": "2026-01-02T00:00:00Z",
                "labels": { "team": "vision" }, "annotations": { "training.opendatahub.io/owner": "jane" } },
            "status": { "phase": "Pending", "phaseReason": "Queued" } });
        Entry::of(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn each_part_of_the_filter_selects() {
        let (queued, failed) = (["queued".to_owned()], ["Failed".to_owned()]);
        let (named, other) = (["ResNet".to_owned()], ["bert".to_owned()]);
        let (mpi, tf) = (["MPIJob".to_owned()], ["tfjobs".to_owned()]);
        let all = Sent::default();
        let table = [
            (all.clone(), true),
            (Sent { namespace: "team", ..all.clone() }, true),
            (Sent { namespace: "other", ..all.clone() }, false),
            (Sent { kinds: &mpi, ..all.clone() }, true),
            (Sent { kinds: &tf, ..all.clone() }, false),
            (Sent { names: &named, ..all.clone() }, true),
            (Sent { names: &other, ..all.clone() }, false),
            (Sent { phases: &queued, ..all.clone() }, true),
            (Sent { phases: &failed, ..all.clone() }, false),
            (Sent { owner: "jane", ..all.clone() }, true),
            (Sent { owner: "joe", ..all.clone() }, false),
            (Sent { since: "2026-01-02", until: "2026-01-03", ..all.clone() }, true),
            (Sent { until: "2026-01-02", ..all.clone() }, false),
            (Sent { text: "resnet", ..all.clone() }, true),
            (Sent { text: "bert", ..all.clone() }, false),
            (Sent { labels: "team=vision", ..all.clone() }, true),
            (Sent { labels: "!team", ..all }, false),
        ];
        for (sent, selects) in table {
            assert_eq!(Filter::read(&sent).unwrap().selects(&entry()), selects, "{sent:?}");
        }
    }

    #[test]
    fn a_wrong_field_is_named() {
        let unknown = ["cronjob".to_owned()];
        let table = [
            (Sent { kinds: &unknown, ..Sent::default() }, "kind"),
            (Sent { since: "yesterday", ..Sent::default() }, "since"),
            (Sent { labels: "a in b", ..Sent::default() }, "labels"),
        ];
        for (sent, field) in table {
            assert_eq!(Filter::read(&sent).unwrap_err().fields[0].path, field);
        }
    }
}
