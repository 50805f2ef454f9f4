//! Tests of the store's guarantees: one order, no lost writes, bounded memory.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn things() -> Resource {
    Resource::new("test.io", "things")
}

fn key(name: &str) -> Key {
    Key::new(Some("a"), name)
}

fn thing(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "a"}})
}

fn store(window: usize) -> Store {
    Store::new(window, Box::new(Volatile))
}

#[tokio::test]
async fn writes_are_compared_and_swapped_and_numbered() {
    let store = store(10);
    let made = store.create(&things(), key("x"), thing("x")).await.unwrap();
    assert_eq!(made.value()["metadata"]["resourceVersion"], made.revision.to_string());
    assert!(matches!(store.create(&things(), key("x"), thing("x")).await, Err(Error::Exists)));
    let next = store.replace(&things(), &key("x"), made.revision, thing("x")).await.unwrap();
    assert!(next.revision > made.revision);
    let late = store.replace(&things(), &key("x"), made.revision, thing("x")).await;
    assert!(matches!(late, Err(Error::Changed(present)) if present.revision == next.revision));
    let gone = store.remove(&things(), &key("x"), next.revision, thing("x")).await.unwrap();
    assert_eq!(store.revision(), gone.revision);
    assert!(matches!(
        store.remove(&things(), &key("x"), next.revision, thing("x")).await,
        Err(Error::Missing)
    ));
}

#[tokio::test]
async fn namespaces_with_a_common_prefix_are_distinct() {
    let store = store(10);
    for namespace in ["a", "a-b", "ab", "b"] {
        store.create(&things(), Key::new(Some(namespace), "x"), thing("x")).await.unwrap();
    }
    let keys = |namespace| {
        let list = store.list(&things(), namespace).records;
        list.iter().map(|record| record.key.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys(Some("a")), ["a/x"]);
    assert_eq!(keys(None), ["a-b/x", "a/x", "ab/x", "b/x"]);
}

#[tokio::test]
async fn a_watcher_that_falls_behind_is_closed() {
    let store = store(10);
    let mut watch = store.watch(&things(), Start::Now).unwrap();
    let mut idle = store.watch(&Resource::new("", "others"), Start::Now).unwrap();
    for index in 0..WATCHER_BACKLOG + 2 {
        let name = index.to_string();
        store.create(&things(), key(&name), thing(&name)).await.unwrap();
    }
    let mut seen = 0;
    while watch.events.recv().await.is_some() {
        seen += 1;
    }
    assert_eq!(seen, WATCHER_BACKLOG);
    assert!(idle.events.try_recv().is_err_and(|error| error == mpsc::error::TryRecvError::Empty));
}

#[tokio::test]
async fn events_are_serialised_once_for_all_watchers() {
    let store = store(10);
    let mut watches =
        [store.watch(&things(), Start::Now).unwrap(), store.watch(&things(), Start::Now).unwrap()];
    store.create(&things(), key("x"), thing("x")).await.unwrap();
    let [one, other] = &mut watches;
    let (one, other) = (one.events.recv().await.unwrap(), other.events.recv().await.unwrap());
    assert!(Arc::ptr_eq(&one, &other));
    assert_eq!(one.line().as_ptr(), other.line().as_ptr());
    assert!(one.line().starts_with(b"{\"type\":\"ADDED\",\"object\":{") && one.line().ends_with(b"}}\n"));
}

#[tokio::test]
async fn events_that_were_kept_as_text_are_what_they_were() {
    let store = store(100);
    let mut watch = store.watch(&things(), Start::Now).unwrap();
    let mut record = store.create(&things(), key("x"), thing("x")).await.unwrap();
    for number in 0..20 {
        let mut changed = thing("x");
        changed["spec"] = json!({ "number": number, "share": 0.1, "text": "\u{1f980}\u{0}" });
        record = store.replace(&things(), &key("x"), record.revision, changed).await.unwrap();
    }
    store.remove(&things(), &key("x"), record.revision, thing("x")).await.unwrap();
    let again = store.watch(&things(), Start::After(1)).unwrap().backlog;
    assert_eq!(again.len(), 22);
    for event in again {
        let then = watch.events.recv().await.unwrap();
        assert_eq!((event.verb, event.revision()), (then.verb, then.revision()));
        assert_eq!((&event.record.key, event.line()), (&then.record.key, then.line()));
        assert_eq!(event.record.value(), then.record.value());
        let previous = |event: &Event| event.previous.as_ref().map(|record| record.to_value());
        assert_eq!(previous(&event), previous(&then));
    }
}

#[tokio::test]
async fn the_past_of_large_objects_is_shorter() {
    let store = store(1000);
    let large = |number: usize| {
        let mut large = thing("x");
        large["data"] = json!(number.to_string().repeat(100_000));
        large
    };
    let mut record = store.create(&things(), key("x"), large(0)).await.unwrap();
    for number in 1..100 {
        record = store.replace(&things(), &key("x"), record.revision, large(number % 10)).await.unwrap();
    }
    let Err(gone) = store.watch(&things(), Start::After(2)) else { panic!("all of it is kept") };
    let kept = store.revision() - gone.oldest;
    assert!((40..50).contains(&kept), "{kept} events of 100 kB");
    assert!(store.list_at(&things(), None, gone.oldest).is_ok());
    assert!(store.list_at(&things(), None, gone.oldest - 1).is_err());
}

/// Runs a sequence of writes: each has the name of the object, and whether to put or remove it. Returns all
/// states.
async fn play(store: &Store, program: &[(u8, bool)]) -> Vec<(u64, Vec<String>)> {
    let state = |store: &Store| {
        let list = store.list(&things(), None).records;
        list.iter()
            .map(|record| record.json().iter().map(|byte| char::from(*byte)).collect())
            .collect::<Vec<String>>()
    };
    let mut history = vec![(store.revision(), state(store))];
    for (name, is_put) in program {
        let name = name.to_string();
        let present = store.get(&things(), &key(&name));
        match (present, is_put) {
            (None, true) => drop(store.create(&things(), key(&name), thing(&name)).await.unwrap()),
            (Some(record), true) => {
                drop(store.replace(&things(), &key(&name), record.revision, thing(&name)).await.unwrap());
            }
            (Some(record), false) => {
                drop(store.remove(&things(), &key(&name), record.revision, thing(&name)).await.unwrap());
            }
            (None, false) => {}
        }
        history.push((store.revision(), state(store)));
    }
    history
}

proptest! {
    #[test]
    fn every_past_state_is_available_or_gone(
        program in proptest::collection::vec((0_u8..6, any::<bool>()), 0..40),
        window in 1_usize..40,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let store = store(window);
        let history = runtime.block_on(play(&store, &program));
        for (revision, state) in history {
            let past = store.list_at(&things(), None, revision);
            let events = store.watch(&things(), Start::After(revision)).map(|watch| watch.backlog.len());
            prop_assert_eq!(past.is_err(), events.is_err());
            if let Ok(past) = past {
                let texts = past.records.iter().map(|record| record.value().to_string()).collect::<Vec<_>>();
                prop_assert_eq!(texts, state);
            } else {
                let later = store.revision() - revision;
                prop_assert!(later > window as u64, "forgotten too early: {later} of {window}");
            }
        }
    }
}
