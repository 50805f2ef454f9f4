//! Who the API server is to webhooks: a client certificate, signed by an authority of its own whose key is thrown away, new in
//! each process. It is shown only to a webhook that asks for that very authority: others that ask for some certificate would
//! refuse this one, and most ask for none.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, SignatureScheme};

/// The certificate, and what signed it.
#[derive(Debug)]
pub struct Identity {
    /// The authority's certificate, in PEM.
    pub authority: String,
    /// The authority's name, as servers give it when they ask.
    subject: Vec<u8>,
    shown: Arc<CertifiedKey>,
}

impl Identity {
    /// A new one.
    ///
    /// # Errors
    /// If the operating system gives no randomness.
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
