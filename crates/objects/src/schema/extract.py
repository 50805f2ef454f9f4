#!/usr/bin/env python3
"""Extracts how Kubernetes' Go types encode their fields into go_types.txt.

Usage: extract.py API APIMACHINERY APIEXTENSIONS > go_types.txt, where the arguments are the unpacked Go modules
k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver.

A line is a struct: its OpenAPI name, then `field:zero:type` for each field that needs it; the fields of an inlined struct
are its own. `zero` is how Go writes a field that is not set:

- nothing: not at all;   - z: not at all, because a plain value is zero (`omitempty`);   - n: null;   - t: null, a time;
- s: a struct;   - e: an empty string;   - 0: a number;   - f: false;   - q: the quantity 0;   - i: the port 0.

`type` is Go's name in messages, unless JSON's own type determines it (`string`, `bool`).
"""
import re
import sys
from pathlib import Path

# The packages of the kinds that the API server has, by group: k8s.io/api unless another module is named.
PACKAGES = """
admissionregistration/v1 apiextensions/v1 apps/v1 authentication/v1 authorization/v1 autoscaling/v1 autoscaling/v2 batch/v1
certificates/v1 coordination/v1 core/v1 discovery/v1 events/v1 flowcontrol/v1 meta/v1 networking/v1 node/v1 policy/v1
rbac/v1 resource/v1 scheduling/v1 storage/v1
""".split()
FIELD = re.compile(r'^\s+(?:([\w, ]+?)\s+)?(\*?[\w.\[\]*]+(?:\{\})?|map\[.+?\]\S+)\s+`(.*?)`', re.M)


class Package:
    """The types of a Go package."""

    def __init__(self, directory):
        self.name = directory.name
        self.structs, self.named, self.imports = {}, {}, {}
        for path in sorted(directory.glob("*.go")):
            if not path.name.startswith("zz_generated") and not path.name.endswith(("_test.go", ".pb.go")):
                self.read(re.sub(r"^\s*//.*\n", "", path.read_text(), flags=re.M))

    def read(self, text):
        for alias, path in re.findall(r'^\s+(\w+ )?"([\w./-]+)"$', text, re.M):
            self.imports.setdefault(alias.strip() or path.rsplit("/", 1)[-1], path)
        for name, body in re.findall(r"^type (\w+) struct \{\n(.*?)^\}", text, re.S | re.M):
            self.structs[name] = FIELD.findall(body)
        for name, kind in re.findall(r"^type (\w+) =? ?([\w.\[\]]+)$", text, re.M):
            self.named[name] = kind


class Source:
    """The modules."""

    def __init__(self, api, machinery, extensions):
        self.modules = {"k8s.io/api": api, "k8s.io/apimachinery": machinery, "k8s.io/apiextensions-apiserver": extensions}
        self.read = {}

    def package(self, path):
        if path not in self.read:
            module = next((module for module in self.modules if path.startswith(module + "/")), None)
            directory = module and self.modules[module] / path.removeprefix(module + "/")
            self.read[path] = Package(directory) if directory else None
        return self.read[path]

    def resolve(self, package, kind):
        """The package of a type, and its name there."""
        if "." not in kind:
            return package, kind
        alias, name = kind.split(".")
        return self.package(package.imports[alias]), name

    def go_name(self, package, kind):
        """A type's name as Go prints it."""
        if kind.startswith("*"):
            return self.go_name(package, kind[1:])
        if kind.startswith("[]"):
            return "[]" + self.go_name(package, kind[2:])
        if entry := re.match(r"map\[(.+?)\](.+)", kind):
            return f"map[{self.go_name(package, entry[1])}]{self.go_name(package, entry[2])}"
        if kind == "byte":
            return "uint8"
        if "." in kind:
            alias, name = kind.split(".")
            return f"{package.imports[alias].rsplit('/', 1)[-1]}.{name}"
        return kind if kind[0].islower() or kind == "interface{}" else f"{package.name}.{kind}"

    def shape(self, package, kind):
        """`struct`, `list`, `map`, or the plain type that a type stands for."""
        if kind.startswith("[]"):
            return "list"
        if kind.startswith("map["):
            return "map"
        if kind[0].islower() and "." not in kind:
            return kind
        package, name = self.resolve(package, kind)
        if package is None or name in package.structs:
            return "struct"
        return self.shape(package, package.named[name])

    def zero(self, package, kind, omit):
        plain = {"string": "e", "bool": "f", "int32": "0", "int64": "0", "float64": "0"}
        name = self.go_name(package, kind)
        if "omitzero" in omit:
            return ""
        if kind.startswith("*"):
            return "" if "omitempty" in omit else "n"
        special = {"v1.Time": "t", "v1.MicroTime": "t", "resource.Quantity": "q", "intstr.IntOrString": "i"}
        if name in special:
            return special[name]
        shape = self.shape(package, kind)
        if shape == "struct":
            return "" if name in ("runtime.RawExtension", "v1.JSON") else "s"
        if shape in ("list", "map"):
            return "" if "omitempty" in omit else "n"
        return "z" if "omitempty" in omit else plain[shape]

    def fields(self, package, struct):
        is_object = any(re.search(r"\b(Object|List)Meta$", kind) for _, kind, _ in package.structs[struct])
        for names, kind, tags in package.structs[struct]:
            json = re.search(r'json:"([^"]*)"', tags)
            name, *omit = (json[1] if json else "").split(",")
            if name == "-" or not json:
                continue
            if not name and not names.strip():
                # An object's kind and version are written by the encoder.
                if not (kind.endswith("TypeMeta") and is_object):
                    yield from self.fields(*self.resolve(package, kind))
                continue
            name = name or names
            zero = self.zero(package, kind, omit)
            go = self.go_name(package, kind)
            go = "" if go in ("string", "bool") else go
            if zero or go:
                yield f"{name}:{zero}:{go}".rstrip(":") if zero else f"{name}::{go}"


def main(*modules):
    source = Source(*modules)
    for name in PACKAGES:
        group = name.split("/")[0]
        path, prefix = {
            "meta": (f"k8s.io/apimachinery/pkg/apis/{name}", "io.k8s.apimachinery.pkg.apis"),
            "apiextensions": (f"k8s.io/apiextensions-apiserver/pkg/apis/{name}", "io.k8s.apiextensions-apiserver.pkg.apis"),
        }.get(group, (f"k8s.io/api/{name}", "io.k8s.api"))
        package = source.package(path)
        for struct in sorted(package.structs):
            fields = list(source.fields(package, struct))
            # A list is written field by field.
            if fields and not (struct.endswith("List") and "metadata:s:v1.ListMeta" in fields):
                print(".".join([prefix, *name.split("/"), struct]), *fields)


main(*map(Path, sys.argv[1:4]))
