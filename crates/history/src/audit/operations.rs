//! Operations: the lines of one request, from all channels.

use jiff::Timestamp;
use sqlx::Row as _;

use super::{Channel, Line};
use crate::error::Error;
use crate::store::{Store, micros};

/// Which operations to return. `None` does not restrict.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Who acted.
    pub who: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The job's name.
    pub job: Option<String>,
    /// Lines from this time on.
    pub since: Option<Timestamp>,
    /// Lines before this time.
    pub until: Option<Timestamp>,
}

/// All lines of one request, from all channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The id of the request.
    pub request: String,
    /// Its lines in order.
    pub lines: Vec<Line>,
}

impl Operation {
    /// Whether both the service and the webhook have reported it.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        [Channel::Service, Channel::Webhook]
            .iter()
            .all(|channel| self.lines.iter().any(|line| line.entry.channel == *channel))
    }

    /// The number to continue after.
    #[must_use]
    pub fn first(&self) -> i64 {
        self.lines.first().map_or(0, |line| line.seq)
    }
}

/// The maximum number of operations in one page.
pub const MAX_OPERATIONS: u32 = 500;

/// Which operations come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The oldest ones.
    OldestFirst,
    /// The newest ones.
    NewestFirst,
}

/// The query for operations: which are beyond the number `$6`, which lines can only belong to those, and the order.
macro_rules! operations_query {
    ($beyond:literal, $lines:literal, $order:literal) => {
        concat!(
            "SELECT a.seq, a.entry, a.hash, a.request FROM audit a JOIN ( \
               SELECT request, MIN(first) AS first FROM ( \
                 SELECT request, (SELECT MIN(b.seq) FROM audit b WHERE b.request = m.request) AS first FROM audit m \
                 WHERE ($1 IS NULL OR who = $1) AND ($2 IS NULL OR namespace = $2) AND ($3 IS NULL OR job = $3) \
                   AND ($4 IS NULL OR at >= $4) AND ($5 IS NULL OR at < $5) AND ",
            $lines,
            ") AS matching WHERE ",
            $beyond,
            " GROUP BY request ORDER BY MIN(first) ",
            $order,
            " LIMIT $7) AS f ON a.request = f.request ORDER BY f.first ",
            $order,
            ", a.seq"
        )
    };
}

/// Returns operations that have a matching line, in the order of their first line of all, after the operation whose number
/// [`Operation::first`] returned before.
///
/// # Errors
/// If the store fails.
pub async fn operations(
    store: &Store,
    filter: &Filter,
    order: Order,
    after: Option<i64>,
    limit: u32,
) -> Result<Vec<Operation>, Error> {
    let Filter { who, namespace, job, since, until } = filter;
    let (query, beginning) = match order {
        Order::OldestFirst => (operations_query!("first > $6", "seq > $6", "ASC"), 0),
        Order::NewestFirst => (operations_query!("first < $6", "TRUE", "DESC"), i64::MAX),
    };
    let query = sqlx::query(query)
        .bind(who)
        .bind(namespace)
        .bind(job)
        .bind(since.map(micros))
        .bind(until.map(micros))
        .bind(after.unwrap_or(beginning))
        .bind(i64::from(limit.min(MAX_OPERATIONS)));
    let mut operations: Vec<Operation> = Vec::new();
    for row in store.rows(query).await? {
        let entry: String = row.try_get("entry")?;
        let entry = serde_json::from_str(&entry).map_err(|error| Error::damaged("an audit line", error))?;
        let (seq, request): (i64, String) = (row.try_get("seq")?, row.try_get("request")?);
        let line = Line { seq, hash: row.try_get("hash")?, entry };
        match operations.last_mut().filter(|last| last.request == request) {
            Some(last) => last.lines.push(line),
            None => operations.push(Operation { request, lines: vec![line] }),
        }
    }
    Ok(operations)
}
