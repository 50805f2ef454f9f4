//! `kill -9` of the program at any moment loses nothing that it acknowledged.

use std::net::SocketAddr;
use std::path::Path;

use history::audit::{Verification, verify};
use history::store::Location;
use serde_json::json;

use crate::place::{Place, on_each};
use crate::site::Site;
use crate::stage::{Reply, TEAM, job};

/// How often the program is killed.
const ROUNDS: usize = 4;
/// The number of clients that ask at once.
const CLIENTS: usize = 4;

/// What the program acknowledged: the path of the object, and the id of the request.
type Acknowledged = (String, String);

/// Creates a job and a rule again and again until the program is gone.
async fn client(
    site: &Site,
    address: SocketAddr,
    name: &str,
    acknowledged: &tokio::sync::mpsc::Sender<Acknowledged>,
) {
    for number in 0..6 {
        let name = format!("{name}-{number}");
        let base = format!("/api/v1/namespaces/{TEAM}");
        let body = json!({ "manifest": job(&name).to_string(), "skipChecks": true });
        let Some(created) = site.ask(address, "POST", &format!("{base}/jobs"), Some(body)).await else {
            return;
        };
        assert_eq!(created.status, 200, "{}", created.text);
        let id = |reply: &Reply| reply.headers["x-request-id"].to_str().unwrap().to_owned();
        acknowledged.send((format!("{base}/jobs/mpijob/{name}"), id(&created))).await.unwrap();
        let (path, body) = (format!("{base}/notifications/{name}"), json!({ "url": "https://example.com/" }));
        let Some(put) = site.ask(address, "PUT", &path, Some(body)).await else { return };
        assert_eq!(put.status, 200, "{}", put.text);
        acknowledged.send((path, id(&put))).await.unwrap();
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
                for _ in 0..3 + 5 * round {
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
        for (path, id) in &all {
            assert_eq!(site.get(address, path).await.unwrap().status, 200, "{path}");
            let lines = recorded.split(&format!("\"request\":\"{id}\"")).nth(1).unwrap_or_default();
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
