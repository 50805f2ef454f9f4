//! The audit log.

use futures::TryStreamExt as _;
use history::Error;
use history::audit::{
    self, Actor, Anchor, Appender, Channel, Entry, Fault, Filter, Order, Stage, Verification, append, export,
    forget, operations, truncate, verify, verify_export,
};
use history::store::Dialect;
use jiff::{SignedDuration, Timestamp};
use sqlx::AssertSqlSafe;

use crate::place::{Place, at, on_each};

pub fn entry(request: &str) -> Entry {
    Entry {
        at: at(0),
        who: jane(),
        verb: "create".to_owned(),
        resource: "mpijobs".to_owned(),
        namespace: Some("team-cv".to_owned()),
        job: Some("bert".to_owned()),
        channel: Channel::Service,
        address: Some("192.0.2.7".to_owned()),
        program: None,
        request: request.to_owned(),
        stage: Stage::ResponseComplete,
        status: Some(201),
        reason: None,
        review: None,
    }
}

fn jane() -> Actor {
    Actor { name: "jane".to_owned(), groups: vec!["team-cv".to_owned(), "a \"quote\"\n\0".to_owned()] }
}

fn numbered(count: usize) -> Vec<Entry> {
    (0..count).map(|number| entry(&format!("request-{number}"))).collect()
}

#[test]
fn replicas_append_to_one_chain_and_store_nothing_twice() {
    on_each(async |place| {
        let entries = numbered(40);
        let replicas = [place.open().await, place.open().await, place.open().await];
        let appends =
            replicas.iter().flat_map(|store| entries.chunks(3).map(move |chunk| append(store, chunk)));
        let stored: usize = futures::future::try_join_all(appends)
            .await
            .unwrap()
            .iter()
            .map(|numbers| numbers.iter().flatten().count())
            .sum();
        assert_eq!(stored, 40);
        let Verification::Intact { lines, head } = verify(&replicas[0], &[]).await.unwrap() else {
            unreachable!()
        };
        assert_eq!((lines, head.seq), (40, 40));
    });
}

#[test]
fn entries_of_many_tasks_are_appended_together_and_each_is_acknowledged() {
    on_each(async |place| {
        let stores = [place.open().await, place.open().await];
        let appenders = stores.clone().map(Appender::start);
        let huge = Entry { reason: Some("x".repeat(audit::MAX_ENTRY_BYTES)), ..entry("huge") };
        let entries = numbered(300);
        let appends = entries.iter().zip(0..).map(|(entry, n)| appenders[n % 2].append(entry.clone()));
        let (numbers, refused) =
            futures::join!(futures::future::try_join_all(appends), appenders[0].append(huge));
        let mut numbers: Vec<i64> = numbers.unwrap().into_iter().map(Option::unwrap).collect();
        numbers.sort();
        assert_eq!(numbers, (1..=300).collect::<Vec<_>>());
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        assert_eq!(appenders[1].append(entry("request-7")).await.unwrap(), None);
        assert!(matches!(verify(&stores[0], &[]).await.unwrap(), Verification::Intact { lines: 300, .. }));
        stores[0].close().await;
        let error = appenders[0].append(entry("late")).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable(_)), "{error}");
    });
}

#[test]
fn an_entry_that_is_seen_later_is_the_same_entry_and_another_result_is_not() {
    on_each(async |place| {
        let store = place.open().await;
        append(&store, &[entry("a")]).await.unwrap();
        let later = Entry { at: at(5), ..entry("a") };
        let other = Entry { status: Some(403), ..entry("a") };
        assert_eq!(append(&store, &[later, other]).await.unwrap(), [None, Some(2)]);
        let huge = Entry { reason: Some("x".repeat(audit::MAX_ENTRY_BYTES)), ..entry("b") };
        let error = append(&store, &[entry("c"), huge]).await.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        let Verification::Intact { lines, .. } = verify(&store, &[]).await.unwrap() else { unreachable!() };
        assert_eq!(lines, 2, "nothing of a refused batch is stored");
    });
}

/// Removes what protects the log, as someone with full rights on the database can.
async fn unprotect(place: &Place) {
    let names = match place.dialect() {
        Dialect::Sqlite => {
            "DROP TRIGGER audit_no_update; DROP TRIGGER audit_no_delete; DROP TRIGGER audit_head_forward"
        }
        Dialect::Postgres => {
            "ALTER TABLE audit DISABLE TRIGGER ALL; ALTER TABLE audit_head DISABLE TRIGGER ALL"
        }
    };
    sqlx::raw_sql(names).execute(&place.raw().await).await.unwrap();
}

#[test]
fn the_database_refuses_to_change_or_remove_a_line() {
    on_each(async |place| {
        append(&place.open().await, &numbered(3)).await.unwrap();
        let mut statements = vec![
            "UPDATE audit SET entry = '' WHERE seq = 2",
            "DELETE FROM audit WHERE seq = 3",
            "DELETE FROM audit_head",
            "UPDATE audit_head SET seq = 1",
        ];
        if place.dialect() == Dialect::Postgres {
            statements.extend(["TRUNCATE audit", "TRUNCATE audit_head", "TRUNCATE audit_seals"]);
        }
        let raw = place.raw().await;
        for statement in statements {
            let error = sqlx::raw_sql(statement).execute(&raw).await.unwrap_err();
            assert!(error.to_string().contains("append-only"), "{statement}: {error}");
        }
    });
}

#[test]
fn every_way_to_tamper_is_found_and_the_first_line_is_named() {
    let cases: &[(&str, i64, Fault)] = &[
        ("UPDATE audit SET entry = REPLACE(entry, 'jane', 'joan') WHERE seq IN (4, 6)", 4, Fault::Changed),
        ("UPDATE audit SET who = 'joan' WHERE seq = 5", 5, Fault::Changed),
        ("UPDATE audit SET hash = REPLACE(hash, '0', '1') WHERE seq = 7", 7, Fault::Changed),
        ("DELETE FROM audit WHERE seq IN (3, 8)", 3, Fault::Removed),
        ("DELETE FROM audit WHERE seq = 1", 1, Fault::Removed),
        ("DELETE FROM audit WHERE seq > 8", 9, Fault::Removed),
        ("DELETE FROM audit", 1, Fault::Removed),
        (
            "INSERT INTO audit SELECT seq + 100, at, who, namespace, job, request, channel, entry, \
             fingerprint || '!', hash FROM audit WHERE seq = 4",
            104,
            Fault::Inserted,
        ),
        (
            "INSERT INTO audit SELECT seq - 4, at, who, namespace, job, request, channel, entry, \
             fingerprint || '!', hash FROM audit WHERE seq = 4",
            0,
            Fault::Inserted,
        ),
        ("UPDATE audit SET seq = seq + 100 WHERE seq = 4", 4, Fault::Removed),
        ("UPDATE audit_head SET hash = REPLACE(hash, '0', '1')", 10, Fault::Changed),
        // A seal that no line of the chain records.
        (
            "INSERT INTO audit_seals SELECT seq, hash, 0 FROM audit WHERE seq = 5; DELETE FROM audit WHERE seq <= 5",
            5,
            Fault::Removed,
        ),
    ];
    for (statement, seq, fault) in cases {
        on_each(async |place| {
            let store = place.open().await;
            append(&store, &numbered(10)).await.unwrap();
            unprotect(place).await;
            sqlx::raw_sql(AssertSqlSafe(*statement)).execute(&place.raw().await).await.unwrap();
            let found = verify(&store, &[]).await.unwrap();
            assert_eq!(found, Verification::Broken { seq: *seq, fault: *fault }, "{statement}");
        });
    }
}

#[test]
fn an_anchor_finds_a_chain_that_was_rewritten_or_cut_as_a_whole() {
    on_each(async |place| {
        let store = place.open().await;
        append(&store, &numbered(10)).await.unwrap();
        let Verification::Intact { head, .. } = verify(&store, &[]).await.unwrap() else { unreachable!() };
        assert!(matches!(
            verify(&store, std::slice::from_ref(&head)).await.unwrap(),
            Verification::Intact { .. }
        ));
        unprotect(place).await;
        let cut = "DELETE FROM audit WHERE seq > 6; \
                   UPDATE audit_head SET seq = 6, hash = (SELECT hash FROM audit WHERE seq = 6)";
        sqlx::raw_sql(cut).execute(&place.raw().await).await.unwrap();
        assert!(matches!(verify(&store, &[]).await.unwrap(), Verification::Intact { .. }));
        let found = verify(&store, std::slice::from_ref(&head)).await.unwrap();
        assert_eq!(found, Verification::Broken { seq: 7, fault: Fault::Removed });
        append(&store, &(20..30).map(|number| entry(&number.to_string())).collect::<Vec<_>>()).await.unwrap();
        let found = verify(&store, &[head]).await.unwrap();
        assert_eq!(found, Verification::Broken { seq: 10, fault: Fault::Changed });
    });
}

async fn exported(place: &Place, after: i64, through: i64) -> String {
    export(&place.open().await, after, through).try_collect().await.unwrap()
}

#[test]
fn an_export_is_verified_without_the_store() {
    on_each(async |place| {
        append(&place.open().await, &numbered(1000)).await.unwrap();
        append(&place.open().await, &[entry("the last")]).await.unwrap();
        let text = exported(place, 0, i64::MAX).await;
        assert_eq!(text.lines().count(), 1001);
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(first["entry"]["who"]["name"], "jane");
        let closing = verify_export(text.lines()).unwrap().unwrap();
        assert!(matches!(
            verify(&place.open().await, &[closing]).await.unwrap(),
            Verification::Intact { .. }
        ));
        assert_eq!(exported(place, 0, 400).await + &exported(place, 400, i64::MAX).await, text);
        let changed = text.replacen("request-7\"", "request-x\"", 1);
        assert_eq!(verify_export(changed.lines()), Err(8));
        assert_eq!(verify_export(text.lines().filter(|line| !line.contains("request-7\""))), Err(8));
    });
}

#[test]
fn a_prefix_is_truncated_only_with_its_closing_hash_and_the_chain_records_it() {
    on_each(async |place| {
        let store = place.open().await;
        append(&store, &numbered(10)).await.unwrap();
        let closing = verify_export(exported(place, 0, 6).await.lines()).unwrap().unwrap();
        let wrong = Anchor { seq: 7, ..closing.clone() };
        let error = truncate(&store, &wrong, &jane(), at(9), "t1").await.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        truncate(&store, &closing, &jane(), at(9), "t2").await.unwrap();
        let Verification::Intact { lines, head } =
            verify(&store, std::slice::from_ref(&closing)).await.unwrap()
        else {
            unreachable!()
        };
        assert_eq!((lines, head.seq), (5, 11));
        // The next export continues where the last ended, and a second truncation may include the record of the first.
        let rest = exported(place, 6, i64::MAX).await;
        assert!(rest.starts_with(&format!("{{\"seq\":7,\"previous\":\"{}\"", closing.hash)), "{rest}");
        let closing = verify_export(rest.lines()).unwrap().unwrap();
        truncate(&store, &closing, &jane(), at(10), "t3").await.unwrap();
        let Verification::Intact { lines, .. } = verify(&store, &[]).await.unwrap() else { unreachable!() };
        assert_eq!(lines, 1);
        let error = sqlx::raw_sql("DELETE FROM audit").execute(&place.raw().await).await.unwrap_err();
        assert!(error.to_string().contains("append-only"), "{error}");
    });
}

#[test]
fn lines_that_are_too_old_are_removed_at_most_once_a_day() {
    on_each(async |place| {
        let store = place.open().await;
        append(&store, &numbered(10)).await.unwrap();
        let ago = |hours: i64| at(6).checked_add(SignedDuration::from_hours(hours)).unwrap();
        assert!(!forget(&store, ago(0)).await.unwrap(), "the oldest is a few seconds too old");
        assert!(!forget(&store, ago(23)).await.unwrap());
        assert!(forget(&store, ago(25)).await.unwrap());
        let Verification::Intact { lines, head } = verify(&store, &[]).await.unwrap() else { unreachable!() };
        assert_eq!((lines, head.seq), (1, 11), "the line that says what was removed");
        assert!(!forget(&store, Timestamp::UNIX_EPOCH).await.unwrap(), "that line is new");
    });
}

#[test]
fn what_service_and_webhook_report_of_a_request_is_one_operation() {
    on_each(async |place| {
        let store = place.open().await;
        let webhook = |request: &str| Entry { channel: Channel::Webhook, address: None, ..entry(request) };
        let other = |request: &str| Entry { namespace: Some("team-nlp".to_owned()), ..entry(request) };
        let entries = [entry("1"), webhook("2"), other("3"), webhook("1"), entry("4"), webhook("2")];
        append(&store, &entries).await.unwrap();
        let filter = Filter { namespace: Some("team-cv".to_owned()), ..Filter::default() };
        let listed = async |order, after, limit| {
            let found = operations(&store, &filter, order, after, limit).await.unwrap();
            found.iter().map(|o| (o.request.clone(), o.lines.len(), o.first())).collect::<Vec<_>>()
        };
        let first = operations(&store, &filter, Order::OldestFirst, None, 2).await.unwrap();
        let seen: Vec<_> = first.iter().map(|o| (o.request.as_str(), o.is_joined(), o.lines.len())).collect();
        assert_eq!(seen, [("1", true, 2), ("2", false, 1)]);
        let rest = operations(&store, &filter, Order::OldestFirst, Some(first[1].first()), 2).await.unwrap();
        assert_eq!(rest.iter().map(|o| o.request.as_str()).collect::<Vec<_>>(), ["4"]);
        assert_eq!(rest[0].lines[0].entry, entry("4"));
        // Two requests, and then the one before them.
        let newest = listed(Order::NewestFirst, None, 2).await;
        assert_eq!(newest, [("4".to_owned(), 1, 5), ("2".to_owned(), 1, 2)]);
        assert_eq!(listed(Order::NewestFirst, Some(2), 2).await, [("1".to_owned(), 2, 1)]);
        let none = Filter { until: Some(at(0)), ..Filter::default() };
        assert_eq!(operations(&store, &none, Order::NewestFirst, None, 10).await.unwrap(), []);
    });
}

fn made_by(verb: &str) -> &'static [&'static str] {
    match verb {
        "create" => &["CreateJob"],
        "update" => &["SuspendJob", "BatchJobs"],
        _ => &["DeleteJob", "BatchJobs"],
    }
}

/// A line of the service about a request of jane.
fn of_service(request: &str, verb: &str, job: Option<&str>, stage: Stage, second: i64) -> Entry {
    let status = (stage == Stage::ResponseComplete).then_some(200);
    Entry {
        at: at(second),
        verb: verb.to_owned(),
        job: job.map(str::to_owned),
        stage,
        status,
        reason: None,
        ..entry(request)
    }
}

fn seen(review: &str, verb: &str, name: &str, second: i64) -> audit::Admission {
    audit::Admission {
        review: review.to_owned(),
        at: at(second),
        who: entry("").who,
        verb: verb.to_owned(),
        resource: "mpijobs".to_owned(),
        namespace: entry("").namespace.unwrap(),
        name: name.to_owned(),
        request: None,
        status: None,
        reason: None,
        program: Some("kubectl-create".to_owned()),
    }
}

/// The request of each line of the webhook, by review.
async fn joined(store: &history::Store) -> Vec<(String, String)> {
    let lines =
        audit::operations(store, &audit::Filter::default(), Order::OldestFirst, None, 100).await.unwrap();
    let lines = lines.into_iter().flat_map(|operation| operation.lines);
    let mut found: Vec<(String, String)> =
        lines.filter_map(|line| Some((line.entry.review?, line.entry.request))).collect();
    found.sort();
    found
}

#[test]
fn what_the_webhook_saw_joins_the_operation_that_made_it_and_else_is_one_of_its_own() {
    on_each(async |place| {
        use Stage::{RequestReceived, ResponseComplete};
        let store = place.open().await;
        let lines = [
            of_service("create", "CreateJob", None, RequestReceived, 100),
            of_service("create", "CreateJob", Some("a"), ResponseComplete, 101),
            of_service("delete", "DeleteJob", Some("b"), RequestReceived, 100),
        ];
        append(&store, &lines).await.unwrap();
        let created =
            audit::Admission { request: Some("create".to_owned()), ..seen("r1", "create", "a", 101) };
        let copied = audit::Admission { review: "r2".to_owned(), name: "c".to_owned(), ..created.clone() };
        let mut forged = audit::Admission { review: "r3".to_owned(), ..created.clone() };
        forged.who.name = "mallory".to_owned();
        let all = [
            created,
            copied,
            forged,
            seen("r4", "create", "d", 101),
            seen("r5", "delete", "b", 101),
            seen("r6", "delete", "b", 102),
            seen("r7", "update", "b", 101),
            seen("r8", "delete", "b", 400),
        ];
        for _ in 0..2 {
            assert_eq!(audit::admit(&store, &all, made_by).await.unwrap(), [true; 8], "again, too");
        }
        let own = ["r3", "r4", "r6", "r7", "r8"].map(|review| (review, review));
        let mut expected = vec![("r1", "create"), ("r2", "create"), ("r5", "delete")];
        expected.extend(own);
        let mut expected: Vec<(String, String)> =
            expected.into_iter().map(|(review, request)| (review.to_owned(), request.to_owned())).collect();
        expected.sort();
        assert_eq!(joined(&store).await, expected);
    });
}

#[test]
fn what_a_batch_may_have_made_waits_until_the_batch_says_so() {
    on_each(async |place| {
        use Stage::{RequestReceived, ResponseComplete};
        let store = place.open().await;
        append(&store, &[of_service("batch", "BatchJobs", None, RequestReceived, 100)]).await.unwrap();
        let all = [seen("r1", "delete", "a", 101), seen("r2", "delete", "b", 101)];
        assert_eq!(audit::admit(&store, &all, made_by).await.unwrap(), [false; 2]);
        append(&store, &[of_service("batch", "BatchJobs", Some("a"), ResponseComplete, 102)]).await.unwrap();
        assert_eq!(audit::admit(&store, &all, made_by).await.unwrap(), [true; 2]);
        let pair = |review: &str, request: &str| (review.to_owned(), request.to_owned());
        assert_eq!(joined(&store).await, [pair("r1", "batch"), pair("r2", "r2")]);
    });
}
