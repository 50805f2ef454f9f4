//! `exec`: runs a command in one of a job's pods, with a terminal if requested; ends with the command's own exit code.

use std::io::{IsTerminal, Read, Write};

use jobs::Class;
use jobs::exec::Choice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::TerminalSize;
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::several;
use crate::arguments::{Exec, Global};
use crate::connect::connect;
use crate::console::Console;
use crate::failure::Failure;

/// The size of a chunk, in bytes.
const CHUNK_BYTES: usize = 16 * 1024;
/// The number of chunks of standard input waiting to be sent.
const WAITING_CHUNKS: usize = 4;

/// `odh training exec KIND NAME -- COMMAND`
pub async fn run(console: &Console, global: &Global, asked: &Exec) -> Result<u8, Failure> {
    let tty = asked.tty && std::io::stdin().is_terminal();
    if asked.tty && !tty {
        console.warn("standard input is not a terminal, so the command gets no terminal");
    }
    let connection = connect(console, global).await?;
    let choice = Choice {
        worker: asked.worker.map(i32::from),
        container: asked.container.clone(),
        stdin: asked.stdin,
        tty,
    };
    let (kind, name) = several::one(&connection, &asked.target).await?;
    let (client, namespace) = (&connection.client, &connection.namespace);
    let mut process = jobs::exec::exec(client, kind, namespace, &name, &choice, &asked.command).await?;
    let _raw = tty.then(Raw::set);
    if let Some(mut sizes) = process.terminal_size().filter(|_| tty) {
        tokio::spawn(tell_sizes(move |size| sizes.try_send(size).is_ok()));
    }
    if let Some(stdin) = process.stdin().filter(|_| asked.stdin) {
        tokio::spawn(send(stdin));
    }
    let (out, err) = (process.stdout(), process.stderr());
    let status = process.take_status();
    let (out, err) = tokio::join!(pass_on(out, std::io::stdout()), pass_on(err, std::io::stderr()));
    out.and(err)?;
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    ending(status)
}

/// The command's exit code, or why it did not start.
pub fn ending(status: Option<Status>) -> Result<u8, Failure> {
    let Some(status) = status else {
        return Err(Failure::new(
            Class::Error,
            "BrokenStream",
            "the connection broke before the command ended",
        ));
    };
    if status.status.as_deref() == Some("Success") {
        return Ok(0);
    }
    let causes = status.details.iter().flat_map(|details| details.causes.iter().flatten());
    let code = causes
        .filter(|cause| cause.reason.as_deref() == Some("ExitCode"))
        .find_map(|cause| cause.message.as_deref()?.parse::<u8>().ok());
    match code {
        Some(code) => Ok(code),
        None => Err(Failure::new(
            Class::Error,
            status.reason.as_deref().unwrap_or("Exec"),
            status.message.unwrap_or_else(|| "the command could not be run".to_owned()),
        )),
    }
}

async fn pass_on(from: Option<impl AsyncRead + Unpin>, mut to: impl Write) -> Result<(), Failure> {
    let Some(mut from) = from else { return Ok(()) };
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match from.read(&mut chunk).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(count) => {
                let written = to.write_all(&chunk[..count]).and_then(|()| to.flush());
                written.map_err(|error| {
                    Failure::new(Class::Error, "Output", format!("cannot write the output: {error}"))
                })?;
            }
        }
    }
}

/// Sends standard input. A separate thread reads it, because a read from a terminal cannot be cancelled; the thread
/// ends with the process.
async fn send(mut to: impl AsyncWrite + Unpin) {
    let (sender, mut chunks) = mpsc::channel::<Vec<u8>>(WAITING_CHUNKS);
    std::thread::spawn(move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        while let Ok(count) = std::io::stdin().read(&mut chunk) {
            if count == 0 || sender.blocking_send(chunk[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    while let Some(chunk) = chunks.recv().await {
        if to.write_all(&chunk).await.and(to.flush().await).is_err() {
            return;
        }
    }
    // Signals the end of input to the command.
    let _ = to.shutdown().await;
}

/// Reports the terminal's size now and whenever it changes; `tell` returns whether the receiver still exists.
async fn tell_sizes(mut tell: impl FnMut(TerminalSize) -> bool) {
    let Ok(mut changed) = signal(SignalKind::window_change()) else { return };
    loop {
        if let Some((width, height)) = terminal_size::terminal_size()
            && !tell(TerminalSize { width: width.0, height: height.0 })
        {
            return;
        }
        if changed.recv().await.is_none() {
            return;
        }
    }
}

/// Puts the terminal into raw mode, which passes on every key; restores it when dropped.
struct Raw(Option<Termios>);

impl Raw {
    fn set() -> Raw {
        let stdin = std::io::stdin();
        let Ok(before) = tcgetattr(&stdin) else { return Raw(None) };
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        let _ = tcsetattr(&stdin, SetArg::TCSANOW, &raw);
        Raw(Some(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, before);
        }
    }
}
