//! Tests of persistence, and of a disk that fails.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use redb::StorageBackend;
use serde_json::json;

use super::super::{Error, OutOfBounds, Start, Store};
use super::*;
use objects::extent::{MAX_BYTES, MAX_DEPTH};

const WINDOW: usize = 10;

fn things() -> Resource {
    Resource::new("test.io", "things")
}

fn key(name: &str) -> Key {
    Key::new(Some("a"), name)
}

fn thing(name: &str, size: u64) -> Value {
    json!({"metadata": {"name": name, "namespace": "a"}, "size": size})
}

fn names(store: &Store) -> Vec<String> {
    store.list(&things(), None).records.iter().map(|record| record.key.as_str().to_owned()).collect()
}

#[tokio::test]
async fn objects_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(WINDOW, &path).unwrap();
    let first = store.create(&things(), key("x"), thing("x", 1)).await.unwrap();
    let second = store.replace(&things(), &key("x"), first.revision, thing("x", 2)).await.unwrap();
    let other = store.create(&things(), key("y"), thing("y", 1)).await.unwrap();
    let last = store.remove(&things(), &key("y"), other.revision, thing("y", 1)).await.unwrap();
    assert!(matches!(Store::open(WINDOW, &path), Err(OpenError::InUse { .. })));
    drop(store);

    let store = Store::open(WINDOW, &path).unwrap();
    assert_eq!(names(&store), ["a/x"]);
    let found = store.get(&things(), &key("x")).unwrap();
    assert_eq!((found.revision, &found.value()), (second.revision, &second.value()));
    assert!(store.revision() > last.revision, "a revision that was seen must not come again");
    let gone = store.watch(&things(), Start::After(last.revision)).unwrap_err();
    assert_eq!(gone.oldest, store.revision());
    assert!(store.list_at(&Resource::new("", "others"), None, last.revision).is_err());
    let next = store.replace(&things(), &key("x"), found.revision, thing("x", 3)).await.unwrap();
    assert!(next.revision > last.revision + 1);
}

/// A disk that can be made full, and whose contents outlive the database that is open on it.
#[derive(Debug, Clone, Default)]
struct Medium {
    content: Arc<RwLock<Vec<u8>>>,
    full: Arc<AtomicBool>,
}

impl Medium {
    fn check(&self) -> io::Result<()> {
        if self.full.load(Ordering::SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn opener(&self) -> Opener {
        let medium = self.clone();
        Box::new(move || builder().create_with_backend(medium.clone()))
    }

    fn store(&self) -> Store {
        let (journal, loaded) = Disk::begin(Path::new("medium"), self.opener(), &STEPS).unwrap();
        Store::with(WINDOW, journal, loaded)
    }
}

impl StorageBackend for Medium {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content.read().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        let content = self.content.read().unwrap();
        out.copy_from_slice(content.get(offset..offset + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.content.write().unwrap().resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        let offset = usize::try_from(offset).unwrap();
        self.content.write().unwrap()[offset..offset + data.len()].copy_from_slice(data);
        Ok(())
    }
}

#[tokio::test]
async fn a_full_disk_rejects_writes_until_there_is_room() {
    let medium = Medium::default();
    let store = medium.store();
    store.create(&things(), key("before"), thing("before", 0)).await.unwrap();
    medium.full.store(true, Ordering::SeqCst);
    let refused = store.create(&things(), key("caught"), thing("caught", 0)).await;
    assert!(
        matches!(&refused, Err(Error::Journal(why)) if why.kind() == io::ErrorKind::StorageFull),
        "{refused:?}"
    );
    let answer = crate::status::unwritten(refused.unwrap_err());
    assert_eq!((answer.code, &*answer.reason), (507, "InsufficientStorage"));
    assert!(answer.message.starts_with("the disk of the cluster's store is full"), "{}", answer.message);
    let revision = store.revision();
    let refused = store.create(&things(), key("late"), thing("late", 0)).await;
    assert!(matches!(refused, Err(Error::Journal(_))));
    assert_eq!(store.revision(), revision, "a writer that is turned away changes nothing");

    medium.full.store(false, Ordering::SeqCst);
    let mut room = false;
    for _ in 0..100 {
        room = store.create(&things(), key("after"), thing("after", 0)).await.is_ok();
        if room {
            break;
        }
        tokio::time::sleep(RETRY / 10).await;
    }
    assert!(room, "the journal has to go on by itself");
    drop(store);
    // The pending write was kept and completed once there was room; the late one was never accepted.
    assert_eq!(names(&medium.store()), ["a/after", "a/before", "a/caught"]);
}

/// A migration as in a later release: marks every object.
fn mark(transaction: &redb::WriteTransaction) -> Result<(), redb::Error> {
    let mut objects = transaction.open_table(OBJECTS)?;
    let all: Vec<_> = objects
        .iter()?
        .map(|entry| entry.map(|(key, json)| (key.value().1.to_owned(), json.value().to_vec())))
        .collect::<Result<_, _>>()?;
    for (key, json) in all {
        let mut value: Value = serde_json::from_slice(&json).unwrap();
        value["marked"] = true.into();
        objects.insert((things().as_str(), key.as_str()), value.to_string().as_bytes())?;
    }
    Ok(())
}

fn fail(_transaction: &redb::WriteTransaction) -> Result<(), redb::Error> {
    Err(redb::Error::Corrupted("halfway".into()))
}

#[tokio::test]
async fn a_migration_is_atomic() {
    let medium = Medium::default();
    medium.store().create(&things(), key("x"), thing("x", 1)).await.unwrap();
    let open = |steps: &[Step]| Disk::begin(Path::new("medium"), medium.opener(), steps);
    assert!(matches!(open(&[mark, fail]), Err(OpenError::Damaged { .. })));
    let (journal, loaded) = open(&[]).expect("the failed step has left the file as it was");
    assert!(loaded.objects[0].1.value()["marked"].is_null());
    drop(journal);
    let (journal, loaded) = open(&[mark]).unwrap();
    assert_eq!(loaded.objects[0].1.value()["marked"], true);
    drop(journal);
    let refused = open(&[]).err();
    assert!(matches!(refused, Some(OpenError::Newer { found: 2, known: 1, .. })), "{refused:?}");
}

#[test]
fn a_file_that_is_not_a_store_is_rejected_and_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    std::fs::write(&path, "something else entirely, and long enough to be looked at").unwrap();
    let refused = Store::open(WINDOW, &path).err().expect("refused");
    assert!(matches!(refused, OpenError::Damaged { .. } | OpenError::Io { .. }), "{refused}");
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("something else"));
}

#[tokio::test]
async fn unreadable_objects_are_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(WINDOW, &path).unwrap();
    store.create(&things(), key("good"), thing("good", 1)).await.unwrap();
    drop(store);
    let deep = format!(
        "{{\"metadata\":{{\"resourceVersion\":\"5\"}},\"a\":{}1{}}}",
        "[".repeat(300),
        "]".repeat(300)
    );
    let long = "x".repeat(300);
    let database = builder().create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut objects = transaction.open_table(OBJECTS).unwrap();
        for (name, bytes) in [
            ("a/deep", deep.as_bytes()),
            ("a/noise", &[0xff][..]),
            ("a/unversioned", &b"{}"[..]),
            (long.as_str(), &b""[..]),
        ] {
            objects.insert((things().as_str(), name), bytes).unwrap();
        }
    }
    transaction.commit().unwrap();
    drop(database);

    for _ in 0..2 {
        let store = Store::open(WINDOW, &path).unwrap();
        assert_eq!(names(&store), ["a/good"]);
        // Its name is free again.
        let made = store.create(&things(), key("deep"), thing("deep", 1)).await.unwrap();
        store.remove(&things(), &key("deep"), made.revision, thing("deep", 1)).await.unwrap();
    }
    let kept = folder.path().join(SET_ASIDE).join("things.test.io");
    assert_eq!(std::fs::read_to_string(kept.join("a%2Fdeep.json")).unwrap(), deep);
    assert_eq!(std::fs::read(kept.join("a%2Fnoise.json")).unwrap(), [0xff]);
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 4);
}

#[tokio::test]
async fn objects_that_are_too_deep_or_too_large_are_rejected() {
    let medium = Medium::default();
    let store = medium.store();
    let nested = |levels: usize| (0..levels).fold(json!(1), |value, _| json!([value]));
    let with = |value: Value| json!({"metadata": {"name": "x", "namespace": "a"}, "value": value});
    let record = store.create(&things(), key("x"), with(nested(MAX_DEPTH - 1))).await.unwrap();
    let large = json!("x".repeat(MAX_BYTES));
    for (value, expected) in [(nested(MAX_DEPTH), OutOfBounds::Depth), (large, OutOfBounds::Bytes(0))] {
        let created = store.create(&things(), key("y"), with(value.clone())).await.map(drop);
        let replaced = store.replace(&things(), &key("x"), record.revision, with(value)).await.map(drop);
        for refused in [created, replaced] {
            let Err(Error::OutOfBounds(why)) = refused else { panic!("{refused:?}") };
            assert_eq!(std::mem::discriminant(&why), std::mem::discriminant(&expected));
        }
    }
    assert_eq!(store.revision(), record.revision);
    drop(store);
    assert_eq!(names(&medium.store()), ["a/x"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The file has the same contents as memory after any sequence of writes.
    #[test]
    fn the_file_has_the_contents_of_memory(steps in prop::collection::vec((0_u8..6, 0_u8..3), 1..60)) {
        let medium = Medium::default();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let before = runtime.block_on(async {
            let store = medium.store();
            for (size, (name, deed)) in (0_u64..).zip(steps) {
                let name = name.to_string();
                let present = store.get(&things(), &key(&name)).map(|record| record.revision);
                match (present, deed) {
                    (None, _) => drop(store.create(&things(), key(&name), thing(&name, size)).await.unwrap()),
                    (Some(revision), 0) => drop(store.remove(&things(), &key(&name), revision, thing(&name, size)).await.unwrap()),
                    (Some(revision), _) => drop(store.replace(&things(), &key(&name), revision, thing(&name, size)).await.unwrap()),
                }
            }
            values(&store)
        });
        prop_assert_eq!(values(&medium.store()), before);
    }
}

fn values(store: &Store) -> Vec<Value> {
    store.list(&things(), None).records.iter().map(|record| record.to_value()).collect()
}
