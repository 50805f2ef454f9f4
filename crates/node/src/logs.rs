//! Container logs: written in the CRI format (`time stream P|F text`, one file per container run), rotated, bounded,
//! and read back with the options of `kubectl logs`.
//!
//! A run's log is a sequence of generations, of which the newest few are kept. Readers keep their file open, so
//! rotation never cuts a reader off.

mod read;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use self::read::Wanted;

/// A file of this size is rotated; kubelet's `containerLogMaxSize`.
const MAX_FILE_BYTES: u64 = 10 << 20;
/// Files kept per container run; kubelet's `containerLogMaxFiles`.
const MAX_FILES: u64 = 5;
/// A longer line is split into pieces tagged `P`; containerd's bound.
const MAX_PIECE_BYTES: usize = 16 << 10;
/// The most bytes of one read from a container.
const READ_BYTES: usize = 32 << 10;
/// The pipe capacity that an unprivileged process may set (`/proc/sys/fs/pipe-max-size`).
const MAX_PIPE_BYTES: usize = 1 << 20;
/// Simultaneous listeners to one container's output.
const MAX_TAPS: usize = 32;
/// Pieces of output queued for one listener. When the queue is full, the container waits for up to [`TAP_PATIENCE`].
const MAX_TAPPED_CHUNKS: usize = 16;
/// How long a container waits for a listener that reads nothing, before the listener is disconnected.
const TAP_PATIENCE: Duration = Duration::from_secs(10);

/// The log of one run of one container.
#[derive(Debug)]
pub struct RunLog {
    path: PathBuf,
    file: Mutex<Open>,
    state: watch::Sender<LogState>,
    taps: Mutex<Vec<Tap>>,
}

/// One of a container's two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Standard output, or a terminal.
    Out,
    /// Standard error.
    Error,
}

impl Output {
    /// Returns its name in a log file.
    fn name(self) -> &'static str {
        match self {
            Output::Out => "stdout",
            Output::Error => "stderr",
        }
    }
}

/// A listener that receives the output as it is written.
#[derive(Debug, Clone)]
struct Tap {
    output: Output,
    queue: mpsc::Sender<Bytes>,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LogState {
    generation: u64,
    writes: u64,
    drained: bool,
    closed: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn generation_path(path: &Path, generation: u64, newest: u64) -> PathBuf {
    if generation == newest { path.to_owned() } else { path.with_extension(format!("log.{generation}")) }
}

impl RunLog {
    /// Creates the log of one run at `path` (ending in `.log`), and its folder.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn create(path: PathBuf) -> io::Result<Arc<RunLog>> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = File::options().create(true).append(true).open(&path)?;
        let (state, _) = watch::channel(LogState { generation: 0, writes: 0, drained: false, closed: false });
        Ok(Arc::new(RunLog {
            path,
            file: Mutex::new(Open { file, bytes: 0 }),
            state,
            taps: Mutex::default(),
        }))
    }

    /// Returns the logs of the last `count` runs in a container's folder, oldest first, as an earlier process of this
    /// node left them. They are complete, because the containers ended with that process.
    pub fn recall(folder: &Path, count: usize) -> Vec<Arc<RunLog>> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        let names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        let mut runs: Vec<u64> =
            names.iter().filter_map(|name| name.strip_suffix(".log")?.parse().ok()).collect();
        runs.sort_unstable();
        let logs = runs.into_iter().filter_map(|run| {
            let older = |name: &String| name.strip_prefix(&format!("{run}.log."))?.parse::<u64>().ok();
            let generation = names.iter().filter_map(older).max().map_or(0, |last| last + 1);
            let path = folder.join(format!("{run}.log"));
            let file = File::open(&path).ok()?;
            let (state, _) = watch::channel(LogState { generation, writes: 0, drained: true, closed: true });
            Some(Arc::new(RunLog {
                path,
                file: Mutex::new(Open { file, bytes: 0 }),
                state,
                taps: Mutex::default(),
            }))
        });
        let mut logs: Vec<_> = logs.collect();
        logs.drain(..logs.len().saturating_sub(count));
        logs
    }

    /// Removes its files. Current readers can continue to read.
    pub fn remove(&self) {
        let newest = self.state.borrow().generation;
        for generation in (newest + 1).saturating_sub(MAX_FILES)..=newest {
            let _ = std::fs::remove_file(generation_path(&self.path, generation, newest));
        }
    }

    /// Reads the container's two pipes until both end, then closes the log. A terminal has only one pipe.
    ///
    /// Cancel `ended` when the container's process has ended. Other processes may keep its pipes open longer.
    /// Everything the container itself wrote is in the pipes by then, and [`RunLog::drained`] returns once it is in the
    /// log.
    pub async fn collect(
        self: Arc<Self>,
        out: pipe::Receiver,
        err: Option<pipe::Receiver>,
        ended: CancellationToken,
    ) {
        let open = AtomicUsize::new(1 + usize::from(err.is_some()));
        let drained = || {
            if open.fetch_sub(1, Ordering::Relaxed) == 1 {
                self.state.send_modify(|state| state.drained = true);
            }
        };
        let errors = async {
            if let Some(err) = err {
                self.collect_stream(Output::Error, err, &ended, drained).await;
            }
        };
        tokio::join!(self.collect_stream(Output::Out, out, &ended, drained), errors);
        self.state.send_modify(|state| state.closed = true);
        lock(&self.taps).clear();
    }

    /// Waits until everything that the container's process wrote is in the log.
    pub async fn drained(&self) {
        // The sender lives as long as we do.
        let _ = self.state.subscribe().wait_for(|state| state.drained || state.closed).await;
    }

    /// Waits until nothing more will be written.
    pub async fn closed(&self) {
        // The sender lives as long as we do.
        let _ = self.state.subscribe().wait_for(|state| state.closed).await;
    }

    /// Returns the output from now on, as it is written. The stream ends with the run, or when the listener reads
    /// nothing for [`TAP_PATIENCE`]. Returns `None` if there are already too many listeners.
    pub fn tap(&self, output: Output) -> Option<mpsc::Receiver<Bytes>> {
        let (queue, receiver) = mpsc::channel(MAX_TAPPED_CHUNKS);
        let mut taps = lock(&self.taps);
        if self.state.borrow().closed {
            return Some(receiver);
        }
        taps.retain(|tap| !tap.queue.is_closed());
        if taps.len() >= MAX_TAPS {
            return None;
        }
        taps.push(Tap { output, queue });
        Some(receiver)
    }

    async fn collect_stream(
        &self,
        output: Output,
        mut pipe: pipe::Receiver,
        ended: &CancellationToken,
        drained: impl FnOnce(),
    ) {
        let mut chunk = vec![0; READ_BYTES];
        let mut line = Vec::new();
        let mut drained = Some(drained);
        let mut left = MAX_PIPE_BYTES;
        loop {
            let count = if drained.is_some() && ended.is_cancelled() {
                // Read directly: the runtime's readiness of a pipe may be out of date.
                let count = nix::unistd::read(&pipe, &mut chunk).unwrap_or(0);
                left = left.saturating_sub(count);
                if count == 0 || left == 0 {
                    self.end_line(output, &mut line);
                    drained.take().into_iter().for_each(|tell| tell());
                }
                count
            } else {
                tokio::select! {
                    read = pipe.read(&mut chunk) => match read {
                        Ok(count @ 1..) => count,
                        // A terminal returns an error once no process has it open.
                        Ok(_) | Err(_) => break,
                    },
                    () = ended.cancelled(), if drained.is_some() => 0,
                }
            };
            self.pass_on(output, &chunk[..count]).await;
            for piece in chunk[..count].split_inclusive(|byte| *byte == b'\n') {
                self.take(output, &mut line, piece);
            }
        }
        self.end_line(output, &mut line);
        drained.into_iter().for_each(|tell| tell());
    }

    /// Writes the rest of a line that has no end.
    fn end_line(&self, output: Output, line: &mut Vec<u8>) {
        if !line.is_empty() {
            let _ = self.write(output.name(), false, line);
            line.clear();
        }
    }

    /// Appends to the current line, and writes it when it is complete or too long. A full disk must not end the
    /// container; its log has a gap instead.
    fn take(&self, output: Output, line: &mut Vec<u8>, mut piece: &[u8]) {
        while !piece.is_empty() {
            let room = MAX_PIECE_BYTES - line.len();
            let (now, later) = piece.split_at(room.min(piece.len()));
            line.extend_from_slice(now);
            piece = later;
            if line.last() == Some(&b'\n') {
                line.pop();
                let _ = self.write(output.name(), true, line);
                line.clear();
            } else if line.len() == MAX_PIECE_BYTES {
                let _ = self.write(output.name(), false, line);
                line.clear();
            }
        }
    }

    async fn pass_on(&self, output: Output, chunk: &[u8]) {
        let listening: Vec<Tap> =
            lock(&self.taps).iter().filter(|tap| tap.output == output).cloned().collect();
        for tap in listening {
            let sent = tap.queue.send_timeout(Bytes::copy_from_slice(chunk), TAP_PATIENCE).await;
            if sent.is_err() {
                lock(&self.taps).retain(|other| !other.queue.same_channel(&tap.queue));
            }
        }
    }

    fn write(&self, stream: &str, whole: bool, text: &[u8]) -> io::Result<()> {
        // The time is taken under the lock, so that the times of both streams' lines are in order.
        let mut open = lock(&self.file);
        let head = format!("{:.9} {stream} {} ", Timestamp::now(), if whole { 'F' } else { 'P' });
        let record = [head.as_bytes(), text, b"\n"].concat();
        if open.bytes + record.len() as u64 > MAX_FILE_BYTES {
            self.rotate(&mut open)?;
        }
        open.file.write_all(&record)?;
        open.bytes += record.len() as u64;
        self.state.send_modify(|state| state.writes += 1);
        Ok(())
    }

    fn rotate(&self, open: &mut Open) -> io::Result<()> {
        let generation = self.state.borrow().generation;
        std::fs::rename(&self.path, generation_path(&self.path, generation, generation + 1))?;
        *open = Open { file: File::options().create(true).append(true).open(&self.path)?, bytes: 0 };
        self.state.send_modify(|state| state.generation += 1);
        if let Some(old) = (generation + 2).checked_sub(MAX_FILES + 1) {
            let _ = std::fs::remove_file(generation_path(&self.path, old, generation + 1));
        }
        Ok(())
    }
}

/// Creates a pipe: the sender for a process, the receiver for us.
///
/// # Errors
/// When the process is out of file descriptors.
pub fn output_pipe() -> io::Result<(OwnedFd, pipe::Receiver)> {
    let (sender, receiver) = pipe::pipe()?;
    Ok((sender.into_blocking_fd()?, receiver))
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;

    async fn text(log: &Arc<RunLog>, wanted: Wanted) -> String {
        let parts: Vec<_> = log.read(wanted).unwrap().map(|part| part.unwrap().to_vec()).collect().await;
        String::from_utf8(parts.concat()).unwrap()
    }

    #[tokio::test]
    async fn lines_are_selected_by_options() {
        let dir = tempfile::tempdir().unwrap();
        let log = RunLog::create(dir.path().join("0.log")).unwrap();
        for number in 0..10 {
            log.write("stdout", true, format!("line {number}").as_bytes()).unwrap();
        }
        log.write("stderr", false, b"half").unwrap();
        log.write("stderr", true, b" whole").unwrap();
        let all = text(&log, Wanted::default()).await;
        assert!(all.starts_with("line 0\nline 1\n") && all.ends_with("line 9\nhalf whole\n"), "{all}");
        let tail = text(&log, Wanted { tail_lines: Some(2), ..Wanted::default() }).await;
        assert_eq!(tail, "line 9\nhalf whole\n");
        assert_eq!(text(&log, Wanted { tail_lines: Some(0), ..Wanted::default() }).await, "");
        assert_eq!(text(&log, Wanted { limit_bytes: Some(8), ..Wanted::default() }).await, "line 0\nl");
        let stamped = text(&log, Wanted { tail_lines: Some(1), timestamps: true, ..Wanted::default() }).await;
        let (time, rest) = stamped.split_once(' ').unwrap();
        assert!(time.parse::<Timestamp>().is_ok() && rest == "half whole\n", "{stamped}");
        let future = Timestamp::now() + jiff::SignedDuration::from_secs(60);
        assert_eq!(text(&log, Wanted { since: Some(future), ..Wanted::default() }).await, "");
        assert_eq!(log.last_words(1, 6), "whole\n");
    }

    #[tokio::test]
    async fn following_ends_with_the_container_and_survives_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let log = RunLog::create(dir.path().join("0.log")).unwrap();
        let follow = Wanted { follow: true, ..Wanted::default() };
        let reading = tokio::spawn({
            let log = Arc::clone(&log);
            async move { text(&log, follow).await }
        });
        let line = vec![b'x'; 1 << 20];
        for _ in 0..25 {
            log.write("stdout", true, &line).unwrap();
            tokio::task::yield_now().await;
        }
        log.state.send_modify(|state| state.closed = true);
        assert_eq!(reading.await.unwrap().len(), 25 * ((1 << 20) + 1));
        assert!(std::fs::read_dir(dir.path()).unwrap().count() <= 5);
    }

    #[tokio::test]
    async fn the_last_output_is_logged_even_if_another_process_holds_the_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let log = RunLog::create(dir.path().join("0.log")).unwrap();
        let (container, receiver) = output_pipe().unwrap();
        let survivor = container.try_clone().unwrap();
        let ended = CancellationToken::new();
        // Nothing has been read yet when the container ends, as on a busy machine.
        File::from(container).write_all(b"first\nlast").unwrap();
        ended.cancel();
        let collecting = tokio::spawn(Arc::clone(&log).collect(receiver, None, ended));
        log.drained().await;
        assert_eq!(text(&log, Wanted::default()).await, "first\nlast");
        assert!(!collecting.is_finished(), "the survivor is still heard");
        File::from(survivor).write_all(b"later\n").unwrap();
        collecting.await.unwrap();
        assert_eq!(text(&log, Wanted::default()).await, "first\nlastlater\n");
    }

    #[tokio::test]
    async fn old_log_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let log = RunLog::create(dir.path().join("0.log")).unwrap();
        let line = vec![b'x'; 5 << 20];
        for _ in 0..20 {
            log.write("stdout", true, &line).unwrap();
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 5);
        let all = text(&log, Wanted::default()).await;
        let (removed, rest) = all.split_once('\n').unwrap();
        let expected = "odh-node: up to 150 MiB of output were removed here by log rotation, which keeps the newest 50 MiB of a log";
        assert_eq!(removed, expected);
        assert_eq!(rest.len(), 5 * ((5 << 20) + 1));
        let tail = text(&log, Wanted { tail_lines: Some(3), ..Wanted::default() }).await;
        assert_eq!(tail.len(), 3 * ((5 << 20) + 1), "nothing is missing of the last lines");
        let last = log.read(Wanted { tail_lines: Some(1), timestamps: true, ..Wanted::default() });
        let last = last.unwrap().next().await.unwrap().unwrap();
        let since = std::str::from_utf8(&last[..30]).unwrap().trim().parse().ok();
        let recent = text(&log, Wanted { since, ..Wanted::default() }).await;
        assert_eq!(recent.len(), (5 << 20) + 1, "nor of those since a time");
    }
}
