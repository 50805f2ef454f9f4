//! A program that knows only the training service runs a real job: it finds the service of `odh local`, creates the job,
//! follows it in the stream, and reads its output.

use stories::{EXAMPLES_IMAGE, Home};

/// What the program does, with Python's standard library alone.
const PROGRAM: &str = r#"
import json, os, stat, subprocess, sys, ssl, urllib.error, urllib.request

status = json.loads(subprocess.check_output(["odh", "local", "status", "-o", "json"]))
service = status["service"]
token_file = service["token"]
assert stat.S_IMODE(os.stat(token_file).st_mode) == 0o600, "others may read the token"
token = open(token_file).read().strip()
context = ssl.create_default_context(cafile=service["certificateAuthority"])

def ask(verb, path, body=None, accept="application/json", authorization=f"Bearer {token}"):
    headers = {"Authorization": authorization, "Accept": accept, "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(service["url"] + path, data=data, method=verb, headers=headers)
    return urllib.request.urlopen(request, context=context, timeout=120)

def events(stream):
    event = {}
    for line in stream:
        line = line.decode().rstrip("\n")
        if not line:
            if "data" in event:
                yield json.loads(event["data"])
            event = {}
        elif ": " in line:
            name, value = line.split(": ", 1)
            event[name] = value

assert b"ListJobs" in ask("GET", "/docs").read()
try:
    ask("GET", "/api/v1/jobs", authorization="Bearer nothing")
    sys.exit("a token that is none was accepted")
except urllib.error.HTTPError as error:
    assert error.code == 401, error.code

stream = ask("GET", "/api/v1/stream?namespace=default", accept="text/event-stream")
following = events(stream)
assert next(following)["type"] == "snapshot"

jobs = "/api/v1/namespaces/default/jobs"
spec = {"name": "hello", "workers": 2, "image": sys.argv[1], "command": ["sh", "-c", "echo hello from rank $OMPI_COMM_WORLD_RANK"]}
would = json.load(ask("POST", jobs + "?dryRun=true", {"spec": spec}))
assert would["dryRun"] and "name: hello" in would["manifest"], would
made = json.load(ask("POST", jobs, {"spec": spec}))
print("owner", made["job"]["owner"])

phases = []
for event in following:
    for job in event["jobs"]:
        if job["name"] == "hello" and job["phase"] not in phases[-1:]:
            phases.append(job["phase"])
    if phases[-1:] in (["Succeeded"], ["Failed"]):
        break
print("phases", *phases)

lines = [json.loads(line) for line in ask("GET", f"{jobs}/mpijob/hello/logs") if line.strip()]
print(*sorted(line["text"] for line in lines if line["text"].startswith("hello from")), sep="\n")
shown = json.load(ask("GET", f"{jobs}/mpijob/hello"))
print("workers", shown["row"]["workers"]["of"])
json.load(ask("DELETE", f"{jobs}/mpijob/hello"))
for event in following:
    if {"kind": "MPIJob", "namespace": "default", "name": "hello"} in event["deleted"]:
        break
print("gone")
"#;

#[test]
fn a_program_creates_follows_and_reads_a_job_through_the_service_alone() {
    let home = Home::with_cluster("service::program");
    let program = home.write("program.py", PROGRAM);
    let answer = home.script(&format!("python3 {program} {EXAMPLES_IMAGE}"), &[]).ended(0);
    let printed: Vec<&str> = answer.stdout.lines().collect();
    assert_eq!(printed.first(), Some(&"owner kubernetes-admin"), "{}", answer.stdout);
    assert!(
        printed
            .get(1)
            .is_some_and(|phases| phases.starts_with("phases Pending") && phases.ends_with("Succeeded"))
    );
    assert_eq!(printed.get(2..), Some(&["hello from rank 0", "hello from rank 1", "workers 2", "gone"][..]));
    home.odh(&["local", "down"]).ended(0);
    let status = home.odh(&["local", "status", "-o", "json"]).json();
    assert_eq!(status["service"], serde_json::Value::Null);
}
