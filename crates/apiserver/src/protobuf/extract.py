#!/usr/bin/env python3
"""Extracts the field numbers of Kubernetes' protobuf messages into fields.txt.

Usage: extract.py API APIMACHINERY APIEXTENSIONS AGGREGATOR > fields.txt, where the arguments are the unpacked Go
modules k8s.io/api, k8s.io/apimachinery, k8s.io/apiextensions-apiserver and k8s.io/kube-aggregator. Numbers and types
come from generated.proto, JSON names, inlining and pointers from the tags in types.go.

A line is a message: its name, then a field each: NUMBER=NAME:TYPE. Types: s string, b bool, i integer, f double, y bytes,
t time, m time with microseconds, q quantity, o integer or string, j embedded JSON, or a message. A `*` before a type is a
list, `%` a map from strings; a `?` before a name marks a field whose zero counts, as a
pointer's does; a `^` inlines the message's fields.
"""
import re
import sys
from pathlib import Path

ROOTS = """
core.v1: Binding ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod
 PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount
apps.v1: Deployment ReplicaSet
batch.v1: CronJob Job
certificates.v1: CertificateSigningRequest
coordination.v1: Lease
discovery.v1: EndpointSlice
events.v1: Event
scheduling.v1: PriorityClass
storage.v1: CSINode StorageClass
networking.v1: Ingress IngressClass NetworkPolicy
node.v1: RuntimeClass
flowcontrol.v1: FlowSchema PriorityLevelConfiguration
policy.v1: PodDisruptionBudget Eviction
rbac.v1: ClusterRole ClusterRoleBinding Role RoleBinding
admissionregistration.v1: MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration
 ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
apiextensions.v1: CustomResourceDefinition
apiregistration.v1: APIService
authentication.v1: SelfSubjectReview TokenReview TokenRequest
authorization.v1: LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
autoscaling.v1: HorizontalPodAutoscaler Scale
autoscaling.v2: HorizontalPodAutoscaler
meta.v1: DeleteOptions
"""
SPECIAL = {
    "meta.v1.Time": "t", "meta.v1.MicroTime": "m", "api.resource.Quantity": "q", "util.intstr.IntOrString": "o",
    "meta.v1.FieldsV1": "j", "runtime.RawExtension": "j",
    "apiextensions.v1.JSON": "j",
}
SCALARS = {"string": "s", "bool": "b", "int32": "i", "int64": "i", "uint32": "i", "uint64": "i", "double": "f",
           "bytes": "y"}

PLAIN = {"bool", "int32", "int64"}


def short(name):
    for prefix in ("k8s.io.api.", "k8s.io.apiextensions_apiserver.pkg.apis.", "k8s.io.kube_aggregator.pkg.apis.",
                    "k8s.io.apimachinery.pkg.apis.", "k8s.io.apimachinery.pkg."):
        name = name.removeprefix("." + prefix).removeprefix(prefix)
    return name


def packages(api, machinery, extensions, aggregator):
    for line in ROOTS.replace("\n ", " ").strip().splitlines():
        package = line.split(":")[0]
        group, version = package.split(".")
        modules = {"meta": machinery, "apiextensions": extensions, "apiregistration": aggregator}
        base = modules[group] / "pkg/apis" / group if group in modules else api / group
        yield package, base / version, line.split(":")[1].split()


def messages_of(package, text):
    text = re.sub(r"//.*", "", text)
    for match in re.finditer(r"^message (\w+) \{\n(.*?)^\}", text, re.S | re.M):
        fields = []
        for line in re.finditer(r"^\s*(optional|repeated)?\s*(map<[^>]+>|[\w.]+) (\w+) = (\d+);", match[2], re.M):
            label, kind, name, number = line.groups()
            fields.append((int(number), name, label == "repeated", kind))
        yield f"{package}.{match[1]}", fields


def tags_of(package, directory):
    """(message, number) -> (JSON name or None when inlined, whether it is a pointer)"""
    found = {}
    for path in sorted(directory.glob("*.go")):
        if path.name.startswith("zz_") or path.name == "generated.pb.go":
            continue
        for struct in re.finditer(r"^type (\w+) struct \{\n(.*?)^\}", path.read_text(), re.S | re.M):
            for field in re.finditer(r'^\s*(.*?)\s*`(?:json:"([^"]*)"[^`]*)?protobuf:"[^,"]*,(\d+)[^"]*"', struct[2], re.M):
                kind, json, number = field.groups()
                name = json and json.split(",")[0]
                inline = json is not None and not name and "inline" in json
                # What is no pointer and not left out when empty is as good as one.
                pointer = "*" in kind.split()[-1] or bool(json) and "omit" not in json and kind.split()[-1] in PLAIN
                found[(f"{package}.{struct[1]}", int(number))] = (None if inline else name or "", pointer)
    return found


def main(*modules):
    messages, tags, wanted = {}, {}, []
    for package, directory, roots in packages(*modules):
        messages.update(messages_of(package, (directory / "generated.proto").read_text()))
        tags.update(tags_of(package, directory))
        wanted += [f"{package}.{root}" for root in roots]
    lines, seen = [], set()
    while wanted:
        message = wanted.pop(0)
        if message in seen:
            continue
        seen.add(message)
        parts = []
        for number, name, repeated, kind in messages[message]:
            json, pointer = tags.get((message, number), (name, False))
            prefix = "*" if repeated else ""
            entry = re.match(r"map<string, ([\w.]+)>", kind)
            if entry:
                prefix, kind = "%", entry[1]
            package = message.rsplit(".", 1)[0]
            kind = short(kind)
            if kind in SCALARS:
                code = SCALARS[kind]
            else:
                kind = kind if "." in kind else f"{package}.{kind}"
                code = SPECIAL.get(kind, kind)
                if code == kind:
                    wanted.append(kind)
            mark = "^" if json is None else "?" if pointer else ""
            parts.append(f"{number}={mark}{json or name}:{prefix}{code}")
        lines.append(" ".join([message, *parts]))
    print("\n".join(sorted(lines)))


main(*map(Path, sys.argv[1:5]))
