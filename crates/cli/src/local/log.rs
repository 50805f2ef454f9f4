//! The local cluster's log: the standard error of its process, in a file of limited size.
//!
//! The file is that process's standard error, so that panics and messages of a pod's first process go there too. It is
//! therefore never replaced: a full file is copied to `log.1` and truncated. Its writers continue at the beginning,
//! because it is opened for appending.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use super::home::{Home, unusable};
use crate::failure::Failure;

/// The maximum size of the file, in bytes; one more file of that size is kept.
const LARGEST: u64 = 10 << 20;
/// The default log filter, overridden by `ODH_LOG`.
const FILTER: &str = "info,kube=warn,hyper=warn,rustls=warn";

/// Creates an empty log for a cluster that is about to start.
pub fn create(home: &Home) -> Result<File, Failure> {
    let path = home.log();
    let made = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    made.and_then(|file| file.set_len(0).map(|()| file)).map_err(|error| unusable(&path, &error))
}

/// Makes this process log to its standard error: directly on a terminal, with a size limit to the log file.
pub fn start(home: &Home, detached: bool) {
    let filter = std::env::var("ODH_LOG").unwrap_or_else(|_| FILTER.to_owned());
    let logging = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        // It would print them to standard error, which is the very log that cannot be written, and panic.
        .log_internal_errors(false)
        .with_ansi(false);
    let file = detached.then(|| io::stderr().as_fd().try_clone_to_owned().ok()).flatten().map(File::from);
    let _ = match file {
        Some(file) => {
            let bounded = Bounded { file, path: home.log(), old: home.old_log(), largest: LARGEST };
            logging.with_writer(std::sync::Mutex::new(bounded)).try_init()
        }
        None => logging.with_writer(io::stderr).try_init(),
    };
}

/// A file opened for appending that is truncated when it is full; its former content is kept in another file. What cannot
/// be written, because the disk is full, is lost: a cluster without a log is better than none.
struct Bounded {
    file: File,
    path: PathBuf,
    old: PathBuf,
    largest: u64,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Other processes write to the file too, so its size is read and not counted.
        let metadata = self.file.metadata()?;
        if metadata.is_file() && metadata.len().saturating_add(bytes.len() as u64) > self.largest {
            self.empty()?;
        }
        match self.file.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(bytes.len()),
            outcome => outcome,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Bounded {
    fn empty(&self) -> io::Result<()> {
        // The limit applies even if there is no room for the copy.
        if std::fs::copy(&self.path, &self.old).is_err() {
            let _ = std::fs::remove_file(&self.old);
        }
        self.file.set_len(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_loses_log_lines_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = OpenOptions::new().append(true).open("/dev/full").unwrap();
        assert_eq!((&file).write(b"x").unwrap_err().kind(), io::ErrorKind::StorageFull);
        let (path, old) = (folder.path().join("log"), folder.path().join("log.1"));
        let mut log = Bounded { file, path, old, largest: 8 };
        assert_eq!(log.write(b"a line\n").unwrap(), 7);
    }

    #[test]
    fn a_full_log_is_kept_once_and_truncated() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("log"), folder.path().join("log.1"));
        let open = || OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let mut log = Bounded { file: open(), path: path.clone(), old: old.clone(), largest: 8 };
        let mut another = open();
        for line in ["one\n", "two\n", "three\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        another.write_all(b"panic\n").unwrap();
        let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
        assert_eq!((read(&old).as_str(), read(&path).as_str()), ("one\ntwo\n", "three\npanic\n"));
        log.write_all(b"four\n").unwrap();
        assert_eq!((read(&old).as_str(), read(&path).as_str()), ("three\npanic\n", "four\n"));
    }
}
