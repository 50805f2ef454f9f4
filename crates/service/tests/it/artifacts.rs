//! Files of a job's volumes over REST and gRPC. The node runs the commands on this machine, so that the real scripts meet
//! real files, links and names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use service::contract::{ListArtifactsRequest, ReadArtifactRequest};
use tempfile::TempDir;

use crate::stage::{JANE, Stage, TEAM, VERA, call};

const ARTIFACTS: &str = "/api/v1/namespaces/team-cv/jobs/mpijob/train/artifacts";

/// A job with a running Launcher that mounts a claim, in it a Secret, and beside it a token.
async fn stage() -> (Stage, TempDir) {
    let stage = Stage::new().await;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for name in ["data/run", "data/key", "token", "outside"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    std::fs::write(root.join("data/model.bin"), (0..=255).collect::<Vec<u8>>()).unwrap();
    std::fs::write(root.join("data/run/page.html"), "<script>alert(1)</script>").unwrap();
    for secret in ["data/key/private", "token/token", "outside/x"] {
        std::fs::write(root.join(secret), "secret").unwrap();
    }
    symlink("../token", root.join("data/to-token")).unwrap();
    symlink("../outside/x", root.join("data/to-outside")).unwrap();
    symlink("key/private", root.join("data/to-key")).unwrap();
    symlink("model.bin", root.join("data/latest")).unwrap();
    stage.job(TEAM, "train").await;
    let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let volumes = json!([
        { "name": "data", "persistentVolumeClaim": { "claimName": "results" } },
        { "name": "key", "secret": { "secretName": "key" } },
        { "name": "token", "projected": { "sources": [] } },
    ]);
    let mounts = json!([
        { "name": "data", "mountPath": at("data") },
        { "name": "key", "mountPath": at("data/key") },
        { "name": "token", "mountPath": at("token") },
    ]);
    stage.runs(TEAM, "train", "launcher", "train-launcher-x", volumes, mounts).await;
    (stage, folder)
}

fn address(what: &str, path: &Path) -> String {
    let path = path.to_str().unwrap().replace('%', "%25");
    format!("{ARTIFACTS}{what}?path={path}")
}

#[tokio::test]
async fn volumes_and_folders_are_listed_without_secrets() {
    let (stage, folder) = stage().await;
    let data = folder.path().join("data");
    let volumes = stage.get(ARTIFACTS, JANE).await;
    assert_eq!(volumes.status, 200, "{}", volumes.text);
    let volumes = volumes.json()["artifacts"].as_array().cloned().unwrap();
    assert_eq!(volumes.len(), 1, "{volumes:?}");
    assert_eq!((&volumes[0]["type"], &volumes[0]["claim"]), (&json!("volume"), &json!("results")));
    assert_eq!(volumes[0]["path"], data.to_str().unwrap());
    let listed = stage.get(&address("", &data), JANE).await.json();
    let of = |entry: &Value| {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        (text("name"), text("type"), text("size"), entry["link"].as_bool().unwrap())
    };
    let entry =
        |name: &str, what: &str, size: &str, link| (name.to_owned(), what.to_owned(), size.to_owned(), link);
    assert_eq!(
        listed["artifacts"].as_array().unwrap().iter().map(of).collect::<Vec<_>>(),
        [
            entry("key", "folder", "", false),
            entry("run", "folder", "", false),
            entry("to-token", "folder", "", true),
            entry("latest", "file", "", true),
            entry("model.bin", "file", "256", false),
            entry("to-key", "file", "", true),
            entry("to-outside", "file", "", true),
        ]
    );
    assert_eq!((&listed["pod"], &listed["truncated"]), (&json!("train-launcher-x"), &json!(false)));
}

#[tokio::test]
async fn nothing_outside_of_the_volumes_is_read_whichever_way_leads_there() {
    let (stage, folder) = stage().await;
    let at = |name: &str| folder.path().join(name);
    for (what, name, status, reason) in [
        ("/content", "data/to-outside", 422, "NotInVolume"),
        ("/content", "data/to-token/token", 422, "NotInVolume"),
        ("/content", "data/to-key", 422, "NotInVolume"),
        ("/content", "data/key/private", 422, "NotInVolume"),
        ("/content", "token/token", 422, "NotInVolume"),
        ("/content", "data/../outside/x", 422, "Invalid"),
        ("/content", "outside/x", 422, "NotInVolume"),
        ("/content", "data/run", 422, "NotFile"),
        ("/content", "data/absent", 404, "FileNotFound"),
        ("", "data/to-token", 422, "NotInVolume"),
        ("", "data/key", 422, "NotInVolume"),
        ("", "data/model.bin", 422, "NotFolder"),
        ("", "", 422, "NotInVolume"),
    ] {
        let reply = stage.get(&address(what, &at(name)), JANE).await;
        let problem = reply.json();
        assert_eq!(
            (reply.status, problem["reason"].as_str().unwrap()),
            (status, reason),
            "{name}: {}",
            reply.text
        );
        assert!(!reply.text.contains("secret\""), "{name}");
    }
    for path in ["etc/passwd", "/etc/passwd", "/proc/self/environ", "/data/%252e%252e/x", "/%00"] {
        let reply = stage.get(&format!("{ARTIFACTS}/content?path={path}"), JANE).await;
        assert_eq!(reply.status, 422, "{path}: {}", reply.text);
    }
    assert_eq!(stage.get(ARTIFACTS, VERA).await.status, 403);
    let refused = stage.get(&address("/content", &at("data/model.bin")), VERA).await;
    let message = "User 'vera' lacks 'create' permission for pods/exec in namespace 'team-cv'";
    assert_eq!((refused.status, &refused.json()["message"]), (403, &json!(message)));
}

#[tokio::test]
async fn a_file_is_saved_and_never_shown() {
    let (stage, folder) = stage().await;
    let page = stage.get(&address("/content", &folder.path().join("data/run/page.html")), JANE).await;
    assert_eq!((page.status, page.text.as_str()), (200, "<script>alert(1)</script>"));
    let header = |name: &str| page.headers[name].to_str().unwrap();
    assert_eq!(header("content-type"), "application/octet-stream");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(
        header("content-disposition"),
        "attachment; filename=\"page.html\"; filename*=UTF-8''page.html"
    );
    assert_eq!(header("content-security-policy"), "default-src 'none'; sandbox");
    assert_eq!(header("content-length"), "25");
    let part = format!("{}&offset=3&limit=4", address("/content", &folder.path().join("data/run/page.html")));
    assert_eq!(stage.get(&part, JANE).await.text, "ript");
    for wrong in ["offset=x", "offset=-1", "limit=-1", "worker=-1"] {
        let path = format!("{}&{wrong}", address("/content", &folder.path().join("data/latest")));
        assert_eq!(stage.get(&path, JANE).await.status, 422, "{wrong}");
    }
}

#[tokio::test]
async fn hostile_names_and_every_byte_travel_over_both_protocols() {
    let (stage, folder) = stage().await;
    let data = folder.path().join("data");
    let name = OsStr::from_bytes(b"\xff<img src=x>\n\xe2\x80\xae%41\"");
    let bytes: Vec<u8> = (0..300_000_u32).flat_map(u32::to_be_bytes).collect();
    std::fs::write(data.join(name), &bytes).unwrap();
    let mut client = stage.grpc().await;
    let request = ListArtifactsRequest {
        namespace: TEAM.to_owned(),
        kind: "mpijob".to_owned(),
        name: "train".to_owned(),
        path: data.to_str().unwrap().to_owned(),
        worker: None,
    };
    let listed = client.list_artifacts(call(JANE, request.clone())).await.unwrap().into_inner();
    let found = listed.artifacts.iter().find(|entry| entry.name.contains("<img")).unwrap();
    assert!(found.path.contains("%FF<img src=x>%0A\u{202e}%2541\""), "{}", found.path);
    let read = ReadArtifactRequest {
        namespace: request.namespace,
        kind: request.kind,
        name: request.name,
        path: found.path.clone(),
        ..ReadArtifactRequest::default()
    };
    let mut chunks = client.read_artifact(call(JANE, read)).await.unwrap().into_inner();
    let head = chunks.message().await.unwrap().unwrap();
    assert_eq!((head.size.as_str(), head.length.as_str(), head.data.len()), ("1200000", "1200000", 0));
    let mut received = Vec::new();
    while let Some(chunk) = chunks.message().await.unwrap() {
        received.extend(chunk.data);
    }
    assert!(received == bytes, "{} bytes", received.len());
}

#[tokio::test]
async fn without_a_running_pod_the_answer_says_where_the_files_are() {
    let (stage, _folder) = stage().await;
    let claim = json!({ "name": "data", "persistentVolumeClaim": { "claimName": "results" } });
    let mut job = crate::stage::job("ended");
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["volumes"] = json!([claim]);
    let made = stage
        .rest("POST", "/api/v1/namespaces/team-cv/jobs", JANE, Some(json!({ "manifest": job.to_string() })))
        .await;
    assert_eq!(made.status, 200, "{}", made.text);
    let reply = stage.get(&ARTIFACTS.replace("train", "ended"), JANE).await;
    let problem = reply.json();
    assert_eq!((reply.status, &problem["reason"]), (409, &json!("NeedsReader")));
    assert!(problem["hint"].as_str().unwrap().contains("PersistentVolumeClaim results"), "{problem}");
    let other = stage.get(&format!("{ARTIFACTS}?worker=7"), JANE).await;
    assert!(other.text.contains("The pod of Worker 7 is not running"), "{}", other.text);
}

#[tokio::test]
async fn a_reader_is_started_once_the_launcher_has_ended_and_replaces_one_that_has() {
    let stage = Stage::new().await;
    let mut job = crate::stage::job("ended");
    let launcher = &mut job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"];
    launcher["volumes"] = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "results" } }]);
    launcher["containers"][0]["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
    let made = stage
        .rest("POST", "/api/v1/namespaces/team-cv/jobs", JANE, Some(json!({ "manifest": job.to_string() })))
        .await;
    assert_eq!(made.status, 200, "{}", made.text);
    let path = "/api/v1/namespaces/team-cv/jobs/mpijob/ended/reader";
    let start = async || stage.rest("POST", path, JANE, Some(json!({}))).await;
    stage.runs(TEAM, "ended", "worker", "ended-worker-0", json!([]), json!([])).await;
    let early = start().await;
    assert_eq!((early.status, &early.json()["reason"]), (409, &json!("PodRuns")), "{}", early.text);

    // A Worker that stays, as with `cleanPodPolicy: None`, mounts nothing that the Launcher has written to.
    stage.pod(TEAM, "ended", "launcher", "ended-launcher-x").await;
    let begun = start().await;
    assert_eq!((begun.status, &begun.json()["pod"]), (200, &json!("ended-reader")), "{}", begun.text);

    let pods: Api<Pod> = Api::namespaced(stage.admin.clone(), TEAM);
    let ends = async |reason: &str| {
        let state =
            json!({ "terminated": { "exitCode": 137, "reason": reason, "message": "it was killed" } });
        let status = json!({ "phase": "Failed", "containerStatuses": [{ "name": "reader", "image": "i", "imageID": "",
            "ready": false, "restartCount": 0, "state": state }] });
        let patch = Patch::Merge(json!({ "status": status }));
        let ended = pods.patch_status("ended-reader", &PatchParams::default(), &patch).await.unwrap();
        ended.metadata.uid
    };
    let lost = ends("ContainerStatusUnknown").await;
    let again = start().await;
    assert_eq!(again.status, 200, "{}", again.text);
    assert_ne!(pods.get("ended-reader").await.unwrap().metadata.uid, lost);

    // A failure of its own is said once, so that nobody asks for ever.
    let failed = ends("Error").await;
    let told = start().await;
    assert_eq!((told.status, &told.json()["reason"]), (409, &json!("ReaderFailed")), "{}", told.text);
    assert_eq!(start().await.status, 200);
    assert_ne!(pods.get("ended-reader").await.unwrap().metadata.uid, failed);
}
