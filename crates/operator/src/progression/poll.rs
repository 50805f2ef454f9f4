//! Asks a program for its progress: one bounded request, which follows no redirect.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::metrics::Progression;

/// A program answers by then or not at all, as for Trainer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest answer and the longest header, in bytes. The answer becomes an annotation, of which a job has little room.
const LONGEST_ANSWER: usize = 16 * 1024;
const LONGEST_HEAD: usize = 16 * 1024;

/// Returns the progress that a program answers at this address, if it does.
pub(super) async fn poll(address: SocketAddr) -> Option<Progression> {
    match tokio::time::timeout(PATIENCE, fetch(address)).await {
        Ok(Ok(answer)) => Progression::read(&String::from_utf8_lossy(&answer)),
        Ok(Err(error)) => {
            tracing::debug!(%address, %error, "a program did not answer with its progress");
            None
        }
        Err(_) => None,
    }
}

async fn fetch(address: SocketAddr) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
    let stream = TcpStream::connect(address).await?;
    let mut client = http1::Builder::new();
    let (mut sender, connection) = client.max_buf_size(LONGEST_HEAD).handshake(TokioIo::new(stream)).await?;
    let answer = async move {
        let request = Request::get("/metrics")
            .header(header::HOST, address.to_string())
            .header(header::CONNECTION, "close")
            .body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await?;
        if response.status() != StatusCode::OK {
            return Err(response.status().to_string().into());
        }
        let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await?;
        Ok(body.to_bytes())
    };
    // The connection ends with the request's sender and the body.
    tokio::join!(answer, connection).0
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// What is made of a program's answer.
    async fn polled(answer: String) -> Option<Progression> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answering = async move {
            let (mut peer, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let length = peer.read(&mut request).await.unwrap();
            assert!(request[..length].starts_with(b"GET /metrics HTTP/1.1\r\n"));
            // A client that has seen enough hangs up.
            let _ = peer.write_all(answer.as_bytes()).await;
        };
        tokio::join!(poll(address), answering).0
    }

    fn answer(status: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    #[tokio::test]
    async fn a_short_answer_is_read_and_anything_else_is_not() {
        let body = r#"{"progressPercentage": 45}"#;
        let found = polled(answer("200 OK", body)).await.unwrap();
        assert_eq!(found.progress_percentage, Some(45));
        let elsewhere = "302 Found\r\nlocation: http://127.0.0.1:1/metrics";
        let long = " ".repeat(LONGEST_ANSWER) + body;
        let head = format!("200 OK\r\nx: {}", "x".repeat(2 * LONGEST_HEAD));
        for refused in [
            answer("404 Not Found", body),
            answer(elsewhere, body),
            answer("200 OK", &long),
            answer(&head, body),
            answer("200 OK", "up 1"),
            String::new(),
        ] {
            assert_eq!(polled(refused).await, None);
        }
    }
}
