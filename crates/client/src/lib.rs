//! Makes the client of an API server from a configuration ([`connect`]), as client-go does: through which proxy it
//! connects, and with which token.
//!
//! kube's own client differs in both: it compares `NO_PROXY` with the address of the proxy instead of the server's,
//! refuses a `NO_PROXY` with an empty item, and takes the line break at the end of a token file for a part of the
//! token. So its feature `http-proxy` stays off, and kube hands over the proxy's address as it found it.

mod no_proxy;
mod proxy;
mod token;
mod tunnel;

use std::sync::Arc;

use kube::client::ClientBuilder;
use kube::{Client, Config};
use thiserror::Error;
use tower::util::MapRequestLayer;

use crate::proxy::Environment;

/// Why no client could be made. No text contains a password or a token.
#[derive(Debug, Error)]
pub enum Error {
    /// The address of the proxy cannot be used.
    #[error(
        "{origin} is not the address of a proxy: write http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT"
    )]
    Proxy {
        /// The variable or field that has the address.
        origin: &'static str,
    },
    /// The token cannot be sent.
    #[error("{origin}: {reason}")]
    Token {
        /// The field that has the token, and the file.
        origin: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Any other reason.
    #[error(transparent)]
    Client(#[from] kube::Error),
}

/// Makes a client.
///
/// A kubeconfig's `proxy-url` is always used. Otherwise `HTTPS_PROXY` is (`HTTP_PROXY` for a server without TLS), but not for
/// a server on loopback or one that `NO_PROXY` names, and not for a pod's own cluster.
pub fn connect(config: Config) -> Result<Client, Error> {
    connect_from(config, &Environment::read())
}

fn connect_from(mut config: Config, environment: &Environment) -> Result<Client, Error> {
    let proxy = proxy::of(&config, environment)?;
    config.proxy_url = None;
    let token = token::take_file(&mut config.auth_info)?.map(Arc::new);
    let builder = match proxy {
        Some(proxy) => tunnel::through(&proxy, config)?,
        None => ClientBuilder::try_from(config)?,
    };
    Ok(match token {
        Some(token) => {
            builder.with_layer(&MapRequestLayer::new(move |request| token.authorize(request))).build()
        }
        None => builder.build(),
    })
}
