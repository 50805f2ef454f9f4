//! What `deploy/` installs of the service.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");

/// Runs `kubectl kustomize` on an overlay with components; `cargo xtask test` provides kubectl.
fn render(overlay: &str, components: &[&str]) -> Vec<Value> {
    // Kustomize accepts only relative paths.
    let folder = tempfile::tempdir_in(Path::new(DEPLOY).join("overlays")).unwrap();
    let components: Vec<String> = components.iter().map(|name| format!("../../components/{name}")).collect();
    let text = format!("resources: [../{overlay}]\ncomponents: [{}]\n", components.join(", "));
    std::fs::write(folder.path().join("kustomization.yaml"), text).unwrap();
    let kubectl = std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into());
    let rendered = Command::new(&kubectl).arg("kustomize").arg(folder.path()).output();
    let rendered = rendered
        .unwrap_or_else(|error| panic!("{}: {error}; `cargo xtask test` provides it", kubectl.display()));
    assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
    let text = String::from_utf8(rendered.stdout).unwrap();
    text.split("\n---\n").map(|one| serde_saphyr::from_str(one).unwrap()).collect()
}

fn find<'o>(objects: &'o [Value], kind: &str, name: &str) -> Option<&'o Value> {
    objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
}

#[test]
fn each_component_adds_a_service_that_may_run_under_pod_security_restricted() {
    for (overlay, components, claims, replicas) in [
        ("kubernetes", &["training-service"][..], 1, 1),
        ("openshift", &["training-service-openshift"], 1, 1),
        ("kubernetes", &["training-service", "training-service-postgres"], 0, 2),
        ("openshift", &["training-service-openshift", "training-service-postgres"], 0, 2),
        ("kubernetes", &["training-service", "training-service-bucket"], 1, 1),
        (
            "openshift",
            &["training-service-openshift", "training-service-postgres", "training-service-bucket"],
            0,
            2,
        ),
        ("openshift", &["training-service-openshift", "training-service-openshift-monitoring"], 1, 1),
        (
            "openshift",
            &[
                "training-service-openshift",
                "training-service-postgres",
                "training-service-openshift-monitoring",
            ],
            0,
            2,
        ),
    ] {
        let objects = render(overlay, components);
        let named: BTreeSet<String> = objects
            .iter()
            .map(|object| format!("{}/{}", object["kind"], object["metadata"]["name"]))
            .collect();
        assert_eq!(named.len(), objects.len(), "{components:?}: each once");
        let deployment = find(&objects, "Deployment", "odh-training").unwrap();
        assert_eq!(deployment["spec"]["replicas"], replicas, "{components:?}");
        assert_restricted(deployment);
        assert_flags_are_known(deployment);
        let telemetry =
            &deployment["spec"]["template"]["spec"]["containers"][0]["envFrom"][0]["configMapRef"];
        assert_eq!(telemetry["optional"], true, "it starts where nobody collects traces");
        let found = objects.iter().filter(|object| object["kind"] == "PersistentVolumeClaim").count();
        assert_eq!(found, claims, "{components:?}");
        let service = find(&objects, "Service", "odh-training").unwrap();
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        assert_eq!(&service["spec"]["selector"], labels);
        let policy = find(&objects, "NetworkPolicy", "odh-training").unwrap();
        assert_eq!(&policy["spec"]["podSelector"]["matchLabels"], labels);
        for object in [deployment, service, policy] {
            assert_eq!(object["metadata"]["namespace"], "mpi-operator", "{components:?}");
        }
        let account = deployment["spec"]["template"]["spec"]["serviceAccountName"].as_str().unwrap();
        let bound = find(&objects, "ClusterRoleBinding", "training-service").unwrap();
        let subject = json!({ "kind": "ServiceAccount", "name": account, "namespace": "mpi-operator" });
        assert_eq!(bound["subjects"], json!([subject]));
        let views = find(&objects, "ClusterRoleBinding", "training-service-monitoring-view");
        let monitors = components.contains(&"training-service-openshift-monitoring");
        assert_eq!(views.map(|binding| &binding["subjects"][0]), monitors.then_some(&subject));
        let certificate =
            &service["metadata"]["annotations"]["service.beta.openshift.io/serving-cert-secret-name"];
        let mounted = &deployment["spec"]["template"]["spec"]["volumes"][0]["secret"]["secretName"];
        assert!(overlay == "kubernetes" || certificate == mounted, "the cluster makes the certificate");
    }
}

/// Checks the fields that Pod Security *restricted* checks, and that nothing is written but the store.
fn assert_restricted(deployment: &Value) {
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(container["securityContext"]["capabilities"]["drop"][0], "ALL");
    assert!(pod["securityContext"].get("runAsUser").is_none(), "the cluster may choose any user id");
    let ports: Vec<&Value> =
        container["ports"].as_array().unwrap().iter().map(|port| &port["name"]).collect();
    for probe in ["livenessProbe", "readinessProbe"] {
        assert!(ports.contains(&&container[probe]["httpGet"]["port"]), "{probe}");
    }
    let volumes: BTreeSet<&str> =
        pod["volumes"].as_array().unwrap().iter().map(|volume| volume["name"].as_str().unwrap()).collect();
    let mounts = container["volumeMounts"].as_array().unwrap();
    let mounted: BTreeSet<&str> = mounts.iter().map(|mount| mount["name"].as_str().unwrap()).collect();
    assert_eq!(volumes, mounted);
    // Each file that a flag names is in a mounted folder.
    for argument in container["args"].as_array().unwrap() {
        let (flag, path) = argument.as_str().unwrap().split_once('=').unwrap();
        if ["--log-bucket", "--log-endpoint", "--log-prefix", "--prometheus-url"].contains(&flag) {
            continue;
        }
        let is_mounted = |mount: &Value| path.starts_with(mount["mountPath"].as_str().unwrap());
        assert!(mounts.iter().any(is_mounted), "{argument}");
    }
}

/// Checks that the program knows each flag.
fn assert_flags_are_known(deployment: &Value) {
    let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    let help = Command::new(env!("CARGO_BIN_EXE_training-service")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for argument in args.iter().map(|argument| argument.as_str().unwrap()) {
        let flag = argument.split('=').next().unwrap();
        assert!(help.contains(flag), "{flag} is no flag");
    }
}

#[test]
fn the_keys_of_a_bucket_come_from_a_secret_and_are_no_arguments() {
    let objects = render("kubernetes", &["training-service", "training-service-bucket"]);
    let deployment = find(&objects, "Deployment", "odh-training").unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["envFrom"][1]["secretRef"]["name"], "odh-training-logs");
    let args = container["args"].to_string();
    assert!(args.contains("--log-bucket=$(AWS_S3_BUCKET)"), "{args}");
    assert!(!args.contains("KEY"), "{args}");
}

/// Catches what would otherwise fail only in a builder or in a cluster.
#[test]
fn the_image_is_what_the_deployment_runs() {
    let root = Path::new(DEPLOY).join("..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let recipe = read("images/training-service/Containerfile");
    let instructions: Vec<&str> = recipe.lines().filter(|line| !line.starts_with('#')).collect();
    let last =
        |word: &str| instructions.iter().rev().find_map(|line| line.strip_prefix(word)).unwrap().trim();
    assert_eq!(last("FROM "), "scratch", "nothing but the program and authorities");
    assert!(
        last("USER ").parse::<u32>().is_ok_and(|user| user > 0),
        "a number, which runAsNonRoot can judge"
    );
    let entry: Vec<String> = serde_json::from_str(last("ENTRYPOINT ")).unwrap();
    let copied =
        format!("COPY --from=build {}/target/release/training-service {}", last("WORKDIR "), entry[0]);
    assert!(instructions.contains(&copied.as_str()), "{copied}");
    // The pages come from their own stage, so that no builder's leftovers are in the image.
    let pages = "COPY --from=dashboard /source/dashboard/dist dashboard/dist";
    assert!(instructions.contains(&pages) && instructions.contains(&"RUN npm run build"), "{recipe}");
    assert!(read(".containerignore").lines().any(|line| line == "dashboard/dist"));
    let build = last("RUN cargo build ");
    assert!(
        build.contains("--locked") && build.contains("--package service --bin training-service"),
        "{build}"
    );
    let version = read("Cargo.toml");
    let version = version.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
    let compiler = format!("FROM docker.io/library/rust:{}-alpine", version.trim_matches('"'));
    assert!(recipe.contains(&compiler), "the compiler that the workspace asks for: {compiler}");
    let image = read("deploy/service/deployment.yaml");
    let image = image.lines().find_map(|line| line.trim().strip_prefix("image: ")).unwrap();
    assert!(recipe.contains(&format!("-t {image} .")), "{image} is what the recipe says to build");
}
