//! Pages of the service itself: complete in one answer, without scripts and without requests for anything else.

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Response, StatusCode, header};
use sha2::{Digest as _, Sha256};

use crate::response;

const STYLE: &str = "
:root { color-scheme: light dark; --line: #8888; --link: light-dark(#0057b8, #7cc0ff); }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 2rem; max-width: 40rem; }
h1 { font-size: 1.5rem; line-height: 1.3; } a { color: var(--link); }
code, pre { font: 14px/1.45 ui-monospace, monospace; }
pre { border: 1px solid var(--line); padding: .75rem 1rem; overflow-x: auto; border-radius: 6px; }
label { display: block; font-weight: 600; } .fault { border-left: 4px solid #c9190b; padding: .25rem 1rem; }
input { font: inherit; box-sizing: border-box; width: 100%; padding: .5rem; margin: .25rem 0 1rem; }
button { font: inherit; padding: .5rem 1.5rem; }
";

/// Returns the answer with a page.
pub fn respond(status: StatusCode, title: &str, body: &str) -> Response<Body> {
    let html = html(title, body);
    let policy = policy(&html);
    with_policy(status, html, policy)
}

/// Returns a page with a title and a body in HTML.
pub fn html(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<style>{STYLE}</style>\n</head>\n\
         <body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )
}

/// The header by which a page may load nothing but its own style.
pub fn policy(html: &str) -> Option<HeaderValue> {
    let style = html.split_once("<style>").and_then(|(_, rest)| rest.split_once("</style>"));
    let digest = STANDARD.encode(Sha256::digest(style.map_or("", |(style, _)| style)));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{digest}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    );
    HeaderValue::try_from(policy).ok()
}

/// Returns a whole page with this policy of what it may load.
pub fn with_policy(status: StatusCode, html: impl Into<Body>, policy: Option<HeaderValue>) -> Response<Body> {
    let mut response = response::respond(status, "text/html; charset=utf-8", html.into());
    let headers = response.headers_mut();
    if let Some(policy) = policy {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    // Not `no-referrer`: with it, browsers send no origin with the form.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// Writes a text so that it is a text in HTML, too.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
