//! The dashboard: static files that the build script takes in (`build/dashboard.rs`). They hold no data and need no
//! token; what they show, they ask the methods for.

use std::io::Read as _;
use std::sync::OnceLock;

use axum::body::Body;
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use crate::answers::common;
use crate::origin::Origin;
use crate::page;
use crate::response::respond;

/// A file of the dashboard.
struct File {
    path: &'static str,
    content_type: &'static str,
    /// Identifies the content.
    etag: &'static str,
    /// Whether the name changes with the content.
    is_immutable: bool,
    /// Whether the content is compressed with gzip.
    is_compressed: bool,
    content: &'static [u8],
    /// The content for clients that read no gzip, once it was asked for.
    plain: OnceLock<Bytes>,
}

impl File {
    /// Returns the content for the few clients that read no gzip, and for the page that is filled in. It is unpacked once, and
    /// shared by all answers.
    fn plain(&self) -> Bytes {
        if !self.is_compressed {
            return Bytes::from_static(self.content);
        }
        let unpack = || {
            let mut text = Vec::new();
            // The build script compressed it.
            let _ = GzDecoder::new(self.content).read_to_end(&mut text);
            Bytes::from(text)
        };
        self.plain.get_or_init(unpack).clone()
    }
}

include!(concat!(env!("OUT_DIR"), "/dashboard.rs"));

const INDEX: &str = "/index.html";
/// The page that is filled in before it is sent, and where.
const SIGN_IN: &str = "/signin.html";
const FORM: &str = "<!--form-->";
/// Paths of the API. Of everything else, a path that a browser opens is a page of the dashboard.
const NO_PAGES: [&str; 4] = ["/api/", "/assets/", "/training.v1.", "/grpc."];

/// The answer where no dashboard was built.
const NOT_BUILT: &str = "<h1>The dashboard is not part of this program</h1>
<p>The training service works; it was built without the dashboard's files. To build them, in the source tree:</p>
<pre><code>npm --prefix dashboard ci
npm --prefix dashboard run build
cargo build</code></pre>
<p>Then start the program again. The API is described at <a href=\"/docs\">/docs</a>.</p>";

/// The header that restricts what the dashboard's pages may load, and where they may be embedded.
pub fn policy(ancestors: &[Origin]) -> HeaderValue {
    let ancestors: Vec<&str> = ancestors.iter().map(Origin::as_str).collect();
    let ancestors = if ancestors.is_empty() { "'none'".to_owned() } else { ancestors.join(" ") };
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
         connect-src 'self'; worker-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; \
         frame-ancestors {ancestors}"
    );
    // An origin has only letters that a header may have.
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
}

/// Returns the page at which a person signs in, with this in its middle; `None` if no dashboard was built.
pub fn sign_in(form: &str) -> Option<String> {
    let content = file(SIGN_IN)?.plain();
    Some(std::str::from_utf8(&content).ok()?.replacen(FORM, form, 1))
}

fn file(path: &str) -> Option<&'static File> {
    FILES.binary_search_by(|file| file.path.cmp(path)).ok().and_then(|at| FILES.get(at))
}

/// Returns the file at a path, or the page for a path that a browser opens; `None` if there is neither.
pub fn serve(path: &str, headers: &HeaderMap, policy: &HeaderValue) -> Option<Response<Body>> {
    if let Some(file) = file(path).filter(|file| file.path != SIGN_IN) {
        return Some(answer(file, headers, policy));
    }
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let is_page = path == "/"
        || (accept.contains("text/html") && !NO_PAGES.iter().any(|prefix| path.starts_with(prefix)));
    if !is_page {
        return None;
    }
    Some(file(INDEX).map_or_else(
        || page::respond(StatusCode::OK, "Dashboard", NOT_BUILT),
        |index| answer(index, headers, policy),
    ))
}

fn answer(file: &File, headers: &HeaderMap, policy: &HeaderValue) -> Response<Body> {
    let has = |name, text: &str| {
        headers.get_all(name).iter().any(|value| value.to_str().is_ok_and(|value| value.contains(text)))
    };
    let is_known = has(header::IF_NONE_MATCH, file.etag);
    let as_it_is = !file.is_compressed || has(header::ACCEPT_ENCODING, "gzip");
    let content = match (is_known, as_it_is) {
        (true, _) => Body::empty(),
        (false, true) => Body::from(file.content),
        (false, false) => Body::from(file.plain()),
    };
    let status = if is_known { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
    let mut response = respond(status, file.content_type, content);
    let caching = if file.is_immutable { "public, max-age=31536000, immutable" } else { "no-cache" };
    let of = HeaderValue::from_static;
    let fields = [
        (header::CACHE_CONTROL, of(caching)),
        (header::ETAG, of(file.etag)),
        (header::VARY, of("accept-encoding")),
        (header::CONTENT_SECURITY_POLICY, policy.clone()),
        (header::REFERRER_POLICY, of("same-origin")),
        (header::HeaderName::from_static("cross-origin-opener-policy"), of("same-origin")),
    ];
    for (name, value) in fields {
        response.headers_mut().insert(name, value);
    }
    if file.is_compressed && as_it_is && !is_known {
        response.headers_mut().insert(header::CONTENT_ENCODING, of("gzip"));
    }
    common(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_binary_search() {
        assert!(FILES.is_sorted_by_key(|file| file.path));
    }

    #[tokio::test]
    async fn a_file_is_sent_compressed_if_the_client_reads_that_and_not_at_all_if_it_has_it() {
        use flate2::Compression;
        use flate2::write::GzEncoder;
        use http_body_util::BodyExt as _;
        use std::io::Write as _;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(b"let a = 1;").unwrap();
        let file = File {
            path: "/assets/a-12345678.js",
            content_type: "text/javascript; charset=utf-8",
            etag: "\"e\"",
            is_immutable: true,
            is_compressed: true,
            content: encoder.finish().unwrap().leak(),
            plain: OnceLock::new(),
        };
        let policy = policy(&[]);
        let sent = |name: &'static str, value: &'static str| {
            let headers = HeaderMap::from_iter([(
                header::HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )]);
            answer(&file, &headers, &policy)
        };
        let gzip = sent("accept-encoding", "br, gzip");
        assert_eq!(gzip.headers()[header::CONTENT_ENCODING], "gzip");
        assert_eq!(gzip.headers()[header::CACHE_CONTROL], "public, max-age=31536000, immutable");
        assert!(!sent("accept-encoding", "br").headers().contains_key(header::CONTENT_ENCODING));
        let (first, second) = (sent("accept-encoding", "br"), sent("accept-encoding", "br"));
        let first = first.into_body().collect().await.unwrap().to_bytes();
        let second = second.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(first, &b"let a = 1;"[..]);
        assert_eq!(first.as_ptr(), second.as_ptr(), "it is unpacked once");
        assert_eq!(sent("if-none-match", "\"e\"").status(), StatusCode::NOT_MODIFIED);
    }

    #[test]
    fn the_policy_names_who_may_embed_the_pages() {
        let of = |ancestors: &[Origin]| policy(ancestors).to_str().unwrap().to_owned();
        assert!(of(&[]).ends_with("frame-ancestors 'none'"));
        let origin: Origin = "https://odh.example.com".parse().unwrap();
        assert!(of(&[origin]).ends_with("frame-ancestors https://odh.example.com"));
        assert!(!of(&[]).contains("unsafe"));
    }
}
