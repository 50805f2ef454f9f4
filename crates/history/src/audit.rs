//! The audit log: append-only, with a hash chain that shows every later change.
//!
//! Line `n` has the hash `H(n) = SHA-256(H(n-1) "\n" n "\n" entry)`: the previous hash as 64 lower-case hexadecimal digits,
//! `n` in decimal, and the entry as compact JSON with the fields in the order of [`Entry`], exactly as stored and
//! exported. `H(0)` is 64 zeros. A shell computes it with `printf '%s\n%s\n%s' "$previous" "$n" "$entry" | sha256sum`.
//!
//! All replicas append to one chain: an append locks the head of the chain for its transaction. No function changes a
//! line, and only [`truncate`] removes lines: a prefix that was exported, after its closing hash has become a line of
//! the chain. Triggers in the database refuse everything else.
//!
//! Someone who can write to the database file can rewrite the whole chain. [`verify`] therefore also compares with
//! [`Anchor`]s, which were kept elsewhere: the closing hashes of exports.

mod admissions;
mod appender;

use futures::stream::{self, Stream};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row as _};

pub use self::admissions::{Admission, MAX_ADMISSIONS, admit};
pub use self::appender::Appender;
use crate::error::Error;
use crate::store::{Store, Write, micros};

/// `H(0)`.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// The number of lines that are read at once.
const PAGE: i64 = 500;
/// The maximum number of entries in one append.
pub const MAX_APPEND: usize = 1000;
/// The maximum size of one entry in bytes of JSON.
pub const MAX_ENTRY_BYTES: usize = 64 << 10;

/// Where an operation was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Channel {
    /// The training service.
    Service,
    /// The admission webhook, which also sees what does not pass through the service.
    Webhook,
}

impl Channel {
    fn as_str(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Webhook => "webhook",
        }
    }
}

/// The stage of an operation, named as in Kubernetes' audit events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Before it is carried out; without a later line, the process ended in between.
    RequestReceived,
    /// After it.
    ResponseComplete,
}

/// Who acted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    /// The user.
    pub name: String,
    /// Their groups.
    pub groups: Vec<String>,
}

/// What happened, as the caller reports it.
///
/// The request's id joins what several channels report of one operation. The caller must create it; an id that a
/// client chooses would let the client mix its lines with those of others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub who: Actor,
    /// The service's method, `CreateJob`, or the verb, as in Kubernetes: `create`.
    pub verb: String,
    /// The resource that the verb acts on: `mpijobs`, `templates`.
    pub resource: String,
    /// The namespace.
    pub namespace: Option<String>,
    /// The name of the job or of another object.
    pub job: Option<String>,
    /// Where the operation was seen.
    pub channel: Channel,
    /// The client's address.
    pub address: Option<String>,
    /// The program, as it names itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The id of the request, the same in all channels.
    pub request: String,
    /// The stage.
    pub stage: Stage,
    /// The HTTP status of the outcome.
    pub status: Option<u16>,
    /// The reason of a refusal or failure.
    pub reason: Option<String>,
    /// The UID of the admission review, if the webhook saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<String>,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number; the first is 1.
    pub seq: i64,
    /// Its hash.
    pub hash: String,
    /// What happened.
    pub entry: Entry,
}

/// A number and a hash of the chain that were kept elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// The number of the line.
    pub seq: i64,
    /// Its hash.
    pub hash: String,
}

/// Appends entries in one transaction, and returns the numbers of their lines, in the same order.
///
/// An entry that equals a stored one in everything but its time is not stored again; it has the number `None`.
///
/// # Errors
/// If an entry or the number of entries exceeds its maximum, or the store fails. Nothing is then stored.
pub async fn append(store: &Store, entries: &[Entry]) -> Result<Vec<Option<i64>>, Error> {
    if entries.len() > MAX_APPEND {
        return Err(Error::Invalid(format!("at most {MAX_APPEND} audit entries may be appended at once")));
    }
    let mut write = store.write().await?;
    let mut head = lock_head(&mut write).await?;
    let mut numbers = Vec::with_capacity(entries.len());
    for entry in entries {
        numbers.push(append_one(&mut write, &mut head, entry).await?);
    }
    set_head(&mut write, &head).await?;
    write.commit().await?;
    Ok(numbers)
}

/// Reads the end of the chain and locks it until the transaction ends: in PostgreSQL as a row, in SQLite as the whole
/// database.
async fn lock_head(write: &mut Write) -> Result<Anchor, Error> {
    let row = sqlx::query("UPDATE audit_head SET seq = seq WHERE id = 1 RETURNING seq, hash")
        .fetch_optional(&mut **write)
        .await?;
    head_of(row.as_ref())
}

fn head_of(row: Option<&AnyRow>) -> Result<Anchor, Error> {
    let row = row.ok_or_else(|| Error::Damaged("the audit log has lost its head".to_owned()))?;
    Ok(Anchor { seq: row.try_get(0)?, hash: row.try_get(1)? })
}

async fn set_head(write: &mut Write, head: &Anchor) -> Result<(), Error> {
    sqlx::query("UPDATE audit_head SET seq = $1, hash = $2 WHERE id = 1")
        .bind(head.seq)
        .bind(&head.hash)
        .execute(&mut **write)
        .await?;
    Ok(())
}

async fn append_one(write: &mut Write, head: &mut Anchor, entry: &Entry) -> Result<Option<i64>, Error> {
    let text = text_of(entry)?;
    let seq = head.seq + 1;
    let hash = hash(&head.hash, seq, &text);
    let stored = sqlx::query(
        "INSERT INTO audit (seq, at, who, namespace, job, request, channel, entry, fingerprint, hash) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (fingerprint) DO NOTHING",
    )
    .bind(seq)
    .bind(micros(entry.at))
    .bind(column(&entry.who.name))
    .bind(entry.namespace.as_deref().map(column))
    .bind(entry.job.as_deref().map(column))
    .bind(column(&entry.request))
    .bind(entry.channel.as_str())
    .bind(&text)
    .bind(fingerprint(entry)?)
    .bind(&hash)
    .execute(&mut **write)
    .await?;
    if stored.rows_affected() == 0 {
        return Ok(None);
    }
    *head = Anchor { seq, hash };
    Ok(Some(seq))
}

/// Returns the text that is hashed, stored and exported.
fn text_of(entry: &Entry) -> Result<String, Error> {
    let text =
        serde_json::to_string(entry).map_err(|error| Error::Invalid(format!("audit entry: {error}")))?;
    match text.len() > MAX_ENTRY_BYTES {
        true => Err(Error::Invalid(format!(
            "an audit entry has {} bytes, and {MAX_ENTRY_BYTES} are allowed",
            text.len()
        ))),
        false => Ok(text),
    }
}

/// Returns what makes an entry the same as another: everything but its time.
fn fingerprint(entry: &Entry) -> Result<String, Error> {
    Ok(hex(&Sha256::digest(text_of(&Entry { at: Timestamp::UNIX_EPOCH, ..entry.clone() })?)))
}

/// Returns how a text is stored in a column of its own: PostgreSQL's texts hold no NUL.
fn column(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Returns `H(seq)`.
fn hash(previous: &str, seq: i64, entry: &str) -> String {
    hex(&Sha256::digest(format!("{previous}\n{seq}\n{entry}")))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is wrong at a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its content does not match its hash, or its hash does not match the line before.
    Changed,
    /// It is missing.
    Removed,
    /// It was not appended by [`append`].
    Inserted,
}

/// The result of [`verify`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verification {
    /// The chain is intact.
    Intact {
        /// The number of lines that are present.
        lines: u64,
        /// The end of the chain.
        head: Anchor,
    },
    /// The chain is broken.
    Broken {
        /// The number of the first line with a fault.
        seq: i64,
        /// What is wrong with it.
        fault: Fault,
    },
}

/// Verifies the whole chain, in one consistent view, page by page.
///
/// # Errors
/// If the store fails. A broken chain is a result.
pub async fn verify(store: &Store, anchors: &[Anchor]) -> Result<Verification, Error> {
    let mut view = store.snapshot().await?;
    let row = sqlx::query("SELECT seq, hash FROM audit_head WHERE id = 1").fetch_optional(&mut *view).await?;
    let head = head_of(row.as_ref())?;
    let seals = seals(&mut view).await?;
    let sealed = seals.last().cloned();
    let mut chain =
        Chain { at: sealed.clone().unwrap_or(Anchor { seq: 0, hash: GENESIS.to_owned() }), lines: 0 };
    let (mut unrecorded, mut anchors) = (seals, anchors.to_vec());
    // Nothing present can prove or disprove what was truncated before the last seal.
    anchors.retain(|anchor| anchor.seq >= chain.at.seq);
    if let Some(broken) = anchored(&anchors, &chain.at) {
        return Ok(broken);
    }
    let start = chain.at.seq;
    let mut after = i64::MIN;
    loop {
        let rows = page(&mut view, after, i64::MAX).await?;
        for row in &rows {
            after = row.try_get("seq")?;
            if let Some(fault) = chain.step(row, &head)? {
                return Ok(fault);
            }
            if let Some(broken) = anchored(&anchors, &chain.at) {
                return Ok(broken);
            }
            if let Some(seal) = truncation(&row.try_get::<String, _>("entry")?) {
                unrecorded.retain(|other| *other != seal);
            }
        }
        if rows.is_empty() {
            break;
        }
    }
    // The line that records the last truncation is never truncated itself.
    let forged = sealed.is_some_and(|sealed| unrecorded.contains(&sealed));
    Ok(match () {
        () if forged => Verification::Broken { seq: start, fault: Fault::Removed },
        () if chain.at.seq < head.seq => {
            Verification::Broken { seq: chain.at.seq + 1, fault: Fault::Removed }
        }
        () if chain.at != head => Verification::Broken { seq: head.seq, fault: Fault::Changed },
        () => match anchors.iter().filter(|anchor| anchor.seq > chain.at.seq).min_by_key(|a| a.seq) {
            Some(_) => Verification::Broken { seq: chain.at.seq + 1, fault: Fault::Removed },
            None => Verification::Intact { lines: chain.lines, head },
        },
    })
}

/// How far a chain has been verified.
struct Chain {
    at: Anchor,
    lines: u64,
}

impl Chain {
    /// Verifies the next line.
    fn step(&mut self, row: &AnyRow, head: &Anchor) -> Result<Option<Verification>, Error> {
        let seq: i64 = row.try_get("seq")?;
        let broken = |seq, fault| Ok(Some(Verification::Broken { seq, fault }));
        if seq > head.seq || seq <= self.at.seq {
            return match seq > head.seq && self.at.seq < head.seq {
                true => broken(self.at.seq + 1, Fault::Removed),
                false => broken(seq, Fault::Inserted),
            };
        }
        if seq > self.at.seq + 1 {
            return broken(self.at.seq + 1, Fault::Removed);
        }
        let text: String = row.try_get("entry")?;
        let hash = hash(&self.at.hash, seq, &text);
        if hash != row.try_get::<String, _>("hash")? || !columns_match(row, &text)? {
            return broken(seq, Fault::Changed);
        }
        self.at = Anchor { seq, hash };
        self.lines += 1;
        Ok(None)
    }
}

/// Whether the columns that queries select by are those of the entry.
fn columns_match(row: &AnyRow, text: &str) -> Result<bool, Error> {
    let Ok(entry) = serde_json::from_str::<Entry>(text) else { return Ok(false) };
    let Entry { at, who, namespace, job, request, channel, .. } = &entry;
    Ok(row.try_get::<i64, _>("at")? == micros(*at)
        && row.try_get::<String, _>("who")? == column(&who.name)
        && row.try_get::<Option<String>, _>("namespace")? == namespace.as_deref().map(column)
        && row.try_get::<Option<String>, _>("job")? == job.as_deref().map(column)
        && row.try_get::<String, _>("request")? == column(request)
        && row.try_get::<String, _>("channel")? == channel.as_str()
        && row.try_get::<String, _>("fingerprint")? == fingerprint(&entry)?)
}

fn anchored(anchors: &[Anchor], at: &Anchor) -> Option<Verification> {
    let differs = anchors.iter().any(|anchor| anchor.seq == at.seq && anchor.hash != at.hash);
    differs.then_some(Verification::Broken { seq: at.seq, fault: Fault::Changed })
}

const COLUMNS: &str = "SELECT seq, at, who, namespace, job, request, channel, entry, fingerprint, hash FROM audit \
                       WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3";

async fn page(view: &mut AnyConnection, after: i64, through: i64) -> Result<Vec<AnyRow>, Error> {
    Ok(sqlx::query(COLUMNS).bind(after).bind(through).bind(PAGE).fetch_all(view).await?)
}

async fn seals(view: &mut AnyConnection) -> Result<Vec<Anchor>, Error> {
    let rows = sqlx::query("SELECT through, hash FROM audit_seals ORDER BY through").fetch_all(view).await?;
    rows.iter().map(|row| Ok(Anchor { seq: row.try_get(0)?, hash: row.try_get(1)? })).collect()
}

/// A line as exported, with the entry exactly as it was hashed.
struct Exported<'l> {
    seq: i64,
    previous: &'l str,
    hash: &'l str,
    entry: &'l str,
}

impl<'l> Exported<'l> {
    fn text(&self) -> String {
        let Self { seq, previous, hash, entry } = self;
        format!("{{\"seq\":{seq},\"previous\":\"{previous}\",\"hash\":\"{hash}\",\"entry\":{entry}}}\n")
    }

    /// Reads exactly what [`Exported::text`] writes: another spelling of the same JSON is a change too.
    fn parse(line: &'l str) -> Option<Self> {
        let (seq, rest) = line.strip_prefix("{\"seq\":")?.split_once(",\"previous\":\"")?;
        let (previous, rest) = rest.split_once("\",\"hash\":\"")?;
        let (hash, rest) = rest.split_once("\",\"entry\":")?;
        Some(Self { seq: seq.parse().ok()?, previous, hash, entry: rest.strip_suffix('}')? })
    }
}

/// Streams the lines after one number up to another as JSON lines, each with its line feed.
///
/// The `hash` of the last one is the closing hash, for [`Anchor`] and [`truncate`].
pub fn export(
    store: &Store,
    after: i64,
    through: i64,
) -> impl Stream<Item = Result<String, Error>> + Send + use<> {
    let store = store.clone();
    stream::try_unfold((store, after, None::<String>), move |(store, after, previous)| async move {
        let previous = match previous {
            Some(previous) => previous,
            None => hash_of(&store, after).await?,
        };
        let rows = store.rows(sqlx::query(COLUMNS).bind(after).bind(through).bind(PAGE)).await?;
        let (mut text, mut at) = (String::new(), Anchor { seq: after, hash: previous });
        for row in &rows {
            let (seq, hash, entry): (i64, String, String) =
                (row.try_get("seq")?, row.try_get("hash")?, row.try_get("entry")?);
            text.push_str(&Exported { seq, previous: &at.hash, hash: &hash, entry: &entry }.text());
            at = Anchor { seq, hash };
        }
        Ok((!rows.is_empty()).then_some((text, (store, at.seq, Some(at.hash)))))
    })
}

/// Returns the numbers between which the present lines are: after the first of them, up to the second.
///
/// # Errors
/// If the store fails.
pub async fn bounds(store: &Store) -> Result<(i64, i64), Error> {
    let query =
        "SELECT (SELECT COALESCE(MAX(through), 0) FROM audit_seals), seq FROM audit_head WHERE id = 1";
    match store.row(sqlx::query(query)).await? {
        Some(row) => Ok((row.try_get(0)?, row.try_get(1)?)),
        None => Err(Error::Damaged("the audit log has lost its head".to_owned())),
    }
}

/// Returns `H(seq)`, of a line or of a seal.
async fn hash_of(store: &Store, seq: i64) -> Result<String, Error> {
    let sql =
        "SELECT hash FROM audit WHERE seq = $1 UNION ALL SELECT hash FROM audit_seals WHERE through = $1";
    match store.row(sqlx::query(sql).bind(seq)).await? {
        Some(row) => Ok(row.try_get(0)?),
        None if seq == 0 => Ok(GENESIS.to_owned()),
        None => Err(Error::Invalid(format!("the audit log has no line {seq}"))),
    }
}

/// Verifies an exported file line by line, without a store. Returns its closing hash.
///
/// # Errors
/// The number of the first line that is wrong, counted in the file from 1.
pub fn verify_export<'l>(lines: impl Iterator<Item = &'l str>) -> Result<Option<Anchor>, usize> {
    let mut at: Option<Anchor> = None;
    for (line, number) in lines.zip(1..) {
        let Exported { seq, previous, hash: stated, entry } = Exported::parse(line).ok_or(number)?;
        let follows = at.as_ref().is_none_or(|at| at.seq + 1 == seq && at.hash == previous);
        if !follows || hash(previous, seq, entry) != stated {
            return Err(number);
        }
        at = Some(Anchor { seq, hash: stated.to_owned() });
    }
    Ok(at)
}

/// The verb of the line that records a truncation.
const TRUNCATE: &str = "truncate";
/// The resource of that line.
const AUDIT_LOG: &str = "auditlog";

/// Returns what a line says was truncated, if it records a truncation.
fn truncation(entry: &str) -> Option<Anchor> {
    let entry: Entry = serde_json::from_str(entry).ok()?;
    match entry.verb == TRUNCATE && entry.resource == AUDIT_LOG {
        true => serde_json::from_str(entry.reason.as_deref()?).ok(),
        false => None,
    }
}

/// Removes the lines up to an exported one, after recording this as a line of the chain.
///
/// The closing hash shows that the caller has exported these lines; the caller has made the export durable.
///
/// # Errors
/// If the anchor is not that of a present line, or the store fails. Nothing is then removed.
pub async fn truncate(
    store: &Store,
    closing: &Anchor,
    who: &Actor,
    at: Timestamp,
    request: &str,
) -> Result<(), Error> {
    let mut write = store.write().await?;
    let mut head = lock_head(&mut write).await?;
    let row = sqlx::query("SELECT hash FROM audit WHERE seq = $1")
        .bind(closing.seq)
        .fetch_optional(&mut *write)
        .await?;
    let found: Option<String> = row.map(|row| row.try_get(0)).transpose()?;
    if found.as_ref() != Some(&closing.hash) {
        return Err(Error::Invalid(format!(
            "{} is not the hash of audit line {}",
            closing.hash, closing.seq
        )));
    }
    let seal = serde_json::to_string(closing).map_err(|error| Error::damaged("a seal", error))?;
    let entry = Entry {
        at,
        who: who.clone(),
        verb: TRUNCATE.to_owned(),
        resource: AUDIT_LOG.to_owned(),
        namespace: None,
        job: None,
        channel: Channel::Service,
        address: None,
        program: None,
        request: request.to_owned(),
        stage: Stage::ResponseComplete,
        status: None,
        reason: Some(seal),
        review: None,
    };
    append_one(&mut write, &mut head, &entry).await?;
    set_head(&mut write, &head).await?;
    sqlx::query("INSERT INTO audit_seals (through, hash, at) VALUES ($1, $2, $3)")
        .bind(closing.seq)
        .bind(&closing.hash)
        .bind(micros(at))
        .execute(&mut *write)
        .await?;
    sqlx::query("DELETE FROM audit WHERE seq <= $1").bind(closing.seq).execute(&mut *write).await?;
    write.commit().await
}

/// How much older than asked for the oldest line becomes before lines are removed, so that a day has one removal at most.
const SPARE: SignedDuration = SignedDuration::from_hours(24);

/// Removes the lines from before a time as [`truncate`] does, though nobody may have exported them: what is kept for ever fills
/// any disk. Returns whether there were any.
///
/// # Errors
/// If the store fails. Nothing is then removed.
pub async fn forget(store: &Store, before: Timestamp) -> Result<bool, Error> {
    let oldest = store.row(sqlx::query("SELECT at FROM audit ORDER BY seq LIMIT 1")).await?;
    let due = micros(before.checked_sub(SPARE).unwrap_or(Timestamp::MIN));
    match oldest {
        Some(row) if row.try_get::<i64, _>(0)? < due => {}
        _ => return Ok(false),
    }
    let query = sqlx::query("SELECT seq, hash FROM audit WHERE at < $1 ORDER BY seq DESC LIMIT 1");
    let Some(last) = store.row(query.bind(micros(before))).await? else { return Ok(false) };
    let closing = Anchor { seq: last.try_get(0)?, hash: last.try_get(1)? };
    let who = Actor { name: "system:training-service".to_owned(), groups: Vec::new() };
    truncate(store, &closing, &who, store.now().await?, "retention").await?;
    Ok(true)
}

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
