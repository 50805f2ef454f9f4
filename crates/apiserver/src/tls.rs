//! The cluster's own CA and the API server's certificate, kept in the state directory.
//!
//! Both are generated at the first start and reused later, so a kubeconfig stays valid. Only their owner can
//! read the keys. Nothing is downloaded, and no other CA is trusted.

use std::fs;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use kubelet::OWN_ADDRESS;

/// The DNS names of the API server, inside and outside of the cluster.
const NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];
/// The object identifier 2.5.29.35 in DER: the extension with the identifier of the issuer's key (RFC 5280, 4.2.1.1).
const AUTHORITY_KEY_IDENTIFIER: [u8; 5] = [0x06, 3, 0x55, 0x1d, 0x23];
/// The CA's key.
const AUTHORITY_KEY: &str = "ca.key";
/// The lifetime of certificates in years.
const VALID_YEARS: i32 = 10;

/// An error of the certificates.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A certificate could not be generated.
    #[error("the API server's certificate could not be made: {0}")]
    Make(#[from] rcgen::Error),
    /// A file in the state directory is damaged.
    #[error("{path} is damaged ({why}); remove the folder it is in to have it created again")]
    Damaged {
        /// The path.
        path: PathBuf,
        /// The error.
        why: String,
    },
}

/// The certificates for the listener and the kubeconfig.
pub struct Identity {
    /// The CA certificate, in PEM.
    pub ca_pem: String,
    /// Performs TLS handshakes as the API server.
    pub acceptor: TlsAcceptor,
}

/// Reads the certificates in `directory`, or generates them; the server's certificate is valid for `address`,
/// too.
///
/// # Errors
/// See [`Error`].
pub fn load_or_make(directory: &Path, address: IpAddr) -> Result<Identity, Error> {
    // A server on an address other than the usual loopback ones needs a certificate of its own.
    let directory = match address.to_string().as_str() {
        "127.0.0.1" | "::1" => directory.to_owned(),
        other => directory.join(other),
    };
    let file = |name: &str| directory.join(name);
    let (ca, certificate, key) = (file("ca.crt"), file("server.crt"), file("server.key"));
    if !(ca.exists() && certificate.exists() && key.exists()) {
        make(&directory, address)?;
    } else if file(AUTHORITY_KEY).exists() && !is_current(&read(&certificate)?) {
        renew(&directory, address)?;
    }
    let ca_pem = read(&ca)?;
    let acceptor = acceptor(&ca_pem, &read(&certificate)?, &read(&key)?)
        .map_err(|why| Error::Damaged { path: certificate.clone(), why })?;
    Ok(Identity { ca_pem, acceptor })
}

fn make(directory: &Path, address: IpAddr) -> Result<(), Error> {
    fs::create_dir_all(directory).map_err(|source| Error::File { path: directory.to_owned(), source })?;
    let authority = CertifiedIssuer::self_signed(authority()?, KeyPair::generate()?)?;

    let key = KeyPair::generate()?;
    let certificate = server(address, &key, &authority)?;

    // Keys first and the CA certificate last, so that an interrupted start begins again.
    write(&directory.join(AUTHORITY_KEY), &authority.key().serialize_pem())?;
    write(&directory.join("server.key"), &key.serialize_pem())?;
    write(&directory.join("server.crt"), &certificate)?;
    write(&directory.join("ca.crt"), &authority.pem())
}

/// Issues a certificate for all present names of the API server, with the same CA and key.
fn renew(directory: &Path, address: IpAddr) -> Result<(), Error> {
    let key = |name: &str| Ok::<_, Error>(KeyPair::from_pem(&read(&directory.join(name))?)?);
    let issuer = Issuer::new(authority()?, key(AUTHORITY_KEY)?);
    let certificate = server(address, &key("server.key")?, &issuer)?;
    // Atomic, because a truncated certificate would be worse than the old one.
    let (whole, place) = (directory.join("server.crt.new"), directory.join("server.crt"));
    write(&whole, &certificate)?;
    fs::rename(&whole, &place).map_err(|source| Error::File { path: place, source })
}

/// Issues the API server's certificate, in PEM, for `address` and the names that pods use.
fn server(address: IpAddr, key: &KeyPair, issuer: &Issuer<'_, KeyPair>) -> Result<String, rcgen::Error> {
    let mut names = NAMES.map(String::from).to_vec();
    names.extend(["127.0.0.1", "::1"].map(String::from));
    names.extend([OWN_ADDRESS.to_string(), address.to_string()]);
    names.dedup();
    let mut params = CertificateParams::new(names)?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    name_and_date(&mut params, "kube-apiserver");
    Ok(params.signed_by(key, issuer)?.pem())
}

/// Returns whether a PEM certificate is as this release issues them: valid for the address that pods use, and with the
/// identifier of its authority's key, without which strict clients refuse it.
fn is_current(certificate: &str) -> bool {
    holds_for(certificate, OWN_ADDRESS) && contains(certificate, &AUTHORITY_KEY_IDENTIFIER)
}

/// Returns whether a PEM certificate is valid for an address: an `iPAddress` among its alternative names (RFC
/// 5280, 4.2.1.6), in DER.
fn holds_for(certificate: &str, address: Ipv4Addr) -> bool {
    let [a, b, c, d] = address.octets();
    contains(certificate, &[0x87, 4, a, b, c, d])
}

fn contains(certificate: &str, wanted: &[u8]) -> bool {
    let certificates = CertificateDer::pem_slice_iter(certificate.as_bytes()).filter_map(Result::ok);
    certificates.into_iter().any(|der| der.windows(wanted.len()).any(|bytes| bytes == wanted))
}

/// Returns the parameters of the CA certificate.
fn authority() -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    name_and_date(&mut params, "odh-cluster-ca");
    Ok(params)
}

/// Issues a client certificate and its key, in PEM, signed by the CA in `directory`: for the user `name`, in
/// `group` if it isn't empty, valid for `days` days from now.
///
/// # Errors
/// If the CA's key doesn't exist, because the state predates client certificates.
pub fn sign_client(directory: &Path, name: &str, group: &str, days: i64) -> Result<(String, String), Error> {
    let issuer_key = KeyPair::from_pem(&read(&directory.join(AUTHORITY_KEY))?)?;
    let issuer = Issuer::new(authority()?, issuer_key);
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    if !group.is_empty() {
        distinguished.push(DnType::OrganizationName, group);
    }
    params.distinguished_name = distinguished;
    let now = std::time::SystemTime::now();
    let day = std::time::Duration::from_secs(24 * 60 * 60);
    params.not_before = (now - std::time::Duration::from_secs(5 * 60)).into();
    params.not_after = (now + day * u32::try_from(days).unwrap_or(0)).into();
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn name_and_date(params: &mut CertificateParams, name: &str) {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    params.distinguished_name = distinguished;
    let year = i32::from(jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).year());
    // From the day before the year starts, because clocks may differ.
    params.not_before = rcgen::date_time_ymd(year - 1, 12, 31);
    params.not_after = rcgen::date_time_ymd(year + VALID_YEARS, 12, 31);
}

fn acceptor(ca: &str, certificate: &str, key: &str) -> Result<TlsAcceptor, String> {
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| error.to_string())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    // Client certificates are optional, and must be signed by this CA.
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(|error| error.to_string())?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })
}

/// Writes a file that only its owner can read.
///
/// # Errors
/// [`Error::File`].
pub fn write(path: &Path, text: &str) -> Result<(), Error> {
    let attempt = || {
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    attempt().map_err(|source| Error::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_an_earlier_release_is_renewed() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
        load_or_make(place, loopback).unwrap();
        let made = read(&place.join("server.crt")).unwrap();
        assert!(holds_for(&made, OWN_ADDRESS) && holds_for(&made, Ipv4Addr::LOCALHOST));
        assert!(!holds_for(&made, Ipv4Addr::new(10, 96, 0, 2)));
        assert!(is_current(&made), "its issuer's key is identified");

        // The same CA and key, but for loopback only, or without the identifier of the issuer's key.
        let key = |name: &str| KeyPair::from_pem(&read(&place.join(name)).unwrap()).unwrap();
        let issued = read(&place.join("ca.crt")).unwrap();
        let own = OWN_ADDRESS.to_string();
        for (names, identified) in [(vec!["127.0.0.1"], true), (vec!["127.0.0.1", &own], false)] {
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            let mut before = CertificateParams::new(names).unwrap();
            before.use_authority_key_identifier_extension = identified;
            name_and_date(&mut before, "kube-apiserver");
            let issuer = Issuer::new(authority().unwrap(), key(AUTHORITY_KEY));
            let before = before.signed_by(&key("server.key"), &issuer).unwrap().pem();
            write(&place.join("server.crt"), &before).unwrap();

            let identity = load_or_make(place, loopback).unwrap();
            let renewed = read(&place.join("server.crt")).unwrap();
            assert!(is_current(&renewed) && renewed != before);
            assert_eq!(identity.ca_pem, issued, "kubeconfigs of before stay good");
            load_or_make(place, loopback).unwrap();
            assert_eq!(read(&place.join("server.crt")).unwrap(), renewed, "and once is enough");
        }
    }
}
