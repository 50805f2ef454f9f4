#!/usr/bin/env python3
"""Asks kubectl what it answers, and writes that beside each question: yaml.json (what a text means) and kubectl.json of
the crate jsonpath (what a template prints). Run with KUBECTL naming the program; without a cluster: `kubectl patch
--local` reads a file as `kubectl create` does and prints it. Read the difference."""

import json
import os
import pathlib
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
KUBECTL = os.environ.get("KUBECTL", "kubectl")


def kubectl(text: str, output: str) -> tuple[int, str, str]:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        words = [KUBECTL, "patch", "--local", "-f", file.name, "--type", "merge", "-p", "{}", "-o", output]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr.replace(file.name, "FILE").strip()


def version() -> str:
    done = subprocess.run([KUBECTL, "version", "--client", "-o", "json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["clientVersion"]["gitVersion"]


def yaml() -> None:
    path = HERE / "yaml.json"
    known = json.loads(path.read_text())
    known["kubectl"] = version()
    for case in known["cases"]:
        text = "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: a}\n" + case["yaml"]
        code, out, err = kubectl(text, "json")
        case.pop("value", None), case.pop("error", None)
        if code:
            case["error"] = err
        else:
            case["value"] = json.loads(out, parse_int=lambda digits: int(digits)).get("spec")
    path.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")


def jsonpath() -> None:
    path = HERE.parents[2] / "jsonpath/testdata/kubectl.json"
    known = json.loads(path.read_text())
    known["kubectl"] = version()
    for case in known["cases"]:
        code, out, err = kubectl(json.dumps(known["object"]), "jsonpath=" + case["template"])
        case.pop("text", None), case.pop("error", None)
        case.update({"error": err} if code else {"text": out})
    path.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    yaml()
    jsonpath()
