//! Pages of a list, and the cursors between them. Pure.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Key, Order, Pick};
use crate::view::Row;
use crate::{Error, Fault, Kind};

/// The maximum number of rows in a page.
pub const MAX_PAGE: usize = 1_000;
/// The maximum length of a cursor in its text form, in bytes. Names in Kubernetes have at most 253 characters.
pub const MAX_CURSOR_BYTES: usize = 1024;

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page<'r> {
    /// The rows, in order.
    pub rows: Vec<&'r Row>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<Cursor>,
    /// The number of selected rows after this page.
    pub remaining: usize,
}

/// The place in a list after one row, as an opaque text: [`Cursor::encode`] and [`Cursor::decode`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The order of the list, by its number, and whether it is reversed.
    #[serde(rename = "o")]
    order: u8,
    #[serde(rename = "r")]
    reverse: bool,
    /// The time of the first page, in milliseconds since 1970: run times are compared as of then.
    #[serde(rename = "t")]
    at: i64,
    /// The row's key.
    #[serde(rename = "v")]
    rank: i64,
    #[serde(rename = "s")]
    namespace: String,
    #[serde(rename = "n")]
    name: String,
    #[serde(rename = "k")]
    kind: u8,
}

impl Cursor {
    /// The cursor as text that fits in a URL, of at most [`MAX_CURSOR_BYTES`] bytes.
    pub fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads a cursor that [`Cursor::encode`] made.
    ///
    /// # Errors
    /// [`Error::Invalid`] for any other text.
    pub fn decode(text: &str) -> Result<Cursor, Error> {
        let bytes = (text.len() <= MAX_CURSOR_BYTES).then(|| URL_SAFE_NO_PAD.decode(text).ok()).flatten();
        let read = bytes.and_then(|bytes| serde_json::from_slice::<Cursor>(&bytes).ok());
        read.filter(|cursor| cursor.kind().is_some() && Timestamp::from_millisecond(cursor.at).is_ok())
            .ok_or_else(|| invalid("is not valid"))
    }

    fn kind(&self) -> Option<Kind> {
        Kind::ALL.get(usize::from(self.kind)).copied()
    }
}

fn invalid(message: &str) -> Error {
    let fault = Fault {
        source: String::new(),
        position: None,
        path: "continue".to_owned(),
        message: message.to_owned(),
        advice: Some("list again from the first page".to_owned()),
    };
    Error::Invalid { faults: vec![fault] }
}

/// A number for each order, which stays the same between versions.
fn number(order: Option<Order>) -> u8 {
    match order {
        None => 0,
        Some(Order::Name) => 1,
        Some(Order::State) => 2,
        Some(Order::Workers) => 3,
        Some(Order::Runtime) => 4,
        Some(Order::Age) => 5,
        Some(Order::Gpus) => 6,
    }
}

pub(super) fn page<'r>(
    pick: &Pick,
    rows: impl IntoIterator<Item = &'r Row>,
    limit: usize,
    after: Option<&Cursor>,
    now: Timestamp,
) -> Result<Page<'r>, Error> {
    let order = number(pick.order);
    if after.is_some_and(|cursor| (cursor.order, cursor.reverse) != (order, pick.reverse)) {
        return Err(invalid("is of a list in another order"));
    }
    let at = after.map_or(now.as_millisecond(), |cursor| cursor.at);
    let now = Timestamp::from_millisecond(at).map_err(|_| invalid("is not valid"))?;
    let start: Option<Key<'_>> = after.map(|cursor| {
        let first = if pick.order == Some(Order::Name) { cursor.name.as_str() } else { "" };
        (
            cursor.rank,
            first,
            cursor.namespace.as_str(),
            cursor.name.as_str(),
            cursor.kind().unwrap_or_default(),
        )
    });
    let mut found: Vec<(Key<'r>, &'r Row)> = rows
        .into_iter()
        .filter(|row| pick.wants(row))
        .map(|row| (pick.key(row, now), row))
        .filter(|(key, _)| start.as_ref().is_none_or(|start| pick.compare(key, start).is_gt()))
        .collect();
    let limit = limit.clamp(1, MAX_PAGE);
    let remaining = found.len().saturating_sub(limit);
    if remaining > 0 {
        // The rows of this page come first; only they need to be sorted.
        found.select_nth_unstable_by(limit, |(a, _), (b, _)| pick.compare(a, b));
        found.truncate(limit);
    }
    found.sort_unstable_by(|(a, _), (b, _)| pick.compare(a, b));
    let next = found.last().filter(|_| remaining > 0).map(|(key, row)| Cursor {
        order,
        reverse: pick.reverse,
        at,
        rank: key.0,
        namespace: row.namespace.clone(),
        name: row.name.clone(),
        kind: Kind::ALL
            .iter()
            .position(|kind| *kind == row.kind)
            .and_then(|at| u8::try_from(at).ok())
            .unwrap_or(0),
    });
    Ok(Page { rows: found.into_iter().map(|(_, row)| row).collect(), next, remaining })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_767_225_600;

    fn now() -> Timestamp {
        Timestamp::from_second(NOW).unwrap()
    }

    fn rows() -> impl Strategy<Value = Vec<Row>> {
        let phase = select(vec!["Pending", "Running", "Succeeded", "Failed"]);
        let one = (0..3_u8, 0..6_u8, 0..4_usize, phase, 0..50_i64, 0..4_u8);
        let made = |(namespace, name, kind, phase, age, workers)| {
            let kind: Kind = Kind::ALL[kind];
            let time = Timestamp::from_second(NOW - age).unwrap();
            let template = json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 2}}}]}});
            let object = json!({"apiVersion": kind.api_version(), "kind": kind.name(), "metadata": {
                    "name": format!("job-{name}"), "namespace": format!("team-{namespace}"), "creationTimestamp": time},
                "spec": {kind.replicas_field().unwrap_or("trainer"): {"Worker": {"replicas": workers, "template": template}}},
                "status": {"phase": phase, "startTime": time,
                    "completionTime": (age % 2 == 0).then(|| Timestamp::from_second(NOW - age / 2).unwrap())}});
            crate::view::row(&serde_json::from_value(object).unwrap())
        };
        let id = |row: &Row| (row.kind, row.namespace.clone(), row.name.clone());
        proptest::collection::vec(one.prop_map(made), 0..40).prop_map(move |mut rows| {
            rows.sort_by_key(id);
            rows.dedup_by_key(|row| id(row));
            rows
        })
    }

    fn picks() -> impl Strategy<Value = Pick> {
        let orders = [Order::Name, Order::State, Order::Workers, Order::Runtime, Order::Age, Order::Gpus];
        let order = proptest::option::of(select(orders.to_vec()));
        (order, any::<bool>(), proptest::option::of(Just("-1".to_owned())))
            .prop_map(|(order, reverse, text)| Pick { order, reverse, text, ..Pick::default() })
    }

    fn names(rows: &[&Row]) -> Vec<String> {
        rows.iter().map(|row| format!("{}/{}/{}", row.kind.name(), row.namespace, row.name)).collect()
    }

    /// All pages; before each page after the first, `change` may change the rows.
    fn all_pages(
        pick: &Pick,
        rows: &mut Vec<Row>,
        limit: usize,
        mut change: impl FnMut(&mut Vec<Row>),
    ) -> Vec<String> {
        let mut found = Vec::new();
        let mut after: Option<Cursor> = None;
        loop {
            // Pages are requested at later and later times.
            let later = Timestamp::from_second(NOW + i64::try_from(found.len()).unwrap() * 1000).unwrap();
            let page = pick
                .page(rows.iter(), limit, after.as_ref(), if after.is_some() { later } else { now() })
                .unwrap();
            assert!(page.rows.len() <= limit);
            found.extend(names(&page.rows));
            let Some(next) = page.next else { return found };
            assert!(page.remaining > 0);
            after = Some(Cursor::decode(&next.encode()).unwrap());
            change(rows);
        }
    }

    proptest! {
        #[test]
        fn pages_together_are_the_whole_list(mut rows in rows(), pick in picks(), limit in 1..9_usize) {
            let whole = pick.from(rows.clone(), Row::clone, now());
            let whole: Vec<&Row> = whole.iter().collect();
            prop_assert_eq!(all_pages(&pick, &mut rows, limit, |_| {}), names(&whole));
        }

        #[test]
        fn jobs_that_stay_are_listed_once_whatever_comes_and_goes(
            (rows, other) in (rows(), rows()), pick in picks(), limit in 1..5_usize
        ) {
            let stays = |row: &&Row| !row.name.ends_with('3');
            let kept = pick.from(rows.iter().filter(stays).cloned().collect(), Row::clone, now());
            let kept: Vec<&Row> = kept.iter().collect();
            let mut others = other.into_iter().map(|mut row| { row.name.push_str("-13"); row });
            let mut changing = rows.clone();
            let found = all_pages(&pick, &mut changing, limit, |rows| {
                if let Some(at) = rows.iter().position(|row| !stays(&row)) {
                    rows.remove(at);
                }
                rows.extend(others.next());
            });
            let found: Vec<String> = found.into_iter().filter(|name| !name.ends_with('3')).collect();
            prop_assert_eq!(found, names(&kept));
        }

        #[test]
        fn any_other_text_is_refused_as_a_cursor(text in ".{0,200}") {
            prop_assert!(Cursor::decode(&text).is_err());
        }
    }

    #[test]
    fn a_cursor_is_bounded_and_fits_its_list_only() {
        let long = Cursor {
            order: 5,
            reverse: true,
            at: NOW * 1000,
            rank: i64::MIN,
            namespace: "n".repeat(63),
            name: "n".repeat(253),
            kind: 3,
        };
        assert!(long.encode().len() <= MAX_CURSOR_BYTES);
        assert_eq!(Cursor::decode(&long.encode()).unwrap(), long);
        let error = Pick::default().page([], 10, Some(&long), now()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "continue: is of a list in another order; list again from the first page"
        );
        let unknown = Cursor { kind: 9, ..long };
        assert!(Cursor::decode(&unknown.encode()).is_err());
    }
}
