//! Certificates of the operator's own: a key that lives as long as the process, for readers who know the port by other
//! means than its certificate.

use std::sync::Arc;

use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be made.
    #[error("a certificate could not be made: {0}")]
    Make(#[from] rcgen::Error),
    /// It could not be used.
    #[error("a certificate cannot be used: {0}")]
    Use(#[from] rustls::Error),
}

/// Shakes hands with a certificate that nobody has signed and whose key is never written.
///
/// # Errors
/// If the operating system gives no randomness.
pub fn of_one_life(name: &str) -> Result<TlsAcceptor, Error> {
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    params.distinguished_name = distinguished;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = builder()?.with_no_client_auth().with_single_cert(vec![certificate.into()], key)?;
    config.alpn_protocols = alpn();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// A server's TLS with the one provider of cryptography that is linked.
fn builder() -> Result<rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}

fn alpn() -> Vec<Vec<u8>> {
    vec![b"h2".to_vec(), b"http/1.1".to_vec()]
}
