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
mod export;
mod operations;
mod truncate;
mod verify;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use sqlx::Row as _;
use sqlx::any::AnyRow;

pub use self::admissions::{Admission, MAX_ADMISSIONS, admit};
pub use self::appender::Appender;
pub use self::export::{bounds, export, verify_export};
pub use self::operations::{Filter, MAX_OPERATIONS, Operation, Order, operations};
pub use self::truncate::{forget, truncate};
pub use self::verify::{Fault, Verification, verify};
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

const COLUMNS: &str = "SELECT seq, at, who, namespace, job, request, channel, entry, fingerprint, hash FROM audit \
                       WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3";
