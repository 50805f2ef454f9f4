//! Creates a client from flags, environment and files: selects the cluster and the namespace.
//!
//! The rule is kubectl's: `--kubeconfig`, else the files of `$KUBECONFIG`, else the file in the settings, else
//! `~/.kube/config`, else the service account of the pod that this runs in. If none of these exists and a local
//! cluster is up, that one is used, with a note.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use http::{HeaderName, HeaderValue};
use jobs::Class;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::console::Console;
use crate::failure::Failure;
use crate::global::Global;
use crate::local::home::Home;
use crate::local::state::State;
use crate::settings;

/// A client with its context.
#[derive(Clone)]
pub struct Connection {
    /// The client.
    pub client: Client,
    /// The namespace to use by default.
    pub namespace: String,
    /// The local cluster's state, if connected to that cluster.
    pub local: Option<State>,
}

/// Connects according to the arguments.
pub async fn connect(console: &Console, global: &Global) -> Result<Connection, Failure> {
    let (mut config, says) = configuration(global).await?;
    impersonate(&mut config, global)?;
    // Readers of a program's output, or of a script's, do not need it.
    if let Some(says) = says.filter(|_| global.verbose > 0) {
        console.note(&says);
    }
    connection(config, global.namespace.as_deref().or(settings::current().namespace.as_deref()))
}

/// As [`connect`], but without printing notes.
pub async fn connect_silently(global: &Global) -> Result<Connection, Failure> {
    let (mut config, _) = configuration(global).await?;
    impersonate(&mut config, global)?;
    connection(config, global.namespace.as_deref().or(settings::current().namespace.as_deref()))
}

/// Applies `--as` and `--as-group`, else the kubeconfig's `as…`, as kubectl does; kube itself parses the latter but
/// does not send them.
fn impersonate(config: &mut Config, global: &Global) -> Result<(), Failure> {
    if global.act_as.is_none() && !global.as_group.is_empty() {
        return Err(Failure::usage("--as-group requires --as", "add the user: --as USER --as-group GROUP"));
    }
    let known = config.auth_info.clone();
    let (user, groups, uid, extra) = match &global.act_as {
        Some(user) => (Some(user.clone()), global.as_group.clone(), None, HashMap::new()),
        None => (
            known.impersonate,
            known.impersonate_groups.unwrap_or_default(),
            known.impersonate_uid,
            known.impersonate_user_extra.unwrap_or_default(),
        ),
    };
    let users = user.map(|user| ("impersonate-user".to_owned(), user));
    let groups = groups.into_iter().map(|group| ("impersonate-group".to_owned(), group));
    let uids = uid.map(|uid| ("impersonate-uid".to_owned(), uid));
    let extras = extra.into_iter().flat_map(|(key, values)| {
        values.into_iter().map(move |value| (format!("impersonate-extra-{key}"), value))
    });
    for (name, value) in users.into_iter().chain(groups).chain(uids).chain(extras) {
        let wrong = || Failure::usage(format!("cannot impersonate {value:?}: invalid name"), "see --as");
        let name = HeaderName::try_from(name).map_err(|_| wrong())?;
        config.headers.push((name, HeaderValue::try_from(&value).map_err(|_| wrong())?));
    }
    Ok(())
}

/// Connects to the local cluster, regardless of the environment.
#[cfg(feature = "local")]
pub async fn connect_local(home: &Home, namespace: Option<&str>) -> Result<Connection, Failure> {
    let config = from_file(&home.kubeconfig(), &KubeConfigOptions::default()).await?;
    connection(config, namespace)
}

fn connection(config: Config, namespace: Option<&str>) -> Result<Connection, Failure> {
    let namespace = namespace.map_or_else(|| config.default_namespace.clone(), str::to_owned);
    let local = local_state(&config);
    let client = client::connect(config).map_err(|error| no_client(&error))?;
    Ok(Connection { client, namespace, local })
}

/// The local cluster's state, if the configuration is for that cluster.
fn local_state(config: &Config) -> Option<State> {
    let state = State::read(&Home::find().ok()?)?;
    let port = config.cluster_url.port_u16();
    (config.cluster_url.host() == Some("127.0.0.1") && port == Some(state.address.port())).then_some(state)
}

/// Replaces the hint of a failure if the local cluster refused the credentials: nobody logs in there.
pub async fn hinting_at_local_users(failure: Failure, global: &Global) -> Failure {
    if *failure.reason != *UNAUTHORIZED {
        return failure;
    }
    let used = configuration(global).await.ok().and_then(|(config, _)| local_state(&config));
    match used {
        Some(_) => Failure { hints: vec![LOCAL_CREDENTIALS.to_owned()], ..failure },
        None => failure,
    }
}

/// The reason with which a server refuses credentials.
const UNAUTHORIZED: &str = "Unauthorized";
/// How users of the local cluster get others.
const LOCAL_CREDENTIALS: &str = "get a new kubeconfig from the owner of the local cluster: odh local user NAME; the owner's own is printed by odh local kubeconfig";

/// The configuration, and a note about its origin if that is not obvious.
async fn configuration(global: &Global) -> Result<(Config, Option<String>), Failure> {
    match origin(global)? {
        Origin::Kubeconfig(selected) => Ok((selected.config().await?, selected.says)),
        Origin::Pod(config) => Ok((*config, None)),
    }
}

/// Where a configuration comes from.
pub enum Origin {
    /// A kubeconfig.
    Kubeconfig(Box<Selected>),
    /// The pod that this runs in.
    Pod(Box<Config>),
}

/// A kubeconfig, and which of its contexts is meant.
pub struct Selected {
    /// The kubeconfig.
    pub kubeconfig: Kubeconfig,
    /// The context.
    pub options: KubeConfigOptions,
    /// What it is called in messages.
    pub name: String,
    /// A note about its origin if that is not obvious.
    says: Option<String>,
}

impl Selected {
    /// Returns the configuration of the context.
    pub async fn config(&self) -> Result<Config, Failure> {
        loaded(self.kubeconfig.clone(), &self.options, &self.name).await
    }
}

/// Returns where the configuration comes from.
pub fn origin(global: &Global) -> Result<Origin, Failure> {
    let settings = settings::current();
    let context = global.context.clone().or_else(|| settings.context.clone());
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let of_file = |file: &Path, says: Option<String>| {
        let (kubeconfig, name) = read(file)?;
        Ok(Origin::Kubeconfig(Box::new(Selected { kubeconfig, options: options.clone(), name, says })))
    };
    if let Some(file) = &global.kubeconfig {
        return of_file(file, None);
    }
    if let Some(kubeconfig) = Kubeconfig::from_env().map_err(|error| unreadable("$KUBECONFIG", &error))? {
        let name = "$KUBECONFIG".to_owned();
        return Ok(Origin::Kubeconfig(Box::new(Selected { kubeconfig, options, name, says: None })));
    }
    if let Some(file) = &settings.kubeconfig {
        return of_file(file, None);
    }
    if let Some(file) = default_file().filter(|file| file.exists()) {
        return of_file(&file, None);
    }
    if let Ok(config) = Config::incluster() {
        return Ok(Origin::Pod(Box::new(config)));
    }
    match Home::find().ok().filter(|home| State::read(home).is_some_and(|state| state.is_alive())) {
        Some(home) => {
            let says =
                format!("no kubeconfig found: using the local cluster ({})", home.kubeconfig().display());
            of_file(&home.kubeconfig(), Some(says))
        }
        None => Err(Failure::new(
            Class::Error,
            "NoCluster",
            "no kubeconfig found, and no local cluster is up",
        )
        .with_hint(
            "log in to a cluster (oc login), point KUBECONFIG at a file, or start one here: odh local up",
        )),
    }
}

fn default_file() -> Option<PathBuf> {
    std::env::home_dir().map(|home| home.join(".kube").join("config"))
}

#[cfg(feature = "local")]
async fn from_file(file: &Path, options: &KubeConfigOptions) -> Result<Config, Failure> {
    let (kubeconfig, name) = read(file)?;
    loaded(kubeconfig, options, &name).await
}

/// Reads a kubeconfig; also returns its name.
fn read(file: &Path) -> Result<(Kubeconfig, String), Failure> {
    let name = file.display().to_string();
    if !file.exists() {
        return Err(Failure::new(Class::Error, "Kubeconfig", format!("kubeconfig {name} not found")));
    }
    Kubeconfig::read_from(file)
        .map(|kubeconfig| (kubeconfig, name.clone()))
        .map_err(|error| unreadable(&name, &error))
}

async fn loaded(kubeconfig: Kubeconfig, options: &KubeConfigOptions, name: &str) -> Result<Config, Failure> {
    let known: Vec<String> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    if let Some(wanted) = options.context.as_ref().filter(|wanted| !known.contains(wanted)) {
        return Err(Failure::usage(
            format!("{name} has no context \"{wanted}\""),
            format!(
                "available contexts: {}",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ),
        ));
    }
    Config::from_custom_kubeconfig(kubeconfig, options).await.map_err(|error| unreadable(name, &error))
}

pub(crate) fn unreadable(name: &str, error: &dyn std::error::Error) -> Failure {
    let mut text = error.to_string();
    if let Some(source) =
        error.source().map(ToString::to_string).filter(|source| !text.contains(source.as_str()))
    {
        text = format!("{text}: {source}");
    }
    Failure::new(Class::Error, "Kubeconfig", format!("cannot use {name}: {text}"))
        .with_hint("choose another file with --kubeconfig, or another context with --context")
}

pub(crate) fn no_client(error: &client::Error) -> Failure {
    let reason = match error {
        client::Error::Client(_) => "Unreachable",
        client::Error::Proxy { .. } | client::Error::Token { .. } => "Kubeconfig",
    };
    Failure::new(Class::Error, reason, format!("cannot connect to the cluster: {error}"))
}
