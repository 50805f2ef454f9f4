"""Finding the service and signing in."""

from __future__ import annotations

import json
import os
import ssl
import stat
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from faults import proxy
from local_cluster import Cluster, strict

from openshift_ai.training import (
    Backoff,
    ConfigurationError,
    MPIJobClient,
    UnauthenticatedError,
    UnavailableError,
    _signin,
    _yaml,
)
from openshift_ai.training._tls import context

KUBECONFIGS = Path(__file__).parent / "kubeconfigs"


def kubeconfig(cluster: Cluster, **user: Any) -> dict[str, Any]:
    """The cluster's kubeconfig with another user, and without the address of the service."""
    config: dict[str, Any] = yaml.safe_load(cluster.kubeconfig.read_text())
    del config["clusters"][0]["cluster"]["extensions"]
    config["users"] = [{"name": "odh-local", "user": user}]
    return config


def who(client: MPIJobClient) -> str:
    with client:
        return client.whoami().user


def test_the_service_is_found_by_arguments_and_environment(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert who(MPIJobClient(cluster.url, token=cluster.token, ca=cluster.ca)) == "kubernetes-admin"
    monkeypatch.setenv("ODH_TRAINING_URL", cluster.url)
    with pytest.raises(ConfigurationError, match="there is no token"):
        who(MPIJobClient())
    monkeypatch.setenv("ODH_TRAINING_TOKEN", cluster.token)
    monkeypatch.setenv("ODH_TRAINING_CA", cluster.ca)
    assert who(MPIJobClient()) == "kubernetes-admin"
    # Proxies are for other machines than this one.
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert who(MPIJobClient()) == "kubernetes-admin"


def test_white_space_around_a_token_is_no_part_of_it(cluster: Cluster, tmp_path: Path) -> None:
    assert who(MPIJobClient(cluster.url, token=f" {cluster.token}\r\n", ca=cluster.ca)) == "kubernetes-admin"
    file = tmp_path / "token"
    for token in (f"{cluster.token}\n{cluster.token}", f"{cluster.token} x", f"{cluster.token}é"):
        file.write_text(token)
        sources = (lambda token=token: _signin.FixedToken(token).token(), _signin.FileToken(file).token)
        for source in sources:
            with pytest.raises(ConfigurationError, match="a character that no token has") as caught:
                source()
            assert cluster.token not in str(caught.value)


def test_the_local_cluster_is_found(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODH_HOME", str(cluster.home))
    assert who(MPIJobClient()) == "kubernetes-admin"
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    with MPIJobClient() as client:
        assert client.namespace() == "default"
        assert client.whoami().user == "kubernetes-admin"


def test_without_a_service_every_place_is_named() -> None:
    with pytest.raises(ConfigurationError) as caught, MPIJobClient() as client:
        client.whoami()
    said = str(caught.value)
    for part in ("ODH_TRAINING_URL", "no-kubeconfig", "no-home", "odh local up", "not a pod"):
        assert part in said


def test_a_token_is_not_sent_without_tls_unless_that_is_asked_for() -> None:
    with (
        pytest.raises(ConfigurationError, match="without TLS"),
        MPIJobClient("http://example.com", token="x") as client,
    ):
        client.whoami()
    assert _signin.find("http://example.com", "x", insecure_http=True).url == "http://example.com"
    with pytest.raises(ConfigurationError, match="not the address"):
        _signin.find("example.com", "x")
    with (
        pytest.raises(ConfigurationError, match="cannot be read"),
        MPIJobClient("https://x", token="x", ca="/none") as client,
    ):
        client.whoami()


def test_a_token_that_was_found_goes_only_to_the_address_that_was_found_with_it(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("token", "kubeconfig-token"):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(_signin, "IN_CLUSTER", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    config = kubeconfig(cluster, token="of-the-kubeconfig")
    service = {"url": "https://known.example/", "certificateAuthority": cluster.ca}
    config["clusters"][0]["cluster"]["extensions"] = [{"name": _signin.EXTENSION, "extension": service}]
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("ODH_HOME", str(cluster.home))
    own = {
        _signin.POD_URL: "token",
        f"{_signin.POD_URL}:443/": "token",
        "https://KNOWN.example:443": "of-the-kubeconfig",
        cluster.url: cluster.token,
    }
    for url, token in own.items():
        assert _signin.find(url).tokens.token() == token
    assert _signin.find("https://known.example").ca == cluster.ca
    others = (
        "https://evil.example",
        "http://127.0.0.1:28099",
        "http://known.example",
        "https://known.example:8443",
        "https://known.example.evil.example",
        "https://known.example@evil.example",
    )
    for url in others:
        for given in (url, None):
            monkeypatch.setenv("ODH_TRAINING_URL", url)
            with pytest.raises(ConfigurationError, match="there is no token for") as caught:
                _signin.find(given, insecure_http=True)
            assert "is for https://known.example/ only" in str(caught.value)
        with pytest.raises(ConfigurationError, match="there is no token for"):
            _signin.find(url, kubeconfig=tmp_path / "config", insecure_http=True)
    explicit = _signin.find("https://evil.example", tmp_path / "token")
    assert explicit.tokens.token() == "token", "the caller gave it"


def test_a_file_without_certificate_authorities_does_not_trust_those_of_the_machine(
    cluster: Cluster, tmp_path: Path
) -> None:
    certificate = Path(cluster.ca).read_text()
    for text in ("", "\n \n", "no certificate", certificate[: len(certificate) // 2]):
        (tmp_path / "ca.crt").write_text(text)
        with (
            pytest.raises(ConfigurationError, match="has no certificate authorities"),
            MPIJobClient(cluster.url, token=cluster.token, ca=str(tmp_path / "ca.crt")) as client,
        ):
            client.whoami()
        with pytest.raises(ssl.SSLError):
            context(text=text)


def test_a_pod_signs_in_with_its_own_token_which_is_read_again_when_it_was_rotated(
    cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = cluster.user(namespace, "notebook", "edit")
    for name, text in (("token", "expired"), ("namespace", namespace), ("ca.crt", Path(cluster.ca).read_text())):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(_signin, "IN_CLUSTER", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    found = _signin.find()
    assert (found.url, found.ca, found.namespace) == (
        "https://odh-training.mpi-operator.svc",
        str(tmp_path / "ca.crt"),
        namespace,
    )
    monkeypatch.setattr(_signin, "POD_URL", cluster.url)
    with MPIJobClient(ca=cluster.ca) as client:
        with pytest.raises(UnauthenticatedError):
            client.whoami()
        (tmp_path / "token").write_text(token)
        assert client.whoami().user == f"system:serviceaccount:{namespace}:notebook"
        assert client.namespace() == namespace


def test_a_kubeconfig_signs_in_by_token_file_and_program(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODH_HOME", str(cluster.home))
    (tmp_path / "the-token").write_text(cluster.token + "\n")
    plugin = tmp_path / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        'echo run >> "$(dirname "$0")/runs"\n'
        'case "$KUBERNETES_EXEC_INFO" in *ExecCredential*) ;; *) exit 9;; esac\n'
        'printf \'{"kind":"ExecCredential","status":{"token":"%s","expirationTimestamp":"2099-01-01T00:00:00Z"}}\' "$TOKEN$1"\n'
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    users: list[dict[str, Any]] = [
        {"tokenFile": "the-token"},
        {
            "exec": {
                "command": "./plugin",
                "env": [{"name": "TOKEN", "value": cluster.token}],
                "interactiveMode": "Never",
            }
        },
    ]
    for index, user in enumerate(users):
        path = tmp_path / f"config-{index}"
        path.write_text(yaml.safe_dump(kubeconfig(cluster, **user)))
        with MPIJobClient(kubeconfig=path) as client:
            for _ in range(2):
                assert client.whoami().user == "kubernetes-admin"
    assert (tmp_path / "runs").read_text() == "run\n", "the token is kept until it expires"
    refused = kubeconfig(cluster, exec={"command": "false", "installHint": "sign in with x"})
    (tmp_path / "refused").write_text(json.dumps(refused))
    with (
        pytest.raises(UnauthenticatedError, match="ended with code 1") as caught,
        MPIJobClient(kubeconfig=tmp_path / "refused") as c,
    ):
        c.whoami()
    assert "sign in with x" in str(caught.value)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"exec": {"command": "no-such-program"}}, "did not run"),
        ({"exec": {"command": "echo", "args": ["hello"]}}, "printed no token"),
        ({"client-certificate-data": "x"}, "has no token"),
    ]
    for user, said in wrong:
        (tmp_path / "wrong").write_text(json.dumps(kubeconfig(cluster, **user)))
        with pytest.raises(ConfigurationError, match=said), MPIJobClient(kubeconfig=tmp_path / "wrong") as c:
            c.whoami()
    with (
        pytest.raises(ConfigurationError, match="no context or cluster 'other'"),
        MPIJobClient(kubeconfig=tmp_path / "config-0", context="other") as c,
    ):
        c.whoami()


def test_the_kubeconfig_of_a_local_cluster_is_enough(cluster: Cluster) -> None:
    found = _signin.find(kubeconfig=cluster.kubeconfig)
    assert (found.url, found.ca) == (cluster.url, cluster.ca)
    assert found.found == "the kubeconfig's cluster odh-local"
    with MPIJobClient(kubeconfig=cluster.kubeconfig) as client:
        assert client.whoami().user == "kubernetes-admin"


def test_the_certificates_of_a_local_cluster_are_good_for_strict_clients(cluster: Cluster) -> None:
    # The fixture's own client is strict, too, about the API server.
    assert cluster.api.get("/version").is_success
    assert who(MPIJobClient(cluster.url, token=cluster.token, ca=strict(cluster.ca))) == "kubernetes-admin"
    default = ssl.create_default_context().verify_flags
    assert context(cluster.ca).verify_flags == default, "nothing that Python verifies is left out"


def test_a_proxy_of_the_environment_is_used(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with proxy(cluster.url, cluster.ca) as between:
        monkeypatch.setenv("HTTP_PROXY", between.url)
        far = "http://training.example"
        assert who(MPIJobClient(far, token=cluster.token, insecure_http=True)) == "kubernetes-admin"
        assert between.connections == 1
        monkeypatch.setenv("NO_PROXY", "training.example")
        with (
            pytest.raises(UnavailableError),
            MPIJobClient(far, token=cluster.token, insecure_http=True, backoff=Backoff(attempts=1)) as client,
        ):
            client.whoami()
        assert between.connections == 1


def test_a_context_is_named_by_itself_or_by_its_cluster(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODH_HOME", str(cluster.home))
    config = kubeconfig(cluster, token=cluster.token)
    config["contexts"][0]["name"] = "team/odh-local/me"
    config["contexts"].insert(0, {"name": "other", "context": {"cluster": "far", "user": "odh-local"}})
    config["clusters"].append({"name": "far", "cluster": {"server": "https://far.example"}})
    config["current-context"] = "other"
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    for name in ("team/odh-local/me", "odh-local"):
        assert who(MPIJobClient(kubeconfig=tmp_path / "config", context=name)) == "kubernetes-admin"


def test_a_kubeconfigs_cluster_says_where_its_service_is(cluster: Cluster, tmp_path: Path) -> None:
    config = kubeconfig(cluster, token=cluster.token)
    service = {"url": cluster.url, "certificateAuthority": cluster.ca}
    config["clusters"][0]["cluster"]["extensions"] = [{"name": _signin.EXTENSION, "extension": service}]
    config["contexts"][0]["context"]["namespace"] = "team"
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    with MPIJobClient(kubeconfig=tmp_path / "config") as client:
        assert client.whoami().user == "kubernetes-admin"
        assert client.namespace() == "team"


def test_a_kubeconfig_leads_to_the_route_of_an_openshift_cluster(cluster: Cluster, tmp_path: Path) -> None:
    group = "route.openshift.io"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": "routes", "singular": "route", "kind": "Route", "listKind": "RouteList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "metadata": {"name": f"routes.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    (tmp_path / "config").write_text(yaml.safe_dump(kubeconfig(cluster, token=cluster.token)))
    with (
        pytest.raises(ConfigurationError, match="has no Route"),
        MPIJobClient(kubeconfig=tmp_path / "config") as client,
    ):
        client.whoami()
    cluster.apply("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    cluster.namespace(_signin.SERVICE_NAMESPACE)
    place = f"/apis/{group}/v1/namespaces/{_signin.SERVICE_NAMESPACE}/routes"
    deadline = time.monotonic() + 30
    while cluster.api.get(place).status_code != 200:
        assert time.monotonic() < deadline
    route = {
        "apiVersion": f"{group}/v1",
        "kind": "Route",
        "metadata": {"name": _signin.SERVICE_NAME},
        "spec": {"host": "x.example"},
    }
    cluster.apply(place, route)
    found = _signin.find(kubeconfig=tmp_path / "config")
    assert (found.url, found.ca) == ("https://x.example", None)


def test_several_kubeconfigs_are_read_as_kubectl_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[dict[str, Any]] = [
        {"current-context": "a"},
        {
            "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": "t1"}}],
            "current-context": "b",
        },
        {
            "clusters": [{"name": "c", "cluster": {"server": "https://x"}}],
            "users": [{"name": "u", "user": {"token": "t2"}}],
        },
    ]
    for index, part in enumerate(parts):
        (tmp_path / f"k{index}").write_text(yaml.safe_dump(part))
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(str(tmp_path / f"k{index}") for index in range(4)))
    config = _signin.Kubeconfig.read(None)
    assert (config.tokens(None).token(), config.cluster(None)) == ("t1", {"server": "https://x"})


def test_a_kubeconfig_may_be_any_yaml_or_json(tmp_path: Path) -> None:
    texts = [
        "x-user: &me {token: t}\nusers: [{name: u, user: *me}]\ncontexts:\n- {name: c, context: {user: u, cluster: k}}\n",
        "users:\n- name: u\n  user:\n    token: >-\n      t\n---\n",
        '{"users":\n\t[{"name": "u", "user": {"token": "t"}}]}',
    ]
    for text in texts[:1] + texts[2:]:
        (tmp_path / "config").write_text(text)
        assert _signin.Kubeconfig.read(tmp_path / "config").documents[0][1]["users"][0]["user"] == {"token": "t"}
    for text, fault in (
        (texts[1], "not YAML"),
        ("a: [", "not YAML"),
        ('{"a": ', "not YAML"),
        ("a:\n\tb: 1\n", "line 2"),
    ):
        (tmp_path / "config").write_text(text)
        with pytest.raises(ConfigurationError, match=fault) as caught:
            _signin.Kubeconfig.read(tmp_path / "config")
        assert str(tmp_path / "config") in str(caught.value)


@pytest.mark.parametrize(
    ("manifest", "namespace"),
    [
        ("kind: MPIJob\nmetadata:\n  name: x\n  namespace: team\nspec: &a {}\nstatus: *a\n", "team"),
        ("metadata: # here\n    labels:\n      namespace: wrong\n    namespace: 'team' # there\n", "team"),
        ("metadata:\n  name: x\nspec:\n  namespace: wrong\n", None),
        ('{"metadata": {"namespace": "team"}}', "team"),
        ('{"metadata": ', None),
        ("spec: {}\n", None),
    ],
)
def test_the_namespace_of_a_manifest_is_found(manifest: str, namespace: str | None) -> None:
    assert _yaml.namespace_of(manifest) == namespace
