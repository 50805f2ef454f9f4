//! Streams into pods: `pods/exec`, `pods/attach` and `pods/portforward`, over WebSockets and SPDY.
//!
//! [`answer`] checks the request as `pkg/registry/core/pod` does, runs admission, calls the node
//! ([`super::kubelet`]), and responds with 101. A separate task then transfers data between the client
//! ([`channels`] over a WebSocket, [`spdy`] over SPDY) and the process ([`command`]) or the connections
//! ([`forward`]). The number of sessions is limited; each ends with its pod, its client or the server
//! ([`Sessions`]).
//!
//! Rules: `pkg/registry/core/pod/{strategy,rest/subresources}.go`, KEP-4006 and
//! `k8s.io/cri-streaming/pkg/streaming`.

mod channels;
mod command;
mod forward;
mod socket;
mod spdy;
mod upgrade;

use std::future::Future;
use std::sync::Arc;

use http::Response;
use http::request::Parts;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::admission;
use super::auth::authority;
use super::kubelet::{ExecRequest, Kubelet, Process, StreamError, StreamRequest};
use super::reply::Body;
use super::request_context::RequestContext;
use super::route::Action;
use super::status::{self, About, StatusError};
use super::{ApiServer, query, subresources};
use crate::store::{Key, Resource};
use upgrade::{Transport, Upgrade};

/// The maximum number of concurrent sessions; further requests get 429.
const MAX_SESSIONS: usize = 256;
/// The maximum number of ports that one session may forward over a WebSocket.
const MAX_PORTS: usize = 64;
/// The maximum number of arguments of a command; the kernel limits their length.
const MAX_WORDS: usize = 4096;
/// The `Retry-After` of a 429, in seconds.
const RETRY_SECONDS: u32 = 1;

/// The open sessions.
pub struct Sessions {
    permits: Arc<Semaphore>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Default for Sessions {
    fn default() -> Self {
        let permits = Arc::new(Semaphore::new(MAX_SESSIONS));
        Self { permits, stop: CancellationToken::new(), tasks: TaskTracker::new() }
    }
}

impl Sessions {
    /// Starts to close all sessions.
    pub fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
    }

    /// Resolves when all sessions have ended; call [`Sessions::stop`] first.
    pub async fn ended(&self) {
        self.tasks.wait().await;
    }

    fn permit(&self) -> Result<OwnedSemaphorePermit, StatusError> {
        self.permits.clone().try_acquire_owned().map_err(|_| {
            busy(&format!("{MAX_SESSIONS} exec, attach and port-forward sessions are open already"))
        })
    }

    fn spawn(&self, permit: OwnedSemaphorePermit, session: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            let _permit = permit;
            tokio::select! {
                () = session => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

fn busy(why: &str) -> StatusError {
    StatusError::new(429, "TooManyRequests", why).retry_after(RETRY_SECONDS)
}

/// Returns whether an action opens a stream.
pub fn is_stream(action: &Action<'_>) -> bool {
    action.group.is_empty()
        && action.resource == "pods"
        && matches!(action.subresource, "exec" | "attach" | "portforward")
}

/// Opens a stream: responds with 101 and spawns a task for the session.
///
/// # Errors
/// 400 for invalid parameters, an unknown container or a missing upgrade; 403; 404; 429; 500; admission's
/// errors.
pub async fn answer(context: &RequestContext<'_>, parts: &Parts) -> Result<Response<Body>, StatusError> {
    let RequestContext { server, user, action, .. } = context;
    let upgrade = upgrade::wanted(parts)?;
    if action.verb != "create" {
        // Since 1.35, a WebSocket's GET also requires the permission to create
        // (`AuthorizePodWebsocketUpgradeCreatePermission`). Here, so does SPDY's.
        let create = Action { verb: "create", ..*action };
        authority::authorize(&server.authority, user, &authority::ask_of(&create, ""))?;
    }
    let resource = Resource::new("", "pods");
    let about = About { group: "", resource: "pods", name: action.name };
    let record = server
        .store()
        .get(&resource, &Key::new(action.namespace, action.name))
        .ok_or_else(|| status::not_found(about))?;
    let pod = &record.value();
    let parameters = query::pairs(parts.uri.query().unwrap_or_default());
    admission::connect(context, &options(action, &parameters)).await?;
    let permit = server.sessions.permit()?;
    if action.subresource == "portforward" {
        return forward_ports(server, pod, &parameters, upgrade, permit);
    }
    let (kubelet, request) = stream_request(server, action, pod, &parameters)?;
    let streams = spdy_streams(&request);
    let process = if action.subresource == "exec" {
        let command = all(&parameters, "command").take(MAX_WORDS).map(str::to_owned).collect::<Vec<_>>();
        if command.is_empty() {
            return Err(status::bad_request("you must specify at least 1 command for the container"));
        }
        kubelet.exec(ExecRequest { stream: request, command }).await
    } else {
        kubelet.attach(request).await
    };
    let process: Result<Process, String> = match process {
        Ok(process) => Ok(process),
        // Errors at the start of the process are reported after the upgrade, as a kubelet does.
        Err(StreamError::Start(why)) => Err(why),
        Err(StreamError::NotFound(why)) => return Err(status::internal(why)),
        Err(StreamError::Busy(why)) => return Err(busy(&why)),
    };
    let (answer, transport) = upgrade.accept(upgrade::Purpose::Command)?;
    server.sessions.spawn(permit, async move {
        match transport.open().await {
            Ok(Transport::Channels(socket, dialect)) => channels::serve(socket, dialect, process).await,
            Ok(Transport::Spdy(wire, pump)) => {
                tokio::join!(spdy::command(wire, process, &streams), pump);
            }
            Err(error) => tracing::debug!(%error, "a stream could not be opened"),
        }
    });
    Ok(answer)
}

fn forward_ports(
    server: &Arc<ApiServer>,
    pod: &Value,
    parameters: &[(String, String)],
    upgrade: Upgrade,
    permit: OwnedSemaphorePermit,
) -> Result<Response<Body>, StatusError> {
    let kubelet = kubelet_of(server, pod)?;
    let ports = forward::ports(all(parameters, "ports"))?;
    if ports.len() > MAX_PORTS {
        return Err(status::bad_request(format!("{} ports are more than {MAX_PORTS}", ports.len())));
    }
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let (answer, transport) = upgrade.accept(upgrade::Purpose::Forward)?;
    server.sessions.spawn(permit, async move {
        let over = kubelet.pod_ended(&uid);
        let session = async {
            match transport.open().await {
                Ok(Transport::Channels(socket, _)) => forward::serve(socket, &*kubelet, &uid, &ports).await,
                Ok(Transport::Spdy(wire, pump)) => {
                    tokio::join!(spdy::forward(wire, &*kubelet, &uid), pump);
                }
                Err(error) => tracing::debug!(%error, "a stream could not be opened"),
            }
        };
        tokio::select! {
            () = session => {}
            () = over => {}
        }
    });
    Ok(answer)
}

/// Returns the object for admission: `PodExecOptions`, `PodAttachOptions` or `PodPortForwardOptions`.
fn options(action: &Action<'_>, parameters: &[(String, String)]) -> Value {
    if action.subresource == "portforward" {
        let ports = forward::ports(all(parameters, "ports")).unwrap_or_default();
        return json!({"kind": "PodPortForwardOptions", "apiVersion": "v1", "ports": ports});
    }
    let is_exec = action.subresource == "exec";
    let kind = if is_exec { "PodExecOptions" } else { "PodAttachOptions" };
    let mut options = json!({"kind": kind, "apiVersion": "v1"});
    for name in ["stdin", "stdout", "stderr", "tty"] {
        if flag(parameters, name) {
            options[name] = true.into();
        }
    }
    if let Some(container) = all(parameters, "container").next().filter(|name| !name.is_empty()) {
        options["container"] = container.into();
    }
    if is_exec {
        options["command"] = all(parameters, "command").take(MAX_WORDS).collect();
    }
    options
}

fn flag(parameters: &[(String, String)], name: &str) -> bool {
    crate::query::flag(all(parameters, name).next())
}

/// Returns the streams that a SPDY client opens for a command.
fn spdy_streams(request: &StreamRequest) -> Vec<&'static str> {
    let StreamRequest { uid: _, container: _, stdin, stdout, stderr, tty } = request;
    let all =
        [(true, "error"), (*stdin, "stdin"), (*stdout, "stdout"), (*stderr, "stderr"), (*tty, "resize")];
    all.into_iter().filter(|(wanted, _)| *wanted).map(|(_, name)| name).collect()
}

fn all<'a>(parameters: &'a [(String, String)], name: &'a str) -> impl Iterator<Item = &'a str> {
    parameters.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn kubelet_of(server: &ApiServer, pod: &Value) -> Result<Arc<dyn Kubelet>, StatusError> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let node = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty());
    let node =
        node.ok_or_else(|| status::bad_request(format!("pod {name} does not have a host assigned")))?;
    let silent = || status::internal(format!("the node {node:?} of pod {name:?} does not answer"));
    server.kubelets.get(node).ok_or_else(silent)
}

/// Determines the node, the container and the streams (`streamLocation` of
/// `pkg/registry/core/pod/strategy.go`).
fn stream_request(
    server: &ApiServer,
    action: &Action<'_>,
    pod: &Value,
    parameters: &[(String, String)],
) -> Result<(Arc<dyn Kubelet>, StreamRequest), StatusError> {
    let flag = |name: &str| flag(parameters, name);
    let wanted = all(parameters, "container").next().filter(|name| !name.is_empty());
    let container = subresources::container(action.name, pod, wanted)?;
    if semantics::has_ended(pod) {
        let phase = semantics::phase(pod);
        let verb = if action.subresource == "exec" { "exec into" } else { "attach to" };
        return Err(status::bad_request(format!(
            "cannot {verb} a container in a completed pod; current phase is {phase}"
        )));
    }
    let kubelet = kubelet_of(server, pod)?;
    let tty = flag("tty");
    let request = StreamRequest {
        uid: pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
        container,
        stdin: flag("stdin"),
        stdout: flag("stdout"),
        // A terminal has a single output (`PodExecOptions`' validation).
        stderr: flag("stderr") && !tty,
        tty,
    };
    if !request.stdin && !request.stdout && !request.stderr {
        return Err(status::bad_request("you must specify at least one of stdin, stdout, stderr"));
    }
    Ok((kubelet, request))
}
