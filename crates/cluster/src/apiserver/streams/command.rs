//! A process and its client, whatever lies between them: input in, output and the end out.
//!
//! Knows neither frames nor channels. A client that goes away takes its streams along: the input ends, the outputs
//! close, a terminal hangs up.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::apiserver::kubelet::Process;

/// Messages that may wait in either direction; each is at most a few tens of kilobytes.
const MAX_QUEUED: usize = 8;
/// How long a process that has ended may leave its outputs open and silent, as one does that left a child behind.
const QUIET: Duration = Duration::from_millis(500);

/// What a client says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Input for the process.
    Stdin(Bytes),
    /// There will be no more of it.
    StdinEnd,
    /// The client's terminal has another size.
    Resize {
        /// Columns.
        columns: u16,
        /// Rows.
        rows: u16,
    },
}

/// What a client is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// Standard output.
    Stdout(Bytes),
    /// Standard error.
    Stderr(Bytes),
    /// The end: a `metav1.Status`.
    Status(Value),
}

/// The client's end of a session.
pub struct Client {
    /// What the client says; dropping it means that the client is gone.
    pub says: mpsc::Sender<Input>,
    /// What the client is to be told; it ends with the session.
    pub told: mpsc::Receiver<Told>,
}

/// The process' end of a session.
pub struct Session {
    said: mpsc::Receiver<Input>,
    tell: mpsc::Sender<Told>,
}

/// Both ends.
pub fn pair() -> (Client, Session) {
    let (says, said) = mpsc::channel(MAX_QUEUED);
    let (tell, told) = mpsc::channel(MAX_QUEUED);
    (Client { says, told }, Session { said, tell })
}

/// Carries on until the process has ended and all is told, or the client is gone.
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

/// How a process ended, as `cri-streaming/pkg/streaming/remotecommand/exec.go` tells it.
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
    fn an_end_is_told_as_a_kubelet_tells_it() {
        assert_eq!(status_of(Some(0))["status"], "Success");
        let status = status_of(Some(3));
        assert_eq!(status["details"]["causes"][0]["message"], "3");
        assert_eq!((&status["reason"], &status["status"]), (&json!("NonZeroExitCode"), &json!("Failure")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_leaves_its_output_open_is_not_waited_for() {
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
