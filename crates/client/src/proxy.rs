//! Through which proxy a server is reached: from the kubeconfig or the environment. Pure, but for [`Environment::read`].

use http::Uri;
use kube::Config;

use crate::Error;
use crate::no_proxy::is_direct;

/// The variables about proxies; empty if unset. Names in upper case come first, as in Go.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    pub https_proxy: String,
    pub http_proxy: String,
    pub no_proxy: String,
}

impl Environment {
    pub fn read() -> Self {
        let variable = |name: &str| {
            [name.to_ascii_uppercase(), name.to_owned()]
                .into_iter()
                .filter_map(|name| std::env::var(name).ok())
                .find(|value| !value.is_empty())
                .unwrap_or_default()
        };
        Self {
            https_proxy: variable("https_proxy"),
            http_proxy: variable("http_proxy"),
            no_proxy: variable("no_proxy"),
        }
    }
}

/// A proxy, and what names it in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proxy {
    /// With scheme, host and port; it may contain credentials.
    pub address: Uri,
    pub origin: &'static str,
}

/// Returns the proxy of a configuration; `None` for a direct connection.
///
/// kube has set `proxy_url` to the kubeconfig's, else to `HTTPS_PROXY`, without regard to `NO_PROXY` and the server's
/// scheme; it leaves it out for a pod's own cluster, whose address is always reached directly.
pub(crate) fn of(config: &Config, environment: &Environment) -> Result<Option<Proxy>, Error> {
    let by_environment = environment.https_proxy.parse::<Uri>().ok();
    if let Some(named) = config.proxy_url.as_ref().filter(|named| Some(*named) != by_environment.as_ref()) {
        return parse(&named.to_string(), "the kubeconfig's proxy-url").map(Some);
    }
    let plain = config.cluster_url.scheme_str() == Some("http");
    let (address, origin, default_port) = match (plain, &config.proxy_url) {
        (true, _) => (&environment.http_proxy, "HTTP_PROXY", 80),
        (false, Some(_)) => (&environment.https_proxy, "HTTPS_PROXY", 443),
        (false, None) => return Ok(None),
    };
    let host = config.cluster_url.host().unwrap_or_default();
    let port = config.cluster_url.port_u16().unwrap_or(default_port);
    if address.is_empty() || is_direct(&environment.no_proxy, host, port) {
        return Ok(None);
    }
    parse(address, origin).map(Some)
}

/// Reads an address as Go does: without a scheme, it is that of an HTTP proxy.
fn parse(text: &str, origin: &'static str) -> Result<Proxy, Error> {
    let wrong = || Error::Proxy { origin };
    let text = text.trim();
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let mut parts = text.parse::<Uri>().map_err(|_| wrong())?.into_parts();
    let default_port = match parts.scheme.as_ref().map(http::uri::Scheme::as_str) {
        Some("http") => 80,
        Some("https") => 443,
        Some("socks5" | "socks5h") => 1080,
        _ => return Err(wrong()),
    };
    let authority = parts.authority.filter(|authority| !authority.host().is_empty()).ok_or_else(wrong)?;
    parts.authority = Some(if authority.port().is_some() {
        authority
    } else {
        format!("{authority}:{default_port}").parse().map_err(|_| wrong())?
    });
    parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    Uri::from_parts(parts).map(|address| Proxy { address, origin }).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(https_proxy: &str, no_proxy: &str) -> Environment {
        Environment {
            https_proxy: https_proxy.to_owned(),
            http_proxy: "http://plain:1".to_owned(),
            no_proxy: no_proxy.to_owned(),
        }
    }

    /// `named` is what kube found.
    fn proxy(server: &str, named: Option<&str>, environment: &Environment) -> Option<String> {
        let mut config = Config::new(server.parse().unwrap());
        config.proxy_url = named.map(|named| named.parse().unwrap());
        of(&config, environment).unwrap().map(|proxy| proxy.address.to_string())
    }

    #[test]
    fn the_variable_applies_unless_the_server_is_exempt() {
        let set = environment("http://proxy:3128", ".svc,");
        let of = |server| proxy(server, Some("http://proxy:3128"), &set);
        assert_eq!(of("https://api.example.org:6443"), Some("http://proxy:3128/".to_owned()));
        assert_eq!(of("https://kubernetes.default.svc"), None);
        assert_eq!(of("https://127.0.0.1:6443"), None);
        assert_eq!(of("http://api.example.org"), Some("http://plain:1/".to_owned()), "a server without TLS");
    }

    #[test]
    fn a_kubeconfigs_proxy_is_always_used() {
        let set = environment("http://other:3128", "*");
        let of = |server| proxy(server, Some("http://proxy:3128"), &set);
        assert_eq!(of("https://127.0.0.1:6443"), Some("http://proxy:3128/".to_owned()));
        assert_eq!(of("http://api.example.org"), Some("http://proxy:3128/".to_owned()));
    }

    #[test]
    fn a_pod_reaches_its_own_cluster_directly() {
        assert_eq!(proxy("https://10.96.0.1", None, &environment("http://proxy:3128", "")), None);
    }

    #[test]
    fn addresses_are_read_as_go_reads_them() {
        let read = |text| parse(text, "HTTPS_PROXY").map(|proxy| proxy.address.to_string()).ok();
        assert_eq!(read("proxy:3128").as_deref(), Some("http://proxy:3128/"));
        assert_eq!(read("proxy").as_deref(), Some("http://proxy:80/"));
        assert_eq!(read("https://me:word@proxy/path").as_deref(), Some("https://me:word@proxy:443/"));
        assert_eq!(read("socks5://[fd00::1]").as_deref(), Some("socks5://[fd00::1]:1080/"));
        assert_eq!(read("ftp://proxy"), None);
        assert_eq!(read("http://"), None);
        let message = parse("ftp://me:word@proxy", "HTTPS_PROXY").unwrap_err().to_string();
        assert!(message.starts_with("HTTPS_PROXY is not") && !message.contains("word"), "{message}");
    }
}
