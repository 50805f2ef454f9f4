//! Users with tokens of their own, created by `odh local user`: a file beside the cluster's other state.
//!
//! It contains only digests of the tokens. The file is read again after each change, so a removed user is
//! rejected from the next request on. It is replaced atomically.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::tls;
use objects::access::UserInfo;

/// The file's name in the state directory.
pub const FILE: &str = "users.json";
/// The maximum number of users in a file.
pub const MAX_USERS: usize = 1000;

/// A user with a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// The user's name.
    pub name: String,
    /// Unique over time: a user who is deleted and created again under the same name gets another UID.
    pub uid: String,
    /// The user's groups.
    #[serde(default)]
    pub groups: Vec<String>,
    /// The SHA-256 digest of the token, in unpadded base64url.
    pub token_sha256: String,
    /// When the token expires.
    pub expires: Timestamp,
}

impl Person {
    /// Creates a user who is authenticated by this token.
    pub fn new(name: &str, groups: Vec<String>, token: &str, expires: Timestamp) -> Self {
        let uid = uuid::Uuid::new_v4().to_string();
        Self { name: name.into(), uid, groups, token_sha256: encoded(token), expires }
    }

    fn user(&self) -> UserInfo {
        let groups = self.groups.iter().map(String::as_str).collect::<Vec<_>>();
        UserInfo { uid: self.uid.clone(), ..UserInfo::known(&self.name, &groups) }
    }
}

/// Reads the users in a file, in the order in which they were added. A missing file has none.
///
/// # Errors
/// If the file cannot be read or parsed.
pub fn load(path: &Path) -> io::Result<Vec<Person>> {
    match std::fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Replaces a file of users atomically.
///
/// # Errors
/// If it cannot be written, or there are more than [`MAX_USERS`].
pub fn save(path: &Path, people: &[Person]) -> io::Result<()> {
    if people.len() > MAX_USERS {
        return Err(io::Error::other(format!("there can be no more than {MAX_USERS} users; delete some")));
    }
    let text = serde_json::to_string_pretty(people).map_err(io::Error::other)?;
    let new = path.with_extension("json.new");
    tls::write(&new, &text).map_err(io::Error::other)?;
    std::fs::rename(&new, path)
}

/// The users in a file, read again when it changes.
#[derive(Debug)]
pub struct Users {
    path: PathBuf,
    cached: Mutex<CachedFile>,
}

/// Identifies a version of the file: inode, modification time in nanoseconds, size.
type Stamp = (u64, i64, u64);

#[derive(Debug, Default)]
struct CachedFile {
    stamp: Option<Stamp>,
    people: Arc<[Person]>,
}

impl Users {
    /// Creates a view of the file at `path`, which need not exist.
    pub fn new(path: PathBuf) -> Self {
        Self { path, cached: Mutex::default() }
    }

    /// Returns the user of a token.
    pub fn of_token(&self, token: &str, now: Timestamp) -> Option<UserInfo> {
        let digest = encoded(token);
        let people = self.people();
        people.iter().find(|person| person.token_sha256 == digest && now < person.expires).map(Person::user)
    }

    fn people(&self) -> Arc<[Person]> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = std::fs::metadata(&self.path).ok().map(|file| {
            (
                file.ino(),
                file.mtime().saturating_mul(1_000_000_000).saturating_add(file.mtime_nsec()),
                file.len(),
            )
        });
        if stamp != cached.stamp {
            let people = load(&self.path).unwrap_or_else(|error| {
                // A damaged file authenticates nobody.
                tracing::warn!(%error, path = %self.path.display(), "the file of users cannot be read");
                Vec::new()
            });
            *cached = CachedFile { stamp, people: people.into() };
        }
        cached.people.clone()
    }
}

fn encoded(token: &str) -> String {
    URL_SAFE_NO_PAD.encode(super::digest(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_follow_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let users = Users::new(path.clone());
        let at = |second| Timestamp::from_second(second).unwrap();
        let who = |token: &str, second| users.of_token(token, at(second)).map(|user| user.name);
        assert_eq!(who("a", 0), None);
        let anna = Person::new("anna", vec!["team".into()], "a", at(100));
        save(&path, &[anna.clone(), Person::new("ben", vec![], "b", at(100))]).unwrap();
        assert_eq!(
            (who("a", 99), who("b", 99), who("c", 99)),
            (Some("anna".into()), Some("ben".into()), None)
        );
        assert_eq!(who("a", 100), None, "expired");
        let user = users.of_token("a", at(0)).unwrap();
        assert_eq!(user.groups, ["team", "system:authenticated"]);
        assert_eq!(user.uid, anna.uid);
        assert!(!std::fs::read_to_string(&path).unwrap().contains("\"a\""), "no token is kept");
        save(&path, &[anna]).unwrap();
        assert_eq!((who("a", 0), who("b", 0)), (Some("anna".into()), None));
        std::fs::write(&path, "damaged").unwrap();
        assert_eq!(who("a", 0), None);
    }
}
