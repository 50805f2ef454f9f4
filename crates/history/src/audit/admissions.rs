//! Joins what the admission webhook saw with what the service recorded: a write that came through the service gets its
//! line in the service's operation, any other one an operation of its own.
//!
//! A write through the service has a line before it happens. A created object has the id of that request as an
//! annotation; of changes and deletions, the line has the user, the namespace and the name. A batch has the names only
//! in its last lines: until then, such a write may be its own or another's, and is left to be reported again.

use std::collections::{BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};
use sqlx::{AssertSqlSafe, Row as _};

use super::{Actor, Channel, Entry, Stage, append_one, column, lock_head, set_head};
use crate::error::Error;
use crate::store::{Store, Write, micros};

/// The maximum number of admissions in one call.
pub const MAX_ADMISSIONS: usize = 100;
/// The longest time from the line before a write to its admission: longer than any call of the service.
const LONGEST_CALL: SignedDuration = SignedDuration::from_secs(60);
/// How much the clocks of two machines may differ.
const SKEW: SignedDuration = SignedDuration::from_secs(2);
/// The maximum number of recent lines that are looked through.
const MOST_RECENT: i64 = 50_000;

/// A write as the admission webhook saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The UID of the review.
    pub review: String,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub who: Actor,
    /// `create`, `update` or `delete`.
    pub verb: String,
    /// The resource: `mpijobs`.
    pub resource: String,
    /// The namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The id of the service's request that created the object, as the object has it.
    pub request: Option<String>,
    /// The HTTP status of a refusal.
    pub status: Option<u16>,
    /// The reason of a refusal.
    pub reason: Option<String>,
    /// The program, as it names itself.
    pub program: Option<String>,
}

/// Records admissions; returns for each whether it is recorded now. One that is not must be reported again a moment
/// later. `methods` returns the service's methods that make a write with a verb.
///
/// # Errors
/// If there are too many, or the store fails. None is recorded then.
pub async fn admit(
    store: &Store,
    admissions: &[Admission],
    methods: fn(&str) -> &'static [&'static str],
) -> Result<Vec<bool>, Error> {
    if admissions.len() > MAX_ADMISSIONS {
        return Err(Error::Invalid(format!("at most {MAX_ADMISSIONS} admissions may be recorded at once")));
    }
    if admissions.is_empty() {
        return Ok(Vec::new());
    }
    let mut write = store.write().await?;
    // Replicas record one after another, so that none of them misses what another has just joined.
    let mut head = lock_head(&mut write).await?;
    let mut recent = Recent::read(&mut write, admissions).await?;
    let mut recorded = Vec::with_capacity(admissions.len());
    for admission in admissions {
        let request = match recent.operation(admission, methods(&admission.verb)) {
            Operation::Recorded => None,
            Operation::Unknown => {
                recorded.push(false);
                continue;
            }
            Operation::Services(request) => Some(request),
            Operation::Own => Some(admission.review.clone()),
        };
        if let Some(request) = request {
            let entry = entry(admission, request);
            append_one(&mut write, &mut head, &entry).await?;
            recent.add(entry);
        }
        recorded.push(true);
    }
    set_head(&mut write, &head).await?;
    write.commit().await?;
    Ok(recorded)
}

fn entry(admission: &Admission, request: String) -> Entry {
    let Admission { review, at, who, verb, resource, namespace, name, request: _, status, reason, program } =
        admission.clone();
    Entry {
        at,
        who,
        verb,
        resource,
        namespace: Some(namespace),
        job: Some(name),
        channel: Channel::Webhook,
        address: None,
        program,
        request,
        stage: Stage::ResponseComplete,
        status,
        reason,
        review: Some(review),
    }
}

/// Which operation a write belongs to.
enum Operation {
    /// It is in the log already.
    Recorded,
    /// The service's request with this id.
    Services(String),
    /// None of the service's.
    Own,
    /// Perhaps one that has not said yet what it is about.
    Unknown,
}

/// Recent lines, by request, in the order of the log.
struct Recent(HashMap<String, Vec<Entry>>);

impl Recent {
    /// Reads the lines that may concern these admissions: of the reviews themselves, of the requests that created the
    /// objects, and, where an object was changed or deleted, of the requests of the same users.
    async fn read(write: &mut Write, admissions: &[Admission]) -> Result<Self, Error> {
        let times = || admissions.iter().map(|admission| admission.at);
        let (Some(first), Some(last)) = (times().min(), times().max()) else {
            return Ok(Self(HashMap::new()));
        };
        let from = first.checked_sub(LONGEST_CALL).unwrap_or(first);
        let until = last.checked_add(SKEW).unwrap_or(last);
        let reviews = admissions.iter().map(|admission| &admission.review);
        let requests: BTreeSet<String> = reviews
            .chain(admissions.iter().filter_map(|admission| admission.request.as_ref()))
            .map(|request| column(request))
            .collect();
        let changes = admissions.iter().filter(|admission| admission.verb != "create");
        let users: BTreeSet<String> = changes.map(|admission| column(&admission.who.name)).collect();
        let places = |first: usize, count: usize| {
            (first..first + count).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
        };
        let mut lines = format!("request IN ({})", places(4, requests.len()));
        if !users.is_empty() {
            let users = places(4 + requests.len(), users.len());
            lines += &format!(
                " OR request IN (SELECT request FROM audit \
                 WHERE at >= $1 AND at <= $2 AND channel = 'service' AND who IN ({users}))"
            );
        }
        let text = format!(
            "SELECT entry FROM audit WHERE at >= $1 AND at <= $2 AND ({lines}) ORDER BY seq DESC LIMIT $3"
        );
        let mut query =
            sqlx::query(AssertSqlSafe(text)).bind(micros(from)).bind(micros(until)).bind(MOST_RECENT);
        for value in requests.into_iter().chain(users) {
            query = query.bind(value);
        }
        let rows = query.fetch_all(&mut **write).await?;
        let mut recent = Self(HashMap::new());
        for row in rows.iter().rev() {
            let text: String = row.try_get("entry")?;
            recent.add(serde_json::from_str(&text).map_err(|error| Error::damaged("an audit line", error))?);
        }
        Ok(recent)
    }

    fn add(&mut self, entry: Entry) {
        self.0.entry(entry.request.clone()).or_default().push(entry);
    }

    fn operation(&self, admission: &Admission, methods: &[&str]) -> Operation {
        let is_this = |entry: &Entry| entry.review.as_deref() == Some(&admission.review);
        if self.0.values().flatten().any(is_this) {
            return Operation::Recorded;
        }
        if admission.verb == "create" {
            let request = admission.request.as_ref().and_then(|request| self.0.get_key_value(request));
            let own = request.filter(|(_, lines)| may_be_of(lines, admission, methods));
            return own.map_or(Operation::Own, |(request, _)| Operation::Services(request.clone()));
        }
        let candidates = || self.0.iter().filter(|(_, lines)| may_be_of(lines, admission, methods));
        let names_it =
            |lines: &[Entry]| lines.iter().any(|line| line.job.as_deref() == Some(admission.name.as_str()));
        let began = |lines: &[Entry]| lines.first().map(|line| line.at);
        let found = candidates().filter(|(_, lines)| names_it(lines)).max_by_key(|(_, lines)| began(lines));
        match found {
            Some((request, _)) => Operation::Services(request.clone()),
            None if candidates().any(|(_, lines)| is_open(lines)) => Operation::Unknown,
            None => Operation::Own,
        }
    }
}

/// Whether an operation of the service may have made a write: the same user in the same namespace by a method that
/// makes such writes, at the time, and no other such write is known of it.
fn may_be_of(lines: &[Entry], admission: &Admission, methods: &[&str]) -> bool {
    let Some(first) = lines.first() else { return false };
    let ended = lines
        .iter()
        .filter(|line| line.channel == Channel::Service && line.stage == Stage::ResponseComplete)
        .map(|line| line.at)
        .max();
    let is_late = |ended: Timestamp| ended.checked_add(SKEW).is_ok_and(|ended| admission.at > ended);
    let is_taken = |line: &Entry| {
        line.channel == Channel::Webhook
            && line.verb == admission.verb
            && line.job.as_deref() == Some(admission.name.as_str())
    };
    let began_before = first.at.duration_until(admission.at) <= LONGEST_CALL;
    first.channel == Channel::Service
        && began_before
        && first.who.name == admission.who.name
        && first.namespace.as_deref() == Some(admission.namespace.as_str())
        && methods.contains(&first.verb.as_str())
        && !ended.is_some_and(is_late)
        && !lines.iter().any(is_taken)
}

/// Whether an operation has not said yet what it is about.
fn is_open(lines: &[Entry]) -> bool {
    lines.iter().all(|line| line.job.is_none() && line.stage == Stage::RequestReceived)
}
