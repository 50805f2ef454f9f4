//! `kill -9` of the program at any moment loses nothing that it acknowledged.

use std::net::SocketAddr;
use std::path::Path;

use history::audit::{Verification, verify};
use history::store::Location;
use serde_json::json;

use crate::place::{Place, on_each};
use crate::site::Site;
use crate::stage::{TEAM, job};

/// How often the program is killed.
const ROUNDS: usize = 4;
/// The number of clients that ask at once.
const CLIENTS: usize = 4;

/// What the program acknowledged.
struct Acknowledged {
    /// The path under which it is read.
    path: String,
    /// A text that is read there.
    holds: String,
    /// The id of the request.
    request: String,
}

/// Creates a job, a template, a rule and a notification again and again until the program is gone.
async fn client(
    site: &Site,
    address: SocketAddr,
    name: &str,
    acknowledged: &tokio::sync::mpsc::Sender<Acknowledged>,
) {
    for number in 0..6 {
        let name = format!("{name}-{number}");
        let base = format!("/api/v1/namespaces/{TEAM}");
        let manifest = job(&name).to_string();
        let changes = [
            (
                "POST",
                format!("{base}/jobs"),
                json!({ "manifest": manifest, "skipChecks": true }),
                format!("{base}/jobs/mpijob/{name}"),
            ),
            (
                "PUT",
                format!("{base}/templates/{name}"),
                json!({ "manifest": manifest }),
                format!("{base}/templates/{name}"),
            ),
            (
                "PUT",
                format!("{base}/notifications/{name}"),
                // A name that nobody can have: its notifications stay on their way.
                json!({ "url": "https://hook.invalid/" }),
                format!("{base}/notifications/{name}"),
            ),
            (
                "POST",
                format!("{base}/notifications/{name}/test"),
                json!({}),
                format!("{base}/deliveries?limit=500"),
            ),
        ];
        for (verb, at, body, path) in changes {
            let Some(reply) = site.ask(address, verb, &at, Some(body)).await else { return };
            assert_eq!(reply.status, 200, "{verb} {at}: {}", reply.text);
            let request = reply.headers["x-request-id"].to_str().unwrap().to_owned();
            let holds = match reply.json()["id"].as_str() {
                Some(delivery) => delivery.to_owned(),
                None => name.clone(),
            };
            acknowledged.send(Acknowledged { path, holds, request }).await.unwrap();
        }
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost_by_a_kill() {
    on_each(async |place| {
        let site = Site::new().await;
        std::fs::create_dir_all(store_folder(place)).unwrap();
        let mut all: Vec<Acknowledged> = Vec::new();
        for round in 0..ROUNDS {
            let (mut child, address) = site.start(place, &[]).await;
            let (sender, mut receiver) = tokio::sync::mpsc::channel(1000);
            let names: Vec<String> = (0..CLIENTS).map(|number| format!("j-{round}-{number}")).collect();
            let clients =
                futures::future::join_all(names.iter().map(|name| client(&site, address, name, &sender)));
            let killing = async {
                for _ in 0..3 + 7 * round {
                    all.push(receiver.recv().await.unwrap());
                }
                // SIGKILL, while it is at the next requests.
                child.kill().await.unwrap();
            };
            tokio::join!(clients, killing);
            drop(sender);
            while let Some(acknowledged) = receiver.recv().await {
                all.push(acknowledged);
            }
        }
        let (_child, address) = site.start(place, &[]).await;
        let mut recorded = String::new();
        let mut next = String::new();
        loop {
            let page = site.get(address, &format!("/api/v1/audit?limit=500&continue={next}")).await.unwrap();
            recorded.push_str(&page.text);
            match page.json()["continue"].as_str() {
                Some(more) => next = more.to_owned(),
                None => break,
            }
        }
        for Acknowledged { path, holds, request } in &all {
            let kept = site.get(address, path).await.unwrap();
            assert!(kept.status == 200 && kept.text.contains(holds), "{path} {holds}: {}", kept.text);
            let lines = recorded.split(&format!("\"request\":\"{request}\"")).nth(1).unwrap_or_default();
            let own = lines.split("\"request\"").next().unwrap_or_default();
            for stage in ["RequestReceived", "ResponseComplete"] {
                assert_eq!(own.matches(stage).count(), 1, "{path} {stage}: {own}");
            }
        }
        let chain = verify(&place.open().await, &[]).await.unwrap();
        assert!(matches!(chain, Verification::Intact { .. }), "{chain:?}");
        site.cluster.stop().await;
    });
}

fn store_folder(place: &Place) -> &Path {
    match &place.location {
        Location::File(path) => path.parent().unwrap(),
        Location::Postgres(_) => place.folder.path(),
    }
}
