//! The API server's identity for webhooks: a client certificate, signed by a CA whose key is discarded. Each
//! process generates a new one. It is presented only to webhooks whose certificate request names this CA:
//! most webhooks request no certificate, and those that name another CA would reject this one.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, SignatureScheme};

/// The client certificate and its CA.
#[derive(Debug)]
pub struct Identity {
    /// The CA certificate, in PEM.
    pub authority: String,
    /// The CA's distinguished name, as servers send it in a certificate request.
    subject: Vec<u8>,
    shown: Arc<CertifiedKey>,
}

impl Identity {
    /// Generates a new identity.
    ///
    /// # Errors
    /// If the operating system provides no randomness.
    pub fn make() -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.distinguished_name.push(DnType::CommonName, "webhook-callers-ca");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &authority)?.der().clone();
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())?;
        let shown =
            CertifiedKey::from_der(vec![certificate], key, &rustls::crypto::ring::default_provider())?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone())?;
        let subject = roots.subjects().first().map(|subject| subject.as_ref().to_vec()).unwrap_or_default();
        Ok(Self { authority: authority.pem(), subject, shown: Arc::new(shown) })
    }
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, wanted: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        wanted.contains(&self.subject.as_slice()).then(|| self.shown.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}
