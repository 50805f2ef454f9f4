//! The numbers that jobs print.

use std::collections::BTreeMap;

use history::jobs::{self, deleted, record};
use history::logs::{Archive, Line, append_sampled, next_line};
use history::series::{MAX_POINTS, OfParts, Point, Sample, Samples, Values, of_job, of_jobs, prune};
use jiff::Timestamp;

use crate::bucket::on_each_archive;
use crate::jobs::seen;
use crate::logs::source;
use crate::place::at;

/// Archives lines `from` to `until`, each with its number as a loss.
async fn print(archive: &Archive, container: &str, from: i64, until: i64) {
    let lines: Vec<Line> =
        (from..until).map(|number| Line { at: at(number), text: format!("loss={number}") }).collect();
    let sample = |(line, number): (usize, i64)| {
        let point = Point { at: at(number), step: Some(number), value: number as f64 };
        Sample { line, name: "loss", point }
    };
    let samples = (from..until).enumerate().map(sample).collect();
    let samples = Samples { part: "launcher".to_owned(), samples };
    append_sampled(archive, &source(container), from, &lines, &samples).await.unwrap();
}

#[test]
fn samples_of_lines_that_several_replicas_report_are_stored_once() {
    on_each_archive(async |home| {
        let replicas = [home.archive().await, home.archive().await];
        let report = async |replica: usize, batch: usize| {
            for from in (0..100).step_by(batch) {
                let until = (from + batch as i64).min(100);
                print(&replicas[replica], "w", from, until).await;
            }
        };
        futures::join!(report(0, 7), report(1, 9));
        // A replica that starts again reads from where the archive ends, or before.
        print(&home.archive().await, "w", 90, 120).await;
        let found = of_job(&home.place.open().await, "uid").await.unwrap();
        let series = &found[&("launcher".to_owned(), "loss".to_owned())];
        let steps: Vec<i64> = series.points().iter().filter_map(|point| point.step).collect();
        assert_eq!(steps, (0..120).collect::<Vec<_>>());
        assert_eq!(next_line(&replicas[0], &source("w")).await.unwrap(), 120);
    });
}

#[test]
fn one_series_goes_on_through_the_runs_of_a_part_and_stays_small() {
    on_each_archive(async |home| {
        let archive = home.archive().await;
        for run in 0..3_i64 {
            for batch in 0..2 {
                // Each run counts its lines from 0, and its times go on.
                let first = run * 2000 + batch * 1000;
                let lines: Vec<Line> = (first..first + 1000)
                    .map(|number| Line { at: at(number), text: "x".to_owned() })
                    .collect();
                let sample = |(line, number): (usize, i64)| {
                    let point = Point { at: at(number), step: None, value: number as f64 };
                    Sample { line, name: "loss", point }
                };
                let samples = (first..first + 1000).enumerate().map(sample).collect();
                let samples = Samples { part: "launcher".to_owned(), samples };
                let source = source(&format!("run {run}"));
                append_sampled(&archive, &source, batch * 1000, &lines, &samples).await.unwrap();
            }
        }
        let found = of_job(&home.place.open().await, "uid").await.unwrap();
        assert_eq!(found.len(), 1);
        let points = found.values().next().unwrap().points();
        assert!(points.len() > MAX_POINTS / 2 && points.len() <= MAX_POINTS + 1, "{}", points.len());
        assert_eq!((points[0].value, points.last().unwrap().value), (0.0, 5999.0));
    });
}

#[test]
fn a_list_gets_the_values_of_several_jobs_without_their_points() {
    on_each_archive(async |home| {
        print(&home.archive().await, "w", 0, 700).await;
        print(&home.archive().await, "w", 700, 1000).await;
        let store = home.place.open().await;
        let found = of_jobs(&store, &["uid", "another"]).await.unwrap();
        let values = Values { newest: Some(999.0), lowest: Some(0.0), highest: Some(999.0), not_finite: 0 };
        let of_parts: OfParts = BTreeMap::from([(("launcher".to_owned(), "loss".to_owned()), values)]);
        assert_eq!(found, BTreeMap::from([("uid".to_owned(), of_parts)]));
        assert!(of_jobs(&store, &[]).await.unwrap().is_empty());
    });
}

#[test]
fn a_series_that_begins_with_nan_has_no_values_until_the_first_number() {
    on_each_archive(async |home| {
        let archive = home.archive().await;
        let store = home.place.open().await;
        for (line, value) in [(0, f64::NAN), (1, f64::INFINITY), (2, 0.5)] {
            let lines = [Line { at: at(line), text: "x".to_owned() }];
            let point = Point { at: at(line), step: None, value };
            let samples = vec![Sample { line: 0, name: "loss", point }];
            let samples = Samples { part: "launcher".to_owned(), samples };
            append_sampled(&archive, &source("w"), line, &lines, &samples).await.unwrap();
            let found = of_jobs(&store, &["uid"]).await.unwrap();
            let values = found["uid"].values().next().unwrap();
            let known = value.is_finite().then_some(value);
            assert_eq!((values.newest, values.lowest, values.highest), (known, known, known));
        }
        assert_eq!(of_jobs(&store, &["uid"]).await.unwrap()["uid"].values().next().unwrap().not_finite, 2);
    });
}

#[test]
fn series_go_with_their_job() {
    on_each_archive(async |home| {
        let archive = home.archive().await;
        print(&archive, "w", 0, 3).await;
        let store = home.place.open().await;
        assert_eq!(prune(&store, Timestamp::UNIX_EPOCH).await.unwrap(), 0, "it may not be recorded yet");
        record(&store, &[seen("uid", 1, "Running")]).await.unwrap();
        assert_eq!(prune(&store, Timestamp::MAX).await.unwrap(), 0);
        deleted(&store, "uid", at(1)).await.unwrap();
        let retention = jobs::Retention { deleted_after: at(10), jobs: 100 };
        while jobs::prune(&store, &retention).await.unwrap() > 0 {}
        assert_eq!(prune(&store, Timestamp::MAX).await.unwrap(), 1);
        assert!(of_job(&store, "uid").await.unwrap().is_empty());
    });
}
