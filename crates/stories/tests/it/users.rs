//! Someone lets a colleague use the local cluster, and revokes it; a program in a pod uses it with its service
//! account.

use std::time::Duration;

use stories::{EXAMPLES_IMAGE, Home, places, record, within};

/// How long a policy may take to take effect.
const PATIENCE: Duration = Duration::from_secs(60);

/// The token of a kubeconfig.
fn token(kubeconfig: &str) -> String {
    let text = std::fs::read_to_string(kubeconfig).expect("the kubeconfig can be read");
    let line = text.lines().find_map(|line| line.trim().strip_prefix("token:")).expect("it holds a token");
    line.trim().trim_matches('"').to_owned()
}

#[test]
fn lets_a_colleague_work_in_a_namespace_and_takes_it_back() {
    let home = Home::with_cluster("users::colleague");
    let made =
        home.odh(&["local", "user", "anna", "--role", "edit", "-n", "team-a", "-o", "json"]).ended(0).json();
    let anna = made["kubeconfig"].as_str().expect("it says where the kubeconfig is").to_owned();
    let secret = token(&anna);
    let hers = |words: &[&str]| {
        let mut all = vec!["--kubeconfig", &anna];
        all.extend(words);
        home.kubectl(&all)
    };
    hers(&["auth", "whoami"]).ended(0).says("anna").says("system:authenticated");
    for (answer, words) in [
        ("yes", &["create", "mpijobs.kubeflow.org"][..]),
        ("yes", &["get", "secrets"]),
        ("no", &["get", "secrets", "-n", "default"]),
        ("no", &["create", "rolebindings.rbac.authorization.k8s.io"]),
        ("no", &["list", "pods", "--all-namespaces"]),
        ("no", &["get", "nodes"]),
    ] {
        let mut all = vec!["auth", "can-i"];
        all.extend(words);
        hers(&all).ended(i32::from(answer == "no")).says(answer);
    }
    hers(&["auth", "can-i", "--list"]).ended(0).says("mpijobs.kubeflow.org").says("selfsubjectreviews");
    // She runs a job in her namespace, as she would on any cluster.
    let manifest = places::repository("examples/hello.yaml");
    hers(&["apply", "-f", &manifest.to_string_lossy()]).ended(0).says("mpijob.kubeflow.org/hello created");
    home.odh(&["--kubeconfig", &anna, "training", "wait", "mpijob", "hello", "--timeout", "60s"]).ended(0);
    let job = home.kubectl(&["get", "mpijob", "hello", "-n", "team-a", "-o", "json"]).ended(0).json();
    assert_eq!(job["metadata"]["annotations"]["training.opendatahub.io/owner"], "anna");
    hers(&["get", "pods", "-n", "default"])
        .ended(1)
        .says(r#"User "anna" cannot list resource "pods" in API group "" in the namespace "default""#);
    home.kubectl(&["--as", "anna", "get", "mpijobs", "-n", "team-a"]).ended(0).says("hello");
    home.odh(&["local", "user"]).ended(0).says("anna").says("edit:team-a");

    home.odh(&["local", "user", "anna", "--delete"]).ended(0).says("User anna deleted");
    hers(&["get", "pods"]).ended(1);
    home.kubectl(&["get", "rolebindings", "-n", "team-a", "-o", "name"]).ended(0);
    assert!(!std::path::Path::new(&anna).exists(), "the kubeconfig is left");
    home.odh(&["local", "user", "anna", "--delete"]).ended(3).says("user anna not found");

    let audit = std::fs::read_to_string(home.state().join("audit.log")).expect("there is an audit log");
    let by_anna = audit.lines().filter(|line| line.contains(r#""username":"anna""#)).collect::<Vec<_>>();
    assert!(by_anna.iter().any(|line| line.contains(r#""verb":"create""#) && line.contains("mpijobs")));
    assert!(by_anna.iter().any(|line| line.contains(r#""authorization.k8s.io/decision":"forbid""#)));
    // The operator created what the job needs under its own account, and made no request that it may not make.
    let operator = r#""username":"system:serviceaccount:mpi-operator:mpi-operator""#;
    let by_operator = audit.lines().filter(|line| line.contains(operator)).collect::<Vec<_>>();
    for made in [r#""resource":"pods""#, r#""resource":"secrets""#, r#""subresource":"status""#] {
        assert!(by_operator.iter().any(|line| line.contains(made)), "the operator wrote no {made}");
    }
    let forbidden = r#""authorization.k8s.io/decision":"forbid""#;
    assert!(!by_operator.iter().any(|line| line.contains(forbidden)), "the operator's roles do not suffice");
    for file in ["audit.log", "log", "state.json", "cluster/users.json"] {
        let text = std::fs::read_to_string(home.state().join(file)).expect("the file can be read");
        assert!(!text.contains(&secret), "{file} holds the token");
    }
    home.odh(&["local", "down"]).ended(0);
    home.odh(&["local", "user", "ben"]).ended(3).says("the local cluster is not up").says("odh local up");
}

#[test]
fn reserved_names_are_refused_as_users() {
    let home = Home::with_cluster_and("users::refused", &["--audit", "off"]);
    home.odh(&["local", "user", "system:admin"]).ended(2).says("is not a valid user name");
    home.odh(&["local", "user", "anna", "--group", "system:masters"]).ended(2).says("reserved by Kubernetes");
    home.odh(&["local", "user", "anna", "-A", "-n", "team"]).ended(2).says("cannot be combined with -n");
    home.odh(&["local", "user"]).ended(0).says("There are no users yet");
    assert!(!home.state().join("audit.log").exists(), "the audit log is written though it is off");
}

/// Creates a pod with the account `watcher` and the programs of this story.
fn pod(home: &Home) {
    let folder = |program: std::path::PathBuf| {
        program.parent().expect("a program lies in a folder").to_string_lossy().into_owned()
    };
    let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "robot"}, "spec": {
        "serviceAccountName": "watcher",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": EXAMPLES_IMAGE, "command": ["sleep", "600"],
            // The user who runs this story may have a kubeconfig at home.
            "env": [{"name": "HOME", "value": "/tmp"}],
            "volumeMounts": [{"name": "odh", "mountPath": "/mnt/odh"}, {"name": "kubectl", "mountPath": "/mnt/kubectl"}]}],
        "volumes": [{"name": "odh", "hostPath": {"path": folder(places::odh())}},
            {"name": "kubectl", "hostPath": {"path": folder(places::kubectl())}}]}});
    let pod = home.write("robot.yaml", &pod.to_string());
    home.kubectl(&["create", "-n", "team", "-f", &pod]).ended(0);
    home.kubectl(&["wait", "-n", "team", "--for=condition=Ready", "pod/robot", "--timeout=60s"]).ended(0);
}

#[test]
fn a_program_in_a_pod_works_with_its_service_account() {
    let home = Home::with_cluster("users::pod");
    if home.mode() == "plain" {
        record("users::pod", "pods share the machine's network here", true);
        return;
    }
    home.kubectl(&["create", "namespace", "team"]).ended(0);
    home.kubectl(&["create", "serviceaccount", "watcher", "-n", "team"]).ended(0);
    let account = "--serviceaccount=team:watcher";
    home.kubectl(&["create", "rolebinding", "watcher", "-n", "team", "--clusterrole=view", account]).ended(0);
    let create =
        ["training", "create", "mpijob", "held", "--suspend", "--image", "local", "-n", "team", "--", "true"];
    home.odh(&create).ended(0);
    pod(&home);
    let inside = |words: &[&str]| {
        let mut all = vec!["exec", "-n", "team", "robot", "--"];
        all.extend(words);
        home.kubectl(&all)
    };
    // With the account's token, the authority's certificate and the namespace in the pod, as on any cluster.
    let jobs = inside(&["/mnt/odh/odh", "training", "list", "-o", "json"]).ended(0).json();
    assert_eq!(jobs["items"][0]["metadata"]["name"], "held");
    inside(&["/mnt/kubectl/kubectl", "get", "mpijobs"]).ended(0).says("held");
    inside(&["/mnt/odh/odh", "training", "list", "-n", "default"])
        .ended(4)
        .says("User 'system:serviceaccount:team:watcher' lacks 'list' permission for MPIJobs in namespace 'default'");
    inside(&["/mnt/odh/odh", "training", "delete", "mpijob", "held", "--yes"])
        .ended(4)
        .says("lacks 'delete' permission");

    // Its certificate is valid for the name, and a request without a token is unauthenticated.
    let ask = "import ssl, sys, urllib.request as web
known = ssl.create_default_context(cafile='/var/run/secrets/kubernetes.io/serviceaccount/ca.crt')
print(web.urlopen('https://kubernetes.default.svc' + sys.argv[1], context=known, timeout=30).status)";
    inside(&["python3", "-c", ask, "/version"]).ended(0).says("200");
    inside(&["python3", "-c", ask, "/api/v1/namespaces/team/pods"]).ended(1).says("HTTP Error 401");

    let closed = serde_json::json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "closed"}, "spec": {"podSelector": {}, "policyTypes": ["Egress"]}});
    let closed = home.write("closed.yaml", &closed.to_string());
    let reach = "import socket; socket.create_connection(('10.96.0.1', 443), timeout=2)";
    inside(&["python3", "-c", reach]).ended(0);
    home.kubectl(&["create", "-n", "team", "-f", &closed]).ended(0);
    within(PATIENCE, "the policy is in force, or is said not to be", || {
        let reasons = ["-n", "team", "--field-selector", "reason=NetworkPolicyNotEnforced", "-o", "name"];
        let said = home.kubectl(&[&["get", "events"], &reasons[..]].concat()).ended(0).stdout;
        (!said.trim().is_empty() || inside(&["python3", "-c", reach]).code != 0).then_some(())
    });
}
