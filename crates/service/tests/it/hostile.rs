//! Hostile and broken input: every answer says what is wrong, none is a server error.

use std::net::Ipv4Addr;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use service::{METHODS, Settings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinHandle;

use crate::line::Trouble;
use crate::stage::{ADMIN, Channel, JANE, PATIENCE, Stage, VERA, request, rest_of};

const JOBS: &str = "/api/v1/namespaces/team-cv/jobs";

#[tokio::test]
async fn paths_that_try_to_leave_their_place_are_refused() {
    let stage = Stage::new().await;
    for path in [
        "/api/v1/namespaces/team-cv/jobs/mpijob/..%2f..%2fsecrets",
        "/api/v1/namespaces/team-cv/jobs/mpijob/%2e%2e",
        "/api/v1/namespaces/team-cv/jobs/mpijob/a%3fwatch=true",
        "/api/v1/namespaces/team-cv/jobs/mpijob/a%00b",
        "/api/v1/namespaces/team-cv/jobs/mpijob/a%0d%0ax:y",
        "/api/v1/namespaces/team-cv/jobs/secret/a",
        "/api/v1/namespaces/..%2fkube-system/jobs/mpijob/a",
        "/api/v1/namespaces/team-cv/jobs/mpijob/%ff",
        "/api/v1/namespaces/team-cv/jobs/mpijob/",
        "/api/v1/namespaces//jobs/mpijob/a",
        "/api/v1/../../etc/passwd",
        "//api/v1/jobs",
        "/api/v2/jobs",
        "/training.v1.Training/Nothing",
    ] {
        let reply = stage.get(path, ADMIN).await;
        assert!(
            (400..500).contains(&reply.status) || reply.headers.contains_key("grpc-status"),
            "{path}: {} {}",
            reply.status,
            reply.text
        );
    }
}

#[tokio::test]
async fn bodies_that_cannot_be_read_are_refused_with_a_reason() {
    let stage = Stage::new().await;
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let bombs = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
    let table: Vec<(Bytes, &str, u16)> = vec![
        ("{".into(), "application/json", 400),
        ("[]".into(), "application/json", 400),
        ("\"x\"".into(), "application/json", 400),
        (deep.into(), "application/json", 400),
        (Bytes::from_static(b"\xff\xfe"), "application/json", 400),
        (Bytes::from_static(b"\xff\xfe"), "application/yaml", 400),
        ("{}".into(), "application/json", 422),
        ("{}".into(), "text/html", 415),
        ("{\"unknown\": 1}".into(), "application/json", 400),
        ("{\"spec\": {\"workers\": \"two\"}}".into(), "application/json", 400),
        ("{\"spec\": {\"workers\": 99999999999}}".into(), "application/json", 400),
        ("{\"manifest\": \"a: [\"}".into(), "application/json", 422),
        ("{\"manifest\": \"x\", \"spec\": {}}".into(), "application/json", 422),
        ("{\"namespace\": \"team-nlp\", \"manifest\": \"x\"}".into(), "application/json", 400),
        (json!({ "manifest": bombs }).to_string().into(), "application/json", 422),
        (
            "kind: MPIJob\napiVersion: kubeflow.org/v2beta1\nmetadata: []\nspec: 5\n".into(),
            "application/yaml",
            422,
        ),
        ("kind: PyTorchJob\napiVersion: kubeflow.org/v1\n".into(), "application/yaml", 422),
        ("kind: Secret\napiVersion: v1\nmetadata: {name: a}\n".into(), "application/yaml", 422),
        (Bytes::from(vec![b' '; 5 << 20]), "application/json", 413),
    ];
    for (body, content_type, status) in table {
        let shown: String = String::from_utf8_lossy(&body).chars().take(60).collect();
        let mut sent = request("POST", JOBS, JANE, None);
        *sent.body_mut() = Full::new(body);
        sent.headers_mut().insert("content-type", content_type.parse().unwrap());
        let reply = stage.send(sent).await;
        assert_eq!(reply.status, status, "{shown}: {}", reply.text);
        assert_eq!(reply.headers["content-type"], "application/problem+json", "{shown}");
        assert!(!reply.json()["message"].as_str().unwrap().is_empty(), "{shown}");
    }
}

#[tokio::test]
async fn aliases_of_a_long_text_are_refused_with_their_place() {
    let stage = Stage::new().await;
    let bomb = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(1_000_000), vec!["*a"; 2_000].join(", "));
    let reply = stage.rest("POST", JOBS, JANE, Some(json!({ "manifest": bomb }))).await;
    assert_eq!(reply.status, 422, "{:.300}", reply.text);
    for part in ["2:13", "anchors and aliases repeat more than 3 MiB"] {
        assert!(reply.text.contains(part), "{:.300}", reply.text);
    }
}

#[tokio::test]
async fn wrong_values_of_every_parameter_are_refused_and_break_nothing() {
    let stage = Stage::new().await;
    let values = [
        "",
        "-1",
        "99999999999999999999",
        "%00",
        "%ff",
        "a%20b",
        "%27%22%3Cscript%3E",
        "%F0%9F%92%A5",
        "..%2f",
    ];
    let long = "x".repeat(8_000);
    for method in METHODS.iter().filter(|method| !method.body) {
        let path =
            method.path.replace("{namespace}", "team-cv").replace("{kind}", "mpijob").replace("{name}", "a");
        for field in method.fields {
            for value in values.iter().copied().chain([long.as_str()]) {
                let reply = stage
                    .open(request(method.verb, &format!("{path}?{}={value}", field.name), JANE, None))
                    .await;
                let status = reply.status().as_u16();
                assert!(status < 500, "{} {}={value:.20}: {status}", method.name, field.name);
            }
        }
    }
}

#[tokio::test]
async fn an_unknown_parameter_is_named_with_the_one_that_was_meant() {
    let stage = Stage::new().await;
    let refused = stage.get("/api/v1/jobs?namspace=team-cv", JANE).await;
    let problem = refused.json();
    assert_eq!((refused.status, &problem["fields"][0]["path"]), (400, &json!("namspace")));
    assert_eq!(problem["hint"], "did you mean \"namespace\"?");
    assert_eq!(stage.get("/api/v1/jobs?limit=1&limit=2", JANE).await.status, 400);
    assert_eq!(stage.get("/api/v1/jobs?limit=501", JANE).await.status, 422);
    assert_eq!(stage.get("/api/v1/jobs?continue=zzz", JANE).await.status, 422);
    assert_eq!(stage.rest("PUT", "/api/v1/jobs", JANE, None).await.status, 405);
    let cancel = "/api/v1/namespaces/team-cv/jobs/tfjob/a/cancel";
    assert_eq!(stage.rest("POST", cancel, ADMIN, None).await.status, 400, "only MPIJobs can be cancelled");
}

#[tokio::test]
async fn credentials_that_are_none_are_refused() {
    let stage = Stage::new().await;
    for authorization in [
        "",
        "Bearer",
        "Bearer ",
        "Basic amFuZTpqYW5l",
        "Bearer a b",
        &format!("Bearer {}", "x".repeat(17_000)),
    ] {
        let mut sent = request("GET", "/api/v1/me", "", None);
        sent.headers_mut().insert("authorization", authorization.parse().unwrap());
        let reply = stage.send(sent).await;
        assert_eq!(reply.status, 401, "{authorization:.20}: {}", reply.text);
    }
    let mut two = request("GET", "/api/v1/me", JANE, None);
    two.headers_mut().append("authorization", format!("Bearer {ADMIN}").parse().unwrap());
    assert_eq!(stage.send(two).await.status, 401, "two tokens are two callers");
}

#[tokio::test]
async fn wrong_bodies_of_every_method_are_refused_in_words_and_break_nothing() {
    let stage = Stage::new().await;
    let values = [
        json!(null),
        json!(-1),
        json!(1.5),
        json!(99_999_999_999_i64),
        json!(true),
        json!(""),
        json!("../../x\u{0}\r\n"),
        json!("x".repeat(100_000)),
        json!([[]]),
        json!([{ "a": 1 }]),
        json!({ "a": { "b": [] } }),
        json!(vec!["x"; 5_000]),
    ];
    for method in METHODS.iter().filter(|method| method.body) {
        let example: Value = serde_json::from_str(method.example).unwrap();
        let (path, body) = rest_of(method, &example);
        for field in
            method.fields.iter().filter(|field| !method.path.contains(&format!("{{{}}}", field.name)))
        {
            for value in &values {
                let mut body = body.clone().unwrap();
                body[field.name] = value.clone();
                let reply = stage.rest(method.verb, &path, JANE, Some(body)).await;
                let shown: String = value.to_string().chars().take(40).collect();
                assert!(reply.status < 500, "{} {}={shown}: {}", method.name, field.name, reply.text);
                for word in ["invalid type", "invalid value", "expected ", "i32", "struct ", "variant"] {
                    let problem = reply.status >= 400 && reply.text.contains(word);
                    assert!(
                        !problem,
                        "{} {}={shown} names \"{word}\": {}",
                        method.name, field.name, reply.text
                    );
                }
            }
        }
        for sent in ["{", "[]", "null", "\u{0}", "{\"a\":", "{\"a\": 1}"] {
            let mut broken = request(method.verb, &path, JANE, None);
            *broken.body_mut() = Full::new(sent.into());
            let reply = stage.send(broken).await;
            assert_eq!(reply.status, 400, "{} {sent:?}: {}", method.name, reply.text);
        }
        let mut huge = request(method.verb, &path, JANE, None);
        *huge.body_mut() = Full::new(Bytes::from(vec![b' '; 5 << 20]));
        assert_eq!(stage.send(huge).await.status, 413, "{}", method.name);
    }
}

/// Sends bytes as a gRPC call; returns the status code of the call.
async fn over_grpc(channel: &mut Channel, stage: &Stage, method: &str, body: Bytes) -> String {
    let request = Request::post(format!("{}training.v1.Training/{method}", stage.origin()))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", format!("Bearer {JANE}"))
        .body(tonic::body::Body::new(Full::new(body)))
        .unwrap();
    let reply = tower::ServiceExt::ready(channel).await.unwrap();
    let reply = tower::Service::call(reply, request).await.unwrap();
    assert_eq!(reply.status(), 200, "{method}");
    if let Some(code) = reply.headers().get("grpc-status") {
        return code.to_str().unwrap().to_owned();
    }
    let read = reply.into_body().collect().await.unwrap();
    read.trailers().unwrap()["grpc-status"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn wrong_messages_of_every_method_over_grpc_are_refused_and_break_nothing() {
    let stage = Stage::new().await;
    let framed = |message: &[u8]| {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        Bytes::from([&[0][..], &length, message].concat())
    };
    // Bytes that are no message, a field with a broken length, text that is not UTF-8, a frame that ends too soon, one
    // that claims to be compressed, and one that is too large.
    let broken = [
        framed(&[0xff; 100]),
        framed(&[0x0a, 0x7f, b'a']),
        framed(&[0x0a, 0x02, 0xff, 0xfe]),
        Bytes::from_static(&[0, 0, 0, 0, 9, 1]),
        Bytes::from_static(&[1, 0, 0, 0, 1, 1]),
        Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff, 1]),
    ];
    let mut channel = stage.channel().await;
    for method in METHODS {
        for bytes in &broken {
            let code = over_grpc(&mut channel, &stage, method.name, bytes.clone()).await;
            // InvalidArgument; Internal for a compression that no header names, as gRPC has it (doc/compression.md).
            let expected = if bytes[0] == 1 { "13" } else { "3" };
            assert_eq!(code, expected, "{} {bytes:?}", method.name);
        }
    }
    assert_eq!(stage.get("/api/v1/me", JANE).await.status, 200);
}

#[tokio::test]
async fn a_stranger_holds_no_memory_by_methods_that_need_no_account() {
    let stage = Stage::new().await;
    let mut channel = stage.channel().await;
    // Reflection ends the stream of a caller that it cannot read; the others say why.
    for (path, expected) in [
        ("grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "0"),
        ("grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "0"),
        ("grpc.health.v1.Health/Check", "3"),
        ("grpc.health.v1.Health/Watch", "3"),
    ] {
        // A message of 1 MiB that begins and never ends.
        let begun = [&[0][..], &(1_u32 << 20).to_be_bytes(), &[b' '; 20 << 10]].concat();
        let begun =
            futures::stream::iter([Ok::<_, std::convert::Infallible>(http_body::Frame::data(begun.into()))]);
        let endless = futures::StreamExt::chain(begun, futures::stream::pending());
        let request = Request::post(format!("{}{path}", stage.origin()))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(tonic::body::Body::new(http_body_util::StreamBody::new(endless)))
            .unwrap();
        let answered = async {
            let ready = tower::ServiceExt::ready(&mut channel).await.unwrap();
            let reply = tower::Service::call(ready, request).await.unwrap();
            match reply.headers().get("grpc-status") {
                Some(code) => code.clone(),
                None => reply.into_body().collect().await.unwrap().trailers().unwrap()["grpc-status"].clone(),
            }
        };
        let code = tokio::time::timeout(PATIENCE / 3, answered).await.unwrap();
        assert_eq!(code, expected, "{path}");
    }
}

#[tokio::test]
async fn one_address_has_a_bounded_number_of_open_calls_of_reflection() {
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;

    let stage = Stage::new().await;
    let mut reflection = ServerReflectionClient::with_origin(stage.channel().await, stage.origin());
    let mut open = Vec::new();
    for _ in 0..8 {
        let (asker, asks) = futures::channel::mpsc::unbounded::<ServerReflectionRequest>();
        open.push((asker, reflection.server_reflection_info(asks).await.unwrap()));
    }
    let nothing = futures::stream::empty::<ServerReflectionRequest>;
    let refused = reflection.server_reflection_info(nothing()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused:?}");
    assert_eq!(stage.get("/api/v1/me", JANE).await.status, 200, "all else is served");
    open.clear();
    // The service hears of it a moment later.
    let opened = async { while reflection.server_reflection_info(nothing()).await.is_err() {} };
    tokio::time::timeout(PATIENCE, opened).await.unwrap();
}

/// A request with many small fields, over HTTP/2.
fn with_fields(
    stage: &Stage,
    path: &str,
    fields: usize,
    body: tonic::body::Body,
) -> Request<tonic::body::Body> {
    let origin = stage.origin().to_string();
    let mut request = Request::post(format!("{origin}{path}"))
        .header("origin", origin.trim_end_matches('/'))
        .body(body)
        .unwrap();
    for _ in 0..fields {
        request.headers_mut().append("a", "".parse().unwrap());
    }
    request
}

#[tokio::test]
async fn a_head_of_many_fields_is_refused() {
    let stage = Stage::new().await;
    for path in ["signin", "api/v1/me", "nothing", "grpc.health.v1.Health/Watch"] {
        for (fields, is_refused) in [(40, false), (100, false), (150, true), (900, true)] {
            let body = tonic::body::Body::new(Full::new(Bytes::new()));
            let request = with_fields(&stage, path, fields, body);
            let reply = tower::ServiceExt::oneshot(stage.channel().await, request).await.unwrap();
            assert_eq!(reply.status() == 431, is_refused, "{path}, {fields} fields: {}", reply.status());
        }
    }
}

#[tokio::test]
async fn forms_of_strangers_that_do_not_arrive_hold_a_bounded_memory() {
    let stage = Stage::new().await;
    let channel = stage.channel().await;
    let sent = (0..110).map(|_| {
        let endless = futures::stream::pending::<Result<http_body::Frame<Bytes>, std::convert::Infallible>>();
        let body = tonic::body::Body::new(http_body_util::StreamBody::new(endless));
        tower::ServiceExt::oneshot(channel.clone(), with_fields(&stage, "signin", 100, body))
    });
    let mut sent: futures::stream::FuturesUnordered<_> = sent.collect();
    let first = tokio::time::timeout(PATIENCE / 3, futures::StreamExt::next(&mut sent)).await.unwrap();
    assert_eq!(first.unwrap().unwrap().status(), 429, "those that wait take all that one address may have");
    assert_eq!(stage.get("/signin", "").await.status, 200);
}

/// Sends the head of a request whose body never comes; returns the beginning of the response.
async fn without_body(stage: &Stage, head: &str) -> String {
    let mut stream = stage.connect(b"http/1.1").await;
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let read = tokio::time::timeout(PATIENCE / 3, stream.read(&mut answer)).await.unwrap().unwrap();
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

#[tokio::test]
async fn a_strangers_request_is_refused_before_its_body_is_read() {
    let stage = Stage::new().await;
    for (path, token) in
        [(JOBS, ""), (JOBS, "authorization: Bearer wrong\r\n"), ("/api/v1/audit/admissions", "")]
    {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             {token}content-length: 4000000\r\n\r\n"
        );
        let answer = without_body(&stage, &head).await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{path}: {answer}");
    }
}

#[tokio::test]
async fn a_strangers_call_over_grpc_is_refused_before_its_message_is_read() {
    let stage = Stage::new().await;
    let mut channel = stage.channel().await;
    let endless = futures::stream::pending::<Result<http_body::Frame<Bytes>, std::convert::Infallible>>();
    let request = Request::post(format!("{}training.v1.Training/CreateJob", stage.origin()))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(tonic::body::Body::new(http_body_util::StreamBody::new(endless)))
        .unwrap();
    let channel = tower::ServiceExt::ready(&mut channel).await.unwrap();
    let reply = tokio::time::timeout(PATIENCE / 3, tower::Service::call(channel, request)).await;
    let reply = reply.unwrap().unwrap();
    assert_eq!(reply.headers()["grpc-status"], "16", "{:?}", reply.headers());
}

/// A request with a token that nobody has.
async fn guess(channel: Channel, origin: String, token: String) -> u16 {
    let request = Request::get(format!("{origin}api/v1/me"))
        .header("authorization", format!("Bearer {token}"))
        .body(tonic::body::Body::new(Full::new(Bytes::new())))
        .unwrap();
    tower::ServiceExt::oneshot(channel, request).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn guesses_of_strangers_do_not_keep_the_tokens_of_others_from_being_checked() {
    let stage = Stage::new().await;
    stage.trouble(Trouble::Late);
    // Each of four addresses sends four tokens more than the 256 that may wait, and together they take all 1024 places.
    let mut guesses = FuturesUnordered::new();
    for connection in 0..16 {
        let source = Ipv4Addr::new(127, 0, 0, 2 + connection % 4);
        let channel = stage.channel_from(source).await;
        for number in 0..65 {
            let token = format!("guess-{connection}-{number}");
            guesses.push(guess(channel.clone(), stage.origin().to_string(), token));
        }
    }
    for _ in 0..16 {
        let refused = tokio::time::timeout(PATIENCE, guesses.next()).await.unwrap();
        assert_eq!(refused, Some(429));
    }
    let mut asked = pin!(stage.get("/api/v1/me", JANE));
    tokio::select! {
        reply = &mut asked => panic!("answered without a check: {} {}", reply.status, reply.text),
        displaced = tokio::time::timeout(PATIENCE, guesses.next()) => assert_eq!(displaced.unwrap(), Some(429)),
    }
    stage.trouble(Trouble::None);
    let reply = asked.await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}

#[tokio::test]
async fn a_body_of_many_small_parts_is_refused_before_it_is_parsed() {
    let stage = Stage::new().await;
    for (part, count) in [("{\"\":0}", 100_000), ("0", 250_000), ("\"\"", 250_000)] {
        let body = format!("{{\"manifest\":[{}]}}", vec![part; count].join(","));
        let mut sent = request("POST", JOBS, JANE, None);
        *sent.body_mut() = Full::new(body.into());
        let refused = stage.send(sent).await;
        assert_eq!(refused.status, 413, "{part}: {}", refused.text);
    }
}

/// A connection over which nothing but what a test sends goes, kept open.
async fn kept(stage: &Stage, path: &str, token: &str) -> (u16, SendRequest<Full<Bytes>>, JoinHandle<()>) {
    let stream = TokioIo::new(stage.connect(b"http/1.1").await);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    let connection = tokio::spawn(async move { drop(connection.await) });
    let reply = sender.send_request(request("GET", path, token, None)).await.unwrap();
    let status = reply.status().as_u16();
    reply.into_body().collect().await.unwrap();
    (status, sender, connection)
}

#[tokio::test]
async fn connections_of_strangers_give_way_and_those_of_known_callers_stay() {
    let limits = Settings { connections: 8, connections_of_peer: 4, ..Settings::default() };
    let stage = Stage::with(limits).await;
    let (status, mut known, _) = kept(&stage, "/api/v1/me", JANE).await;
    assert_eq!(status, 200);
    let mut strangers = Vec::new();
    for path in ["/healthz", "/", "/api/v1/me", "/openapi.json", "/healthz", "/docs", "/healthz", "/healthz"]
    {
        strangers.push(kept(&stage, path, "").await);
    }
    known.ready().await.unwrap();
    let reply = known.send_request(request("GET", "/api/v1/me", JANE, None)).await.unwrap();
    assert_eq!(reply.status(), 200, "the connection of a known caller is as it was");
    assert_eq!(stage.get("/api/v1/me", VERA).await.status, 200, "others still come in");
}

#[tokio::test]
async fn a_strangers_connection_ends_although_it_is_used() {
    let stage = Stage::with(Settings { stranger: Duration::from_millis(300), ..Settings::default() }).await;
    let (_, mut known, _) = kept(&stage, "/api/v1/me", JANE).await;
    let (_, sender, ended) = kept(&stage, "/healthz", "").await;
    tokio::time::timeout(PATIENCE, ended).await.unwrap().unwrap();
    drop(sender);
    known.ready().await.unwrap();
    let reply = known.send_request(request("GET", "/api/v1/me", JANE, None)).await.unwrap();
    assert_eq!(reply.status(), 200);
}
