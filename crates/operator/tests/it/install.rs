//! Tests of what `deploy/` installs.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use operator::webhook::{WebhookAddress, configurations, trainjob_configurations};
use serde_json::{Value, json};

use crate::program::{PATIENCE, Site};
use crate::stage::{client_of, real_kubeconfig};

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");

#[test]
fn generated_webhook_configurations() {
    let address =
        WebhookAddress::Service { namespace: "mpi-operator".to_owned(), name: "mpi-operator".to_owned() };
    for (part, (mutating, validating)) in [
        ("base", configurations(&address, "")),
        ("components/trainjob", trainjob_configurations(&address, "")),
    ] {
        let generated = format!(
            "# Generated from crates/operator by `cargo xtask gen`; do not edit. The operator fills in its authority.\n{}---\n{}",
            serde_saphyr::to_string(&mutating).unwrap(),
            serde_saphyr::to_string(&validating).unwrap(),
        );
        let path = Path::new(DEPLOY).join(part).join("webhook.yaml");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &generated).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == generated, "{} is stale: run the test with UPDATE=1", path.display());
    }
}

/// Commands of the guide that cannot run here: the Deployment's pods need the image, and the image needs a builder.
const NEEDS_THE_IMAGE: [&str; 2] = ["rollout status", "podman build"];

#[tokio::test]
async fn the_install_guide_is_right() {
    let site = Site::bare().await;
    site.add_namespace("mpi-operator").await;
    add_service_monitors(&site).await;
    let guide = std::fs::read_to_string(Path::new(DEPLOY).join("../docs/guides/install.md")).unwrap();
    let blocks = guide.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let commands: Vec<&str> = blocks.flat_map(str::lines).collect();
    let (skipped, typed): (Vec<&str>, Vec<&str>) =
        commands.iter().partition(|command| NEEDS_THE_IMAGE.iter().any(|needs| command.contains(needs)));
    assert_eq!((skipped.len(), typed.len()), (4, 4), "{commands:#?}");
    let mut program = None;
    for command in typed {
        if command.contains("get lease") {
            // This build replaces the pods, with the lease that the Deployment names.
            until_served(&site, "mpijobs.kubeflow.org").await;
            let started = program.insert(site.start(&["--lock-namespace=mpi-operator"]));
            started.line("leading").await;
        }
        type_in(&site.kubeconfig(), command).await;
    }
    let leases: Api<Lease> = Api::namespaced(site.cluster.client(), "mpi-operator");
    let lease = leases.get("mpi-operator").await.unwrap();
    assert!(lease.spec.unwrap().holder_identity.is_some());
}

#[tokio::test]
async fn what_is_installed_can_be_applied_again() {
    let (kubeconfig, client, _site) = match real_kubeconfig(true) {
        Some(kubeconfig) => {
            let client = client_of(&kubeconfig).await;
            (kubeconfig, client, None)
        }
        None => {
            let site = Site::with_controllers().await;
            (site.kubeconfig(), site.cluster.client(), Some(site))
        }
    };
    let apply = "kubectl apply --server-side -k deploy/overlays/kubernetes";
    type_in(&kubeconfig, apply).await;
    let roles: Api<ClusterRole> = Api::all(client);
    let has_rules =
        |role: Option<&ClusterRole>| role.is_some_and(|role| role.rules.iter().flatten().count() > 0);
    let aggregated = await_condition(roles.clone(), "kubeflow-mpijobs-admin", has_rules);
    tokio::time::timeout(PATIENCE, aggregated).await.unwrap().unwrap();
    type_in(&kubeconfig, apply).await;
    assert!(has_rules(roles.get_opt("kubeflow-mpijobs-admin").await.unwrap().as_ref()));
}

#[test]
fn no_aggregated_role_has_rules_of_its_own() {
    let mut aggregated = 0;
    for object in every_document(Path::new(DEPLOY)) {
        if object["kind"] == "ClusterRole" && object.get("aggregationRule").is_some() {
            aggregated += 1;
            assert!(
                object.get("rules").is_none(),
                "the cluster writes its rules: {}",
                object["metadata"]["name"]
            );
        }
    }
    assert!(aggregated > 0);
}

/// The objects in all YAML files of a folder and of those in it, but for the hidden ones, which other tests make.
fn every_document(folder: &Path) -> Vec<Value> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
            continue;
        }
        if path.is_dir() {
            found.extend(every_document(&path));
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.extend(text.split("\n---\n").map(|one| serde_saphyr::from_str::<Value>(one).unwrap()));
        }
    }
    found
}

/// Runs a command of a guide in the repository's root, as the cluster's administrator.
async fn type_in(kubeconfig: &Path, command: &str) {
    let kubectl = std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into());
    let folder = Path::new(&kubectl).parent().unwrap_or(Path::new("")).display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let mut shell = tokio::process::Command::new("sh");
    shell.args(["-ec", command]).env("PATH", path).env("HOME", kubeconfig.parent().unwrap());
    shell.env("KUBECONFIG", kubeconfig);
    let output = shell.current_dir(Path::new(DEPLOY).join("..")).output().await.unwrap();
    assert!(output.status.success(), "{command}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Installs the CRD that OpenShift's monitoring provides.
async fn add_service_monitors(site: &Site) {
    let names =
        json!({ "kind": "ServiceMonitor", "plural": "servicemonitors", "singular": "servicemonitor" });
    let schema =
        json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    let version = json!({ "name": "v1", "served": true, "storage": true, "schema": schema });
    let crd: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": { "name": "servicemonitors.monitoring.coreos.com" },
        "spec": { "group": "monitoring.coreos.com", "scope": "Namespaced", "names": names, "versions": [version] },
    }))
    .unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(site.cluster.client());
    crds.create(&PostParams::default(), &crd).await.unwrap();
    until_served(site, &crd.name_any()).await;
}

async fn until_served(site: &Site, definition: &str) {
    let crds: Api<CustomResourceDefinition> = Api::all(site.cluster.client());
    let served = await_condition(crds, definition, is_crd_established());
    tokio::time::timeout(PATIENCE, served).await.unwrap().unwrap();
}

/// Runs `kubectl kustomize`, if there is a kubectl; `cargo xtask test` provides one.
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
fn prometheus_gives_its_token_to_nobody_but_the_operator() {
    let path = Path::new(DEPLOY).join("components/monitoring/service-monitor.yaml");
    let monitor: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for endpoint in monitor["spec"]["endpoints"].as_array().unwrap() {
        let tls = json!({
            "ca": { "secret": { "name": "mpi-operator-webhook-tls", "key": "ca.crt" } },
            "serverName": "mpi-operator.mpi-operator.svc",
        });
        assert_eq!((&endpoint["scheme"], &endpoint["tlsConfig"]), (&json!("https"), &tls));
    }
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
        // Kustomize accepts only relative paths.
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

#[test]
fn an_overlay_with_the_training_service_reports_admissions_to_its_audit_log() {
    for (base, part) in [("kubernetes", "training-service"), ("openshift", "training-service-openshift")] {
        let overlay = tempfile::tempdir_in(Path::new(DEPLOY).join("overlays")).unwrap();
        let text = format!("resources: [../{base}]\ncomponents: [../../components/{part}]\n");
        std::fs::write(overlay.path().join("kustomization.yaml"), text).unwrap();
        let objects = render(overlay.path().to_str().unwrap());
        let find = |kind: &str, name: &str| {
            objects
                .iter()
                .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
                .unwrap()
        };
        let operator = find("Deployment", "mpi-operator");
        assert_restricted(operator);
        assert_flags_are_known(operator);
        let pod = &operator["spec"]["template"]["spec"];
        let args = pod["containers"][0]["args"].as_array().unwrap();
        let flag = |name: &str| args.iter().find_map(|arg| arg.as_str().unwrap().strip_prefix(name)).unwrap();

        // The address is that of the service, and its policy lets the operator reach the container.
        let service = find("Service", "odh-training");
        let namespace = service["metadata"]["namespace"].as_str().unwrap();
        assert_eq!(flag("--audit-url="), format!("https://odh-training.{namespace}.svc"));
        assert_eq!(service["spec"]["ports"][0]["port"], 443);
        let container = &find("Deployment", "odh-training")["spec"]["template"]["spec"]["containers"][0];
        let port = &container["ports"][0];
        assert_eq!(port["name"], service["spec"]["ports"][0]["targetPort"]);
        let ingress = json!([{ "ports": [{ "port": port["containerPort"] }] }]);
        assert_eq!(find("NetworkPolicy", "odh-training")["spec"]["ingress"], ingress);
        assert_eq!(find("NetworkPolicy", "mpi-operator")["spec"]["policyTypes"], json!(["Ingress"]));

        // The authority is mounted, and the operator does not wait for it.
        let (mount, volume) = (&pod["containers"][0]["volumeMounts"][0], &pod["volumes"][0]);
        assert_eq!(mount["name"], volume["name"]);
        let source = if volume["secret"].is_null() { &volume["configMap"] } else { &volume["secret"] };
        assert_eq!(source["optional"], true);
        let file = format!(
            "{}/{}",
            mount["mountPath"].as_str().unwrap(),
            source["items"][0]["path"].as_str().unwrap()
        );
        assert_eq!(flag("--audit-ca="), file);
        match volume["secret"]["secretName"].as_str() {
            // The same Secret that the service shows.
            Some(secret) => assert_eq!(secret, "odh-training-tls"),
            None => {
                let authority = find("ConfigMap", source["name"].as_str().unwrap());
                assert_eq!(authority["metadata"]["namespace"], namespace);
                let injected =
                    &authority["metadata"]["annotations"]["service.beta.openshift.io/inject-cabundle"];
                assert_eq!(injected, "true");
            }
        }
        let subject = &find("ClusterRoleBinding", "training-service-reporter")["subjects"][0];
        assert_eq!(
            (&subject["name"], &subject["namespace"]),
            (&pod["serviceAccountName"], &json!(namespace))
        );
    }
}

#[test]
fn an_overlay_adds_trainjobs() {
    let overlay = tempfile::tempdir_in(Path::new(DEPLOY).join("overlays")).unwrap();
    let text = "resources: [../kubernetes]\ncomponents: [../../components/trainjob]\n";
    std::fs::write(overlay.path().join("kustomization.yaml"), text).unwrap();
    let objects = render(overlay.path().to_str().unwrap());
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
    let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    assert!(args.contains(&json!("--trainjobs")), "{args:?}");
    // Programs report their progress at a port that leads from the Service through the policy to the container.
    assert!(args.contains(&json!("--progress-port=10443")), "{args:?}");
    let one = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
    let has = |list: &Value, field: &str| list.as_array().unwrap().iter().any(|port| port[field] == 10443);
    assert!(has(&one("Service")["spec"]["ports"], "port"));
    assert!(has(&one("NetworkPolicy")["spec"]["ingress"][0]["ports"], "port"));
    assert!(has(&deployment["spec"]["template"]["spec"]["containers"][0]["ports"], "containerPort"));
    assert_flags_are_known(deployment);
    let count = |kind: &str, name: &str| {
        let is = |object: &&Value| {
            object["kind"] == kind && object["metadata"]["name"].as_str().unwrap().contains(name)
        };
        objects.iter().filter(is).count()
    };
    assert_eq!(count("CustomResourceDefinition", "trainer.kubeflow.org"), 3);
    assert_eq!(count("ClusterRoleBinding", "mpi-operator-trainjobs"), 2);
    assert_eq!(count("ValidatingWebhookConfiguration", "mpi-operator-trainjobs"), 1);
}

/// Checks the fields that Pod Security *restricted* checks.
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

/// Checks that the program knows each flag.
fn assert_flags_are_known(deployment: &Value) {
    let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    let help = Command::new(env!("CARGO_BIN_EXE_mpi-operator")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for argument in args.iter().map(|argument| argument.as_str().unwrap()) {
        let flag = argument.split('=').next().unwrap();
        assert!(help.contains(flag), "{flag} is no flag");
    }
}

/// Catches what would otherwise fail only in a builder or in a cluster.
#[test]
fn the_images_are_what_the_pods_run() {
    let image = std::fs::read_to_string(Path::new(DEPLOY).join("base/deployment.yaml")).unwrap();
    let image = image.lines().find_map(|line| line.trim().strip_prefix("image: ")).unwrap();
    assert_eq!(built("operator", "operator", "mpi-operator", image), "/mpi-operator");
    // Init containers run it by its name.
    let agent = built("odh-launch", "launch", "odh-launch", api::LAUNCH_IMAGE);
    assert_eq!(agent, "/usr/bin/odh-launch");
    assert!(recipe("odh-launch").contains("\nENV PATH=/usr/bin\n"));
}

fn recipe(folder: &str) -> String {
    let path = Path::new(DEPLOY).join("../images").join(folder).join("Containerfile");
    std::fs::read_to_string(path).unwrap()
}

/// Checks a recipe that puts one static program into an image, and returns the program's path there.
fn built(folder: &str, package: &str, program: &str, image: &str) -> String {
    let recipe = recipe(folder);
    let instructions: Vec<&str> = recipe.lines().filter(|line| !line.starts_with('#')).collect();
    let last =
        |word: &str| instructions.iter().rev().find_map(|line| line.strip_prefix(word)).unwrap().trim();
    assert_eq!(last("FROM "), "scratch", "nothing but the program");
    assert!(
        last("USER ").parse::<u32>().is_ok_and(|user| user > 0),
        "a number, which runAsNonRoot can judge"
    );
    let entry: Vec<String> = serde_json::from_str(last("ENTRYPOINT ")).unwrap();
    let (from, to) = last("COPY --from=build ").split_once(' ').unwrap();
    assert_eq!(entry, [to], "what is copied is what is run");
    let build = last("RUN cargo build ");
    let what = format!("--package {package} --bin {program}");
    assert!(build.contains("--locked") && build.contains(&what), "{build}");
    assert_eq!(from, format!("{}/target/release/{program}", last("WORKDIR ")));
    let version = std::fs::read_to_string(Path::new(DEPLOY).join("../Cargo.toml")).unwrap();
    let version = version.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
    let compiler = format!("FROM docker.io/library/rust:{}-alpine", version.trim_matches('"'));
    assert!(recipe.contains(&compiler), "the compiler that the workspace asks for: {compiler}");
    assert!(recipe.contains(&format!("-t {image} .")), "{image} is what the recipe says to build");
    to.to_owned()
}

#[test]
fn an_overlay_of_the_guide_names_other_images() {
    let guide = std::fs::read_to_string(Path::new(DEPLOY).join("../docs/guides/install.md")).unwrap();
    let mut blocks = guide.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let text = blocks.find(|block| block.contains("images:")).unwrap();
    let overlay = tempfile::tempdir_in(Path::new(DEPLOY).join("overlays")).unwrap();
    let text = format!("{text}components: [../../components/training-service]\n");
    std::fs::write(overlay.path().join("kustomization.yaml"), text).unwrap();
    let objects = render(overlay.path().to_str().unwrap());
    let deployments = objects.iter().filter(|object| object["kind"] == "Deployment");
    let containers: Vec<&Value> =
        deployments.map(|object| &object["spec"]["template"]["spec"]["containers"][0]).collect();
    let images: BTreeSet<&str> =
        containers.iter().map(|container| container["image"].as_str().unwrap()).collect();
    assert_eq!(images, ["REGISTRY/mpi-operator:v0.1.0", "REGISTRY/training-service:v0.1.0"].into());
    let operator = objects
        .iter()
        .find(|object| object["metadata"]["name"] == "mpi-operator" && object["kind"] == "Deployment");
    assert_flags_are_known(operator.unwrap());
    let args = operator.unwrap()["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    assert!(args.contains(&json!("--launch-image=REGISTRY/odh-launch:v0.1.0")), "{args:?}");
}
