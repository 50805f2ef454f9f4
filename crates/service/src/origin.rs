//! Origins of pages: scheme, host and port, as browsers write them in `Origin` and policies.

use std::fmt;
use std::str::FromStr;

use http::Uri;

/// The origin of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

/// A text that is not an origin.
#[derive(Debug, thiserror::Error)]
#[error("write an origin as https://dashboard.example.com, with a port if it is not the usual one")]
pub struct NotAnOrigin;

impl Origin {
    /// Returns it as browsers send it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Origin {
    type Err = NotAnOrigin;

    fn from_str(text: &str) -> Result<Self, NotAnOrigin> {
        let uri: Uri = text.parse().map_err(|_| NotAnOrigin)?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(NotAnOrigin);
        };
        // Into a header and a policy go only letters that end neither.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".:-[]".contains(&byte);
        if uri.path() != "/" || uri.query().is_some() || !authority.as_str().bytes().all(is_plain) {
            return Err(NotAnOrigin);
        }
        Ok(Self(format!("{scheme}://{}", authority.as_str().to_ascii_lowercase())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read_and_other_texts_are_refused() {
        for text in ["https://a.example", "https://a.example:8443", "http://[::1]:80", "https://127.0.0.1/"] {
            assert_eq!(text.parse::<Origin>().unwrap().as_str(), text.trim_end_matches('/'));
        }
        for text in [
            "a.example",
            "https://",
            "https://a.example/x",
            "https://u@a.example",
            "ftp://a",
            "https://a;b",
            "*",
        ] {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }
}
