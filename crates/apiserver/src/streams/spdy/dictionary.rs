//! The preset dictionary of SPDY/3 header compression (draft-mbelshe-httpbis-spdy-00, 2.6.10.1):
//! length-prefixed words, then text.

use std::sync::LazyLock;

/// The words, in the order of the draft.
const WORDS: &str = "options;head;post;put;delete;trace;accept;accept-charset;accept-encoding;accept-language;\
    accept-ranges;age;allow;authorization;cache-control;connection;content-base;content-encoding;\
    content-language;content-length;content-location;content-md5;content-range;content-type;date;etag;\
    expect;expires;from;host;if-match;if-modified-since;if-none-match;if-range;if-unmodified-since;\
    last-modified;location;max-forwards;pragma;proxy-authenticate;proxy-authorization;range;referer;\
    retry-after;server;te;trailer;transfer-encoding;upgrade;user-agent;vary;via;warning;\
    www-authenticate;method;get;status;200 OK;version;HTTP/1.1;url;public;set-cookie;keep-alive;origin";
/// The text after the words.
const TEXT: [&str; 6] = [
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 No",
    "n-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403",
    " Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Fe",
    "b Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunke",
    "d,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/",
    "javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.",
];

/// The dictionary's bytes.
pub static DICTIONARY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = Vec::new();
    for word in WORDS.split(';') {
        bytes.extend_from_slice(&u32::try_from(word.len()).unwrap_or_default().to_be_bytes());
        bytes.extend_from_slice(word.as_bytes());
    }
    bytes.extend(TEXT.concat().into_bytes());
    bytes
});

#[cfg(test)]
mod tests {
    use super::DICTIONARY;

    #[test]
    fn the_dictionary_is_that_of_the_draft() {
        // The length, and the Adler-32 checksum with which zlib streams identify the dictionary.
        let (a, b) = DICTIONARY.iter().fold((1u32, 0u32), |(a, b), byte| {
            let a = (a + u32::from(*byte)) % 65521;
            (a, (b + a) % 65521)
        });
        assert_eq!((DICTIONARY.len(), (b << 16) | a), (1423, 0xe3c6_a7c2));
    }
}
