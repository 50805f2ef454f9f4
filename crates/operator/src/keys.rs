//! A job's key pair: P-521, as upstream (`newSSHAuthSecret` in `pkg/controller/mpi_job_controller.go`). Randomness
//! comes from the kernel; the private key is stored only in the Secret.

use p521::SecretKey;
use p521::elliptic_curve::sec1::ToEncodedPoint;
use plan::KeyPair;
use sec1::der::EncodePem;
use sec1::der::oid::ObjectIdentifier;
use sec1::pkcs8::LineEnding;
use sec1::{EcParameters, EcPrivateKey};
use ssh_key::PublicKey;
use ssh_key::public::{EcdsaPublicKey, KeyData};

use crate::error::Error;

/// Bytes of a P-521 scalar; the first holds one bit.
const SCALAR_BYTES: usize = 66;
/// The curve's name (RFC 5480, section 2.1.1.1).
const SECP521R1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");
/// A random scalar is out of range with a probability below 2⁻²⁵⁰, so two in a row mean a broken source.
const TRIES: usize = 2;

/// Creates a key pair.
///
/// # Errors
/// If the kernel provides no randomness, or none in range.
pub(crate) fn new_key_pair() -> Result<KeyPair, Error> {
    let secret = new_secret()?;
    let point = secret.public_key().to_encoded_point(false);
    let private_pem = private_pem(&secret, point.as_bytes())?;
    let public = PublicKey::new(KeyData::Ecdsa(EcdsaPublicKey::NistP521(point)), "");
    let public_line = public.to_openssh().map_err(key_error)?.trim_end().to_owned() + "\n";
    Ok(KeyPair { private_pem, public_line })
}

/// Encodes the private key as Go's `x509.MarshalECPrivateKey` does (RFC 5915). It names the curve, which the
/// standard makes optional and `SecretKey::to_sec1_pem` omits: OpenSSH refuses a key without it ("invalid format").
fn private_pem(secret: &SecretKey, public_key: &[u8]) -> Result<String, Error> {
    let private_key = secret.to_bytes();
    let key = EcPrivateKey {
        private_key: &private_key,
        parameters: Some(EcParameters::NamedCurve(SECP521R1)),
        public_key: Some(public_key),
    };
    key.to_pem(LineEnding::LF).map_err(key_error)
}

fn new_secret() -> Result<SecretKey, Error> {
    for _ in 0..TRIES {
        let mut bytes = [0_u8; SCALAR_BYTES];
        getrandom::fill(&mut bytes).map_err(key_error)?;
        bytes[0] &= 1;
        if let Ok(secret) = SecretKey::from_slice(&bytes) {
            return Ok(secret);
        }
    }
    Err(Error::Key("the random number generator yields no valid key".to_owned()))
}

fn key_error(error: impl std::fmt::Display) -> Error {
    Error::Key(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_has_the_forms_that_sshd_and_ssh_read() {
        let pair = new_key_pair().unwrap();
        assert!(
            pair.private_pem.starts_with("-----BEGIN EC PRIVATE KEY-----\n"),
            "{}",
            pair.private_pem.len()
        );
        assert!(pair.private_pem.ends_with("-----END EC PRIVATE KEY-----\n"));
        assert!(pair.public_line.starts_with("ecdsa-sha2-nistp521 AAAA"), "{}", pair.public_line);
        assert!(pair.public_line.ends_with('\n') && pair.public_line.lines().count() == 1);
        let (_, der) = sec1::der::pem::decode_vec(pair.private_pem.as_bytes()).unwrap();
        let named = sec1::der::Encode::to_der(&SECP521R1).unwrap();
        assert!(der.windows(named.len()).any(|part| part == named), "the curve is named");
        let read = SecretKey::from_sec1_pem(&pair.private_pem).unwrap();
        let public: PublicKey = pair.public_line.trim().parse().unwrap();
        let KeyData::Ecdsa(EcdsaPublicKey::NistP521(point)) = public.key_data() else { panic!("not P-521") };
        assert_eq!(read.public_key().to_encoded_point(false), *point, "the halves belong together");
        assert_ne!(new_key_pair().unwrap().private_pem, pair.private_pem);
    }
}
