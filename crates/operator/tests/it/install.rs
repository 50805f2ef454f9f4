//! What `deploy/` installs.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use operator::webhook::{Place, configurations};
use serde_json::Value;

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");

#[test]
fn generated_webhook_configurations() {
    let place = Place::Service { namespace: "mpi-operator".to_owned(), name: "mpi-operator".to_owned() };
    let (mutating, validating) = configurations(&place, "");
    let generated = format!(
        "# Generated from crates/operator by `cargo xtask gen`; do not edit. The operator fills in its authority.\n{}---\n{}",
        serde_saphyr::to_string(&mutating).unwrap(),
        serde_saphyr::to_string(&validating).unwrap(),
    );
    let path = Path::new(DEPLOY).join("base/webhook.yaml");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(committed == generated, "{} is stale: run the test with UPDATE=1", path.display());
}

/// `kubectl kustomize` where there is a kubectl, which `cargo xtask test` provides.
fn render(overlay: &str) -> Vec<Value> {
    let kubectl = std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into());
    let rendered = Command::new(&kubectl).arg("kustomize").arg(Path::new(DEPLOY).join(overlay)).output();
    let rendered = rendered
        .unwrap_or_else(|error| panic!("{}: {error}; `cargo xtask test` provides it", kubectl.display()));
    assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
    let text = String::from_utf8(rendered.stdout).unwrap();
    text.split("\n---\n").map(|one| serde_saphyr::from_str(one).unwrap()).collect()
}

#[test]
fn every_overlay_renders_a_whole_installation() {
    for (overlay, more) in [("overlays/kubernetes", 0), ("overlays/openshift", 2)] {
        let objects = render(overlay);
        let kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds.len(), 19 + more, "{overlay}: {kinds:?}");
        for object in objects.iter().filter(|object| object["metadata"].get("namespace").is_some()) {
            assert_eq!(object["metadata"]["namespace"], "mpi-operator", "{overlay}: {object}");
        }
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
        assert_restricted(deployment);
        assert_flags_are_known(deployment);
        let named: BTreeSet<String> = objects
            .iter()
            .map(|object| format!("{}/{}", object["kind"], object["metadata"]["name"]))
            .collect();
        assert_eq!(named.len(), objects.len(), "{overlay}: each once");
    }
}

#[test]
fn an_overlay_adds_a_gang_scheduler() {
    for (part, flag) in [("volcano", "volcano"), ("scheduler-plugins", "scheduler-plugins-scheduler")] {
        // Kustomize takes relative paths only.
        let overlay = tempfile::tempdir_in(Path::new(DEPLOY).join("overlays")).unwrap();
        let text = format!("resources: [../kubernetes]\ncomponents: [../../components/{part}]\n");
        std::fs::write(overlay.path().join("kustomization.yaml"), text).unwrap();
        let objects = render(overlay.path().to_str().unwrap());
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
        let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
        assert!(args.contains(&Value::from(format!("--gang-scheduling={flag}"))), "{args:?}");
        assert_flags_are_known(deployment);
        let bound = objects.iter().any(|object| {
            object["kind"] == "ClusterRoleBinding" && object["roleRef"]["name"] == "mpi-operator-gangs"
        });
        assert!(bound, "{part} comes with its rights");
    }
}

/// Pod Security *restricted*, in the places where it looks.
fn assert_restricted(deployment: &Value) {
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
    assert_eq!(container["securityContext"]["capabilities"]["drop"][0], "ALL");
    assert!(pod["securityContext"].get("runAsUser").is_none(), "the cluster may choose any user id");
    for part in ["livenessProbe", "readinessProbe", "resources"] {
        assert!(container.get(part).is_some(), "{part}");
    }
}

/// The program knows each flag: with `--version` it reads them all and ends.
fn assert_flags_are_known(deployment: &Value) {
    let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    let help = Command::new(env!("CARGO_BIN_EXE_mpi-operator")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for argument in args.iter().map(|argument| argument.as_str().unwrap()) {
        let flag = argument.split('=').next().unwrap();
        assert!(help.contains(flag), "{flag} is no flag");
    }
}
