//! The operator's own certificates.
//!
//! For the webhook: a certificate signed by an authority of its own, whose key is discarded after signing. Both are
//! kept in a Secret that is read by name, so that all replicas serve the same. When a third of the lifetime is
//! left, the first replica that notices creates a new pair. The bundle that the API server trusts then holds the
//! new authority and the previous one, so that a replica that still serves the old certificate is trusted.
//!
//! For metrics: the same, or, without a webhook, a key that lives as long as the process and is never written.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// The validity of a certificate, in days.
const VALID_DAYS: i64 = 365;
/// A certificate is renewed when less time than this is left.
const RENEWED_BEFORE: Duration = Duration::from_secs(120 * 24 * 3600);
/// The annotation on the Secret with the certificate's end (RFC 3339).
const ANNOTATION_NOT_AFTER: &str = "training.opendatahub.io/not-after";
/// How often other replicas may be faster.
const TRIES: usize = 5;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be created.
    #[error("cannot create a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// It could not be used.
    #[error("cannot use a certificate: {0}")]
    Use(#[from] rustls::Error),
    /// Its Secret holds something else.
    #[error("the Secret {0:?} contains no certificate of this operator: delete it to have it created again")]
    Damaged(String),
    /// Its Secret cannot be read or written.
    #[error("cannot read or write the Secret {name:?}: {source}")]
    Secret {
        /// The Secret's name.
        name: String,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// Others kept changing its Secret.
    #[error("too many conflicting changes of the Secret {0:?}")]
    Contended(String),
}

/// A certificate, its key, and the authorities to trust for it; all in PEM.
#[derive(Clone)]
pub struct Kept {
    /// The authority that signed it, and the one before it.
    pub authorities: String,
    certificate: String,
    key: String,
    not_after: Timestamp,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

impl Kept {
    /// Creates a certificate for these DNS names and addresses.
    ///
    /// # Errors
    /// If the operating system provides no randomness, or a name is invalid.
    pub fn make(names: &[String], now: Timestamp) -> Result<Self, Error> {
        let not_after = now + (VALID_DAYS * 24).hours();
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        name_and_date(&mut params, "mpi-operator-ca", now, not_after);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let mut params = CertificateParams::new(names.to_vec())?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        name_and_date(&mut params, "mpi-operator", now, not_after);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &authority)?.pem();
        Ok(Self { authorities: authority.pem(), certificate, key: key.serialize_pem(), not_after })
    }

    /// Returns whether it should be renewed.
    fn is_due(&self, now: Timestamp) -> bool {
        self.not_after.duration_since(now).as_secs_f64() < RENEWED_BEFORE.as_secs_f64()
    }

    /// Adds the first authority of `before` to the trusted ones.
    fn after(mut self, before: &Self) -> Self {
        if let Some(end) = before.authorities.find(END_OF_CERTIFICATE) {
            self.authorities.push_str(&before.authorities[..end + END_OF_CERTIFICATE.len()]);
            self.authorities.push('\n');
        }
        self
    }

    fn from_secret(secret: &Secret) -> Option<Self> {
        let part = |key: &str| {
            let bytes = secret.data.as_ref()?.get(key)?;
            String::from_utf8(bytes.0.clone()).ok()
        };
        Some(Self {
            authorities: part("ca.crt")?,
            certificate: part("tls.crt")?,
            key: part("tls.key")?,
            not_after: secret.annotations().get(ANNOTATION_NOT_AFTER)?.parse().ok()?,
        })
    }

    fn secret(&self, name: &str, version: Option<String>) -> Secret {
        let part = |key: &str, text: &str| (key.to_owned(), ByteString(text.as_bytes().to_vec()));
        Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                resource_version: version,
                annotations: Some([(ANNOTATION_NOT_AFTER.to_owned(), self.not_after.to_string())].into()),
                ..ObjectMeta::default()
            },
            type_: Some("kubernetes.io/tls".to_owned()),
            data: Some(
                [
                    part("ca.crt", &self.authorities),
                    part("tls.crt", &self.certificate),
                    part("tls.key", &self.key),
                ]
                .into(),
            ),
            ..Secret::default()
        }
    }
}

const END_OF_CERTIFICATE: &str = "-----END CERTIFICATE-----";

/// Returns the certificate in a Secret. Creates one if there is none or the existing one is about to expire.
///
/// # Errors
/// If the Secret cannot be read or written, or holds something else.
pub async fn load_or_make(
    client: &Client,
    namespace: &str,
    name: &str,
    names: &[String],
    now: Timestamp,
) -> Result<Kept, Error> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let failed = |source| Error::Secret { name: name.to_owned(), source };
    for _ in 0..TRIES {
        let found = secrets.get_opt(name).await.map_err(failed)?;
        let written = match found {
            None => {
                let made = Kept::make(names, now)?;
                secrets.create(&PostParams::default(), &made.secret(name, None)).await.map(|_| made)
            }
            Some(secret) => {
                let kept = Kept::from_secret(&secret).ok_or_else(|| Error::Damaged(name.to_owned()))?;
                if !kept.is_due(now) {
                    return Ok(kept);
                }
                let made = Kept::make(names, now)?.after(&kept);
                let new = made.secret(name, secret.resource_version());
                secrets.replace(name, &PostParams::default(), &new).await.map(|_| made)
            }
        };
        match written {
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {}
            outcome => return outcome.map_err(failed),
        }
    }
    Err(Error::Contended(name.to_owned()))
}

/// The certificate that a server presents. It can be changed while the server runs.
#[derive(Debug)]
pub struct Shown(RwLock<Presented>);

/// A certificate ready for use, and the authorities to trust for it, in PEM.
#[derive(Clone, Debug)]
struct Presented {
    key: Arc<CertifiedKey>,
    authorities: String,
}

impl Shown {
    /// Presents this certificate.
    ///
    /// # Errors
    /// If it and its key cannot be used.
    pub fn new(kept: &Kept) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self(RwLock::new(presented(kept)?))))
    }

    /// Presents another certificate from now on.
    ///
    /// # Errors
    /// If it and its key cannot be used; the old one then stays.
    pub fn change(&self, kept: &Kept) -> Result<(), Error> {
        let presented = presented(kept)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = presented;
        Ok(())
    }

    /// Returns the authorities to trust for it, in PEM.
    #[must_use]
    pub fn authorities(&self) -> String {
        self.0.read().unwrap_or_else(PoisonError::into_inner).authorities.clone()
    }

    /// Returns an acceptor for any client.
    ///
    /// # Errors
    /// Only if the library cannot be set up.
    pub fn acceptor(self: &Arc<Self>) -> Result<TlsAcceptor, Error> {
        self.acceptor_of(WebPkiClientVerifier::no_client_auth())
    }

    /// Returns an acceptor for clients with a client certificate that one of these authorities, in PEM, has signed.
    ///
    /// # Errors
    /// If there is no authority in `authorities`, or one cannot be used.
    pub fn acceptor_for(self: &Arc<Self>, authorities: &str) -> Result<TlsAcceptor, Error> {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
            roots.add(authority.map_err(unusable)?)?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build();
        self.acceptor_of(verifier.map_err(|error| Error::Use(rustls::Error::General(error.to_string())))?)
    }

    fn acceptor_of(self: &Arc<Self>, clients: Arc<dyn ClientCertVerifier>) -> Result<TlsAcceptor, Error> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).key.clone())
    }
}

fn presented(kept: &Kept) -> Result<Presented, Error> {
    let chain = CertificateDer::pem_slice_iter(kept.certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(unusable)?;
    let key = PrivateKeyDer::from_pem_slice(kept.key.as_bytes()).map_err(unusable)?;
    let key = Arc::new(CertifiedKey::from_der(chain, key, &provider())?);
    Ok(Presented { key, authorities: kept.authorities.clone() })
}

fn unusable(error: rustls::pki_types::pem::Error) -> Error {
    Error::Use(rustls::Error::General(error.to_string()))
}

/// Returns the one cryptography provider that is linked.
fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn name_and_date(params: &mut CertificateParams, name: &str, now: Timestamp, not_after: Timestamp) {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    params.distinguished_name = distinguished;
    let day = |time: Timestamp| {
        let date = time.to_zoned(jiff::tz::TimeZone::UTC).date();
        let part = |part: i8| u8::try_from(part).unwrap_or(1);
        rcgen::date_time_ymd(i32::from(date.year()), part(date.month()), part(date.day()))
    };
    // From the day before, because clocks may differ.
    params.not_before = day(now - 24.hours());
    params.not_after = day(not_after);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_due_when_a_third_of_its_time_is_left() {
        let now: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        let kept = Kept::make(&["mpi-operator.svc".to_owned()], now).unwrap();
        assert!(!kept.is_due(now) && !kept.is_due(now + (240 * 24).hours()));
        assert!(kept.is_due(now + (250 * 24).hours()) && kept.is_due(now + (400 * 24).hours()));
    }

    /// Returns an authority, and a client's certificate and key signed by it.
    fn client(now: Timestamp) -> (String, CertificateDer<'static>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        name_and_date(&mut params, "callers", now, now + 24.hours());
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        name_and_date(&mut params, "api-server", now, now + 24.hours());
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        (authority.pem(), certificate.der().clone(), key)
    }

    #[tokio::test]
    async fn only_clients_with_a_certificate_of_the_authority_are_accepted() {
        let now = Timestamp::now();
        let kept = Kept::make(&["localhost".to_owned()], now).unwrap();
        let shown = Shown::new(&kept).unwrap();
        let (ours, theirs) = (client(now), client(now));
        let acceptor = shown.acceptor_for(&ours.0).unwrap();
        for (identity, is_welcome) in [(Some(&ours), true), (Some(&theirs), false), (None, false)] {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(kept.authorities.as_bytes()).unwrap()).unwrap();
            let config = rustls::ClientConfig::builder_with_provider(provider())
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots);
            let config = match identity {
                Some((_, certificate, key)) => {
                    config.with_client_auth_cert(vec![certificate.clone()], key.clone_key()).unwrap()
                }
                None => config.with_no_client_auth(),
            };
            let (near, far) = tokio::io::duplex(16 << 10);
            let name = "localhost".try_into().unwrap();
            let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
            let (_connected, accepted) = tokio::join!(connector.connect(name, near), acceptor.accept(far));
            assert_eq!(accepted.is_ok(), is_welcome, "{:?}", accepted.err());
        }
        assert!(shown.acceptor_for("").is_err(), "a file without an authority lets nobody in by mistake");
    }

    #[test]
    fn a_new_bundle_holds_the_authority_before_and_no_older_one() {
        let now = Timestamp::now();
        let make = || Kept::make(&["a".to_owned()], now).unwrap();
        let (first, second, third) = (make(), make(), make());
        let second = second.after(&first);
        let count = |kept: &Kept| kept.authorities.matches(END_OF_CERTIFICATE).count();
        assert_eq!((count(&second), second.authorities.contains(first.authorities.trim())), (2, true));
        let third = third.after(&second);
        assert_eq!((count(&third), third.authorities.contains(first.authorities.trim())), (2, false));
        assert!(!format!("{third:?}").contains("PRIVATE"), "no key is ever shown");
    }
}
