//! Sends a notification as e-mail, through the one SMTP server that the administrator has configured.
//!
//! Users choose recipients only, so the server needs no check of its address.

use std::time::Duration;

use lettre::message::{Mailbox, header::ContentType};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{Address, AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};
use rustls::pki_types::CertificateDer;

use super::alerts::QUOTA;
use super::{Claim, Failure, Transition};
use crate::error::Error;

/// How the connection to the server is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// TLS from the first byte (port 465).
    Tls,
    /// TLS after STARTTLS, and no mail without it (port 587).
    StartTls,
    /// None: for a relay on this machine or in the same pod.
    Plain,
}

/// The SMTP server.
#[derive(Clone)]
pub struct Settings {
    /// Its host name.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is protected.
    pub security: Security,
    /// User and password, if it wants any. They are never sent without TLS.
    pub credentials: Option<(String, String)>,
    /// The sender: `Training <training@example.com>`.
    pub from: String,
    /// Certificate authorities in addition to those of the machine.
    pub authorities: Vec<CertificateDer<'static>>,
}

/// Sends e-mails.
#[derive(Clone, Debug)]
pub struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

impl Mailer {
    /// Creates a mailer. It connects when it sends.
    ///
    /// # Errors
    /// If the settings are not valid.
    pub fn new(settings: &Settings, timeout: Duration) -> Result<Self, Error> {
        let invalid = |error: &dyn std::fmt::Display| Error::Invalid(format!("e-mail settings: {error}"));
        let Settings { host, port, security, credentials, from, authorities } = settings;
        let mut tls = TlsParameters::builder(host.clone());
        for authority in authorities {
            let authority = Certificate::from_der(authority.to_vec()).map_err(|error| invalid(&error))?;
            tls = tls.add_root_certificate(authority);
        }
        let tls = tls.build().map_err(|error| invalid(&error))?;
        let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host.as_str())
            .port(*port)
            .timeout(Some(timeout))
            .tls(match security {
                Security::Tls => Tls::Wrapper(tls),
                Security::StartTls => Tls::Required(tls),
                Security::Plain => Tls::None,
            });
        if let Some((user, password)) = credentials {
            if *security == Security::Plain {
                return Err(invalid(&"a password is sent only with TLS"));
            }
            transport = transport.credentials(Credentials::new(user.clone(), password.clone()));
        }
        let from = from.parse().map_err(|error| invalid(&error))?;
        Ok(Self { transport: transport.build(), from })
    }

    /// Sends one delivery, and returns the server's code.
    pub(super) async fn send(&self, claim: &Claim, to: &str) -> Result<u16, Failure> {
        let message = message(claim, self.from.clone(), to)?;
        match self.transport.send(message).await {
            Ok(response) => Ok(response.code().into()),
            Err(error) => Err(Failure {
                text: std::error::Error::source(&error)
                    .map_or_else(|| error.to_string(), |source| format!("{error}: {source}")),
                status: error.status().map(u16::from),
                permanent: error.is_permanent(),
            }),
        }
    }
}

/// Takes a recipient: a bare address, `jane@example.com`, with the name of a domain.
pub(super) fn recipient(to: &str) -> Result<Address, Error> {
    let parsed: Result<Address, _> = to.parse();
    let address =
        parsed.map_err(|error| Error::Invalid(format!("{to:?} is not an e-mail address: {error}")))?;
    match address.domain().starts_with('[') {
        true => Err(Error::Invalid(format!("{to:?} does not name a domain"))),
        false => Ok(address),
    }
}

fn message(claim: &Claim, from: Mailbox, to: &str) -> Result<Message, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::lasting(error.to_string());
    let to = recipient(to).map_err(|error| failed(&error))?;
    let transition: Transition = serde_json::from_str(&claim.body).map_err(|error| failed(&error))?;
    // The same at every try, so that a mail program shows a repeated delivery once.
    let id = format!("<{}@{}>", claim.id, from.email.domain());
    Message::builder()
        .from(from)
        .to(to.into())
        .subject(subject(&transition))
        .message_id(Some(id))
        .header(ContentType::TEXT_PLAIN)
        .body(text(&transition))
        .map_err(|error| failed(&error))
}

fn subject(transition: &Transition) -> String {
    let Transition { kind, namespace, name, state, phase, .. } = transition;
    let state = if state.is_empty() { phase } else { state };
    // A line feed would begin another header.
    format!("{kind} {namespace}/{name}: {state}").replace(char::is_control, " ")
}

/// Quotes what a program wrote, without anything that a mail program makes a link of: the e-mail comes from the
/// organisation, and the program's text is anybody's.
fn quoted(text: &str) -> String {
    let plain = text.replace("://", ": //").replace("www.", "www .").replace('@', "(at)");
    let lines = plain.lines().map(|line| format!("\r\n> {}", line.replace(char::is_control, " ")));
    lines.collect()
}

fn text(transition: &Transition) -> String {
    let Transition {
        uid,
        kind,
        namespace,
        name,
        version: _,
        at,
        from,
        state,
        phase,
        reason,
        cause,
        message,
        attempt,
        condition,
    } = transition;
    let is_job = kind != QUOTA;
    let lines = [
        (if is_job { "Job" } else { "Quota" }, Some(format!("{kind} {namespace}/{name}"))),
        ("Notified because", condition.map(|condition| condition.to_string())),
        ("State", condition.map(|_| state.clone())),
        ("Phase", is_job.then(|| phase.clone())),
        ("Previous phase", from.clone()),
        ("Reason", reason.clone()),
        ("Cause", cause.clone()),
        ("Message", message.as_deref().map(quoted)),
        ("Attempt", condition.is_none().then(|| attempt.to_string())),
        ("Time", Some(at.to_string())),
        ("UID", Some(uid.clone())),
    ];
    lines.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}\r\n", value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notifications::alerts::Condition;

    #[test]
    fn what_a_program_wrote_is_quoted_and_has_no_links() {
        let text = quoted("Your account expires.\nConfirm at https://evil.example/login or www.evil.example");
        assert!(text.lines().skip(1).all(|line| line.starts_with("> ")), "{text}");
        assert!(!text.contains("://") && !text.contains("www."), "{text}");
    }

    #[test]
    fn a_mail_about_a_quota_says_in_words_what_was_crossed() {
        let crossed = Transition {
            uid: "u".to_owned(),
            kind: QUOTA.to_owned(),
            namespace: "team-cv".to_owned(),
            name: "compute".to_owned(),
            version: 1,
            at: "2026-01-01T00:00:00Z".parse().unwrap(),
            from: None,
            state: "Used to 92%".to_owned(),
            phase: "QuotaUsed".to_owned(),
            reason: None,
            cause: None,
            message: Some("requests.cpu: 46 of 50".to_owned()),
            attempt: 0,
            condition: Some(Condition::QuotaUsed { percent: 90 }),
        };
        assert_eq!(subject(&crossed), "ResourceQuota team-cv/compute: Used to 92%");
        let text = text(&crossed);
        let expected = "Quota: ResourceQuota team-cv/compute\r\nNotified because: a quota is used to at least 90%\r\n\
                        State: Used to 92%\r\nMessage: \r\n> requests.cpu: 46 of 50\r\n\
                        Time: 2026-01-01T00:00:00Z\r\nUID: u\r\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_recipient_has_a_domain_with_a_name() {
        assert!(recipient("jane@example.com").is_ok());
        for address in ["a@[127.0.0.1]", "a", "a@", "Jane <jane@example.com>"] {
            assert!(recipient(address).is_err(), "{address}");
        }
    }
}
