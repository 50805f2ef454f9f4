//! Leader election: two programs, each with its own port to the same API, so that the source of each request is
//! known.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use cluster::apiserver::Endpoint;
use cluster::apiserver::auth::UserInfo;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::runtime::wait::await_condition;
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::net::TcpListener;
use tower::Service;

use crate::program::{Program, Site, get, until_status};
use crate::stage::job;

/// The writes that came in at one port: time and content.
type Writes = Arc<Mutex<Vec<(Instant, String)>>>;

/// Serves the site's API over plain HTTP at a port of its own, and records the writes.
async fn port(site: &Site) -> (String, Writes) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let endpoint = Endpoint::trusted(site.cluster.server().clone(), UserInfo::admin());
    let writes = Writes::default();
    let seen = writes.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (endpoint, seen) = (endpoint.clone(), seen.clone());
            let service = service_fn(move |request: http::Request<Incoming>| {
                if request.method() != http::Method::GET {
                    let line = format!("{} {}", request.method(), request.uri().path());
                    seen.lock().unwrap().push((Instant::now(), line));
                }
                let mut endpoint = endpoint.clone();
                async move { Ok::<_, Infallible>(endpoint.call(request).await.unwrap()) }
            });
            let serve = async move {
                let _ =
                    Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
            };
            tokio::spawn(serve);
        }
    });
    (format!("http://{address}"), writes)
}

async fn start(site: &Site, flags: &[&str]) -> (Program, Writes) {
    let (url, writes) = port(site).await;
    let mut all = vec!["--master", &url, "--lock-namespace", "locks", "--lease-duration", "5"];
    all.extend(flags);
    (site.start(&all), writes)
}

async fn worker_comes(site: &Site, name: &str) {
    let pods: Api<Pod> = Api::namespaced(site.cluster.client(), "team");
    let came = await_condition(pods, name, |pod: Option<&Pod>| pod.is_some());
    tokio::time::timeout(crate::program::PATIENCE, came).await.unwrap().unwrap();
}

fn is_lease(line: &str) -> bool {
    line.contains("/leases")
}

#[tokio::test]
async fn a_frozen_leader_writes_nothing_once_another_leads() {
    let site = Site::new().await;
    site.add_namespace("locks").await;
    let (mut first, writes_of_first) = start(&site, &[]).await;
    first.line("leading").await;
    let (mut second, writes_of_second) = start(&site, &[]).await;
    second.line("standing by").await;
    site.submit(&job("one", 100, json!({}))).await;
    // While it is writing.
    worker_comes(&site, "one-worker-10").await;
    first.signal(Signal::SIGSTOP);
    site.submit(&job("two", 1, json!({}))).await;
    second.line("leading").await;
    worker_comes(&site, "two-worker-0").await;
    worker_comes(&site, "one-worker-99").await;
    first.signal(Signal::SIGCONT);
    first.line("stopping because of an error").await;
    assert_eq!(first.end().await, Some(1), "as upstream, it ends when the lease is lost");
    let of = |writes: &Writes, wanted: fn(&str) -> bool| -> Vec<(Instant, String)> {
        writes.lock().unwrap().iter().filter(|(_, line)| wanted(line)).cloned().collect()
    };
    let no_lease: fn(&str) -> bool = |line| !is_lease(line);
    let (led, _) = of(&writes_of_second, is_lease).remove(0);
    let (last, line) = of(&writes_of_first, no_lease).pop().unwrap();
    assert!(last < led, "the first wrote {line} after the second led");
    assert!(
        of(&writes_of_second, no_lease).iter().all(|(at, _)| *at > led),
        "the second wrote before it led"
    );
}

#[tokio::test]
async fn a_leader_that_is_told_to_stop_hands_over_at_once() {
    let site = Site::new().await;
    site.add_namespace("locks").await;
    let (mut first, _) = start(&site, &["--lease-duration", "600"]).await;
    first.line("leading").await;
    let (mut second, _) = start(&site, &["--monitoring-address", "127.0.0.1:0"]).await;
    let probes = second.line("serving probes").await["address"].as_str().unwrap().to_owned();
    let metrics = second.line("serving metrics").await["address"].as_str().unwrap().to_owned();
    second.line("standing by").await;
    until_status(&probes, "/readyz", 200).await;
    assert!(get(&metrics, "/metrics").await.1.contains("mpi_operator_is_leader 0"));
    first.signal(Signal::SIGTERM);
    first.line("released the lease").await;
    assert_eq!(first.end().await, Some(0));
    second.line("leading").await;
    assert!(get(&metrics, "/metrics").await.1.contains("mpi_operator_is_leader 1"));
    let leases: Api<Lease> = Api::namespaced(site.cluster.client(), "locks");
    let spec = leases.get("mpi-operator").await.unwrap().spec.unwrap();
    assert_eq!(spec.lease_transitions, Some(1));
}
