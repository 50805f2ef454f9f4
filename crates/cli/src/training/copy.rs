//! `cp`: files and folders between this machine and a pod, as a tar archive through `exec`.
//!
//! An archive from a pod is not trusted: only files and folders are unpacked, and nothing outside of the destination.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use jobs::Class;
use jobs::artifacts::reader::{self, Reader};
use jobs::artifacts::{Fault, Wanted};
use jobs::exec::Choice;
use kube::api::AttachedProcess;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::exec::ending;
use super::several;
use crate::arguments::{CopyFiles, Global, Target};
use crate::connect::{Connection, connect};
use crate::console::Console;
use crate::failure::Failure;

/// The most that is shown of what `tar` in the pod complains about, in bytes.
const MAX_COMPLAINT_BYTES: u64 = 4096;

/// How long a pod that reads volumes may take until it runs.
const READER_PATIENCE: Duration = Duration::from_secs(120);
/// The size of a chunk, in bytes, and the number of chunks that wait to be written or sent.
const CHUNK_BYTES: usize = 64 * 1024;
const WAITING_CHUNKS: usize = 8;

/// A path in a pod of a job.
struct Remote<'a> {
    job: &'a str,
    path: &'a str,
}

/// `odh training cp FROM TO`
pub async fn run(console: &Console, global: &Global, asked: &CopyFiles) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    match (remote(&asked.from), remote(&asked.to)) {
        (Some(from), None) => download(console, &connection, asked, &from, Path::new(&asked.to)).await?,
        (None, Some(to)) => upload(&connection, asked, Path::new(&asked.from), &to).await?,
        _ => {
            return Err(Failure::usage(
                "exactly one of the two paths is in a pod",
                "write it as JOB:PATH, for example: odh training cp pi:/output/model.npz .",
            ));
        }
    }
    console.data(&format!("{} -> {}\n", asked.from, asked.to))?;
    Ok(0)
}

/// `JOB:PATH`; a path of this machine with a colon begins with `./` or `/`.
fn remote(text: &str) -> Option<Remote<'_>> {
    let (job, path) = text.split_once(':')?;
    let is_job = !job.is_empty() && !job.starts_with(['.', '/']) && !path.is_empty();
    is_job.then_some(Remote { job, path })
}

/// Where a command is to run that reads or writes an archive.
struct Place<'a> {
    connection: &'a Connection,
    kind: jobs::Kind,
    name: String,
    choice: Choice,
}

impl<'a> Place<'a> {
    async fn of(
        connection: &'a Connection,
        asked: &CopyFiles,
        job: &str,
        stdin: bool,
    ) -> Result<Self, Failure> {
        let target = Target { words: vec![job.to_owned()] };
        let (kind, name) = several::one(connection, &target).await?;
        let (worker, container) = (asked.worker.map(i32::from), asked.container.clone());
        Ok(Place { connection, kind, name, choice: Choice { worker, container, stdin, tty: false } })
    }

    /// Starts the command in the pod that was asked for.
    async fn start(&self, command: &[String]) -> Result<AttachedProcess, jobs::Error> {
        let Connection { client, namespace, .. } = self.connection;
        jobs::exec::exec(client, self.kind, namespace, &self.name, &self.choice, command).await
    }

    /// Starts the command in a pod that reads the volumes of the job, whose Launcher has ended; `None` if that has not, or there are
    /// no such volumes.
    async fn start_in_reader(
        &self,
        console: &Console,
        command: &[String],
    ) -> Result<Option<AttachedProcess>, Failure> {
        let Connection { client, namespace, .. } = self.connection;
        let (namespace, name, kind) = (namespace.clone(), self.name.clone(), self.kind);
        let wanted = Wanted { kind, namespace: namespace.clone(), name, worker: None };
        let told = |reader: &Reader| {
            console.note(&format!(
                "the Launcher of {} does not run: {} is started to read its volumes, and ends by itself",
                self.name, reader.pod
            ));
        };
        let pod = match reader::open(client, &wanted, READER_PATIENCE, told).await {
            Ok(pod) => pod,
            Err(Fault::NotNeeded | Fault::NothingKept) => return Ok(None),
            Err(Fault::Cluster(error)) => return Err((*error).into()),
            Err(fault) => return Err(Failure::new(Class::NotFound, "NoPod", fault.to_string())),
        };
        let process = jobs::exec::in_pod(client, &namespace, &pod, &Choice::default(), command).await?;
        Ok(Some(process))
    }
}

/// A process in a pod. Its streams share one connection, which waits for the one that nobody reads: so what it complains
/// about is read from the beginning, and its output must be read to the end.
struct Started {
    process: AttachedProcess,
    complaint: JoinHandle<Vec<u8>>,
}

impl Started {
    fn new(mut process: AttachedProcess) -> Started {
        let stderr = process.stderr();
        let complaint = tokio::spawn(async move {
            let mut kept = Vec::new();
            if let Some(mut stderr) = stderr {
                // What cannot be read is missing from the message, and nothing else.
                let _ = (&mut stderr).take(MAX_COMPLAINT_BYTES).read_to_end(&mut kept).await;
                let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            }
            kept
        });
        Started { process, complaint }
    }

    /// Waits for the end; what the process complained about is its failure. `read` is the path that it reads, if any.
    async fn finished(mut self, read: Option<&str>) -> Result<(), Failure> {
        let status = match self.process.take_status() {
            Some(status) => status.await,
            None => None,
        };
        let complaint = self.complaint.await.unwrap_or_default();
        match ending(status)? {
            0 => Ok(()),
            code => Err(refused(code, &String::from_utf8_lossy(&complaint), read)),
        }
    }
}

/// The failure of `tar` in the pod, by what it complained about.
fn refused(code: u8, complaint: &str, read: Option<&str>) -> Failure {
    // GNU's tar ends with 2 and goes on where it can, BusyBox's ends with 1.
    let missing = complaint.lines().any(|line| line.ends_with("No such file or directory"));
    if let Some(path) = read.filter(|_| missing) {
        return Failure::new(Class::NotFound, "FileNotFound", format!("{path} does not exist in the pod"));
    }
    let said = complaint.lines().next().unwrap_or("it says nothing");
    Failure::new(Class::Error, "Copy", format!("tar in the pod ended with {code}: {said}"))
}

async fn download(
    console: &Console,
    connection: &Connection,
    asked: &CopyFiles,
    from: &Remote<'_>,
    to: &Path,
) -> Result<(), Failure> {
    let (folder, name) = parts(from.path);
    let command = ["tar", "cf", "-", "-C", folder, "--", name].map(str::to_owned);
    let place = Place::of(connection, asked, from.job, false).await?;
    let is_any_pod = asked.worker.is_none() && asked.container.is_none();
    let process = match place.start(&command).await {
        Ok(process) => process,
        Err(error @ jobs::Error::NoPod { .. }) if is_any_pod => {
            place.start_in_reader(console, &command).await?.ok_or(error)?
        }
        Err(error) => return Err(error.into()),
    };
    let mut tar = Started::new(process);
    let Some(mut stdout) = tar.process.stdout() else { return tar.finished(Some(from.path)).await };
    let into = if to.is_dir() { to.join(name) } else { to.to_owned() };
    let (sender, chunks) = mpsc::channel(WAITING_CHUNKS);
    let unpacking =
        tokio::task::spawn_blocking(move || unpack(FromPod { chunks, left: io::Cursor::default() }, &into));
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(count @ 1..) = stdout.read(&mut chunk).await {
        // The padding after the end of the archive, or all after a fault here: it is read, but not needed.
        let _ = sender.send(chunk[..count].to_vec()).await;
    }
    drop(sender);
    let count = unpacking.await.map_err(io::Error::other).and_then(|unpacked| unpacked);
    tar.finished(Some(from.path)).await?;
    match count {
        Ok(0) => Err(Failure::new(Class::NotFound, "NotFound", format!("{} is empty", from.path))),
        Ok(_) => Ok(()),
        Err(error) => {
            Err(Failure::new(Class::Error, "Copy", format!("cannot write {}: {error}", to.display())))
        }
    }
}

/// What a pod sends, for a thread that reads it.
struct FromPod {
    chunks: mpsc::Receiver<Vec<u8>>,
    left: io::Cursor<Vec<u8>>,
}

impl Read for FromPod {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = Read::read(&mut self.left, buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            match self.chunks.blocking_recv() {
                Some(chunk) => self.left = io::Cursor::new(chunk),
                None => return Ok(0),
            }
        }
    }
}

/// What a thread writes for a pod.
struct ToPod(mpsc::Sender<Vec<u8>>);

impl Write for ToPod {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(bytes.to_vec());
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The folder of a path, and its name in there.
fn parts(path: &str) -> (&str, &str) {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((folder, name)) => (folder, name),
        None => (".", path.trim_end_matches('/')),
    }
}

/// Unpacks an archive whose files are all below one name, which becomes `into`; returns the number of files and folders.
fn unpack(stream: impl Read, into: &Path) -> io::Result<usize> {
    let mut archive = tar::Archive::new(stream);
    let mut count = 0;
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let kind = entry.header().entry_type();
        let inner: PathBuf = path.components().filter(|part| *part != Component::CurDir).skip(1).collect();
        if inner.components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(io::Error::other(format!("the archive holds {}", path.display())));
        }
        let place = if inner.as_os_str().is_empty() { into.to_owned() } else { into.join(&inner) };
        if kind.is_dir() {
            std::fs::create_dir_all(&place)?;
        } else if kind.is_file() {
            if let Some(folder) = place.parent() {
                std::fs::create_dir_all(folder)?;
            }
            write(&mut entry, &place)?;
        } else {
            continue;
        }
        count += 1;
    }
    Ok(count)
}

/// Writes a file of an archive in place of what is there, with the archive's permissions as far as this user's umask permits,
/// and never with those that change the user.
fn write(entry: &mut tar::Entry<'_, impl Read>, place: &Path) -> io::Result<()> {
    match std::fs::remove_file(place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mode = entry.header().mode()? & 0o777;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(place)?;
    io::copy(entry, &mut file).map(drop)
}

async fn upload(
    connection: &Connection,
    asked: &CopyFiles,
    from: &Path,
    to: &Remote<'_>,
) -> Result<(), Failure> {
    if !from.exists() {
        let message = format!("file not found: {}", from.display());
        return Err(Failure::new(Class::NotFound, "FileNotFound", message));
    }
    let own =
        from.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let place = Place::of(connection, asked, to.job, false).await?;
    let is_folder = Started::new(place.start(&["test", "-d", to.path].map(str::to_owned)).await?);
    let (folder, name) = match (is_folder.finished(None).await, own) {
        (Ok(()), Some(own)) => (to.path, own),
        _ => {
            let (folder, name) = parts(to.path);
            (folder, name.to_owned())
        }
    };
    let place = Place { choice: Choice { stdin: true, ..place.choice }, ..place };
    let mut tar = Started::new(place.start(&["tar", "xf", "-", "-C", folder].map(str::to_owned)).await?);
    let Some(mut stdin) = tar.process.stdin() else { return tar.finished(None).await };
    let from = from.to_owned();
    let (sender, mut chunks) = mpsc::channel::<Vec<u8>>(WAITING_CHUNKS);
    let packing = tokio::task::spawn_blocking(move || pack(&from, &name, ToPod(sender)).map(drop));
    while let Some(chunk) = chunks.recv().await {
        if stdin.write_all(&chunk).await.is_err() {
            break;
        }
    }
    drop(chunks);
    // Signals the end of the archive.
    let _ = stdin.shutdown().await;
    drop(stdin);
    let packed = packing.await.map_err(io::Error::other).and_then(|packed| packed);
    // If `tar` in the pod has failed, it knows better why.
    tar.finished(None).await?;
    packed.map_err(|error| Failure::new(Class::Error, "Copy", format!("cannot read {}: {error}", asked.from)))
}

/// Packs a file or a folder under a name; returns the stream. The named path is followed if it is a link; links in a folder
/// stay links, as with kubectl, because a stranger's folder may have links to any file of this machine.
fn pack<W: Write>(from: &Path, name: &str, stream: W) -> io::Result<W> {
    let mut archive = tar::Builder::new(stream);
    archive.follow_symlinks(false);
    let from = &from.canonicalize()?;
    match from.is_dir() {
        true => archive.append_dir_all(name, from)?,
        false => archive.append_path_with_name(from, name)?,
    }
    archive.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_a_folder_stay_links_and_a_named_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path().join("repository");
        std::fs::create_dir(&repository).unwrap();
        std::fs::write(folder.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink("../secret", repository.join("link")).unwrap();
        let kinds = |from: &Path| {
            let packed = pack(from, "to", Vec::new()).unwrap();
            let mut archive = tar::Archive::new(packed.as_slice());
            archive.entries().unwrap().map(|entry| entry.unwrap().header().entry_type()).collect::<Vec<_>>()
        };
        assert_eq!(kinds(&repository), [tar::EntryType::Directory, tar::EntryType::Symlink]);
        assert_eq!(kinds(&repository.join("link")), [tar::EntryType::Regular]);
    }

    #[test]
    fn paths_in_pods_are_told_from_paths_here() {
        let parsed = |text: &str| remote(text).map(|it| (it.job.to_owned(), it.path.to_owned()));
        let of = |job: &str, path: &str| Some((job.to_owned(), path.to_owned()));
        assert_eq!(parsed("pi:/output"), of("pi", "/output"));
        assert_eq!(parsed("mpijob/pi:a/b"), of("mpijob/pi", "a/b"));
        assert_eq!(parsed("@latest:/a:b"), of("@latest", "/a:b"));
        for local in ["model.npz", "./a:b", "/tmp/a:b", ":x", "pi:"] {
            assert_eq!(parsed(local), None, "{local}");
        }
        assert_eq!(parts("/output/"), ("/", "output"));
        assert_eq!(parts("/a/b/c"), ("/a/b", "c"));
        assert_eq!(parts("c"), (".", "c"));
    }

    #[test]
    fn what_is_packed_is_unpacked_under_its_new_name() {
        let folder = tempfile::tempdir().unwrap();
        let (source, copy) = (folder.path().join("results"), folder.path().join("copy"));
        std::fs::create_dir_all(source.join("deep")).unwrap();
        std::fs::write(source.join("deep/a"), "hello").unwrap();
        let bytes = pack(&source, "results", Vec::new()).unwrap();
        assert_eq!(unpack(&bytes[..], &copy).unwrap(), 3);
        assert_eq!(std::fs::read_to_string(copy.join("deep/a")).unwrap(), "hello");
        let bytes = pack(&source.join("deep/a"), "b", Vec::new()).unwrap();
        unpack(&bytes[..], &folder.path().join("c")).unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("c")).unwrap(), "hello");
    }

    #[test]
    fn a_missing_file_in_the_pod_is_not_found() {
        let gnu = "tar: nosuch: Cannot stat: No such file or directory\ntar: Exiting with failure status";
        let busybox = "tar: nosuch: No such file or directory";
        for complaint in [gnu, busybox] {
            let failure = refused(2, complaint, Some("/results/nosuch"));
            assert_eq!((failure.class, failure.exit_code()), (Class::NotFound, 3));
            assert_eq!(failure.message, "/results/nosuch does not exist in the pod");
            assert_eq!(refused(2, complaint, None).class, Class::Error);
        }
        let failure = refused(2, "tar: a: Cannot open: Permission denied", Some("/a"));
        assert_eq!(failure.message, "tar in the pod ended with 2: tar: a: Cannot open: Permission denied");
    }

    #[test]
    fn a_file_has_no_more_permissions_than_one_that_this_user_creates() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o4777);
        archive.append_data(&mut header, "tool", &b"!"[..]).unwrap();
        let bytes = archive.into_inner().unwrap();
        let place = folder.path().join("tool");
        let own = std::fs::OpenOptions::new().create(true).append(true).mode(0o777).open(&place).unwrap();
        let wanted = own.metadata().unwrap().permissions().mode();
        unpack(&bytes[..], &place).unwrap();
        assert_eq!(std::fs::metadata(&place).unwrap().permissions().mode(), wanted);
        assert_eq!(std::fs::read(&place).unwrap(), b"!");
    }

    #[test]
    fn an_archive_writes_nothing_outside_of_its_destination() {
        let folder = tempfile::tempdir().unwrap();
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        let name = b"x/../../outside";
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.set_cksum();
        archive.append(&header, &b"!"[..]).unwrap();
        let bytes = archive.into_inner().unwrap();
        assert!(unpack(&bytes[..], &folder.path().join("inner")).is_err());
        assert!(!folder.path().join("outside").exists());
    }
}
