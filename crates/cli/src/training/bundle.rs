//! `support-bundle`: everything that somebody else needs to understand a job, or a cluster, in one file, without possible
//! secrets.

use std::fs::{self, File as Opened, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use jobs::Class;
use jobs::bundle::File;
use jobs::redaction::{clean, redact};

use super::several;
use crate::arguments::{Global, SupportBundle, Target};
use crate::connect::{Connection, connect};
use crate::console::Console;
use crate::failure::Failure;
use crate::local::home::Home;

/// The most bytes kept of the log of this machine's cluster.
const MAX_LOG_BYTES: u64 = 4 << 20;

/// `odh training support-bundle KIND NAME`
pub async fn run(console: &Console, global: &Global, asked: &SupportBundle) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let (name, mut files) = if asked.cluster {
        let files = jobs::bundle::of_cluster(&connection.client).await?;
        ("cluster".to_owned(), files.into_iter().chain(of_this_machine(&connection)).collect())
    } else {
        let target = Target { words: asked.words.clone() };
        let (kind, name) = several::one(&connection, &target).await?;
        let files = jobs::bundle::collect(&connection.client, kind, &connection.namespace, &name).await?;
        (name, files)
    };
    let name = name.as_str();
    files.push(File { path: "odh-version.txt".to_owned(), text: format!("{}\n", env!("CARGO_PKG_VERSION")) });
    let path = asked.file.clone().unwrap_or_else(|| PathBuf::from(format!("{name}-support.tar.gz")));
    let shown = path.display().to_string();
    let failed = |error: std::io::Error| {
        Failure::new(Class::Error, "Output", format!("cannot write {shown}: {error}"))
            .with_hint("choose another file with --file")
    };
    write(&path, name, &files).map_err(failed)?;
    console.data(&format!("{shown}\n"))?;
    console.note(&format!(
        "{} files; values of variables and annotations not known to be harmless, and text after words such as password or \
         token, were redacted; other secrets cannot be recognized: review the file before you share it",
        files.len()
    ));
    Ok(0)
}

/// The state and the end of the log of the cluster of this machine, if that is the one.
fn of_this_machine(connection: &Connection) -> Vec<File> {
    let Some(state) = &connection.local else { return Vec::new() };
    let mut state = serde_json::to_value(state).unwrap_or_default();
    clean(&mut state);
    let state = serde_json::to_string_pretty(&state).unwrap_or_default() + "\n";
    let log = Home::find().ok().and_then(|home| end_of(&home.log()).ok());
    [("local/state.json", Some(state)), ("local/odh.log", log.map(|log| redact(&log)))]
        .into_iter()
        .filter_map(|(path, text)| Some(File { path: path.to_owned(), text: text? }))
        .collect()
}

/// Returns the last [`MAX_LOG_BYTES`] of a file.
fn end_of(path: &Path) -> io::Result<String> {
    let mut file = Opened::open(path)?;
    let begin = file.metadata()?.len().saturating_sub(MAX_LOG_BYTES);
    file.seek(SeekFrom::Start(begin))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    Ok(String::from_utf8_lossy(&end).into_owned())
}

/// Writes the archive to the path. Because logs may be confidential, this always creates a new file that only the user
/// can read; a file or link of that name is replaced, not followed.
fn write(path: &Path, name: &str, files: &[File]) -> io::Result<()> {
    let (unfinished, file) = create_beside(path)?;
    let mut zipped = GzEncoder::new(file, Compression::default());
    let written = archive(&mut zipped, name, files)
        .and_then(|()| zipped.finish())
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// Creates a new file next to the given path; returns it with its own path.
fn create_beside(path: &Path) -> io::Result<(PathBuf, Opened)> {
    /// The maximum number of names to try.
    const TRIES: u32 = 100;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    for number in 0..TRIES {
        let unfinished = path.with_file_name(format!(".{name}.{}.{number}", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            outcome => return outcome.map(|file| (unfinished, file)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Writes the files into a folder with the job's name.
fn archive(to: impl Write, folder: &str, files: &[File]) -> std::io::Result<()> {
    let mut archive = tar::Builder::new(to);
    for file in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(u64::try_from(file.text.len()).unwrap_or(u64::MAX));
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or(0));
        archive.append_data(&mut header, format!("{folder}/{}", file.path), file.text.as_bytes())?;
    }
    archive.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_is_a_new_file_that_only_its_owner_reads() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (other, link, open) = (
            folder.path().join("other"),
            folder.path().join("link.tar.gz"),
            folder.path().join("open.tar.gz"),
        );
        fs::write(&other, "untouched").unwrap();
        symlink(&other, &link).unwrap();
        fs::write(&open, "before").unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
        for path in [&link, &open] {
            write(path, "pi", &[File { path: "a".to_owned(), text: "hello\n".to_owned() }]).unwrap();
            let kept = fs::symlink_metadata(path).unwrap();
            assert!(kept.is_file());
            assert_eq!(kept.permissions().mode() & 0o777, 0o600, "{}", path.display());
        }
        assert_eq!(fs::read_to_string(&other).unwrap(), "untouched");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing unfinished is left");
        assert!(write(Path::new("/"), "pi", &[]).is_err());
    }

    #[test]
    fn an_archive_holds_its_files() {
        let mut bytes = Vec::new();
        let files = [File { path: "logs/a.log".to_owned(), text: "hello\n".to_owned() }];
        archive(&mut bytes, "pi", &files).unwrap();
        let mut read = tar::Archive::new(&bytes[..]);
        let names: Vec<String> = read
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["pi/logs/a.log"]);
    }
}
