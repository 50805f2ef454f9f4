//! Clients that do not read what they ask for: what that takes is bounded, and others are served.

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use service::Settings;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::stage::{JANE, PATIENCE, Stage, TEAM, VERA};

/// A request over HTTP/2 without content.
fn get_over_http2(stage: &Stage, path: &str, token: &str) -> Request<Full<Bytes>> {
    let mut request = Request::get(format!("{}{path}", stage.origin())).body(Full::default()).unwrap();
    if !token.is_empty() {
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    request
}

/// Whether a client at an address gets the page where one signs in.
async fn may_sign_in(stage: &Stage, source: Ipv4Addr) -> bool {
    let request = Request::get(format!("{}signin", stage.origin()))
        .body(tonic::body::Body::new(Full::new(Bytes::new())))
        .unwrap();
    let reply = tower::ServiceExt::oneshot(stage.channel_from(source).await, request).await.unwrap();
    reply.status() == 200 && reply.into_body().collect().await.is_ok()
}

#[tokio::test]
async fn responses_that_strangers_do_not_read_make_room_for_those_to_others_of_their_address() {
    let (stage, source) = (Stage::new().await, Ipv4Addr::new(127, 0, 0, 2));
    let (mut connections, mut unread) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let (mut sender, ended) = stage.without_window(source).await;
        for _ in 0..100 {
            let reply = sender.send_request(get_over_http2(&stage, "healthz", "")).await.unwrap();
            assert_eq!(reply.status(), 200);
            unread.push(reply);
        }
        connections.push((sender, ended));
    }
    let (_sender, oldest) = connections.remove(0);
    tokio::time::timeout(PATIENCE / 3, oldest).await.unwrap().unwrap();
    assert!(may_sign_in(&stage, source).await);
    assert!(connections.iter().all(|(_, ended)| !ended.is_finished()), "256 may be unread");
}

#[tokio::test]
async fn a_user_who_does_not_read_large_responses_is_refused_and_others_are_served() {
    let settings = Settings { rate: 10_000, burst: 10_000, unread: PATIENCE * 10, ..Settings::default() };
    let stage = Stage::with(settings).await;
    stage.job(TEAM, "big").await;
    stage.annotate(TEAM, "big", "example.org/notes", &"x".repeat(200_000)).await;
    let path = "api/v1/namespaces/team-cv/jobs/mpijob/big";
    let length = stage.get(&format!("/{path}"), VERA).await.text.len();
    assert!(length > 200_000, "{length}");
    let (mut connections, mut unread) = (Vec::new(), Vec::new());
    let status = 'refused: loop {
        let (mut sender, ended) = stage.without_window(Ipv4Addr::LOCALHOST).await;
        for _ in 0..100 {
            let reply = sender.send_request(get_over_http2(&stage, path, VERA)).await.unwrap();
            if reply.status() != 200 {
                break 'refused reply.status();
            }
            unread.push(reply);
            assert!(unread.len() * length <= 64 << 20, "{} responses are held", unread.len());
        }
        connections.push((sender, ended));
    };
    assert_eq!(status, 429);
    assert_eq!(stage.get("/api/v1/me", JANE).await.status, 200);
    drop((connections, unread));
    let served = async { while stage.get("/api/v1/me", VERA).await.status != 200 {} };
    tokio::time::timeout(PATIENCE, served).await.unwrap();
}

#[tokio::test]
async fn a_connection_ends_whose_client_does_not_read_a_response() {
    let stage = Stage::with(Settings { unread: Duration::from_millis(300), ..Settings::default() }).await;
    let (mut sender, ended) = stage.without_window(Ipv4Addr::LOCALHOST).await;
    let (_other_sender, other) = stage.without_window(Ipv4Addr::LOCALHOST).await;
    let reply = sender.send_request(get_over_http2(&stage, "api/v1/me", JANE)).await.unwrap();
    assert_eq!(reply.status(), 200);
    tokio::time::timeout(PATIENCE, ended).await.unwrap().unwrap();
    assert!(!other.is_finished(), "one without a response goes on");
}

#[tokio::test]
async fn one_hundred_responses_at_once_reach_a_user_who_reads_them() {
    let stage = Stage::new().await;
    stage.job(TEAM, "big").await;
    stage.annotate(TEAM, "big", "example.org/notes", &"x".repeat(200_000)).await;
    let channel = stage.channel().await;
    let read = (0..100).map(|_| {
        let path = "api/v1/namespaces/team-cv/jobs/mpijob/big";
        let (parts, body) = get_over_http2(&stage, path, JANE).into_parts();
        let request = Request::from_parts(parts, tonic::body::Body::new(body));
        let channel = channel.clone();
        async move {
            let reply = tower::ServiceExt::oneshot(channel, request).await.unwrap();
            assert_eq!(reply.status(), 200);
            reply.into_body().collect().await.unwrap().to_bytes().len()
        }
    });
    let lengths = tokio::time::timeout(PATIENCE, futures::future::join_all(read)).await.unwrap();
    assert!(lengths.iter().all(|length| *length > 200_000));
}

#[tokio::test]
async fn tls_handshakes_that_do_not_end_make_room_for_others_of_their_address() {
    let (stage, source) = (Stage::new().await, Ipv4Addr::new(127, 0, 0, 2));
    let mut begun = Vec::new();
    for _ in 0..257 {
        let mut stream = stage.tcp_from(source).await;
        // The beginning of a record with a ClientHello.
        stream.write_all(&[22, 3, 1]).await.unwrap();
        begun.push(stream);
    }
    // Before the time for a handshake is over.
    let mut buffer = [0; 16];
    let read = tokio::time::timeout(Duration::from_secs(5), begun[0].read(&mut buffer)).await;
    assert!(matches!(read, Ok(Ok(0) | Err(_))), "{read:?}");
    assert!(begun[256].read(&mut buffer).now_or_never().is_none());
    assert!(may_sign_in(&stage, source).await);
}
