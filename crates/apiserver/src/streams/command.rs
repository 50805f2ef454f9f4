//! Connects a process to its client, independently of the protocol: input in, output and status out.
//!
//! When the client disconnects, its streams close: standard input ends, the outputs close, a terminal hangs
//! up.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use kubelet::Process;

/// The maximum number of queued messages per direction; each has at most a few tens of kilobytes.
const MAX_QUEUED: usize = 8;
/// How long to wait for more output after the process has ended; a child process may keep the outputs open.
const QUIET: Duration = Duration::from_millis(500);

/// A message from the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Data for standard input.
    Stdin(Bytes),
    /// The end of standard input.
    StdinEnd,
    /// The new size of the client's terminal.
    Resize {
        /// Columns.
        columns: u16,
        /// Rows.
        rows: u16,
    },
}

/// A message to the client.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// Standard output.
    Stdout(Bytes),
    /// Standard error.
    Stderr(Bytes),
    /// The final `metav1.Status`.
    Status(Value),
}

/// The client's end of a session.
pub struct Client {
    /// Messages from the client; dropping the sender means that it has disconnected.
    pub says: mpsc::Sender<Input>,
    /// Messages to the client; closed at the end of the session.
    pub told: mpsc::Receiver<Told>,
}

/// The process's end of a session.
pub struct Session {
    said: mpsc::Receiver<Input>,
    tell: mpsc::Sender<Told>,
}

/// Creates both ends of a session.
pub fn pair() -> (Client, Session) {
    let (says, said) = mpsc::channel(MAX_QUEUED);
    let (tell, told) = mpsc::channel(MAX_QUEUED);
    (Client { says, told }, Session { said, tell })
}

/// Runs the session until the process has ended and its output is sent, or the client disconnects.
pub async fn carry(process: Result<Process, String>, session: Session) {
    let Session { mut said, tell } = session;
    let process = match process {
        Ok(process) => process,
        Err(why) => return drop(tell.send(Told::Status(failed(&why))).await),
    };
    let Process { mut stdin, stdout, stderr, resize, ended } = process;
    let listen = async {
        while let Some(input) = said.recv().await {
            match (input, &stdin, &resize) {
                (Input::Stdin(bytes), Some(to), _) => {
                    if to.send(bytes).await.is_err() {
                        stdin = None;
                    }
                }
                (Input::StdinEnd, ..) => stdin = None,
                (Input::Resize { columns, rows }, _, Some(resize)) => resize(columns, rows),
                (Input::Stdin(_) | Input::Resize { .. }, ..) => {}
            }
        }
    };
    let over = CancellationToken::new();
    let outputs = async {
        tokio::join!(copy(stdout, &tell, Told::Stdout, &over), copy(stderr, &tell, Told::Stderr, &over));
    };
    let end = async {
        let code = ended.await;
        over.cancel();
        code
    };
    let finish = async {
        let ((), code) = tokio::join!(outputs, end);
        let _ = tell.send(Told::Status(status_of(code))).await;
    };
    tokio::select! {
        () = finish => {}
        () = listen => {}
    }
}

async fn copy(
    stream: Option<BoxStream<'static, Bytes>>,
    tell: &mpsc::Sender<Told>,
    wrap: fn(Bytes) -> Told,
    over: &CancellationToken,
) {
    let Some(mut stream) = stream else { return };
    loop {
        let quiet = async {
            over.cancelled().await;
            tokio::time::sleep(QUIET).await;
        };
        let chunk = tokio::select! {
            biased;
            chunk = stream.next() => chunk,
            () = quiet => None,
        };
        let Some(chunk) = chunk else { return };
        if tell.send(wrap(chunk)).await.is_err() {
            return;
        }
    }
}

/// Converts an exit code to a status, as `cri-streaming/pkg/streaming/remotecommand/exec.go` does.
fn status_of(code: Option<i32>) -> Value {
    match code {
        None | Some(0) => json!({"metadata": {}, "status": "Success"}),
        Some(code) => json!({"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]}}),
    }
}

fn failed(why: &str) -> Value {
    let why = format!("error executing command in container: {why}");
    json!({"metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
        "message": format!("Internal error occurred: {why}"), "details": {"causes": [{"message": why}]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_reported_like_a_kubelets() {
        assert_eq!(status_of(Some(0))["status"], "Success");
        let status = status_of(Some(3));
        assert_eq!(status["details"]["causes"][0]["message"], "3");
        assert_eq!((&status["reason"], &status["status"]), (&json!("NonZeroExitCode"), &json!("Failure")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_even_if_the_output_stays_open() {
        let (sender, receiver) = mpsc::channel::<Bytes>(1);
        sender.send(Bytes::from_static(b"last")).await.unwrap();
        let stdout = futures::stream::unfold(receiver, |mut r| async move { Some((r.recv().await?, r)) });
        let ended = Box::pin(futures::future::ready(Some(0)));
        let process =
            Process { stdin: None, stdout: Some(stdout.boxed()), stderr: None, resize: None, ended };
        let (mut client, session) = pair();
        let carried = tokio::spawn(carry(Ok(process), session));
        assert_eq!(client.told.recv().await, Some(Told::Stdout(Bytes::from_static(b"last"))));
        assert_eq!(client.told.recv().await, Some(Told::Status(status_of(Some(0)))));
        carried.await.unwrap();
        drop(sender);
    }
}
