//! The bearer token of a configuration, without the white space around it, as in client-go.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use kube::client::Body;
use kube::config::AuthInfo;
use secrecy::{ExposeSecret, SecretString};

use crate::Error;

/// After this time, a file is read again: its token may have been replaced.
const READ_AGAIN: Duration = Duration::from_secs(60);

/// A file with a token.
pub(crate) struct TokenFile {
    path: PathBuf,
    /// The header of the token read last, and when it was read.
    last: Mutex<(HeaderValue, Instant)>,
}

/// Trims the token in the credentials' field. If they have a file instead, moves it out of them: kube would not trim what
/// it contains.
pub(crate) fn take_file(credentials: &mut AuthInfo) -> Result<Option<TokenFile>, Error> {
    if let Some(token) = &credentials.token {
        let token = token.expose_secret().trim().to_owned();
        bearer(&token).map_err(|reason| wrong("the kubeconfig's token".to_owned(), reason))?;
        credentials.token = Some(SecretString::from(token));
        return Ok(None);
    }
    // These come first in kube.
    if credentials.auth_provider.is_some() || credentials.username.is_some() && credentials.password.is_some()
    {
        return Ok(None);
    }
    credentials.token_file.take().map(|path| TokenFile::open(path.into())).transpose()
}

impl TokenFile {
    fn open(path: PathBuf) -> Result<Self, Error> {
        let origin = || format!("the kubeconfig's tokenFile {}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|error| wrong(origin(), error.to_string()))?;
        let header = bearer(text.trim()).map_err(|reason| wrong(origin(), reason))?;
        Ok(Self { path, last: Mutex::new((header, Instant::now())) })
    }

    /// Adds the token to a request. A file that can no longer be read does not invalidate the token read from it before.
    pub fn authorize(&self, mut request: Request<Body>) -> Request<Body> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.1.elapsed() > READ_AGAIN {
            last.1 = Instant::now();
            let text = std::fs::read_to_string(&self.path).map_err(|error| error.to_string());
            match text.and_then(|text| bearer(text.trim())) {
                Ok(header) => last.0 = header,
                Err(reason) => {
                    tracing::warn!(file = %self.path.display(), reason, "cannot read the token again")
                }
            }
        }
        request.headers_mut().insert(AUTHORIZATION, last.0.clone());
        request
    }
}

/// The header of a token; RFC 6750 allows visible ASCII characters in it.
fn bearer(token: &str) -> Result<HeaderValue, String> {
    if token.is_empty() {
        return Err("it is empty".to_owned());
    }
    let visible = token.bytes().all(|byte| byte.is_ascii_graphic());
    let header = Some(format!("Bearer {token}")).filter(|_| visible).map(HeaderValue::try_from);
    let Some(Ok(mut header)) = header else {
        return Err(
            "it contains a character that no token has, for example a blank or a line break".to_owned()
        );
    };
    header.set_sensitive(true);
    Ok(header)
}

fn wrong(origin: String, reason: String) -> Error {
    Error::Token { origin, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_file(text: &str) -> Result<String, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, text).unwrap();
        let mut credentials =
            AuthInfo { token_file: Some(path.display().to_string()), ..AuthInfo::default() };
        let file = take_file(&mut credentials)?.unwrap();
        assert_eq!(credentials.token_file, None, "kube must not add its own header");
        let request = file.authorize(Request::new(Body::empty()));
        Ok(request.headers()[AUTHORIZATION].to_str().unwrap().to_owned())
    }

    #[test]
    fn white_space_around_a_token_is_no_part_of_it() {
        assert_eq!(in_file("abc.def\n").unwrap(), "Bearer abc.def");
        assert_eq!(in_file(" abc.def\r\n\n").unwrap(), "Bearer abc.def");
        let mut credentials = AuthInfo { token: Some("abc\n".into()), ..AuthInfo::default() };
        assert!(take_file(&mut credentials).unwrap().is_none());
        assert_eq!(credentials.token.unwrap().expose_secret(), "abc");
    }

    #[test]
    fn a_wrong_token_is_named_and_not_printed() {
        for text in ["secret\nsecret", "secret secret", "secretä"] {
            let message = in_file(text).unwrap_err().to_string();
            assert!(message.contains("tokenFile") && message.contains("no token has"), "{message}");
            assert!(!message.contains("secret"), "{message}");
        }
        assert!(in_file("\n").unwrap_err().to_string().ends_with("it is empty"));
        let mut missing = AuthInfo { token_file: Some("/nowhere/token".to_owned()), ..AuthInfo::default() };
        let Err(error) = take_file(&mut missing) else { panic!("there is no such file") };
        assert!(error.to_string().contains("/nowhere/token: No such file"), "{error}");
    }

    #[test]
    fn other_credentials_come_first_as_in_kube() {
        let mut credentials = AuthInfo {
            username: Some("me".to_owned()),
            password: Some("word".into()),
            token_file: Some("/nowhere/token".to_owned()),
            ..AuthInfo::default()
        };
        assert!(take_file(&mut credentials).unwrap().is_none());
    }
}
