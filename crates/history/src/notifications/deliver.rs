//! Sends what is due: claim, send, record.
//!
//! A send follows no redirect, connects only to an address that the policy permits, and ends in time for its lease.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::{self, BoxFuture};
use http::{Request, StatusCode, header};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::address::{Policy, Target};
use super::mail::{self, Mailer};
use super::{Claim, Destination, Failure, LEASE, Outcome, claim, disable, finish, signature};
use crate::error::Error;
use crate::store::Store;

/// The maximum duration of one send, from the resolution of the name to the answer's head. The records of a whole claim
/// fit into what is left of the lease.
const SEND: Duration = Duration::from_secs(15);
const _: () = assert!(SEND.as_secs() * 2 < LEASE.as_secs());
/// The maximum number of addresses of a name that are tried.
const MAX_ADDRESSES: usize = 4;

/// Whether a rule's owner may still see what a delivery is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// The owner may.
    Granted,
    /// The owner may not see this one.
    Denied,
    /// The owner may see nothing any more that the rule is about.
    Revoked,
    /// It is not known now, and why.
    Unknown(String),
}

/// Decides whether a rule's owner may still see what a delivery is about.
pub trait Rights: Sync {
    /// Decides about a delivery.
    fn of<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Permission>;
}

/// Rights that nobody lacks, for tests.
pub struct Everyone;

impl Rights for Everyone {
    fn of<'a>(&'a self, _claim: &'a Claim) -> BoxFuture<'a, Permission> {
        Box::pin(future::ready(Permission::Granted))
    }
}

/// What a rule is disabled for.
const REVOKED: &str = "its owner may no longer see what it is about";

/// Sends deliveries.
#[derive(Clone)]
pub struct Sender {
    policy: Policy,
    tls: TlsConnector,
    mailer: Option<Mailer>,
}

impl Sender {
    /// Creates a sender that trusts the machine's certificate authorities and some more, and that sends e-mails if it
    /// knows a server.
    ///
    /// # Errors
    /// If one of these is not a certificate, or the settings are not valid.
    pub fn new(
        policy: Policy,
        authorities: &[CertificateDer<'static>],
        mail: Option<&mail::Settings>,
    ) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        for authority in authorities {
            roots.add(authority.clone()).map_err(|error| Error::Invalid(error.to_string()))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Invalid(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mailer = mail.map(|settings| Mailer::new(settings, SEND)).transpose()?;
        Ok(Self { policy, tls: TlsConnector::from(Arc::new(config)), mailer })
    }

    /// Sends one delivery.
    pub async fn send(&self, claim: &Claim, now: Timestamp) -> Outcome {
        let started = Instant::now();
        let result = timeout(SEND, self.try_once(claim, now)).await;
        let took = started.elapsed();
        match result.unwrap_or_else(|_| Err(Failure::passing("no answer in time".to_owned()))) {
            Ok(status) => Outcome { status: Some(status), error: None, permanent: false, took },
            Err(Failure { text, status, permanent }) => {
                Outcome { status, error: Some(text), permanent, took }
            }
        }
    }

    async fn try_once(&self, claim: &Claim, now: Timestamp) -> Result<u16, Failure> {
        match (&claim.destination, &self.mailer) {
            (Destination::Webhook { url }, _) => self.post(claim, url, now).await,
            (Destination::Email { to }, Some(mailer)) => {
                self.policy.email(to).map_err(|error| Failure::lasting(error.to_string()))?;
                mailer.send(claim, to).await
            }
            (Destination::Email { .. }, None) => {
                Err(Failure::passing("no e-mail server is configured".to_owned()))
            }
        }
    }

    async fn post(&self, claim: &Claim, url: &str, now: Timestamp) -> Result<u16, Failure> {
        let target = self.policy.target(url).map_err(|error| Failure::lasting(error.to_string()))?;
        let stream = self.connect(&target).await?;
        let request = request(claim, &target, now)?;
        if !target.tls {
            return accepted(exchange(stream, request).await?);
        }
        let name = ServerName::try_from(target.host.clone())
            .map_err(|_| Failure::lasting(format!("{} is not a host name", target.host)))?;
        let stream =
            self.tls.connect(name, stream).await.map_err(|error| Failure::passing(error.to_string()))?;
        accepted(exchange(stream, request).await?)
    }

    /// Connects to an address that the policy permits. The name is resolved once: what was checked is what is reached.
    async fn connect(&self, target: &Target) -> Result<TcpStream, Failure> {
        let found = lookup_host((target.host.as_str(), target.port)).await;
        let found: Vec<SocketAddr> = found
            .map_err(|error| {
                tracing::debug!(host = target.host, %error, "the host of a webhook cannot be resolved");
                unreachable(target)
            })?
            .take(MAX_ADDRESSES)
            .collect();
        // One forbidden address among others is how a name is made to change its mind.
        if let Some((address, why)) =
            found.iter().find_map(|address| self.policy.refuses(address.ip()).map(|why| (address.ip(), why)))
        {
            tracing::debug!(host = target.host, %address, %why, "the address of a webhook is not allowed");
            return Err(unreachable(target));
        }
        let mut last = unreachable(target);
        for address in found {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    tracing::debug!(host = target.host, %address, %error, "a webhook cannot be connected");
                    last = Failure::passing(format!("cannot connect to {}: {}", target.host, error.kind()));
                }
            }
        }
        Err(last)
    }
}

/// One failure for a name without an address and for one with an address that is not allowed: otherwise, rules would tell
/// which names the resolver of the cluster knows, and as what.
fn unreachable(target: &Target) -> Failure {
    Failure::passing(format!("{} has no address that webhooks may reach", target.host))
}

fn request(claim: &Claim, target: &Target, now: Timestamp) -> Result<Request<Full<Bytes>>, Failure> {
    let body = Bytes::from(claim.body.clone());
    Request::post(&target.path)
        .header(header::HOST, &target.authority)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, concat!("odh-training/", env!("CARGO_PKG_VERSION")))
        .header(signature::ID, &claim.id)
        .header(signature::TIMESTAMP, now.as_second())
        .header(signature::SIGNATURE, signature::sign(&claim.secret, &claim.id, now, &body))
        .body(Full::new(body))
        .map_err(|error| Failure::lasting(error.to_string()))
}

/// Whether a receiver has accepted a delivery.
fn accepted(status: StatusCode) -> Result<u16, Failure> {
    let text = match status {
        status if status.is_success() => return Ok(status.as_u16()),
        status if status.is_redirection() => {
            format!("the receiver answered {status}, and redirects are not followed")
        }
        status => format!("the receiver answered {status}"),
    };
    Err(Failure { text, status: Some(status.as_u16()), permanent: status == StatusCode::GONE })
}

/// Sends a request and returns the status of the answer. The answer's body is not read.
async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<StatusCode, Failure>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let failed = |error: hyper::Error| Failure::passing(error.to_string());
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let answer = sender.send_request(request);
    futures::pin_mut!(answer, connection);
    match future::select(answer, connection).await {
        future::Either::Left((answer, _)) => Ok(answer.map_err(failed)?.status()),
        // The connection has ended; the answer, if any, has already been read from it.
        future::Either::Right((_, answer)) => Ok(answer.await.map_err(failed)?.status()),
    }
}

/// Claims what is due, sends it, all at once, as far as the rules' owners still have the right, and records the outcomes. A
/// rule whose owner has lost it is disabled. Returns the number of deliveries that were
/// claimed; the caller calls again at once if there were any, and after some seconds if not.
///
/// # Errors
/// If the store fails. What was sent and not recorded is sent again when its lease has expired.
pub async fn deliver_due(
    store: &Store,
    sender: &Sender,
    rights: &dyn Rights,
    limit: u32,
) -> Result<usize, Error> {
    let claims = claim(store, store.now().await?, limit).await?;
    let attempts = claims.iter().map(|claim| attempt(store, sender, rights, claim));
    future::join_all(attempts).await.into_iter().collect::<Result<(), Error>>()?;
    Ok(claims.len())
}

/// Sends a delivery, if its rule's owner still has the right, and records the outcome.
///
/// # Errors
/// If the store fails. What was sent and not recorded is sent again when its lease has expired.
pub async fn attempt(
    store: &Store,
    sender: &Sender,
    rights: &dyn Rights,
    claim: &Claim,
) -> Result<(), Error> {
    let permission = rights.of(claim).await;
    let outcome = match &permission {
        Permission::Granted => sender.send(claim, store.now().await?).await,
        Permission::Denied | Permission::Revoked => unsent(format!("not sent: {REVOKED}"), true),
        Permission::Unknown(why) => unsent(format!("not sent yet: {why}"), false),
    };
    if !finish(store, claim, &outcome, store.now().await?, jitter()?).await? {
        tracing::warn!(delivery = claim.id, "the lease expired before the outcome was recorded");
    }
    if permission == Permission::Revoked {
        disable(store, &claim.rule, REVOKED).await?;
    }
    Ok(())
}

/// The outcome of a delivery that was not tried.
fn unsent(error: String, permanent: bool) -> Outcome {
    Outcome { status: None, error: Some(error), permanent, took: Duration::ZERO }
}

/// Returns a random number from 0 to 1.
fn jitter() -> Result<f64, Error> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|error| Error::Unavailable(error.to_string()))?;
    Ok(f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX))
}
