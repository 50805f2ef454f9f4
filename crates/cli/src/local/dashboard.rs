//! `odh local dashboard`: an address that signs a browser in, once.

use std::process::{Command, Stdio};

use jobs::Class;
use kube::Config;
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use serde::Deserialize;

use super::home::Home;
use super::state::{ServiceState, State, write_private};
use crate::arguments::Dashboard;
use crate::console::Console;
use crate::failure::Failure;

/// The program with which desktops open a file.
const OPENER: &str = "xdg-open";

/// `odh local dashboard`
pub async fn run(console: &Console, dashboard: &Dashboard) -> Result<u8, Failure> {
    let home = Home::find()?;
    let Some(service) = State::alive(&home).and_then(|state| state.service) else {
        return Err(Failure::new(Class::NotFound, "NotUp", "the local cluster is not up")
            .with_hint("start it with: odh local up"));
    };
    let address = address(&service).await?;
    console.data(&format!("{address}\n"))?;
    if !dashboard.print && !open(&home, &address)? {
        console.note("no browser can be opened from here; open the address in one");
    }
    Ok(0)
}

/// The service's answer.
#[derive(Deserialize)]
struct SignIn {
    path: String,
}

/// Asks the service for an address that signs the administrator in.
pub async fn address(service: &ServiceState) -> Result<String, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(
            Class::Error,
            "ServiceUnreachable",
            format!("the training service does not answer: {error}"),
        )
    };
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig(service), &options).await;
    let client = config
        .map_err(|error| failed(&error))
        .and_then(|config| client::connect(config).map_err(|error| failed(&error)))?;
    let request = http::Request::post("/api/v1/signin").body(Vec::new()).map_err(|error| failed(&error))?;
    let answer: SignIn = client.request(request).await.map_err(|error| failed(&error))?;
    Ok(format!("{}{}", service.url, answer.path))
}

/// What connects to the service: its protocol is HTTP with a bearer token, as the cluster's is.
fn kubeconfig(service: &ServiceState) -> Kubeconfig {
    let name = "service".to_owned();
    let cluster = Cluster {
        server: Some(service.url.clone()),
        certificate_authority: Some(service.certificate_authority.display().to_string()),
        ..Cluster::default()
    };
    let person = AuthInfo { token_file: Some(service.token.display().to_string()), ..AuthInfo::default() };
    let context = Context { cluster: name.clone(), user: Some(name.clone()), ..Context::default() };
    Kubeconfig {
        clusters: vec![NamedCluster {
            name: name.clone(),
            cluster: Some(cluster),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: name.clone(),
            auth_info: Some(person),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: name.clone(),
            context: Some(context),
            ..NamedContext::default()
        }],
        current_context: Some(name),
        ..Kubeconfig::default()
    }
}

/// Opens an address in the desktop's browser; returns whether there is one. Other users see a program's arguments, so
/// the browser gets a private file that leads there.
fn open(home: &Home, address: &str) -> Result<bool, Failure> {
    if std::env::var_os("DISPLAY").is_none() && std::env::var_os("WAYLAND_DISPLAY").is_none() {
        return Ok(false);
    }
    let page = home.service().join("dashboard.html");
    let address = address.replace('&', "&amp;");
    let html = format!(
        "<!doctype html>\n<meta http-equiv=\"refresh\" content=\"0; url={address}\">\n<title>Dashboard</title>\n"
    );
    write_private(&page, html.as_bytes())?;
    let mut opener = Command::new(OPENER);
    opener.arg(&page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(opener.status().is_ok_and(|status| status.success()))
}
