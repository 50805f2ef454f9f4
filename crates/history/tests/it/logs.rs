//! The log archive.

use std::path::{Path, PathBuf};

use history::Error;
use history::jobs::{Observation, record};
use history::logs::maintain::{Repaired, Retention, prune, repair, sweep};
use history::logs::{
    Archive, Line, MAX_BATCH_LINES, Selection, Source, append, next_line, pack_due, read, sources, tail,
};
use jiff::Timestamp;

use crate::bucket::{Home, on_each_archive};
use crate::jobs::seen;
use crate::place::{at, on_sqlite};

pub fn source(container: &str) -> Source {
    Source { uid: "uid".to_owned(), attempt: 0, container: container.to_owned() }
}

/// Lines with numbers as texts, one in each second.
pub fn numbered(from: i64, until: i64) -> Vec<Line> {
    (from..until).map(|number| Line { at: at(number), text: format!("line {number}") }).collect()
}

pub fn everything() -> Selection {
    Selection { uid: "uid".to_owned(), ..Selection::default() }
}

pub async fn texts(archive: &Archive, selection: &Selection) -> Vec<String> {
    let mut reader = read(archive, selection).await.unwrap();
    let mut texts = Vec::new();
    while let Some((source, line)) = reader.next().await.unwrap() {
        texts.push(format!("{}: {}", source.container, line.text));
    }
    texts
}

pub fn expected(container: &str, from: i64, until: i64) -> Vec<String> {
    (from..until).map(|number| format!("{container}: line {number}")).collect()
}

/// Packs everything.
pub async fn pack(archive: &Archive) {
    while pack_due(archive, Timestamp::MAX).await.unwrap() > 0 {}
}

/// The files below a folder.
pub fn chunks_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { chunks_below(&path) } else { vec![path] }).collect();
    found.sort();
    found
}

#[test]
fn a_line_that_several_replicas_report_is_archived_once() {
    on_each_archive(async |home| {
        let replicas = [home.archive().await, home.archive().await];
        let one = async {
            for from in (0..100).step_by(7) {
                append(&replicas[0], &source("w"), from, &numbered(from, (from + 7).min(100))).await.unwrap();
            }
        };
        let two = async {
            for from in (0..100).step_by(9) {
                append(&replicas[1], &source("w"), from, &numbered(from, (from + 9).min(100))).await.unwrap();
            }
        };
        futures::join!(one, two);
        assert_eq!(next_line(&replicas[0], &source("w")).await.unwrap(), 100);
        assert_eq!(texts(&replicas[0], &everything()).await, expected("w", 0, 100));
        assert_eq!(append(&replicas[0], &source("w"), 90, &numbered(90, 100)).await.unwrap(), 100);
    });
}

#[test]
fn lines_of_many_containers_are_merged_by_time_before_and_after_packing() {
    on_each_archive(async |home| {
        let archive = home.archive().await;
        for worker in 0..20_i64 {
            for part in 0..3 {
                let lines: Vec<Line> = (part * 5..part * 5 + 5)
                    .map(|n| Line { at: at(n * 20 + worker), text: (n * 20 + worker).to_string() })
                    .collect();
                append(&archive, &source(&format!("w-{worker}")), part * 5, &lines).await.unwrap();
            }
        }
        let numbers = async |selection: &Selection| -> Vec<i64> {
            texts(&archive, selection)
                .await
                .iter()
                .map(|text| text.split_once(": ").unwrap().1.parse().unwrap())
                .collect()
        };
        let range = Selection { since: Some(at(50)), until: Some(at(170)), ..everything() };
        let two = Selection { containers: vec!["w-3".to_owned(), "w-4".to_owned()], ..everything() };
        for packed in [false, true] {
            if packed {
                pack(&archive).await;
                assert_eq!(home.chunks().len(), 20);
            }
            assert_eq!(numbers(&everything()).await, (0..300).collect::<Vec<_>>(), "packed: {packed}");
            assert_eq!(numbers(&range).await, (50..170).collect::<Vec<_>>());
            let of_two: Vec<i64> = (0..300).filter(|n| [3, 4].contains(&(n % 20))).collect();
            assert_eq!(numbers(&two).await, of_two);
            let last = tail(&archive, &everything(), 33).await.unwrap();
            let last: Vec<i64> = last.iter().map(|(_, line)| line.text.parse().unwrap()).collect();
            assert_eq!(last, (267..300).collect::<Vec<_>>());
            let last = tail(&archive, &range, 7).await.unwrap();
            let last: Vec<i64> = last.iter().map(|(_, line)| line.text.parse().unwrap()).collect();
            assert_eq!(last, (163..170).collect::<Vec<_>>());
        }
        assert_eq!(sources(&archive, "uid", Some(0)).await.unwrap().len(), 20);
        assert_eq!(sources(&archive, "uid", Some(1)).await.unwrap(), []);
    });
}

#[test]
fn a_reader_goes_on_while_the_parts_are_packed_and_appended() {
    on_each_archive(async |home| {
        let archive = home.archive().await;
        for from in (0..60).step_by(10) {
            append(&archive, &source("w"), from, &numbered(from, from + 10)).await.unwrap();
        }
        let mut reader = read(&archive, &everything()).await.unwrap();
        let mut found = Vec::new();
        while let Some((_, line)) = reader.next().await.unwrap() {
            found.push(format!("w: {}", line.text));
            if found.len() == 15 {
                pack(&archive).await;
                append(&archive, &source("w"), 60, &numbered(60, 70)).await.unwrap();
                pack(&archive).await;
            }
        }
        assert_eq!(found, expected("w", 0, 70));
    });
}

#[test]
fn replicas_that_pack_together_lose_and_double_nothing() {
    on_each_archive(async |home| {
        let replicas = [home.archive().await, home.archive().await, home.archive().await];
        for from in (0..200).step_by(10) {
            append(&replicas[0], &source("w"), from, &numbered(from, from + 10)).await.unwrap();
        }
        futures::future::join_all(replicas.iter().map(pack)).await;
        assert_eq!(texts(&replicas[0], &everything()).await, expected("w", 0, 200));
        assert_eq!(home.chunks().len(), 1, "the slower ones removed their own");
    });
}

#[test]
fn a_torn_chunk_is_cut_to_what_is_readable() {
    on_sqlite(async |place| {
        let home = Home::in_folder(place);
        let archive = home.archive().await;
        let text = "y".repeat(100 << 10);
        let lines: Vec<Line> = (0..20).map(|n| Line { at: at(n), text: format!("{n} {text}") }).collect();
        append(&archive, &source("w"), 0, &lines).await.unwrap();
        append(&archive, &source("x"), 0, &numbered(0, 5)).await.unwrap();
        pack(&archive).await;
        assert_eq!(repair(&archive).await.unwrap(), Repaired { chunks: 2, truncated: 0, lost_lines: 0 });
        for chunk in home.chunks() {
            let file = std::fs::OpenOptions::new().write(true).open(chunk).unwrap();
            file.set_len(file.metadata().unwrap().len() / 2).unwrap();
        }
        let mut reader = read(&archive, &everything()).await.unwrap();
        let error = reader.next().await.unwrap_err();
        assert!(matches!(error, Error::Damaged(_)), "{error}");
        let repaired = repair(&archive).await.unwrap();
        let left = texts(&archive, &everything()).await;
        assert_eq!((repaired.truncated, repaired.lost_lines), (2, 25 - i64::try_from(left.len()).unwrap()));
        assert!(left.len() >= 6, "{}", left.len());
        for (text, number) in left.iter().zip(0..) {
            assert!(text.starts_with(&format!("w: {number} y")));
        }
        assert_eq!(repair(&archive).await.unwrap().truncated, 0);
        assert_eq!(home.chunks().len(), 1);
    });
}

#[test]
fn what_a_killed_process_left_behind_is_removed() {
    on_sqlite(async |place| {
        let home = Home::in_folder(place);
        let archive = home.archive().await;
        append(&archive, &source("w"), 0, &numbered(0, 5)).await.unwrap();
        pack(&archive).await;
        let folder = home.chunks()[0].parent().unwrap().to_owned();
        std::fs::write(folder.join("orphan.gz"), "not named by a row").unwrap();
        let staged = folder.join("orphan.gz#1");
        std::fs::write(&staged, "half").unwrap();
        std::fs::File::options()
            .write(true)
            .open(&staged)
            .unwrap()
            .set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
        assert_eq!(
            sweep(&archive, at(-1_000_000_000)).await.unwrap(),
            0,
            "what is young may get its row yet"
        );
        assert_eq!(sweep(&archive, Timestamp::MAX).await.unwrap(), 1);
        assert!(staged.exists());
        home.archive().await;
        assert!(!staged.exists());
        assert_eq!(texts(&archive, &everything()).await, expected("w", 0, 5));
    });
}

#[test]
fn a_namespace_that_writes_much_loses_its_own_output_only() {
    on_each_archive(async |home| {
        let (archive, store) = (home.archive().await, home.place.open().await);
        let of = |uid: &str, container: &str| Source { uid: uid.to_owned(), ..source(container) };
        for (uid, namespace) in [("quiet", "team-a"), ("small", "team-b"), ("noisy", "team-c")] {
            let job = Observation { namespace: namespace.to_owned(), ..seen(uid, 1, "Running") };
            record(&store, &[job]).await.unwrap();
        }
        // The quiet ones are the oldest.
        for (uid, parts) in [("quiet", 0..1), ("small", 1..3), ("noisy", 3..23)] {
            for part in parts {
                let lines = numbered(part * 10 + 100, part * 10 + 110);
                append(&archive, &of(uid, &format!("w-{part}")), 0, &lines).await.unwrap();
            }
        }
        pack(&archive).await;
        let count = async |uid: &str| {
            texts(&archive, &Selection { uid: uid.to_owned(), ..Selection::default() }).await.len()
        };
        let size: u64 = home.chunks().iter().map(|chunk| chunk.metadata().unwrap().len()).sum();
        let half = Retention { after: at(0), bytes: size / 2 };
        while prune(&archive, &half).await.unwrap() > 0 {}
        assert_eq!((count("quiet").await, count("small").await), (10, 20), "they are below their share");
        let left = count("noisy").await;
        assert!((50..=90).contains(&left), "{left}");
        let chunks = home.chunks();
        assert_eq!(chunks.len(), 3 + left / 10);
        assert!(chunks.iter().map(|chunk| chunk.metadata().unwrap().len()).sum::<u64>() <= half.bytes);
        assert_eq!(next_line(&archive, &of("noisy", "w-3")).await.unwrap(), 10, "it may still be followed");
    });
}

#[test]
fn retention_removes_the_oldest_by_age_and_by_size() {
    on_each_archive(async |home| {
        let archive = home.archive().await;
        for part in 0..10_i64 {
            append(&archive, &source(&format!("w-{part}")), 0, &numbered(part * 10, part * 10 + 10))
                .await
                .unwrap();
            pack(&archive).await;
        }
        let age = Retention { after: at(25), bytes: u64::MAX };
        assert_eq!(prune(&archive, &age).await.unwrap(), 2);
        assert_eq!(texts(&archive, &everything()).await.len(), 80);
        assert_eq!(home.chunks().len(), 8);
        let size: u64 = home.chunks().iter().map(|chunk| chunk.metadata().unwrap().len()).sum();
        let half = Retention { after: at(0), bytes: size / 2 };
        assert_eq!(prune(&archive, &half).await.unwrap(), 4);
        assert_eq!(prune(&archive, &half).await.unwrap(), 0);
        let left = texts(&archive, &everything()).await;
        assert_eq!((left.len(), left[0].as_str()), (40, "w-6: line 60"));
        assert_eq!(next_line(&archive, &source("w-5")).await.unwrap(), 10, "it may still be followed");
    });
}

#[test]
fn a_batch_that_is_too_large_or_no_batch_of_lines_is_refused() {
    on_sqlite(async |place| {
        let archive = Archive::in_memory(place.open().await);
        let line = Line { at: at(0), text: "a\nb".to_owned() };
        let many = vec![Line { at: at(0), text: String::new() }; MAX_BATCH_LINES + 1];
        for (first, lines) in [(0, vec![line]), (0, many), (-1, numbered(0, 1))] {
            let error = append(&archive, &source("w"), first, &lines).await.unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{error}");
        }
        append(&archive, &source("w"), 5, &numbered(5, 6)).await.unwrap();
        pack(&archive).await;
        assert_eq!(texts(&archive, &everything()).await, ["w: line 5"], "a gap is kept");
    });
}
