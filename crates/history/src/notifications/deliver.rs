//! Sends what is due: claim, send, record.
//!
//! A send follows no redirect, connects only to an address that the policy permits, and ends in time for its lease.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future;
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
use super::{Claim, Destination, Failure, LEASE, Outcome, claim, finish, signature};
use crate::error::Error;
use crate::store::Store;

/// The maximum duration of one send, from the resolution of the name to the answer's head. The records of a whole claim
/// fit into what is left of the lease.
const SEND: Duration = Duration::from_secs(15);
const _: () = assert!(SEND.as_secs() * 2 < LEASE.as_secs());
/// The maximum number of addresses of a name that are tried.
const MAX_ADDRESSES: usize = 4;

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
            (Destination::Email { to }, Some(mailer)) => mailer.send(claim, to).await,
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
            .map_err(|error| Failure::passing(format!("{}: {error}", target.host)))?
            .take(MAX_ADDRESSES)
            .collect();
        // One forbidden address among others is how a name is made to change its mind.
        if let Some((address, why)) =
            found.iter().find_map(|address| self.policy.refuses(address.ip()).map(|why| (address.ip(), why)))
        {
            return Err(Failure::lasting(format!(
                "{} has an address that is not allowed: {address} is {why}",
                target.host
            )));
        }
        let mut last = Failure::passing(format!("{} has no address", target.host));
        for address in found {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Failure::passing(format!("{address}: {error}")),
            }
        }
        Err(last)
    }
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

/// Claims what is due, sends it, all at once, and records the outcomes. Returns the number of deliveries that were
/// claimed; the caller calls again at once if there were any, and after some seconds if not.
///
/// # Errors
/// If the store fails. What was sent and not recorded is sent again when its lease has expired.
pub async fn deliver_due(store: &Store, sender: &Sender, limit: u32) -> Result<usize, Error> {
    let now = store.now().await?;
    let claims = claim(store, now, limit).await?;
    let outcomes = future::join_all(claims.iter().map(|claim| sender.send(claim, now))).await;
    let after = store.now().await?;
    for (claim, outcome) in claims.iter().zip(&outcomes) {
        if !finish(store, claim, outcome, after, jitter()?).await? {
            tracing::warn!(delivery = claim.id, "the lease expired before the outcome was recorded");
        }
    }
    Ok(claims.len())
}

/// Returns a random number from 0 to 1.
fn jitter() -> Result<f64, Error> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|error| Error::Unavailable(error.to_string()))?;
    Ok(f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX))
}
