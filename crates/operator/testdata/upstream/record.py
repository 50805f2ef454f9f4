#!/usr/bin/env python3
"""Records what upstream's mpi-operator asks a real kube-apiserver to create, for each folder beside this file.

usage: record.py RUN OPERATOR [CASE ...]: RUN is a control plane's folder with pki/tokens.csv, pki/ca.crt, audit.log and
operator.kubeconfig, whose audit policy has level RequestResponse for writes of the user "operator"; OPERATOR is the program.
`flags` of a case are the operator's; where `when` says "running", the last ConfigMap counts, written when all Workers run.
"""
import json, os, pathlib, signal, ssl, subprocess, sys, time, urllib.error, urllib.request
import yaml

RUN, OPERATOR = pathlib.Path(sys.argv[1]), sys.argv[2]
HERE = pathlib.Path(__file__).resolve().parent
OWNER_UID = "5f0c6a52-0000-4000-8000-000000000001"
TOKEN = next(line.split(",")[0] for line in open(RUN / "pki/tokens.csv") if line.split(",")[1] == "admin")
CONTEXT = ssl.create_default_context(cafile=str(RUN / "pki/ca.crt"))
SERVER = "https://127.0.0.1:6443"
SETTLE_SECONDS = 8


def call(method, path, body=None, accepted=()):
    data = json.dumps(body).encode() if body is not None else None
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    request = urllib.request.Request(SERVER + path, data=data, method=method, headers=headers)
    try:
        return json.load(urllib.request.urlopen(request, context=CONTEXT))
    except urllib.error.HTTPError as error:
        if error.code in accepted:
            return {}
        raise SystemExit(f"{method} {path}: {error.code} {error.read()[:500]}")


def prepare():
    for namespace in ("team", "mpi-operator"):
        call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}, (409,))
    for name, value in (("low", 10), ("high", 1000)):
        call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value}, (409,))
    for group, version in (("scheduling.volcano.sh", "v1beta1"), ("scheduling.x-k8s.io", "v1alpha1")):
        crd = yaml.safe_load((HERE / "podgroup-crd.yaml").read_text().replace("GROUP", group).replace("VERSION", version))
        call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd, (409,))
    time.sleep(2)


def record(case):
    job = yaml.safe_load((case / "input.yaml").read_text())
    name = job["metadata"]["name"]
    flags = (case / "flags").read_text().split() if (case / "flags").exists() else []
    log = open(RUN / "upstream.log", "ab")
    operator = subprocess.Popen([OPERATOR, f"--kubeConfig={RUN}/operator.kubeconfig", *flags], stdout=log, stderr=log)
    try:
        start = os.path.getsize(RUN / "audit.log")
        time.sleep(3)
        call("POST", "/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs", job)
        time.sleep(SETTLE_SECONDS)
    finally:
        operator.send_signal(signal.SIGTERM)
        operator.wait(20)
        call("DELETE", "/apis/coordination.k8s.io/v1/namespaces/mpi-operator/leases/mpi-operator", accepted=(404,))
    objects = {}
    for line in (RUN / "audit.log").read_bytes()[start:].splitlines():
        event = json.loads(line)
        target = event.get("objectRef") or {}
        if target.get("resource") in ("events", "leases") or target.get("subresource") or target.get("namespace") != "team":
            continue
        if event["stage"] != "ResponseComplete" or event["responseStatus"]["code"] >= 300:
            continue
        later = event["verb"] == "update" and target["resource"] == "configmaps" and (case / "when").exists()
        if event["verb"] == "create" or later:
            objects[target["resource"], event["requestObject"]["metadata"]["name"]] = event["requestObject"]
    for made in objects.values():
        clean(made)
    text = "---\n".join(yaml.safe_dump(made, sort_keys=True, width=1000) for made in objects.values())
    (case / "objects.yaml").write_text(text)
    call("DELETE", f"/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs/{name}", {"propagationPolicy": "Background"})
    print(case.name, len(objects), "objects", flush=True)


def clean(made):
    """Without what differs with every run."""
    made["metadata"].pop("creationTimestamp", None)
    for field in ("uid", "resourceVersion", "managedFields", "generation"):
        made["metadata"].pop(field, None)
    made.pop("status", None)
    template = (made.get("spec") or {}).get("template") or {}
    template.get("metadata", {}).pop("creationTimestamp", None)
    for owner in made["metadata"].get("ownerReferences", []) + template.get("metadata", {}).get("ownerReferences", []):
        owner["uid"] = OWNER_UID
    if made.get("kind") == "Secret":
        made["data"] = {key: "" for key in made["data"]}


prepare()
wanted = sys.argv[3:]
for case in sorted(HERE.iterdir()):
    if case.is_dir() and (case.name in wanted or (not wanted and not (case / "objects.yaml").exists())):
        record(case)
