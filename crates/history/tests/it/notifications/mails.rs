//! Deliveries as e-mails.

use std::sync::{Arc, Mutex};

use history::jobs::record;
use history::notifications::address::Policy;
use history::notifications::deliver::{Everyone, Sender, deliver_due};
use history::notifications::{self, Destination, NewRule, deliveries, mail, put_rule};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpListener;

use super::webhooks::tls;
use super::{ALL, rule};
use crate::jobs::seen;
use crate::place::{on_each, on_sqlite};

#[test]
fn e_mails_go_to_permitted_domains_only() {
    on_sqlite(async |place| {
        let store = place.open().await;
        let policy = Policy { email_domains: vec!["Example.com".to_owned()], ..Policy::default() };
        put_rule(&store, to_jane(), &policy).await.unwrap();
        let other = Destination::Email { to: "victim@other.example".to_owned() };
        let error = put_rule(&store, NewRule { destination: other, ..to_jane() }, &policy).await.unwrap_err();
        assert!(error.to_string().contains("other.example"), "{error}");
    });
}

/// A mail server on loopback, behind TLS, that gives the same answer to every recipient. It keeps what it received.
async fn mail_server(answer: &'static str) -> (mail::Settings, Arc<Mutex<String>>) {
    let (acceptor, authority) = tls();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = mail::Settings {
        host: "localhost".to_owned(),
        port: listener.local_addr().unwrap().port(),
        security: mail::Security::Tls,
        credentials: None,
        from: "Training <training@example.com>".to_owned(),
        authorities: vec![authority],
    };
    let received = Arc::new(Mutex::new(String::new()));
    let log = Arc::clone(&received);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let mut stream = BufStream::new(stream);
            let (mut line, mut answer_now, mut in_message) = (String::new(), "220 ready", false);
            loop {
                if !answer_now.is_empty() {
                    stream.write_all(format!("{answer_now}\r\n").as_bytes()).await.unwrap();
                    stream.flush().await.unwrap();
                }
                line.clear();
                if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                    break;
                }
                log.lock().unwrap().push_str(&line);
                answer_now = match line.split_whitespace().next().unwrap_or("") {
                    "." if in_message => "250 queued",
                    _ if in_message => "",
                    "RCPT" => answer,
                    "DATA" => "354 go on",
                    _ => "250 ok",
                };
                in_message = answer_now == "354 go on" || answer_now.is_empty();
            }
        }
    });
    (settings, received)
}

fn to_jane() -> NewRule {
    NewRule { destination: Destination::Email { to: "jane@example.com".to_owned() }, ..rule("", &[]) }
}

#[test]
fn an_email_arrives_over_tls_and_names_job_phase_and_cause() {
    on_each(async |place| {
        let store = place.open().await;
        let (settings, received) = mail_server("250 ok").await;
        put_rule(&store, to_jane(), &Policy::default()).await.unwrap();
        let mut failed = seen("a", 1, "Failed");
        failed.state.cause = Some("OutOfMemory\r\nBcc: eve@example.com".to_owned());
        record(&store, &[failed]).await.unwrap();
        let sender = Sender::new(Policy::default(), &[], Some(&settings)).unwrap();
        assert_eq!(deliver_due(&store, &sender, &Everyone, 10).await.unwrap(), 1);
        let log = deliveries(&store, "team-cv", &ALL, None, 10).await.unwrap();
        assert_eq!((log[0].state.as_str(), log[0].status), ("delivered", Some(250)), "{log:?}");
        let received = received.lock().unwrap();
        for expected in
            ["RCPT TO:<jane@example.com>", "MPIJob team-cv/name-of-a", "Phase: Failed", &log[0].id]
        {
            assert!(received.contains(expected), "{expected} in {received}");
        }
        let header = received.split("\r\n\r\n").next().unwrap();
        assert!(!header.lines().any(|line| line.starts_with("Bcc")), "{header}");
    });
}

#[test]
fn an_email_that_the_server_refuses_for_good_is_a_dead_letter() {
    on_sqlite(async |place| {
        for (answer, state) in [("550 no such user", "dead"), ("451 try later", "pending")] {
            let store = place.open().await;
            let (settings, _) = mail_server(answer).await;
            let (rule, _) = put_rule(&store, to_jane(), &Policy::default()).await.unwrap();
            record(&store, &[seen(answer, 1, "Failed")]).await.unwrap();
            let sender = Sender::new(Policy::default(), &[], Some(&settings)).unwrap();
            assert_eq!(deliver_due(&store, &sender, &Everyone, 10).await.unwrap(), 1);
            let log = deliveries(&store, "team-cv", &ALL, None, 10).await.unwrap();
            assert_eq!(log[0].state, state, "{log:?}");
            assert_eq!(log[0].status, Some(answer[..3].parse().unwrap()));
            notifications::delete_rule(&store, "team-cv", &rule.id).await.unwrap();
        }
        let nobody = Destination::Email { to: "jane@example.com\r\nBcc: eve@example.com".to_owned() };
        let store = place.open().await;
        let bad = NewRule { destination: nobody, ..to_jane() };
        assert!(put_rule(&store, bad, &Policy::default()).await.is_err());
        let (settings, _) = mail_server("250 ok").await;
        let plain = mail::Settings {
            security: mail::Security::Plain,
            credentials: Some(("user".to_owned(), "word".to_owned())),
            ..settings
        };
        assert!(Sender::new(Policy::default(), &[], Some(&plain)).is_err(), "a password without TLS");
    });
}
