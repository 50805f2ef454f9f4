use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::*;

/// Runs a script as a pod would: its arguments, then the places of mounts.
fn script(text: &str, arguments: &[&OsStr], programs: Option<&Path>) -> (i32, Vec<u8>) {
    let mut command = Command::new("sh");
    command.args(["-c", text, "sh"]).args(arguments);
    if let Some(programs) = programs {
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", programs.display()));
    }
    let output = command.output().unwrap();
    (output.status.code().unwrap(), output.stdout)
}

/// The texts at the head of what a script prints, and the rest.
fn split(text: &[u8], count: usize) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut parts: Vec<Vec<u8>> = text.splitn(count + 1, |byte| *byte == 0).map(<[u8]>::to_vec).collect();
    let rest = parts.pop().unwrap();
    (parts, rest)
}

/// A folder with hostile names, and a `find` that cannot print.
fn stage() -> (tempfile::TempDir, tempfile::TempDir) {
    let (folder, programs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
    for name in [&b"plain"[..], b"a\nb", b"\xff\xfe", b"-rf", b" d 1 2 x", b".hidden", b"%41"] {
        std::fs::write(at(name), "12345").unwrap();
    }
    std::fs::create_dir(at(b"folder")).unwrap();
    symlink("folder", at(b"to-folder")).unwrap();
    symlink("/nowhere", at(b"to-nothing")).unwrap();
    let find = programs.path().join("find");
    std::fs::write(&find, "#!/bin/sh\nexit 1\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&find, executable).unwrap();
    (folder, programs)
}

#[test]
fn hostile_names_are_listed_as_they_are_with_and_without_a_find_that_prints() {
    let (folder, programs) = stage();
    for programs in [None, Some(programs.path())] {
        let arguments =
            [folder.path().as_os_str(), OsStr::new("2001"), OsStr::new("/usr"), OsStr::new("/no")];
        let (code, text) = script(LIST, &arguments, programs);
        assert_eq!(code, 0);
        let (head, rest) = split(&text, 3);
        assert_eq!(head[2], folder.path().canonicalize().unwrap().as_os_str().as_bytes());
        assert_eq!(head[0], b"/usr");
        let mut found = entries(&rest);
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let of = |entry: &Entry| (path_of(&entry.name), entry.what, entry.is_link, entry.size);
        let file = |name: &str| (name.to_owned(), What::File, false, Some(5));
        assert_eq!(
            found.iter().map(of).collect::<Vec<_>>(),
            [
                file(" d 1 2 x"),
                file("%2541"),
                file("-rf"),
                file(".hidden"),
                file("a%0Ab"),
                ("folder".to_owned(), What::Folder, false, None),
                file("plain"),
                ("to-folder".to_owned(), What::Folder, true, None),
                ("to-nothing".to_owned(), What::Other, true, None),
                file("%FF%FE"),
            ],
            "{programs:?}"
        );
        assert!(found.iter().all(|entry| entry.modified.is_some()));
    }
}

#[test]
fn a_file_is_read_from_an_offset_and_its_head_says_where_it_really_is() {
    let (folder, _programs) = stage();
    let link = folder.path().join("link");
    symlink("plain", &link).unwrap();
    let read = |first: &str, most: &str| {
        script(READ, &[link.as_os_str(), OsStr::new(first), OsStr::new(most)], None)
    };
    for (first, most, content) in [("1", "100", "12345"), ("1", "2", "12"), ("3", "2", "34"), ("9", "2", "")]
    {
        let (code, text) = read(first, most);
        let (head, rest) = split(&text, 2);
        assert_eq!((code, String::from_utf8(rest).unwrap().as_str()), (0, content));
        assert!(head[0].ends_with(b"/plain"));
        let (mode, size, modified) = status(&head[1]).unwrap();
        assert!(is_regular(mode) && size == 5 && modified.is_some());
    }
    let code = |path: &Path| script(READ, &[path.as_os_str(), OsStr::new("1"), OsStr::new("1")], None).0;
    assert_eq!(code(&folder.path().join("absent")), 44);
    assert_eq!(code(folder.path()), 45);
    assert_eq!(code(Path::new("/dev/zero")), 45);
}

#[tokio::test]
async fn a_stream_that_ends_early_or_never_ends_has_no_head() {
    assert!(texts(&mut &b"a\0b"[..], 2).await.unwrap().is_none());
    assert_eq!(
        texts(&mut &b"\0\0rest"[..], 2).await.unwrap().unwrap(),
        (vec![vec![], vec![]], b"rest".to_vec())
    );
    let endless = vec![b'x'; MOST_HEAD_BYTES + CHUNK_BYTES];
    assert!(texts(&mut &endless[..], 1).await.is_err());
}

#[test]
fn paths_are_encoded_and_read_again_and_those_that_lead_elsewhere_are_refused() {
    for bytes in [&b"/a"[..], b"/a b%41", b"/\xff\xc3\xa4\n", "/\u{202e}x".as_bytes()] {
        assert_eq!(names::checked(&path_of(bytes)).unwrap(), bytes);
    }
    assert_eq!(names::checked("//data///x/").unwrap(), b"/data/x");
    assert_eq!(names::checked("/50%").unwrap(), b"/50%");
    let long = "/x".repeat(4000);
    for path in ["", "data", "/data/..", "/data/./x", "/data/%2e%2e/x", "/data/%00", &long] {
        assert!(names::checked(path).is_err(), "{path:.20}");
    }
}

fn pod(name: &str, volumes: serde_json::Value, mounts: serde_json::Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "training.kubeflow.org/job-role": "worker" } },
        "spec": { "containers": [{ "name": "main", "volumeMounts": mounts }], "volumes": volumes },
    }))
    .unwrap()
}

#[test]
fn only_volumes_with_files_of_the_job_are_shown_and_shared_ones_once() {
    let volumes = json!([
        { "name": "data", "persistentVolumeClaim": { "claimName": "results" } },
        { "name": "scratch", "emptyDir": {} },
        { "name": "shm", "emptyDir": { "medium": "Memory" } },
        { "name": "agent", "emptyDir": {} },
        { "name": "key", "secret": { "secretName": "key" } },
        { "name": "token", "projected": {} },
        { "name": "settings", "configMap": { "name": "c" } },
        { "name": "node", "hostPath": { "path": "/" } },
        { "name": "store", "csi": { "driver": "secrets-store.csi.k8s.io" } },
    ]);
    let mounts = json!([
        { "name": "data", "mountPath": "/data/" },
        { "name": "key", "mountPath": "/data/key" },
        { "name": "scratch", "mountPath": "/scratch" },
        { "name": "shm", "mountPath": "/dev/shm" },
        { "name": "agent", "mountPath": api::LAUNCH_DIRECTORY },
        { "name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" },
        { "name": "settings", "mountPath": "/settings" },
        { "name": "node", "mountPath": "/node" },
        { "name": "store", "mountPath": "/store" },
    ]);
    let pods = [pod("a-worker-0", volumes.clone(), mounts.clone()), pod("a-worker-1", volumes, mounts)];
    let found = mounts::volumes(&pods);
    let of = |volume: &Volume| (volume.path.clone(), volume.source, volume.claim.clone(), volume.worker);
    let scratch = |worker| ("/scratch".to_owned(), Source::EmptyDir, None, Some(worker));
    let data = ("/data".to_owned(), Source::PersistentVolumeClaim, Some("results".to_owned()), Some(0));
    assert_eq!(found.iter().map(of).collect::<Vec<_>>(), [data, scratch(0), scratch(1)]);
    let mounts = mounts::mounts(&pods[0]);
    for (path, is_shown) in [
        ("/data", true),
        ("/data/x/y", true),
        ("/database", false),
        ("/data/key", false),
        ("/data/key/private", false),
        ("/data/keys", true),
        ("/scratch/x", true),
        ("/dev/shm/x", false),
        ("/etc/passwd", false),
        ("/", false),
        ("/var/run/secrets/kubernetes.io/serviceaccount/token", false),
    ] {
        assert_eq!(mounts::shows(&mounts, path.as_bytes()), is_shown, "{path}");
    }
}
