//! Sessions of browsers.

use std::collections::BTreeSet;

use history::Store;
use history::sessions::{Most, Purpose, Sealed, get, present, prune, put, take};

use crate::place::{at, on_each};

const MOST: Most = Most { all: 5, of_share: 3 };

fn row(id: &str, share: &str, ends: i64) -> Sealed {
    let (id, share) = (id.to_owned(), share.to_owned());
    Sealed { id, user: "jane".to_owned(), share, ends: at(ends), sealed: vec![0, 1, 255] }
}

async fn store(store: &Store, purpose: Purpose, rows: &[Sealed]) {
    for row in rows {
        put(store, purpose, row, MOST, at(0)).await.unwrap();
    }
}

fn ids(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

#[test]
fn replicas_share_sessions_until_they_end() {
    on_each(async |place| {
        let replicas = [place.open().await, place.open().await];
        store(&replicas[0], Purpose::Session, &[row("a", "jane", 10)]).await;
        let found = get(&replicas[1], Purpose::Session, "a", at(9)).await.unwrap();
        assert_eq!(found, Some(row("a", "jane", 10)));
        assert_eq!(get(&replicas[1], Purpose::Session, "a", at(10)).await.unwrap(), None);
        assert_eq!(get(&replicas[1], Purpose::Ticket, "a", at(9)).await.unwrap(), None);
        assert!(take(&replicas[1], Purpose::Session, "a", at(9)).await.unwrap().is_some());
        assert_eq!(get(&replicas[0], Purpose::Session, "a", at(9)).await.unwrap(), None);
    });
}

#[test]
fn of_several_that_take_a_row_at_once_one_gets_it() {
    on_each(async |place| {
        let replicas = [place.open().await, place.open().await];
        store(&replicas[0], Purpose::Ticket, &[row("a", "jane", 10)]).await;
        let taken = futures::join!(
            take(&replicas[0], Purpose::Ticket, "a", at(0)),
            take(&replicas[1], Purpose::Ticket, "a", at(0)),
        );
        let taken = [taken.0.unwrap(), taken.1.unwrap()];
        assert_eq!(taken.iter().flatten().count(), 1, "{taken:?}");
        store(&replicas[0], Purpose::Ticket, &[row("b", "jane", 10)]).await;
        assert_eq!(take(&replicas[0], Purpose::Ticket, "b", at(10)).await.unwrap(), None, "it has ended");
    });
}

#[test]
fn the_oldest_of_a_share_and_of_all_make_room() {
    on_each(async |place| {
        let open = place.open().await;
        let rows: Vec<Sealed> =
            ["a", "b", "c", "d"].into_iter().zip(10..).map(|(id, ends)| row(id, "jane", ends)).collect();
        store(&open, Purpose::Session, &rows).await;
        store(&open, Purpose::Ticket, &[row("other", "jane", 1)]).await;
        assert_eq!(present(&open, Purpose::Session, at(0)).await.unwrap(), ids(&["b", "c", "d"]));
        let others = [row("e", "joe", 20), row("f", "jim", 21), row("g", "jill", 22)];
        store(&open, Purpose::Session, &others).await;
        assert_eq!(present(&open, Purpose::Session, at(0)).await.unwrap(), ids(&["c", "d", "e", "f", "g"]));
        assert_eq!(present(&open, Purpose::Ticket, at(0)).await.unwrap(), ids(&["other"]));
    });
}

#[test]
fn what_has_ended_is_removed() {
    on_each(async |place| {
        let open = place.open().await;
        store(&open, Purpose::Session, &[row("a", "jane", 10), row("b", "jane", 20)]).await;
        assert_eq!(present(&open, Purpose::Session, at(10)).await.unwrap(), ids(&["b"]));
        prune(&open, at(10)).await.unwrap();
        assert_eq!(present(&open, Purpose::Session, at(0)).await.unwrap(), ids(&["b"]));
    });
}
