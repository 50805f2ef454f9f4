//! People with tokens of their own, as `odh local user` makes them: a file beside the cluster's other state.
//!
//! Only digests of the tokens are kept. The file is read again when it has changed, so that whoever is taken off it is
//! refused from the next request on; it is written as a whole or not at all.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::access::UserInfo;
use crate::tls;

/// The file's name in the state directory.
pub const FILE: &str = "users.json";
/// People that one file may hold.
pub const MAX_USERS: usize = 1000;

/// One person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// The user's name.
    pub name: String,
    /// Unique over time: who is made anew under an old name is somebody else.
    pub uid: String,
    /// The user's groups.
    #[serde(default)]
    pub groups: Vec<String>,
    /// The digest of the token, in unpadded base64url.
    pub token_sha256: String,
    /// Until when the token is good.
    pub expires: Timestamp,
}

impl Person {
    /// A person who is known by this token.
    pub fn new(name: &str, groups: Vec<String>, token: &str, expires: Timestamp) -> Self {
        let uid = uuid::Uuid::new_v4().to_string();
        Self { name: name.into(), uid, groups, token_sha256: encoded(token), expires }
    }

    fn user(&self) -> UserInfo {
        let groups = self.groups.iter().map(String::as_str).collect::<Vec<_>>();
        UserInfo { uid: self.uid.clone(), ..UserInfo::known(&self.name, &groups) }
    }
}

/// The people of a file, in the order in which they were added; none where there is no file.
///
/// # Errors
/// When it cannot be read, or holds something else.
pub fn load(path: &Path) -> io::Result<Vec<Person>> {
    match std::fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Writes a file of people; a reader sees the old ones or the new.
///
/// # Errors
/// When it cannot be written, or there are more than [`MAX_USERS`].
pub fn save(path: &Path, people: &[Person]) -> io::Result<()> {
    if people.len() > MAX_USERS {
        return Err(io::Error::other(format!("there can be no more than {MAX_USERS} users; delete some")));
    }
    let text = serde_json::to_string_pretty(people).map_err(io::Error::other)?;
    let new = path.with_extension("json.new");
    tls::write(&new, &text).map_err(io::Error::other)?;
    std::fs::rename(&new, path)
}

/// The people of a file, kept up with it.
#[derive(Debug)]
pub struct Users {
    path: PathBuf,
    seen: Mutex<Seen>,
}

/// What tells one state of a file from another: inode, time of change in nanoseconds, size.
type Stamp = (u64, i64, u64);

#[derive(Debug, Default)]
struct Seen {
    stamp: Option<Stamp>,
    people: Arc<[Person]>,
}

impl Users {
    /// The people of the file at `path`, which need not be there.
    pub fn new(path: PathBuf) -> Self {
        Self { path, seen: Mutex::default() }
    }

    /// Whose token it is.
    pub fn of_token(&self, token: &str, now: Timestamp) -> Option<UserInfo> {
        let digest = encoded(token);
        let people = self.people();
        people.iter().find(|person| person.token_sha256 == digest && now < person.expires).map(Person::user)
    }

    fn people(&self) -> Arc<[Person]> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = std::fs::metadata(&self.path).ok().map(|file| {
            (
                file.ino(),
                file.mtime().saturating_mul(1_000_000_000).saturating_add(file.mtime_nsec()),
                file.len(),
            )
        });
        if stamp != seen.stamp {
            let people = load(&self.path).unwrap_or_else(|error| {
                // Whom a damaged file meant is not known: nobody gets in by it.
                tracing::warn!(%error, path = %self.path.display(), "the file of users cannot be read");
                Vec::new()
            });
            *seen = Seen { stamp, people: people.into() };
        }
        seen.people.clone()
    }
}

fn encoded(token: &str) -> String {
    URL_SAFE_NO_PAD.encode(super::digest(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_come_and_go_with_the_file() {
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
