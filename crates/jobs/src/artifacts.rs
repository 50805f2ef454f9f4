//! The files of a job's volumes, as one of its running pods sees them, or a pod that was started to read them ([`reader`]): a folder
//! is listed and a file is read by a small script through `pods/exec`, with the caller's own client.
//!
//! Nothing that the container answers is trusted. Names are bytes. A path is checked twice: as it is asked for, and as the
//! kernel resolves the opened folder or file, so that a link leads to nothing but volumes that hold files of the job. What
//! is read is bounded by [`MOST_ENTRIES`], [`MOST_LISTING_BYTES`], [`MOST_FILE_BYTES`] and [`PATIENCE`].

mod mounts;
mod names;
pub mod reader;
mod running;

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::io::{AsyncRead, AsyncReadExt as _};

pub use mounts::{Source, Volume};
pub use names::{path_of, spoken};
use running::{Ended, Running};

use crate::{Error, Kind};

/// The most entries of a folder.
pub const MOST_ENTRIES: usize = 2000;
/// The most bytes that are read about a folder.
const MOST_LISTING_BYTES: usize = 2 << 20;
/// The largest file, or part of one, that is read.
pub const MOST_FILE_BYTES: u64 = 10 << 30;
/// How long a container may take to answer, or to go on with a file.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// The size of a chunk, in bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// The most bytes before a file's content: the places of all mounts, and the file's.
const MOST_HEAD_BYTES: usize = 1 << 20;

/// The folder of a reader that is its own.
const READER_FOLDER: &str = "/opt/odh/reader";

/// Prints the places of all mounts and of the folder, then the entries; each text ends with a NUL. Without a `find` that
/// prints what is asked for, as in BusyBox, the shell asks for each entry.
const LIST: &str = include_str!("artifacts/list.sh");
/// Prints the places of all mounts and of the opened file, and what the file is; then the content follows.
const READ: &str = include_str!("artifacts/read.sh");

/// Which job, and where in it.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The kind.
    pub kind: Kind,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Only this Worker's pod.
    pub worker: Option<i32>,
}

/// Why files cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The cluster refuses or cannot be reached.
    #[error("{0}")]
    Cluster(Box<Error>),
    /// There is no pod to ask.
    #[error("{message}")]
    NoPod {
        /// What is the case.
        message: String,
        /// How to reach the files.
        hint: String,
        /// Whether the job mounts claims that a reader can show.
        has_claims: bool,
    },
    /// A reader is not needed: the job has not ended.
    #[error("pods of the job run, and its files are read through them")]
    NotNeeded,
    /// There is nothing for a reader to read.
    #[error("the job mounts no volume that outlives its pods, as far as its pods and templates say")]
    NothingKept,
    /// A reader failed.
    #[error("{pod} failed: {why}")]
    ReaderFailed {
        /// The pod.
        pod: String,
        /// What it says.
        why: String,
    },
    /// A reader does not run yet.
    #[error("{pod} does not run yet: it waits for {waits_for}")]
    ReaderWaits {
        /// The pod.
        pod: String,
        /// What for.
        waits_for: String,
    },
    /// The path cannot be meant.
    #[error("the path {0}")]
    Path(&'static str),
    /// The path is in no volume that may be shown, or leads out of them.
    #[error("{0} is not in a volume with files of the job")]
    Outside(String),
    /// There is nothing at the path.
    #[error("there is no file or folder {0}")]
    NotFound(String),
    /// Something else is at the path.
    #[error("{path} is no {wanted}")]
    Other {
        /// The path.
        path: String,
        /// What was wanted: `file` or `folder`.
        wanted: &'static str,
    },
    /// The container's user may not read it.
    #[error("the container's user may not read {0}")]
    Unreadable(String),
    /// The file is larger than what is read.
    #[error("{path} has {size} bytes, more than are read")]
    TooLarge {
        /// The path.
        path: String,
        /// The bytes that would have to be read.
        size: u64,
    },
    /// The container lacks a program that this needs.
    #[error("the container {container} of pod {pod} lacks sh, readlink or stat")]
    NoPrograms {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
    },
    /// The container did not answer as it should.
    #[error("the container's answer was cut off or makes no sense: {0}")]
    Broken(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Cluster(Box::new(error))
    }
}

/// What is in a folder.
#[derive(Debug)]
pub struct Listing {
    /// The pod that was asked.
    pub pod: String,
    /// Folders first, then by name.
    pub entries: Vec<Entry>,
    /// Whether there are more.
    pub truncated: bool,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// What it is, or what a link leads to.
    pub what: What,
    /// Whether it is a symbolic link.
    pub is_link: bool,
    /// The size of a file that is no link, in bytes.
    pub size: Option<u64>,
    /// When it was changed.
    pub modified: Option<Timestamp>,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A device, a pipe, a socket, or a link to nothing.
    Other,
}

/// Lists the volumes of the job's running pods. A volume that several pods share is listed once.
///
/// # Errors
/// If no pod runs, or the cluster refuses.
pub async fn volumes(client: &Client, wanted: &Wanted) -> Result<Vec<Volume>, Fault> {
    let pods = running::pods(client, wanted).await?;
    Ok(mounts::volumes(&pods))
}

/// Lists a folder.
///
/// # Errors
/// A [`Fault`].
pub async fn list(client: &Client, wanted: &Wanted, path: &str) -> Result<Listing, Fault> {
    let place = names::checked(path)?;
    let shell = running::at(client, wanted, &place).await?;
    let within = async {
        let limit = (MOST_ENTRIES + 1).to_string();
        let mut process = shell.start(client, wanted, LIST, &place, &[&limit]).await?;
        let head = head(&mut process, &shell, 0, &place, "folder").await?;
        shell.inside(&head)?;
        let mut text = head.rest;
        let limit = u64::try_from(MOST_LISTING_BYTES).unwrap_or(u64::MAX);
        let read = (&mut process.stdout).take(limit).read_to_end(&mut text).await;
        read.map_err(|error| Fault::Broken(error.to_string()))?;
        let is_cut = text.len() >= MOST_LISTING_BYTES;
        let mut entries = entries(&text);
        let truncated = is_cut || entries.len() > MOST_ENTRIES;
        entries.truncate(MOST_ENTRIES);
        entries.sort_by(|a, b| (a.what != What::Folder, &a.name).cmp(&(b.what != What::Folder, &b.name)));
        Ok(Listing { pod: shell.pod.clone(), entries, truncated })
    };
    tokio::time::timeout(PATIENCE, within).await.unwrap_or_else(|_| Err(late()))
}

/// An opened file.
pub struct File {
    /// Its name.
    pub name: Vec<u8>,
    /// Its size in bytes.
    pub size: u64,
    /// The bytes that can be read: those from the offset, or as many as were asked for.
    pub length: u64,
    /// When it was changed.
    pub modified: Option<Timestamp>,
    process: Running,
    ready: Vec<u8>,
    left: u64,
}

impl File {
    /// Reads the next bytes; `None` at the end.
    ///
    /// # Errors
    /// If the file became shorter, or the connection broke.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut chunk = std::mem::take(&mut self.ready);
        if chunk.is_empty() {
            chunk = vec![0; CHUNK_BYTES];
            let read = tokio::time::timeout(PATIENCE, self.process.stdout.read(&mut chunk)).await;
            let count = read.map_err(|_| late())?.map_err(|error| Fault::Broken(error.to_string()))?;
            if count == 0 {
                return Err(Fault::Broken(format!("{} bytes of the file are missing", self.left)));
            }
            chunk.truncate(count);
        }
        // A file that grows is read as it was when it was opened.
        chunk.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        Ok(Some(chunk))
    }
}

/// Opens a file, or a part of it.
///
/// # Errors
/// A [`Fault`].
pub async fn read(
    client: &Client,
    wanted: &Wanted,
    path: &str,
    offset: u64,
    limit: Option<u64>,
) -> Result<File, Fault> {
    let place = names::checked(path)?;
    let shell = running::at(client, wanted, &place).await?;
    let within = async {
        let most = limit.unwrap_or(MOST_FILE_BYTES).min(MOST_FILE_BYTES);
        let first = offset.saturating_add(1).to_string();
        let mut process = shell.start(client, wanted, READ, &place, &[&first, &most.to_string()]).await?;
        let head = head(&mut process, &shell, 1, &place, "file").await?;
        shell.inside(&head)?;
        let facts = head.facts.first().map(Vec::as_slice).unwrap_or_default();
        let (mode, size, modified) = status(facts).ok_or_else(|| Fault::Broken("no size".to_owned()))?;
        if !is_regular(mode) {
            return Err(Fault::Other { path: spoken(&place), wanted: "file" });
        }
        let left = size.saturating_sub(offset);
        if limit.is_none() && left > MOST_FILE_BYTES {
            return Err(Fault::TooLarge { path: spoken(&place), size: left });
        }
        let length = left.min(most);
        let name = place.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
        Ok(File { name, size, length, modified, process, ready: head.rest, left: length })
    };
    tokio::time::timeout(PATIENCE, within).await.unwrap_or_else(|_| Err(late()))
}

fn late() -> Fault {
    Fault::Broken(format!("nothing came within {} s", PATIENCE.as_secs()))
}

/// What a script prints first.
struct Head {
    /// The resolved places of the container's mounts, in their order; the path of one that cannot be resolved.
    mounts: Vec<Vec<u8>>,
    /// The resolved place that was opened.
    place: Vec<u8>,
    /// What else was asked for.
    facts: Vec<Vec<u8>>,
    /// What was read behind that.
    rest: Vec<u8>,
}

/// Reads the head, or finds out why there is none.
async fn head(
    process: &mut Running,
    shell: &running::Shell,
    facts: usize,
    place: &[u8],
    wanted: &'static str,
) -> Result<Head, Fault> {
    match texts(&mut process.stdout, shell.mounts.len() + 1 + facts).await? {
        Some((mut mounts, rest)) => {
            let mut others = mounts.split_off(shell.mounts.len());
            let place = if others.is_empty() { Vec::new() } else { others.remove(0) };
            for (resolved, mount) in mounts.iter_mut().zip(&shell.mounts) {
                if resolved.is_empty() {
                    mount.path.as_bytes().clone_into(resolved);
                }
            }
            Ok(Head { mounts, place, facts: others, rest })
        }
        None => Err(match process.ended().await {
            Ended::With(44) => Fault::NotFound(spoken(place)),
            Ended::With(45) => Fault::Other { path: spoken(place), wanted },
            Ended::With(46) => Fault::Unreadable(spoken(place)),
            Ended::With(126 | 127) | Ended::NotStarted => {
                Fault::NoPrograms { pod: shell.pod.clone(), container: shell.container.clone() }
            }
            Ended::With(code) => Fault::Broken(format!("the script ended with {code}")),
            Ended::Unknown => Fault::Broken("the connection broke".to_owned()),
        }),
    }
}

/// Reads so many texts that end with a NUL, and what came with them; `None` if the stream ends before.
async fn texts(
    from: &mut (impl AsyncRead + Unpin),
    count: usize,
) -> Result<Option<(Vec<Vec<u8>>, Vec<u8>)>, Fault> {
    let mut read = Vec::new();
    loop {
        let ends: Vec<usize> =
            read.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at).take(count).collect();
        if let (true, Some(last)) = (ends.len() == count, ends.last()) {
            let rest = read.split_off(last + 1);
            read.pop();
            return Ok(Some((read.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect(), rest)));
        }
        if read.len() > MOST_HEAD_BYTES {
            return Err(Fault::Broken("its head is too long".to_owned()));
        }
        let got = from.read_buf(&mut read).await.map_err(|error| Fault::Broken(error.to_string()))?;
        if got == 0 {
            return Ok(None);
        }
    }
}

/// Parses the entries of a listing: letters for the type and for the type of a link's target, size, seconds, name. Malformed
/// entries are skipped.
fn entries(text: &[u8]) -> Vec<Entry> {
    let whole = text.iter().rposition(|byte| *byte == 0).and_then(|end| text.get(..end)).unwrap_or_default();
    whole.split(|byte| *byte == 0).filter_map(entry).collect()
}

fn entry(text: &[u8]) -> Option<Entry> {
    let mut parts = text.splitn(4, |byte| *byte == b' ');
    let (kinds, size, seconds, name) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if name.is_empty() || name.contains(&b'/') {
        return None;
    }
    let what = match kinds.get(1)? {
        b'd' => What::Folder,
        b'f' => What::File,
        _ => What::Other,
    };
    let is_link = kinds.first() == Some(&b'l');
    let size: u64 = number(size)?;
    Some(Entry {
        name: name.to_vec(),
        what,
        is_link,
        size: Some(size).filter(|_| what == What::File && !is_link),
        modified: number(seconds.split(|byte| *byte == b'.').next()?)
            .and_then(|seconds: i64| Timestamp::from_second(seconds).ok()),
    })
}

/// What `stat` prints with `%f %s %Y`.
fn status(text: &[u8]) -> Option<(u32, u64, Option<Timestamp>)> {
    let mut parts = text.split(|byte| byte.is_ascii_whitespace());
    let mode = u32::from_str_radix(std::str::from_utf8(parts.next()?).ok()?, 16).ok()?;
    let size = number(parts.next()?)?;
    let modified =
        parts.next().and_then(number).and_then(|seconds: i64| Timestamp::from_second(seconds).ok());
    Some((mode, size, modified))
}

fn number<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn is_regular(mode: u32) -> bool {
    mode & 0o170_000 == 0o100_000
}

#[cfg(test)]
mod tests;
