#!/usr/bin/env python3
"""Extracts the default roles and bindings of Kubernetes into default_roles.txt.

Usage: extract.py BOOTSTRAPPOLICY > default_roles.txt, where the argument is the folder
plugin/pkg/auth/authorizer/rbac/bootstrappolicy of Kubernetes. Its tests compare what an API server makes at its start
with the files in testdata/, without feature gates that are off by default.
"""
import sys
from pathlib import Path

import yaml

HEAD = """\
# The ClusterRoles, Roles and bindings that Kubernetes makes at its start (policy `rbac-defaults`), made by `extract.py`.
# Read by `defaults.rs`.
#
#   NAME [+AGGREGATES_TO …] [from AGGREGATED,…]     a ClusterRole; NAMESPACE/NAME is a Role
#     VERBS GROUPS RESOURCES [RESOURCE_NAMES]       a rule; the core group is written `core`
#     VERBS URLS                                    a rule about paths
#   bind [NAMESPACE/]NAME ROLE [SUBJECT …]          a binding; user:…, group:…, account:NAMESPACE:NAME
"""
AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"


def joined(words):
    return ",".join(word or "core" for word in words)


def named(item):
    """The name after its namespace, and the sort key: what has no namespace comes first."""
    metadata = item["metadata"]
    namespace = metadata.get("namespace", "")
    return f"{namespace}/{metadata['name']}" if namespace else metadata["name"]


def order(item):
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def role(item):
    labels = item["metadata"].get("labels", {})
    words = [named(item)]
    words += [f"+{label.removeprefix(AGGREGATE)}" for label in sorted(labels) if label.startswith(AGGREGATE)]
    selectors = item.get("aggregationRule", {}).get("clusterRoleSelectors", [])
    sources = [label.removeprefix(AGGREGATE) for selector in selectors for label in selector["matchLabels"]]
    if sources:
        words += ["from", ",".join(sources)]
    yield " ".join(words)
    for rule in item["rules"] or []:
        about = [rule.get(key) for key in ("nonResourceURLs", "apiGroups", "resources", "resourceNames")]
        yield "  " + " ".join([joined(rule["verbs"]), *(joined(words) for words in about if words)])


def subject(of):
    if of["kind"] == "ServiceAccount":
        return f"account:{of['namespace']}:{of['name']}"
    return f"{of['kind'].lower()}:{of['name']}"


def binding(item):
    yield " ".join(["bind", named(item), item["roleRef"]["name"], *map(subject, item.get("subjects") or [])])


def main(folder):
    def items(*names):
        found = [item for name in names for item in yaml.safe_load((folder / "testdata" / name).read_text())["items"]]
        return sorted(found, key=order)

    print(HEAD)
    for item in items("cluster-roles.yaml", "controller-roles.yaml") + items("namespace-roles.yaml"):
        print(*role(item), sep="\n")
    bindings = items("cluster-role-bindings.yaml", "controller-role-bindings.yaml") + items("namespace-role-bindings.yaml")
    for item in bindings:
        print(*binding(item), sep="\n")


main(Path(sys.argv[1]))
