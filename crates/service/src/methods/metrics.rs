//! A job's metrics over time: what its pods used, what its program reported and printed, and what patterns find in its
//! output.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use history::logs::{Archive, Line, Source};
use history::series::{self, Point, Series};
use jiff::{SignedDuration, Timestamp};
use jobs::logs::effort::Effort;
use jobs::logs::kept;
use jobs::logs::pattern::Pattern;
use jobs::logs::{self, Choice, Cursor, Item, Which};
use jobs::view::{self, Row};
use jobs::{Class, Kind, list};
use kube::ResourceExt as _;
use tokio::time::{Instant, timeout_at};

use super::measured;
use crate::access::Right;
use crate::collector::RunName;
use crate::contract::{GetMetricsRequest, JobMetrics, MetricPoint, MetricSeries};
use crate::filter::kind;
use crate::identity::Caller;
use crate::patterns::{self, Compiled};
use crate::problem::Problem;
use crate::row::{count, time};
use crate::samples;
use crate::searches::{Batch, Search};
use crate::service::Service;

/// The most patterns.
const MOST_PATTERNS: usize = 8;
/// How long one request searches. The next one for the same pattern goes on.
const SEARCH_WITHIN: Duration = Duration::from_secs(15);
/// After this time, all that pods of an ended job wrote is archived or lost.
const ARCHIVED_WITHIN: SignedDuration = SignedDuration::from_secs(60);

/// Returns a job's metrics.
pub async fn get_metrics(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: GetMetricsRequest,
) -> Result<JobMetrics, Problem> {
    let kind = kind(&request.kind)?;
    let compiled = patterns(&request.pattern).await?;
    let patterns = &compiled.patterns;
    if !patterns.is_empty() {
        let right = Right::on("get", "pods/log", &request.namespace);
        service.access.require(&caller, right, "pods/log").await?;
    }
    let job = list::get(&caller.client, kind, &request.namespace, &request.name).await?;
    let uid = job.uid().unwrap_or_default();
    let row = view::row(&job);
    let samples = service.samples.of(&uid);
    let reported = samples.reported.clone();
    let output = async {
        settle(&service, &row).await;
        let printed = printed(&service, kind, &uid).await;
        (printed, search(&service, &caller, &Job { kind, uid: &uid, row: &row }, patterns).await)
    };
    let ((printed, found), (pods, mut notes)) =
        futures::join!(output, measured::of_pods(&service, &job, samples));
    let (found, note) = found?;
    let printed = printed.unwrap_or_else(|problem| {
        notes.push(format!("output: {}", problem.message));
        BTreeMap::new()
    });
    notes.extend(note);
    Ok(JobMetrics { pods, training: training(reported, printed, found), notes })
}

/// The job whose output is searched.
struct Job<'j> {
    kind: Kind,
    uid: &'j str,
    row: &'j Row,
}

/// Waits until what a job wrote at its end is archived.
async fn settle(service: &Service, row: &Row) {
    let ends = row.finished.is_some_and(|end| Timestamp::now().duration_since(end) < ARCHIVED_WITHIN);
    if ends {
        service.collector.settled(&row.namespace, &row.name, None).await;
    }
}

/// Returns what a job printed, by name.
async fn printed(service: &Service, kind: Kind, uid: &str) -> Result<BTreeMap<String, Series>, Problem> {
    let opened = service.kept.opened()?;
    let all = series::of_job(&opened.store, uid).await?;
    let parts = all.keys().map(|(part, _)| part.clone()).collect();
    let leading = leading(kind, &parts);
    let of_leading = |((part, name), series)| leading.contains(&part).then_some((name, series));
    Ok(all.into_iter().filter_map(of_leading).collect())
}

/// The part whose output is that of the training.
pub(super) fn leading(kind: Kind, parts: &BTreeSet<String>) -> BTreeSet<String> {
    kept::parts(kind, &Which::Launcher, parts).unwrap_or_default()
}

type Found = BTreeMap<String, Series>;

/// Returns what patterns find in a job's output, and what was not searched.
async fn search(
    service: &Service,
    caller: &Caller,
    job: &Job<'_>,
    patterns: &[Pattern],
) -> Result<(Found, Option<String>), Problem> {
    let (mut found, mut note) = (Found::new(), None);
    if patterns.is_empty() {
        return Ok((found, None));
    }
    let (archive, runs) = match service.kept.opened() {
        Ok(opened) => (Some(opened.archive.clone()), runs(&opened.archive, job).await?),
        // What the node has can be searched all the same.
        Err(_) => (None, Vec::new()),
    };
    let until = Instant::now() + SEARCH_WITHIN;
    let mut effort = Effort::default();
    for pattern in patterns {
        let search = service.searches.of(job.uid, pattern);
        let mut is_whole = true;
        let mut all = {
            let mut search = search.lock().await;
            for (_, source) in &runs {
                let Some(archive) = &archive else { continue };
                is_whole = is_whole && search.go_on(archive, source, pattern, &mut effort, until).await?;
            }
            search.clone()
        };
        if is_whole {
            let mut rest = Rest { pattern, effort: &mut effort, all: &mut all, until };
            match search_rest(caller, job, runs.last(), &mut rest).await {
                Ok(whole) => is_whole = whole,
                Err(problem) => note = Some(problem.message).filter(|_| runs.is_empty()),
            }
        }
        if !is_whole {
            note = Some("a part of the output was not searched yet; the next request goes on".to_owned());
        }
        found.extend(all.found().clone());
    }
    Ok((found, note.map(|note| format!("patterns: {note}"))))
}

/// Returns the archived runs of the leading part, the oldest first.
async fn runs(archive: &Archive, job: &Job<'_>) -> Result<Vec<(RunName, Source)>, Problem> {
    let mut runs = Vec::new();
    for source in history::logs::sources(archive, job.uid, None).await? {
        let run: RunName = source.container.parse()?;
        if run.place == 0 {
            runs.push((run, source));
        }
    }
    let leading = leading(job.kind, &runs.iter().map(|(run, _)| run.part.clone()).collect());
    runs.retain(|(run, _)| leading.contains(&run.part));
    runs.sort_by(|(one, of_one), (other, of_other)| (of_one.attempt, one).cmp(&(of_other.attempt, other)));
    Ok(runs)
}

/// Searches the lines that are not archived yet, with the caller's own rights. Returns whether all of them were read.
async fn search_rest(
    caller: &Caller,
    job: &Job<'_>,
    last: Option<&(RunName, Source)>,
    rest: &mut Rest<'_>,
) -> Result<bool, Problem> {
    let mut choice = Choice { which: Which::Launcher, ..Choice::default() };
    if let Some((run, source)) = last
        && let Some(place) = rest.all.place(source)
    {
        let cursor = Cursor::of_kept(&run.part, run.created, place.last, place.at_last);
        choice.cursors.insert(run.part.clone(), cursor);
    }
    let Row { namespace, name, .. } = job.row;
    let mut lines = match logs::logs(&caller.client, job.kind, namespace, name, choice).await {
        // Its pods are gone, or not there yet.
        Err(error) if last.is_some() && matches!(error.class(), Class::NotFound | Class::Conflict) => {
            return Ok(true);
        }
        lines => lines?,
    };
    let Rest { pattern, effort, all, until } = rest;
    let mut batch = Batch::default();
    loop {
        let mut ended = None;
        match timeout_at(*until, lines.next()).await {
            Ok(Some(Ok(Item::Line { text, at, .. }))) => {
                // These lines have no numbers.
                batch.push(0, Line { at: at.unwrap_or_default(), text });
            }
            Ok(Some(Ok(_))) => {}
            Ok(Some(Err(error))) => ended = Some(Err(error.into())),
            Ok(None) => ended = Some(Ok(true)),
            Err(_) => ended = Some(Ok(false)),
        }
        let is_due = ended.is_some() || batch.is_full() || lines.is_dry();
        if is_due && !all.take_in(&mut batch, pattern, effort, *until).await? {
            return Ok(false);
        }
        if let Some(ended) = ended {
            return ended;
        }
    }
}

/// The search of lines that are not archived yet.
struct Rest<'s> {
    pattern: &'s Pattern,
    effort: &'s mut Effort,
    all: &'s mut Search,
    until: Instant,
}

async fn patterns(sent: &[String]) -> Result<Compiled, Problem> {
    if sent.len() > MOST_PATTERNS {
        let fault = format!("has {} patterns", sent.len());
        return Err(Problem::invalid("pattern", fault, format!("send at most {MOST_PATTERNS}")));
    }
    let compiled = patterns::compile(sent.iter().map(|text| ("pattern", text.clone())).collect()).await?;
    if compiled.patterns.iter().any(|pattern| pattern.names().next().is_none()) {
        let fix = "name what to find, e.g. loss=(?<loss>[0-9.e+-]+)";
        return Err(Problem::invalid("pattern", "has no named group", fix));
    }
    Ok(compiled)
}

/// Returns the metrics of the training, by name: each name is one series. A pattern of the caller takes the place of what is
/// usually looked for under the same name.
fn training(
    reported: BTreeMap<String, samples::Series<f64>>,
    printed: BTreeMap<String, Series>,
    found: BTreeMap<String, Series>,
) -> Vec<MetricSeries> {
    let usual = printed.into_iter().map(|(name, series)| (name, ("output", series)));
    let own = found.into_iter().map(|(name, series)| (name, ("pattern", series)));
    let mut output: BTreeMap<String, (&str, Series)> = usual.chain(own).collect();
    let mut all = BTreeMap::new();
    for (name, series) in reported {
        let of_report = |(at, value): &(Timestamp, f64)| Point { at: *at, step: None, value: *value };
        let reported = series.points().iter().map(of_report).collect();
        let metric = match output.remove(&name) {
            Some((_, printed)) => {
                metric(&name, "both", one_curve(reported, in_order(&printed)), Some(&printed))
            }
            None => metric(&name, "report", reported, None),
        };
        all.insert(name, metric);
    }
    for (name, (source, series)) in output {
        let metric = metric(&name, source, in_order(&series), Some(&series));
        all.insert(name, metric);
    }
    all.into_values().collect()
}

/// Runs of a program may overlap for a moment.
fn in_order(series: &Series) -> Vec<Point> {
    let mut points = series.points().to_vec();
    points.sort_by_key(|point| point.at);
    points
}

/// Joins what a program reported and what it printed: the series with more points, and of the other what is before and after
/// it. Both at once would go to and fro, because a report comes later than the line.
fn one_curve(reported: Vec<Point>, printed: Vec<Point>) -> Vec<Point> {
    let (most, other) =
        if printed.len() >= reported.len() { (printed, reported) } else { (reported, printed) };
    let (Some(first), Some(last)) = (most.first(), most.last()) else { return other };
    let before: Vec<Point> = other.iter().filter(|point| point.at < first.at).copied().collect();
    let after: Vec<Point> = other.iter().filter(|point| point.at > last.at).copied().collect();
    [before, most, after].concat()
}

fn metric(name: &str, source: &str, points: Vec<Point>, printed: Option<&Series>) -> MetricSeries {
    let timed: Vec<(Timestamp, f64)> = points.iter().map(|point| (point.at, point.value)).collect();
    let (start, seconds) = measured::seconds(&timed);
    let first = points.first().map(|point| point.at).unwrap_or_default();
    MetricSeries {
        name: name.to_owned(),
        source: source.to_owned(),
        start,
        seconds,
        values: timed.iter().map(|(_, value)| value.to_string()).collect(),
        points: points
            .iter()
            .map(|point| MetricPoint {
                seconds: point.at.duration_since(first).as_secs_f64(),
                value: point.value,
                step: point.step.and_then(|step| i32::try_from(step).ok()),
            })
            .collect(),
        not_finite: count(printed.map_or(0, |series| series.not_finite)),
        first_not_finite: time(printed.and_then(|series| series.first_not_finite)),
    }
}

#[cfg(test)]
mod tests {
    use jobs::logs::pattern::MAX_GROUPS;

    use super::*;

    fn points(points: &[(i64, f64)]) -> Vec<Point> {
        let at = |second| Timestamp::from_second(second).unwrap();
        points.iter().map(|(second, value)| Point { at: at(*second), step: None, value: *value }).collect()
    }

    #[test]
    fn reported_and_printed_points_of_one_name_are_one_curve_in_order() {
        let printed = points(&[(10, 5.0), (20, 4.0), (30, 3.0)]);
        let reported = points(&[(5, 6.0), (21, 4.0), (40, 2.0)]);
        let joined = points(&[(5, 6.0), (10, 5.0), (20, 4.0), (30, 3.0), (40, 2.0)]);
        assert_eq!(one_curve(reported.clone(), printed.clone()), joined);
        assert_eq!(one_curve(Vec::new(), printed.clone()), printed);
        assert_eq!(
            one_curve(reported.clone(), points(&[(1, 7.0)])),
            [points(&[(1, 7.0)]), reported].concat()
        );
    }

    #[test]
    fn values_are_numbers_with_times_and_steps() {
        let mut series = Series::default();
        for (millis, step, value) in
            [(500, Some(1), 0.5), (1750, Some(i64::MAX), f64::NAN), (2000, None, 0.25)]
        {
            series.push(Point { at: Timestamp::from_millisecond(millis).unwrap(), step, value });
        }
        let metrics =
            training(BTreeMap::new(), BTreeMap::from([("loss".to_owned(), series)]), BTreeMap::new());
        let json = serde_json::to_value(&metrics).unwrap();
        let expected = serde_json::json!([{ "name": "loss", "source": "output", "start": "1970-01-01T00:00:00.5Z",
            "seconds": [0, 2], "values": ["0.5", "0.25"], "notFinite": 1, "firstNotFinite": "1970-01-01T00:00:01.75Z",
            "points": [{ "seconds": 0.0, "value": 0.5, "step": 1 }, { "seconds": 1.5, "value": 0.25 }] }]);
        assert_eq!(json, expected);
    }

    #[tokio::test]
    async fn a_pattern_names_what_it_finds() {
        let many: String = (0..=MAX_GROUPS).map(|number| format!("(?<g{number}>x)")).collect();
        for wrong in ["loss", "(?<a>", &"(?<a>x)".repeat(9), &many] {
            assert!(patterns(&[wrong.to_owned()]).await.is_err(), "{wrong}");
        }
        assert!(patterns(&vec!["(?<a>x)".to_owned(); MOST_PATTERNS + 1]).await.is_err());
        let compiled = patterns(&["(?<a>x)(?<b>y)".to_owned()]).await.unwrap();
        assert_eq!(compiled.patterns.len(), 1);
    }
}
