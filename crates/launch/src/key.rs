//! The job's key: derives the handshake's pre-shared key from the file that the job's Secret is mounted as.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Separates this use of the key file from every other: the same file is also the job's ssh key.
const CONTEXT: &[u8] = b"odh-launch pre-shared key v1\0";
/// The most bytes read of a key file; no private key is larger.
const MAX_KEY_FILE: u64 = 64 * 1024;

/// A pre-shared key. It has no `Debug` or `Display`, so that it cannot be printed by accident.
pub struct Key([u8; 32]);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyFault {
    /// The variable is not set.
    #[error("ODH_LAUNCH_KEY is not set: it must name the file with this job's private key")]
    NotSet,
    /// The file cannot be read.
    #[error("cannot read the key of this job from {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is empty or too large.
    #[error("the key file {} is {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// `empty` or `too large`.
        problem: &'static str,
    },
}

impl Key {
    /// Derives the key from the bytes of a key file.
    pub fn derive(file: &[u8]) -> Self {
        Self(Sha256::new().chain_update(CONTEXT).chain_update(file).finalize().into())
    }

    /// Reads the file named by `ODH_LAUNCH_KEY`. Each connection reads it again, because the key may be rotated.
    pub fn read(path: Option<&Path>) -> Result<Self, KeyFault> {
        let path = path.ok_or(KeyFault::NotSet)?;
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_KEY_FILE + 1).read_to_end(&mut bytes))
            .map_err(|source| KeyFault::Unreadable { path: path.to_owned(), source })?;
        let malformed = |problem| Err(KeyFault::Malformed { path: path.to_owned(), problem });
        match bytes.len() {
            0 => malformed("empty"),
            length if length as u64 > MAX_KEY_FILE => malformed("too large"),
            _ => Ok(Self::derive(&bytes)),
        }
    }

    /// Returns the 32 bytes that the handshake mixes in.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_is_another_key_and_the_context_counts() {
        assert_eq!(Key::derive(b"a").bytes(), Key::derive(b"a").bytes());
        assert_ne!(Key::derive(b"a").bytes(), Key::derive(b"b").bytes());
        let bare: [u8; 32] = Sha256::digest(b"a").into();
        assert_ne!(Key::derive(b"a").bytes(), &bare);
    }

    #[test]
    fn a_missing_or_empty_key_is_a_clear_fault() {
        assert!(matches!(Key::read(None), Err(KeyFault::NotSet)));
        let empty = std::env::temp_dir().join(format!("odh-launch-empty-key-{}", std::process::id()));
        std::fs::write(&empty, b"").unwrap();
        assert!(matches!(Key::read(Some(&empty)), Err(KeyFault::Malformed { .. })));
        std::fs::remove_file(&empty).unwrap();
        assert!(matches!(Key::read(Some(&empty)), Err(KeyFault::Unreadable { .. })));
    }
}
