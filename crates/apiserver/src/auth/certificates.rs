//! Users of client certificates: the common name is the user, the organizations are the groups.
//!
//! The listener has already verified that the cluster's CA signed the certificate for clients. Rule:
//! apiserver `pkg/authentication/request/x509/x509.go` (CommonNameUserConversion).

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::{ObjectIdentifier, PrintableStringRef, Utf8StringRef};

use objects::access::UserInfo;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");

/// A user authenticated by a certificate, until it expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certified {
    /// The user.
    pub user: UserInfo,
    /// When the certificate expires.
    pub until: Timestamp,
}

/// Returns the user of a certificate in DER; `None` if it has no common name.
pub fn certified(der: &[u8]) -> Option<Certified> {
    let certificate = x509_cert::Certificate::from_der(der).ok()?.tbs_certificate;
    let (mut name, mut groups) = (String::new(), Vec::new());
    for part in certificate.subject.0.iter().flat_map(|part| part.0.iter()) {
        let text = Utf8StringRef::try_from(&part.value).map(|text| text.as_str().to_owned());
        let text =
            text.or_else(|_| PrintableStringRef::try_from(&part.value).map(|text| text.as_str().to_owned()));
        let Ok(text) = text else { continue };
        match part.oid {
            COMMON_NAME => name = text,
            ORGANIZATION => groups.push(text),
            _ => {}
        }
    }
    if name.is_empty() {
        return None;
    }
    let until = certificate.validity.not_after.to_unix_duration().as_secs();
    let mut user = UserInfo::known(name, &groups.iter().map(String::as_str).collect::<Vec<_>>());
    let id = format!("X509SHA256={:x}", Sha256::digest(der));
    user.extra.insert("authentication.kubernetes.io/credential-id".to_owned(), vec![id]);
    Some(Certified { user, until: Timestamp::from_second(i64::try_from(until).ok()?).ok()? })
}
