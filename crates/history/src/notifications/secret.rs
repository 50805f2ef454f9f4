//! The key that signs deliveries.

use std::fmt;

use crate::error::Error;

/// A key that signs deliveries. It is never printed or serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub(super) Vec<u8>);

impl Secret {
    /// The minimum length of a key in bytes.
    pub const MIN_BYTES: usize = 24;
    /// The maximum length of a key in bytes.
    pub const MAX_BYTES: usize = 64;

    /// Takes a key.
    ///
    /// # Errors
    /// If it is too short or too long.
    pub fn new(bytes: Vec<u8>) -> Result<Self, Error> {
        match (Self::MIN_BYTES..=Self::MAX_BYTES).contains(&bytes.len()) {
            true => Ok(Self(bytes)),
            false => Err(Error::Invalid(format!(
                "a signing key has {} to {} bytes",
                Self::MIN_BYTES,
                Self::MAX_BYTES
            ))),
        }
    }

    /// Creates a random key.
    ///
    /// # Errors
    /// If the machine has no entropy.
    pub fn random() -> Result<Self, Error> {
        let mut bytes = vec![0; 32];
        getrandom::fill(&mut bytes).map_err(|error| Error::Unavailable(error.to_string()))?;
        Ok(Self(bytes))
    }

    /// Returns the key.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::new(b"an-unguessable-key-of-24".to_vec()).unwrap();
        assert!(!format!("{secret:?}").contains("unguessable"));
        assert!(Secret::new(b"short".to_vec()).is_err());
    }
}
