//! TLS certificates: from files that may be replaced while the service runs, or of an authority of its own for a
//! service on this machine. And connections to other servers.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, VerifierBuilderError, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How long a certificate of our own is valid.
const VALID: Duration = Duration::from_secs(365 * 24 * 3600);
/// How much its validity begins in the past, for clocks that differ.
const BEFORE: Duration = Duration::from_secs(3600);

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{path} holds no certificate or key in PEM: {detail}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The cause.
        detail: String,
    },
    /// Key and certificate cannot be used.
    #[error("cannot use the certificate: {0}")]
    Use(#[from] rustls::Error),
    /// The authority for proxies cannot be used.
    #[error("cannot use the authority for proxies: {0}")]
    Authority(#[from] VerifierBuilderError),
    /// A certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// Connects to servers over HTTP, with TLS where their address says so. `authorities` are trusted in addition to the
/// machine's.
///
/// # Errors
/// If an authority cannot be used.
pub(crate) fn connector(
    authorities: &[CertificateDer<'static>],
) -> Result<HttpsConnector<HttpConnector>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for authority in authorities {
        roots.add(authority.clone())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build())
}

/// The files of a certificate and its key.
#[derive(Clone, Debug)]
pub struct Files {
    /// The certificate and those between it and its authority.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
    /// The authority of proxies that may pass on their users' tokens, if there are any. It is read once.
    pub proxies: Option<PathBuf>,
}

/// Serves the newest certificate.
#[derive(Debug)]
struct Newest(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Newest {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// Returns an acceptor with the certificate in these files, which looks at them again until `stop`.
///
/// # Errors
/// If the files cannot be used now; later, the last good certificate stays.
pub fn from_files(files: Files, stop: CancellationToken) -> Result<TlsAcceptor, Error> {
    let newest = Arc::new(Newest(RwLock::new(Arc::new(read(&files)?))));
    let proxies = files.proxies.as_deref().map(verifier).transpose()?;
    let acceptor = acceptor(newest.clone(), proxies)?;
    tokio::spawn(renew(newest, files, LOOK_EVERY, stop));
    Ok(acceptor)
}

/// Takes over what is written to the files, until `stop`. What cannot be used yet is looked at again.
async fn renew(newest: Arc<Newest>, files: Files, every: Duration, stop: CancellationToken) {
    let mut seen = written(&files);
    while stop.run_until_cancelled(tokio::time::sleep(every)).await.is_some() {
        let now = written(&files);
        if now == seen {
            continue;
        }
        match read(&files) {
            Ok(key) => {
                *newest.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
                seen = now;
                tracing::info!("the certificate was replaced");
            }
            // Half-written files: the next look sees all of them.
            Err(error) => tracing::warn!(%error, "the certificate cannot be replaced"),
        }
    }
}

/// Returns an acceptor for a service on this machine and, in PEM, the authority to trust for it. The authority's key is
/// kept nowhere.
///
/// # Errors
/// If a certificate cannot be made.
pub fn for_this_machine() -> Result<(TlsAcceptor, String), Error> {
    let mut authority = CertificateParams::default();
    authority.distinguished_name = named("training-service");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    valid(&mut authority);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let mut leaf = CertificateParams::new(names)?;
    leaf.distinguished_name = named("localhost");
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    valid(&mut leaf);
    let key = KeyPair::generate()?;
    let certificate = leaf.signed_by(&key, &authority)?;
    let private = PrivateKeyDer::try_from(key.serialize_der())
        .map_err(|detail| rustls::Error::General(detail.to_owned()))?;
    let key = certified(vec![certificate.der().clone()], private)?;
    let acceptor = acceptor(Arc::new(Newest(RwLock::new(Arc::new(key)))), None)?;
    Ok((acceptor, authority.pem()))
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn valid(certificate: &mut CertificateParams) {
    let now = SystemTime::now();
    certificate.not_before = (now - BEFORE).into();
    certificate.not_after = (now + VALID).into();
}

fn acceptor(
    certificates: Arc<Newest>,
    proxies: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<TlsAcceptor, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = match proxies {
        Some(proxies) => config.with_client_cert_verifier(proxies),
        None => config.with_no_client_auth(),
    };
    let mut config = config.with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Returns what verifies the certificates of proxies. Other clients need none.
fn verifier(authority: &Path) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(authority)? {
        roots.add(certificate)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    Ok(builder.allow_unauthenticated().build()?)
}

fn read(files: &Files) -> Result<CertifiedKey, Error> {
    let chain = chain(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&load(&files.key)?);
    certified(chain, key.map_err(|error| damaged(&files.key, error.to_string()))?)
}

/// Reads the certificates in a file.
fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let chain: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_slice_iter(&load(path)?).collect();
    let chain = chain.map_err(|error| damaged(path, error.to_string()))?;
    if chain.is_empty() { Err(damaged(path, "it is empty".to_owned())) } else { Ok(chain) }
}

fn load(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

fn damaged(path: &Path, detail: String) -> Error {
    Error::Damaged { path: path.to_owned(), detail }
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, Error> {
    let certified = CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider())?;
    certified.keys_match()?;
    Ok(certified)
}

/// When the files were last written.
fn written(files: &Files) -> [Option<SystemTime>; 2] {
    [&files.certificate, &files.key].map(|path| std::fs::metadata(path).and_then(|file| file.modified()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_new_certificate_is_served_once_its_key_is_there_too() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files {
            certificate: folder.path().join("tls.crt"),
            key: folder.path().join("tls.key"),
            proxies: None,
        };
        let [first, second] =
            [(), ()].map(|()| rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap());
        std::fs::write(&files.certificate, first.cert.pem()).unwrap();
        std::fs::write(&files.key, first.signing_key.serialize_pem()).unwrap();
        let newest = Arc::new(Newest(RwLock::new(Arc::new(read(&files).unwrap()))));
        let served = || newest.0.read().unwrap().cert[0].clone();
        let stop = CancellationToken::new();
        let renewing = renew(newest.clone(), files.clone(), Duration::from_millis(5), stop.clone());
        let writing = async {
            std::fs::write(&files.certificate, second.cert.pem()).unwrap();
            assert!(read(&files).is_err(), "a certificate without its key");
            assert_eq!(&served(), first.cert.der());
            std::fs::write(&files.key, second.signing_key.serialize_pem()).unwrap();
            while &served() != second.cert.der() {
                tokio::task::yield_now().await;
            }
            stop.cancel();
        };
        let both = async { tokio::join!(renewing, writing) };
        tokio::time::timeout(Duration::from_secs(30), both).await.unwrap();
    }
}
